/*
 * keep_presets.h: how a tensor can be kept from the forward to the backward pass, and the presets
 * of --activations, which say it of all tensors of a model: a row of numbers each. What a preset
 * keeps of a model, its net decides: keep_list.h.
 */
#ifndef TRAINER_KEEP_PRESETS_H
#define TRAINER_KEEP_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include <clprune/net.h>

/* How one tensor is kept. */
typedef struct keep_rule {
    bool recomputed; /* nothing is kept: the tensor is computed again, or its gradient follows from
                        others; `keep` is not read */
    clprune_keep keep; /* else: zeros keep it dense */
} keep_rule;

/* Whether a rule keeps the tensor in this form. */
bool keep_has_form(const keep_rule *rule, clprune_form form);

typedef struct keep_preset {
    const char *name;
    const char *help; /* for --help, one phrase */
    const char *uses; /* the letters of the options that set its forms; NULL: none */
    /* What the net is told, but for the settings of forms. */
    clprune_net_preset preset;
    clprune_form form;
    size_t products; /* this and the next: of clprune_net_keep */
    unsigned extra_work;
    clprune_criterion criterion;   /* the default of --criterion */
    clprune_index_type index_type; /* the default of --indices */
    /* Of a preset that chooses by measured errors (auto_keep.h): the presets whose kept tensors it
     * chooses forms for, ended by NULL; else NULL. */
    const char *const *frames;
} keep_preset;

enum { KEEP_PRESETS = 14, KEEP_RUNGS = 7 };
extern const keep_preset keep_presets[KEEP_PRESETS]; /* the first is dense */

/* The rungs of --memory-limit's ladder: a preset, and --code-bits if it quantises. The mildest
 * first, each with less memory than the one before, but for batches of a few images. */
typedef struct keep_rung {
    const char *preset;
    unsigned code_bits;
} keep_rung;
extern const keep_rung keep_ladder[KEEP_RUNGS];

/* Letters of keep_preset.uses: --sparsity, --gelu-code, --code-bits, --pool. */
enum { KEEP_PRUNED = 'p', KEEP_CODED = 'c', KEEP_QUANTISED = 'q', KEEP_POOLED = 'o' };

/* Whether a preset has forms that such an option sets. */
bool keep_preset_has(size_t preset, char letter);

/* Whether a preset chooses each tensor's form by measured gradient errors. */
bool keep_preset_chooses(size_t preset);

/* Whether a preset's gradients are dense's but for rounding. */
bool keep_preset_is_exact(size_t preset);

/* The position of a preset's name, which must be there. */
size_t keep_preset_named(const char *name);

/* All names; ends with NULL. */
const char *const *keep_preset_names(void);

/* The settings of a preset's forms. */
typedef struct keep_how {
    clprune_keep keep;        /* of all forms but GELU_CODE; its form is not read */
    unsigned gelu_bits;       /* of GELU_CODE */
    clprune_value_type store; /* clprune_net_keep */
} keep_how;

/* What the net is told of a preset. */
clprune_net_keep keep_preset_net(size_t preset, const keep_how *how);

#endif
