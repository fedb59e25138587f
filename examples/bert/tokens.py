#!/usr/bin/env python3
"""Lines LABEL<TAB>SENTENCE as sentences for bert-train, in random order: tokens.py TOKENIZER MOST LINES.tsv NAME.bin"""
import random
import sys
import numpy
import transformers
folder, most, lines, out = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
pairs = [line.rstrip("\n").split("\t", 1) for line in open(lines, encoding="utf-8")]
if bad := [n for n, pair in enumerate(pairs, 1) if len(pair) < 2]:
    sys.exit(f"{lines}: line {bad[0]} has no tab")
random.Random(1).shuffle(pairs)
labels = sorted({label for label, _ in pairs})  # label 0 is the first in this order
ids = tokenizer([text for _, text in pairs], truncation=True, max_length=int(most))["input_ids"]
numpy.array([n for (label, _), i in zip(pairs, ids) for n in (labels.index(label), len(i), *i)], "<u2").tofile(out)
