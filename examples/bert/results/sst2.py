#!/usr/bin/env python3
"""The recipe of sst2.study in PyTorch on the CPU, by transformers and PEFT: prints accuracy, time and memory as CSV.

    sst2.py MODEL DATA [--lora] [--precision fp32] [--seeds 1 2 3] [--steps N]

MODEL is a folder of save_pretrained, DATA is FOLDER/data of sst2.sh, whose tokens both programs read. A batch is padded to its
longest sentence, as is usual in PyTorch; bert-train pads all to 64.
"""
import argparse
import array
import contextlib
import math
import os
import resource
import time

import torch
import torch.nn.functional as F
import transformers

BATCH, EPOCHS, DECAY, CLIP, WARMUP = 32, 3, 0.01, 1.0, 0.1
LR, LORA_LR, RANK = 1e-4, 1e-3, 8


def read(path):
    """(label, tokens) of each sentence of a file of tokens.py."""
    with open(path, "rb") as file:
        words = array.array("H", file.read())
    found, i = [], 0
    while i < len(words):
        label, length = words[i:i + 2]
        found.append((label, torch.tensor(words[i + 2:i + 2 + length])))
        i += 2 + length
    return found


def logits_of(model, batch):
    tokens = torch.nn.utils.rnn.pad_sequence([tokens for _, tokens in batch], batch_first=True)
    lengths = torch.tensor([len(tokens) for _, tokens in batch])
    return model(input_ids=tokens, attention_mask=(torch.arange(tokens.shape[1]) < lengths[:, None]).long()).logits.float()


def labels_of(batch):
    return torch.tensor([label for label, _ in batch])


def make_model(folder, lora):
    model = transformers.BertForSequenceClassification.from_pretrained(
        folder, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model.classifier.reset_parameters()  # as bert-train draws it
    if lora:
        import peft
        places = ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=RANK, lora_alpha=2 * RANK, target_modules=places, modules_to_save=["classifier", "pooler"]))
    return model


def groups_of(model):
    """Weights of linear layers and embeddings of words decay; biases, norms and other embeddings do not."""
    decayed = {id(m.weight) for name, m in model.named_modules()
               if isinstance(m, torch.nn.Linear) or name.endswith("word_embeddings")}
    trained = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in trained if id(p) in decayed], "weight_decay": DECAY},
            {"params": [p for p in trained if id(p) not in decayed], "weight_decay": 0.0}]


def factor(step, epoch, total):
    """Of the learning rate: up on a line, then down on a cosine."""
    warmup = round(WARMUP * epoch)
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


def run(args, seed):
    torch.manual_seed(seed)
    train, test = read(os.path.join(args.data, "train.bin")), read(os.path.join(args.data, "val.bin"))
    model = make_model(args.model, args.lora)
    optimizer = torch.optim.AdamW(groups_of(model), lr=LORA_LR if args.lora else LR)
    epoch = -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, epoch, EPOCHS * epoch))

    def narrow():
        return torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()

    begun, steps = time.perf_counter(), 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(train)).tolist()
        for at in range(0, len(train), BATCH):
            if steps == args.steps:
                break
            batch = [train[i] for i in order[at:at + BATCH]]
            with narrow():
                logits = logits_of(model, batch)
            loss = F.cross_entropy(logits, labels_of(batch))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            steps += 1
    seconds = time.perf_counter() - begun
    model.eval()
    with torch.no_grad(), narrow():
        logits = torch.cat([logits_of(model, test[at:at + 2 * BATCH]) for at in range(0, len(test), 2 * BATCH)])
    right = (logits.argmax(1) == labels_of(test)).sum().item()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'lora' if args.lora else 'all'},{args.precision},{seed},{100 * right / len(test):.2f},"
          f"{F.cross_entropy(logits, labels_of(test)).item():.4f},{1000 * seconds / steps:.0f},{peak:.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--precision", default="bf16", choices=("fp32", "bf16"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="of a run, at most")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    print("trained,precision,seed,top1,test_loss,step_ms,process_mib")
    for seed in args.seeds:
        run(args, seed)


if __name__ == "__main__":
    main()
