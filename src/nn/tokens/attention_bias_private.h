/* Biases of attention from a table of values for each head, and masks, as
 * cl/tokens/attention_bias.cl has them. */
#ifndef CLPRUNE_NN_ATTENTION_BIAS_PRIVATE_H
#define CLPRUNE_NN_ATTENTION_BIAS_PRIVATE_H

#include "clprune/attention.h"

/* `lists`, a row: the index, its places, and the masks from word `masks` on. */
typedef struct clprune__attention_lists {
    clprune_mat lists;
    size_t masks;
    bool masked;
} clprune__attention_lists;

/* values: entries x heads, or CLPRUNE_NO_MAT. bias: (n * heads * rows) x rows, as in
 * clprune_attention_desc, with n masks. */
clprune_status clprune__attention_bias(clprune_context *context, const clprune__attention_lists *of,
    size_t heads, clprune_mat values, clprune_mat bias);

/* dvalues = its gradient from that of bias + beta * dvalues. */
clprune_status clprune__attention_bias_backward(clprune_context *context,
    const clprune__attention_lists *of, float beta, clprune_mat dbias, clprune_mat dvalues);

#endif
