#!/usr/bin/env bash
# Builds with the thread sanitizer (cmake --preset tsan) and runs what has threads: the tests of
# thread-safe contexts and of 16 threads at once, the feed and the decoding of images, and a short
# training of each program.
#
#     tests/long/tsan.sh [BUILD_DIR]
#
# A report fails it if a function of this project does what it is about: the first frame below the
# sanitizer's own. Reports of drivers alone are counted. Exits with 0, 1, or
# 77 where the compiler has no thread sanitizer.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
cd "$(dirname "$0")/../.."
build=${1:-build/tsan}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# ours REPORT: the warnings with a function of this project on top, the first frame below the sanitizer's, of the
# stacks that say what was done.
ours() {
    awk '
        /^WARNING: ThreadSanitizer/ { mine = 0; text = ""; top = 1 }
        { text = text $0 "\n" }
        /^  [A-Z]/ { top = /^  (Write|Read|Previous|Atomic|Mutex .* acquired|Use|Destroy)/ }
        top && /^    #[0-9]+ / {
            if (/libsanitizer|libtsan/) next
            if (/ [^ ]*(src|tests|examples)\/[a-z0-9_\/]+\.[ch]:[0-9]/) mine = 1
            top = 0
        }
        /^SUMMARY/ && mine { printf "%s", text }
    ' "$1"
}

# A race that must be found, and be called ours: else nothing was watched.
mkdir "$folder/src"
cat >"$folder/src/race2d.c" <<'CODE'
#include <pthread.h>
static int shared;
static void *add(void *unused) { shared++; return unused; }
int main(void)
{
    pthread_t other;
    pthread_create(&other, NULL, add, NULL);
    shared++;
    pthread_join(other, NULL);
    return 0;
}
CODE
"${CC:-cc}" -g -fsanitize=thread -o "$folder/race" "$folder/src/race2d.c" -lpthread 2>"$folder/err" || {
    echo "tsan: this compiler has no thread sanitizer: $(head -1 "$folder/err")"
    exit 77
}
export TSAN_OPTIONS="suppressions=\"$PWD/tests/support/tsan.supp\" exitcode=0 log_path=$folder/report halt_on_error=0"
TSAN_OPTIONS="exitcode=66" "$folder/race" 2>"$folder/planted" && { echo "tsan: a planted race was not found"; exit 1; }
[ -n "$(ours "$folder/planted")" ] || { echo "tsan: a planted race is not called ours:" && cat "$folder/planted" && exit 1; }

targets=(test_threads test_threads_cold test_queue test_feed test_dataset_files test_dataset_folder resmlp-train resnet-train)
cmake --preset tsan -B "$build" >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$folder/build" ||
    { tail -20 "$folder/build"; exit 1; }

export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$folder/pocl} CLPRUNE_CACHE_DIR=off
mkdir -p "$POCL_CACHE_DIR"
small=(--train-limit 40 --test-limit 20 --batch-size 16 --epochs 1 --quiet)
failed=0
# check NAME COMMAND...: it succeeds, and no report has our frame on top.
check() {
    local name=$1 code=0 ours=0 all=0
    shift
    rm -f "$folder"/report.*
    "$@" >"$folder/out" 2>&1 || code=$?
    for report in "$folder"/report.*; do
        [ -e "$report" ] || continue
        ! grep -q FATAL "$report" || { head -3 "$report" && code=fatal; }
        all=$((all + $(grep -c '^WARNING: ThreadSanitizer' "$report" || true)))
        ours "$report" >"$folder/mine"
        if [ -s "$folder/mine" ]; then
            ours=$((ours + $(grep -c '^WARNING' "$folder/mine")))
            head -60 "$folder/mine"
        fi
    done
    [ -s "$folder/out" ] || [[ $name == *train ]] || code="0, but it printed nothing"
    [ "$code" = 0 ] || { tail -20 "$folder/out"; }
    echo "$name: exit code $code, $ours reports of ours, $all of all"
    [ "$code" = 0 ] && [ "$ours" = 0 ] || failed=1
}

bin=$build/bin
check "16 cold threads" "$bin/test_threads_cold"
for name in test_threads test_queue test_feed test_dataset_files test_dataset_folder; do
    check "$name" "$bin/$name"
done
check resmlp-train "$bin/resmlp-train" "${small[@]}" --image-size 16 --patch-size 8 \
    --activations compact \
    --output-dir "$folder/resmlp"
check resnet-train "$bin/resnet-train" "${small[@]}" --arch resnet20 --image-size 17 --output-dir "$folder/resnet"
exit $failed
