#!/bin/sh
# Installs a build, moves the prefix, and uses it as other projects do.
#   test_install.sh SOURCE_DIR BUILD_DIR C_COMPILER CXX_COMPILER FLAGS
# CXX_COMPILER may be empty; FLAGS are those that the library was built with and programs need, such as
# -fsanitize=address. Prints each breach and exits 1 if there is one.
# With $CLPRUNE_TEST_LONG all clients run on a device, and the sources are built in another project; else the
# C++ client does, and not with sanitizers, where compiling kernels takes most of a minute.
#
# Clients in C11 and C++17 by find_package (shared, static, a plugin of the static library) and pkg-config; one in C++17
# with CL/opencl.hpp and two threads on its queue; add_subdirectory without cmocka, static and shared. The build type
# where none is given. Label long: a read-only clone built in another folder, hardened; a build without libturbojpeg,
# libpng, jansson, PCRE2 and MPI; exported symbols are the functions of the headers; soname, rpath, hardening, man pages.
export LC_ALL=C # a decimal point in every locale
source=$1 build=$2 cc=$3 cxx=$4 flags=$5
folder=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
unset LD_LIBRARY_PATH
breaches=0

breach() {
    echo "breach: $1"
    breaches=$((breaches + 1))
}

# quietly WHAT COMMAND...: runs it; where it fails, shows its output and counts a breach.
quietly() {
    what=$1
    shift
    "$@" >"$folder/log" 2>&1 && return
    tail -40 "$folder/log"
    breach "$what failed"
    return 1
}

# starts CLIENT: without a device, a quickstart that was linked well says so.
starts() {
    if [ -n "${CLPRUNE_TEST_LONG:-}" ]; then
        quietly "running $1" "$1"
        return
    fi
    OCL_ICD_VENDORS=$folder/none OCL_ICD_FILENAMES='' LD_BIND_NOW=1 "$1" >"$folder/log" 2>&1
    [ $? = 3 ] && grep -q 'there is no OpenCL device' "$folder/log" && return
    cat "$folder/log"
    breach "$1 does not start"
}

version() {
    sed -n 's/^#define CLPRUNE_VERSION_'"$1"' *//p' "$source/include/clprune/version.h"
}
major=$(version MAJOR) minor=$(version MINOR)

# ---- what is installed ----

quietly "cmake --install (build everything first)" cmake --install "$build" --prefix "$folder/first" ||
    exit 1
prefix=$folder/moved
mv "$folder/first" "$prefix"
library=$(find "$prefix" -name libclprune.so)
libdir=$(dirname "$library")
programs="$(sed -n 's/^clprune_model(\([a-z]*\) .*/\1-train/p' "$source/examples/CMakeLists.txt")
clprune-info clprune-bench clprune-tune"
[ ! -e "$build/bin/resmlp-train-mpi" ] || for program in $programs; do
    case $program in *-train) programs="$programs $program-mpi" ;; esac
done
wanted="include/clprune/clprune.h share/doc/clprune/LICENSE share/doc/clprune/README.md"
for program in $programs; do
    wanted="$wanted bin/$program share/man/man1/$program.1 share/bash-completion/completions/$program
        share/zsh/site-functions/_$program share/fish/vendor_completions.d/$program.fish"
done
for file in $wanted; do
    [ -s "$prefix/$file" ] || breach "$file is not installed"
