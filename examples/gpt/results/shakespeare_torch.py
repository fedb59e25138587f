#!/usr/bin/env python3
"""PyTorch's run of shakespeare.sh: nanoGPT's recipe for a CPU, on a GPT-2 of PyTorch's own layers.

    shakespeare_torch.py TEXT [SEED...]

Prints a row for each seed: the loss after each 500 steps over the whole last tenth of the text, in nats, as shakespeare.sh
does, and at last nanoGPT's estimate, over 20 batches of windows that are drawn. Bytes are tokens, windows are drawn in
training, as nanoGPT does. Needs PyTorch 2."""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, BLOCKS, HEADS, CONTEXT, BATCH, STEPS, WARMUP = 128, 4, 4, 64, 12, 2000, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.attn(self.ln_1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln_f = nn.Sequential(*(Block() for _ in range(BLOCKS))), nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * BLOCKS) if name.endswith(("proj.weight", "out.weight")) else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, labels):
        x = self.blocks(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]])
        return F.cross_entropy((self.ln_f(x) @ self.wte.weight.T).flatten(0, 1), labels.flatten())


def rate(step):
    if step < WARMUP:
        return 1e-3 * (step + 1) / (WARMUP + 1)
    return 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def drawn(text):
    at = torch.randint(len(text) - CONTEXT, (BATCH,))
    return torch.stack([text[i:i + CONTEXT] for i in at]), torch.stack([text[i + 1:i + 1 + CONTEXT] for i in at])


@torch.no_grad()
def whole(model, text):
    count = (len(text) - 1) // CONTEXT
    x, y = text[:count * CONTEXT].view(count, CONTEXT), text[1:count * CONTEXT + 1].view(count, CONTEXT)
    return sum(model(a, b).item() * len(a) for a, b in zip(x.split(256), y.split(256))) / count


def run(seed, train, test):
    torch.manual_seed(seed)
    model, losses = GPT(), []
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                              betas=(0.9, 0.99))
    for step in range(STEPS):
        for group in adamw.param_groups:
            group["lr"] = rate(step)
        model(*drawn(train)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad()
        if (step + 1) % 500 == 0:
            losses.append(whole(model, test))
    with torch.no_grad():
        losses.append(sum(model(*drawn(test)).item() for _ in range(20)) / 20)
    print(f"torch,{seed}," + ",".join(f"{loss:.4f}" for loss in losses), flush=True)


def main():
    text = torch.frombuffer(bytearray(open(sys.argv[1], "rb").read()), dtype=torch.uint8).long()
    split = len(text) * 9 // 10
    for seed in sys.argv[2:] or ["1", "2", "3"]:
        run(int(seed), text[:split], text[split:])


if __name__ == "__main__":
    main()
