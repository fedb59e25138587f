#!/bin/sh
# gpt-train, vit-train and bert-train from outside: options of token models, reports in their words, planned memory, resuming to the
# same bits. What all training programs share is tested by test_trainer.sh.
#
#     test_gpt_train.sh path/to/gpt-train path/to/vit-train path/to/bert-train
#
# Planned memory is what a run takes. A resumed run exports the same file. Texts and tokens that do not fit are refused by
# name. A sample is the same twice.
. "$(dirname "$0")/../support/program.sh"
gpt=$(whole "$1") vit=$(whole "$2") bert=$(whole "$3")
cd "$folder" || exit 1
need_device "$gpt"

# run PROGRAM arguments...: the program succeeds and prints nothing on stderr.
run() {
    ends 0 "" "$@"
}

# refuse CODE PATTERN arguments...: gpt-train, or $refuses, ends with CODE and one line with PATTERN.
refuses=$gpt
refuse() {
    want=$1 pattern=$2
    shift 2
    ends "$want" "^${refuses##*/}: .*$pattern" "$refuses" "$@"
}

seq 1000 | head -c 600 >text

# ---- options ---------------------------------------------------------------------------------------
run "$gpt" --help
cp out help
for option in arch context data train-limit test-limit no-augment dropout beta2 sample prompt temperature top-p import export; do
    [ "$(grep -cE -- "^  --$option( |$)" help)" = 1 ] || fail "--help does not say --$option once"
done
for option in image-size classes skip-broken; do
    grep -q -- "^  --$option\\>" help && fail "--help says --$option"
    refuse 2 "unknown or ambiguous option '--$option'" --$option 1
done
tr -s ' \n' ' ' <help >words
for words in "highest learning rate; default: sgd 0.05, adamw 0.001, lamb 0.005" "--batch-size N default 16" \
    "0: off; default 1" "linear warm-up; default 0.1, at most --epochs" "default: sgd 0.0005, adamw 0.1, lamb 0.2"; do
    grep -qF -- "$words" words || fail "--help does not say '$words'"
done
run "$vit" --help
for option in sample dropout; do
    grep -q -- "^  --$option\\>" out && fail "vit-train --help says --$option"
done
for option in dropout beta2; do
    for number in 1 -0.1 nan x ''; do
        refuse 2 "--$option: '$number' is not a number from 0 to 0.999999" --$option "$number" --steps 1
    done
done
refuse 2 "--beta2 does not go with --optimizer sgd" --beta2 0.99 --optimizer sgd --steps 1
refuse 2 "--context 300000: .*; try --help\|--context: '300000' is not a whole number from 1 to 65536" --context 300000

# ---- reports ---------------------------------------------------------------------------------------
small="--context 16 --train-limit 10 --test-limit 3 --batch-size 4"
run "$gpt" $small --data text --epochs 2 --output-dir whole --summary-json summary
for words in "^gpt_micro, 828160 parameters, context 16, vocabulary 256$" "^data text, 10 train and 3 test sequences; " \
    "lr 0.001, weight decay 0.1, batch 4" \
    "^epoch 2/2  train loss 4\.[0-9]*  test loss 4\.[0-9]*  perplexity [0-9.]*  [0-9.]* bits a byte  top-1 [0-9.]* %  [0-9.]* tokens/s"; do
    grep -q "$words" out || fail "the run does not say '$words': $(cat out)"
done
head -n 1 whole/log.csv | grep -q ',top1,tokens_per_second,step_ms,' || fail "the log: $(head -n 1 whole/log.csv)"
awk -F '[:,] *' '$1 ~ /"test_loss"/ { loss = $2 } $1 ~ /"perplexity"/ { p = $2 } $1 ~ /"bits_per_byte"/ { b = $2 }
    $1 ~ /"(vocabulary|train_sequences|context)"/ { n += $2 } $1 ~ /images|classes/ { bad = 1 }
    END { exit bad || n != 256 + 10 + 16 || (p / exp(loss) - 1) ^ 2 > 1e-8 || (b * log(2) - loss) ^ 2 > 1e-8 }' summary ||
    fail "the summary: $(cat summary)"
