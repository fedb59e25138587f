#!/bin/sh
# A run on two hosts (tools/cluster/netns.sh) that loses a process or a link: all of it ends in time, with a line and a checkpoint,
# and tools/cluster/restart.sh goes on with it.
#
#     test_cluster.sh path/to/resmlp-train path/to/mpirun [REPEATS [CSV]]     REPEATS: of each loss (1)
#
# resmlp-train-mpi lies beside resmlp-train. CSV gets a row for each loss. Exits with 77 without root or namespaces.
. "$(dirname "$0")/../support/program.sh"
unset CDPATH # with it, cd prints, and may go elsewhere
program=$(whole "$1") repeats=${3:-1} csv=$(whole "${4:-$folder/losses.csv}")
tools=$(cd "$(dirname "$0")/../../tools/cluster" && pwd)
deadline=2 # seconds
export MPIRUN="$2" CLPRUNE_NETNS="t$$h" POCL_MAX_PTHREAD_COUNT=1 RESTART_PAUSE=0
killed=KILL # MPICH then kills the others at once: nothing is saved
"$MPIRUN" --version 2>&1 | grep -q 'Open MPI\|OpenRTE' || killed=STOP
netns=$tools/netns.sh first=${CLPRUNE_NETNS}1 second=${CLPRUNE_NETNS}2
cd "$folder" || exit 1
need_device "$program"
trap '"$netns" down; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP
"$netns" up 2 1gbit >out 2>&1 && timeout 60 "$netns" run 2 hostname >out 2>&1 || {
    echo "no hosts made of namespaces here: $(cat out)"
    exit 77
}
[ "$(sort out | tr '\n' ' ')" = "$first $second " ] || fail "other hosts: $(cat out)"

endless="--image-size 16 --patch-size 8 --train-limit 160 --test-limit 37 --batch-size 32 --epochs 100000 --test-every 0
    --checkpoint-every 100000 --peer-timeout $deadline --quiet"

# trainers HOST...: processes of the program.
trainers() {
    for host in "$@"; do
        for pid in $(ip netns pids "$host"); do
            [ "$(readlink "/proc/$pid/exe")" != "$program-mpi" ] || echo "$pid"
        done
    done
}

now() {
    date +%s%3N
}

# trained FOLDER EPOCHS: waits until its log has more of them.
trained() {
    tries=0
    until [ "$(cat "$1/log.csv" 2>/dev/null | wc -l)" -gt $(($2 + 1)) ] || [ $tries -gt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# empty FUNCTION: waits until it prints nothing, for 20 s; sets `took`, milliseconds since `since`.
empty() {
    took=0
    while [ -n "$("$@")" ] && [ $took -lt 20000 ]; do
        sleep 0.05
        took=$(($(now) - since))
    done
    took=$(($(now) - since))
}

all() {
    ip netns pids $first
    ip netns pids $second
}

# lose HOW: a run loses rank 1, at some moment.
lose() {
    rm -rf lost
    # shellcheck disable=SC2086 # words
    timeout 120 "$tools/restart.sh" 0 lost "$netns" run 2 "$program-mpi" $endless >out 2>err &
    trained lost 2
    sleep "0.$(($(now) % 10))"
    since=$(now)
    case $1 in
    unplug) "$netns" unplug $second ;;
    *) kill "-$1" "$(trainers $second)" ;;
    esac || fail "$1: no process"
    empty trainers $first $second
    trainers_ms=$took
    wait $!
    code=$?
    mpirun_ms=$(($(now) - since))
    [ "$1" != unplug ] || "$netns" plug $second # the daemon of an unplugged host hears of mpirun's end then
    empty all
    all_ms=$took
    checkpoint=yes
    [ -s lost/last.ckpt ] && "$program" --resume lost/last.ckpt --steps 1 --quiet >out 2>>err || checkpoint=no
    echo "$1,$code,$trainers_ms,$mpirun_ms,$all_ms,$checkpoint" >>"$csv"
    # A stopped process is ended by mpirun: SIGCONT, SIGTERM a second later, SIGKILL after another one.
    [ "$trainers_ms" -le $((1000 * (deadline + $([ "$1" = STOP ] && echo 4 || echo 2)))) ] || fail "$1: trainers are gone only after $trainers_ms ms"
    [ "$mpirun_ms" -le $((1000 * (deadline + 8))) ] || fail "$1: mpirun is gone only after $mpirun_ms ms"
    [ "$all_ms" -lt 20000 ] || fail "$1: a process is left"
    case $1 in KILL) [ $code != 0 ] ;; *) [ $code = 7 ] ;; esac || fail "$1: exit code $code: $(cat err)"
    [ $killed = STOP ] && [ "$1" = KILL ] && return
    [ $checkpoint = yes ] || fail "$1: nothing to go on with: $(cat err)"
    grep -q "rank 0 of 2 on $first.*; go on with --resume lost/last.ckpt\$" err ||
        fail "$1: no word of it: $(cat err)"
}

