#!/bin/sh
# nanoGPT's recipe for a GPU (config/train_shakespeare_char.py): 6 blocks of 384 features with 6 heads, context 256, batches of 64,
# dropout 0.2, learning rates from 1e-3 to 1e-4 over 5,000 steps. Here in bf16, which CPUs have, too; a run ends after four tests
# that are no better, as it is past its best by then.
#
#     shakespeare_gpu.sh GPT_TRAIN TEXT OUT >shakespeare_gpu.csv
#
# TEXT is Tiny Shakespeare, input.txt of char-rnn. A row for each test: its loss over the whole last tenth of the text, in nats.
# A run that was interrupted goes on.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
train=$1 text=$2 out=$3
mkdir -p "$out"
# Fractions of 5,002 steps: 100 steps of warm-up, then a cosine on lines between points.
points=0:0,0.01999:1,0.18326:0.9397,0.34653:0.7750,0.50980:0.5500,0.67306:0.3250,0.83633:0.1603,1:0.1
echo name,step,loss,saved_mib
run() { # NAME OPTION...
    name=$1
    shift
    if [ -f "$out/$name/last.ckpt" ]; then
        "$train" --resume "$out/$name/last.ckpt" --quiet
    else
        "$train" --arch gpt_nano --context 256 --data "$text" --batch-size 64 --dropout 0.2 --optimizer adamw --beta2 0.99 \
            --weight-decay 0.1 --clip-norm 1 --label-smoothing 0 --lr 1e-3 --schedule linear --points "$points" --warmup-epochs 0 \
            --epochs 82 --steps 5000 --test-every 0 --test-steps 250 --patience 4 --best --checkpoint-every 0 --checkpoint-minutes 5 \
            --precision bf16 --quiet --output-dir "$out/$name" --overwrite "$@"
    fi
    awk -F, -v name="$name" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["test_loss"] != "" {
            printf "%s,%d,%.4f,%.1f\n", name, $column["step"], $column["test_loss"], $column["saved_activation_bytes"] / 1048576
        }' "$out/$name/log.csv"
}
run dense --activations dense
run compact-plus --activations compact-plus
run least --activations least
