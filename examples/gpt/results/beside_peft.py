#!/usr/bin/env python3
"""Fine-tunes a language model by transformers and PEFT on the CPU, as beside_peft.sh does by gpt-train: the same weights, the same
first adapters, the same batch in each step.

    beside_peft.py MODEL ADAPTERS TOKENS [--context 512] [--batch-size 1] [--steps 100] [--lr 1e-3] [--precision fp32|bf16]
            [--checkpoint]
    beside_peft.py --tokens MODEL TEXT TOKENS
    beside_peft.py --random MODEL

Prints the loss of each step, then ms a step (the median, without the first three) and the peak of the process in MiB, as
CSV. bf16: the frozen weights are bf16, the adapters fp32, and products run under autocast. --tokens: writes the tokens of a
text, uint16 each, or uint32 where the vocabulary needs it; of a model without a tokenizer its bytes. --random: makes a folder
with a model of TinyLlama's shape, of random weights in bf16, without a tokenizer. There is no dropout.
"""
import argparse
import array
import contextlib
import os
import resource
import statistics
import sys
import time

import torch
import transformers


def write_tokens(folder, text, path):
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with open(text, encoding="utf-8") as file:
            tokens = array.array("H" if len(tokenizer) <= 1 << 16 else "I", tokenizer(file.read())["input_ids"])
    else:
        with open(text, "rb") as file:
            tokens = array.array("H", list(file.read()))
    with open(path, "wb") as file:
        tokens.tofile(file)


def make_random(folder):
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def read_batch(args, vocabulary):
    """Sequence i begins at token i * context; the token behind it is its last label."""
    tokens = array.array("H" if vocabulary <= 1 << 16 else "I")
    with open(args.tokens_file, "rb") as file:
        tokens.fromfile(file, args.batch_size * args.context + 1)
    rows = [list(tokens[i * args.context:(i + 1) * args.context + 1]) for i in range(args.batch_size)]
    return torch.tensor(rows)


def make_model(args):
    import peft
    kind = torch.bfloat16 if args.precision == "bf16" else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=kind)
    model.config.use_cache = False
    for module in model.modules():
        for name in ("p", "attention_dropout", "attn_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    if args.checkpoint:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    model = peft.PeftModel.from_pretrained(model, args.adapters, is_trainable=True)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model.train()


def main():
    if sys.argv[1:2] == ["--tokens"]:
        return write_tokens(*sys.argv[2:5])
    if sys.argv[1:2] == ["--random"]:
        return make_random(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("adapters")
    parser.add_argument("tokens_file")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--checkpoint", action="store_true")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    model = make_model(args)
    batch = read_batch(args, model.config.vocab_size)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    times = []
    print("step,loss")
    for step in range(1, args.steps + 1):
        begun = time.perf_counter()
        cast = torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
        with cast:
            logits = model(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        times.append(1000 * (time.perf_counter() - begun))
        print(f"{step},{loss.item():.6f}", flush=True)
    print("ms,process_mib")
    print(f"{statistics.median(times[3:] or times):.0f},{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    return None


if __name__ == "__main__":
    main()
