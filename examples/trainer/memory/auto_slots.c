/* The tensors to choose for, and the forms they may have. */
#include <stdlib.h>

#include "trainer/model/keep_presets.h"

#include "trainer/memory/auto_keep.h"

static const float sparsities[] = {0.5f, 0.7f, 0.9f};
static const unsigned bits[] = {8, 4, 2}, cells[] = {2, 4};

enum {
    SPARSITIES = sizeof sparsities / sizeof *sparsities,
    BITS = sizeof bits / sizeof *bits,
    CELLS = sizeof cells / sizeof *cells,
    ITEMS_MOST = 1 + BITS + SPARSITIES + CELLS
};

keep_tensor *auto_tensor(auto_keep *a, const auto_slot *slot)
{
    return &a->frames[slot->frame].tensors[slot->at];
}

/* The forms of a tensor, dense first. */
static size_t list_forms(const options *o, bool product, keep_rule rules[ITEMS_MOST])
{
    size_t count = 0;
    rules[count++] = (keep_rule){0};
    for (size_t i = 0; i < BITS; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_QUANTISED)};
        rules[count++].keep.bits = bits[i];
    }
    for (size_t i = 0; i < SPARSITIES && product; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_PRUNED)};
        rules[count].keep.sparsity = sparsities[i];
        rules[count++].keep.value_type = CLPRUNE_VALUES_INT8;
    }
    for (size_t i = 0; i < CELLS && product; ++i) {
        rules[count] = (keep_rule){.keep = options_keep(o, CLPRUNE_FORM_POOLED)};
        rules[count++].keep.cell = cells[i];
    }
    return count;
}

/* Adds the items of a slot: dense, then those with fewer bytes. */
static void add_items(const session *s, auto_keep *a, auto_slot *slot)
{
    keep_tensor *tensor = auto_tensor(a, slot);
    keep_rule forms[ITEMS_MOST];
    const size_t count = list_forms(s->options, tensor->product, forms);
    slot->first = a->items_count;
    for (size_t i = 0; i < count; ++i) {
        clprune_saved_sizes sizes;
        keep_list_set(tensor, &forms[i]);
        if (clprune_saved_size_query(&tensor->rule.keep, options_pass(s->options),
                tensor->shape.rows, tensor->shape.cols, &sizes) == CLPRUNE_SUCCESS &&
            (a->items_count == slot->first || sizes.bytes < a->items[slot->first].bytes))
            a->items[a->items_count++] = (auto_item){.rule = tensor->rule, .bytes = sizes.bytes};
    }
    keep_list_set(tensor, &forms[0]);
    slot->count = a->items_count - slot->first;
}

static bool list_frames(const session *s, auto_keep *a, fault *f)
{
    const char *const *frames = keep_presets[s->options->activations].frames;
    for (; a->frames_count < AUTO_FRAMES && frames[a->frames_count] != NULL; ++a->frames_count)
        if (!session_list(
                s, keep_preset_named(frames[a->frames_count]), &a->frames[a->frames_count], f))
            return false;
    return true;
}

bool auto_slots_make(const session *s, auto_keep *a, fault *f)
{
    size_t most = 0;
    if (!list_frames(s, a, f))
        return false;
    for (size_t i = 0; i < a->frames_count; ++i)
        most += a->frames[i].count;
    a->slots = calloc(most + 1, sizeof *a->slots);
    a->items = calloc(most + 1, ITEMS_MOST * sizeof *a->items);
    if (a->slots == NULL || a->items == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t frame = 0; frame < a->frames_count; ++frame)
        for (size_t at = 0; at < a->frames[frame].count; ++at) {
            auto_slot *slot = &a->slots[a->slots_count];
            *slot = (auto_slot){.frame = frame, .at = at};
            keep_tensor *tensor = auto_tensor(a, slot);
            tensor->given = true;
            if (tensor->rule.recomputed || tensor->shape.rows == 0)
                continue;
            add_items(s, a, slot);
            ++a->slots_count;
        }
    return true;
}

void auto_keep_close(auto_keep *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->slots_count; ++i)
        free(a->slots[i].touched);
    for (size_t i = 0; i < AUTO_FRAMES; ++i)
        keep_list_close(&a->frames[i]);
    free(a->slots);
    free(a->items);
    free(a);
}
