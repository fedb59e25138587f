#!/bin/sh
# gpt-train --model FILE.gguf: small random models of each architecture have the weights, to the bit, and the loss of the same
# values in a folder of transformers; each refusal of a file that this program would compute as another model. Real files:
# tests/long/gguf_models.sh.
#
#     test_gguf_model.sh path/to/gpt-train path/to/resmlp-train
unset CDPATH # with it, cd prints
. "$(dirname "$0")/../support/program.sh"
gpt=$(whole "$1")
resmlp=$(whole "$2")
make=$(cd "$(dirname "$0")" && pwd)/make_gguf.py
losses=${make%/*}/gguf_losses.txt
python=${CLPRUNE_PYTHON:-python3}
command -v "$python" >/dev/null || exit 77
cd "$folder" || exit 1
need_device "$gpt"
seq 1000 | head -c 600 >text
small="--context 16 --data text --train-limit 10 --test-limit 3 --batch-size 4"

run() {
    ends 0 "" "$gpt" "$@"
}

make() {
    "$python" "$make" "$@" || fail "make_gguf.py $*"
}

# Tokens 0, 7, 14 ... of 256.
"$python" -c 'import sys; sys.stdout.buffer.write(bytes(b for i in range(193) for b in (i * 7 % 256, 0)))' >sevens.bin
mkdir sevens
cp sevens.bin sevens/train.bin
mv sevens.bin sevens/val.bin

# folder_loss MODEL PATH: the loss of transformers, if gguf_losses.txt has it.
folder_loss() {
    while read -r model loss; do
        [ "$model" != "$1" ] && continue
        run --model $2 --context 24 --data sevens --test-limit 8 --batch-size 4 --test-only
        awk -v want="$loss" '/^test loss/ { found = ($3 - want) ^ 2 < 1e-8 } END { exit !found }' out ||
            fail "$1: $(grep '^test loss' out), transformers has $loss"
    done <"$losses"
}

# same MODEL [TYPE]: the file and the folder are one model, that of transformers where gguf_losses.txt has its loss.
same() {
    make m "$@"
    [ $# -gt 1 ] || folder_loss $1 m/model.gguf
    run --model m $small --test-only --export folder.st
    grep '^test loss' out >want
    run --model m/model.gguf $small --test-only --export file.st
    grep '^test loss' out | cmp -s want - || fail "$*: the file has $(grep '^test loss' out), not $(cat want)"
    cmp -s folder.st file.st || fail "$*: the file has other weights"
}
for model in llama-biases llama-tied llama-3 llama-linear qwen2 qwen3 smollm3 phi3 phi3-long phi2 gemma gemma2 gemma3 gemma3-all olmo2 gpt2; do
    same $model
done
same llama Q8_0
same gpt2 Q4_1
for model in pythia neox; do # their rows of q, k and v are put together head by head again
    make m $model
    folder_loss $model m
    run --model m $small --test-only --export folder.st
    run --model m $small --import folder.st --test-only --export again.st
    cmp -s folder.st again.st || fail "$model: what is exported is imported as another model"
done
ends 4 "its general.architecture is gpt_neox" "$gpt" --model m/model.gguf $small --test-only
for type in F16 BF16 F64; do
    same llama $type
done

# The sizes of a folder, and the weights of a file.
make m gpt2
run --model m $small --test-only
grep '^test loss' out >want
run --model m $small --import m/model.gguf --test-only
grep '^test loss' out | cmp -s want - || fail "--import of the file has $(grep '^test loss' out), not $(cat want)"

# A text has the tokens of the vocabulary, here those of bytes, and --sample writes their texts; without them, numbers.
"$python" -c 'import sys; sys.stdout.buffer.write(bytes(b for c in open("text", "rb").read() for b in (c, 0)))' >tokens.bin
bytes="llama tokenizer.ggml.model=llama tokenizer.ggml.add_space_prefix=0"
make m $bytes
for data in text tokens.bin; do
    run --model m/model.gguf $small --data $data --test-only --sample 40
    sed -n '/^test loss/,$p' out >$data.out
done
cmp -s text.out tokens.bin.out || fail "a text gives $(cat text.out), its tokens $(cat tokens.bin.out)"
printf '{"prompt": "12", "completion": "34"}\n%.0s' $(seq 80) >lines.jsonl
run --model m/model.gguf $small --data lines.jsonl --lora 2 --epochs 2 --steps 2
grep -q '^data tokens, [0-9]* train' out || fail "lines of JSON: $(cat out)"
run --model m $small --data tokens.bin --test-only --sample 1 --temperature 0
tail -n 1 out | grep -Eq '^[0-9]+ [0-9 ]+$' || fail "without texts of tokens --sample writes no numbers: $(cat out)"
end=$(tail -n 1 out | awk '{ print $NF }')

# --packing apart: texts in one sequence have the loss of each alone, of which all have as many tokens; joined ones have not.
# With 24 rows a text of 11 leaves room for one more, with 94 for eight; longer ones are cut.
for i in $(seq 10 49); do
    printf '{"prompt": "who %s", "completion": " is %s"}\n' $i $((i * i % 90 + 10))
done >apart.jsonl
mkdir apart
cp apart.jsonl apart/train.jsonl
cp apart.jsonl apart/val.jsonl
make gpt2 gpt2
apart="--model m/model.gguf --data apart/train.jsonl --batch-size 2"
for context in 11 23 94; do
    run $apart --context $context --packing apart --test-only --summary-json $context.json
    grep -q "^data tokens, $((40 / (context / 11))) train" out || fail "40 texts in $context rows: $(cat out)"
    run $apart --context $context --test-only --summary-json joined.json
    for json in $context joined; do
        sed -n 's/.*"test_loss": \([0-9.]*\),.*/\1/p' $json.json | head -n 1 >$json.loss
    done
    cat 11.loss $context.loss joined.loss | tr '\n' ' ' |
        awk '{ exit !($1 > 0 && ($1 - $2) ^ 2 < 1e-12 && ($2 - $3) ^ 2 > 1e-8) }' ||
        fail "texts alone, $context rows, joined: $(cat 11.loss $context.loss joined.loss)"
done
"$gpt" $apart --context 9 --packing apart --test-only >out 2>err || fail "texts that are cut: $(cat err)"
grep -q "val.jsonl: 40 of the 40 texts for tests are cut at 10 tokens" err || fail "texts are not cut: $(cat err)"
tuned="$apart --context 23 --packing apart --lora 2 --activations least"
run $tuned --epochs 2 --output-dir apart.whole --memory-report
cp out memory
run $tuned --plan --epochs 2
[ "$(sed -n 's/^peak of everything *\([0-9]*\) .*/\1/p' out)" = "$(sed -n 's/^total  *[0-9]* *\([0-9]*\) .*/\1/p' memory)" ] ||
    fail "the peak is not as planned: $(cat out memory)"
run $tuned --epochs 2 --steps 13 --output-dir apart.part
run --resume apart.part/last.ckpt
cut -d, -f1-5 apart.whole/log.csv >have
cut -d, -f1-5 apart.part/log.csv | cmp -s - have || fail "a resumed run of texts apart gives another log"
ends 2 'gpt-train: --packing joined: the run in .* has apart' "$gpt" --resume apart.part/last.ckpt --packing joined
ends 2 'gpt-train: --data: --packing apart: text is no NAME.jsonl' "$gpt" --model m/model.gguf $small --packing apart
for model in "--arch gpt_micro" "--model gpt2/model.gguf"; do
    ends 2 'gpt-train: --packing apart needs a model with rotary positions; this one learns them' \
        "$gpt" $model --data apart/train.jsonl --context 16 --packing apart --plan
done
ends 2 'gpt-train: --data: --packing apart needs --data NAME.jsonl' "$gpt" --arch llama_micro --packing apart --steps 1

# --prompt in place of the first tokens of the tests; the token that ends a text.
sed 1d text.out | head -c 16 >start
run --model m/model.gguf $small --test-only --sample 40 --prompt @start
sed -n '/^test loss/,$p' out | cmp -s text.out - || fail "--prompt of the same tokens goes on otherwise: $(cat out)"
run --model m/model.gguf $small --test-only --sample 40 --prompt 12
sed 1,3d out >without
make m $bytes tokenizer.ggml.bos_token_id=65
run --model m/model.gguf $small --test-only --sample 40 --prompt 12
sed 1,3d out | cmp -s without - && fail "a prompt begins without the token that begins a text: $(cat out)"
make m $bytes tokenizer.ggml.eos_token_id=$end
run --model m/model.gguf $small --test-only --sample 40 --temperature 0
sed '1,/^test loss/d' out | head -c -1 | cmp -s start - || fail "token $end does not end the text: $(cat out)"

# prompt CODE TEXT PROMPT: refused before anything is done.
prompt() {
    ends $1 "gpt-train: --prompt$2" "$gpt" --model m/model.gguf $small --output-dir none --sample 1 --prompt "$3"
    [ ! -e none ] || fail "--prompt $3: a run has begun"
}
prompt 2 ": '' is not a name or a text" ""
prompt 2 ": 17 tokens, more than the 16 of --context" 12345678901234567
prompt 4 ": no-file: No such file" @no-file
prompt 4 ": byte 1 (ff) is no UTF-8" "$(printf 'a\377')"
: >empty
prompt 2 ": empty is empty" @empty
ends 2 "gpt-train: --prompt: the model has 50257 tokens, and no texts of them" "$gpt" --arch gpt2 --context 16 --steps 1 --sample 1 --prompt x

# --chat: a prompt as a message is its text in the template; the token that ends an answer; lines; a resumed run knows it.
chatml='{% for message in messages %}{{"<|im_start|>" + message["role"] + "\n" + message["content"] + "<|im_end|>\n"}}{% endfor %}'
chatml=$chatml'{% if add_generation_prompt %}{{"<|im_start|>assistant\n"}}{% endif %}'
make m $bytes "200=<|im_start|>" "201=<|im_end|>" "tokenizer.chat_template=$chatml"
chat="--model m/model.gguf --context 48 --train-limit 4 --test-limit 1 --test-only"
printf '<|im_start|>user\n12<|im_end|>\n<|im_start|>assistant\n' >start
run $chat --sample 9 --prompt @start
sed '1,/^<|im_start|>assistant/d' out >want
run $chat --sample 9 --prompt 12 --chat yes
sed '1,/^12$/d' out | cmp -s want - || fail "--chat yes is not the template: $(cat want out)"
for how in no yes; do
    run $chat --sample 3000 --temperature 2 --prompt 12 --chat $how
    [ "$(sed '1,/^test loss/d' out | wc -c)" -lt 3000 ] && got=yes || got=no
    [ $got = $how ] || fail "--chat $how: the answer ends: $got"
done
printf '{"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]}\n%.0s' $(seq 80) >lines.jsonl
printf '{"prompt": "12", "completion": "34"}\n%.0s' $(seq 80) >>lines.jsonl
run --model m/model.gguf $small --data lines.jsonl --chat yes --lora 2 --epochs 1 --output-dir chat
ends 2 'gpt-train: --prompt: [0-9]* tokens, more than the 16 of --context' "$gpt" --resume chat/last.ckpt --test-only --sample 3 --prompt 1
make m $bytes tokenizer.chat_template=none
ends 4 'm/model.gguf: its chat template is none of those known here' "$gpt" $chat --sample 1 --prompt 1 --chat yes
ends 4 'm/model.gguf: its chat template is none of those known here' "$gpt" --model m/model.gguf $small --data lines.jsonl --steps 1
ends 2 'gpt-train: --chat yes needs --model' "$gpt" --data text --chat yes --steps 1

# Training, to the end and in two parts, and adapters.
for model in phi2:dense phi3-long:qkv_proj gemma2:q_proj llama-tied:q_proj; do
    make m ${model%:*}
    tuned="--model m/model.gguf $small --epochs 2 --lora 2 --base-bits 4 --activations least"
    rm -rf whole part adapters
    run $tuned --output-dir whole --adapters adapters
    grep -q "\"model.layers.0.self_attn.${model#*:}\"" adapters/adapter_config.json || fail "$model: $(cat adapters/adapter_config.json)"
    run $tuned --steps 4 --output-dir part
    run --resume part/last.ckpt
    cut -d, -f1-5 whole/log.csv >have
    cut -d, -f1-5 part/log.csv | cmp -s - have || fail "$model: a resumed run of a file gives another log"
done
grep -q modules_to_save adapters/adapter_config.json || fail "there are no adapters"
ends 2 "gpt-train: --export m/model.gguf: it is the file of --import" "$gpt" $tuned --steps 1 --export m/model.gguf

# without MODEL CHANGE PATTERN: the file after a change is refused for its sizes. weights: for its weights.
without() {
    make bad "$1" "$2"
    ends 4 "gpt-train: --model: bad/model.gguf: .*$3" "$gpt" --model bad/model.gguf $small --plan
}
weights() {
    make bad "$1" "$2"
    ends 4 "gpt-train: bad/model.gguf: .*$3" "$gpt" --model bad/model.gguf $small --test-only
}
without llama general.architecture=mamba "its general.architecture is mamba, expected llama, qwen2, qwen3, smollm3, phi3, gemma, gemma2, gemma3, olmo2, gpt2 or phi2"
without llama -general.architecture "its general.architecture is (none)"
without llama general.architecture=7 "its general.architecture is no text"
without llama split.count=2 "a part of a model in 2 files"
without llama -llama.block_count "its llama.block_count is no whole number from 1 to 16777216"
without llama llama.block_count=0 "its llama.block_count is no whole number"
without llama llama.block_count=1.5 "its llama.block_count is no whole number"
without llama llama.embedding_length=x "its llama.embedding_length is no whole number"
without llama -llama.feed_forward_length "its llama.feed_forward_length is no whole number"
without llama -llama.context_length "its llama.context_length is no whole number"
without llama -llama.attention.layer_norm_rms_epsilon "norms add nan"
without llama llama.attention.layer_norm_rms_epsilon=1 "norms add 1"
without llama llama.attention.head_count=3 "llama.attention.key_length is no whole number"
without llama llama.attention.head_count_kv=3 "4 heads of 16 (values 16, 16 rotated), 3 of keys"
without llama llama.attention.key_length=32 "heads of 32"
without llama llama.attention.value_length=8 "values 8"
without llama llama.rope.dimension_count=8 "8 rotated"
without llama llama.rope.freq_base=0.5 "freq_base 0.5"
without llama llama.rope.scaling.type=yarn "its llama.rope.scaling.type is yarn, expected none, linear or, of phi3, longrope"
without llama llama.rope.scaling.type=longrope "its llama.rope.scaling.type is longrope, expected none, linear or, of phi3, longrope"
without llama llama.rope.scaling.type=7 "its llama.rope.scaling.type is no text"
without llama llama.rope.scaling.factor=0 "its rotary positions are scaled by 0 and 1"
without llama llama.rope.scaling.attn_factor=2.0 "its llama.rope.scaling.attn_factor is not 1"
without llama llama.attn_logit_softcapping=5.0 "its llama.attn_logit_softcapping is unknown"
without phi3-long phi3.rope.scaling.attn_factor=0 "its rotary positions are scaled by 1 and 0"
without phi3-long phi3.rope.dimension_count=16 "its rope_factors_short.weight is no row of 8"
without phi3-long -rope_factors_short.weight "its rope_factors scales rotary positions"
without phi3-long -phi3.rope.scaling.original_context_length "its phi3.rope.scaling.original_context_length is no whole number"
without gemma2 gemma2.final_logit_softcapping=x "it has caps of 5 and nan"
without gemma3 gemma3.attention.sliding_window_pattern=0 "its gemma3.attention.sliding_window_pattern is no whole number"
without gemma3 gemma3.rope.freq_base_swa=0.5 "its freq_base_swa is 0.5"
without gemma3 gemma3.block_count=513 "513 blocks, expected up to 512"
without smollm3 smollm3.block_count=513 "513 blocks, expected up to 512"
without smollm3 +rope_freqs.weight "its rope_freqs.weight scales rotary positions"
without olmo2 olmo2.attention.sliding_window_pattern=2 "its olmo2.attention.sliding_window_pattern is unknown"
without gemma3 gemma3.final_logit_softcapping=x "it has caps of 0 and nan"
without qwen2 +rope_freqs.weight "its rope_freqs.weight scales rotary positions"
without llama llama.expert_count=8 "its llama.expert_count is not 0"
without llama llama.attention.scale=0.5 "its llama.attention.scale is unknown: .* may compute something else"
without llama +rope_freqs.weight "its rope_freqs.weight has a factor of 0, expected a number above 0"
without llama -token_embd.weight "it has no token_embd.weight of 64 columns"
without llama +token_embd.weight "tensor \"token_embd.weight\": it is there twice"
without qwen2 qwen2.embedding_length=32 "heads of 8\|token_embd.weight is no matrix of 32 columns"
without phi2 -phi2.attention.layer_norm_epsilon "norms add nan"
without phi2 phi2.rope.dimension_count=18 "18 rotated"
without gpt2 gpt2.feed_forward_length=128 "a width of 64, 128 in its blocks"
without gpt2 -gpt2.attention.layer_norm_epsilon "norms add nan"
make bad llama-tied +rope_freqs.weight
ends 4 'bad/model.gguf: the model has no "model.rope_freqs.weight", beside weights' "$gpt" --model m $small --import bad/model.gguf --test-only
weights llama +blk.0.attn_q_norm.weight 'the model has no "model.layers.\*.self_attn.q_norm.weight"'
weights llama -blk.1.ffn_up.weight 'no tensor "model.layers.1.mlp.up_proj.weight"'
weights olmo2 +blk.0.ffn_norm.weight 'the model has no "model.layers.\*.pre_feedforward_layernorm.weight"'
weights phi2 +blk.0.ffn_norm.weight 'the model has no "model.layers.\*.post_attention_layernorm.weight"'
weights gpt2 -position_embd.weight 'no tensor "wpe.weight"'
make m llama llama.attention.sliding_window=8 llama.rope.scaling.type=none llama.rope.scaling.factor=1.0
run --model m/model.gguf --data text --train-limit 10 --test-limit 3 --batch-size 4 --plan
grep -q '^folder, 8 tokens,' out || fail "the context is not the sliding window's: $(cat out)"
make m gemma2
ends 4 "gpt-train: --model: --context is 33, but its sliding window or its rotary positions end at 32 tokens" "$gpt" --model m/model.gguf --data text --context 33 --plan
ends 4 "gpt-train: --model: text: no GGUF file" "$gpt" --model text $small --plan
ends 4 "resmlp-train: m/model.gguf: no safetensors file, but a GGUF file" "$resmlp" --import m/model.gguf --steps 1

[ $failures = 0 ] || exit 1