done
[ -f "$libdir/libclprune.a" ] || breach "libclprune.a is not installed"
# Links from one page to another work, but for those to what is not installed, or is elsewhere.
doc=$prefix/share/doc/clprune
find "$doc" -name '*.md' | while read -r page; do
    grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | grep -v '^https\{0,1\}:' | while read -r link; do
        target=$(realpath -m --relative-to="$doc" "$(dirname "$page")/$link")
        case $target in
        cl/* | src/* | tests/* | CONTRIBUTING.md | */results | */results/* | tools/paper/* | include/clprune/*.h | *.keep) ;;
        *) [ -e "$doc/$target" ] || echo "$page: $link" ;;
        esac
    done
done >"$folder/dead"
[ ! -s "$folder/dead" ] || breach "the installed pages have dead links: $(cat "$folder/dead")"

# Before 1.0 the library's name has the minor version: CONTRIBUTING.md.
abi=$major
[ "$major" -gt 0 ] || abi=0.$minor
soname=$(readelf -dW "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libclprune.so.$abi" ] || breach "the soname is $soname, not libclprune.so.$abi"

readelf -dW "$library" | grep -q 'FLAGS_1.*NODELETE' || breach "dlclose unloads functions that drivers still call"

grep -q "\"libclprune.so.$abi\"" "$source/examples/pytorch/clprune/library.py" ||
    breach "clprune/library.py does not load libclprune.so.$abi"

[ "$(sed -n 's/^ *"version": "\(.*\)",$/\1/p' "$source/tools/package/vcpkg/clprune/vcpkg.json")" = \
    "$(sed -n 's/^#define CLPRUNE_VERSION  *"\(.*\)"/\1/p' "$source/include/clprune/version.h")" ] ||
    breach "the version in vcpkg.json is another one"

cat "$source"/include/clprune/*.h | tr '\n' ' ' | sed 's/CLPRUNE_API/\n&/g' |
    sed -n 's/^CLPRUNE_API [^(]*[ *]\(clprune_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$folder/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -v '^__' | sort -u >"$folder/exported"
diff "$folder/declared" "$folder/exported" >"$folder/log" || {
    cat "$folder/log"
    breach "the exported symbols (>) are not the functions of the headers (<)"
}

# The library never prints to a program's output, exits or aborts; CLPRUNE_VERBOSE writes to a stream.
nm -D --undefined-only "$library" | sed 's/.* U //; s/@.*//' |
    grep -x -E 'v?printf|__v?printf_chk|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|__assert_fail|stdout' &&
    breach "the library imports a function that prints or ends the program"

for name in libclprune.so $programs; do
    file=$prefix/bin/$name
    [ "$name" != libclprune.so ] || file=$library
    readelf -dW "$file" >"$folder/dynamic" 2>/dev/null
    readelf -lW "$file" >"$folder/segments" 2>/dev/null
    grep -q 'Elf file type is DYN' "$folder/segments" || breach "$name is not position-independent"
    grep -q GNU_RELRO "$folder/segments" || breach "$name has no RELRO segment"
    grep -q 'FLAGS_1.*NOW' "$folder/dynamic" || breach "$name does not bind its symbols at start"
    grep 'GNU_STACK' "$folder/segments" | grep -q 'RWE' && breach "$name has an executable stack"
    nm -D "$file" >"$folder/symbols"
    grep -q '__stack_chk_fail' "$folder/symbols" || breach "$name has no stack protector"
    case $flags in
    *sanitize*) ;;
    *) grep -q '__[a-z]*_chk@' "$folder/symbols" || breach "$name was built without _FORTIFY_SOURCE" ;;
    esac
done
readelf -dW "$library" | grep -q 'PATH.*\[$ORIGIN[]:]' || breach "the library does not look beside it for CLBlast"
for program in $programs; do
    found=$(LC_ALL=C ldd "$prefix/bin/$program" | sed -n "s/.*libclprune.so.$abi => \(.*\) (.*/\1/p")
    [ "$(readlink -f "${found:-none}")" = "$(readlink -f "$library")" ] ||
        breach "$program does not find the library beside it"
    quietly "$program --help" "$prefix/bin/$program" --help
    if command -v mandoc >/dev/null; then
        quietly "mandoc -Tlint $program.1" mandoc -Tlint -Wwarning "$prefix/share/man/man1/$program.1"
    fi
done
grep -rlF -e "$build" -e "$source" "$prefix/include" "$libdir/cmake" "$libdir/pkgconfig" &&
    breach "installed files name the folder of the build"

# ---- a project that finds the package: shared, static, and a shared library made of the static one ----

cp "$source/examples/quickstart.c" "$source/tests/package/client.cpp" "$folder"
languages=C
if [ -n "$cxx" ] && echo '#include <CL/opencl.hpp>' | $cxx -std=c++17 -x c++ -E - >/dev/null 2>&1; then
    languages="C CXX"
else
    echo "no C++ compiler, or CL/opencl.hpp (opencl-clhpp-headers) is not installed: no C++ client"
fi
mkdir "$folder/package"
older= # before 1.0 a minor version may break programs
[ "$major" != 0 ] || [ "$minor" = 0 ] || older=$major.$((minor - 1))
cat >"$folder/package/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(client LANGUAGES $languages)
foreach(version IN ITEMS $older $major.$((minor + 1)) $((major + 1)).0)
    find_package(clprune \${version} QUIET)
    if(clprune_FOUND)
        message(FATAL_ERROR "the package says that it is compatible with \${version}")
    endif()
