#!/usr/bin/env bash
# Predicts a training step on a graphics card, for each precision and preset: a line each of what --plan-device adds up.
# No device is needed, and nothing runs but the planner.
#
#     predicted.sh FOLDER_OF_TRAINERS [CARD]       CARD: h200 (the default), h100, a100, rtx4090
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
bin=$(cd "${1:?usage: predicted.sh FOLDER_OF_TRAINERS [CARD]}" && pwd)
card=${2:-h200}
echo "| $card: model, samples of a step | precision | activations | launches | GB | TFLOP | ms | longest kernels, ms |"
echo '|---|---|---|---|---|---|---|---|'

# predict MODEL BATCH PROGRAM OPTION...
predict() {
    local model=$1 batch=$2 program=$3 precision preset
    shift 3
    for precision in fp32 bf16; do
        for preset in dense pruned compact least; do
            "$bin/$program" "$@" --batch-size "$batch" --train-limit "$batch" --test-limit "$batch" --plan \
                --plan-device "$card" --precision $precision --activations $preset |
                awk -v start="| $model, $batch | $precision | $preset" '
                    /^predicted for/ { inside = 1; next }
                    !inside || /^kernels of/ { next }
                    $1 == "together" { printf "%s | %d | %.1f | %.2f | %.1f | %s |\n", start, $2, $3, $4, $7, longest; next }
                    rows++ < 3 { longest = longest (longest == "" ? "" : ", ") $1 " " sprintf("%.1f", $7) }'
        done
    done
}
predict 'ResMLP-S12' 128 resmlp-train --arch resmlp_s12 --image-size 224 --classes 1000
predict 'ResNet-18' 128 resnet-train --arch resnet18 --image-size 224 --classes 1000
predict 'DeiT-S' 128 vit-train --arch deit_small --image-size 224 --classes 1000
predict 'GPT-2 small, 1024 tokens' 16 gpt-train --arch gpt2 --context 1024
