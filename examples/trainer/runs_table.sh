#!/usr/bin/env bash
# Makes OUT/table.csv and a picture of the runs in OUT/NAME-SEED/log.csv: those that are there, finished
# or not. The last row of a log counts; `epochs` says how far the run came.
#
#     runs_table.sh OUT PLOT NAME...
#
# PLOT is a gnuplot script that reads `runs`, the names of the runs, in OUT. NAME dense is the reference
# of the column beside_dense.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
usage="usage: runs_table.sh OUT PLOT NAME..."
plot=$(realpath "${2:?$usage}")
cd "${1:?$usage}"
shift 2
last() { tail -n 1 "$1/log.csv" 2>/dev/null | grep '^[0-9]' || true; }
runs=''
for name; do
    for seed in 1 2 3; do
        [ -z "$(last "$name-$seed")" ] || runs="$runs $name-$seed"
    done
done
{
    echo "activations,seed,epochs,top1_percent,beside_dense,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms,seconds"
    for run in $runs; do
        seed=${run##*-}
        last "$run" | awk -F, -v name="${run%-*}" -v seed="$seed" -v dense="$(last "dense-$seed" | cut -d, -f1,6)" '{
            split(dense, d, ",")
            beside = d[1] == $1 ? sprintf("%+.2f", $6 - d[2]) : "" # after as many epochs
            printf "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", name, seed, $1, $6, beside, $5, $4, $10, $11, $8, $9
        }'
    done
} >table.csv
cat table.csv
[ -z "$runs" ] || gnuplot -e "runs='${runs# }'" "$plot"
