#!/usr/bin/env bash
# The trainer while one call fails, or that call and all later ones: of OpenCL, of the allocator, of
# files. It ends with an exit code and a line on stderr, or the run is whole. Nothing of OpenCL is left.
# A checkpoint that was there can be resumed, to the same bits, and a new run can begin again.
#
#     test_trainer_faults.sh PROGRAM FAULT_LAYER POSITIONS [all]
#
# PROGRAM is resmlp-train, resnet-train or gpt-train, linked with support/fault_host.c. The calls of a run are counted first, then
# POSITIONS of them fail, spread over the run, for each kind of call, once and for ever; and, for the
# allocator and files, of the places in the program that call, each at its first call. For each function
# of OpenCL that resmlp-train calls, its first call fails once; with `all`, of each program, its first, middle and last
# call, once and for ever. resmlp-train also runs with IDX data, --import, --keep-file and --tensorboard, and with a
# folder of PNG and JPEG images, one of them broken, and --skip-broken: 1 position of each kind, POSITIONS with `all`.
#
# The line has no expressions of C. Exit codes: 5 memory, 4 files, 1, 3 or 5 OpenCL. A new run never replaces a
# checkpoint without --overwrite, whichever call on files fails. First calls fail with and without programs in the
# cache. Label long: 150 positions of each kind, and 27 functions of OpenCL (26 of resnet-train), since releases never
# fail.
set -uo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
program=$(realpath "$1") layer=$(realpath "$2") positions=$3 all=${4:-}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0 runs=0 told=0 whole=0
declare -A failed # functions of OpenCL
cold= # not empty: each run has its own program cache, empty at first
name=${program##*/} name=${name%-faults}
case $name in
resnet-train)
    small=(--arch resnet20 --image-size 16 --train-limit 4 --test-limit 4 --batch-size 4
        --activations compact)
    ;;
gpt-train)
    seq 1000 | head -c 1000 >text
    small=(--context 16 --train-limit 4 --test-limit 4 --batch-size 4 --activations compact --data "$folder/text"
        --sample 2)
    ;;
*)
    small=(--image-size 16 --patch-size 8 --train-limit 32 --test-limit 32 --batch-size 32
        --activations pruned)
    ;;
esac
small+=(--checkpoint-every 1 --quiet)
outputs=(--export w.safetensors --summary-json summary.json)
run=("${small[@]}") reference=base # of the scenario `fresh`

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# train [VARIABLE=VALUE] arguments...: one run in the current folder; $code, out and err.
train() {
    local variables=(FAULT_REPORT="$PWD/report" OPENCL_LAYERS="$layer")
    rm -f report
    [ -z "$cold" ] || variables+=(CLPRUNE_CACHE_DIR="$PWD/cache")
    while [[ $1 == FAULT_* ]]; do
        variables+=("$1")
        shift
    done
    env "${variables[@]}" "$program" "$@" >out 2>err
    code=$?
    runs=$((runs + 1))
    # Lines of PoCL's compiler and of CLBlast are not ours.
    grep -vE "^[0-9]* warnings? generated\.$|^CLBlast: OpenCL error: |^$name: note: --data: .*; the next image" \
        err >err.ours
}

must_train() {
    train "$@"
    [ $code = 0 ] || fail "$what: exit code $code: $*: $(cat err)"
    grep -q '^opencl: [1-9]' report || fail "$what: the layer was not loaded: $*"
}

without_time() {
    cut -d, -f1-6,10,11 "$1"
}

# What the last run left is what it should be: $1 has the reference.
same_results() {
    cmp -s w.safetensors "$1/w.safetensors" || fail "$what: other weights"
    [ "$(without_time log.csv)" = "$(without_time "$1/log.csv")" ] || fail "$what: another log"
    [ "$(tail -n 1 summary.json)" = "}" ] || fail "$what: the summary is cut off"
}

# Images that were skipped, beyond those of the reference in $1: a file that cannot be read is a broken one.
more_skipped() {
    local pattern='s/^ *"skipped": \([0-9]*\),*$/\1/p'
    [ "$(sed -n "$pattern" summary.json)" -gt "$(sed -n "$pattern" "$1/summary.json")" ]
}

