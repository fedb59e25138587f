#!/usr/bin/env bash
# Times one training step of resnet18 (224 px, batch 32, fp32, SGD) in each way of keeping activations,
# and PyTorch's dense step (../../resmlp/results/torch_step.py), default and channels-last, in turns; the
# medians and their ratios go to OUT/step.json.
#
#     step.sh TRAINER OUT [ROUNDS]
#
# Needs PyTorch (Debian: python3-torch). On PoCL, POCL_AFFINITY=1 keeps its threads on cores of their
# own; both use all cores.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: step.sh TRAINER OUT [ROUNDS]"
train=$(realpath "${1:?$usage}")
out=${2:?$usage}
rounds=${3:-3}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
steps=4 # the first one of a run is not counted
# With POCL_AFFINITY, PoCL aborts if a core is not allowed, as in many containers.
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" != "$(nproc --all)" ] || export POCL_AFFINITY=${POCL_AFFINITY:-1}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours() { # NAME OPTIONS...
    local name=$1
    shift
    "$train" --arch resnet18 --image-size 224 --classes 1000 --batch-size 32 --steps $steps \
        --train-limit 128 --test-limit 1 --optimizer sgd --summary-json "$work/$name.json" --quiet "$@" \
        >/dev/null
    sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p' "$work/$name.json" | head -1 >>"$work/$name.ms"
}
peer() { # NAME OPTIONS...
    local name=$1
    shift
    "$python" "$here/../../resmlp/results/torch_step.py" --arch resnet18 --batch-size 32 --steps $((steps - 1)) "$@" \
        >"$work/$name.txt"
    tail -1 "$work/$name.txt" >"$work/$name.json"
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["step_ms"])' \
        "$work/$name.json" >>"$work/$name.ms"
}
for round in $(seq 0 "$rounds"); do
    ours dense --activations dense
    peer torch
    ours pruned-0.7 --activations pruned --sparsity 0.7 --block 16
    ours pooled-2 --activations pooled --pool 2
    peer torch-channels-last --channels-last
    ours exact --activations exact
    ours compact-4 --activations compact --code-bits 4
    [ "$round" -gt 0 ] || rm -f "$work"/*.ms # warms the caches
done
"$python" - "$work" "$rounds" >"$out/step.json" <<'PYTHON'
import json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
names = ("dense", "pruned-0.7", "pooled-2", "exact", "compact-4", "torch", "torch-channels-last")
ms = {n: [float(v) for v in open(f"{work}/{n}.ms")] for n in names}
median = {n: statistics.median(v) for n, v in ms.items()}
peer = json.load(open(f"{work}/torch-channels-last.json"))
fastest = min(median["torch"], median["torch-channels-last"])
print(json.dumps({"arch": "resnet18", "image_size": 224, "batch_size": 32, "rounds": rounds,
    "peer": peer["peer"], "threads": peer["threads"], "step_ms": ms, "median_ms": median,
    "to_dense": {n: median[n] / median["dense"] for n in names},
    "to_torch": {n: median[n] / fastest for n in names}}, indent=1))
PYTHON
cat "$out/step.json"
