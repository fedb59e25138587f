/* What is done with the memory of a settled net. */
#ifndef CLPRUNE_NET_BODY_H
#define CLPRUNE_NET_BODY_H

#include "net/net_private.h"

/* Takes all memory in net->context. Errors: OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_body_create(clprune_net *net);
void clprune__net_body_destroy(clprune_net *net);

/* The part of both that is parameters and gradients. */
clprune_status clprune__net_params_create(clprune_net *net);
void clprune__net_params_destroy(clprune_net *net);

/* What clprune_net_use_value lent under a name before the net was settled; else *value stays as it
 * is. Errors: INVALID_SIZE. Then fails if a name is none of the net's, or if lent memory overlaps.
 */
clprune_status clprune__net_take_lent(
    clprune_net *net, const char *name, size_t rows, size_t cols, clprune_mat *value);
clprune_status clprune__net_check_lent(clprune_net *net);

/* Fails, before the first pass, if nobody has written a parameter. */
clprune_status clprune__net_check_values(clprune_net *net);

/* After a region of a backward pass: tells of gradients that are complete, and drops them. After a
 * pass: gradients of tied parameters go to those that they are tied to; the gradients of the pass
 * to all, which they are added to if `add`. */
clprune_status clprune__net_end_region(clprune_net *net, size_t region);
clprune_status clprune__net_end_pass(clprune_net *net, bool add);

/* Running means 0, variances 1; from the host, without a kernel. */
clprune_status clprune__net_reset_states(clprune_net *net);

/* After a step: fails if what it wrote has a number that is not finite; before a layer of a forward
 * pass, if its parameters have. Errors: NOT_FINITE, OUT_OF_HOST_MEMORY, OPENCL_ERROR. */
clprune_status clprune__net_check_written(const clprune__net_call *call);
clprune_status clprune__net_check_params(const clprune__net_call *call);

/* The same of the gradient of the output, by the loss. */
clprune_status clprune__net_check_loss(clprune_net *net, size_t batch);

/* What finds labels and tokens out of range; both checks enqueue, and a later clprune_mat_read
 * fails. Labels: after the loss was computed. */
clprune_status clprune__net_ranges_create(clprune_net *net);
void clprune__net_ranges_destroy(clprune_net *net);
clprune_status clprune__net_check_tokens(clprune_net *net, const clprune_net_data *data);
clprune_status clprune__net_check_labels(clprune_net *net, const clprune_net_data *data);

/* Runs a list of steps. */
clprune_status clprune__net_run(
    clprune_net *net, const clprune__net_steps *list, const clprune_net_data *data, bool training);

#endif
