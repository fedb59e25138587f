#!/bin/sh
# train.sh CIFAR_FOLDER [SEEDS]: the runs of runs.jsonl, appended to it.
export LC_ALL=C # a decimal point in every locale
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=${1:?usage: train.sh CIFAR_FOLDER [SEEDS]}
for seed in ${2:-0 1}; do
    for keep in pytorch sampled largest sampled-int8 quantised; do
        "${PYTHON:-python3}" "$here/../train.py" --model mlp --keep $keep --data "$data" \
            --images 20000 --epochs 4 --seed "$seed" --threads 1 --json "$here/runs.jsonl"
        "${PYTHON:-python3}" "$here/../train.py" --model vit --keep $keep --data "$data" \
            --images 8000 --epochs 4 --seed "$seed" --threads 1 --json "$here/runs.jsonl"
    done
done
