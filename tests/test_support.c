/* The tests' own tools: a check that cannot fail proves nothing, so each is shown a fault. */
#include <stdlib.h>
#include <string.h>

#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

static void matrix_round_trip(void **state)
{
    (void)state;
    float *values = test_new_normal(1, 7 * 5);
    test_mat m = test_mat_make(7, 5, 3, values);
    float *back = test_mat_get(&m, "m");
    test_same_floats("m", 7, 5, back, values, "fresh");
    test_mat_unchanged(&m, "m");
    free(back);
    free(values);
    test_mat_free(&m);
}

static void poke(cl_mem buffer, size_t byte)
{
    const unsigned char value = 0x11;
    assert_int_equal(clEnqueueWriteBuffer(clprune_context_queue(test_context()), buffer, CL_TRUE,
                         byte, 1, &value, 0, NULL, NULL),
        CL_SUCCESS);
}

/* Each of these writes one byte outside of what it may and must therefore fail. */
static void write_in_front(void **state)
{
    (void)state;
    test_mat m = test_mat_make(3, 4, 0, NULL);
    poke(m.mat.buffer, (m.mat.offset - 1) * sizeof(float));
    free(test_mat_get(&m, "m"));
}

static void write_in_gap(void **state)
{
    (void)state;
    test_mat m = test_mat_make(3, 4, 2, NULL);
    poke(m.mat.buffer, (m.mat.offset + 4) * sizeof(float));
    free(test_mat_get(&m, "m"));
}

static void write_behind_buffer(void **state)
{
    (void)state;
    test_buf b = test_buf_make(10, NULL);
    poke(b.whole, b.front + 10);
    free(test_buf_get(&b, "b"));
}

static void not_close(void **state)
{
    (void)state;
    const float got[2] = {1, 2};
    const double want[2] = {1, 2.001}, bound[2] = {1e-9, 1e-9};
    test_close("x", 1, 2, got, want, bound, "a wrong value");
}

static void wrong_nan(void **state)
{
    (void)state;
    const float got[1] = {NAN};
    const double want[1] = {1}, bound[1] = {INFINITY};
    test_close("x", 1, 1, got, want, bound, "a NaN");
}

static void not_same(void **state)
{
    (void)state;
    const float got[1] = {0.0f}, want[1] = {-0.0f};
    test_same_floats("x", 1, 1, got, want, "signs of zero");
}

int main(void)
{
    test_list good = {0};
    test_add(&good, matrix_round_trip, NULL, "a matrix reads back as written");
    const int failed = test_run_on_devices("support", &good);
    if (failed != 0)
        return failed;

    static const CMUnitTestFunction faults[] = {
        write_in_front, write_in_gap, write_behind_buffer, not_close, wrong_nan, not_same};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        test_list bad = {0};
        test_add(&bad, faults[i], NULL, "fault %zu, which must fail", i);
        if (test_run_on_devices("faults", &bad) == 0) {
            print_error("fault %zu was not noticed\n", i);
            return 1;
        }
    }
    print_message("every fault was noticed, so the failures above are the expected ones\n");
    return 0;
}
