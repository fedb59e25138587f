/* What a layer's or way's function reads from its call. Matrices have the rows of the call's
 * samples. */
#ifndef CLPRUNE_NET_CALL_H
#define CLPRUNE_NET_CALL_H

#include "net/net_private.h"

/* One call of a layer's or way's function. */
struct clprune__net_call {
    clprune_net *net;
    const clprune_net_data *data;
    const clprune__net_step *step;
    const clprune__net_layer *layer;   /* forward */
    const clprune__net_tile *tile;     /* backward */
    const clprune__net_region *region; /* that runs */
    size_t first, count;               /* samples */
    bool training;
};

/* Layer k of a tile. */
static inline const clprune__net_layer *clprune__net_link(const clprune__net_call *call, size_t k)
{
    return &call->net->graph.layers[call->tile->layers[k]];
}

/* The last layer's output, of `batch` samples. */
static inline clprune_mat clprune__net_output(const clprune_net *net, size_t batch)
{
    const clprune__net_shape *shape = &net->graph.values[net->graph.output].shape;
    return clprune_mat_of(net->body.spaces[0].buffer, batch * shape->rows, shape->cols);
}

/* The data of input `number`. */
static inline clprune_net_input clprune__net_input_at(const clprune_net_data *data, size_t number)
{
    return number > 0 ? data->more[number - 1]
                      : (clprune_net_input){.images = data->images,
                            .rows = data->rows,
                            .rows_grad = data->rows_grad,
                            .tokens = data->tokens};
}

/* The name of a field of input `number` in messages: "data.rows", or of a later one
 * "data.more[0].rows". */
typedef struct clprune__net_field {
    char text[64];
} clprune__net_field;
clprune__net_field clprune__net_field_of(size_t number, const char *field);

/* A layer's objects and memory, and what the plan decided of it. */
static inline clprune__net_unit *clprune__net_unit_of(
    const clprune_net *net, const clprune__net_layer *layer)
{
    return &net->body.units[clprune__net_out(&net->graph, layer)];
}
static inline const clprune__net_role *clprune__net_role_of(
    const clprune_net *net, const clprune__net_layer *layer)
{
    return &net->plan.layers[clprune__net_out(&net->graph, layer)];
}

/* The seed of a layer's random draws, which its output's number tells apart. */
static inline uint64_t clprune__net_layer_seed(
    const clprune_net *net, const clprune__net_layer *layer)
{
    return net->at.drawn + UINT64_C(0x9e3779b97f4a7c15) * clprune__net_out(&net->graph, layer);
}

/* A value at a place. */
clprune_mat clprune__net_at(const clprune__net_call *call, clprune__net_place place, size_t value);

/* Forward: input k, and y. */
clprune_mat clprune__net_x(const clprune__net_call *call, size_t k);
clprune_mat clprune__net_y(const clprune__net_call *call);

/* Backward: what the way needs, as a matrix, of bf16 only for NARROW; absent where it is read from
 * its store. */
clprune_mat clprune__net_operand(const clprune__net_call *call, size_t need);

/* The store that holds what the way needs: the value's own, or a dense view of its slot. *first:
 * the first of the call's samples in it. */
clprune_status clprune__net_source(
    const clprune__net_call *call, size_t need, clprune_saved **store, size_t *first);

/* The same for a value at a place that is a slot or the value's own store. */
clprune_status clprune__net_view(const clprune__net_call *call, clprune__net_place place,
    size_t value, clprune_saved **store, size_t *first);

/* dw = the product of dy with what the way needs + beta * dw: dy^T x, or with nt the sum of
 * dy_n x_n^T. */
clprune_status clprune__net_product(const clprune__net_call *call, size_t need, bool nt, float beta,
    clprune_mat dy, clprune_mat dw);

/* Gradient of the tile's output. */
clprune_mat clprune__net_dy(const clprune__net_call *call);

/* Gradient of end k, absent if not wanted; 1 where it is added to what is there. */
clprune_mat clprune__net_dx(const clprune__net_call *call, size_t k);
float clprune__net_dx_beta(const clprune__net_call *call, size_t k);

/* What the layer keeps of all rows of the call's samples, with desc.rows_at_once; absent without.
 */
clprune_mat clprune__net_history(const clprune__net_call *call);

/* Temporary k of the way. */
clprune_mat clprune__net_temp(const clprune__net_call *call, size_t k);

/* A max pool's positions; absent where they are not needed: in inference, in the first pass if the
 * backward pass of the pool's region makes them again, and where its output is made again without
 * them, or by another region, maybe in other chunks. */
clprune_mat clprune__net_positions(const clprune__net_call *call, const clprune__net_layer *pool);

/* Parameter k of a layer, its gradient, and the factor of its old gradient. */
clprune_mat clprune__net_param_value(
    const clprune_net *net, const clprune__net_layer *layer, size_t k);
clprune_mat clprune__net_grad(
    const clprune__net_call *call, const clprune__net_layer *layer, size_t k);
static inline float clprune__net_beta(const clprune__net_call *call)
{
    return call->first > 0 ? 1.0f : 0.0f;
}

#endif
