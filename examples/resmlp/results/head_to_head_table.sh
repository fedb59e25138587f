#!/usr/bin/env bash
# Makes OUT/table.csv and OUT/head-to-head.png of the runs of head_to_head.sh that are there.
#
#     head_to_head_table.sh OUT
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../trainer/runs_table.sh" "${1:?usage: head_to_head_table.sh OUT}" "$here/head_to_head.gp" \
    dense pruned quantised quantised-fc1 pooled combined quantised-2bits
