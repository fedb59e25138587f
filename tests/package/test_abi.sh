#!/bin/sh
# The library's ABI is that of golden/libclprune.abi: functions, their arguments, every public struct's
# layout and every enumerator.
#
#     test_abi.sh SOURCE_DIR LIBRARY [--update]
#
# LIBRARY has debug information. --update writes the file, after a change that is meant: before 1.0 a
# minor version may break programs, a patch may not (CONTRIBUTING.md). Exits with 77 without abidiff.
export LC_ALL=C # a decimal point in every locale
set -u
usage="usage: test_abi.sh SOURCE_DIR LIBRARY [--update]"
source=${1:?$usage} library=${2:?$usage}
golden=$source/tests/golden/libclprune.abi
command -v abidiff >/dev/null || {
    echo "no abidiff; on Debian: apt-get install abigail-tools"
    exit 77
}
readelf -S "$library" | grep -q debug_info || {
    echo "$library has no debug information, so its types cannot be compared"
    exit 1
}
if [ "${3:-}" = --update ]; then
    abidw --headers-dir "$source/include" --drop-private-types --drop-undefined-syms \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --no-elf-needed \
        --type-id-style hash "$library" |
        sed "s|path='[^']*/kernel_source.c'|path='kernel_source.c'|" >"$golden"
    exit
fi
functions=$(grep -c '<function-decl' "$golden")
[ "$functions" -gt 100 ] || {
    echo "$golden has $functions functions, expected more than 100"
    exit 1
}
# The file only declares what is private, which a library defines: abidiff passes over that.
abidiff "$golden" "$library" && exit
echo "the ABI is not that of $golden; if the change is meant: test_abi.sh $source $library --update"
exit 1
