/* BSpMM against the reference in double, over the list of shapes and of alpha and beta.
 *
 * beta = 0 never reads dw. With all blocks kept the result is the dense product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bspmm_ref.h"
#include "ref/bsr_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_index.h"
#include "support/test_rng.h"
#include "support/test_shapes.h"

typedef enum product { TN, NT, NN } product;

static const char *const product_names[] = {"tn", "nt", "nn"};

static const float scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 0.25f}};

/* A random BSR matrix on the device, and its dense form. */
typedef struct operand {
    test_bsr device;
    float *dense;
} operand;

static operand make_operand(uint64_t seed, clprune_bsr_desc d)
{
    bsr_ref ref = bsr_ref_make(d.batch, d.rows, d.cols, d.block.rows, d.block.cols, d.keep);
    float *x = test_new_normal(seed, d.batch * d.rows * d.cols);
    unsigned char *mask = test_alloc(d.batch * ref.blocks);
    test_rng rng = {seed + 1};
    for (size_t n = 0; n < d.batch; n++)
        for (size_t i = 0, left = d.keep; i < ref.blocks; i++)
            if (test_rng_below(&rng, ref.blocks - i) < left) {
                mask[n * ref.blocks + i] = 1;
                left--;
            }
    bsr_ref_pack(&ref, x, mask);
    operand made = {.dense = bsr_ref_unpack(&ref)};
    made.device = test_bsr_of(d, &ref);
    return made;
}

/* The sizes of the other operand and of the output of a product. */
typedef struct sides {
    size_t in_rows, in_cols, out_rows, out_cols;
} sides;

static sides sides_of(product p, clprune_bsr_desc d, size_t o)
{
    switch (p) {
    case TN:
        return (sides){d.batch * d.rows, o, o, d.cols};
    case NT:
        return (sides){d.batch * o, d.cols, o, d.rows};
    default:
        return (sides){d.cols, o, d.batch * d.rows, o};
    }
}

static clprune_status multiply_on(clprune_context *context, product p, float alpha, float beta,
    clprune_mat in, const clprune_bsr *xs, clprune_mat out, cl_event *event)
{
    switch (p) {
    case TN:
        return clprune_bspmm_tn(context, alpha, beta, in, xs, out, event);
    case NT:
        return clprune_bspmm_nt(context, alpha, beta, in, xs, out, event);
    default:
        return clprune_bspmm_nn(context, alpha, beta, xs, in, out, event);
    }
}

static clprune_status multiply(product p, float alpha, float beta, clprune_mat in,
    const clprune_bsr *xs, clprune_mat out, cl_event *event)
{
    return multiply_on(test_context(), p, alpha, beta, in, xs, out, event);
}

static gemm_ref reference(product p, clprune_bsr_desc d, size_t o, float alpha, float beta,
    const float *in, const float *xs, const float *out)
{
    const bspmm_ref_sizes s = {d.batch, d.rows, d.cols, o};
    switch (p) {
    case TN:
        return bspmm_ref_tn(s, alpha, beta, in, xs, out);
    case NT:
        return bspmm_ref_nt(s, alpha, beta, in, xs, out);
    default:
        return bspmm_ref_nn(s, alpha, beta, xs, in, out);
    }
}

