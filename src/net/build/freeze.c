/* Frozen and tied parameters. */
#include <string.h>

#include "core/safetensors.h"
#include "core/system.h"
#include "net/build/append.h"
#include "net/net_private.h"
#include "runtime/context/check.h"

static bool matches(const char *pattern, const clprune__net_param *param)
{
    return pattern != NULL && clprune__system_matches(pattern, param->name);
}

/* Gives tied parameters, which are one under several names, the same: `frozen` if one of them is.
 */
static void agree(clprune_net *net, bool frozen)
{
    for (int all = 0; all < 2; ++all)
        for (size_t i = 0; i < net->graph.params_count; ++i) {
            clprune__net_param *param = &net->draft.params[i];
            if (param->tied != 0 && all)
                param->frozen = net->graph.params[param->tied - 1].frozen;
            else if (param->tied != 0 && param->frozen == frozen)
                net->draft.params[param->tied - 1].frozen = frozen;
        }
}

void clprune_net_freeze(clprune_net *net, const char *pattern)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    bool found = false;
    if (net == NULL || net->status != CLPRUNE_SUCCESS)
        return;
    for (size_t i = 0; i < net->graph.params_count && !net->settled; ++i)
        if (matches(pattern, &net->graph.params[i]))
            net->draft.params[i].frozen = found = true;
    agree(net, true);
    if (!found)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_freeze: no parameter of the net being built matches %s",
            pattern != NULL ? pattern : "(NULL)");
}

void clprune_net_train_only(clprune_net *net, const char *const *patterns, size_t count)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL || net->status != CLPRUNE_SUCCESS)
        return;
    bool found = patterns != NULL && count > 0 && !net->settled;
    for (size_t k = 0; k < count && found; ++k) {
        found = false;
        for (size_t i = 0; i < net->graph.params_count; ++i)
            found = found || matches(patterns[k], &net->graph.params[i]);
        if (!found)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "clprune_net_train_only: no parameter of the net being built matches %s",
                patterns[k] != NULL ? patterns[k] : "(NULL)");
    }
    if (!found) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "clprune_net_train_only: no patterns");
        return;
    }
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        bool trained = false;
        for (size_t k = 0; k < count; ++k)
            trained = trained || matches(patterns[k], &net->graph.params[i]);
        net->draft.params[i].frozen = net->graph.params[i].frozen || !trained;
    }
    agree(net, false);
}

/* Whether all passes that read a parameter, also under the names of those that are tied to it, take
 * it as bf16 or codes. */
static bool can_be_coded(const clprune_net *net, size_t index)
{
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        const clprune__net_layer *layer = &net->graph.layers[param->layer];
        if ((i == index || param->tied == index + 1) && i + 1 != net->graph.head &&
            !(layer->kind->coded && layer->param[0] == i))
            return false;
    }
    return true;
}

void clprune_net_store_frozen(clprune_net *net, const char *pattern, clprune_value_type type)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    bool found = false;
    if (net == NULL || net->status != CLPRUNE_SUCCESS)
        return;
    if (!clprune__is_mat_type(type))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_store_frozen: type %d, expected FP32, BF16, CODES8, CODES4 or NF4",
            (int)type);
    for (size_t i = 0; i < net->graph.params_count && !net->settled; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        const size_t of = param->tied != 0 ? param->tied - 1 : i;
        if (!matches(pattern, param) || !param->frozen || !can_be_coded(net, of) ||
            (type == CLPRUNE_VALUES_BF16 && param->shape[1] % 16 != 0))
            continue;
        net->draft.params[of].stored = type;
        found = true;
    }
    if (!found)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_store_frozen: no frozen weight of a linear layer over features, an "
            "embedding or a token loss matches %s",
            pattern != NULL ? pattern : "(NULL)");
}

/* The first axis that is not 1: scales of features are 1 x 1 x C in some layers, C in others. */
static size_t first_axis(const clprune__net_param *param)
{
    size_t axis = 0;
    while (axis + 1 < param->rank && param->shape[axis] == 1)
        axis++;
    return axis;
}

bool clprune__net_same_shape(const clprune__net_param *a, const clprune__net_param *b)
{
    const size_t first = first_axis(a), other = first_axis(b), rank = a->rank - first;
    return rank == b->rank - other &&
           memcmp(a->shape + first, b->shape + other, rank * sizeof a->shape[0]) == 0;
}

const char *clprune__net_shape_text(const clprune__net_param *param, char text[128])
{
    uint64_t shape[4];
    for (size_t i = 0; i < param->rank; ++i)
        shape[i] = param->shape[i];
    return clprune__safetensor_shape(param->rank, shape, text);
}

static clprune__net_param *find_param(clprune_net *net, const char *name)
{
    for (size_t i = 0; i < net->graph.params_count && name != NULL && !net->settled; ++i)
        if (strcmp(net->graph.params[i].name, name) == 0)
            return &net->draft.params[i];
    clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
        "clprune_net_tie: the net being built has no parameter %s", name != NULL ? name : "(NULL)");
    return NULL;
}

void clprune_net_tie(clprune_net *net, const char *name, const char *other)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL || net->status != CLPRUNE_SUCCESS)
        return;
    clprune__net_param *param = find_param(net, name), *of = find_param(net, other);
    if (param == NULL || of == NULL)
        return;
    char shape[128], other_shape[128];
    const size_t number = 1 + (size_t)(param - net->graph.params);
    if (param == of)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s is given twice, expected two parameters", name);
    if (!clprune__net_same_shape(param, of))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s is %s, but %s is %s; expected one shape", name,
            clprune__net_shape_text(param, shape), other, clprune__net_shape_text(of, other_shape));
    if (param->tied != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s is tied to %s already", name,
            net->graph.params[param->tied - 1].name);
    if (of->tied != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s is tied to %s itself; tie %s to that", other,
            net->graph.params[of->tied - 1].name, name);
    if (param->stored != CLPRUNE_VALUES_FP32 || of->stored != CLPRUNE_VALUES_FP32)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s or %s is stored as bf16 or codes; tie them before "
            "clprune_net_store_frozen",
            name, other);
    if (param->frozen != of->frozen)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_tie: %s is frozen and %s is not; tie them before one is frozen",
            param->frozen ? name : other, param->frozen ? other : name);
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied == number)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "clprune_net_tie: %s is tied to %s; tie both to %s", net->graph.params[i].name,
                name, other);
    param->tied = 1 + (size_t)(of - net->graph.params);
}
