/* Parameters of a settled net, and their gradients. */
#include "clprune/add.h"
#include "clprune/plan.h"
#include "net/run/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/net_private.h"
#include "runtime/context/check.h"

/* A parameter as a matrix: the first size by the others; of one that counts, a row. */
static void matrix_sizes(const clprune__net_param *param, size_t *rows, size_t *cols)
{
    *rows = param->rank == 2 || param->rank == 4 ? param->shape[0] : 1;
    *cols = clprune__net_param_elements(param) / *rows;
}

/* Whether a parameter's gradient is never computed. Other frozen ones have gradients that nobody
 * reads, since their passes compute several at once. */
static bool has_no_grad(const clprune_net *net, const clprune__net_param *param)
{
    if (clprune__net_infers(&net->graph))
        return true;
    const size_t number = (size_t)(param - net->graph.params) + 1;
    if (number == net->graph.head || number == net->graph.head_bias)
        return param->frozen;
    const clprune__net_layer *layer = &net->graph.layers[param->layer];
    return layer->frozen && !(layer->kind->grads.joint && net->graph.values[param->layer].trained);
}

/* Whether a tied parameter has no gradient of its own: a token loss and an embedding add to one. */
static bool shares_grad(const clprune_net *net, size_t param)
{
    const size_t other = net->graph.params[param].tied, head = net->graph.head;
    if (other == 0 || (head != other && head != param + 1))
        return false;
    const size_t layer = net->graph.params[head == other ? param : other - 1].layer;
    return net->graph.layers[layer].kind->grads.adds;
}

/* The region whose backward pass completes a parameter's gradient: its layer's, or an earlier one
 * that has a parameter that is tied to it. */
static size_t region_of(const clprune_net *net, size_t param)
{
    size_t layer = net->graph.params[param].layer, r = 0;
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied == param + 1 && net->graph.params[i].layer < layer)
            layer = net->graph.params[i].layer;
    while (r < net->plan.regions_count && net->plan.regions[r].last < layer)
        ++r;
    return r;
}

/* What lies in one buffer: an optimizer updates it in one launch. */
typedef struct bundle {
    clprune_memory_category category;
    enum { VALUES, GRADS, UNREAD } has; /* UNREAD: gradients of frozen parameters */
    size_t region;                      /* of GRADS; regions_count: of all */
} bundle;

/* Bytes of values in one buffer, if no single parameter has more: devices have a largest one. */
#define MOST_VALUES ((size_t)1 << 30)

static bool is_in(const clprune_net *net, const bundle *b, size_t param)
{
    if (b->has == VALUES) /* that are neither lent nor alone */
        return net->graph.params[param].tied == 0 && net->body.tensors[param].value.buffer == NULL;
    if (has_no_grad(net, &net->graph.params[param]) || shares_grad(net, param) ||
        net->graph.params[param].frozen != (b->has == UNREAD))
        return false;
    return b->has == UNREAD || b->region == net->plan.regions_count ||
           region_of(net, param) == b->region;
}

