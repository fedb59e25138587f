#!/bin/sh
# test_gpt_tokens.sh: runs test_gpt_tokens.py with $CLPRUNE_PYTHON or python3; skipped (77) without transformers.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints
python=${CLPRUNE_PYTHON:-python3}
command -v "$python" >/dev/null || exit 77
folder=$(cd "$(dirname "$0")" && pwd)
exec "$python" "$folder/test_gpt_tokens.py" "$folder/../../examples/gpt/tokens.py"
