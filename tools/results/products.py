#!/usr/bin/env python3
"""Reads objects of clprune-bench, one a line, and prints them as a table in Markdown."""
import json
import sys


def cell(value, form):
    return format(value, form) if value is not None else ""


cases = [json.loads(line) for line in sys.stdin]
if cases:
    print(f"{cases[0]['device']}; peer {cases[0]['peer']}; medians of {cases[0]['repetitions']} alternating runs; "
          f"measured FMA peak {min(c['peak_gflops'] for c in cases):.0f} to "
          f"{max(c['peak_gflops'] for c in cases):.0f} GF/s.\n")
print("| operation | form | in | out | block | s | ms | useful GF/s | of peak | peer ms | peer / ours |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
for c in cases:
    share = c.get("forward_share")
    if c["op"] == "linear" and c["form"] == "forward":
        share = c["ms"] / c["dense_ms"] - 1
    ratio = f"{100 * share:.1f} % of the forward product" if share is not None \
        else cell(c["speedup_vs_peer"], ".2f")
    fraction = c.get("peak_fraction")
    print("| " + " | ".join([
        c["op"], c["form"] or "", str(c["in"]), str(c["out"]), cell(c["block"], "d"),
        cell(c["sparsity"], ".2g"), f"{c['ms']:.2f}", cell(c["useful_gflops"], ".0f"),
        f"{100 * fraction:.0f} %" if fraction is not None else "", cell(c["peer_ms"], ".2f"), ratio])
        + " |")
