#!/bin/sh
# Runs training in several processes, and runs it again from its last checkpoint after a process or a host was lost.
#
#     restart.sh TIMES DIR mpirun ... NAME-train-mpi OPTIONS...
#
# The command is run with --output-dir DIR, and with --resume DIR/last.ckpt if that exists. It is run again at most
# TIMES times, each after RESTART_PAUSE seconds (5), as long as the last run left a newer checkpoint. Ends with the last run's
# exit code: at once after success, a signal, and faults that another run would meet again (tools/cluster/README.md has
# the codes).
#
# mpirun may wait for an unreachable host without end. So once the trainer says how to go on, mpirun has 5 s to end; then
# it gets SIGTERM, and SIGKILL 10 s later. The exit code is then 7.
export LC_ALL=C
set -u
[ $# -ge 3 ] && [ -z "${1##[0-9]*}" ] || {
    echo "usage: restart.sh TIMES DIR COMMAND... (mpirun ... NAME-train-mpi OPTIONS...)" >&2
    exit 2
}
times=$1 folder=$2 stopped=0 runs=0 child=
shift 2
work=$(mktemp -d) || exit 1
mkfifo "$work/err" || exit 1
trap 'rm -rf "$work"' EXIT
trap 'stopped=1; kill -TERM $child 2>/dev/null' INT TERM HUP # background jobs of a shell ignore SIGINT
trap 'kill -USR1 $child 2>/dev/null' USR1

state() {
    cksum "$folder/last.ckpt" 2>/dev/null
}

# insist PROCESS: ends it if it does not end itself.
insist() {
    sleep 5
    kill -TERM "$1" 2>/dev/null && : >"$work/lost"
    seconds=0
    while kill -0 "$1" 2>/dev/null && [ $seconds -lt 10 ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    kill -KILL "$1" 2>/dev/null
}

# watch PROCESS: passes on what it writes to stderr.
watch() {
    while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        case $line in *'; go on with --resume '*) insist "$1" & ;; esac
    done
}

# once COMMAND...: runs it, and sets `code`.
once() {
    rm -f "$work/lost"
    "$@" 2>"$work/err" &
    child=$!
    (
        trap '' INT TERM HUP USR1
        watch $child <"$work/err"
    ) &
    wait $child
    code=$?
    while kill -0 $child 2>/dev/null; do # a signal ends `wait`, not the run
        wait $child
        code=$?
    done
    [ ! -e "$work/lost" ] || code=7
}

while :; do
    before=$(state)
    if [ -n "$before" ]; then
        once "$@" --output-dir "$folder" --resume "$folder/last.ckpt"
    else
        once "$@" --output-dir "$folder"
    fi
    case $stopped:$code in
    1:* | 0:0 | 0:[2-6] | 0:129 | 0:130 | 0:143 | 0:152) exit $code ;;
    esac
    if [ $runs -ge "$times" ]; then
        echo "restart.sh: exit code $code, and it was run again $times times" >&2
        exit $code
    elif [ "$before" = "$(state)" ]; then
        echo "restart.sh: exit code $code, and it left no newer checkpoint" >&2
        exit $code
    fi
    runs=$((runs + 1))
    echo "restart.sh: exit code $code; run $((runs + 1)) goes on with $folder/last.ckpt" >&2
    sleep "${RESTART_PAUSE:-5}" & # a signal ends `wait`
    child=$!
    wait $child
    [ $stopped = 0 ] || exit $code
done
