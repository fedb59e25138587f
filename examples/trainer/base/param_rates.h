/*
 * param_rates.h: factors of the learning rate and of the weight decay for parameters by their
 * names: "PATTERN:LR[:DECAY[:EPOCHS]]", with commas between. Patterns are those of a shell, without
 * colons and commas.
 */
#ifndef TRAINER_PARAM_RATES_H
#define TRAINER_PARAM_RATES_H

#include <clprune/clprune.h>

#include "trainer/base/fault.h"

/* Whether it is such a text; NULL is one. Faults: CODE_USAGE. */
bool param_rates_check(const char *text, fault *f);

/* Gives the optimizer of params (count) the factors of an epoch: of the last pattern that matches a
 * name; 0 after its EPOCHS. Faults: CODE_USAGE for a pattern that matches none. */
bool param_rates_set(const char *text, clprune_context *context, clprune_optimizer *optimizer,
    const clprune_param *params, size_t count, uint64_t epoch, fault *f);

#endif
