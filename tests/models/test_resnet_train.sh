#!/bin/sh
# resnet-train from outside: its options, planned memory, and resuming to the same bits, running statistics
# included. What all training programs share is tested by test_trainer.sh.
#
#     test_resnet_train.sh path/to/resnet-train
#
# Planned memory is what a run takes. A resumed run exports the same file, with as many batches as steps.
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1")
cd "$folder" || exit 1
need_device "$program"

# run arguments...: the program succeeds and prints nothing on stderr.
run() {
    ends 0 "" "$program" "$@"
}

# refuse CODE PATTERN arguments...: the program ends with CODE and one line with PATTERN.
refuse() {
    want=$1 pattern=$2
    shift 2
    ends "$want" "^resnet-train: .*$pattern" "$program" "$@"
}

# Two epochs of three steps, the last with fewer images; images of an odd size.
small="--arch resnet20 --image-size 17 --train-limit 10 --test-limit 6 --batch-size 4 --optimizer sgd --lr 0.05"

printf 'layer1.0 conv1 recomputed\nlayer1.1 out pruned sparsity=0.5\n* bn? dense\nnet conv1 quantised bits=2\n' >special
refuse 4 "special:3: .* has the tensors .*, not 'bn?'" $small --keep-file special --plan # merged into relu1 and out
sed 3d special >some
run $small --activations exact --keep-file some --plan
run $small --arch resnet18 --image-size 32 --activations pruned --sparsity 0.5 --keep-file some --plan
printf 'layer1.0 conv1 mask\n' >wrong
refuse 4 "wrong:1: dense, pruned, quantised, pooled or recomputed is expected, not 'mask'" $small --keep-file wrong --plan
printf 'block.0 relu1 dense\n' >wrong
refuse 4 "wrong:1: no tensor is at 'block.0'; there are net, layer1.0" $small --keep-file wrong --plan
printf 'layer1.0 relu1 pruned bits=4\n' >wrong
refuse 4 "wrong:1: bits belongs to quantised, not to pruned" $small --keep-file wrong --plan
refuse 2 "image-size: .5000. is not" $small --image-size 5000 --plan

for form in dense exact "pooled --pool 2" "pruned --sparsity 0.5 --block 4" "compact --code-bits 4"; do
    run $small --plan --activations $form
    cp out plan
    grep -q "^backward layer3.2 " plan || fail "a plan without its parts: $form"
    run $small --epochs 2 --output-dir whole --overwrite --memory-report --activations $form
    [ "$(bytes '  arena' 1 plan)" = "$(bytes arena 1 out)" ] ||
        fail "the arena is not as planned: $form: $(cat plan out)"
    [ "$(bytes 'saved activations' 1 plan)" = "$(bytes 'activations   ' 1 out)" ] ||
        fail "saved activations are not as planned: $form"
    [ "$form" != dense ] || dense=$(bytes together 1 out)
    awk -v dense="$dense" '/^together/ { saved = 100 * (1 - $(NF - 1) / dense) }
        /^saved, %/ { rows++; bad += ($NF - saved) ^ 2 > 0.01 }
        END { exit bad || rows != 1 }' out ||
        fail "what is saved of the $dense bytes of dense: $form: $(cat out)"
    case $form in
    pruned*) ;;
    *) [ "$(bytes 'pruned: blocks' 1 out)" = 0 ] || fail "pruned blocks in $form: $(cat out)" ;;
    esac
    CLPRUNE_DEBUG=forget=poison run $small --epochs 2 --output-dir poisoned --overwrite --activations $form
    results whole >want
    results poisoned >got
    cmp -s want got || fail "what was forgotten is missed: $form: $(cat want got)"
    rm -rf part
    run $small --epochs 2 --output-dir part --steps 4 --activations $form # within the second epoch
    run --resume part/last.ckpt
    results part >got
    cmp -s want got || fail "a resumed run differs: $form: $(cat want got)"
done

# Each column of a plan has a name of its own.
run $small --arch resnet18 --image-size 32 --plan --plan-csv plan.csv
head -n 1 plan.csv | tr , '\n' >columns
[ -z "$(sort columns | uniq -d)" ] && grep -qx 'conv1 (activations)\|conv1' columns && grep -qx 'slot' columns ||
    fail "columns of a plan: $(cat columns)"

# exact has dense's gradients, but for rounding (a NaN is null in the summary). Those of compact are off.
run $small --steps 3 --activations exact --gradient-check 1 --summary-json summary
awk '/"relative_error"/ { rows++; bad += $2 !~ /^[0-9]/ || $2 + 0 > 1e-5 } END { exit bad || rows != 65 }' summary ||
    fail "exact is not: $(cat summary)"
