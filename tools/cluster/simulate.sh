#!/bin/bash
# Training steps on up to 1,024 hosts, simulated by SimGrid (Debian: simgrid, libsimgrid-dev): simulate.c on a switch with a
# link of so many Gbit/s to each host.
#
#     simulate.sh OUTPUT_DIR [MOST [TREE_MOST]]        the most ranks (1024), and for sums by the layer itself (16)
#     simulate.sh --alone MIB RANKS GBITS               milliseconds of a sum of so many MiB, without a step
#     simulate.sh --step MODEL STEP_MS RANKS GBITS      milliseconds of a step that takes STEP_MS on one rank
#
# PAYLOAD (0.94) is the part of a link's bits that carries gradients. CORE (0): milliseconds of a core that a rank spends on each
# MiB it sends and receives; where it has that core alone, --step adds them.
# Writes simulated.csv and, with gnuplot, simulated.png. Efficiency is the time of a step on one rank by the time on many,
# with the same batch on each. What a step takes on one rank was measured; a third of it is the forward pass, and the
# rest is shared by layers as their multiplications are.
export LC_ALL=C
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v smpicc >/dev/null || {
    echo "simulate.sh: SimGrid is not installed (Debian: simgrid libsimgrid-dev)" >&2
    exit 77
}
smpicc -O2 -o "$work/simulate" "$source/simulate.c"
seq -f 'n%.0f' 0 1023 >"$work/hosts"

# Layers in the order of the backward pass: parameters, and multiplications of a sample.
layers() {
    awk -v model="$1" '
    function add(p, m) { params[n] = p; work[n++] = m }
    function conv(k, c, o, size) { add(k * k * c * o + 2 * o, k * k * c * o * size * size) }
    function resnet50(    stage, b, width, size, c) {
        conv(7, 3, 64, 112)
        c = 64; size = 56
        for (stage = 0; stage < 4; ++stage) {
            width = 64 * 2 ^ stage
            for (b = 0; b < (stage == 0 ? 3 : stage == 1 ? 4 : stage == 2 ? 6 : 3); ++b) {
                conv(1, c, width, stage > 0 && b == 0 ? 2 * size : size)
                conv(3, width, width, size)
                conv(1, width, 4 * width, size)
                if (b == 0)
                    conv(1, c, 4 * width, size)
                c = 4 * width
            }
            size /= 2
        }
        add(2048 * 1000 + 1000, 2048 * 1000)
    }
    function resmlp_s12(    b) {
        add(768 * 384 + 384, 196 * 768 * 384)
        for (b = 0; b < 12; ++b) {
            add(196 * 196 + 196 + 3 * 384, 384 * 196 * 196)
            add(384 * 1536 + 1536 + 2 * 384, 196 * 384 * 1536)
            add(384 * 1536 + 384 + 384, 196 * 384 * 1536)
        }
        add(384 * 1000 + 1000 + 2 * 384, 384 * 1000)
    }
    function gpt2(    b) { # of 256 tokens; the embedding is also the head
        add(768, 256 * 50257 * 768)
        for (b = 0; b < 12; ++b) {
            add(4 * 768 * 768 + 6 * 768, 256 * (4 * 768 * 768 + 256 * 768))
            add(8 * 768 * 768 + 7 * 768, 256 * 8 * 768 * 768)
        }
        add((50257 + 1024) * 768 + 768, 0)
    }
    BEGIN {
        n = 0
        if (model == "resnet50") resnet50()
        if (model == "gpt2") gpt2()
        if (model == "resmlp_s12") resmlp_s12()
        if (model == "gpt2") { # backward: the head, blocks, the embedding
            print params[0], work[0]
            for (i = n - 2; i > 0; --i)
                print params[i], work[i]
            print params[n - 1], work[n - 1]
        } else for (i = n - 1; i >= 0; --i)
            print params[i], work[i]
    }'
}

# windows MODEL STEP_MS: as make_ranges does, whole layers up to half a MiB or the first that passes it.
windows() {
    layers "$1" | awk -v step="$2" '
    { params[NR] = $1; work[NR] = $2; all += $2 }
    END {
        for (i = 1; i <= NR; ++i) {
            floats += params[i]; past += work[i]
            if (floats >= 128 * 1024 || i == NR) {
                printf "%.3f %d\n", step / 3 + step * 2 / 3 * past / all, floats
                floats = 0
            }
        }
    }'
}

