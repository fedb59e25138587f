/* GELU, also by tanh, SiLU, tanh; sigmoid, hard sigmoid, hard swish, 1 / x; ReLU and ReLU6. */
#include "clprune/activation.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_status gelu_forward(const clprune__net_call *call)
{
    clprune_saved *codes = call->training && !call->step->again
                               ? clprune__net_unit_of(call->net, call->layer)->mask
                               : NULL;
    return clprune_activation_forward(call->net->context, call->layer->set.activation, call->first,
        call->count, clprune__net_x(call, 0), CLPRUNE_NO_MAT, clprune__net_y(call), codes, NULL);
}

const clprune__net_kind clprune__net_gelu_kind = {.name = "gelu",
    .by_row = clprune__net_by_row,
    .over = true,
    .mask = CLPRUNE_FORM_GELU_CODE,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_takes_bf16,
    .forward = gelu_forward};
static const clprune__net_kind gelu_tanh_kind = {.name = "gelu tanh",
    .by_row = clprune__net_by_row,
    .as = &clprune__net_gelu_kind,
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .forward = gelu_forward};
static const clprune__net_kind silu_kind = {.name = "silu",
    .by_row = clprune__net_by_row,
    .as = &clprune__net_gelu_kind,
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .forward = gelu_forward};

static const clprune__net_kind tanh_kind = {.name = "tanh",
    .by_row = clprune__net_by_row,
    .as = &clprune__net_gelu_kind,
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .forward = gelu_forward};

/* Those whose derivative has no codes: their backward pass reads x. */
static const clprune__net_kind hard_swish_kind = {.name = "hard swish",
    .by_row = clprune__net_by_row,
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_takes_bf16,
    .forward = gelu_forward};
static const clprune__net_kind hard_sigmoid_kind = {.name = "hard sigmoid",
    .by_row = clprune__net_by_row,
    .as = &hard_swish_kind,
    .over = true,
    .forward = gelu_forward};
static const clprune__net_kind sigmoid_kind = {.name = "sigmoid",
    .by_row = clprune__net_by_row,
    .as = &hard_swish_kind,
    .over = true,
    .forward = gelu_forward};

/* Its slope grows without limit towards 0: x has no error. */
static const clprune__net_kind reciprocal_kind = {
    .name = "reciprocal", .by_row = clprune__net_by_row, .over = true, .forward = gelu_forward};

static clprune_mat sums_of(const clprune__net_call *call)
{
    const clprune__net_layer *before =
        clprune__net_before(&call->net->graph, clprune__net_link(call, 0), 0);
    return call->tile->bias_sums ? clprune__net_grad(call, before, 1) : CLPRUNE_NO_MAT;
}

/* y = f(x), from x or from codes of the derivative at x */
static clprune_status gelu_backward(const clprune__net_call *call)
{
    clprune_saved *store = clprune__net_unit_of(call->net, clprune__net_link(call, 0))->mask;
    size_t first = call->first;
    if (store == NULL)
        TRY(clprune__net_source(call, 0, &store, &first));
    return clprune_activation_backward(call->net->context,
        clprune__net_link(call, 0)->set.activation, first, call->count, store,
        clprune__net_dy(call),
        &(clprune_grads){
            .dx = clprune__net_dx(call, 0), .db = sums_of(call), .beta = clprune__net_beta(call)},
        NULL);
}

static clprune_status relu_forward(const clprune__net_call *call)
{
    clprune_saved *mask =
        call->training ? clprune__net_unit_of(call->net, call->layer)->mask : NULL;
    if (mask != NULL && call->step->again) /* the signs of the first time: linear in x, unbiased */
        return clprune_activation_backward(call->net->context, CLPRUNE_ACTIVATION_RELU, call->first,
            call->count, mask, clprune__net_x(call, 0),
            &(clprune_grads){.dx = clprune__net_y(call)}, NULL);
    return clprune_activation_forward(call->net->context, CLPRUNE_ACTIVATION_RELU, call->first,
        call->count, clprune__net_x(call, 0), CLPRUNE_NO_MAT, clprune__net_y(call), mask, NULL);
}

static clprune__net_signs relu_signs(const clprune__net_layer *layer)
{
    (void)layer;
    return CLPRUNE__NET_SIGNS_OF_SUM;
}

const clprune__net_kind clprune__net_relu_kind = {.name = "relu",
    .over = true,
    .by_row = clprune__net_by_row,
    .signs = relu_signs,
    .forward = relu_forward};

/* Made again, it is that of the restored x: the bits do not tell 0 from 6. */
static clprune_status relu6_forward(const clprune__net_call *call)
{
    clprune_saved *mask = call->training && !call->step->again
                              ? clprune__net_unit_of(call->net, call->layer)->mask
                              : NULL;
    return clprune_activation_forward(call->net->context, CLPRUNE_ACTIVATION_RELU6, call->first,
        call->count, clprune__net_x(call, 0), CLPRUNE_NO_MAT, clprune__net_y(call), mask, NULL);
}

