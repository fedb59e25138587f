#!/usr/bin/env bash
# Runs resmlp_s12 (224 px, batch 32) for a few steps with each preset of --activations. Prints, from
# the ledger, saved activations and the peak of activations and workspace together; step times, the
# presets in turns, without the first step of each run; and the loss, to see that they compute the same.
# pruned-S: s = S, blocks of 1 x 16, int32 indices. compact-BITS, least-BITS: --code-bits BITS.
# compact-pruned-TYPE: s = 0.7, blocks of 1 x 16 in that type, GELU's derivative in 2 bits.
#
#     presets.sh TRAINER [ROUNDS] >presets.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
train=${1:?usage: presets.sh TRAINER [ROUNDS]}
rounds=${2:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

presets="dense pruned-0.6 pruned-0.7 pruned-0.8 exact exact-tokens compact-8 compact-4
    compact-2 compact-pruned-fp32 compact-pruned-fp16 compact-pruned-int8 least-8 least-4"

# arguments PRESET
arguments() {
    case $1 in
    compact-pruned-*) echo "compact-pruned --sparsity 0.7 --values ${1#compact-pruned-}" ;;
    compact-* | least-*) echo "${1%-*} --code-bits ${1##*-}" ;;
    pruned-*) echo "pruned --sparsity ${1#pruned-}" ;;
    *) echo "$1" ;;
    esac
}

# run PRESET ROUND
run() {
    "$train" --arch resmlp_s12 --image-size 224 --classes 1000 --batch-size 32 --steps 4 \
        --data generated --train-limit 128 --quiet --activations $(arguments "$1") \
        --summary-json "$folder/$1.$2" >&2
}

# field PRESET NAME: the fields of that name in the last round's summary, a line each
field() {
    sed -n "s/.*\"$2\": *\([0-9.e+-]*\).*/\1/p" "$folder/$1.$rounds"
}

# peak PRESET CATEGORY
peak() {
    sed -n "/\"$2\": {/,/}/ s/.*\"peak\": *\([0-9]*\).*/\1/p" "$folder/$1.$rounds"
}

# Activations and workspace share an arena: the total peak minus the other categories.
pass_peak() {
    local rest category
    rest=$(field "$1" peak_bytes)
    for category in input parameters gradients optimizer; do
        rest=$((rest - $(peak "$1" $category)))
    done
    echo $rest
}

for round in $(seq "$rounds"); do
    for preset in $presets; do
        run "$preset" "$round"
    done
done
echo "activations,saved_mib,saved_percent_of_dense,peak_mib,step_ms,step_to_dense,train_loss"
for preset in $presets; do
    times=$(for round in $(seq "$rounds"); do
        sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p' "$folder/$preset.$round"
    done)
    ms=$(sort -n <<<"$times" | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
    [ "$preset" != dense ] || { dense_ms=$ms && dense_bytes=$(field dense saved_activation_bytes); }
    peak=$(pass_peak "$preset")
    awk -v p="$preset" -v b="$(field "$preset" saved_activation_bytes)" -v d="$dense_bytes" -v a="$peak" \
        -v t="$ms" -v dt="$dense_ms" -v l="$(field "$preset" train_loss)" 'BEGIN {
            printf "%s,%.2f,%.1f,%.2f,%.0f,%.3f,%s\n", p, b / 1048576, 100 * b / d,
                a / 1048576, t, t / dt, l }'
done
