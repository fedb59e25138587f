#include "trainer/options/keep_file.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/plain_file.h"
#include "trainer/options/options_table.h"

enum {
    WORDS_MOST = 16, /* of a line */
    LINE_MOST = 512, /* bytes */
    FILE_MOST = 1 << 20
};

/* The words for forms. */
static const struct {
    const char *name;
    clprune_form form;
} forms[] = {
    {"dense", CLPRUNE_FORM_DENSE},
    {"pruned", CLPRUNE_FORM_PRUNED},
    {"quantised", CLPRUNE_FORM_QUANTISED},
    {"pooled", CLPRUNE_FORM_POOLED},
};

enum { FORMS = sizeof forms / sizeof *forms };

/* The settings of a line, the options that they are named after, and the form that they belong to.
 */
static const struct {
    const char *key, *option, *form;
} settings[] = {
    {"sparsity", "sparsity", "pruned"},
    {"block", "block", "pruned"},
    {"norm", "norm", "pruned"},
    {"criterion", "criterion", "pruned"},
    {"centre", "centre", "pruned"},
    {"values", "values", "pruned"},
    {"indices", "indices", "pruned"},
    {"bits", "code-bits", "quantised"},
    {"group", "group", "quantised"},
    {"rounding", "rounding", "quantised"},
    {"rotate", "rotate", "quantised"},
    {"cell", "pool", "pooled"},
    {"cell", "pool", "pruned"},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* A parsed line. */
typedef struct line {
    const char *source;
    size_t number;
    char text[LINE_MOST];
    char *words[WORDS_MOST];
    size_t count;
} line;

bool keep_file_read(const char *path, char **text, fault *f)
{
    const char *why;
    uint64_t size;
    FILE *file = plain_file_open(path, &size, &why);
    *text = NULL;
    if (file == NULL)
        return fault_set(f, CODE_DATA, "%s: %s", path, why);
    char *bytes = size <= FILE_MOST ? malloc((size_t)size + 1) : NULL;
    const size_t count = bytes != NULL ? fread(bytes, 1, (size_t)size, file) : 0;
    if (size > FILE_MOST)
        (void)fault_set(f, CODE_DATA, "%s: longer than %d bytes", path, FILE_MOST);
    else if (bytes == NULL)
        (void)fault_set(f, CODE_MEMORY, "out of memory");
    else if (ferror(file))
        (void)fault_set(f, CODE_DATA, "%s: %s", path, strerror(errno));
    else if (memchr(bytes, '\0', count) != NULL)
        (void)fault_set(f, CODE_DATA, "%s: not a text", path);
    else {
        static const char mark[] = "\xEF\xBB\xBF"; /* editors may put it before a text */
        bytes[count] = '\0';
        if (strncmp(bytes, mark, sizeof mark - 1) == 0)
            memmove(bytes, bytes + sizeof mark - 1, count + 1 - (sizeof mark - 1));
        *text = bytes;
        bytes = NULL;
    }
    (void)fclose(file);
    free(bytes);
    return *text != NULL;
}

static bool wrong(const line *l, fault *f, const char *what, const char *word)
{
    return fault_set(f, CODE_DATA, "%s:%zu: %s '%s'", l->source, l->number, what, word);
}

/* Splits a line into words, without its comment. */
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

/* Whether the first two words of a line name a tensor. */
static bool names(const line *l, const keep_tensor *tensor, bool *place)
{
    const bool here = fnmatch(l->words[0], tensor->place, 0) == 0;
    *place = *place || here;
    return here && fnmatch(l->words[1], tensor->name, 0) == 0;
}

/* The place of a tensor, or with `at` its name, if its place is one that a line names; else "". */
static const char *listed(const line *l, const keep_tensor *tensor, bool at)
{
    if (!at)
        return tensor->place;
    return fnmatch(l->words[0], tensor->place, 0) == 0 ? tensor->name : "";
}

/* Lists the places of a model, or with `at` the tensors of the places that a line names. */
static void list_names(const line *l, const keep_list *list, bool at, char *text, size_t size)
{
    for (size_t i = 0, shown = 0; i < list->count; ++i) {
        const char *word = listed(l, &list->tensors[i], at);
        bool said = word[0] == '\0';
        for (size_t k = 0; k < i && !said; ++k)
            said = strcmp(listed(l, &list->tensors[k], at), word) == 0;
        if (said)
            continue;
        if (shown == 12) {
            options_append(text, size, " and others");
            return;
        }
        options_append(text, size, "%s%s", shown == 0 ? "" : ", ", word);
        ++shown;
    }
}

static bool find_form(const line *l, keep_rule *rule, fault *f)
{
    *rule = (keep_rule){0};
    for (size_t i = 0; i < FORMS; ++i)
        if (strcmp(l->words[2], forms[i].name) == 0) {
            rule->keep.form = forms[i].form;
            return true;
        }
    if (strcmp(l->words[2], "recomputed") != 0)
        return fault_set(f, CODE_DATA,
            "%s:%zu: dense, pruned, quantised, pooled or recomputed is expected, not '%s'",
            l->source, l->number, l->words[2]);
    rule->recomputed = true;
    return true;
}

/* Sets "key=value" as the option of that name would. */
static bool set_one(const line *l, const char *word, options *o, fault *f)
{
    const size_t length = strcspn(word, "=");
    char forms_of[64] = ""; /* the forms that have this setting */
    for (size_t i = 0; i < SETTINGS; ++i) {
        fault inner = {0};
        if (strncmp(settings[i].key, word, length) != 0 || settings[i].key[length] != '\0')
            continue;
        const size_t index = option_index(o->model, settings[i].option, strlen(settings[i].option));
        if (index == option_rows_count(o->model))
            continue;
        if (word[length] != '=')
            return wrong(l, f, "a value is missing after", word);
        if (strcmp(settings[i].form, l->words[2]) != 0) {
            options_append(forms_of, sizeof forms_of, "%s%s", forms_of[0] == '\0' ? "" : " or ",
                settings[i].form);
            continue;
        }
        const option_row row = option_row_at(o->model, index);
        if (option_set(&row, word + length + 1, o, &inner))
            return true;
        return fault_set(f, CODE_DATA, "%s:%zu: %s: %s", l->source, l->number, settings[i].key,
            inner.text + strcspn(inner.text, "'"));
    }
    if (forms_of[0] != '\0')
        return fault_set(f, CODE_DATA, "%s:%zu: %.*s belongs to %s, not to %s", l->source,
            l->number, (int)length, word, forms_of, l->words[2]);
    return wrong(l, f,
        "sparsity=, block=, norm=, criterion=, centre=, values=, indices=, bits=, group=, "
        "rounding=, rotate= or cell= is expected, not",
        word);
}

/* Reads a line's form and settings into *rule. */
static bool read_rule(const line *l, const options *o, keep_rule *rule, fault *f)
{
    options settled = *o;
    bool sparsity = o->sparsity > 0, rotated = false;
    if (!find_form(l, rule, f))
        return false;
    const clprune_form form = rule->keep.form;
    for (size_t i = 3; i < l->count; ++i) {
        if (!set_one(l, l->words[i], &settled, f))
            return false;
        sparsity = sparsity || strncmp(l->words[i], "sparsity", 8) == 0;
        rotated = rotated || strncmp(l->words[i], "rotate", 6) == 0;
    }
    if (rotated && settled.rotate != 0 && options_quantised_bits(&settled) == 16)
        return fault_set(
            f, CODE_DATA, "%s:%zu: rotate is for 2, 4 or 8 bits, not for 16", l->source, l->number);
    if (form == CLPRUNE_FORM_PRUNED && !sparsity && settled.values == CLPRUNE_VALUES_FP32)
        return fault_set(f, CODE_DATA, "%s:%zu: pruned needs sparsity=X: the run has none",
            l->source, l->number);
    if (form != CLPRUNE_FORM_DENSE)
        rule->keep = options_keep(&settled, form);
    return true;
}

static bool apply_line(const line *l, const options *o, keep_list *list, fault *f)
{
    bool place = false, found = false;
    char expected[512] = "";
    keep_rule rule;
    for (size_t i = 0; i < list->count; ++i)
        found = names(l, &list->tensors[i], &place) || found;
    list_names(l, list, place, expected, sizeof expected);
    if (!place)
        return fault_set(f, CODE_DATA, "%s:%zu: no tensor is at '%s'; there are %s", l->source,
            l->number, l->words[0], expected);
    if (!found)
        return fault_set(f, CODE_DATA, "%s:%zu: %s has the tensors %s, not '%s'", l->source,
            l->number, l->words[0], expected, l->words[1]);
    if (!read_rule(l, o, &rule, f))
        return false;
    for (size_t i = 0; i < list->count; ++i)
        if (names(l, &list->tensors[i], &place))
            keep_list_set(&list->tensors[i], &rule);
    return true;
}

/* Reads the next line with words and moves *text behind it; count is 0 at the end. */
static bool next_line(const char **text, line *l, fault *f)
{
    l->count = 0;
    while (l->count == 0 && **text != '\0') {
        const size_t length = strcspn(*text, "\n");
        ++l->number;
        if (!split(l, *text, length, f))
            return false;
        *text += length + ((*text)[length] == '\n');
    }
    return true;
}

bool keep_file_same(const char *a, const char *b)
{
    line x = {0}, y = {0};
    fault ignored = {0};
    do {
        if (!next_line(&a, &x, &ignored) || !next_line(&b, &y, &ignored) || x.count != y.count)
            return false;
        for (size_t i = 0; i < x.count; ++i)
            if (strcmp(x.words[i], y.words[i]) != 0)
                return false;
    } while (x.count > 0);
    return true;
}

bool keep_file_apply(
    const char *text, const char *source, const options *o, keep_list *list, fault *f)
{
    line l = {.source = source};
    bool good = next_line(&text, &l, f);
    while (good && l.count > 0)
        good = apply_line(&l, o, list, f) && next_line(&text, &l, f);
    return good;
}

void keep_file_form(const keep_rule *rule, char *text, size_t size)
{
    const clprune_keep *keep = &rule->keep;
    const clprune_block rows16 = {1, 16};
    char block[64];
    const char *name = "recomputed";
    for (size_t i = 0; i < FORMS; ++i)
        if (!rule->recomputed && forms[i].form == keep->form)
            name = forms[i].name;
    (void)snprintf(text, size, "%s", name);
    char *rest = text + strlen(text);
    const size_t left = size - strlen(text);
    options_block_text(keep->block.rows == 0 ? rows16 : keep->block, block, sizeof block);
    char cell[32] = "";
    if (keep->centre == CLPRUNE_CENTRE_CELLS)
        (void)snprintf(cell, sizeof cell, " cell=%u", keep->cell);
    if (keep_has_form(rule, CLPRUNE_FORM_PRUNED))
        (void)snprintf(rest, left,
            " sparsity=%.7g block=%s norm=%s criterion=%s centre=%s values=%s indices=%s%s",
            (double)keep->sparsity, block, options_norms[keep->norm],
            options_criteria[keep->criterion], options_centres[keep->centre],
            options_values[keep->value_type],
            options_indices[options_index_choice(keep->index_type)], cell);
    else if (keep_has_form(rule, CLPRUNE_FORM_QUANTISED))
        (void)snprintf(rest, left, " bits=%u group=%u rounding=%s%s", keep->bits,
            keep->group == 0 ? 64 : keep->group, options_roundings[keep->rounding],
            keep->rotate ? " rotate=yes" : "");
    else if (keep_has_form(rule, CLPRUNE_FORM_POOLED))
        (void)snprintf(rest, left, " cell=%u", keep->cell);
}

bool keep_file_write(const keep_list *list, char **text, fault *f)
{
    const size_t room = list->count * LINE_MOST + 1;
    size_t used = 0;
    *text = malloc(room);
    if (*text == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    (*text)[0] = '\0';
    for (size_t i = 0; i < list->count; ++i) {
        const keep_tensor *tensor = &list->tensors[i];
        char form[LINE_MOST / 4];
        keep_file_form(&tensor->rule, form, sizeof form);
        used += (size_t)snprintf(
            *text + used, room - used, "%-10s %-14s %s\n", tensor->place, tensor->name, form);
    }
    return true;
}
