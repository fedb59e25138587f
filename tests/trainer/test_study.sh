#!/usr/bin/env bash
# tools/study.sh: which runs it makes, with which options, what it does after an interruption, and its table.
#   test_study.sh SOURCE_DIR RESMLP_TRAIN
#
# Paths in options are from the folder of the call. Runs begun with other options, also by a process that still works,
# are refused, unless the difference changes no result. Two processes share the runs. One table has one data set,
# wherever it lies. A signal to the study or to its group reaches the trainer once. Seeds of an arm that the trainer
# refuses are not tried. Runs that fail, abort, cannot be locked, have no test or only tests; pipes in place of files;
# studies that make no sense. The tables of examples/ are made again to the digit.
export LC_ALL=C # a decimal point in every locale
source=$(realpath "$1")
study=$source/tools/study.sh
real=$(realpath "$2")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/R&D" # an & in a path stays an &
cd "$folder/R&D" || exit 2
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# A trainer that learns at once: its accuracy is --top1, plus the seed. It notes its options in `calls`, and the
# table at its start in `table`; stops the first time as by a signal if the file `interrupt` has its seed; fails with
# --fail CODE; does not test with --untested SEED; with --hold makes `holding` and waits for `go`; and with --linger makes
# `holding` and waits for a signal: it takes 2.5 seconds to write its checkpoint then, unless a second signal, more than a
# second later, ends it.
# DIR/data of --data DIR is what its summary says of the data.
cat >trainer <<'TRAINER'
#!/usr/bin/env bash
echo "$*" >>"$FOLDER/calls"
seed= dir= summary= top1= resumed= imported= untested= loss=0.25 data= limit= linger=
end() {
    local now=${EPOCHREALTIME//[!0-9]/}
    [ -z "$signal" ] || [ $((now - signalled)) -lt 1000000 ] || exit "$1"
    signal=$1 signalled=${signalled:-$now}
}
while [ $# -gt 0 ]; do
    case $1 in
    --seed) seed=$2 ;;
    --output-dir) dir=$2 ;;
    --summary-json) summary=$2 ;;
    --top1) top1=$2 ;;
    --resume) resumed=$2 ;;
    --keep-file) [ -f "$2" ] || exit 4 ;;
    --import) [ -f "$2" ] && imported=$2 || exit 4 ;;
    --import=*) imported=$1 ;;
    --train-l) limit=$2 ;;
    --data)
        [ -d "$2" ] || { echo "trainer: --data: no $2" >&2; exit 4; }
        data=$(cat "$2/data" 2>/dev/null)
        ;;
    --full) echo 'trainer: note: --data: broken' >&2; echo 'trainer: cannot write x' >&2; exit 4 ;;
    --fail) exit "$2" ;;
    --untested) untested=$2 ;;
    --linger) linger=yes ;;
    --hold) touch "$FOLDER/holding"; until [ -e "$FOLDER/go" ]; do sleep 0.05; done ;;
    esac
    shift
done
if [ -n "$linger" ]; then
    signal= signalled=
    trap 'end 130' INT
    trap 'end 143' TERM
    trap 'end 129' HUP
    touch "$FOLDER/holding"
    for ((i = 0; i < 600; i++)); do [ -n "$signal" ] || sleep 0.05; done
    [ -n "$signal" ] || exit 1
    for ((i = 0; i < 50; i++)); do sleep 0.05; done
    echo half >"$dir/last.ckpt"
    exit "$signal"
fi
cp "$dir/../table.csv" "$FOLDER/table" 2>/dev/null
if grep -qsx "$seed" "$FOLDER/interrupt"; then
    rm "$FOLDER/interrupt"
    echo half >"$dir/last.ckpt"
    echo '{"top1": 0}' >"$summary"
    exit 143
