/* RMS norm of heads: of groups of a row's columns, by one weight. The other columns stay: so
 * queries and keys that lie beside each other are normalised where they are. The statistics of the
 * first pass are kept, 4 bytes a row and head, as in net_layer_norm.c. */
#include "clprune/rms_norm.h"

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"
#include "runtime/memory/matrix_private.h"

enum { GAMMA };

/* Whether the heads of m are one matrix, with a row for each. */
static bool is_plain(const clprune__net_heads *set, clprune_mat m)
{
    return clprune__is_absent(m) || (m.cols == set->heads * set->cols && m.ld == m.cols);
}

/* Head h of m, which has `cols` columns a head from column `first` on; or all heads, below each
 * other, if they are plain. */
static clprune_mat head_of(
    const clprune__net_heads *set, clprune_mat m, size_t first, size_t cols, bool plain, size_t h)
{
    if (clprune__is_absent(m))
        return m;
    if (plain)
        return (clprune_mat){m.buffer, m.offset, m.rows * set->heads, cols, cols, m.type};
    m.offset += first + h * cols;
    m.cols = cols;
    return m;
}

static clprune_mat stats_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    const size_t rows = clprune__net_in_shape(&call->net->graph, layer, 0)->rows;
    return clprune_mat_rows(
        clprune__net_unit_of(call->net, layer)->state[0], call->first * rows, call->count * rows);
}

/* Copies the columns that stay, unless they are in place. */
static clprune_status copy_others(
    clprune_context *context, const clprune__net_heads *set, clprune_mat from, clprune_mat to)
{
    const size_t end = set->first + set->heads * set->cols;
    const size_t firsts[] = {0, end}, counts[] = {set->first, from.cols - end};
    bool same;
    TRY(clprune__is_in_place(context, from, to, &same));
    for (size_t i = 0; i < 2 && !same; ++i) {
        clprune_mat some = from, place = to;
        some.offset += firsts[i];
        place.offset += firsts[i];
        some.cols = place.cols = counts[i];
        if (counts[i] > 0)
            TRY(clprune_mat_copy(context, some, place, NULL));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status head_norm_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *layer = call->layer;
    const clprune__net_heads *set = &layer->set.heads;
    const clprune_mat gamma = clprune__net_param_value(call->net, layer, GAMMA);
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    const clprune_mat stats =
        call->training || call->step->again ? stats_of(call, layer) : CLPRUNE_NO_MAT;
    const bool plain = is_plain(set, x) && is_plain(set, y);
    TRY(copy_others(context, set, x, y));
    for (size_t h = 0; h < (plain ? 1 : set->heads); ++h) {
        const clprune_mat from = head_of(set, x, set->first, set->cols, plain, h);
        const clprune_mat to = head_of(set, y, set->first, set->cols, plain, h);
        const clprune_mat inv = head_of(set, stats, 0, 1, plain, h);
        TRY(call->step->again
                ? clprune_rms_norm_apply(context, from, inv, gamma, to, NULL)
                : clprune_rms_norm_forward(context, layer->eps, from, gamma, to, inv, NULL));
    }
    return CLPRUNE_SUCCESS;
}

/* Columns that stay are copied as floats. */
static bool head_norm_takes_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    const clprune__net_heads *set = &layer->set.heads;
    return clprune__net_in_shape(graph, layer, k)->cols == set->heads * set->cols;
}

static const clprune__net_kind head_norm_kind = {.name = "head_norm",
    .by_row = clprune__net_by_row,
    .over = true,
    .takes_bf16 = head_norm_takes_bf16,
    .forward = head_norm_forward};

/* y = gamma * x * inv in each head; other columns are x */
static clprune_status head_norm_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune__net_heads *set = &layer->set.heads;
    const clprune_mat gamma = clprune__net_param_value(call->net, layer, GAMMA);
    const clprune_mat dgamma = clprune__net_grad(call, layer, GAMMA);
    const clprune_mat x = clprune__net_operand(call, 0), stats = stats_of(call, layer);
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const bool plain = is_plain(set, x) && is_plain(set, dy) && is_plain(set, dx);
    if (!clprune__is_absent(dx))
        TRY(copy_others(context, set, dy, dx));
    for (size_t h = 0; h < (plain ? 1 : set->heads); ++h)
        TRY(clprune_rms_norm_backward(context, h == 0 ? clprune__net_beta(call) : 1.0f, 0,
            head_of(set, x, set->first, set->cols, plain, h), head_of(set, stats, 0, 1, plain, h),
            gamma, head_of(set, dy, set->first, set->cols, plain, h),
            head_of(set, dx, set->first, set->cols, plain, h), dgamma, NULL));
    return CLPRUNE_SUCCESS;
}

static clprune_status create_stats(clprune_net *net, const size_t *layers)
{
    return clprune_mat_create(net->context, CLPRUNE_MEMORY_ACTIVATIONS, "head norm statistics",
        net->graph.desc.batch * net->graph.values[layers[0]].shape.rows,
        net->graph.layers[layers[0]].set.heads.heads, &net->body.units[layers[0]].state[0]);
}

enum { SUM_BITS = 8 }; /* as of other norms */

const clprune__net_way clprune__net_head_norm_ways[] = {
    {.name = "head norm",
        .chain = {&head_norm_kind},
        .needs = {{0, 0, CLPRUNE__NET_NARROW, false, SUM_BITS}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .create = create_stats,
        .backward = head_norm_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_head_norm(clprune_net *net, const char *name, clprune_net_value x,
    size_t first, size_t heads, size_t cols)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    size_t end = 0;
    if (heads == 0 || cols == 0 || !clprune__mul(heads, cols, &end) ||
        !clprune__add(first, end, &end) || end > in->shape.cols)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its input has %zu columns, expected those of %zu heads of %zu behind %zu, "
            "none of them 0",
            name, in->shape.cols, heads, cols, first);
    clprune__net_layer *layer = clprune__net_add(net, &head_norm_kind, name, &x, 1, in->shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->eps = net->draft.eps;
    layer->set.heads = (clprune__net_heads){first, heads, cols};
    clprune__net_add_param(
        net, ".weight", (clprune__net_param){.rank = 1, .shape = {cols}, .value = 1});
    return clprune__net_last(net);
}
