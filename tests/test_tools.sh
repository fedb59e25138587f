#!/bin/sh
# The tools from outside: what is refused, before anything is measured, with which code and words.
#
#     test_tools.sh folder/of/the/programs
set -u
programs=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0

# refused CODE PATTERN program arguments...: exit code, a first line of stderr that matches, and
# nothing on stdout.
refused() {
    code=$1 pattern=$2 program=$3
    shift 3
    "$programs/$program" "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    if [ $got != "$code" ] || [ -s "$folder/out" ] ||
        ! head -n 1 "$folder/err" | grep -q "$program: .*$pattern"; then
        echo "FAILED: exit code $got, expected $code and '$pattern': $program $*"
        cat "$folder/out" "$folder/err"
        failures=$((failures + 1))
    fi
}

refused 2 'unexpected argument "x"' clprune-info x
refused 2 '--op: "foo" is not gemm, bspmm-tn, bspmm-nt, blast or all' clprune-tune --op foo
refused 2 'unexpected argument "x"' clprune-tune x
refused 2 '--time: "0"' clprune-tune --time 0
refused 2 '--precision: "fp8" is not fp32, tf32 or bf16' clprune-tune --precision fp8
# Not after ten minutes of search.
refused 1 "--output: cannot write $folder/none/x.json: No such file" clprune-tune --output "$folder/none/x.json"
refused 2 'no operation "foo"' clprune-bench foo
refused 2 '--block: "0"' clprune-bench bspmm --block 0
refused 2 '--sparsity: "2"' clprune-bench bspmm --sparsity 2
refused 2 "--json: cannot write \"$folder/none/x\"" clprune-bench bspmm --json "$folder/none/x"

[ $failures = 0 ] || { echo "$failures failures" && exit 1; }
echo "all passed"