fi
[ -z "$resumed" ] || [ -z "$imported" ] || exit 2
[ -z "$resumed" ] || grep -q half "$resumed" || exit 5
printf 'epoch,step,lr,train_loss\n1,1,0,2\n2,2,0,1\n' >"$dir/log.csv"
saved=$((1000 * top1 + 2 * seed)) top1=$((top1 + seed)).5
[ -z "$limit" ] || data=$(sed 's/"train_images": [0-9]*/"train_images": '"$limit/" <<<"$data")
[ "$seed" != "$untested" ] || top1=null loss=null
echo "{ $data \"epochs_done\": 2, \"top1\": $top1, \"test_loss\": $loss, \"train_loss\": $seed," \
    "\"saved_activation_bytes\": $saved, \"peak_bytes\": $((11 - seed)), \"step_ms\": $seed, \"seconds\": 9, \"cpu_seconds\": 4 }" |
    tr , '\n' >"$summary"
TRAINER
chmod +x trainer
export FOLDER=$PWD
mkdir files d
touch files/some.keep files/w.st
cat >files/four.study <<'STUDY'
title a study   # with a comment
options --arch x --import @/w.st

seeds 1 3
arm base --top1 80
arm better --top1 81 --keep-file @/some.keep
arm once --top1 70
only once 3
STUDY

# expect CODE COMMAND...
expect() {
    local code=$1
    shift
    "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "exit code $got, expected $code: $*: $(cat out err)"
}
run() { "$study" files/four.study ./trainer "$@"; }

expect 0 run all --data d
cat >want <<'WANT'
base 1
better 1
base 3
better 3
once 3
WANT
sed 's/.*--top1 80.*--seed \([0-9]*\).*/base \1/; s/.*--top1 81.*--seed \([0-9]*\).*/better \1/; s/.*--top1 70.*--seed \([0-9]*\).*/once \1/' \
    calls | cmp -s - want || fail "the runs are: $(cat calls)"
[ "$(grep -c -- "^--test-every 0 --arch x --import $(realpath files)/w.st --top1 81 --keep-file $(realpath files)/some.keep --seed [13] --data d " calls)" = 2 ] ||
    fail "the options are: $(cat calls)"
cat >want <<'WANT'
arm,runs,top1_mean,top1_sd,difference_mean,difference_sd,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms,cpu_seconds
base,2,82.50,1.41,,,0.2500,2.0000,80004,10,2.0,4
better,2,83.50,1.41,+1.00,0.00,0.2500,2.0000,81004,10,2.0,4
once,1,73.50,,-10.00,,0.2500,3.0000,70006,8,3.0,4
WANT
cmp -s all/table.csv want || fail "the table is: $(cat all/table.csv)"
cmp -s out <(printf '== base-1\n== better-1\n== base-3\n== better-3\n== once-3\n'; cat want) || fail "it says: $(cat out)"
[ "$(wc -l <all/runs.csv)" = 6 ] || fail "runs.csv is: $(cat all/runs.csv)"
[ "$(ls all | tr '\n' ' ')" = "base-1 base-3 better-1 better-3 once-3 runs.csv $(command -v gnuplot >/dev/null && echo 'study.png ')table.csv " ] ||
    fail "it leaves $(ls all)"

# What is finished is not made again.
: >calls
expect 0 run all --data d
[ ! -s calls ] || fail "finished runs are made again: $(cat calls)"
cmp -s all/table.csv want || fail "the table of finished runs is: $(cat all/table.csv)"

# Only the table.
rm all/table.csv
mkdir empty
expect 0 "$study" files/four.study - all
cmp -s all/table.csv want || fail "the table alone is: $(cat all/table.csv)"
expect 1 "$study" files/four.study - empty
[ ! -s calls ] && [ ! -e empty/base-1 ] || fail "runs are made for a table: $(cat calls; ls empty)"

# A signal ends it, with a table; the next start makes the table anew, and continues that run from its checkpoint, and
# only that one.
echo 3 >interrupt
expect 143 run cut
[ ! -e cut/base-3/summary.json ] || fail "half a run counts as finished"
[ "$(cut -d, -f1-3 cut/table.csv | tail -n +2 | tr '\n' ' ')" = 'base,1,81.50 better,1,82.50 ' ] ||
    fail "the table of an interrupted study is: $(cat cut/table.csv)"
mv cut/table.csv interrupted
: >calls
rm -f table
expect 0 run cut
cmp -s table interrupted || fail "the table at a start is: $(cat table)"
[ "$(grep -c -- '--resume cut/base-3/last.ckpt' calls)" = 1 ] && [ "$(grep -c -- '--resume' calls)" = 1 ] ||
    fail "after an interruption: $(cat calls)"
