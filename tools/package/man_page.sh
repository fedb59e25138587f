#!/bin/sh
# Writes the man page of a program from its --help.
#   man_page.sh PROGRAM SUMMARY VERSION DATE FOLDER/NAME.1
# NAME may be that of another program whose --help says the same.
# The form of --help: "usage: ..." and its further lines, indented by 7; "  --option VALUE   text" or
# "  -o, --option   text", text continued in lines indented by 10 or more; text from column 0 on, where
# "exit codes:" and "environment:" begin sections of their own; other indented lines are a table.
export LC_ALL=C # a decimal point in every locale
set -eu
program=$1 summary=$2 version=$3 date=$4 output=$5
part=$output.part.$$
trap 'rm -f "$part" "$part.help"' EXIT
mkdir -p "$(dirname "$output")"
# The leak check of a sanitizer build needs ptrace, which is not allowed everywhere.
ASAN_OPTIONS=detect_leaks=0 "$program" --help >"$part.help"
name=$(basename "$output" .1) own=$(basename "$program") summary=$summary version=$version date=$date awk '
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.\x27]/)
        text = "\\&" text
    return text
}
function add(text) { body[section] = body[section] text "\n" }
function leave(next_mode) {
    if (mode == "table" && next_mode != "table")
        add(".EE")
    mode = next_mode
}
BEGIN { section = "DESCRIPTION"; mode = "" }
/^usage: / || (mode == "usage" && /^       /) {
    text = $0
    sub(/^(usage:)? +/, "", text)
    sub("^" ENVIRON["own"], ENVIRON["name"], text)
    if (mode == "usage")
        add(".br")
    section = "SYNOPSIS"
    mode = "usage"
    add(roff(text))
    next
}
mode == "usage" { section = "DESCRIPTION"; mode = "" }
/^  (-[a-z], )?--/ {
    leave("option")
    section = "OPTIONS"
    text = substr($0, 3)
    at = match(text, / \* +/) ? RSTART + 2 : match(text, /  +/) # a * belongs to the option
    add(".TP\n.B " roff(at ? substr(text, 1, at - 1) : text))
    if (at) {
        text = substr(text, at)
        sub(/^ +/, "", text)
        add(roff(text))
        described = 1
    } else
        described = 0
    next
}
mode == "option" && /^          / {
    text = $0
    sub(/^ +/, "", text)
    add(roff(text))
    next
}
/^$/ { leave(""); paragraph = 1; next }
/^ / {
    if (mode != "table")
        add(".PP\n.EX")
    leave("table")
    add(roff($0))
    next
}
{
    leave("text")
    text = $0
    if (sub(/^exit codes: /, "", text))
        section = "EXIT STATUS"
    else if (sub(/^environment: /, "", text))
        section = "ENVIRONMENT"
    else if (section == "OPTIONS")
        section = "DESCRIPTION"
    else if (paragraph && body[section] != "")
        add(".PP")
    paragraph = 0
    add(roff(text))
}
END {
    leave("")
    title = toupper(ENVIRON["name"])
    printf ".TH %s 1 %s \"clprune %s\" \"User Commands\"\n", roff(title), ENVIRON["date"], ENVIRON["version"]
    printf ".SH NAME\n%s \\- %s\n", roff(ENVIRON["name"]), roff(ENVIRON["summary"])
    count = split("SYNOPSIS,DESCRIPTION,OPTIONS,EXIT STATUS,ENVIRONMENT", order, ",")
    for (i = 1; i <= count; i++)
        if (order[i] in body)
            printf ".SH %s\n%s", order[i], body[order[i]]
}' "$part.help" >"$part"
mv "$part" "$output"
