#!/usr/bin/env bash
# Plans a training step of DeiT-S (224 px, batch 32) and of GPT-2 small (8 sequences of 1024 tokens) with each preset:
# MiB saved for the backward pass, the peak of activations and workspace, and the peak of everything. Needs no device.
#
#     memory.sh BIN >memory.csv
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
binaries=${1:?usage: memory.sh BIN}

# field NAME: the MiB at the end of the first line of the plan that begins so
field() { awk -v name="$1" 'index($0, name) == 1 { print $NF; exit }'; }

echo "model,activations,saved_mib,peak_mib,everything_mib"
for preset in dense "dense --store bf16" "pruned --sparsity 0.7" exact "exact --store bf16" exact-plus checkpoint "compact --code-bits 8" "compact --code-bits 4" \
    "compact-plus --code-bits 4" "least --code-bits 8" "least --code-bits 4"; do
    for model in deit_small gpt2; do
        case $model in
        deit_small) program=vit-train size="--batch-size 32" ;;
        gpt2) program=gpt-train size="--batch-size 8" ;;
        esac
        plan=$("$binaries/$program" --arch $model --data generated $size --activations $preset --plan)
        echo "$model,$preset,$(field "saved activations" <<<"$plan"),$(field "  arena" <<<"$plan"),$(field "peak of everything" <<<"$plan")"
    done
done
