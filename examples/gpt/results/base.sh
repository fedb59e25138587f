#!/usr/bin/env bash
# Planned bytes of a step of fine-tuning, by the bits of the frozen weights:
#
#     base.sh BIN >base.csv
export LC_ALL=C # a decimal point in every locale
unset CDPATH
set -euo pipefail
bin=${1:?usage: base.sh BIN}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# plan NAME OPTION...: a row for each number of bits.
plan() {
    local name=$1
    shift
    for bits in 32 16 8 4 nf4; do
        "$bin/gpt-train" "$@" --data generated --context 512 --batch-size 1 --train-limit 8 --test-limit 8 --lora 16 \
            --base-bits $bits --activations least --precision bf16 --plan |
            awk -v row="$name,$bits" '/^parameters / { weights = $2 } /^peak of everything / { all = $4 } END { print row "," weights "," all }'
    done
}

# config NAME: its row, of the config.json on stdin.
config() {
    mkdir "$folder/$1"
    cat >"$folder/$1/config.json"
    plan "$1" --model "$folder/$1"
}

echo "arch,base_bits,parameters,everything"
for arch in smollm2_135m tinyllama_1b gpt2_xl llama2_7b; do
    plan $arch --arch $arch
done
config llama3.2_1b <<'END'
{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
 "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
 "rope_theta": 500000, "tie_word_embeddings": true, "rope_scaling": {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1,
 "high_freq_factor": 4, "original_max_position_embeddings": 8192}}
END
config gemma_2b <<'END'
{"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1,
 "intermediate_size": 16384, "vocab_size": 256000, "max_position_embeddings": 8192}
END
config gemma2_2b <<'END'
{"model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
 "intermediate_size": 9216, "vocab_size": 256000, "max_position_embeddings": 8192}
END
config phi3_mini <<'END'
{"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 8192,
 "vocab_size": 32064, "max_position_embeddings": 4096, "sliding_window": 2047}
END
