#!/usr/bin/env bash
# Makes figures and tables of two papers again, as CSV and PNG:
#
#     tools/paper.sh FIGURE... [--data DIR] [--full] [--output-dir OUT] [--programs DIR] [-- OPTION...]
#
# Of arXiv 2311.16883 (activations pruned in blocks):
#     table1        memory of ResMLP-S12 by component         from the plan
#     table2        overhead of BSR over 1 - s                from the library's own matrices
#     table3        what pruning saves of the activations     from the plan
#     fig4 fig5     time of the block-sparse product          measured
#     fig7          training loss, one block a row            trained
#     fig8          accuracy over sparsity and block size     trained, two seeds
#     fig9          training loss of larger inputs, b = 16    trained
#     fig10         time of an epoch over the batch size      trained
#     fig11 table4  loss and accuracy over the batch size     trained, two seeds
# Of arXiv 2409.11902 (activations pooled):
#     pool-memory   peak memory of ResNet-18, cells of 2, 4   from the plan
#     pool-cosines  cosine of gradients, layer by layer       trained
#     pool-epochs   accuracy over longer schedules            trained
# `all` is all of them: 65 minutes on two cores, the build of the release among them.
#
# --data is a folder as of the trainers'; without it, images are generated. The small setting trains resmlp_tiny with
# patches of 8 on 10000 images for 6 epochs, for fig9 patches of 4 on 20000 for 4, and resnet20 on 25000 for 4.
# --full is the papers' setting, for a GPU: ResMLP-S12 on CIFAR for 100 epochs, and with --data of ImageNet fig9,
# pool-cosines and pool-epochs. OPTIONs of the trainer come last and win: -- --epochs 20 --precision bf16.
#
# OUT (default: paper) gets NAME.csv and NAME.png; a column or a line `paper` has what the paper reports. Runs are in
# OUT/runs: finished ones are not made again, and interrupted ones continue, as tools/study.sh says. Other options than
# those of runs that are there need another OUT. --programs names the folder of clprune-bench and the trainers;
# without it, packages are installed and the release is built. Without gnuplot there are no PNG files.
#
# Exit codes: 0; 1 a figure failed, 2 the command line is wrong; 130 after Ctrl-C.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; }
wrong() { echo "paper: $*" >&2; exit 2; }

known="table1 table2 table3 fig4 fig5 fig7 fig8 fig9 fig10 fig11 table4 pool-memory pool-cosines pool-epochs"
figures=() data=generated full='' out=paper programs=''
while [ $# -gt 0 ]; do
    case $1 in --data | --output-dir | --programs) [ -n "${2-}" ] || wrong "$1 needs a folder" ;; esac
    case $1 in
    -h | --help) usage; exit 0 ;;
    --data) data=$2; shift ;;
    --output-dir) out=$2; shift ;;
    --programs) programs=$2; shift ;;
    --full) full=yes ;;
    --) shift; break ;;
    all) read -r -a figures <<<"$known" ;;
    -*) wrong "no option $1; see --help" ;;
    *) case " $known " in *" $1 "*) figures+=("$1") ;; *) wrong "no figure $1; there are: $known all" ;; esac ;;
    esac
    shift
