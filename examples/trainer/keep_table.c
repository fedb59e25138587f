#include "keep_table.h"

#include <stdio.h> /* snprintf */
#include <string.h>

size_t keep_rules_count(const keep_table *table, size_t blocks)
{
    return blocks * table->in_block + table->count - table->in_block;
}

size_t keep_rule_at(const keep_table *table, size_t blocks, size_t block, size_t entry)
{
    return entry < table->in_block ? block * table->in_block + entry
                                   : blocks * table->in_block + entry - table->in_block;
}

clprune_keep keep_rule_keep(const keep_rule *rule)
{
    static const clprune_form forms[] = {[KEEP_DENSE] = CLPRUNE_FORM_DENSE,
        [KEEP_PRUNED] = CLPRUNE_FORM_PRUNED,
        [KEEP_RECOMPUTED] = CLPRUNE_FORM_DENSE,
        [KEEP_CODE] = CLPRUNE_FORM_GELU_CODE};
    return (clprune_keep){
        .form = forms[rule->form],
        .block = rule->block,
        .sparsity = rule->sparsity,
        .norm = rule->norm,
        .criterion = rule->criterion,
        .value_type = rule->value_type,
        .index_type = rule->index_type,
        .bits = rule->code_bits,
    };
}

/* The entries of a block, or those outside of the blocks, that are kept in a form. */
typedef struct block_view {
    const keep_table *table;
    const keep_rule *rules; /* of entries [first, end) */
    size_t first, end;
} block_view;

static const keep_rule *rule_of(const block_view *view, size_t entry)
{
    return &view->rules[entry - view->first];
}

static keep_set with_form(const block_view *view, keep_form form)
{
    keep_set set = 0;
    for (size_t i = view->first; i < view->end; ++i)
        if (rule_of(view, i)->form == form)
            set |= KEEP_SET(i);
    return set;
}

/* The name of the first tensor in a set that is not empty. */
static const char *first_of(const keep_table *table, keep_set set)
{
    size_t i = 0;
    while ((set & KEEP_SET(i)) == 0)
        ++i;
    return table->entries[i].name;
}

/* The tensors that codes demand to be kept. */
static keep_set kept_for_codes(const block_view *view)
{
    const keep_set codes = with_form(view, KEEP_CODE);
    keep_set set = 0;
    for (size_t i = view->first; i < view->end; ++i)
        if ((codes & KEEP_SET(i)) != 0)
            set |= view->table->entries[i].code.kept;
    return set;
}

static bool check_recomputed(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_entry *e = &view->table->entries[entry];
    const keep_set again = with_form(view, KEEP_RECOMPUTED), dense = with_form(view, KEEP_DENSE);
    const keep_set kept = e->recompute.recomputed & ~kept_for_codes(view) & ~again;
    const keep_set other = e->recompute.dense & ~dense;
    if (e->again == NULL)
        (void)snprintf(why, size, "%s cannot be recomputed: %s", e->name, e->never);
    else if (kept != 0)
        (void)snprintf(why, size, "%s cannot be recomputed while %s is kept", e->name,
            first_of(view->table, kept));
    else if (other != 0)
        (void)snprintf(why, size, "%s cannot be recomputed while %s is not dense", e->name,
            first_of(view->table, other));
    else
        return true;
    return false;
}

static void say_who_codes(const block_view *view, char *why, size_t size)
{
    const keep_table *table = view->table;
    size_t only = table->count;
    for (size_t i = 0; i < table->count; ++i)
        if (table->entries[i].codes)
            only = i;
    if (only < table->count)
        (void)snprintf(why, size, "only %s can be kept as a code", table->entries[only].name);
    else
        (void)snprintf(why, size, "no tensor can be kept as a code");
}

static bool check_code(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_entry *e = &view->table->entries[entry];
    const unsigned bits = rule_of(view, entry)->code_bits;
    const keep_set again = with_form(view, KEEP_RECOMPUTED);
    const keep_set kept = e->code.recomputed & ~again, gone = e->code.kept & again;
    if (!e->codes)
        say_who_codes(view, why, size);
    else if (bits != 2 && bits != 4 && bits != 8)
        (void)snprintf(why, size, "%s's code must have 2, 4 or 8 bits", e->name);
    else if (kept != 0)
        (void)snprintf(why, size, "%s must be recomputed where %s is a code",
            first_of(view->table, kept), e->name);
    else if (gone != 0)
        (void)snprintf(why, size, "%s cannot be recomputed where %s is a code",
            first_of(view->table, gone), e->name);
    else
        return true;
    return false;
}

bool keep_check(const keep_table *table, size_t blocks, size_t block, const keep_rule *rules,
    char *why, size_t size)
{
    const bool outside = block == blocks;
    const block_view view = {.table = table,
        .rules = &rules[block * table->in_block],
        .first = outside ? table->in_block : 0,
        .end = outside ? table->count : table->in_block};
    bool good = true;
    for (size_t i = view.first; good && i < view.end; ++i) {
        if (rule_of(&view, i)->form == KEEP_RECOMPUTED)
            good = check_recomputed(&view, i, why, size);
        if (rule_of(&view, i)->form == KEEP_CODE)
            good = check_code(&view, i, why, size);
    }
    return good;
}

bool keep_preset_prunes(const keep_table *table, size_t preset)
{
    return strchr(table->presets[preset].forms, 'p') != NULL;
}

bool keep_preset_codes(const keep_table *table, size_t preset)
{
    return strchr(table->presets[preset].forms, 'c') != NULL;
}

bool keep_codes_exist(const keep_table *table)
{
    for (size_t i = 0; table->preset_names[i] != NULL; ++i)
        if (keep_preset_codes(table, i))
            return true;
    return false;
}

keep_rule keep_preset_rule(
    const keep_table *table, size_t preset, size_t entry, const keep_rule *how)
{
    keep_rule rule = {.form = KEEP_DENSE};
    switch (table->presets[preset].forms[entry]) {
    case 'r':
        rule.form = KEEP_RECOMPUTED;
        break;
    case 'c':
        rule.form = KEEP_CODE;
        rule.code_bits = how->code_bits;
        break;
    case 'p':
        if (how->sparsity > 0.0f || how->value_type != CLPRUNE_VALUES_FP32) {
            rule = *how;
            rule.form = KEEP_PRUNED;
        }
        break;
    default:
        break;
    }
    return rule;
}

void keep_preset_rules(
    const keep_table *table, size_t preset, const keep_rule *how, size_t blocks, keep_rule *rules)
{
    for (size_t block = 0; block < blocks; ++block)
        for (size_t i = 0; i < table->in_block; ++i)
            rules[keep_rule_at(table, blocks, block, i)] = keep_preset_rule(table, preset, i, how);
    for (size_t i = table->in_block; i < table->count; ++i)
        rules[keep_rule_at(table, blocks, 0, i)] = keep_preset_rule(table, preset, i, how);
}
