# kernel-report.sh for NVIDIA: clang >= 14 and libclc (Debian: libclc-15) make PTX, ptxas (CUDA) compiles it,
# readelf and nvdisasm (CUDA) read the result. $CLANG, $LIBCLC (nvptx64--nvidiacl.bc), $PTXAS and $NVDISASM select other
# ones than those found. Own columns, which tools/results/README.md explains: bytes that spills store and load (they are
# also in scratch), of constants, 64-bit divisions, groups of a multiprocessor; of main-loop.awk tensor instructions,
# instructions per 32, copies, divisions in loops. Without nvdisasm, which only --csv needs, the last four are "-".
# shellcheck shell=bash disable=SC2034,SC2154 # variables of kernel-report.sh
export LC_ALL=C # a decimal point in every locale

# to_ptx SOURCE PTX DEFINE...: with the options of src/runtime/launch/program_cache.c.
to_ptx() {
    local source=$1 ptx=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -target nvptx64--nvidiacl -Xclang -target-cpu -Xclang "$ptx_arch" \
        -Xclang -finclude-default-header -Xclang -mlink-builtin-bitcode -Xclang "$library" \
        -O3 -S "$@" -o "$ptx" "$source"
}

set_up() {
    [[ $device =~ ^sm_([0-9]+)[a-z]?$ ]] || die "--target $target: the device is not of the form sm_90"
    # clang may not know the newest target: ptxas compiles PTX of an older target for it.
    local capability=${BASH_REMATCH[1]} candidate
    ptx_arch=sm_80
    [ "$capability" -ge 80 ] || ptx_arch=$device

    # Limits of a multiprocessor: warps, groups, local memory, and the local memory that is reserved for
    # each group besides its own. All of these have 64 Ki registers.
    case $capability in
    75) sm_warps=32 sm_groups=16 sm_local=65536 reserved=0 ;;
    80) sm_warps=64 sm_groups=32 sm_local=167936 reserved=1024 ;;
    86) sm_warps=48 sm_groups=16 sm_local=102400 reserved=1024 ;;
    89) sm_warps=48 sm_groups=24 sm_local=102400 reserved=1024 ;;
    90 | 100) sm_warps=64 sm_groups=32 sm_local=233472 reserved=1024 ;;
    *) sm_warps=0 sm_groups=0 sm_local=0 reserved=0 ;; # the occupancy stays unknown
    esac

    ptxas=${PTXAS:-}
    for candidate in ptxas /usr/local/cuda/bin/ptxas; do
        [ -z "$ptxas" ] && command -v "$candidate" >/dev/null && ptxas=$candidate
    done
    [ -n "$ptxas" ] || die "no ptxas in PATH or /usr/local/cuda/bin; it is part of the CUDA toolkit (set PTXAS)"
    command -v "$ptxas" >/dev/null || die "PTXAS is $ptxas, which is not there"
    command -v readelf >/dev/null || die "no readelf; Debian: apt-get install binutils"

    nvdisasm=${NVDISASM:-}
    for candidate in nvdisasm /usr/local/cuda/bin/nvdisasm; do
        [ -z "$nvdisasm" ] && command -v "$candidate" >/dev/null && nvdisasm=$candidate
    done
    [ -z "$nvdisasm" ] || command -v "$nvdisasm" >/dev/null || die "NVDISASM is $nvdisasm, which is not there"
    [ -n "$nvdisasm" ] || [ -z "$csv" ] ||
        die "no nvdisasm in PATH or /usr/local/cuda/bin, for the main loops in --csv; it is part of the CUDA toolkit (set NVDISASM)"

    library=${LIBCLC:-}
    for candidate in /usr/lib/clc/nvptx64--nvidiacl.bc /usr/share/clc/nvptx64--nvidiacl.bc; do
        [ -z "$library" ] && [ -f "$candidate" ] && library=$candidate
    done
    [ -n "$library" ] ||
        die "no libclc, which has OpenCL's functions; Debian: apt-get install libclc-15 (set LIBCLC to nvptx64--nvidiacl.bc)"
    [ -f "$library" ] || die "LIBCLC is $library, which is not there"
    # A clang reads a libclc of its own version or an older one.
    find_compiler "$(echo clang-{14..22} clang)" to_ptx "$work/probe.cl" "$work/probe.ptx" ||
        die "no clang compiles OpenCL C with $library; clang must be as new as libclc (Debian: clang-15 and libclc-15; set CLANG)"
    "$ptxas" -arch="$device" -o "$work/probe.cubin" "$work/probe.ptx" 2>"$work/probe.log" || {
        head -3 "$work/probe.log" >&2
        die "$ptxas does not compile for $device"
    }
    version="$("$clang" --version | head -1), ptxas $("$ptxas" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    most='the warps of a multiprocessor'
    more=(spill_store_bytes spill_load_bytes constant_bytes divisions_64bit groups_per_unit
        tensor_instructions instructions_per_32 async_copies loop_divisions_64bit)
}

