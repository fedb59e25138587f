#!/bin/sh
# Times sums of gradients beside MPI_Allreduce of the same bytes, in turns (reduce_bench.c).
#
#     tools/cluster/reduce_bench.sh BUILD_DIR [ROUNDS [MIB [WINDOW_MIB]]]
#
# MPIRUN is the command that starts the ranks; the default is mpirun with 2.
export LC_ALL=C # a decimal point in every locale
build=${1:?the folder of the build}
for round in $(seq "${2:-5}"); do
    for mode in tree codes fast mpi; do
        # shellcheck disable=SC2086 # words
        ${MPIRUN:-mpirun -n 2 --bind-to none} "$build/bin/reduce_bench" $mode "${3:-100}" "${4:-8}" || exit 1
    done
done | sort
