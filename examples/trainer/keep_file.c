#include "keep_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"

enum {
    WORDS_MOST = 16, /* of a line */
    LINE_MOST = 512, /* bytes */
    FILE_MOST = 1 << 20
};

static const char *const form_names[] = {
    [KEEP_DENSE] = "dense",
    [KEEP_PRUNED] = "pruned",
    [KEEP_RECOMPUTED] = "recomputed",
    [KEEP_CODE] = "code",
};

enum { FORMS = sizeof form_names / sizeof *form_names };

/* The settings of a line, and the options that they are named after. */
static const struct {
    const char *key, *option;
    keep_form form;
} settings[] = {
    {"sparsity", "sparsity", KEEP_PRUNED},
    {"block", "block", KEEP_PRUNED},
    {"norm", "norm", KEEP_PRUNED},
    {"criterion", "criterion", KEEP_PRUNED},
    {"values", "values", KEEP_PRUNED},
    {"indices", "indices", KEEP_PRUNED},
    {"bits", "gelu-code", KEEP_CODE},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* A line that is read. */
typedef struct line {
    const char *source;
    size_t number;
    char text[LINE_MOST];
    char *words[WORDS_MOST];
    size_t count;
} line;

bool keep_file_read(const char *path, char **text, fault *f)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(FILE_MOST + 1);
    *text = NULL;
    if (file == NULL || bytes == NULL) {
        (void)(bytes == NULL ? fault_set(f, CODE_MEMORY, "out of memory")
                             : fault_set(f, CODE_DATA, "%s: %s", path, strerror(errno)));
    } else {
        const size_t size = fread(bytes, 1, FILE_MOST + 1, file);
        if (ferror(file))
            (void)fault_set(f, CODE_DATA, "%s: %s", path, strerror(errno));
        else if (size > FILE_MOST)
            (void)fault_set(f, CODE_DATA, "%s: longer than %d bytes", path, FILE_MOST);
        else if (memchr(bytes, '\0', size) != NULL)
            (void)fault_set(f, CODE_DATA, "%s: not a text", path);
        else {
            bytes[size] = '\0';
            *text = bytes;
            bytes = NULL;
        }
    }
    if (file != NULL)
        (void)fclose(file);
    free(bytes);
    return *text != NULL;
}

static bool wrong(const line *l, fault *f, const char *what, const char *word)
{
    return fault_set(f, CODE_DATA, "%s:%zu: %s '%s'", l->source, l->number, what, word);
}

/* Cuts a line into words, its comment left out. */
static bool split(line *l, const char *from, size_t length, fault *f)
{
    static const char spaces[] = " \t\r";
    const char *comment = memchr(from, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - from);
    if (length >= sizeof l->text)
        return fault_set(f, CODE_DATA, "%s:%zu: longer than %d bytes", l->source, l->number,
            (int)sizeof l->text - 1);
    memcpy(l->text, from, length);
    l->text[length] = '\0';
    l->count = 0;
    for (char *p = l->text + strspn(l->text, spaces); *p != '\0'; p += strspn(p, spaces)) {
        if (l->count == WORDS_MOST)
            return wrong(l, f, "too many words, from", p);
        l->words[l->count++] = p;
        p += strcspn(p, spaces);
        if (*p != '\0')
            *p++ = '\0';
    }
    if (l->count == 1 || l->count == 2)
        return fault_set(f, CODE_DATA, "%s:%zu: PATTERN TENSOR FORM are expected, not %zu words",
            l->source, l->number, l->count);
    return true;
}

/* The blocks of a pattern: [*first, *end); of "last" [depth, depth + 1). */
static bool find_blocks(const line *l, size_t depth, size_t *first, size_t *end, fault *f)
{
    const char *pattern = l->words[0], *number = pattern + 7;
    *first = 0;
    *end = depth;
    if (strcmp(pattern, "last") == 0) {
        *first = depth;
        *end = depth + 1;
        return true;
    }
    if (strncmp(pattern, "blocks.", 7) != 0)
        return wrong(l, f, "blocks.NUMBER, blocks.* or last is expected, not", pattern);
    if (strcmp(number, "*") == 0)
        return true;
    const size_t digits = strspn(number, "0123456789");
    if (digits == 0 || number[digits] != '\0')
        return wrong(l, f, "blocks.NUMBER, blocks.* or last is expected, not", pattern);
    *first = digits < 9 ? (size_t)strtoul(number, NULL, 10) : depth;
    *end = *first + 1;
    if (*first >= depth)
        return fault_set(f, CODE_DATA,
            "%s:%zu: there is no %s: the model has %zu blocks, from 0 on", l->source, l->number,
            pattern, depth);
    return true;
}

