#!/usr/bin/env bash
# What is right and wrong on a GPU, in ten minutes, with a page that says what it means:
#
#     tests/long/gpu.sh --reference DIR                    # on CPUs first: losses and norms of gradients
#     tests/long/gpu.sh --output DIR [--reference DIR]     # on the GPU; without a reference only its runs are compared
#
# --build DIR       a folder that is built, with tests and the training programs; default build/release
# --device TEXT     platform:device or part of a name; default $CLPRUNE_DEVICE, else a GPU
# --minutes N       for all (10); each part has its share, and an item that hangs is ended
# --small           small models in the last two parts, as a rehearsal on CPUs needs
# --asan DIR        a build with the address sanitizer for the part about crashes
#
# Each item is a process of its own, with a limit; results are appended as they come, at most eight files. summary.md, the
# page, is written last. Needs bash, coreutils and awk; python3 with PyTorch if it is there. Nothing needs a network.
# Exit status: 0 if the page finds nothing wrong, 1 if it does, 2 for a wrong option.
export LC_ALL=C # a decimal point in every locale
unset CDPATH
set -uo pipefail
die() {
    echo "gpu.sh: $1" >&2
    exit 2
}
build=build/release device=${CLPRUNE_DEVICE:-} minutes=10 small='' asan='' output='' reference=''
while [ $# -gt 0 ]; do
    case $1 in
    --build | --device | --minutes | --asan | --output | --reference)
        [ $# -gt 1 ] || die "$1 needs a value"
        declare "${1#--}=$2"
        shift 2
        ;;
    --small) small=1 && shift ;;
    -h | --help) sed -n '2,/^export/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) die "no option $1; --help lists them" ;;
    esac
done
[ -n "$output$reference" ] || die "it needs --output, or --reference alone"
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || die "--minutes $minutes: not a whole number from 1 to 9999"
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(cd "$build/bin" 2>/dev/null && pwd) || die "no folder $build/bin; build first, or name it with --build"
[ -n "$output" ] && [ -n "$(ls -A "$output" 2>/dev/null)" ] && die "$output has files; name another folder"
work=$(mktemp -d) || die "no temporary folder"
trap 'rm -rf "$work"' EXIT
export CLPRUNE_CACHE_DIR=$work/cache CLPRUNE_TEST_SMALL=1
[ -z "$device" ] || export CLPRUNE_DEVICE=$device CLPRUNE_TEST_DEVICE=$device
unset CLPRUNE_DEBUG CLPRUNE_PRECISION CLPRUNE_VERBOSE CLPRUNE_TUNING
jobs=$(nproc) && [ "$jobs" -le 8 ] || jobs=8

# What runs: a model of each training program, as PROGRAM ARCH. The modes: a name, and what it sets.
models=(resmlp:resmlp_tiny mixer:mixer_tiny vit:vit_cifar_small resnet:resnet20 vgg:vgg11_bn_cifar
    gpt:gpt_micro gpt:llama_micro bert:bert_micro)
emulated=mma=emulated real=''
[ -z "$small" ] || emulated=kernels=tiled,mma=emulated real=kernels=tiled
mode() { # sets debug, precision
    case $1 in
    fp32) debug=$real precision=fp32 ;;
    fp32-clblast) debug=gemm=clblast precision=fp32 ;;
    fp32-apart) debug=${real:+$real,}arena=off precision=fp32 ;;
    fp32-poison) debug=${real:+$real,}forget=poison precision=fp32 ;;
    tf32) debug=${small:+$emulated} precision=tf32 ;;
    bf16) debug=${small:+$emulated} precision=bf16 ;;
    bf16-emulated) debug=$emulated precision=bf16 ;;
    esac
}

began=$EPOCHSECONDS share=0
# part PERCENT: until then, since the start, the items that follow have time.
part() { share=$1; }
left() { echo $((began + minutes * 60 * share / 100 - EPOCHSECONDS)); }

