#!/bin/sh
# The trainer's files from outside: what a run reads and writes is not lost, by whatever it is overwritten; what is
# refused, what is said.
#
#     test_trainer_files.sh path/to/resmlp-train path/to/resnet-train
#
# Refused outputs: a file of the run, an input, a file in the folder of --data, another output. A log or lock of the
# user's own stays. A replaced run's checkpoint stays until there is a new one. A stopped run exports nothing. Notes go
# to stderr and into the summary. A closed terminal counts as a signal, but not under nohup. A limit of the process is an
# error, or ends it with a checkpoint.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1") resnet=$(whole "$2")
cd "$folder" || exit 1
need_device "$program"

expect() {
    code=$1 pattern=$2
    shift 2
    ends "$code" "$pattern" "$program" "$@"
}

# A run that takes a moment: one step an epoch.
small="--image-size 16 --patch-size 8 --train-limit 16 --test-limit 8 --batch-size 16 --quiet"

without_time() {
    cut -d, -f1-6,10,11 "$1"
}

# ---- signals -------------------------------------------------------------------------------------
# Two signals at once are one. (timeout(1) sends its signal twice; equal ones may merge, so these differ.)
"$program" ${small% --quiet} --lora 2 --epochs 100000 --output-dir stopped --export stopped.st --adapters stopped.peft >out 2>err &
child=$!
tries=0
while [ "$(wc -l 2>/dev/null <stopped/log.csv || echo 0)" -lt 2 ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -s INT $child
kill -s TERM $child
wait $child
got=$?
[ $got = 130 ] || fail "exit code $got, not 130, after two signals: $(cat err)"
[ ! -e stopped/run.lock ] || fail "two signals end a run before it has saved"
[ ! -e stopped.st ] && [ ! -e stopped.peft ] || fail "weights are written of a run that is not at its end"
[ "$(grep -c 'is not written before the end of the run$' out)" = 2 ] || fail "it does not say what is not written"
rows=$(($(wc -l <stopped/log.csv) - 1))
expect 0 "" --resume stopped/last.ckpt --epochs $((rows + 1)) --quiet
[ "$(wc -l <stopped/log.csv)" = $((rows + 2)) ] || fail "no going on after two signals"

# SIGUSR1 asks for a checkpoint of the step, and the run goes on; so does one without a folder.
"$program" ${small% --quiet} --train-limit 160 --checkpoint-every 0 --epochs 100000 --output-dir asked >out 2>err &
child=$!
tries=0
while [ "$(wc -l 2>/dev/null <asked/log.csv || echo 0)" -lt 2 ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
[ ! -e asked/last.ckpt ] || fail "there is a checkpoint that nobody asked for"
kill -s USR1 $child
tries=0
until grep -q '^SIGUSR1: last.ckpt is of step ' out || [ $tries -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
cp asked/last.ckpt asked.ckpt
rows=$(wc -l <asked/log.csv)
until [ "$(wc -l <asked/log.csv)" -gt "$rows" ] || [ $tries -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
[ $tries -lt 600 ] || fail "no checkpoint, or no step after it, after SIGUSR1: $(cat err)"
kill -s XCPU $child
wait $child
got=$?
[ $got = 152 ] || fail "exit code $got, not 152, after SIGXCPU: $(cat err)"
"$program" --resume asked.ckpt --epochs 100000 --steps 1 >on 2>err
grep -q ", $(sed -n 's/^SIGUSR1: last.ckpt is of //p' out)$" on || fail "not the step that was saved: $(cat on)"

# ---- limits of the process -----------------------------------------------------------------------
# A file beyond the limit of its size is an error, as on a full disk: in one line, and nothing half written stays. At the
# limit of processor time a run saves.
# limited BLOCKS FILE OPTION...: blocks of 512 bytes.
limited() {
    blocks=$1 file=$2
    shift 2
    [ "$(ulimit -f 4; ulimit -f)" = 4 ] || return 0
    (ulimit -f "$blocks" && exec "$program" $small "$@" 2>&1 >/dev/null) | cat >err # the limit is not that of `err`
    ours err
    [ "$(wc -l <err)" = 1 ] && grep -q "cannot write $file[^ ]*: File too large$" err ||
        fail "$file at the limit of a file's size: $(cat err)"
    [ -z "$(ls -d "$file"* 2>/dev/null)" ] || fail "a part of $file is left: $(ls -d "$file"*)"
}
limited 4000 limit/last.ckpt --epochs 1 --output-dir limit
[ "$(ls -A limit)" = log.csv ] || fail "the limit of a file's size leaves $(ls -A limit)"
expect 0 "" $small --epochs 1 --output-dir limit --overwrite
cp limit/last.ckpt before.ckpt
(ulimit -f 4000 && "$program" --resume limit/last.ckpt --epochs 2 --quiet >/dev/null 2>&1)
cmp -s limit/last.ckpt before.ckpt || fail "a checkpoint beyond the limit of a file's size replaces the one before"
limited 4000 limit.st --steps 1 --export limit.st
limited 4000 limit.peft/adapter_model.safetensors --steps 1 --lora 96 --adapters limit.peft
# late FILE OPTION...: a limit of 2000 bytes for a run that works: PoCL and its linker write larger files, so none starts
# with it.
late() {
    file=$1
    shift
    "$program" $small --epochs 100000 "$@" 2>err >/dev/null &
    child=$!
    tries=0
    until [ "$(cat "$file"* 2>/dev/null | wc -c)" -gt 300 ] || [ $tries -gt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    prlimit --pid $child --fsize=2000
    wait $child
    got=$?
    ours err
    [ $got = 4 ] && [ "$(wc -l <err)" = 1 ] && grep -q "cannot write $file[^ ]*: File too large" err ||
        fail "exit code $got: $file at the limit of a file's size: $(cat err)"
}
if command -v prlimit >/dev/null; then
    late limit2/log.csv --checkpoint-every 0 --output-dir limit2
    late limit3/log.csv --checkpoint-every 100000 --output-dir limit3 # cannot save, either
    [ "$(ls -A limit3)" = log.csv ] || fail "a log at its limit leaves $(ls -A limit3)"
    late limit.board/events.out --steps 100000 --tensorboard limit.board
fi
(ulimit -St 4 && exec "$program" $small --epochs 100000 --output-dir time >out 2>err)
got=$?
[ $got = 152 ] && [ -s time/last.ckpt ] || fail "exit code $got, not 152, at the limit of processor time: $(cat err)"

# ---- outputs that would replace another file -----------------------------------------------------
expect 0 "" $small --epochs 1 --output-dir first --export weights
touch first/auto.keep first/auto.csv
echo 'blocks.0 ls1 dense' >rules
cksum first/* weights rules >want
echo >short.st
own="it is a run's own"
for file in log.csv auto.keep auto.csv run.lock; do
    expect 2 "--export first/../first/$file: $own $file; name another file" \
        --resume first/last.ckpt --epochs 2 --export first/../first/$file
done
expect 2 "--export new/last.ckpt: $own last.ckpt" $small --output-dir new --export new/last.ckpt
[ ! -e new ] || fail "a run that is refused leaves $(ls -A new)"
ln -s first/last.ckpt link
for file in first/last.ckpt link; do
    expect 2 "--export $file: it is the file of --resume; name another one" --resume first/last.ckpt --test-only --export $file
done
expect 2 "--export same: it is the file of --summary-json" $small --steps 1 --export same --summary-json ./same
expect 2 "--export weights: it is the file of --import" $small --steps 1 --import weights --export weights
# A file that is no file of weights is said before the data is opened.
expect 4 "first/last.ckpt: no safetensors file, but a checkpoint; --resume" $small --data absent --import first/last.ckpt
expect 4 "absent.st: No such file" $small --data absent --import absent.st
expect 4 "first/model.safetensors: No such file" $small --data absent --import first
expect 4 "short.st: shorter than 8 bytes" $small --data absent --import short.st
expect 0 "" $small --epochs 1 --import weights --output-dir imported
expect 2 "--export weights: it is the file of --import" --resume imported/last.ckpt --epochs 2 --export weights
expect 2 "--plan-csv rules: it is the file of --keep-file" $small --plan --keep-file rules --plan-csv rules
expect 2 "--plan-csv first/log.csv: $own log.csv" --resume first/last.ckpt --plan --plan-csv first/log.csv
# Also of another run, and under another name.
cp first/last.ckpt copy
cp -r first other
expect 2 "--export copy: $own checkpoint" --resume first/last.ckpt --test-only --export copy
expect 2 "--summary-json other/log.csv: $own log.csv" --resume first/last.ckpt --test-only --summary-json other/log.csv
expect 2 "--export other/log.csv: $own log.csv" $small --steps 1 --export other/log.csv
expect 2 "--plan-csv other/last.ckpt: $own last.ckpt" $small --plan --plan-csv other/last.ckpt
cmp -s copy first/last.ckpt && cmp -s other/last.ckpt copy || fail "another run's file is replaced"
cksum first/* weights rules | cmp -s want - || fail "an output that is refused has replaced a file"
rm first/auto.keep first/auto.csv
expect 0 "" $small --steps 1 --export /dev/null --summary-json /dev/null

# The files of --adapters likewise; what cannot be written is said before training.
adapted="$small --lora 2 --adapters"
echo mine >taken
expect 4 "cannot make the folder taken: Not a directory" $adapted taken --epochs 1 --output-dir adapted
mkdir -p blocked/adapter_config.json peft
expect 4 "cannot write blocked/adapter_config.json: it is a folder" $adapted blocked --epochs 1 --output-dir adapted
[ ! -e adapted ] || fail "a run trains before it says that its adapters cannot be written"
expect 2 "--export peft/adapter_model.safetensors: it is the file of --adapters" \
    $adapted peft --steps 1 --export peft/adapter_model.safetensors
cp weights peft/adapter_model.safetensors
expect 2 "--adapters ./peft/adapter_model.safetensors: it is the file of --import" \
    $adapted ./peft --steps 1 --import peft/adapter_model.safetensors
expect 0 "" $small --lora 2 --epochs 1 --import peft/adapter_model.safetensors --output-dir tuned
expect 2 "--adapters ./peft/adapter_model.safetensors: it is the file of --import" \
    --resume tuned/last.ckpt --epochs 2 --adapters ./peft
cmp -s weights peft/adapter_model.safetensors && [ "$(cat taken)" = mine ] || fail "--adapters has replaced a file"

# An output that is a file of the data, also where a checkpoint alone says what that is.
mkdir cif
{ printf '\1' && head -c 3072 /dev/zero; } >cif/test_batch.bin
for i in 1 2 3 4 5; do cp cif/test_batch.bin cif/data_batch_$i.bin; done
ln -s cif linked
cksum cif/* >want
inside="is a file of --data"
cifar="--patch-size 8 --batch-size 1 --quiet"
expect 2 "--summary-json cif/test_batch.bin: it $inside; name another file" \
    --data cif $cifar --steps 1 --summary-json cif/test_batch.bin
expect 2 "--export linked/test_batch.bin: it $inside" --data cif $cifar --steps 1 --export linked/test_batch.bin
expect 2 "--plan-csv cif/test_batch.bin: it $inside" --data linked/ $cifar --plan --plan-csv cif/test_batch.bin
expect 0 "" --data cif $cifar --epochs 1 --output-dir cifar --summary-json cif.json
expect 2 "--export cif/data_batch_5.bin: it $inside" --resume cifar/last.ckpt --test-only --export cif/data_batch_5.bin
expect 0 "" --resume cifar/last.ckpt --test-only --quiet --summary-json cif.json
cksum cif/* | cmp -s want - || fail "an output has replaced a file of the data"
echo {} >cif/out.json # lies there, but is no file of the data
expect 0 "" --data cif $cifar --steps 1 --summary-json cif/out.json
mkdir generated
echo {} >generated/out.json
expect 0 "" --data generated $small --steps 1 --summary-json generated/out.json
rm -r generated

# Files of the user's own under the names of a run's.
mkdir own
echo 'my,own,log' >own/log.csv
cp own/log.csv mine
expect 2 "own: there is a run already (log.csv)" $small --epochs 1 --output-dir own
cmp -s own/log.csv mine || fail "a log that is no run's is replaced"
head -c 20 first/log.csv >own/log.csv # a run killed at its beginning
expect 0 "" $small --epochs 1 --output-dir own
mkdir own-lock
cp mine own-lock/run.lock
expect 4 "own-lock/run.lock: it has 11 bytes, so it is no run's lock; remove it, or give another --output-dir" \
    $small --epochs 1 --output-dir own-lock
cmp -s own-lock/run.lock mine || fail "a lock that is no run's is removed"
: >own-lock/run.lock # a killed run leaves it
expect 0 "" $small --epochs 1 --output-dir own-lock

# ---- --overwrite ---------------------------------------------------------------------------------
# The checkpoint of the run before goes when the new run has one.
cp -r first replaced
expect 6 "diverged" $small --train-limit 64 --optimizer sgd --lr 1e6 --warmup-epochs 0 --output-dir replaced --overwrite
[ "$(ls replaced | tr '\n' ' ')" = "last.ckpt log.csv " ] && cmp -s first/last.ckpt replaced/last.ckpt ||
    fail "--overwrite loses a checkpoint before there is a new one: $(ls replaced)"
expect 2 "replaced: there is a run already (last.ckpt); continue it with --resume replaced/last.ckpt, replace" \
    $small --output-dir replaced
cp -r replaced again
cp -r replaced unsaved
expect 0 "" $small --epochs 1 --output-dir unsaved --overwrite --checkpoint-every 0
[ "$(ls unsaved)" = log.csv ] || fail "a run without checkpoints leaves the replaced run's: $(ls unsaved)"
expect 0 "" $small --epochs 1 --output-dir clocked --checkpoint-every 0 --checkpoint-minutes 60
[ -s clocked/last.ckpt ] || fail "a run with --checkpoint-minutes ends without a checkpoint: $(ls clocked)"
cp first/last.ckpt replaced/last.ckpt.old
echo 'blocks.0 ls1 dense' >again/auto.keep
expect 0 "" --resume replaced/last.ckpt --epochs 2 --quiet
cmp -s first/last.ckpt replaced/last.ckpt.old || fail "a copy of a checkpoint is lost"
rm replaced/last.ckpt.old
expect 0 "" $small --epochs 1 --seed 2 --keep-file again/auto.keep --output-dir again --overwrite
[ -e again/auto.keep ] || fail "--overwrite removes the file of --keep-file"
rm again/auto.keep
for run in replaced again; do
    [ "$(ls $run | tr '\n' ' ')" = "last.ckpt log.csv " ] || fail "left in $run: $(ls $run)"
done
without_time first/log.csv >want
without_time replaced/log.csv | head -n 2 | cmp -s want - || fail "a replaced run does not go on: $(cat replaced/log.csv)"
without_time again/log.csv | cmp -s want - && fail "--overwrite does not replace"

# ---- resuming ------------------------------------------------------------------------------------
# A finished run, into another folder: it can go on from there.
expect 0 "" --resume first/last.ckpt --output-dir moved --quiet
expect 0 "" --resume moved/last.ckpt --epochs 2 --quiet
[ "$(wc -l <moved/log.csv)" = 3 ] || fail "a finished run does not go on in another folder"
# What is no checkpoint of this program is named before its folder is looked at.
ends 4 "first/last.ckpt: its --arch is 'resmlp_tiny', which this resnet-train does not have" "$resnet" --resume first/last.ckpt
expect 4 "first/log.csv: it does not begin as a checkpoint" --resume first/log.csv
expect 4 "cannot read first: it is a folder, not a regular file; its checkpoint is first/last.ckpt" --resume first
expect 4 "its checkpoint is first/last.ckpt" --resume first/
mkdir empty
expect 4 "cannot read empty: it is a folder, not a regular file$" --resume empty
# The data of a run, from another folder.
mkdir digits
for split in train t10k; do
    { printf '\0\0\10\3\0\0\0\20\0\0\0\20\0\0\0\20' && head -c 4096 /dev/zero; } >digits/$split-images-idx3-ubyte
    printf '\0\0\10\1\0\0\0\20\0\1\0\1\0\1\0\1\0\1\0\1\0\1\0\1' >digits/$split-labels-idx1-ubyte
done
expect 0 "" --data digits --patch-size 8 --batch-size 16 --steps 1 --output-dir grey --quiet
mkdir elsewhere
cd elsewhere || exit 1
expect 4 "digits.*; the run in ../grey/last.ckpt has its data there, --data DIR names another place" --resume ../grey/last.ckpt
expect 0 "" --resume ../grey/last.ckpt --data ../digits --quiet --steps 1
cd .. || exit 1

# ---- what is said, also with --quiet -------------------------------------------------------------
expect 0 "" $small --import weights --steps 1 --summary-json summary
grep -q '"imported_head": "yes"' summary || fail "the summary does not say that the head is imported"
"$program" $small --import weights --classes 7 --steps 1 --summary-json summary >out 2>err || fail "$(cat err)"
grep -q '^resmlp-train: note: the head in weights is not there or has another number of classes' err ||
    fail "it does not say on stderr that the head is not imported: $(cat err)"
grep -q '"imported_head": "no"' summary || fail "the summary does not say that the head is not imported"
expect 0 "" $small --epochs 1 --summary-json summary
run=$(sed -n 's/^  "output_dir": "\(runs\/resmlp_tiny-.*\)",$/\1/p' summary)
[ -s "$run/last.ckpt" ] || fail "the summary does not name the folder of the run"
"$program" $small --steps 1 --device "no such thing" 2>err
grep -q 'no such thing' err && ! grep -q '\.c:[0-9]' err || fail "a message names a line of the library: $(cat err)"
if [ -c /dev/full ]; then
    expect 4 "cannot write /dev/full: No space left on device" $small --steps 1 --export /dev/full
fi
expect 4 "cannot write -: standard output is /dev/stdout, and a file of this name ./-" $small --steps 1 --summary-json -
[ ! -e - ] || fail "there is a file of the name -"
expect 0 "" ${small% --quiet} --activations auto --memory-limit 1g --steps 1 --output-dir auto
grep -q '^activations auto, dense fits; ' out && [ ! -e auto/auto.csv ] || fail "auto without measured errors: $(ls auto)"
for limit in 1G 1024m 1048576k 1048576K 1073741824; do
    expect 0 "" ${small% --quiet} --plan --memory-limit $limit
    grep -q '^memory limit 1073741824 bytes' out || fail "--memory-limit $limit: $(head -n 1 out)"
done
for limit in 1.5G 1GB 1T g 0 9000000000G; do
    expect 2 "--memory-limit: '$limit' is not a whole number from 1 to 9007199254740991, of bytes or with one letter, K, M or G" \
        --memory-limit $limit
done
# A long path does not cut off the reason.
deep=$(printf '%0200d/' 1 2 3 4 5 6 7 8)
mkdir -p "$deep"
expect 4 "no data set there: expected files of CIFAR-10 .* or train/CLASS/" --data "$deep" --steps 1
"$program" --help | grep -q 'keep_file\.h' && fail "--help names a file that is not installed"

[ $failures = 0 ] || { echo "$failures failures" && exit 1; }
echo "all passed"
