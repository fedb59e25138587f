#!/bin/sh
# Fine-tunes a language model by gpt-train, and by transformers and PEFT, on one batch again and again: a row for each way.
#
#     lossN            the loss of step N
#     off, off_mean    how far the losses are from PEFT's in fp32, relative: at most, and the mean
#     ms               a step: the median, without the first three
#     process_mib      the peak of the process
#
#     beside_peft.sh GPT_TRAIN MODEL TEXT FOLDER [STEPS [CONTEXT]] >beside_peft.csv
#
# MODEL is a folder of transformers. PYTHON (python3) has torch, transformers and peft. FOLDER gets logs. STEPS is 100, CONTEXT 512.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
train=$(realpath "$1") model=$(realpath "$2") text=$(realpath "$3") out=$4 steps=${5:-100} context=${6:-512}
here=$(cd "$(dirname "$0")" && pwd) python=${PYTHON:-python3}
mkdir -p "$out"
cd "$out"
"$python" "$here/beside_peft.py" --tokens "$model" "$text" train.bin

# ours NAME OPTION...: losses in NAME.csv; ms and the process's peak in NAME.end
ours() {
    name=$1
    shift
    "$python" - "$name.end" "$train" --model "$model" --data train.bin --context "$context" --batch-size 1 --train-limit 1 \
        --test-limit 1 --no-augment --lora 8 --lora-alpha 16 --weight-decay 0 --warmup-epochs 0 --schedule linear --points 0:1,1:1 \
        --test-every 0 --checkpoint-every 0 --quiet --output-dir "$name" --overwrite "$@" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[2:], check=True, stdout=subprocess.DEVNULL)
with open(sys.argv[1], "w") as file:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=file)
END
    cut -d, -f2,4 "$name/log.csv" >"$name.csv"
}

# theirs NAME OPTION...
theirs() {
    name=$1
    shift
    "$python" "$here/beside_peft.py" "$model" first train.bin --context "$context" --steps "$steps" "$@" >"$name.csv"
}

ours begin --lr 0 --epochs 1 --adapters first
theirs peft-fp32
theirs peft-bf16 --precision bf16
theirs peft-bf16-checkpoint --precision bf16 --checkpoint
set -- --lr 0.001 --epochs "$steps"
ours dense "$@"
ours dense-bf16 "$@" --precision bf16
ours compact-plus "$@" --precision bf16 --activations compact-plus
ours least "$@" --precision bf16 --activations least
ours least-base-16 "$@" --precision bf16 --activations least --base-bits 16
ours least-base-4 "$@" --precision bf16 --activations least --base-bits 4
"$python" - "$steps" <<'END'
import csv, os, statistics, sys
steps = int(sys.argv[1])
def losses(name):
    with open(name + ".csv") as file:
        return {int(row[0]): float(row[1]) for row in csv.reader(file) if row[0].isdigit() and "." in row[1]}
want = losses("peft-fp32")
shown = sorted({1, max(1, steps // 4), max(1, steps // 2), steps})
print("way," + ",".join(f"loss{s}" for s in shown) + ",off,off_mean,ms,process_mib")
for name in ("peft-fp32", "peft-bf16", "peft-bf16-checkpoint", "dense", "dense-bf16", "compact-plus", "least", "least-base-16", "least-base-4"):
    got = losses(name)
    off = [abs(got[s] - want[s]) / want[s] for s in want]
    if name.startswith("peft"):
        with open(name + ".csv") as file:
            ms, peak = file.read().split()[-1].split(",")
    else:
        with open(name + "/log.csv") as file:
            ms = f"{statistics.median([float(row['step_ms']) for row in csv.DictReader(file) if row['step_ms'] and int(row['step']) > 3] or [0]):.0f}"
        with open(name + ".end") as file:
            peak = file.read().strip()
    print(f"{name}," + ",".join(f"{got[s]:.4f}" for s in shown) + f",{max(off):.4f},{statistics.mean(off):.4f},{ms},{peak}")
END
