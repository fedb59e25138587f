#!/usr/bin/env bash
# What a device does with clprune, in one folder to send: facts and self-check, kernel tests, times of the operations,
# a search of tile sizes, and a short training. CONTRIBUTING.md says where it goes.
#
#     tools/device-report.sh [--device TEXT] [--minutes N] [--tests REGEX] [--output DIR] [--build DIR]
#
# --device TEXT   platform:device or part of a name, as clprune-info lists them; default $CLPRUNE_DEVICE, else
#                 the first GPU, else the first device
# --minutes N     for all after the build (30): 40 % for the tests, 10 to 15 % for each of the others
# --tests REGEX   only these tests
# --output DIR    a new folder (device-report)
# --build DIR     a folder that is built, with tests; default build/release, which is built if need be
#
# A step that fails or takes longer than its part is named in summary.txt, and the next one follows. User name, host
# name, and paths are taken out of all files. Exit status: 0 if the folder is written, whatever failed on the device; 1
# if it is not; 2 for a wrong option.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
die() {
    echo "device-report: $1" >&2
    exit "${2:-1}"
}
device=${CLPRUNE_DEVICE:-} minutes=30 tests='' output=device-report build=''
while [ $# -gt 0 ]; do
    case $1 in
    --device | --minutes | --tests | --output | --build)
        [ $# -gt 1 ] || die "$1 needs a value" 2
        declare "${1#--}=$2"
        shift 2
        ;;
    -h | --help) sed -n '2,/^export/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) die "no option $1; --help lists them" 2 ;;
    esac
done
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || die "--minutes $minutes: not a whole number from 1 to 9999" 2
[ ! -e "$output" ] || die "$output is there already; --output names another folder"
mkdir -p "$output" || die "cannot make $output"
output=$(cd "$output" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "$build" ]; then
    build=$root/build/release
    "$root/tools/install-packages.sh" >&2
    (cd "$root" && cmake --preset release -DCLPRUNE_TESTS=ON >/dev/null &&
        cmake --build "$build" --parallel "$(nproc)" >&2)
fi
build=$(cd "$build" && pwd) || die "no folder $build"
bin=$build/bin
[ -x "$bin/clprune-info" ] || die "$bin has no clprune-info; build with -DCLPRUNE_TOOLS=ON -DCLPRUNE_TESTS=ON"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/report"
mkdir -m 700 "$work/cache" # one step builds what the next one runs
cd "$work"
export CLPRUNE_CACHE_DIR=$work/cache
unset CLPRUNE_TUNING CLPRUNE_DEBUG CLPRUNE_PRECISION CLPRUNE_VERBOSE

# step NAME PERCENT COMMAND...: its output is report/NAME.txt, its result a line of the summary.
step() {
    local name=$1 limit=$((minutes * 60 * $2 / 100)) began=$SECONDS code=0
    shift 2
    echo "device-report: $name, at most $limit s" >&2
    timeout -k 5 "$limit" "$@" >"report/$name.txt" 2>&1 </dev/null || code=$?
    case $code in
    0) result=passed ;;
    124 | 137) result="stopped after its $limit s" ;;
    *) result="failed, exit status $code" ;;
    esac
    printf '%-14s %s (%d s)\n' "$name" "$result" $((SECONDS - began)) >>report/summary.txt
    [ $code -eq 0 ]
}

version=$("$bin/clprune-info" --version | awk '{ print "clprune", $NF; exit }')
commit=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
printf '%s, commit %s, %s, %s minutes\n' "$version" "$commit" "$(date -u +%Y-%m-%d)" "$minutes" >report/summary.txt

# The facts; the context that they need makes the self-check.
options=()
[ -z "$device" ] || options=(--device "$device")
if step info 5 "$bin/clprune-info" "${options[@]}"; then
    # Programs may understand a part of a name differently, so all get the place of the chosen device.
    chosen=$(sed -n 's/^chosen device *//p' report/info.txt)
    place=$device
    [[ $place =~ ^[0-9]+:[0-9]+$ ]] ||
        place=$("$bin/clprune-info" --list | awk -v chosen="$chosen" '
            /^[0-9]+:[0-9]+ / { place = $1; sub(/^[^ ]* */, ""); if ($0 == chosen) { print place; exit } }')
    export CLPRUNE_DEVICE=$place CLPRUNE_TEST_DEVICE=$place CLPRUNE_TEST_SMALL=1
    printf '%-14s %s\n' device "$chosen" >>report/summary.txt

    if [ -n "$tests" ]; then select=(-R "$tests"); else select=(-L kernel -LE 'slow|long|train'); fi
    step tests 40 ctest --test-dir "$build" "${select[@]}" --output-on-failure --timeout $((minutes * 6)) \
        --parallel "$(nproc)" || true
    sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: */    /p' report/tests.txt |
        grep -v ' Passed ' >>report/summary.txt || true
    step bench 15 "$bin/clprune-bench" all --repeat 5 --json report/bench.jsonl || true
    step tune 15 "$bin/clprune-tune" --quick --time $((minutes * 2)) --output report/tuning.txt || true
    for activations in dense compact; do
        step "train-$activations" 10 "$bin/resmlp-train" --arch resmlp_tiny --activations $activations --epochs 1 \
            --train-limit 512 --test-limit 128 --seed 1 --output-dir "run-$activations" \
            --summary-json "report/train-$activations.json" || true
        [ ! -f "run-$activations/log.csv" ] || cp "run-$activations/log.csv" "report/train-$activations.csv"
    done
    # Each command of three steps, the first of which is cold.
    CLPRUNE_VERBOSE=2:report/commands.csv step commands 5 "$bin/resmlp-train" --arch resmlp_tiny --activations compact \
        --steps 3 --train-limit 256 --test-limit 64 --seed 1 --output-dir run-commands || true
fi

# Nothing of the person or the machine: names as whole words, and every path; those of the sources begin in them.
user=$(id -un) host=$(uname -n)
words=()
for word in "$user" "$host" "${host%%.*}"; do
    case $word in root | localhost | '' | ?) ;; *) words+=("$(printf '%s' "$word" | sed 's/[][\.*^$/]/\\&/g')") ;; esac
done
for file in report/*; do
    sed -i "s|$root/||g; s|$work/||g" "$file"
    for word in "${words[@]}"; do
        sed -i "s/\\(^\\|[^A-Za-z0-9_]\\)$word\\([^A-Za-z0-9_]\\|\$\\)/\\1NAME\\2/g" "$file"
    done
    sed -i -E 's#(^|[^A-Za-z0-9_./])(~|/)[A-Za-z0-9_.@+-]*[A-Za-z0-9_@+-]/[^][ "'"'"',;:)]*#\1PATH#g' "$file"
done
cp report/* "$output"
cat "$output/summary.txt"
echo "device-report: $output has $(find "$output" -type f | wc -l) files; CONTRIBUTING.md says where to send it" >&2
