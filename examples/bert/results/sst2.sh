#!/bin/sh
# Makes the data of sst2.study, and runs it.
#
#     sst2.sh BERT_TRAIN MODEL SST2 FOLDER
#
# MODEL is a folder as save_pretrained writes it (tests/long/bert_weights.sh). SST2 has train.tsv and test.tsv, the 6920
# and 1821 sentences of the Stanford Sentiment Treebank with two classes, each a sentence, a tab and 0 or 1. PYTHON
# (python3) has transformers. FOLDER gets data and runs; sst2.py reads its data.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
train=$1 model=$2 sst2=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/data"
for set in train test; do
    { printf 'sentence\tlabel\n' && cat "$sst2/$set.tsv"; } >"$out/data/$set.lines"
done
"${PYTHON:-python3}" "$here/../tokens.py" "$model" 64 "$out/data/train.lines" "$out/data/train.bin"
"${PYTHON:-python3}" "$here/../tokens.py" --labels "$out/data/train.labels" "$model" 64 "$out/data/test.lines" "$out/data/val.bin"
exec "$here/../../../tools/study.sh" "$here/sst2.study" "$train" "$out/sst2" --data "$out/data" \
    --import "$model/model.safetensors"
