#!/usr/bin/env bash
# Trainings by the kernels of GPUs, run as GPUs may: tiled kernels in fp32, and in bf16 on emulated tensor cores, with work-items in
# reversed order, sums split for 132 compute units, and new and forgotten memory full of NaN. Every training program and preset, SGD
# and AdamW, 20 steps: each step's loss beside that of the vector family in the same precision.
#
#     tests/long/tiled_trainings.sh BIN [PROGRAM [PRESET]]
#
# A line for each pair of runs: the largest relative difference of a step. The bound, 5e-4 times the step in fp32 and 2.5e-3 in bf16,
# grows because training does: rounding that decides a stochastic code or a kept block is 10 times as large a few steps later,
# most with batch norms over 4 images; learning rates are low for the same reason. Exit status 0 if all are within it.
export LC_ALL=C # a decimal point in every locale
unset CDPATH CLPRUNE_PRECISION CLPRUNE_TUNING CLPRUNE_VERBOSE
set -u
usage="usage: tiled_trainings.sh BIN [PROGRAM [PRESET]]"
bin=$(cd "${1:?$usage}" && pwd) || exit 2
only=${2:-} only_preset=${3:-}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export bin work CLPRUNE_CACHE_DIR=off POCL_CACHE_DIR=${POCL_CACHE_DIR:-$work/pocl} POCL_WORK_GROUP_SPECIALIZATION=0
mkdir -p "$POCL_CACHE_DIR"

# PROGRAM and the options of its smallest model.
models() {
    cat <<END
resmlp --arch resmlp_tiny --image-size 16
mixer --arch mixer_tiny --image-size 16
vit --arch vit_cifar_small --image-size 16
resnet --arch resnet20 --image-size 16
vgg --arch vgg11_bn_cifar
gpt --arch gpt_micro --context 32
gpt --arch llama_micro --context 32
bert --arch bert_micro --context 32
END
}

# losses DEBUG FOLDER PRECISION PRESET OPTIMIZER PROGRAM OPTIONS...: "step loss" of each, an epoch having one step.
losses() {
    local debug=$1 folder=$2 precision=$3 preset=$4 optimizer=$5 program=$6 rate=1e-4
    shift 6
    [ "$optimizer" = adamw ] || rate=1e-3
    [ "$preset" != auto ] || set -- "$@" --memory-limit 1G
    CLPRUNE_DEBUG=$debug "$bin/$program-train" "$@" --activations "$preset" --optimizer "$optimizer" --lr $rate --precision "$precision" \
        --seed 1 --train-limit 4 --test-limit 4 --batch-size 4 --epochs 20 --warmup-epochs 0 --test-every 0 --checkpoint-every 0 --quiet \
        --output-dir "$folder" >"$folder.out" 2>&1 &&
        awk -F, 'NR == 1 { while ($++c != "train_loss"); next } { print $1, $c }' "$folder/log.csv" >"$folder.losses"
}

# pair PRECISION PRESET OPTIMIZER PROGRAM OPTIONS...
pair() {
    local tiled=kernels=tiled,order=reversed,units=132,forget=poison bound=5e-4 name="$4 $6 $2 $3 $1" folder
    folder=$work/${name// /.}
    [ "$1" = fp32 ] || tiled=$tiled,mma=emulated bound=2.5e-3
    losses kernels=vector "$folder.vector" "$@" || { echo "FAILED $name, vector: $(tail -n 1 "$folder.vector.out")" && return 1; }
    losses $tiled "$folder.tiled" "$@" || { echo "FAILED $name, tiled: $(tail -n 1 "$folder.tiled.out")" && return 1; }
    awk -v name="$name" -v bound=$bound 'NR == FNR { want[$1] = $2; next }
        { off = $2 / want[$1] - 1; if (off < 0) off = -off; if (off > most) most = off
          if (!(off <= bound * $1) && !bad) { bad = 1; printf "FAILED %s, step %d: %s, the vector family has %s\n", name, $1, $2, want[$1] } }
        END { if (FNR != 20 || NR != 40) { bad = 1; print "FAILED", name ": " NR " losses of 40" }
              if (!bad) printf "%s: %.1e\n", name, most; exit bad }' "$folder.vector.losses" "$folder.tiled.losses"
}
export -f losses pair

models | while read -r program options; do
    [ "${only:-$program}" = "$program" ] || continue
    presets=$("$bin/$program-train" --activations none 2>&1 | sed 's/.* is not one of \(.*\);.*/\1/')
    for preset in ${only_preset:-$presets}; do
        for optimizer in sgd adamw; do
            for precision in fp32 bf16; do echo "$precision $preset $optimizer $program $options"; done
        done
    done
done >"$work/pairs"
[ -s "$work/pairs" ] || { echo "$usage" >&2; exit 2; }
xargs -P "$(nproc)" -L 1 bash -c 'pair "$@"' _ <"$work/pairs"
code=$?
# A local array that PoCL takes for a variable of the program: its threads share it (cl/prelude/common.clh).
find "$POCL_CACHE_DIR" -name '*.so' -exec nm {} + | awk '$2 ~ /^[bBdD]$/ && $3 !~ /^_DYNAMIC|^_GLOBAL/ { print "FAILED: threads share " $3; bad = 1 }
    END { exit bad }' || code=1
echo "$(wc -l <"$work/pairs") pairs of trainings"
exit $code
