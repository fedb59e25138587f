#!/bin/sh
# gpt-train --model: a folder as transformers writes it gives the model that --arch names; weights in one file and in several;
# each refusal of a config.json that this program would compute as another model, or cannot read. Beside transformers:
# tests/long/model_folders.sh.
#
#     test_model_folder.sh path/to/gpt-train
. "$(dirname "$0")/../support/program.sh"
gpt=$(whole "$1")
cd "$folder" || exit 1
need_device "$gpt"
seq 1000 | head -c 600 >text
small="--context 16 --data text --train-limit 10 --test-limit 3 --batch-size 4"

run() {
    ends 0 "" "$gpt" "$@"
}

# llama_micro's and gpt_micro's config.json, and then weights.
mkdir llama gpt2
cat >llama/config.json <<END
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 344, "vocab_size": 256, "hidden_act": "silu",
 "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": null,
 "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false}
END
echo '{"model_type": "gpt2", "n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 128, "vocab_size": 256}' >gpt2/config.json
for model in llama gpt2; do
    run --arch $(echo $model | sed 's/gpt2/gpt/')_micro $small --seed 3 --steps 1 --test-limit 3 --export $model/model.safetensors
    run --arch $(echo $model | sed 's/gpt2/gpt/')_micro $small --import $model/model.safetensors --test-only
    grep '^test loss' out >want
    run --model $model $small --test-only --export again.st
    grep '^test loss' out | cmp -s want - || fail "$model: the folder has $(grep '^test loss' out), not $(cat want)"
    cmp -s again.st $model/model.safetensors || fail "$model: the folder is exported as another"
done
tuned="--model llama $small --epochs 2 --lora 2 --base-bits 8"
run $tuned --output-dir whole
run $tuned --steps 4 --output-dir part
run --resume part/last.ckpt
cut -d, -f1-5 whole/log.csv >have
cut -d, -f1-5 part/log.csv | cmp -s - have || fail "a resumed run of a folder gives another log"
grep -q '^folder, ' out || fail "it does not say that the model is a folder's: $(cat out)"

