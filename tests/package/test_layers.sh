#!/bin/sh
# Includes go down only, and public headers stand alone.
#   test_layers.sh SOURCE_DIR C_COMPILER [CXX_COMPILER]
# core <- runtime <- ops <- nn; examples and tools see public headers only; CLBlast is included by
# src/ops/products/gemm*.c alone; within src/ no includes run in a circle, where x.h and x.c are one; and only
# a context's parts know whether it is dry; and nothing calls setlocale. Prints each breach and exits 1
# if there is one.
export LC_ALL=C # a decimal point in every locale
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
            src/ops/products/gemm*.c) ;;
            *) breach "$file includes $header; only src/ops/products/gemm*.c may" ;;
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
        for file in $(grep -rlwi --include="*.[ch]" -e "$model" -e "$model[_-][a-z0-9_-]*" examples/trainer); do
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
# check_circles: units of src/ (x.h and x.c are src/room/x) whose includes lead back to themselves.
# Edges from what nobody includes and to what includes nothing are taken away until none is left.
check_circles() {
    find src -name '*.[ch]' | sort | while read -r file; do
        unit=${file#src/}
        sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([a-z]*\/[^"]*\)\.h".*/\1/p' "$file" |
            while read -r header; do
                [ ! -f "src/$header.h" ] || [ "$header" = "${unit%.[ch]}" ] || echo "${unit%.[ch]} $header"
            done
    done | sort -u >"$folder/edges"
    while :; do
        awk 'NR == FNR { from[$1]; to[$2]; next } $1 in to && $2 in from' \
            "$folder/edges" "$folder/edges" >"$folder/left"
        cmp -s "$folder/edges" "$folder/left" && break
        mv "$folder/left" "$folder/edges"
    done
    [ ! -s "$folder/edges" ] ||
        breach "includes run in a circle: $(sed 's/ / -> /' "$folder/edges" | tr '\n' ';')"
}

# Whether a context is dry, its backend knows, and the record of its commands; nobody asks else.
check_dry() {
    for file in $(grep -lE 'clprune__dry_backend|context->record' -r src | sort); do
        case $file in
        src/runtime/launch/backend*.[ch] | src/runtime/context/context*.[ch] | src/runtime/memory/plan*.c) ;;
        *) breach "$file asks whether the context is dry; add to the backend what it needs" ;;
        esac
    done
}

# The programs write decimal points in every locale, and the library leaves the locale to its caller.
check_locale() {
    for file in $(grep -lr --include='*.[ch]' --include='*.inc' '\<setlocale *(' src examples tools | sort); do
        breach "$file calls setlocale; numbers would depend on the locale"
    done
}

folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

found=0
for file in $(find include src examples tools -name '*.[ch]' -o -name '*.inc' | sort); do
    check_includes "$file"
    found=$((found + 1))
done
[ "$found" -gt 20 ] || breach "only $found files were found"
check_circles
check_dry
check_locale

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
    echo '#include "core/two.h"' >"$folder/src/core/one.h"
    echo '#include "core/three.h"' >"$folder/src/core/two.c" && : >"$folder/src/core/two.h"
    echo '#include "core/one.h"' >"$folder/src/core/three.h"
    echo 'int use(void) { return context->record != 0; }' >"$folder/src/core/three.c"
    echo 'char *was = setlocale(LC_ALL, "");' >"$folder/tools/locale.c"
    CLPRUNE_LAYERS_SELF=1 sh "$0" "$folder" true >"$folder/told" 2>/dev/null
    told=$(grep -cE 'bad\.c includes|worse\.c names amodel|three\.c asks|locale.c calls setlocale|circle: .*one -> .*three -> .*two -> ' "$folder/told")
    [ "$told" -eq 8 ] || breach "the check noticed $told of 8 planted breaches"
fi

echo "$found files, $breaches breaches"
[ "$breaches" -eq 0 ]
