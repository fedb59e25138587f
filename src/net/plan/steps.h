/* Both passes as lists of steps, from tiles, regions and what is kept. */
#ifndef CLPRUNE_NET_STEPS_H
#define CLPRUNE_NET_STEPS_H

#include "net/plan/plan.h"

/* plan->forward, inference and backward, whose places name slots: plan->slots. Errors:
 * OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_make_steps(clprune__net_plan *plan);

/* A list of steps whose slots are virtual, each made once: sizes[id] says how large it is. Gives
 * them slots of the net, and adds steps that forget what is dead. The first `fixed` keep theirs. */
clprune_status clprune__net_place_slots(clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, size_t count, bool shares);

/* Bytes of a value in its form, for the whole batch. */
size_t clprune__net_bytes(const clprune__net_plan *plan, size_t value);

/* Bytes of the signs, codes of a derivative and positions that layer v keeps, or of positions that
 * it makes `again`; the form of the former. */
double clprune__net_beside(const clprune__net_plan *plan, size_t v, bool again);
/* The matrix of positions, of layer v, whose kind has some. */
clprune_status clprune__net_positions_query(
    const clprune__net_plan *plan, size_t v, clprune_max_pool_sizes *sizes);
clprune_keep clprune__net_mask_keep(const clprune__net_plan *plan, size_t v);

/* The most bytes that slots, kept values and what is beside them take at once in a pass. Errors:
 * OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_most_bytes(const clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, size_t count, bool backward, double *most);

/* The bytes of a plan. */
typedef struct clprune__net_room {
    double kept;     /* values, and what is beside them */
    double backward; /* the most of a backward pass */
    double arena;    /* the most of kept values and slots in a step: with clprune/plan.h */
    double apart;    /* all of them side by side: without */
} clprune__net_room;

/* Of the present choice and regions. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_find_room(clprune__net_plan *plan, clprune__net_room *room);

clprune_status clprune__net_push(
    clprune__net_plan *plan, clprune__net_steps *list, const clprune__net_step *step);

#endif