# of 3 x 16 tokens
awk -F '[:,] *' '$1 ~ /"top1"/ { n = $2 * 48 / 100 } END { exit n < 1 || (n - int(n + 0.5)) ^ 2 > 1e-8 }' summary ||
    fail "the accuracy is of no whole number of tokens: $(cat summary)"
grep -q '"clip-norm": "1"' summary && grep -q '"label-smoothing": "0"' summary || fail "defaults: $(cat summary)"
run "$gpt" $small --optimizer sgd --steps 1
grep -q '; sgd, lr 0.05, weight decay 0.0005, ' out || fail "defaults of sgd: $(cat out)"
mkdir begun && head -n 1 whole/log.csv >begun/log.csv
run "$gpt" $small --epochs 1 --output-dir begun # an empty log may be replaced
run "$gpt" $small --plan
grep -q '^gpt_micro, 16 tokens, batch 4' out || fail "the plan: $(head -n 1 out)"

# ---- wrong data ------------------------------------------------------------------------------------
refuse 4 "--data: nothing: No such file" --data nothing
refuse 2 "--data: text: a text has a vocabulary of 256, its bytes; the model's has 50257" --arch gpt2 --data text --steps 1
refuse 4 "--data: text: 540 tokens for training; a sequence of 600 and the next token are 601" --data text --context 600 --steps 1
printf '\1\0\1\1\1' >odd.bin
refuse 4 "--data: odd.bin: 5 bytes are no whole number of tokens of 2 bytes" --data odd.bin --steps 1
seq 400 600 | head -c 600 >other
# A tensor of a type that is never read may be of any size.
head='{"wte.weight":{"dtype":"F32","shape":[256,128],"data_offsets":[0,131072]},"wpe.weight":{"dtype":"I8","shape":[2305843009213693952],"data_offsets":[131072,131076]}}'
{
    printf "\\$(printf %o ${#head})\\0\\0\\0\\0\\0\\0\\0%s" "$head"
    head -c 131076 /dev/zero
} >huge.st
refuse 4 "huge.st: tensor \"wpe.weight\" is 2305843009213693952, the model's" $small --data text --import huge.st --test-only
run "$gpt" --resume whole/last.ckpt --data other --epochs 3 --output-dir stage
grep -q '^data changed: epoch [0-9]* begins with [0-9]* sequences in place of ' out || fail "a stage of another text: $(cat out)"
refuse 2 "--context 8: the run in whole/last.ckpt has 16" --resume whole/last.ckpt --context 8
cp text train.txt
run "$gpt" $small --data train.txt --epochs 1 --output-dir alone
cp text val.txt
run "$gpt" --resume alone/last.ckpt --epochs 2 # with the tests that it began with
grep -q '^tests: the last tenth of train.txt$' out || fail "a file for tests that came later: $(cat out)"
for file in train.txt val.txt; do
    refuse 2 "--export $file: it is a file of --data; name another file" $small --data train.txt --steps 1 --export $file
done

