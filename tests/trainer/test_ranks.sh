#!/bin/sh
# A run in several processes: it has the bits of one, stops, and resumes on another number. test_ranks_lost.sh loses
# processes.
#
#     test_ranks.sh path/to/resmlp-train path/to/resnet-train path/to/resmlp-train-drift path/to/mpirun [MOST]
#
# MOST: processes (2). NAME-train-mpi lies beside NAME-train; resmlp-train-drift is test_drift.c. Exits with 77 where mpirun does not start two processes.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1") resnet=$(whole "$2") drift=$(whole "$3") mpirun=$4 most=${5:-2}
cd "$folder" || exit 1
need_device "$program"
need_mpirun "$mpirun"

# on RANKS CODE PROGRAM OPTION...: runs it; 1 is the program without MPI.
on() {
    count=$1 code=$2 run=$3
    shift 3
    if [ "$count" = 1 ]; then
        timeout 600 "$run" "$@" >out 2>err
    else
        # shellcheck disable=SC2086 # words
        timeout 600 $start -n "$count" "$run-mpi" "$@" >out 2>err
    fi
    got=$?
    [ "$got" = "$code" ] || fail "$count processes: exit code $got, not $code: $*: $(cat err)"
}

# same A B: whether two runs have the same log, without times, and the same weights.
same() {
    cut -d, -f1-6 "$1/log.csv" >want.log
    cut -d, -f1-6 "$2/log.csv" >have.log
    cmp -s want.log have.log || fail "$2 has another log than $1: $(cat want.log have.log)"
    cmp -s "$1.st" "$2.st" || fail "$2 has other weights than $1"
}

small="--image-size 16 --patch-size 8 --train-limit 83 --test-limit 37 --batch-size 32 --epochs 3"
drawn="$small --activations pruned --sparsity 0.5 --micro-batches 4 --clip-norm 1"

# ---- the bits of one -----------------------------------------------------------------------------
# The last step has 19 images in passes of 4 and 5; of 3 passes on 4 processes and 2 images, one has none.
# shellcheck disable=SC2086 # words
on 1 0 "$program" $drawn --output-dir one --export one.st
for ranks in $(seq 2 "$most"); do
    # shellcheck disable=SC2086
    on "$ranks" 0 "$program" $drawn --output-dir "on$ranks" --export "on$ranks.st"
    same one "on$ranks"
    # shellcheck disable=SC2086
    on "$ranks" 0 "$program" $small --batch-size 27 --optimizer sgd --output-dir "few$ranks"
    # shellcheck disable=SC2086
    on 1 0 "$program" $small --batch-size 27 --optimizer sgd --output-dir few --overwrite
    paste -d, few/log.csv "few$ranks/log.csv" | awk -F, '
        function off(a, b) { return a - b > 1e-5 * a || b - a > 1e-5 * a }
        NR > 1 && (off($4, $15) || off($5, $16)) { exit 1 }' ||
        fail "$ranks processes train otherwise: $(cat few/log.csv "few$ranks/log.csv")"
done

# ---- the optimizer's state in slices -------------------------------------------------------------
sliced="$small --activations compact --micro-batches 4"
# shellcheck disable=SC2086
on 1 0 "$program" $sliced --output-dir whole --export whole.st --memory-report
state=$(awk '/^optimizer .*[0-9]$/ { print $3 }' out)
for ranks in $(seq 2 "$most"); do
    # shellcheck disable=SC2086
    on "$ranks" 0 "$program" $sliced --zero --output-dir "zero$ranks" --export "zero$ranks.st" --memory-report
    same whole "zero$ranks"
    part=$(awk '/^optimizer .*[0-9]$/ { print $3 }' out) # beside tables of tensors, and slices of whole 256
    [ $((ranks * part)) -lt $((state * 5 / 4)) ] || fail "$ranks processes have $part of $state bytes of state each"
    # shellcheck disable=SC2086
    on "$ranks" 0 "$program" $sliced --zero --steps 4 --output-dir "cut$ranks"
    on 1 0 "$program" --resume "cut$ranks/last.ckpt" --zero --export "cut$ranks.st"
    same whole "cut$ranks"
