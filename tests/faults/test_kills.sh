#!/bin/sh
# Training runs that are killed (SIGKILL) at random moments, go on and end as a run that was not: the
# same log, the same weights to the byte, the same checkpoint but for its times, nothing left behind.
#
#     test_kills.sh path/to/resmlp-train [RUNS [SEED]]     default 3 and 1; each is killed once or twice, at
#                                                          a random moment or in the middle of a checkpoint
#
# Then a folder on a disk that becomes full, where this process may mount one: the run ends with code 4,
# and the checkpoint before stays.
export LC_ALL=C # a decimal point in every locale
set -u
program=$1
runs=${2:-3}
case $program in /*) ;; *) program=$PWD/$program ;; esac
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
"$program" --list-devices >/dev/null 2>&1 || { echo "there is no OpenCL device"; exit 1; }

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# Twelve epochs of three steps: a checkpoint every few milliseconds.
small="--image-size 16 --patch-size 8 --train-limit 80 --test-limit 40 --batch-size 32 --epochs 12 \
    --activations pruned --sparsity 0.5"

now() {
    date +%s%N | cut -c1-13 # milliseconds
}

# random MOST: 1 to MOST, from a fixed sequence.
state=$((${3:-1} * 7919))
random() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    number=$((state / 65536 % $1 + 1))
}

half_written() {
    for file in run/last.ckpt.*.tmp; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

# run_until MILLISECONDS arguments...: killed then, unless it has ended; negative: once a checkpoint
# is being written after that time.
run_until() {
    after=$1 within=
    shift
    [ "$after" -gt 0 ] || within=yes after=$((-after))
    "$program" "$@" --quiet --export weights >out 2>err &
    child=$!
    sleep "$((after / 1000)).$(printf %03d $((after % 1000)))"
    while [ -n "$within" ] && kill -s 0 $child 2>/dev/null && ! half_written; do :; done
    kill -s KILL $child 2>/dev/null
    wait $child 2>/dev/null
    code=$?
}

# finish arguments...: to the end.
finish() {
    "$program" "$@" --quiet --export weights >out 2>err || fail "exit code $?: $*: $(cat err)"
}

without_time() {
    cut -d, -f1-6,10,11 "$1"
}

finish $small --output-dir warm # compiles the kernels
began=$(now)
finish $small --output-dir whole
takes=$(($(now) - began))
without_time whole/log.csv >want
cp weights want.weights
size=$(wc -c <whole/last.ckpt)

killed=0 whole_runs=0 resumed=0 right=0 halves=0
while [ $whole_runs -lt "$runs" ]; do
    whole_runs=$((whole_runs + 1))
    rm -rf run weights
    random 2
    times=$number
    set -- $small --output-dir run
    while [ $times -gt 0 ]; do
        random $((takes + takes / 10))
        after=$number
        random 2
        [ $number = 1 ] || after=$((-after / 2))
        run_until "$after" "$@"
        [ $code = 137 ] && killed=$((killed + 1))
        [ $code = 137 ] || [ $code = 0 ] || fail "exit code $code after being killed before: $(cat err)"
        half_written && halves=$((halves + 1))
        if [ -e run/last.ckpt ]; then
            resumed=$((resumed + 1))
            set -- --resume run/last.ckpt
        else # killed in its first epoch: there is nothing to lose
            set -- $small --output-dir run --overwrite
        fi
        times=$((times - 1))
    done
    before=$failures
    finish "$@"
    without_time run/log.csv | cmp -s want - || fail "another log: $(cat run/log.csv)"
    cmp -s want.weights weights || fail "other weights"
    # Equal but for seconds, also of processors, three columns of each row of the log, and the checksum.
    [ "$(wc -c <run/last.ckpt)" = "$size" ] && [ "$(cmp -l whole/last.ckpt run/last.ckpt | wc -l)" -le 320 ] ||
        fail "another checkpoint"
    [ "$(ls -A run | tr '\n' ' ')" = "last.ckpt log.csv " ] || fail "left behind: $(ls -A run)"
    [ $failures = $before ] && right=$((right + 1))
done
echo "$right of $runs runs end as one that was not killed; $killed kills, $resumed times resumed," \
    "$halves times a half-written file was there"
[ $killed -gt 0 ] || fail "no run was killed"

# ---- a full disk ---------------------------------------------------------------------------------
# Room for one checkpoint, not for the second beside it.
full_disk() {
    mkdir -p small_disk
    mount -t tmpfs -o "size=$((size * 3 / 2 / 4096 * 4 + 8))k" tmpfs small_disk 2>/dev/null || return 1
    finish $small --epochs 1 --output-dir small_disk
    cksum small_disk/last.ckpt >before
    "$program" --resume small_disk/last.ckpt --epochs 2 --quiet >out 2>err
    code=$?
    cksum small_disk/last.ckpt >after
    [ $code = 4 ] || fail "exit code $code, not 4, on a full disk: $(cat err)"
    grep -q '^resmlp-train: .*small_disk/last.ckpt: No space left' err || fail "a full disk is not named: $(cat err)"
    cmp -s before after || fail "a full disk changes the checkpoint before"
    ls small_disk/*.tmp >/dev/null 2>&1 && fail "a full disk has a temporary file left"
    finish --resume small_disk/last.ckpt --epochs 2 --output-dir elsewhere
    umount small_disk
}
full_disk || echo "a full disk is not tried: no mounting here"

[ $failures = 0 ] || exit 1
echo "all passed"
