/* CLBlast's programs hold the OpenCL context that they were built for. They are released when the
 * last context that used CLBlast is destroyed, and while others live after every eighth destroyed
 * one. While the process exits, no call reaches CLBlast. In the tiled family, the number of samples
 * does not decide whether their products go to CLBlast. */
#include <clblast_c.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nn/layers/biased_product.h"
#include "support/test_compare.h"
#include "support/test_folder.h"
#include "support/test_objects.h"

static int cleared, products; /* calls of CLBlast */

CLBlastStatusCode __real_CLBlastClearCache(void);
CLBlastStatusCode __wrap_CLBlastClearCache(void);

CLBlastStatusCode __wrap_CLBlastClearCache(void)
{
    cleared++;
    return __real_CLBlastClearCache();
}

typedef CLBlastStatusCode multiply_fn(CLBlastLayout layout, CLBlastTranspose transpose_a,
    CLBlastTranspose transpose_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
    size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset, size_t b_ld, float beta, cl_mem c,
    size_t c_offset, size_t c_ld, cl_command_queue *queue, cl_event *event, cl_mem temporary);
multiply_fn __real_CLBlastSgemmWithTempBuffer, __wrap_CLBlastSgemmWithTempBuffer;

CLBlastStatusCode __wrap_CLBlastSgemmWithTempBuffer(CLBlastLayout layout,
    CLBlastTranspose transpose_a, CLBlastTranspose transpose_b, size_t m, size_t n, size_t k,
    float alpha, cl_mem a, size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset, size_t b_ld,
    float beta, cl_mem c, size_t c_offset, size_t c_ld, cl_command_queue *queue, cl_event *event,
    cl_mem temporary)
{
    products++;
    return __real_CLBlastSgemmWithTempBuffer(layout, transpose_a, transpose_b, m, n, k, alpha, a,
        a_offset, a_ld, b, b_offset, b_ld, beta, c, c_offset, c_ld, queue, event, temporary);
}

/* 3 * 3 = 9, by CLBlast. */
static void multiply(clprune_context *context)
{
    const clprune_mat a = test_new_mat(context, 1, 1), c = test_new_mat(context, 1, 1);
    float got = 0;
    TEST_OK(clprune_mat_fill(context, 3, a, NULL));
    TEST_OK(clprune_gemm(context, false, false, 1, 0, a, a, c, NULL));
    TEST_OK(clprune_mat_read(context, c, &got));
    assert_true(got == 9);
    assert_true(products > 0);
}

static void last_context(NO_ROW)
{
    test_debug("gemm=clblast");
    clprune_context *first = test_open_on(NULL, NULL), *second = test_open_on(NULL, NULL);
    clprune_context *idle = test_open_on(NULL, NULL);
    multiply(first);
    multiply(second);
    test_end(first);
    assert_int_equal(cleared, 0);
    multiply(second); /* its programs are there */
    test_end(second);
    assert_int_equal(cleared, 1); /* though `idle`, which never called CLBlast, lives */
    multiply(idle);
    test_end(idle);
    assert_int_equal(cleared, 2);
    test_end(test_open_on(NULL, NULL));
    assert_int_equal(cleared, 2);
}

/* Beside a context that stays, some closed ones may leave their programs, but not any number. */
static void beside_another(NO_ROW)
{
    enum { MANY = 20 };
    test_debug("gemm=clblast");
    clprune_context *stays = test_open_on(NULL, NULL);
    multiply(stays);
    cleared = 0;
    for (int i = 0; i < MANY; i++) {
        clprune_context *context = test_open_on(NULL, NULL);
        multiply(context);
        test_end(context);
    }
    assert_int_equal(cleared, MANY / 8);
    multiply(stays); /* with programs built once more */
    test_end(stays);
    assert_int_equal(cleared, MANY / 8 + 1);
}

/* A product of `batch` samples: c = x_n * y_n or a sum of them. */
typedef clprune_status samples_fn(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c);

enum { ROWS = 24, INNER = 20, COLS = 16, MOST = 3, LARGE = 1100 };

/* The API's batch: x_n (ROWS x INNER) times y_n (INNER x COLS). */
static clprune_status batched(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c)
{
    return clprune_gemm_batched(context, batch, false, false, 1, 0, clprune_mat_rows(x, 0, ROWS),
        ROWS * x.ld, clprune_mat_rows(y, 0, INNER), INNER * y.ld, clprune_mat_rows(c, 0, ROWS),
        ROWS * c.ld, NULL);
}

/* A linear layer that mixes the rows of each sample: one x for all. */
static clprune_status tokens(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c)
{
    return clprune__product_tokens(context, batch, clprune_mat_rows(y, 0, batch * INNER),
        clprune_mat_rows(x, 0, ROWS), CLPRUNE_NO_MAT, clprune_mat_rows(c, 0, batch * ROWS), NULL);
}

/* A linear layer over features: all rows of all samples in one product. */
static clprune_status features(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c)
{
    return clprune__product_rows(context, clprune_mat_rows(c, 0, batch * ROWS),
        clprune_mat_rows(y, 0, INNER), CLPRUNE_NO_MAT, clprune_mat_rows(x, 0, batch * ROWS), NULL,
        NULL);
}