/* *all: what was created, as a row; of values perhaps not yet all. */
static clprune_status create_mats(clprune_net *net, const bundle *b, clprune_mat *all)
{
    clprune_context *context = net->context;
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t count = net->graph.params_count;
    size_t made = 0, bytes = 0;
    clprune_mat *mats = calloc(count + 1, sizeof *mats);
    const char **names = calloc(count + 1, sizeof *names);
    size_t *which = calloc(count + 1, sizeof *which);
    REQUIRE_DONE(mats != NULL && names != NULL && which != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for %zu parameters", count);
    for (size_t i = 0; i < count; ++i) {
        if (!is_in(net, b, i))
            continue;
        bytes += clprune__net_param_elements(&net->graph.params[i]) * sizeof(float);
        if (b->has == VALUES && made > 0 && bytes > MOST_VALUES)
            break;
        names[made] = net->graph.params[i].name;
        matrix_sizes(&net->graph.params[i], &mats[made].rows, &mats[made].cols);
        which[made++] = i;
    }
    if (made > 0)
        TRY_DONE(clprune_mats_create(context, b->category, made, names, mats));
    for (size_t i = 0; i < made; ++i)
        *(b->has == VALUES ? &net->body.tensors[which[i]].value
                           : &net->body.tensors[which[i]].grad) = mats[i];
    if (made > 0)
        *all = clprune_mat_of(mats[0].buffer, 1, 0);
    for (size_t i = 0; i < made; ++i) { /* the last one need not lie at the end */
        const size_t end = mats[i].offset + mats[i].rows * mats[i].cols;
        all->cols = all->ld = end > all->cols ? end : all->cols;
    }
done:
    free(mats);
    free(names);
    free(which);
    return status;
}

/* Gradients in one buffer; or in one for each region, as workspace, as are those that nobody reads.
 */
static clprune_status create_grads(clprune_net *net)
{
    clprune_context *context = net->context;
    TRY(create_mats(net, &(bundle){CLPRUNE_MEMORY_WORKSPACE, UNREAD, 0}, &net->body.unread));
    if (!net->graph.desc.drops_grads)
        return create_mats(net, &(bundle){CLPRUNE_MEMORY_GRADIENTS, GRADS, net->plan.regions_count},
            &net->body.grads);
    net->body.dropped = calloc(net->plan.regions_count + 1, sizeof *net->body.dropped);
    REQUIRE(net->body.dropped != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the gradients");
    for (size_t r = 0; r < net->plan.regions_count; ++r)
        TRY(create_mats(net, &(bundle){CLPRUNE_MEMORY_WORKSPACE, GRADS, r}, &net->body.dropped[r]));
    return CLPRUNE_SUCCESS;
}

/* A NaN that no arithmetic makes: the first element of a parameter that nobody has written. */
static const uint32_t unwritten = UINT32_C(0x7fc1eaf5);

/* Of codes the first word behind them, which has a zero. */
static clprune_mat first_of(const clprune_net *net, size_t param)
{
    const clprune_mat value = net->body.tensors[param].value;
    const clprune_mat words = clprune_mat_words(value);
    const size_t codes = clprune__ceil_div(value.cols, 16) * clprune__code_bits(value) / 2;
    return (clprune_mat){words.buffer, words.offset + codes, 1, 1, 1, CLPRUNE_VALUES_FP32};
}

/* Parameters that stay as they are each in a buffer of its own, the others together. */
static clprune_status create_values(clprune_net *net)
{
    clprune_context *context = net->context;
    const size_t count = net->graph.params_count;
    net->body.values = calloc(count + 1, sizeof *net->body.values);
    REQUIRE(net->body.values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the parameters");
    for (size_t i = 0; i < count; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        clprune_mat *value = &net->body.tensors[i].value;
        size_t rows, cols;
        if (param->tied != 0 || value->buffer != NULL ||
            !(param->frozen || clprune__net_infers(&net->graph)))
            continue;
        matrix_sizes(param, &rows, &cols);
        TRY(clprune_mat_create_as(net->context, CLPRUNE_MEMORY_PARAMETERS, param->name,
            param->stored, rows, cols, value));
        net->body.values[net->body.values_count++] = value->buffer;
    }
    for (clprune_mat all;;) {
        all = CLPRUNE_NO_MAT;
        TRY(create_mats(net, &(bundle){CLPRUNE_MEMORY_PARAMETERS, VALUES, 0}, &all));
        if (all.buffer == NULL)
            return CLPRUNE_SUCCESS;
        net->body.values[net->body.values_count++] = all.buffer;
    }
}

/* Whether a buffer of values is the net's. */
static bool is_own(const clprune_net *net, cl_mem buffer)
{
    for (size_t i = 0; i < net->body.values_count; ++i)
        if (net->body.values[i] == buffer)
            return true;
    return false;
}

static clprune_status mark_values(clprune_net *net)
{
    float mark;
    memcpy(&mark, &unwritten, sizeof mark);
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied == 0 && is_own(net, net->body.tensors[i].value.buffer))
            TRY(clprune_mat_write(net->context, first_of(net, i), &mark));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_check_values(clprune_net *net)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->graph.params_count && !net->at.has_values; ++i) {
        float first;
        TRY(clprune_mat_read(context, first_of(net, i), &first));
        REQUIRE(memcmp(&first, &unwritten, sizeof first) != 0, CLPRUNE_INVALID_ARGUMENT,
            "parameter %s has no values; call clprune_net_init, or write it, before the first pass",
            net->graph.params[i].name);
    }
    net->at.has_values = true;
    return CLPRUNE_SUCCESS;
}

static clprune_status take(
    clprune_context *context, clprune__net_lent *lent, size_t rows, size_t cols, clprune_mat *value)
{
    const clprune_mat mat = lent->value;
    REQUIRE(mat.rows * mat.cols == rows * cols && (mat.ld == mat.cols || mat.rows == 1),
        CLPRUNE_INVALID_SIZE,
        "the matrix for %s is %zu x %zu with ld %zu, expected %zu x %zu, or as many elements "
        "without gaps",
        lent->name, mat.rows, mat.cols, mat.ld, rows, cols);
    *value = (clprune_mat){mat.buffer, mat.offset, rows, cols, cols, mat.type};
    lent->used = true;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_take_lent(
    clprune_net *net, const char *name, size_t rows, size_t cols, clprune_mat *value)
{
    for (size_t i = 0; i < net->lent_count; ++i)
        if (strcmp(net->lent[i].name, name) == 0)
            TRY(take(net->context, &net->lent[i], rows, cols, value));
    return CLPRUNE_SUCCESS;
}

static const char stored_text[] =
    "parameter %s is stored as bf16 or codes (clprune_net_store_frozen)";

/* The parameters that the caller has lent; of those for tied names the last one. */
static clprune_status take_values(clprune_net *net)
{
    clprune_context *context = net->context;
    const clprune__net_param *params = net->graph.params;
    for (size_t k = 0; k < net->lent_count; ++k) {
        size_t i = 0, rows, cols;
        while (i < net->graph.params_count && strcmp(params[i].name, net->lent[k].name) != 0)
            ++i;
        if (i == net->graph.params_count)
            continue;
        if (params[i].tied != 0)
            i = params[i].tied - 1;
        REQUIRE(params[i].stored == CLPRUNE_VALUES_FP32, CLPRUNE_INVALID_ARGUMENT, stored_text,
            net->lent[k].name);
        matrix_sizes(&params[i], &rows, &cols);
        TRY(take(context, &net->lent[k], rows, cols, &net->body.tensors[i].value));
    }
    return CLPRUNE_SUCCESS;
}

/* The values of desc.weights_of. */
static clprune_status share_values(clprune_net *net)
{
    clprune_context *context = net->context;
    const clprune_net *of = net->graph.desc.weights_of;
    char shape[128], other[128];
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        size_t k = 0;
        while (k < of->graph.params_count && strcmp(of->graph.params[k].name, param->name) != 0)
            ++k;
        REQUIRE(k < of->graph.params_count, CLPRUNE_INVALID_ARGUMENT,
            "the net of desc.weights_of has no parameter %s", param->name);
        REQUIRE(clprune__net_same_shape(&of->graph.params[k], param), CLPRUNE_INVALID_SIZE,
            "parameter %s is %s, but %s in the net of desc.weights_of", param->name,
            clprune__net_shape_text(param, shape),
            clprune__net_shape_text(&of->graph.params[k], other));
        net->body.tensors[i].value = of->body.tensors[k].value;
        REQUIRE(net->body.tensors[i].value.type == CLPRUNE_VALUES_FP32 || param->frozen ||
                    clprune__net_infers(&net->graph),
            CLPRUNE_INVALID_ARGUMENT,
            "parameter %s is no floats in the net of desc.weights_of, expected a frozen one",
            param->name);
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_params_create(clprune_net *net)
{
    clprune_context *context = net->context;
    const size_t count = net->graph.params_count;
    net->body.tensors = calloc(count + 1, sizeof *net->body.tensors);
    net->body.list = calloc(count + 1, sizeof *net->body.list);
    REQUIRE(net->body.tensors != NULL && net->body.list != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for %zu parameters", count);
    if (net->graph.desc.weights_of != NULL) {
        TRY(share_values(net));
    } else {
        TRY(take_values(net));
        TRY(create_values(net));
        TRY(mark_values(net));
    }
    TRY(create_grads(net));
    for (size_t i = 0; i < count; ++i)
        if (shares_grad(net, i) && !has_no_grad(net, &net->graph.params[i]))
            net->body.tensors[i].grad = net->body.tensors[net->graph.params[i].tied - 1].grad;
    for (size_t i = 0; i < count; ++i) {
        const clprune__net_param *param = &net->graph.params[i];
        net->body.tensors[i].name = param->name;
        net->body.tensors[i].decay = param->decay;
        if (param->tied != 0)
            net->body.tensors[i].value = net->body.tensors[param->tied - 1].value;
        else if (!param->frozen)
            net->body.list[net->body.list_count++] = net->body.tensors[i];
    }
    if (!net->graph.desc.adds)
        return CLPRUNE_SUCCESS;
    TRY(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "gradients of a pass", 1,
        net->body.grads.cols, &net->body.pass));
    for (size_t i = 0; i < count; ++i)
        if (net->body.tensors[i].grad.buffer == net->body.grads.buffer)
            net->body.tensors[i].grad.buffer = net->body.pass.buffer;
    return CLPRUNE_SUCCESS;
}

/* ---- memory of the caller ----------------------------------------------------------------------
 */

/* Fails unless `value` is of a size and apart from all parameters and states but the one called
 * `name`. */
static clprune_status check_value(
    clprune_net *net, const char *name, clprune_mat old, clprune_mat value)
{
    clprune_context *context = net->context;
    TRY(clprune__check_mat(context, name, value, old.rows, old.cols));
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied == 0 && strcmp(net->graph.params[i].name, name) != 0)
            TRY(clprune__check_apart(
                context, name, value, net->graph.params[i].name, net->body.tensors[i].value));
    for (size_t i = 0; i < net->body.states_count; ++i)
        if (strcmp(net->body.states[i].name, name) != 0)
            TRY(clprune__check_apart(
                context, name, value, net->body.states[i].name, net->body.states[i].mat));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_check_lent(clprune_net *net)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->lent_count; ++i)
        REQUIRE(net->lent[i].used, CLPRUNE_INVALID_ARGUMENT, "the net has no parameter or state %s",
            net->lent[i].name);
    for (size_t i = 0; i < net->graph.params_count && net->lent_count > 0; ++i) {
        const clprune_mat value = net->body.tensors[i].value;
        if (net->graph.params[i].tied == 0 && !is_own(net, value.buffer))
            TRY(check_value(net, net->graph.params[i].name, value, value));
    }
    for (size_t i = 0; i < net->body.states_count && net->lent_count > 0; ++i) {
        const clprune_net_state *state = &net->body.states[i];
        TRY(check_value(net, state->name, state->mat, state->mat));
    }
    return CLPRUNE_SUCCESS;
}

/* Before the net is settled: its own memory is not created. */
static clprune_status lend(clprune_net *net, const char *name, clprune_mat value)
{
    clprune_context *context = net->context;
    REQUIRE(net->status == CLPRUNE_SUCCESS, net->status, "%s", net->error);
    TRY(clprune__check_mat(context, name, value, value.rows, value.cols));
    clprune__net_lent *larger = realloc(net->lent, (net->lent_count + 1) * sizeof *net->lent);
    net->lent = larger != NULL ? larger : net->lent;
    char *copy = larger != NULL ? strdup(name) : NULL;
    REQUIRE(copy != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the value of %s", name);
    net->lent[net->lent_count++] = (clprune__net_lent){copy, value, false};
    return CLPRUNE_SUCCESS;
}

static clprune_status use_param(clprune_net *net, size_t param, clprune_mat value)
{
    clprune_context *context = net->context;
    const clprune__net_param *params = net->graph.params;
    if (params[param].tied != 0)
        param = params[param].tied - 1;
    REQUIRE(params[param].stored == CLPRUNE_VALUES_FP32, CLPRUNE_INVALID_ARGUMENT, stored_text,
        params[param].name);
    TRY(check_value(net, params[param].name, net->body.tensors[param].value, value));
    const cl_mem old = net->body.tensors[param].value.buffer;
    bool used = false;
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        if (i == param || params[i].tied == param + 1)
            net->body.tensors[i].value = value;
        used |= net->body.tensors[i].value.buffer == old;
    }
    for (size_t i = 0; i < net->body.list_count; ++i)
        if (net->body.list[i].name == params[param].name)
            net->body.list[i].value = value;
    for (size_t i = 0; i < net->body.values_count && !used; ++i)
        if (net->body.values[i] == old) {
            clprune_buffer_release(context, old);
            net->body.values[i] = net->body.values[--net->body.values_count];
        }
    return CLPRUNE_SUCCESS;
}

static clprune_status use_state(clprune_net *net, clprune_net_state *state, clprune_mat value)
{
    TRY(check_value(net, state->name, state->mat, value));
    for (size_t i = 0; i < net->graph.count; ++i)
        for (size_t k = 0; k < 2; ++k) {
            clprune__net_unit *unit = &net->body.units[i];
            if (state->mat.buffer == NULL || unit->state[k].buffer != state->mat.buffer)
                continue;
            if (!unit->lent[k])
                clprune_buffer_release(net->context, unit->state[k].buffer);
            unit->lent[k] = true;
            unit->state[k] = state->mat = value;
            return CLPRUNE_SUCCESS;
        }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_net_use_value(clprune_net *net, const char *name, clprune_mat value)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    ENTER(context);
    REQUIRE(net != NULL && name != NULL, CLPRUNE_INVALID_ARGUMENT, "net or name is NULL");
    REQUIRE(net->graph.desc.weights_of == NULL && net->sharers == 0, CLPRUNE_INVALID_ARGUMENT,
        "the net shares its parameters with another one (desc.weights_of)");
    if (!net->settled)
        return lend(net, name, value);
    REQUIRE(clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT, "the net is not settled");
    size_t i = 0, k = 0;
    while (i < net->graph.params_count && strcmp(net->graph.params[i].name, name) != 0)
        ++i;
    while (k < net->body.states_count && strcmp(net->body.states[k].name, name) != 0)
        ++k;
    REQUIRE(i < net->graph.params_count || k < net->body.states_count, CLPRUNE_INVALID_ARGUMENT,
        "the net has no parameter or state %s", name);
    TRY(i < net->graph.params_count ? use_param(net, i, value)
                                    : use_state(net, &net->body.states[k], value));
    net->at.phase = CLPRUNE__NET_EMPTY;
    net->at.has_values = false;
    return CLPRUNE_SUCCESS;
}

void clprune__net_params_destroy(clprune_net *net)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->body.values_count; ++i)
        clprune_buffer_release(context, net->body.values[i]);
    free(net->body.values);
    clprune_buffer_release(context, net->body.grads.buffer);
    clprune_buffer_release(context, net->body.pass.buffer);
    clprune_buffer_release(context, net->body.unread.buffer);
    for (size_t r = 0; net->body.dropped != NULL && r < net->plan.regions_count; ++r)
        clprune_buffer_release(context, net->body.dropped[r].buffer);
    free(net->body.dropped);
    free(net->body.list);
    free(net->body.tensors);
}

