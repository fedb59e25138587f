/* BSpMM against the reference in double, over the list of shapes and of alpha and beta.
 *
 * beta = 0 never reads dw. With all blocks kept the result is the dense product. */
#include "support/test_packed.h"
#include "support/test_shapes.h"

static const float scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 0.25f}};

/* A BSR matrix, packed by the reference, and its dense form. */
typedef struct operand {
    test_bsr device;
    float *dense;
} operand;

static operand pack_operand(uint64_t seed, clprune_bsr_desc d, const float *x)
{
    bsr_ref ref = bsr_ref_of(d);
    bsr_ref_pack(&ref, x, test_random_mask(seed + 1, &ref));
    return (operand){test_bsr_of(d, &ref), bsr_ref_unpack(&ref)};
}

static operand make_operand(uint64_t seed, clprune_bsr_desc d)
{
    return pack_operand(seed, d, test_new_normal(seed, d.batch * d.rows * d.cols));
}

static void against_reference(const test_shape *shape, product kind)
{
    const size_t in_cols = kind == NT ? shape->desc.cols : shape->outputs;
    const size_t gap = in_cols % 4 == 0 ? 4 : 5; /* rows are aligned where they can be */
    operands o = operands_make(kind, sizes_of(shape->desc, shape->outputs), 92, gap, 3);
    operand xs[TEST_INDEXES];
    for (int index = 0; index < TEST_INDEXES; index++)
        xs[index] = make_operand(91, test_with_index(shape->desc, test_index_types[index]));
    for (size_t i = 0; i < COUNT_OF(scalars); i++) {
        const float alpha = scalars[i][0], beta = scalars[i][1];
        float *got[TEST_INDEXES];
        for (int index = 0; index < TEST_INDEXES; index++) {
            operands_reset(&o, beta);
            TEST_EVENT(multiply(test_context(), &o, alpha, beta, &xs[index].device.bsr, &event));
            got[index] = index == 0 ? operands_check(&o, alpha, beta, xs[0].dense, shape->name)
                                    : test_mat_get(&o.out, "output");
            test_same_floats("output", o.out_rows, o.out_cols, got[index], got[0], "%s %s, %s",
                product_names[kind], shape->name, test_index_names[index]);
            test_bsr_unchanged(&xs[index].device);
        }
    }
    test_mat_unchanged(&o.din, "the dense operand");
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

/* Cases of nn beyond the list of shapes: chunks of long blocks, in lists; joined samples; a last
 * strip of fewer rows; groups that begin inside a block row and end in another sample;
 * rows whose part of w is taken in several steps. */
static const test_shape nn_shapes[] = {
    {{3, 9, 300, {2, 260}, 6}, 100, "chunks of blocks of 2 rows"},
    {{2, 21, 270, {1, 130}, 40}, 71, "chunks of blocks of 1 row"},
    {{300, 1, 70, {1, 8}, 4}, 40, "joined samples"},
    {{2, 41, 330, {5, 3}, 400}, 130, "strips of 3 and 2 rows, and long ones"},
    {{5, 97, 20, {7, 2}, 50}, 200, "groups of strips"},
    {{2, 201, 700, {1, 2}, 30000}, 19, "groups of long rows"},
};

/* Two runs give the same bits, whatever lies in scratch and output. */
static void same_bits(NO_ROW)
{
    operand xs = make_operand(101, (clprune_bsr_desc){7, 50, 96, {1, 16}, 140});
    results first = results_of(&xs.device.bsr, 45);
    for (int run = 1; run < 5; run++)
        same_results(results_of(&xs.device.bsr, 45), first, test_text("run %d", run));
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
    return test_open_on(
        queue, &(clprune_context_options){.kernels = clprune_context_kernels(test_context()),
                   .allocator = {dirty_allocate, dirty_release, queue}});
}

/* Pruning and products do not depend on what scratch held before: nothing is read unwritten. */
static void dirty_scratch(NO_ROW)
{
    const clprune_bsr_desc d = {5, 300, 53, {3, 7}, 411};
    enum { OUTPUTS = 29 };
    clprune_context *dirty = open_dirty();
    test_mat x =
        test_mat_make(d.batch * d.rows, d.cols, 0, test_new_normal(141, d.batch * d.rows * d.cols));
    test_bsr want = test_pruned(d, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, &x);
    test_bsr got = test_bsr_make(d);
    TEST_OK(
        clprune_prune(dirty, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x.mat, &got.bsr, NULL));
    same_results(results_by(dirty, &got.bsr, OUTPUTS), results_of(&want.bsr, OUTPUTS),
        "scratch full of ones");
}

/* Values may begin at any float of their buffer, also where vectors of them would not. */
static void any_offset(NO_ROW)
{
    operand xs = make_operand(151, (clprune_bsr_desc){2, 33, 64, {1, 16}, 70});
    same_at_any_offset(test_context(), &xs.device, 40);
}

/* Normal values; if operands are rounded, multiples of 1/8, so that a sum of two is exact. */
static float *new_addends(uint64_t seed, size_t count)
{
    float *x = test_new_normal(seed, count);
    for (size_t i = 0; i < count && gemm_ref_operand != NULL; i++)
        x[i] = rintf(x[i] * 8) / 8;
    return x;
}

/* f(2 dy) = 2 f(dy) bit for bit, as doubling is exact; f(a + b) = f(a) + f(b) within the bound. */
static void linear(NO_ROW)
{
    const clprune_bsr_desc d = {3, 40, 64, {1, 16}, 80};
    operand xs = make_operand(111, d);
    for (int kind = TN; kind < PRODUCTS; kind++) {
        operands o = operands_make((product)kind, sizes_of(d, 33), 112, 0, 0);
        const size_t count = o.in_rows * o.in_cols;
        float *a = new_addends(112, count), *b = new_addends(113, count), *in = test_floats(count);
        float *of[4];
        for (int run = 0; run < 4; run++) { /* a, b, 2 a, a + b */
            for (size_t i = 0; i < count; i++)
                in[i] = run == 0 ? a[i] : run == 1 ? b[i] : run == 2 ? 2 * a[i] : a[i] + b[i];
            test_mat_set(&o.din, in);
            of[run] = product_on(test_context(), &o, &xs.device.bsr);
        }
        gemm_ref ra = operands_reference(&o, 1, 0, a, xs.dense);
        gemm_ref rb = operands_reference(&o, 1, 0, b, xs.dense);
        for (size_t i = 0; i < o.out_rows * o.out_cols; i++) {
            ra.want[i] = (double)of[0][i] + (double)of[1][i];
            ra.bound[i] = 3 * (ra.bound[i] + rb.bound[i]);
            of[0][i] *= 2;
        }
        test_same_floats(
            "f(2 dy)", o.out_rows, o.out_cols, of[2], of[0], "%s", product_names[kind]);
        test_close("f(a + b)", o.out_rows, o.out_cols, of[3], ra.want, ra.bound, "%s",
            product_names[kind]);
    }
}

/* Sizes of zero behave as BLAS: an empty sum scales by beta, and beta = 0 sets zero, whatever
 * scratch holds. */
static void zero_sizes(NO_ROW)
{
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
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        operand xs = make_operand(121, rows[i].desc);
        for (int kind = TN; kind < PRODUCTS; kind++)
            for (size_t s = 0; s < COUNT_OF(scalars); s++) {
                const float alpha = scalars[s][0], beta = scalars[s][1];
                operands o = operands_make(
                    (product)kind, sizes_of(rows[i].desc, rows[i].outputs), 122, 0, 2);
                operands_reset(&o, beta);
                TEST_EVENT(multiply(dirty, &o, alpha, beta, &xs.device.bsr, &event));
                (void)operands_check(&o, alpha, beta, xs.dense, test_text("row %zu", i));
            }
    }
}

