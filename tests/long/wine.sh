#!/usr/bin/env bash
# Builds the library for Windows with mingw-w64, and runs it under wine, whose OpenCL.dll hands calls to the OpenCL
# drivers of this machine.
#
#     tests/long/wine.sh [QUICKSTART [CTEST_ARGUMENT...]]
#
# The DLL exports clprune_* only. An installed prefix has DLL, import library and static library, and serves a program
# that is linked with either. QUICKSTART, the program built for this machine, prints what clprune-quickstart.exe prints.
# The tests of the list for Windows in tests/CMakeLists.txt pass, or those that arguments choose: -R prune. Debian has no cmocka for mingw-w64: it is built from
# Debian's sources, from the mirror that apt has on this machine, or deb.debian.org. Prints a line for each step, and ctest's
# output. Exits with 77 without mingw-w64, wine or network.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
cd "$(dirname "$0")/../.."
root=$PWD quickstart=${1:-}
[ -z "$quickstart" ] || { quickstart=$(realpath "$quickstart") && shift; }
compiler=x86_64-w64-mingw32-gcc-posix

skip() {
    echo "wine: $*" >&2
    exit 77
}

fail() {
    echo "wine: $*" >&2
    exit 1
}

command -v $compiler >/dev/null || skip "$compiler is not installed (Debian: gcc-mingw-w64-x86-64)"
command -v wine >/dev/null || skip "wine is not installed (Debian: wine64 wine)"
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/clprune-wine.XXXXXX")
export WINEPREFIX=$folder/prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' # nothing is downloaded
export CLPRUNE_CACHE_DIR=off
trap 'wineserver -k 2>/dev/null || true; rm -rf --one-file-system "$folder"' EXIT

# Debian's sources of cmocka, by lists of our own.
mkdir -p "$folder/apt/partial" "$folder/cmocka"
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 2>/dev/null | grep -E '/debian/*$' | sort -u | head -n 1 || true)
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
echo "deb-src ${mirror:-http://deb.debian.org/debian} $release main" >"$folder/sources.list"
apt=(apt-get -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/apt"
    -o APT::Sandbox::User=root)
