/* The public functions of a net; layers are added in net_*.c. */
#include "clprune/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/cross_entropy.h"
#include "net/body.h"
#include "net/call.h"
#include "net/choose.h"
#include "net/cover.h"
#include "net/steps.h"
#include "runtime/context/check.h"

clprune_status clprune_net_create(
    clprune_context *context, const clprune_net_desc *desc, clprune_net **net)
{
    ENTER_CREATE(context, net);
    static uint32_t serial;
    REQUIRE(net != NULL, CLPRUNE_INVALID_ARGUMENT, "net is NULL");
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    REQUIRE(desc->batch > 0, CLPRUNE_INVALID_ARGUMENT, "batch is 0, expected at least 1");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    clprune_net *made = calloc(1, sizeof *made);
    if (made != NULL)
        made->error = calloc(1, CLPRUNE__NET_TEXT);
    if (made == NULL || made->error == NULL) {
        free(made);
        return clprune__fail(
            context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__, __LINE__, "no memory for the net");
    }
    made->context = context;
    made->desc = *desc;
    made->serial = ++serial;
    *net = made;
    return CLPRUNE_SUCCESS;
}

void clprune_net_destroy(clprune_net *net)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    clprune__net_body_destroy(net);
    for (size_t i = 0; i < net->count; ++i)
        free(net->layers[i].name);
    for (size_t i = 0; i < net->params_count; ++i)
        free(net->params[i].name);
    free(net->forward.steps);
    free(net->inference.steps);
    free(net->backward.steps);
    free(net->slots);
    free(net->regions);
    free(net->tiles);
    free(net->params);
    free(net->values);
    free(net->layers);
    free(net->part);
    free(net->error);
    free(net);
}

void clprune_net_part(clprune_net *net, const char *name)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    free(net->part);
    net->part = name != NULL ? strdup(name) : NULL;
    if (name != NULL && net->part == NULL)
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for part %s", name);
}

void clprune_net_cross_entropy(clprune_net *net, clprune_net_value logits)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *value = clprune__net_read(net, "cross_entropy", logits);
    if (value == NULL)
        return;
    if (net->has_loss)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "the net has two losses, expected one");
    if (value->shape.rows != 1)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "the logits have %zu rows a sample, expected 1; clprune_net_mean makes one",
            value->shape.rows);
    net->has_loss = true;
    net->logits = logits.id - 1;
}

clprune_status clprune_net_settle(clprune_net *net, const clprune_net_keep *keep)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    clprune_net_keep how = {.preset = CLPRUNE_NET_DENSE};
    REQUIRE(net != NULL, CLPRUNE_INVALID_ARGUMENT, "net is NULL");
    REQUIRE(net->status == CLPRUNE_SUCCESS, net->status, "%s", net->error);
    REQUIRE(!net->settled, CLPRUNE_INVALID_ARGUMENT, "the net is settled already");
    REQUIRE(net->count > 1, CLPRUNE_INVALID_ARGUMENT, "the net has no layers");
    if (keep != NULL)
        how = *keep;
    REQUIRE(how.preset >= CLPRUNE_NET_DENSE && how.preset <= CLPRUNE_NET_LEAST,
        CLPRUNE_INVALID_ARGUMENT, "preset is %d, expected a clprune_net_preset", (int)how.preset);
    TRY(clprune__check_reserved(context, "keep", how.reserved, sizeof how.reserved));
    if (how.keep.bits == 0)
        how.keep.bits = 4;
    if (!net->has_loss)
        net->logits = net->count - 1;
    net->settled = true;
    net->status = CLPRUNE_INVALID_ARGUMENT; /* until all is done */
    clprune__net_merge(net);
    TRY(clprune__net_choose(net, &how));
    TRY(clprune__net_make_steps(net));
    TRY(clprune__net_body_create(net));
    net->status = CLPRUNE_SUCCESS;
    return CLPRUNE_SUCCESS;
}

clprune_param *clprune_net_params(clprune_net *net, size_t *count)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (count != NULL)
        *count = net != NULL && net->tensors != NULL ? net->params_count : 0;
    return net != NULL ? net->tensors : NULL;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

clprune_status clprune_net_init(clprune_net *net, uint64_t seed)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(net != NULL && net->tensors != NULL, CLPRUNE_INVALID_ARGUMENT,
        "the net is NULL or not settled");
    for (size_t i = 0; i < net->params_count; ++i) {
        const clprune__net_param *param = &net->params[i];
        const clprune_mat mat = net->tensors[i].value;
        const double bound = param->inputs > 0 ? 1 / sqrt((double)param->inputs) : 0;
        uint64_t state = seed + i * UINT64_C(0xd1342543de82ef95);
        float *values = malloc(mat.rows * mat.cols * sizeof *values);
        REQUIRE(values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", param->name);
        for (size_t k = 0; k < mat.rows * mat.cols; ++k) {
            const double uniform = (double)(next_random(&state) >> 11) * 0x1p-53;
            values[k] = param->inputs > 0 ? (float)((2 * uniform - 1) * bound) : param->value;
        }
        const clprune_status status = clprune_mat_write(context, mat, values);
        free(values);
        TRY(status);
    }
    return CLPRUNE_SUCCESS;
}

void clprune_net_set_seed(clprune_net *net, uint64_t seed)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    for (size_t i = 0; net != NULL && i < net->count; ++i)
        clprune_saved_set_seed(net->values[i].store, seed + UINT64_C(0x9e3779b97f4a7c15) * i);
}

/* Fails unless a settled net can run `data`. */
static clprune_status check_data(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(net != NULL && data != NULL, CLPRUNE_INVALID_ARGUMENT, "net or data is NULL");
    REQUIRE(net->settled && net->status == CLPRUNE_SUCCESS, CLPRUNE_INVALID_ARGUMENT,
        "the net is not settled");
    REQUIRE(data->batch > 0 && data->batch <= net->desc.batch, CLPRUNE_INVALID_SIZE,
        "the batch is %zu, expected 1 to %zu", data->batch, net->desc.batch);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_net_forward(clprune_net *net, const clprune_net_data *data, bool training)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data));
    return clprune__net_run(net, training ? &net->forward : &net->inference, data, training);
}

clprune_mat clprune_net_output(const clprune_net *net, size_t batch)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL || net->slots_count == 0)
        return CLPRUNE_NO_MAT;
    const clprune__net_shape *shape = &net->values[net->logits].shape;
    return clprune_mat_of(net->slots[0].buffer, batch * shape->rows, shape->cols);
}

clprune_status clprune_net_loss(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data));
    clprune_context *context = net->context;
    REQUIRE(net->has_loss, CLPRUNE_INVALID_ARGUMENT, "the net has no loss");
    return clprune_cross_entropy_forward(context, data->smoothing,
        clprune_net_output(net, data->batch), data->labels,
        clprune_mat_rows(net->log_p, 0, data->batch), loss, hit, NULL);
}

/* loss = mean of -sum_k q_k log_softmax(logits)_k */
clprune_status clprune_net_backward(clprune_net *net, const clprune_net_data *data)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data));
    clprune_context *context = net->context;
    REQUIRE(net->has_loss, CLPRUNE_INVALID_ARGUMENT, "the net has no loss");
    TRY(clprune_cross_entropy_backward(context, data->smoothing, 1.0f / (float)data->batch,
        clprune_mat_rows(net->log_p, 0, data->batch), data->labels,
        clprune_net_output(net, data->batch), NULL));
    return clprune__net_run(net, &net->backward, data, true);
}