# ---- what is planned is taken, what is forgotten is not missed, a resumed run has the same bits ------
# check PROGRAM form: of $options.
check() {
    run "$@" $options --plan
    cp out plan
    run "$@" $options --epochs 2 --output-dir whole --overwrite --memory-report --export whole.st
    [ "$(bytes '  arena' 1 plan)" = "$(bytes arena 1 out)" ] || fail "the arena is not as planned: $*: $(cat plan out)"
    [ "$(bytes 'saved activations' 1 plan)" = "$(bytes 'activations   ' 1 out)" ] ||
        fail "saved activations are not as planned: $*"
    grep -q 'gemm temporary' out || [ "$(bytes 'peak of everything' 1 plan)" = "$(bytes total 1 out)" ] ||
        fail "the peak is not as planned: $*: $(cat plan out)"
    results whole >want
    CLPRUNE_DEBUG=forget=poison run "$@" $options --epochs 2 --output-dir poisoned --overwrite
    results poisoned >got
    cmp -s want got || fail "what was forgotten is missed: $*: $(cat want got)"
    rm -rf part
    run "$@" $options --epochs 2 --output-dir part --steps 4 # within the second epoch
    run "$1" --resume part/last.ckpt --export part.st
    results part >got
    cmp -s want got && cmp -s whole.st part.st || fail "a resumed run differs: $*: $(cat want got)"
}
options="$small --data text"
for form in dense exact "pruned --sparsity 0.5 --block 4" "compact --code-bits 4" least; do
    check "$gpt" --activations $form
done
check "$gpt" --arch llama_micro --activations compact
for form in dense "dense --micro-batches 2" "compact --code-bits 4" "compact --code-bits 4 --micro-batches 2"; do
    check "$gpt" --dropout 0.2 --activations $form
done
run "$gpt" --resume part/last.ckpt --test-only --sample 4 # a net of one row at a time
grep -q '^test loss' out || fail "a sample of a run with --dropout: $(cat out)"
check "$gpt" --arch llama_micro --dropout 0.2
# The same masks in both models.
run "$gpt" $options --steps 3 --dropout 0.2 --activations exact --gradient-check 1 --gradient-draws 2 --summary-json summary
awk '/"relative_error"/ { rows++; bad += $2 !~ /^[0-9]/ || $2 + 0 > 1e-5 } END { exit bad || rows != 52 }' summary ||
    fail "exact is not with --dropout: $(cat summary)"
# It drops in training alone: with --lr 0 the tests are those of a run without it. 0 is none.
column() {
    awk -F, -v want="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == want) at = i } NR > 1 { print $at }' "$2/log.csv"
}
# drops PROGRAM arguments...
drops() {
    for share in 0 0.5; do
        run "$@" --lr 0 --epochs 1 --dropout $share --output-dir share.$share --overwrite
    done
    [ -n "$(column test_loss share.0)" ] && [ "$(column test_loss share.0)" = "$(column test_loss share.0.5)" ] ||
        fail "--dropout changes tests: $*: $(cat share.*/log.csv)"
    [ "$(column train_loss share.0)" != "$(column train_loss share.0.5)" ] || fail "--dropout does nothing: $*"
}
drops "$gpt" $options
drops "$gpt" $options --arch llama_micro
drops "$bert" --context 16 --train-limit 10 --test-limit 3 --classes 3
run "$gpt" $options --epochs 1 --output-dir usual --export whole.st
results usual >want
for option in "--dropout 0" "--beta2 0.999" "--beta2 0"; do
    run "$gpt" $options --epochs 1 $option --output-dir given --overwrite --export given.st
    results given >got
    cmp -s want got && cmp -s whole.st given.st || fail "$option is not the default: $(cat want got)"
done
run "$gpt" $options --epochs 1 --beta2 0.9 --output-dir given --overwrite --export given.st
cmp -s whole.st given.st && fail "--beta2 does nothing"
refuse 2 "--beta2 0.5: the run in given/last.ckpt has 0.9" --resume given/last.ckpt --beta2 0.5
refuse 2 "--dropout 0.5: the run in given/last.ckpt has 0" --resume given/last.ckpt --dropout 0.5
options="--image-size 16 --train-limit 10 --test-limit 6 --batch-size 4"
check "$vit" --activations compact
options="$small --data text"
refuse 2 "--early-update does not go with --clip-norm; --clip-norm 0 turns it off" $options --steps 1 --early-update --clip-norm 1
run "$gpt" $options --clip-norm 0 --epochs 1 --output-dir late --overwrite --export whole.st
run "$gpt" $options --epochs 1 --early-update --output-dir early --overwrite
grep -q '^--early-update: --clip-norm is 0, not 1$' out || fail "it does not say that nothing is clipped: $(cat out)"
results late >want
results early >got
cmp -s want got || fail "--early-update has other results: $(cat want got)"

