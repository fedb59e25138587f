/* The public functions of a net; layers are added in net_*.c. */
#include "clprune/net.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/net_private.h"
#include "net/plan/choose.h"
#include "net/plan/cover.h"
#include "net/plan/steps.h"
#include "net/rewrite/merge.h"
#include "net/run/body.h"
#include "nn/store/form.h"
#include "runtime/context/check.h"

clprune_status clprune_net_create(
    clprune_context *context, const clprune_net_desc *desc, clprune_net **net)
{
    ENTER_CREATE(context, net);
    static atomic_uint serial;
    REQUIRE(net != NULL, CLPRUNE_INVALID_ARGUMENT, "net is NULL");
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    REQUIRE(!desc->adds || !desc->drops_grads, CLPRUNE_INVALID_ARGUMENT,
        "desc has adds and drops_grads; gradients that are dropped cannot be added to");
    REQUIRE(!desc->infers || !(desc->adds || desc->drops_grads || desc->shares_statistics),
        CLPRUNE_INVALID_ARGUMENT,
        "desc has infers and adds, drops_grads or shares_statistics, which are of training");
    REQUIRE(desc->rows_at_once == 0 || desc->infers, CLPRUNE_INVALID_ARGUMENT,
        "desc.rows_at_once is %zu, expected 0 without desc.infers", desc->rows_at_once);
    REQUIRE(desc->batch > 0, CLPRUNE_INVALID_ARGUMENT, "batch is 0, expected at least 1");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    clprune_net *of = desc->weights_of;
    REQUIRE(of == NULL || (of->context == context && clprune__net_is_settled(of)),
        CLPRUNE_INVALID_ARGUMENT, "desc.weights_of is not a settled net of this context");
    clprune_net *made = calloc(1, sizeof *made);
    if (made != NULL)
        made->error = calloc(1, CLPRUNE__NET_TEXT);
    if (made == NULL || made->error == NULL) {
        free(made);
        return clprune__fail(
            context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__, __LINE__, "no memory for the net");
    }
    made->context = context;
    made->plan.graph = &made->graph;
    made->graph.context = context;
    made->graph.desc = *desc;
    made->draft.eps = 1e-5f;
    made->draft.momentum = 0.1f;
    made->at.seeded = true;
    made->serial = atomic_fetch_add(&serial, 1) + 1;
    if (of != NULL)
        of->sharers++;
    *net = made;
    return CLPRUNE_SUCCESS;
}

static void destroy(clprune_net *net)
{
    clprune__net_body_destroy(net);
    for (size_t i = 0; i < net->graph.count; ++i) {
        free(net->graph.layers[i].name);
        free(net->graph.layers[i].table);
    }
    for (size_t i = 0; i < net->graph.params_count; ++i)
        free(net->graph.params[i].name);
    free(net->plan.forward.steps);
    free(net->plan.inference.steps);
    free(net->plan.backward.steps);
    free(net->plan.slots);
    free(net->plan.regions);
    free(net->plan.tiles);
    free(net->plan.layers);
    free(net->plan.values);
    for (size_t i = 0; i < net->lent_count; ++i)
        free(net->lent[i].name);
    free(net->lent);
    free(net->draft.params);
    free(net->draft.values);
    free(net->draft.layers);
    free(net->draft.part);
    free(net->draft.lora.pattern);
    free(net->graph.head_name);
    free(net->error);
    free(net);
}

void clprune_net_destroy(clprune_net *net)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    while (net != NULL) {
        clprune_net *of = net->graph.desc.weights_of;
        net->gone = true;
        if (net->sharers > 0)
            return;
        destroy(net);
        if (of != NULL)
            of->sharers--;
        net = of != NULL && of->gone ? of : NULL;
    }
}

void clprune_net_part(clprune_net *net, const char *name)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    free(net->draft.part);
    net->draft.part = name != NULL ? strdup(name) : NULL;
    if (name != NULL && net->draft.part == NULL)
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for part %s", name);
}

void clprune_net_eps(clprune_net *net, float eps)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    if (!(eps > 0 && isfinite(eps)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "eps is %g, expected a finite number above 0", (double)eps);
    net->draft.eps = eps;
}

void clprune_net_momentum(clprune_net *net, float momentum)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    if (!(momentum >= 0 && momentum <= 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "momentum is %g, expected a value in [0, 1]", (double)momentum);
    net->draft.momentum = momentum;
}

/* With desc.rows_at_once: notes a layer whose rows follow from later ones, or from others in a way
 * that passes over some rows do not know. */
static void check_rows_at_once(clprune_net *net)
{
    for (size_t i = 0; i < net->graph.count && net->graph.whole > 0; ++i) {
        const clprune__net_layer *layer = &net->graph.layers[i];
        const clprune__net_kind *kind = layer->kind;
        if (kind->by_row == NULL || !kind->by_row(&net->graph, layer))
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s (%s) needs all rows of a sample in a pass, but desc.rows_at_once is %zu; "
                "layers may read earlier rows by causal attention alone",
                layer->name, kind->name, net->graph.desc.rows_at_once);
    }
}

