/* What convolutions and transposed ones share. */
#ifndef CLPRUNE_NET_CONV_H
#define CLPRUNE_NET_CONV_H

#include "net/build/append.h"

clprune_conv2d_desc clprune__net_conv_desc(const clprune_net_conv *conv, size_t in, size_t out);
void clprune__net_conv_destroy(clprune__net_unit *unit);

/* kernel.height * kernel.width * features / groups */
size_t clprune__net_conv_inner(const clprune_net_conv *conv, size_t features);

/* Whether a layer has outputs and an image to read; else, and for reserved fields, an error. */
bool clprune__net_conv_check(
    clprune_net *net, const char *name, const clprune__net_shape *in, const clprune_net_conv *conv);

/* Adds the last layer's ".weight", of `rows` x `inner`, and ".bias". */
void clprune__net_conv_params(
    clprune_net *net, const clprune_net_conv *conv, size_t rows, size_t inner);

#endif
