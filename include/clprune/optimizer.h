/* Optimizers over a list of parameters, and gradient clipping. */
#ifndef CLPRUNE_OPTIMIZER_H
#define CLPRUNE_OPTIMIZER_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor and its gradient, windows of equal size; not owned. The tensors of an optimizer must
 * not overlap, because a step updates them all at once. */
typedef struct clprune_param {
    const char *name; /* copied into the ledger's names of the state */
    clprune_mat value, grad;
    bool decay;           /* weight decay applies */
    uint64_t reserved[2]; /* zeros */
} clprune_param;

/* With gradient g, step t from 1, learning rate lr and decay wd (0 where !decay):
 *   SGD    g += wd * p; v = momentum * v + g (v = g at t = 1); p -= lr * v;
 *          with nesterov p -= lr * (g + momentum * v)                               (PyTorch's SGD)
 *   ADAMW  p -= lr * wd * p; m, v = Adam moments of g;
 *          p -= lr * m^ / (sqrt(v^) + eps), ^ = bias-corrected                      (1711.05101)
 *   LAMB   r = m^ / (sqrt(v^) + eps) + wd * p; p -= lr * |p|/|r| * r; the ratio is 1
 *          if either norm is 0                                         (1904.00962, Algorithm 2)
 *   LION   p -= lr * wd * p; p -= lr * sign(beta1 * m + (1 - beta1) * g);
 *          m = beta2 * m + (1 - beta2) * g; the sign of NaN is NaN                  (2302.06675) */
typedef enum clprune_optimizer_kind {
    CLPRUNE_OPTIMIZER_SGD = 0,
    CLPRUNE_OPTIMIZER_ADAMW = 1,
    CLPRUNE_OPTIMIZER_LAMB = 2,
    CLPRUNE_OPTIMIZER_LION = 3
} clprune_optimizer_kind;

/* Zero-initialise, then set the fields of your kind; the others are ignored. */
typedef struct clprune_optimizer_desc {
    clprune_optimizer_kind kind;
    float momentum;     /* SGD; 0 keeps no state */
    float beta1, beta2; /* all but SGD; both 0: 0.9 and 0.999, PyTorch's defaults, or LION's 0.99 */
    float eps;          /* ADAMW, LAMB; 0: 1e-8, for LAMB 1e-6 */
    float weight_decay;
    unsigned state_bits;  /* 0 or 32 for state in fp32; 8 for codes, which LAMB does not take */
    bool nesterov;        /* SGD with momentum */
    uint64_t reserved[3]; /* zeros */
} clprune_optimizer_desc;

/* An optimizer by name, as options, files and other languages call it. */
typedef struct clprune_optimizer_info {
    const char *name;  /* "adamw"; with state of 8 bits "adamw8". Static */
    const char *slots; /* a letter for each slot of the state, as files call it: "mv". Static */
    /* kind, state_bits, and the usual momentum, betas and eps: 0 for those that the kind lacks */
    clprune_optimizer_desc desc;
    double lr, weight_decay; /* to begin with, for a model of images from scratch */
    bool in_parts;           /* clprune_optimizer_update takes it */
    uint64_t reserved[4];
} clprune_optimizer_info;

/* The i-th optimizer from 0; behind the last one all fields are 0, name is NULL. */
CLPRUNE_API clprune_optimizer_info clprune_optimizer_describe(size_t i);

/* 8-bit state is block-wise dynamic tree quantisation (2110.02861). 256 consecutive elements of a
 * parameter share a scale, their largest magnitude, and each has a code: one of 255 levels from -1
 * to 1, or of 256 from 0 to 1 for second moments; of the two beside it, drawn so that the mean is
 * right (a hash of index and step, so runs repeat to the bit). Levels lie closer near 0; the
 * smallest are 1e-6, and 1e-7 for second moments. A step decodes the state, updates it in fp32,
 * moves the parameter, and encodes the state. Positive second moments below the smallest level take
 * it, not 0, because the step divides by their root.
 *
 * A parameter of n elements takes 4 * (ceil(n / 4) + ceil(n / 256)) bytes a slot: with ADAMW 2.03 n
 * in place of 8 n. Parameters of fewer than CLPRUNE_OPTIMIZER_CODED_LEAST elements keep fp32 state
 * and have the same bits as with state_bits 32.
 *
 * If the new state of an element is NaN or Inf, the next step makes its whole block NaN. */
