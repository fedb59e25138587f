#!/usr/bin/env python3
"""Reads the objects of `clprune-bench conv`, one a line, and prints a table in Markdown: a row for
each shape and a column for each form, with the peer's time divided by ours (the median if a case
occurs in several rounds)."""
import json
import statistics
import sys

FORMS = ("forward", "dx", "dw", "pruned", "pooled-2", "pooled-4", "quantised-4")
cases = [json.loads(line) for line in sys.stdin if line.strip()]
shapes = {}
for c in cases:
    key = (c["in"], c["out"], c["image"], c["kernel"], c["stride"])
    shapes.setdefault(key, {}).setdefault(c["form"], []).append(c)
if cases:
    peaks = [c["peak_gflops"] for c in cases if c["peak_gflops"]]
    print(f"{cases[0]['device']}; peer {cases[0]['peer']}, batch {cases[0]['batch']}; medians of "
          f"{cases[0]['repetitions']} alternating runs; measured FMA peak {min(peaks):.0f} to "
          f"{max(peaks):.0f} GF/s. Pruned: s = 0.7, blocks of 1 x 16. Numbers: the peer's time divided "
          "by ours; of the forms, the peer's dense dw.\n")
print("| in | out | image | kernel | stride | " + " | ".join(FORMS) + " |")
print("|" + "---|" * (5 + len(FORMS)))
for key, forms in shapes.items():
    ratios = [[c["speedup_vs_peer"] for c in forms.get(f, []) if c["speedup_vs_peer"]] for f in FORMS]
    print("| " + " | ".join([str(k) for k in key] +
                            [f"{statistics.median(r):.2f}" if r else "" for r in ratios]) + " |")
print()
print("| in | out | image | kernel | stride | " + " | ".join(f + ", ms" for f in FORMS) + " |")
print("|" + "---|" * (5 + len(FORMS)))
for key, forms in shapes.items():
    times = [[c["ms"] for c in forms.get(f, [])] for f in FORMS]
    print("| " + " | ".join([str(k) for k in key] +
                            [f"{statistics.median(t):.2f}" if t else "" for t in times]) + " |")
