/* Dense products against the reference, with BLAS semantics at every size. */
#include <pthread.h>
#include <time.h>

#include "ops/products/gemm_private.h"
#include "support/test_folder.h"
#include "support/test_objects.h"
#include "support/test_product.h"

/* The first four are the short list; one of them is longer than a packed panel is deep. The last
 * but four has several panels, depths and ranges of rows. Every width of tiles costs the vector
 * kernel four programs, one for each pair of transposes: the shapes have the widest and the
 * narrowest, some batches the others. */
static const gemm_shape shapes[] = {{1, 1, 1}, {7, 5, 3}, {19, 12, 900}, {65, 63, 67}, {64, 64, 64},
    {68, 132, 36}, {17, 129, 33}, {1, 100, 50}, {100, 1, 50}, {150, 70, 1}, {260, 70, 900},
    {0, 5, 4}, {5, 0, 4}, {5, 4, 0}, {0, 0, 0}};

enum { SHAPES = COUNT_OF(shapes) };

static const float scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 0.25f}, {0, 2}};

enum { SCALARS = COUNT_OF(scalars) };

/* Every pair of transposes with all of `scalars`, and one of four `gaps` with each. */
static void check_shape(clprune_context *context, const gemm_shape *shape, const size_t gaps[4][3])
{
    for (int transposes = 0; transposes < 4; transposes++)
        for (size_t i = 0; i < SCALARS; i++)
            test_product(context, *shape, transposes & 1, transposes & 2, scalars[i][0],
                scalars[i][1], gaps[(i + (size_t)transposes) % 4], "");
}

static void check(void **state)
{
    static const size_t gaps[4][3] = {{0, 0, 0}, {3, 1, 2}, {0, 5, 0}, {4, 8, 4}};
    check_shape(test_context(), *state, gaps);
}

/* A context whose dense products are made by `engine`, a word of $CLPRUNE_DEBUG. */
static clprune_context *open_engine(const char *engine, uint64_t limit)
{
    const clprune_context_options options = {
        .kernels = clprune_context_kernels(test_context()), .mem_limit = limit};
    test_debug(engine);
    clprune_context *context = test_open_on(clprune_context_queue(test_context()), &options);
    test_debug(NULL);
    return context;
}

/* Engines are the same kernels whatever family they are asked from; the tiled one asks for two. */
static void skip_in_vector_family(void)
{
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR)
        skip();
}

/* CLBlast's kernels have up to 256 work-items a group, and it has no smaller ones: devices that
 * allow fewer are served by the library's own kernels, unless CLPRUNE_DEBUG asks for CLBlast. */
static void skip_where_clblast_fails(void)
{
    size_t most;
    TEST_CL(clGetDeviceInfo(clprune_context_device(test_context()), CL_DEVICE_MAX_WORK_GROUP_SIZE,
        sizeof most, &most, NULL));
    if (most < 256 || !clprune__gemm_blast_built)
        skip();
}

/* gemm_tiled.cl, which is only asked for batches by itself. Each operand is read in fours or one by
 * one: here all of them in one way, in fours where all sizes allow it; batches mix them. */
static void product_tiled(void **state)
{
    static const size_t gaps[2][4][3] = {
        {{3, 1, 2}, {3, 1, 2}, {3, 1, 2}, {3, 1, 2}}, {{4, 8, 4}, {3, 1, 2}, {4, 8, 4}, {3, 1, 2}}};
    const gemm_shape *s = *state;
    const bool fours = s->m % 4 == 0 && s->n % 4 == 0 && s->k % 4 == 0;
    skip_in_vector_family();
    check_shape(open_engine("gemm=tiled", 0), s, gaps[fours]);
}

/* CLBlast counts elements in 31 bits. Products of operands that end beyond, and those whose padded
 * copies would, are made by the library's own kernel: a dry context counts its program. */
