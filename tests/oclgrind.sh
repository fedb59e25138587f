#!/bin/sh
# Runs the kernel tests on a simulated device that checks every memory access.
#   tests/oclgrind.sh BUILD_DIR [TEST...]
# Oclgrind finds data races, reads of uninitialised memory, accesses out of bounds and wrong uses of
# the API, but exits with 0 whatever it finds: its log is searched. The build must be without
# sanitizers. The lists of shapes are short (CLPRUNE_TEST_SMALL), one kernel family at a time.
# Exits 0 if all tests pass and nothing was found, 1 otherwise, 77 where Oclgrind is missing.
build=${1:?usage: oclgrind.sh BUILD_DIR [TEST...]}
shift
command -v oclgrind >/dev/null 2>&1 || {
    echo "oclgrind is not installed"
    exit 77
}
tests=${*:-"test_matrix test_bsr test_prune test_bspmm test_saved test_linear"}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

# grind LOG COMMAND...: findings go to LOG.
grind() {
    log=$1
    shift
    CLPRUNE_TEST_SMALL=1 CLPRUNE_CACHE_DIR=off oclgrind --data-races --uninitialized \
        --check-api --max-errors 20 --num-threads 1 --log "$log" "$@"
}

failed=0
for test in $tests; do
    for family in vector tiled; do
        log=$folder/$test.$family.log
        out=$folder/$test.$family.out
        : >"$log"
        CLPRUNE_TEST_KERNELS=$family grind "$log" "$build/bin/$test" >"$out" 2>&1
        code=$?
        if [ "$code" -ne 0 ]; then
            echo "FAILED    $test, $family: exit $code"
            grep -E '^ERROR|FAILED|error' "$out" | head -20
            failed=1
        elif [ -s "$log" ]; then
            echo "FINDINGS  $test, $family:"
            head -60 "$log"
            failed=1
        elif ! grep -q 'Oclgrind' "$out"; then
            echo "FAILED    $test, $family: did not run on the simulated device"
            failed=1
        else
            echo "clean     $test, $family"
        fi
    done
done
exit "$failed"
