/*
 * net_model.h: a trainer_model whose layers are a clprune_net. A model gives its net_model_parts:
 * a function that adds its layers, one that draws initial values; the rest of its trainer_model is
 * functions of this file.
 */
#ifndef TRAINER_NET_MODEL_H
#define TRAINER_NET_MODEL_H

#include "trainer/data/rng.h"
#include "trainer/model/net_presets.h"
#include "trainer/model/trainer_model.h"

typedef struct net_model_parts {
    /* Fills in the sizes that are 0, and context. NULL, or one phrase that says what is wrong. */
    const char *(*settle)(trainer_sizes *sizes);
    /* Adds the layers of a model of these settled sizes, the loss included. */
    void (*build)(const trainer_sizes *sizes, clprune_net *net);
    /* An initial value of a parameter, described by its weight. */
    double (*draw)(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight);
    /* How files of other programs have a parameter: pieces[0] is its name, shape and matrix, to be
     * changed. Returns the number of pieces, 1 to NET_MODEL_PIECES. NULL: as it is. */
    size_t (*in_files)(const trainer_sizes *sizes, trainer_weight *pieces);
    /* Changes the initial values of a parameter, in the order of its matrix, by the first training
     * images, (count, 3, image, image), normalised. NULL: they stay. */
    void (*fit)(const trainer_sizes *sizes, const clprune_net_weight *weight, size_t count,
        const float *images, float *values);
} net_model_parts;

enum { NET_MODEL_PIECES = 3 };

/* For settle: sizes that were not given are the architecture's. extra: the first of the model's
 * extras; 0 for models without. */
void net_model_usual(trainer_sizes *sizes, size_t image, size_t classes, uint64_t extra);

/* For settle: NULL for 2 to 1000000 classes, else what is wrong. */
const char *net_model_check_classes(const trainer_sizes *sizes);

/* The functions of a trainer_model, whose `net` is its parts. */
const char *net_model_settle(const trainer_model *type, trainer_sizes *sizes);
const char *net_model_list(const trainer_model *type, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, keep_list *list);
clprune_status net_model_create(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, size_t batch, void **model);
void net_model_destroy(void *model);
clprune_status net_model_init(void *model, uint64_t seed, const bool *given);
clprune_status net_model_fit(void *model, size_t count, const float *images);
clprune_param *net_model_params(void *model, size_t *count);
const trainer_state *net_model_states(void *model, size_t *count);
const trainer_count *net_model_counts(void *model, size_t *count);
bool net_model_weight(void *model, size_t index, trainer_weight *weight);
void net_model_set_seed(void *model, uint64_t seed);
clprune_status net_model_forward(void *model, const clprune_net_data *data, bool training);
clprune_status net_model_loss(
    void *model, const clprune_net_data *data, clprune_mat loss, clprune_mat hit);
clprune_status net_model_backward(void *model, const clprune_net_data *data);
clprune_status net_model_logits(void *model, size_t batch, size_t row, clprune_mat logits);
clprune_status net_model_create_writer(void *of, size_t rows, void **writer);
void net_model_on_grads(
    void *model, clprune_status (*ready)(void *user, clprune_mat grads), void *user);
void net_model_on_statistics(void *model, const clprune_net_statistics *statistics);
clprune_status net_model_visit_grads(
    void *model, clprune_status (*visit)(void *user, clprune_mat part), void *user);
void net_model_watch(void *model, trainer_watcher watcher);
void net_model_check_finite(void *model, bool check);

/* The logits of the latest forward pass. */
clprune_mat net_model_output(const void *model, size_t batch);

#define NET_MODEL_FUNCTIONS                                                                        \
    .presets = &net_presets, .settle = net_model_settle, .list = net_model_list,                   \
    .create = net_model_create, .destroy = net_model_destroy, .init = net_model_init,              \
    .params = net_model_params, .states = net_model_states, .counts = net_model_counts,            \
    .weight = net_model_weight, .set_seed = net_model_set_seed, .forward = net_model_forward,      \
    .loss = net_model_loss, .backward = net_model_backward, .logits = net_model_logits,            \
    .create_writer = net_model_create_writer, .on_grads = net_model_on_grads,                      \
    .visit_grads = net_model_visit_grads, .on_statistics = net_model_on_statistics,                \
    .watch = net_model_watch, .check_finite = net_model_check_finite

#endif
