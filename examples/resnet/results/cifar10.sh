#!/usr/bin/env bash
# Trains resnet20 on CIFAR-10, ten epochs with augmentation, with each way of keeping activations.
#
#     cifar10.sh TRAINER DATA [OUT]
#
# TRAINER is resnet-train, DATA the folder of the binary CIFAR-10, OUT (default: cifar10) receives a folder
# a run, with its log.csv and summary.json, and what cifar10_table.sh makes of them. Runs that are
# finished are not made again. Names: NAME-SEED.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: cifar10.sh TRAINER DATA [OUT]"
train=$(realpath "${1:?$usage}")
data=$(realpath "${2:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
out=${3:-cifar10}
mkdir -p "$out"

run() { # NAME SEED OPTIONS...
    local name=$1-$2 seed=$2
    shift 2
    [ -s "$out/$name/summary.json" ] && return # finished earlier
    mkdir -p "$out/$name"
    "$train" --arch resnet20 --data "$data" --optimizer sgd --lr 0.1 --epochs 10 --batch-size 128 \
        --seed "$seed" --output-dir "$out/$name" --overwrite --summary-json "$out/$name/summary.json" "$@"
}
for seed in 1 2; do
    run dense $seed --activations dense
    run pooled $seed --activations pooled --pool 2
    run pruned $seed --activations pruned --sparsity 0.7 --block 16
    run compact4 $seed --activations compact --code-bits 4
done
run exact 1 --activations exact
run compact8 1 --activations compact --code-bits 8
run compact2 1 --activations compact --code-bits 2
"$here/cifar10_table.sh" "$out"
