#!/usr/bin/env bash
# Makes the wheel of examples/pytorch from this clone, installs it in an environment of its own, and
# trains a step with what is in it.
#
#     tests/long/pip_install.sh
#
# $CLPRUNE_PYTHON (default python3) has PyTorch. pip fetches scikit-build-core, so it needs the network.
# Exits with 77 without PyTorch.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
unset CLPRUNE_LIBRARY
cd "$(dirname "$0")/../.."
python=${CLPRUNE_PYTHON:-python3}
packages=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null) || {
    echo "skipped: $python has no PyTorch" >&2
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps ./examples/pytorch
echo "$packages" >"$folder/venv/lib/$("$folder/venv/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/site-packages/torch.pth"
cd "$folder"
venv/bin/python - <<'END'
import clprune, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
clprune.convert_(model)
with clprune.compressed(): loss = model(torch.randn(8, 64)).square().sum()
loss.backward()
from clprune.library import _library
assert clprune.__path__[0] in _library()._dll._name, _library()._dll._name
assert model[0].weight.grad.norm() > 0
print(clprune.summary(model))
END
