/*
 * auto_keep.h: the preset that chooses how each tensor is kept, so that the plan of the run fits
 * --memory-limit and the gradients have the least error.
 *
 * A preset of --memory-limit's ladder whose gradients are dense's is taken if it fits. Otherwise:
 *
 * Slots. A frame (keep_table.h) says which tensors are recomputed; each of the others is a slot.
 * Its items are dense, codes of 8, 4 and 2 bits, pruned blocks (s = 0.5, 0.7, 0.9, in int8),
 * pooled cells (2, 4) and codes of GELU's derivative, as far as frame and table allow them. Values
 * in fp16 and fp32 are left out: the error is that of the missing blocks, within 0.3 %.
 *
 * Errors. A dense copy of the model takes the run's first AUTO_WARMUP steps at a tenth of the
 * learning rate: at the initial parameters, gradients are not yet typical. An item's error is that
 * of the model with this item and every other slot dense, on AUTO_BATCHES batches:
 *
 *     error = sum over parameters of |g - dense|^2 / |dense|^2
 *
 * Relative errors, because the scales of gradients differ by orders of magnitude between layers.
 * Where a frame needs codes of GELU's derivative, every such slot has 8 bits meanwhile, other items
 * are compared with that model, and the error of all those codes is divided between them.
 * Slots that touch different parameters are measured in one pass. Unbiased errors of several slots
 * add up. So are biases (pooled cells, nearest rounding, largest blocks) counted, though they may
 * also cancel or reinforce each other.
 *
 * Choice. With c the bytes of an item, each block takes the frame and the items with the least
 * error + lambda * c. Bisection finds the least lambda whose plan fits. Then single slots take
 * better items as long as the plan still fits.
 *
 * The same seed gives the same choice. Measuring holds a dense model and another one on the device:
 * the limit is that of the run which follows.
 */
#ifndef TRAINER_AUTO_KEEP_H
#define TRAINER_AUTO_KEEP_H

#include "json.h"
#include "memory_plan.h"

enum { AUTO_WARMUP = 20, AUTO_BATCHES = 2 };

typedef struct auto_item {
    keep_rule rule;
    uint64_t bytes; /* of a batch */
    double error;
} auto_item;

/* A tensor in a frame. */
typedef struct auto_slot {
    size_t frame, block, entry; /* block = the number of blocks: outside of them */
    size_t at;                  /* its position among the rules */
    size_t first, count;        /* its items; the first is dense, or a code of 8 bits */
    size_t item;                /* the one chosen, from `first` on */
    bool *touched;              /* (params) by its form; private to the measurement */
} auto_slot;

typedef struct auto_keep {
    auto_slot *slots;
    auto_item *items;
    size_t slots_count, items_count;
    size_t blocks, *frames; /* (blocks + 1) the frame of each block, and outside of them */
    const char *exact;      /* the preset with dense's gradients that fits; NULL: none does */
    uint64_t limit, planned;
    double predicted, measured; /* error of the choice: the sum, and that of all items together */
    double seconds;             /* that measuring took */
} auto_keep;

/* Measures, chooses, plans; writes the choice to t->options->keep_text and t->automatic. A limit
 * below every choice is CODE_MEMORY and says the least bytes. */
bool auto_keep_choose(trainer *t, const clprune_device_info *device, memory_plan *plan, fault *f);
void auto_keep_close(auto_keep *a); /* accepts NULL */

/* The measured errors on stdout; files auto.keep and auto.csv in a folder; the member "auto" of a
 * JSON object. All accept a run without a choice. */
void auto_keep_print(const trainer *t);
bool auto_keep_save(const trainer *t, const char *folder, fault *f);
void auto_keep_json(const trainer *t, json *j);

/* Private to auto_*.c. */

/* A dense copy of the run's model after its first steps. */
typedef struct auto_probe {
    trainer t;
    float *params, *states; /* on the host, one tensor after the other */
    float *exact;           /* gradients, batch after batch */
    float *base;            /* those of a frame's rules, likewise */
    float *got;             /* of one tensor */
    double *squares;        /* (params) of exact, over the batches */
    size_t elements, batches;
} auto_probe;

/* order: of the training images. Close in any case. */
bool auto_probe_open(trainer *t, auto_probe *probe, fault *f);
void auto_probe_close(auto_probe *probe);

/* errors[i] = |g - beside|^2 / |dense|^2 of each parameter, with g the gradient under these rules.
 * beside: probe->exact or probe->base. store: receives g, batch after batch; may be NULL. */
bool auto_probe_errors(auto_probe *probe, const keep_rule *rules, const float *beside, float *store,
    double *errors, fault *f);

/* Fills in the errors of all items. */
bool auto_measure(auto_probe *probe, auto_keep *a, fault *f);

/* Fills in slots and items. Faults: CODE_MEMORY. */
bool auto_slots_make(const trainer *t, auto_keep *a, fault *f);

/* The frame's letters; NULL past the last one. */
const char *auto_frame(const trainer *t, size_t frame);

#endif
