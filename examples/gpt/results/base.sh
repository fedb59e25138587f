#!/usr/bin/env bash
# Planned bytes of a step of fine-tuning, by the bits of the frozen weights:
#
#     base.sh BIN >base.csv
export LC_ALL=C # a decimal point in every locale
unset CDPATH
set -euo pipefail
bin=${1:?usage: base.sh BIN}
echo "arch,base_bits,parameters,everything"
for arch in smollm2_135m tinyllama_1b gpt2_xl llama2_7b; do
    for bits in 32 16 8 4; do
        "$bin/gpt-train" --arch $arch --context 512 --batch-size 1 --train-limit 8 --test-limit 8 --lora 16 --base-bits $bits \
            --activations least --precision bf16 --plan |
            awk -v row="$arch,$bits" '/^parameters / { weights = $2 } /^peak of everything / { all = $4 } END { print row "," weights "," all }'
    done
done
