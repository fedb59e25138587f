#!/bin/sh
# The tools from outside: what they say of themselves, what they refuse before anything is measured, with
# which code and words; what a search that is interrupted leaves; and that scripts write decimal points.
#
#     test_tools.sh folder/of/the/programs source/folder [device/layer.so]
#
# Figures whose files cannot be written. A search for a device with a long name. What the quickstart says of a failure.
# PoCL where the parent ignores SIGCHLD. Tables in a locale with a decimal comma.
export LC_ALL=C # a decimal point in every locale
set -u
programs=$1
source=$2
layer=${3:-}
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

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

for program in clprune-info clprune-bench clprune-tune; do
    for option in -h --help; do
        "$programs/$program" $option >"$folder/out" 2>"$folder/err" && [ ! -s "$folder/err" ] &&
            grep -q "^usage: $program" "$folder/out" && grep -q -- "^  -h, --help" "$folder/out" &&
            grep -q -- "^  --version" "$folder/out" ||
            fail "$program $option: $(cat "$folder/out" "$folder/err")"
    done
    "$programs/$program" --version >"$folder/out" 2>"$folder/err" && [ ! -s "$folder/err" ] &&
        [ "$(wc -l <"$folder/out")" = 1 ] && grep -q "^$program (clprune) [0-9]*\.[0-9]" "$folder/out" ||
        fail "$program --version: $(cat "$folder/out" "$folder/err")"
done

# A reader that had enough is no fault: nothing is said, and the exit code is 0 or that of SIGPIPE, also where the parent
# ignores that.
readers=0
for signals in --default-signal=PIPE --ignore-signal=PIPE; do
    for command in "clprune-info --help" "clprune-info --version" "clprune-info --list" clprune-info "clprune-bench --help" \
        "clprune-bench --version" "clprune-tune --help" "clprune-tune --version" "resmlp-train --help" "resmlp-train --version" \
        "resmlp-train --list-devices" "resmlp-train --plan --image-size 32" "gpt-train --help" \
        "vit-train-mpi --help" clprune-quickstart; do
        [ -x "$programs/${command%% *}" ] || continue # a build without examples, or MPI
        mkfifo "$folder/reader" # a new one: a process that MPI left behind may still write to the last
        true <"$folder/reader" &
        exec 9>"$folder/reader"
        wait $!
        rm "$folder/reader"
        env $signals "$programs/"$command >&9 2>"$folder/err"
        code=$?
        exec 9>&-
        { [ $code = 0 ] || [ $code = 141 ]; } && [ ! -s "$folder/err" ] || [ $code = 3 ] ||
            fail "$command, its reader gone ($signals): exit code $code, $(cat "$folder/err")"
        readers=$((readers + 1))
    done
done

refused 2 'unexpected argument "x"' clprune-info x
refused 2 '--op: "foo" is not gemm, bspmm-tn, bspmm-nt, blast or all' clprune-tune --op foo
refused 2 'unexpected argument "x"' clprune-tune x
refused 2 '--time: "0"' clprune-tune --time 0
refused 2 '--precision: "fp8" is not fp32, tf32 or bf16' clprune-tune --precision fp8
# Not after ten minutes of search.
refused 1 "--output: cannot write $folder/none/x.json: No such file" clprune-tune --output "$folder/none/x.json"
refused 2 'no operation "foo"; --help lists them' clprune-bench foo
refused 2 'bspmm has no form "xx"; --help lists them' clprune-bench bspmm --form xx
refused 2 'all has no form "zz"; --help lists them' clprune-bench all --form tn,zz
refused 2 '--output-dir goes with figures only' clprune-bench gemm --output-dir "$folder/figures"
for option in form tokens rows in out image kernel stride; do
    refused 2 "--$option does not go with figures" clprune-bench figures --output-dir "$folder/figures" --$option 32
done
refused 2 '--batch takes one value with figures' clprune-bench figures --output-dir "$folder/figures" --batch 1,2
refused 2 '--block: "0"' clprune-bench bspmm --block 0
refused 2 '--sparsity: "2"' clprune-bench bspmm --sparsity 2
refused 2 "--json: cannot write \"$folder/none/x\"" clprune-bench bspmm --json "$folder/none/x"

mkfifo "$folder/fifo"
timeout 20 "$programs/clprune-bench" bspmm --json "$folder/fifo" >"$folder/out" 2>"$folder/err"
[ $? = 2 ] && grep -q -- '--json: cannot write' "$folder/err" || fail "a FIFO as --json: $(cat "$folder/err")"
refused 1 "--output: cannot write $folder: Is a directory" clprune-tune --op bspmm-nt --quick --time 1 --output "$folder"
ln -s nothing "$folder/dangling"
refused 1 "--output: cannot write $folder/dangling: No such file" clprune-tune --op bspmm-nt --quick --time 1 --output "$folder/dangling"

