#!/bin/sh
# gpt-train --model beside transformers: random small models of each kind, most in several files; the loss of 8 sequences.
#
#     model_folders.sh BIN
#
# PYTHON (python3) has torch and transformers. Exit status 0 if all are within 1e-4.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
bin=$(cd "${1:?usage: model_folders.sh BIN}" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" - "$bin" <<'END'
import re
import subprocess
import sys

import numpy
import torch
import transformers as t

CONTEXT, VOCABULARY = 32, 211
torch.manual_seed(1)
sizes = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
models = {
    "llama": t.LlamaForCausalLM(t.LlamaConfig(**sizes)),
    "llama with biases": t.LlamaForCausalLM(
        t.LlamaConfig(**sizes, attention_bias=True, rope_theta=5e5, rms_norm_eps=1e-4)),
    "llama, tied": t.LlamaForCausalLM(t.LlamaConfig(**sizes, tie_word_embeddings=True)),
    "mistral": t.MistralForCausalLM(t.MistralConfig(**sizes, sliding_window=CONTEXT)),
    "qwen2": t.Qwen2ForCausalLM(t.Qwen2Config(**sizes, rope_theta=1e6)),
    "qwen3": t.Qwen3ForCausalLM(t.Qwen3Config(**sizes, head_dim=24, rope_theta=1e6)),
    "mistral, wide heads": t.MistralForCausalLM(t.MistralConfig(**sizes, head_dim=32, sliding_window=None)),
    "gpt2": t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=64,
                                           layer_norm_epsilon=1e-3, bos_token_id=0, eos_token_id=0)),
}
tokens = numpy.random.RandomState(0).randint(0, VOCABULARY, 4000).astype(numpy.uint16)
tokens.tofile("train.bin")
tokens.tofile("val.bin")
x = torch.tensor(tokens[:8 * CONTEXT].astype(numpy.int64)).view(8, CONTEXT)
y = torch.tensor(tokens[1:8 * CONTEXT + 1].astype(numpy.int64))
bad = 0
for name, model in models.items():
    with torch.no_grad():
        for p in model.parameters():
            p.add_((0.2 if p.dim() > 1 else 0.1) * torch.randn_like(p))
        want = torch.nn.functional.cross_entropy(model.eval()(x).logits.flatten(0, 1), y).item()
    model.save_pretrained(name, max_shard_size="5GB" if name == "qwen2" else "100KB")
    run = subprocess.run([sys.argv[1] + "/gpt-train", "--model", name, "--context", str(CONTEXT), "--data", ".",
                          "--test-only", "--test-limit", "8", "--batch-size", "4"], capture_output=True, text=True)
    got = re.search("test loss ([0-9.]+)", run.stdout)
    off = abs(float(got[1]) - want) if got else float("inf")
    bad += off > 1e-4
    print(f"{name}: {want:.5f}, gpt-train {got[1] if got else run.stderr.strip()}")
sys.exit(bad > 0)
END
