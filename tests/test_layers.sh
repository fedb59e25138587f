#!/bin/sh
# Includes go down only, and public headers stand alone.
#   test_layers.sh SOURCE_DIR C_COMPILER [CXX_COMPILER]
# core <- runtime <- ops <- nn; examples and tools see public headers only; CLBlast is included by
# src/ops/gemm*.c alone. Prints each breach and exits 1 if there is one.
root=$1
cc=${2:-cc}
cxx=${3:-}
cd "$root" || exit 2
breaches=0

breach() {
    echo "$1"
    breaches=$((breaches + 1))
}

# check_includes FILE: reads the quoted includes and CLBlast's.
check_includes() {
    file=$1
    case $file in
    src/core/*) own=0 ;;
    src/runtime/*) own=1 ;;
    src/ops/*) own=2 ;;
    src/nn/*) own=3 ;;
    *) own=-1 ;; # public headers, examples, tools
    esac
    for header in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*["<]\([^">]*\)[">].*/\1/p' "$file"); do
        case $header in
        *clblast*)
            case $file in
            src/ops/gemm*.c) ;;
            *) breach "$file includes $header; only src/ops/gemm*.c may" ;;
            esac
            continue
            ;;
        core/*) layer=0 ;;
        runtime/*) layer=1 ;;
        ops/*) layer=2 ;;
        nn/*) layer=3 ;;
        *../*)
            breach "$file includes $header by a relative path"
            continue
            ;;
        *) continue ;;
        esac
        [ "$layer" -le "$own" ] || breach "$file includes $header, which is above or private"
    done
}

# A program's model knows the trainer, the trainer knows no model.
check_trainer() {
    for model in examples/*/; do
        model=${model#examples/}
        model=${model%/}
        case $model in trainer | pytorch | '*') continue ;; esac
        for file in $(grep -rlwi -e "$model" -e "$model[_-][a-z0-9_-]*" examples/trainer); do
            breach "$file names $model; examples/trainer knows no model"
        done
        for file in $(find examples/trainer -name '*.[ch]'); do
            for header in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$file"); do
                [ ! -e "examples/$model/$header" ] ||
                    breach "$file includes $header of examples/$model"
            done
        done
    done
}
check_trainer

found=0
for file in $(find include src examples tools -name '*.[ch]' -o -name '*.inc' | sort); do
    check_includes "$file"
    found=$((found + 1))
done
[ "$found" -gt 20 ] || breach "only $found files were found"

folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"
for header in include/clprune/*.h; do
    name=clprune/${header##*/}
    # Included twice: the guard must hold.
    printf '#include "%s"\n#include "%s"\nint use;\n' "$name" "$name" >"$folder/use.c"
    $cc -std=c11 $warnings -Iinclude -fsyntax-only "$folder/use.c" ||
        breach "$name does not compile by itself as C11"
    if [ -n "$cxx" ]; then
        $cxx -std=c++11 $warnings -Iinclude -x c++ -fsyntax-only "$folder/use.c" ||
            breach "$name does not compile by itself as C++11"
    fi
    grep -q "\"$name\"" include/clprune/clprune.h || [ "$name" = clprune/clprune.h ] ||
        breach "$name is missing in clprune.h"
done
if [ -n "$cxx" ]; then
    # What macros and inline functions expand to must be C++ too.
    cat >"$folder/use.cpp" <<'CODE'
#include "clprune/clprune.h"
clprune_mat absent() { return CLPRUNE_NO_MAT; }
clprune_mat rows(cl_mem buffer) { return clprune_mat_rows(clprune_mat_of(buffer, 2, 3), 1, 1); }
CODE
    $cxx -std=c++11 $warnings -Iinclude -fsyntax-only "$folder/use.cpp" ||
        breach "the macros of the headers do not compile as C++11"
fi

# The checker itself must see a breach.
if [ -z "$CLPRUNE_LAYERS_SELF" ]; then
    mkdir -p "$folder/include/clprune" "$folder/src/core" "$folder/examples" "$folder/tools"
    echo '#include "runtime/check.h"' >"$folder/src/core/bad.c"
    echo '#include "core/checked.h"' >"$folder/examples/bad.c"
    echo '#include <clblast_c.h>' >"$folder/tools/bad.c"
    mkdir -p "$folder/examples/trainer" "$folder/examples/amodel"
    echo '#include "forward.h"' >"$folder/examples/trainer/bad.c"
    echo '/* as amodel_forward does */' >"$folder/examples/trainer/worse.c"
    touch "$folder/examples/amodel/forward.h"
    told=$(CLPRUNE_LAYERS_SELF=1 sh "$0" "$folder" true 2>/dev/null |
        grep -c -e 'bad\.c includes' -e 'worse\.c names amodel')
    [ "$told" -eq 5 ] || breach "the check noticed $told of 5 planted breaches"
fi

echo "$found files, $breaches breaches"
[ "$breaches" -eq 0 ]
