#!/bin/sh
# The example trainer from outside: exit codes and messages, files, resuming, signals.
#
#     test_trainer.sh path/to/resmlp-train
#
# Resuming gives the same bits with each criterion. Checkpoints of newer programs are
# refused by name. A broken image costs no step. One signal ends a run, also while kernels are built; a reader that does
# not read holds up neither a run nor a report. A second run in a folder is refused, as is a new one where a run's files
# are; the lock ends with its process; FIFOs and folders in place of files are refused at once; a copy of a checkpoint
# does not go on beside files of another run. With --activations auto the run stays within the limit, the errors of
# tensors add up to the measured one, and the choice is the same twice, from its keep file, and in a resumed run.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1")
cd "$folder" || exit 1
device=yes
"$program" --list-devices >/dev/null 2>&1 || device=no
if [ $device = no ] && [ "${CLPRUNE_TEST_SKIP_NO_DEVICE:-}" != 1 ]; then
    no_device
fi

# expect CODE PATTERN arguments...: the program ends with CODE; it prints nothing on stderr, or, for
# another code than 0, one line that matches PATTERN.
expect() {
    code=$1 pattern=$2
    shift 2
    "$program" "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "exit code $got, not $code: $*: $(cat err)"
    check_message "$code" "$pattern" "$*"
}

check_message() {
    ours err
    lines=$(wc -l <err)
    if [ "$1" = 0 ]; then
        [ "$lines" = 0 ] || fail "it prints on stderr: $3: $(cat err)"
    elif [ "$lines" != 1 ] || ! grep -q "^resmlp-train: .*$2" err; then
        fail "stderr is not one line with '$2': $3: $(cat err)"
    fi
}

# noted LINES arguments...: the program succeeds; stderr has a note that matches for each of LINES.
noted() {
    patterns=$1
    shift
    "$program" "$@" >out 2>err || fail "$*: $(cat err)"
    grep -v '^[0-9]* warnings* generated\.$' err >notes
    [ "$(wc -l <notes)" = "$(echo "$patterns" | wc -l)" ] || fail "other notes than '$patterns': $*: $(cat err)"
    echo "$patterns" | while read -r pattern; do
        grep -q "^resmlp-train: note: $pattern" notes || echo "$pattern"
    done >lacking
    [ ! -s lacking ] || fail "no note '$(cat lacking)': $*: $(cat err)"
}

# A run that takes a moment: 3 steps an epoch, the last with fewer images.
small="--image-size 16 --patch-size 8 --train-limit 80 --test-limit 40 --batch-size 32"
sampled="$small --activations pruned --sparsity 0.5 --block 16"
pruned="$small --activations paper --sparsity 0.5 --block 16"

# await_rows LOG COUNT: until it has as many lines, the header among them; at most a minute.
await_rows() {
    tries=0
    while [ "$(wc -l 2>/dev/null <"$1" || echo 0)" -lt "$2" ] && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# The log without its columns of time.
without_time() {
    cut -d, -f1-6,10,11 "$1"
}

# ---- the command line ----------------------------------------------------------------------------
expect 0 "" --help
for option in arch image-size patch-size classes data train-limit test-limit no-augment normalise \
    activations sparsity block norm criterion centre values indices precision gelu-code code-bits group rounding rotate store pool keep-file epochs batch-size optimizer lr weight-decay warmup-epochs schedule milestones \
    label-smoothing clip-norm momentum nesterov beta2 rates lookahead ema points shift border mirror rand-augment erase mixup cutmix views lora-alpha rslora lora-dropout seed device list-devices test-every test-steps best patience output-dir checkpoint-every resume \
    gradient-check gradient-draws early-update micro-batches zero reduce-bits sync-batch-norm peer-timeout checkpoint-minutes processes plan plan-csv plan-device memory-limit test-only memory-report summary-json tensorboard import export skip-broken steps overwrite quiet help version; do
    grep -q -- "^  --$option\\>" out || fail "--help does not say --$option"
done
grep -q ' $' out && fail "--help has spaces at the ends of lines"
cp out help
expect 0 "" -h
cmp -s out help || fail "-h does not print what --help prints"
expect 0 "" --version
grep -q '^resmlp-train .*[0-9]\.[0-9]' out || fail "--version prints no version"
expect 2 "'--nonsense'" --nonsense
expect 2 "'-x'" -x
expect 2 "'stray'" stray
expect 2 "ambiguous option '--s'" --s 1
expect 2 "ambiguous option '--t'" --train 80 --t 1
expect 0 "" --vers
expect 2 "'--quiet=1'" --quiet=1
expect 2 "'--lr'" --lr
expect 2 "--arch: 'resnet' is not one of resmlp_s12" --arch resnet
expect 2 "--epochs: '0'" --epochs 0
expect 2 "--epochs: '1x'" --epochs 1x
expect 2 "--epochs: '-1'" --epochs -1
expect 2 "--epochs: ''" --epochs ''
expect 2 "--seed: '99999999999999999999'" --seed 99999999999999999999
for number in 1,5 nan inf 0x1p3 1e999 ' 1' '1 ' -1 ''; do
    expect 2 "--lr: '$number'" --lr "$number"
done
for option in clip-norm lr weight-decay; do
    expect 2 "--$option: '1e-46' is not 0 or at least 1.18e-38" --$option 1e-46
done
expect 2 "--warmup-epochs 5: more than --epochs, 2" --epochs 2 --warmup-epochs 5
expect 2 "--sparsity: '1.5'" --activations paper --sparsity 1.5
expect 2 "--sparsity needs --activations paper" --sparsity 0.5
expect 2 "--label-smoothing: '1'" --label-smoothing 1
for block in 0 4x 0x4 x 4x4x4 -1 1.5 99999999; do
    expect 2 "--block: '$block'" --block $block
done
expect 2 "--optimizer: 'adam' is not one of sgd adamw lamb .*sgd8 adamw8" --optimizer adam
expect 2 "--norm: 'l3'" --norm l3
expect 2 "--criterion: 'best' is not one of largest sampled" --criterion best
expect 2 "--test-only needs --resume" --test-only
for option in "--output-dir x" --overwrite "--tensorboard x" --best "--patience 2"; do
    expect 2 "${option% *} does not go with --test-only" --test-only --import x $option
done
expect 2 "--group: '24' is not one of 16 32 48 64" --activations quantised --group 24
expect 2 "--code-bits: '3' is not one of 2 4 8 16" --activations quantised --code-bits 3
expect 2 "--rounding: 'up' is not one of stochastic nearest" --activations quantised --rounding up
expect 2 "--rotate: '1' is not one of no yes" --activations quantised --rotate 1
expect 2 "--rotate yes does not go with --code-bits 16" --activations quantised --code-bits 16 --rotate yes
expect 2 "--store: 'fp16' is not one of fp32 bf16" --store fp16
expect 2 "--pool: '0' is not a whole number from 1" --activations pooled --pool 0
for arguments in "--group 16" "--code-bits 8" "--activations pruned --rounding nearest" "--rotate yes"; do
    expect 2 "needs --activations quantised, compact, compact-plus or least" $arguments
done
expect 2 "--pool needs --activations pooled, --centre cells, or --keep-file" --activations quantised --pool 3
expect 2 "--gradient-draws needs --gradient-check" --gradient-draws 2
for arguments in "--block 4" "--norm l1" "--criterion largest" "--activations exact --block 4"; do
    expect 2 "needs --activations paper, pruned or compact-pruned" $arguments
done

# ---- devices and memory --------------------------------------------------------------------------
mkdir no_drivers
export OCL_ICD_VENDORS="$folder/no_drivers"
expect 3 "device.*pocl-opencl-icd.*set POCL_CACHE_DIR" --list-devices
expect 3 "device" $small
unset OCL_ICD_VENDORS
if [ $device = no ]; then
    [ $failures = 0 ] || exit 1
    exit 77
fi
expect 0 "" --list-devices
grep -q '^0:0 ' out || fail "--list-devices does not list 0:0"
# PoCL's cache that this user cannot write.
user=env
[ "$(id -u)" != 0 ] || user="setpriv --reuid 65534 --regid 65534 --clear-groups"
chmod a+rx "$folder"
mkdir -m 555 readonly
if grep -q 'Portable Computing Language' out && $user test -x "$program"; then
    $user env POCL_CACHE_DIR="$folder/readonly" CLPRUNE_CACHE_DIR=off "$program" $small --steps 1 \
        >out 2>err
    check_message $? "clBuildProgram failed.*see POCL_CACHE_DIR, or HOME" "a cache of PoCL for reading"
fi
expect 3 "no such thing" $small --device "no such thing"
expect 3 "99:0" $small --device 99:0
export CLPRUNE_MEM_LIMIT=3M
expect 5 "memory.*; a smaller --batch-size or --activations least takes less, and --memory-limit BYTES chooses" $small
unset CLPRUNE_MEM_LIMIT
# What the environment says wrongly is named, with and without --device.
CLPRUNE_MEM_LIMIT=1x expect 2 "opening a device: .*CLPRUNE_MEM_LIMIT is \"1x\"" $small
CLPRUNE_DEBUG=x expect 2 "opening a device: .*CLPRUNE_DEBUG has \"x\"" $small --device 0:0
CLPRUNE_TUNING=none expect 2 "opening a device: .*CLPRUNE_TUNING: cannot read none" $small --plan

# ---- data ----------------------------------------------------------------------------------------
expect 4 "no/such/folder" --data no/such/folder
expect 2 "not a multiple" --image-size 18 --patch-size 4
mkdir cifar
for i in 1 2 3 4 5; do
    head -c 6146 /dev/zero >cifar/data_batch_$i.bin
done
head -c 3073 /dev/zero >cifar/test_batch.bin
expect 2 "image" --data cifar --image-size 64
head -c 6000 /dev/zero >cifar/data_batch_3.bin
expect 4 "data_batch_3.bin" --data cifar
rm cifar/data_batch_3.bin
mkdir cifar/data_batch_3.bin
expect 4 "data_batch_3.bin: it is a folder, not a regular file" --data cifar
rmdir cifar/data_batch_3.bin
for size in 0 3072 3074 6147; do
    head -c $size /dev/zero >cifar/data_batch_3.bin
    expect 4 "data_batch_3.bin: is empty\|data_batch_3.bin: truncated or of another format: $size bytes" --data cifar
done
head -c 6146 /dev/zero >cifar/data_batch_3.bin
expect 0 "" --arch resmlp_tiny --data cifar --patch-size 16 --steps 1
[ ! -e runs ] || fail "a run of --steps leaves files"
expect 0 "" --data cifar --patch-size 16 --train-limit 4 --batch-size 4 --steps 1 --output-dir ten
for data in "" "--data cifar"; do
    expect 2 "--train-limit 100: the run in ten/last.ckpt has 4" --resume ten/last.ckpt --train-limit 100 $data
done
head -c 6146 /dev/zero | tr '\0' '\1' >cifar/data_batch_2.bin
expect 2 "--data cifar: these images are not those of the run in ten/last.ckpt" --resume ten/last.ckpt
# The first epoch is tested; nothing is said of a test after the last step.
expect 0 "" --image-size 16 --patch-size 8 --train-limit 80 --batch-size 32 --steps 4
grep -q '^epoch 1/10 .*test loss' out && tail -n 1 out | grep -q '^step 4: ' ||
    fail "--steps beyond an epoch, without --test-limit: $(cat out)"
expect 0 "" $small --steps 4
[ "$(grep -c '^test loss' out)" = 1 ] || fail "--steps with --test-limit: $(cat out)"

# Images of one pixel, one of them cut off.
for class in a b; do
    mkdir -p images/train/$class images/val/$class
    for in_class in images/*/$class; do
        printf '\211PNG\15\12\32\12\0\0\0\15IHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\233U\0\0\0\12IDATx\332ch\0\0\0\202\0\201\332E\10;\0\0\0\0IEND\256B`\202' >$in_class/1.png
    done
done
one_pixel="--data images --image-size 16 --patch-size 8 --steps 1 --quiet"
"$program" $one_pixel >out 2>err
if grep -q 'built without libturbojpeg' err; then
    echo "not tested: --skip-broken"
else
    expect 0 "" $one_pixel --output-dir pixels
    # A file that changed since then is a note.
    head -c 40 images/train/a/1.png >images/train/b/1.png
    noted "--data images: training files have other sizes than those of the run in pixels/last.ckpt
--data: images/train/b/1.png: .*; the next image takes its place" --resume pixels/last.ckpt --steps 1 --skip-broken --summary-json pixels.json --output-dir more
    grep -q 'replaced 1 times' out && grep -q '"skipped": 1,' pixels.json || fail "no broken image is counted: $(cat out)"
    noted "--data: images/train/b/1.png: .*; the next image takes its place" \
        --resume more/last.ckpt --steps 1 --skip-broken --summary-json pixels.json
    grep -q 'replaced 2 times' out && grep -q '"skipped": 2,' pixels.json || fail "a resumed run forgets broken images: $(cat out)"
    # A batch that was made but not used, because a signal came, is not counted.
    cp -r images many
    for i in 2 3 4 5 6 7 8 9; do
        cp images/train/b/1.png many/train/a/$i.png
        cp images/train/b/1.png many/train/b/$i.png
    done
    many="--data many --image-size 16 --patch-size 8 --batch-size 1 --test-every 0 --skip-broken"
    "$program" $many --epochs 1 --output-dir many1 --summary-json many.json >out 2>err
    each=$(sed -n 's/.*"skipped": \([0-9]*\),/\1/p' many.json)
    [ "$each" -gt 15 ] || fail "$each images of 17 are replaced in an epoch"
    for try in 1 2; do
        "$program" $many --epochs 100000 --checkpoint-every 100000 --output-dir many.$try >out 2>err &
        child=$!
        await_rows many.$try/log.csv 3
        kill -s INT $child
        wait $child
        epochs=$(wc -l <many.$try/log.csv) # with the one that goes on
        "$program" --resume many.$try/last.ckpt --epochs "$epochs" --skip-broken --summary-json many.json >out 2>err
        grep -q "\"skipped\": $((each * epochs))," many.json ||
            fail "not $each images an epoch are replaced in $epochs epochs: $(grep skipped many.json)"
    done
    # It ends the run, not what was done, in the epoch or in the test.
    two_steps="--data images --image-size 16 --patch-size 8 --batch-size 1 --epochs 2 --quiet"
    broken="images/train/b/1.png: .*; --skip-broken replaces such files"
    expect 4 "$broken; go on with --resume cut/last.ckpt" $two_steps --seed 4 --output-dir cut
    noted "--data: images/train/b/1.png" --resume cut/last.ckpt --skip-broken --quiet
    noted "--data: images/train/b/1.png" $two_steps --seed 4 --skip-broken --output-dir replaced
    without_time cut/log.csv >want
    without_time replaced/log.csv | cmp -s - want && [ "$(wc -l <want)" = 3 ] || fail "another run after a broken image: $(cat */log.csv)"
    # A long path does not cut off the reason.
    long=$(printf './%.0s' $(seq 900))images
    expect 4 "$broken; go on with --resume long/last.ckpt" $two_steps --seed 4 --data "$long" --output-dir long
    noted "--data: .*images/train/b/1.png: .*; the next image takes its place" --resume long/last.ckpt --skip-broken --quiet
    cp images/train/a/1.png images/train/b/1.png
    : >images/val/b/1.png
    expect 4 "images/val/b/1.png: .*; go on with --resume tested/last.ckpt" $two_steps --output-dir tested
    cp images/train/a/1.png images/val/b/1.png
    expect 0 "" --resume tested/last.ckpt --epochs 1 --quiet
    [ "$(sed -n 's/^1,2,.*/2 steps/p' tested/log.csv)" = "2 steps" ] || fail "no epoch after a broken test image: $(cat tested/log.csv)"
    # The only step of the epoch is a first one, which is not timed.
    : >images/val/b/1.png
    expect 4 "go on with --resume short/last.ckpt" $two_steps --batch-size 2 --epochs 1 --output-dir short
    cp images/train/a/1.png images/val/b/1.png
    expect 0 "" --resume short/last.ckpt --quiet
    tail -n 1 short/log.csv | cut -d, -f7,8 | grep -qx , || fail "an epoch of a first step has a time: $(cat short/log.csv)"
    # A name of two lines is a note of one.
    touch "images/train/a/two
