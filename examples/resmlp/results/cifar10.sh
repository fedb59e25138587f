#!/usr/bin/env bash
# Trains resmlp_tiny on CIFAR-10, dense and with pruned activations, as in cifar10.csv here.
#
#     cifar10.sh TRAINER DATA [OUT [CRITERION [EPOCHS]]]
#
# TRAINER is resmlp-train, DATA the folder of the binary CIFAR-10, OUT (default: cifar10) receives a
# folder a run, with its CSV and summary, and cifar10.csv and cifar10.png. CRITERION is sampled (the
# default) or largest, EPOCHS 10 unless given. Runs that are finished are not made again.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: cifar10.sh TRAINER DATA [OUT [CRITERION [EPOCHS]]]"
train=$(realpath "${1:?$usage}")
data=$(realpath "${2:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
out=${3:-cifar10}
criterion=${4:-sampled}
epochs=${5:-10}
runs='dense s50-b16 s70-b16 s80-b16 s70-b64'
mkdir -p "$out"

run() {
    local name=$1
    shift
    [ -s "$out/$name/summary.json" ] && return # finished earlier
    mkdir -p "$out/$name"
    "$train" --arch resmlp_tiny --data "$data" --epochs "$epochs" --batch-size 32 --no-augment \
        --lr 0.002 --warmup-epochs 0.5 --seed 1 --output-dir "$out/$name" --overwrite \
        --summary-json "$out/$name/summary.json" "$@"
}
pruned() { run "$1" --activations pruned --criterion "$criterion" --sparsity "$2" --block "$3"; }
run dense --activations dense
pruned s50-b16 0.5 16
pruned s70-b16 0.7 16
pruned s80-b16 0.8 16
pruned s70-b64 0.7 64

# field FILE KEY: the first value of a key
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$1" | head -1; }
{
    echo "run,sparsity,block,top1_percent,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms,seconds"
    for name in $runs; do
        s=$out/$name/summary.json
        echo "$name,$(field "$s" sparsity),$(field "$s" block),$(field "$s" top1),$(field "$s" test_loss),$(field "$s" train_loss),$(field "$s" saved_activation_bytes),$(field "$s" peak_bytes),$(field "$s" step_ms),$(field "$s" seconds)"
    done
} >"$out/cifar10.csv"
(cd "$out" && gnuplot -e "runs='$runs'; epochs=$epochs" "$here/cifar10.gp")
cat "$out/cifar10.csv"
