/* The tests' own tools: a check that cannot fail proves nothing, so each is shown a fault. */
#include "support/test.h"
#include "support/test_fault.h"
#include "support/test_index.h"

static void matrix_round_trip(NO_ROW)
{
    float *values = test_new_normal(1, 7 * 5);
    test_mat m = test_mat_make(7, 5, 3, values);
    test_same_floats("m", 7, 5, test_mat_get(&m, "m"), values, "fresh");
    test_mat_unchanged(&m, "m");
}

static void buffer_round_trip(NO_ROW)
{
    const unsigned char values[3] = {1, 2, 3};
    test_buf b = test_buf_make(3, values);
    test_same_bytes("b", 3, test_buf_get(&b, "b"), values, "fresh");
    test_buf_unchanged(&b, "b");
}

/* A copy that the library refuses, and what is expected of it. */
typedef struct refusal {
    clprune_status status;
    const char *part;
} refusal;

static void refused_copy(void **state)
{
    const refusal *r = *state;
    test_mat m = test_mat_make(3, 4, 0, NULL);
    TEST_FAILS(clprune_mat_copy(test_context(), m.mat, m.mat, NULL), r->status, r->part);
}

static const refusal right_refusals[] = {
    {CLPRUNE_INVALID_ARGUMENT, "from overlaps to"}, {CLPRUNE_INVALID_ARGUMENT, NULL}};
static const refusal wrong_status = {CLPRUNE_INVALID_SIZE, "from overlaps to"};
static const refusal wrong_text = {CLPRUNE_INVALID_ARGUMENT, "to overlaps from"};

static void failed_call(NO_ROW)
{
    test_mat m = test_mat_make(3, 4, 0, NULL);
    TEST_OK(clprune_mat_copy(test_context(), m.mat, m.mat, NULL));
}

/* ---- a byte is written where it may not be --------------------------------------------------- */

static void poke(cl_mem buffer, size_t byte)
{
    const unsigned char value = 0x11;
    TEST_CL(clEnqueueWriteBuffer(
        clprune_context_queue(test_context()), buffer, CL_TRUE, byte, 1, &value, 0, NULL, NULL));
}

/* Where: an element of a matrix of 3 x 4, or a byte of a buffer of 10; `inside`: of an input. */
typedef struct stray {
    long at;
    bool inside;
    size_t gap;
} stray;

static const stray in_front = {-1, false, 0}, in_gap = {4, false, 2},
                   behind = {2 * 6 + 4, false, 2}, inside = {6 + 1, true, 2};
static const stray behind_buffer = {10, false, 0}, inside_buffer = {5, true, 0};

static void stray_in_matrix(void **state)
{
    const stray *s = *state;
    test_mat m = test_mat_make(3, 4, s->gap, NULL);
    poke(m.mat.buffer, (size_t)((long)m.mat.offset + s->at) * sizeof(float));
    if (s->inside)
        test_mat_unchanged(&m, "m");
    else
        (void)test_mat_get(&m, "m");
}

static void stray_in_buffer(void **state)
{
    const stray *s = *state;
    test_buf b = test_buf_make(10, NULL);
    poke(b.whole, (size_t)((long)b.front + s->at));
    if (s->inside)
        test_buf_unchanged(&b, "b");
    else
        (void)test_buf_get(&b, "b");
}

static void write_to_scales(NO_ROW)
{
    const clprune_bsr_desc desc = {1, 4, 8, {1, 4}, 3, CLPRUNE_VALUES_INT8, 0, {0}};
    test_bsr bsr = test_bsr_make(desc);
    poke(bsr.scales.whole, bsr.scales.front);
    test_bsr_unchanged(&bsr);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

typedef struct pair {
    float got;
    double want, bound;
} pair;

static const pair too_far = {2, 2.001, 1e-9}, not_a_number = {NAN, 1, 1e30},
                  for_infinity = {7, INFINITY, INFINITY}, without_bound = {7, 1, INFINITY};

static void not_close(void **state)
{
    const pair *p = *state;
    const float got[2] = {1, p->got};
    const double want[2] = {1, p->want}, bound[2] = {1e-9, p->bound};
    test_close("x", 1, 2, got, want, bound, "the second is wrong");
}

static void not_same(NO_ROW)
{
    const float got[1] = {0.0f}, want[1] = {-0.0f};
    test_same_floats("x", 1, 1, got, want, "signs of zero");
}

static void not_same_ints(NO_ROW)
{
    test_same_ints("x", 3, (int32_t[]){1, 2, 3}, (int32_t[]){1, 2, 4}, "the last");
}

static void not_same_bytes(NO_ROW)
{
    test_same_bytes("x", 3, (unsigned char[]){1, 2, 3}, (unsigned char[]){1, 2, 4}, "the last");
}

static void not_same_files(NO_ROW)
{
    const char *folder = test_folder(), *a = test_text("%s/a", folder),
               *b = test_text("%s/b", folder);
    test_file_write(a, "xyz", 3);
    test_file_write(b, "xy", 2);
    test_file_same(a, b);
}

/* ---- faults of the trainer ------------------------------------------------------------------- */

/* A call that succeeds or not, with a fault "no file" of this code, and what is expected of it. */
typedef struct outcome {
    bool good;
    int code;
    const char *part; /* NULL: it succeeds */
} outcome;

static const outcome not_refused = {true, CODE_OK, ""},
                     another_code = {false, CODE_USAGE, "no file"},
                     another_text = {false, CODE_DATA, "no folder"},
                     not_good = {false, CODE_DATA, NULL}, good_with_fault = {true, CODE_DATA, NULL};

static void wrong_outcome(void **state)
{
    const outcome *o = *state;
    fault f = {o->code, "no file"};
    if (o->part != NULL)
        test_refused(o->good, &f, CODE_DATA, o->part);
    else
        test_good(o->good, &f);
}

static const struct {
    CMUnitTestFunction run;
    const void *row;
} faults[] = {{stray_in_matrix, &in_front}, {stray_in_matrix, &in_gap}, {stray_in_matrix, &behind},
    {stray_in_matrix, &inside}, {stray_in_buffer, &in_front}, {stray_in_buffer, &behind_buffer},
    {stray_in_buffer, &inside_buffer}, {write_to_scales, NULL}, {refused_copy, &wrong_status},
    {refused_copy, &wrong_text}, {failed_call, NULL}, {not_close, &too_far},
    {not_close, &not_a_number}, {not_close, &for_infinity}, {not_close, &without_bound},
    {not_same, NULL}, {not_same_ints, NULL}, {not_same_bytes, NULL}, {not_same_files, NULL},
    {wrong_outcome, &not_refused}, {wrong_outcome, &another_code}, {wrong_outcome, &another_text},
    {wrong_outcome, &not_good}, {wrong_outcome, &good_with_fault}};

int main(void)
{
    test_list good = {0};
    test_add(&good, matrix_round_trip, NULL, "a matrix reads back as written");
    test_add(&good, buffer_round_trip, NULL, "a buffer reads back as written");
    for (size_t i = 0; i < COUNT_OF(right_refusals); i++)
        test_add(&good, refused_copy, &right_refusals[i], "a call fails as expected %zu", i);
    const int failed = test_run_on_devices("support", &good);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        test_list bad = {0};
        test_add(&bad, faults[i].run, faults[i].row, "fault %zu, which must fail", i);
        if (test_run_on_devices("faults", &bad) == 0) {
            print_error("fault %zu was not noticed\n", i);
            return 1;
        }
    }
    print_message("every fault was noticed, so the failures above are the expected ones\n");
    return 0;
}