# simulate MODE RANKS GBITS WINDOWS STEP_MS
simulate() {
    # Microseconds of latency that links of that rate have.
    latency=$(awk -v gbits="$3" 'BEGIN { print (gbits >= 100 ? 1 : gbits >= 25 ? 5 : gbits >= 10 ? 10 : 25) }')
    cat >"$work/platform.xml" <<END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="hosts" prefix="n" suffix="" radical="0-1023" speed="1Gf" bw="$(awk -v g="$3" 'BEGIN { print g * 125 }')MBps" lat="${latency}us"/>
</platform>
END
    smpirun -no-privatize -np "$2" -platform "$work/platform.xml" -hostfile "$work/hosts" --log=root.thresh:warning \
        --cfg=smpi/simulate-computation:no --cfg=smpi/shared-malloc:global --cfg=smpi/shared-malloc-blocksize:33554432 --cfg=smpi/test:0 \
        --cfg=smpi/bw-factor:0:"${PAYLOAD:-0.94}" --cfg=smpi/lat-factor:0:1 --cfg=network/crosstraffic:no \
        "$work/simulate" "$1" "$4" "$5" 1
}

if [ "${1:-}" = --alone ]; then
    awk -v mib="$2" 'BEGIN { while (mib > 0) { print 0, (mib < 8 ? mib : 8) * 262144; mib -= 8 } }' >"$work/windows"
    simulate alone "$3" "$4" "$work/windows" 0
    exit
fi
if [ "${1:-}" = --step ]; then
    # Of a sum a rank sends and receives 2 (N - 1) / N.
    step=$(layers "$2" | awk -v step="$3" -v n="$4" -v core="${CORE:-0}" \
        '{ floats += $1 } END { print step + core * floats / 262144 * 2 * (n - 1) / n }')
    windows "$2" "$step" >"$work/windows"
    simulate tree "$4" "$5" "$work/windows" "$step"
    exit
fi
output=${1:?the folder for the results}
declare -A limit=([tree]=${3:-16} [fast]=${2:-1024})
mkdir -p "$output"
csv=$output/simulated.csv
echo "model,step_ms,gbits,sum,ranks,simulated_ms,efficiency" >"$csv"
# Models, and milliseconds of a step on one rank: STEPS has other ones. Of 32 images, dense bf16 on two cores (1498:
# examples/resmlp/results/steps/resnet50.csv), of 4 * 256 tokens (2098: gpt-train --arch gpt2 --context 256 --batch-size 4);
# and as if a device were ten times as fast.
while read -r model step; do
    windows "$model" "$step" >"$work/windows"
    for gbits in 1 10 25 100; do
        for mode in tree fast; do
            for ((ranks = 2; ranks <= ${limit[$mode]}; ranks *= 2)); do
                ms=$(simulate $mode $ranks $gbits "$work/windows" "$step")
                awk -v OFS=, -v m="$model" -v s="$step" -v g="$gbits" -v o="$mode" -v n="$ranks" -v t="$ms" \
                    'BEGIN { print m, s, g, o, n, t, sprintf("%.3f", s / t) }' | tee -a "$csv"
            done
        done
    done
done <<END
${STEPS:-resnet50 1498
resnet50 150
gpt2 2098
gpt2 210}
END
command -v gnuplot >/dev/null || exit 0
models=$(awk -F, 'NR > 1 { print $1 "," $2 }' "$csv" | uniq | sort -u)
{
    cat <<END
set terminal pngcairo size 1200,1000 font ",10"
set output "$output/simulated.png"
set datafile separator ","
set logscale x 2
set xlabel "ranks"
set ylabel "efficiency"
set yrange [0:1.05]
set key outside bottom center horizontal maxcols 2
set grid
set multiplot layout 2,2
END
    for model in $models; do
        printf 'set title "%s ms a step"\nplot ' "${model/,/, }"
        colour=0
        for gbits in 1 10 25 100; do
            colour=$((colour + 1))
            for mode in fast tree; do
                printf "'< grep \"^%s,%s,%s,\" %s' using 5:7 with %s title \"%s Gbit/s%s\", " "$model" $gbits $mode "$csv" \
                    "$([ $mode = fast ] && echo "lines lw 2 lc $colour" || echo "points pt 6 lc $colour")" $gbits \
                    "$([ $mode = fast ] && echo ", by halves")"
            done
        done
        echo
    done
} >"$work/plot"
gnuplot "$work/plot"