static void beyond_blast(NO_ROW)
{
    enum { A, B, C, NONE };
    static const struct {
        size_t m, n, k;
        int moved; /* the operand that begins at element `offset` */
        size_t offset;
        uint64_t programs;
    } rows[] = {{16, 32, 64, NONE, 0, 0}, {16, 32, 64, A, INT32_MAX - 16 * 64, 0},
        {16, 32, 64, A, INT32_MAX - 16 * 64 + 1, 1}, {16, 32, 64, B, (size_t)1 << 32, 1},
        {16, 32, 64, C, (size_t)1 << 31, 1}, {1 << 16, 1 << 14, 512, NONE, 0, 0},
        {1 << 16, 1 << 14, 1 << 14, NONE, 0, 1}};
    skip_in_vector_family();
    /* with rounded operands all products are the library's own */
    if (gemm_ref_operand != NULL || !clprune__gemm_blast_built)
        skip();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_device_info info = clprune_context_device_info(test_context());
        const clprune_context_options options = {.kernels = CLPRUNE_KERNELS_TILED};
        clprune_mat mats[3];
        const size_t sides[3][2] = {
            {rows[i].m, rows[i].k}, {rows[i].k, rows[i].n}, {rows[i].m, rows[i].n}};
        info.global_memory = info.max_allocation = (uint64_t)1 << 40;
        info.max_work_group = 1024;
        clprune_context *dry = test_open_dry(&info, &options);
        for (int j = A; j < NONE; j++) {
            const size_t first = j == rows[i].moved ? rows[i].offset : 0;
            const clprune_mat whole = test_new_mat(dry, 1, first + sides[j][0] * sides[j][1]);
            mats[j] = (clprune_mat){
                whole.buffer, first, sides[j][0], sides[j][1], sides[j][1], CLPRUNE_VALUES_FP32};
        }
        TEST_OK(clprune_gemm(dry, false, false, 1, 0, mats[A], mats[B], mats[C], NULL));
        const uint64_t builds = clprune_context_cache_stats(dry).builds;
        if (builds != rows[i].programs)
            fail_msg("row %zu: %d programs of our own", i, (int)builds);
        test_end(dry);
    }
}

/* Operands are columns of one matrix, side by side; of a batch, the samples lie one below the
 * other. */
static void side_by_side(NO_ROW)
{
    enum { BATCH = 3, M = 9, N = 20, K = 9, LD = K + 2 * N };
    float *values = test_new_normal(15, BATCH * M * LD);
    test_mat whole = test_mat_make(BATCH * M, LD, 0, values);
    const cl_mem buffer = whole.mat.buffer;
    const size_t first = whole.mat.offset;
    const clprune_mat a = {buffer, first + N, M, K, LD}, b = {buffer, first + N + K, K, N, LD},
                      c = {buffer, first, M, N, LD};
    const clprune_mat into_a = {buffer, first + 1, M, N, LD};
    TEST_FAILS(clprune_gemm(test_context(), false, false, 1, 0, a, b, into_a, NULL),
        CLPRUNE_INVALID_ARGUMENT, "c overlaps a");
    TEST_FAILS(clprune_gemm_batched(test_context(), BATCH, false, false, 1, 0, a, M * LD, b, M * LD,
                   into_a, M * LD, NULL),
        CLPRUNE_INVALID_ARGUMENT, "c overlaps a");
    for (size_t batch = 1; batch <= BATCH; batch += BATCH - 1) {
        TEST_OK(clprune_gemm_batched(
            test_context(), batch, false, false, 1, 0, a, M * LD, b, M * LD, c, M * LD, NULL));
        float *got = test_mat_get(&whole, "matrix");
        for (size_t i = 0; i < batch; i++) {
            float dense_a[M * K], dense_b[K * N], dense_c[M * N];
            for (size_t r = 0; r < M; r++) {
                float *row = values + (i * M + r) * LD;
                memcpy(dense_a + r * K, row + N, K * sizeof *row);
                memcpy(dense_b + r * N, row + N + K, N * sizeof *row);
                memcpy(dense_c + r * N, got + (i * M + r) * LD, N * sizeof *row);
                memcpy(row, dense_c + r * N, N * sizeof *row);
            }
            product_close((gemm_shape){M, N, K}, false, false, 1, 0, dense_a, dense_b, NULL,
                dense_c, test_text("sample %zu of %zu", i, batch));
        }
        test_same_floats("all but c", BATCH * M, LD, got, values, "batch %zu", batch);
    }
}

