#!/bin/sh
# Every public function that returns a status is called by a case of test_faults_walk.
#   test_faults.sh SOURCE_DIR
export LC_ALL=C # a decimal point in every locale
cd "$1" || exit 2

# uncalled HEADERS CASES: functions of the headers without a call in the cases, then how many there are.
uncalled() {
    awk '
        function list(    count, statement, i) {
            gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
            count = split(text, statement, ";")
            for (i = 1; i <= count; i++)
                if (statement[i] ~ /CLPRUNE_API +clprune_status +clprune_/) {
                    match(statement[i], /clprune_[a-z0-9_]+\(/)
                    wanted[substr(statement[i], RSTART, RLENGTH - 1)] = 1
                }
            listed = 1
        }
        FILENAME ~ /include.*\.h$/ { text = text " " $0; next }
        !listed { list() }
        {
            line = $0
            while (match(line, /clprune_[a-z0-9_]+\(/)) {
                delete missing[substr(line, RSTART, RLENGTH - 1)]
                called[substr(line, RSTART, RLENGTH - 1)] = 1
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END {
            for (name in wanted) {
                count++
                if (!(name in called))
                    print name
            }
            print count " functions"
        }' "$@"
}

cases="tests/support/test_functions.h tests/support/fault_functions.c tests/support/fault_objects.c
    tests/support/fault_contexts.c"
told=$(uncalled include/clprune/*.h $cases)
count=$(echo "$told" | sed -n 's/ functions$//p')
missing=$(echo "$told" | sed '$d')

# The checker itself must see a breach.
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/include"
printf '/* CLPRUNE_API clprune_status clprune_none(void); */\nCLPRUNE_API clprune_status clprune_good(\n    void);\nCLPRUNE_API clprune_status clprune_bad(void);\nCLPRUNE_API void clprune_quiet(void);\n' >"$folder/include/a.h"
echo 'status = clprune_good();' >"$folder/a.c"
planted=$(uncalled "$folder/include/a.h" "$folder/a.c" | tr '\n' ' ')
[ "$planted" = "clprune_bad 2 functions " ] || missing="$missing checker: $planted"

[ -z "$missing" ] || echo "no case of test_faults_walk calls: $missing"
echo "$count functions"
[ -z "$missing" ] && [ "$count" -ge 95 ]
