#!/usr/bin/env bash
# The code blocks of the READMEs: C is compiled and run, CMake and pkg-config lines build a program, commands are
# given to their programs, files that are named exist, and so do presets and -D names of cmake. A block without a rule
# here is a failure.
#   test_readme.sh SOURCE_DIR BUILD_DIR C_COMPILER FLAGS
# FLAGS are those that the library was built with and programs need, such as -fsanitize=address.
#
# Not run, with the reason:
#   tools/demo.sh, tools/test.sh, tests/long/*.sh   minutes; test.sh runs this. Syntax only
#   scripts of results/                        hours, and data sets. Syntax only
#   cmake ..., sudo ...                        presets and -D names only; with $CLPRUNE_TEST_LONG the commands under
#                                              "## Install" run in a copy of the sources, and install nothing here
#   training                                   minutes; options are read, the memory is planned
#   clprune-bench, clprune-tune                minutes; read until the device is missing
#   commands under "On a GPU"                  no GPU here. Syntax only
#   python3                                    minutes. Files exist
# Lines of Python run where python3 has PyTorch and the library no sanitizers, which python3 cannot load; else
# their functions exist.
export LC_ALL=C # a decimal point in every locale
set -u
source=$1 build=$2 cc=$3 flags=$4
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
export PATH=$build/bin:$PATH ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
failures=0 checked=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# ---- a file for each block: NUMBER with its lines, NUMBER.from with its file, line and language ----
mkdir "$folder/blocks" "$folder/run" "$folder/none"
cd "$source" || exit 2
for file in ./*.md ./*/README.md ./*/*/README.md ./*/*/results/README.md; do
    case $file in ./build/* | ./demo/*) continue ;; esac
    [ -f "$file" ] && awk -v file="${file#./}" -v out="$folder/blocks/$(echo "$file" | tr -c 'a-zA-Z\n' _)" '
        function begin(what) {
            count++
            name = sprintf("%s%02d", out, count)
            printf "%s:%d %s\n", file, NR, what >(name ".from")
        }
        /^```/ { fence = !fence; if (fence) begin(substr($0, 4)); else indented = 0; next }
        fence { print >name; next }
        /^    / && (blank || indented) {
            if (!indented) begin("indented")
            indented = 1
            print substr($0, 5) >name
            next
        }
        /^$/ { blank = 1; if (indented) print "" >name; next }
        { indented = 0; blank = 0 }' "$file"
done
cd "$folder/run" || exit 2

# exists NAME...: relative to the README or to the sources.
exists() {
    for name in "$@"; do
        compgen -G "$source/$(dirname "$file")/$name" >/dev/null || compgen -G "$source/$name" >/dev/null ||
            fail "$from: there is no $name"
    done
}

script() {
    exists "$1"
    name=$source/$(dirname "$file")/$1
    [ -f "$name" ] || name=$source/$1
    case $1 in *.sh) bash -n "$name" || fail "$from: $1 is no script" ;; esac
    [ -x "$name" ] || fail "$from: cannot run $1"
}

# options COMMAND...: the program takes them. --help stops it where files or a device would be needed.
trainer() {
    last=--plan
    case "$*" in *--help*) last='' ;; *--resume* | *--import* | *--adapters* | *--sample* | *--tensorboard* | *auto*) last=--help ;; esac
    # shellcheck disable=SC2086 # a word or none
    "$@" $last --output-dir out >out.txt 2>err || fail "$from: $*: $(tail -n 3 err)"
    case $last in --plan) grep -q 'MiB' out.txt || fail "$from: $*: no plan" ;; esac
}
tool() {
    OCL_ICD_VENDORS=$folder/none OCL_ICD_FILENAMES='' "$@" >out.txt 2>err
    [ $? = 3 ] && grep -q 'no OpenCL device' err || fail "$from: $*: $(tail -n 3 err)"
}

command_line() {
    set -f
    # shellcheck disable=SC2086 # words
    set -- $1
    set +f
    case $1 in
    CLPRUNE_TUNING=* | CLPRUNE_PRECISION=tf32) # the file does not exist
        shift
        command_line "$*"
        ;;
    NAME-train)
        shift
        for name in resmlp-train gpt-train bert-train; do # of images, texts and sentences
            trainer $name "$@"
        done
        ;;
    *-train) trainer "$@" ;;
    clprune-bench | clprune-tune | clprune-info) tool "$@" ;;
    tools/*.sh | tests/*.sh | results/*.sh | results/*.py | *.sh) script "$1" ;;
    REPEAT=*) script "$2" ;;
    mpirun | srun) # the options of the program for one process
        while [ $# -gt 0 ] && [ "${1%-train-mpi}" = "$1" ]; do
            shift
        done
        [ $# = 0 ] && fail "$from: no program of the trainer" || command_line "${1%-mpi} ${*:2}"
        ;;
    cmake | sudo) ;; # cmake_names
    export) [ "$2" = 'CLPRUNE_LIBRARY=$PWD/build/release/lib/libclprune.so' ] || fail "$from: no rule for: $*" ;;
    python3) exists "$2" ;;
    pip) exists "$3/pyproject.toml" ;;
    vcpkg) exists "${4#*=}/$3/portfile.cmake" ;; # test_vcpkg.sh and test_conan.sh run the recipes
    conan) exists "$3/conanfile.py" ;;
    import | ... | with | module | print\(clprune.* | clprune.* | net | loss | batch | loss.backward* | model.load_state_dict*) echo "$*" >>lines.py ;;
    *) fail "$from: no rule for: $*" ;;
    esac
}

# ---- what the blocks are about: an image set, a text, an installed prefix ----
mkdir DIR
for name in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    head -c $((3073 * 64)) /dev/zero >DIR/$name.bin
done
echo '{"model_type": "gpt2", "vocab_size": 65536, "n_layer": 1, "n_embd": 64, "n_head": 4}' >DIR/config.json
cmake --install "$build" --prefix "$folder/prefix" >log 2>&1 || fail "cmake --install: $(tail -n 3 log)"
seq 10000 >book.txt
head -c 60000 /dev/zero >tokens.bin
printf '\0\0\1\0\1\0%.0s' $(seq 20) >sentences.bin # of one token each
library=$(find "$folder/prefix" -name libclprune.so)

c_block() {
    cp "$source/tests/package/readme_block.c" app.c
    # shellcheck disable=SC2086 # words
    $cc $flags -std=c11 -DCL_TARGET_OPENCL_VERSION=120 -Wall -Wextra -Werror -Wno-missing-field-initializers \
        -I"$folder/prefix/include" app.c -o app -L"${library%/*}" "-Wl,-rpath,${library%/*}" -lclprune -lOpenCL \
        2>log && ./app >>log 2>&1 || fail "$from: $(cat log)"
}

# Lines of CMake, then of pkg-config, for a program app.c.
consumers() {
    {
        echo 'cmake_minimum_required(VERSION 3.22)'
        echo 'project(app LANGUAGES C)'
        echo 'add_executable(app app.c)'
        grep '^[a-z_]*(' "$1"
    } >CMakeLists.txt
    cmake -S . -B app-build -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS="$flags" >log 2>&1 && cmake --build app-build >>log 2>&1 && app-build/app version >version ||
        fail "$from: $(tail -n 20 log)"
    command -v pkg-config >/dev/null || return
    grep -v '^[a-z_]*(' "$1" | sed "s|DIR|$folder/prefix|; s|^cc |$cc $flags |" >pkg-config.sh
    grep -q '^export PKG_CONFIG_PATH' pkg-config.sh || fail "$from: no pkg-config"
    bash -e pkg-config.sh >log 2>&1 && ./a.out version | cmp -s - version || fail "$from: pkg-config: $(cat log)"
}

for block in "$folder"/blocks/*[0-9]; do # those of C are parts of one program
    case $(cat "$block.from") in *' c') cat "$block" >>block.inc ;; esac
done
from='the blocks of C'
c_block
for block in "$folder"/blocks/*[0-9]; do
    from=$(cat "$block.from")
    file=${from%%:*} language=${from##* }
    checked=$((checked + 1))
    [ "$language" != c ] || continue
    if [ "$language" != indented ]; then
        fail "$from: no rule for the language $language"
        continue
    fi
    case $file:$(head -n 1 "$block") in
    README.md:find_package*) consumers "$block" ;;
    tests/README.md:CLPRUNE_PRECISION=tf32*) bash -n "$block" || fail "$from: not a script" ;;
    examples/trainer/README.md:'# PLACE'*)
        cp "$block" keep.txt
        trainer resmlp-train --keep-file keep.txt
        ;;
    include/clprune/README.md:clprune,info*) # the format and a sample: the kinds and columns are the library's
        CLPRUNE_VERBOSE=1 clprune-quickstart >verbose.txt 2>&1
        columns=1-6
        grep -q '^clprune,info,.*,vector$' verbose.txt || columns=1-4 # other kernels
        sample=$(sed -n '/^\$/{n;p;}' "$block" | cut -d, -f$columns)
        cut -d, -f$columns verbose.txt | grep -qxF "$sample" || fail "$from: CLPRUNE_VERBOSE=1 does not print '$sample'"
        ;;
    examples/README.md:* | CONTRIBUTING.md:* | examples/*/README.md:*.h* | tests/golden/README.md:*.h*) # a tree
        while read -r line; do
            [[ $line == *'  '* || $line == *.h* ]] || continue
            # shellcheck disable=SC2046,SC2086 # words
            exists $(set -f; echo ${line%%  *} | tr ' ' '\n' | grep -E '(\.(h|c|sh|py|inc)|/)$')
        done <"$block"
        ;;
    *) # commands, a formula or a table
        case $file:$(head -n 1 "$block") in
        examples/resmlp/README.md:norm1* | examples/resnet/README.md:conv1* | tests/golden/README.md:*) continue ;;
        esac
        while IFS= read -r line; do
            case $line in ' '*) continue ;; esac # an explanation that goes on
            line=${line%%  *} line=${line%% #*}
            line=$(echo "$line" | sed 's/ *\\$//')
            [ -z "$line" ] || command_line "$line"
        done < <(sed -e :a -e '/\\$/N; s/\\\n *//; ta' "$block")
        ;;
    esac
done
for name in $(grep -o 'clprune\.[A-Za-z_]*' lines.py | sort -u); do
    grep -Eqrs "^(def|class) ${name#*.}[(:]" "$source/examples/pytorch/clprune" ||
        fail "the Python modules have no ${name#*.}"
done
cat - lines.py >readme.py <<'END'
import clprune, torch
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
images, labels = torch.rand(8, 32), torch.randint(4, (8,))
texts, tokenizer = [], lambda texts, **how: images
END
echo 'model(images).sum().backward()' >>readme.py
ran='not run: no python3 with PyTorch'
[ -z "$flags" ] || ran='not run: sanitizers'
for python in ${CLPRUNE_PYTHON:-} /usr/bin/python3 python3; do
    [ -z "$flags" ] && "$python" -c 'import torch; assert torch.__version__ >= "2"' 2>/dev/null || continue
    ran='run'
    PYTHONPATH=$source/examples/pytorch CLPRUNE_LIBRARY=$library "$python" readme.py >log 2>&1 ||
        fail "the lines of Python: $(tail -n 5 log)"
    break
done
echo "lines of Python: $(wc -l <lines.py), $ran"
# Tests that are named exist.
for name in $(grep -oh '`\(test\|fuzz\)_[a-z0-9_]*[*]\{0,1\}\(\.sh\)\{0,1\}`' "$source"/*.md "$source/tests/README.md" \
    "$source/include/clprune/README.md" | tr -d '`' | sort -u); do
    [ -n "$(find "$source/tests" -name "$name" -o -name "$name.[cps]*")" ] ||
        grep -q "NAME $name " "$source/tests/CMakeLists.txt" || fail "a README names $name, which does not exist"
done

# ---- presets and -D names of each cmake and ctest command, also of those within a text ----
cmake --list-presets=all "$source" | awk -F '"' '/^Available / { split($0, word, " ") } NF > 1 { print word[2], $2 }' >presets
find "$source" -name build -prune -o \( -name CMakeLists.txt -o -name '*.cmake' \) -print0 |
    xargs -0 sed -n 's/^ *option(\([A-Z_]*\) .*/\1/p; s/^ *set(\([A-Z_]*\) .* CACHE .*/\1/p' >options
cmake --help-variable-list >>options
named=0
while IFS=: read -r name number line; do
    from=${name#"$source/"}:$number
    while read -r part; do
        kind=configure
        case $part in
        *ctest\ *) kind=test ;;
        *cmake\ *--build\ *) kind=build ;;
        *cmake\ *) ;;
        *) continue ;;
        esac
        for word in $(sed -n 's/.*--preset[ =]*\([^ ]*\).*/\1/p' <<<"$part"); do
            named=$((named + 1))
            grep -qx "$kind $word" presets || fail "$from: CMakePresets.json has no $kind preset $word"
        done
        for word in $(grep -oE -e '-D([A-Za-z_]+| +[A-Z_]+)' <<<"$part" | sed 's/^-D *//'); do
            named=$((named + 1))
            grep -qx "$word" options || grep -qx "$(sed 's/_C_/_<LANG>_/' <<<"$word")" options ||
                fail "$from: no CMakeLists.txt has an option $word"
        done
    done < <(sed 's/&&/\n/g; s/[`;|]/\n/g' <<<"$line")
