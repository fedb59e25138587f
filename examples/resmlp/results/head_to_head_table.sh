#!/usr/bin/env bash
# Makes OUT/table.csv and OUT/head-to-head.png of the runs in OUT/NAME-SEED/log.csv: what is there. The last
# row of a log counts.
#
#     head_to_head_table.sh OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:?usage: head_to_head_table.sh OUT}"
last() { tail -n 1 "$1/log.csv" 2>/dev/null | grep '^[0-9]' || true; }
runs=''
for name in dense pruned quantised quantised-fc1 pooled combined quantised-2bits; do
    for seed in 1 2 3; do
        [ -z "$(last "$name-$seed")" ] || runs="$runs $name-$seed"
    done
done
{
    echo "activations,seed,epochs,top1_percent,beside_dense,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms"
    for run in $runs; do
        seed=${run##*-}
        last "$run" | awk -F, -v name="${run%-*}" -v seed="$seed" -v dense="$(last "dense-$seed" | cut -d, -f1,6)" '{
            split(dense, d, ",")
            beside = d[1] == $1 ? sprintf("%+.2f", $6 - d[2]) : "" # after as many epochs
            printf "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", name, seed, $1, $6, beside, $5, $4, $10, $11, $8
        }'
    done
} >table.csv
cat table.csv
[ -z "$runs" ] || gnuplot -e "runs='${runs# }'" "$here/head_to_head.gp"
