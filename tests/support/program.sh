# program.sh: for scripts that test programs from outside. Source it first: it makes a folder that goes with the script.
#
#     . "$(dirname "$0")/../support/program.sh"
#     program=$(whole "$1")
#     cd "$folder" || exit 1
#     need_device "$program"
#     ...
#     [ $failures = 0 ]
export LC_ALL=C # a decimal point in every locale
set -u
failures=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

# whole PATH: the path from anywhere.
whole() {
    case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac
}

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

no_device() {
    echo "there is no OpenCL device"
    [ "${CLPRUNE_TEST_SKIP_NO_DEVICE:-}" = 1 ] && exit 77
    exit 1
}

# need_device PROGRAM: ends the test if a trainer finds no device.
need_device() {
    "$1" --list-devices >/dev/null 2>&1 || no_device
}

# need_mpirun MPIRUN: sets `start` to the words that start processes, before -n; ends the test where it starts none.
need_mpirun() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start="$1 -bind-to none"
    if "$1" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then
        # every mpirun makes and removes a folder of one name, and all that is in it: each has it elsewhere
        cat >"$folder/start" <<CODE
exec env OMPI_MCA_orte_tmpdir_base=\$(mktemp -d "$folder/ompi.XXXXXX") "$1" --bind-to none --oversubscribe "\$@"
CODE
        start="sh $folder/start"
    fi
    # shellcheck disable=SC2086 # words
    timeout 60 $start -n 2 true >out 2>&1 || {
        echo "$1 does not start processes here: $(cat out)"
        exit 77
    }
}

# ours FILE: without what PoCL prints there: how many warnings its compiler had of vectors wider than the CPU's.
ours() {
    grep -v '^[0-9]* warnings* generated\.$' "$1" >"$1.ours"
    mv "$1.ours" "$1"
}

# ends CODE PATTERN PROGRAM arguments...: the program ends with CODE; it prints nothing on stderr, or, for another code
# than 0, one line that has PATTERN. Its outputs are in `out` and `err`.
ends() {
    code=$1 pattern=$2
    shift 2
    "$@" >out 2>err
    got=$?
    ours err
    [ $got = "$code" ] || fail "exit code $got, not $code: $*: $(cat err)"
    if [ "$code" = 0 ]; then
        [ ! -s err ] || fail "it prints on stderr: $*: $(cat err)"
    elif [ "$(wc -l <err)" != 1 ] || ! grep -q -- "$pattern" err; then
        fail "stderr is not one line with '$pattern': $*: $(cat err)"
    fi
}

# bytes NAME FIELD FILE: a number of bytes in a line of a plan or a memory report; without that line, a text that
# names the file.
bytes() {
    awk -v name="$1" -v field="$2" 'index($0, name) == 1 { print $(NF - field); found = 1; exit }
        END { if (!found) print "no", name, "in", FILENAME }' "$3"
}

# results FOLDER: a run's log without its columns of time.
results() {
    cut -d, -f1-6 "$1/log.csv"
}