cmp -s cut/table.csv want || fail "the table after an interruption is: $(cat cut/table.csv)"

# So it does without --import.
printf 'seeds 1\narm a --top1 80 --import=w --epochs 2' >files/import.study
echo 1 >interrupt
expect 143 "$study" files/import.study ./trainer import --import files/w.st --data d
: >calls
expect 0 "$study" files/import.study ./trainer import --import files/w.st --data d
grep -q '^--test-every 0 --top1 80 --epochs 2 --seed 1 --data d .*--resume import/a-1/last.ckpt$' calls ||
    fail "with --import, after an interruption: $(cat calls)"

# --steps counts from a checkpoint: such a run begins anew.
printf 'seeds 1\narm a --top1 80 --steps 100' >files/steps.study
echo 1 >interrupt
expect 143 "$study" files/steps.study ./trainer steps
: >calls
expect 0 "$study" files/steps.study ./trainer steps
grep -q -- ' --steps 100 .* --overwrite$' calls || fail "with --steps, after an interruption: $(cat calls)"

# Runs that were begun with other options are no part of the study: no run, no table, a line for each difference.
other() {
    local file=$1
    shift
    mv cut/table.csv before
    : >calls
    expect 2 "$study" "$file" "$@"
    [ ! -s calls ] && [ ! -e cut/table.csv ] && cmp -s err other || fail "beside other options it says: $(cat err calls)"
    mv before cut/table.csv
}
begun="was begun with other options; start with those ('then'), remove that folder unless a process works on it, or take another OUT"
sed 's/better --top1 81/better --top1 82 --epochs 3/' files/four.study >files/other.study
for seed in 1 3; do
    echo "study: cut/better-$seed $begun"
    printf '    then --top1 81\n    now  --top1 82\n    now  --epochs 3\n'
done >other
other files/other.study ./trainer cut
other files/other.study - cut
rm -r cut/base-1 cut/better-1 cut/base-3/summary.json cut/better-3 # the second was interrupted
printf 'study: cut/%s %s\n    now  --lr 1\n' base-3 "$begun" >other
printf 'study: cut/%s %s\n    now  --lr 1\n' once-3 "$begun" >>other
other files/four.study ./trainer cut --lr 1
cp trainer trainer-2
sed 's/now.*/then trainer\n    now  trainer-2/' other >trainers && mv trainers other
other files/four.study ./trainer-2 cut
expect 0 "$study" files/four.study ./trainer cut --device 1:0 --data d --quiet --memory-report --tensorboard t --export=e \
    --skip-broken --checkpoint-every 2 # these may differ
# Files are compared by their real path.
printf 'seeds 1\narm a --top1 5 --import @/w.st' >files/path.study
expect 0 "$study" files/path.study ./trainer path --keep-file files/some.keep
sed 's|@/w|../files/w|' files/path.study >files/paths.study
expect 0 env -C files "$study" paths.study ../trainer ../path --keep-file=./some.keep
expect 2 "$study" files/path.study ./trainer path --keep-file files/w.st
grep -qx '    now  --keep-file @/w.st' err || fail "of another keep file it says: $(cat err)"
# A table is made in any folder: then files are compared by their names.
printf 'seeds 1\narm a --top1 5 --import files/w.st' >files/named.study
expect 0 "$study" files/named.study ./trainer named
expect 0 env -C files "$study" named.study - ../named
sed 's/w.st/v.st/' files/named.study >files/names.study
expect 2 "$study" files/names.study - named
printf '    then --import w.st\n    now  --import v.st\n' | cmp -s - <(tail -n 2 err) || fail "of another file it says: $(cat err)"
# Any unique beginning of an option that may differ, may.
printf 'seeds 1\narm a --top1 5' >files/short.study
expect 0 "$study" files/short.study ./trainer short --dev 0 --da=d --sk --ch 1 --ex=e --ad=d --memory-r --ten t --q
expect 0 "$study" files/short.study ./trainer short --devi 1
expect 2 "$study" files/short.study ./trainer short --memory-l 1
for option in da de sk ex ad memory-r ten q imp k ste test-o cla train- test-l; do
    [ "$("$real" --help | grep -c "^  --$option")" = 1 ] || fail "study.sh takes --$option for one option, of which $real has others"
    [ "$("$real" --help | grep -c "^  --${option%?}")" != 1 ] || fail "$real takes --${option%?} for --$option, study.sh does not"
    grep -q -- "\(--\|[(|]\)$option[])|*' ]" "$study" || fail "study.sh does not take --$option"
