#!/bin/sh
# clprune-unet removes noise: it ends at less than a third of the noise's square, compact as dense, and compact keeps a sixth
# of dense's bytes or less.
#
#     test_unet.sh path/to/clprune-unet
. "$(dirname "$0")/../support/program.sh"

if ! "$1" >"$folder/out" 2>"$folder/err"; then
    cat "$folder/err"
    grep -q 'OpenCL platform\|OpenCL device' "$folder/err" && no_device
    exit 1
fi
cat "$folder/out"
for arm in dense compact; do
    grep "^$arm " "$folder/out" | awk 'NR == 1 { first = $4 } { last = $4 }
        END { exit !(NR == 4 && $2 == "test" && last < first / 2 && last < 0.03) }' || fail "$arm does not learn"
done
awk '/^compact *test/ { compact = $4 } /^dense *test/ { dense = $4 }
    END { exit !(compact < 1.1 * dense && compact > dense / 1.1) }' "$folder/out" || fail "compact ends elsewhere than dense"
awk '/^noise alone/ { good = substr($(NF - 1), 2) + 0 < 16.7 } END { exit !good }' "$folder/out" || fail "compact keeps more"

[ $failures = 0 ]
