/* Ways of chains around a linear layer, which need fewer tensors than the layers one by one. W o G
 * is the product of the elements, dy the gradient of the chain's output.
 *
 *     linear, layerscale     y = x + ls * (t W^T + b)        needs t alone: with G = dy^T t,
 *                            dls = rowsum(W o G) + b * colsum(dy), dW = diag(ls) G
 *     gelu, linear           y = GELU(h) W^T + b             needs h: GELU(h) is made beside its
 *                            derivative, in one pass; or another activation
 *     gelu, linear, layerscale                               both
 *     affine, linear         y = (alpha * x + beta) W^T + b  needs x, in any form: with
 *                            P = dy^T x, dalpha = colsum(W o P), dbeta = W^T colsum(dy),
 *                            dW = P diag(alpha) + colsum(dy)^T beta. P is computed from x - centre
 *                            where x may change: see clprune/affine.h
 *     affine, linear over rows, layerscale                   needs x: clprune/token_mix.h
 *
 * Gradients of inputs are products with scaled weights, so no scaled activation is made. */
#include "clprune/activation.h"
#include "clprune/affine.h"
#include "clprune/layerscale.h"
#include "clprune/token_mean.h"
#include "clprune/token_mix.h"
#include "net/kinds/kinds.h"
#include "net/kinds/net_linear.h"
#include "net/plan/narrow.h"
#include "net/run/call.h"
#include "nn/layers/activation_private.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"

enum { WEIGHT, BIAS };
enum { ALPHA, BETA };

/* ---- [gelu,] linear [, layerscale] -------------------------------------------------------------
 */

typedef struct parts {
    const clprune__net_layer *gelu, *linear, *scale; /* gelu, scale: NULL for none */
    clprune_mat w, scaled; /* of the linear layer; times ls, or w itself */
    size_t end;            /* of the chain's first input */
} parts;

static parts parts_of(const clprune__net_call *call)
{
    parts p = {0};
    for (size_t k = 0; k < call->tile->count; ++k) {
        const clprune__net_layer *layer = clprune__net_link(call, k);
        if (clprune__net_acts_as(layer->kind, &clprune__net_gelu_kind))
            p.gelu = layer;
        else if (layer->kind == &clprune__net_linear_kind)
            p.linear = layer;
        else
            p.scale = layer;
    }
    p.w = clprune__net_param_value(call->net, p.linear, WEIGHT);
    p.scaled = p.scale != NULL ? clprune__net_temp(call, 0) : p.w;
    return p;
}

/* scaled = diag(ls) W; db = colsum(dy), before later layers add to dy's memory */
static clprune_status linear_begin(const clprune__net_call *call)
{
    const parts p = parts_of(call);
    if (p.scale == NULL)
        return CLPRUNE_SUCCESS;
    return clprune_layerscale_weights(
        call->net->context, clprune__net_param_value(call->net, p.scale, 0), p.w, p.scaled, NULL);
}

static clprune_status linear_chunk(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const parts p = parts_of(call);
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const clprune_mat dw = clprune__net_grad(call, p.linear, WEIGHT);
    const float beta = clprune__net_beta(call);
    /* y = ... + b */
    if (!clprune__net_role_of(call->net, p.linear)->bias_sums)
        TRY(clprune_linear_backward(clprune__net_unit_of(call->net, p.linear)->op.linear,
            call->count, NULL, dy, CLPRUNE_NO_MAT,
            &(clprune_grads){.db = clprune__net_grad(call, p.linear, BIAS), .beta = beta}, NULL));
    if (p.gelu == NULL) { /* y = t W^T */
        TRY(clprune__net_product(call, 0, false, beta, dy, dw));
        if (dx.rows == 0)
            return CLPRUNE_SUCCESS;
        return clprune_gemm(
            context, false, false, 1.0f, clprune__net_dx_beta(call, 0), dy, p.scaled, dx, NULL);
    }
    /* y = g W^T, g = GELU(h): dg takes the place of dh, unless that is of bf16, as g then is */
    clprune_saved *store;
    size_t first;
    const bool narrow = dx.type == CLPRUNE_VALUES_BF16;
    const clprune_mat h = clprune__net_operand(call, 0),
                      dg = narrow ? clprune__net_temp(call, 2) : dx;
    const clprune_mat sums =
        call->tile->bias_sums
            ? clprune__net_grad(call, clprune__net_before(&call->net->graph, p.gelu, 0), BIAS)
            : CLPRUNE_NO_MAT;
    const bool over = !narrow && h.rows > 0 && call->step->last[0];
    const clprune_mat g = over     ? h
                          : narrow ? clprune__pairs_of(clprune__net_temp(call, 1))
                                   : clprune__net_temp(call, 1);
    TRY(clprune_gemm(context, false, false, 1.0f, 0.0f, dy, p.scaled, dg, NULL));
    if (over) {
        TRY(clprune__gelu_backward(
            context, p.gelu->set.activation, beta, true, h, dg, g, dx, sums, NULL));
    } else {
        TRY(clprune__net_source(call, 0, &store, &first));
        TRY(clprune_activation_backward_recompute(context, p.gelu->set.activation, first,
            call->count, store, dg, g, &(clprune_grads){.dx = dx, .db = sums, .beta = beta}, NULL));
    }
    return clprune_gemm(context, true, false, 1.0f, beta, dy, g, dw, NULL);
}