endforeach()
find_package(clprune $major.$minor REQUIRED COMPONENTS static)
if(EXISTS "$libdir/libclprune.so")
    find_package(clprune $major.$minor REQUIRED COMPONENTS shared)
endif()
add_executable(client_c ../quickstart.c)
add_executable(client_static ../quickstart.c)
add_library(plugin SHARED ../quickstart.c)
set_target_properties(client_c client_static plugin PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_link_libraries(client_c PRIVATE clprune::clprune m)
target_link_libraries(client_static PRIVATE clprune::clprune_static m)
target_link_libraries(plugin PRIVATE clprune::clprune_static m)
target_link_options(plugin PRIVATE LINKER:--no-undefined)
if(CMAKE_CXX_COMPILER)
    find_package(Threads REQUIRED)
    add_executable(client_cpp ../client.cpp)
    target_compile_features(client_cpp PRIVATE cxx_std_17)
    target_compile_options(client_cpp PRIVATE -Wall -Wextra -Wpedantic -Werror)
    target_link_libraries(client_cpp PRIVATE clprune::clprune Threads::Threads)
endif()
END
# With the sanitizers a plugin leaves their symbols to the program.
case $flags in *sanitize*) sed -i '/no-undefined/d' "$folder/package/CMakeLists.txt" ;; esac
configure() {
    cmake -S "$1" -B "$1/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" \
        ${cxx:+"-DCMAKE_CXX_COMPILER=$cxx"} -DCMAKE_CXX_FLAGS="$flags" "-DCMAKE_PREFIX_PATH=$prefix"
}
if quietly "find_package" configure "$folder/package" &&
    quietly "building with find_package" cmake --build "$folder/package/build" --parallel 2; then
    starts "$folder/package/build/client_c"
    starts "$folder/package/build/client_static"
    case $languages,$flags,${CLPRUNE_TEST_LONG:-} in
    C,* | *sanitize*,) ;;
    *) quietly "running client_cpp" "$folder/package/build/client_cpp" ;;
    esac
    ldd "$folder/package/build/client_static" | grep libclprune && breach "client_static is not static"
fi

# ---- pkg-config ----

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    cd "$folder" || exit 2
    # shellcheck disable=SC2046,SC2086 # words
    quietly "building with pkg-config" $cc $flags quickstart.c -o shared \
        $(pkg-config --cflags --libs clprune) -lm \
        -Wl,-rpath,$(pkg-config --variable=libdir clprune) && starts ./shared
    mkdir away && mv "$libdir"/libclprune.so* away
    # shellcheck disable=SC2046,SC2086
    quietly "building with pkg-config --static" $cc $flags quickstart.c -o static \
        $(pkg-config --static --cflags --libs clprune) && starts ./static
    cd - >/dev/null || exit 2
else
    echo "no pkg-config: not checked"
fi

# ---- the sources in another project, without cmocka ----

mkdir "$folder/parent"
echo 'int other(void); int other(void) { return 0; }' >"$folder/parent/other.c"
cat >"$folder/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES C)
enable_testing()
set(shared "\${BUILD_SHARED_LIBS}")
add_subdirectory("$source" clprune)
add_library(other other.c)
get_target_property(other_type other TYPE)
get_target_property(type clprune::clprune TYPE)
set(expected STATIC_LIBRARY)
if(shared)
    set(expected SHARED_LIBRARY)
endif()
if(NOT "\${BUILD_SHARED_LIBS}" STREQUAL "\${shared}" OR NOT other_type STREQUAL expected OR CMAKE_POSITION_INDEPENDENT_CODE)
    message(FATAL_ERROR "add_subdirectory changed the other libraries: \${other_type}")
endif()
if(NOT type STREQUAL expected)
    message(FATAL_ERROR "add_subdirectory builds a \${type}")
endif()
foreach(target IN ITEMS test_status resmlp-train clprune-info)
    if(TARGET \${target})
        message(FATAL_ERROR "add_subdirectory builds \${target}")
    endif()