# A run that ends before it uses OpenCL reports nothing of it. Memory of a transfer that cannot be
# waited for stays.
nothing_left() {
    if grep -q '^opencl:' report; then
        grep -q 'alive 0 contexts 0 queues 0 buffers 0 programs 0 kernels 0 events 0 bytes, 0 released twice$' \
            report || fail "$what: OpenCL objects are left: $(grep opencl: report)"
    fi
    case $what in
    *any:*:forever*) ;;
    *) grep -q 'alive 0 blocks 0 files$' report || fail "$what: memory or files are left: $(grep host: report)" ;;
    esac
}

# The exit codes (trainer/base/fault.h) that say what failed: 1 run, 3 no device, 4 file, 5 memory.
# CL_OUT_OF_RESOURCES (-5) is memory, CL_INVALID_OPERATION (-59) is neither.
codes_of_failure() {
    local function
    function=$(sed -n 's/^opencl: .* failed \([A-Za-z]*\), .*/\1/p' report)
    case $armed in
    FAULT_HOST=memory*) echo 5 ;;
    FAULT_HOST=files*) echo 4 ;;
    *)
        case $function in
        clGetDeviceIDs) echo 3 ;;& # a platform that does not list its devices has none
        clBuildProgram) echo 1 ;;& # with any code, the program did not build
        *) [[ $armed == *:-59 ]] && echo 1 || echo 5 ;;
        esac
        ;;
    esac
}

# The run that has just ended told its failure, or is whole. With $fires, a call of that function failed.
judge() {
    local reference=$1 codes
    mapfile -t codes < <(codes_of_failure)
    [ -z "$fires" ] || grep -q "^opencl: .* failed $fires, " report || fail "$what: nothing failed"
    if grep -qE 'Sanitizer|runtime error' err; then
        fail "$what: $(cat err)"
    elif [ $code = 0 ]; then
        whole=$((whole + 1))
        if [[ $armed == FAULT_HOST=files* && " ${run[*]} " == *" --skip-broken "* ]] && more_skipped "$reference"; then
            return
        fi
        same_results "$reference"
        [ ! -d "$reference/events" ] || [ "$(cat events/* | wc -c)" = "$(cat "$reference"/events/* | wc -c)" ] ||
            fail "$what: other event files"
    elif [[ " ${codes[*]} " != *" $code "* ]]; then
        fail "$what: exit code $code, not ${codes[*]}: $(cat err)"
    else
        told=$((told + 1))
        [ "$(wc -l <err.ours)" = 1 ] && grep -qE "^$name: .{12}" err.ours ||
            fail "$what: stderr is not one line that says why: $(cat err.ours)"
        ! grep -qE -e '->|clprune__|&&|\|\|| == |NULL\)' err.ours || fail "$what: C in an error: $(cat err.ours)"
    fi
    [ ! -f report ] || nothing_left
}

# Names are as a next run expects them.
tidy() {
    local left
    left=$(find . -name 'last.ckpt.*' -o -name 'log.csv.*' -o -name run.lock)
    [ -z "$left" ] || fail "$what: left behind: $left"
}

# Going on after epoch 1, with a checkpoint that must survive.
resumed() {
    rm -rf work && cp -r base work && cd work || exit 1
    train "$1" --resume last.ckpt --epochs 2 "${outputs[@]}" --quiet
    judge ../resumed
    if [ $code != 0 ]; then
        cmp -s last.ckpt ../base/last.ckpt || changed=$((changed + 1))
        if ! cmp -s last.ckpt ../base/last.ckpt || ! cmp -s log.csv ../base/log.csv || [ $((runs % 4)) = 0 ]; then
            must_train --resume last.ckpt --epochs 2 "${outputs[@]}" --quiet
            same_results ../resumed
            tidy
        fi
    fi
    cd ..
}

# A new run; after a failure it begins again.
fresh() {
    rm -rf new && mkdir new && cd new || exit 1
    train "$1" "${run[@]}" --epochs 1 --output-dir . "${outputs[@]}"
    judge "../$reference"
    if [ $code != 0 ]; then
        must_train "${run[@]}" --epochs 1 --output-dir . --overwrite "${outputs[@]}"
        same_results "../$reference"
        tidy
    fi
    cd ..
}

# A new run where there is a checkpoint is refused, whichever of its calls on files fails.
taken() {
    local i
    mkdir taken && cp base/last.ckpt taken && cd taken || exit 1
    for ((i = 1;; i++)); do
        what="a folder that is taken, FAULT_HOST=files:$i"
        train FAULT_HOST=files:$i "${small[@]}" --epochs 1 --output-dir . "${outputs[@]}"
        cmp last.ckpt ../base/last.ckpt || break
        [ $code = 4 ] || [ $code = 2 ] || break
        grep -q '^host: .* failed none' report && break
    done
    [ $code = 2 ] && [ $i -gt 10 ] && cmp -s last.ckpt ../base/last.ckpt ||
        fail "$what: exit code $code after $i calls: $(cat err)"
    cd ..
}

