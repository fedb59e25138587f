/* Both passes as lists of steps, from tiles, regions and what is kept. */
#ifndef CLPRUNE_NET_STEPS_H
#define CLPRUNE_NET_STEPS_H

#include "net/net_private.h"

/* net->forward, inference and backward, whose places name slots: net->slots. Errors:
 * OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_make_steps(clprune_net *net);

/* A list of steps whose slots are virtual, each made once: sizes[id] says how large it is. Gives
 * them slots of the net, and adds steps that forget what is dead. The first `fixed` keep theirs. */
clprune_status clprune__net_place_slots(
    clprune_net *net, clprune__net_steps *list, const clprune__net_size *sizes, size_t count);

/* Bytes of a value in its form, for the whole batch. */
size_t clprune__net_bytes(const clprune_net *net, size_t value);

/* The most bytes that slots and kept values take at once in a backward pass. Errors:
 * OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_most_bytes(const clprune_net *net, clprune__net_steps *backward,
    const clprune__net_size *sizes, size_t count, double *most);

/* The same for the present choice and regions. */
clprune_status clprune__net_backward_bytes(clprune_net *net, double *most);

clprune_status clprune__net_push(
    clprune_net *net, clprune__net_steps *list, const clprune__net_step *step);

#endif
