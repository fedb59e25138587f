#include "keep.h"

const char *const keep_presets[] = {"dense", "paper", NULL};

enum { DENSE = 0, PAPER = 1 };

/* Which tensors a preset prunes: one row per preset, one column per tensor. */
static const unsigned char prunes[][KEEP_TENSORS] = {
    /*          x n1  t x2 n2  h  g  m */
    [DENSE] = {0, 0, 0, 0, 0, 0, 0, 0},
    [PAPER] = {0, 1, 0, 0, 1, 0, 1, 0},
};

const char *keep_name(keep_tensor tensor)
{
    static const char *const names[KEEP_TENSORS] = {
#define KEEP_NAME(constant, name) name,
        KEEP_LIST(KEEP_NAME)
#undef KEEP_NAME
    };
    return names[tensor];
}

keep_policy keep_preset(size_t preset, keep_rule pruned)
{
    const keep_rule dense = {.form = CLPRUNE_SAVED_DENSE};
    keep_policy policy;
    pruned.form = CLPRUNE_SAVED_PRUNED;
    for (int i = 0; i < KEEP_TENSORS; ++i)
        policy.rule[i] = prunes[preset][i] && pruned.sparsity > 0.0f ? pruned : dense;
    return policy;
}