# item FILE LIMIT NAME COMMAND...: at most LIMIT seconds of ten minutes; appends what it, a program or a function, prints, and how it ends; a line of $work/ends for
# each.
item() {
    local file=$1 limit=$2 name=$3 code=0 start=$EPOCHSECONDS most cut=''
    shift 3
    most=$(left) limit=$((limit * minutes / 10))
    [ "$limit" -le "$most" ] || limit=$most cut=1
    if [ "$limit" -le 0 ]; then
        echo "$name: no time" >>"$work/ends"
        return 1
    fi
    timeout -k 2 "$limit" bash -c '"$@"' _ "$@" >"$work/$name.out" 2>&1 </dev/null || code=$?
    { echo "== $name: exit status $code, $((EPOCHSECONDS - start)) s" && tail -c 20000 "$work/$name.out" && echo; } >>"$output/$file"
    [ -z "$cut" ] || [ $code -ne 124 ] || code='no time' # the part's, not its own
    echo "$name: $code" >>"$work/ends"
    [ "$code" = 0 ]
}

# run_model MODE PROGRAM:ARCH OPTIONS...
run_model() {
    local mode=$1 program=${2%%:*} arch=${2#*:} debug precision
    shift 2
    mode "$mode"
    env ${debug:+CLPRUNE_DEBUG=$debug} "$bin/$program-train" --arch "$arch" --precision $precision --seed 1 --batch-size 4 --quiet "$@"
}
export -f run_model mode item left
export bin output work emulated real small began minutes share

# "tensor norm" of the gradients of a step, in the order of the backward pass; "loss" first.
norms() { # MODE PROGRAM:ARCH TO
    run_model "$1" "$2" --activations dense --steps 1 --lr 1e-9 --gradient-check 1 --summary-json "$work/$1.$2.json" >/dev/null &&
        awk -F'"' '/"train_loss"/ { sub(/.*: */, ""); sub(/,/, ""); loss = $0 }
            /"gradient_check"/ { inside = 1 } inside && /": \{/ { name = $2 }
            inside && /"norm"/ { sub(/.*: */, ""); list[++n] = name " " $0 }
            END { print "loss " loss; while (n > 0) print list[n--] }' "$work/$1.$2.json" >"$3"
}
losses() { # MODE PROGRAM:ARCH OPTIMIZER TO
    local rate=1e-3
    [ "$3" = adamw ] || rate=1e-2
    run_model "$1" "$2" --activations compact --optimizer "$3" --lr $rate --steps 20 --test-limit 8 --output-dir "$work/run.$1.$2.$3" \
        --overwrite --summary-json "$work/$1.$2.$3.json" >/dev/null &&
        awk '/"(train|test)_loss"/ { gsub(/[",:]/, ""); print $1, $2 }' "$work/$1.$2.$3.json" >"$4"
}
export -f norms losses

# all_models FUNCTION MODE FOLDER ARGUMENTS...: beside each other; FOLDER/MODE.PROGRAM:ARCH.ARGUMENTS.
all_models() {
    local function=$1 mode=$2 folder=$3
    shift 3
    export folder function mode
    printf '%s\n' "${models[@]}" | xargs -P "$jobs" -I{} bash -c \
        'item trainings.txt 60 "$function-$mode-{}${1:+-$1}" "${function}" "$mode" "{}" "$@" "$folder/$mode.{}${1:+.$1}"' _ "$@"
}
# ---- the reference, on CPUs -------------------------------------------------------------------------
if [ -z "$output" ]; then
    output=$work small=1 emulated=kernels=tiled,mma=emulated real='' minutes=999 share=100
    mkdir -p "$reference"
    rm -f "$work/ends"
    for mode in fp32 bf16-emulated; do
        all_models norms $mode "$reference"
        for optimizer in sgd adamw; do all_models losses $mode "$reference" $optimizer; done
    done
    grep -v ': 0$' "$work/ends" && die "runs of the reference failed: $(cat "$work/trainings.txt")"
    echo "gpu.sh: $(find "$reference" -type f | wc -l) files in $reference"
    exit 0
fi

mkdir -p "$output"
output=$(cd "$output" && pwd)
: >"$work/ends"

# ---- facts and probes -------------------------------------------------------------------------------
part 15
item facts.txt 30 info "$bin/clprune-info" ${device:+--device "$device"}
command -v clinfo >/dev/null && item facts.txt 20 clinfo clinfo
command -v nvidia-smi >/dev/null && item facts.txt 20 nvidia-smi nvidia-smi
place=$device
[[ $place =~ ^[0-9]+:[0-9]+$ ]] || place=$("$bin/clprune-info" --list 2>/dev/null | awk -v chosen="$(sed -n 's/^chosen device *//p' "$work/info.out")" '
    /^[0-9]+:[0-9]+ / { place = $1; sub(/^[^ ]* */, ""); if ($0 == chosen) { print place; exit } }')
for probe in $("$bin/gpu_probe"); do item facts.txt 10 "probe-$probe" "$bin/gpu_probe" "$probe" ${place:+"$place"}; done

# ---- tests of kernels -------------------------------------------------------------------------------
part 35
export CLPRUNE_TEST_KERNELS=${small:+tiled}
# Without a precision: tests that choose their own, or whose bounds are those of fp32.
for run in queue mma "gemm bf16" "conv2d bf16" "linear bf16" "attention bf16" optimizer bspmm token_loss "gemm tf32" "attention tf32" \
    "conv2d tf32" "linear tf32" gemm conv2d linear attention; do
    [ -x "$bin/test_${run%% *}" ] && echo "$run"
done | xargs -P "$jobs" -L 1 bash -c 'debug=$real; [ -z "$1" ] || mode $1
    item tests.txt 100 "test_$0${1:+-$1}" env ${1:+CLPRUNE_PRECISION=$1} ${debug:+CLPRUNE_DEBUG=$debug} CLPRUNE_TEST_SMALL=1 "$bin/test_$0"'

# ---- a step, and twenty -----------------------------------------------------------------------------
part 55
mkdir -p "$work/got"
for mode in fp32 bf16-emulated bf16 fp32-clblast fp32-apart fp32-poison; do all_models norms $mode "$work/got"; done
part 70
for optimizer in sgd adamw; do
    for mode in fp32 bf16-emulated bf16; do all_models losses $mode "$work/got" $optimizer; done
done

# ---- crashes ----------------------------------------------------------------------------------------
part 85
crash_models=(resnet:resnet18 resmlp:resmlp_s12 vit:deit_small)
[ -z "$small" ] || crash_models=(resnet:resnet20 resmlp:resmlp_tiny vit:vit_cifar_small)
crash() { # DEBUG PROGRAM:ARCH PRESET
    LD_PRELOAD=$bin/../lib/libgpu_backtrace.so env ${1:+CLPRUNE_DEBUG=$1} "$bin/${2%%:*}-train" --arch "${2#*:}" --activations "$3" --seed 1 \
        --batch-size 32 --steps 3 --quiet
}
export -f crash
for round in 1 2 3 4; do
    for arm in default arena=off forget=poison gemm=tiled; do
        for model in "${crash_models[@]}"; do
            preset=compact && [ "${model%%:*}" != resnet ] || preset=dense
            item crashes.txt 20 "crash-$arm-$model-$round" crash "${arm#default}" "$model" $preset
        done
    done
    [ -z "$asan" ] || item crashes.txt 40 "crash-asan-$round" env ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0:use_sigaltstack=0 \
        "$asan/bin/resmlp-train" --arch resmlp_tiny --activations compact --steps 3 --quiet
done

# ---- times ------------------------------------------------------------------------------------------
part 100
time_models=(resmlp:resmlp_s12:128 resnet:resnet18:128 vit:deit_small:128 gpt:gpt2:8)
[ -z "$small" ] || time_models=(resmlp:resmlp_tiny:32 gpt:gpt_micro:8)
precision=${small:+fp32}
for model in "${time_models[@]}"; do
    IFS=: read -r program arch batch <<<"$model"
    for preset in dense compact; do
        item times.txt 25 "time-$arch-$preset" "$bin/$program-train" --arch "$arch" --activations $preset --precision "${precision:-bf16}" \
            --batch-size "$batch" --steps 12 --seed 1 --quiet --summary-json "$work/time-$arch-$preset.json"
    done
    CLPRUNE_VERBOSE=2:$work/commands.csv item times.txt 15 "commands-$arch" "$bin/$program-train" --arch "$arch" --activations compact \
        --precision "${precision:-bf16}" --batch-size "$batch" --steps 1 --seed 1 --quiet
    [ ! -f "$work/commands.csv" ] || sed "s/^/$arch,/" "$work/commands.csv" >>"$output/commands.csv"
    rm -f "$work/commands.csv"
    if python3 -c 'import torch' 2>/dev/null && [ -z "$small" ]; then
        for how in '' --compile; do
            item times.txt 40 "torch-$arch$how" python3 "$root/examples/resmlp/results/torch_step.py" --arch "$arch" --batch-size "$batch" \
                --steps 10 --bf16 $how --device cuda
        done
    fi
done

# ---- the page ---------------------------------------------------------------------------------------
# compare WANT GOT BOUND: the first line whose value is off, and by how much.
compare() {
    awk -v bound="$3" 'NR == FNR { want[$1] = $2; next } { off = $2 - want[$1]; if (off < 0) off = -off; size = want[$1] < 0 ? -want[$1] : want[$1]
        if (!($1 in want)) next
        if (!(off <= bound * size + 1e-7)) { printf "%s: %s, expected %s\n", $1, $2, want[$1]; exit } }' "$1" "$2"
}
# The kernels that write a gradient, by the name of its tensor and the layers of the model.
kernels_of() { # PROGRAM:ARCH TENSOR
    case $2 in
    loss) echo "the forward pass" ;;
    *conv*.weight | *downsample.0.weight | features.*.weight) echo "conv_dw_*, or conv_dx_* behind it" ;;
    *bias) echo "bias_gradient, or sums in the kernel of the layer behind it" ;;
    *norm*.weight | *bn*.weight | *ln_*.weight | *alpha | *beta | *ls[12]) echo "the sums of the norm, affine or layerscale behind it" ;;
    *wte* | *wpe* | *embed*) echo "embedding_backward, token_head" ;;
    *) echo "gemm_* of dw = dy^T x, or of dx behind it" ;;
    esac
}
off=$work/off
: >"$off"
for file in "$work"/got/*; do
    name=${file##*/} mode=${name%%.*}
    case $mode in fp32*) of=fp32 bound=0.002 ;; *) of=bf16-emulated bound=0.05 ;; esac
    case $name in *.sgd | *.adamw) bound=0.1 ;; esac
    want=${reference:-$work/got}/$of.${name#*.}
    [ -f "$want" ] || continue
    first=$(compare "$want" "$file" $bound)
    [ -z "$first" ] || echo "$mode ${name#*.} $first (see $(kernels_of "${name#*.}" "${first%%:*}"))" >>"$off"
done
any() { grep -q "$1" "$2"; }
right() { ! any "^$1 " "$off" && ls "$work/got/$1".* >/dev/null 2>&1; } # MODE: it ran, and nothing is off
good() { grep "^$1" "$work/ends" | grep -c ': 0$'; }
done_of() { grep "^$1" "$work/ends" | grep -vc ': no time$'; }
ends_badly() { grep "^$1" "$work/ends" | grep -v ': \(0\|3\|77\|no time\)$'; }
{
    echo "# $(sed -n 's/^chosen device *//p' "$work/info.out"), $(date -u +%Y-%m-%d), commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
    echo
    echo "| item | result |"
    echo "|---|---|"
    grep '^probe' "$work/ends" | while IFS=: read -r name code; do
        echo "| $name | $(case ${code# } in 0) echo yes ;; 3) echo refused ;; 1) echo "**wrong**" ;; 124 | 137) echo "**hangs**" ;; *) echo "**crashes, $code**" ;; esac): $(tail -n 1 "$work/$name.out") |"
    done
    echo "| tests | $(good test) of $(done_of test) passed; $(ends_badly test | tr '\n' ';') |"
    echo "| norms of gradients | $(good norms) of $(done_of norms) runs; off: $(grep -vc '\.\(sgd\|adamw\) ' "$off") |"
    echo "| losses after 20 steps | $(good losses) of $(done_of losses) runs; off: $(grep -c '\.\(sgd\|adamw\) ' "$off") |"
    for arm in default arena=off forget=poison gemm=tiled asan; do
        grep -q "^crash-$arm" "$work/ends" && echo "| three steps, $arm | $(good "crash-$arm") of $(done_of "crash-$arm") ended well |"
    done
    for json in "$work"/time-*.json; do
        [ -f "$json" ] && echo "| $(basename "$json" .json) | $(awk '/"step_ms"/ { gsub(/[",]/, ""); print $2 " ms" }' "$json") |"
    done
    for out in "$work"/torch-*.out; do [ -f "$out" ] && echo "| $(basename "$out" .out) | $(tail -n 1 "$out") |"; done
    echo
    echo "## First tensors that are off, in the order of the backward pass"
    echo
    if [ -s "$off" ]; then sed 's/^/- /' "$off"; else echo "None."; fi
    echo
    echo "## What it means"
    echo
    {
        any '^fp32 ' "$off" && echo "- fp32 is off: a kernel of the tiled family, or its shape; see the kernels named above and tests.txt."
        any '^bf16 ' "$off" && right bf16-emulated && echo "- Real tensor cores are off, emulated ones are not: the PTX path, or the driver's compiler."
        any '^bf16-emulated ' "$off" && right fp32 && echo "- bf16 is off also in emulation, fp32 is right: rounding, or the shape of the tensor-core kernels."
        any '^fp32-clblast ' "$off" && right fp32 && echo "- Only CLBlast's products are off."
        any '^fp32-poison ' "$off" && right fp32 && echo "- Only the poisoned run is off: something reads memory that nobody wrote."
        any '^fp32 ' "$off" && right fp32-apart && echo "- Right with arena=off: places of the arena overlap while both are used."
        [ -n "$(ends_badly 'crash-default')" ] && [ -z "$(ends_badly 'crash-arena=off')" ] && [ "$(done_of 'crash-arena=off')" -gt 0 ] && echo "- Crashes end with arena=off: the arena, or the driver's windows of it."
        [ -n "$(ends_badly 'crash-default')" ] && [ -z "$(ends_badly 'crash-gemm=tiled')" ] && [ "$(done_of 'crash-gemm=tiled')" -gt 0 ] && echo "- Crashes end without CLBlast."
        [ -n "$(ends_badly crash)" ] && echo "- Some runs crash or hang: crashes.txt has their stacks."
        [ -n "$(ends_badly probe)" ] && echo "- The driver itself fails a probe, without this library."
        [ -n "$(ends_badly test)" ] && echo "- Tests failed: $(ends_badly test | cut -d: -f1 | tr '\n' ' ')"
        [ -n "$(ends_badly 'norms\|losses')" ] && echo "- Runs failed: $(ends_badly 'norms\|losses' | tr '\n' ' '); trainings.txt has their messages."
    } >"$work/meaning"
    if [ -s "$work/meaning" ]; then cat "$work/meaning"; else echo "Nothing is wrong that this script can see."; fi
    grep -q 'no time$' "$work/ends" && echo "- Without time: $(grep -c 'no time$' "$work/ends") items."
} >"$output/summary.md"
cat "$output/summary.md"
[ ! -s "$work/meaning" ]
