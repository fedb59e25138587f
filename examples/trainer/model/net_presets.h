/*
 * net_presets.h: the presets of --activations for models that are nets.
 */
#ifndef TRAINER_NET_PRESETS_H
#define TRAINER_NET_PRESETS_H

#include <clprune/net.h>

#include "trainer/options/keep_presets.h"

extern const keep_presets net_presets;

/* What the net is told of a preset. */
clprune_net_keep net_preset_keep(size_t preset, const keep_how *how);

#endif
