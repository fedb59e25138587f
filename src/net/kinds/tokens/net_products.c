/* Products of two values, one for each head of each part of a sample: attention in any shape, from
 * its operations. */
#include <math.h>

#include "clprune/gemm.h"
#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

enum { A, B, Y, MATS };

/* A matrix of all heads: those of each head are rows x cols, below each other or side by side. */
typedef struct operand {
    clprune_mat mat;
    size_t rows, cols;
    bool transpose, below;
} operand;

static operand operand_of(const clprune_net_products *set, size_t k, clprune_mat mat, size_t parts)
{
    operand o = {.mat = mat,
        .rows = mat.rows / parts,
        .cols = mat.cols,
        .transpose = k == A ? set->transpose_a : k == B && set->transpose_b,
        .below = k == A   ? set->a_below
                 : k == B ? set->b_below
                          : set->y_below};
    *(o.below ? &o.rows : &o.cols) /= set->heads;
    return o;
}

/* Elements from a part of a sample to the next. */
static size_t stride_of(const operand *o, size_t heads)
{
    return (o->below ? heads : 1) * o->rows * o->mat.ld;
}

static clprune_mat head_of(const operand *o, size_t head)
{
    clprune_mat mat = o->mat;
    mat.offset += head * (o->below ? o->rows * mat.ld : o->cols);
    mat.rows = o->rows;
    mat.cols = o->cols;
    return mat;
}

/* c = factor * a b + beta * c, for all heads of `parts` parts. */
static clprune_status multiply(const clprune__net_call *call, const clprune_net_products *set,
    size_t parts, float beta, operand a, operand b, operand c)
{
    const bool below = a.below && b.below && c.below; /* all in one */
    const size_t times = below ? 1 : set->heads, heads = below ? 1 : set->heads;
    for (size_t head = 0; head < times; ++head)
        TRY(clprune_gemm_batched(call->net->context, below ? parts * set->heads : parts,
            a.transpose, b.transpose, set->factor, beta, head_of(&a, head), stride_of(&a, heads),
            head_of(&b, head), stride_of(&b, heads), head_of(&c, head), stride_of(&c, heads),
            NULL));
    return CLPRUNE_SUCCESS;
}

static clprune_status products_forward(const clprune__net_call *call)
{
    const clprune_net_products *set = &call->layer->set.products;
    const size_t parts = call->count * set->parts;
    clprune_context *context = call->net->context;
    REQUIRE(call->data->lengths.buffer == NULL && call->data->starts.buffer == NULL,
        CLPRUNE_INVALID_ARGUMENT,
        "layer %s is a product of two values, which takes no data.lengths and no starts",
        call->layer->name);
    return multiply(call, set, parts, 0, operand_of(set, A, clprune__net_x(call, A), parts),
        operand_of(set, B, clprune__net_x(call, B), parts),
        operand_of(set, Y, clprune__net_y(call), parts));
}

static double products_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *a = clprune__net_in_shape(graph, layer, A),
                             *y = &graph->values[clprune__net_out(graph, layer)].shape;
    const clprune_net_products *set = &layer->set.products;
    const size_t inner = set->transpose_a ? a->rows / set->parts / (set->a_below ? set->heads : 1)
                                          : a->cols / (set->a_below ? 1 : set->heads);
    return (double)y->rows * (double)y->cols * (double)inner;
}

static const clprune__net_kind products_kind = {
    .name = "products", .forward = products_forward, .work = products_work};

static operand transposed(operand o, bool transpose)
{
    o.transpose = transpose;
    return o;
}

/* y = factor * op(a) op(b), so the gradient of op(a) is factor * dy op(b)^T, and that of op(b)
 * factor * op(a)^T dy. */
