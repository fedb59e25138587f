#!/usr/bin/env python3
"""Prints as CSV, for models of timm, torchvision and transformers: what a forward pass leaves in
memory for the backward pass, how far the gradients are from PyTorch's, and the time of both passes.

    models.py [--models NAME...] [--keep NAME...] [--batch 2] [--rounds 3] [--threads 1] >models.csv
    models.py --table models.csv     the table of README.md

Each model is trained as PyTorch has it, after clprune.convert_, and that within clprune.compressed;
the first and last also under bf16 autocast, with torch.utils.checkpoint for each block, and with both.
Weights and data are random, of a fixed seed; dropout and stochastic depth are on.

    mib          bytes of all storages that the forward pass made and that are alive after it, but
                 the loss: counted below autograd by a TorchDispatchMode, without clprune's help
    hooks_mib    what saved_tensors_hooks of PyTorch see, in fp32 without `compressed`
    same_output  whether the output has the bits of PyTorch's in the same setting
    error        |g - g0| / |g0| of the gradient of all parameters, g0 PyTorch's in the same setting
    ms, cpu_ms   medians of a forward and a backward pass in fp32: wall time, and CPU time of all
                 threads
"""

import argparse
import contextlib
import copy
import csv
import functools
import os
import statistics
import sys
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import clprune

CLASSES = 100


# ---------------------------------------------------------------------------------------------
# Models: how to make one, the class of its blocks, and what it reads
# ---------------------------------------------------------------------------------------------


def timm_model(name):
    import timm
    return timm.create_model(name, num_classes=CLASSES)


def torchvision_model(name):
    import torchvision
    return getattr(torchvision.models, name)(num_classes=CLASSES)


def transformers_model(name):
    import transformers as t
    vit = dict(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768)
    return {
        "BERT": lambda: t.BertForSequenceClassification(t.BertConfig(
            vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
            intermediate_size=1024, num_labels=CLASSES)),
        "DistilBERT": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(
            vocab_size=1000, dim=256, n_layers=4, n_heads=4, hidden_dim=1024, num_labels=CLASSES)),
        "ViT": lambda: t.ViTForImageClassification(t.ViTConfig(num_labels=CLASSES, **vit)),
        "Llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(
            vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=704, use_cache=False)),
        "T5": lambda: t.T5ForConditionalGeneration(t.T5Config(
            vocab_size=1000, d_model=256, d_kv=64, d_ff=1024, num_layers=3, num_heads=4,
            decoder_start_token_id=0, use_cache=False)),
        "GPT-2": lambda: t.GPT2LMHeadModel(t.GPT2Config(
            vocab_size=1000, n_embd=256, n_layer=4, n_head=4, use_cache=False)),
    }[name]()


MODELS = {
    **{("timm", name): (timm_model, block) for name, block in (
        ("vit_tiny_patch16_224", "Block"), ("deit_tiny_patch16_224", "Block"),
        ("swin_tiny_patch4_window7_224", "SwinTransformerBlock"), ("mixer_s16_224", "MixerBlock"),
        ("resmlp_12_224", "ResBlock"), ("gmlp_s16_224", "SpatialGatingBlock"),
        ("convnext_atto", "ConvNeXtBlock"), ("resnet18", "BasicBlock"))},
    **{("torchvision", name): (torchvision_model, block) for name, block in (
        ("resnet18", "BasicBlock"), ("efficientnet_b0", "MBConv"),
        ("mobilenet_v3_large", "InvertedResidual"), ("swin_t", "SwinTransformerBlock"),
        ("vit_b_16", "EncoderBlock"))},
    **{("transformers", name): (transformers_model, block) for name, block in (
        ("BERT", "BertLayer"), ("DistilBERT", "TransformerBlock"), ("ViT", "ViTLayer"),
        ("Llama", "LlamaDecoderLayer"), ("T5", "T5Block"), ("GPT-2", "GPT2Block"))},
}
TOKENS = ("BERT", "DistilBERT", "Llama", "T5", "GPT-2")


