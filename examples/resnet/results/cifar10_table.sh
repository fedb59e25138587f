#!/usr/bin/env bash
# Makes OUT/table.csv and OUT/cifar10.png of the runs of cifar10.sh that are there.
#
#     cifar10_table.sh OUT
export LC_ALL=C # a decimal point in every locale
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../trainer/runs_table.sh" "${1:?usage: cifar10_table.sh OUT}" "$here/cifar10.gp" \
    dense exact pruned pooled compact8 compact4 compact2