done < <(for name in "$source"/*.md "$source"/*/README.md "$source"/*/*/README.md "$source"/*/*/results/README.md; do
    case $name in "$source"/build/* | "$source"/demo/*) continue ;; esac
    grep -HnE '(cmake|ctest) ' "$name"
done)
[ $named -ge 8 ] || fail "only $named presets and -D names were found"
echo "$named presets and -D names"

# ---- the commands under "## Install", in a copy of the sources ----
if [ -n "${CLPRUNE_TEST_LONG:-}" ]; then
    sed -n '/^## Install$/,/^## [^I]/p' "$source/README.md" >install.md
    awk '/^    / { print substr($0, 5); found = 1; next } found { exit }' install.md >install.sh
    sed -n 's/.*`\(cmake --preset deb [^`]*\)`.*/\1/p' install.md >deb.sh
    mkdir copy stubs
    tar -C "$source" --exclude=./build --exclude=./demo --exclude=./.git -cf - . | tar -C copy -xf -
    printf '#!/bin/sh\necho "$@" >>%s/sudo\nDESTDIR=%s/installed exec "$@"\n' "$PWD" "$PWD" >stubs/sudo
    printf '#!/bin/sh\necho ldconfig >>%s/ldconfig\n' "$PWD" >stubs/ldconfig
    chmod +x stubs/*
    if (cd copy && PATH=${PWD%/*}/stubs:$PATH bash -e ../install.sh) >log 2>&1; then
        at=installed/usr/local
        for name in bin/resmlp-train bin/clprune-info include/clprune/clprune.h share/man/man1/clprune-info.1; do
            [ -s $at/$name ] || fail "the commands under Install do not install $name"
        done
        for name in libclprune.so libclprune.a clprune.pc clprune-config.cmake; do
            [ -n "$(find $at -name $name)" ] || fail "the commands under Install do not install $name"
        done
        $at/bin/clprune-info --version | grep -q '^clprune-info ' || fail "the installed clprune-info does not run"
        [ "$(sort -u sudo ldconfig | tr '\n' ,)" = 'cmake --install build/release,ldconfig,' ] ||
            fail "sudo and ldconfig were called so: $(cat sudo ldconfig)"
    else
        fail "README.md, under Install: $(tail -n 20 log)"
    fi
    [ -s deb.sh ] || fail "README.md has no line under Install that makes Debian packages"
    if (cd copy && bash -e ../deb.sh) >log 2>&1; then
        [ "$(find copy/build/deb -maxdepth 1 -name '*.deb' | wc -l)" = 3 ] || fail "not three packages: $(ls copy/build/deb)"
    else
        fail "README.md, Debian packages ('$(cat deb.sh)'): $(tail -n 20 log)"
    fi
fi
[ $checked -ge 25 ] || fail "only $checked blocks were found"
echo "$checked blocks"
[ $failures = 0 ]