run $small --steps 3 --activations compact --gradient-check 1 --summary-json summary
awk '/"relative_error"/ { off += $2 + 0 > 1e-3 && $2 + 0 < 1 } END { exit off < 50 }' summary ||
    fail "gradients of compact are dense's: $(cat summary)"

# Comparing gradients leaves what is exported alone, running statistics too.
run $small --steps 1 --export plain.st
run $small --steps 1 --gradient-check 1 --export compared.st
cmp -s plain.st compared.st || fail "--gradient-check changes what --export writes"

# Counts of batches: as many as steps, on top of those of --import, also in resumed runs.
counts() { # counts FILE: of the first batch norm, and how many tensors of counts
    length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    echo $(od -An -t d8 -j $((8 + length)) -N 8 "$1") $(grep -ao num_batches_tracked "$1" | wc -l)
}
run $small --epochs 2 --output-dir whole --overwrite --export whole.st
rm -rf part
run $small --epochs 2 --output-dir part --steps 4
run --resume part/last.ckpt --export part.st
cmp -s whole.st part.st || fail "a resumed run exports something else"
[ "$(counts whole.st)" = "6 21" ] || fail "counts of 6 steps: $(counts whole.st)"
run --resume part/last.ckpt --test-only --export same.st
cmp -s whole.st same.st || fail "a test changes what is exported"
run $small --import whole.st --test-only --export same.st

# A batch norm over one value: a test runs, training names the batch, and a limit looks for a batch that runs.
one="--arch resnet18 --image-size 32 --test-limit 1 --no-augment"
refuse 2 "over 1 of 32-pixel images (--batch-size 4, --train-limit 5): the batch norm of layer4.0.bn1.weight needs at least 2" \
    $one --train-limit 5 --batch-size 4 --plan
run $one --train-limit 5 --activations dense --memory-limit 1G --plan
run $one --train-limit 2 --batch-size 2 --epochs 1 --steps 1 --export one.st
run $one --import one.st --batch-size 1 --test-only
cmp -s whole.st same.st || fail "what is imported and exported is not the same"
run $small --epochs 2 --output-dir whole --overwrite --import whole.st --export more.st
[ "$(counts more.st)" = "12 21" ] || fail "counts of 6 steps more: $(counts more.st)"
rm -rf part
run $small --epochs 2 --output-dir part --steps 4 --import whole.st
run --resume part/last.ckpt --export part.st
cmp -s more.st part.st || fail "a resumed run with --import exports something else: $(counts part.st)"
sed '1s/"bn1.num_batches_tracked":{"dtype":"I64"/"bn1.num_batches_tracked":{"dtype":"U64"/' whole.st >wrong
refuse 4 'wrong: tensor "bn1.num_batches_tracked" is U64 of shape \[\]; a count is I64 of shape \[\]' \
    $small --steps 1 --import wrong

# auto keeps within its limit, and a resumed run keeps its choice.
auto="--arch resnet20 --image-size 17 --train-limit 4 --test-limit 4 --batch-size 4 --optimizer sgd --lr 0.05"
refuse 5 "auto, batch 4 take [0-9]* bytes at least" $auto --activations auto --memory-limit 1M
least=$(sed -n 's/.* take \([0-9]*\) bytes at least.*/\1/p' err)
run $auto --plan --activations exact-tokens
exact=$(bytes "peak of everything" 1 out)
auto="$auto --activations auto --memory-limit $(((least + exact) / 2))"
run $auto --epochs 2 --output-dir chosen --memory-report
[ "$(bytes total 1 out)" -le $(((least + exact) / 2)) ] || fail "auto is over its limit: $(cat out)"
grep -q 'layer2.0\..*\*' out || fail "no form of a tensor of layer2.0 is chosen: $(cat out)"
# dw alone depends on the input of a convolution: the errors of pooled inputs touch no other tensor.
awk -F, '$1 == 1 && $2 ~ /relu1/ && $3 ~ /pooled/ { rows++; bad += !($5 > 0.01 && $5 < 2) }
    END { exit bad || !rows }' chosen/auto.csv ||
    fail "errors of pooled inputs: $(cat chosen/auto.csv)"
results chosen >want
run $auto --epochs 2 --output-dir again --steps 1
run --resume again/last.ckpt
results again >got
cmp -s want got || fail "a resumed run of auto differs: $(cat want got)"

[ $failures = 0 ] && echo "all passed"
exit $((failures > 0))
