/*
 * auto_keep.h: the preset that chooses how each tensor is kept, so that the plan of the run fits
 * --memory-limit and the gradients have the least error.
 *
 * A preset of --memory-limit's ladder with dense's gradients is taken if it fits. Otherwise:
 *
 * Slots. The preset's row (keep_presets.h) names other presets, its frames. What a frame does not
 * keep is recomputed; each tensor that it keeps is a slot. The items of a slot are dense, codes of
 * 8, 4 and 2 bits, and, of tensors that only products read, pruned blocks (s = 0.5, 0.7, 0.9, in
 * int8) and pooled cells (2, 4). Pruned values in fp16 and fp32 are left out: their errors are
 * within 0.3 % of int8's, because the missing blocks cause the error.
 *
 * Errors. A dense copy of the model takes the run's first AUTO_WARMUP steps at a tenth of the
 * learning rate: at the initial parameters, gradients are not yet typical. The error of an item is
 * measured on AUTO_BATCHES batches, in a model with this item and every other slot dense:
 *
 *     error = sum over parameters of |g - dense|^2 / |dense|^2
 *
 * Errors are relative because the scales of gradients differ by orders of magnitude between layers.
 * Slots that touch different parameters are measured in one pass. Unbiased errors of several slots
 * add up. Biases (pooled cells, nearest rounding, largest blocks) are added likewise, though they
 * may also cancel or reinforce each other.
 *
 * Choice. With c the bytes of an item, each slot of a frame takes the item with the least error +
 * lambda * c. Bisection finds the least lambda whose plan fits. Then single slots take better items
 * as long as the plan still fits. Of the frames the one with the least error is taken.
 *
 * The same seed gives the same choice. Measuring holds two models on the device, one of them dense:
 * the limit applies to the run after it, not to the measurement.
 */
#ifndef TRAINER_AUTO_KEEP_H
#define TRAINER_AUTO_KEEP_H

#include "trainer/memory/memory_plan.h"
#include "trainer/report/json.h"

enum { AUTO_WARMUP = 20, AUTO_BATCHES = 2, AUTO_FRAMES = 4 };

typedef struct auto_item {
    keep_rule rule;
    uint64_t bytes; /* of a batch */
    double error;
} auto_item;

/* A tensor in a frame. */
typedef struct auto_slot {
    size_t frame, at;    /* its position in the frame's list */
    size_t first, count; /* its items; the first is dense */
    size_t item;         /* the chosen one, counted from `first` */
    bool *touched;       /* (params) which ones its form changes; private to the measurement */
} auto_slot;

typedef struct auto_keep {
    /* All rules are given: of slots for the moment, else dense or recomputed. */
    keep_list frames[AUTO_FRAMES];
    size_t frames_count;
    auto_slot *slots;
    auto_item *items;
    size_t slots_count, items_count;
    size_t frame;      /* the chosen one */
    const char *exact; /* the preset with dense's gradients that fits; NULL: none does */
    uint64_t limit, planned;
    double predicted, measured; /* error of the choice: sum over its items; measured together */
    double seconds;             /* spent on measuring and choosing */
} auto_keep;

/* Measures, chooses, plans; writes the choice to s->options->keep_text and s->automatic. If even
 * the fewest bytes exceed the limit, fails with CODE_MEMORY and names them. */
bool auto_keep_choose(session *s, const clprune_device_info *device, memory_plan *plan, fault *f);
void auto_keep_close(auto_keep *a); /* accepts NULL */

/* Write the measured errors to stdout; auto.keep and auto.csv to the run's folder, of which a
 * resumed run, without the errors, writes auto.keep if it is not there; the member "auto" to a JSON
 * object. All do nothing for a run of another preset. last: the path of the run's checkpoint. */
void auto_keep_print(const session *s);
bool auto_keep_save(const session *s, const char *last, fault *f);
void auto_keep_json(const session *s, json *j);

/* Fails if the folder of a resumed run has the auto.keep or auto.csv of another run. */
bool auto_keep_check(const session *s, fault *f);

/* Private to auto_*.c. */

/* A dense copy of the run's model after its first steps. */
typedef struct auto_probe {
    session s;
    float *tensors;  /* parameters, then states, on the host, one after the other */
    float *exact;    /* gradients, batch after batch */
    float *base;     /* gradients under a frame's rules, likewise */
    float *got;      /* of one tensor */
    double *squares; /* (params) of exact, over the batches */
    size_t elements, batches;
} auto_probe;

/* Opens a session beside the run's, and shuffles the order of its training images. Call
 * auto_probe_close in any case. */
bool auto_probe_open(session *run, auto_probe *probe, fault *f);
void auto_probe_close(auto_probe *probe);

/* errors[i] = |g - beside|^2 / |dense|^2 of each parameter, with g the gradient under these rules.
 * beside: probe->exact or probe->base. store: receives g, batch after batch; may be NULL. */
bool auto_probe_errors(auto_probe *probe, const keep_list *rules, const float *beside, float *store,
    double *errors, fault *f);

/* Fills in the errors of all items. */
bool auto_measure(auto_probe *probe, auto_keep *a, fault *f);

/* Fills in frames, slots and items. */
bool auto_slots_make(const session *s, auto_keep *a, fault *f);

/* The tensor of a slot. */
keep_tensor *auto_tensor(auto_keep *a, const auto_slot *slot);

#endif