/* a, b and c in one buffer, one behind the other. */
static void one_buffer(NO_ROW)
{
    enum { M = 9, N = 20, K = 13 };
    float *values = test_new_normal(14, M * K + K * N + M * N);
    test_mat whole = test_mat_make(1, M * K + K * N + M * N, 0, values);
    const cl_mem buffer = whole.mat.buffer;
    const size_t first = whole.mat.offset;
    const clprune_mat a = {buffer, first, M, K, K};
    const clprune_mat b = {buffer, first + M * K, K, N, N};
    const clprune_mat c = {buffer, first + M * K + K * N, M, N, N};
    TEST_OK(clprune_gemm(test_context(), false, false, 1, 0, a, b, c, NULL));
    float *got = test_mat_get(&whole, "buffer");
    product_close((gemm_shape){M, N, K}, false, false, 1, 0, values, values + M * K, NULL,
        got + M * K + K * N, "one buffer");
    test_same_floats("a and b", 1, M * K + K * N, got, values, "one buffer");
}

/* As in BLAS, alpha 0 does not read a and b, and beta 0 does not read c. */
static void alpha_zero(NO_ROW)
{
    enum { SIDE = 20 };
    float *old = test_new_normal(15, SIDE * SIDE), nans[SIDE * SIDE];
    for (size_t i = 0; i < SIDE * SIDE; i++)
        nans[i] = NAN;
    test_mat a = test_mat_make(SIDE, SIDE, 0, nans);
    for (int i = 0; i < 3; i++) {
        const float beta = (float)i / 2;
        test_mat c = test_mat_make(SIDE, SIDE, 1, i == 0 ? nans : old);
        TEST_OK(clprune_gemm(test_context(), false, true, 0, beta, a.mat, a.mat, c.mat, NULL));
        float *got = test_mat_get(&c, "c");
        for (size_t k = 0; k < SIDE * SIDE; k++)
            assert_true(got[k] == beta * old[k]);
    }
}

typedef struct batch_row {
    const char *name;
    size_t batch, m, n, k;
    bool share_a, share_b, ta, tb;
    size_t spare; /* elements between samples */
} batch_row;

static const batch_row batch_rows[] = {
    {"plain", 3, 17, 33, 20, false, false, false, false, 0},
    {"a shared", 4, 49, 64, 49, true, false, false, false, 0},
    {"a shared, transposed", 4, 49, 64, 30, true, false, true, false, 0},
    {"b shared, transposed", 3, 20, 31, 8, false, true, false, true, 5},
    {"both shared", 2, 5, 6, 7, true, true, false, false, 3},
    {"in fours, a transposed", 3, 68, 132, 24, false, false, true, false, 4},
    {"in fours, b transposed", 3, 132, 68, 36, false, false, false, true, 8},
    {"spare elements", 5, 16, 16, 16, false, false, true, true, 11},
    {"one sample", 1, 10, 12, 14, false, false, false, false, 0},
    {"K = 0", 3, 4, 5, 0, false, false, false, false, 2},
    {"M = 0", 3, 0, 5, 4, false, false, false, false, 2},
    {"no samples", 0, 4, 5, 6, false, false, false, false, 2},
};

