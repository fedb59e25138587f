/* Elements of samples in other places. */
#ifndef CLPRUNE_NN_GATHER_PRIVATE_H
#define CLPRUNE_NN_GATHER_PRIVATE_H

#include "clprune/matrix.h"

/* y, whose places are sums of places of x, by the lists at `at` of `table`, as cl/layers/gather.cl
 * has them. A row of x and of y is a sample. A place is `run` elements; if that is 1, `cols`, which
 * divides those of y, says how they are dealt out to work-groups. x and y must not overlap. */
clprune_status clprune__gather(clprune_context *context, size_t run, size_t cols, size_t at,
    clprune_mat table, clprune_mat x, clprune_mat y, cl_event *event);

#endif
