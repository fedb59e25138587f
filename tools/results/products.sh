#!/usr/bin/env bash
# Measures the products of a ResMLP-S12 training step at batch 32 beside the peer: one JSON object a
# case in OUT/products.jsonl, and OUT/products.md with the ratios.
#
#     products.sh BENCH OUT
#
# BENCH is clprune-bench. On PoCL, POCL_AFFINITY=1 keeps its threads on cores of their own. OpenBLAS 0.3.21
# takes CPUs newer than itself for a Prescott and then runs at a quarter of its speed: in that case
# its kernels for AVX-512 are selected. OPENBLAS_CORETYPE is not changed if it is set.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
bench=$(realpath "${1:?usage: products.sh BENCH OUT}")
out=${2:?usage: products.sh BENCH OUT}
here=$(cd "$(dirname "$0")" && pwd)
# With POCL_AFFINITY, PoCL aborts if a core is not allowed, as in many containers.
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" != "$(nproc --all)" ] || export POCL_AFFINITY=${POCL_AFFINITY:-1}
if grep -q avx512f /proc/cpuinfo && [ -z "${OPENBLAS_CORETYPE:-}" ]; then
    case $("$bench" gemm --form nt --tokens 1 --repeat 1 --json - 2>/dev/null) in
        *'sgemm for Prescott'*) export OPENBLAS_CORETYPE=SkylakeX ;;
    esac
fi
mkdir -p "$out"
repeat=${REPEAT:-11} # runs per median
s=0.3,0.5,0.7,0.9
{
    "$bench" bspmm --form tn --in 1536 --out 384 --block 16 --sparsity $s --repeat "$repeat" --json -
    "$bench" bspmm --form tn --in 384 --out 1536 --block 16 --sparsity $s --repeat "$repeat" --json -
    "$bench" bspmm --form tn --in 1536 --out 384 --block 4,8,32,64,128,384 --sparsity $s --repeat "$repeat" --json -
    "$bench" bspmm --form nt --in 384 --out 196 --block 16 --sparsity $s --repeat "$repeat" --json -
    for form in nt nn tn; do
        "$bench" gemm --form $form --in 384 --out 1536 --repeat "$repeat" --json -
        "$bench" gemm --form $form --in 1536 --out 384 --repeat "$repeat" --json -
    done
    "$bench" prune --in 384 --out 1536 --block 16 --sparsity 0.7 --repeat "$repeat" --json -
    "$bench" prune --in 1536 --out 384 --block 16 --sparsity 0.7 --repeat "$repeat" --json -
    "$bench" linear --in 384 --out 1536 --block 16 --sparsity 0.7 --repeat "$repeat" --json -
    "$bench" linear --in 1536 --out 384 --block 16 --sparsity 0.7 --repeat "$repeat" --json -
} | tee "$out/products.jsonl" | python3 "$here/products.py" >"$out/products.md"
cat "$out/products.md"
