#!/usr/bin/env bash
# bash completes the options of the programs, and values that the programs take; zsh and fish complete the options.
#   test_completion.sh PROGRAM_DIR COMPLETION_DIR PROGRAM...
# Where zsh or fish is missing it says so; with $CLPRUNE_TEST_LONG it then exits 77.
export LC_ALL=C # a decimal point in every locale
set -u
programs=$1 completions=$2
shift 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
export OCL_ICD_VENDORS=$folder/none OCL_ICD_FILENAMES='' ASAN_OPTIONS=detect_leaks=0
mkdir "$folder/none" "$folder/bin" "$folder/a folder"
touch "$folder/a file"
cd "$folder" || exit 2
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# completed NAME WORD...: what bash offers for the last word, one a line.
completed() {
    local function
    function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    "$function" 2>/dev/null
    [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
}

# offers EXPECTED NAME WORD...
offers() {
    local expected=$1 got
    shift
    got=$(completed "$@" | tr '\n' ' ')
    [ "$got" = "$expected" ] || fail "'$*' completes to '$got', expected '$expected'"
}

values=0
for name in "$@"; do
    program=$programs/${name%-mpi} # which takes the same values, and starts sooner
    # shellcheck disable=SC1090
    . "$completions/$name.bash" || fail "bash cannot read $name.bash"
    "$program" --help | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort >help
    completed "$name" -- | sort | diff help - >log || fail "$name: options of --help (<) and offered ones (>): $(cat log)"
    offers "--help " "$name" --hel
    offers "" "$name" --nonsense
    # Each offered value is one that the program takes; there is no device to run on.
    while read -r option; do
        case $option in --device | --data) continue ;; esac
        words=$(completed "$name" "$option" "")
        case $words in '' | *--help* | *'a file'* | *'a folder'*) continue ;; esac
        for word in $words; do
            values=$((values + 1))
            "$program" "$option" "$word" >out 2>&1
            grep -q -e "$option: [\"']${word}[\"'] is not" out && fail "$name $option $word: $(cat out)"
        done
        "$program" "$option" nonsense >out 2>&1
        grep -q -e "$option: [\"']nonsense[\"'] is not" out || fail "$name $option takes nonsense: $(cat out)"
    done <help
done
[ $values -gt 60 ] || fail "only $values values are offered"

offers "dense " resmlp-train --activations de
offers "dense " resmlp-train --activations = de
offers "sgd sgd8 " resnet-train --lr 0.1 --optimizer sg
offers "" resmlp-train --epochs ""
offers "a file a folder " resmlp-train --resume "a "
offers "a folder " resmlp-train --output-dir "a "
offers "generated " resmlp-train --data g
offers "conv " clprune-bench con
offers "figures " clprune-bench fig
printf '#!/bin/sh\n[ "$1" != --list-devices ] || printf "%%s a device of one name\\n" 0:0 0:1 1:0\n' >bin/resmlp-train
chmod +x bin/resmlp-train
PATH=$folder/bin:$PATH offers "0:0 0:1 1:0 " resmlp-train --device ""
PATH=$folder/bin:$PATH offers "0 1 " resmlp-train --device 0 : # 0: and the cursor
PATH=$folder/bin:$PATH offers "1 " resmlp-train --device = 0 : 1
PATH=$folder/bin:$PATH offers "" resmlp-train --output-dir a : b

# A stand-in of zsh's _arguments prints the options that it is given.
cat >options.zsh <<'ZSH'
_arguments() {
    local word
    for word in "$@"; do
        [[ $word != --* ]] || print -r -- "${word%%[=\[]*}"
    done
}
source $1
ZSH
missing=
for shell in zsh fish; do
    command -v $shell >/dev/null || {
        echo "no $shell: not checked; on Debian: apt-get install $shell"
        missing=$shell
        continue
    }
    for name in "$@"; do
        if [ $shell = zsh ]; then
            file=$completions/_$name
            HOME=$folder zsh -f options.zsh "$file" >options 2>err
        else
            file=$completions/$name.fish
            HOME=$folder fish --no-config -c "source '$file'; complete -C '$name --'" 2>err | cut -f 1 >options
        fi
        [ ! -s err ] && $shell -n "$file" || fail "$shell cannot read $file: $(cat err)"
        "$programs/$name" --help | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort >help
        sort options | diff help - >log || fail "$name: options of --help (<) and those of $shell (>): $(cat log)"
    done
done
[ $failures = 0 ] || exit 1
[ -z "$missing" ] || [ -z "${CLPRUNE_TEST_LONG:-}" ] || exit 77
