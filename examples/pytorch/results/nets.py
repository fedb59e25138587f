#!/usr/bin/env python3
"""Prints as CSV, for whole models of torchvision and timm, a training step of PyTorch and of
clprune.Net: the loss of each of three steps, what is kept, and the time.

    nets.py [--models NAME...] [--batch-size 8] [--rounds 5] >nets.csv

The sides take turns; the time is the median of `rounds` steps after the first three. bf16 is
autocast for PyTorch, and products in bf16 for clprune.Net. PyTorch's ways are eager and compiled (torch.compile, which needs a
C++ compiler), both also with images and weights as channels_last. timm.NAME is timm's where torchvision has such a model, too.
"""

import argparse
import contextlib
import copy
import csv
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn.functional as F

import clprune

SIDE = 224
MODELS = ["resnet18", "mixer_s16_224", "swin_tiny_patch4_window7_224", "timm.efficientnet_b0",
          "timm.mobilenetv3_large_100", "timm.convnext_tiny"]
WAYS = ["eager", "channels_last", "compiled", "compiled channels_last"]
KEEPS = [("dense", 4), ("exact", 4), ("compact", 4), ("least", 8), ("least", 4)]


def create(name):
    torch.manual_seed(0)
    if "_224" in name or name.startswith("timm."):
        import timm
        return timm.create_model(name.removeprefix("timm."), drop_path_rate=0.0)
    import torchvision
    return getattr(torchvision.models, name)()


class Autograd:
    def __init__(self, name, x, y, precision, lr, way):
        self.bf16 = precision == "bf16"
        self.format = torch.channels_last if "channels_last" in way else torch.contiguous_format
        self.model = create(name).to(memory_format=self.format)
        first = copy.deepcopy(self.model.state_dict())
        if "compiled" in way:
            self.model.compile()
        with clprune.saved_bytes(self.model, x) as saved:
            held = self.loss(x, y)
        self.saved_bytes = saved.total
        del held
        self.model.load_state_dict(first)  # with its first running statistics
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr, momentum=0.9)

    def loss(self, x, y):
        cast = torch.autocast("cpu", torch.bfloat16) if self.bf16 else contextlib.nullcontext()
        with cast:
            return F.cross_entropy(self.model(x.contiguous(memory_format=self.format)), y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["model", "side", "keep", "bits", "precision", "loss1", "loss2", "loss3",
                    "saved_mib", "step_ms"])
    for name in args.models:
        torch.manual_seed(1)
        x = torch.randn(args.batch_size, 3, SIDE, SIDE)
        y = torch.randint(1000, (args.batch_size,))
        sides = []
        for precision in "fp32", "bf16":
            sides += [(("pytorch", way, "", precision), Autograd(name, x, y, precision, args.lr, way))
                      for way in WAYS]
            sides += [(("clprune", keep, bits, precision),
                       clprune.Net(create(name), x, keep=keep, bits=bits, optimizer="sgd",
                                   lr=args.lr, precision=precision)) for keep, bits in KEEPS]
        losses = [[side.step(x, y) for _ in range(3)] for _, side in sides]
        times = [[] for _ in sides]
        for _ in range(args.rounds):
            for (_, side), taken in zip(sides, times):
                start = time.perf_counter()
                side.step(x, y)
                taken.append(1000 * (time.perf_counter() - start))
        for (what, side), first, taken in zip(sides, losses, times):
            table.writerow([name, *what, *(f"{loss:.6f}" for loss in first),
                            f"{side.saved_bytes / 2**20:.2f}", f"{statistics.median(taken):.0f}"])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
