#!/bin/sh
# Fine-tunes all-MiniLM-L6-v2 to tell verses of the Old Testament from those of the New one: once with all activations
# dense, once with compact-plus, once with adapters alone.
#
#     testaments.sh BERT_TRAIN MODEL KJV FOLDER
#
# MODEL is a folder as save_pretrained writes it (tests/long/bert_weights.sh), KJV the output of
# bible 'gen1:1-rev22:21' of the Debian package bible-kjv. PYTHON (python3) has transformers. FOLDER gets data and runs.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
train=$1 model=$2 kjv=$3 out=$4
mkdir -p "$out"
awk 'function put() { if (verse != "") print book "\t" verse; verse = "" }
    BEGIN { book = "old" }
    /^$/ { put(); gap = 1; next }
    gap && !/^ / { if ($0 == "Matthew 1") book = "new"; next } # a heading
    /^ +[0-9]+ / { put(); gap = 0; sub(/^ +[0-9]+ /, ""); verse = $0; next }
    { verse = verse " " $0 }
    END { put() }' "$kjv" >"$out/verses"
for book in old new; do # as many of both
    grep "^$book" "$out/verses" | shuf --random-source="$kjv" -n 4000
done >"$out/lines"
"${PYTHON:-python3}" "$(dirname "$0")/../tokens.py" "$model" 48 "$out/lines" "$out/verses.bin"
run() {
    name=$1
    shift
    "$train" --arch minilm_l6 --context 48 --data "$out/verses.bin" --import "$model/model.safetensors" --epochs 2 \
        --overwrite --output-dir "$out/$name" --summary-json "$out/$name.json" "$@" 2>"$out/$name.err" | tee "$out/$name.out"
}
run dense --lr 1e-4
run compact-plus --lr 1e-4 --activations compact-plus
run lora --lr 1e-3 --activations compact-plus --lora 8 --train 'classifier.*,bert.pooler.*'
