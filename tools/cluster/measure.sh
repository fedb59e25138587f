#!/bin/bash
# Steps on one core and on two hosts of a core each (netns.sh), in turns. Needs root, and two cores that are left alone.
#
#     measure.sh BUILD_DIR OUTPUT_DIR [ROUNDS [ARCH BATCH STEPS [RATE]]]     5 resmlp_s12 8 5 1gbit; BATCH images for each rank
#
# Writes ARCH.csv with all rounds, and prints medians: a step of resmlp-train on one core (plain), while the other core does the
# same (pair: cores share caches and memory), of resmlp-train-mpi with one rank, with two on hosts whose links have the rate, the same
# with --zero, and an exchange of as many bytes alone. Efficiency is pair / two; hidden is 1 - (two - pair) / exchange.
export LC_ALL=C
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
build=$(realpath "${1:?the folder of the build}") output=${2:?the folder for the results}
rounds=${3:-5} arch=${4:-resmlp_s12} batch=${5:-8} steps=${6:-5} rate=${7:-1gbit}
netns=$(cd "$(dirname "$0")" && pwd)/netns.sh
work=$(mktemp -d)
export CLPRUNE_NETNS=m$$h POCL_MAX_PTHREAD_COUNT=1
trap '"$netns" down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
"$netns" up 2 "$rate"
mkdir -p "$output"
csv=$output/$arch.csv
echo "# $arch, $batch images for each rank, $rate, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" >"$csv"
echo "round,what,ms" >>"$csv"
train=(--arch "$arch" --steps "$steps" --quiet --summary-json)

# row ROUND WHAT: a line with the step of the last summary
row() {
    awk -v round="$1" -v what="$2" -F'[:,]' '/"step_ms"/ { print round "," what "," $2 + 0 }' "$work/summary" | tee -a "$csv"
}

cat >"$work/core" <<'END' # a core for each rank
#!/bin/sh
exec taskset -c "${OMPI_COMM_WORLD_RANK:?}" "$@"
END
chmod +x "$work/core"
for round in $(seq "$rounds"); do
    taskset -c 0 "$build/bin/resmlp-train" "${train[@]}" "$work/summary" --batch-size "$batch"
    row "$round" plain
    taskset -c 0 "$build/bin/resmlp-train-mpi" "${train[@]}" "$work/summary" --batch-size "$batch"
    row "$round" one
    taskset -c 1 "$build/bin/resmlp-train" "${train[@]}" "$work/other" --batch-size "$batch" &
    taskset -c 0 "$build/bin/resmlp-train" "${train[@]}" "$work/summary" --batch-size "$batch"
    wait $!
    row "$round" pair
    for zero in "" --zero; do
        # shellcheck disable=SC2086 # words
        "$netns" run 2 "$work/core" "$build/bin/resmlp-train-mpi" "${train[@]}" "$work/summary" --batch-size $((2 * batch)) $zero
        row "$round" "two$zero"
    done
    bytes=$(awk -F'[:,]' '/"parameters"/ { print int($2 * 4 / 1048576 + 1); exit }' "$work/summary")
    "$netns" run 2 "$work/core" "$build/bin/reduce_bench" tree "$bytes" 8 3 |
        awk -v round="$round" '{ sub(/ ms.*/, ""); print round ",exchange," $NF }' | tee -a "$csv"
done
awk -F, 'function median(what,    i, j, t, v, n) {
        for (i = 1; i <= count[what]; ++i) v[i] = ms[what, i]
        n = count[what]
        for (i = 2; i <= n; ++i) for (j = i; j > 1 && v[j - 1] > v[j]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    NR > 2 { ms[$2, ++count[$2]] = $3 }
    END {
        p = median("plain"); o = median("one"); b = median("pair"); t = median("two"); z = median("two--zero"); e = median("exchange")
        printf "plain %.1f ms, one %.1f (%+.2f %%), pair %.1f, two %.1f, with --zero %.1f, exchange %.1f: efficiency %.3f, hidden %.3f\n",
            p, o, 100 * (o / p - 1), b, t, z, e, b / t, 1 - (t - b) / e
    }' "$csv"
