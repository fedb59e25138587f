#!/usr/bin/env python3
"""The recipe of cifar10.study in PyTorch on the CPU, for comparison: prints accuracy, time and memory.

    airbench.py DATA [--precision bf16] [--seed N] [--steps N]

DATA is a folder with CIFAR-10, binary version. The network and the recipe are those of airbench94 (arXiv
2404.00498) with batches of 1000 for ten epochs; the random numbers are PyTorch's.
"""
import argparse
import pathlib
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH, EPOCHS, LR, MOMENTUM, DECAY, BIAS_LR = 1000, 10, 1.5, 0.85, 0.00133, 64
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)


def read(folder, names):
    """Normalised images and labels of files of records: a label, 3 x 32 x 32 bytes."""
    files = [next(pathlib.Path(folder).rglob(name)) for name in names]
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    return (images - MEAN) / DEVIATION, torch.from_numpy(records[:, 0]).long()


def norm(channels):
    made = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    made.weight.requires_grad_(False)
    return made


def conv(inputs, outputs):
    made = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(made.weight.data[:inputs])
    return made


def group(inputs, outputs):
    return nn.Sequential(conv(inputs, outputs), nn.MaxPool2d(2), norm(outputs), nn.GELU(),
                         conv(outputs, outputs), norm(outputs), nn.GELU())


def make_model(images):
    whiten = nn.Conv2d(3, 24, 2)
    patches = F.unfold(images[:5000], 2).transpose(1, 2).reshape(-1, 12).double()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + 5e-4).sqrt()).T.flip(0).float().reshape(12, 3, 2, 2)
    whiten.weight.data = torch.cat([filters, -filters])
    whiten.weight.requires_grad_(False)
    whiten.bias.data.zero_()
    return nn.Sequential(whiten, nn.GELU(), group(24, 64), group(64, 256), group(256, 256),
                         nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, 10, bias=False))


def moved(images, down, right):
    padded = F.pad(images, (2, 2, 2, 2), mode="reflect")
    return padded[:, :, 2 + down:34 + down, 2 + right:34 + right]


def augmented(images, mirrored, epoch):
    """Shifts by up to two pixels; mirrors half of the images, and in each epoch the other half."""
    flip = (mirrored != (epoch % 2 == 1)).view(-1, 1, 1, 1)
    images = torch.where(flip, images.flip(3), images)
    out, shifts = torch.empty_like(images), torch.randint(-2, 3, (len(images), 2))
    for down in range(-2, 3):
        for right in range(-2, 3):
            here = (shifts[:, 0] == down) & (shifts[:, 1] == right)
            out[here] = moved(images[here], down, right)
    return out


def logits(model, images):
    """The mean over six views."""
    total = 0
    for weight, view in ((0.5, images), (0.25, moved(images, -1, -1)), (0.25, moved(images, 1, 1))):
        total = total + weight / 2 * (model(view).float() + model(view.flip(3)).float()) / 9
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    o = parser.parse_args()
    torch.manual_seed(o.seed)
    images, labels = read(o.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
    tests, test_labels = read(o.data, ["test_batch.bin"])
    model = make_model(images).to(memory_format=torch.channels_last)
    shifts = [p for name, p in model.named_parameters() if name.endswith(".bias") and name != "0.bias"]
    others = [p for p in model.parameters() if p.requires_grad and all(p is not s for s in shifts)]
    optimizer = torch.optim.SGD([{"params": others, "lr": LR, "weight_decay": DECAY},
                                 {"params": shifts, "lr": BIAS_LR * LR, "weight_decay": DECAY / BIAS_LR}],
                                lr=LR, momentum=MOMENTUM, nesterov=True)
    each = len(images) // BATCH
    steps = EPOCHS * each
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: float(np.interp(t / steps, [0, 0.23, 1], [0.2, 1, 0.07])))
    slow = {name: value.clone() for name, value in model.state_dict().items()}
    mirrored = torch.rand(len(images)) < 0.5
    precision = torch.autocast("cpu", torch.bfloat16, enabled=o.precision == "bf16")
    began, step = time.time(), 0
    for epoch in range(EPOCHS):
        model[0].bias.requires_grad_(epoch < 3)
        order = torch.randperm(len(images))
        for part in order.split(BATCH)[:each]:
            x = augmented(images[part], mirrored[part], epoch).contiguous(memory_format=torch.channels_last)
            with precision:
                out = model(x)
            loss = F.cross_entropy(out.float() / 9, labels[part], label_smoothing=0.2)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step == 1:
                after_first = time.time()
            if step % 5 == 0:
                a = 0.95 ** 5 * (step / steps) ** 3
                for name, value in model.state_dict().items():
                    if value.is_floating_point():
                        slow[name].lerp_(value, 1 - a)
                        value.copy_(slow[name])
            if step == o.steps:
                break
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, {time.time() - began:.0f} s", flush=True)
        if step == o.steps:
            break
    seconds = time.time() - began
    model.eval()
    with torch.no_grad(), precision:
        right = sum((logits(model, x.contiguous(memory_format=torch.channels_last)).argmax(1) == y).sum().item()
                    for x, y in zip(tests.split(BATCH), test_labels.split(BATCH)))
    print(f"top-1 {100 * right / len(tests):.2f} %, {(began + seconds - after_first) / max(step - 1, 1) * 1e3:.0f} ms/step, {seconds:.0f} s, peak "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB of the process")


if __name__ == "__main__":
    main()