lines.webp"
    noted "--data: .*two lines.webp" $one_pixel
    rm images/train/a/*.webp
fi

# ---- what is no regular file ---------------------------------------------------------------------
# Opening a FIFO would wait for its other end: each is refused at once, and named.
bounded() {
    timeout 20 "$unbounded" "$@"
}
unbounded=$program
program=bounded
mkfifo fifo
rm cifar/data_batch_3.bin
mkfifo cifar/data_batch_3.bin
fifo="it is a FIFO, not a regular file"
expect 4 "cifar/data_batch_3.bin: $fifo" --data cifar
expect 4 "cannot read fifo: $fifo" --resume fifo
expect 4 "fifo: $fifo" $small --keep-file fifo
expect 4 "cannot write fifo: $fifo" $small --steps 1 --summary-json fifo
expect 4 "cannot write fifo: $fifo" $small --plan --plan-csv fifo
expect 4 "cannot read cifar: it is a folder" --resume cifar
expect 4 "cifar: it is a folder" $small --keep-file cifar
expect 4 "cannot write cifar: it is a folder" $small --steps 1 --summary-json cifar
expect 4 "cannot read /dev/zero: it is a device" --resume /dev/zero
for file in last.ckpt log.csv auto.keep run.lock; do
    mkdir pipes
    mkfifo pipes/$file
    expect 4 "pipes/$file" $small --output-dir pipes
    rm -r pipes
done
mkdir unwritable
ln -s /dev/null/x unwritable/run.lock # for the superuser, too
expect 4 "cannot write unwritable/run.lock: .*; --output-dir chooses another place" $small --output-dir unwritable
# A pipe that the program has open is fine.
"$program" $small --steps 1 --quiet --summary-json /dev/stdout 2>err | grep -q '"steps": 1' ||
    fail "no summary in a pipe: $(cat err)"
program=$unbounded
# So is a file that it has open, behind what was written there; a link stays, and what it names is replaced.
ln -s /proc/self/fd/1 standard
echo before >open
"$program" $small --plan --plan-csv standard >>open 2>err || fail "a plan in a file that is open: $(cat err)"
[ -L standard ] && [ "$(head -n 1 open)" = before ] && sed -n '/^peak of everything/,$p' open | grep -q '^command,' ||
    fail "not plan and timeline behind what was there: $(ls -l standard; cat open)"
mkdir elsewhere
echo before >elsewhere/file
ln elsewhere/file elsewhere/old
ln -s elsewhere/file link
expect 0 "" $small --plan --plan-csv link
[ -L link ] && grep -q '^command,' elsewhere/file && [ "$(cat elsewhere/old)" = before ] && [ "$(ls elsewhere)" = "$(printf 'file\nold')" ] ||
    fail "a link to a file: $(ls -l link elsewhere)"
ln -s nothing dangling
expect 4 "cannot write dangling: it is a link to nothing" $small --plan --plan-csv dangling
[ -L dangling ] || fail "a link to nothing was replaced"
mkdir linked
for file in last.ckpt log.csv; do
    ln -s nowhere linked/$file
    expect 4 "cannot write linked/$file: it is a link to nothing" $small --output-dir linked
    [ ! -s out ] || fail "a link to nothing as $file is found too late: $(cat out)"
    rm linked/$file
done

# ---- the data of a run ---------------------------------------------------------------------------
# grey FOLDER DIGIT: 16 images of 16 x 16 pixels, all of one grey.
grey() {
    mkdir "$1"
    for split in train t10k; do
        { printf '\0\0\10\3\0\0\0\20\0\0\0\20\0\0\0\20' && head -c 4096 /dev/zero | tr '\0' "$2"; } >"$1/$split-images-idx3-ubyte"
        printf '\0\0\10\1\0\0\0\20\0\1\0\1\0\1\0\1\0\1\0\1\0\1\0\1' >"$1/$split-labels-idx1-ubyte"
    done
}
grey digits 1
grey fashion 2
expect 0 "" --data digits --patch-size 8 --batch-size 8 --epochs 2 --steps 1 --train-limit 12 --output-dir grey
expect 0 "" --resume grey/last.ckpt --data fashion --output-dir stage
grep -q '^data changed: epoch 1 begins with 16 images in place of 12$' out || fail "a stage is not told: $(cat out)"
# A test within an unfinished epoch stays in the log of the stage that begins it anew.
expect 0 "" --data digits --patch-size 8 --batch-size 4 --epochs 2 --steps 5 --test-steps 1 --train-limit 12 --output-dir begun
expect 0 "" --resume begun/last.ckpt --data fashion --output-dir staged --steps 3
expect 0 "" --resume staged/last.ckpt
[ "$(cut -d, -f1,2 staged/log.csv | tr '\n' ' ')" = "epoch,step 1,1 1,2 1,3 2,4 2,6 2,7 2,8 2,9 " ] || fail "tests within epochs of stages: $(cat staged/log.csv)"
rm -r begun staged
mv digits moved
expect 0 "" --resume grey/last.ckpt --data moved --test-limit 8
# A limit above the number of images is none.
limit="--data moved --patch-size 8 --batch-size 8 --epochs 2 --output-dir limit --train-limit"
expect 0 "" $limit 100 --steps 1
expect 0 "" $limit 100 --resume limit/last.ckpt --steps 1
expect 0 "" $limit 12 --steps 1 --overwrite
expect 2 "--train-limit 100: the run in limit/last.ckpt has 12" $limit 100 --resume limit/last.ckpt
expect 2 "--train-limit 100: the run in limit/last.ckpt has 12" $limit 100 --resume limit/last.ckpt --plan
expect 0 "" $limit 100 --resume limit/last.ckpt --data fashion --output-dir stages
grep -q '^data changed: epoch 1 begins with 16 images in place of 12$' out || fail "a stage with --train-limit: $(cat out)"
mv moved away && mv fashion moved # other images at the same place are no stage
expect 2 "--data moved: these images are not those of the run in limit/last.ckpt; give --data to go on with others" --resume limit/last.ckpt
mv moved fashion && mv away moved

# ---- output --------------------------------------------------------------------------------------
expect 0 "" $pruned --epochs 3 --output-dir whole --summary-json whole.json --memory-report --export whole.st
grep -q "$(printf '\r')" out && fail "there is a carriage return where there is no terminal"
grep -q 'blocks\.\*\.norm1 ' out || fail "the memory report has no pruned blocks"
[ "$(wc -l <whole/log.csv)" = 4 ] || fail "log.csv has no header and 3 rows"
ls whole/*.tmp >/dev/null 2>&1 && fail "a temporary file is left"
for key in arch parameters dataset epochs batch_size activations sparsity block criterion seed device top1 \
    test_loss train_loss images_per_second step_ms saved_activation_bytes peak_bytes memory live \
    peak input gradients optimizer workspace cpu_seconds no-augment label-smoothing warmup-epochs clip-norm; do
    grep -q "\"$key\": " whole.json || fail "the summary has no $key"
done
# Each option of --help but those that change no result.
sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' help | grep -vxE 'list-devices|overwrite|peer-timeout|plan|plan-csv|plan-device|processes|memory-report|summary-json|quiet|help|version' >settings
[ "$(wc -l <settings)" -gt 40 ] || fail "--help has few settings: $(cat settings)"
while read -r option; do
    sed -n '/^  "options": {/,/^  }/p' whole.json | grep -q "\"$option\": \"" || fail "the summary's options have no $option"
done <settings
for option in steps gradient-check memory-limit; do
    grep -q "^ *\"$option\": \"\"" whole.json || fail "--$option, which is not set: $(grep "\"$option\"" whole.json)"
done
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; json.load(open(sys.argv[1]))' whole.json ||
        fail "the summary is no JSON"
fi
# Without --output-dir each run has a folder of its own, and says which.
one="--image-size 16 --patch-size 8 --train-limit 16 --test-limit 8 --batch-size 16 --epochs 1"
expect 0 "" $one --quiet
[ ! -s out ] || fail "--quiet prints"
expect 0 "" $one
new=$(sed -n 's/^files in \(runs\/resmlp_tiny-[0-9]*-[0-9]*.*\)/\1/p' out)
[ -s "$new/last.ckpt" ] && [ -s "$new/log.csv" ] || fail "no checkpoint in '$new': $(cat out)"
[ "$(ls runs | wc -l)" = 2 ] && [ "$(ls runs/*/last.ckpt | wc -l)" = 2 ] ||
    fail "not two folders of two runs: $(ls runs runs/*)"
