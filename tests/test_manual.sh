#!/bin/sh
# The documents of a program list its options: --help, the man page and, for programs named *-train, the table under
# "### Options" of a README, where "`--option` (NAME)" is an option of the program NAME only. Prints what differs
# and exits 1.
#   test_manual.sh BIN_DIR MAN_DIR README PROGRAM...
export LC_ALL=C # a decimal point in every locale
bin=$1 man=$2 readme=$3
shift 3
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
differ=0
for program in "$@"; do
    "$bin/$program" --help >"$folder/text" || exit 1
    sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$folder/text" | sort >"$folder/help"
    [ -s "$folder/help" ] || {
        echo "$program --help lists no option"
        exit 1
    }
    sed -n '/^\.TP$/{n;s/\\-/-/g;s/^\.B \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p}' "$man/$program.1" |
        sort >"$folder/man"
    sed -n '/^### Options$/,/^### [^O]/s/^| *\(`--[^|]*\)|.*|$/\1/p' "$readme" |
        sed "s/ ($program)//g; s/\`--[a-z-]*\` ([a-z-]*)//g" | grep -o -e '--[a-z-]*' | sort >"$folder/readme"
    lists=man
    case $program in *-train) lists='man readme' ;; esac
    for list in $lists; do
        diff "$folder/help" "$folder/$list" >"$folder/log" && continue
        echo "options of $program --help (<) and of the $list (>) differ:"
        cat "$folder/log"
        differ=1
    done
done
exit $differ
