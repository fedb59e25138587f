#!/bin/sh
# A damaged cache of PoCL, which would end the process, is an error that names the folder to remove: programs and kernels
# that are empty, cut off, of another kind or zeros from some place on, wherever the folder is. What is missing is built again,
# and what cannot be opened or read is not damaged: clprune-info-faults (support/fault_host.h) lets each call on files fail.
#
#     test_pocl_cache.sh folder/of/the/programs clprune-info-faults
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1")/clprune-info
faults=$(whole "$2")
cd "$folder" || exit 1
"$program" --list >list 2>&1 || no_device
sed -n 2p list | grep -q 'Portable Computing Language' || exit 77
unset XDG_CACHE_HOME POCL_KERNEL_CACHE
export CLPRUNE_CACHE_DIR="$folder/own" CLPRUNE_DEVICE=0:0 HOME="$folder"

# ends CODE PATTERN: the program's exit code, and the last line on stderr, which is empty for no pattern.
ends() {
    "$program" >out 2>err
    got=$?
    [ $got = "$1" ] && if [ -n "$2" ]; then tail -n 1 err | grep -q "$2"; else [ ! -s err ]; fi ||
        fail "exit code $got, not $1 with '$2', where files are $case_of: $(cat err)"
}

rows=0
case_of=new
export POCL_CACHE_DIR="$folder/pocl"
ends 0 ""
kept() { # the same folder again, used now
    rm -rf pocl
    cp -R copy pocl
}
cp -R pocl copy
for kind in '*.so' program.bc; do
    for damage in empty byte half cut other zeros tail; do
        case_of="$kind: $damage"
        kept
        for file in $(find pocl -name "$kind"); do
            bytes=$(wc -c <"$file")
            case $damage in
            empty) : >"$file" ;;
            byte) truncate -s 1 "$file" ;;
            half) truncate -s $((bytes / 2)) "$file" ;;
            cut) truncate -s $((bytes - 4)) "$file" ;;
            other) yes text | head -c 5000 >"$file" ;;
            zeros) head -c "$bytes" /dev/zero >"$file" ;;
            tail) truncate -s $((bytes * 3 / 4)) "$file" && truncate -s "$bytes" "$file" ;;
            esac
        done
        ends 1 "PoCL would end the process at $folder/pocl/.*/$kind, which .* has damaged; remove the folder $folder/pocl, where"
        rows=$((rows + 1))
    done
    case_of="$kind: missing"
    kept
    find pocl -name "$kind" -exec rm {} +
    ends 0 ""
done
[ $rows = 14 ] || fail "$rows kinds of damage"

# Each call on files fails once: no good file is damaged. A damaged file of an old program that could not be opened or
# read is found by the next start.
for old in "" old; do
    i=0
    while [ $i -lt 1000 ]; do
        i=$((i + 1))
        kept
        rm -f own/pocl-checked* report
        if [ -n "$old" ]; then
            cp -R "$(find pocl -name '*.so' | head -n 1 | cut -d/ -f1,2)" pocl/ZZ
            find pocl/ZZ -name '*.so' -exec truncate -s 0 {} +
            find pocl/ZZ -name last_accessed -exec touch -d '1 hour ago' {} +
        fi
        FAULT_HOST=files:$i FAULT_REPORT="$folder/report" "$faults" >out 2>err
        case_of="empty, when call $i on files had failed: $(cat report)"
        if ! grep -q 'PoCL would end' err; then
            [ -z "$old" ] || ! grep -q 'failed \(open\|read\|fstat\|opendir\),' report || ends 1 "PoCL would end .*/ZZ/"
        elif ! grep -q 'PoCL would end .*/ZZ/' err; then
            fail "call $i on files makes good files damaged: $(cat err report)"
        fi
        grep -q 'failed none' report && break
    done
    [ $i -gt 20 ] && [ $i -lt 1000 ] || fail "$i calls on files"
done

# Removing the folder is enough; each place of it is found; with the folder of this library's cache or without.
case_of=removed
rm -r pocl
ends 0 ""
for place in pocl .cache/pocl/kcache xdg/pocl/kcache; do
    for CLPRUNE_CACHE_DIR in "$folder/own" off; do
        case_of="empty in $place, CLPRUNE_CACHE_DIR=$CLPRUNE_CACHE_DIR"
        unset POCL_CACHE_DIR XDG_CACHE_HOME
        case $place in
        pocl) export POCL_CACHE_DIR="$folder/pocl" ;;
        xdg*) export XDG_CACHE_HOME="$folder/xdg" ;;
        esac
        rm -rf "$place"
        mkdir -p "$(dirname "$place")"
        cp -R copy "$place"
        ends 0 ""
        find "$place" -name '*.so' -exec truncate -s 0 {} +
        ends 1 "remove the folder $folder/$place, where"
    done
done
case_of='of no folder'
POCL_CACHE_DIR='' ends 1 'POCL_CACHE_DIR is empty, .*; unset it, or name a folder'
[ $failures = 0 ]
