/* The choice: the least error whose plan is within the limit. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/memory/auto_keep.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/keep_file.h"

enum { BISECTIONS = 30, TRIALS = 64 };

typedef struct search {
    session *in; /* of the run */
    const clprune_device_info *device;
    auto_keep *a;
    uint64_t bytes; /* of the latest plan */
} search;

static const auto_item *chosen(const auto_keep *a, const auto_slot *slot)
{
    return &a->items[slot->first + slot->item];
}

/* The frame with the rules of the choice. */
static keep_list *choice_rules(const search *s)
{
    for (size_t i = 0; i < s->a->slots_count; ++i)
        if (s->a->slots[i].frame == s->a->frame)
            auto_tensor(s->a, &s->a->slots[i])->rule = chosen(s->a, &s->a->slots[i])->rule;
    return &s->a->frames[s->a->frame];
}

/* Writes the rules to the run's keep_text. */
static bool take_rules(search *s, const keep_list *rules, fault *f)
{
    options *o = s->in->options;
    free(o->keep_text);
    o->keep_text = NULL;
    return keep_file_write(rules, &o->keep_text, f);
}

static bool take_choice(search *s, fault *f)
{
    return take_rules(s, choice_rules(s), f);
}

/* Plans the run with its present keep_text; keeps the plan if it is within the limit. */
static bool try_plan(search *s, memory_plan *plan, bool *fits, fault *f)
{
    memory_plan made;
    if (!memory_plan_make(s->in, s->device, &made, f))
        return false;
    s->bytes = memory_plan_bytes(&made);
    *fits = s->bytes <= s->a->limit;
    if (*fits) {
        memory_plan_close(plan);
        *plan = made;
        s->a->planned = s->bytes;
    } else {
        memory_plan_close(&made);
    }
    return true;
}

/* Tries the ladder's presets with dense's gradients, the mildest first. */
static bool try_exact(search *s, memory_plan *plan, bool *fits, fault *f)
{
    bool good = true;
    *fits = false;
    for (size_t i = 0; good && !*fits && i < KEEP_RUNGS; ++i) {
        const size_t preset = keep_preset_named(keep_ladder[i].preset);
        keep_list rules = {0};
        if (!keep_preset_is_exact(preset))
            continue;
        good = session_list(s->in, preset, &rules, f) && take_rules(s, &rules, f) &&
               try_plan(s, plan, fits, f);
        keep_list_close(&rules);
        if (good && *fits)
            s->a->exact = keep_presets[preset].name;
    }
    return good;
}

/* Chooses of each slot of the frame the item with the least error + lambda * bytes, or with lambda
 * < 0 the fewest bytes; the first of equal ones. */
static void choose(auto_keep *a, double lambda)
{
    for (size_t n = 0; n < a->slots_count; ++n) {
        auto_slot *slot = &a->slots[n];
        double best = 0;
        for (size_t i = 0; slot->frame == a->frame && i < slot->count; ++i) {
            const auto_item *item = &a->items[slot->first + i];
            const double cost =
                lambda < 0 ? (double)item->bytes : item->error + lambda * (double)item->bytes;
            if (i == 0 || cost < best) {
                best = cost;
                slot->item = i;
            }
        }
    }
}

static bool try_lambda(search *s, double lambda, memory_plan *plan, bool *fits, fault *f)
{
    choose(s->a, lambda);
    return take_choice(s, f) && try_plan(s, plan, fits, f);
}

/* Chooses with the least lambda whose plan fits, or with the fewest bytes (lambda -1) if no other
 * fits. *fits: one does. */
static bool bisect(search *s, memory_plan *plan, bool *fits, fault *f)
{
    double low = 1e-18, high = 1e3; /* error per byte */
    double found = -1;
    if (!try_lambda(s, -1, plan, fits, f))
        return false;
    for (int i = 0; *fits && i < BISECTIONS; ++i) {
        const double middle = sqrt(low * high);
        bool good;
        if (!try_lambda(s, middle, plan, &good, f))
            return false;
        if (good)
            found = high = middle;
        else
            low = middle;
    }
    return !*fits || try_lambda(s, found, plan, fits, f);
}

/* A better item for a slot of a chosen frame. */
typedef struct upgrade {
    auto_slot *slot;
    size_t item;
    double gain; /* error saved per byte */
} upgrade;

/* The upgrade with the largest gain below `below` whose bytes may fit. False if there is none. */
static bool next_upgrade(const search *s, double below, upgrade *best)
{
    const auto_keep *a = s->a;
    *best = (upgrade){0};
    for (size_t i = 0; i < a->slots_count; ++i) {
        auto_slot *slot = &a->slots[i];
        const auto_item *now = chosen(a, slot);
        if (slot->frame != a->frame)
            continue;
        for (size_t k = 0; k < slot->count; ++k) {
            const auto_item *item = &a->items[slot->first + k];
            if (item->bytes <= now->bytes || item->error >= now->error ||
                item->bytes - now->bytes > 2 * (a->limit - a->planned))
                continue;
            const double gain = (now->error - item->error) / (double)(item->bytes - now->bytes);
            if (gain < below && gain > best->gain)
                *best = (upgrade){slot, k, gain};
        }
    }
    return best->slot != NULL;
}

