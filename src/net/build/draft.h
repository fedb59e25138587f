/* A graph while it is written, and what the next layers get. */
#ifndef CLPRUNE_NET_DRAFT_H
#define CLPRUNE_NET_DRAFT_H

#include "net/build/graph.h"

/* What clprune_net_lora asked for. */
typedef struct clprune__net_lora {
    char *pattern; /* NULL: nothing */
    bool used;     /* a layer has matched */
    size_t rank;
    float factor; /* alpha / rank */
} clprune__net_lora;

/* The arrays of a graph. */
typedef struct clprune__net_draft {
    clprune__net_layer *layers;
    clprune__net_value *values;
    clprune__net_param *params;
    char *part;
    clprune__net_lora lora;
    float lora_dropout;
    float eps, momentum; /* of normalisations */
} clprune__net_draft;

#endif
