#!/usr/bin/env bash
# Installs what is missing, builds, and trains resmlp_tiny three times: dense, with half of the kept inputs pruned, and
# compact, which keeps codes of 4 and 8 bits. Prints one table; CSV files and a plot go to demo/.
#
#     tools/demo.sh [--data DIR] [--epochs N] [any other option of resmlp-train]
#
# Without --data the images are generated; DIR is a folder with CIFAR-10 or CIFAR-100 in binary form, with IDX files
# (MNIST), or with train/CLASS/*.jpg and val/CLASS/*.jpg (or .png). --block, --norm, --criterion, --centre, --pool, --values
# and --indices are for the pruned run; --code-bits, --group, --rotate and --rounding for the compact one. Top-1 is empty if a run ends
# before its first test, as with --steps 2; then there is no plot.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
options=()
pruning=()
coding=()
data=generated
epochs=4
refuse() { echo "demo: $1 is not for the demo, $2" >&2; exit 2; }
# The trainer takes any unique beginning of an option.
while [ $# -gt 0 ]; do
    case $1 in
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --data=*) data=${1#--data=}; shift ;;
    --epochs) epochs=${2:?--epochs needs a number}; shift 2 ;;
    -h | --help) sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --ac* | --sp* | --ou* | --su*) refuse "${1%%=*}" "which sets it for each of its three runs" ;;
    --ex* | --ad* | --ten*) refuse "${1%%=*}" "whose three runs would write the same files; use build/release/bin/resmlp-train" ;;
    --pl* | --li* | --res* | --test-o* | --ver*)
        refuse "${1%%=*}" "which trains three new runs; use build/release/bin/resmlp-train" ;;
    --bl*=* | --norm=* | --cr*=* | --ce*=* | --poo*=* | --va*=* | --in*=*) pruning+=("$1"); shift ;;
    --co*=* | --gro*=* | --rot*=* | --rou*=*) coding+=("$1"); shift ;;
    --bl* | --norm | --cr* | --ce* | --poo* | --va* | --in* | --co* | --gro* | --rot* | --rou*)
        [ $# -gt 1 ] || { echo "demo: $1 needs a value" >&2; exit 2; }
        case $1 in --co* | --gro* | --rot* | --rou*) coding+=("$1" "$2") ;; *) pruning+=("$1" "$2") ;; esac
        shift 2
        ;;
    *) options+=("$1"); shift ;;
    esac
done
if [ "$data" != generated ]; then
    [ -d "$data" ] || { echo "demo: no folder $data" >&2; exit 4; }
    options+=(--data "$data")
fi
[ -w "$here" ] || { echo "demo: cannot write to $here; copy it to a folder of yours: cp -r $here ~/clprune" >&2; exit 1; }
# Without a folder for its cache PoCL offers no device.
[ -w "${XDG_CACHE_HOME:-${HOME:-/nonexistent}}" ] || export XDG_CACHE_HOME=$here/build/cache
mkdir -p "${XDG_CACHE_HOME:-$here/build}" "$here/demo"

# Paths in options are from the folder of the call, where the runs are made.
(cd "$here" && tools/install-packages.sh && cmake --preset release >/dev/null &&
    cmake --build --preset release --parallel "$(nproc)" --target resmlp-train)
train=$here/build/release/bin/resmlp-train
# Gives each PoCL thread a core of its own; two on one core halve the speed. PoCL aborts if a core is
# not allowed, as in many containers. OpenMP's variables would change what nproc prints.
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" != "$(nproc --all)" ] || export POCL_AFFINITY=${POCL_AFFINITY:-1}

# run NAME OPTIONS...: one training run into demo/NAME
run() {
    local name=$1
    shift
    echo "== $name"
    "$train" --arch resmlp_tiny --epochs "$epochs" --output-dir "$here/demo/$name" --overwrite \
        --summary-json "$here/demo/$name/summary.json" "${options[@]}" "$@"
}
run dense --activations dense
run pruned-50 --activations pruned --sparsity 0.5 --block 16 "${pruning[@]}"
run compact --activations compact --code-bits 4 "${coding[@]}"
cd "$here"

# field FILE KEY: the first number or text of a key, nothing if that is null
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$1" | sed 's/^null$//; q'; }
{
    printf 'run,top1_percent,saved_activation_mib,step_ms\n'
    for name in dense pruned-50 compact; do
        summary=demo/$name/summary.json
        awk -v n="$name" -v a="$(field "$summary" top1)" -v b="$(field "$summary" saved_activation_bytes)" \
            -v t="$(field "$summary" step_ms)" \
            'BEGIN { printf "%s,%s,%.2f,%.1f\n", n, a == "" ? "" : sprintf("%.2f", a), b / 1048576, t }'
    done
} >demo/table.csv

echo
awk -F, 'NR == 1 { printf "%-10s %10s %24s %10s\n", "run", "top-1 (%)", "saved activations (MiB)", "ms/step"; next }
    { printf "%-10s %10s %24s %10s\n", $1, $2, $3, $4 }' demo/table.csv
rm -f demo/accuracy.png
echo
if awk -F, 'FNR > 1 && $2 == "" { exit 1 }' demo/table.csv; then
    gnuplot tools/demo.gp
    echo "demo/table.csv, demo/accuracy.png, and a CSV per run in demo/*/"
else
    echo "demo/table.csv, and a CSV per run in demo/*/; no demo/accuracy.png: no epoch ended with a test"
fi
