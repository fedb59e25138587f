#!/usr/bin/env bash
# Trains resmlp_tiny on CIFAR-10 with each preset of --activations and two seeds, as in cifar10-presets
# here.
#
#     cifar10_presets.sh TRAINER DATA [OUT]
#
# TRAINER is resmlp-train, DATA the folder of the binary CIFAR-10, OUT (default: cifar10-presets) receives
# a folder a run, with its log and summary, and cifar10-presets.csv. Runs that are finished are not made
# again.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: cifar10_presets.sh TRAINER DATA [OUT]"
train=$(realpath "${1:?$usage}")
data=$(realpath "${2:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
out=${3:-cifar10-presets}
mkdir -p "$out"

run() {
    local name=$1-$2
    local seed=$2
    shift 2
    [ -s "$out/$name/summary.json" ] && return # finished earlier
    mkdir -p "$out/$name"
    "$train" --arch resmlp_tiny --data "$data" --epochs 5 --batch-size 32 --no-augment --lr 0.002 \
        --warmup-epochs 0.5 --seed "$seed" --output-dir "$out/$name" --overwrite \
        --summary-json "$out/$name/summary.json" "$@"
}
pruned="--sparsity 0.7 --block 16"
for seed in 1 2; do
    run dense $seed --activations dense
    run exact $seed --activations exact
    run pruned $seed --activations pruned $pruned
    for values in fp16 int8; do
        run compact-$values $seed --activations compact $pruned --values $values --gelu-code 4 \
            --keep-file "$here/compact.keep"
    done
done

# field FILE KEY: the first value of a key
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$1" | head -1; }
{
    echo "activations,seed,top1_percent,beside_dense,test_loss,train_loss,saved_activation_bytes,peak_bytes"
    for name in dense exact pruned compact-fp16 compact-int8; do
        for seed in 1 2; do
            s=$out/$name-$seed/summary.json
            top1=$(field "$s" top1)
            beside=$(awk -v a="$top1" -v b="$(field "$out/dense-$seed/summary.json" top1)" \
                'BEGIN { printf "%+.2f", a - b }')
            echo "$name,$seed,$top1,$beside,$(field "$s" test_loss),$(field "$s" train_loss),$(field "$s" saved_activation_bytes),$(field "$s" peak_bytes)"
        done
    done
} >"$out/cifar10-presets.csv"
cat "$out/cifar10-presets.csv"
