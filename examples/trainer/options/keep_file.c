#include "trainer/options/keep_file.h"

#include <errno.h>
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
    {"code", CLPRUNE_FORM_GELU_CODE},
    {"mean", CLPRUNE_FORM_MEAN},
    {"mask", CLPRUNE_FORM_MASK},
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
    {"bits", "gelu-code", "code"},
    {"bits", "code-bits", "quantised"},
    {"group", "group", "quantised"},
    {"rounding", "rounding", "quantised"},
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

/* What the first word of a line names: blocks [first, end), or a place outside of them. */
typedef struct target {
    size_t first, end;
    const char *place; /* NULL: blocks */
} target;

static bool is_place(const keep_table *table, const char *word)
{
    for (size_t i = table->in_block; i < table->count; ++i)
        if (strcmp(table->entries[i].place, word) == 0)
            return true;
    return false;
}

/* "blocks.NUMBER, blocks.*" and the places of a model, whose tensors are neighbours. */
static bool wrong_pattern(const line *l, const keep_table *table, fault *f)
{
    char expected[256] = "blocks.NUMBER, blocks.*";
    for (size_t i = table->in_block; i < table->count; ++i) {
        const char *place = table->entries[i].place;
        if (i == table->in_block || strcmp(place, table->entries[i - 1].place) != 0)
            options_append(expected, sizeof expected, "%s%s",
                strcmp(place, table->entries[table->count - 1].place) != 0 ? ", " : " or ", place);
    }
    return fault_set(f, CODE_DATA, "%s:%zu: %s is expected, not '%s'", l->source, l->number,
        expected, l->words[0]);
}

static bool find_target(
    const line *l, const keep_table *table, size_t blocks, target *found, fault *f)
{
    const char *pattern = l->words[0], *number = pattern + 7;
    *found = (target){.first = 0, .end = blocks};
    if (is_place(table, pattern)) {
        found->place = pattern;
        return true;
    }
    if (strncmp(pattern, "blocks.", 7) != 0)
        return wrong_pattern(l, table, f);
    if (strcmp(number, "*") == 0)
        return true;
    const size_t digits = strspn(number, "0123456789");
    if (digits == 0 || number[digits] != '\0')
        return wrong_pattern(l, table, f);
    found->first = digits < 9 ? (size_t)strtoul(number, NULL, 10) : blocks;
    found->end = found->first + 1;
    if (found->first >= blocks)
        return fault_set(f, CODE_DATA,
            "%s:%zu: there is no %s: the model has %zu blocks, from 0 on", l->source, l->number,
            pattern, blocks);
    return true;
}

static bool is_at(const keep_entry *entry, const target *where)
{
    return where->place == NULL ? entry->place == NULL
                                : entry->place != NULL && strcmp(entry->place, where->place) == 0;
}

static bool find_entry(
    const line *l, const keep_table *table, const target *where, size_t *entry, fault *f)
{
    char names[256] = "";
    for (size_t i = 0; i < table->count; ++i) {
        const size_t used = strlen(names);
        if (!is_at(&table->entries[i], where))
            continue;
        *entry = i;
        if (strcmp(l->words[1], table->entries[i].name) == 0)
            return true;
        (void)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ",
            table->entries[i].name);
    }
    return fault_set(f, CODE_DATA, "%s:%zu: %s has the tensors %s, not '%s'", l->source, l->number,
        where->place == NULL ? "a block" : where->place, names, l->words[1]);
}

static bool find_form(
    const line *l, const keep_table *table, const keep_entry *entry, keep_rule *rule, fault *f)
{
    const bool codes = keep_codes_exist(table);
    *rule = (keep_rule){0};
    for (size_t i = 0; i < FORMS; ++i)
        if (strcmp(l->words[2], forms[i].name) == 0 &&
            (codes || forms[i].form != CLPRUNE_FORM_GELU_CODE)) {
            rule->keep.form = forms[i].form;
            return true;
        }
    if (strcmp(l->words[2], "recomputed") != 0)
        return fault_set(f, CODE_DATA,
            "%s:%zu: dense, pruned, quantised, pooled, recomputed, %smean or mask is expected, not "
            "'%s'",
            l->source, l->number, codes ? "code, " : "", l->words[2]);
    rule->recomputed = entry->instead == CLPRUNE_FORM_DENSE;
    rule->keep.form = entry->instead;
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
        "rounding= or "
        "cell= is expected, not",
        word);
}