static void batched_on(clprune_context *context, const batch_row *r)
{
    const size_t stride_a = r->share_a ? 0 : r->m * r->k + r->spare;
    const size_t stride_b = r->share_b ? 0 : r->k * r->n + r->spare;
    const size_t stride_c = r->m * r->n + r->spare;
    const size_t samples = r->batch > 0 ? r->batch : 1;
    for (size_t s = 0; s < SCALARS; s++) {
        const float alpha = scalars[s][0], beta = scalars[s][1];
        const size_t size_a = r->m * r->k + stride_a * (samples - 1);
        const size_t size_b = r->k * r->n + stride_b * (samples - 1);
        const size_t size_c = r->m * r->n + stride_c * (samples - 1);
        float *a = test_new_normal(21, size_a), *b = test_new_normal(22, size_b);
        float *c = test_new_normal(23, size_c);
        for (size_t i = 0; beta == 0.0f && i < size_c; i++)
            c[i] = i % stride_c < r->m * r->n ? NAN : c[i];
        test_mat da = test_mat_make(1, size_a, 0, a), db = test_mat_make(1, size_b, 0, b);
        test_mat dc = test_mat_make(1, size_c, 0, c);
        const size_t ar = r->ta ? r->k : r->m, ac = r->ta ? r->m : r->k;
        const size_t br = r->tb ? r->n : r->k, bc = r->tb ? r->k : r->n;
        const clprune_mat ma = {da.mat.buffer, da.mat.offset, ar, ac, ac};
        const clprune_mat mb = {db.mat.buffer, db.mat.offset, br, bc, bc};
        const clprune_mat mc = {dc.mat.buffer, dc.mat.offset, r->m, r->n, r->n};
        TEST_EVENT(clprune_gemm_batched(context, r->batch, r->ta, r->tb, alpha, beta, ma, stride_a,
            mb, stride_b, mc, stride_c, &event));
        float *got = test_mat_get(&dc, "c");
        for (size_t i = 0; i < r->batch; i++)
            product_close((gemm_shape){r->m, r->n, r->k}, r->ta, r->tb, alpha, beta,
                a + i * stride_a, b + i * stride_b, c + i * stride_c, got + i * stride_c,
                test_text("%s, sample %zu", r->name, i));
        for (size_t i = 0; i < size_c; i++) /* what lies between the samples */
            if (r->batch == 0 || i % stride_c >= r->m * r->n)
                test_same_floats("spare", 1, 1, got + i, c + i, "%s, element %zu", r->name, i);
    }
}

static void batched(void **state)
{
    batched_on(test_context(), *state);
}

/* By the engines that the tiled family does not choose. */
static void batched_by_others(void **state)
{
    static const char *const engines[] = {"gemm=clblast", "gemm=vector"};
    skip_in_vector_family();
    if (gemm_ref_operand != NULL) /* they multiply in fp32, whatever the precision */
        skip();
    for (size_t i = 0; i < COUNT_OF(engines); i++)
        batched_on(open_engine(engines[i], 0), *state);
}

static void engine_refused(NO_ROW)
{
    test_debug("gemm=tile");
    test_open_fails(clprune_context_queue(test_context()), NULL, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_DEBUG has \"gemm=tile\"");
}

static void same_bits(NO_ROW)
{
    const gemm_shape s = {130, 75, 333};
    float *first = NULL;
    test_mat da = test_mat_make(s.m, s.k, 0, test_new_normal(31, s.m * s.k));
    test_mat db = test_mat_make(s.k, s.n, 0, test_new_normal(32, s.k * s.n));
    for (int run = 0; run < 4; run++) {
        test_mat dc = test_mat_make(s.m, s.n, 0, NULL);
        TEST_OK(clprune_gemm(test_context(), false, false, 1, 0, da.mat, db.mat, dc.mat, NULL));
        float *got = test_mat_get(&dc, "c");
        if (run == 0)
            first = got;
        test_same_floats("c", s.m, s.n, got, first, "run %d", run);
    }
}

/* Nothing is allocated or built once the shapes have been seen. */
static void steady_state(NO_ROW)
{
    clprune_context *context = test_context();
    test_mat a = test_mat_make(70, 40, 0, NULL), b = test_mat_make(40, 50, 0, NULL);
    test_mat c = test_mat_make(70, 50, 0, NULL);
    uint64_t live = 0, builds = 0;
    for (int run = 0; run < 4; run++) {
        if (run == 1) {
            live = test_live(context, CLPRUNE_MEMORY_TOTAL);
            builds = clprune_context_cache_stats(context).builds;
        }
        TEST_OK(clprune_gemm(context, false, false, 1, 0, a.mat, b.mat, c.mat, NULL));
    }
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), live);
    assert_int_equal(clprune_context_cache_stats(context).builds, builds);
}

static void add_temporary(void *bytes, const clprune_memory_entry *entry)
{
    if (strcmp(entry->name, "gemm temporary") == 0)
        *(uint64_t *)bytes += entry->bytes;
}

/* The bytes that a context has booked for CLBlast. */
static uint64_t temporary_of(const clprune_context *context)
{
    uint64_t bytes = 0;
    clprune_memory_visit(context, add_temporary, &bytes);
    return bytes;
}