(cd "$folder/cmocka" && "${apt[@]}" update && "${apt[@]}" source --download-only cmocka) >"$folder/log" 2>&1 || {
    tail -n 3 "$folder/log" >&2
    skip "no sources of cmocka for $release; check the network"
}
rm -f "$folder"/cmocka/*.asc
tar -xf "$folder"/cmocka/*.orig.tar.* -C "$folder/cmocka" --strip-components=1

cross=(-DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$compiler -DCMAKE_RC_COMPILER=x86_64-w64-mingw32-windres)
build() { # build SOURCE BUILD OPTION...: without output, unless it fails
    { cmake -S "$1" -B "$2" "${cross[@]}" "${@:3}" && cmake --build "$2" --parallel "$(nproc)"; } >"$folder/log" 2>&1 || {
        grep -E 'error|undefined' "$folder/log" | head -n 20 >&2
        fail "building $1 failed"
    }
}
build "$folder/cmocka" "$folder/cmocka/build" -DBUILD_SHARED_LIBS=OFF -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF
cat >"$folder/cmocka/cmocka-config.cmake" <<END
set(CMOCKA_INCLUDE_DIR "$folder/cmocka/include")
set(CMOCKA_LIBRARIES "$(find "$folder/cmocka/build" -name libcmocka-static.a)")
END

# OpenCL's headers alone, not all of /usr/include, and an import library of the functions that OpenCL 1.2 has.
mkdir "$folder/opencl"
ln -s /usr/include/CL "$folder/opencl/CL"
{
    echo LIBRARY OpenCL.dll
    echo EXPORTS
    grep -oE '\bcl[A-Z][A-Za-z0-9]*\(' /usr/include/CL/cl.h | tr -d '(' | sort -u
} >"$folder/opencl/OpenCL.def"
x86_64-w64-mingw32-dlltool -d "$folder/opencl/OpenCL.def" -l "$folder/opencl/libOpenCL.dll.a"

opencl=(-DOpenCL_INCLUDE_DIR="$folder/opencl" -DOpenCL_LIBRARY="$folder/opencl/libOpenCL.dll.a")
build "$root" "$folder/build" "${opencl[@]}" -DCLPRUNE_CLBLAST=OFF -DCLPRUNE_WERROR=ON -DCLPRUNE_TESTS=ON \
    -Dcmocka_DIR="$folder/cmocka" -DCMAKE_CROSSCOMPILING_EMULATOR="$(command -v wine)"
echo "wine: built with $($compiler --version | head -n 1)"

exported=$(x86_64-w64-mingw32-objdump -p "$folder/build/bin/libclprune.dll" |
    sed -n '/Ordinal\/Name/,/^$/s/^[ \t]*\[ *[0-9].* //p')
[ "$(echo "$exported" | grep -c '^clprune_')" -gt 200 ] || fail "the DLL exports too few functions"
others=$(echo "$exported" | grep -v '^clprune_[a-z]' || true)
[ -z "$others" ] || fail "the DLL exports" $others
needs=$(x86_64-w64-mingw32-objdump -p "$folder/build/bin/libclprune.dll" | sed -n 's/.*DLL Name: //p' |
    grep -viE '^(OpenCL|kernel32|msvcrt|advapi32|user32)\.dll$' || true)
[ -z "$needs" ] || fail "the DLL needs" $needs

# A program of others, from the installed prefix.
cmake --install "$folder/build" --prefix "$folder/installed" >/dev/null
for kind in shared static; do
    cat >"$folder/client.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(client LANGUAGES C)
find_package(clprune REQUIRED COMPONENTS $kind)
add_executable(client $root/examples/quickstart.c)
target_link_libraries(client PRIVATE clprune::clprune$([ $kind = shared ] || echo _static) m)
target_link_options(client PRIVATE -static)
END
    mkdir "$folder/$kind"
    cp "$folder/client.txt" "$folder/$kind/CMakeLists.txt"
    build "$folder/$kind" "$folder/$kind/build" "${opencl[@]}" -DCMAKE_PREFIX_PATH="$folder/installed" \
        -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH
done
wine wineboot -i >/dev/null 2>&1 || fail "wine does not start"
wine "$folder/build/bin/clprune-info.exe" | tr -d '\r' >"$folder/info"
[ -n "$quickstart" ] && "$quickstart" >"$folder/expected"
WINEPATH="$folder/installed/bin" wine "$folder/shared/build/client.exe" | tr -d '\r' >"$folder/printed"
wine "$folder/static/build/client.exe" | tr -d '\r' | cmp - "$folder/printed" || fail "the static library prints something else"
[ -z "$quickstart" ] || cmp "$folder/expected" "$folder/printed" || fail "this machine's own program prints something else"
echo "wine: $(sed -n 's/^chosen device *//p' "$folder/info"): $(cat "$folder/printed")"

# The cache of programs on the disk: made by a first run, read by a second.
for run in first second; do
    CLPRUNE_CACHE_DIR=$folder/cache CLPRUNE_VERBOSE=1:$folder/$run wine "$folder/build/bin/clprune-quickstart.exe" >/dev/null
done
[ "$(ls "$folder/cache" | grep -c '^[0-9a-f]\{64\}\.bin$')" -gt 0 ] && grep -q ',build,' "$folder/first" &&
    grep -q ',disk,' "$folder/second" && ! grep -q ',build,' "$folder/second" || fail "the second run does not read the cache"

cd "$folder/build"
ctest --output-on-failure "$@" | tee "$folder/log"
passed=$(grep -c ' Passed ' "$folder/log" || true)
[ $# -gt 0 ] || [ "$passed" -ge 20 ] || fail "only $passed test programs passed"
