#!/bin/sh
# What started a trainer: a process that is alone among others is refused, of a program for one process or of another MPI
# than the launcher's; batch scripts and single tasks are not. A process that is bound to fewer cores than its share says so.
#
#     test_launcher.sh path/to/resmlp-train path/to/mpirun
#
# resmlp-train-mpi lies beside resmlp-train.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1")
cd "$folder" || exit 1
need_mpirun "$2"
for name in $(env | sed -n 's/^\(\(OMPI\|PMI\|PMIX\|MV2\|JSM\|SLURM\)_[A-Z_0-9]*\)=.*/\1/p'); do
    case $name in OMPI_ALLOW_*) ;; *) unset "$name" ;; esac
done

# alone CODE PROCESSES PROGRAM VARIABLE=VALUE...
alone() {
    code=$1 processes=$2 run=$3
    shift 3
    env "$@" "$run" --version >out 2>err
    got=$?
    [ $got = "$code" ] || fail "exit code $got, not $code: ${run##*/} with $*: $(cat err)"
    pattern=
    [ "$code" = 0 ] || case $run in
    *-mpi) pattern="^resmlp-train: this is one of $processes processes, but alone for the MPI of resmlp-train-mpi; " ;;
    *) pattern="^resmlp-train: this is one of $processes processes; the program for that is resmlp-train-mpi\$" ;;
    esac
    if [ -n "$pattern" ]; then
        [ "$(wc -l <err)" = 1 ] && grep -q "$pattern" err || fail "no word of it: ${run##*/} with $*: $(cat err)"
    elif [ -s err ]; then
        fail "it prints on stderr: ${run##*/} with $*: $(cat err)"
    fi
}

# Launchers of several: Open MPI, MPICH and what counts as it, MVAPICH, IBM's, SLURM's srun, PMIx without a number.
while read -r processes variables; do
    # shellcheck disable=SC2086 # words
    alone 2 "$processes" "$program" $variables
done <<'ROWS'
2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
2 PMI_SIZE=2 PMI_RANK=0
4 PMI_SIZE=4 PMI_RANK=1
3 MV2_COMM_WORLD_SIZE=3 MV2_COMM_WORLD_RANK=0
2 JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_RANK=0
2 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_STEP_ID=0 PMIX_RANK=0
2 SLURM_NTASKS=2 SLURM_PROCID=1
3 PMIX_NAMESPACE=a PMIX_RANK=2
2 PMI_RANK=1
ROWS
# One task, a batch script or shell of SLURM with several, mpirun -n 1 in a step of several.
while read -r variables; do
    # shellcheck disable=SC2086
    alone 0 0 "$program" $variables
done <<'ROWS'
CLPRUNE_NOTHING=1
OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
PMI_SIZE=1 PMI_RANK=0
SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_ID=0
SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_NPROCS=8 SLURM_JOB_NUM_NODES=2 SLURM_PROCID=0 SLURM_LOCALID=0
SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290 SLURM_PROCID=0
OMPI_COMM_WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 PMIX_RANK=0
ROWS
# A program for several of another MPI: as many runs of one.
if "$2" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then
    alone 2 2 "$program-mpi" PMI_SIZE=2 PMI_RANK=0
    alone 2 2 "$program-mpi" PMI_SIZE=2 PMI_RANK=1
    alone 2 3 "$program-mpi" MV2_COMM_WORLD_SIZE=3 MV2_COMM_WORLD_RANK=0
    alone 0 0 "$program-mpi" PMI_SIZE=1 PMI_RANK=0
else
    alone 2 2 "$program-mpi" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
fi
alone 0 0 "$program-mpi" CLPRUNE_NOTHING=1
alone 0 0 "$program-mpi" SLURM_JOB_ID=7 SLURM_NTASKS=8

# bound NOTES COMMAND...: so many notes of cores.
bound() {
    notes=$1
    shift
    timeout 60 "$@" --version >out 2>err || fail "exit code $?: $*: $(cat err)"
    [ "$(grep -c 'note: the launcher binds each process of .* to 1 of its [0-9]* cores; mpirun --bind-to none' err)" = "$notes" ] ||
        fail "not $notes notes of cores: $*: $(cat err)"
}
cores=$(nproc)
# shellcheck disable=SC2086
bound 0 $start -n 1 "$program-mpi"
if [ "$cores" -gt 1 ] && command -v taskset >/dev/null; then
    one=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
    # shellcheck disable=SC2086
    bound 1 $start -n 1 taskset -c "$one" "$program-mpi"
    # shellcheck disable=SC2086
    [ "$cores" -lt 4 ] || bound 1 $start -n 2 taskset -c "$one" "$program-mpi"
    # shellcheck disable=SC2086 # as many processes as cores have one each
    [ "$cores" != 2 ] || bound 0 $start -n 2 taskset -c "$one" "$program-mpi"
    bound 0 taskset -c "$one" "$program-mpi" # by the user
    ! "$2" --version 2>&1 | grep -q 'Open MPI) 4' || bound 1 "$2" -n 1 "$program-mpi"
fi
[ $failures = 0 ]