static void against_reference(const test_shape *shape, product p)
{
    const clprune_bsr_desc d = shape->desc;
    const size_t o = shape->outputs;
    const sides side = sides_of(p, d, o);
    operand xs = make_operand(91, d);
    float *in = test_new_normal(92, side.in_rows * side.in_cols);
    float *old = test_new_normal(93, side.out_rows * side.out_cols);
    const size_t gap = side.in_cols % 4 == 0 ? 4 : 5; /* rows are aligned where they can be */
    test_mat din = test_mat_make(side.in_rows, side.in_cols, gap, in);
    test_mat out = test_mat_make(side.out_rows, side.out_cols, 3, NULL);
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        const float alpha = scalars[i][0], beta = scalars[i][1];
        test_mat_set(&out, beta == 0.0f ? NULL : old); /* beta = 0 must not read the NaNs */
        cl_event event = NULL;
        TEST_OK(multiply(p, alpha, beta, din.mat, &xs.device.bsr, out.mat, &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        float *got = test_mat_get(&out, "output");
        gemm_ref ref = reference(p, d, o, alpha, beta, in, xs.dense, old);
        test_close("output", side.out_rows, side.out_cols, got, ref.want, ref.bound,
            "%s %s, alpha %g, beta %g", product_names[p], shape->name, (double)alpha, (double)beta);
        for (int index = 1; index < TEST_INDEXES; index++) {
            operand narrow = make_operand(91, test_with_index(d, test_index_types[index]));
            test_mat_set(&out, beta == 0.0f ? NULL : old);
            TEST_OK(multiply(p, alpha, beta, din.mat, &narrow.device.bsr, out.mat, NULL));
            float *same = test_mat_get(&out, "output");
            test_same_floats("output", side.out_rows, side.out_cols, same, got, "%s %s, %s",
                product_names[p], shape->name, test_index_names[index]);
            test_bsr_unchanged(&narrow.device);
        }
    }
    test_mat_unchanged(&din, "the dense operand");
    test_bsr_unchanged(&xs.device);
}

static void tn(void **state)
{
    against_reference(*state, TN);
}

static void nt(void **state)
{
    against_reference(*state, NT);
}

static void nn(void **state)
{
    against_reference(*state, NN);
}

/* Two runs give the same bits, whatever lies in scratch and output. */
static void same_bits(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {7, 50, 96, {1, 16}, 140};
    operand xs = make_operand(101, d);
    for (int p = TN; p <= NN; p++) {
        const sides side = sides_of((product)p, d, 45);
        float *in = test_new_normal(102, side.in_rows * side.in_cols), *first = NULL;
        test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
        for (int run = 0; run < 5; run++) {
            test_mat out = test_mat_make(side.out_rows, side.out_cols, 0, NULL);
            TEST_OK(multiply((product)p, 1, 0, din.mat, &xs.device.bsr, out.mat, NULL));
            float *got = test_mat_get(&out, "output");
            if (first == NULL) {
                first = got;
            } else {
                test_same_floats("output", side.out_rows, side.out_cols, got, first, "%s, run %d",
                    product_names[p], run);
            }
        }
    }
}

/* An allocator whose buffers are full of ones: as a float a NaN, as an index far out of range. */
static cl_mem dirty_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
    const unsigned char ones = 0xFF;
    if (buffer != NULL)
        *error = clEnqueueFillBuffer(user, buffer, &ones, 1, 0, bytes, 0, NULL, NULL);
    return buffer;
}

static void dirty_release(void *user, cl_mem buffer)
{
    (void)user;
    (void)clReleaseMemObject(buffer);
}

/* A context whose scratch is such. */
static clprune_context *open_dirty(void)
{
    cl_command_queue queue = clprune_context_queue(test_context());
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context()),
        .allocator = {dirty_allocate, dirty_release, queue}};
    clprune_context *dirty = NULL;
    assert_int_equal(clprune_context_create(queue, &options, &dirty), CLPRUNE_SUCCESS);
    return dirty;
}

/* Pruning and products do not depend on what scratch held before: nothing is read unwritten. */
static void dirty_scratch(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {5, 300, 53, {3, 7}, 411};
    enum { O = 29 };
    clprune_context *dirty = open_dirty();
    float *x = test_new_normal(141, d.batch * d.rows * d.cols), *first[3] = {NULL, NULL, NULL};
    test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 0, x);
    for (int run = 0; run < 2; run++) {
        clprune_context *context = run == 0 ? test_context() : dirty;
        test_bsr xs = test_bsr_make(d);
        TEST_OK(clprune_prune(
            context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, dx.mat, &xs.bsr, NULL));
        for (int p = TN; p <= NN; p++) {
            const sides side = sides_of((product)p, d, O);
            float *in = test_new_normal(142, side.in_rows * side.in_cols);
            test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
            test_mat out = test_mat_make(side.out_rows, side.out_cols, 0, NULL);
            TEST_OK(multiply_on(context, (product)p, 1, 0, din.mat, &xs.bsr, out.mat, NULL));
            float *got = test_mat_get(&out, "output");
            if (run == 0) {
                first[p] = got;
            } else {
                test_same_floats("output", side.out_rows, side.out_cols, got, first[p],
                    "%s, scratch full of ones", product_names[p]);
            }
        }
    }
    clprune_context_destroy(dirty);
}