done
# --ch is --checkpoint-every, --checkpoint-minutes or --check-finite, which all may differ.
[ "$("$real" --help | grep -c '^  --ch')" = 3 ] || fail "study.sh takes --ch for three options, of which $real has others"
for option in ac sp ou su ex ten li res test-o ver bl cr ce poo va in co gro rot rou; do
    [ "$("$real" --help | grep -c "^  --$option")" = 1 ] || fail "demo.sh takes --$option for one option, of which $real has others"
done
# Runs of older checkouts have no study.options, and get none from a start whose options the trainer refuses to resume.
rm cut/*/study.options cut/once-3/summary.json
echo half >cut/once-3/last.ckpt
expect 1 run cut --data d --fail 2
expect 0 run cut --data d
# A run that never had a checkpoint may have any.
printf 'arm bad --fail 6' >files/bad.study
expect 1 "$study" files/bad.study ./trainer mended
printf 'arm bad --top1 5' >files/bad.study
expect 0 "$study" files/bad.study ./trainer mended

# Two processes share the runs.
: >calls
run shared >/dev/null 2>&1 &
run shared >/dev/null 2>&1
wait
sort calls | uniq -d | grep . && fail "a run is made twice"
[ "$(wc -l <calls)" = 5 ] || fail "two processes make: $(cat calls)"
expect 0 run shared
cmp -s shared/table.csv want || fail "the table of two processes is: $(cat shared/table.csv)"

# Nor do two processes mix options: a run has some from its first moment on. Whether the lock is taken, a process asks
# by taking it for a moment, in which the run is not skipped.
printf 'seeds 1\narm a --fail 6\narm b --top1 5 --hold\narm c --top1 5' >files/held.study
"$study" files/held.study ./trainer held >/dev/null 2>held.err &
until [ -e holding ]; do sleep 0.05; done
: >calls
expect 2 "$study" files/held.study ./trainer held --lr 9
grep -q 'held/b-1 was begun' err && [ ! -s calls ] || fail "beside a run in its first epoch: $(cat err calls)"
mkdir held/c-1 # by a process that began with the first one
echo half >held/c-1/last.ckpt
printf 'trainer\n--lr 9\n' >held/c-1/study.options
touch go
wait $!
[ $? = 2 ] && grep -q 'held/c-1 was begun' held.err && grep -qx -- '--lr 9' held/c-1/study.options ||
    fail "beside a process that began at once: $(cat held.err held/c-1/study.options)"
grep -q '^b,1,' held/runs.csv || fail "a run that was made before is not in runs.csv: $(cat held/runs.csv)"
printf 'seeds 1\narm a --top1 5' >files/asked.study
mkdir -p asked/a-1
exec 8>asked/a-1/study.lock && flock 8
sleep 0.3 &
exec 8>&-
expect 0 "$study" files/asked.study ./trainer asked

# A run that fails or aborts is told; the others are made.
printf 'arm bad --fail 6\narm aborted --fail 134\narm good --top1 5\nseeds 2' >files/bad.study # and no newline
expect 1 "$study" files/bad.study ./trainer bad
grep -q '^study: failed: bad-2 aborted-2$' err || fail "it says of a failed run: $(cat err)"
grep -q '^good,1,7.50,,,,' bad/table.csv || fail "beside a failed run: $(cat bad/table.csv)"

# So is one whose folder or lock cannot be made.
printf 'seeds 1\narm file --top1 5\narm lock --top1 5\narm good --top1 5' >files/unlocked.study
mkdir -p unlocked/lock-1/study.lock
touch unlocked/file-1
expect 1 "$study" files/unlocked.study ./trainer unlocked
grep -q '^study: failed: file-1 lock-1$' err && grep -q '^good,1,' unlocked/table.csv ||
    fail "of runs that cannot be locked it says: $(cat err unlocked/table.csv)"

# Nor is a pipe opened, which would wait for ever: in a run's folder it is that run's failure, in OUT the study's.
printf 'seeds 1\narm a --top1 5\narm b --top1 5' >files/pipe.study
# pipe CODE FILE WORDS: what the study does if FILE is a pipe
pipe() {
    mkdir -p pipe/a-1 pipe/b-1
    mkfifo "pipe/$2"
    expect "$1" timeout -k 1 20 "$study" files/pipe.study ./trainer pipe
    grep -qx "study: .*$2 is not a regular file; remove it or take another OUT" err && [ -p "pipe/$2" ] && grep -q "$3" err ||
        fail "of the pipe $2 it says: $(cat err)"
    rm -r pipe
}
for file in study.lock study.options summary.tmp; do
    pipe 1 a-1/$file '^study: failed: a-1$'
done
mkdir -p pipe/a-1
echo 'trainer --top1 5' >pipe/a-1/study.options # check_options asks for the lock, too
pipe 1 a-1/study.lock '^study: failed: a-1$'
for file in runs.csv table.csv study.png plot.err; do
    pipe 2 $file ''
done
mkdir -p bin
printf '#!/bin/sh\necho "$@" >>%s/plots\n' "'$PWD'" >bin/gnuplot
chmod +x bin/gnuplot
: >plots
mkdir -p pipe/b-1
printf '"top1": 5,\n' >pipe/b-1/summary.json
PATH=$PWD/bin:$PATH pipe 0 b-1/log.csv ''
[ ! -s plots ] || fail "it plots a pipe: $(cat plots)"
rm bin/gnuplot
# Nor does another process have a run where there are no locks.
printf '#!/bin/sh\n[ "$1" != -w ]\nexit $((71 * $?))\n' >bin/flock
chmod +x bin/flock
expect 1 env PATH="$PWD/bin:$PATH" "$study" files/short.study ./trainer nolock
grep -q '^study: failed: a-1$' err || fail "without locks it says: $(cat err)"

# Of an arm whose first run is refused for its options (2) or its data (4), the other seeds are not tried. Code 4 has
# other reasons, too.
printf 'seeds 1 2 3\narm bad --fail 2\narm lost --data none\narm dies --fail 1\narm full --full\narm good --top1 5' >files/refused.study
: >calls
expect 1 "$study" files/refused.study ./trainer refused
[ "$(wc -l <calls)" = 11 ] && grep '^study: ' err | cmp -s - <(printf '%s\n' \
    'study: failed: bad-1 lost-1 dies-1 full-1 dies-2 full-2 dies-3 full-3' "study: not tried, because \
the trainer refused an earlier seed's options or data: bad-2 lost-2 bad-3 lost-3") && grep -qx 'trainer: --data: no none' err && grep -q '^good,3,' refused/table.csv ||
    fail "of refused arms it says: $(cat err calls)"
# With a finished run, the reason is the seed's.
printf 'seeds 1\narm a --top1 5' >files/later.study
expect 0 "$study" files/later.study ./trainer later
printf 'seeds 1 2 3\narm a --top1 5' >files/later.study
: >calls
mkdir -p later/a-2 later/a-3
expect 2 "$study" files/later.study ./trainer later --fail 2
rm later/a-1/study.options
expect 1 "$study" files/later.study ./trainer later --fail 2
grep -qx 'study: failed: a-2 a-3' err && [ "$(wc -l <calls)" = 2 ] || fail "of refused seeds it says: $(cat err calls)"

# signalled CODE NAME GROUP: a signal to the study, or to its group, ends it and the trainer, which gets it once and saves.
printf 'seeds 1 2\narm a --linger' >files/linger.study
signalled() {
    local dir=linger-$2$3 i=0
    rm -f holding
    : >calls
    # the default action: a shell has SIGINT ignored in the background
    env --default-signal=INT,HUP setsid "$study" files/linger.study ./trainer "$dir" >out 2>err &
    until [ -e holding ]; do sleep 0.05; done
    kill -s "$2" -- "$3$!"
    sleep 0.2
    [ -n "$3" ] || kill -s "$2" "$!" # an impatient user's second one
    wait $!
    got=$?
    [ $got = "$1" ] && [ -s "$dir/a-1/last.ckpt" ] && [ "$(wc -l <calls)" = 1 ] ||
        fail "exit code $got after SIG$2 to ${3:+the group of }the study: $(ls "$dir"/*; cat calls out err)"
    while kill -0 -- -$! 2>/dev/null && [ $((i += 1)) -lt 40 ]; do sleep 0.05; done
    [ $i -lt 40 ] || fail "a process is left after SIG$2 to ${3:+the group of }the study"
}
signalled 143 TERM
signalled 143 TERM -
signalled 130 INT
signalled 130 INT -
signalled 129 HUP
signalled 129 HUP -

# One table has one data set, wherever it lies; unless an arm has data of its own.
mkdir good moved noise part
echo '"dataset": "folder", "classes": 5, "train_images": 15, "test_images": 5,' | tee good/data >moved/data
echo '"dataset": "folder", "classes": 3, "train_images": 15, "test_images": 5,' >noise/data
echo '"dataset": "folder", "classes": 5, "train_images": 9, "test_images": 5,' >part/data
printf 'seeds 1\narm a --top1 5\narm b --top1 6\narm c --top1 6 --train-l 9' >files/data.study
expect 0 "$study" files/data.study ./trainer data --data good
for seeds in 1 '1 2'; do
    printf 'seeds %s\narm a --top1 5\narm b --top1 6\narm c --top1 6 --train-l 9' "$seeds" >files/data.study
    expect 0 "$study" files/data.study ./trainer data --data moved
done
cp data/table.csv before
printf 'seeds 1 2 3\narm a --top1 5\narm b --top1 6\narm c --top1 6 --train-l 9' >files/data.study
: >calls
for other in noise part; do
    expect 2 "$study" files/data.study ./trainer data --data $other
    { echo 'study: data/a-1 and a-3 were made with different data; remove the folder of the wrong one, or take another OUT'
        echo '    a-1 has folder: 5 classes, 15 training images, 5 test images'
        sed 's/.*"folder", "classes": \([0-9]*\), "train_images": \([0-9]*\), .*/    a-3 has folder: \1 classes, \2 training images, 5 test images/' \
            $other/data; } | cmp -s - err || fail "of other data it says: $(cat err)"