static clprune_status products_backward(const clprune__net_call *call)
{
    const clprune_net_products *set = &clprune__net_link(call, 0)->set.products;
    const size_t parts = call->count * set->parts;
    const clprune_mat da = clprune__net_dx(call, A), db = clprune__net_dx(call, B);
    const operand a = operand_of(set, A, clprune__net_operand(call, A), parts),
                  b = operand_of(set, B, clprune__net_operand(call, B), parts),
                  dy = operand_of(set, Y, clprune__net_dy(call), parts);
    if (!clprune__is_absent(da)) {
        const operand c = operand_of(set, A, da, parts);
        const float beta = clprune__net_dx_beta(call, A);
        TRY(set->transpose_a
                ? multiply(call, set, parts, beta, b, transposed(dy, true), c)
                : multiply(call, set, parts, beta, dy, transposed(b, !set->transpose_b), c));
    }
    if (!clprune__is_absent(db)) {
        const operand c = operand_of(set, B, db, parts);
        const float beta = clprune__net_dx_beta(call, B);
        TRY(set->transpose_b
                ? multiply(call, set, parts, beta, transposed(dy, true), a, c)
                : multiply(call, set, parts, beta, transposed(a, !set->transpose_a), dy, c));
    }
    return CLPRUNE_SUCCESS;
}

const clprune__net_way clprune__net_products_ways[] = {
    {.name = "products",
        .chain = {&products_kind},
        .needs = {{0, A, CLPRUNE__NET_DENSE, false, 8},
            {0, B, CLPRUNE__NET_DENSE, false, 8}}, /* made again, scores grow by exp */
        .needs_count = 2,
        .ends = {{CLPRUNE__NET_APART, true}, {CLPRUNE__NET_APART, true}},
        .backward = products_backward},
    {.name = NULL},
};

/* Rows and columns of op(a) or op(b) of one head; false if the value has none. */
static bool sizes_of(
    const clprune_net_products *set, size_t k, clprune__net_shape shape, size_t *rows, size_t *cols)
{
    const size_t heads = set->heads, all = set->parts;
    if (heads == 0 || all == 0 || shape.rows % all != 0 ||
        ((k == A ? set->a_below : set->b_below) ? shape.rows / all : shape.cols) % heads != 0)
        return false;
    const operand o =
        operand_of(set, k, (clprune_mat){.rows = shape.rows, .cols = shape.cols}, all);
    *rows = o.transpose ? o.cols : o.rows;
    *cols = o.transpose ? o.rows : o.cols;
    return true;
}

clprune_net_value clprune_net_product(clprune_net *net, const char *name, clprune_net_value a,
    clprune_net_value b, const clprune_net_products *products)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *first = clprune__net_read(net, name, a);
    const clprune__net_value *second = clprune__net_read(net, name, b);
    if (first == NULL || second == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape one = first->shape, other = second->shape;
    clprune_net_products set = products != NULL ? *products : (clprune_net_products){0};
    for (size_t i = 0; i < sizeof set.reserved / sizeof *set.reserved; ++i)
        if (set.reserved[i] != 0)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: a reserved field is not 0; zero-initialise clprune_net_products", name);
    if (!isfinite(set.factor))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its factor is %g, expected a finite number", name, (double)set.factor);
    set.parts = set.parts > 0 ? set.parts : 1;
    set.heads = set.heads > 0 ? set.heads : 1;
    set.factor = set.factor != 0 ? set.factor : 1;
    size_t m = 0, k = 0, inner = 0, n = 0, rows = 0, cols = 0;
    if (!sizes_of(&set, A, one, &m, &k) || !sizes_of(&set, B, other, &inner, &n) || k != inner) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu x %zu and %zu x %zu are not %zu parts of %zu heads whose products exist",
            name, one.rows, one.cols, other.rows, other.cols, set.parts, set.heads);
        return (clprune_net_value){0};
    }
    if (!clprune__mul(m, set.parts * (set.y_below ? set.heads : 1), &rows) ||
        !clprune__mul(n, set.y_below ? 1 : set.heads, &cols)) {
        clprune__net_wrong(
            net, CLPRUNE_SIZE_OVERFLOW, "layer %s: its products are too large", name);
        return (clprune_net_value){0};
    }
    clprune__net_layer *layer = clprune__net_add(net, &products_kind, name,
        (const clprune_net_value[]){a, b}, 2, (clprune__net_shape){rows, cols, {0, 0}});
    if (layer != NULL)
        layer->set.products = set;
    return clprune__net_last(net);
}
