/* The tests' own tools: a check that cannot fail proves nothing, so each is shown a fault. */
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_index.h"
#include "support/test_rng.h"

static void matrix_round_trip(NO_ROW)
{
    float *values = test_new_normal(1, 7 * 5);
    test_mat m = test_mat_make(7, 5, 3, values);
    float *back = test_mat_get(&m, "m");
    test_same_floats("m", 7, 5, back, values, "fresh");
    test_mat_unchanged(&m, "m");
}

static void buffer_round_trip(NO_ROW)
{
    const unsigned char values[3] = {1, 2, 3};
    test_buf b = test_buf_make(3, values);
    unsigned char *back = test_buf_get(&b, "b");
    test_same_bytes("b", 3, back, values, "fresh");
    test_buf_unchanged(&b, "b");
}

/* A copy that the library refuses, and what is expected of it. */
static void refused_copy(clprune_status expected, const char *part)
{
    test_mat m = test_mat_make(3, 4, 0, NULL);
    TEST_FAILS(clprune_mat_copy(test_context(), m.mat, m.mat, NULL), expected, part);
}

static void right_failure(NO_ROW)
{
    refused_copy(CLPRUNE_INVALID_ARGUMENT, "from overlaps to");
    refused_copy(CLPRUNE_INVALID_ARGUMENT, NULL);
}

static void poke(cl_mem buffer, size_t byte)
{
    const unsigned char value = 0x11;
    assert_int_equal(clEnqueueWriteBuffer(clprune_context_queue(test_context()), buffer, CL_TRUE,
                         byte, 1, &value, 0, NULL, NULL),
        CL_SUCCESS);
}

/* Each of these writes one byte outside of what it may and must therefore fail. */
static void write_in_front(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 0, NULL);
    poke(m.mat.buffer, (m.mat.offset - 1) * sizeof(float));
    (void)test_mat_get(&m, "m");
}

static void write_in_gap(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 2, NULL);
    poke(m.mat.buffer, (m.mat.offset + 4) * sizeof(float));
    (void)test_mat_get(&m, "m");
}

static void write_behind_buffer(NO_ROW)
{
    test_buf b = test_buf_make(10, NULL);
    poke(b.whole, b.front + 10);
    (void)test_buf_get(&b, "b");
}

static void write_behind(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 2, NULL);
    poke(m.mat.buffer, (m.mat.offset + 2 * m.mat.ld + 4) * sizeof(float));
    (void)test_mat_get(&m, "m");
}

static void write_inside(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 2, NULL);
    poke(m.mat.buffer, (m.mat.offset + m.mat.ld + 1) * sizeof(float));
    test_mat_unchanged(&m, "m");
}

static void write_in_front_of_buffer(NO_ROW)
{
    test_buf b = test_buf_make(10, NULL);
    poke(b.whole, b.front - 1);
    (void)test_buf_get(&b, "b");
}

static void write_inside_buffer(NO_ROW)
{
    test_buf b = test_buf_make(10, NULL);
    poke(b.whole, b.front + 5);
    test_buf_unchanged(&b, "b");
}

static void write_to_scales(NO_ROW)
{
    const clprune_bsr_desc desc = {1, 4, 8, {1, 4}, 3, CLPRUNE_VALUES_INT8, 0, {0}};
    test_bsr bsr = test_bsr_make(desc);
    poke(bsr.scales.whole, bsr.scales.front);
    test_bsr_unchanged(&bsr);
}

static void wrong_status(NO_ROW)
{
    refused_copy(CLPRUNE_INVALID_SIZE, "from overlaps to");
}

static void wrong_text(NO_ROW)
{
    refused_copy(CLPRUNE_INVALID_ARGUMENT, "to overlaps from");
}

static void failed_call(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 0, NULL);
    TEST_OK(clprune_mat_copy(test_context(), m.mat, m.mat, NULL));
}

static void not_close(NO_ROW)
{
    const float got[2] = {1, 2};
    const double want[2] = {1, 2.001}, bound[2] = {1e-9, 1e-9};
    test_close("x", 1, 2, got, want, bound, "a wrong value");
}

static void wrong_nan(NO_ROW)
{
    const float got[1] = {NAN};
    const double want[1] = {1}, bound[1] = {1e30};
    test_close("x", 1, 1, got, want, bound, "a NaN");
}

static void not_infinite(NO_ROW)
{
    const float got[1] = {7};
    const double want[1] = {INFINITY}, bound[1] = {INFINITY};
    test_close("x", 1, 1, got, want, bound, "a number for an infinity");
}

static void no_bound(NO_ROW)
{
    const float got[1] = {7};
    const double want[1] = {1}, bound[1] = {INFINITY};
    test_close("x", 1, 1, got, want, bound, "a bound that allows anything");
}

static void not_same(NO_ROW)
{
    const float got[1] = {0.0f}, want[1] = {-0.0f};
    test_same_floats("x", 1, 1, got, want, "signs of zero");
}

static void not_same_ints(NO_ROW)
{
    const int32_t got[3] = {1, 2, 3}, want[3] = {1, 2, 4};
    test_same_ints("x", 3, got, want, "the last");
}

static void not_same_bytes(NO_ROW)
{
    const unsigned char got[3] = {1, 2, 3}, want[3] = {1, 2, 4};
    test_same_bytes("x", 3, got, want, "the last");
}

static void not_same_files(NO_ROW)
{
    const char *folder = test_folder(), *a = test_text("%s/a", folder),
               *b = test_text("%s/b", folder);
    test_file_write(a, "xyz", 3);
    test_file_write(b, "xy", 2);
    test_file_same(a, b);
}

static fault fault_of(int code)
{
    return (fault){code, "no file"};
}

static void not_refused(NO_ROW)
{
    fault f = fault_of(CODE_OK);
    test_refused(true, &f, CODE_DATA, "");
}

static void refused_with_another_code(NO_ROW)
{
    fault f = fault_of(CODE_USAGE);
    test_refused(false, &f, CODE_DATA, "no file");
}

static void refused_with_another_text(NO_ROW)
{
    fault f = fault_of(CODE_DATA);
    test_refused(false, &f, CODE_DATA, "no folder");
}

static void not_good(NO_ROW)
{
    fault f = fault_of(CODE_DATA);
    test_good(false, &f);
}

static void good_with_a_fault(NO_ROW)
{
    fault f = fault_of(CODE_DATA);
    test_good(true, &f);
}

int main(void)
{
    test_list good = {0};
    test_add(&good, matrix_round_trip, NULL, "a matrix reads back as written");
    test_add(&good, buffer_round_trip, NULL, "a buffer reads back as written");
    test_add(&good, right_failure, NULL, "a call fails as expected");
    const int failed = test_run_on_devices("support", &good);
    if (failed != 0)
        return failed;

    static const CMUnitTestFunction faults[] = {write_in_front, write_in_gap, write_behind,
        write_inside, write_in_front_of_buffer, write_behind_buffer, write_inside_buffer,
        write_to_scales, wrong_status, wrong_text, failed_call, not_close, wrong_nan, not_infinite,
        no_bound, not_same, not_same_ints, not_same_bytes, not_same_files, not_refused,
        refused_with_another_code, refused_with_another_text, not_good, good_with_a_fault};
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
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
