#!/usr/bin/env bash
# Runs the port of tools/package/vcpkg with the functions of vcpkg.cmake in place of vcpkg's, and uses what it packages.
#   test_vcpkg.sh SOURCE_DIR C_COMPILER
# Static, and dynamic with CLBlast. Clients find the package by CMake, in Release and Debug, and by pkg-config. What
# vcpkg refuses in a package is a breach: second headers, empty folders, paths of the build, the other kind of library.
export LC_ALL=C
unset CDPATH
set -euo pipefail
source=$1 cc=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
breaches=0

breach() {
    echo "breach: $1"
    breaches=$((breaches + 1))
}

# quietly WHAT COMMAND...: runs it; where it fails, shows its output and counts a breach.
quietly() {
    local what=$1
    shift
    "$@" >"$folder/log" 2>&1 && return
    tail -n 40 "$folder/log"
    breach "$what failed"
    return 1
}

mkdir "$folder/client"
cp "$source/tools/package/conan/test_package/test_package.c" "$folder/client"
version=$(sed -n 's/^#define CLPRUNE_VERSION  *"\(.*\)"/\1/p' "$source/include/clprune/version.h")
cat >"$folder/client/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(client LANGUAGES C)
find_package(clprune $version CONFIG REQUIRED)
add_executable(client test_package.c)
target_link_libraries(client PRIVATE clprune::clprune)
END

# port LINKAGE FEATURES
port() {
    local linkage=$1 out=$folder/$1 packages=$folder/$1/packages other=so prefix type client
    [ "$linkage" = static ] || other=a
    quietly "the port, $linkage" cmake "-DPORT_DIR=$source/tools/package/vcpkg/clprune" "-DOUT=$out" "-DLINKAGE=$linkage" \
        "-DFEATURES=$2" "-DJOBS=$(nproc)" -P "$source/tests/package/vcpkg.cmake" || return 0
    for file in include/clprune/clprune.h share/clprune/clprune-config.cmake share/clprune/copyright share/clprune/usage \
        lib/pkgconfig/clprune.pc debug/lib/pkgconfig/clprune.pc; do
        [ -s "$packages/$file" ] || breach "$linkage: $file is not packaged"
    done
    (cd "$packages" && find . -type d -empty -o -path ./debug/include -prune -o -path ./debug/share -prune \
        -o -path ./lib/cmake -o -path ./debug/lib/cmake -o -path ./bin -o -path ./debug/bin -o -path ./share/doc \
        -o -name "*.$other" -o -name "*.$other.*") >"$folder/wrong"
    while read -r file; do
        [[ $file == ./debug/include || $file == ./debug/share || -e $packages/$file ]] && breach "$linkage: $file is packaged"
    done <"$folder/wrong"
    if grep -rIlF -e "$out" -e "$source" "$packages"; then
        breach "$linkage: packaged files name a folder of the build"
    fi
    for type in Release Debug; do
        prefix=$packages
        [ $type = Release ] || prefix=$packages/debug
        client=$out/client-$type
        quietly "find_package, $linkage, $type" cmake -S "$folder/client" -B "$client" -DCMAKE_BUILD_TYPE=$type \
            "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_PREFIX_PATH=$packages" || continue
        quietly "a client, $linkage, $type" cmake --build "$client" || continue
        quietly "running a client, $linkage, $type" "$client/client" || continue
        grep -qF " $prefix/lib/libclprune." <(tr -s ' ' <"$client/CMakeFiles/client.dir/link.txt" |
            sed "s|\.\./packages|$packages|g") || breach "$linkage: a client in $type links another library"
        if command -v pkg-config >/dev/null; then
            # shellcheck disable=SC2046 # words
            PKG_CONFIG_PATH=$prefix/lib/pkgconfig quietly "pkg-config, $linkage, $type" "$cc" "$folder/client/test_package.c" \
                -o "$out/client" $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs clprune) \
                "-Wl,-rpath,$prefix/lib" && quietly "running a client of pkg-config, $linkage, $type" "$out/client"
        fi
    done
}

port static ''
port dynamic clblast
grep -qx 'CLPRUNE_CLBLAST:.*=OFF' "$folder/static/Release/CMakeCache.txt" || breach "the port takes CLBlast without its feature"
grep -qx 'CLPRUNE_CLBLAST:.*=ON' "$folder/dynamic/Debug/CMakeCache.txt" || breach "the port's feature does not take CLBlast"

[ $breaches -eq 0 ]
