#!/bin/sh
# The same seed gives the same bits in every run, with any number of threads of PoCL: both programs,
# presets that keep activations in each way.
#
#     test_determinism.sh RESMLP_TRAIN RESNET_TRAIN RUNS
#
# RUNS runs with each of 1, 2 and 4 threads; 1 is a quick look: three presets, 1 and 4
# threads. Losses in log.csv and the weights must be equal to the byte.
export LC_ALL=C # a decimal point in every locale
set -u
usage="usage: test_determinism.sh RESMLP_TRAIN RESNET_TRAIN RUNS"
resmlp=${1:?$usage} resnet=${2:?$usage} runs=${3:?$usage}
case $resmlp in /*) ;; *) resmlp=$PWD/$resmlp ;; esac
case $resnet in /*) ;; *) resnet=$PWD/$resnet ;; esac
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
threads="1 2 4" first_resmlp="dense paper pruned exact exact-tokens compact-pruned quantised pooled"
first_resnet="dense paper pruned pooled exact"
[ "$runs" -gt 1 ] || threads="1 4" first_resmlp=pruned first_resnet=
small="--train-limit 72 --test-limit 32 --batch-size 32 --epochs 2 --quiet"
wrong=0

# compare NAME COMMAND...: all runs have the hash of the first.
compare() {
    name=$1 want='' count=0 differ=0
    shift
    for count_of_threads in $threads; do
        run=1
        while [ $run -le "$runs" ]; do
            rm -rf run
            if POCL_MAX_PTHREAD_COUNT=$count_of_threads "$@" $small --output-dir run --export run.w >out 2>&1; then
                hash=$({ cut -d, -f1-6 run/log.csv && cat run.w; } | sha256sum | cut -c1-16)
            else
                hash="exit code $?: $(tail -1 out)"
            fi
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

for preset in $first_resmlp compact; do
    compare "resmlp $preset" "$resmlp" --image-size 16 --patch-size 8 --activations $preset
done
for preset in $first_resnet compact; do
    compare "resnet $preset" "$resnet" --arch resnet20 --image-size 17 --activations $preset
done
if [ "$runs" -gt 1 ]; then # the tiled kernels split sums by the threads: a resumed run says so
    rm -rf run
    CLPRUNE_DEBUG=kernels=tiled POCL_MAX_PTHREAD_COUNT=1 "$resmlp" --image-size 16 --patch-size 8 $small --steps 1 --output-dir run
    CLPRUNE_DEBUG=kernels=tiled POCL_MAX_PTHREAD_COUNT=2 "$resmlp" --resume run/last.ckpt --quiet 2>&1 |
        grep -q 'note: .*, compute units: 1; .*, compute units: 2' || { echo "no note of other compute units" && wrong=$((wrong + 1)); }
fi
echo "$wrong presets with more than one hash"
[ $wrong = 0 ]
