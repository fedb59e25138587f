#!/bin/sh
# A run in several processes loses nothing when one is killed or stopped, or mpirun gets a signal, and ends in time.
#
#     test_ranks_lost.sh path/to/resmlp-train path/to/mpirun
#
# resmlp-train-mpi lies beside resmlp-train. Exits with 77 where mpirun does not start two processes.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1") mpirun=$2
cd "$folder" || exit 1
need_device "$program"
need_mpirun "$mpirun"

# rank_of NUMBER: the process of a rank.
rank_of() {
    for pid in $(pgrep -f "$program-mpi"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -q "^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=$1$" && echo "$pid"
    done
}

endless="--image-size 16 --patch-size 8 --train-limit 160 --test-limit 37 --batch-size 32 --epochs 1000 --test-every 0 --checkpoint-every 1000 --activations pruned --sparsity 0.5 --micro-batches 2 --peer-timeout 2"
for how in "TERM mpirun" "KILL 1" "STOP 1"; do
    rm -rf lost
    # shellcheck disable=SC2086
    timeout 200 $start -n 2 "$program-mpi" $endless --output-dir lost --quiet >out 2>err &
    tries=0
    until [ "$(wc -l 2>/dev/null <lost/log.csv)" -gt 2 ] 2>/dev/null || [ $tries -gt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    victim=$(rank_of 1)
    if [ "$how" = "TERM mpirun" ]; then
        kill -USR1 "$victim" # all save, and go on
        tries=0
        rows=$(wc -l <lost/log.csv)
        until { [ -e lost/last.ckpt ] && [ "$(wc -l <lost/log.csv)" -gt $((rows + 2)) ]; } || [ $tries -gt 600 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        [ $tries -le 600 ] || fail "no checkpoint after SIGUSR1 of rank 1: $(cat err)"
        victim=$(pgrep -P $!) # of timeout
    fi
    kill "-${how%% *}" "$victim" || fail "$how: no process"
    before=$(date +%s)
    wait $!
    code=$?
    took=$(($(date +%s) - before))
    [ $took -le 6 ] || fail "$how: gone only after $took s"
    case $how in STOP*) [ $code = 7 ] ;; *) [ $code != 0 ] ;; esac || fail "$how: exit code $code"
    [ -z "$(pgrep -f "$program-mpi")" ] || fail "$how: a process is left"
    case "$how,$("$mpirun" --version 2>&1)" in
    *"Open MPI) 4."* | STOP* | TERM*) ;;
    *) continue ;; # others send SIGKILL to all at once
    esac
    [ -s lost/last.ckpt ] || fail "$how: no checkpoint: $(cat err)"
    [ "$how" = "TERM mpirun" ] || grep -aq 'rank 0 of 2 on .*; go on with --resume lost/last.ckpt$' err ||
        fail "$how: no word of how to go on: $(cat err)"
    "$program" --resume lost/last.ckpt --steps 1 >out 2>err || fail "$how: it does not go on: $(cat err)"
done
[ $failures = 0 ]