clprune_status clprune_net_settle(clprune_net *net, const clprune_net_keep *keep)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    clprune_net_keep how = {.preset = CLPRUNE_NET_DENSE};
    REQUIRE(net != NULL, CLPRUNE_INVALID_ARGUMENT, "net is NULL");
    clprune__net_end_lora(net);
    REQUIRE(net->status == CLPRUNE_SUCCESS, net->status, "%s", net->error);
    REQUIRE(!net->settled, CLPRUNE_INVALID_ARGUMENT, "the net is settled already");
    REQUIRE(net->graph.count > net->graph.inputs_count, CLPRUNE_INVALID_ARGUMENT,
        "the net has no layers");
    if (keep != NULL)
        how = *keep;
    REQUIRE(how.preset >= CLPRUNE_NET_DENSE && how.preset <= CLPRUNE_NET_LEAST,
        CLPRUNE_INVALID_ARGUMENT, "preset is %d, expected a clprune_net_preset", (int)how.preset);
    TRY(clprune__check_reserved(context, "keep", how.reserved, sizeof how.reserved));
    REQUIRE(how.store == CLPRUNE_VALUES_FP32 || how.store == CLPRUNE_VALUES_BF16,
        CLPRUNE_INVALID_ARGUMENT, "store is %d, expected CLPRUNE_VALUES_FP32 or _BF16",
        (int)how.store);
    REQUIRE(how.gelu_bits == 0 || how.gelu_bits == 2 || how.gelu_bits == 4 || how.gelu_bits == 8,
        CLPRUNE_INVALID_ARGUMENT, "gelu_bits is %u, expected 0, 2, 4 or 8", how.gelu_bits);
    REQUIRE(how.rules != NULL || how.rules_count == 0, CLPRUNE_INVALID_ARGUMENT,
        "rules is NULL, but rules_count is %zu", how.rules_count);
    const bool prunes = how.keep.form == CLPRUNE_FORM_PRUNED;
    REQUIRE(how.preset < CLPRUNE_NET_COMPACT || prunes || how.keep.form == CLPRUNE_FORM_DENSE ||
                how.keep.form == CLPRUNE_FORM_QUANTISED,
        CLPRUNE_INVALID_ARGUMENT,
        "keep.form is %d, expected zeros, CLPRUNE_FORM_QUANTISED or _PRUNED with COMPACT and LEAST",
        (int)how.keep.form);
    if (how.keep.bits == 0)
        how.keep.bits = 4;
    clprune_keep checked = how.keep;
    if (how.preset >= CLPRUNE_NET_COMPACT && !prunes)
        checked.form = CLPRUNE_FORM_QUANTISED;
    if (how.preset == CLPRUNE_NET_INPUTS || how.preset >= CLPRUNE_NET_COMPACT) {
        TRY(clprune__keep_settle(context, &checked, &checked));
        TRY(clprune__keep_restores(context, &how.keep));
    }
    net->plan.products = how.products;
    if (net->graph.loss == CLPRUNE__NET_NO_LOSS)
        net->graph.output = net->graph.count - 1;
    REQUIRE(net->graph.layers[net->graph.output].ins > 0, CLPRUNE_INVALID_ARGUMENT,
        "nothing reads the input %s, the last layer of a net without a loss",
        net->graph.layers[net->graph.output].name);
    check_rows_at_once(net);
    clprune__net_merge(net);
    for (size_t i = 1; i < net->graph.count && net->graph.loss != CLPRUNE__NET_NO_LOSS; ++i)
        if (net->graph.values[i].users == 0 && !net->graph.layers[i].gone)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "nothing reads the output of layer %s, nor does the loss",
                net->graph.layers[i].name);
    REQUIRE(net->status == CLPRUNE_SUCCESS, net->status, "%s", net->error);
    clprune__net_wrong(
        net, CLPRUNE_INVALID_ARGUMENT, "the net could not be settled"); /* until it is */
    net->settled = true;
    TRY(clprune__net_choose(&net->plan, &how));
    TRY(clprune__net_make_steps(&net->plan));
    TRY(clprune__net_body_create(net));
    net->status = CLPRUNE_SUCCESS;
    return CLPRUNE_SUCCESS;
}

clprune_param *clprune_net_params(clprune_net *net, size_t *count)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (count != NULL)
        *count = net != NULL ? net->body.list_count : 0;
    return net != NULL ? net->body.list : NULL;
}

const clprune_net_state *clprune_net_states(const clprune_net *net, size_t *count)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (count != NULL)
        *count = net != NULL ? net->body.states_count : 0;
    return net != NULL ? net->body.states : NULL;
}

/* The layer that makes the output; below its adapters, if it has some. */
static size_t output_layer(const clprune_net *net)
{
    size_t layer = net->graph.output;
    while (net->graph.layers[layer].kind == &clprune__net_adapter_kind)
        layer = net->graph.layers[layer].in[0];
    return layer;
}

