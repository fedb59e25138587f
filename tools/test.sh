#!/usr/bin/env bash
# Installs what is missing, builds with the address and undefined-behaviour sanitizers, and runs the
# tests on PoCL: 20 to 40 minutes on two cores, most of them for compiling kernels; a second run takes
# half. Arguments go to ctest: tools/test.sh -L unit, tools/test.sh -R prune. Without any, all tests run
# but the full sweeps over shapes, which compile for an hour (tools/test.sh -L slow), and the long ones
# (tools/test.sh --long), which take hours and install lintian, doxygen, clang, abigail-tools, PyTorch, zsh, fish,
# debootstrap, mingw-w64, wine, an ARM compiler, qemu and Oclgrind: packages, the reference, the README's installation,
# completion in zsh and fish, fuzzing, killed processes, cold threads, the thread sanitizer, the ABI, PyTorch, every
# other OpenCL driver that is installed, Windows under wine, ARM under qemu, and, as root, Debian 13.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
case ${1:-} in
-h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit ;;
esac
cd "$(dirname "$0")/.."
[ -w . ] || { echo "test: cannot write to $PWD; copy it to a folder of yours: cp -r $PWD ~/clprune" >&2; exit 1; }

say() { echo "test.sh, after $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))): $*"; }
packages=() long='' duration="all three: 20 to 40 minutes on two cores, a second run half"
[ $# -gt 0 ] || set -- -LE 'slow|long'
if [ "$1" = --long ]; then
    packages=(g++ lintian mandoc binutils dpkg-dev doxygen clang libclang-rt-dev abigail-tools
        python3-venv python3-torch zsh fish debootstrap gcc-mingw-w64-x86-64 wine64 wine gcc-aarch64-linux-gnu qemu-user-static)
    long=1 duration="all of --long: hours"
    shift
    set -- -L long "$@"
fi
say "1 of 3, packages"
tools/install-packages.sh "${packages[@]}"
if [ -n "$long" ]; then
    if apt-cache show oclgrind >/dev/null 2>&1; then
        tools/install-packages.sh oclgrind
    elif ! command -v oclgrind >/dev/null; then # not in every Debian
        say "without Oclgrind: apt knows no such package (if its lists are empty: apt-get update)"
    fi
fi
say "2 of 3, build with sanitizers in build/dev (3 minutes on two cores; later only what changed)"
# Warnings are errors only if this is set: other compilers have other warnings.
cmake --preset dev -DCLPRUNE_WERROR="${CLPRUNE_WERROR:-OFF}" >/dev/null
cmake --build --preset dev --parallel "$(nproc)"
count=$(ctest --preset dev -N "$@" | sed -n 's/^Total Tests: //p')
say "3 of 3, $count of the test programs, $(nproc) at once ($duration); a line for each"
ctest --preset dev --parallel "$(nproc)" "$@"
say "done"