done
[ ${#figures[@]} -gt 0 ] || { usage | sed -n 1,3p >&2; exit 2; }
options=("$@") # of the trainers
[ -d "$data" ] || [ "$data$full" = generated ] || wrong "no folder $data${full:+; --full needs --data}"
[ "$data" = generated ] || data=$(realpath -- "$data")

if [ -z "$programs" ]; then
    (cd "$here" && tools/install-packages.sh libopenblas-dev && cmake --preset release >/dev/null &&
        cmake --build --preset release --parallel "$(nproc)" --target clprune-bench resmlp-train resnet-train)
    programs=$here/build/release/bin
fi
programs=$(cd "$programs" && pwd)
mkdir -p "$out/runs"
out=$(cd "$out" && pwd)
# Gives each PoCL thread a core of its own; two on one core halve the speed. PoCL aborts if a core is
# not allowed, as in many containers. OpenMP's variables would change what nproc prints.
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" != "$(nproc --all)" ] || export POCL_AFFINITY=${POCL_AFFINITY:-1}

# plot NAME SCRIPT [VARIABLES]: NAME.png from NAME.csv by a script of tools/paper
plot() {
    command -v gnuplot >/dev/null || return 0
    (cd "$out" && gnuplot -e "name='$1'; ${3-}" "$here/tools/paper/$2.gp")
}

# study NAME TRAINER OPTION...: runs of a study whose lines are on stdin, in OUT/runs
study() {
    local file=$out/runs/$1.study
    cat >"$file"
    "$here/tools/study.sh" "$file" "$programs/$2" "$out/runs" "${@:3}" "${options[@]}" >&2
}

# The settings of ResMLP on CIFAR. The small one has blocks of up to 128, as many as features.
if [ -n "$full" ]; then
    blocks="1 4 8 16 32 64 128 384" sparsities="10 20 30 40 50 60 70 80 90"
    resmlp=(--arch resmlp_s12 --patch-size 4 --epochs 100 --warmup-epochs 5)
else
    blocks="1 4 16 64 128" sparsities="30 50 60 70 80 90"
    resmlp=(--arch resmlp_tiny --patch-size 8 --epochs 6 --train-limit 10000)
fi
resmlp+=(--optimizer lamb --data "$data")
row=${blocks##* } # one block a row
batches="16 32 64 128"

# curves ARM...: a line for each epoch of the first seed's runs
curves() {
    echo "arm,epoch,train_loss"
    local arm
    for arm; do
        awk -F, -v arm="$arm" 'NR > 1 { print arm "," $1 "," $4 }' "$out/runs/$arm-1/log.csv"
    done
}

# grid SEEDS BLOCKS: dense and pruned runs
grid() {
    printf 'options --batch-size 32\nseeds %s\narm dense --activations dense\n' "$1"
    local b s
    for b in $2; do
        for s in $sparsities; do
            echo "arm b$b-s$s --activations paper --sparsity 0.$s --block $b"
        done
    done
}

# plan TRAINER OPTION...; bytes_of NAME PLAN: those of a line
plan() { "$programs/$1" --plan --image-size 224 --classes 1000 --batch-size 32 --train-limit 32 --test-limit 32 "${@:2}"; }
bytes_of() { sed -n "s/^ *$1  *\([0-9]*\) .*/\1/p" <<<"$2"; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }

table1() {
    local plan component name paper
    plan=$(plan resmlp-train --arch resmlp_s12 --optimizer lamb --activations dense)
    {
        echo "component,mib,paper_mib"
        while IFS=, read -r component name paper; do
            echo "$component,$(mib "$(bytes_of "$name" "$plan")"),$paper"
        done <<<"input,input,18.5
model,parameters,59.6
gradients,gradients,
optimizer,optimizer,121.1
activations,arena: the peak of both,1599.2
total,peak of everything,1798.4"
    } >"$out/table1.csv"
    plot table1 bars "title='Memory of a step of ResMLP-S12, dense, 224 px, batch 32'; ylabel='MiB'"
}

# Of one sample of 196 x 384: what the matrix takes more than 1 - s of the dense one.
table2() {
    "$programs/clprune-bench" prune --batch 1 --tokens 196 --in 384 --out 16 --block 1,4,8,16,32,64,128,384 \
        --sparsity 0,0.2,0.4,0.6,0.8,1 --repeat 1 --json - |
        awk -F, '
            FNR == NR { if (FNR > 1) paper[$1, $2 + 0] = $3; next }
            { for (i = 1; i <= NF; i++) { split($i, pair, ":"); gsub(/["{}]/, "", pair[1]); value[pair[1]] = pair[2] }
              dense = 196 * 384 * 4; s = value["sparsity"]; b = value["block"]
              if (FNR == 1) print "block,sparsity,overhead_percent,paper_percent"
              printf "%d,%g,%.2f,%s\n", b, s, 100 * ((value["bytes"] - dense) / dense - (1 - s)), paper[b, s + 0] }
            ' "$here/tools/paper/table2_reported.csv" - >"$out/table2.csv"
    plot table2 overhead
}

table3() {
    local s12=(resmlp-train --arch resmlp_s12 --optimizer lamb) plan dense saved s b paper
    plan=$(plan "${s12[@]}" --activations dense)
    dense=$(bytes_of 'saved activations' "$plan")
    echo "sparsity,block,saved_mib,less_mib,paper_less_mib" >"$out/table3.csv"
    while read -r s b paper; do
        plan=$(plan "${s12[@]}" --activations paper --sparsity "$s" --block "$b")
        saved=$(bytes_of 'saved activations' "$plan")
        echo "$s,$b,$(mib "$saved"),$(mib $((dense - saved))),$paper" >>"$out/table3.csv"
    done <<<"0.6 16 365.2
0.6 32 384.2
0.6 64 393.9
0.7 16 437.7
0.7 32 456.3
0.7 64 462.0
0.8 16 516.4
0.8 32 524.1
0.8 64 528.2"
    (cd "$out" && awk -F, 'NR == 1 { print "setting,mib,paper_mib" } NR > 1 { print $1 " b=" $2 "," $4 "," $5 }' table3.csv) \
        >"$out/runs/table3.csv"
    plot table3 bars "title='Activations that pruning saves, ResMLP-S12, 224 px, batch 32'; ylabel='MiB'; file='runs/table3.csv'"
}

fig4() { "$programs/clprune-bench" figures --repeat 5 --output-dir "$out"; }
fig5() { fig4; }

fig7() {
    grid 1 "$row" | study fig7 resmlp-train "${resmlp[@]}"
    # shellcheck disable=SC2046,SC2086 # words
    curves dense $(printf "b$row-s%s " $sparsities) >"$out/fig7.csv"
    plot fig7 curves "title='Training loss, blocks of a whole row (b = $row)'"
}

fig8() {
    grid "1 2" "$blocks" | study fig8 resmlp-train "${resmlp[@]}"
    awk -F, 'NR == 1 { print "block,sparsity,top1_percent,beside_dense,runs" }
        NR > 1 { if ($1 == "dense") print "0,0," $3 ",0.00," $2
                 else { split($1, part, "-"); print substr(part[1], 2) "," substr(part[2], 2) "," $3 "," sprintf("%.2f", $5) "," $2 } }
        ' "$out/runs/table.csv" >"$out/fig8.csv"
    plot fig8 heat
}

fig9() {
    local own s
    if [ -n "$full" ]; then
        own=(--arch resmlp_s12 --epochs 100 --warmup-epochs 5)
    else
        own=(--arch resmlp_tiny --epochs 4 --train-limit 20000)
    fi
    {
        printf '%s\n' "options --batch-size 32" "seeds 1" "arm tokens-dense --activations dense"
        for s in 60 70 80; do
            echo "arm tokens-s$s --activations paper --sparsity 0.$s --block 16"
        done
    } | study fig9 resmlp-train "${own[@]}" --optimizer lamb --data "$data"
    curves tokens-dense tokens-s60 tokens-s70 tokens-s80 >"$out/fig9.csv"
    plot fig9 curves "title='Training loss, b = 16'"
}

# batch_runs SEEDS: dense, and half of the blocks pruned
batch_runs() {
    printf 'seeds %s\n' "$1"
    local n
    for n in $batches; do
        echo "arm batch$n --batch-size $n --activations dense"
        echo "arm batch$n-half --batch-size $n --activations paper --sparsity 0.5 --block 16"
    done
}

# The time of an epoch: the images of a run's epoch over the median of its epochs' images a second.
fig10() {
    batch_runs 1 | study fig10 resmlp-train "${resmlp[@]}"
    local n arm images
    {
        echo "batch,seconds,seconds_half_pruned"
        for n in $batches; do
            printf '%s' "$n"
            for arm in batch$n batch$n-half; do
                images=$(sed -n 's/.*"train_images": *\([0-9]*\).*/\1/p' "$out/runs/$arm-1/summary.json")
                tail -n +2 "$out/runs/$arm-1/log.csv" | cut -d, -f7 | sort -g |
                    awk -v images="$images" '{ rate[NR] = $1 } END { printf ",%.2f", images / rate[int((NR + 1) / 2)] }'
            done
            echo
        done
    } >"$out/fig10.csv"
    plot fig10 batches "title='Time of an epoch'; ylabel='seconds'; columns='2 3'; names='dense s=0.5'"
}

fig11() {
    batch_runs 1 | study fig11 resmlp-train "${resmlp[@]}"
    # shellcheck disable=SC2046 # words
    curves $(batch_runs 1 | sed -n 's/^arm \([^ ]*\).*/\1/p') >"$out/fig11.csv"
    plot fig11 curves "title='Training loss by batch size, dense and s = 0.5 (b = 16)'"
}

table4() {
    batch_runs "1 2" | study table4 resmlp-train "${resmlp[@]}"
    awk -F, 'NR > 1 { top1[$1] = $3 } END {
            print "batch,dense_percent,half_pruned_percent,paper_dense,paper_half"
            split("16 32 64 128", batch, " "); split("82 89 91 90", dense, " "); split("82 89 90 90", half, " ")
            for (i = 1; i <= 4; i++)
                print batch[i] "," top1["batch" batch[i]] "," top1["batch" batch[i] "-half"] "," dense[i] "," half[i] }
        ' "$out/runs/table.csv" >"$out/table4.csv"
    plot table4 batches \
        "title='Accuracy by batch size'; ylabel='test top-1 (%)'; columns='2 3 4 5'; names='dense s=0.5 paper,_dense paper,_s=0.5'"
}

pool_memory() {
    local form plan saved peak first_saved='' first_peak='' reported
    echo "activations,saved_mib,activations_percent_less,peak_mib,peak_percent_less,paper_peak_percent_less" >"$out/pool-memory.csv"
    for form in "dense" "pooled --pool 2" "pooled --pool 4"; do
        # shellcheck disable=SC2086 # words
        plan=$(plan resnet-train --arch resnet18 --optimizer sgd --activations $form)
        saved=$(bytes_of 'saved activations' "$plan")
        peak=$(bytes_of 'peak of everything' "$plan")
        first_saved=${first_saved:-$saved} first_peak=${first_peak:-$peak}
        case $form in dense) reported= ;; *2) reported=29 ;; *4) reported=36 ;; esac
        awk -v form="${form/ --pool/}" -v s="$saved" -v s0="$first_saved" -v p="$peak" -v p0="$first_peak" -v r="$reported" \
            'BEGIN { printf "%s,%.1f,%.1f,%.1f,%.1f,%s\n", form, s / 2^20, 100 * (1 - s / s0), p / 2^20, 100 * (1 - p / p0), r }'
    done >>"$out/pool-memory.csv"
    (cd "$out" && awk -F, 'NR == 1 { print "setting,less,paper_less" } NR > 2 { print $1 "," $5 "," $6 }' pool-memory.csv) \
        >"$out/runs/pool-memory.csv"
    plot pool-memory bars \
        "title='Peak memory of ResNet-18, 224 px, batch 32'; ylabel='% less than dense'; file='runs/pool-memory.csv'"
}

if [ -n "$full" ]; then
    resnet=(--arch resnet18 --optimizer sgd --lr 0.1 --batch-size 256 --data "$data") base=90
else
    resnet=(--arch resnet20 --optimizer sgd --lr 0.1 --batch-size 128 --train-limit 25000 --data "$data") base=4
fi

# cosines CELL: of a run's weight gradients, tensor by tensor
cosines() {
    local summary=$out/runs/cosines-$1.json
    "$programs/resnet-train" "${resnet[@]}" --activations pooled --pool "$1" --steps 100 --gradient-check 4 --quiet \
        --output-dir "$out/runs/cosines-$1" --overwrite --summary-json "$summary" "${options[@]}" >&2
    awk '/"gradient_check"/ { inside = 1 }
        inside && /: \{/ { tensor = $1; gsub(/[":]/, "", tensor) }
        inside && $1 == "\"cosine\":" && tensor ~ /(conv[0-9]|downsample\.0)\.weight$/ {
            sub(/,/, "", $2); print tensor "," $2 }' "$summary"
}
pool_cosines() {
    cosines 2 >"$out/runs/cosines-2.csv"
    cosines 4 >"$out/runs/cosines-4.csv"
    { echo "convolution,pooled_2,pooled_4" && join -t, --nocheck-order "$out/runs/cosines-2.csv" "$out/runs/cosines-4.csv"; } \
        >"$out/pool-cosines.csv"
    plot pool-cosines cosines
}

# Schedules of 1, 1.5 and 2 times the epochs.
pool_epochs() {
    local form epochs
    {
        echo "seeds 1"
        for epochs in $base $((base * 3 / 2)) $((base * 2)); do
            for form in "dense" "pooled --pool 2" "pooled --pool 4"; do
                echo "arm e$epochs-${form// --pool /} --epochs $epochs --activations $form"
            done
        done
    } | study pool-epochs resnet-train "${resnet[@]}"
    awk -F, -v base="$base" '
        NR > 1 { top1[$1] = $3 }
        END { print "epochs,dense_percent,pooled_2_percent,pooled_4_percent"
              for (i = 2; i <= 4; i++) { e = base * i / 2
                  print e "," top1["e" e "-dense"] "," top1["e" e "-pooled2"] "," top1["e" e "-pooled4"] } }
        ' "$out/runs/table.csv" >"$out/pool-epochs.csv"
    plot pool-epochs batches "title='Accuracy of pooled activations over the length of the schedule'; xlabel='epochs'; \
        ylabel='test top-1 (%)'; columns='2 3 4'; names='dense pooled,_2 pooled,_4'"
}

failed=() both=''
for figure in "${figures[@]}"; do
    case $figure in
    fig4 | fig5) [ -z "$both" ] || continue; both=yes ;; # one call of clprune-bench makes both
    esac
    echo "== $figure"
    set +e # bash would not end a function after ||
    (set -e; "${figure/-/_}")
    code=$?
    set -e
    [ $code -le 128 ] || exit $code
    [ $code = 0 ] || failed+=("$figure")
done
[ ${#failed[@]} = 0 ] || { echo "paper: failed: ${failed[*]}" >&2; exit 1; }