done
[ "$(wc -l <calls)" = 2 ] && [ ! -e data/a-3/summary.json ] && cmp -s data/table.csv before ||
    fail "runs with other data: $(cat calls data/table.csv)"
# An older program has such tables made; they are refused, too.
sed 's/"classes": 5/"classes": 3/' data/b-2/summary.json >b-2
cp b-2 data/b-2/summary.json
for trainer in ./trainer -; do
    expect 2 "$study" files/data.study $trainer data --data good
    grep -q '^study: data/a-1 and b-2 were made with different data' err || fail "of finished runs with other data it says: $(cat err)"
done
[ "$(wc -l <calls)" = 2 ] || fail "beside a run with other data: $(cat calls)"
sed 's/"classes": 5/"classes": 3/' data/c-1/summary.json >c-1
rm -r data/[ab]-2 && cp c-1 data/c-1/summary.json
expect 2 "$study" files/data.study - data
grep -q '^study: data/c-1 and c-2 were' err || fail "within an arm with data of its own it says: $(cat err)"

# A run without a test has empty cells, which no mean counts.
cat >files/untested.study <<'STUDY'
seeds 1 2
arm base --top1 80
arm part --top1 81 --untested 2
arm none --top1 80 --untested 2
only none 2
STUDY
expect 0 "$study" files/untested.study ./trainer untested
tail -n +2 untested/table.csv >have
cat >want <<'WANT'
base,2,82.00,0.71,,,0.2500,1.5000,80003,10,1.5,4
part,2,82.50,,+1.00,,0.2500,1.5000,81003,10,1.5,4
none,1,,,,,,2.0000,80004,9,2.0,4
WANT
cmp -s have want && grep -q '^none,2,2,,,2,80004,9,2,9,4' untested/runs.csv && [ ! -s err ] ||
    fail "the table of runs without a test is: $(cat err untested/runs.csv untested/table.csv)"

