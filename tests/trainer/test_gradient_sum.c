/* Gradients of several passes: the bits of the sums as a binary counter carries, in each buffer of
 * them, and the memory that this takes. */
#include "support/test_compare.h"
#include "support/test_device.h"
#include "support/test_owned.h"
#include "support/test_rng.h"
#include "trainer/session/gradient_sum.h"

enum { MOST = 21, A = 35, B = 7, ALL = A + B };

/* The sum of gradients [first, first + count), each ALL elements: that of the largest power of two
 * below count, and that of the rest. */
static void tree(const float *all, size_t first, size_t count, float *sum)
{
    float right[ALL];
    size_t half = 1;
    while (2 * half < count)
        half *= 2;
    if (count == 1) {
        memcpy(sum, all + first * ALL, ALL * sizeof *sum);
        return;
    }
    tree(all, first, half, sum);
    tree(all, first + half, count - half, right);
    for (size_t i = 0; i < ALL; i++)
        sum[i] += right[i];
}

static uint64_t gradient_bytes(void)
{
    return clprune_memory_query(test_context(), CLPRUNE_MEMORY_GRADIENTS).live;
}

static void sums(NO_ROW)
{
    static const size_t levels[MOST + 1] = {
        0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5};
    clprune_context *context = test_context();
    clprune_param params[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    clprune_mat whole, other;
    float values[MOST * ALL], want[ALL], got[ALL];
    test_rng r = {1};
    for (size_t i = 0; i < COUNT_OF(values); i++)
        values[i] = test_rng_uniform(&r, -1, 1);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "a, b", 1, A, &whole));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "c", 1, B, &other));
    params[0].grad = clprune_mat_of(whole.buffer, 4, 5);
    params[1].grad = clprune_mat_of(whole.buffer, 3, 5);
    params[1].grad.offset = A - 15;
    params[2].grad = other;
    const uint64_t before = gradient_bytes();
    for (size_t passes = 1; passes <= MOST; passes++) {
        gradient_sum sum;
        TEST_OK(gradient_sum_open(context, passes, params, COUNT_OF(params), &sum));
        assert_int_equal(gradient_bytes() - before, levels[passes] * ALL * sizeof(float));
        for (size_t i = 0; i < passes; i++) {
            if (i == 1)
                memset(values + ALL, 0, ALL * sizeof *values);
            TEST_OK(clprune_mat_write(context, whole, values + i * ALL));
            TEST_OK(clprune_mat_write(context, other, values + i * ALL + A));
            if (i == 1) /* without samples */
                TEST_OK(gradient_sum_zero(&sum));
            TEST_OK(gradient_sum_add_all(&sum, i, i + 1 == passes));
        }
        TEST_OK(clprune_mat_read(context, whole, got));
        TEST_OK(clprune_mat_read(context, other, got + A));
        tree(values, 0, passes, want);
        assert_memory_equal(got, want, sizeof want);
        gradient_sum_close(&sum);
        assert_int_equal(gradient_bytes(), before);
    }
    clprune_buffer_release(context, whole.buffer);
    clprune_buffer_release(context, other.buffer);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, sums, NULL, "1 to 21 passes");
    return test_run_on_each_device("gradient_sum", &list);
}