static clprune_status linear_end(const clprune__net_call *call)
{
    const parts p = parts_of(call);
    if (p.scale == NULL)
        return CLPRUNE_SUCCESS;
    return clprune_layerscale_backward_product(call->net->context, 0.0f, p.w,
        clprune__net_param_value(call->net, p.linear, BIAS),
        clprune__net_param_value(call->net, p.scale, 0), clprune__net_grad(call, p.scale, 0),
        clprune__net_grad(call, p.linear, WEIGHT), clprune__net_grad(call, p.linear, BIAS), NULL);
}

static clprune__net_size scaled_size(const clprune__net_layer *linear)
{
    return (clprune__net_size){
        linear->set.sizes[1], linear->set.sizes[0], true, CLPRUNE__NET_OF_REGION};
}

static clprune__net_size scale_temp(
    const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    return index == 0 ? scaled_size(&plan->graph->layers[layers[0]])
                      : (clprune__net_size){.rows = 0};
}

/* GELU's output, unless it takes the place of a dense h; if the gradient of h is of bf16, so is
 * that, beside the output's gradient. */
static clprune__net_size gelu_temp(
    const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    const clprune__net_shape *g = &plan->graph->values[layers[0]].shape;
    const clprune__net_tile *tile = clprune__net_tile_of(plan, layers[0]);
    const bool narrow = clprune__net_is_narrow_grad(plan, tile, 0);
    if (index == 0 &&
        plan->graph->layers[tile->layers[tile->count - 1]].kind == &clprune__net_layerscale_kind)
        return scaled_size(&plan->graph->layers[layers[1]]);
    if (index == 1)
        return (clprune__net_size){
            g->rows, g->cols / (narrow ? 2 : 1), false, CLPRUNE__NET_OF_CALL, !narrow};
    return index == 2 && narrow ? (clprune__net_size){g->rows, g->cols, false, CLPRUNE__NET_OF_CALL}
                                : (clprune__net_size){.rows = 0};
}

/* ---- affine, linear ----------------------------------------------------------------------------
 */

/* scaled = W diag(alpha); a centre of 0 */
static clprune_status affine_begin(const clprune__net_call *call)
{
    const clprune__net_layer *affine = clprune__net_link(call, 0);
    const clprune__net_layer *linear = clprune__net_link(call, 1);
    TRY(clprune_affine_weights(call->net->context,
        clprune__net_param_value(call->net, affine, ALPHA),
        clprune__net_param_value(call->net, linear, WEIGHT), clprune__net_temp(call, 0), NULL));
    return clprune_mat_fill(call->net->context, 0.0f, clprune__net_temp(call, 1), NULL);
}

