#include "trainer/options/keep_table.h"

#include <stdio.h> /* snprintf */
#include <string.h>

#include "trainer/model/trainer_model.h"

size_t keep_rules_count(const keep_table *table, size_t blocks)
{
    return blocks * table->in_block + table->count - table->in_block;
}

size_t keep_rule_at(const keep_table *table, size_t blocks, size_t block, size_t entry)
{
    return entry < table->in_block ? block * table->in_block + entry
                                   : blocks * table->in_block + entry - table->in_block;
}

keep_place keep_place_of(const keep_table *table, size_t blocks, size_t at)
{
    const size_t inside = blocks * table->in_block;
    return at < inside ? (keep_place){at / table->in_block, at % table->in_block}
                       : (keep_place){blocks, at - inside + table->in_block};
}

bool keep_has_form(const keep_rule *rule, clprune_form form)
{
    return !rule->recomputed && rule->keep.form == form;
}

/* The rules of a block, or those outside of the blocks. */
typedef struct block_view {
    const keep_table *table;
    const keep_rule *rules; /* of entries [first, end) */
    size_t first, end;
} block_view;

static const keep_rule *rule_of(const block_view *view, size_t entry)
{
    return &view->rules[entry - view->first];
}

static keep_set recomputed(const block_view *view)
{
    keep_set set = 0;
    for (size_t i = view->first; i < view->end; ++i)
        if (rule_of(view, i)->recomputed)
            set |= KEEP_SET(i);
    return set;
}

