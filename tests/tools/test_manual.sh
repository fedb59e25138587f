#!/bin/sh
# The documents of a program list its options: --help, the man page and a table of a README. Prints what differs and
# exits 1.
#   test_manual.sh BIN_DIR MAN_DIR SOURCE_DIR PROGRAM...
# Programs named *-train and *-train-mpi share the table under "### Options" of examples/trainer/README.md, where "`--option` (NAME)" is
# an option of the program NAME only, or of those of "images" or "tokens"; the table of another is under "### Options of NAME" in tools/README.md.
export LC_ALL=C # a decimal point in every locale
bin=$1 man=$2 source=$3
shift 3
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
differ=0
for program in "$@"; do
    "$bin/$program" --help >"$folder/text" || exit 1
    sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' "$folder/text" | sort >"$folder/help"
    [ -s "$folder/help" ] || {
        echo "$program --help lists no option"
        exit 1
    }
    sed -n '/^\.TP$/{n;s/\\-/-/g;s/^\.B \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p}' "$man/$program.1" |
        sort >"$folder/man"
    case $program in gpt-train) kind=texts ;; bert-train) kind=sentences ;; *) kind=images ;; esac
    case $program in
    *-train | *-train-mpi) readme=examples/trainer/README.md heading='### Options' ;;
    *) readme=tools/README.md heading="### Options of $program" ;;
    esac
    awk -v heading="$heading" '/^#/ { under = $0 == heading } under' "$source/$readme" |
        sed -n 's/^| *\(`--[^|]*\)|.*|$/\1/p' |
        sed "s/ (${program%-mpi})//g; s/ (\([a-z]*, \)*$kind\(, [a-z]*\)*)//g; s/\`--[a-z0-9-]*\` ([a-z, -]*)//g" | grep -o -e '--[a-z0-9-]*' | sort >"$folder/readme"
    for list in man readme; do
        diff "$folder/help" "$folder/$list" >"$folder/log" && continue
        [ $list = man ] || list="table under '$heading' of $readme"
        echo "options of $program --help (<) and of the $list (>) differ:"
        cat "$folder/log"
        differ=1
    done
done
exit $differ