/* Spends the bytes that the bisection left over on upgrades. */
static bool spend(search *s, memory_plan *plan, fault *f)
{
    upgrade better;
    double below = HUGE_VAL;
    for (int i = 0; i < TRIALS && next_upgrade(s, below, &better); ++i) {
        const size_t before = better.slot->item;
        bool fits;
        better.slot->item = better.item;
        if (!take_choice(s, f) || !try_plan(s, plan, &fits, f))
            return false;
        if (!fits) {
            better.slot->item = before;
            below = better.gain;
        }
    }
    return take_choice(s, f);
}

static double predicted_error(const auto_keep *a)
{
    double sum = 0;
    for (size_t i = 0; i < a->slots_count; ++i)
        if (a->slots[i].frame == a->frame)
            sum += chosen(a, &a->slots[i])->error;
    return sum;
}

/* Chooses in each frame, and of these choices the one with the least error. *plan: its plan. */
static bool choose_frame(search *s, memory_plan *plan, fault *f)
{
    auto_keep *a = s->a;
    size_t best = SIZE_MAX;
    for (a->frame = 0; a->frame < a->frames_count; ++a->frame) {
        bool fits;
        memory_plan_close(plan);
        *plan = (memory_plan){0};
        if (!bisect(s, plan, &fits, f) || (fits && !spend(s, plan, f)))
            return false;
        const double error = predicted_error(a);
        if (fits && (best == SIZE_MAX || error < a->predicted)) {
            best = a->frame;
            a->predicted = error;
        }
    }
    a->frame = best;
    bool fits;
    return take_choice(s, f) && try_plan(s, plan, &fits, f);
}

/* Measures the errors of the chosen items all together. */
static bool check_choice(search *s, auto_probe *probe, fault *f)
{
    double *errors = malloc(probe->s.params_count * sizeof *errors);
    bool good = errors != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && auto_probe_errors(probe, choice_rules(s), probe->exact, NULL, errors, f);
    for (size_t i = 0; good && i < probe->s.params_count; ++i)
        s->a->measured += errors[i];
    free(errors);
    return good;
}

/* Plans the fewest bytes of each frame. Fails if the least of them is over the limit. */
static bool plan_least(search *s, memory_plan *plan, fault *f)
{
    uint64_t least = UINT64_MAX;
    for (s->a->frame = 0; s->a->frame < s->a->frames_count; ++s->a->frame) {
        bool fits;
        if (!try_lambda(s, -1, plan, &fits, f))
            return false;
        least = s->bytes < least ? s->bytes : least;
    }
    return least <= s->a->limit ||
           fault_set(f, CODE_MEMORY,
               "--memory-limit %" PRIu64 ": activations auto, batch %" PRIu64 " take %" PRIu64
               " bytes at least; a smaller --batch-size takes fewer",
               s->a->limit, s->in->options->batch_size, least);
}

/* Plans the fewest bytes first: measuring takes minutes and is in vain if they do not fit. */
static bool measure_and_choose(search *s, memory_plan *plan, fault *f)
{
    auto_probe probe = {0};
    const double began = clock_seconds();
    if (!auto_slots_make(s->in, s->a, f) || !plan_least(s, plan, f))
        return false;
    free(s->in->options->keep_text); /* without it the probe is dense */
    s->in->options->keep_text = NULL;
    progress_say(s->in->shown,
        "activations auto: measuring %zu forms of %zu tensors, each in a model beside a dense one",
        s->a->items_count, s->a->slots_count);
    const bool good = auto_probe_open(s->in, &probe, f) && auto_measure(&probe, s->a, f) &&
                      choose_frame(s, plan, f) && check_choice(s, &probe, f);
    auto_probe_close(&probe);
    s->a->seconds = clock_seconds() - began;
    return good;
}

bool auto_keep_choose(session *in, const clprune_device_info *device, memory_plan *plan, fault *f)
{
    auto_keep *a = in->automatic = calloc(1, sizeof *a);
    search s = {.in = in, .device = device, .a = a};
    bool fits = false;
    *plan = (memory_plan){0};
    if (a == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    a->limit = in->options->memory_limit;
    if (!try_exact(&s, plan, &fits, f) || (!fits && !measure_and_choose(&s, plan, f))) {
        memory_plan_close(plan);
        return false;
    }
    auto_keep_print(in);
    return true;
}
