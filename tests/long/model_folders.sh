#!/bin/sh
# gpt-train --model beside transformers: random small models of each kind, most in several files; the loss of 8 sequences, the
# tokens that --sample takes one by one, the weights after a step of SGD, and the logits that --export and, in PEFT, --adapters
# have after training.
#
#     model_folders.sh BIN
#
# PYTHON (python3) has torch, transformers and peft. Exit status 0 if all losses are within 1e-4, and all else is the same.
. "$(dirname "$0")/../support/program.sh"
set -e
bin=$(whole "${1:?usage: model_folders.sh BIN}")
cd "$folder"
"${PYTHON:-python3}" - "$bin" <<'END'
import copy
import re
import subprocess
import sys

import numpy
import peft
import torch
import transformers as t
from safetensors.torch import load_file

CONTEXT, VOCABULARY, WRITTEN, RATE = 48, 211, 16, 0.125
torch.manual_seed(1)
sizes = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
gemma = dict(sizes, head_dim=24)
scaled = dict(original_max_position_embeddings=16, rope_theta=500.0)
ends = dict(sizes, pad_token_id=0, bos_token_id=0, eos_token_id=0)
neox = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64)
models = {
    "llama, scaled as Llama 3": t.LlamaForCausalLM(t.LlamaConfig(**sizes, rope_parameters=dict(
        scaled, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0))),
    "llama, scaled": t.LlamaForCausalLM(t.LlamaConfig(**sizes, rope_parameters=dict(
        rope_type="linear", factor=2.5, rope_theta=1e4))),
    "qwen2, yarn": t.Qwen2ForCausalLM(t.Qwen2Config(**sizes, rope_parameters=dict(scaled, rope_type="yarn", factor=4.0))),
    "qwen2, yarn of all": t.Qwen2ForCausalLM(t.Qwen2Config(**sizes, rope_parameters=dict(
        scaled, rope_type="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.5, mscale=0.7, mscale_all_dim=1.1, truncate=False))),
    "llama, longrope": t.LlamaForCausalLM(t.LlamaConfig(**sizes, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, factor=3.0, short_factor=[1 + i / 5 for i in range(8)], long_factor=[9.0] * 8))),
    "phi3": t.Phi3ForCausalLM(t.Phi3Config(**ends)),
    "phi3, tied": t.Phi3ForCausalLM(t.Phi3Config(**ends, tie_word_embeddings=True, sliding_window=CONTEXT)),
    "phi3, longrope": t.Phi3ForCausalLM(t.Phi3Config(**ends, original_max_position_embeddings=CONTEXT, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, short_factor=[1 + i / 5 for i in range(8)], long_factor=[9.0] * 8))),
    "phi3, a part rotates": t.Phi3ForCausalLM(t.Phi3Config(**ends, original_max_position_embeddings=CONTEXT, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, partial_rotary_factor=0.75, short_factor=[1 + i / 5 for i in range(6)],
        long_factor=[9.0] * 6))),
    "gemma": t.GemmaForCausalLM(t.GemmaConfig(**gemma)),
    "gemma2": t.Gemma2ForCausalLM(t.Gemma2Config(**gemma, query_pre_attn_scalar=24, sliding_window=CONTEXT)),
    "gemma2, other caps": t.Gemma2ForCausalLM(t.Gemma2Config(
        **gemma, query_pre_attn_scalar=7, attn_logit_softcapping=1.5, final_logit_softcapping=4.0)),
    "gemma2, no caps": t.Gemma2ForCausalLM(t.Gemma2Config(
        **gemma, query_pre_attn_scalar=64, attn_logit_softcapping=None, final_logit_softcapping=None)),
    "smollm3": t.SmolLM3ForCausalLM(t.SmolLM3Config(**ends, no_rope_layer_interval=2)),
    "smollm3, scaled": t.SmolLM3ForCausalLM(t.SmolLM3Config(
        **ends, no_rope_layers=[0, 1], attention_bias=True, tie_word_embeddings=False, rope_parameters=dict(
            scaled, rope_type="yarn", factor=4.0))),
    "olmo2": t.Olmo2ForCausalLM(t.Olmo2Config(**ends)),
    "olmo2, scaled": t.Olmo2ForCausalLM(t.Olmo2Config(
        **ends, attention_bias=True, rms_norm_eps=1e-3, tie_word_embeddings=True, rope_parameters=dict(
            scaled, rope_type="yarn", factor=4.0))),
    "gemma3": t.Gemma3ForCausalLM(t.Gemma3TextConfig(
        **gemma, query_pre_attn_scalar=24, sliding_window=CONTEXT, sliding_window_pattern=2)),
    "gemma3, scaled": t.Gemma3ForCausalLM(t.Gemma3TextConfig(
        **gemma, query_pre_attn_scalar=7, attention_bias=True, final_logit_softcapping=4.0, sliding_window=CONTEXT,
        layer_types=["full_attention", "sliding_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="yarn", factor=8.0, rope_theta=5e4, original_max_position_embeddings=16),
            sliding_attention=dict(rope_type="linear", factor=3.0, rope_theta=300.0)))),
    "gemma3, global": t.Gemma3ForCausalLM(t.Gemma3TextConfig(
        **gemma, query_pre_attn_scalar=24, sliding_window=4, sliding_window_pattern=1, attn_logit_softcapping=1.5,
        rope_scaling=dict(rope_type="linear", factor=8.0))),
    "gemma3, local": t.Gemma3ForCausalLM(t.Gemma3TextConfig(**gemma, sliding_window=CONTEXT)),
    "llama": t.LlamaForCausalLM(t.LlamaConfig(**sizes)),
    "llama with biases": t.LlamaForCausalLM(
        t.LlamaConfig(**sizes, attention_bias=True, rope_theta=5e5, rms_norm_eps=1e-4)),
    "llama, tied": t.LlamaForCausalLM(t.LlamaConfig(**sizes, tie_word_embeddings=True)),
    "mistral": t.MistralForCausalLM(t.MistralConfig(**sizes, sliding_window=CONTEXT)),
    "qwen2": t.Qwen2ForCausalLM(t.Qwen2Config(**sizes, rope_theta=1e6)),
    "qwen3": t.Qwen3ForCausalLM(t.Qwen3Config(**sizes, head_dim=24, rope_theta=1e6)),
    "mistral, wide heads": t.MistralForCausalLM(t.MistralConfig(**sizes, head_dim=32, sliding_window=None)),
    "pythia": t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**neox)),
    "gpt_neox, one after the other": t.GPTNeoXForCausalLM(t.GPTNeoXConfig(
        **neox, use_parallel_residual=False, rotary_pct=0.5, rotary_emb_base=500, tie_word_embeddings=True)),
    "phi": t.PhiForCausalLM(t.PhiConfig(**ends)),
    "phi, tied": t.PhiForCausalLM(t.PhiConfig(
        **ends, tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh", rope_parameters=dict(
            rope_type="linear", factor=2.5, rope_theta=500.0, partial_rotary_factor=0.75))),
    "gpt2": t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=CONTEXT,
                                           layer_norm_epsilon=1e-3, bos_token_id=0, eos_token_id=0)),
}
tokens = numpy.random.RandomState(0).randint(0, VOCABULARY, 4000).astype(numpy.uint16)
tokens.tofile("train.bin")
tokens.tofile("val.bin")
x = torch.tensor(tokens[:8 * CONTEXT].astype(numpy.int64)).view(8, CONTEXT)
y = torch.tensor(tokens[1:8 * CONTEXT + 1].astype(numpy.int64))


