#!/usr/bin/env bash
# Runs resnet18 (224 px, batch 32) for a training step with each preset of --activations. Prints, from
# the ledger, saved activations, and the peak of activations and workspace together.
#
#     memory.sh TRAINER >memory.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
train=${1:?usage: memory.sh TRAINER}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

presets="dense dense-bf16 pruned-0.7 pooled-2 pooled-4 exact exact-bf16 compact-8 compact-4 compact-2"

# arguments PRESET
arguments() {
    case $1 in
    compact-*) echo "compact --code-bits ${1#compact-}" ;;
    *-bf16) echo "${1%-bf16} --store bf16" ;;
    pooled-*) echo "pooled --pool ${1#pooled-}" ;;
    pruned-*) echo "pruned --sparsity ${1#pruned-} --block 16" ;;
    *) echo "$1" ;;
    esac
}

# field PRESET NAME; peak PRESET CATEGORY
field() { sed -n "s/.*\"$2\": *\([0-9.e+-]*\).*/\1/p" "$folder/$1" | head -1; }
peak() { sed -n "/\"$2\": {/,/}/ s/.*\"peak\": *\([0-9]*\).*/\1/p" "$folder/$1"; }

echo "activations,saved_mib,saved_percent_of_dense,peak_mib,train_loss"
for preset in $presets; do
    "$train" --arch resnet18 --image-size 224 --classes 1000 --batch-size 32 --steps 1 --data generated \
        --train-limit 32 --test-limit 1 --optimizer sgd --quiet --activations $(arguments "$preset") \
        --summary-json "$folder/$preset" >&2
    # Activations and workspace share an arena: the total peak minus the other categories.
    rest=$(field "$preset" peak_bytes)
    for category in input parameters gradients optimizer; do
        rest=$((rest - $(peak "$preset" $category)))
    done
    bytes=$(field "$preset" saved_activation_bytes)
    [ "$preset" != dense ] || dense=$bytes
    awk -v p="$preset" -v b="$bytes" -v d="$dense" -v a="$rest" -v l="$(field "$preset" train_loss)" \
        'BEGIN { printf "%s,%.2f,%.1f,%.2f,%s\n", p, b / 1048576, 100 * b / d, a / 1048576, l }'
done
