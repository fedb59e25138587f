/* --memory-limit: the most bits of frozen weights, with them the mildest preset, or the largest
 * batch, whose plan fits. auto_keep.h chooses tensor by tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trainer/memory/auto_keep.h"
#include "trainer/memory/memory_plan.h"
#include "trainer/model/keep_presets.h"

typedef struct search {
    session *in; /* of the run */
    const clprune_device_info *device;
    options wanted; /* as they were given */
    bool preset_open, batch_open, base_open;
    size_t presets, bases; /* to try: rungs of the ladder, positions in options_base_bits */
    uint64_t bytes;        /* of the smallest plan; 0: none yet */
    options least;         /* of that plan */
} search;

/* Sets the options to a rung of the ladder, which begins anew with fewer bits of frozen weights:
 * their errors are the model's, those of codes of activations noise of gradients. False if the rung
 * is to be skipped: with a given --code-bits, rungs of a quantising preset except its last. */
static bool take_rung(search *s, size_t rung)
{
    options *o = s->in->options;
    *o = s->wanted;
    if (s->base_open)
        o->base_bits = rung / s->presets;
    session_set_base(s->in);
    rung %= s->presets;
    if (!s->preset_open)
        return true;
    const size_t preset = keep_preset_named(keep_ladder[rung].preset);
    const bool quantises = keep_preset_has(preset, KEEP_QUANTISED),
               last = rung + 1 == KEEP_RUNGS ||
                      strcmp(keep_ladder[rung + 1].preset, keep_ladder[rung].preset) != 0;
    o->activations = preset;
    if (quantises && !options_given(o, "code-bits"))
        options_set_quantised_bits(o, keep_ladder[rung].code_bits);
    options_settle(o);
    return !quantises || last || !options_given(o, "code-bits");
}

/* Plans the run of s->options. *fits: the plan is within the limit; otherwise it is closed. */
static bool try_plan(search *s, memory_plan *plan, bool *fits, fault *f)
{
    if (!memory_plan_make(s->in, s->device, plan, f))
        return false;
    const uint64_t bytes = memory_plan_bytes(plan);
    if (s->bytes == 0 || bytes < s->bytes) {
        s->bytes = bytes;
        s->least = *s->in->options;
    }
    *fits = bytes <= s->wanted.memory_limit;
    if (!*fits)
        memory_plan_close(plan);
    return true;
}

enum { REFUSED_MOST = 64 }; /* batches, one after the other */

/* Finds the largest batch that fits by doubling, then bisection: memory grows with the batch. At
 * least a sample for each pass, at most 65536, or the number of training images. Where the model
 * refuses a batch, as batch norms do that are left with one value, the next one is tried. */
static bool largest_batch(search *s, memory_plan *plan, bool *fits, fault *f)
{
    options *o = s->in->options;
    const uint64_t most = o->train_limit < 65536 ? o->train_limit : 65536;
    const uint64_t passes = options_passes(o), least = passes < most ? passes : most;
    uint64_t good = least - 1, bad = most + 1;
    unsigned refused = 0;
    *fits = false;
    for (uint64_t batch = least; good + 1 < bad;) {
        memory_plan found;
        fault wrong = {0};
        o->batch_size = batch;
        const bool planned = try_plan(s, &found, fits, &wrong);
        refused = planned ? 0 : refused + 1;
        if (!planned && found.refused && refused < REFUSED_MOST && batch + 1 < bad) {
            ++batch;
            continue;
        }
        if (!planned && (!found.refused || s->bytes == 0)) {
            *f = wrong;
            memory_plan_close(plan);
            return false;
        }
        if (planned && *fits) {
            memory_plan_close(plan);
            *plan = found;
            good = batch;
        } else {
            bad = batch;
        }
        batch = bad <= most ? good + (bad - good) / 2 : 2 * good < most ? 2 * good : most;
    }
    o->batch_size = good >= least ? good : least;
    *fits = good >= least;
    return true;
}

/* Finds the largest batch of any rung with the fewest bits of frozen weights, and of equal ones the
 * mildest. It may not be the last rung's: codes and their workspace may take more than the tensors
 * of a few images. */
static bool shrink_batch(search *s, memory_plan *plan, bool *fits, fault *f)
{
    if (!s->preset_open && !s->base_open)
        return largest_batch(s, plan, fits, f);
    uint64_t best = 0;
    options chosen = *s->in->options;
    /* with few columns, the last base may take more than the one before */
    const size_t first = s->bases > 1 ? s->bases - 2 : 0;
    for (size_t rung = first * s->presets; rung < s->bases * s->presets; ++rung) {
        memory_plan found = {0};
        if (!take_rung(s, rung))
            continue;
        if (!largest_batch(s, &found, fits, f)) {
            memory_plan_close(plan);
            return false;
        }
        if (*fits && s->in->options->batch_size > best) {
            best = s->in->options->batch_size;
            chosen = *s->in->options;
            memory_plan_close(plan);
            *plan = found;
        } else {
            memory_plan_close(&found);
        }
    }
    *s->in->options = chosen;
    session_set_base(s->in);
    *fits = best > 0;
    return true;
}

