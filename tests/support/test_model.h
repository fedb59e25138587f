/* A program's model, until the end of the case. */
#ifndef CLPRUNE_TEST_MODEL_H
#define CLPRUNE_TEST_MODEL_H

#include <string.h>

#include "support/test.h"
#include "trainer/model/net_model.h"

TEST_UNDO(test_destroy_model, net_model_destroy(what))

static inline void test_model_own(net_model *model)
{
    test_later(test_destroy_model, NULL, model);
}

/* Settled and created, with the initial values of `seed`. choice: NULL for the usual one. */
static inline net_model *test_model(const trainer_model *type, trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, uint64_t seed)
{
    net_model *model;
    assert_null(net_model_settle(type, sizes));
    TEST_OK(net_model_create(
        type, test_context(), sizes, choice != NULL ? choice : &(keep_choice){0}, batch, &model));
    test_model_own(model);
    TEST_OK(net_model_init(model, seed, NULL));
    return model;
}

static inline const trainer_weight *test_weight(const net_model *model, const char *name)
{
    size_t i = 0;
    while (strcmp(model->weights[i].name, name) != 0)
        assert_true(++i < model->weights_count);
    return &model->weights[i];
}

#endif
