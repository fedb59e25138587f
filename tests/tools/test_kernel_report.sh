#!/bin/sh
# tools/kernel-report.sh: every kernel has a define set; wrong targets are refused; what it reads of NVIDIA's machine code, from
# planted code (sass/).
#   test_kernel_report.sh SOURCE_DIR
# With $CLPRUNE_TEST_LONG, for each committed table whose compiler is there (kernel-report/VENDOR.sh names it): all programs
# compile, none needs more scratch memory than the table says, and a kernel that begins to spill is found.
export LC_ALL=C # a decimal point in every locale
unset CDPATH PTXAS
source=$(cd "$1" && pwd) || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
failures=0

# ends CODE PATTERN REPORT OPTION...: how a report of the tree REPORT ends.
ends() {
    code=$1 pattern=$2 tree=$3
    shift 3
    got=0
    "$tree/tools/kernel-report.sh" "$@" >"$folder/out" 2>&1 || got=$?
    [ $got = "$code" ] && grep -q "$pattern" "$folder/out" && return
    echo "FAILED: exit status $got, expected $code and '$pattern': $*"
    grep -v ' [0-9]* none$' "$folder/out" | tail -20
    failures=$((failures + 1))
}

if [ -z "$CLPRUNE_TEST_LONG" ]; then
    # The define sets are looked at before the tools.
    PTXAS=/nonexistent/ptxas
    export PTXAS
    ends 2 'PTXAS is /nonexistent/ptxas, which is not there' "$source"
    ends 2 'not nvidia, nvidia:DEVICE, intel:DEVICE or amd:DEVICE' "$source" --target apple:m1
    ends 2 'not of the form sm_90' "$source" --target nvidia:skl
    ends 2 'no file in src/ declares the kernel nothing' "$source" nothing
    # Tensor instructions of the main loop, all for 32 of them, copies, 64-bit divisions in loops.
    for expected in nested:4,128,2,2 straight:,,,1; do
        got=$(awk -f "$source/tools/kernel-report/main-loop.awk" "$source/tests/tools/sass/${expected%%:*}.sass")
        [ "$got" = "${expected#*:}" ] || {
            echo "FAILED: ${expected%%:*}.sass: $got, expected ${expected#*:}"
            failures=$((failures + 1))
        }
    done
    exit $failures
fi

# A tree with a mistake: of AMD sums with unknown indices, of Intel tiles that are too large, of NVIDIA a table with
# fewer bytes.
mkdir -p "$folder/tree"
(cd "$source" && tar cf - cl src tools) | (cd "$folder/tree" && tar xf -)
sed -i 's/UNROLLED(k, VW)/for (uint k = 0; k < VW \&\& c + k < channels; k++)/' "$folder/tree/cl/conv/conv_tap_sums.cl"
sed -i 's/row.gemm_tiled.rows = 4;/row.gemm_tiled.rows = 8;/' "$folder/tree/src/ops/device/tuning.c"
sed -i 's/^\(gelu_code_forward,[^,]*,[0-9]*,[0-9]*\),[0-9]*,/\1,0,/' "$folder"/tree/tools/results/kernels-sm_*.csv
ran=0
for table in "$source"/tools/results/kernels-*.csv; do
    device=$(basename "$table" .csv)
    device=${device#kernels-}
    case $device in
    sm_*) target=nvidia:$device planted=gelu_code_forward ;;
    gfx*) target=amd:$device planted=conv_tap_sums ;;
    *) target=intel:$device planted=gemm_tiled ;;
    esac
    code=0
    "$source/tools/kernel-report.sh" --target "$target" fill >"$folder/out" 2>&1 || code=$?
    if [ $code = 2 ]; then
        echo "$target: $(tail -1 "$folder/out")"
        continue
    fi
    ran=$((ran + 1))
    ends 0 ' programs in scratch' "$source" --target "$target"
    grep ' programs in scratch' "$folder/out"
    ends 1 "$planted (.*) needs [0-9]* bytes of scratch, before: 0" "$folder/tree" --target "$target" $planted
done
[ $ran -gt 0 ] || exit 77
[ $failures -eq 0 ]