# exact has dense's gradients, but for rounding. The gradient of key biases is 0.
run "$gpt" $options --steps 3 --activations exact --gradient-check 1 --summary-json summary
awk '/"relative_error"/ { rows++; bad += $2 !~ /^[0-9]/ || $2 + 0 > 1e-5 } END { exit bad || rows != 52 }' summary ||
    fail "exact is not: $(cat summary)"

# --micro-batches: the mean is over the step's labels that count, of which samples have 0 to 16; in two orders.
python=${CLPRUNE_PYTHON:-python3}
mkdir masked
! command -v "$python" >/dev/null || "$python" - <<'END'
with open("masked/train.bin", "wb") as tokens, open("masked/train.mask", "wb") as mask:
    for i in range(8 * 16 + 1):
        tokens.write(bytes([i * i * 7 % 251, 0]))
        mask.write(bytes([i == 5 or 16 < i <= 20 or 32 < i <= 48 or 50 < i < 96 and i % 3 > 0]))
END
for seed in 1 2; do
    [ -e masked/train.mask ] || break
    cp masked/train.bin masked/val.bin
    for parts in 1 2 4 8; do
        run "$gpt" --arch llama_micro --context 16 --data masked --batch-size 8 --no-augment --seed $seed --epochs 1 \
            --clip-norm 1000 --micro-batches $parts --output-dir masked.run --overwrite
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { print $at["train_loss"], $at["grad_norm"] }' \
            masked.run/log.csv >>masked.$seed
    done
    awk 'NR == 1 { loss = $1; norm = $2 } { bad += $1 <= 0 || $2 <= 0 || ($1 - loss) ^ 2 > 1e-10 || ($2 - norm) ^ 2 > 1e-10 }
        END { exit NR != 4 || bad > 0 }' masked.$seed || fail "losses and norms by micro-batches: $(cat masked.$seed)"
done

# ---- samples and weights ---------------------------------------------------------------------------
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 40
[ "$(sed '1,/^test loss/d' out | wc -c)" = $((16 + 40 + 1)) ] || fail "a sample: $(cat out)"
cp out sample
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 40
cmp -s out sample || fail "another sample: $(cat out sample)"
sed '1,/^test loss/d' sample | head -c 16 >start
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 40 --prompt @start
cmp -s out sample || fail "a prompt of the same tokens goes on otherwise: $(cat out sample)"
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 4 --prompt "two words"
sed '1,/^test loss/d' out | grep -q '^two words' || fail "the prompt is not there: $(cat out)"
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 40 --top-p 0.000001
cp out sample
run "$gpt" --resume late/last.ckpt --test-only --data text --sample 40 --temperature 0
cmp -s out sample || fail "the likeliest token is not the only one of the likeliest: $(cat out sample)"
printf 'hello %.0s' $(seq 100) >words # of which a model learns each letter from those before it
run "$gpt" $small --data words --train-limit 30 --epochs 20 --lr 0.003 --output-dir words.run --sample 14 --temperature 0 --prompt h
tail -n 1 out | grep -qx 'hello hello hel' || fail "tokens that are read one by one: $(cat out)"
run "$gpt" --resume words.run/last.ckpt --data words --test-only --sample 6 --temperature 0 --prompt 'hello hel'
tail -n 1 out | grep -qx 'hello hello hel' || fail "tokens that are read at once go on otherwise: $(cat out)"
for option in temperature top-p; do
    refuse 2 "--$option needs --sample" --data text --$option 0.5
done
refuse 2 "--sample does not go with --plan" --plan --sample 3
run "$gpt" --context 16 --import whole.st --data text --test-only --export again.st
cmp -s whole.st again.st || fail "an imported file is exported as another"

