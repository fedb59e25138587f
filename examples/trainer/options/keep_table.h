/*
 * keep_table.h: the tensors that a model can keep from the forward to the backward pass, how each
 * may be kept, and the presets of --activations. A model lists them in one keep_table; the command
 * line, the keep file, the plan and the model itself read it.
 *
 *     keep_rule rules[count];                      count = keep_rules_count(table, blocks)
 *     keep_preset_rules(table, preset, how, blocks, rules);
 *     rules[keep_rule_at(table, blocks, 3, tensor)] = (keep_rule){0};    (dense)
 *     if (!keep_check(table, blocks, 3, rules, why, sizeof why)) ...
 *
 * A tensor belongs to every block, or to a place of its own outside of the blocks, such as "last".
 */
#ifndef TRAINER_KEEP_TABLE_H
#define TRAINER_KEEP_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include <clprune/saved.h>

/* How one tensor is kept. */
typedef struct keep_rule {
    bool recomputed; /* nothing is kept: the tensor is computed again, or its gradient follows from
                        others; `keep` is not read */
    clprune_keep keep; /* else: zeros keep it dense */
} keep_rule;

/* Whether a rule keeps the tensor in this form. */
bool keep_has_form(const keep_rule *rule, clprune_form form);

typedef struct keep_entry {
    const char *name;  /* "norm1" in "blocks.3.norm1" */
    const char *place; /* NULL: a tensor of every block; else the place, as in the keep file */
    const char *again; /* what recomputes the tensor; NULL: it cannot be recomputed */
    const char *never; /* the reason if `again` is NULL */
} keep_entry;

/* One letter per entry: dense, pruned, recomputed, code, mean, quantised, quantised in at least 8
 * bits (e), bf16 (h), pooled (o), mask bits (b). */
typedef struct keep_preset_row {
    const char *forms;
    clprune_criterion criterion;   /* the default of --criterion */
    clprune_index_type index_type; /* the default of --indices */
    const char *help;              /* for --help, one phrase */
    /* For a preset that chooses by measured errors: its frames, ended by NULL; else NULL. A frame
     * has one letter per entry: recomputed, mean, mask bits (b); or to be chosen: any form (k),
     * dense or quantised (q), a code of GELU's derivative (c). */
    const char *const *frames;
    const char *uses; /* the letters in `forms` that options set (KEEP_PRUNED and so on), known
                         before the forms are */
} keep_preset_row;

/* A preset name with another meaning today: `before` is read as `now` in checkpoints with a setting
 * `presets` (options.c) of at most `presets` and this criterion (NULL: any). */
typedef struct keep_renamed {
    const char *before, *criterion, *now;
    unsigned presets;
} keep_renamed;

/* A rung of --memory-limit's ladder: a preset, and --code-bits if it quantises. */
typedef struct keep_rung {
    const char *preset;
    unsigned code_bits;
} keep_rung;

/* The shape of one sample of a tensor. For POOLED the rows are the places of a grid_height x
 * grid_width grid, one grid row after the other; both 0: a single line. */
typedef struct keep_shape {
    size_t rows, cols;
    size_t grid_height, grid_width;
} keep_shape;

typedef struct keep_table {
    const keep_entry *entries;       /* first those of a block, as the forward pass makes them */
    size_t in_block, count;          /* entries of a block; all entries */
    const keep_shape *shapes;        /* (count) */
    const char *const *preset_names; /* ends with NULL; the first preset is dense */
    const keep_preset_row *presets;  /* in the same order */
    const keep_rung *ladder; /* the mildest first, each with less memory than the one before, but
                                for batches of a few images; none: --memory-limit chooses only the
                                batch */
    size_t rungs;
    const keep_renamed *renamed; /* (renamed_count) */
    size_t renamed_count;
    clprune_centre centre; /* the default of --centre where blocks are sampled */
    /* Pairs of names of tensors: of older keep files, and today's; ends with NULL. NULL: none. */
    const char *const (*tensors_renamed)[2];
} keep_table;

/* The number of rules of a model with `blocks` blocks; the position of the rule of `entry` in
 * `block`, which is not read for entries outside of the blocks. */
size_t keep_rules_count(const keep_table *table, size_t blocks);
size_t keep_rule_at(const keep_table *table, size_t blocks, size_t block, size_t entry);

/* The other way round: what the rule at a position is of; block is `blocks` outside of them. */
typedef struct keep_place {
    size_t block, entry;
} keep_place;
keep_place keep_place_of(const keep_table *table, size_t blocks, size_t at);

/* Whether a tensor may be kept so. If not, *why receives a phrase that names it. */
bool keep_check(
    const keep_table *table, size_t entry, const keep_rule *rule, char *why, size_t size);

/* Letters of keep_preset_row.forms on which options depend: --sparsity, --gelu-code, --code-bits,
 * --pool, --store. */
enum {
    KEEP_PRUNED = 'p',
    KEEP_CODED = 'c',
    KEEP_QUANTISED = 'q',
    KEEP_POOLED = 'o',
    KEEP_BF16 = 'h'
};

/* Whether a preset keeps a tensor so. */
bool keep_preset_has(const keep_table *table, size_t preset, char letter);

/* Whether a preset chooses each tensor's form by measured gradient errors (auto_keep.h). Its row is
 * dense's. */
bool keep_preset_chooses(const keep_table *table, size_t preset);

/* The position of a preset's name, which the table has. */
size_t keep_preset_named(const keep_table *table, const char *name);

/* Whether a preset's gradients are dense's but for rounding. */
bool keep_preset_is_exact(const keep_table *table, size_t preset);

/* The rules of a frame: tensors to be chosen are dense, or codes of 8 bits. */
void keep_frame_rules(const keep_table *table, const char *frame, size_t blocks, keep_rule *rules);

/* Whether any preset keeps codes of GELU's derivative. */
bool keep_codes_exist(const keep_table *table);

/* The settings of a preset's forms. */
typedef struct keep_how {
    clprune_keep keep;  /* of all forms but GELU_CODE; its form is not read */
    unsigned gelu_bits; /* of GELU_CODE */
} keep_how;

/* What a model is created with: a preset, its settings, and a rule for each tensor. */
typedef struct keep_choice {
    size_t preset;
    keep_how how;
    const keep_rule *rules;
    bool drops_grads; /* clprune_net_desc */
} keep_choice;

/* The rule of one entry in a preset. At sparsity 0 with fp32 values PRUNED becomes DENSE, which has
 * no indices to store. */
keep_rule keep_preset_rule(
    const keep_table *table, size_t preset, size_t entry, const keep_how *how);

/* All rules of a preset. */
void keep_preset_rules(
    const keep_table *table, size_t preset, const keep_how *how, size_t blocks, keep_rule *rules);

/* Writes the grid of a tensor's shape into rules that pool it or prune it around means of cells. */
void keep_set_grids(const keep_table *table, keep_rule *rules);

#endif