done
# shellcheck disable=SC2086
on 1 0 "$program" $sliced --clip-norm 0.1 --output-dir clip --export clip.st
# shellcheck disable=SC2086
on 2 0 "$program" $sliced --clip-norm 0.1 --zero --output-dir clip2 --export clip2.st
paste -d, clip/log.csv clip2/log.csv | awk -F, 'NR > 1 && ($4 - $16 > 1e-5 || $16 - $4 > 1e-5 || $12 == "" || $12 - $24 > 1e-5 * $12 || $24 - $12 > 1e-5 * $12) { exit 1 }' ||
    fail "clipping with --zero: $(cat clip/log.csv clip2/log.csv)"
cmp -s whole/log.csv clip/log.csv && fail "clipping changes nothing"
# shellcheck disable=SC2086
on 2 2 "$program" $sliced --zero --optimizer lamb
grep -q -- '--zero does not go with --optimizer lamb' err || fail "--zero with lamb: $(cat err)"

# ---- gradients as codes --------------------------------------------------------------------------
for zero in "" --zero; do
    # shellcheck disable=SC2086
    on 2 0 "$program" $sliced --reduce-bits 8 $zero --output-dir "codes$zero" --export "codes$zero.st"
    # shellcheck disable=SC2086
    on 2 0 "$program" $sliced --reduce-bits 8 $zero --steps 4 --output-dir "part$zero"
    on 2 0 "$program" --resume "part$zero/last.ckpt" --export "part$zero.st" # with the options of the checkpoint
    same "codes$zero" "part$zero"
    cmp -s whole.st "codes$zero.st" && fail "--reduce-bits 8 $zero changes nothing"
    paste -d, whole/log.csv "codes$zero/log.csv" | awk -F, '
        function off(a, b) { return a - b > 0.01 * a || b - a > 0.01 * a }
        NR > 1 && (off($4, $15) || off($5, $16)) { exit 1 }' ||
        fail "--reduce-bits 8 $zero: $(cat whole/log.csv "codes$zero/log.csv")"
done
cmp -s codes.st codes--zero.st && fail "--zero gathers codes of sums"

# ---- a plan for each process ---------------------------------------------------------------------
for zero in "" --zero; do
    # shellcheck disable=SC2086
    on 1 0 "$program" $drawn --plan --processes 2 $zero
    planned=$(awk '/^peak of everything/ { print $(NF - 1) }' out)
    # shellcheck disable=SC2086
    on 2 0 "$program" $drawn --epochs 1 --memory-report --output-dir planned --overwrite $zero
    taken=$(awk '/^total / { print $3 }' out)
    grep -q 'gemm temporary' out || [ "$planned" = "$taken" ] || fail "planned $planned bytes, taken $taken $zero"
done

# ---- a limit of memory ---------------------------------------------------------------------------
# Of three micro-batches the second process has two, which take more memory: all take one choice.
limited="--image-size 16 --patch-size 8 --train-limit 83 --test-limit 37 --epochs 1 --activations dense --micro-batches 3"
# shellcheck disable=SC2086
on 1 0 "$program" $limited --batch-size 16 --plan --processes 2
needed=$(awk '/^peak of everything/ { print $(NF - 1) }' out)
for zero in "--zero --clip-norm 1" ""; do
    # shellcheck disable=SC2086
    on 1 0 "$program" $limited --memory-limit "$needed" --plan --processes 2 $zero
    grep '^memory limit' out >planned.limit
    # shellcheck disable=SC2086
    on 2 0 "$program" $limited --memory-limit "$needed" $zero --output-dir limited --overwrite
    grep '^memory limit' out | cmp -s planned.limit - || fail "another choice than planned $zero: $(cat planned.limit out)"
done
# shellcheck disable=SC2086
on 1 0 "$program" $limited --batch-size "$(sed 's/.*batch \([0-9]*\):.*/\1/' planned.limit)" --output-dir free
paste -d, free/log.csv limited/log.csv | awk -F, 'NR > 1 && ($4 - $15 > 1e-5 || $15 - $4 > 1e-5) { exit 1 }' ||
    fail "a chosen batch trains otherwise: $(cat free/log.csv limited/log.csv)"
