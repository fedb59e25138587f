/* What a choice of kept values costs. */
#ifndef CLPRUNE_NET_PRICE_H
#define CLPRUNE_NET_PRICE_H

#include "net/plan/plan.h"

/* All but `possible` are whole numbers, so that a sum does not depend on the order of its terms. */
typedef struct clprune__net_price {
    double kept;       /* bytes */
    double elements;   /* made again or restored, per sample */
    double work;       /* multiplications per sample of products that run again, without those of at
                          most plan->products an element ... */
    double small_work; /* ... and those of small ones, if plan->small_products */
    bool possible;     /* all can be made again */
} clprune__net_price;

/* Kept bytes, and what making elements again costs in place of bytes. */
double clprune__net_price_bytes(const clprune__net_plan *plan, const clprune__net_price *price);

/* The price of the present choice, and of changes of it. A change costs as much time as the part
 * of the net between the kept joints around it is long. */
typedef struct clprune__net_pricer {
    clprune__net_plan *plan;
    bool *joints;             /* (count) */
    double *bytes;            /* (count) of a value in its form */
    clprune__net_price price; /* of the present choice */
    size_t *made, mark;       /* (count) private, as what follows: what is made again */
    unsigned char *marks;     /* (2 * count) */
    size_t *undo, changes;    /* (4 * count) of marks */
    size_t first, last;       /* the layers that `span` is the price of; last 0: none */
    clprune__net_price span;
} clprune__net_pricer;

/* at_kept: regions end at kept joints; else they are the present ones. Call _close in any case.
 * Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_pricer_open(
    clprune__net_pricer *pricer, clprune__net_plan *plan, bool at_kept);
void clprune__net_pricer_close(clprune__net_pricer *pricer);

/* The price with each of `values`, in ascending order, kept if it is not, and not if it is. With
 * the present regions. The choice stays as it is. */
clprune__net_price clprune__net_price_with(
    clprune__net_pricer *pricer, const size_t *values, size_t count);

/* Changes the choice so; price: the result of clprune__net_price_with. */
void clprune__net_price_take(clprune__net_pricer *pricer, const size_t *values, size_t count,
    const clprune__net_price *price);

/* The price without kept value v, with regions that end at kept joints. `before`: the last kept
 * joint before v, + 1; 0: none. takes: drops v. */
clprune__net_price clprune__net_price_without(
    clprune__net_pricer *pricer, size_t v, size_t before, bool takes);

static inline size_t clprune__net_elements(const clprune__net_value *value)
{
    return value->shape.rows * value->shape.cols;
}

/* Multiplications per sample of the products of a training step, those of gradients included. */
double clprune__net_step_work(const clprune__net_plan *plan);

#endif