/* A further context with CLBlast, which takes its temporary for products of 48 or more. */
static clprune_context *open_indirect(uint64_t limit)
{
    const clprune_device_info info = clprune_context_device_info(test_context());
    char folder[TEST_PATH];
    test_folder_make(folder);
    const char *path = test_text("%s/tuning", folder);
    const char *text = test_text("clprune_tuning = 1\ndevice = %s\n"
                                 "clblast.GemmRoutine.XGEMM_MIN_INDIRECT_SIZE = 48\nend\n",
        info.device);
    test_file_write(path, text, strlen(text));
    test_environment("CLPRUNE_TUNING", path);
    clprune_context *context = open_engine("gemm=clblast", limit);
    test_environment("CLPRUNE_TUNING", NULL);
    return context;
}

/* CLBlast's temporary grows with the products, is booked, and obeys the budget. The last case: its
 * parameters stay CLBlast's for the rest of the process, which would compile all again. */
static void blast_temporary(NO_ROW)
{
    skip_where_clblast_fails();
    skip_in_vector_family();
    enum { LARGE = 131, SMALL = 60 };
    const clprune_mat a = test_mat_make(LARGE, LARGE, 0, NULL).mat;
    const clprune_mat b = test_mat_make(LARGE, LARGE, 0, NULL).mat;
    const clprune_mat c = test_mat_make(LARGE, LARGE, 0, NULL).mat;
    const clprune_mat rows_a = clprune_mat_rows(a, 0, SMALL),
                      rows_c = clprune_mat_rows(c, 0, SMALL);
    clprune_context *context = open_indirect(0);
    TEST_OK(clprune_gemm(context, false, false, 1, 0, rows_a, b, rows_c, NULL));
    const uint64_t small = temporary_of(context);
    TEST_OK(clprune_gemm(context, false, false, 1, 0, a, b, c, NULL));
    const uint64_t large = temporary_of(context);
    assert_true(small > 0 && large > small);
    TEST_OK(clprune_gemm(context, false, false, 1, 0, rows_a, b, rows_c, NULL));
    assert_int_equal(temporary_of(context), large);
    test_end(context);

    context = open_indirect(large - 1);
    TEST_FAILS_IN(context, clprune_gemm(context, false, false, 1, 0, a, b, c, NULL),
        CLPRUNE_OUT_OF_DEVICE_MEMORY, NULL);
    assert_int_equal(temporary_of(context), 0);
    TEST_OK(clprune_gemm(context, false, false, 1, 0, rows_a, b, rows_c, NULL));
}

static cl_uint references_of(cl_context cl)
{
    cl_uint count = 0;
    TEST_CL(clGetContextInfo(cl, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL));
    return count;
}

/* Whether the driver counts a program among the references of its context; Intel's does not. */
static bool counts_programs(cl_context cl)
{
    const char *source = "kernel void nothing(void) {}";
    const cl_uint before = references_of(cl);
    cl_int code;
    cl_program program = clCreateProgramWithSource(cl, 1, &source, NULL, &code);
    TEST_CL(code);
    const cl_uint after = references_of(cl);
    TEST_CL(clReleaseProgram(program));
    return after > before;
}

/* The references to an OpenCL context after 0.2 s without a change: rusticl's threads let go of
 * their last commands a moment later. */
static cl_uint settled_references_of(cl_context cl)
{
    cl_uint count = references_of(cl);
    for (int same = 0; same < 10; same++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        const cl_uint now = references_of(cl);
        if (now != count)
            same = -1;
        count = now;
    }
    return count;
}

/* CLBlast's programs refer to the OpenCL context; the last context that used CLBlast drops them.
 * The first case of the list, as the context under test may use CLBlast later. */
