#!/bin/sh
# Runs the kernel tests on a simulated device that checks every memory access.
#   tests/oclgrind.sh BUILD_DIR [TEST...]
# Oclgrind finds data races, reads of uninitialised memory, accesses out of bounds and wrong uses of
# the API, but exits with 0 whatever it finds: its log is searched. The build must be without
# sanitizers. The lists of shapes are short (CLPRUNE_TEST_SMALL), one kernel family at a time.
#
# Two runs, as Oclgrind 21.10 cannot do all at once: its check for uninitialised values does not know
# the instruction "freeze" that optimised kernels contain, and unoptimised it takes the upper half of
# a float16 for uninitialised. What it says of the kernels in `falsely_accused`, which sum one up, is
# therefore left out of the second run, and only of that.
# Exits 0 if all tests pass and nothing was found, 1 otherwise, 77 where Oclgrind is missing.
falsely_accused="prune_score"
build=${1:?usage: oclgrind.sh BUILD_DIR [TEST...]}
shift
command -v oclgrind >/dev/null 2>&1 || {
    echo "oclgrind is not installed"
    exit 77
}
tests=${*:-"test_matrix test_bsr test_prune test_bspmm test_saved test_linear"}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

# grind LOG OPTIONS COMMAND: findings go to LOG.
grind() {
    log=$1
    options=$2
    shift 2
    # shellcheck disable=SC2086 # the options are several words
    CLPRUNE_TEST_SMALL=1 CLPRUNE_CACHE_DIR=off oclgrind $options --max-errors 1000 \
        --num-threads 1 --log "$log" "$@"
}

# The log without the paragraphs about kernels that are falsely accused.
without_false() {
    awk -v names="$falsely_accused" '
        BEGIN { RS = ""; ORS = "\n\n"; count = split(names, name, " ") }
        { for (i = 1; i <= count; i++)
              if (/uninitialized/ && index($0, "Kernel: " name[i] "\n")) next
          if (NF > 0) print }' "$1"
}

failed=0
check() {
    what="$1, $2, $3"
    options=$4
    log=$folder/log
    out=$folder/out
    : >"$log"
    CLPRUNE_TEST_KERNELS=$2 grind "$log" "$options" "$build/bin/$1" >"$out" 2>&1
    code=$?
    if [ "$3" = uninitialized ]; then
        without_false "$log" >"$log.true"
        mv "$log.true" "$log"
    fi
    if [ "$code" -ne 0 ]; then
        echo "FAILED    $what: exit $code"
        grep -E '^ERROR|FAILED|error' "$out" | head -20
        head -20 "$log"
    elif grep -q '[^[:space:]]' "$log"; then
        echo "FINDINGS  $what:"
        head -60 "$log"
    elif ! grep -q 'Oclgrind' "$out"; then
        echo "FAILED    $what: did not run on the simulated device"
    else
        echo "clean     $what"
        return
    fi
    failed=1
}

for test in $tests; do
    for family in vector tiled; do
        check "$test" $family races "--data-races --check-api"
        check "$test" $family uninitialized "--uninitialized --build-options -cl-opt-disable"
    done
done
exit "$failed"