compile() {
    local stem=$work/$1 file=$root/cl/$2
    shift 2
    to_ptx "$file" "$stem.ptx" "-I$root/cl" "$@" 2>"$stem.log"
}

# group_size FILE KERNEL DEFINE...: the reqd_work_group_size, which all kernels have.
group_size() {
    local file=$root/cl/$1 kernel=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -target nvptx64--nvidiacl -E -P "-I$root/cl" "$@" "$file" | tr '\n' ' ' |
        sed -n 's/.*reqd_work_group_size(\([0-9 *()]*\), 1, 1))) *void '"$kernel"'(.*/\1/p'
}

# occupancy REGISTERS LOCAL GROUP: percent of the warps of a multiprocessor, what limits them, and its groups.
# A warp takes registers in units of 256; each quarter of a multiprocessor has 16 Ki of them.
occupancy() {
    [ "$sm_warps" -gt 0 ] || { echo "- - -"; return; }
    local warps registers bytes groups=$sm_groups by=groups limit
    warps=$((($3 + 31) / 32))
    registers=$((($1 * 32 + 255) & ~255))
    bytes=$((($2 + reserved + 127) & ~127))
    limit=$((sm_warps / warps))
    [ $limit -gt "$groups" ] || groups=$limit by=none
    limit=$((16384 / registers))
    limit=$((limit * 4 / warps))
    [ $limit -ge "$groups" ] || groups=$limit by=registers
    limit=$((sm_local / (bytes > 0 ? bytes : 1)))
    [ $limit -ge "$groups" ] || groups=$limit by=local
    echo "$((groups * warps * 100 / sm_warps)) $by $groups"
}

# number PATTERN: the number before PATTERN in the log of ptxas, 0 where it is absent.
number() {
    sed -n "s/.*[^0-9]\([0-9][0-9]*\) $1.*/\1/p" "$work/ptxas.log" | tail -1 | grep . || echo 0
}

measure() {
    local kernel=$1 stem=$2 file=$3 constant=0 size divisions groups loop=(- - - -)
    shift 3
    group=$(group_size "$file" "$kernel" "$@")
    [ -n "$group" ] || die "$kernel has no reqd_work_group_size(X, 1, 1)"
    group=$((group)) width=32
    # clang 14 and 15 leave out .reqntid, the required group size in PTX.
    awk -v kernel="$kernel" -v group="$group" -v known="$group_known" '
        index($0, ".entry " kernel "(") { inside = 1 }
        inside && /^\.reqntid/ { next }
        inside && /^\{/ { if (known == "yes") print ".reqntid " group ", 1, 1"; inside = 0 }
        { print }' "$work/$stem.ptx" >"$work/kernel.ptx"
    "$ptxas" -v -arch="$device" -e "$kernel" -o "$work/kernel.cubin" "$work/kernel.ptx" >"$work/ptxas.log" 2>&1 || {
        cp "$work/ptxas.log" "$work/$stem.log"
        return 1
    }
    registers=$(number registers) scratch=$(number 'bytes stack frame') local_bytes=$(number 'bytes smem')
    # All banks: arguments, constant arrays, literals.
    while read -r size; do
        constant=$((constant + 16#$size))
    done < <(readelf -SW "$work/kernel.cubin" 2>/dev/null |
        sed -n 's/.*\] *\.nv\.constant[^ ]* *[A-Z_]* *[0-9a-f]* *[0-9a-f]* *\([0-9a-f]*\) .*/\1/p')
    divisions=$(awk -v kernel="$kernel" '
        index($0, ".entry " kernel "(") { inside = 1 }
        /^}/ { inside = 0 }
        inside && /(div|rem)\.[us]64/ { n++ }
        END { print n + 0 }' "$work/kernel.ptx")
    read -r percent limit groups < <(occupancy "$registers" "$local_bytes" "$group")
    if [ -n "$nvdisasm" ]; then
        "$nvdisasm" -c "$work/kernel.cubin" >"$work/kernel.sass" || die "$nvdisasm cannot read $kernel"
        IFS=, read -r -a loop < <(awk -f "$root/tools/kernel-report/main-loop.awk" "$work/kernel.sass")
    fi
    own=("$(number 'bytes spill stores')" "$(number 'bytes spill loads')" "$constant" "$divisions" "$groups"
        "${loop[@]}")
}
