#!/usr/bin/env bash
# Reads the saved activations of resmlp_s12 (224 px, batch 32) off the ledger after one step: dense,
# and pruned as in Table III of arXiv 2311.16883.
#
#     memory.sh TRAINER >memory.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
train=${1:?usage: memory.sh TRAINER}
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT

# saved OPTIONS...: bytes of saved activations at the end of the forward pass
saved() {
    "$train" --arch resmlp_s12 --image-size 224 --classes 1000 --batch-size 32 --steps 1 \
        --data generated --quiet --summary-json "$summary" "$@" >&2
    sed -n 's/.*"saved_activation_bytes": *\([0-9]*\).*/\1/p' "$summary"
}

# Table III, MiB saved against dense: sparsity, block, saving.
paper="0.6 16 365.2
0.6 32 384.2
0.6 64 393.9
0.7 16 437.7
0.7 32 456.3
0.7 64 462.0
0.8 16 516.4
0.8 32 524.1
0.8 64 528.2"

dense=$(saved --activations dense)
echo "activations,sparsity,block,saved_activation_bytes,mib,mib_less_than_dense,paper_table3_mib,ratio"
awk -v b="$dense" 'BEGIN { printf "dense,0,,%d,%.2f,0.00,,\n", b, b / 1048576 }'
while read -r sparsity block table; do
    bytes=$(saved --activations paper --sparsity "$sparsity" --block "$block")
    awk -v d="$dense" -v b="$bytes" -v s="$sparsity" -v k="$block" -v t="$table" 'BEGIN {
        less = (d - b) / 1048576
        printf "paper,%s,%s,%d,%.2f,%.2f,%s,%.4f\n", s, k, b, b / 1048576, less, t, less / t }'
done <<<"$paper"
