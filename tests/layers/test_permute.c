/* Permuted axes: each element's place, for windows, shuffled features and pixels, and transposed
 * samples; the gradient puts each back. */
#include "clprune/permute.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t batch;
    clprune_permute_desc desc;
    size_t gap;
} shape;

/* The names say what they are for. */
static const struct {
    const char *name;
    shape shape;
} shapes[] = {{"windows", {2, {5, {3, 4, 2, 4, 24}, {0, 2, 1, 3, 4}}, 3}},
    {"windows of one feature", {3, {5, {3, 4, 2, 4, 1}, {0, 2, 1, 3, 4}}}},
    {"channel shuffle", {7, {3, {5, 3, 40}, {0, 2, 1}}}},
    {"pixel shuffle", {2, {5, {3, 5, 4, 2, 2}, {0, 3, 1, 4, 2}}}},
    {"transposed", {3, {2, {33, 70}, {1, 0}}}},
    {"all axes back", {1, {4, {2, 3, 4, 5}, {3, 2, 1, 0}}}},
    {"eight axes", {1, {8, {2, 1, 2, 3, 2, 2, 1, 2}, {7, 5, 6, 0, 3, 1, 2, 4}}}},
    {"eight axes, all apart", {2, {8, {2, 2, 2, 3, 2, 2, 2, 2}, {1, 0, 3, 2, 5, 4, 7, 6}}}},
    {"as it is", {3, {3, {4, 5, 6}, {0, 1, 2}}}}, {"one", {1, {1, {1}, {0}}}},
    {"wide", {1, {3, {2, 3, 2064}, {1, 0, 2}}}}, {"no samples", {0, {2, {3, 4}, {1, 0}}}},
    {"no elements", {2, {2, {3, 0}, {1, 0}}}}};

static size_t elements_of(const shape *s)
{
    size_t elements = 1;
    for (size_t k = 0; k < s->desc.rank; k++)
        elements *= s->desc.extents[k];
    return elements;
}

LAYER_SIZE(size_x, shape, s->batch, elements_of(s), s->gap)

/* y from x, index by index; or x from y. */
static void permute(const layer_data *d, bool back)
{
    const shape *s = d->shape;
    const size_t elements = elements_of(s), rank = s->desc.rank;
    for (size_t i = 0; i < d->count; i++) {
        size_t index[CLPRUNE_PERMUTE_RANK], left = i % elements, to = 0;
        for (size_t k = rank; k-- > 0; left /= s->desc.extents[k])
            index[k] = left % s->desc.extents[k];
        for (size_t k = 0; k < rank; k++)
            to = to * s->desc.extents[s->desc.order[k]] + index[s->desc.order[k]];
        to += i / elements * elements;
        d[1].want[back ? i : to] = d->in[back ? to : i];
    }
}

static void ref_forward(const layer_data *d)
{
    permute(d, false);
}

static void ref_backward(const layer_data *d)
{
    permute(d, true);
}

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_permute_desc desc = clprune_permute_back(&s->desc);
    return clprune_permute(c->context, &desc, c->m[0], c->m[1], c->event);
}

LAYER_CALL_OF(forward, shape, clprune_permute(c->context, &s->desc, m[0], m[1], c->event))

static const layer_case forward = {"forward", {{"x", LAYER_IN, size_x}, {"y", LAYER_OUT, size_x}},
    call_forward, ref_forward, NULL};
static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_x}, {"dx", LAYER_OUT, size_x}}, call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {2, {3, {2, 3, 4}, {2, 0, 1}}};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-2, 1e-8, 1e-2, 1e-5, 1e-6});
}

static void bad(NO_ROW)
{
    static const struct {
        clprune_permute_desc desc;
        clprune_status status;
        const char *text;
    } rows[] = {{{0, {0}, {0}}, CLPRUNE_INVALID_ARGUMENT, "desc has 0 axes, expected 1 to 8"},
        {{9, {0}, {0}}, CLPRUNE_INVALID_ARGUMENT, "desc has 9 axes"},
        {{2, {2, 10}, {0, 0}}, CLPRUNE_INVALID_ARGUMENT, "axis 1 of y is axis 0 of 2"},
        {{2, {2, 10}, {0, 2}}, CLPRUNE_INVALID_ARGUMENT, "axis 1 of y is axis 2 of 2"},
        {{2, {3, 10}, {1, 0}}, CLPRUNE_INVALID_SIZE, "x is 2 x 10, expected 2 x 30"},
        {{2, {SIZE_MAX, 2}, {1, 0}}, CLPRUNE_SIZE_OVERFLOW, "overflow"}};
    test_mat x = test_mat_make(2, 10, 0, NULL), y = test_mat_make(2, 10, 0, NULL);
    clprune_context *context = test_context();
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        TEST_FAILS(clprune_permute(context, &rows[i].desc, x.mat, y.mat, NULL), rows[i].status,
            rows[i].text);
    TEST_FAILS(clprune_permute(context, NULL, x.mat, y.mat, NULL), CLPRUNE_INVALID_ARGUMENT,
        "desc has 0 axes");
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        layer_add_one(&list, &forward, &shapes[i].shape, "%s", shapes[i].name);
        layer_add_one(&list, &backward, &shapes[i].shape, "%s", shapes[i].name);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, bad, NULL, "bad");
    return test_run_on_devices("permute", &list);
}