[ "$(ls -A "$new" | wc -l)" = 2 ] || fail "more than log and checkpoint is left: $(ls -A "$new")"
# A folder with a run's files is not written into unless it is said so.
cksum "$new/last.ckpt" "$new/log.csv" >want
expect 2 "$new: there is a run already (last.ckpt); continue it with --resume $new/last.ckpt" $one --output-dir "$new"
mkdir other
echo mine >other/log.csv
cat "$new/log.csv" >>other/log.csv
expect 2 "other: there is a run already (log.csv); replace it with --overwrite" $one --output-dir other
rm -r other
expect 2 "whole: there is a run already" --resume "$new/last.ckpt" --output-dir whole
cksum "$new/last.ckpt" "$new/log.csv" | cmp -s want - || fail "a refused run touched the files of another"
expect 0 "" $one --seed 2 --output-dir "$new" --overwrite
cksum "$new/last.ckpt" "$new/log.csv" | cmp -s want - && fail "--overwrite does not replace"
# A link stays, and its target is replaced.
cp "$new/log.csv" want
mv "$new/log.csv" away.csv
ln -s "$PWD/away.csv" "$new/log.csv"
expect 0 "" $one --seed 2 --output-dir "$new" --overwrite
[ -L "$new/log.csv" ] || fail "--overwrite replaces a link"
without_time away.csv >log
without_time want | cmp -s log - || fail "--overwrite does not replace the target of a link: $(cat away.csv)"
rm "$new/log.csv"
mv away.csv "$new/log.csv"
expect 0 "" --resume "$new/last.ckpt" --epochs 2
[ "$(wc -l <"$new/log.csv")" = 3 ] || fail "a run does not go on in its folder"
# Another checkpoint in it, such as a copy, does not continue the run.
cp "$new/last.ckpt" "$new/copy.ckpt"
expect 2 "$new: there is a run already (last.ckpt)" --resume "$new/copy.ckpt" --epochs 3
ln -s last.ckpt "$new/link.ckpt"
expect 0 "" --resume "$new/link.ckpt" --epochs 3
rm "$new/last.ckpt" "$new/link.ckpt"
expect 0 "" --resume "$new/copy.ckpt" --epochs 3
[ "$(wc -l <"$new/log.csv")" = 4 ] && [ -s "$new/last.ckpt" ] || fail "a copy does not continue where the original is gone"
# One of another run does not replace the log, nor does one without an epoch.
rm "$new/last.ckpt"
cp whole/last.ckpt "$new/start.ckpt"
cp limit/last.ckpt "$new/none.ckpt"
cp "$new/log.csv" want
for other in start none; do
    expect 2 "$new/log.csv: these are not the epochs of the run in $new/$other.ckpt; replace them with --overwrite" --resume "$new/$other.ckpt"
done
cmp -s "$new/log.csv" want || fail "another run's checkpoint replaces the log"
touch "$new/auto.keep" "$new/auto.csv"
expect 0 "" --resume "$new/start.ckpt" --overwrite
cmp -s "$new/log.csv" whole/log.csv || fail "--overwrite does not replace the log: $(cat "$new/log.csv")"
[ ! -e "$new/auto.keep" ] && [ ! -e "$new/auto.csv" ] && [ -s "$new/start.ckpt" ] ||
    fail "--overwrite leaves files of another run, or removes the checkpoint: $(ls "$new")"
# A log that cannot be read, for the superuser too, may have rows. No event file is left of a refused run.
mkdir beside
cp whole/last.ckpt beside/copy.ckpt
touch plain
for log in "$folder/plain/log.csv" /proc/self/mem; do
    ln -s "$log" beside/log.csv
    expect 4 "cannot read beside/log.csv: " --resume beside/copy.ckpt --tensorboard refused.tb
    rm beside/log.csv
done
for file in auto.keep auto.csv; do
    echo 'blocks.0 ls1 dense' >beside/$file
    expect 2 "beside/$file: this is not of the run in beside/copy.ckpt; replace it with --overwrite" --resume beside/copy.ckpt
    rm beside/$file
done
[ ! -e refused.tb ] || fail "an event file of a refused run: $(ls refused.tb)"
mv beside/copy.ckpt beside/auto.csv
expect 0 "" --resume beside/auto.csv --overwrite
[ -s beside/auto.csv ] || fail "--overwrite removes the checkpoint of --resume"
# What was killed in its first epoch has left nothing to lose; what it left half written goes.
mkdir killed
head -n 1 whole/log.csv >killed/log.csv
touch killed/log.csv.0123abcd.tmp killed/last.ckpt.0123abcd.tmp killed/last.ckpt.mine.tmp
expect 0 "" $one --output-dir killed
[ "$(ls killed | tr '\n' ' ')" = "last.ckpt last.ckpt.mine.tmp log.csv " ] ||
    fail "temporary files of a killed run are left, or others gone: $(ls killed)"
expect 4 "/dev/null/x" $small --output-dir /dev/null/x
expect 2 "--data: " $one --data generated --classes 1 --output-dir unmade
[ ! -e unmade ] || fail "a run that is refused leaves a folder"
# Before the first step, not after the last one.
expect 4 "no/x.json" $small --steps 1 --summary-json no/x.json
[ ! -s out ] || fail "it trains before it finds that the summary cannot be written: $(cat out)"
expect 4 "no/x.st" $small --steps 1 --export no/x.st
[ ! -s out ] || fail "it trains before it finds that the weights cannot be written: $(cat out)"
mv runs other_runs
touch runs
expect 4 "cannot make the folder runs: .*; --output-dir chooses another place" $small --epochs 1
rm runs
mv other_runs runs
expect 4 "no/x.csv" $small --plan --plan-csv no/x.csv
[ ! -s out ] || fail "it plans before it finds that the timeline cannot be written"
if [ -c /dev/full ]; then
    expect 4 "/dev/full" $small --steps 1 --summary-json /dev/full
    for arguments in --help --version --list-devices "$small --steps 1"; do
        "$program" $arguments >/dev/full 2>err
        [ $? = 4 ] || fail "a full disk behind stdout is not noticed: $arguments"
        check_message 4 "standard output" "$arguments"
    done
fi
"$program" --help >&- 2>err
[ $? = 4 ] || fail "a closed stdout is not noticed"
check_message 4 "standard output" "--help"

# ---- the same seed, the same numbers -------------------------------------------------------------
expect 0 "" $pruned --epochs 3 --output-dir again
without_time whole/log.csv >want
without_time again/log.csv >have
cmp -s want have || fail "the same run gives other numbers"
expect 0 "" $pruned --epochs 3 --output-dir other --seed 2
without_time other/log.csv >have
cmp -s want have && fail "another seed gives the same numbers"
# Tests change no number but leave their columns empty where they are not made; the last one is.
expect 0 "" $pruned --epochs 3 --test-every 2 --output-dir untested --tensorboard untested.tb
awk -F, -v OFS=, 'NR == 2 { $5 = $6 = "" } 1' want >some
without_time untested/log.csv | cmp -s some - || fail "--test-every 2: $(cat untested/log.csv)"
[ "$(grep -a -o top1/test untested.tb/* | wc -l)" = 2 ] || fail "events for tests that were not made"
expect 0 "" $pruned --epochs 2 --test-every 0 --output-dir untested --overwrite
grep -q 'epoch 1/2  train loss [0-9.]*  [0-9.]* img/s' out || fail "--test-every 0 says: $(cat out)"
awk -F, '(NR == 2) != ($6 == "") { exit 1 }' untested/log.csv || fail "--test-every 0 tests more than once"
expect 0 "" --resume untested/last.ckpt --epochs 3
[ "$(awk -F, 'NR > 1 { printf $6 == "" ? 0 : 1 }' untested/log.csv)" = 011 ] || fail "a resumed run tests otherwise: $(cat untested/log.csv)"
# Without a better test the run ends as at its last epoch, and goes on with a higher --patience. Its best test is the first.
expect 0 "" $pruned --lr 0 --epochs 9 --best --patience 2 --output-dir patient --summary-json patient.json --export patient.st
[ "$(wc -l <patient/log.csv)" = 4 ] && [ -s patient.st ] || fail "--patience 2: $(cat patient/log.csv)"
steps=$(cut -d, -f2 patient/log.csv | sed -n 2p)
top1=$(cut -d, -f6 patient/log.csv | sed -n 2p | xargs printf %.2f)
grep -q "^--patience 2: the last 2 tests were no better than top-1 $top1 % after step $steps; a higher --patience goes on$" out &&
    grep -q "^best test: top-1 $top1 % after step $steps, in patient/best.ckpt$" out || fail "--patience 2 says: $(cat out)"
grep -q "\"best_step\": $steps,$" patient.json || fail "the summary's best test: $(grep best patient.json)"
cp patient/log.csv want.patient
expect 0 "" --resume patient/last.ckpt
cmp -s patient/log.csv want.patient || fail "a run that was over goes on: $(cat patient/log.csv)"
expect 0 "" --resume patient/last.ckpt --patience 4
[ "$(wc -l <patient/log.csv)" = 6 ] || fail "--patience 4 of a resumed run: $(cat patient/log.csv)"
expect 0 "" --resume patient/best.ckpt --test-only --export best.st
grep -q "top-1 $top1 %" out || fail "the test of best.ckpt: $(cat out)"
expect 2 "there is a run already" $pruned --output-dir patient
rm -r patient
# Within an epoch, too.
expect 0 "" $pruned --lr 0 --epochs 9 --test-steps 1 --patience 2 --output-dir patient
[ "$(cut -d, -f2 patient/log.csv | tr '\n' ' ')" = "step 1 2 3 " ] || fail "--test-steps 1 --patience 2: $(cat patient/log.csv)"
rm -r patient
expect 0 "" $sampled --epochs 3 --output-dir sampled --summary-json sampled.json
grep -q '"criterion": "largest"' whole.json || fail "the summary does not say that blocks are largest"
grep -q '"criterion": "sampled"' sampled.json || fail "the summary does not say that blocks are sampled"
grep -q ', sampled by l2 norm' out || fail "it does not say that blocks are sampled"
without_time sampled/log.csv >drawn
cmp -s want drawn && fail "sampled blocks give the same numbers as the largest ones"
expect 0 "" $sampled --epochs 3 --output-dir again_sampled
without_time again_sampled/log.csv >have
cmp -s drawn have || fail "the same sampled run gives other numbers"

# ---- activations that are recomputed -------------------------------------------------------------
expect 0 "" $small --epochs 2 --output-dir dense
for preset in exact exact-tokens exact-plus checkpoint; do
    expect 0 "" $small --activations $preset --sparsity 0.5 --epochs 2 --output-dir $preset
    grep -q "activations $preset;" out || fail "it does not say that activations are $preset"
    # Losses as dense's within rounding, less memory.
    paste -d, dense/log.csv $preset/log.csv | awk -F, '
        NR > 1 && ($4 - $15 > 2e-4 || $15 - $4 > 2e-4 || $21 >= $10) { bad = 1 }
        END { exit bad || NR != 3 }' || fail "$preset does not train as dense: $(cat $preset/log.csv)"
done
expect 2 "--activations" --activations small

# ---- activations that are pruned and codes -------------------------------------------------------
compact="$small --activations compact-pruned --sparsity 0.5 --values int8"
expect 2 "--gelu-code: '3' is not one of 2 4 8" --activations compact-pruned --gelu-code 3
expect 2 "--values: 'fp8' is not one of fp32 fp16 bf16 int8" --activations compact-pruned --values fp8
expect 2 "--values needs --activations paper, pruned or compact-pruned" --activations exact --values fp16
expect 2 "--indices: 'int8' is not one of int32 bitmap smallest" --activations paper --indices int8
expect 2 "--indices needs --activations paper, pruned or compact-pruned" --activations exact --indices bitmap
expect 2 "--gelu-code needs --activations compact-pruned" --activations paper --gelu-code 4
expect 0 "" $compact --epochs 3 --output-dir compact --summary-json compact.json --memory-report
grep -q "activations compact-pruned, .*values in int8, .*in 2 bits" out || fail "it does not say what compact keeps"
grep -q 'blocks\.\*\.mlp_channels\.act\.codes' out || fail "the memory report has no codes"
grep -q '"values": "int8"' compact.json || fail "the summary does not say what values are"
grep -q '"indices": "smallest"' compact.json || fail "compact's indices are not the smallest"
smallest=$(awk '/^pruned: indices/ { print $(NF - 1) }' out)
grep -q '"gelu_code": 2' compact.json || fail "the summary does not say how long codes are"
paste -d, dense/log.csv compact/log.csv | awk -F, '
    NR > 1 && NR < 4 && ($4 - $15 > 0.2 || $15 - $4 > 0.2 || $21 >= $10) { bad = 1 }
    END { exit bad || NR != 4 }' || fail "compact does not train: $(cat compact/log.csv)"