static const clprune__net_kind relu6_kind = {.name = "relu6",
    .over = true,
    .by_row = clprune__net_by_row,
    .signs = relu_signs,
    .forward = relu6_forward};

/* y = max(x, 0), at most 6 of ReLU6, from y or from the signs of x */
static clprune_status relu_backward(const clprune__net_call *call)
{
    const clprune_activation activation = clprune__net_link(call, 0)->kind == &relu6_kind
                                              ? CLPRUNE_ACTIVATION_RELU6
                                              : CLPRUNE_ACTIVATION_RELU;
    clprune_saved *store = clprune__net_unit_of(call->net, clprune__net_link(call, 0))->mask;
    size_t first = call->first;
    if (store == NULL)
        TRY(clprune__net_source(call, 0, &store, &first));
    return clprune_activation_backward(call->net->context, activation, first, call->count, store,
        clprune__net_dy(call),
        &(clprune_grads){
            .dx = clprune__net_dx(call, 0), .db = sums_of(call), .beta = clprune__net_beta(call)},
        NULL);
}

/* From y, or from the signs that are kept. */
#define RELU_WAYS(title, kind)                                                                     \
    {.name = title,                                                                                \
        .chain = {kind},                                                                           \
        .needs = {{0, -1, CLPRUNE__NET_SIGN, false}},                                              \
        .needs_count = 1,                                                                          \
        .ends = {{CLPRUNE__NET_OVER, false}},                                                      \
        .sums = 1,                                                                                 \
        .sums_for = {&clprune__net_linear_kind},                                                   \
        .narrow_dx = true,                                                                         \
        .backward = relu_backward},                                                                \
    {                                                                                              \
        .name = title ", signs", .chain = {kind}, .keeps_mask = true, .level = 1,                  \
        .ends = {{CLPRUNE__NET_OVER, false}}, .sums = 1, .sums_for = {&clprune__net_linear_kind},  \
        .narrow_dx = true, .backward = relu_backward                                               \
    }

const clprune__net_way clprune__net_activation_ways[] = {
    {.name = "gelu",
        .chain = {&clprune__net_gelu_kind},
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .sums = 1,
        .sums_for = {&clprune__net_linear_kind},
        .narrow_dx = true,
        .backward = gelu_backward},
    {.name = "gelu, codes",
        .chain = {&clprune__net_gelu_kind},
        .keeps_mask = true,
        .level = 1,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .sums = 1,
        .sums_for = {&clprune__net_linear_kind},
        .narrow_dx = true,
        .backward = gelu_backward},
    RELU_WAYS("relu", &clprune__net_relu_kind),
    RELU_WAYS("relu6", &relu6_kind),
    {.name = "hard swish",
        .chain = {&hard_swish_kind},
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .sums = 1,
        .sums_for = {&clprune__net_linear_kind},
        .narrow_dx = true,
        .backward = gelu_backward},
    {.name = "reciprocal",
        .chain = {&reciprocal_kind},
        .needs = {{0, 0, CLPRUNE__NET_SIGN, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = gelu_backward},
    {.name = NULL},
};

static clprune_net_value add_activation(clprune_net *net, const clprune__net_kind *kind,
    clprune_activation activation, const char *name, clprune_net_value x)
{
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    clprune__net_layer *layer = clprune__net_add(net, kind, name, &x, 1, in->shape);
    if (layer != NULL && activation != CLPRUNE_ACTIVATION_RELU) /* a ReLU may become a batch norm */
        layer->set.activation = activation;
    return clprune__net_last(net);
}

clprune_net_value clprune_net_gelu(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &clprune__net_gelu_kind, CLPRUNE_ACTIVATION_GELU, name, x);
}

clprune_net_value clprune_net_gelu_tanh(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &gelu_tanh_kind, CLPRUNE_ACTIVATION_GELU_TANH, name, x);
}

clprune_net_value clprune_net_silu(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &silu_kind, CLPRUNE_ACTIVATION_SILU, name, x);
}

clprune_net_value clprune_net_tanh(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &tanh_kind, CLPRUNE_ACTIVATION_TANH, name, x);
}

clprune_net_value clprune_net_sigmoid(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &sigmoid_kind, CLPRUNE_ACTIVATION_SIGMOID, name, x);
}

clprune_net_value clprune_net_hard_sigmoid(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &hard_sigmoid_kind, CLPRUNE_ACTIVATION_HARD_SIGMOID, name, x);
}

clprune_net_value clprune_net_hard_swish(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &hard_swish_kind, CLPRUNE_ACTIVATION_HARD_SWISH, name, x);
}

clprune_net_value clprune_net_reciprocal(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &reciprocal_kind, CLPRUNE_ACTIVATION_RECIPROCAL, name, x);
}

clprune_net_value clprune_net_relu6(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &relu6_kind, CLPRUNE_ACTIVATION_RELU6, name, x);
}

clprune_net_value clprune_net_relu(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_activation(net, &clprune__net_relu_kind, CLPRUNE_ACTIVATION_RELU, name, x);
}
