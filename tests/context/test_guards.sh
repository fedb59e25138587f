#!/bin/sh
# Every public function that takes an object begins with ENTER (src/runtime/context/guard.h), or two threads
# and forked processes could get past the guard; with two objects it begins with ENTER_WITH, or those
# of different contexts could meet.
#   test_guards.sh SOURCE_DIR
export LC_ALL=C # a decimal point in every locale
root=$1
cd "$root" || exit 2

# Functions that only read what never changes, or for which there is no guard yet or any more.
exempt="clprune_context_create clprune_context_create_dry clprune_context_destroy
    clprune_context_cl clprune_context_device clprune_context_device_info clprune_context_kernels
    clprune_context_precision clprune_context_cache_dir clprune_context_tuning
    clprune_context_tuning_source clprune_last_error"

# unguarded HEADERS SOURCES: the names without their ENTER, then how many functions were looked for.
unguarded() {
    awk -v exempt="$(echo $exempt)" '
        function list_objects(    count, statement, i, name, types, free) {
            gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
            count = split(text, statement, ";")
            for (i = 1; i <= count; i++) # a plan holds numbers only, and belongs to no context
                if (match(statement[i], /typedef struct clprune_[a-z0-9_]+ clprune_[a-z0-9_]+$/)) {
                    name = statement[i]
                    sub(/.* /, "", name)
                    if (name != "clprune_plan")
                        types = types (types == "" ? "" : "|") name
                }
            for (i = 1; i <= count; i++) {
                if (statement[i] !~ /CLPRUNE_API/ || statement[i] !~ "(" types ") [*][a-z]")
                    continue
                match(statement[i], /clprune_[a-z0-9_]+\(/)
                name = substr(statement[i], RSTART, RLENGTH - 1)
                object[name] = gsub("(" types ") [*][a-z]", "", statement[i])
            }
            count = split(exempt, free, " ")
            for (i = 1; i <= count; i++)
                delete object[free[i]]
            listed = 1
        }
        FILENAME ~ /\.h$/ { text = text " " $0; next }
        !listed { list_objects() }
        /^[a-z].*clprune_[a-z0-9_]+\(/ && !/;$/ {
            match($0, /clprune_[a-z0-9_]+\(/)
            name = substr($0, RSTART, RLENGTH - 1)
        }
        /^\{/ { line = 0; current = name; name = "" }
        /^\}/ { current = "" }
        current != "" && ++line <= 6 && /^ +ENTER/ { entered[current] = 1 + /ENTER_WITH/ }
        END {
            for (name in object) {
                count++
                if (entered[name] < object[name])
                    print name
            }
            print count " functions"
        }' "$@"
}

told=$(unguarded include/clprune/*.h $(find src -name "*.c"))
count=$(echo "$told" | sed -n 's/ functions$//p')
missing=$(echo "$told" | sed '$d')

# The checker itself must see a breach.
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cat >"$folder/a.h" <<'END'
typedef struct clprune_context clprune_context;
CLPRUNE_API int clprune_bad(
    clprune_context *context);
CLPRUNE_API int clprune_good(clprune_context *context);
CLPRUNE_API int clprune_bad_pair(clprune_context *context, const clprune_context *other);
CLPRUNE_API int clprune_good_pair(clprune_context *context, const clprune_context *other);
END
for function in bad:0 good:'ENTER(context)' bad_pair:'ENTER(context)' good_pair:'ENTER_WITH(context, 0, 0)'; do
    printf 'int clprune_%s(clprune_context *context)\n{\n    %s;\n}\n' "${function%%:*}" "${function#*:}"
done >"$folder/a.c"
planted=$(unguarded "$folder/a.h" "$folder/a.c" | sort | tr '\n' ' ')
[ "$planted" = "4 functions clprune_bad clprune_bad_pair " ] || missing="$missing checker: $planted"

[ -z "$missing" ] || echo "no ENTER, or no ENTER_WITH for a second object, in: $missing"
echo "$count functions"
[ -z "$missing" ] && [ "$count" -gt 110 ]
