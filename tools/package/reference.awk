# Shows Doxygen the comments of a header, which are plain ones.
#   awk -f reference.awk HEADER
# The first comment is the file's; one that stands before a declaration is that declaration's, and one
# behind a member the member's. Declarations that follow without an empty line share the comment. A
# member without a comment is explained by its type's; of several in a line the last has the comment.

# "clprune_mat clprune_mat_of(cl_mem buffer," is clprune_mat_of; "#define NAME value" is NAME.
function declared(text) {
    if (text ~ /^#define/)
        match(text, /[A-Z][A-Z0-9_]+/)
    else if (text ~ /^typedef.*;/ && match(text, /[a-z0-9_]+;/))
        RLENGTH--
    else if (match(text, /clprune_[a-z0-9_]+\(/))
        RLENGTH--
    return RSTART ? substr(text, RSTART, RLENGTH) : ""
}

# "    size_t a, b; /**< why */": a comment for each.
function members(text,    at, why, part, count, i, type, line) {
    at = index(text, ";")
    why = substr(text, at + 1)
    text = substr(text, 1, at - 1)
    count = text ~ /\(/ ? 1 : split(text, part, / *, */)
    if (count > 1) {
        match(part[1], /[^ *]+$/)
        type = substr(part[1], 1, RSTART - 1)
        sub(/^ +/, " ", type)
        line = part[1]
        for (i = 2; i <= count; i++)
            line = line "; /**< See " part[count] ". */" type part[i]
        text = line
    }
    return text ";" (why == "" ? " /**< The type's comment explains it. */" : why)
}

function opens(text) { return text ~ /\/\*/ && text !~ /\*\// }

within { # a comment of several lines
    if (/\*\//) {
        within = 0
        documented = before
    }
    print
    next
}
/^ *\/\*/ {
    before = named
    documented = !opens($0) && named
    within = opens($0)
    if (named)
        sub(/\/\*/, "/**")
    else {
        name = FILENAME
        sub(/.*\//, "", name)
        sub(/\/\*/, "/** @file " name " @brief")
        named = 1
    }
    print
    next
}
/^$/ || /^#(if|else|endif|include|undef)/ || /^extern/ || /^}$/ {
    documented = 0
    shared = ""
    print
    next
}
{
    text = $0
    if (text ~ /\/\*/) {
        sub(/\/\*/, "/**<", text)
        within = opens(text)
        before = 0
    }
    if (body && text ~ /^}/)
        body = 0
    else if (body) {
        if (!documented && text ~ /^    [a-z(].*;/)
            text = members(text)
    } else {
        if (!documented && !open && shared != "" && text ~ /^(CLPRUNE_API|#define|typedef)/) {
            same = "/** @copydoc " shared " */"
            if (text ~ /^#define/) {
                sub(/\/\*\*/, "/**<", same)
                sub(/ *\\?$/, " " same "&", text)
            } else
                text = same " " text
            documented = 1
        }
        if (!open)
            shared = documented ? declared($0) : ""
        body = text ~ /^typedef (struct|enum).*{$/
        open = !body && (text ~ /^#define/ || macro ? text ~ /\\$/ : text !~ /[;}]$/)
        macro = open && text ~ /\\$/
    }
    documented = 0
    print text
}
