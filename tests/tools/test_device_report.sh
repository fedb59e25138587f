#!/bin/sh
# tools/device-report.sh: a folder for every device, whatever fails on it, without names and paths.
#   test_device_report.sh SOURCE_DIR [BUILD_DIR]
# With programs of our own: all steps run on the chosen device, one that fails or hangs is named and the next one
# follows, user name, host name and paths are taken out, wrong options and a folder that is there are refused. With
# BUILD_DIR (label long) the real ones, on the first device.
export LC_ALL=C # a decimal point in every locale
unset CDPATH CLPRUNE_DEVICE
source=$(cd "$1" && pwd) || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
failures=0
fails() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# has FILE PATTERN: a line of a file of the report.
has() { grep -q -- "$2" "$folder/report/$1" || { fails "$1 has no '$2':"; cat "$folder/report/$1"; }; }

# refuses CODE PATTERN OPTION...: one line that says why.
refuses() {
    code=$1 pattern=$2 got=0
    shift 2
    "$source/tools/device-report.sh" "$@" >"$folder/out" 2>&1 || got=$?
    { [ $got = "$code" ] && grep -q "^device-report: .*$pattern" "$folder/out"; } || {
        fails "exit status $got, expected $code and '$pattern': $*"
        cat "$folder/out"
    }
}

# Root is no name, so the report is another user's, who may not enter the source: root's home is closed to others.
umask 022
cd "$folder" || exit 2
mkdir -p clone/tools
cp "$source/tools/device-report.sh" clone/tools/
clone=$folder/clone as=env user=$(id -un)
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
    user=$(id -un 65534)
    chmod 777 "$folder"
fi
private() {
    for word in "$user" "$(uname -n)"; do
        case $word in root | localhost | ?) continue ;; esac # as the report does
        grep -rnw -- "$word" "$folder/report" && fails "the report has the name $word"
    done
    grep -rn -- "$source\|$folder\|/home/\|/usr/\|/tmp/" "$folder/report" && fails "the report has a path"
}

if [ $# -gt 1 ]; then
    "$source/tools/device-report.sh" --build "$2" --minutes 20 --tests '^(test_matrix|test_support)$' --output "$folder/report" \
        >"$folder/out" 2>&1 || fails "the report: $(cat "$folder/out")"
    cat "$folder/report/summary.txt"
    for name in info tests train-dense train-compact commands; do
        has summary.txt "^$name *passed"
    done
    has train-compact.json saved_activation_bytes
    has commands.csv ^clprune,
    has bench.jsonl '"op":"gemm"'
    private
    exit $failures
fi

refuses 2 'no option --devices' --devices 0:0
refuses 2 'needs a value' --output
refuses 2 'not a whole number' --minutes 0
mkdir -p "$folder/there" "$folder/empty" "$folder/build/bin" "$folder/tools"
refuses 1 'is there already' --output "$folder/there"
refuses 1 'has no clprune-info' --build "$folder/empty" --output "$folder/none"

# Programs that say who and where they are; the tuner hangs, the trainer fails.
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
host=$(uname -n)
program "$folder/build/bin/clprune-info" "case \$1 in --version) echo 'clprune 9.9'; exit ;; esac
echo '0:0  Slow'; echo '1:0  Fast GPU'
[ \"\$1\" = --list ] || echo 'chosen device    Fast GPU'
echo 'program cache    $HOME/.cache/clprune, 3 GB/s of $user@$host ($user)'"
# shellcheck disable=SC2016 # the programs expand these
program "$folder/build/bin/clprune-bench" 'echo "{\"op\":\"gemm\",\"device\":\"$CLPRUNE_DEVICE\"}" >report/bench.jsonl; echo "in /usr/lib/libcl.so:12"'
program "$folder/build/bin/clprune-tune" 'sleep 1000'
program "$folder/build/bin/resmlp-train" "echo 'cannot open $folder/x/y.cl'; exit 7"
# shellcheck disable=SC2016
program "$folder/tools/ctest" 'echo "1/2 Test #1: test_gemm ....   Passed  1.0 sec"; echo "2/2 Test #2: test_bspmm ....***Failed  1.0 sec"
echo "$CLPRUNE_TEST_DEVICE $* '"$clone"'/tests/sparse/test_bspmm.c:7"; exit 8'
began=$(date +%s)
# shellcheck disable=SC2086 # words
PATH="$folder/tools:$PATH" $as "$clone/tools/device-report.sh" --device fast --build "$folder/build" --minutes 1 \
    --output "$folder/report" >"$folder/out" 2>&1 || fails "the report: $(cat "$folder/out")"
[ $(($(date +%s) - began)) -lt 40 ] || fails "a minute's report hangs"
has summary.txt 'clprune 9.9, commit '
has summary.txt '^device *Fast GPU$'
has summary.txt '^info *passed'
has summary.txt '^tests *failed, exit status 8'
has summary.txt 'test_bspmm .*Failed'
has summary.txt '^bench *passed'
has summary.txt '^tune *stopped after its 9 s'
has summary.txt '^train-compact *failed, exit status 7'
has tests.txt '^1:0 '
has tests.txt ' tests/sparse/test_bspmm.c:7$'
has bench.jsonl '"device":"1:0"'
has info.txt '3 GB/s of'
has bench.txt '^in PATH:12$'
private

# A device that does not answer still makes a report.
rm -rf "$folder/report"
# shellcheck disable=SC2016
program "$folder/build/bin/clprune-info" 'case $1 in --version) echo "clprune 9.9"; exit ;; esac; echo "no device is fast"; exit 3'
"$source/tools/device-report.sh" --device fast --build "$folder/build" --output "$folder/report" >"$folder/out" 2>&1 ||
    fails "no report: $(cat "$folder/out")"
has summary.txt '^info *failed, exit status 3'
has info.txt 'no device is fast'
[ $failures -eq 0 ]
