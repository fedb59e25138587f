#!/bin/sh
# gpt-train --model FILE.gguf beside transformers, which reads such files, too: small random models of each architecture
# (tests/models/make_gguf.py), and each FILE, on a text that its own tokenizer takes apart; the loss of 8 sequences. Where
# transformers does not read what scales positions or scores, or no Gemma, it has the folder beside the file.
#
#     gguf_models.sh BIN [FILE.gguf...]
#
# PYTHON (python3) has torch, transformers and gguf. Exit status 0 if all are within 1e-4.
. "$(dirname "$0")/../support/program.sh"
set -e
here=$(whole "$(dirname "$0")")
bin=$(whole "${1:?usage: gguf_models.sh BIN [FILE.gguf...]}")
shift
for file in "$@"; do
    shift
    set -- "$@" "$(whole "$file")"
done
cd "$folder"
"${PYTHON:-python3}" - "$bin" "$here" "$@" <<'END'
import os
import re
import subprocess
import sys

import numpy
import torch
import transformers as t

CONTEXT = 32
program, here, files = sys.argv[1] + "/gpt-train", sys.argv[2], sys.argv[3:]
text = open(here + "/../../CHANGELOG.md", encoding="utf-8").read()
bad = 0


def compare(path, tokens, name, **config):
    """The file and its model in transformers, on the same tokens."""
    global bad
    tokens = numpy.array(tokens, dtype=numpy.uint16)
    tokens.tofile("train.bin")
    tokens.tofile("val.bin")
    x = torch.tensor(tokens[:8 * CONTEXT].astype(numpy.int64)).view(8, CONTEXT)
    y = torch.tensor(tokens[1:8 * CONTEXT + 1].astype(numpy.int64))
    model = t.AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32,
                                                   **config)
    with torch.no_grad():
        want = torch.nn.functional.cross_entropy(model.eval()(x).logits.flatten(0, 1), y).item()
    run = subprocess.run([program, "--model", path, "--context", str(CONTEXT), "--data", ".", "--test-only", "--test-limit", "8",
                          "--batch-size", "4"], capture_output=True, text=True)
    got = re.search("test loss ([0-9.]+)", run.stdout)
    off = abs(float(got[1]) - want) if got else float("inf")
    bad += not off <= 1e-4
    print(f"{name}: {want:.5f}, gpt-train {got[1] if got else run.stderr.strip()}", flush=True)


# What transformers does not read.
more = {"gpt2": dict(n_positions=64), "qwen3": dict(head_dim=24), "phi3": dict(pad_token_id=0),
        "gemma2": dict(query_pre_attn_scalar=24, attn_logit_softcapping=5.0, final_logit_softcapping=3.0, head_dim=24),
        "gemma3": dict(query_pre_attn_scalar=24, final_logit_softcapping=3.0, layer_types=["sliding_attention", "full_attention"],
                       rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=5e4),
                                            sliding_attention=dict(rope_type="default", rope_theta=500.0)))}
for model, kind in (("llama", "F32"), ("llama-tied", "Q8_0"), ("qwen2", "F16"), ("qwen3", "BF16"), ("phi3", "F16"),
                    ("gemma2", "Q8_0"), ("gemma3", "Q8_0"), ("gpt2", "Q4_1")):
    subprocess.run([sys.executable, here + "/../models/make_gguf.py", model, model, kind], check=True)
    compare(os.path.abspath(f"{model}/model.gguf"), list(text.encode()[:4000]), f"{model}, {kind}", **more.get(model, {}))

# The losses of tests/models/gguf_losses.txt are those of transformers' folders.
tokens = torch.arange(8 * 24 + 1) * 7 % 256
for line in open(here + "/../models/gguf_losses.txt", encoding="ascii"):
    model, loss = line.split()
    subprocess.run([sys.executable, here + "/../models/make_gguf.py", model, model], check=True)
    with torch.no_grad():
        logits = t.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()(tokens[:-1].view(8, 24)).logits
    want = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:]).item()
    bad += not abs(float(loss) - want) <= 1e-5
    print(f"{model}: {want:.5f}, gguf_losses.txt {loss}", flush=True)
for path in files:
    tokenizer = t.AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    compare(path, tokenizer(text)["input_ids"][:8 * CONTEXT + 100], os.path.basename(path))
sys.exit(bad > 0)
END
