#!/bin/sh
# Includes and calls go down only, rooms are small, and public headers stand alone.
#   test_layers.sh SOURCE_DIR BUILD_DIR C_COMPILER [CXX_COMPILER]
# core <- runtime <- ops <- nn <- net; examples and tools see public headers only; CLBlast is included by
# src/ops/products/gemm*.c alone. Within src/ no includes run in a circle, where x.h and x.c are one; nor do calls
# between files of src, examples or tools, by the symbols of the object files in BUILD_DIR, nor imports of Python
# modules. Internal functions are used in another file than their own, public ones by nets, examples, tools or PyTorch. A
# folder has at most 25 entries. In src/net the plan and what runs know no kind of layer. Only a context's parts know
# whether it is dry; nothing calls setlocale; kernels have no variadic macros, which NVIDIA's compiler refuses. Prints each
# breach and exits 1 if there is one.
export LC_ALL=C # a decimal point in every locale
root=$1
case $2 in /*) build=$2 ;; *) build=$PWD/$2 ;; esac
cc=${3:-cc}
cxx=${4:-}
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
    src/net/*) own=4 ;;
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
        net/*) layer=4 ;;
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
        for file in $(grep -rwi --include="*.[ch]" -e "$model" -e "$model[_-][a-z0-9_-]*" examples/trainer |
            grep -v '"gpt-2"' | cut -d: -f1 | sort -u); do # which is the name of a way to cut texts, in files
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
    find_circle includes
}

# find_circle WHAT: takes edges from what nobody uses and to what uses nothing out of $folder/edges until none is left;
# the others belong to circles or join two.
find_circle() {
    while :; do
        awk 'NR == FNR { from[$1]; to[$2]; next } $1 in to && $2 in from' \
            "$folder/edges" "$folder/edges" >"$folder/left"
        cmp -s "$folder/edges" "$folder/left" && break
        mv "$folder/left" "$folder/edges"
    done
    [ ! -s "$folder/edges" ] ||
        breach "$1 run in a circle: $(sed 's/ / -> /' "$folder/edges" | tr '\n' ';')"
}

# check_modules: Python modules of examples/pytorch whose imports, also those inside of functions, lead back to themselves.
check_modules() {
    (cd examples/pytorch && grep -rEo --include='*.py' '^ *from clprune[a-z_.]* import|^import clprune[a-z_.]*' clprune) |
        sed -n 's/\.py:.*\(clprune[a-z_.]*\).*/ \1/; s/\/__init__ / /; s/\//./g; p' | sort -u >"$folder/edges"
    find_circle "imports of Python modules"
}