# shellcheck disable=SC2086
on 2 5 "$program" $limited --memory-limit 10000
[ "$(grep -c '^resmlp-train: ' err)" = 1 ] || fail "that nothing fits is not said once: $(cat err)"

# ---- stopped, and resumed on another number ------------------------------------------------------
for ranks in $(seq 1 "$most"); do
    rm -rf part
    # shellcheck disable=SC2086
    on 2 0 "$program" $drawn --steps 4 --output-dir part
    on "$ranks" 0 "$program" --resume part/last.ckpt --export part.st
    same one part
done
# Likewise in a second stage, of 40 other images.
mkdir other
for part in train t10k; do
    { printf '\0\0\10\3\0\0\0\50\0\0\0\20\0\0\0\20' && seq 10000 | head -c 10240; } >other/$part-images-idx3-ubyte
    { printf '\0\0\10\1\0\0\0\50' && yes 0123456789 | tr -d '\n' | tr 0123456789 '\0\1\2\3\4\5\6\7\10\11' | head -c 40; } >other/$part-labels-idx1-ubyte
done
# shellcheck disable=SC2086
on 2 0 "$program" $drawn --steps 4 --output-dir first
on 1 0 "$program" --resume first/last.ckpt --data other --output-dir staged --export staged.st
for ranks in $(seq 1 "$most"); do
    rm -rf part
    on 2 0 "$program" --resume first/last.ckpt --data other --steps 1 --output-dir part
    on "$ranks" 0 "$program" --resume part/last.ckpt --export part.st
    same staged part
done
[ "$(cut -d, -f2 staged/log.csv | tr '\n' ' ')" = "step 3 6 8 " ] || fail "a stage has other steps: $(cat staged/log.csv)"
# Means and variances are those of a process's own images; a checkpoint has the mean over the processes.
normed="--arch resnet20 --image-size 16 --optimizer sgd --lr 0.01 --train-limit 61 --test-limit 20 --batch-size 20 --epochs 2"
# shellcheck disable=SC2086
on 2 0 "$resnet" $normed --output-dir normed --export normed.st
# shellcheck disable=SC2086
on 2 0 "$resnet" $normed --steps 4 --output-dir again
on 2 0 "$resnet" --resume again/last.ckpt --export again.st
paste -d, normed/log.csv again/log.csv | awk -F, '
    function off(a, b) { return a - b > 1e-4 || b - a > 1e-4 }
    NR > 1 && (off($4, $15) || off($5, $16)) { exit 1 }' ||
    fail "with batch norms a resumed run differs: $(cat normed/log.csv again/log.csv)"