/* Values may begin at any float of their buffer, also where vectors of them would not. */
static void any_offset(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {2, 33, 64, {1, 16}, 70};
    operand xs = make_operand(151, d);
    for (int p = TN; p <= NN; p++) {
        const sides side = sides_of((product)p, d, 40);
        float *in = test_new_normal(152, side.in_rows * side.in_cols), *first = NULL;
        test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
        for (size_t bytes = 0; bytes < 16; bytes += sizeof(float)) {
            test_buf values;
            const clprune_bsr moved = test_bsr_moved(&xs.device, bytes, &values);
            test_mat out = test_mat_make(side.out_rows, side.out_cols, 0, NULL);
            TEST_OK(multiply((product)p, 1, 0, din.mat, &moved, out.mat, NULL));
            float *got = test_mat_get(&out, "output");
            if (bytes == 0)
                first = got;
            else
                test_same_floats("output", side.out_rows, side.out_cols, got, first,
                    "%s, values from byte %zu on", product_names[p], bytes);
        }
    }
}

/* f(2 dy) = 2 f(dy) bit for bit, as doubling is exact; f(a + b) = f(a) + f(b) within the bound. */
static void linear(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {3, 40, 64, {1, 16}, 80};
    enum { O = 33 };
    operand xs = make_operand(111, d);
    for (int p = TN; p <= NN; p++) {
        const sides side = sides_of((product)p, d, O);
        const size_t count = side.in_rows * side.in_cols;
        float *a = test_new_normal(112, count), *b = test_new_normal(113, count);
        float *results[4];
        for (int run = 0; run < 4; run++) { /* a, b, 2 a, a + b */
            float *in = test_new_normal(0, count);
            for (size_t i = 0; i < count; i++)
                in[i] = run == 0 ? a[i] : run == 1 ? b[i] : run == 2 ? 2 * a[i] : a[i] + b[i];
            test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
            test_mat out = test_mat_make(side.out_rows, side.out_cols, 0, NULL);
            TEST_OK(multiply((product)p, 1, 0, din.mat, &xs.device.bsr, out.mat, NULL));
            results[run] = test_mat_get(&out, "output");
        }
        gemm_ref ra = reference((product)p, d, O, 1, 0, a, xs.dense, NULL);
        gemm_ref rb = reference((product)p, d, O, 1, 0, b, xs.dense, NULL);
        for (size_t i = 0; i < side.out_rows * side.out_cols; i++) {
            results[0][i] *= 2;
            ra.want[i] = (double)results[0][i] / 2 + (double)results[1][i];
            ra.bound[i] = 3 * (ra.bound[i] + rb.bound[i]);
        }
        test_same_floats("f(2 dy)", side.out_rows, side.out_cols, results[2], results[0], "%s",
            product_names[p]);
        test_close("f(a + b)", side.out_rows, side.out_cols, results[3], ra.want, ra.bound, "%s",
            product_names[p]);
    }
}

/* Sizes of zero behave as BLAS: an empty sum scales by beta, and beta = 0 sets zero, whatever
 * scratch holds. */
static void zero_sizes(void **state)
{
    (void)state;
    static const struct {
        clprune_bsr_desc desc;
        size_t outputs;
    } rows[] = {
        {{0, 6, 40, {1, 4}, 3}, 5},
        {{2, 0, 40, {1, 4}, 0}, 5},
        {{2, 6, 0, {1, 4}, 0}, 5},
        {{2, 6, 40, {1, 4}, 3}, 0},
        {{2, 6, 40, {1, 4}, 0}, 5},
        {{0, 0, 0, {3, 7}, 0}, 0},
    };
    clprune_context *dirty = open_dirty();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int p = TN; p <= NN; p++)
            for (size_t s = 0; s < sizeof scalars / sizeof scalars[0]; s++) {
                const float alpha = scalars[s][0], beta = scalars[s][1];
                const clprune_bsr_desc d = rows[i].desc;
                const sides side = sides_of((product)p, d, rows[i].outputs);
                const size_t count = side.out_rows * side.out_cols;
                operand xs = make_operand(121, d);
                float *in = test_new_normal(122, side.in_rows * side.in_cols);
                float *old = test_new_normal(123, count);
                test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
                test_mat out =
                    test_mat_make(side.out_rows, side.out_cols, 2, beta == 0.0f ? NULL : old);
                cl_event event = NULL;
                TEST_OK(multiply_on(
                    dirty, (product)p, alpha, beta, din.mat, &xs.device.bsr, out.mat, &event));
                assert_non_null(event);
                assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
                gemm_ref ref =
                    reference((product)p, d, rows[i].outputs, alpha, beta, in, xs.dense, old);
                float *got = test_mat_get(&out, "output");
                test_close("output", side.out_rows, side.out_cols, got, ref.want, ref.bound,
                    "%s, row %zu, beta %g", product_names[p], i, (double)beta);
            }
    clprune_context_destroy(dirty);
}