static void blast_lets_go(NO_ROW)
{
    skip_where_clblast_fails();
    const clprune_context *owner = test_open((clprune_context_options){0});
    const cl_context cl = clprune_context_cl(owner);
    if (!counts_programs(cl))
        skip();
    const cl_uint before = settled_references_of(cl);
    clprune_context *context[2];
    test_debug("gemm=clblast");
    for (int i = 0; i < 2; i++) {
        context[i] = test_open_on(clprune_context_queue(owner), NULL);
        const clprune_mat three = test_new_mat(context[i], 1, 1),
                          nine = test_new_mat(context[i], 1, 1);
        float value;
        TEST_OK(clprune_mat_fill(context[i], 3, three, NULL));
        TEST_OK(clprune_gemm(context[i], false, false, 1, 0, three, three, nine, NULL));
        TEST_OK(clprune_mat_read(context[i], nine, &value));
        assert_true(value == 9);
    }
    test_end(context[0]);
    assert_true(references_of(cl) > before + 1); /* programs of the other */
    test_end(context[1]);
    assert_int_equal(settled_references_of(cl), before);
}

/* Threads whose contexts make their first products with CLBlast at the same time, again and again.
 * The last context clears CLBlast's cache, so each round begins from nothing. */
enum { THREADS = 4, ROUNDS = 3, SIDE = 24 };

typedef struct racer {
    clprune_context *context;
    clprune_mat a, b, c;
    float values[SIDE * SIDE];
    clprune_status status;
} racer;

/* Oclgrind 21.10 computes wrong products in threads, also with contexts of their own. */
static void skip_on_oclgrind(void)
{
    const clprune_device_info info = clprune_context_device_info(test_context());
    if (strstr(info.device, "Oclgrind") != NULL)
        skip();
}

static void *race(void *user)
{
    racer *r = user;
    r->status = clprune_gemm(r->context, false, false, 1, 0, r->a, r->b, r->c, NULL);
    if (r->status == CLPRUNE_SUCCESS)
        r->status = clprune_mat_read(r->context, r->c, r->values);
    return NULL;
}

static void blast_threads(NO_ROW)
{
    static racer racers[THREADS];
    skip_where_clblast_fails();
    skip_on_oclgrind();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        test_debug("gemm=clblast");
        for (int i = 0; i < THREADS; i++) {
            racer *r = &racers[i];
            r->context = test_open((clprune_context_options){0});
            r->a = test_new_mat(r->context, SIDE, SIDE);
            r->b = test_new_mat(r->context, SIDE, SIDE);
            r->c = test_new_mat(r->context, SIDE, SIDE);
            TEST_OK(clprune_mat_fill(r->context, 2, r->a, NULL));
            TEST_OK(clprune_mat_fill(r->context, (float)i, r->b, NULL));
        }
        test_debug(NULL);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            TEST_OK(racers[i].status);
            for (int k = 0; k < SIDE * SIDE; k++)
                assert_true(racers[i].values[k] == (float)(2 * SIDE * i));
            test_end(racers[i].context);
        }
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, blast_lets_go, NULL, "CLBlast lets go of a context");
    for (size_t i = 0; i < SHAPES; i++)
        if (!test_small() || i < 4)
            test_add(&list, check, &shapes[i], "M %zu, N %zu, K %zu", shapes[i].m, shapes[i].n,
                shapes[i].k);
    for (size_t i = 0; i < SHAPES; i++)
        if (!test_small() || i < 6)
            test_add(&list, product_tiled, &shapes[i], "tiled: M %zu, N %zu, K %zu", shapes[i].m,
                shapes[i].n, shapes[i].k);
    for (size_t i = 0; i < COUNT_OF(batch_rows); i++) {
        test_add(&list, batched, &batch_rows[i], "batched: %s", batch_rows[i].name);
        test_add(&list, batched_by_others, &batch_rows[i], "by engine: %s", batch_rows[i].name);
    }
    test_add(&list, engine_refused, NULL, "an engine there is not");
    test_add(&list, beyond_blast, NULL, "operands that CLBlast cannot count");
    test_add(&list, alpha_zero, NULL, "alpha 0");
    test_add(&list, one_buffer, NULL, "operands in one buffer");
    test_add(&list, side_by_side, NULL, "operands are windows of one matrix");
    test_add(&list, same_bits, NULL, "four runs give the same bits");
    test_add(&list, blast_threads, NULL, "CLBlast in four threads");
    test_add(&list, steady_state, NULL, "nothing is allocated or built again");
    test_add(&list, blast_temporary, NULL, "CLBlast's temporary");
    return test_run_on_devices("gemm", &list);
}
