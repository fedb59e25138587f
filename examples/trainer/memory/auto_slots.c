/* The tensors to choose for, and the forms they may have. */
#include <stdlib.h>
#include <string.h>

#include "trainer/memory/auto_keep.h"

static const float sparsities[] = {0.5f, 0.7f, 0.9f};
static const unsigned bits[] = {8, 4, 2}, cells[] = {2, 4};

enum {
    SPARSITIES = sizeof sparsities / sizeof *sparsities,
    BITS = sizeof bits / sizeof *bits,
    CELLS = sizeof cells / sizeof *cells,
    ITEMS_MOST = 1 + 2 * BITS + SPARSITIES + CELLS
};

const char *auto_frame(const session *s, size_t frame)
{
    return s->type->keep->presets[s->options->activations].frames[frame];
}

/* All forms, regardless of what a tensor allows. */
static size_t all_items(const options *o, keep_rule rules[ITEMS_MOST])
{
    size_t count = 0;
    rules[count++] = (keep_rule){0};
    for (size_t i = 0; i < BITS; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_QUANTISED)};
        rules[count++].keep.bits = bits[i];
    }
    for (size_t i = 0; i < SPARSITIES; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_PRUNED)};
        rules[count].keep.sparsity = sparsities[i];
        rules[count++].keep.value_type = CLPRUNE_VALUES_INT8;
    }
    for (size_t i = 0; i < CELLS; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_POOLED)};
        rules[count++].keep.cell = cells[i];
    }
    for (size_t i = 0; i < BITS; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_GELU_CODE)};
        rules[count++].keep.bits = bits[i];
    }
    return count;
}

/* Whether a frame's letter offers a form. */
static bool offers(char letter, clprune_form form)
{
    if (letter == 'c' || form == CLPRUNE_FORM_GELU_CODE)
        return letter == 'c' && form == CLPRUNE_FORM_GELU_CODE;
    return letter == 'k' || form == CLPRUNE_FORM_DENSE || form == CLPRUNE_FORM_QUANTISED;
}

/* Adds the items of a slot, under the frame's rules: the first one, then those with fewer bytes
 * than it. */
static void add_items(const session *s, auto_keep *a, auto_slot *slot, keep_rule *rules)
{
    const keep_table *table = s->type->keep;
    const keep_shape shape = table->shapes[slot->entry];
    keep_rule all[ITEMS_MOST];
    const size_t count = all_items(s->options, all);
    char why[256];
    const keep_rule before = rules[slot->at];
    slot->first = a->items_count;
    for (size_t i = 0; i < count; ++i) {
        clprune_saved_sizes sizes;
        rules[slot->at] = all[i];
        keep_set_grids(table, rules);
        if (offers(auto_frame(s, slot->frame)[slot->entry], all[i].keep.form) &&
            keep_check(table, slot->entry, &rules[slot->at], why, sizeof why) &&
            clprune_saved_size_query(&rules[slot->at].keep, (size_t)s->options->batch_size,
                shape.rows, shape.cols, &sizes) == CLPRUNE_SUCCESS &&
            (a->items_count == slot->first || sizes.bytes < a->items[slot->first].bytes))
            a->items[a->items_count++] = (auto_item){.rule = rules[slot->at], .bytes = sizes.bytes};
    }
    rules[slot->at] = before;
    slot->count = a->items_count - slot->first;
}

static void add_slots(const session *s, auto_keep *a, size_t frame, keep_rule *rules)
{
    const keep_table *table = s->type->keep;
    keep_frame_rules(table, auto_frame(s, frame), 0, rules);
    for (size_t entry = 0; entry < table->count; ++entry) {
        auto_slot slot = {.frame = frame, .entry = entry, .at = keep_rule_at(table, 0, 0, entry)};
        if (strchr("kqc", auto_frame(s, frame)[entry]) == NULL || table->shapes[entry].rows == 0)
            continue;
        add_items(s, a, &slot, rules);
        a->slots[a->slots_count++] = slot;
    }
}

bool auto_slots_make(const session *s, auto_keep *a, fault *f)
{
    const size_t count = keep_rules_count(s->type->keep, 0);
    size_t frames = 0;
    while (auto_frame(s, frames) != NULL)
        ++frames;
    keep_rule *rules = malloc(count * sizeof *rules);
    a->slots = calloc(frames * count, sizeof *a->slots);
    a->items = calloc(frames * count * ITEMS_MOST, sizeof *a->items);
    const bool good = rules != NULL && a->slots != NULL && a->items != NULL;
    for (size_t i = 0; good && i < frames; ++i)
        add_slots(s, a, i, rules);
    free(rules);
    return good || fault_set(f, CODE_MEMORY, "out of memory");
}

void auto_keep_close(auto_keep *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->slots_count; ++i)
        free(a->slots[i].touched);
    free(a->slots);
    free(a->items);
    free(a);
}