def inputs_of(name, batch, tokens=128):
    """Arguments of the model, and the labels of its output."""
    generator = torch.Generator().manual_seed(5)
    if name not in TOKENS:
        images = torch.randn(batch, 3, 224, 224, generator=generator)
        labels = torch.randint(CLASSES, (batch,), generator=generator)
        return (dict(pixel_values=images) if name == "ViT" else images), labels
    ids = torch.randint(1000, (2 * batch, tokens), generator=generator)
    if name == "T5":
        return dict(input_ids=ids, decoder_input_ids=ids.roll(1, 1)), ids
    return dict(input_ids=ids), (
        torch.randint(CLASSES, (2 * batch,), generator=generator) if "BERT" in name else ids)


def checkpointed(model, block):
    """The model with torch.utils.checkpoint around each of its blocks."""
    found = [m for m in model.modules() if type(m).__name__ == block]
    if not found:
        raise ValueError(f"there is no {block}")
    for m in found:
        m.forward = functools.partial(checkpoint, m.forward, use_reentrant=False)
    return model


# ---------------------------------------------------------------------------------------------
# Measuring
# ---------------------------------------------------------------------------------------------


class Alive(TorchDispatchMode):
    """The storages that operations have made, as long as they are alive."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                ref = self.seen.get(storage._cdata)
                if ref is None or ref[0].expired():
                    self.seen[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return result

    def bytes_but(self, held):
        """Their sum without the storages of the tensors `held`."""
        held = {tensor.untyped_storage()._cdata for tensor in held}
        return sum(size for key, (ref, size) in self.seen.items()
                   if key not in held and not ref.expired())


class Hooks:
    """What autograd saves, by PyTorch's saved_tensors_hooks alone."""

    def __init__(self, held):
        self.held = {tensor.untyped_storage().data_ptr() for tensor in held}
        self.seen = {}

    def pack(self, x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in self.held:
            self.seen[storage.data_ptr()] = storage.nbytes()
        return x.detach()


def forward(model, x, labels, bf16):
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        y = model(**x) if isinstance(x, dict) else model(x)
        y = y if isinstance(y, torch.Tensor) else y.logits
    return y, F.cross_entropy(y.float().flatten(0, -2), labels.flatten())


def run(model, x, labels, bf16, around):
    """The output and the gradient of all parameters."""
    model.zero_grad()
    torch.manual_seed(7)
    with around():
        y, loss = forward(model, x, labels, bf16)
    loss.backward()
    return y.detach(), torch.cat([
        p.grad.flatten() for p in model.parameters() if p.grad is not None]).double()


def count(model, x, labels, bf16, around, by_hooks):
    """Bytes by Alive, and if `by_hooks` also by Hooks where nothing else takes the hooks."""
    held = [*model.parameters(), *model.buffers(), *tree_leaves(x), labels]
    with around(), Alive() as alive:
        loss = forward(model, x, labels, bf16)[1]
    made = alive.bytes_but([*held, loss])
    del loss
    if not by_hooks or around is not contextlib.nullcontext:
        return made, None
    hooks = Hooks(held)
    with torch.autograd.graph.saved_tensors_hooks(hooks.pack, lambda x: x):
        loss = forward(model, x, labels, bf16)[1]
    del loss
    return made, sum(hooks.seen.values())


KEEP = "dense", "convert", "compressed"


def measure(key, batch, rounds, chosen):
    source, name = key
    make, block = MODELS[key]
    x, labels = inputs_of(name, batch)
    torch.manual_seed(0)
    start = make(name).train()
    for p in start.parameters():  # heads of zeros would give zero gradients elsewhere
        if p.dim() > 1 and not p.any():
            torch.nn.init.normal_(p, std=0.02)
    compressed = functools.partial(clprune.compressed, bits=8)
    rows, timed = [], []
    for setting in "fp32", "bf16", "checkpoint", "bf16+checkpoint":
        bf16 = "bf16" in setting
        want = None
        keeps = [keep for keep in (KEEP if setting == "fp32" else KEEP[2:]) if keep in chosen]
        for keep in ["pytorch", *keeps] if keeps else []:
            model, around = copy.deepcopy(start), contextlib.nullcontext
            if keep != "pytorch":
                clprune.convert_(model, **(dict(form="dense") if keep == "dense" else {}))
            if keep == "compressed":
                around = compressed
            if "checkpoint" in setting:
                checkpointed(model, block)
            y, g = run(model, x, labels, bf16, around)
            row = dict(source=source, model=name, setting=setting, keep=keep)
            if want is None:
                want = y, g
            else:
                row.update(same_output=torch.equal(y, want[0]),
                           error=f"{float((g - want[1]).norm() / want[1].norm()):.3g}")
            if keep != "dense":
                made, hooks = count(model, x, labels, bf16, around, setting == "fp32")
                row.update(mib=f"{made / 2**20:.3f}",
                           hooks_mib="" if hooks is None else f"{hooks / 2**20:.3f}")
            if setting == "fp32" and keep != "dense":
                timed.append((row, model, bf16, around, [], []))
            rows.append(row)
    for _ in range(rounds):  # in turns, so that drift of the machine affects all alike
        for _, model, bf16, around, wall, cpu in timed:
            begin = time.perf_counter(), time.process_time()
            run(model, x, labels, bf16, around)
            wall.append(1000 * (time.perf_counter() - begin[0]))
            cpu.append(1000 * (time.process_time() - begin[1]))
    for row, *_, wall, cpu in timed:
        if wall:
            row.update(ms=f"{statistics.median(wall):.0f}", cpu_ms=f"{statistics.median(cpu):.0f}")
    return rows


# ---------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------


def table(path):
    found = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            found.setdefault((row["source"], row["model"]), {})[row["setting"], row["keep"]] = row
    settings = "fp32", "bf16", "checkpoint", "bf16+checkpoint"
    heads = ["model", "PyTorch", "`convert_`", "and `compressed`", "bf16", "kept so", "checkpoint",
             "kept so", "both", "kept so", "error", "dense", "CPU time"]
    lines, shares = [], []
    for (source, name), rows in found.items():
        full = float(rows["fp32", "pytorch"]["mib"])
        kept = [rows["fp32", "convert"]] + [
            rows[setting, keep] for setting in settings for keep in ("pytorch", "compressed")][1:]
        shares.append([100 * float(row["mib"]) / full for row in kept])
        ours, theirs = rows["fp32", "compressed"], rows["fp32", "pytorch"]
        lines.append([f"{name.split('_patch')[0]} ({source})", f"{full:.0f} MiB"] + [
            f"{share:.0f} %" for share in shares[-1]] + [
            f"{100 * float(ours['error']):.0f} %",
            f"{float(rows['fp32', 'dense']['error']):.0e}".replace("0e+00", "0"),
            f"x {float(ours['cpu_ms']) / float(theirs['cpu_ms']):.2f}" if ours["cpu_ms"] else ""])
    lines.append(["mean", ""] + [f"{statistics.mean(s):.0f} %" for s in zip(*shares)] + [""] * 3)
    for line in heads, ["---"] * len(heads), *lines:
        print("| " + " | ".join(line) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", help="names; timm/resnet18 names one of two")
    parser.add_argument("--keep", nargs="+", choices=KEEP, default=KEEP,
                        help="rows beside those of PyTorch")
    parser.add_argument("--batch", type=int, default=2, help="images; twice as many texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", metavar="FILE")
    args = parser.parse_args()
    if args.table:
        return table(args.table)
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    names = ["source", "model", "setting", "keep", "mib", "hooks_mib", "same_output", "error", "ms",
             "cpu_ms"]
    rows = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    rows.writeheader()
    for key in MODELS:
        if not args.models or key[1] in args.models or "/".join(key) in args.models:
            rows.writerows(measure(key, args.batch, args.rounds, args.keep))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