/* As in BLAS, alpha 0 does not read the inputs. */
static void alpha_zero(NO_ROW)
{
    const clprune_bsr_desc d = {2, 6, 40, {1, 4}, 3};
    operand xs = make_operand(124, d);
    for (int kind = TN; kind < PRODUCTS; kind++) {
        operands o = operands_make((product)kind, sizes_of(d, 5), 124, 0, 2);
        test_mat_set(&o.din, NULL); /* NaN */
        operands_reset(&o, 0.5f);
        TEST_OK(multiply(test_context(), &o, 0, 0.5f, &xs.device.bsr, NULL));
        float *got = test_mat_get(&o.out, "output");
        for (size_t i = 0; i < o.out_rows * o.out_cols; i++)
            assert_true(got[i] == 0.5f * o.old[i]);
    }
}

static void small_integers(float *x, size_t count, test_rng *rng)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)test_rng_below(rng, 15) - 7;
}

/* Infinities meet no row and no block that they do not belong to: the same as in fp32, for integers
 * that are exact in every precision. Lists are odd and even. */
static void infinities(NO_ROW)
{
    static const clprune_bsr_desc descs[] = {{3, 41, 40, {1, 8}, 70}, {2, 23, 33, {3, 5}, 25}};
    clprune_context *fp32 = test_open_on(clprune_context_queue(test_context()),
        &(clprune_context_options){.kernels = clprune_context_kernels(test_context()),
            .precision = CLPRUNE_PRECISION_FP32});
    test_rng rng = {77};
    for (size_t row = 0; row < COUNT_OF(descs); row++)
        for (int kind = TN; kind < PRODUCTS; kind++)
            for (int run = 0; run < 2; run++) {
                const clprune_bsr_desc d = descs[row];
                float *x = test_floats(d.batch * d.rows * d.cols);
                operands o = operands_make((product)kind, sizes_of(d, 45), 161, 0, 0);
                small_integers(x, d.batch * d.rows * d.cols, &rng);
                small_integers(o.in, o.in_rows * o.in_cols, &rng);
                for (size_t i = 0; i < d.batch * d.rows * d.cols && run == 0; i++)
                    if (i / d.cols % 7 == 0)
                        x[i] = INFINITY;
                for (size_t i = 0; i < o.in_rows * o.in_cols && run == 1; i++)
                    if (i / o.in_cols % 11 == 0)
                        o.in[i] = -INFINITY;
                test_mat_set(&o.din, o.in);
                operand xs = pack_operand(162, d, x);
                float *want = product_on(fp32, &o, &xs.device.bsr);
                float *got = product_on(test_context(), &o, &xs.device.bsr);
                for (size_t i = 0; i < o.out_rows * o.out_cols; i++)
                    if (isnan(want[i]) && isnan(got[i]))
                        got[i] = want[i]; /* whatever NaN it is */
                test_same_floats("output", o.out_rows, o.out_cols, got, want, "%s, row %zu, run %d",
                    product_names[kind], row, run);
            }
}