# What is no tuning file, or a part of one, is not replaced.
for text in before '# before' 'clprune_tuning = 1' 'clprune_tuning = 2
end'; do
    echo "$text" >"$folder/foreign"
    refused 1 "--output: $folder/foreign: not a whole tuning file" clprune-tune --op bspmm-nt --quick --time 1 --output "$folder/foreign"
    [ "$(cat "$folder/foreign")" = "$text" ] || fail "clprune-tune replaces a file of another kind"
done

# A file that the library would refuse for its size is not read.
{ echo 'clprune_tuning = 1' && head -c 1048576 /dev/zero | tr '\0' '#' && printf '\nend\n'; } >"$folder/large"
refused 1 "--output: $folder/large: larger than 1048576 bytes" clprune-tune --op bspmm-nt --quick --time 1 --output "$folder/large"
[ "$(wc -c <"$folder/large")" = 1048600 ] || fail "clprune-tune replaces a file that is too large"

# Words of a line that is not indented are what the completion of --device offers.
"$programs/clprune-info" --list 2>/dev/null | grep -v '^ ' | grep -qv '^[0-9]*:[0-9]*  ' &&
    fail "clprune-info --list has more than devices: $("$programs/clprune-info" --list | head -n 3)"

# Output that cannot be written is no success; a run that cannot begin leaves an older file as it is.
if "$programs/clprune-info" --list >/dev/null 2>&1; then
    for command in "clprune-info" "clprune-bench token_mean --repeat 1" "clprune-bench token_mean --repeat 1 --json -"; do
        "$programs/"$command >/dev/full 2>"$folder/err"
        [ $? = 1 ] && grep -q 'standard output' "$folder/err" || fail "$command, disk full: $(cat "$folder/err")"
    done
    # The probe of the device's instructions of bf16 is quiet, also where the compiler's target has none: on x86 PoCL
    # takes the target of this library.
    for target in "" avx2; do
        CLPRUNE_CACHE_DIR=off CLPRUNE_PRECISION=bf16 POCL_KERNELLIB_NAME=$target POCL_CACHE_DIR=$folder/kernels$target \
            "$programs/clprune-info" >"$folder/out" 2>"$folder/err" && [ ! -s "$folder/err" ] ||
            fail "clprune-info in bf16, target '$target': $(cat "$folder/err")"
    done
    "$programs/clprune-bench" token_mean --repeat 1 --json /dev/full >"$folder/out" 2>"$folder/err"
    [ $? = 1 ] && grep -q -- '--json was not written' "$folder/err" || fail "--json, disk full: $(cat "$folder/err")"