/* The weight gradient of `tokens`. */
static clprune_status weights(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c)
{
    return clprune__gemm_sum_nt(context, batch, 0, clprune_mat_rows(c, 0, batch * ROWS),
        clprune_mat_rows(y, 0, batch * INNER), NULL, clprune_mat_rows(x, 0, ROWS), NULL);
}

/* The same with a gradient so large that each sample has a launch of its own. */
static clprune_status large_weights(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat y, clprune_mat c)
{
    (void)y;
    return clprune__gemm_sum_nt(context, batch, 0, clprune_mat_rows(c, 0, batch * LARGE),
        clprune_mat_rows(c, 0, batch * LARGE), NULL, x, NULL);
}

/* Parts of a batch have the whole's bits only if one engine makes both. */
static void one_engine(NO_ROW)
{
    const struct {
        const char *name;
        samples_fn *call;
        size_t sides[3][2]; /* of x, y and c */
        bool may_blast;     /* CLBlast makes them where its groups fit the device */
    } kinds[] = {
        {"gemm_batched", batched, {{MOST * ROWS, INNER}, {MOST * INNER, COLS}, {MOST * ROWS, COLS}},
            false},
        {"product_tokens", tokens, {{ROWS, INNER}, {MOST * INNER, COLS}, {MOST * ROWS, COLS}},
            false},
        {"product_rows", features, {{MOST * ROWS, INNER}, {INNER, COLS}, {MOST * ROWS, COLS}},
            true},
        {"gemm_sum_nt", weights, {{ROWS, INNER}, {MOST * INNER, COLS}, {MOST * ROWS, COLS}}, false},
        {"gemm_sum_nt, large", large_weights, {{LARGE, LARGE}, {1, 1}, {MOST * LARGE, 2}}, true},
    };
    const clprune_context_options options = {.kernels = CLPRUNE_KERNELS_TILED};
    clprune_context *context = test_open_on(NULL, &options);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        clprune_mat m[3];
        int alone = 0;
        for (size_t i = 0; i < 3; i++) {
            m[i] = test_new_mat(context, kinds[k].sides[i][0], kinds[k].sides[i][1]);
            TEST_OK(clprune_mat_fill(context, 1, m[i], NULL));
        }
        for (size_t batch = 1; batch <= MOST; batch += MOST - 1) {
            products = 0;
            if (kinds[k].call(context, batch, m[0], m[1], m[2]) != CLPRUNE_SUCCESS)
                fail_msg("%s: %s", kinds[k].name, clprune_last_error(context));
            if (batch == 1)
                alone = products;
            if ((products > 0) != (alone > 0) || (products > 0 && !kinds[k].may_blast))
                fail_msg("%s, %zu samples: %d products of CLBlast, %d of one sample", kinds[k].name,
                    batch, products, alone);
        }
    }
}

static clprune_context *outlives;
static clprune_mat operand, product;

static clprune_status multiply_again(void)
{
    return clprune_gemm(outlives, false, false, 1, 0, operand, operand, product, NULL);
}

/* CLBlast's objects are gone here if a program loads the library by dlopen after it registered this
 * function: a product fails, and the context is destroyed without a call of CLBlast. */
static void at_exit(void)
{
    const bool good = multiply_again() == CLPRUNE_CLBLAST_ERROR &&
                      strstr(clprune_last_error(outlives), "the process exits") != NULL;
    clprune_context_destroy(outlives);
    _exit(good && cleared == 0 ? 0 : 1);
}

static void exit_with_context(void)
{
    size_t count = 0;
    test_debug("gemm=clblast");
    if (clprune_device_list(0, NULL, &count) == CLPRUNE_SUCCESS && count == 0)
        _exit(0);
    if (atexit(at_exit) != 0 || clprune_context_create(NULL, NULL, &outlives) != CLPRUNE_SUCCESS ||
        clprune_mat_create(outlives, CLPRUNE_MEMORY_INPUT, "a", 1, 1, &operand) !=
            CLPRUNE_SUCCESS ||
        clprune_mat_create(outlives, CLPRUNE_MEMORY_INPUT, "c", 1, 1, &product) !=
            CLPRUNE_SUCCESS ||
        multiply_again() != CLPRUNE_SUCCESS ||
        clprune_context_finish(outlives) != CLPRUNE_SUCCESS) /* PoCL's compiler goes at exit too */
        _exit(2);
    exit(3);
}

int main(void)
{
    int told = 0;
    const pid_t child = fork(); /* before this process uses OpenCL */
    if (child == 0)
        exit_with_context();
    if (child < 0 || waitpid(child, &told, 0) != child || told != 0) {
        fprintf(stderr, "a process that exits beside CLBlast ends with status 0x%x\n", told);
        return 1;
    }
    test_list list = {0};
    test_add(&list, last_context, NULL, "the last context clears the cache");
    test_add(&list, beside_another, NULL, "many contexts beside one that stays");
    test_add(&list, one_engine, NULL, "one engine for any number of samples");
    return test_run_on_host("CLBlast", &list);
}