# check_calls PATTERN ROOT: edges from a file to the one that defines a symbol which the first one needs, over the
# object files of ROOT's sources whose path in BUILD_DIR matches PATTERN.
check_calls() {
    find "$build" -name '*.o' | grep -E "$1" | sort | while read -r object; do
        source=${object#*.dir/} # an object of a file that has gone does not count
        [ ! -f "$2/${source%.o}" ] || echo "$object"
    done >"$folder/objects"
    [ -s "$folder/objects" ] || breach "no object file in $build matches $1"
    xargs nm -A -P <"$folder/objects" | awk '
        {
            unit = $1
            sub(/.*\.dir\//, "", unit)
            sub(/\.c(\.o)?:$/, "", unit)
        }
        $3 == "U" { needs[unit, $2] }
        $3 ~ /^[A-TV-Z]$/ && $2 != "main" { place[$2] = unit }
        END {
            for (need in needs) {
                split(need, part, SUBSEP)
                if (part[2] in place && place[part[2]] != part[1])
                    print part[1], place[part[2]]
            }
        }' | sort -u >"$folder/edges"
    find_circle "calls in $1"
}

# check_needed: internal functions and data of the library that nothing outside of their file names, in sources or tests.
check_needed() {
    find "$build" -path '*clprune_objects.dir/src/*.o' | xargs nm -A -P | awk '
        { sub(/.*\.dir\//, "", $1); sub(/\.c(\.o)?:$/, "", $1) }
        $3 == "U" { needed[$2] }
        $3 ~ /^[A-TV-Z]$/ && $2 ~ /^clprune__/ { place[$2] = $1 }
        END { for (name in place) if (!(name in needed)) print name, place[name] }' | sort >"$folder/edges"
    while read -r name unit; do
        [ ! -f "$unit.c" ] || grep -rqw --include='*.[ch]' "$name" tests || breach "$name of $unit.c is used in no other file"
    done <"$folder/edges"
}

# check_callers: public functions without a caller in nets, examples, tools and PyTorch, where names have no prefix, and
# that the API guide has no reader for either.
check_callers() {
    {
        grep -rhoE --include='*.[ch]' --include='*.py' '\<clprune_[a-z0-9_]+|"[a-z0-9_]+"' src/net examples tools
        grep -o '`clprune_[a-z0-9_]*`' include/clprune/README.md
    } | sed 's/^"\(.*\)"$/clprune_\1/' | tr -d '`' | sort -u >"$folder/edges"
    for name in $(grep -hoE '\<clprune_[a-z0-9_]+\(' include/clprune/*.h | tr -d '(' | sort -u | comm -23 - "$folder/edges"); do
        breach "$name has no caller but tests, and no reader in include/clprune/README.md"
    done
}

# A file is found by its name.
check_names() {
    for name in $(find src examples tools tests -name '*.c' | sed 's/.*\///' | sort | uniq -d); do
        breach "several C files are called $name"
    done
}

# Folders that fit on a screen.
check_rooms() {
    for room in $(find src cl examples tools -type d); do
        entries=$(ls "$room" | wc -l)
        [ "$entries" -le 25 ] || breach "$room has $entries entries; 25 fit on a screen"
    done
}

# Within src/net: the graph knows nothing of the net, the plan knows the graph alone, and neither it nor what runs
# knows a kind of layer.
check_net() {
    for line in $(grep -nE '#include "net/(net_private|plan|run|kinds|rewrite)' src/net/build/*.h | cut -d: -f1,2) \
        $(grep -nE '#include "net/(net_private|run|kinds|rewrite)' src/net/plan/*.[ch] | cut -d: -f1,2) \
        $(grep -nE '#include "net/(kinds|rewrite)|clprune__net_[a-z_]+_kind\>' src/net/plan/*.[ch] src/net/run/*.[ch] |
            cut -d: -f1,2); do
        breach "$line reads what is above its room"
    done
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

for line in $(grep -rnE --include='*.cl' --include='*.clh' '__VA_ARGS__|#[ \t]*define.*\(.*\.\.\.\)' cl | cut -d: -f1,2); do
    breach "$line has a variadic macro"
done

found=0
for file in $(find include src examples tools -name '*.[ch]' -o -name '*.inc' | sort); do
    check_includes "$file"
    found=$((found + 1))
done
[ "$found" -gt 20 ] || breach "only $found files were found"
check_circles
[ ! -d examples/pytorch ] || check_modules
check_calls '/clprune_objects\.dir/src/' .
check_needed
check_callers
[ ! -d "$build/examples" ] || check_calls '/examples/.*\.dir/' examples
[ ! -d "$build/tools" ] || check_calls '/tools/.*\.dir/' tools
check_names
check_rooms
[ ! -d src/net ] || check_net
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
    objects=$folder/build/clprune_objects.dir/src/core
    mkdir -p "$objects" "$folder/src/full"
    echo 'void down(void); void up(void) { down(); }' >"$folder/src/core/up.c"
    echo 'void up(void); void down(void) { up(); } void clprune__none(void) {}' >"$folder/src/core/down.c"
    for name in up down; do "$cc" -c "$folder/src/core/$name.c" -o "$objects/$name.c.o" || exit 2; done
    mkdir -p "$folder/src/net/plan"
    echo 'extern int clprune__net_relu_kind;' >"$folder/src/net/plan/bad.c"
    echo 'CLPRUNE_API int clprune_idle(void);' >"$folder/include/clprune/idle.h"
    mkdir -p "$folder/tests" && : >"$folder/tests/up.c"
    mkdir -p "$folder/examples/pytorch/clprune/net"
    echo 'from clprune.net.two import two' >"$folder/examples/pytorch/clprune/one.py"
    echo '    from clprune.one import one' >"$folder/examples/pytorch/clprune/net/two.py"
    echo 'from clprune.three import three' >"$folder/examples/pytorch/clprune/__init__.py"
    echo 'from clprune import of_it' >"$folder/examples/pytorch/clprune/three.py"
    (cd "$folder/src/full" && touch $(seq 26))
    CLPRUNE_LAYERS_SELF=1 sh "$0" "$folder" "$folder/build" true >"$folder/told" 2>/dev/null
    told=$(grep -cE 'full has 26|clprune__none of src/core/down.c is used|clprune_idle has no caller|calls in .*: src/core/down -> src/core/up;src/core/up -> src/core/down|bad\.c includes|worse\.c names amodel|three\.c asks|locale.c calls setlocale|plan/bad.c:1 reads|called up.c|circle: .*one -> .*three -> .*two -> |clprune -> clprune.three;clprune.net.two -> clprune.one;clprune.one -> clprune.net.two;clprune.three -> clprune;' "$folder/told")
    [ "$told" -eq 15 ] || breach "the check noticed $told of 15 planted breaches"
fi

echo "$found files, $breaches breaches"
[ "$breaches" -eq 0 ]
