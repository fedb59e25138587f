#!/bin/sh
# Writes the completion of a program for bash, zsh and fish from its --help.
#   completion.sh PROGRAM DIR NAME
# makes DIR/NAME.bash, DIR/_NAME and DIR/NAME.fish. NAME may be that of another program whose --help says the
# same. --help must have the form that man_page.sh describes.
# An option whose value is a word (NAME, PRESET, TYPE, BITS, P, yes|no) is called with a wrong value; the
# choices are those in the program's error message.
export LC_ALL=C # a decimal point in every locale
set -eu
program=$1 dir=$2 name=$3
own=$(basename "$program")
part=$dir/$name.part.$$
trap 'rm -rf "$part"' EXIT
mkdir -p "$part/empty"
export ASAN_OPTIONS=detect_leaks=0 # sanitizer builds: the leak check needs ptrace
export OCL_ICD_VENDORS="$part/empty" OCL_ICD_FILENAMES=
"$program" --help >"$part/help"

# choices ARGUMENTS...: "... is not one of a b; try --help" and "... is not a, b or c" say a b c.
choices() {
    timeout 10 "$program" "$@" '?' 2>&1 </dev/null |
        sed -n '1s/.* is not \(one of \)\{0,1\}\([a-z0-9].*\)/\2/p' |
        sed 's/;.*//; s/, or .*//; s/,//g; s/ or / /' | grep -v -w -e a -e number || true
}

# Lines of: long option, short option, kind of value, text, choices, separated by tabs. Kinds: - (none),
# file, folder, word, device, other.
awk '
/^  (-[a-z], )?--/ {
    text = substr($0, 3)
    short = ""
    if (match(text, /^-[a-z], /)) {
        short = substr(text, 2, 1)
        text = substr(text, RLENGTH + 1)
    }
    at = match(text, / \* +/) || match(text, /  +/) ? RSTART : length(text) + 1
    about = substr(text, at)
    sub(/^[ *]+/, "", about)
    split(substr(text, 1, at - 1), word, " ")
    value = word[2]
    kind = "other"
    if (value == "")
        kind = "-"
    else if (value ~ /FILE$/)
        kind = "file"
    else if (value ~ /DIR$/)
        kind = "folder"
    else if (value ~ /^(NAME|PRESET|TYPE|BITS|P|yes\|no)$/)
        kind = "word"
    else if (word[1] == "--device")
        kind = "device"
    split(about, sentence, /;|: |\. /)
    sub(/[,:]$/, "", sentence[1])
    printf "%s\t%s\t%s\t%s\t%s\n", word[1], short == "" ? "-" : short, kind,
        sentence[1] == "" ? "-" : sentence[1], value ~ /^generated/ ? "generated" : ""
}' "$part/help" >"$part/list"
tab=$(printf '\t')
while IFS=$tab read -r option short kind about words; do
    [ "$kind" != word ] || words=$(cd "$part" && choices "$option")
    printf '%s\t%s\t%s\t%s\t%s\n' "$option" "$short" "$kind" "$about" "$words"
done <"$part/list" >"$part/options"
[ -s "$part/options" ] || {
    echo "completion.sh: $name --help lists no option" >&2
    exit 1
}
# Words that come before the options: clprune-bench has its operations there.
operations=$(sed -n -e "s/^\(usage:\|      \) $own \([a-z][a-z]*\) .*/\2/p" \
    -e '/^operations/,/^options/{/^  [a-z]/{s/^  //;s/  .*//;s/,//g;p;}}' "$part/help" | tr '\n' ' ')
