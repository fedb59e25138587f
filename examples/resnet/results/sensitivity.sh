#!/usr/bin/env bash
# Prints the relative error of each convolution's weight gradient against the dense gradient, on two
# batches after some steps, if all inputs of convolutions are pooled, pruned or quantised (all else
# exact): one row per convolution, to compare the 1 x 1 downsampling layers with the 3 x 3 ones
# (arXiv 2409.11902 finds that they tolerate more).
#
#     sensitivity.sh TRAINER DATA [STEPS] >sensitivity.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: sensitivity.sh TRAINER DATA [STEPS]"
train=$(realpath "${1:?$usage}")
data=${2:?$usage}
steps=${3:-20}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/quantised.keep" <<'KEEP'
blocks.* relu1 quantised bits=2
blocks.* out quantised bits=2
KEEP
run() { # NAME OPTIONS...
    local name=$1
    shift
    "$train" --arch resnet20 --data "$data" --optimizer sgd --lr 0.1 --batch-size 128 --steps "$steps" \
        --quiet --gradient-check 2 --summary-json "$folder/$name.json" "$@" >/dev/null
    awk '/"gradient_check"/ { inside = 1 }
        inside && /: \{/ { tensor = $1; gsub(/[":]/, "", tensor) }
        inside && $1 == "\"relative_error\":" && tensor ~ /(conv[0-9]|downsample\.0)\.weight$/ {
            gsub(/,/, "", $2); print tensor "," $2 }' "$folder/$name.json" >"$folder/$name.csv"
}
run pooled2 --activations pooled --pool 2
run pooled4 --activations pooled --pool 4
run pruned7 --activations pruned --sparsity 0.7 --block 16
run quantised2 --activations pooled --keep-file "$folder/quantised.keep"
echo "convolution,pooled_2,pooled_4,pruned_0.7,quantised_2_bits"
cd "$folder" && join -t, pooled2.csv <(cut -d, -f1,2 pooled4.csv) --nocheck-order |
    join -t, - pruned7.csv --nocheck-order | join -t, - quantised2.csv --nocheck-order
