/*
 * net_tune.h: what of a model is trained: --train and --lora.
 */
#ifndef TRAINER_NET_TUNE_H
#define TRAINER_NET_TUNE_H

#include "trainer/model/net_model.h"

/* type->build, with the adapters and frozen parameters that sizes->lora and train ask for. Returns
 * NULL, or what is wrong with these texts; what is wrong with the net comes from
 * clprune_net_settle. */
const char *net_tune_build(const trainer_model *type, const trainer_sizes *sizes, clprune_net *net);

/* Whether a parameter is part of an adapter, which files of other programs do not have. */
bool net_tune_is_adapter(const char *name);

/* The initial value of an adapter's element: A uniform in +-1 / sqrt(inputs), B 0. */
double net_tune_draw(rng *r, const clprune_net_weight *weight);

/* Gives `count` pieces of weight `name` the matrices of its adapter, if it has one. */
void net_tune_attach(const clprune_net *net, const trainer_sizes *sizes,
    const clprune_net_weight *base, trainer_weight *pieces, size_t count);

#endif
