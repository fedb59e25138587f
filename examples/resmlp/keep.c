#include "keep.h"

const char *const keep_presets[] = {"dense", "paper", "exact", "exact-tokens", "compact", NULL};

enum { PRESETS = sizeof keep_presets / sizeof *keep_presets - 1 };

/* One row per preset, one letter per tensor (in the order of KEEP_LIST, then last_x): dense,
 * pruned, recomputed, code. */
static const char forms[PRESETS][KEEP_TENSORS + 2] = {
    "ddddddddd", /* dense */
    "dpddpdpdd", /* paper */
    "drrdrdrrr", /* exact */
    "drrrrdrrr", /* exact-tokens */
    "prrprcprr", /* compact */
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

static bool recomputed(const keep_policy *policy, keep_tensor tensor)
{
    return policy->rule[tensor].form == KEEP_RECOMPUTED;
}

bool keep_recomputes_tokens(const keep_policy *policy)
{
    return recomputed(policy, KEEP_N1);
}

bool keep_recomputes_mlp(const keep_policy *policy)
{
    return recomputed(policy, KEEP_N2);
}

bool keep_codes(const keep_policy *policy)
{
    return policy->rule[KEEP_H].form == KEEP_CODE;
}

/* What is wrong with the codes of a policy. */
static const char *check_codes(const keep_policy *policy)
{
    const unsigned bits = policy->rule[KEEP_H].code_bits;
    bool others = policy->last_x.form == KEEP_CODE;
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor)
        others = others || (tensor != KEEP_H && policy->rule[tensor].form == KEEP_CODE);
    if (others)
        return "only fc1 can be kept as a code";
    if (!keep_codes(policy))
        return NULL;
    if (bits != 2 && bits != 4 && bits != 8)
        return "fc1's code must have 2, 4 or 8 bits";
    if (!recomputed(policy, KEEP_N2) || !recomputed(policy, KEEP_M))
        return "norm2 and fc2 must be recomputed where fc1 is a code";
    if (recomputed(policy, KEEP_G) || recomputed(policy, KEEP_X2))
        return "gelu and x2 cannot be recomputed where fc1 is a code";
    return NULL;
}

const char *keep_check(const keep_policy *policy)
{
    const bool norm1 = recomputed(policy, KEEP_N1), norm2 = recomputed(policy, KEEP_N2);
    if (recomputed(policy, KEEP_X))
        return "x cannot be recomputed: everything else is made from it";
    if (recomputed(policy, KEEP_H))
        return "fc1 cannot be recomputed: the product would run twice";
    if (recomputed(policy, KEEP_T) != norm1)
        return "norm1 and tokens must be recomputed together";
    if (!keep_codes(policy) &&
        (recomputed(policy, KEEP_G) != norm2 || recomputed(policy, KEEP_M) != norm2))
        return "norm2, gelu and fc2 must be recomputed together";
    if (recomputed(policy, KEEP_X2) && !(norm1 && norm2))
        return "x2 cannot be recomputed where norm1 or norm2 is kept";
    if (recomputed(policy, KEEP_X2) && policy->rule[KEEP_X].form != KEEP_DENSE)
        return "x2 cannot be recomputed from an x that is not dense";
    return check_codes(policy);
}

static bool preset_has(size_t preset, char form)
{
    for (int i = 0; i <= KEEP_TENSORS; ++i)
        if (forms[preset][i] == form)
            return true;
    return false;
}

bool keep_preset_prunes(size_t preset)
{
    return preset_has(preset, 'p');
}

bool keep_preset_codes(size_t preset)
{
    return preset_has(preset, 'c');
}

clprune_index_type keep_preset_index(size_t preset)
{
    return preset_has(preset, 'c') ? CLPRUNE_INDEX_SMALLEST : CLPRUNE_INDEX_INT32;
}

static keep_rule rule_of(char form, keep_rule rule)
{
    const keep_rule dense = {.form = KEEP_DENSE}, recompute = {.form = KEEP_RECOMPUTED};
    const keep_rule code = {.form = KEEP_CODE, .code_bits = rule.code_bits};
    rule.form = KEEP_PRUNED;
    switch (form) {
    case 'r':
        return recompute;
    case 'c':
        return code;
    case 'p':
        return rule.sparsity > 0.0f || rule.value_type != CLPRUNE_VALUES_FP32 ? rule : dense;
    default:
        return dense;
    }
}

keep_policy keep_preset(size_t preset, keep_rule rule)
{
    keep_policy policy;
    for (int i = 0; i < KEEP_TENSORS; ++i)
        policy.rule[i] = rule_of(forms[preset][i], rule);
    policy.last_x = rule_of(forms[preset][KEEP_TENSORS], rule);
    return policy;
}
