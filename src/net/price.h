/* What a choice of kept values costs. */
#ifndef CLPRUNE_NET_PRICE_H
#define CLPRUNE_NET_PRICE_H

#include "net/net_private.h"

typedef struct clprune__net_price {
    double bytes; /* kept, and what making elements again costs in place of bytes */
    double work;  /* multiplications per sample of products that run again, without those of at most
                     net->products an element ... */
    double small_work; /* ... and those of small ones, if net->small_products */
    bool possible;     /* all can be made again */
} clprune__net_price;

/* Of the present choice, with the present regions; or, with joints, the values at which a region
 * may end, with regions that end at kept ones. made: room for net->count. */
clprune__net_price clprune__net_price_of(const clprune_net *net, const bool *joints, size_t *made);

static inline size_t clprune__net_elements(const clprune__net_value *value)
{
    return value->shape.rows * value->shape.cols;
}

/* Multiplications per sample of the products of a training step, those of gradients included. */
double clprune__net_step_work(const clprune_net *net);

#endif