#define CLPRUNE_OPTIMIZER_CODED_LEAST 4096

/* An optimizer and its state; the caller destroys it. */
typedef struct clprune_optimizer clprune_optimizer;

/* Creates the optimizer with its state, zeroed and booked under optimizer. `params` is copied; the
 * buffers in it must outlive the optimizer.
 *
 * One kernel updates all tensors that share a value buffer and a gradient buffer (see
 * clprune_mats_create). With B such pairs of buffers, a step enqueues B kernels (LAMB 2 B + 1) and
 * clipping 2 B + 2. Blocks until the work enqueued before is done, because it writes tables of the
 * tensors. On failure *optimizer is NULL. Errors: INVALID_ARGUMENT, INVALID_SIZE,
 * OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_optimizer_create(clprune_context *context,
    const clprune_optimizer_desc *desc, size_t count, const clprune_param *params,
    clprune_optimizer **optimizer);
CLPRUNE_API void clprune_optimizer_destroy(clprune_optimizer *optimizer); /* accepts NULL */

/* From the next step on parameter `param` has so many times the learning rate, lr in the formulas
 * above, and the weight decay, wd, also without `decay`; until then 1, and 1 or 0. Both are finite
 * and >= 0. lr 0 leaves the parameter as it is, but not its state. Blocks until the work enqueued
 * before is done. */
CLPRUNE_API clprune_status clprune_optimizer_set_rates(
    clprune_optimizer *optimizer, size_t param, float lr, float weight_decay);

/* Updates every parameter from its gradient. lr must be finite and >= 0. */
CLPRUNE_API clprune_status clprune_optimizer_step(
    clprune_optimizer *optimizer, float lr, cl_event *event);

/* A step in parts, for gradients that do not all exist at once (clprune_net_on_grads): updates the
 * parameters whose gradients lie in this buffer, with the bits of clprune_optimizer_step. After all
 * parts, clprune_optimizer_set_steps counts the step. Errors: INVALID_ARGUMENT (LAMB, whose ratios
 * need whole steps; a buffer without gradients of the optimizer; lr). */
CLPRUNE_API clprune_status clprune_optimizer_update(
    clprune_optimizer *optimizer, cl_mem grads, float lr, cl_event *event);

/* Scales every gradient by min(1, max_norm / |g|), with |g| the l2 norm over all gradients. Runs on
 * the device; the host does not wait. If |g| is NaN or Inf, the gradients are unchanged. norm:
 * 1 x 1, receives |g|, or CLPRUNE_NO_MAT. max_norm > 0. */
CLPRUNE_API clprune_status clprune_optimizer_clip(
    clprune_optimizer *optimizer, float max_norm, clprune_mat norm, cl_event *event);

/* For checkpoints: the number of steps taken, and the state tensors ("slots") of each parameter:
 * those of clprune_optimizer_info, none for SGD without momentum. A state matrix has the
 * shape of the parameter, lies in a buffer of the optimizer, and may be read and written;
 * CLPRUNE_NO_MAT if there is no such parameter or slot, or if its state has 8 bits. */
CLPRUNE_API uint64_t clprune_optimizer_steps(const clprune_optimizer *optimizer);
CLPRUNE_API void clprune_optimizer_set_steps(clprune_optimizer *optimizer, uint64_t steps);
CLPRUNE_API size_t clprune_optimizer_slots(const clprune_optimizer *optimizer);
CLPRUNE_API clprune_mat clprune_optimizer_state(
    const clprune_optimizer *optimizer, size_t param, size_t slot);

/* The same for 8-bit state of a parameter of n elements. *codes is 1 x ceil(n / 4), four bytes an
 * element, and not to be read as floats; *scales is 1 x ceil(n / 256). clprune_mat_read and _write
 * copy both to the bit. Both are CLPRUNE_NO_MAT if there is no such parameter or slot, or if its
 * state is fp32; either pointer may be NULL. */
CLPRUNE_API void clprune_optimizer_codes(const clprune_optimizer *optimizer, size_t param,
    size_t slot, clprune_mat *codes, clprune_mat *scales);

#ifdef __cplusplus
}
#endif
#endif
