#!/usr/bin/env python3
"""Trains an MLP or a small vision transformer, as PyTorch has it or converted by clprune.

    train.py --model vit                          generated images
    train.py --model vit --keep compressed        the same, activations kept as codes
    train.py --model mlp --keep quantised --data cifar-10-batches-bin --epochs 5

Prints a line for each epoch, at the end what autograd saves between the forward and the backward
pass, and with --json FILE appends all of it to FILE as one line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import time
from typing import IO, ContextManager, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clprune

# How activations may be kept: arguments of clprune.convert_, or None for PyTorch's own modules.
KEEPS: Dict[str, Optional[dict]] = {
    "pytorch": None,
    "dense": dict(form="dense", kinds=[nn.Linear]),
    "linear": dict(kinds=[nn.Linear]),
    "largest": dict(criterion="largest"),
    "sampled": dict(criterion="sampled"),
    "sampled-int8": dict(criterion="sampled", values="int8", gelu_bits=4),
    "quantised": dict(form="quantised", bits=4, gelu_bits=4),
    "compressed": dict(form="quantised", bits=4),  # and in clprune.compressed
}


# ---------------------------------------------------------------------------------------------
# Models
# ---------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Multi-head attention whose q, k and v are linear layers of one input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            layer(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v))
        weights = (q @ k.transpose(2, 3) * (width // self.heads) ** -0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """A vision transformer for images of 32 x 32: patches of 4 x 4, so 64 tokens."""

    def __init__(self, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * 4 * 4, width)
        self.position = nn.Parameter(torch.randn(64, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = F.unfold(images, kernel_size=4, stride=4).transpose(1, 2)
        x = self.blocks(self.embed(patches) + self.position)
        return self.head(self.norm(x).mean(1))


def mlp(width: int, depth: int, classes: int) -> nn.Module:
    layers: List[nn.Module] = [nn.Flatten(), nn.Linear(3 * 32 * 32, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def build(model: str, keep: str, sparsity: float) -> nn.Module:
    made = mlp(1024, 4, 10) if model == "mlp" else Vit(96, 3, 3, 10)
    how = KEEPS[keep]
    # The first layer reads the batch, which the training loop holds anyway: pruning its input
    # would save nothing.
    if how is not None:
        clprune.convert_(made, sparsity, skip=["1" if model == "mlp" else "embed"], **how)
    return made


# ---------------------------------------------------------------------------------------------
# Data
# ---------------------------------------------------------------------------------------------


def read_cifar(folder: str) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images as bytes and labels, for training and for testing, of CIFAR-10's binary version."""

    def read(names: List[str]) -> Tuple[Tensor, Tensor]:
        records = []
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                records.append(torch.frombuffer(bytearray(file.read()), dtype=torch.uint8))
        table = torch.cat(records).view(-1, 1 + 3 * 32 * 32)
        return table[:, 1:].reshape(-1, 3, 32, 32), table[:, 0].long()

    return (*read([f"data_batch_{i}.bin" for i in range(1, 6)]), *read(["test_batch.bin"]))


