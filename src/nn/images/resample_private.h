/* Images of other sizes, each axis by a sparse matrix. */
#ifndef CLPRUNE_NN_RESAMPLE_PRIVATE_H
#define CLPRUNE_NN_RESAMPLE_PRIVATE_H

#include "clprune/conv2d.h"

/* y of `batch` images = tall * x * wide^T, with the matrices at these places of `table`, as
 * cl/images/resample.cl has them. x: (batch * image.height * image.width) x C; y: the same with
 * `output`, apart from x. */
clprune_status clprune__resample(clprune_context *context, size_t batch, clprune_extent image,
    clprune_extent output, size_t tall, size_t wide, clprune_mat table, clprune_mat x,
    clprune_mat y, cl_event *event);

#endif