/* Products of bf16 read subnormal operands as 0: here those of every third output, or of x. */
static void subnormals(NO_ROW)
{
    if (gemm_ref_operand == NULL)
        skip();
    const clprune_bsr_desc d = {2, 21, 40, {1, 8}, 31};
    const size_t elements = d.batch * d.rows * d.cols;
    for (int kind = TN; kind < PRODUCTS; kind++)
        for (int run = 0; run < 2; run++) {
            operands o = operands_make((product)kind, sizes_of(d, 45), 171, 0, 0);
            float *x = test_new_normal(172, elements);
            for (size_t i = 0; i < elements; i++)
                x[i] *= run == 0 ? 0x1p100f : 0x1p-130f;
            for (size_t i = 0; i < o.in_rows * o.in_cols; i++) {
                const size_t output = (kind == NT ? i / o.in_cols : i % o.in_cols) % 45;
                o.in[i] *= run == 1 ? 0x1p100f : output % 3 == 0 ? 0x1p-130f : 1;
            }
            test_mat_set(&o.din, o.in);
            operand xs = pack_operand(173, d, x);
            operands_reset(&o, 0);
            TEST_OK(multiply(test_context(), &o, 1, 0, &xs.device.bsr, NULL));
            (void)operands_check(&o, 1, 0, xs.dense, test_text("run %d", run));
        }
}

