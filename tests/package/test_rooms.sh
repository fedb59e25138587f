#!/bin/sh
# The lines of each room beside its budget, the table under "Lines" in CONTRIBUTING.md, and what they have grown by since
# the last release, if git has its tag.
#   test_rooms.sh SOURCE_DIR
# Counts what people write: files of C, kernels, Python and shell. Exits with 1 if a room has more lines than its budget,
# or none.
export LC_ALL=C
cd "$1" || exit 2
ends='\.(c|h|cl|clh|py|sh)'
release=$(git describe --tags --abbrev=0 2>/dev/null)

lines() {
    find "$@" -type f | grep -E "$ends\$" | xargs cat | wc -l
}

lines_then() {
    git grep -c '' "$release" -- "$@" | grep -E "$ends:[0-9]+\$" | awk -F: '{ n += $NF } END { print n + 0 }'
}

sed -n '/^## Lines/,/^## [^L]/s/^| `\([^`]*\)` | \([0-9,]*\) |$/\1|\2/p' CONTRIBUTING.md | tr -d , | {
    rooms=0 over=0
    printf '%-36s %8s %8s  %s\n' room lines budget "${release:+since $release}"
    while IFS='|' read -r room budget; do
        # shellcheck disable=SC2086 # several folders
        now=$(lines $room) since=''
        # shellcheck disable=SC2086
        [ -z "$release" ] || since=$(printf '%+d' $((now - $(lines_then $room))))
        printf '%-36s %8d %8d  %s\n' "$room" "$now" "$budget" "$since"
        rooms=$((rooms + 1))
        [ "$now" -gt 0 ] && [ "$now" -le "$budget" ] && continue
        echo "$room has $now lines, expected 1 to $budget: take some away, or raise its budget and say why"
        over=$((over + 1))
    done
    [ $rooms -gt 10 ] || echo "only $rooms rooms have a budget"
    [ $rooms -gt 10 ] && [ $over = 0 ]
}
