#include <stdlib.h>

#include "model.h"
#include "resmlp_model.h"
#include "support/small_models.h"

enum { DEPTH = 2 };

static const char *settle(trainer_sizes *sizes)
{
    const char *wrong = resmlp_model.settle(sizes);
    sizes->blocks = DEPTH;
    return wrong;
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    resmlp_arch arch = resmlp_arch_of(sizes);
    keep_policy policies[DEPTH] = {0};
    *model = NULL;
    arch.dim = 16;
    arch.depth = DEPTH;
    arch.hidden = 32;
    for (size_t i = 0; i < DEPTH; i++)
        for (size_t k = 0; k < KEEP_TENSORS; k++)
            policies[i].rule[k] = rules[keep_rule_at(&resmlp_keep, DEPTH, i, k)];
    policies[DEPTH - 1].last_x = rules[keep_rule_at(&resmlp_keep, DEPTH, 0, KEEP_TENSORS)];
    resmlp *made = malloc(sizeof *made);
    if (made == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    const clprune_status status = resmlp_create_each(context, &arch, policies, batch, made);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        free(made);
    return status;
}

const trainer_model *small_resmlp(void)
{
    static trainer_model small;
    small = resmlp_model;
    small.settle = settle;
    small.create = create;
    return &small;
}
