#!/usr/bin/env bash
# Times one training step of resmlp_s12 (224 px, batch 32, fp32, AdamW): dense, pruned at s = 0.7 in
# blocks of 16, and PyTorch's dense step (torch_step.py), in turns; the medians go to OUT/step.json.
#
#     step.sh TRAINER OUT [ROUNDS]
#
# Needs PyTorch (Debian: python3-torch). On PoCL, POCL_AFFINITY=1 keeps its threads on cores of their
# own; both use all cores. OPENBLAS_CORETYPE as in tools/results/products.sh.
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
    "$train" --arch resmlp_s12 --image-size 224 --classes 1000 --batch-size 32 --steps $steps \
        --output-dir "$work/run" --overwrite --summary-json "$work/$name.json" --quiet "$@" >/dev/null
    sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p' "$work/$name.json" | head -1 >>"$work/$name.ms"
}
peer() {
    "$python" "$here/torch_step.py" --batch-size 32 --steps $steps >"$work/peer.txt"
    tail -1 "$work/peer.txt" >"$work/peer.json"
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["step_ms"])' \
        "$work/peer.json" >>"$work/torch.ms"
}
for round in $(seq 0 "$rounds"); do
    ours dense --activations dense
    ours pruned --activations pruned --sparsity 0.7 --block 16
    peer
    [ "$round" -gt 0 ] || rm -f "$work"/*.ms # warms the caches
done
"$python" - "$work" "$rounds" >"$out/step.json" <<'PYTHON'
import json, statistics, sys
work, rounds = sys.argv[1], int(sys.argv[2])
ms = {n: [float(v) for v in open(f"{work}/{n}.ms")] for n in ("dense", "pruned", "torch")}
median = {n: statistics.median(v) for n, v in ms.items()}
peer = json.load(open(f"{work}/peer.json"))
print(json.dumps({"arch": "resmlp_s12", "image_size": 224, "batch_size": 32, "rounds": rounds,
    "sparsity": 0.7, "block": "1x16", "step_ms": ms, "median_ms": median,
    "peer": peer.get("peer"), "threads": peer.get("threads"),
    "torch_over_dense": median["torch"] / median["dense"],
    "torch_over_pruned": median["torch"] / median["pruned"]}, indent=1))
PYTHON
cat "$out/step.json"
