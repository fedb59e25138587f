#!/usr/bin/env python3
"""Make golden_resnet.inc and golden_resnet.safetensors with PyTorch: losses, gradients and running statistics of two
small ResNets; and torchvision.safetensors, the weights of a third, with its logits.

    python3 make_golden_resnet.py            write the files beside this script
    python3 make_golden_resnet.py --check    compute again and compare with the files, write nothing

Double precision, one thread; inputs as in make_golden.py, whose generator this script uses. Weights are
filled in PyTorch's order, out x in x height x width.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import fill_uniform, images, signs, write_rows, write_safetensors

HERE = pathlib.Path(__file__).resolve().parent
# of torchvision.safetensors: kernels are those of resnet20 with these sizes
WEIGHTS = dict(pools=False, blocks=(1, 1), channels=(16, 32), classes=5)
SAMPLES = 4  # elements of a tensor that are written down
STEPS = 10

# name, stem pools, blocks, channels, image, classes, batch, learning rate, seed of the images whose gradients are
# compared. Such seeds keep inputs of ReLU away from 0 (the nearest: 1.9e-5 and 9.1e-6 of the rms of its tensor) and the
# two largest of a pooled window apart: where rounding decides, a driver may decide otherwise, and gradients jump by 1e-3.
CASES = [
    ("resnet20", False, (3, 3, 3), (16, 32, 64), 9, 5, 4, 0.02, 7),
    ("resnet18", True, (2, 2, 2, 2), (64, 128, 256, 512), 65, 7, 4, 0.0001, 377),
]


class Net(torch.nn.Module):
    """Basic blocks; names as in torchvision."""

    def __init__(self, pools, blocks, channels, classes):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        first = channels[0]
        self.pools = pools
        self.conv1 = conv(3, first, 7, 2, 3, bias=False) if pools else conv(3, first, 3, 1, 1, bias=False)
        self.bn1 = norm(first)
        before = first
        for s, (count, width) in enumerate(zip(blocks, channels)):
            layer = torch.nn.Sequential()
            for b in range(count):
                stride = 2 if s > 0 and b == 0 else 1
                layer.append(Block(before, width, stride))
                before = width
            self.add_module(f"layer{s + 1}", layer)
        self.stages = len(blocks)
        self.fc = torch.nn.Linear(before, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.pools:
            x = F.max_pool2d(x, 3, 2, 1)
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Block(torch.nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.conv1 = conv(before, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = conv(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        if stride != 1 or before != width:
            self.downsample = torch.nn.Sequential(conv(before, width, 1, stride, bias=False), norm(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


def fill(net):
    for i, (name, p) in enumerate(net.named_parameters()):
        if p.ndim > 1:
            fan_in = p[0].numel()
            base, scale = 0.0, float(np.sqrt(np.float64(6.0 / fan_in)))
        elif "fc" in name or name.endswith("bias"):
            base, scale = 0.0, 0.1
        else:
            base, scale = 1.0, 0.2
        numbers = fill_uniform(base, scale, 1000 + i, p.numel())
        with torch.no_grad():
            p.copy_(torch.from_numpy(numbers.astype(np.float64)).reshape(p.shape))


def batch_of(seed, batch, image, classes, step):
    labels = torch.tensor([(3 * i + 1 + step) % classes for i in range(batch)])
    return torch.from_numpy(images(seed, batch, image).astype(np.float64)), labels


def row(t):
    flat = t.detach().numpy().reshape(-1)
    norm = float(np.sqrt((flat**2).sum()))
    projection = float((flat * signs(1, flat.size)).sum())
    picks = [float(flat[flat.size * k // SAMPLES]) for k in range(SAMPLES)]
    return [flat.size, norm, projection, *picks]


def step(net, optimizer, t, batch, image, classes):
    """Trains on batch t of the ten and returns its loss."""
    x, labels = batch_of(100 + t, batch, image, classes, t)
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), labels, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def make_case(case, rows):
    """The text of a case. Adds to `rows` its gradients in PyTorch's order, then the statistics after the first step."""
    name, pools, blocks, channels, image, classes, batch, rate, seed = case
    net = Net(pools, blocks, channels, classes).double()
    fill(net)
    x, labels = batch_of(seed, batch, image, classes, 0)
    loss = F.cross_entropy(net(x), labels, label_smoothing=0.1)
    loss.backward()
    rows.update({f"{name}/{n}": row(p.grad) for n, p in net.named_parameters()})
    net.zero_grad()
    optimizer = torch.optim.SGD(
        [
            {"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": 1e-3},
            {"params": [p for p in net.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=rate,
        momentum=0.9,
    )
    fill(net)
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.reset_running_stats()
    losses = []
    for t in range(STEPS):
        losses.append(step(net, optimizer, t, batch, image, classes))
        if t == 0:
            stats = [(n, b) for n, b in net.named_buffers() if n.endswith(("running_mean", "running_var"))]
            rows.update({f"{name}/{n}": row(b) for n, b in stats})
    net.eval()
    x, labels = batch_of(seed, batch, image, classes, 0)
    tested = float(F.cross_entropy(net(x), labels).detach())
    numbers = ", ".join(f"{v:.17g}" for v in losses)
    text = f"static const golden_resnet_case golden_{name} = {{\"{name}\", {image}, {classes}, {batch}, {seed}, {rate}f,\n"
    text += f"    {float(loss.detach()):.17g}, {tested:.17g},\n    {{{numbers}}}}};\n"
    return text


def make_weights():
    """A network that was "trained" for some batches, and its logits in evaluation."""
    net = Net(**WEIGHTS).double()
    fill(net)
    for i, (name, buffer) in enumerate(net.named_buffers()):
        if name.endswith("num_batches_tracked"):
            buffer.fill_(2**33 + i)
        else:
            base, scale = (0.0, 0.3) if name.endswith("mean") else (1.0, 0.5)
            numbers = fill_uniform(base, scale, 2000 + i, buffer.numel())
            buffer.copy_(torch.from_numpy(numbers.astype(np.float64)))
    net.eval()
    x, _ = batch_of(7, 4, 9, WEIGHTS["classes"], 0)
    with torch.no_grad():
        logits = net(x).reshape(-1).tolist()
    numbers = ", ".join(f"{v:.17g}" for v in logits)
    text = f"static const double golden_torchvision_logits[{len(logits)}] = {{{numbers}}};\n"
    return net.state_dict(), text


def main():
    torch.set_num_threads(1)
    weights, logits = make_weights()
    kept = write_safetensors(HERE / "torchvision.safetensors", weights, "--check" in sys.argv)
    rows = {}
    text = "/* Generated by make_golden_resnet.py. */\n" + "\n".join(make_case(c, rows) for c in CASES)
    text += "\n" + logits
    kept = write_rows(HERE / "golden_resnet.safetensors", rows, "--check" in sys.argv, close) and kept
    path = HERE / "golden_resnet.inc"
    if "--check" not in sys.argv:
        path.write_text(text)
        return
    old, new = path.read_text().split(), text.split()
    same = len(old) == len(new) and all(close(a.strip(",{}"), b.strip(",{}")) for a, b in zip(old, new))
    print("golden_resnet.inc: " + ("as committed" if same else "differs"))
    sys.exit(0 if same and kept else 1)


def close(a, b, _row=None):
    try:
        return abs(float(a) - float(b)) <= 1e-9 + 1e-7 * abs(float(a))
    except ValueError:
        return a == b


if __name__ == "__main__":
    main()
