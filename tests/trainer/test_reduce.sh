#!/bin/sh
# The processes of a run: their sums, to the bit, and a rank that is lost.
#
#     test_reduce.sh path/to/test_reduce_mpi path/to/mpirun [REPEATS]     REPEATS: all ways to lose a rank, so many times
#
# 1 to 4 ranks exchange windows, bytes, words; ranks whose calls differ say so. Then a rank is lost. With a deadline of 2 s all processes are gone 4 s
# later; the survivors say which rank is missing and exit with code 7; rank 0 has had time to save. Hidden losses are
# those that mpirun does not see, as of a host that is gone: a script stays in the process's place. A rank that is late by
# more than the deadline is not lost, also if the others get a signal while they wait. Exits with 77 where mpirun does not
# start two processes.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1") mpirun=$2 repeats=${3:-}
cd "$folder" || exit 1
need_mpirun "$mpirun"

# exchange RANKS sums|fast|coded: in the background; its output is RANKS.sums, and RANKS.sums.failed if it fails.
exchange() {
    # shellcheck disable=SC2086 # words
    timeout 120 $start -n "$1" "$program" "$2" >"$1.$2" 2>&1 || echo "code $?" >"$1.$2.failed"
}

cat >hide.sh <<'CODE'
trap '' TERM
folder=$6
"$@"
code=$?
echo $code >"$folder/code.$$"
[ $code != 137 ] && [ $code != 0 ] || sleep 20 # who vanished, does so unseen
CODE

# lose NAME VICTIM HOW [hidden]: a run of three ranks. Its folder NAME has `code`, `err`, and `gone`, the time of its end.
lose() {
    mkdir "$1"
    # shellcheck disable=SC2086 # words
    timeout -k 1 60 $start -n 3 ${4:+sh "$folder/hide.sh"} "$program" lose "$2" "$3" 2 "$folder/$1" >"$1/out" 2>"$1/err"
    echo $? >"$1/code"
    date +%s%N | cut -c1-13 >"$1/gone" # milliseconds
}

# check NAME PATTERN: what such a run leaves; PATTERN is in a survivor's line.
check() {
    line=$(grep -a "^test_reduce_mpi: .*$2" "$1/err" | head -1)
    code=$(cat "$1/code")
    took=$(($(cat "$1/gone") - $(cat "$1/died" || echo 0)))
    echo "$1: gone after $took ms, code $code: $line"
    [ $took -le 4000 ] || fail "$1: gone only after $took ms"
    [ "$code" != 0 ] || fail "$1: mpirun returns 0"
    [ -n "$line" ] || fail "$1: no line with '$2': $(cat "$1/err")"
    for file in "$1"/pid.*; do
        tries=0 # mpirun does not wait for all of them
        while ps -o stat= -p "$(cat "$file")" | grep -q '^[^Z]' && [ $tries -lt 20 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        [ $tries -lt 20 ] || fail "$1: $file still runs"
    done
}

# hidden NAME VICTIM: the same of a hidden loss. MPICH's mpirun kills the scripts, too, before they know a code.
hidden() {
    check "$1" "no sign of life from rank $2 on .* for 2 s"
    [ "$(cat "$1/code")" = 7 ] || fail "$1: mpirun returns $(cat "$1/code"), not 7"
    codes=$(grep -hv '^137$\|^0$' "$1"/code.* | sort -u | tr '\n' ' ')
    case $codes in
    '7 ') ;;
    '') ! "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE' || fail "$1: no survivor exits" ;;
    *) fail "$1: survivors exit with $codes, not 7" ;;
    esac
    [ "$2" = 0 ] || [ -s "$1/saved" ] || fail "$1: rank 0 had no time to save"
}

slow() {
    [ "$(cat "$1/code")" = 0 ] || fail "$1: a slow rank is lost: code $(cat "$1/code"): $(cat "$1/err")"
}

# What mpirun sees it ends itself: a signal to the survivors, and a second later the next one (Open MPI 4), or SIGKILL at
# once (Open MPI 5, MPICH), so that nobody has a word; its code may then be 0 if the lost rank's was.
seen() {
    case $("$mpirun" --version 2>&1) in
    *"Open MPI) 4."*) check "$1" "rank $2 on .* after signal 15\|gave up, without a sign of life from rank $2 on" ;;
    *) [ "$1" = exit.1 ] || [ "$(cat "$1/code")" != 0 ] || fail "$1: mpirun returns 0" ;;
    esac
}

round() {
    rm -rf ./*.failed kill.* stop.* exit.* abort.* slow.* leave.* signal.*
    lose kill.2 2 kill &
    lose kill.hidden.0 0 kill hidden &
    lose slow.1 1 slow &
    lose leave.1 1 leave &
    exchange 4 sums
    exchange 1 sums
    exchange 3 coded
    wait
    seen kill.2 2
    hidden kill.hidden.0 0
    slow slow.1
    check leave.1 "rank 1 on .* has left"
    lose stop.2 2 stop &
    lose exit.hidden.1 1 exit hidden &
    lose abort.1 1 abort &
    exchange 3 sums
    exchange 2 sums
    exchange 3 fast
    exchange 2 coded
    exchange 4 coded
    exchange 1 coded
    wait
    check stop.2 "no sign of life from rank 2 on .* for 2 s"
    [ -s stop.2/saved ] || fail "stop.2: rank 0 had no time to save"
    hidden exit.hidden.1 1
    check abort.1 "rank 1 on .* gave up"
    for try in 1 2 3; do # a busy machine may answer too late
        rm -rf signal.1
        lose signal.1 1 signal
        grep -q 'waiting for' signal.1/err || break
    done
    check signal.1 "all stop after a signal"
    ! grep 'waiting for' signal.1/err || fail "signal.1: a signal ends a wait for a rank that lives"
    for file in *.failed; do
        [ ! -e "$file" ] || fail "${file%.failed}: $(cat "$file" "${file%.failed}")"
    done
    [ -s abort.1/saved ] || fail "abort.1: rank 0 had no time to save"
    [ -n "$repeats" ] || return
    lose kill.0 0 kill &
    lose kill.hidden.2 2 kill hidden &
    lose stop.0 0 stop &
    wait
    seen kill.0 0
    hidden kill.hidden.2 2
    check stop.0 "no sign of life from rank 0 on .* for 2 s"
    lose exit.1 1 exit &
    lose stop.hidden.1 1 stop hidden &
    lose slow.0 0 slow &
    wait
    seen exit.1 1
    hidden stop.hidden.1 1
    slow slow.0
}

# Rank 1 calls one function and the others another: each with the next of the list, or with REPEATS all pairs.
calls=$("$program" calls)
for a in $(seq 0 $((calls - 1))); do
    for b in $(seq 0 $((calls - 1))); do
        [ "$b" = $(((a + 1) % calls)) ] || { [ -n "$repeats" ] && [ "$a" != "$b" ]; } || continue
        # shellcheck disable=SC2086 # words
        timeout 20 $start -n 2 "$program" differ "$a" "$b" >"differ.$a.$b" 2>&1 &
    done
    [ $((a % 5)) != 4 ] || wait
done
wait
for file in differ.*; do
    [ "$(grep -c '^differs$' "$file")" = 2 ] || fail "calls $file: $(cat "$file")"
done

round
while [ "${repeats:-1}" -gt 1 ]; do
    repeats=$((repeats - 1))
    round
done
[ $failures = 0 ]
