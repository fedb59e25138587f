#!/usr/bin/env python3
"""Prints as CSV how much memory a process takes to train with SGD.

    memory.py [--models NAME...] [--ways NAME...] [--batch 16 48] [--threads 2] >memory.csv
    memory.py --table memory.csv     the table of README.md

Each row is of a process of its own, of two steps. Images have 224 px, texts 128 tokens, two for each of
`batch`. All run with MALLOC_MMAP_THRESHOLD_=262144, with which glibc gives freed tensors back: clprune sets
that itself, and PyTorch takes up to twice as much without. "shared": shares=True; "work": also
extra_work=33. Run it twice: the first run compiles kernels, for which the compiler takes up to 160 MiB more.

    peak_mib        peak (the kernel's VmHWM) above what the process has with the model and a batch
    process_mib     peak of the whole process, with libraries and model
"""

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

MODELS = {"vit_tiny": ("timm", "vit_tiny_patch16_224"), "resnet18": ("torchvision", "resnet18"),
          "BERT": ("transformers", "BERT")}
WAYS = ("PyTorch", "bf16", "checkpoint", "bf16 + checkpoint", "convert_", "convert_ + compressed",
        "bf16 + checkpoint + convert_ + compressed", "Net compact", "Net least", "Net compact, shared",
        "Net least, shared", "Net compact, shared, work")
COLUMNS = ("model", "batch", "way", "peak_mib", "process_mib")
STEPS = 2


def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def measure(model, way, batch, threads):
    """The peak of some steps in this process, above what it has before them, and in all."""
    import torch
    import torch.nn.functional as F

    import clprune
    from models import MODELS as MAKERS, checkpointed, inputs_of
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    key = MODELS[model]
    make, block = MAKERS[key]
    made = make(key[1]).train()
    x, y = inputs_of(key[1], batch)
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    if way.startswith("Net"):
        if isinstance(x, dict):
            x = dict(input_ids=x["input_ids"].clamp(min=1))  # 0 is padding, which a Net takes with a mask alone
        net = clprune.Net(made, x, keep=way.split()[1].rstrip(","), optimizer="sgd", momentum=0.0,
                          shares="shared" in way, extra_work=33 if "work" in way else 0)
        for _ in range(STEPS):
            net.step(x, y)
    else:
        optimizer = torch.optim.SGD(made.parameters(), 1e-3)
        if "checkpoint" in way:
            checkpointed(made, block)
        if "convert_" in way:
            clprune.convert_(made)
        for _ in range(STEPS):
            with contextlib.ExitStack() as stack:
                if "compressed" in way:
                    stack.enter_context(clprune.compressed())
                if "bf16" in way:
                    stack.enter_context(torch.autocast("cpu", torch.bfloat16))
                out = made(**x) if isinstance(x, dict) else made(x)
                loss = F.cross_entropy(getattr(out, "logits", out).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del out, loss
    peak = status("VmHWM")
    print(json.dumps([round(peak - before), round(peak)]))


def child(args, model, way, batch):
    """What `measure` prints in another process; None: the model has no such way."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", model, way, str(batch), "--threads", str(args.threads)],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "262144"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{model}, {way}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def table(path):
    with open(path) as file:
        rows = list(csv.DictReader(file))
    columns = list(dict.fromkeys((row["model"], row["batch"]) for row in rows))
    print("| | " + " | ".join(f"{model}, {batch}" for model, batch in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    cells = {(row["model"], row["batch"], row["way"]): row for row in rows}
    for way in dict.fromkeys(row["way"] for row in rows):
        texts = []
        for column in columns:
            row = cells.get((*column, way))
            texts.append(row["peak_mib"] if row else "-")
        print(f"| {way} | " + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY")
    parser.add_argument("--batch", nargs="+", type=int, default=[16, 48])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", metavar="CSV")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table:
        return table(args.table)
    if args.one:
        warnings.filterwarnings("ignore")
        return measure(args.one[0], args.one[1], int(args.one[2]), args.threads)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for model in args.models:
        for batch in args.batch:
            for way in args.ways:
                peaks = child(args, model, way, batch)
                if peaks:
                    writer.writerow([model, batch, way, *peaks])
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