# ---- sentences -------------------------------------------------------------------------------------
refuses=$bert
run "$bert" --help
for option in arch context classes data train-limit test-limit dropout import export; do
    [ "$(grep -cE -- "^  --$option( |$)" out)" = 1 ] || fail "bert-train --help does not say --$option once"
done
for option in image-size skip-broken sample no-augment; do
    grep -q -- "^  --$option\\>" out && fail "bert-train --help says --$option"
done
options="--context 16 --train-limit 10 --test-limit 3 --batch-size 4 --classes 3"
run "$bert" $options --epochs 2 --output-dir sentences --summary-json summary
for words in "^bert_micro, 176771 parameters, context 16, classes 3, vocabulary 1000$" \
    "^data generated sentences, 10 train and 3 test sequences; " \
    "^epoch 2/2  train loss [0-9.]*  test loss [0-9.]*  top-1 [0-9.]* %  [0-9.]* tokens/s"; do
    grep -q "$words" out || fail "the run does not say '$words': $(cat out)"
done
grep -q perplexity summary out && fail "sentences have a perplexity: $(cat out)"
awk -F '[:,] *' '$1 ~ /"top1"/ { n = $2 * 3 / 100 } $1 ~ /"classes"/ && c == "" { c = $2 }
    END { exit c != 3 || (n - int(n + 0.5)) ^ 2 > 1e-8 }' summary || fail "the accuracy is of no whole number of sentences: $(cat summary)"
for form in dense "compact --code-bits 4" least "pruned --sparsity 0.5" "compact --dropout 0.2 --micro-batches 2"; do
    check "$bert" --activations $form
done
run "$bert" $options --steps 3 --activations exact --gradient-check 1 --summary-json summary
awk '/"relative_error"/ { rows++; bad += $2 !~ /^[0-9]/ || $2 + 0 > 1e-5 } END { exit bad || rows != 33 }' summary ||
    fail "exact is not: $(cat summary)"
run "$bert" $options --import whole.st --test-only --export again.st
cmp -s whole.st again.st || fail "an imported file is exported as another"
for adapters in "" "--lora 2"; do
    "$bert" $options --classes 5 $adapters --import whole.st --test-only >out 2>err || fail "other classes $adapters: $(cat err)"
    grep -q "^bert-train: note: the head in whole.st is not there or has another number of classes" err || fail "no note: $(cat err)"
done
run "$bert" $options --import whole.st --epochs 1 --lora 2 --train 'classifier.*' --output-dir adapted --adapters adapters
grep -q '^bert_micro, .* of them trained' out && grep -q '"task_type": null' adapters/adapter_config.json || fail "adapters: $(cat out)"

# label below $1, length and tokens of 40 sentences, all as two bytes
sentences() {
    for i in $(seq 40); do
        printf "\\$((i % $1))\\0\\3\\0\\1\\0\\$((i % 7))\\0\\2\\0"
    done
}
sentences 2 >some.bin
sentences 3 >three.bin # the classes of the run in sentences/last.ckpt
run "$bert" --context 3 --data some.bin --epochs 1 --output-dir some
grep -q '^data sentences, 36 train and 4 test sequences; ' out &&
    grep -q '^tests: one of each ten sentences, drawn over all of some.bin$' out || fail "a file: $(cat out)"
refuse 4 "--data: some.bin: sentence 0 has 3 tokens, expected 1 to 2; --context N sets it" --context 2 --data some.bin --steps 1
run "$bert" --resume sentences/last.ckpt --data three.bin --epochs 3 --test-limit 4 --output-dir stages
grep -q '^data changed: epoch [0-9]* begins with 36 sequences in place of ' out || fail "a stage of other sentences: $(cat out)"
refuse 2 "--context 200, --classes 2: the context is longer than the architecture's positions" --context 200 --steps 1
refuse 2 "unknown or ambiguous option '--sample'" --sample 3

[ $failures = 0 ] || exit 1