/* Adds the gradients of tied parameters to those that they are tied to, if these are of the region;
 * SIZE_MAX: of any. */
static clprune_status add_tied(clprune_net *net, size_t region)
{
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        const size_t other = net->graph.params[i].tied;
        if (other == 0 || net->graph.params[i].frozen || net->body.tensors[i].grad.buffer == NULL ||
            shares_grad(net, i) || (region != SIZE_MAX && region_of(net, other - 1) != region))
            continue;
        const clprune_mat sum = net->body.tensors[other - 1].grad;
        TRY(clprune_add(net->context, 1.0f, sum, 1.0f, net->body.tensors[i].grad, sum, NULL));
    }
    return CLPRUNE_SUCCESS;
}

/* The region at whose end nothing reads the gradients of region r any more. */
static size_t done_at(const clprune_net *net, size_t r)
{
    size_t last = r;
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied != 0 && region_of(net, i) == r) {
            const size_t other = region_of(net, net->graph.params[i].tied - 1);
            last = other < last ? other : last;
        }
    return last;
}

static bool has_listed(const clprune_net *net, cl_mem grads)
{
    for (size_t i = 0; i < net->body.list_count; ++i)
        if (net->body.list[i].grad.buffer == grads)
            return true;
    return false;
}

/* Whether gradients that stay are told of, region by region. */
static bool tells_grads(const clprune_net *net)
{
    return net->at.on_grads != NULL && !net->graph.desc.drops_grads && !net->graph.desc.adds;
}

