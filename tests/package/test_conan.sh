#!/usr/bin/env bash
# Makes the package of tools/package/conan with Conan 2, which also builds and runs its test_package.
#   test_conan.sh SOURCE_DIR
# Static; shared with CLBlast. Recipes of this script stand in for those of OpenCL and CLBlast: they take the
# system's libraries. Conan is $CLPRUNE_CONAN (default conan); else pip fetches it, for which it needs the network.
# Exits with 77 without Conan.
export LC_ALL=C
unset CDPATH
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CONAN_HOME=$folder/home
conan=${CLPRUNE_CONAN:-conan}
command -v "$conan" >/dev/null || {
    conan=$folder/venv/bin/conan
    python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install --quiet 'conan>=2,<3'
} >"$folder/log" 2>&1 || {
    tail -n 3 "$folder/log"
    echo "skipped: no Conan, and pip does not fetch it"
    exit 77
}
"$conan" --version

# quietly COMMAND...: runs it; where it fails, shows its output and ends the test.
quietly() {
    "$@" >"$folder/log" 2>&1 && return
    tail -n 40 "$folder/log"
    echo "failed: $*"
    exit 1
}

quietly "$conan" profile detect
quietly "$conan" remote disable '*'
# stand_in NAME VERSION LIBRARY
stand_in() {
    mkdir "$folder/$1"
    cat >"$folder/$1/conanfile.py" <<END
from conan import ConanFile
class StandIn(ConanFile):
    name, version, package_type = "$1", "$2", "library"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    def package_info(self):
        self.cpp_info.includedirs = self.cpp_info.libdirs = self.cpp_info.bindirs = []
        self.cpp_info.system_libs = ["$3"]
END
    quietly "$conan" export "$folder/$1"
}
recipe=$source/tools/package/conan/conanfile.py
for name in opencl-icd-loader:OpenCL clblast:clblast; do
    version=$(sed -n "s|.*requires(\"${name%:*}/\([0-9.]*\)\".*|\1|p" "$recipe")
    stand_in "${name%:*}" "$version" "${name#*:}"
done

# Conan may write into the clone, but only to build/.
mkdir "$folder/clone"
tar -C "$source" --exclude=./build --exclude=./demo --exclude=./runs --exclude=./.git -cf - . | tar -C "$folder/clone" -xf -
cd "$folder"
touch copied
version=$(sed -n 's/^#define CLPRUNE_VERSION  *"\(.*\)"/\1/p' "$source/include/clprune/version.h")
for options in '-o &:shared=False' '-o &:shared=True -o &:with_clblast=True'; do
    # shellcheck disable=SC2086 # words
    quietly "$conan" create clone/tools/package/conan --build=missing $options
    grep -q "^clprune $version: " log || {
        tail -n 5 log
        echo "failed: the test of the package ($options) does not print its version"
        exit 1
    }
    grep "^clprune $version: " log
    grep 'Packaged' log
done
find clone -path clone/build -prune -o -newer copied -type f -print >written
[ ! -s written ] || {
    echo "failed: Conan writes to the sources: $(cat written)"
    exit 1
}

# A package refuses who needs another minor version (before 1.0), and has licence, library and headers alone.
quietly "$conan" install --requires='clprune/[*]' --generator=CMakeDeps --output-folder=found
mkdir client
cat >client/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(client LANGUAGES C)
find_package(clprune $version REQUIRED)
END
quietly cmake -S client -B client/build -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$folder/found"
IFS=. read -r major minor _ <<<"$version"
others="$major.$((minor + 1)) $((major + 1)).0"
[ "$major" -gt 0 ] || [ "$minor" = 0 ] || others="$others 0.$((minor - 1))"
for other in $others; do
    sed -i "s/clprune [0-9.]*/clprune $other/" client/CMakeLists.txt
    if cmake -S client -B client/build >log 2>&1; then
        echo "failed: the package says that it is compatible with $other"
        exit 1
    fi
done
for package in home/p/b/clpru*/p; do
    find "$package" -mindepth 1 -maxdepth 1 -printf '%f ' | tr ' ' '\n' | sort | tr '\n' ' ' >content
    grep -qx ' *conaninfo.txt conanmanifest.txt include lib licenses ' content || {
        echo "failed: the package has: $(cat content)"
        exit 1
    }
done
