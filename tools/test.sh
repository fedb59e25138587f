#!/usr/bin/env bash
# Installs what is missing, builds with the address and undefined-behaviour sanitizers, and runs the
# tests on PoCL. Arguments go to ctest: tools/test.sh -L unit, tools/test.sh -R prune. Without any,
# all tests run but the full sweeps over shapes, which compile for an hour (tools/test.sh -L slow),
# and the tests of packages, which install lintian (tools/test.sh --long).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -w . ] || { echo "test: cannot write to $PWD; copy it to a folder of yours: cp -r $PWD ~/clprune" >&2; exit 1; }

packages=()
[ $# -gt 0 ] || set -- -LE 'slow|long'
if [ "$1" = --long ]; then
    packages=(lintian mandoc binutils dpkg-dev)
    shift
    set -- -L long "$@"
fi
tools/install-packages.sh "${packages[@]}"
cmake --preset dev >/dev/null
cmake --build --preset dev --parallel "$(nproc)"
ctest --preset dev --parallel "$(nproc)" "$@"
