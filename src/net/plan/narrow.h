/* Which values are in bf16 between layers. */
#ifndef CLPRUNE_NET_NARROW_H
#define CLPRUNE_NET_NARROW_H

#include "net/plan/plan.h"

/* Whether products round a value to bf16 in any case, on tensor cores, which read it so. */
bool clprune__net_is_rounded(const clprune__net_graph *graph, size_t v);

/* Whether a value is kept as a matrix of bf16: clprune_saved_dense. */
bool clprune__net_is_bf16(const clprune__net_plan *plan, size_t v);

/* Whether the forward pass writes such a value to its store, where others read it. */
bool clprune__net_goes_to_store(const clprune__net_plan *plan, size_t v);

/* Whether a value that is not kept may have a slot of bf16: only products read it, which round it
 * to bf16 anyway. */
bool clprune__net_is_for_products(const clprune__net_plan *plan, size_t v);

/* Whether a tile writes the gradient of its end k in bf16: only products read it, which would round
 * it so. */
bool clprune__net_is_narrow_grad(
    const clprune__net_plan *plan, const clprune__net_tile *writer, size_t k);

#endif