/* Reads a line's form and settings into *rule. */
static bool read_rule(
    const line *l, const options *o, const keep_entry *entry, keep_rule *rule, fault *f)
{
    options settled = *o;
    bool sparsity = o->sparsity > 0;
    if (!find_form(l, o->model->keep, entry, rule, f))
        return false;
    const clprune_form form = rule->keep.form;
    for (size_t i = 3; i < l->count; ++i) {
        if (!set_one(l, l->words[i], &settled, f))
            return false;
        sparsity = sparsity || strncmp(l->words[i], "sparsity", 8) == 0;
    }
    if (form == CLPRUNE_FORM_PRUNED && !sparsity && settled.values == CLPRUNE_VALUES_FP32)
        return fault_set(f, CODE_DATA, "%s:%zu: pruned needs sparsity=X: the run has none",
            l->source, l->number);
    if (form != CLPRUNE_FORM_DENSE && form != CLPRUNE_FORM_MEAN)
        rule->keep = options_keep(&settled, form);
    return true;
}

/* changed: for each block the last line that set one of its rules; at `blocks`, for rules outside
 * of the blocks. */
static bool apply_line(
    const line *l, const options *o, size_t blocks, keep_rule *rules, size_t *changed, fault *f)
{
    const keep_table *table = o->model->keep;
    target where;
    size_t entry = 0;
    keep_rule rule;
    if (!find_target(l, table, blocks, &where, f) || !find_entry(l, table, &where, &entry, f) ||
        !read_rule(l, o, &table->entries[entry], &rule, f))
        return false;
    for (size_t i = where.first; i < where.end; ++i) {
        rules[keep_rule_at(table, blocks, i, entry)] = rule;
        changed[where.place == NULL ? i : blocks] = l->number;
    }
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

bool keep_file_apply(const char *text, const char *source, const options *o,
    const trainer_sizes *sizes, keep_rule *rules, fault *f)
{
    const keep_table *table = o->model->keep;
    const size_t blocks = sizes->blocks;
    line l = {.source = source};
    size_t *changed = calloc(blocks + 1, sizeof *changed); /* 0: by no line */
    bool good = changed != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && next_line(&text, &l, f);
    while (good && l.count > 0)
        good = apply_line(&l, o, blocks, rules, changed, f) && next_line(&text, &l, f);
    for (size_t i = 0; good && i <= blocks; ++i) {
        char why[256], where[32] = "outside of the blocks";
        size_t other = i;
        if (i < blocks)
            (void)snprintf(where, sizeof where, "blocks.%zu", i);
        good = changed[i] == 0 || keep_check(table, blocks, i, rules, why, sizeof why);
        if (good && table->check != NULL)
            good = table->check(sizes, i, rules, &other, why, sizeof why);
        if (!good)
            (void)fault_set(f, CODE_DATA, "%s:%zu: %s: %s", source,
                changed[changed[other] > changed[i] ? other : i], where, why);
    }
    free(changed);
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
        (void)snprintf(rest, left, " bits=%u group=%u rounding=%s", keep->bits,
            keep->group == 0 ? 64 : keep->group, options_roundings[keep->rounding]);
    else if (keep_has_form(rule, CLPRUNE_FORM_POOLED))
        (void)snprintf(rest, left, " cell=%u", keep->cell);
    else if (keep_has_form(rule, CLPRUNE_FORM_GELU_CODE))
        (void)snprintf(rest, left, " bits=%u", keep->bits);
}

bool keep_file_write(const keep_table *table, const trainer_sizes *sizes, const keep_rule *rules,
    char **text, fault *f)
{
    const size_t count = keep_rules_count(table, sizes->blocks), room = count * LINE_MOST / 2 + 1;
    size_t used = 0;
    *text = malloc(room);
    if (*text == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    (*text)[0] = '\0';
    for (size_t at = 0; at < count; ++at) {
        const keep_place place = keep_place_of(table, sizes->blocks, at);
        const keep_entry *e = &table->entries[place.entry];
        char where[32], form[LINE_MOST / 4];
        if (table->shape(sizes, place.block, place.entry).rows == 0)
            continue;
        (void)snprintf(where, sizeof where, "blocks.%zu", place.block);
        keep_file_form(&rules[at], form, sizeof form);
        used += (size_t)snprintf(*text + used, room - used, "%-10s %-10s %s\n",
            e->place == NULL ? where : e->place, e->name, form);
    }
    return true;
}