/* As in BLAS, alpha 0 does not read the inputs. */
static void alpha_zero(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {2, 6, 40, {1, 4}, 3};
    operand xs = make_operand(124, d);
    for (int p = TN; p <= NN; p++) {
        const sides side = sides_of((product)p, d, 5);
        const size_t count = side.out_rows * side.out_cols;
        float *old = test_new_normal(125, count);
        test_mat in = test_mat_make(side.in_rows, side.in_cols, 0, NULL);
        test_mat out = test_mat_make(side.out_rows, side.out_cols, 2, old);
        TEST_OK(clprune_mat_fill(test_context(), NAN, in.mat, NULL));
        TEST_OK(multiply((product)p, 0, 0.5f, in.mat, &xs.device.bsr, out.mat, NULL));
        float *got = test_mat_get(&out, "output");
        for (size_t i = 0; i < count; i++)
            assert_true(got[i] == 0.5f * old[i]);
    }
}

/* A big product, probed with one random vector v: dw v against dy^T (xs v), in double. */
static void probe(const char *what, product p, clprune_bsr_desc d, size_t o)
{
    const sides side = sides_of(p, d, o);
    operand xs = make_operand(131, d);
    float *in = test_new_normal(132, side.in_rows * side.in_cols);
    float *v = test_new_uniform(133, -1, 1, side.out_cols);
    test_mat din = test_mat_make(side.in_rows, side.in_cols, 0, in);
    test_mat out = test_mat_make(side.out_rows, side.out_cols, 0, NULL);
    TEST_OK(multiply(p, 1, 0, din.mat, &xs.device.bsr, out.mat, NULL));
    float *got = test_mat_get(&out, "output");
    /* What the output times v must be: one term for each product and element of v. */
    gemm_ref ref = gemm_ref_begin(side.out_rows, 1);
    const size_t samples = p == NT ? d.batch : 1;
    const size_t inner = p == TN ? d.batch * d.rows : d.cols;
    for (size_t n = 0; n < samples; n++) {
        const float *xs_n = xs.dense + n * d.rows * d.cols, *in_n = in + n * o * d.cols;
        for (size_t k = 0; k < inner; k++) {
            double u = 0, u_abs = 0; /* (xs v)[k], or (xs^T v)[k] */
            for (size_t c = 0; c < side.out_cols; c++) {
                const double x = (double)(p == TN ? xs_n[k * d.cols + c] : xs_n[c * d.cols + k]);
                u += x * (double)v[c];
                u_abs += fabs(x * (double)v[c]);
            }
            for (size_t r = 0; r < side.out_rows; r++) {
                const double y = (double)(p == TN ? in_n[k * o + r] : in_n[r * d.cols + k]);
                ref.want[r] += y * u;
                ref.bound[r] += fabs(y) * u_abs;
            }
        }
        ref.terms += inner;
    }
    gemm_ref_end(&ref, 1, 0, NULL);
    size_t bad = 0;
    for (size_t r = 0; r < side.out_rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < side.out_cols; c++)
            sum += (double)got[r * side.out_cols + c] * (double)v[c];
        bad += !(fabs(sum - ref.want[r]) <= ref.bound[r]);
    }
    if (bad > 0)
        fail_msg("%s: %zu of %zu rows are off", what, bad, side.out_rows);
}

static void big_tn(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {32, 196, 1536, {1, 16}, 196 * 96 * 3 / 10};
    probe("tn, 6272 rows, 1536 columns", TN, d, 384);
}

static void big_nt(void **state)
{
    (void)state;
    const clprune_bsr_desc d = {32, 196, 384, {1, 16}, 196 * 24 * 3 / 10};
    probe("nt, 32 samples of 196 x 384", NT, d, 196);
}

int main(int argc, char **argv)
{
    const bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    test_list list = {0};
    if (full) {
        test_add(&list, big_tn, NULL, "tn with 6272 rows and 1536 columns");
        test_add(&list, big_nt, NULL, "nt with 32 samples of 196 x 384");
    } else {
        test_add(&list, same_bits, NULL, "five runs give the same bits");
        test_add(&list, dirty_scratch, NULL, "scratch full of ones");
        test_add(&list, any_offset, NULL, "values at any offset");
        test_add(&list, linear, NULL, "linear in the dense operand");
        test_add(&list, alpha_zero, NULL, "alpha 0");
        test_add(&list, zero_sizes, NULL, "sizes of zero");
    }
    test_add_shapes(&list, tn, full, "tn");
    test_add_shapes(&list, nt, full, "nt");
    test_add_shapes(&list, nn, full, "nn");
    return test_run_on_devices("bspmm", &list);
}
