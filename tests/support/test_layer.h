/* What the tests of the layers share: shapes, widened inputs, derivatives by differences. */
#ifndef CLPRUNE_TEST_LAYER_H
#define CLPRUNE_TEST_LAYER_H

#include <stdlib.h>
#include <string.h>

#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

/* rows x cols with ld = cols + gap. Columns around the vector widths 4 and 16, up to more than a
 * group's work-items take at once; rows from one to more groups than a second stage adds up. */
typedef struct layer_shape {
    size_t rows, cols, gap;
} layer_shape;

static const layer_shape layer_shapes[] = {{1, 1, 0}, {7, 3, 1}, {7, 4, 0}, {7, 5, 2}, {7, 15, 0},
    {7, 16, 0}, {7, 17, 3}, {60, 64, 0}, {60, 100, 5}, {1500, 20, 0}, {1, 513, 1}, {7, 2100, 7},
    {600, 2049, 0}, {0, 8, 0}, {8, 0, 2}, {0, 0, 0}};

enum { LAYER_SHAPES = sizeof layer_shapes / sizeof layer_shapes[0] };

/* Adds `run` for each shape, the largest left out of short lists. */
static inline void layer_add_shapes(test_list *list, CMUnitTestFunction run, const char *what)
{
    for (size_t i = 0; i < LAYER_SHAPES; i++) {
        const layer_shape *s = &layer_shapes[i];
        if (!test_small() || s->rows * s->cols < 10000)
            test_add(list, run, s, "%s %zu x %zu + %zu", what, s->rows, s->cols, s->gap);
    }
}

static inline double *layer_new(size_t count)
{
    double *values = test_alloc(count * sizeof *values);
    return values;
}

/* An array of the same values. */
static inline double *layer_widen(size_t count, const float *values)
{
    double *wide = layer_new(count);
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

static inline float *layer_narrow(size_t count, const double *values)
{
    float *narrow = test_alloc((count > 0 ? count : 1) * sizeof *narrow);
    for (size_t i = 0; i < count; i++)
        narrow[i] = (float)values[i];
    return narrow;
}

/* Fails unless the elements of `m` are `want` within `bound` and nothing else in the buffer
 * changed. */
static inline void layer_check(const char *what, const test_mat *m, const double *want,
    const double *bound, const char *parameters)
{
    float *got = test_mat_get(m, what);
    test_close(what, m->mat.rows, m->mat.cols, got, want, bound, "%s", parameters);
}

/* Both matrices have the same bits. */
static inline void layer_same(const char *what, const test_mat *a, const test_mat *b)
{
    float *x = test_mat_get(a, what), *y = test_mat_get(b, what);
    test_same_floats(what, a->mat.rows, a->mat.cols, x, y, "two runs");
}

/* An event that the library returned: completes, and is the caller's to release. */
static inline void layer_event(cl_event event)
{
    assert_non_null(event);
    assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
}

/* A function of `count` numbers. */
typedef double (*layer_function)(void *user, const double *x);

/* Fails unless (f(x + step v) - f(x - step v)) / (2 step) is grad . v within `tolerance` of sum
 * |grad v|, for three random v. */
static inline void layer_slopes(const char *what, layer_function f, void *user, size_t count,
    const double *x, const double *grad, double step, double tolerance)
{
    double *moved = layer_new(count);
    for (uint64_t trial = 0; trial < 3; trial++) {
        float *v = test_new_normal(900 + trial, count);
        double slope = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            slope += grad[i] * (double)v[i];
            size += fabs(grad[i] * (double)v[i]);
            moved[i] = x[i] + step * (double)v[i];
        }
        const double ahead = f(user, moved);
        for (size_t i = 0; i < count; i++)
            moved[i] = x[i] - step * (double)v[i];
        const double found = (ahead - f(user, moved)) / (2 * step);
        if (!(fabs(found - slope) <= tolerance * size))
            fail_msg("%s: the slope by differences is %.12g, by the gradient %.12g, allowed %.3g",
                what, found, slope, tolerance * size);
    }
}

/* For the tests of gradients that follow from a weight gradient: a linear layer of LAYER_IN inputs
 * and LAYER_OUT outputs over LAYER_ROWS rows, weights and two vectors in theta. */
enum { LAYER_ROWS = 11, LAYER_IN = 7, LAYER_OUT = 5, LAYER_W = LAYER_OUT * LAYER_IN };

typedef struct layer_product {
    float *theta;                       /* weights, then the vectors */
    double *data;                       /* inputs x, then gradients dy of the outputs */
    float dw[LAYER_W], sums[LAYER_OUT]; /* dy^T (x - centre), and the sums of dy over the rows */
} layer_product;

/* vectors: elements of both together; centre: of x, or NULL for zeros. */
static inline layer_product layer_product_new(uint64_t seed, size_t vectors, const float *centre)
{
    layer_product p = {.theta = test_new_normal(seed, LAYER_W + vectors)};
    float *numbers = test_new_normal(seed + 1, LAYER_ROWS * (LAYER_IN + LAYER_OUT));
    const float *dy = numbers + LAYER_ROWS * LAYER_IN;
    for (size_t r = 0; r < LAYER_ROWS; r++)
        for (size_t o = 0; o < LAYER_OUT; o++) {
            p.sums[o] += dy[r * LAYER_OUT + o];
            for (size_t i = 0; i < LAYER_IN; i++)
                p.dw[o * LAYER_IN + i] +=
                    dy[r * LAYER_OUT + o] *
                    (numbers[r * LAYER_IN + i] - (centre == NULL ? 0 : centre[i]));
        }
    p.data = layer_widen(LAYER_ROWS * (LAYER_IN + LAYER_OUT), numbers);
    return p;
}

/* Compares the three gradients in `out`, in the order of theta, with differences of `loss`, whose
 * `user` is the data. Frees all. */
static inline void layer_product_slopes(layer_product *p, layer_function loss, test_mat *out)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < 3; i++)
        total += out[i].mat.rows * out[i].mat.cols;
    double *theta = layer_widen(total, p->theta), *grad = layer_new(total);
    for (size_t i = 0; i < 3; i++) {
        float *got = test_mat_get(&out[i], "gradient");
        for (size_t k = 0; k < out[i].mat.rows * out[i].mat.cols; k++)
            grad[at++] = (double)got[k];
    }
    layer_slopes("product", loss, p->data, total, theta, grad, 1e-4, 1e-6);
}

#endif