static bool weight_at(const clprune_net *net, size_t index, clprune_net_weight *weight)
{
    if (weight == NULL)
        return false;
    *weight = (clprune_net_weight){.name = NULL};
    if (net == NULL || net->body.tensors == NULL || index >= net->graph.params_count)
        return false;
    const clprune__net_param *param = &net->graph.params[index];
    *weight = (clprune_net_weight){.name = param->name,
        .rank = param->rank,
        .inputs = param->inputs,
        .image = param->image,
        .output = net->graph.head > 0
                      ? index + 1 == net->graph.head || index + 1 == net->graph.head_bias
                      : param->layer == output_layer(net),
        .value = net->body.tensors[index].value};
    memcpy(weight->shape, param->shape, sizeof weight->shape);
    return true;
}

bool clprune_net_weight_at(const clprune_net *net, size_t index, clprune_net_weight *weight)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return weight_at(net, index, weight);
}

bool clprune_net_weight_of(const clprune_net *net, const char *name, clprune_net_weight *weight)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    size_t i = 0;
    while (net != NULL && name != NULL && i < net->graph.params_count &&
           strcmp(net->graph.params[i].name, name) != 0)
        ++i;
    return weight_at(name != NULL ? net : NULL, i, weight);
}

void clprune_net_on_grads(
    clprune_net *net, clprune_status (*ready)(void *user, clprune_mat grads), void *user)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    net->at.on_grads = ready;
    net->at.on_grads_user = user;
}

void clprune_net_on_statistics(clprune_net *net, const clprune_net_statistics *statistics)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL || !net->graph.desc.shares_statistics)
        return;
    net->at.statistics = statistics != NULL ? *statistics : (clprune_net_statistics){0};
}

void clprune_net_watch(
    clprune_net *net, void (*tell)(void *user, bool backward, const char *layer), void *user)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    net->at.tell = tell;
    net->at.tell_user = user;
}

void clprune_net_check_finite(clprune_net *net, bool check)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net != NULL)
        net->at.checks_finite = check;
}

void clprune_net_visit(
    const clprune_net *net, void (*visit)(void *user, const clprune_net_tensor *tensor), void *user)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL || !clprune__net_is_settled(net) || visit == NULL)
        return;
    for (size_t i = 0; i < net->graph.count; ++i) {
        const clprune__net_layer *layer = &net->graph.layers[i];
        const clprune__net_shape *shape = &net->graph.values[i].shape;
        const clprune__net_choice *value = &net->plan.values[i];
        const clprune__net_tile *tile = clprune__net_tile_of(&net->plan, i);
        if (layer->gone || layer->kind->forward == NULL)
            continue;
        const clprune_net_tensor tensor = {.name = layer->name,
            .layer = layer->kind->name,
            .way = tile != NULL ? tile->way->name : "",
            .rows = shape->rows,
            .cols = shape->cols,
            .grid = shape->grid,
            .needed = value->needed,
            .product = value->product,
            .kept = value->kept,
            .keep = value->keep,
            .bytes = value->kept ? clprune__net_bytes(&net->plan, i) : 0,
            .work = layer->kind->work != NULL ? layer->kind->work(&net->graph, layer) : 0};
        visit(user, &tensor);
    }
}

typedef clprune_status fill_function(void *user, const clprune_net_weight *weight, float *values);

static clprune_status init(clprune_net *net, uint64_t seed, fill_function *fill, void *user)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(net != NULL && clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT,
        "the net is NULL or not settled");
    net->at.phase = CLPRUNE__NET_EMPTY;
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        if (param->tied != 0)
            continue;
        const clprune_mat mat = net->body.tensors[i].value;
        const double bound = param->inputs > 0 ? 1 / sqrt((double)param->inputs) : 0;
        uint64_t state = seed + i * UINT64_C(0xd1342543de82ef95);
        float *values = malloc(mat.rows * mat.cols * sizeof *values);
        REQUIRE(values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", param->name);
        for (size_t k = 0; k < mat.rows * mat.cols; ++k) {
            const double uniform = (double)(clprune__net_random(&state) >> 11) * 0x1p-53;
            values[k] = param->inputs > 0 ? (float)((2 * uniform - 1) * bound) : param->value;
        }
        clprune_net_weight weight;
        clprune_status status = CLPRUNE_SUCCESS;
        if (fill != NULL && weight_at(net, i, &weight))
            status = fill(user, &weight, values);
        if (status == CLPRUNE_SUCCESS)
            status = clprune_mat_write(context, mat, values);
        free(values);
        TRY(status);
    }
    net->at.has_values = true;
    return clprune__net_reset_states(net);
}

clprune_status clprune_net_init(clprune_net *net, uint64_t seed)
{
    ENTER(net != NULL ? net->context : NULL);
    return init(net, seed, NULL, NULL);
}

clprune_status clprune_net_init_with(
    clprune_net *net, uint64_t seed, fill_function *fill, void *user)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(fill != NULL, CLPRUNE_INVALID_ARGUMENT, "fill is NULL");
    return init(net, seed, fill, user);
}
