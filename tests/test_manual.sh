#!/bin/sh
# The documents of a program list its options: --help, the man page, and the table under "### Options"
# of a README. Prints what differs and exits 1.
#   test_manual.sh PROGRAM MAN_PAGE README
export LC_ALL=C # a decimal point in every locale
program=$1 page=$2 readme=$3
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
"$program" --help >"$folder/text" || exit 1
sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$folder/text" | sort >"$folder/help"
sed -n '/^\.TP$/{n;s/\\-/-/g;s/^\.B \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p}' "$page" | sort >"$folder/man"
sed -n '/^### Options$/,/^### [^O]/s/^| *\(`--.*`\).*|.*|$/\1/p' "$readme" |
    grep -o -e '--[a-z-]*' | sort >"$folder/readme"
[ -s "$folder/help" ] || {
    echo "$program --help lists no option"
    exit 1
}
differ=0
for list in man readme; do
    diff "$folder/help" "$folder/$list" >"$folder/log" && continue
    echo "options of --help (<) and of the $list (>) differ:"
    cat "$folder/log"
    differ=1
done
exit $differ