static clprune_status affine_chunk(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *linear = clprune__net_link(call, 1);
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const clprune_mat x = clprune__net_operand(call, 0), centre = clprune__net_temp(call, 1);
    const float beta = clprune__net_beta(call);
    if (!clprune__net_role_of(call->net, linear)->bias_sums)
        TRY(clprune_linear_backward(clprune__net_unit_of(call->net, linear)->op.linear, call->count,
            NULL, dy, CLPRUNE_NO_MAT,
            &(clprune_grads){.db = clprune__net_grad(call, linear, BIAS), .beta = beta}, NULL));
    if (x.rows > 0 && call->step->last[0]) { /* the mean of a sample */
        if (call->first == 0)
            TRY(clprune_token_mean_forward(context, 1, x.rows / call->count,
                clprune_mat_rows(x, 0, x.rows / call->count), centre, NULL));
        TRY(clprune_affine_centre(context, centre, x, NULL));
    }
    TRY(clprune__net_product(call, 0, false, beta, dy, clprune__net_grad(call, linear, WEIGHT)));
    if (dx.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune_gemm(context, false, false, 1.0f, clprune__net_dx_beta(call, 0), dy,
        clprune__net_temp(call, 0), dx, NULL);
}

static clprune_status affine_end(const clprune__net_call *call)
{
    const clprune__net_layer *affine = clprune__net_link(call, 0);
    const clprune__net_layer *linear = clprune__net_link(call, 1);
    return clprune_affine_backward_product(call->net->context, 0.0f,
        clprune__net_param_value(call->net, linear, WEIGHT),
        &(clprune_affine){clprune__net_param_value(call->net, affine, ALPHA),
            clprune__net_param_value(call->net, affine, BETA)},
        clprune__net_temp(call, 1), clprune__net_grad(call, linear, BIAS),
        clprune__net_grad(call, linear, WEIGHT),
        &(clprune_affine){
            clprune__net_grad(call, affine, ALPHA), clprune__net_grad(call, affine, BETA)},
        NULL);
}

static clprune__net_size affine_temp(
    const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    const clprune__net_layer *linear = &plan->graph->layers[layers[1]];
    if (index == 0)
        return scaled_size(linear);
    return index == 1 ? (clprune__net_size){1, linear->set.sizes[0], true, CLPRUNE__NET_OF_REGION}
                      : (clprune__net_size){.rows = 0};
}

/* ---- affine, linear over rows, layerscale ------------------------------------------------------
 */

static clprune_token_mix mix_of(const clprune__net_call *call, bool grads)
{
    clprune_mat mats[5];
    for (size_t i = 0; i < 5; ++i) {
        const clprune__net_layer *layer = clprune__net_link(call, i / 2);
        mats[i] = grads ? clprune__net_grad(call, layer, i % 2)
                        : clprune__net_param_value(call->net, layer, i % 2);
    }
    return (clprune_token_mix){mats[0], mats[1], mats[2], mats[3], mats[4], {0}};
}

/* y = x + ls * (W (alpha * x + beta) + b) */
static clprune_status mix_chunk(const clprune__net_call *call)
{
    const clprune_token_mix params = mix_of(call, false), grads = mix_of(call, true);
    return clprune_token_mix_backward(call->net->context, call->count, clprune__net_beta(call),
        clprune__net_operand(call, 0), &params, clprune__net_dy(call), clprune__net_temp(call, 0),
        &grads, NULL);
}

static clprune__net_size mix_temp(const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    const clprune__net_shape *shape = &plan->graph->values[layers[0]].shape;
    return index == 0 ? (clprune__net_size){shape->rows, shape->cols, false, CLPRUNE__NET_OF_CALL}
                      : (clprune__net_size){.rows = 0};
}

/* Whether a linear layer has a bias, whose gradient these identities need. */
static bool has_bias(const clprune__net_graph *graph, size_t linear)
{
    return graph->layers[linear].params > BIAS;
}

static bool affine_fits(const clprune__net_graph *graph, const size_t *layers)
{
    return has_bias(graph, layers[1]);
}

/* One x goes to both, and W is square. */
static bool mix_fits(const clprune__net_graph *graph, const size_t *layers)
{
    const clprune__net_layer *scale = &graph->layers[layers[2]];
    return has_bias(graph, layers[1]) && scale->in[0] == graph->layers[layers[0]].in[0] &&
           scale->in[1] == layers[1];
}

/* t, the linear layer's output, is the scaled one. */
static bool scale_fits(const clprune__net_graph *graph, const size_t *layers)
{
    return has_bias(graph, layers[0]) && graph->layers[layers[1]].in[1] == layers[0];
}

static bool gelu_scale_fits(const clprune__net_graph *graph, const size_t *layers)
{
    return has_bias(graph, layers[1]) && graph->layers[layers[2]].in[1] == layers[1];
}

const clprune__net_way clprune__net_identities[] = {
    {.name = "affine, linear over rows, layerscale",
        .chain = {&clprune__net_affine_kind, &clprune__net_linear_rows_kind,
            &clprune__net_layerscale_kind},
        .level = 2,
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_INTO, false}, {CLPRUNE__NET_NONE, false}},
        .fits = mix_fits,
        .temp = mix_temp,
        .backward = mix_chunk},
    {.name = "gelu, linear, layerscale",
        .chain = {&clprune__net_gelu_kind, &clprune__net_linear_kind,
            &clprune__net_layerscale_kind},
        .level = 2,
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_PASS, false}},
        .sums = 1,
        .sums_for = {&clprune__net_linear_kind},
        .narrow_dx = true,
        .fits = gelu_scale_fits,
        .temp = gelu_temp,
        .begin = linear_begin,
        .backward = linear_chunk,
        .end = linear_end},
    {.name = "gelu, linear",
        .chain = {&clprune__net_gelu_kind, &clprune__net_linear_kind},
        .level = 2,
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}},
        .sums = 1,
        .sums_for = {&clprune__net_linear_kind},
        .narrow_dx = true,
        .temp = gelu_temp,
        .backward = linear_chunk},
    {.name = "linear, layerscale",
        .chain = {&clprune__net_linear_kind, &clprune__net_layerscale_kind},
        .level = 2,
        .needs = {{0, 0, CLPRUNE__NET_PRODUCT, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}, {CLPRUNE__NET_PASS, false}},
        .fits = scale_fits,
        .temp = scale_temp,
        .begin = linear_begin,
        .backward = linear_chunk,
        .end = linear_end},
    {.name = "affine, linear",
        .chain = {&clprune__net_affine_kind, &clprune__net_linear_kind},
        .level = 2,
        .needs = {{0, 0, CLPRUNE__NET_PRODUCT, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .narrow_dy = clprune__net_linear_narrow_dy,
        .fits = affine_fits,
        .temp = affine_temp,
        .begin = affine_begin,
        .backward = affine_chunk,
        .end = affine_end},
    {.name = NULL},
};