static bool find_tensor(const line *l, keep_tensor *tensor, fault *f)
{
    for (keep_tensor i = 0; i < KEEP_TENSORS; ++i)
        if (strcmp(l->words[1], keep_name(i)) == 0) {
            *tensor = i;
            return true;
        }
    return wrong(
        l, f, "x, norm1, tokens, x2, norm2, fc1, gelu or fc2 is expected, not", l->words[1]);
}

static bool find_form(const line *l, keep_form *form, fault *f)
{
    for (size_t i = 0; i < FORMS; ++i)
        if (strcmp(l->words[2], form_names[i]) == 0) {
            *form = (keep_form)i;
            return true;
        }
    return wrong(l, f, "dense, pruned, recomputed or code is expected, not", l->words[2]);
}

/* Sets what "key=value" says, as the option would. */
static bool set_one(const line *l, const char *word, keep_form form, options *o, fault *f)
{
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < SETTINGS; ++i) {
        fault inner = {0};
        if (strncmp(settings[i].key, word, length) != 0 || settings[i].key[length] != '\0')
            continue;
        if (word[length] != '=')
            return wrong(l, f, "a value is missing after", word);
        if (settings[i].form != form)
            return fault_set(f, CODE_DATA, "%s:%zu: %s belongs to %s, not to %s", l->source,
                l->number, settings[i].key, form_names[settings[i].form], form_names[form]);
        if (option_set(option_row_named(settings[i].option), word + length + 1, o, &inner))
            return true;
        return fault_set(f, CODE_DATA, "%s:%zu: %s: %s", l->source, l->number, settings[i].key,
            inner.text + strcspn(inner.text, "'"));
    }
    return wrong(l, f,
        "sparsity=, block=, norm=, criterion=, values=, indices= or bits= is expected, not", word);
}

/* What a line says of its tensor. */
static bool read_rule(const line *l, const options *o, keep_rule *rule, fault *f)
{
    options settled = *o;
    keep_form form = KEEP_DENSE;
    bool sparsity = o->sparsity > 0;
    if (!find_form(l, &form, f))
        return false;
    for (size_t i = 3; i < l->count; ++i) {
        if (!set_one(l, l->words[i], form, &settled, f))
            return false;
        sparsity = sparsity || strncmp(l->words[i], "sparsity", 8) == 0;
    }
    if (form == KEEP_PRUNED && !sparsity && settled.values == CLPRUNE_VALUES_FP32)
        return fault_set(f, CODE_DATA, "%s:%zu: pruned needs sparsity=X: the run has none",
            l->source, l->number);
    *rule = (keep_rule){.form = form};
    if (form == KEEP_PRUNED || form == KEEP_CODE)
        *rule = options_keep_rule(&settled);
    rule->form = form;
    return true;
}

static bool apply_line(
    const line *l, const options *o, size_t depth, keep_policy *policies, size_t *changed, fault *f)
{
    size_t first, end;
    keep_tensor tensor = KEEP_X;
    keep_rule rule;
    if (!find_blocks(l, depth, &first, &end, f) || !find_tensor(l, &tensor, f) ||
        !read_rule(l, o, &rule, f))
        return false;
    if (first == depth && tensor != KEEP_X)
        return wrong(l, f, "last has x alone, not", l->words[1]);
    for (size_t i = first; i < end; ++i) {
        keep_policy *policy = &policies[i < depth ? i : depth - 1];
        *(i < depth ? &policy->rule[tensor] : &policy->last_x) = rule;
        changed[i < depth ? i : depth - 1] = l->number;
    }
    return true;
}

bool keep_file_apply(const char *text, const char *source, const options *o, size_t depth,
    keep_policy *policies, fault *f)
{
    line l = {.source = source};
    size_t *changed = calloc(depth, sizeof *changed); /* by which line; 0: by none */
    bool good = changed != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    for (const char *p = text; good && *p != '\0';) {
        const size_t length = strcspn(p, "\n");
        ++l.number;
        good = split(&l, p, length, f) &&
               (l.count == 0 || apply_line(&l, o, depth, policies, changed, f));
        p += length + (p[length] == '\n');
    }
    for (size_t i = 0; good && i < depth; ++i) {
        const char *phrase = keep_check(&policies[i]);
        if (phrase != NULL && changed[i] > 0)
            good = fault_set(f, CODE_DATA, "%s:%zu: blocks.%zu: %s", source, changed[i], i, phrase);
    }
    free(changed);
    return good;
}
