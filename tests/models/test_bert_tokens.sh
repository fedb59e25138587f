#!/bin/sh
# test_bert_tokens.sh path/to/bert-train: runs test_bert_tokens.py with $CLPRUNE_PYTHON or python3; skipped (77) without.
export LC_ALL=C # a decimal point in every locale
python=${CLPRUNE_PYTHON:-python3}
"$python" -c 'import array' 2>/dev/null || {
    echo "skipped: no python3" >&2
    exit 77
}
exec "$python" "$(dirname "$0")/test_bert_tokens.py" "$1"