# The tables of examples/ are those of their runs.
for results in "$source"/examples/*/results/*/table.csv; do
    results=${results%/*}
    [ -f "$results.study" ] || continue # tools/demo.sh makes that one
    cp -r "$results" published
    expect 0 "$study" "$results.study" - published
    for table in runs.csv table.csv; do
        cmp -s "$results/$table" published/$table || fail "of its runs, $results/$table is: $(diff "$results/$table" published/$table)"
    done
    rm -r published
done

# Names that begin with a dash; and CDPATH, with which cd prints a path.
printf 'seeds 1\narm a --top1 5' >./-x.study
expect 0 "$study" -x.study ./trainer -out
[ ! -s err ] && grep -q '^a,1,6.50,' ./-out/table.csv || fail "names with a dash: $(cat err)"
rm -f ./-out/study.png
expect 0 env -C "$source" CDPATH="$source" tools/study.sh "$PWD/-x.study" - "$PWD/-out"
[ ! -s err ] && { ! command -v gnuplot >/dev/null || [ -s ./-out/study.png ]; } || fail "with CDPATH: $(cat err)"

# says WORDS LINES: studies that make no sense
says() {
    printf '%b' "$2" >files/wrong.study
    expect 2 "$study" files/wrong.study ./trainer wrong
    grep -q "^study: .*$1" err && [ "$(wc -l <err)" = 1 ] && [ ! -e wrong ] || fail "of '$2' it says: $(cat err)"
}
says "'arm' says nothing" 'arm\n'
says 'no arm' 'seeds 1\n'
says "'foo' is no title, options, seeds, arm or only" 'foo bar\n'
says "an arm is called 'x/y'" 'arm x/y --a\n'
says "an arm is called '-a'" 'arm -a --b\n'
says 'two arms are called a' 'arm a --a\narm a --b\n'
says "'one' is no seed" 'seeds one\narm a --a\n'
says "'only b' is of no arm" 'only b 1\narm a --a\n'
expect 2 "$study" files/none.study ./trainer wrong
grep -q '^study: no file files/none.study$' err || fail "of a missing study it says: $(cat err)"
expect 2 "$study" files/four.study ./none wrong
expect 2 "$study"
[ ! -s out ] && [ "$(wc -l <err)" = 4 ] || fail "without arguments it says: $(cat out err)"
# --help is the whole head comment.
for option in --help -h; do
    expect 0 "$study" $option
    [ ! -s err ] && [ "$(tail -n 1 out)" = '130, 143 and 129 after SIGINT, SIGTERM and SIGHUP.' ] && grep -q '^    arm NAME WORD' out && ! grep '^#' out ||
        fail "$option says: $(cat out err)"
done
# Lines may end as on Windows.
: >calls
printf 'seeds 1\r\n\r\narm base --top1 80\r\n# x\r\nonly base 2 3\r' >files/windows.study
expect 0 "$study" files/windows.study ./trainer windows
[ "$(wc -l <calls)" = 2 ] && ! grep -q "$(printf '\r')" calls || fail "of lines that end as on Windows: $(cat -A calls)"

# The real trainer.
cat >files/real.study <<'STUDY'
options --image-size 16 --patch-size 8 --train-limit 64 --test-limit 32 --batch-size 32 --epochs 2
seeds 1
arm dense --activations dense --export dense.st
arm exact --activations exact
arm tested --test-onl --import dense.st
STUDY
expect 0 "$study" files/real.study "$real" real --quiet
awk -F, 'NR == 2 { d = $3 } NR > 2 && ($3 != d || $5 != "+0.00") { exit 1 } END { exit NR != 4 }' real/table.csv ||
    fail "exact, or the tested weights, are not dense: $(cat real/table.csv)"
awk -F, '(NR == 2) != ($6 == "") { exit 1 }' real/dense-1/log.csv || fail "it tests before the end: $(cat real/dense-1/log.csv)"

[ $failures -eq 0 ]
