#!/usr/bin/env bash
# Plans the device memory of one training step of resmlp_s12 (224 px, batch 32). Writes to OUT
# (default: plan) a table and a CSV for each preset, and plan.png. No device is needed.
#
#     plan.sh TRAINER [OUT]
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
train=$(realpath "${1:?usage: plan.sh TRAINER [OUT]}")
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-plan}
mkdir -p "$out"
plan() {
    "$train" --plan --arch resmlp_s12 --image-size 224 --classes 1000 --batch-size 32 --train-limit 32 \
        --test-limit 32 --plan-csv "$out/$1.csv" --activations $2 >"$out/$1.txt"
}
plan dense dense
plan exact exact
plan exact-tokens exact-tokens
plan compact compact
(cd "$out" && gnuplot "$here/plan.gp")