without_time compact/log.csv >coded
expect 0 "" $compact --indices int32 --epochs 3 --output-dir int32 --memory-report
int32=$(awk '/^pruned: indices/ { print $(NF - 1) }' out)
[ "$smallest" -gt 0 ] && [ "$int32" -gt "$smallest" ] || fail "bytes of indices: $smallest, int32 $int32"
results compact >coded_results
results int32 | cmp -s coded_results - || fail "other indices train otherwise"

# ---- activations that are codes, and made again from them ----------------------------------------
codes="$small --activations compact"
expect 0 "" $codes --epochs 2 --output-dir codes --summary-json codes.json --memory-report
grep -q 'activations compact, codes of 4 bits' out || fail "it does not say what compact keeps: $(cat out)"
grep -q 'blocks\.\*\.ls1  *[1-6]  *quantised 8 bits' out || fail "ls1 has not 8 bits: $(cat out)"
grep -q 'blocks\.\*\.mlp_channels\.fc1  *6  *quantised 4 bits' out || fail "fc1 has not 4 bits"
grep -q '"code_bits": 4' codes.json || fail "the summary does not say how long codes are"
expect 0 "" $codes --code-bits 2 --epochs 2 --output-dir codes2
expect 0 "" $codes --rotate yes --epochs 2 --output-dir rotated --summary-json codes.json
grep -q 'activations compact, codes of 4 bits in groups of 64, stochastic rounding, rotated' out || fail "it does not say rotated: $(cat out)"
grep -q '"rotate": "yes"' codes.json || fail "the summary does not say rotated"
cmp -s codes/log.csv rotated/log.csv && fail "--rotate yes changes nothing"
for name in codes codes2 rotated; do
    paste -d, dense/log.csv $name/log.csv | awk -F, '
        NR > 1 && ($4 - $15 > 0.1 || $15 - $4 > 0.1 || $21 >= $10) { bad = 1 }
        END { exit bad || NR != 3 }' || fail "$name does not train: $(cat $name/log.csv)"
done

# ---- what is learned -----------------------------------------------------------------------------
# The same images four times: the loss falls by a tenth, but not without a learning rate.
for arguments in dense exact exact-tokens "paper --sparsity 0.5" "pruned --sparsity 0.5" \
    "pruned --sparsity 0.5 --criterion random" "compact-pruned --sparsity 0.5 --values int8" compact \
    "compact --code-bits 2" "quantised --code-bits 8" "dense --store bf16" "pooled --pool 3" "dense --lr 1e-9"; do
    expect 0 "" $small --no-augment --warmup-epochs 0 --epochs 4 --output-dir learned --overwrite --activations $arguments
    fell=$(awk -F, 'NR == 2 { first = $4 } { last = $4 } END { print NR == 5 && last < 0.9 * first ? "yes" : "no" }' learned/log.csv)
    case $arguments,$fell in
    *1e-9,no | *[!9],yes) ;;
    *) fail "the loss of $arguments falls by a tenth: $fell: $(cat learned/log.csv)" ;;
    esac
done

# Each of these options changes what a run computes, and no two alike.
for option in "" --no-augment "--weight-decay 0.5" "--label-smoothing 0" "--clip-norm 0.01" "--norm l1" "--norm max" "--normalise imagenet" "--normalise half"; do
    expect 0 "" $pruned --optimizer sgd --lr 0.05 --epochs 1 --output-dir option --overwrite $option
    echo "$(results option | sed 1d) $option"
done >options
[ "$(grep -o '^1,3,[0-9.]*,[0-9.]*,[0-9.]*' options | sort -u | wc -l)" = 9 ] || fail "options that change nothing: $(cat options)"
grep -q '^data generated, 80 train and 40 test images, --normalise half; device ' out || fail "it does not say how it normalises: $(cat out)"

# ---- overrides for single blocks -----------------------------------------------------------------
cat >rules <<'RULES'
# what is special
blocks.* mlp_channels.act pruned sparsity=0.75 values=fp16
blocks.0 ls1   dense   # as it is
blocks.2 norm1 quantised bits=8
blocks.5 ls2   dense
RULES
rules="$compact --keep-file rules"
expect 0 "" $rules --epochs 2 --output-dir ruled --summary-json ruled.json --memory-report
grep -q 'blocks\.\*\.mlp_channels\.act  *6  *pruned fp16$' out || fail "no block keeps its gelu in fp16: $(cat out)"
grep -q 'blocks\.\*\.ls1  *1  *dense$' out || fail "not one block keeps its ls1 dense"
grep -q 'blocks\.\*\.ls1  *5  *pruned int8$' out || fail "not five blocks keep their ls1 pruned"
grep -q 'blocks\.\*\.norm1  *1  *quantised 8 bits$' out || fail "not one block has codes of 8 bits"
grep -q 'blocks\.\*\.ls2  *1  *dense$' out || fail "the last ls2 is not dense"
grep -q 'overridden by rules' out || fail "it does not say what overrides the preset"
grep -q '"keep_file": "# what is special' ruled.json || fail "the summary does not have the overrides"
without_time ruled/log.csv >ruled.log
# The checkpoint has a copy.
expect 0 "" $rules --epochs 2 --steps 3 --output-dir half
cp rules same
echo 'blocks.1 x dense' >other.keep
rm rules
expect 2 "--keep-file other.keep: the run in half/last.ckpt has other overrides" \
    --resume half/last.ckpt --keep-file other.keep
cp half/last.ckpt half.ckpt
expect 0 "" --resume half/last.ckpt
without_time half/log.csv >half.log
cmp -s ruled.log half.log || fail "with overrides a resumed run differs: $(cat ruled.log half.log)"
expect 0 "" --resume half.ckpt --keep-file same --output-dir half_again
sed 's/  *#.*//; s/^/\t/' same >spaced
expect 0 "" --plan --resume half.ckpt --keep-file spaced
sed 's/bits=8/bits=4/' same >other.keep
expect 2 "other.keep: the run in half.ckpt has other" --plan --resume half.ckpt --keep-file other.keep
expect 2 "--keep-file same: the run in compact/last.ckpt has other" --resume compact/last.ckpt --keep-file same
expect 4 "nothing: No such file" $compact --keep-file nothing
expect 2 "--keep-file with --memory-limit needs --activations" $small --memory-limit 1G --keep-file same
printf 'blocks.0 ls1 dense\nblocks.6 ls1 dense\n' >beyond
expect 4 "beyond:2: no tensor is at 'blocks.6'" $compact --keep-file beyond
expect 0 "" $small --plan --activations compact-pruned --keep-file same
# --help names the forms that a keep file can have.
"$program" --help | tr -s '\n ' ' ' | sed 's/.*forms and their settings: //; s/ --.*//; s/([^)]*)//g; s/,//g' >forms
for form in $(cat forms); do
    echo "blocks.* mlp_channels.fc2 $form $([ "$form" != pruned ] || echo sparsity=0.5)" >helped
    expect 0 "" $small --plan --keep-file helped
done
grep -q quantised forms || fail "--help has no forms: $(cat forms)"

# ---- fine-tuning ---------------------------------------------------------------------------------
# Frozen parameters keep their values, and take no optimizer memory; adapters merge into the weights.
expect 0 "" $small --epochs 1 --output-dir base --overwrite --export base.st
tuned="$small --epochs 2 --import base.st --lora 4:*.mlp_channels.* --lora-alpha 3 --train head.* --lr 0.01"
expect 0 "" $tuned --output-dir tuned --export tuned.st --adapters adapters --summary-json tuned.json
grep -q "parameters, [0-9]* of them trained" out || fail "it does not say what is trained: $(cat out)"
[ -s adapters/adapter_model.safetensors ] && grep -q '"peft_type": "LORA"' adapters/adapter_config.json ||
    fail "no adapters for PEFT: $(ls adapters)"
cmp -s base.st tuned.st && fail "fine-tuning changes nothing"
expect 0 "" $small --import tuned.st --test-only
merged=$(sed -n 's/^test loss \([0-9.]*\),.*/\1/p' out)
ended=$(sed -n 's/.*"test_loss": \([0-9.]*\),.*/\1/p' tuned.json | head -1)
awk -v a="$merged" -v b="$ended" 'BEGIN { exit !(a != "" && (a - b) ^ 2 < 1e-6) }' ||
    fail "merged weights have the test loss $merged, the run $ended"
for dropout in 0.1 0; do
    cp have dropped 2>/dev/null || true
    expect 0 "" $tuned --epochs 1 --lora-dropout $dropout --schedule step --output-dir one --overwrite
    expect 0 "" $tuned --lora-dropout $dropout --schedule step --output-dir two --overwrite
    expect 0 "" --resume one/last.ckpt --epochs 2
    without_time one/log.csv >have
    without_time two/log.csv | cmp -s - have || fail "a resumed fine-tuning gives other numbers: $(cat have)"
done
cmp -s dropped have && fail "dropout before adapters changes nothing"
# The same with frozen weights as codes, of which a checkpoint has the bits.
cp have floats
for bits in 4 nf4; do
    expect 0 "" $tuned --epochs 1 --base-bits $bits --schedule step --output-dir one --overwrite
    expect 0 "" $tuned --base-bits $bits --schedule step --output-dir two --overwrite
    expect 0 "" --resume one/last.ckpt --epochs 2
    without_time one/log.csv >frozen4
    without_time two/log.csv | cmp -s - frozen4 || fail "a resumed fine-tuning of codes gives other numbers: $(cat frozen4)"
    cmp -s floats frozen4 && fail "codes of 4 bits give the numbers of floats"
    cp frozen4 floats # nor those of the codes before
    expect 0 "" $small --import base.st --lora 4 --base-bits $bits --test-only --export frozen4.st
    grep "^test loss" out >have
    expect 0 "" $small --import frozen4.st --test-only
    grep "^test loss" out | cmp -s - have || fail "codes have another loss than their values: $(cat have out)"
done
expect 2 "--base-bits needs --lora or --train" $small --steps 1 --base-bits 4
expect 2 "--train: no parameter of the net being built matches nothing" $small --steps 1 --train head.*,nothing
for patterns in head.*, ,head.* head.*,,norm.*; do
    expect 2 "--train has an empty pattern" $small --steps 1 --train $patterns
done
expect 2 "--lora: no linear layer matches nothing" $small --steps 1 --lora 4:nothing
expect 2 "--lora is not R\[:PATTERN\]" $small --steps 1 --lora 0
expect 2 "--lora-alpha needs --lora" $small --steps 1 --lora-alpha 8
expect 2 "unknown or ambiguous option '--dropout'" $small --steps 1 --dropout 0.1
expect 2 "--rslora needs --lora-alpha" $small --steps 1 --lora 4 --rslora
expect 2 "--lora-dropout needs --lora" $small --steps 1 --lora-dropout 0.1
expect 2 "--adapters needs --lora" $small --steps 1 --adapters x

# ---- planned memory ------------------------------------------------------------------------------
for arguments in "" "--activations paper --sparsity 0.7" "--activations exact" \
    "--activations exact-tokens --optimizer adamw8" "--activations quantised" "--activations pooled" "--activations compact" "--activations pruned --sparsity 0.5 --micro-batches 3" \
    "--store bf16" "--activations exact --store bf16" \
    "--activations exact-plus --train *.mlp_channels.*" "--activations compact-plus --lora 4" "--activations compact --lora 4 --lora-dropout 0.1" "--activations least --lora 4 --lora-dropout 0.1" \
    "--activations least --lora 4 --base-bits 4" "--lora 4 --base-bits nf4" \
    "--optimizer lamb --clip-norm 1 --activations compact-pruned --sparsity 0.7 --values int8"; do
    expect 0 "" $small --plan $arguments
    cp out plan
    grep -q "^backward head " plan || fail "a plan without its parts: $arguments"
    expect 0 "" $small --epochs 1 --output-dir planned --overwrite --memory-report $arguments
    [ "$(bytes '  arena' 1 plan)" = "$(bytes arena 1 out)" ] ||
        fail "the arena is not as planned: $arguments: $(cat plan out)"
    [ "$(bytes 'saved activations' 1 plan)" = "$(bytes 'activations   ' 1 out)" ] ||
        fail "saved activations are not as planned: $arguments"
    # CLBlast's temporary is the one thing that no plan knows of.
    grep -q 'gemm temporary' out || [ "$(bytes 'peak of everything' 1 plan)" = "$(bytes total 1 out)" ] ||
        fail "the peak is not as planned: $arguments: $(cat plan out)"
    # What is forgotten may be anything: the promises hold.
    results planned >planned.log
    CLPRUNE_DEBUG=forget=poison expect 0 "" $small --epochs 1 --output-dir poisoned --overwrite $arguments
    results poisoned >poisoned.log
    cmp -s planned.log poisoned.log ||
        fail "what was forgotten is missed: $arguments: $(cat planned.log poisoned.log)"
