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

bool keep_check(
    const keep_table *table, size_t entry, const keep_rule *rule, char *why, size_t size)
{
    const keep_entry *e = &table->entries[entry];
    const clprune_form form = rule->keep.form;
    if (rule->recomputed && e->again == NULL)
        (void)snprintf(why, size, "%s cannot be recomputed: %s", e->name, e->never);
    else if (!rule->recomputed && form != CLPRUNE_FORM_DENSE && form != CLPRUNE_FORM_PRUNED &&
             form != CLPRUNE_FORM_QUANTISED && form != CLPRUNE_FORM_POOLED)
        (void)snprintf(why, size, "%s cannot be kept as %s", e->name,
            form == CLPRUNE_FORM_GELU_CODE ? "a code" : clprune_form_name(form));
    else
        return true;
    return false;
}

bool keep_preset_has(const keep_table *table, size_t preset, char letter)
{
    const char *uses = table->presets[preset].uses;
    return uses != NULL && strchr(uses, letter) != NULL;
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
    return !keep_preset_chooses(table, preset) &&
           (table->presets[preset].uses == NULL || table->presets[preset].uses[0] == '\0');
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
    case KEEP_PRUNED:
        if (how->keep.sparsity > 0.0f || !fp32)
            rule = rule_like(&how->keep, CLPRUNE_FORM_PRUNED);
        break;
    case KEEP_QUANTISED:
        rule = rule_like(&how->keep, CLPRUNE_FORM_QUANTISED);
        break;
    case 'e':
        rule = rule_like(&how->keep, CLPRUNE_FORM_QUANTISED);
        rule.keep.bits = how->keep.bits > 8 ? how->keep.bits : 8;
        break;
    case KEEP_BF16:
        rule.keep = (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = 16};
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
    const keep_how how = {0};
    for (size_t at = 0; at < keep_rules_count(table, blocks); ++at) {
        const char letter = frame[keep_place_of(table, blocks, at).entry];
        rules[at] = rule_of_letter(strchr("kq", letter) != NULL ? 'd' : letter, &how);
    }
}

void keep_set_grids(const keep_table *table, keep_rule *rules)
{
    for (size_t i = 0; i < table->count; ++i) {
        keep_rule *rule = &rules[i];
        if (!keep_has_form(rule, CLPRUNE_FORM_POOLED) &&
            (!keep_has_form(rule, CLPRUNE_FORM_PRUNED) ||
                rule->keep.centre != CLPRUNE_CENTRE_CELLS))
            continue;
        rule->keep.grid_height = (unsigned)table->shapes[i].grid_height;
        rule->keep.grid_width = (unsigned)table->shapes[i].grid_width;
    }
}
