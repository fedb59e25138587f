#!/usr/bin/env bash
# Keeps the inputs of resmlp_s12's linear layers (224 px, 1000 classes) in each form, all else dense.
# Prints planned bytes and step time at batch 32, and the error of these layers' weight gradients beside
# dense's, over all elements, on one batch of 4 generated images after one step. DRAWS draws (2 if the
# form draws nothing) separate bias from noise: examples/trainer/run/gradient_check.h.
# Step times: the median of ROUNDS runs of 4 steps in turns, without the first step of each run; with 0
# ROUNDS their columns are empty.
# Pruned: s = 0.7, blocks of 1 x 16, int32 indices. Quantised: groups of 64.
#
#     forms.sh TRAINER [DRAWS [ROUNDS]] >forms.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
train=${1:?usage: forms.sh TRAINER [DRAWS [ROUNDS]]}
draws=${2:-32}
rounds=${3:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

forms="dense pruned-fp32 pruned-fp16 pruned-int8 largest-fp32 random-fp32 quantised-8 quantised-4
    quantised-2 nearest-4 pooled-2x2"

# arguments FORM
arguments() {
    case $1 in
    dense) echo "dense" ;;
    pruned-*) echo "pruned --sparsity 0.7 --values ${1#*-}" ;;
    largest-* | random-*) echo "pruned --sparsity 0.7 --values ${1#*-} --criterion ${1%-*}" ;;
    quantised-*) echo "quantised --code-bits ${1#*-}" ;;
    nearest-*) echo "quantised --code-bits ${1#*-} --rounding nearest" ;;
    pooled-2x2) echo "pooled --pool 2" ;;
    esac
}

# run FORM arguments...
run() {
    local form=$1
    shift
    "$train" --arch resmlp_s12 --image-size 224 --classes 1000 --data generated \
        --activations $(arguments "$form") "$@"
}

draws_of() {
    case $1 in
    dense | largest-* | nearest-* | pooled-*) echo 2 ;;
    *) echo "$draws" ;;
    esac
}

# error FORM: relative error, bias and noise. Squares are summed over tensors first: the estimate
# bias^2 = error^2 - noise^2 is then clipped at 0 once, not for each tensor.
error() {
    awk '/"gradient_check"/ { inside = 1 }
        !inside { next }
        /: \{/ { linear = $1 ~ /blocks\..*(linear_tokens|fc1|fc2)\.weight/ }
        /"relative_error"/ { error = $2 + 0 }
        /"norm"/ { norm = $2 + 0 }
        /"noise"/ && linear {
            noise = $2 + 0
            all += norm * norm
            errors += (error * norm) ^ 2
            noises += (noise * norm) ^ 2
            tensors++
        }
        END {
            if (tensors != 36) exit 1
            bias = errors - noises
            printf "%.4g,%.4g,%.4g", sqrt(errors / all), sqrt((bias < 0 ? 0 : bias) / all),
                sqrt(noises / all)
        }' "$folder/$1.check"
}

for form in $forms; do
    run "$form" --batch-size 4 --train-limit 4 --steps 1 --gradient-check 1 \
        --gradient-draws "$(draws_of "$form")" --quiet --summary-json "$folder/$form.check" >/dev/null
    error=$(error "$form")
    echo "$form $error" >&2
done
for round in $(seq "$rounds"); do
    for form in $forms; do
        run "$form" --batch-size 32 --train-limit 128 --steps 4 --quiet \
            --summary-json "$folder/$form.$round"
    done
done
echo "form,saved_mib,linear_inputs_mib,linear_inputs_percent,step_ms,step_to_dense,draws,relative_error,bias,noise"
for form in $forms; do
    bytes=$(run "$form" --batch-size 32 --plan | awk '/^saved activations/ { print $(NF - 1) }')
    [ "$form" != dense ] || dense_bytes=$bytes
    ms="" ratio=""
    if [ "$rounds" != 0 ]; then
        ms=$(for round in $(seq "$rounds"); do
            sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p' "$folder/$form.$round"
        done | sort -n | awk '{ t[NR] = $1 } END { printf "%.0f", t[int((NR + 1) / 2)] }')
        [ "$form" != dense ] || dense_ms=$ms
        ratio=$(awk -v t="$ms" -v d="$dense_ms" 'BEGIN { printf "%.3f", t / d }')
    fi
    error=$(error "$form")
    # 12 blocks; norm1 and norm2 have 384 columns, gelu 1536
    awk -v f="$form" -v b="$bytes" -v d="$dense_bytes" -v t="$ms,$ratio" -v k="$(draws_of "$form")" \
        -v e="$error" 'BEGIN {
            inputs = 12 * 32 * 196 * (384 + 384 + 1536) * 4
            kept = b - (d - inputs)
            printf "%s,%.2f,%.2f,%.1f,%s,%d,%s\n", f, b / 1048576, kept / 1048576,
                100 * kept / inputs, t, k, e }'
done