done
cp plan with
OCL_ICD_VENDORS=$folder/nothing OCL_ICD_FILENAMES='' expect 0 "" $small --plan
grep -q 'no OpenCL device was found' out || fail "a plan does not say that there is no device"
grep -q '^peak of everything' out || fail "no plan without a device"
[ "$(ls runs | wc -l)" = 2 ] || fail "a plan leaves files"
expect 0 "" $small --plan --plan-csv plan.csv --activations exact
awk -F, 'NR == 1 { columns = NF; next } NF != columns { exit 1 }
    { sum = 0; for (i = 3; i <= NF; i++) sum += $i; if (sum > most) most = sum }
    END { print most }' plan.csv >have
[ "$(cat have)" = "$(bytes '  live at once' 1 out)" ] ||
    fail "the timeline's peak is $(cat have), not as in $(cat out)"
expect 2 "--plan-csv needs --plan" --plan-csv plan.csv
# For a card: no device is opened; kernels, the longest first, add up.
OCL_ICD_VENDORS=$folder/nothing OCL_ICD_FILENAMES='' expect 0 "" $small --plan --plan-device h100 --precision bf16
grep -q 'for NVIDIA H100 SXM' out && awk '/^predicted for an H100 SXM: 3.35 TB\/s/ { inside = 1; next }
    !inside || /^kernels of a training step/ { next }
    $1 == "together" { last = $7; launches = $2; next }
    { if (rows++ && $7 > before) exit 1; before = $7; sum += $7; count += $2; tiled += $1 == "gemm_tiled" }
    END { exit !(rows > 5 && count == launches && tiled == 1 && sum > .9 * last && sum < 1.1 * last) }' out ||
    fail "the times of a plan: $(cat out)"
expect 2 "--plan-device needs --plan" --plan-device h100
for option in "--export x" "--gradient-check 1" --memory-report "--summary-json x" "--tensorboard x"; do
    expect 2 "${option% *} does not go with --plan" $small --plan $option
done
expect 0 "" $small --plan --activations exact
exact=$(bytes 'peak of everything' 1 out)
expect 0 "" $small --plan --activations compact
bits4=$(bytes 'peak of everything' 1 out)
expect 0 "" $small --plan --activations compact --code-bits 8
bits8=$(bytes 'peak of everything' 1 out)
expect 0 "" $small --plan --memory-limit "$exact"
grep -q "activations exact, batch 32: $exact bytes" out || fail "exact does not fit itself: $(cat out)"
expect 0 "" $small --plan --memory-limit $((exact - 1))
grep -q "activations exact-tokens, " out || fail "no milder preset was chosen: $(cat out)"
for bits in 8 4; do
    bytes=$((bits == 4 ? bits4 : bits8))
    expect 0 "" $small --plan --memory-limit $bytes
    grep -q "activations compact, codes of $bits bits, batch 32: $bytes bytes" out ||
        fail "codes of $bits bits do not fit themselves: $(cat out)"
done
expect 0 "" $small --plan --code-bits 2 --memory-limit "$bits4"
grep -q "activations compact, codes of 2 bits, " out || fail "not the bits that were given: $(cat out)"
expect 5 "take $bits4 bytes; without --batch-size one that fits is looked for" \
    $small --plan --memory-limit $((bits4 - 1))
# With more blocks, inputs of blocks alone take less.
expect 0 "" --arch resmlp_s12 --image-size 64 --batch-size 32 --train-limit 32 --test-limit 32 --plan --activations least
least=$(bytes 'peak of everything' 1 out)
expect 0 "" --arch resmlp_s12 --image-size 64 --batch-size 32 --train-limit 32 --test-limit 32 --plan --memory-limit "$least"
grep -q "activations least, codes of 4 bits, batch 32: $least bytes" out || fail "least does not fit itself: $(cat out)"
# With frozen weights, as many bits of theirs as fit, before any preset; the largest batch with the fewest.
limited="--arch resmlp_s12 --image-size 64 --train-limit 32 --test-limit 32 --lora 4 --plan"
for bits in 32 16 8 4 nf4; do
    expect 0 "" $limited --batch-size 8 --base-bits $bits --activations least
    base=$(bytes 'peak of everything' 1 out)
    expect 0 "" $limited --batch-size 8 --memory-limit "$base"
    grep -q "base bits $bits, batch 8: $base bytes" out || fail "$bits bits do not fit themselves: $(cat out)"
done
expect 0 "" $limited --memory-limit "$base"
grep -q "base bits nf4, batch [0-9]*: " out || fail "the largest batch has more bits: $(cat out)"
expect 5 "base bits nf4, batch 8 take $base bytes; without --batch-size one" $limited --batch-size 8 --memory-limit $((base - 1))
expect 5 "base bits 8, .*; without --base-bits or --activations or --batch-size one" \
    $limited --activations dense --batch-size 8 --base-bits 8 --memory-limit 100000
expect 2 "--values needs --activations paper, pruned or compact-pruned" \
    $small --plan --values int8 --memory-limit "$bits4"
expect 5 "activations exact, batch 32 take $exact bytes; without --activations or --batch-size one" \
    $small --activations exact --memory-limit 10000
expect 5 "; without --resume one that fits" --plan --resume codes/last.ckpt --memory-limit 10000
expect 2 "--memory-limit: '1T' is not a whole number from 1 to 9007199254740991, of bytes or with one letter, K, M or G" --memory-limit 1T
open="--image-size 16 --patch-size 8 --train-limit 80 --test-limit 40"
# Of one image of this small model, dense takes less than the last preset.
expect 0 "" $open --plan --activations dense --batch-size 1
one_image=$(bytes 'peak of everything' 1 out)
expect 0 "" $open --plan --memory-limit "$one_image"
grep -q "activations dense, batch 1: $one_image bytes" out || fail "no earlier preset was chosen: $(cat out)"
expect 5 "activations dense, batch 1 take $one_image bytes, the least there is" $open --plan --memory-limit $((one_image - 1))
expect 0 "" $open --plan --activations dense --batch-size 3
expect 0 "" $open --plan --memory-limit $(($(bytes 'peak of everything' 1 out) + 40000))
grep -q "activations [a-z]*.*, batch [3-9]: " out || fail "a smaller batch than dense's: $(cat out)"
expect 5 "activations dense, batch 1 take $one_image bytes, the least there is" $open --plan --code-bits 4 --memory-limit 10000
expect 5 "batch 4 take [0-9]* bytes, the least there is" $open --plan --micro-batches 4 --memory-limit 10000
for needs in "pruned --sparsity 0.9" "compact-pruned --sparsity 0.9 --values int8"; do
    expect 5 "batch 1 take [0-9]* bytes, the least with these options" $open --plan --activations $needs --memory-limit 10000
done
expect 5 "batch 1 take [0-9]* bytes; without --activations or --code-bits one" \
    $open --plan --activations compact --code-bits 8 --memory-limit 10000
expect 5 "codes of 2 bits, batch 1 take [0-9]* bytes, the least there is" \
    $open --plan --activations least --code-bits 2 --batch-size 1 --memory-limit 10000
expect 5 "batch 1 take [0-9]* bytes; without --activations one" $open --plan --activations compact --batch-size 1 --memory-limit 10000
echo "blocks.0 ls1 dense" >x2.keep
for needs in "--activations exact --keep-file x2.keep" "--activations pruned --block 4x4"; do
    expect 5 "batch 32 take [0-9]* bytes; without --batch-size one" $small --plan $needs --memory-limit 10000
done
expect 0 "" $open --plan --activations exact --memory-limit "$exact"
grep -q "activations exact, batch 3[2-9]: " out || fail "not the largest batch: $(cat out)"
expect 0 "" $open --plan --activations exact --memory-limit 1G
grep -q "activations exact, batch 80: " out || fail "not all images: $(cat out)"
expect 0 "" $small --epochs 1 --output-dir limited --memory-limit "$exact" --summary-json limited.json
grep -q '"activations": "exact"' limited.json || fail "the run does not take what was chosen"

# A scale and a zero for more columns take fewer bytes.
expect 0 "" $small --plan --activations quantised --group 64
of_64=$(bytes 'saved activations' 1 out)
expect 0 "" $small --plan --activations quantised --group 192
[ "$(bytes 'saved activations' 1 out)" -lt "$of_64" ] || fail "--group is not taken"

