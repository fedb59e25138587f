#!/bin/sh
# nanoGPT's recipe for a CPU (config/train_shakespeare_char.py, with the options that its README names for one): 4 blocks of 128
# features with 4 heads, context 64, batches of 12, 2,000 steps, no dropout; its learning rate on lines between points.
#
#     shakespeare.sh GPT_TRAIN TEXT OUT >shakespeare.csv
#
# TEXT is Tiny Shakespeare, input.txt of char-rnn. A row for each way to keep activations and seed: loss of the test after each
# 500 steps, over the whole last tenth of the text, in nats.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
train=$1 text=$2 out=$3
mkdir -p "$out"
# Fractions of two epochs (2,616 steps): 100 steps of warm-up, then a cosine from 1e-3 to 1e-4 at step 2,000.
points=0:0,0.0382:1,0.1835:0.914,0.3287:0.689,0.4740:0.411,0.6192:0.186,0.7645:0.1,1:0.1
echo name,seed,loss_500,loss_1000,loss_1500,loss_2000,saved_mib
run() { # NAME OPTION...
    name=$1
    shift
    for seed in 1 2 3; do
        "$train" --arch gpt_micro --context 64 --data "$text" --batch-size 12 --optimizer adamw --beta2 0.99 \
            --weight-decay 0.1 --clip-norm 1 --label-smoothing 0 --lr 1e-3 --schedule linear --points "$points" \
            --warmup-epochs 0 --epochs 2 --steps 2000 --test-steps 500 --seed "$seed" --quiet \
            --output-dir "$out/$name-$seed" --overwrite --summary-json "$out/$name-$seed.json" "$@"
        saved=$(sed -n 's/.*"saved_activation_bytes": *\([0-9]*\).*/\1/p' "$out/$name-$seed.json")
        "$train" --resume "$out/$name-$seed/last.ckpt" --test-only --quiet --summary-json "$out/last.json"
        last=$(sed -n 's/.*"test_loss": *\([0-9.]*\).*/\1/p' "$out/last.json")
        awk -F, -v start="$name,$seed" -v last="$last" -v saved="$saved" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            $column["step"] % 500 == 0 { start = start "," sprintf("%.4f", $column["test_loss"]) }
            END { printf "%s,%.4f,%.2f\n", start, last, saved / 1048576 }' "$out/$name-$seed/log.csv"
    done
}
run dense --activations dense
run compact --activations compact
run least --activations least