def generate(train: int = 4096, test: int = 1024) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same with noise on ten patterns, to try things out."""
    generator = torch.Generator().manual_seed(0)
    patterns = F.interpolate(torch.randn(10, 3, 8, 8, generator=generator), size=(32, 32))
    made = []
    for count in train, test:
        labels = torch.randint(10, (count,), generator=generator)
        noise = torch.randn(count, 3, 32, 32, generator=generator)
        images = (128 + 40 * (0.3 * patterns[labels] + noise)).clamp(0, 255).to(torch.uint8)
        made += [images, labels]
    return tuple(made)


MEAN, STD = (torch.tensor(v).view(3, 1, 1) for v in ([0.4914, 0.4822, 0.4465],
                                                     [0.2470, 0.2435, 0.2616]))


def to_floats(images: Tensor, flip: bool = False) -> Tensor:
    """Images scaled to mean 0 and variance 1, mirrored by chance."""
    images = (images.float() / 255 - MEAN) / STD
    if flip:
        images = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images, images.flip(3))
    return images


# ---------------------------------------------------------------------------------------------
# Training
# ---------------------------------------------------------------------------------------------


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(to_floats(x)).argmax(1) == y).sum())
            for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return 100 * right / len(labels)


def around(keep: str) -> ContextManager:
    """What the forward pass runs in."""
    return clprune.compressed(bits=8) if keep == "compressed" else contextlib.nullcontext()


def saved_mib(model: nn.Module, keep: str, batch: Tensor, labels: Tensor) -> float:
    """MiB that autograd saves for a batch, without parameters and the batch."""
    with clprune.saved_bytes(model, batch, labels) as saved, around(keep):
        loss = F.cross_entropy(model(batch), labels)
    loss.backward()
    model.zero_grad()
    return saved.total / 2**20


def train(args: argparse.Namespace, data: Tuple[Tensor, Tensor, Tensor, Tensor]) -> dict:
    torch.manual_seed(args.seed)
    images, labels, test_images, test_labels = data
    model = build(args.model, args.keep, args.sparsity)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    steps = args.epochs * (len(images) // args.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=max(steps, 2))
    scores, losses, step_ms = [], [], []
    for epoch in range(args.epochs):
        total = 0.0
        order = torch.randperm(len(images)).split(args.batch_size)
        order = [batch for batch in order if len(batch) == args.batch_size]
        for batch in order:
            x, y = to_floats(images[batch], flip=True), labels[batch]
            start = time.perf_counter()
            with around(args.keep):
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step_ms.append(1000 * (time.perf_counter() - start))
            schedule.step()
            total += loss.item()
        losses.append(total / len(order))
        scores.append(accuracy(model, test_images, test_labels))
        print(f"{args.model} {args.keep} seed {args.seed} epoch {epoch + 1}: loss "
              f"{losses[-1]:.4f}, accuracy {scores[-1]:.2f} %, step "
              f"{statistics.median(step_ms):.1f} ms", flush=True)
    x, y = to_floats(images[:args.batch_size]), labels[:args.batch_size]
    kept = saved_mib(model, args.keep, x, y)
    print(f"autograd saves {kept:.2f} MiB for a batch of {args.batch_size}")
    if args.report:
        with around(args.keep):
            print(clprune.summary(model), clprune.report(model, x), sep="\n")
    return dict(
        model=args.model, keep=args.keep, sparsity=args.sparsity, seed=args.seed,
        batch_size=args.batch_size, data="CIFAR-10" if args.data else "generated",
        images=len(images), epochs=args.epochs, saved_mib=round(kept, 3),
        step_ms=round(statistics.median(step_ms), 2) if step_ms else None,
        loss=[round(v, 4) for v in losses], accuracy=[round(v, 2) for v in scores],
        peak_resident_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        torch=torch.__version__)


def open_json(parser: argparse.ArgumentParser, path: str) -> IO[str]:
    """The file, to be appended to. O_NONBLOCK: a pipe without a reader is an error, not a wait."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        os.set_blocking(descriptor, True)
        return open(descriptor, "a")
    except OSError as error:
        parser.error(f"argument --json: cannot write {path}: {error.strerror}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=["mlp", "vit"], default="vit")
    parser.add_argument("--keep", choices=list(KEEPS), default="pytorch")
    parser.add_argument("--sparsity", type=float, default=0.7)
    parser.add_argument("--data", help="folder with data_batch_1.bin and the others of CIFAR-10")
    parser.add_argument("--images", type=int, help="train on the first so many only")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of PyTorch")
    parser.add_argument("--report", action="store_true", help="print what each module keeps")
    parser.add_argument("--json", help="append the result to this file")
    args = parser.parse_args()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else PoCL cannot wait for its linker
    if args.threads:
        torch.set_num_threads(args.threads)
    images, labels, *test = read_cifar(args.data) if args.data else generate()
    images, labels = images[:args.images], labels[:args.images]
    if not 0 < args.batch_size <= len(images):
        parser.error(f"argument --batch-size: {args.batch_size} is not in 1 to {len(images)}, "
                     "the number of images")
    file = open_json(parser, args.json) if args.json else None  # before the training
    result = train(args, (images, labels, *test))
    if file:
        with file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