static keep_set with_form(const block_view *view, clprune_form form)
{
    keep_set set = 0;
    for (size_t i = view->first; i < view->end; ++i)
        if (keep_has_form(rule_of(view, i), form))
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

/* The tensors that must be kept for the codes. */
static keep_set kept_for_codes(const block_view *view)
{
    const keep_set codes = with_form(view, CLPRUNE_FORM_GELU_CODE);
    keep_set set = 0;
    for (size_t i = view->first; i < view->end; ++i)
        if ((codes & KEEP_SET(i)) != 0)
            set |= view->table->entries[i].code.kept;
    return set;
}

static bool check_recomputed(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_entry *e = &view->table->entries[entry];
    const keep_set again = recomputed(view), dense = with_form(view, CLPRUNE_FORM_DENSE);
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

static bool allows(const keep_entry *entry, clprune_form form)
{
    const keep_set always = KEEP_SET(CLPRUNE_FORM_DENSE) | KEEP_SET(CLPRUNE_FORM_PRUNED) |
                            KEEP_SET(CLPRUNE_FORM_QUANTISED) | KEEP_SET(CLPRUNE_FORM_POOLED);
    const keep_set forms = entry->only != 0 ? entry->only : always | entry->forms;
    return (forms & KEEP_SET(form)) != 0;
}

/* The reason why a tensor may not have its form: the first tensor that may, if that helps. */
static void say_who_allows(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_table *table = view->table;
    const clprune_form form = rule_of(view, entry)->keep.form;
    const char *as = form == CLPRUNE_FORM_GELU_CODE ? "a code" : clprune_form_name(form);
    (void)snprintf(why, size, "%s cannot be kept as %s", table->entries[entry].name, as);
    if (table->entries[entry].only != 0) /* most tensors allow the form */
        return;
    for (size_t i = 0; i < table->count; ++i)
        if (allows(&table->entries[i], form)) {
            (void)snprintf(why, size, "only %s%s%s can be kept as %s",
                table->entries[i].place == NULL ? "" : table->entries[i].place,
                table->entries[i].place == NULL ? "" : " ", table->entries[i].name, as);
            return;
        }
}

static bool check_code(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_entry *e = &view->table->entries[entry];
    const unsigned bits = rule_of(view, entry)->keep.bits;
    const keep_set again = recomputed(view);
    const keep_set kept = e->code.recomputed & ~again, gone = e->code.kept & again;
    if (bits != 2 && bits != 4 && bits != 8)
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

static bool check_entry(const block_view *view, size_t entry, char *why, size_t size)
{
    const keep_rule *rule = rule_of(view, entry);
    if (rule->recomputed)
        return check_recomputed(view, entry, why, size);
    if (!allows(&view->table->entries[entry], rule->keep.form)) {
        say_who_allows(view, entry, why, size);
        return false;
    }
    return rule->keep.form != CLPRUNE_FORM_GELU_CODE || check_code(view, entry, why, size);
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
    for (size_t i = view.first; good && i < view.end; ++i)
        good = check_entry(&view, i, why, size);
    return good;
}

bool keep_preset_has(const keep_table *table, size_t preset, char letter)
{
    return strchr(table->presets[preset].forms, letter) != NULL;
}

size_t keep_preset_named(const keep_table *table, const char *name)
{
    size_t i = 0;
    while (strcmp(table->preset_names[i], name) != 0)
        ++i;
    return i;
}

bool keep_preset_chooses(const keep_table *table, size_t preset)
{
    return table->presets[preset].frames != NULL;
}

bool keep_preset_is_exact(const keep_table *table, size_t preset)
{
    return strpbrk(table->presets[preset].forms, "pcqeo") == NULL;
}

bool keep_codes_exist(const keep_table *table)
{
    for (size_t i = 0; table->preset_names[i] != NULL; ++i)
        if (keep_preset_has(table, i, KEEP_CODED))
            return true;
    return false;
}

static keep_rule rule_like(const clprune_keep *keep, clprune_form form)
{
    keep_rule rule = {.keep = *keep};
    rule.keep.form = form;
    return rule;
}

static keep_rule rule_of_letter(char letter, const keep_how *how)
{
    const bool fp32 = how->keep.value_type == CLPRUNE_VALUES_FP32;
    keep_rule rule = {0}; /* dense */
    switch (letter) {
    case 'r':
        rule.recomputed = true;
        break;
    case KEEP_CODED:
        rule.keep = (clprune_keep){.form = CLPRUNE_FORM_GELU_CODE, .bits = how->gelu_bits};
        break;
    case 'm':
        rule.keep.form = CLPRUNE_FORM_MEAN;
        break;
    case 'b':
        rule.keep.form = CLPRUNE_FORM_MASK;
        break;
    case KEEP_PRUNED:
        if (how->keep.sparsity > 0.0f || !fp32)
            rule = rule_like(&how->keep, CLPRUNE_FORM_PRUNED);
        break;
    case KEEP_QUANTISED:
        rule = rule_like(&how->keep, CLPRUNE_FORM_QUANTISED);
        break;
    case 'e':
        rule = rule_like(&how->keep, CLPRUNE_FORM_QUANTISED);
        rule.keep.bits = 8;
        break;
    case KEEP_POOLED:
        rule = rule_like(&how->keep, CLPRUNE_FORM_POOLED);
        break;
    default:
        break;
    }
    return rule;
}

keep_rule keep_preset_rule(
    const keep_table *table, size_t preset, size_t entry, const keep_how *how)
{
    return rule_of_letter(table->presets[preset].forms[entry], how);
}

void keep_preset_rules(
    const keep_table *table, size_t preset, const keep_how *how, size_t blocks, keep_rule *rules)
{
    for (size_t at = 0; at < keep_rules_count(table, blocks); ++at)
        rules[at] = keep_preset_rule(table, preset, keep_place_of(table, blocks, at).entry, how);
}

void keep_frame_rules(const keep_table *table, const char *frame, size_t blocks, keep_rule *rules)
{
    const keep_how how = {.gelu_bits = 8};
    for (size_t at = 0; at < keep_rules_count(table, blocks); ++at) {
        const char letter = frame[keep_place_of(table, blocks, at).entry];
        rules[at] = rule_of_letter(strchr("kq", letter) != NULL ? 'd' : letter, &how);
    }
}

void keep_set_grids(const keep_table *table, const trainer_sizes *sizes, keep_rule *rules)
{
    for (size_t at = 0; at < keep_rules_count(table, sizes->blocks); ++at) {
        const keep_place place = keep_place_of(table, sizes->blocks, at);
        const keep_shape shape = table->shape(sizes, place.block, place.entry);
        keep_rule *rule = &rules[at];
        if (!keep_has_form(rule, CLPRUNE_FORM_POOLED) &&
            (!keep_has_form(rule, CLPRUNE_FORM_PRUNED) ||
                rule->keep.centre != CLPRUNE_CENTRE_CELLS))
            continue;
        rule->keep.grid_height = (unsigned)shape.grid_height;
        rule->keep.grid_width = (unsigned)shape.grid_width;
    }
}