/* "compact, codes of 4 bits" */
static void choice_text(const options *o, char *text, size_t size)
{
    if (keep_preset_has(o->activations, KEEP_QUANTISED))
        (void)snprintf(
            text, size, "%s, codes of %u bits", options_preset(o), options_quantised_bits(o));
    else if (keep_preset_has(o->activations, KEEP_PRUNED))
        (void)snprintf(text, size, "%s, sparsity %g, values in %s", options_preset(o), o->sparsity,
            options_values[o->values]);
    else
        (void)snprintf(text, size, "%s", options_preset(o));
    if (o->lora != NULL || o->train != NULL)
        options_append(text, size, ", base bits %s", options_base_bits[o->base_bits]);
}

static void say_choice(const search *s, uint64_t bytes)
{
    const options *o = s->in->options;
    char choice[128];
    choice_text(o, choice, sizeof choice);
    progress_say(s->in->shown,
        "memory limit %" PRIu64 " bytes: activations %s, batch %" PRIu64 ": %" PRIu64
        " bytes are planned",
        o->memory_limit, choice, o->batch_size, bytes);
}

/* Names the options without which less may be taken: "--activations or --batch-size". Not one with
 * the least value there is, nor one that others need. True if there is one of the latter. */
static bool fixed_by(const options *o, char *text, size_t size)
{
    static const char *const names[] = {"base-bits", "activations", "code-bits", "batch-size"};
    const keep_rung *last = &keep_ladder[KEEP_RUNGS - 1];
    const bool fewest = options_quantised_bits(o) <= last->code_bits;
    const bool least[] = {options_base_bits[o->base_bits + 1] == NULL,
        fewest && o->activations == keep_preset_named(last->preset),
        fewest || !keep_preset_has(o->activations, KEEP_QUANTISED), o->batch_size == 1};
    bool needed = false;
    text[0] = '\0';
    if (o->resume != NULL) {
        (void)snprintf(text, size, "--resume");
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        if (!options_given(o, names[i]) || least[i])
            continue;
        if (options_right_without(o, names[i]))
            options_append(text, size, "%s--%s", text[0] == '\0' ? "" : " or ", names[i]);
        else
            needed = true;
    }
    return needed;
}

static bool nothing_fits(const search *s, fault *f)
{
    const options *o = &s->least;
    char choice[128], fixed[64];
    choice_text(o, choice, sizeof choice);
    const bool needed = fixed_by(o, fixed, sizeof fixed), is_fixed = fixed[0] != '\0';
    return fault_set(f, CODE_MEMORY,
        "--memory-limit %" PRIu64 ": activations %s, batch %" PRIu64 " take %" PRIu64
        " bytes%s%s%s",
        o->memory_limit, choice, o->batch_size, s->bytes,
        is_fixed ? "; without "
        : needed ? ", the least with these options"
                 : ", the least there is",
        fixed, is_fixed ? " one that fits is looked for" : "");
}

bool memory_plan_choose(session *in, const clprune_device_info *device, memory_plan *plan, fault *f)
{
    const options *o = in->options;
    if (o->memory_limit == 0)
        return memory_plan_make(in, device, plan, f);
    if (o->resume == NULL && keep_preset_chooses(o->activations))
        return auto_keep_choose(in, device, plan, f);
    search s = {.in = in,
        .device = device,
        .wanted = *o,
        .preset_open = o->resume == NULL && !options_given(o, "activations"),
        .batch_open = o->resume == NULL && !options_given(o, "batch-size"),
        .base_open = o->resume == NULL && (o->lora != NULL || o->train != NULL) &&
                     !options_given(o, "base-bits")};
    bool fits = false;
    s.presets = s.preset_open ? KEEP_RUNGS : 1;
    for (s.bases = 1; s.base_open && options_base_bits[s.bases] != NULL;)
        ++s.bases;
    *plan = (memory_plan){0};
    const bool open = s.preset_open || s.base_open;
    if (!open && !s.batch_open && !try_plan(&s, plan, &fits, f))
        return false;
    for (size_t rung = 0; open && rung < s.bases * s.presets && !fits; ++rung) {
        fault wrong = {0};
        if (!take_rung(&s, rung) || try_plan(&s, plan, &fits, &wrong))
            continue;
        if (o->base_bits == 0 || !plan->refused) {
            *f = wrong;
            return false;
        }
        s.bases = 1; /* the model has no frozen weights that may have fewer */
    }
    if (open && !fits)
        (void)take_rung(&s, 0);
    if (!fits && s.batch_open && !shrink_batch(&s, plan, &fits, f))
        return false;
    if (!fits)
        return nothing_fits(&s, f);
    say_choice(&s, memory_plan_bytes(plan));
    return true;
}
