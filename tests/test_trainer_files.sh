#!/bin/sh
# The trainer's files from outside: what a run reads and writes is not lost, by whatever it is overwritten; what is
# refused, what is said.
#
#     test_trainer_files.sh path/to/resmlp-train path/to/resnet-train
export LC_ALL=C # a decimal point in every locale
set -u
program=$1 resnet=$2
case $program in /*) ;; *) program=$PWD/$program ;; esac
case $resnet in /*) ;; *) resnet=$PWD/$resnet ;; esac
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
if ! "$program" --list-devices >/dev/null 2>&1; then
    echo "there is no OpenCL device"
    [ "${CLPRUNE_TEST_SKIP_NO_DEVICE:-}" = 1 ] && exit 77
    exit 1
fi

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# ends CODE PATTERN command...: the command ends with CODE; it prints nothing on stderr, or, for another code than 0,
# one line that has PATTERN.
ends() {
    code=$1 pattern=$2
    shift 2
    "$@" >out 2>err
    got=$?
    grep -v '^[0-9]* warnings* generated\.$' err >ours # PoCL counts its compiler's
    mv ours err
    [ $got = "$code" ] || fail "exit code $got, not $code: $*: $(cat err)"
    if [ "$code" = 0 ]; then
        [ ! -s err ] || fail "it prints on stderr: $*: $(cat err)"
    elif [ "$(wc -l <err)" != 1 ] || ! grep -q -- "$pattern" err; then
        fail "stderr is not one line with '$pattern': $*: $(cat err)"
    fi
}

expect() {
    code=$1 pattern=$2
    shift 2
    ends "$code" "$pattern" "$program" "$@"
}

# A run that takes a moment: one step an epoch.
small="--image-size 16 --patch-size 8 --train-limit 16 --test-limit 8 --batch-size 16 --quiet"

without_time() {
    cut -d, -f1-6,10,11 "$1"
}

# ---- signals -------------------------------------------------------------------------------------
# Two signals at once are one. (timeout(1) sends its signal twice; equal ones may merge, so these differ.)
"$program" $small --epochs 100000 --output-dir stopped --export stopped.st >out 2>err &
child=$!
tries=0
while [ "$(wc -l 2>/dev/null <stopped/log.csv || echo 0)" -lt 2 ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -s INT $child
kill -s TERM $child
wait $child
got=$?
[ $got = 130 ] || fail "exit code $got, not 130, after two signals: $(cat err)"
[ ! -e stopped/run.lock ] || fail "two signals end a run before it has saved"
rows=$(($(wc -l <stopped/log.csv) - 1))
expect 0 "" --resume stopped/last.ckpt --epochs $((rows + 1)) --quiet
[ "$(wc -l <stopped/log.csv)" = $((rows + 2)) ] || fail "no going on after two signals"

[ $failures = 0 ] || { echo "$failures failures" && exit 1; }
echo "all passed"