# The calls of one kind in the last run, and the places.
count_of() {
    case $1 in
    opencl) sed -n 's/^opencl: \([0-9]*\) calls.*/\1/p' report ;;
    memory) sed -n 's/^host: \([0-9]*\) allocations.*/\1/p' report ;;
    memory:#) sed -n 's/^host: .*allocations from \([0-9]*\) places.*/\1/p' report ;;
    files) sed -n 's/^host: .* places, \([0-9]*\) calls on files.*/\1/p' report ;;
    files:#) sed -n 's/^host: .*files from \([0-9]*\) places.*/\1/p' report ;;
    esac
}

# walk SCENARIO FOLDER: the counts are those of the report in FOLDER.
walk() {
    local scenario=$1 kind forever count i at armed fires=
    for kind in opencl memory:# files:# memory files; do
        count=$(cd "$2" && count_of $kind)
        [ "${count:-0}" -gt 0 ] || fail "$scenario: no call of $kind was counted"
        for forever in "" ":forever"; do
            for ((i = 0; i < positions && i < count; i++)); do
                # Spread, and not in step with what repeats; all of them where there are no more.
                at=$((positions >= count ? i + 1 : 1 + (i * count + (i * 7 + ${#forever} * 3) % 11 * count / 11) / positions))
                case $kind in
                opencl) armed=FAULT_LAYER=any:$at:-5$forever ;;
                *:#) armed=FAULT_HOST=$kind$at$forever ;;
                *) armed=FAULT_HOST=$kind:$at$forever ;;
                esac
                what="$scenario, $armed of $count"
                "$scenario" "$armed"
            done
        done
    done
}

# walk_functions SCENARIO FOLDER PATTERN: the functions in the report that match.
walk_functions() {
    local scenario=$1 lines line function count positions how armed fires
    mapfile -t lines < <(grep -E "^call: ($3) " "$2/report")
    [ ${#lines[@]} -gt 0 ] || fail "$scenario: no call of $3 was counted"
    for line in "${lines[@]}"; do
        read -r _ function count <<<"$line"
        [ "$function" != clGetEventInfo ] || count=1 # a run asks as often as its first step takes time
        fires=$function failed[$function]=1
        positions=$(printf '%s\n' 1 ${all:+$(((count + 1) / 2)) "$count"} | uniq)
        for at in $positions; do
            for how in -59 ${all:+-5:forever}; do
                armed=FAULT_LAYER=$function:$at:$how
                what="$scenario${cold:+, cold}, $armed of $count"
                "$scenario" "$armed"
            done
        done
    done
}

what="the reference"
mkdir base && cd base || exit 1
must_train "${small[@]}" --epochs 1 --output-dir . "${outputs[@]}"
nothing_left
cd ..
cp -r base resumed && cd resumed || exit 1
must_train --resume last.ckpt --epochs 2 "${outputs[@]}" --quiet
nothing_left
cd ..
mkdir warm && cd warm || exit 1 # base may have filled the program cache
must_train "${small[@]}" --epochs 1 --output-dir . "${outputs[@]}"
same_results ../base
cd ..
cp -r base cold && cd cold || exit 1
cold=1
must_train --resume last.ckpt --epochs 2 "${outputs[@]}" --quiet
same_results ../resumed
cold=
cd ..
changed=0
grep -h '^host:\|^opencl:' base/report resumed/report
[ $failures = 0 ] || exit 1
taken
walk resumed resumed
if [ "$name" = resmlp-train ] || [ -n "$all" ]; then # the functions of other models are the same
    walk_functions resumed resumed '.*'
    cold=1
    walk_functions resumed cold 'clCreateProgramWithSource|clBuildProgram|clGetProgramInfo'
    cold=
fi
positions=$(((positions + 1) / 2))
walk fresh warm
[ -z "$all" ] || walk_functions fresh warm '.*'
# A broken image ends a run that has not read its losses yet. If reading them fails, too, the steps are not saved:
# no checkpoint is advised that does not resume.
broken_image() {
    local at class file
    for class in {train,val}/{a,b}; do
        mkdir -p images/$class
        for file in images/$class/{1,2,3,4}.png; do
            printf '\211PNG\15\12\32\12\0\0\0\15IHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\233U\0\0\0\12IDATx\332ch\0\0\0\202\0\201\332E\10;\0\0\0\0IEND\256B`\202' >"$file"
        done
    done
    : >images/train/b/3.png
    for at in 2 3 4 5 6; do # the first call is of the device's self-check
        what="a broken image and clEnqueueReadBuffer:$at"
        rm -rf last.ckpt log.csv
        train FAULT_LAYER=clEnqueueReadBuffer:$at:-5 "${small[@]}" --data "$PWD/images" --batch-size 1 --epochs 1 --output-dir .
        ! grep -q 'built without' err.ours || return 0
        [ $at -gt 3 ] || grep -qE '3\.png|losses|hits' err.ours || fail "$what: $(cat err)"
        [ $code != 0 ] || fail "$what: exit code 0"
        if grep -q 'go on with --resume' err.ours; then
            cp images/train/a/1.png images/train/b/3.png
            train --resume last.ckpt --quiet
            [ $code = 0 ] || fail "$what: the checkpoint does not resume: $(cat err)"
            : >images/train/b/3.png
        fi
    done
}
# walk_new NAME OPTION...: new runs with these options; NAME has the reference.
walk_new() {
    what=$1 reference=$1
    shift
    run=("$@" --checkpoint-every 1 --quiet)
    mkdir "$reference" && cd "$reference" || exit 1
    must_train "${run[@]}" --epochs 1 --output-dir . "${outputs[@]}"
    cd ..
    rm -rf new && mkdir new && cd new || exit 1 # with all programs in the cache
    must_train "${run[@]}" --epochs 1 --output-dir . "${outputs[@]}"
    same_results "../$reference"
    cd ..
    walk fresh "$reference"
}
other_data() {
    local split class
    mkdir digits
    for split in train t10k; do
        { printf '\0\0\10\3\0\0\0\20\0\0\0\20\0\0\0\20' && head -c 4096 /dev/zero | tr '\0' 1; } >digits/$split-images-idx3-ubyte
        { printf '\0\0\10\1\0\0\0\20' && head -c 16 /dev/zero; } >digits/$split-labels-idx1-ubyte
    done
    printf 'blocks.* mlp_channels.act pruned sparsity=0.75 values=fp16\nblocks.0 ls2 dense\n' >run.keep
    for class in {train,val}/{a,b}; do
        mkdir -p photos/$class
        printf '\211PNG\15\12\32\12\0\0\0\15IHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\233U\0\0\0\12IDATx\332ch\0\0\0\202\0\201\332E\10;\0\0\0\0IEND\256B`\202' >photos/$class/1.png
        base64 -d >photos/$class/2.jpg <<JPEG
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOgEKAYYvPT1ASFxOQERXRTc4UG1RV19iZ2hnPk1xeX
BkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wgARCAAL
ABEDASEAAhEBAxEB/8QAGAAAAwEBAAAAAAAAAAAAAAAAAAIDBAX/xAAYAQACAwAAAAAAAAAAAAAAAAAAAwECBf/aAAwDAQACEAMQAAABeIINrL
qLnYZRJuqf/9k=
JPEG
    done
    : >photos/train/b/3.png
    what="weights to import"
    mkdir start && cd start || exit 1
    must_train --data ../digits --patch-size 8 --batch-size 8 --steps 1 --quiet --export ../start.safetensors
    cd ..
}
if [ "$name" = resmlp-train ]; then
    positions=$(((positions + 1) / 2))
    [ -z "$all" ] || positions=$3
    other_data
    walk_new importing --data "$folder/digits" --patch-size 8 --batch-size 8 --import "$folder/start.safetensors" \
        --keep-file "$folder/run.keep" --tensorboard events
    if "$program" --data "$folder/photos" --plan --image-size 16 --patch-size 8 2>&1 | grep -q 'built without'; then
        echo "not tested: a folder of images"
    else
        walk_new skipping --data "$folder/photos" --image-size 16 --patch-size 8 --batch-size 2 --skip-broken
    fi
    mkdir broken && cd broken || exit 1
    broken_image
    cd ..
fi
echo "$runs runs: $told told why they failed, $whole were whole; $changed had written a newer checkpoint;" \
    "${#failed[@]} functions of OpenCL"
[ $failures = 0 ] && [ $told -gt $whole ]