endforeach()
add_executable(client $folder/quickstart.c)
target_link_libraries(client PRIVATE clprune::clprune m)
install(TARGETS client)
END
# build_type FOLDER TYPE: the type of a build; without one given, clprune alone is optimised, and another project its own.
build_type() {
    got=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$1/CMakeCache.txt")
    [ "$got" = "$2" ] || breach "the build type is '$got', not '$2': $1"
}
no_cmocka=-DCMAKE_DISABLE_FIND_PACKAGE_cmocka=ON
for shared in '' -DBUILD_SHARED_LIBS=ON; do
    out=$folder/parent/build$shared
    quietly "add_subdirectory without cmocka $shared" cmake -S "$folder/parent" -B "$out" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS=-O0 $no_cmocka $shared &&
        build_type "$out" '' &&
        if [ -n "${CLPRUNE_TEST_LONG:-}" ]; then # compiles the library
            quietly "building with add_subdirectory $shared" cmake --build "$out" --parallel 2 &&
                starts "$out/client" &&
                quietly "installing the client" cmake --install "$out" --prefix "$out/prefix"
            [ "$(find "$out/prefix" -type f -exec basename {} \;)" = client ] ||
                breach "the other project installs more than its client"
        fi
done
if quietly "configuring without cmocka" cmake -S "$source" -B "$folder/plain" \
    -DCMAKE_C_COMPILER="$cc" $no_cmocka; then
    grep -q 'cmocka is not installed.*libcmocka-dev.*tests are not built' "$folder/log" ||
        breach "without cmocka, nothing says that the tests are not built"
    build_type "$folder/plain" RelWithDebInfo
    quietly "configuring for Debug" cmake -S "$source" -B "$folder/plain" -DCMAKE_BUILD_TYPE=Debug && build_type "$folder/plain" Debug
fi
if command -v ninja >/dev/null && quietly "configuring for several types" cmake -S "$source" -B "$folder/several" \
    -G "Ninja Multi-Config" -DCMAKE_C_COMPILER="$cc" $no_cmocka; then
    build_type "$folder/several" ''
fi
if cmake -S "$source" -B "$folder/plain" -DCLPRUNE_TESTS=ON $no_cmocka >"$folder/log" 2>&1; then
    breach "CLPRUNE_TESTS=ON does without cmocka"
fi
tr '\n' ' ' <"$folder/log" | grep -q 'tests need cmocka.*libcmocka-dev' ||
    breach "CLPRUNE_TESTS=ON without cmocka does not name the package to install"

# ---- a clone that may only be read, built in another folder; the libraries for images and weights are missing ----

if [ -n "${CLPRUNE_TEST_LONG:-}" ]; then
    mkdir "$folder/clone" "$folder/elsewhere"
    tar -C "$source" --exclude=./build --exclude=./demo --exclude=./.git -cf - . | tar -C "$folder/clone" -xf -
    chmod -R a-w,a+rX "$folder/clone"
    user=env
    if [ "$(id -u)" = 0 ]; then # who may write everywhere
        chmod 755 "$folder"
        chown 65534:65534 "$folder/elsewhere"
        user='setpriv --reuid 65534 --regid 65534 --clear-groups'
    fi
    cd "$folder/clone" || exit 2
    # shellcheck disable=SC2086 # words
    quietly "cmake -B in a read-only clone" $user cmake -B "$folder/elsewhere" -DCMAKE_C_COMPILER="$cc" \
        -DCLPRUNE_TESTS=OFF -DCLPRUNE_IMAGES=OFF -DCLPRUNE_JANSSON=OFF -DCLPRUNE_PCRE2=OFF -DCLPRUNE_MPI=OFF &&
        { grep -q 'clprune: no MPI' "$folder/log" || breach "cmake does not say that there is no MPI"; } &&
        quietly "building a read-only clone" $user cmake --build "$folder/elsewhere" --parallel 2
    nm -D "$folder/elsewhere/lib/libclprune.so" | grep -q '__[a-z]*_chk@' ||
        breach "in a read-only clone, cmake -B builds without _FORTIFY_SOURCE"
    cd - >/dev/null || exit 2
    train=$folder/elsewhere/bin/resmlp-train
    mkdir -p "$folder/images/train/cat" "$folder/images/val/cat"
    printf '\2\0\0\0\0\0\0\0{}' >"$folder/w.safetensors"
    "$train" --plan --data "$folder/images" >"$folder/log" 2>&1
    "$train" --test-only --import "$folder/w.safetensors" >>"$folder/log" 2>&1
    for library in 'libturbojpeg and libpng' jansson; do
        grep -q "built without $library" "$folder/log" || {
            cat "$folder/log"
            breach "a program without $library does not say so"
        }
    done
fi

[ $breaches -eq 0 ] || echo "$breaches breaches"
[ $breaches -eq 0 ]