# with TEXT PATTERN [CODE]: llama's config.json after a change is refused.
with() {
    rm -rf bad && mkdir bad
    sed "$1" llama/config.json >bad/config.json
    ends "${3:-4}" "gpt-train: --model: bad/config.json: .*$2" "$gpt" --model bad $small --plan
}
with 's/"llama"/"mamba"/' "model_type is mamba, expected llama, mistral, qwen2, qwen3, smollm3, phi3, gemma, gemma2, gemma3_text, olmo2, gpt2, gpt_neox or phi"
with 's/"llama"/7/' "model_type is no text"
with 's/{/[/' "no JSON object"
with 's/"silu"/"gelu"/' "hidden_act is gelu, expected silu"
# scaled TEXT PATTERN: with TEXT in rope_scaling.
scaled() {
    with 's/"rope_scaling": null/"rope_scaling": {'"$1"'}/' "$2"
}
scaled '"rope_type": "dynamic", "factor": 8' "rope_scaling.rope_type is dynamic, expected default, linear, llama3, yarn or longrope"
scaled '"type": "su"' "rope_scaling.rope_type is su"
scaled '"rope_type": 7' "rope_scaling.rope_type is no text"
scaled '"type": "linear"' "rope_scaling.factor is no number above 0"
scaled '"type": "linear", "factor": 0' "rope_scaling.factor is no number above 0"
scaled '"type": "linear", "factor": 2, "partial_rotary_factor": 0.5' "partial_rotary_factor is 0.5, expected 1"
scaled '"rope_type": "llama3", "factor": 8, "high_freq_factor": 4' "rope_scaling.low_freq_factor is no number above 0"
scaled '"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4' "high_freq_factor is not above low_freq_factor"
scaled '"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": -1' "original_max_position_embeddings is no number from 2"
scaled '"rope_type": "yarn", "factor": 8, "beta_fast": 0' "rope_scaling.beta_fast is no number above 0"
scaled '"rope_type": "longrope", "short_factor": [1]' "rope_scaling.short_factor.1 is no number above 0"
short=$(echo $(seq 17) | tr ' ' ,)
scaled "\"rope_type\": \"longrope\", \"short_factor\": [$short]" "rope_scaling.short_factor has more than 16 numbers"
with 's/"llama"/"phi3"/; s/"rope_scaling": null/"rope_scaling": {"type": "yarn"}/' "rope_scaling.rope_type is yarn, expected default, longrope or su"
with 's/"llama"/"phi3"/; s/"attention_bias": false/"attention_bias": true/' "attention_bias is not false"
with 's/"llama"/"phi3"/; s/"rope_scaling": null/"partial_rotary_factor": 2/' "partial_rotary_factor is 2"
with 's/"llama"/"gpt_neox"/' "hidden_act is silu, expected gelu"
with 's/"llama"/"gpt_neox"/; s/silu/gelu/' "attention_bias is not true"
with 's/"llama"/"gpt_neox"/; s/silu/gelu/; s/"attention_bias": false/"rotary_pct": 0.3/' "turn 9 columns of a head, expected an even number"
with 's/"llama"/"phi"/' "hidden_act is silu, expected gelu_new"
with 's/"llama"/"phi"/; s/silu/gelu_new/; s/"mlp_bias": false/"qk_layernorm": true/' "qk_layernorm is not false"
with 's/"llama"/"phi"/; s/silu/gelu_new/; s/"mlp_bias": false/"partial_rotary_factor": 0.3/' "turn 9 columns of a head, expected an even number"
with 's/"llama"/"gemma"/; s/silu/relu/' "hidden_act is relu, expected gelu_pytorch_tanh"
with 's/"llama"/"gemma"/; s/"hidden_act": "silu"/"hidden_activation": "gelu"/' "hidden_activation is gelu, expected gelu_pytorch_tanh"
with 's/"llama"/"gemma"/; s/"hidden_act": "silu"/"use_bidirectional_attention": true/' "use_bidirectional_attention is not false"
with 's/"llama"/"gemma2"/; s/"rope_scaling": null/"attn_logit_softcapping": -5/' "caps of -5 and 30, and divides scores by the root of 256"
with 's/"llama"/"gemma2"/; s/"attention_bias"/"head_dim": 1024, "attention_bias"/' "turn 1024 columns of a head, expected an even number up to 512"
# third TEXT PATTERN: Gemma 3 with TEXT.
third() {
    with 's/"llama"/"gemma3_text"/; s/"hidden_act": "silu"/'"$1"'/' "$2"
}
third '"hidden_activation": "silu"' "hidden_activation is silu, expected gelu_pytorch_tanh"
third '"use_bidirectional_attention": true' "use_bidirectional_attention is not false"
third '"final_logit_softcapping": -5' "caps of 0 and -5, and divides scores by the root of 256"
third '"sliding_window_pattern": 0' "sliding_window_pattern is no whole number"
third '"layer_types": ["full_attention", "chunked_attention"]' "layer_types.1 is neither full_attention nor sliding_attention"
third '"layer_types": ["full_attention"]' "layer_types.1 is neither full_attention nor sliding_attention"
third '"rope_local_base_freq": 0' "theta 0"
third '"rope_parameters": {"full_attention": {"rope_type": "dynamic"}}' "rope_parameters.full_attention.rope_type is dynamic"
third '"rope_parameters": {"sliding_attention": {"rope_type": "linear"}}' "rope_parameters.sliding_attention.factor is no number above 0"
with 's/"llama"/"smollm3"/; s/"hidden_act"/"no_rope_layer_interval": 0, "hidden_act"/' "no_rope_layer_interval is no whole number"
with 's/"llama"/"smollm3"/; s/"hidden_act"/"no_rope_layers": [0, 1, 1], "hidden_act"/' "no_rope_layers.3 is neither 0 nor 1"
with 's/"llama"/"smollm3"/; s/"hidden_act"/"no_rope_layers": [0, 2, 1, 1], "hidden_act"/' "no_rope_layers.1 is neither 0 nor 1"
with 's/"llama"/"smollm3"/; s/"mlp_bias": false/"mlp_bias": true/' "mlp_bias is not false"
with 's/"llama"/"olmo2"/; s/silu/gelu/' "hidden_act is gelu, expected silu"
with 's/"llama"/"gemma3_text"/; s/"silu"/null/; s/"num_hidden_layers": 4/"num_hidden_layers": 513/' "513 blocks, expected up to 512"
with 's/"llama"/"mistral"/; s/"rope_scaling": null/"sliding_window": 0.5/' "sliding_window is no whole number"
with 's/"mlp_bias": false/"mlp_bias": true/' "mlp_bias is not false"
with 's/"hidden_size": 128, //' "hidden_size is no whole number"
with 's/"vocab_size": 256/"vocab_size": 0/' "vocab_size is no whole number"
with 's/"vocab_size": 256/"vocab_size": 1e9/' "vocab_size is no whole number"
with 's/"vocab_size": 256/"vocab_size": "256"/' "vocab_size is no whole number"
with 's/"hidden_size": 128/"hidden_size": 126/' "head_dim is no whole number"
with 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' "3 of keys"
with 's/"attention_bias"/"head_dim": 33, "attention_bias"/' "heads of 33"
with 's/1e-05/0/' "norms add 0"
with 's/10000.0/0.5/' "theta 0.5"
sed 's/"llama"/"mistral"/; s/"rope_scaling": null/"sliding_window": 8/' llama/config.json >bad/config.json
ends 4 "gpt-train: --model: --context is 16, but its sliding window or its rotary positions end at 8 tokens" "$gpt" --model bad $small --plan
ends 4 "gpt-train: --model: none/config.json: No such file" "$gpt" --model none $small --plan
ends 2 "gpt-train: --model does not go with --arch" "$gpt" --model llama --arch gpt_micro $small --plan
ends 2 "gpt-train: --arch folder needs --model DIR" "$gpt" --arch folder $small --plan
rm llama/model.safetensors
ends 4 "gpt-train: llama/model.safetensors: No such file" "$gpt" --model llama $small --test-only
run --model llama $small --plan

[ $failures = 0 ] || exit 1
