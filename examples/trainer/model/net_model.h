/*
 * net_model.h: a trainer_model on a device, or without one: its net, and what checkpoints and files
 * of other programs have of it. Passes, parameters and gradients are the net's (clprune/net.h); a
 * pass has at most as many samples as the model was created for, and all device memory is taken in
 * create.
 */
#ifndef TRAINER_NET_MODEL_H
#define TRAINER_NET_MODEL_H

#include "trainer/model/keep_list.h"
#include "trainer/model/trainer_model.h"

/* State that is not trained, such as running statistics and frozen parameters: checkpoints have it.
 * Its name is unique among the model's states and shorter than 80 bytes. words: mat has words of
 * other types, to be copied bit by bit. */
typedef struct trainer_state {
    const char *name;
    clprune_mat mat;
    bool words;
} trainer_state;

/* A whole number, 0 or more, that the forward passes of training count: checkpoints have it, and
 * files of other programs (weights.h) as an I64 tensor of shape [] with the same name. Names are
 * unique among the model's counts. TRAINER_NO_COUNT: neither file has it, and passes leave it
 * alone. */
typedef struct trainer_count {
    char name[80];
    int64_t *value; /* on the host */
} trainer_count;

enum { TRAINER_NO_COUNT = -1 };

/* Who is told that a part of a pass begins, such as "forward blocks.3"; {0}: nobody. The text is
 * gone after the call. */
typedef struct trainer_watcher {
    void (*tell)(void *user, const char *part);
    void *user;
} trainer_watcher;

static inline void trainer_tell(const trainer_watcher *watcher, const char *part)
{
    if (watcher->tell != NULL)
        watcher->tell(watcher->user, part);
}

typedef struct net_model {
    const trainer_model *type; /* not owned, as context */
    trainer_sizes sizes;
    clprune_context *context;
    clprune_net *net;
    /* (states_count) running statistics, statistics_count of them, a mean and a variance of each
     * batch norm, then frozen parameters: one order for one architecture */
    trainer_state *states;
    size_t states_count, statistics_count;
    trainer_count *counts; /* (counts_count) one of each batch norm; own counted */
    size_t counts_count;
    int64_t *counted;
    trainer_weight *weights; /* (weights_count) parameters, then running statistics */
    size_t weights_count;
    trainer_watcher watcher;
    char part[64]; /* that was told last */
} net_model;

/* For settle: sizes that were not given are the architecture's. extra: the first of the model's
 * extras; 0 for models without. */
void net_model_usual(trainer_sizes *sizes, size_t image, size_t classes, uint64_t extra);

/* For settle: NULL for 2 to 1000000 classes, else what is wrong. */
const char *net_model_check_classes(const trainer_sizes *sizes);

/* Fills in the sizes that are 0, and the last fields of *sizes. NULL if the sizes fit each other,
 * else TRAINER_NO_MEMORY, or one phrase that says what is wrong. */
const char *net_model_settle(const trainer_model *type, trainer_sizes *sizes);

/* Adds to *list, which was {0}, the tensors of a model of settled sizes that is created so, for the
 * caller to close in any case; opens no device. NULL, or what is wrong, as settle. */
const char *net_model_list(const trainer_model *type, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, keep_list *list);

/* sizes are settled. *model is NULL on failure. Errors: INVALID_ARGUMENT, OUT_OF_DEVICE_MEMORY,
 * OUT_OF_HOST_MEMORY. */
clprune_status net_model_create(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, size_t batch, net_model **model);
void net_model_destroy(net_model *model); /* accepts NULL */

/* Of tokens: a model with the weights of `of`, for passes without training, before or after that of
 * `of`. A pass takes `rows` tokens of one sample, from token data->first on, which follow those of
 * earlier passes; if `of` is such a model itself, those of its passes, and it goes on with this
 * one's. */
clprune_status net_model_create_writer(net_model *of, size_t rows, net_model **writer);

/* Writes initial parameters and states: the same for the same seed on any device. given: NULL, or
 * of each of the weights whether it has its value, which stays, as do states and counts then.
 * Blocking, without kernels. */
clprune_status net_model_init(net_model *model, uint64_t seed, const bool *given);

/* type->fit of each parameter. */
clprune_status net_model_fit(net_model *model, size_t count, const float *images);

/* clprune_net_forward, which counts a batch of training, and clprune_net_backward. */
clprune_status net_model_forward(net_model *model, const clprune_net_data *data, bool training);
clprune_status net_model_backward(net_model *model, const clprune_net_data *data);

/* Makes the passes tell `watcher` at the start of each part. */
void net_model_watch(net_model *model, trainer_watcher watcher);

#endif
