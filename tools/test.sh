#!/usr/bin/env bash
# Installs what is missing, builds with the address and undefined-behaviour sanitizers, and runs all
# tests on PoCL. Arguments go to ctest: tools/test.sh -L unit, tools/test.sh -R prune.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install-packages.sh
cmake --preset dev >/dev/null
cmake --build --preset dev --parallel "$(nproc)"
ctest --preset dev --parallel "$(nproc)" "$@"
