/* Elements of a sample in any places. The gradient of each is the sum of those of its places. */
#include <stdlib.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/layers/gather_private.h"
#include "runtime/context/check.h"

enum {
    FORTH,
    BACK,
    RUN
}; /* of set.table.at: the lists of y and of x, and the elements of a place */

static clprune_status gather_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    return clprune__net_create_table(graph, layer, layer->set.table.words, unit);
}

/* y, by one of the lists; a row of the matrices becomes a sample. */
static clprune_status run(const clprune__net_call *call, const clprune__net_layer *layer,
    size_t list, clprune_mat x, clprune_mat y)
{
    const size_t cols = y.cols;
    clprune_mat *mats[2] = {&x, &y};
    for (size_t k = 0; k < 2; ++k) {
        mats[k]->cols = mats[k]->ld = mats[k]->rows / call->count * mats[k]->cols;
        mats[k]->rows = call->count;
    }
    return clprune__gather(call->net->context, layer->set.table.at[RUN], cols,
        layer->set.table.at[list],
        clprune__net_unit_of(call->net, layer)->state[CLPRUNE__NET_TABLE], x, y, NULL);
}

static clprune_status gather_forward(const clprune__net_call *call)
{
    return run(call, call->layer, FORTH, clprune__net_x(call, 0), clprune__net_y(call));
}

static const clprune__net_kind gather_kind = {
    .name = "gather", .create = gather_create, .forward = gather_forward};

/* y[i] = x[from[i]] */
static clprune_status gather_backward(const clprune__net_call *call)
{
    return run(
        call, clprune__net_link(call, 0), BACK, clprune__net_dy(call), clprune__net_dx(call, 0));
}

const clprune__net_way clprune__net_gather_ways[] = {
    {.name = "gather", .chain = {&gather_kind}, .backward = gather_backward},
    {.name = NULL},
};

/* Whether runs of so many elements stay together: each comes from one of x's, or from nowhere. */
static bool is_run(const uint32_t *from, size_t elements, size_t run)
{
    for (size_t i = 0; i < elements; ++i) {
        const uint32_t first = from[i - i % run];
        const bool none = first == CLPRUNE_NET_NOWHERE;
        if (none ? from[i] != first : (first % run != 0 || from[i] != first + i % run))
            return false;
    }
    return true;
}

/* Elements of a place: the most that stay together, but 1 where vectors are not worth it. */
static size_t run_of(const uint32_t *from, size_t elements, size_t cols, size_t of_x)
{
    for (size_t run = cols; run >= 4; --run)
        if (cols % run == 0 && of_x % run == 0 && is_run(from, elements, run))
            return run;
    return 1;
}

/* The lists: of each place of y the one of x, and of each of x those of y. */
static void put_lists(float *words, const size_t at[], const uint32_t *from, size_t places,
    size_t of_x, size_t *counts)
{
    const size_t elements = at[RUN];
    float *forth = words + at[FORTH], *back = words + at[BACK];
    size_t taken = 0;
    for (size_t i = 0; i < places; ++i) {
        clprune__net_put_int(&forth[i], taken);
        if (from[i * elements] == CLPRUNE_NET_NOWHERE)
            continue;
        clprune__net_put_int(&forth[places + 1 + taken++], from[i * elements] / elements);
        ++counts[from[i * elements] / elements];
    }
    clprune__net_put_int(&forth[places], taken);
    for (size_t i = 0, sum = 0; i <= of_x; ++i) { /* counts become the next entry of each */
        const size_t count = i < of_x ? counts[i] : 0;
        clprune__net_put_int(&back[i], sum);
        if (i < of_x)
            counts[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < places; ++i)
        if (from[i * elements] != CLPRUNE_NET_NOWHERE)
            clprune__net_put_int(&back[of_x + 1 + counts[from[i * elements] / elements]++], i);
}

/* Fails unless y has elements, as many as an image of the grid if there is one, all of x's. */
static bool check(clprune_net *net, const char *name, const clprune_net_places *places, size_t of_x)
{
    size_t elements;
    if (places == NULL || places->from == NULL || places->rows == 0 || places->cols == 0 ||
        !clprune__mul(places->rows, places->cols, &elements) || elements > INT32_MAX / 2 ||
        of_x > INT32_MAX / 2 ||
        (places->grid.height != 0 &&
            (places->rows % places->grid.height != 0 ||
                places->rows / places->grid.height != places->grid.width))) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its places are NULL, none, more than %d, or no image of their grid", name,
            INT32_MAX / 2);
        return false;
    }
    for (size_t i = 0; i < elements; ++i)
        if (places->from[i] >= of_x && places->from[i] != CLPRUNE_NET_NOWHERE) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: element %zu is from %lu, expected at most %zu, or NOWHERE", name, i,
                (unsigned long)places->from[i], of_x - 1);
            return false;
        }
    return true;
}

clprune_net_value clprune_net_gather(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_places *places)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    const size_t of_x = in != NULL ? in->shape.rows * in->shape.cols : 0;
    if (in == NULL || !check(net, name, places, of_x))
        return (clprune_net_value){0};
    clprune__net_layer *layer = clprune__net_add(net, &gather_kind, name, &x, 1,
        (clprune__net_shape){places->rows, places->cols, places->grid});
    if (layer == NULL)
        return (clprune_net_value){0};
    const size_t elements = places->rows * places->cols;
    size_t *at = layer->set.table.at;
    at[RUN] = run_of(places->from, elements, places->cols, of_x);
    at[FORTH] = 0;
    at[BACK] = 2 * (elements / at[RUN]) + 1;
    layer->set.table.words = at[BACK] + (of_x + elements) / at[RUN] + 1;
    layer->table = calloc(layer->set.table.words, sizeof *layer->table);
    size_t *counts = calloc(of_x / at[RUN], sizeof *counts);
    if (layer->table == NULL || counts == NULL)
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for layer %s", name);
    else
        put_lists(layer->table, at, places->from, elements / at[RUN], of_x / at[RUN], counts);
    free(counts);
    return clprune__net_last(net);
}
