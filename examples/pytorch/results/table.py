#!/usr/bin/env python3
"""Prints the tables of README.md: table.py measure.csv runs.jsonl"""

import csv
import json
import os
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    measured, runs = sys.argv[1:3] if len(sys.argv) > 2 else (
        os.path.join(here, name) for name in ("measure.csv", "runs.jsonl"))
    scores = {}
    with open(runs) as file:
        for run in map(json.loads, file):
            scores.setdefault((run["model"], run["keep"]), []).append(run["accuracy"][-1])
    print("| model | kept | saved MiB | of PyTorch | error of one draw | of the mean | by chance | "
          "bias | pass | accuracy |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with open(measured) as file:
        for row in csv.DictReader(file):
            saved, ms = float(row["saved_mib"]), float(row["pass_ms"])
            if row["keep"] == "pytorch":
                dense, dense_ms = saved, ms
            reached = scores.get((row["model"], row["keep"]), [])
            print("|", " | ".join([
                row["model"], row["keep"], f"{saved:.2f}", f"{100 * saved / dense:.0f} %",
                row["one_draw"] or "-", row["mean"] or "-", row["chance"] or "-",
                row["bias"] or "-", f"{ms:.0f} ms, x {ms / dense_ms:.2f}",
                ", ".join(f"{score:.1f} %" for score in reached) or "-"]), "|")


if __name__ == "__main__":
    main()
