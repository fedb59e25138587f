#!/bin/sh
# test_pytorch.sh TEST.py: runs it with $CLPRUNE_PYTHON, /usr/bin/python3 or python3, whichever has
# PyTorch first; skipped (77) where none has.
export LC_ALL=C # a decimal point in every locale
for python in "${CLPRUNE_PYTHON:-}" /usr/bin/python3 python3; do
    if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" -W ignore::DeprecationWarning "$1"
    fi
done
echo "skipped: no python3 with PyTorch; on Debian it is the package python3-torch" >&2
exit 77