# So has one of --checkpoint-minutes, within an epoch: it has what a run has that ends there.
if [ "$most" -gt 2 ]; then
    long="$normed --train-limit 1000000 --epochs 1"
    # shellcheck disable=SC2086
    timeout 600 $start -n 2 "$resnet-mpi" $long --checkpoint-minutes 1 --quiet --output-dir minutes >out 2>err &
    tries=0
    until [ -e minutes/last.ckpt ] || [ $tries -gt 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    cp minutes/last.ckpt minute.ckpt || fail "--checkpoint-minutes 1 writes no checkpoint: $(cat err)"
    kill $!
    wait $!
    on 1 0 "$resnet" --resume minute.ckpt --test-only --export minute.st
    step=$(sed -n 's/^going on after epoch 0, step //p' out)
    # shellcheck disable=SC2086
    on 2 0 "$resnet" $long --steps "$step" --export there.st
    cmp -s minute.st there.st || fail "a checkpoint of --checkpoint-minutes lacks other processes' statistics (step $step)"
fi

# Batch norms over all images: as one process, and the last step's one image leaves a process without any.
# shellcheck disable=SC2086
on 1 0 "$resnet" $normed --epochs 1 --output-dir sync1
# shellcheck disable=SC2086
on 2 0 "$resnet" $normed --epochs 1 --sync-batch-norm --gradient-check 1 --output-dir sync2
paste -d, sync1/log.csv sync2/log.csv | awk -F, '
    function off(a, b) { return a - b > 1e-4 || b - a > 1e-4 }
    NR > 1 && (off($4, $15) || $5 - $16 > 0.01 || $16 - $5 > 0.01) { exit 1 }' ||
    fail "--sync-batch-norm: $(cat sync1/log.csv sync2/log.csv)"
cmp -s normed/log.csv sync2/log.csv && fail "--sync-batch-norm changes nothing"
# shellcheck disable=SC2086
on 2 2 "$resnet" $normed --sync-batch-norm --micro-batches 3
grep -q -- '--sync-batch-norm: 3 micro-batches are no multiple of 2 processes' err || fail "--sync-batch-norm: $(cat err)"
# shellcheck disable=SC2086
on 2 6 "$resnet" $normed --lr 1e6
[ "$(grep -c diverged err)" = 1 ] || fail "diverging is not said once: $(cat err)"

# ---- ranks that differ --------------------------------------------------------------------------
# idx FOLDER TRAIN TEST: a set of 16 x 16 images in IDX files, of these bytes.
idx() {
    mkdir -p "$1"
    for set in "train 83 $2" "t10k 37 $3"; do
        # shellcheck disable=SC2086 # words
        set -- "$1" $set
        { printf '\000\000\010\003\000\000\000'; printf "\\$(printf %03o "$3")"; printf '\000\000\000\020\000\000\000\020'
            head -c $(($3 * 256)) /dev/zero | tr '\000' "$4"; } >"$1/$2-images-idx3-ubyte"
        { printf '\000\000\010\001\000\000\000'; printf "\\$(printf %03o "$3")"
            head -c $(($3 / 2)) /dev/zero; head -c $(($3 - $3 / 2)) /dev/zero | tr '\000' '\001'; } >"$1/$2-labels-idx1-ubyte"
    done
}

# apart CODE PATTERN [VARIABLE=VALUE] OPTION...: rank 1 has these, too: with code 2 both end at once, and one line has the
# pattern.
apart() {
    code=$1 pattern=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 30 $start -n 1 "$program-mpi" $base --output-dir apart --overwrite : -n 1 env "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "ranks that differ: exit code $got, not $code: $*: $(cat err)"
    lines=$(grep -c '^res[a-z]*-train: ' err)
    if [ "$code" = 0 ]; then
        [ "$lines" = 0 ] || fail "ranks may differ: $*: $(cat err)"
    elif [ "$lines" != 1 ] || ! grep -q "^res[a-z]*-train: $pattern" err; then
        fail "not one line with '$pattern': $*: $(cat err)"
    fi
}

idx a a b
idx b b b
idx c a c
cp -r a same
base="--patch-size 8 --epochs 1 --batch-size 32 --data a"
# shellcheck disable=SC2086
on 2 0 "$program" $base --output-dir apart --export 1.st
cp apart/last.ckpt 1.ckpt
# shellcheck disable=SC2086
on 2 0 "$program" $base --seed 2 --export 2.st --output-dir apart --overwrite
cp 1.st copy.st
echo 'blocks.* norm1 dense' >1.keep
echo 'blocks.* norm2 dense' >2.keep
echo 'blocks.* norm1 dense' >copy.keep
rank1="rank 1 on [^ ]* has"
apart 2 "$rank1 --lr 0.1, rank 0 has 0.002$" "$program-mpi" $base --lr 0.1
apart 2 "$rank1 --zero 1, rank 0 has 0$" "$program-mpi" $base --zero
apart 2 "$rank1 --help 1, rank 0 has 0$" "$program-mpi" --help
apart 2 "$rank1 --resume a file, rank 0 has none$" "$program-mpi" --resume 1.ckpt
apart 2 "unknown or ambiguous option '--nonsense'" "$program-mpi" --nonsense
apart 2 "$rank1 program resnet-train .*, rank 0 has resmlp-train " "$resnet-mpi" --data a
apart 2 "$rank1 --data with .* IDX .*, rank 0 has .* IDX " "$program-mpi" $base --data b
apart 2 "$rank1 --data with .* IDX .*, rank 0 has .* IDX " "$program-mpi" $base --data c # other tests
apart 2 "$rank1 precision .*CLPRUNE_PRECISION.* bf16, rank 0 has fp32$" CLPRUNE_PRECISION=bf16 "$program-mpi" $base
apart 0 "" "$program-mpi" $base --data same --device 0:0 --output-dir elsewhere --quiet --peer-timeout 70 \
    --export apart.st --summary-json apart.json --tensorboard board --memory-report --gradient-check 1 --warmup-epochs 1
[ ! -e elsewhere ] && [ ! -e apart.st ] && [ ! -e board ] || fail "rank 1 writes files"
base="$base --import 1.st"
apart 2 "$rank1 parameters with checksum .*, rank 0 has checksum " "$program-mpi" $base --import 2.st
apart 0 "" "$program-mpi" $base --import copy.st
base="$base --keep-file 1.keep"
apart 2 "$rank1 --keep-file with checksum .*, rank 0 has checksum " "$program-mpi" $base --keep-file 2.keep
apart 0 "" "$program-mpi" $base --keep-file copy.keep
# Every option of the program, if there is time: rank 1 has it, or has another value.
if [ "$most" -gt 2 ]; then
    base="--patch-size 8 --epochs 1 --batch-size 32 --data a"
    # shellcheck disable=SC2086
    "$program" --help | sed -n 's/^  --\([a-z0-9-]*\) *\([^ ]*\) .*/\1 \2/p' >options
    while read -r name value; do
        code=2 word=$value
        case $name in
        device | peer-timeout | output-dir | overwrite | export | gradient-check | memory-report | tensorboard | summary-json | quiet) code=0 ;;
        esac
        case $name,$value in
        peer-timeout,*) word=30 ;;
        device,*) word=0:0 ;;
        summary-json,* | export,*) word=apart.out ;;
        output-dir,* | tensorboard,*) word=apart.dir ;;
        *,N | *,BYTES) word=2 ;;
        *,X) word=0.3 ;;
        *,[A-Z]*) ;;
        *) word= ;;
        esac
        # shellcheck disable=SC2086
        apart $code "" "$program-mpi" $base "--$name" $word </dev/null
    done <options
