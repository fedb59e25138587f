/*
 * keep_list.h: the tensors of a model that are kept from the forward to the backward pass or could
 * be, and how each is kept. A model lists them for a choice (net_model.h); a keep file or
 * auto_keep.h changes rules of the list, and a model is created with it.
 *
 *     keep_list list = {0};
 *     net_model_list(type, &sizes, &choice, batch, &list);
 *     keep_list_set(&list.tensors[i], &(keep_rule){.recomputed = true});
 *     choice.list = &list;
 *     net_model_create(type, context, &sizes, &choice, batch, &model);
 *     keep_list_close(&list);
 */
#ifndef TRAINER_KEEP_LIST_H
#define TRAINER_KEEP_LIST_H

#include "trainer/model/keep_presets.h"

/* The shape of one sample of a tensor. For POOLED the rows are the places of a grid_height x
 * grid_width grid, one grid row after the other; both 0: a single line. */
typedef struct keep_shape {
    size_t rows, cols;
    size_t grid_height, grid_width;
} keep_shape;

typedef struct keep_tensor {
    char place[64]; /* "blocks.3" of "blocks.3.norm1"; "net": the name has no number */
    char name[64];  /* "norm1" */
    keep_shape shape;
    bool product; /* the backward pass reads it only in products, which read any form */
    bool given;   /* by a rule; else the preset's */
    keep_rule rule;
} keep_tensor;

typedef struct keep_list {
    keep_tensor *tensors; /* in the order of the layers */
    size_t count;
} keep_list;

/* Adds a tensor of this whole name, with the preset's rule. False if there is no memory. */
bool keep_list_add(keep_list *list, const char *name, const keep_tensor *tensor);

/* Frees what a list holds. Accepts {0}. */
void keep_list_close(keep_list *list);

/* The length of a tensor's place in its whole name: 8 for "blocks.3.mlp.fc1". 0: none. */
size_t keep_place_length(const char *name);

/* Writes the whole name. */
void keep_tensor_name(const keep_tensor *tensor, char *name, size_t size);

/* Gives a tensor a rule, with its grid if the rule pools it or prunes it around means of cells. */
void keep_list_set(keep_tensor *tensor, const keep_rule *rule);

/* What a model is created with: a preset, its settings, and rules that are given in a list. */
typedef struct keep_choice {
    size_t preset;
    keep_how how;
    const keep_list *list;  /* NULL: all is the preset's */
    bool drops_grads;       /* clprune_net_desc */
    bool shares_statistics; /* likewise */
    bool infers;            /* likewise */
} keep_choice;

#endif
