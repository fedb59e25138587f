#!/usr/bin/env bash
# Fuzzes what reads files and texts: builds the targets of tests/fuzz with Clang's libFuzzer, the address
# and the undefined-behaviour sanitizer in build/fuzz, and runs one after the other.
#
#     tests/long/fuzz.sh [-s SECONDS] [-n RUNS] [-a] [-m] [TARGET...]
#
#     -s SECONDS   at most, for each target (default 60; 0: no limit)
#     -n RUNS      at most, for each target (default: no limit)
#     -a           go on: -n counts the executions of earlier runs too, and the line has the sum of all
#                  runs; they are what the logs in build/fuzz/logs say, of runs that were killed as well
#     -m           then merge what was found into the committed corpora, as few inputs as keep the coverage;
#                  files named edge-* stay; writes tests/fuzz/corpus/TARGET.tar
#
# A long run, which may be stopped and started again: tests/long/fuzz.sh -s 0 -n 10000000 -a
# Prints a line per target. New inputs stay in build/fuzz/corpus/TARGET for the next run. An input that
# crashes, hangs for 10 seconds or leaks goes to build/fuzz/findings/TARGET-*: the script names it and
# ends with 1. To look at one: build/fuzz/bin/fuzz_TARGET FILE. Ends with 77 where there is no Clang.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=60 runs=-1 merge=no all=no
while getopts s:n:amh option; do
    case $option in
    s) seconds=$OPTARG ;;
    n) runs=$OPTARG ;;
    a) all=yes ;;
    m) merge=yes ;;
    *) sed -n '2,19s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
command -v clang >/dev/null || { echo "fuzz.sh: no clang (Debian: apt-get install clang)"; exit 77; }

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" >/dev/null
if [ $# -eq 0 ]; then
    for program in build/fuzz/bin/fuzz_*; do
        set -- "$@" "${program##*/fuzz_}"
    done
fi
found=$PWD/build/fuzz/findings
mkdir -p "$found" build/fuzz/logs build/fuzz/pocl
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$PWD/build/fuzz/pocl} CLPRUNE_CACHE_DIR=off UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS="suppressions=\"$PWD/tests/support/lsan.supp\":print_suppressions=0"
export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=4

# sum_of LOG...: executions and seconds of runs. A log begins with the time of its start and was last
# written at the end; libFuzzer names the executions at its end, and in lines "#N" before.
sum_of() {
    local log
    for log in "$@"; do
        [ ! -e "$log" ] || awk -v end="$(stat -c %Y "$log")" '
            NR == 1 { began = $1 }
            /^#[0-9]/ { n = substr($1, 2) }
            /^stat::number_of_executed_units/ { n = $2 }
            END { print n + 0, end - began }' "$log"
    done | awk '{ n += $1; s += $2 } END { print n + 0, s + 0 }'
}

# pack FOLDER ARCHIVE: the same files give the same bytes.
pack() {
    find "$1" -type f -printf '%f\n' | sort | tar -C "$1" --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
        --mode=644 -T - -cf "$2"
}

failures=0
printf '%-14s %12s %9s %6s %7s  %s\n' target executions seconds edges inputs findings
for target in "$@"; do
    seeds=$PWD/build/fuzz/tests/fuzz/corpus/$target new=$PWD/build/fuzz/corpus/$target
    dictionary=tests/fuzz/dictionaries/$target.dict
    mkdir -p "$new" "$seeds"
    logs=(build/fuzz/logs/"$target".*)
    number=0
    while [ -e "build/fuzz/logs/$target.$number" ]; do number=$((number + 1)); done
    log=build/fuzz/logs/$target.$number left=$runs code=0
    if [ $all = yes ] && [ "$runs" -ge 0 ]; then
        read -r earlier _ < <(sum_of "${logs[@]}")
        left=$((runs > earlier ? runs - earlier : 0))
    fi
    options=(-max_total_time="$seconds" -runs="$left" -timeout=10 -rss_limit_mb=4096
        -artifact_prefix="$found/$target-" -print_final_stats=1)
    [ ! -e "$dictionary" ] || options+=(-dict="$PWD/$dictionary")
    before=$(find "$found" -type f | wc -l)
    if [ "$left" -ne 0 ]; then
        date +%s >"$log"
        build/fuzz/bin/fuzz_"$target" "${options[@]}" "$new" "$seeds" >>"$log" 2>&1 || code=$?
    fi
    logs=("$log")
    [ $all = no ] || logs=(build/fuzz/logs/"$target".*)
    read -r executions spent < <(sum_of "${logs[@]}")
    edges=$(sed -n 's/^#[0-9]*.* cov: \([0-9]*\) .*/\1/p' "${logs[@]}" | sort -n | tail -n 1)
    count=$(($(find "$found" -type f | wc -l) - before))
    printf '%-14s %12s %9s %6s %7s  %s\n' "$target" "$executions" "$spent" "${edges:-?}" \
        "$(find "$new" "$seeds" -type f | wc -l)" "$count"
    if [ $code -ne 0 ] || [ "$count" -ne 0 ]; then
        failures=$((failures + 1))
        echo "fuzz.sh: $target ended with $code; its log is $log, its inputs:"
        ls -d "$found/$target-"* 2>/dev/null || true
        grep -E 'SUMMARY|broken|runtime error|a message that' "$log" | head -n 3 || true
    fi
    if [ $merge = yes ]; then
        rm -rf "build/fuzz/merged/$target"
        mkdir -p "build/fuzz/merged/$target"
        build/fuzz/bin/fuzz_"$target" -merge=1 -timeout=10 -rss_limit_mb=4096 \
            "$PWD/build/fuzz/merged/$target" "$seeds" "$new" >"build/fuzz/merged/$target.log" 2>&1
        find "$seeds" -type f ! -name 'edge-*' -delete
        cp "build/fuzz/merged/$target"/* "$seeds"
        pack "$seeds" "$PWD/tests/fuzz/corpus/$target.tar"
    fi
done
[ $failures = 0 ]