fi

# Parameters that drift apart, by a bit in a message of step 6: the checkpoint before is the last one. (Steps have 13 such
# messages, and with --zero a checkpoint 28.)
for zero in "" --zero; do
    rm -rf drift
    export DRIFT=70
    [ -z "$zero" ] || DRIFT=98
    # shellcheck disable=SC2086
    timeout 60 $start -n 2 "$drift" $small $zero --output-dir drift --export drift.st >out 2>err
    got=$?
    [ $got = 1 ] && [ "$(grep -c '^resmlp-train: ' err)" = 1 ] &&
        grep -q "^resmlp-train: $rank1 parameters with checksum .*, rank 0 has checksum .* after step 6: they have drifted apart, and are not saved$" err ||
        fail "drift $zero: exit code $got: $(cat err)"
    [ ! -e drift.st ] || fail "drift $zero: weights are exported"
    on 1 0 "$program" --resume drift/last.ckpt --steps 1 --output-dir on --overwrite
    grep -q '^going on after epoch 1, step 3$' out || fail "drift $zero: not the checkpoint before: $(cat out)"
done
# shellcheck disable=SC2086
timeout 60 $start -n 2 "$drift" $small --checkpoint-every 0 --output-dir drift --overwrite --export drift.st >out 2>err &&
    fail "drift without checkpoints: no error"
[ ! -e drift.st ] || fail "drift without checkpoints: weights are exported"
unset DRIFT

# ---- mistakes ------------------------------------------------------------------------------------
# shellcheck disable=SC2086
timeout 60 $start -n 2 "$program" $small >out 2>err && fail "two processes of the program for one"
grep -q 'this is one of 2 processes; the program for that is resmlp-train-mpi$' err || fail "no name of the program: $(cat err)"
on 2 2 "$program" --nonsense
[ "$(grep -c "option '--nonsense'" err)" = 1 ] || fail "a wrong option is not named once: $(cat err)"
on 2 4 "$program" --data nowhere
[ "$(grep -c 'nowhere: No such file' err)" = 1 ] || fail "a missing folder is not named once: $(cat err)"
on 1 2 "$program" --processes 2
grep -q -- '--processes needs --plan' err || fail "--processes without --plan: $(cat err)"
[ $failures = 0 ]
