#!/bin/sh
# The same seed gives the same bits in every run, with any number of threads of PoCL: both programs,
# presets that keep activations in each way; and in a locale with a decimal comma.
#
#     test_determinism.sh RESMLP_TRAIN RESNET_TRAIN RUNS
#
# RUNS runs with each of 1, 2 and 4 threads; 1 is a quick look: three presets, 1 and 4
# threads. Losses in log.csv and the weights must be equal to the byte.
#
# In the locale with a decimal comma log and summary have decimal points. RUNS 5, label long, runs 15 presets of both
# programs; tiled kernels that are resumed with other threads say so.
export LC_ALL=C # a decimal point in every locale
set -u
usage="usage: test_determinism.sh RESMLP_TRAIN RESNET_TRAIN RUNS"
resmlp=${1:?$usage} resnet=${2:?$usage} runs=${3:?$usage}
case $resmlp in /*) ;; *) resmlp=$PWD/$resmlp ;; esac
case $resnet in /*) ;; *) resnet=$PWD/$resnet ;; esac
comma=$(realpath "$(dirname "$0")/..")/support/comma_locale.sh
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
threads="1 2 4" first_resmlp="dense paper pruned exact exact-tokens compact-pruned quantised pooled"
first_resnet="dense paper pruned pooled exact"
[ "$runs" -gt 1 ] || threads="1 4" first_resmlp=pruned first_resnet=
small="--train-limit 72 --test-limit 32 --batch-size 32 --epochs 2 --quiet"
wrong=0

# hash_of COMMAND...: of a run, in $hash.
hash_of() {
    rm -rf run run.json
    if "$@" $small --output-dir run --export run.w --summary-json run.json >out 2>&1; then
        hash=$({ cut -d, -f1-6 run/log.csv && cat run.w; } | sha256sum | cut -c1-16)
    else
        hash="exit code $?: $(tail -1 out)"
    fi
}

# compare NAME COMMAND...: all runs have the hash of the first.
compare() {
    name=$1 want='' count=0 differ=0
    shift
    for count_of_threads in $threads; do
        run=1
        while [ $run -le "$runs" ]; do
            hash_of env POCL_MAX_PTHREAD_COUNT=$count_of_threads "$@"
            [ -n "$want" ] || want=$hash
            if [ "$hash" != "$want" ] || [ "${#hash}" != 16 ]; then
                echo "$name, $count_of_threads threads, run $run: $hash, expected $want"
                differ=1
            fi
            count=$((count + 1))
            run=$((run + 1))
        done
    done
    wrong=$((wrong + differ))
    echo "$name: $want, $count runs with $threads threads"
}

# in_comma_locale COMMAND...: the run has the hash of the last comparison; numbers in its files have decimal points.
in_comma_locale() {
    hash_of env LC_ALL=comma LOCPATH="$folder/locale" "$@"
    [ "$hash" = "$want" ] && grep -q '"train_loss": [0-9]*\.[0-9]' run.json && ! grep '": [-0-9]*,[0-9]' run.json &&
        head -n 1 run/log.csv | grep -q '^epoch,step,lr,train_loss,' && grep -q '^1,[0-9]*,[0-9]*\.[0-9]' run/log.csv && return
    echo "in a locale with a decimal comma: $hash, expected $want; $*"
    cat run/log.csv
    grep -e loss -e top1 run.json
    wrong=$((wrong + 1))
}

mkdir locale
made=1
sh "$comma" locale || {
    made=0
    echo "no locale with a decimal comma can be made here: not checked"
}
for preset in $first_resmlp compact; do
    compare "resmlp $preset" "$resmlp" --image-size 16 --patch-size 8 --activations $preset
done
[ $made = 0 ] || in_comma_locale "$resmlp" --image-size 16 --patch-size 8 --activations compact
for preset in $first_resnet compact; do
    compare "resnet $preset" "$resnet" --arch resnet20 --image-size 17 --activations $preset
done
[ $made = 0 ] || in_comma_locale "$resnet" --arch resnet20 --image-size 17 --activations compact
if [ "$runs" -gt 1 ]; then # the tiled kernels split sums by the threads: a resumed run says so
    rm -rf run run.json
    CLPRUNE_DEBUG=kernels=tiled POCL_MAX_PTHREAD_COUNT=1 "$resmlp" --image-size 16 --patch-size 8 $small --steps 1 --output-dir run
    CLPRUNE_DEBUG=kernels=tiled POCL_MAX_PTHREAD_COUNT=2 "$resmlp" --resume run/last.ckpt --quiet 2>&1 |
        grep -q 'note: .*, compute units: 1, .*, compute units: 2, ' || { echo "no note of other compute units" && wrong=$((wrong + 1)); }
fi
echo "$wrong presets or locales with another hash"
[ $wrong = 0 ]