fi
# A file of figures that cannot be written is told before anything is measured, and before an older one is emptied.
if "$programs/clprune-info" --list >/dev/null 2>&1; then
    mkdir "$folder/figures"
    for file in fig4.csv fig4.jsonl fig4.gp fig4.png fig5.csv fig5.jsonl fig5.gp fig5.png; do
        rm -f "$folder"/figures/*
        older=$folder/figures/fig$([ $file = fig4.csv ] && echo 5 || echo 4).csv
        echo before >"$older"
        mkfifo "$folder/figures/$file"
        timeout 60 "$programs/clprune-bench" figures --output-dir "$folder/figures" --repeat 1 --batch 1 --block 64 --sparsity 0.9 \
            >"$folder/out" 2>"$folder/err"
        [ $? = 1 ] && [ ! -s "$folder/out" ] && grep -q "^clprune-bench: cannot write $folder/figures/$file: " "$folder/err" &&
            [ "$(cat "$older")" = before ] || fail "a FIFO as $file: $(cat "$folder/out" "$folder/err")"
    done
    rm -r "$folder/figures"
    "$programs/clprune-bench" figures --output-dir "$folder/figures" --repeat 1 --batch 1 --block 64 --sparsity 0.9 \
        >"$folder/out" 2>"$folder/err" && [ "$(wc -l <"$folder/figures/fig4.csv")" = 2 ] && [ "$(wc -l <"$folder/figures/fig5.csv")" = 4 ] &&
        [ "$(wc -l <"$folder/figures/fig5.jsonl")" = 3 ] && grep -q '^device = ' "$folder/figures/fig5.gp" ||
        fail "figures: $(cat "$folder/out" "$folder/err" "$folder"/figures/*.csv)"
fi
echo before >"$folder/json"
CLPRUNE_DEVICE=nosuch "$programs/clprune-bench" token_mean --json "$folder/json" >/dev/null 2>&1
[ $? = 3 ] && [ "$(cat "$folder/json")" = before ] || fail "no device, and an older file of --json: $(cat "$folder/json")"

# interrupted PATTERN OUTPUT: a search is stopped when it has said PATTERN, by a signal that comes twice, as from timeout(1).
interrupted() {
    : >"$folder/err" # before the child does so: what an earlier one said is waited for below
    "$programs/clprune-tune" --op bspmm-nt --quick --time 600 --output "$2" >"$folder/printed" 2>"$folder/err" &
    child=$!
    tries=0
    until grep -q -e "$1" "$folder/err" || [ $tries -ge 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -s TERM $child
    sleep 0.01
    kill -s TERM $child 2>/dev/null
    wait $child
    [ $? = 143 ] || fail "clprune-tune does not end with 143 after SIGTERM: $(cat "$folder/err")"
}
# leaves FILE OUTPUT: a search that has timed a candidate is interrupted; what it found is in FILE, which the library reads.
leaves() {
    interrupted ' -> ' "$2"
    head -n 1 "$1" 2>/dev/null | grep -qx 'clprune_tuning = 1' && tail -n 1 "$1" | grep -qx end &&
        grep -q '_nt\.' "$1" && grep -q '^# bspmm-nt: the search was stopped by a signal' "$1" ||
        fail "an interrupted search leaves $(ls "$folder"): $(cat "$folder/err")"
    CLPRUNE_TUNING=$1 "$programs/clprune-info" >"$folder/out" 2>&1 && grep -q "tuning .*$1" "$folder/out" ||
        fail "the library does not read what an interrupted search wrote: $(cat "$folder/out")"
}
if "$programs/clprune-info" --list >/dev/null 2>&1; then
    # Where no candidate was timed there is no row, and an older one stays.
    printf 'clprune_tuning = 1\nend\n' >"$folder/older"
    cp "$folder/older" "$folder/copy"
    interrupted '^device ' "$folder/older"
    [ ! -s "$folder/printed" ] && grep -q 'no candidate was timed before the signal, so no row is written$' "$folder/err" &&
        cmp -s "$folder/older" "$folder/copy" || fail "stopped before anything was timed: $(cat "$folder/printed" "$folder/err" "$folder/older")"
    "$programs/clprune-tune" --op bspmm-nt --quick --time 0.001 --c --output "$folder/untimed" >"$folder/out" 2>"$folder/err"
    [ $? = 1 ] && [ ! -s "$folder/out" ] && [ ! -e "$folder/untimed" ] &&
        grep -q '^clprune-tune: no candidate was timed, so no row is written; give a longer --time$' "$folder/err" ||
        fail "too short to time anything: $(cat "$folder/out" "$folder/err")"

    # Symbolic links stay.
    ln -s /proc/self/fd/1 "$folder/standard"
    leaves "$folder/printed" "$folder/standard"
    # A search that starts from a file keeps what that has of another operation. The rows of other devices stay, in front
    # of this one's and behind it, this device's old one does not.
    sed '/^driver/a bspmm_tn.groups = 77' "$folder/printed" >"$folder/tuned"
    own=$(sed -n 's/^device = //p' "$folder/printed")
    printf '%s\n' 'clprune_tuning = 1' 'device = Some GPU' 'driver = 1' 'bspmm_tn.groups = 33' "device = $own" 'bspmm_tn.groups = 55' \
        '# of the old row' ' device = Other GPU ' '  gemm.m = 44' '# of the other' end >"$folder/several"
    ln -s several "$folder/link"
    export CLPRUNE_TUNING="$folder/tuned"
    leaves "$folder/several" "$folder/link"
    unset CLPRUNE_TUNING
    [ -L "$folder/link" ] && [ -L "$folder/standard" ] || fail "--output replaces a link: $(ls -l "$folder")"
    grep -q "^device .*, from $folder/tuned" "$folder/err" || fail "clprune-tune does not say where it starts: $(cat "$folder/err")"
    grep -qx 'bspmm_tn.groups = 77' "$folder/several" || fail "a search drops another operation: $(cat "$folder/several")"
    printf '%s\n' 'device = Some GPU' 'driver = 1' 'bspmm_tn.groups = 33' ' device = Other GPU ' '  gemm.m = 44' '# of the other' end >"$folder/others"
    tail -n 7 "$folder/several" | cmp -s - "$folder/others" || fail "rows of other devices: $(cat "$folder/several")"
    grep -q -e 55 -e 'old row' "$folder/several" && fail "this device's old row stays: $(cat "$folder/several")"
    # The row has the name that the library compares: cut to 127 bytes, without spaces at its ends.
    if [ -n "$layer" ]; then
        OPENCL_LAYERS=$layer DEVICE_LAYER="name=  $(printf '%0200d' 0)"
        export OPENCL_LAYERS DEVICE_LAYER
        leaves "$folder/named" "$folder/named"
        unset OPENCL_LAYERS DEVICE_LAYER
    fi
fi

# The quickstart says what failed in words, and the next step.
if [ -x "$programs/clprune-quickstart" ]; then # not in a build without examples
    OCL_ICD_VENDORS=$folder/none OCL_ICD_FILENAMES='' refused 3 'there is no OpenCL device (.*clprune-info.*pocl-opencl-icd.*HOME' clprune-quickstart
    if "$programs/clprune-info" --list >/dev/null 2>&1; then
        CLPRUNE_TUNING=$folder/none refused 1 "cannot create the context: .*cannot read $folder/none.*clprune-info" clprune-quickstart
    fi
fi

# A parent may have SIGCHLD ignored; PoCL's linker waits for a child. Nothing is compiled yet: all but the first are
# stopped when PoCL has linked a kernel.
if "$programs/clprune-info" --list 2>/dev/null | sed -n 2p | grep -q 'Portable Computing Language'; then
    for command in "clprune-info" "clprune-bench token_mean --repeat 1" "clprune-tune --op bspmm-nt --quick" clprune-quickstart; do
        [ -x "$programs/${command%% *}" ] || continue # a build without examples
        mkdir "$folder/cold"
        POCL_CACHE_DIR=$folder/cold CLPRUNE_CACHE_DIR=off CLPRUNE_DEVICE=0:0 env --ignore-signal=CHLD "$programs/"$command \
            >"$folder/out" 2>"$folder/err" &
        child=$!
        tries=0
        until [ -n "$(find "$folder/cold" -mindepth 2 -name '*.so')" ] || [ $tries -ge 300 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        [ $tries -lt 300 ] || fail "nothing is linked with SIGCHLD ignored: $command"
        [ "$command" = clprune-info ] || kill -s TERM $child 2>/dev/null
        wait $child 2>/dev/null # the shell says Terminated
        got=$?
        [ $got = 0 ] || { [ $got = 143 ] && [ "$command" != clprune-info ]; } ||
            fail "exit code $got with SIGCHLD ignored: $command: $(cat "$folder/err")"
        rm -rf "$folder/cold"
    done
fi

# ---- scripts in a locale with a decimal comma, and with CDPATH -----------------------------------
find "$source" -name '*.sh' -not -path '*/build/*' >"$folder/scripts"
[ "$(wc -l <"$folder/scripts")" -gt 20 ] || fail "no scripts in $source"
while read -r script; do
    grep -q '^export LC_ALL=C\|^\. .*support/program\.sh' "$script" || fail "$script does not set LC_ALL=C"
    case $script in */examples/*) continue ;; esac
    ! grep -q 'cd "\$(dirname' "$script" || grep -q '^unset CDPATH' "$script" || fail "$script does not unset CDPATH"
done <"$folder/scripts"

mkdir "$folder/locales" "$folder/bin" "$folder/runs" "$folder/runs/dense-1" "$folder/runs/exact-1"
if ! sh "$source/tests/support/comma_locale.sh" "$folder/locales"; then
    echo "no locale with a decimal comma can be made here: its check is skipped"
else
    printf 'seeds 1\narm dense\narm exact\n' >"$folder/two.study"
    for run in dense exact; do
        printf '{\n"epochs_done": 2,\n"top1": %s,\n"test_loss": 1.25,\n"train_loss": 1.5,\n"saved_activation_bytes": 1024,\n"peak_bytes": 2048,\n"step_ms": 100,\n"seconds": 5,\n"cpu_seconds": 6\n}\n' \
            "$([ $run = dense ] && echo 50.5 || echo 52.25)" >"$folder/runs/$run-1/summary.json"
    done
    printf '#!/bin/sh\n' >"$folder/bin/gnuplot"
    chmod +x "$folder/bin/gnuplot"
    env -u LC_ALL LANG=C LC_NUMERIC=comma LOCPATH="$folder/locales" PATH="$folder/bin:$PATH" \
        "$source/tools/study.sh" "$folder/two.study" "$folder/bin/gnuplot" "$folder/runs" >"$folder/out" 2>&1
    grep -qx 'exact,1,52.25,,+1.75,,1.2500,1.5000,1024,2048,100.0,6' "$folder/out" ||
        fail "a table in a locale with a decimal comma: $(cat "$folder/out")"
fi

[ $failures = 0 ] || { echo "$failures failures" && exit 1; }
echo "all passed"
