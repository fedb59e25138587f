#!/usr/bin/env bash
# Trains resmlp_tiny on CIFAR-10, five epochs, batch 32, with pruned, quantised and pooled activations of
# about 7 MiB (6.8 to 7.1), their combination as --activations auto chose it, and codes of 2 bits (2.8 MiB),
# as in head-to-head here.
#
#     head_to_head.sh TRAINER DATA [OUT [SEEDS]]
#
# TRAINER is resmlp-train, DATA the folder of the binary CIFAR-10, OUT (default: head-to-head) receives a
# folder NAME-SEED a run, with its log and summary, and what head_to_head_table.sh makes of them. SEEDS
# are "1" unless given. Runs that are finished are not made again. The keep files are in head-to-head here;
# combined.keep is the auto.keep of
#
#     resmlp-train --arch resmlp_tiny --data DATA --batch-size 32 --no-augment --lr 0.002 \
#         --warmup-epochs 0.5 --seed 1 --activations auto --memory-limit 30900000 --steps 1 --output-dir OUT
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: head_to_head.sh TRAINER DATA [OUT [SEEDS]]"
train=$(realpath "${1:?$usage}")
data=$(realpath "${2:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
out=${3:-head-to-head}
seeds=${4:-1}
mkdir -p "$out"

run() { # NAME SEED OPTIONS...
    local name=$1-$2 seed=$2
    shift 2
    [ -s "$out/$name/summary.json" ] && return # finished earlier
    mkdir -p "$out/$name"
    "$train" --arch resmlp_tiny --data "$data" --epochs 5 --batch-size 32 --no-augment --lr 0.002 \
        --warmup-epochs 0.5 --seed "$seed" --output-dir "$out/$name" --overwrite \
        --summary-json "$out/$name/summary.json" "$@"
}
for seed in $seeds; do
    run dense "$seed" --activations dense
    for name in pruned quantised quantised-fc1 pooled combined quantised-2bits; do
        run $name "$seed" --activations compact --sparsity 0.7 --block 16 \
            --keep-file "$here/head-to-head/$name.keep"
    done
done
"$here/head_to_head_table.sh" "$out"