# ---- gradients beside dense's --------------------------------------------------------------------
# figures NAME FILE: a line for each tensor of a summary's gradient check: tensor, figure.
figures() {
    awk -v name="\"$1\":" '/"gradient_check"/ { inside = 1 }
        inside && /: \{/ { tensor = $1; gsub(/[":]/, "", tensor) }
        inside && $1 == name { gsub(/,/, "", $2); print tensor, $2 }' "$2"
}
check="--steps 2 --gradient-check 2 --quiet --summary-json check.json"
tensors=78
expect 0 "" $small $check
[ "$(figures relative_error check.json | grep -c ' 0$')" = $tensors ] ||
    fail "dense is not dense: $(figures relative_error check.json)"
[ "$(wc -l <out)" = $((tensors + 2)) ] || fail "no table of gradients: $(cat out)"
grep -q '"gradient-check": "2"' check.json || fail "the summary does not say --gradient-check"
expect 0 "" $small $check --activations exact
figures relative_error check.json | awk '!($2 < 2e-5) { exit 1 } $2 > 0 { off++ }
    END { exit !(NR == 78 && off > 60) }' ||
    fail "exact is not exact, or all too exact: $(figures relative_error check.json)"
expect 0 "" $pruned $check
figures relative_error check.json | awk '
    $1 ~ /blocks.*(linear_tokens|fc1|fc2).weight/ { if (!($2 > 0.05 && $2 < 1)) exit 1; off++; next }
    $2 != 0 { exit 1 }
    END { if (off != 18) exit 1 }' ||
    fail "pruning costs other gradients: $(figures relative_error check.json)"
figures cosine check.json | awk '$1 ~ /fc1.weight/ && !($2 > 0.3 && $2 < 0.999) { exit 1 }' ||
    fail "strange cosines: $(figures cosine check.json)"
# Without any block the weight gradients are zero: as far off as the exact ones are long.
expect 0 "" $small $check --activations paper --sparsity 1
[ "$(figures relative_error check.json | grep -c 'blocks.*weight 1$')" = 18 ] ||
    fail "the error of nothing is not 1: $(figures relative_error check.json)"
[ "$(figures cosine check.json | grep -c 'blocks.*weight null$')" = 18 ] ||
    fail "nothing has a cosine: $(figures cosine check.json)"

# Bias and noise of several draws.
linear='blocks.*(linear_tokens|fc1|fc2).weight'
# columns FORM: tensor, bias, noise, relative error of the weights of linear layers in FORM.json.
columns() {
    for name in bias noise relative_error; do
        figures $name "$1.json" | sort >$name.figures
    done
    join bias.figures noise.figures | join - relative_error.figures | grep -E "$linear" >columns
    [ "$(wc -l <columns)" = 18 ] || fail "not 18 weights with bias and noise: $(cat columns)"
}
drawn="--steps 2 --gradient-check 1 --gradient-draws 16 --quiet --summary-json drawn.json"
expect 0 "" $small $drawn
[ "$(figures bias drawn.json | grep -c ' 0$')" = $tensors ] || fail "dense is biased"
[ "$(figures noise drawn.json | grep -c ' 0$')" = $tensors ] || fail "dense is noisy"
[ "$(figures projection drawn.json | grep -c ' 1$')" = $tensors ] || fail "dense's projection is not 1"
# projected LOW HIGH: the projections of the weights of fc1 and fc2 lie between.
projected() {
    figures projection drawn.json | awk -v low="$1" -v high="$2" '$1 ~ /fc[12].weight/ { if (!($2 > low && $2 < high)) exit 1; found++ }
        END { if (found != 12) exit 1 }' || fail "projections not from $1 to $2: $(figures projection drawn.json)"
}
[ "$(wc -l <out)" = $((tensors + 2)) ] || fail "no table of draws: $(cat out)"
grep -q 'cosine  *projection .*bias  *noise .*of 16 draws' out || fail "the table does not say projection, bias, noise and draws"
expect 0 "" $pruned $drawn
columns drawn
awk '!($2 > 0.05 && $3 == 0 && $2 == $4) { exit 1 }' columns ||
    fail "the largest blocks are not biased without noise: $(cat columns)"
projected 0.5 0.8
# Over all tensors the bias is far below the noise that 16 draws leave, noise / 4. (The square of a
# tensor's bias is an estimate that may be negative; here their sum: the errors' less the noises'.)
unbiased() {
    columns drawn
    awk -v most="$1" '!($3 > 0 && $3 < most && $2 < 0.75 * $3) { exit 1 }
        { bias += $4 ^ 2 - $3 ^ 2; noise += $3 ^ 2 }
        END { exit !(bias < 0.15 ^ 2 * noise && -bias < 0.15 ^ 2 * noise) }' columns ||
        fail "not unbiased: $2: $(cat columns)"
    projected 0.95 1.05
}
for criterion in sampled random; do
    expect 0 "" $sampled --criterion $criterion $drawn
    unbiased 2 $criterion
done
expect 0 "" $small --activations quantised --code-bits 2 $drawn
unbiased 1 "2 bits"
expect 0 "" $small --activations quantised $drawn
unbiased 0.3 "4 bits"
expect 0 "" $small --activations quantised --rounding nearest $drawn
columns drawn
awk '!($2 > 0 && $2 < 0.3 && $3 == 0) { exit 1 }' columns ||
    fail "rounding to nearest is not biased without noise: $(cat columns)"

# ---- resuming ------------------------------------------------------------------------------------
# Checkpoints of equal runs differ in their times only: seconds, also of processors, three columns of
# three rows, and the checksum.
same_checkpoint() {
    [ "$(wc -c <"$1")" = "$(wc -c <"$2")" ] && [ "$(cmp -l "$1" "$2" | wc -l)" -le 96 ]
}
same_checkpoint whole/last.ckpt again/last.ckpt || fail "the same run gives another checkpoint"
same_checkpoint whole/last.ckpt other/last.ckpt && fail "the comparison of checkpoints is blind"

same_checkpoint sampled/last.ckpt again_sampled/last.ckpt ||
    fail "the same sampled run gives another checkpoint"

# resumed STEPS FOLDER LOG options...: a run that stops after STEPS and goes on is that in FOLDER.
resumed() {
    steps=$1 folder_of=$2 log=$3
    shift 3
    rm -rf part
    expect 0 "" "$@" --epochs 3 --output-dir part --steps "$steps" --summary-json first.json
    logged=$(tail -n 1 part/log.csv | cut -d, -f9) # the summary also has what the last checkpoint took
    expect 0 "" --resume part/last.ckpt --summary-json second.json
    awk -F'[:,]' -v logged="$logged" '
        /"cpu_seconds"/ { if (NR != FNR && $2 + 0 <= cpu) exit 1; cpu = $2 + 0 }
        NR != FNR && /"seconds"/ && $2 + 0 <= logged + 0 { exit 1 }' first.json second.json ||
        fail "a resumed run counts seconds anew: $(grep -h seconds first.json second.json), $logged in its log"
    without_time part/log.csv >have
    cmp -s "$log" have || fail "resuming after $steps steps gives another log: $*"
    same_checkpoint "$folder_of/last.ckpt" part/last.ckpt ||
        fail "resuming after $steps steps gives another model: $*"
}
for steps in 1 3 5; do # within an epoch, at its end, within another
    resumed $steps whole want $pruned
done
resumed 1 sampled drawn $sampled
resumed 5 compact coded $compact
expect 0 "" $compact --epochs 3 --output-dir part --overwrite --steps 3
expect 0 "" --resume part/last.ckpt --indices int32 --memory-report
again=$(awk '/^pruned: indices/ { print $(NF - 1) }' out)
[ "$again" -eq "$int32" ] || fail "--indices is not taken when resuming: $again bytes"
results part | cmp -s coded_results - || fail "resuming with other indices gives another log"

# Quantised, pooled, and random blocks: what is said, that it trains, and that resuming gives the
# same bits.
quantised="$small --activations quantised --code-bits 8"
pooled="$small --activations pooled --pool 3"
halved="$small --activations dense --store bf16"
random="$sampled --criterion random"
for form in quantised halved pooled random; do
    eval "arguments=\$$form"
    expect 0 "" $arguments --epochs 3 --output-dir $form --summary-json $form.json --memory-report
    cp out $form.out
    without_time $form/log.csv >$form.log
    paste -d, dense/log.csv $form/log.csv | awk -F, '
        NR > 1 && NR < 4 && ($4 - $15 > 0.2 || $15 - $4 > 0.2 || $21 >= $10) { bad = 1 }
        END { exit bad || NR != 4 }' || fail "$form does not train, or takes dense's memory: $(cat $form/log.csv)"
    resumed 4 $form $form.log $arguments
done
grep -q 'activations quantised, codes of 8 bits in groups of 64, stochastic rounding;' quantised.out ||
    fail "it does not say what quantised keeps"
grep -q 'blocks\.\*\.mlp_channels\.act  *6  *quantised 8 bits$' quantised.out || fail "no block quantises its gelu"
for line in '"code_bits": 8' '"group": 64' '"rounding": "stochastic"'; do
    grep -q "$line" quantised.json || fail "the summary of quantised has no $line"
done
grep -q 'activations dense, dense ones in bf16;' halved.out || fail "it does not say what is kept in bf16"
grep -q 'blocks\.\*\.norm1  *6  *bf16$' halved.out || fail "no block keeps its norm1 in bf16"
grep -q '"store": "bf16"' halved.json || fail "the summary of bf16 does not say so"
expect 0 "" $halved --steps 1 --gradient-check 1
awk '/^gradient beside/ { on = 1; next } on && $NF > most { most = $NF } END { exit !(most > 1e-4 && most < 0.05) }' out ||
    fail "the errors of gradients from bf16: $(cat out)"
expect 2 "--store fp32: the run in halved/last.ckpt has bf16" --resume halved/last.ckpt --store fp32
expect 2 "--store is chosen by --activations auto" $small --activations auto --memory-limit 100M --store bf16
grep -q 'activations pooled, cells of 3 x 3;' pooled.out || fail "it does not say what pooled keeps"
grep -q 'blocks\.\*\.norm1  *6  *pooled 3x3$' pooled.out || fail "no block pools its norm1"
grep -q '"pool": 3' pooled.json || fail "the summary of pooled has no cells"
grep -q 'blocks 1x16, random;' random.out || fail "it does not say that blocks are random"
grep -q '"criterion": "random"' random.json || fail "the summary does not say that blocks are random"
expect 2 "--group 128: the run in quantised/last.ckpt has 64" --resume quantised/last.ckpt --group 128
expect 2 "--pool 2: the run in pooled/last.ckpt has 3" --resume pooled/last.ckpt --pool 2
expect 2 "--criterion sampled: the run in random/last.ckpt has random" \
    --resume random/last.ckpt --criterion sampled
# Moments of 8 bits: the same bits when resuming, a smaller checkpoint, and no way to or from fp32.
eight="$small --activations dense --optimizer adamw8"
expect 0 "" $eight --epochs 3 --output-dir eight --summary-json eight.json
without_time eight/log.csv >eight.log
resumed 4 eight eight.log $eight
grep -q '"optimizer": "adamw8"' eight.json || fail "the summary does not say adamw8"
expect 0 "" $small --activations dense --epochs 3 --output-dir full
paste -d, full/log.csv eight/log.csv | awk -F, 'NR > 1 && ($4 == $15 || $4 - $15 > 0.1 || $15 - $4 > 0.1) { bad = 1 }
    END { exit bad || NR != 4 }' || fail "adamw8 trains otherwise than adamw, or the same: $(cat eight/log.csv full/log.csv)"
[ $((10 * $(wc -c <eight/last.ckpt))) -lt $((6 * $(wc -c <full/last.ckpt))) ] || fail "the checkpoint of adamw8 has 60 % of that of adamw or more"
# Updates in the backward pass: the same bits, without a buffer of all gradients.
expect 0 "" $eight --early-update --epochs 3 --output-dir parts --memory-report
results eight >eight.results
results parts | cmp -s eight.results - || fail "--early-update changes the results: $(cat parts/log.csv)"
[ "$(bytes gradients 1 out)" = 0 ] || fail "--early-update has gradients: $(cat out)"
without_time parts/log.csv >parts.log
resumed 4 parts parts.log $eight --early-update
expect 2 "--early-update does not go with --clip-norm" $small --early-update --clip-norm 1 --steps 1
expect 2 "--early-update does not go with --micro-batches" $small --early-update --micro-batches 2 --steps 1
expect 2 "--early-update does not go with --optimizer lamb" $small --early-update --optimizer lamb --steps 1
expect 2 "--gradient-check does not go with --early-update" $small --early-update --gradient-check 1
# A step in several passes: the same gradients but for rounding, in the activations of one of them. The last step of an
# epoch has 16 images: one of 20 passes has none.
exact="$small --activations dense --optimizer sgd --lr 0.05 --epochs 2"
for passes in 1 3 20; do
    expect 0 "" $exact --micro-batches $passes --output-dir passes$passes --memory-report
    saved=$(bytes 'activations   ' 1 out) gradients=$(bytes gradients 1 out)
    [ $passes -gt 1 ] || one_saved=$saved one_gradients=$gradients
    paste -d, passes1/log.csv passes$passes/log.csv | awk -F, 'NR > 1 && ($4 - $15 > 1e-5 || $15 - $4 > 1e-5) { exit 1 }' ||
        fail "$passes passes train otherwise than 1: $(cat passes1/log.csv passes$passes/log.csv)"
    [ $((one_saved * ((32 + passes - 1) / passes))) -ge $((saved * 31)) ] ||
        fail "$passes passes keep $saved bytes, 1 keeps $one_saved"
    case $passes in 1) levels=1 ;; 3) levels=3 ;; 20) levels=6 ;; esac
    [ "$gradients" = $((levels * one_gradients)) ] || fail "$passes passes have $gradients bytes of gradients"
done
passes="$sampled --micro-batches 3"
expect 0 "" $passes --epochs 3 --output-dir passes
without_time passes/log.csv >passes.log
resumed 4 passes passes.log $passes
expect 0 "" --resume part/last.ckpt --epochs 4 --micro-batches 2
grep -q 'batch 32 in 2 micro-batches,' out || fail "a resumed run does not take --micro-batches: $(cat out)"
expect 2 "--micro-batches: more than the 32 samples of a batch" $small --micro-batches 33 --steps 1
expect 0 "" --image-size 16 --patch-size 8 --train-limit 10 --test-limit 4 --activations dense --memory-limit 1G \
    --micro-batches 16 --epochs 1 --output-dir fewer_samples
expect 0 "" --resume fewer_samples/last.ckpt --epochs 2
expect 2 "--micro-batches: more than the 32 samples of a batch" --resume part/last.ckpt --micro-batches 33
expect 2 "--optimizer adamw: the run in eight/last.ckpt has adamw8" --resume eight/last.ckpt --optimizer adamw
expect 2 "--optimizer adamw8: the run in full/last.ckpt has adamw" --resume full/last.ckpt --optimizer adamw8
expect 2 "--optimizer sgd8: the run in eight/last.ckpt has adamw8" --resume eight/last.ckpt --optimizer sgd8
printf 'blocks.* norm1 quantised bits=2\nblocks.1 mlp_channels.act pooled cell=2\n' >mixed
expect 0 "" $small --keep-file mixed --code-bits 8 --steps 1 --memory-report
grep -q 'blocks\.\*\.norm1  *6  *quantised 2 bits$' out || fail "the keep file does not quantise"
grep -q 'blocks\.\*\.mlp_channels\.act  *1  *pooled 2x2$' out || fail "the keep file does not pool"

expect 0 "" $pruned --epochs 1 --output-dir part --overwrite --import whole.st
cp part/last.ckpt one.ckpt
expect 0 "" --resume one.ckpt --epochs 2 --output-dir elsewhere --summary-json elsewhere.json
grep -q '"import": "whole.st"' elsewhere.json || fail "the summary of a resumed run does not say what it began with"
[ "$(wc -l <elsewhere/log.csv)" = 3 ] || fail "a longer run does not go on"
expect 0 "" --resume whole/last.ckpt --epochs 3
grep -q '^all 3 epochs are done; a higher --epochs goes on$' out || fail "a finished run: $(cat out)"
without_time whole/log.csv >have
cmp -s want have || fail "resuming a finished run changes its log"
for arguments in "" --test-only; do
    expect 0 "" --resume whole/last.ckpt --steps 3 $arguments
    grep -q '^test loss' out && ! grep -q nan out || fail "no step of a finished run $arguments: $(cat out)"
done
# With other kernels a resumed run says that its bits may be others; with other compute units of the
# vector kernels they are not. (A finished run builds none.)
if "$program" --list-devices | grep -q 'Portable Computing Language'; then
    CLPRUNE_DEBUG=kernels=vector POCL_MAX_PTHREAD_COUNT=1 expect 0 "" $pruned --epochs 1 --output-dir units
    CLPRUNE_DEBUG=kernels=vector POCL_MAX_PTHREAD_COUNT=2 expect 0 "" --resume units/last.ckpt
    CLPRUNE_DEBUG=kernels=tiled "$program" --resume units/last.ckpt >out 2>err || fail "a run does not go on with other kernels: $(cat err)"
    [ "$(wc -l <err)" = 1 ] && grep -q '^resmlp-train: note: the run in units/last.ckpt had vector kernels on .*; it goes on with tiled kernels on .*, compute units: [1-9]' err ||
        fail "no note where the bits may be others: $(cat err)"
fi
# It is not advised to take options that it cannot.
CLPRUNE_MEM_LIMIT=3M expect 5 "memory" --resume one.ckpt
! grep -q 'takes less' err || fail "what a resumed run cannot take is advised: $(cat err)"
# The first step of each size builds kernels: no report has its time.
expect 0 "" $small --steps 1 --output-dir first --summary-json first.json
grep -q '^step 1: train loss [0-9.]*$' out && grep -q '"step_ms": null' first.json && grep -q '"images_per_second": null' first.json ||
    fail "the time of a first step: $(cat out first.json)"
expect 0 "" $small --train-limit 40 --epochs 1 --output-dir first --overwrite # of 32 and 8
tail -n 1 first/log.csv | cut -d, -f7,8 | grep -qx , && ! grep -q 'img/s\|nan' out || fail "the times of first steps: $(cat out first/log.csv)"
expect 0 "" $small --steps 2
grep -q '^step 2: train loss [0-9.]*, [0-9.]* img/s, [0-9.]* ms/step$' out || fail "no time of a second step: $(cat out)"
# --epochs and options of the optimizer may change: a line says from what to what, also of the learning rate.
changed() { # changed LINE ARGUMENTS...: the line, or none
    want=$1
    shift
    expect 0 "" --resume changes/last.ckpt --steps 1 "$@"
    [ "$(grep '^the run had' out)" = "${want:+the run had $want}" ] || fail "no line '$want' about $*: $(cat out)"
}
expect 0 "" $small --epochs 2 --steps 4 --output-dir changes # of 6
rate="; the learning rate of the next step is"
changed "" --epochs 2 --lr 2e-3 --clip-norm 0 --schedule cosine
changed "--epochs 2 and goes on with --epochs 5$rate 0.00196593, not 0.0015" --epochs 5
changed "--lr 0.002 and goes on with --lr 0.01$rate 0.0075, not 0.0015" --lr 0.01
changed "--epochs 2 --lr 0.002 and goes on with --epochs 3 --lr 0.001$rate 0.000933013, not 0.0015" --lr 0.001 --epochs 3
changed "--weight-decay 0.05 and goes on with --weight-decay 0" --weight-decay 0
changed "--warmup-epochs 1 and goes on with --warmup-epochs 0$rate 0.0005, not 0.0015" --warmup-epochs 0
changed "--schedule cosine and goes on with --schedule step$rate 0.0002, not 0.0015" --schedule step
changed "--schedule cosine --milestones 0.5,0.75 and goes on with --schedule step --milestones 0.9$rate 0.002, not 0.0015" \
    --schedule step --milestones 0.9
changed "--label-smoothing 0.1 and goes on with --label-smoothing 0" --label-smoothing 0
changed "--clip-norm 0 and goes on with --clip-norm 1" --clip-norm 1
changed "" --lr 0.1 --test-only
expect 0 "" $small --schedule step --warmup-epochs 0 --milestones 0.4 --epochs 2 --steps 1 --output-dir changes --overwrite
changed "--epochs 2 and goes on with --epochs 3" --epochs 3 --milestones 0.40
expect 2 "--milestones needs --schedule step, which the run in one.ckpt lacks" --resume one.ckpt --milestones 0.5
# What a changed run saves it goes on with.
expect 0 "" --resume one.ckpt --lr 0.5 --epochs 2 --steps 1 --output-dir rate
expect 0 "" --resume rate/last.ckpt
grep -q 'lr 0.5,' out && ! grep -q '^the run had' out || fail "another --lr is not kept: $(cat out)"
expect 2 "cifar" --resume one.ckpt --data cifar
mkdir idx
for part in train:120:80 t10k:50:40; do # name, number of images in octal and in decimal
    name=idx/${part%%:*} count=${part##*:} octal=${part%:*}
    { printf "\\0\\0\\10\\3\\0\\0\\0\\${octal#*:}\\0\\0\\0\\20\\0\\0\\0\\20" && head -c $((256 * count)) /dev/zero; } >"$name-images-idx3-ubyte"
    { printf "\\0\\0\\10\\1\\0\\0\\0\\${octal#*:}" && yes 0123456789 | tr -d '\n' | tr 0123456789 '\0\1\2\3\4\5\6\7\10\11' | head -c "$count"; } >"$name-labels-idx1-ubyte"
done
expect 0 "" --resume one.ckpt --data idx --epochs 2 --output-dir staged
grep -q '^data changed: epoch 2 begins with 80 images in place of 80$' out || fail "a stage is not told: $(cat out)"
expect 0 "" --resume one.ckpt --test-only --export stage.st
expect 0 "" --import stage.st --patch-size 8 --data idx --steps 1
expect 2 "--sparsity 0.7" --resume one.ckpt --sparsity 0.7
expect 2 "--criterion sampled" --resume one.ckpt --criterion sampled

# Preset and criterion: each has its own default; what is given wins.
expect 0 "" $sampled --criterion largest --epochs 3 --output-dir largest --summary-json largest.json
grep -q '"criterion": "largest"' largest.json || fail "--criterion does not win over the preset"
without_time largest/log.csv | cmp -s want - || fail "pruned by the largest is not paper"
expect 0 "" $pruned --criterion sampled --epochs 3 --output-dir largest --overwrite
without_time largest/log.csv | cmp -s drawn - || fail "paper with sampled blocks is not pruned"
# Such a run goes on under its name, with the same options.
expect 0 "" $pruned --criterion sampled --epochs 3 --resume largest/last.ckpt --summary-json resumed.json
grep -q '"activations": "paper"' resumed.json || fail "sampled blocks of paper are not called paper"
expect 2 "--activations pruned: the run in largest/last.ckpt has paper" \
    --resume largest/last.ckpt --activations pruned

# A test books no gradients, no optimizer's state and nothing for a backward pass; it takes what --plan says.
for kept in whole eight parts tuned; do
    expect 0 "" --test-only --resume $kept/last.ckpt --memory-report
    mv out tested.out
    for what in gradients optimizer; do
        [ "$(bytes $what 1 tested.out)" = 0 ] || fail "a test of $kept has $what: $(cat tested.out)"
    done
    expect 0 "" --test-only --resume $kept/last.ckpt --plan
    grep -q '^a test, MiB ' out && [ "$(bytes 'peak of everything' 1 out)" = "$(sed -n 's/^total  *[0-9]*  *\([0-9]*\) .*/\1/p' tested.out)" ] ||
        fail "a test of $kept takes other memory than is planned: $(cat out tested.out)"
done
expect 0 "" --test-only --resume whole/last.ckpt --summary-json test.json
grep -q "\"test_loss\": $(tail -n 1 whole/log.csv | cut -d, -f5)," test.json ||
    fail "--test-only gives another loss than the run"
# One that a signal ends has no result, also where the run's log has one. (While kernels are built, it
# writes nothing.)
rm -f test.json
: >out # before the child does so: what an earlier run said is waited for below
"$program" --test-only --resume whole/last.ckpt --test-limit 4000000 --summary-json test.json >out 2>err &
child=$!
tries=0
until grep -q '^going on after' out || [ $tries -ge 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
sleep 2
kill -s INT $child
wait $child
got=$?
[ $got = 130 ] || fail "exit code $got, not 130, after SIGINT in a test: $(cat err)"
! grep -q '^test loss' out || fail "a test that a signal ended has a result: $(cat out)"
[ ! -e test.json ] || grep -q '"test_loss": null,' test.json ||
    fail "a test that a signal ended has a loss: $(cat test.json)"

expect 4 "none.ckpt" --resume none.ckpt
head -c 1000 one.ckpt >cut.ckpt
expect 4 "cut.ckpt" --resume cut.ckpt
{ head -c 5000 one.ckpt && printf x && tail -c +5002 one.ckpt; } >bent.ckpt
expect 4 "bent.ckpt.*checksum" --resume bent.ckpt

# ---- precision -----------------------------------------------------------------------------------
# One pruned tensor of a block: the kernels that stand in for tensor cores take long to compile.
echo 'blocks.* mlp_channels.act pruned sparsity=0.5' >alone
once="--image-size 16 --patch-size 8 --train-limit 4 --test-limit 2 --batch-size 2 --epochs 1 \
    --optimizer sgd --lr 0.1 --activations dense --keep-file alone"
export CLPRUNE_DEBUG=mma=emulated,forget=poison,units=132
for precision in fp32 tf32; do
    expect 0 "" $once --precision $precision --output-dir $precision --summary-json $precision.json
    grep -q "\"precision\": \"$precision\"" $precision.json ||
        fail "the summary does not say $precision"
done
grep -q 'multiplied in tf32' out || fail "the run does not say tf32"
# Without the option the environment decides, for a resumed run the checkpoint.
export CLPRUNE_PRECISION=tf32
expect 0 "" $once --precision fp32 --output-dir fp32_again --summary-json fp32.json
grep -q '"precision": "fp32"' fp32.json || fail "--precision fp32 does not win over CLPRUNE_PRECISION"
results fp32_again >have
results fp32 | cmp -s have - || fail "--precision fp32 is not fp32 under CLPRUNE_PRECISION"
expect 0 "" $once --output-dir tf32_default --summary-json tf32.json
grep -q '"precision": "tf32"' tf32.json || fail "CLPRUNE_PRECISION is not taken"
export CLPRUNE_PRECISION=bf16
expect 0 "" --resume tf32_default/last.ckpt --epochs 2 --summary-json tf32.json
grep -q '"precision": "tf32"' tf32.json || fail "a resumed run changes its precision"
unset CLPRUNE_PRECISION
results fp32 >want
results tf32 >have
cmp -s want have && fail "--precision tf32 changes nothing"
expect 2 "--precision bf16: the run in tf32/last.ckpt has tf32" \
    --resume tf32/last.ckpt --precision bf16
export CLPRUNE_DEBUG=mma=auto
expect 0 "" $once --precision bf16 --steps 1 --summary-json auto.json
grep -q '"precision": "bf16"' auto.json || grep -q 'bf16 is not available' out ||
    fail "an unavailable precision is not mentioned"
unset CLPRUNE_DEBUG

# ---- forms chosen by measured errors -------------------------------------------------------------
expect 2 "--activations auto needs --memory-limit" $small --activations auto
expect 2 "--keep-file cannot override --activations auto" \
    $small --activations auto --memory-limit 1G --keep-file mixed
for option in "--sparsity 0.5" "--code-bits 8" "--pool 2" "--values fp16" "--gelu-code 4"; do
    expect 2 "${option% *} is chosen by --activations auto" \
        $small --activations auto --memory-limit 1G $option
done
brief="--image-size 16 --patch-size 8 --train-limit 32 --test-limit 8 --batch-size 32"
expect 5 "activations auto, batch 32 take [0-9]* bytes at least" \
    $brief --activations auto --memory-limit 1M
least=$(sed -n 's/.* take \([0-9]*\) bytes at least.*/\1/p' err)
exact=$("$program" $brief --plan --activations exact-tokens | sed -n 's/^peak of everything *\([0-9]*\) .*/\1/p')
expect 0 "" $brief --plan --activations auto --memory-limit "$exact"
grep -q "activations auto: exact-tokens, with dense's gradients, is planned in $exact of" out ||
    fail "auto does not take dense's gradients where they fit: $(cat out)"
limit=$(((least + exact) / 2))
auto="$brief --activations auto --memory-limit $limit"
expect 0 "" $auto --epochs 2 --output-dir chosen --summary-json chosen.json --memory-report
total=$(bytes total 1 out)
[ "$total" -le "$limit" ] || fail "auto takes $total bytes of $limit"
grep -q "activations auto: $total of $limit bytes are planned" out || fail "auto's plan is not what the run takes: $(cat out)"
grep -q '"error_measured": [0-9]' chosen.json || fail "the summary has no errors of auto"
awk -F, '/^0,blocks.3.mlp_channels.fc1,quantised bits=8/ { a = $5 } /^0,blocks.3.mlp_channels.fc1,quantised bits=2/ { b = $5 }
    $3 == "dense" && $5 != 0 { bad = 1 }
    END { exit bad || !(a > 0 && a < 0.1 && b > 10 * a) }' chosen/auto.csv || fail "errors of auto: $(cat chosen/auto.csv)"
awk '/"error_by_sum"/ { a = $2 + 0 } /"error_measured"/ { b = $2 + 0 } END { exit !(a < 1.2 * b && b < 1.2 * a) }' \
    chosen.json || fail "errors do not add up: $(cat chosen.json)"
expect 0 "" $brief --activations exact --keep-file chosen/auto.keep --epochs 2 --output-dir reused
results chosen >want
results reused | cmp -s want - || fail "a run with auto.keep is another one"
rm -rf part
expect 0 "" $auto --epochs 2 --output-dir part --steps 1
cmp -s chosen/auto.keep part/auto.keep && cmp -s chosen/auto.csv part/auto.csv ||
    fail "auto chooses differently at its second time"
expect 0 "" --plan --resume part/last.ckpt --keep-file part/auto.keep
expect 0 "" --resume part/last.ckpt --steps 1 --output-dir moved_part
sed 1d part/auto.keep | cmp -s moved_part/auto.keep - || fail "auto.keep of a run resumed in another folder"
mkdir copied
cp part/last.ckpt copied/copy.ckpt
sed 2d part/auto.keep >copied/auto.keep
expect 2 "copied/auto.keep: this is not of the run in" --resume copied/copy.ckpt
cp part/auto.keep part/auto.csv copied
expect 0 "" --resume copied/copy.ckpt --steps 1
expect 0 "" --resume part/last.ckpt
results part | cmp -s want - || fail "a resumed run of auto is another one"
cmp -s chosen/auto.keep part/auto.keep || fail "a resumed run writes auto.keep again"

# ---- steps of the learning rate ------------------------------------------------------------------
expect 2 "--milestones needs --schedule step" $small --milestones 0.5
expect 2 "--milestones: '0.5,0.4' is not" $small --schedule step --milestones 0.5,0.4
expect 2 "--schedule: 'other' is not one of cosine step linear" --schedule other
stepped="$small --activations exact --schedule step --milestones 0.3,0.67 --warmup-epochs 0 --lr 0.01"
expect 0 "" $stepped --epochs 3 --output-dir stepped --summary-json stepped.json
[ "$(cut -d, -f3 stepped/log.csv | tr '\n' ' ')" = "lr 0.01 0.001 0.0001 " ] ||
    fail "the steps of the learning rate: $(cut -d, -f3 stepped/log.csv)"
grep -q '"milestones": "0.3,0.67"' stepped.json || fail "the summary has no milestones"
without_time stepped/log.csv >want
resumed 4 stepped want $stepped

# ---- divergence ----------------------------------------------------------------------------------
expect 6 "diverged" $small --optimizer sgd --lr 1e6 --epochs 3 --output-dir diverged
[ ! -e diverged/last.ckpt ] || fail "a run that diverges writes a checkpoint"
step=$(sed -n 's/.*the loss of step \([0-9]*\) is no finite.*/\1/p' err)
[ -n "$step" ] || fail "it names no step: $(cat err)"
# The first number that is not finite is in the forward pass of that step, or in the passes before.
expect 6 "diverged: step [0-9]*: .* pass of layer .* not finite" $small --optimizer sgd --lr 1e6 --epochs 3 --check-finite 1
found=$(sed -n 's/.*diverged: step \([0-9]*\): .*/\1/p' err)
[ "${found:-0}" = "$step" ] || [ "${found:-0}" = $((step - 1)) ] || fail "step $found, not $step: $(cat err)"

# ---- signals -------------------------------------------------------------------------------------
# stop SIGNAL CODE options...: stops a long run in its course.
stop() {
    signal=$1 ends_with=$2
    shift 2
    rm -rf stopped
    env --default-signal=HUP "$program" $pruned --epochs 100000 --output-dir stopped "$@" >long.out 2>long.err &
    child=$!
    await_rows stopped/log.csv 3
    meanwhile
    kill -s "$signal" $child
    wait $child
    got=$?
    [ $got = "$ends_with" ] || fail "exit code $got, not $ends_with, after SIG$signal"
    [ $signal = KILL ] && return
    [ ! -s long.err ] || fail "SIG$signal prints on stderr: $(cat long.err)"
    grep -q 'stopped by a signal' long.out || fail "SIG$signal goes without a word"
}

meanwhile() { :; }

# interrupt SIGNAL CODE: stops a run, and goes on with it for an epoch.
interrupt() {
    stop "$1" "$2"
    grep -q 'go on with --resume stopped/last.ckpt' long.out || fail "SIG$1: it does not say how to go on"
    rows=$(($(wc -l <stopped/log.csv) - 1))
    expect 0 "" --resume stopped/last.ckpt --epochs $((rows + 1))
    [ "$(wc -l <stopped/log.csv)" = $((rows + 2)) ] || fail "no going on after SIG$1"
}
# While a run is in its folder, no other is: neither a new one nor one that goes on.
meanwhile() {
    used="stopped: another run (process $child) is writing there"
    expect 4 "$used" $pruned --output-dir stopped
    expect 4 "$used" $pruned --output-dir stopped --overwrite
    expect 4 "$used" --resume stopped/last.ckpt
    expect 0 "" --test-only --resume stopped/last.ckpt
}
interrupt INT 130
meanwhile() { :; }
interrupt TERM 143
interrupt HUP 129
# The lock dies with its process.
stop KILL 137
[ -e stopped/run.lock ] || fail "a killed run leaves no lock: is there any?"
rows=$(($(wc -l <stopped/log.csv) - 1))
expect 0 "" --resume stopped/last.ckpt --epochs $((rows + 1))
[ ! -e stopped/run.lock ] || fail "a lock is left"
stop TERM 143 --checkpoint-every 0
grep -q 'step [0-9]*; no checkpoint was written' long.out || fail "it names a checkpoint that there is not"

# A reader that goes away ends the run; the steps done are saved.
{
    "$program" $pruned --epochs 6 --checkpoint-every 100 --output-dir gone 2>gone.err
    echo $? >gone.code
} | head -n 1 >/dev/null
[ "$(cat gone.code)" = 4 ] || fail "exit code $(cat gone.code), not 4, where the reader goes away"
grep -q 'cannot write to standard output; go on with --resume gone/last.ckpt$' gone.err ||
    fail "where the reader goes away it says: $(cat gone.err)"
expect 0 "" --resume gone/last.ckpt
expect 0 "" $pruned --epochs 6 --output-dir read
without_time read/log.csv >want
without_time gone/log.csv | cmp -s want - || fail "a run whose reader went away goes on as another one"

# A terminal that is closed: writing fails, and its shell ends (so there are two commands), after which the signal comes.
if script -qc true /dev/null </dev/null >/dev/null 2>&1; then
    # shellcheck disable=SC2016 # for the inner shell
    printf '%s\n' 'trap "" HUP' '"$@" 2>hung.err' 'echo $? >hung.code' >hung.sh
    script -qc "sh hung.sh env --default-signal=HUP '$program' $pruned --epochs 100000 --checkpoint-every 100000 --output-dir hung; true" \
        /dev/null </dev/null >hung.out 2>&1 &
    child=$!
    await_rows hung/log.csv 3
    kill -s KILL $child
    tries=0
    until [ -s hung.code ] || [ $tries -ge 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$(cat hung.code)" = 129 ] && [ -s hung/last.ckpt ] ||
        fail "exit code $(cat hung.code), not 129, where the terminal is closed: $(ls hung) $(cat hung.err)"
else
    echo "script(1) makes no terminal here: a closed one is not tested"
fi

# Nothing is compiled yet: the first step says how far it is, and a signal ends it between two kernels. The parent
# has SIGCHLD ignored; PoCL's linker waits for a child.
mkdir cold
: >early.out
POCL_CACHE_DIR=$folder/cold CLPRUNE_CACHE_DIR=off env --ignore-signal=CHLD "$program" $small --output-dir early >early.out 2>early.err &
child=$!
tries=0
until grep -q '^building kernels: [1-9][0-9]* of [1-9][0-9]*$' early.out || [ $tries -ge 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
grep -q '^building kernels: [1-9][0-9]* of [1-9][0-9]*$' early.out || fail "it does not say that it builds kernels: $(cat early.out)"
kill -s INT $child
wait $child
got=$?
[ $got = 130 ] || fail "exit code $got, not 130, after SIGINT while kernels are built"
grep -q 'stopped by a signal while kernels were built; nothing was trained' early.out ||
    fail "SIGINT does not end a first step between two kernels: $(cat early.out early.err)"
[ ! -e early ] || fail "a run that built kernels only leaves $(ls -A early)"

# So does measuring for --activations auto, quietly if asked, and takes the run's new folder away.
rm -rf cold
mkdir cold
# shellcheck disable=SC2086 # several arguments
POCL_CACHE_DIR=$folder/cold CLPRUNE_CACHE_DIR=off "$program" $auto --quiet --output-dir early-auto >early.out 2>early.err &
child=$!
tries=0
until [ "$(find cold -name '*.so' | wc -l)" -ge 20 ] || [ $tries -ge 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -s INT $child
wait $child
got=$?
[ $got = 130 ] || fail "exit code $got, not 130, after SIGINT while errors are measured: $(cat early.err)"
[ ! -s early.out ] || fail "measuring is not quiet: $(cat early.out)"
[ ! -e early-auto ] || fail "measuring that was stopped leaves $(ls -A early-auto)"

# A comparison of gradients would take for ever; the run before it has its summary.
timeout --preserve-status -k 10 2 "$program" $small --steps 1 --quiet --gradient-check 3 --gradient-draws 1000000 \
    --summary-json compared.json >out 2>err
got=$?
[ $got = 143 ] || fail "exit code $got, not 143, after SIGTERM while gradients are compared: $(cat err)"
grep -q '"top1": [0-9]' compared.json && ! grep -q '"gradient_check"' compared.json ||
    fail "the summary of a run whose comparison is stopped: $(cat compared.json)"
# Nor is there a comparison after a run that a signal stops.
"$program" $pruned --epochs 100000 --checkpoint-every 100000 --output-dir uncompared --gradient-check 1 --summary-json compared.json >out 2>err &
child=$!
await_rows uncompared/log.csv 2
rm -f compared.json
kill -s INT $child
wait $child
got=$?
[ $got = 130 ] && [ -s compared.json ] && grep -q '^--gradient-check: left out' out ||
    fail "exit code $got, a comparison after a signal: $(cat out err)"

# A reader that does not read (its pipe is full) holds a run up, but not its end.
# stall ARGUMENT...: a run with such a reader, in the background; `pid` has its number, `code` will have its exit code.
stall() {
    rm -f pid code
    # shellcheck disable=SC2016 # for the inner shell
    sh -c 'head -c 65536 /dev/zero; "$@" & echo $! >pid; wait $!; echo $? >code' sh \
        "$program" $small "$@" 2>/dev/null | sleep 60 &
    child=$!
}
# end_stalled WHAT: one SIGTERM ends it.
end_stalled() {
    kill -s TERM "$(cat pid)"
    tries=0
    until [ -s code ] || [ $tries -ge 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$(cat code 2>/dev/null)" = 143 ] || fail "SIGTERM does not end $1 whose reader does not read"
    kill -s KILL "$(cat pid)" 2>/dev/null
    kill $child
}
stall --output-dir stalled
tries=0
until [ -e stalled/log.csv ] || [ $tries -ge 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
sleep 0.5 # it comes to its first line
end_stalled "a run"

# Nor does it hold up a report, or a file that goes there.
for report in "--plan" "--steps 1 --export /dev/stdout"; do
    # shellcheck disable=SC2086 # several arguments
    stall $report
    sleep 3 # it comes to its first line
    end_stalled "$report"
done

[ $failures = 0 ] || { echo "$failures failures" && exit 1; }
echo "all passed"
