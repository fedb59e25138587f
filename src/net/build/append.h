/* What the public functions of kinds add layers and parameters with. */
#ifndef CLPRUNE_NET_APPEND_H
#define CLPRUNE_NET_APPEND_H

#include "net/build/graph.h"

/* Keeps the first error of a net that is being built. */
void clprune__net_wrong(clprune_net *net, clprune_status status, const char *format, ...)
    __attribute__((__format__(__printf__, 3, 4)));

/* The layer and value of a handle; NULL after an error, or for a handle of another net. `name` is
 * the layer that reads it. */
const clprune__net_value *clprune__net_read(
    clprune_net *net, const char *name, clprune_net_value value);

/* Adds a layer with one or two inputs, which clprune__net_read has accepted. NULL after an error.
 * It is valid until the next call. */
clprune__net_layer *clprune__net_add(clprune_net *net, const clprune__net_kind *kind,
    const char *name, const clprune_net_value *in, size_t ins, clprune__net_shape shape);

/* The same for input `number`, or what reads it first, which belongs to no part: called `name`, or
 * with its number if that is not 0. */
clprune__net_layer *clprune__net_add_input(clprune_net *net, const clprune__net_kind *kind,
    const char *name, const clprune_net_value *in, size_t ins, size_t number,
    clprune__net_shape shape);

/* The handle of the last layer. */
clprune_net_value clprune__net_last(const clprune_net *net);

/* Adds a parameter of the last layer, called the layer's name + suffix. */
void clprune__net_add_param(clprune_net *net, const char *suffix, clprune__net_param param);

/* The same of no layer: of a loss that reads the output of layer `layer`. `name` comes after the
 * name of the part. Returns its number, or SIZE_MAX after an error. */
size_t clprune__net_add_head(
    clprune_net *net, const char *name, size_t layer, clprune__net_param param);

/* Adds another one to it, called its name + suffix. */
size_t clprune__net_add_to_head(clprune_net *net, const char *suffix, clprune__net_param param);

/* Fails unless a layer has matched what clprune_net_lora asked for. */
void clprune__net_end_lora(clprune_net *net);

#endif
