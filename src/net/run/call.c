/* Where the operands of a call lie. */
#include "net/run/call.h"

#include <stdio.h>

#include "runtime/context/check.h"

clprune__net_field clprune__net_field_of(size_t number, const char *field)
{
    clprune__net_field name;
    if (number == 0)
        (void)snprintf(name.text, sizeof name.text, "data.%s", field);
    else
        (void)snprintf(name.text, sizeof name.text, "data.more[%zu].%s", number - 1, field);
    return name;
}

/* rows x cols a sample at a place. */
static clprune_mat mat_at(
    const clprune__net_call *call, clprune__net_place place, size_t rows, size_t cols)
{
    const clprune_net *net = call->net;
    if (place.at == CLPRUNE__NET_STORE)
        return clprune_saved_dense(net->body.stores[place.id], call->first, call->count);
    if (place.at == CLPRUNE__NET_NOWHERE)
        return CLPRUNE_NO_MAT;
    const size_t first = place.whole ? call->first * rows * cols : 0;
    return (clprune_mat){net->body.spaces[place.id].buffer, first, call->count * rows, cols, cols,
        place.bf16 ? CLPRUNE_VALUES_BF16 : CLPRUNE_VALUES_FP32};
}

clprune_mat clprune__net_at(const clprune__net_call *call, clprune__net_place place, size_t value)
{
    const clprune__net_shape *shape = &call->net->graph.values[value].shape;
    return mat_at(call, place, shape->rows, shape->cols);
}

clprune_mat clprune__net_x(const clprune__net_call *call, size_t k)
{
    return clprune__net_at(call, call->step->in[k], call->layer->in[k]);
}

clprune_mat clprune__net_y(const clprune__net_call *call)
{
    return clprune__net_at(call, call->step->out, clprune__net_out(&call->net->graph, call->layer));
}

clprune_mat clprune__net_operand(const clprune__net_call *call, size_t need)
{
    const clprune_mat mat = clprune__net_at(
        call, call->step->in[need], clprune__net_needed(&call->net->graph, call->tile, need));
    const bool narrow = call->tile->way->needs[need].how == CLPRUNE__NET_NARROW;
    return mat.type == CLPRUNE_VALUES_FP32 || narrow ? mat : CLPRUNE_NO_MAT;
}

clprune_status clprune__net_view(const clprune__net_call *call, clprune__net_place place,
    size_t value, clprune_saved **store, size_t *first)
{
    const clprune__net_shape *shape = &call->net->graph.values[value].shape;
    *first = call->first;
    if (place.at == CLPRUNE__NET_STORE) {
        *store = call->net->body.stores[place.id];
        return CLPRUNE_SUCCESS;
    }
    if (!place.whole)
        *first = 0;
    *store =
        place.bf16 ? call->net->body.spaces[place.id].bf16 : call->net->body.spaces[place.id].view;
    return clprune_saved_reshape(*store, *first + call->count, shape->rows, shape->cols);
}

clprune_status clprune__net_source(
    const clprune__net_call *call, size_t need, clprune_saved **store, size_t *first)
{
    return clprune__net_view(call, call->step->in[need],
        clprune__net_needed(&call->net->graph, call->tile, need), store, first);
}

clprune_status clprune__net_product(
    const clprune__net_call *call, size_t need, bool nt, float beta, clprune_mat dy, clprune_mat dw)
{
    clprune_saved *store;
    size_t first;
    if (dw.rows == 0)
        return CLPRUNE_SUCCESS;
    TRY(clprune__net_source(call, need, &store, &first));
    return nt ? clprune_saved_product_nt(store, first, call->count, beta, dy, dw, NULL)
              : clprune_saved_product_tn(store, first, call->count, beta, dy, dw, NULL);
}

/* A tile's output. */
clprune_mat clprune__net_dy(const clprune__net_call *call)
{
    return clprune__net_at(call, call->step->out, call->tile->layers[call->tile->count - 1]);
}

clprune_mat clprune__net_dx(const clprune__net_call *call, size_t k)
{
    return clprune__net_at(call, call->step->dx[k], call->tile->ends[k]);
}

float clprune__net_dx_beta(const clprune__net_call *call, size_t k)
{
    return call->step->adds[k] ? 1.0f : 0.0f;
}

clprune_mat clprune__net_history(const clprune__net_call *call)
{
    const size_t rows = call->net->graph.whole;
    return clprune_mat_rows(clprune__net_unit_of(call->net, call->layer)->history,
        call->first * rows, call->count * rows);
}

clprune_mat clprune__net_temp(const clprune__net_call *call, size_t k)
{
    const clprune__net_place place = call->step->temp[k];
    const clprune__net_size size = call->step->temp_size[k];
    if (place.at == CLPRUNE__NET_SLOT && size.in_all)
        return clprune_mat_of(call->net->body.spaces[place.id].buffer, size.rows, size.cols);
    return mat_at(call, place, size.rows, size.cols);
}

clprune_mat clprune__net_positions(const clprune__net_call *call, const clprune__net_layer *pool)
{
    const size_t out = clprune__net_out(&call->net->graph, pool);
    const size_t rows = call->net->graph.values[out].shape.rows;
    const bool forward = call->step->act == CLPRUNE__NET_FORWARD;
    const bool writes = clprune__net_role_of(call->net, pool)->made_again == 0
                            ? !call->step->again
                            : call->step->again && clprune__net_is_in(call->region, out);
    if (!call->training || (forward && !writes))
        return CLPRUNE_NO_MAT;
    return clprune_mat_rows(clprune__net_unit_of(call->net, pool)->positions,
        clprune__net_role_of(call->net, pool)->made_again > 0 ? 0 : call->first * rows,
        call->count * rows);
}

clprune_mat clprune__net_param_value(
    const clprune_net *net, const clprune__net_layer *layer, size_t k)
{
    return k < layer->params ? net->body.tensors[layer->param[k]].value : CLPRUNE_NO_MAT;
}

clprune_mat clprune__net_grad(
    const clprune__net_call *call, const clprune__net_layer *layer, size_t k)
{
    return k < layer->params ? call->net->body.tensors[layer->param[k]].grad : CLPRUNE_NO_MAT;
}