/* x as the reference reads it. */
static float *operand_of(float *x, size_t count)
{
    for (size_t i = 0; i < count && gemm_ref_operand != NULL; i++)
        x[i] = gemm_ref_operand(x[i]);
    return x;
}

/* A big product, probed with one random vector v: dw v against dy^T (xs v), in double. */
static void probe(const char *what, product p, clprune_bsr_desc d, size_t outputs)
{
    operand xs = make_operand(131, d);
    operands o = operands_make(p, sizes_of(d, outputs), 132, 0, 0);
    float *v = test_new_uniform(133, -1, 1, o.out_cols);
    float *got = product_on(test_context(), &o, &xs.device.bsr);
    const float *dense = operand_of(xs.dense, d.batch * d.rows * d.cols);
    const float *dy = operand_of(o.in, o.in_rows * o.in_cols);
    /* What the output times v must be: one term for each product and element of v. */
    gemm_ref ref = gemm_ref_begin(o.out_rows, 1);
    const size_t samples = p == NT ? d.batch : 1;
    const size_t inner = p == TN ? d.batch * d.rows : d.cols;
    for (size_t n = 0; n < samples; n++) {
        const float *xs_n = dense + n * d.rows * d.cols, *in_n = dy + n * outputs * d.cols;
        for (size_t k = 0; k < inner; k++) {
            double u = 0, u_abs = 0; /* (xs v)[k], or (xs^T v)[k] */
            for (size_t c = 0; c < o.out_cols; c++) {
                const double x = (double)(p == TN ? xs_n[k * d.cols + c] : xs_n[c * d.cols + k]);
                u += x * (double)v[c];
                u_abs += fabs(x * (double)v[c]);
            }
            for (size_t r = 0; r < o.out_rows; r++) {
                const double y = (double)(p == TN ? in_n[k * outputs + r] : in_n[r * d.cols + k]);
                ref.want[r] += y * u;
                ref.bound[r] += fabs(y) * u_abs;
            }
        }
        ref.terms += inner;
    }
    gemm_ref_end(&ref, 1, 0, NULL);
    size_t bad = 0;
    for (size_t r = 0; r < o.out_rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < o.out_cols; c++)
            sum += (double)got[r * o.out_cols + c] * (double)v[c];
        bad += !(fabs(sum - ref.want[r]) <= ref.bound[r]);
    }
    if (bad > 0)
        fail_msg("%s: %zu of %zu rows are off", what, bad, o.out_rows);
}

static void big_tn(NO_ROW)
{
    const clprune_bsr_desc d = {32, 196, 1536, {1, 16}, 196 * 96 * 3 / 10};
    probe("tn, 6272 rows, 1536 columns", TN, d, 384);
}

static void big_nt(NO_ROW)
{
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
        test_add(&list, infinities, NULL, "infinities");
        test_add(&list, subnormals, NULL, "subnormal operands");
        test_add(&list, zero_sizes, NULL, "sizes of zero");
    }
    test_add_shapes(&list, tn, full, "tn");
    test_add_shapes(&list, nt, full, "nt");
    test_add_shapes(&list, nn, full, "nn");
    for (size_t i = 0; i < COUNT_OF(nn_shapes); i++)
        test_add(&list, nn, &nn_shapes[i], "nn, %s", nn_shapes[i].name);
    return test_run_on_devices("bspmm", &list);
}
