#!/bin/sh
# Makes the Debian packages, lets lintian judge them, and uses what they hold.
#   test_deb.sh SOURCE_DIR BUILD_DIR
# BUILD_DIR is made if need be. Exits 77 without lintian or dpkg-dev. root also lets dpkg install and purge the
# packages, in a folder with a database of its own.
#
# Symbols file, dependencies, programs that run. Programs are built with libclprune-dev by CMake (shared, static) and
# pkg-config, and run. Purging leaves nothing.
export LC_ALL=C # a decimal point in every locale
source=$1 build=$2
for command in lintian dpkg-deb dpkg-shlibdeps; do
    command -v $command >/dev/null || {
        echo "no $command; on Debian: apt-get install lintian dpkg-dev"
        exit 77
    }
done
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
breaches=0

breach() {
    echo "breach: $1"
    breaches=$((breaches + 1))
}

cd "$source" || exit 2
{
    cmake --preset deb -B "$build" && cmake --build "$build" --parallel "$(nproc)" &&
        rm -f "$build"/*.deb && cd "$build" && cpack -G DEB
} >"$folder/log" 2>&1 || {
    tail -40 "$folder/log"
    exit 1
}
version=$(sed -n 's/^#define CLPRUNE_VERSION  *"\(.*\)"/\1/p' "$source/include/clprune/version.h")
abi=$(echo "$version" | sed 's/^0\.\([0-9]*\).*/0.\1/; t; s/\..*//')
library="libclprune$abi"

# A package of this project was never uploaded, and its maintainer is set by who does.
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$build"/*.deb ||
    breach "lintian has complaints"

for package in "$library" libclprune-dev clprune-tools; do
    file=$(echo "$build/${package}_$version"-*.deb)
    [ -f "$file" ] || {
        breach "there is no package $package"
        continue
    }
    [ "$(id -u)" = 0 ] || dpkg-deb -x "$file" "$folder/root"
    dpkg-deb -f "$file" Depends >"$folder/$package.depends"
done
# into_root COMMAND...: with dpkg. The packages of others are not there, so their lack is no error.
into_root() {
    dpkg --root="$folder/root" --log="$folder/dpkg.log" --force-depends "$@" >"$folder/log" 2>&1 && return
    cat "$folder/log"
    breach "dpkg $1 failed"
}
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$folder/root/var/lib/dpkg"
    into_root --install "$build"/*.deb
    grep -E "depends on $library .*however" "$folder/log" && breach "our packages lack each other"
fi
mkdir "$folder/control"
dpkg-deb -e "$build/$library"_*.deb "$folder/control"
grep -q "^libclprune.so.$abi $library #MINVER#$" "$folder/control/symbols" || breach "no symbols file"
[ "$(grep -c '^ clprune_' "$folder/control/symbols")" -gt 50 ] || breach "the symbols file has no functions"
grep -q 'libclblast1' "$folder/$library.depends" || breach "$library does not depend on CLBlast"
grep -q "$library (= $version-" "$folder/libclprune-dev.depends" || breach "libclprune-dev lets libraries differ"
grep -q "$library (= $version-" "$folder/clprune-tools.depends" || breach "clprune-tools lets libraries differ"

libdir=$(dirname "$(find "$folder/root" -name libclprune.so)")
trainers=$(sed -n 's/^clprune_model(\([a-z]*\) .*/\1-train/p' "$source/examples/CMakeLists.txt")
for program in $trainers clprune-info clprune-bench clprune-tune; do
    program=$folder/root/usr/bin/$program
    readelf -dW "$program" | grep -E 'RPATH|RUNPATH' && breach "$program has an rpath"
    LD_LIBRARY_PATH=$libdir "$program" --help >/dev/null || breach "$program does not run"
    [ -s "$folder/root/usr/share/bash-completion/completions/${program##*/}" ] ||
        breach "no completion of $program"
done

# Programs of others, built with the development package: CMake, the static library, pkg-config.
cd "$folder" && cp "$source/examples/quickstart.c" . || exit 2
cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(client LANGUAGES C)
find_package(clprune $version EXACT REQUIRED COMPONENTS shared static)
add_executable(client_shared quickstart.c)
target_link_libraries(client_shared PRIVATE clprune::clprune m)
add_executable(client_static quickstart.c)
target_link_libraries(client_static PRIVATE clprune::clprune_static m)
END
cmake -S . -B . -DCMAKE_PREFIX_PATH="$folder/root/usr" >log 2>&1 && cmake --build . >>log 2>&1 || {
    tail -40 log
    breach "find_package or building with it failed"
}
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    # shellcheck disable=SC2046 # words
    cc -DCL_TARGET_OPENCL_VERSION=120 quickstart.c -o client_pkg_config $(pkg-config --cflags --libs clprune) -lm \
        "-Wl,-rpath,$libdir" || breach "building with pkg-config failed"
else
    echo "no pkg-config: not checked"
fi
for client in client_*; do
    ldd "$client" | grep libclprune >linked
    case $client in
    client_static) [ ! -s linked ] ;;
    *) grep -q "=> $libdir/" linked ;;
    esac || breach "$client is linked to $(cat linked)"
    "./$client" || breach "$client does not run"
done

if [ "$(id -u)" = 0 ]; then
    into_root --purge "$library" libclprune-dev clprune-tools
    find "$folder/root" -name '*clprune*' | grep . && breach "files are left after purging"
fi
[ $breaches -eq 0 ]
