#!/usr/bin/env bash
# Installs what is missing, builds with the address and undefined-behaviour sanitizers, and runs the
# tests on PoCL. Arguments go to ctest: tools/test.sh -L unit, tools/test.sh -R prune. Without any,
# all tests run but the full sweeps over shapes, which compile for an hour: tools/test.sh -L slow.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install-packages.sh
cmake --preset dev >/dev/null
cmake --build --preset dev --parallel "$(nproc)"
[ $# -gt 0 ] || set -- -LE slow
ctest --preset dev --parallel "$(nproc)" "$@"