echo "loss,exit_code,trainers_gone_ms,mpirun_gone_ms,all_gone_ms,goes_on" >"$csv"
for round in $(seq "$repeats"); do
    for how in KILL STOP unplug; do
        lose $how
    done
done

[ $killed = KILL ] || {
    echo "the restart loop is tested with Open MPI only"
    [ $failures = 0 ]
    exit
}

# ---- the restart loop ----------------------------------------------------------------------------
# shellcheck disable=SC2086 # words
"$tools/restart.sh" 2 again "$netns" run 2 "$program-mpi" $endless >out 2>err &
loop=$!
for run in 1 2; do
    trained again 2
    tries=0
    until [ -n "$(trainers $second)" ] || [ $tries -gt 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    trained again $(($(wc -l <again/log.csv) + 2))
    kill -KILL "$(trainers $second)" || fail "no process to end"
    tries=0
    until [ "$(grep -c 'goes on with again/last.ckpt' err)" = $run ] || [ $tries -gt 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
done
until [ -n "$(trainers $second)" ] || [ $tries -gt 400 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
trained again $(($(wc -l <again/log.csv) + 2))
kill -TERM $loop
since=$(now)
wait $loop
code=$?
empty all
[ $code != 0 ] && [ $took -lt 12000 ] || fail "SIGTERM to the loop: exit code $code after $took ms"
[ "$(grep -c 'goes on with again/last.ckpt' err)" = 2 ] || fail "not two restarts: $(cat err)"
steps=$(tail -n 1 again/log.csv | cut -d, -f2)
"$program" --resume again/last.ckpt --steps 1 --quiet || fail "no checkpoint after SIGTERM"
[ "${steps:-0}" -gt 50 ] || fail "only $steps steps"

# shellcheck disable=SC2086
"$tools/restart.sh" 0 never "$netns" run 2 "$program-mpi" $endless >out 2>err &
loop=$!
trained never 2
kill -KILL "$(trainers $second)"
wait $loop && fail "a lost process is no failure"
grep -q 'it was run again 0 times$' err || fail "no limit of restarts: $(cat err)"

"$tools/restart.sh" 3 wrong "$netns" run 2 "$program-mpi" --nonsense >out 2>err
[ $? = 2 ] && ! grep -q restart.sh err || fail "a wrong option is tried again: $(cat err)"
"$tools/restart.sh" 3 crash sh -c 'kill -KILL $$' >out 2>err
[ $? = 137 ] && grep -q 'it left no newer checkpoint$' err || fail "a crash without a checkpoint is tried again: $(cat err)"
"$tools/restart.sh" 1 good "$netns" run 2 "$program-mpi" --image-size 16 --patch-size 8 --train-limit 64 --test-limit 8 --epochs 1 >out 2>err ||
    fail "a run that succeeds: exit code $?: $(cat err)"
[ $failures = 0 ]