devices="clprune-info --list"
grep -q -e '^  --list-devices ' "$part/help" && devices="$own --list-devices"
name=$name operations=$operations devices=$devices awk -F "$tab" -v out="$part" '
function quoted(text) { gsub(/\x27/, "\x27\\\x27\x27", text); return "\x27" text "\x27" }
BEGIN {
    name = ENVIRON["name"]
    operations = ENVIRON["operations"]
    devices = ENVIRON["devices"] " 2>/dev/null | cut -d\" \" -f1"
    bash = out "/bash"
    zsh = out "/zsh"
    fish = out "/fish"
    made = "# Made from " name " --help."
    identifier = "_" name
    gsub(/-/, "_", identifier)
    print made "\n" identifier "() {\n" \
        "    local at=$COMP_CWORD current=${COMP_WORDS[COMP_CWORD]} previous platform= words=\n" \
        "    # bash splits 0:1 into three words, and takes what follows the colon\n" \
        "    if [ \"$current\" = : ]; then\n        at=$((at - 1)) current= platform=${COMP_WORDS[COMP_CWORD - 1]}\n" \
        "    elif [ \"$at\" -gt 2 ] && [ \"${COMP_WORDS[at - 1]}\" = : ]; then\n" \
        "        at=$((at - 2)) platform=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n" \
        "    previous=${COMP_WORDS[at - 1]}\n" \
        "    if [ \"$current\" = \"=\" ]; then\n        current=\n" \
        "    elif [ \"$previous\" = \"=\" ]; then\n        previous=${COMP_WORDS[at - 2]}\n    fi\n" \
        "    COMPREPLY=()\n    [ -z \"$platform\" ] || [ \"$previous\" = --device ] || return\n" \
        "    case $previous in" >bash
    print "#compdef " name "\n" made "\n_arguments -s \\" >zsh
    print made "\ncomplete -c " name " -f" >fish
    if (operations != "")
        print "complete -c " name " -a " quoted(operations) >fish
}
{
    option = $1
    long = substr(option, 3)
    all = all " " option
    if ($2 != "-")
        all = all " -" $2
    # bash
    if ($3 == "file" || $3 == "folder") {
        print "    " option ")\n        mapfile -t COMPREPLY < <(compgen " ($3 == "file" ? "-f" : "-d") \
            " -- \"$current\"" ($5 == "" ? "" : "; compgen -W " quoted($5) " -- \"$current\"") \
            ")\n        compopt -o filenames 2>/dev/null\n        return\n        ;;" >bash
    } else if ($3 == "device")
        print "    " option ")\n        words=$(" devices " | sed -n \"s/^${platform:+$platform:}//p\")\n" \
            "        [ -n \"$words\" ] || return\n        ;;" >bash
    else if ($3 != "-")
        print "    " option ")" ($5 == "" ? " return ;;" : " words=" quoted($5) " ;;") >bash
    # zsh: \[ in a description, and : between its parts
    about = $4 == "-" ? long : $4
    described = about
    gsub(/\[|\]|:/, "\\\\&", described)
    value = $3 == "-" ? "" : ":" long ":"
    if ($3 == "file")
        value = value "_files"
    else if ($3 == "folder")
        value = value "_files -/"
    else if ($3 == "device")
        value = value "($(" devices "))"
    else if ($5 != "")
        value = value "(" $5 ")"
    if ($2 != "-")
        print "    " quoted("-" $2 "[" described "]") " \\" >zsh
    print "    " quoted(option (value == "" ? "" : "=") "[" described "]" value) " \\" >zsh
    # fish
    line = "complete -c " name " -l " long ($2 == "-" ? "" : " -s " $2)
    if ($3 == "file")
        line = line " -r -F"
    else if ($3 == "folder")
        line = line " -x -a " quoted("(__fish_complete_directories)" ($5 == "" ? "" : " " $5))
    else if ($3 == "device")
        line = line " -x -a " quoted("(" devices ")")
    else if ($3 != "-")
        line = line " -x" ($5 == "" ? "" : " -a " quoted($5))
    print line " -d " quoted(about) >fish
}
END {
    print "    esac\n    if [ -z \"$words\" ]; then\n        words=" quoted(operations substr(all, 2)) "\n    fi\n" \
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n}\n" \
        "complete -F " identifier " " name >bash
    print "    " quoted("*:" (operations == "" ? "argument" : "operation") ":" (operations == "" ? "" : "(" operations ")")) >zsh
}' "$part/options"
mv "$part/bash" "$dir/$name.bash"
mv "$part/zsh" "$dir/_$name"
mv "$part/fish" "$dir/$name.fish"