/* Calls `tell` for the gradients that are complete after a region: those that lie one behind the
 * other at once. */
static clprune_status each_part(const clprune_net *net, size_t region,
    clprune_status (*tell)(void *user, clprune_mat part), void *user)
{
    const bundle complete = {CLPRUNE_MEMORY_GRADIENTS, GRADS, region};
    clprune_mat part = clprune_mat_of(net->body.grads.buffer, 1, 0);
    for (size_t i = 0; i < net->graph.params_count; ++i) {
        /* a tied one's is a term of the other's, which is told of when it is complete */
        if (!is_in(net, &complete, i) || net->graph.params[i].tied != 0)
            continue;
        const size_t first = net->body.tensors[i].grad.offset;
        if (part.cols > 0 && first != part.offset + part.cols) {
            TRY(tell(user, part));
            part.cols = 0;
        }
        part.offset = part.cols > 0 ? part.offset : first;
        part.cols = part.ld = part.cols + clprune__net_param_elements(&net->graph.params[i]);
    }
    return part.cols > 0 ? tell(user, part) : CLPRUNE_SUCCESS;
}

clprune_status clprune_net_visit_grads(
    const clprune_net *net, clprune_status (*visit)(void *user, clprune_mat part), void *user)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    ENTER(context);
    REQUIRE(net != NULL && visit != NULL, CLPRUNE_INVALID_ARGUMENT, "net or visit is NULL");
    REQUIRE(clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT, "the net is not settled");
    REQUIRE(!net->graph.desc.drops_grads && !net->graph.desc.adds, CLPRUNE_INVALID_ARGUMENT,
        "a net with drops_grads or adds does not tell of parts of its gradients");
    for (size_t r = net->plan.regions_count; r-- > 0;)
        TRY(each_part(net, r, visit, user));
    return CLPRUNE_SUCCESS;
}