def train(name, *options):
    return subprocess.run([sys.argv[1] + "/gpt-train", "--model", name, "--context", str(CONTEXT), "--data", ".",
                           "--test-limit", "8", "--batch-size", "4", *options], capture_output=True, text=True)


def logits(model):
    with torch.no_grad():
        return model.eval()(x).logits


def written(model):
    """The likeliest tokens behind the first 32."""
    tokens = x[:1, :32]
    for _ in range(WRITTEN):
        with torch.no_grad():
            tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    return " ".join(map(str, tokens[0, 32:].tolist()))


def loaded(model, path):
    """A copy with the weights of a file."""
    made = copy.deepcopy(model)
    names = made.state_dict()
    state = {n if n in names else "transformer." + n if "transformer." + n in names else "model." + n: w
             for n, w in ((n.replace("embed_out", "lm_head"), w) for n, w in load_file(path).items())}
    assert not made.load_state_dict(state, strict=False).unexpected_keys
    made.tie_weights()
    return made


def stepped(model):
    """A copy after a step of SGD with all of x."""
    made = copy.deepcopy(model).eval()
    made.get_input_embeddings().padding_idx = None  # its row has a gradient, too
    torch.nn.functional.cross_entropy(made(x).logits.flatten(0, 1), y).backward()
    with torch.no_grad():
        for p in made.parameters():
            p.sub_(RATE * p.grad)
    return made


def far(made, want, before):
    """Parameters whose change is not the wanted one."""
    made, want, before = (dict(m.named_parameters()) for m in (made, want, before))
    return [n for n in want if (made[n] - want[n]).norm() > 2e-3 * (want[n] - before[n]).norm() + 1e-7 * want[n].norm()]


bad = 0
for name, model in models.items():
    with torch.no_grad():
        for p in model.parameters():
            p.add_((0.2 if p.dim() > 1 else 0.1) * torch.randn_like(p))
    want = torch.nn.functional.cross_entropy(logits(model).flatten(0, 1), y).item()
    model.save_pretrained(name, max_shard_size="5GB" if name == "qwen2" else "100KB")
    run = train(name, "--test-only", "--sample", str(WRITTEN), "--temperature", "0")
    got = re.search("test loss ([0-9.]+)", run.stdout)
    wrong = [] if got and abs(float(got[1]) - want) <= 1e-4 else ["loss"]
    if got and written(model) not in run.stdout:
        wrong.append("written tokens")
    step = train(name, "--steps", "1", "--train-limit", "8", "--batch-size", "8", "--no-augment", "--optimizer", "sgd",
                 "--momentum", "0", "--weight-decay", "0", "--warmup-epochs", "0", "--clip-norm", "0", "--lr", str(RATE),
                 "--export", "step")
    moved = far(loaded(model, "step"), stepped(model), model) if step.returncode == 0 else [step.stderr.strip()]
    wrong += [f"a step: {', '.join(moved)}"] if moved else []
    tuned = train(name, "--lora", "4", "--adapters", "adapters", "--export", "full", "--steps", "4", "--lr", "0.01",
                  "--activations", "least", "--train-limit", "64")
    if tuned.returncode == 0:
        full = logits(loaded(model, "full"))
        adapted = logits(peft.PeftModel.from_pretrained(copy.deepcopy(model), "adapters"))
        if (full - logits(model)).abs().max() < 0.01 or (adapted - full).abs().max() > 2e-5 * full.abs().max():
            wrong.append("adapters")
    else:
        wrong.append(tuned.stderr.strip())
    bad += bool(wrong)
    print(f"{name}: {want:.5f}, gpt-train {got[1] if got else run.stderr.strip()}{' WRONG ' if wrong else ''}{', '.join(wrong)}",
          flush=True)
sys.exit(bad > 0)
END
