#!/usr/bin/env bash
# Measures the convolutions of ResNet-18 (224 px, batch 32) beside oneDNN: forward, dx, and dw from each
# form of the kept input. One JSON object a case in OUT/convolutions.jsonl, and OUT/convolutions.md with
# the ratios.
#
#     convolutions.sh BENCH OUT
#
# BENCH is clprune-bench, built with oneDNN. On PoCL, POCL_AFFINITY=1 keeps its threads on cores of their
# own. ROUNDS=N measures the shapes in N turns and takes the median ratio of each case.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
bench=$(realpath "${1:?usage: convolutions.sh BENCH OUT}")
out=${2:?usage: convolutions.sh BENCH OUT}
here=$(cd "$(dirname "$0")" && pwd)
# With POCL_AFFINITY, PoCL aborts if a core is not allowed, as in many containers.
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" != "$(nproc --all)" ] || export POCL_AFFINITY=${POCL_AFFINITY:-1}
mkdir -p "$out"
# in out image kernel stride
shapes="3 64 224 7 2
64 64 56 3 1
64 128 56 3 2
64 128 56 1 2
128 128 28 3 1
128 256 28 3 2
128 256 28 1 2
256 256 14 3 1
256 512 14 3 2
256 512 14 1 2
512 512 7 3 1"
for round in $(seq "${ROUNDS:-1}"); do
    while read -r in to image kernel stride; do
        "$bench" conv --batch 32 --in "$in" --out "$to" --image "$image" --kernel "$kernel" \
            --stride "$stride" --sparsity 0.7 --block 16 --repeat "${REPEAT:-11}" --json - </dev/null
    done <<<"$shapes"
done >"$out/convolutions.jsonl"
python3 "$here/convolutions.py" <"$out/convolutions.jsonl" >"$out/convolutions.md"
cat "$out/convolutions.md"
