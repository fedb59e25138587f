#!/bin/sh
# Doxygen makes the reference of the public headers without a warning, and notices what has no comment.
#   test_reference.sh SOURCE_DIR BUILD_DIR
# Exits 77 without Doxygen.
export LC_ALL=C # a decimal point in every locale
source=$1 build=$2
command -v doxygen >/dev/null || {
    echo "no doxygen; on Debian: apt-get install doxygen"
    exit 77
}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
failures=0

# reference HEADERS: of a folder of headers, into $folder/html.
reference() {
    { cat "$build/reference.doxyfile" && echo "INPUT = $1" && echo "OUTPUT_DIRECTORY = $folder"; } |
        doxygen - >"$folder/log" 2>&1
}

reference "$source/include/clprune" || {
    cat "$folder/log"
    failures=$((failures + 1))
}
[ -s "$folder/html/index.html" ] || failures=$((failures + 1))
# A comment before, one behind, and one that several functions share.
for text in 'Enqueues a read\|Copies' 'elements from one row to the next'; do
    grep -rq "$text" "$folder/html" || {
        echo "FAILED: '$text' is not in the reference"
        failures=$((failures + 1))
    }
done

# notices WHAT HEADER SED_SCRIPT: a header that is changed so fails.
notices() {
    rm -rf "$folder/include"
    mkdir -p "$folder/include"
    cp -r "$source/include/clprune" "$folder/include"
    sed -i "$3" "$folder/include/clprune/$2"
    cmp -s "$source/include/clprune/$2" "$folder/include/clprune/$2" && echo "$2 did not change"
    reference "$folder/include/clprune" || return
    echo "FAILED: not noticed: $1"
    failures=$((failures + 1))
}
declare='CLPRUNE_API void clprune_undocumented(void);'
notices "a function without a comment" gemm.h "/^CLPRUNE_API/{s/^/\n/;:a;/;\$/!{N;ba};s/\$/\n\n$declare/}"
notices "a struct without a comment" memory.h '/^\/\* The figures of a category. \*\/$/d'
notices "a reference to an unknown name" gemm.h '1s/^\/\*/\/* \\ref clprune_unknown/'
[ $failures -eq 0 ]