static clprune_status drop_region(clprune_net *net, size_t region)
{
    TRY(add_tied(net, region));
    for (size_t r = region; r < net->plan.regions_count; ++r) {
        const cl_mem grads = net->body.dropped[r].buffer;
        if (grads == NULL || done_at(net, r) != region)
            continue;
        if (net->at.on_grads != NULL && has_listed(net, grads))
            TRY(net->at.on_grads(net->at.on_grads_user, net->body.dropped[r]));
        TRY(clprune_buffer_forget(net->context, grads));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_end_region(clprune_net *net, size_t region)
{
    TRY(clprune_buffer_forget(net->context, net->body.unread.buffer));
    if (net->graph.desc.drops_grads)
        return drop_region(net, region);
    if (!tells_grads(net))
        return CLPRUNE_SUCCESS;
    TRY(add_tied(net, region));
    return each_part(net, region, net->at.on_grads, net->at.on_grads_user);
}

clprune_status clprune__net_end_pass(clprune_net *net, bool add)
{
    if (net->graph.desc.drops_grads || tells_grads(net))
        return CLPRUNE_SUCCESS;
    TRY(add_tied(net, SIZE_MAX));
    if (!net->graph.desc.adds)
        return CLPRUNE_SUCCESS;
    return clprune_add(net->context, 1.0f, net->body.pass, add ? 1.0f : 0.0f,
        add ? net->body.grads : CLPRUNE_NO_MAT, net->body.grads, NULL);
}
