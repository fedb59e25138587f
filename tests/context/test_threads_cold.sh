#!/bin/sh
# 16 threads in a process that has not used OpenCL yet, in many processes: nothing is wrong in any,
# and all train to the same bits.
#
#     test_threads_cold.sh PROGRAM COUNT
#
# COUNT processes one after the other, each with empty caches of its own: PoCL's, and in every second
# process also the library's. Then a fourth of that many rounds of 3 processes at once with one pair
# of empty caches. COUNT 0 is one process that compiles half of the kernels, and 12 that find them in
# the caches, for a quick look: without the lock around CLBlast one in seven of such processes is wrong.
export LC_ALL=C # a decimal point in every locale
set -u
program=${1:?usage: test_threads_cold.sh PROGRAM COUNT} count=${2:?usage: test_threads_cold.sh PROGRAM COUNT}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# LLVM gives threads signal stacks, which the address sanitizer takes for its own.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:use_sigaltstack=0"
wrong=0 hash=

# run NAME CACHES LIBRARY_CACHE [short]: one process, its output in $folder/NAME.
run() {
    POCL_CACHE_DIR=$2/pocl CLPRUNE_CACHE_DIR=$3 "$program" ${4:-} >"$folder/$1" 2>&1 ||
        echo "exit code $?" >>"$folder/$1"
}

# settle NAME: what it printed must be the hash that the first printed.
settle() {
    [ -n "$hash" ] || hash=$(grep '^hash' "$folder/$1")
    [ -n "$hash" ] && [ "$(grep -v '^[0-9]* warnings* generated\.$' "$folder/$1")" = "$hash" ] && return
    echo "$1, expected '$hash':"
    sed 's/^/    /' "$folder/$1" | head -40
    wrong=$((wrong + 1))
}

caches() {
    rm -rf "$folder/caches"
    mkdir -p "$folder/caches/pocl"
}

if [ "$count" = 0 ]; then
    caches
    export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable # PoCL compiles in half of the time
    for k in cold 1 2 3 4 5 6 7 8 9 10 11 12; do
        run "quick-$k" "$folder/caches" "$folder/caches/clprune" short
        settle "quick-$k"
    done
fi
i=1
while [ $i -le "$count" ]; do
    caches
    library=off
    [ $((i % 2)) = 1 ] || library=$folder/caches/clprune
    run "process-$i" "$folder/caches" "$library"
    settle "process-$i"
    i=$((i + 1))
done
rounds=$((count / 4)) round=1
while [ $round -le $rounds ]; do
    caches
    for k in 1 2 3; do
        run "round-$round-$k" "$folder/caches" "$folder/caches/clprune" &
    done
    wait
    for k in 1 2 3; do settle "round-$round-$k"; done
    round=$((round + 1))
done
echo "$((count + 3 * rounds + 13 * (count == 0))) processes of 16 threads, $wrong wrong, $hash"
[ "$wrong" = 0 ]
