/* Fixture: runs a list of cases on every OpenCL device found, once for each kernel family.
 *
 *     int main(void)
 *     {
 *         test_list list = {0};
 *         for (size_t i = 0; i < count; i++)
 *             test_add(&list, run_case, &rows[i], "block %zux%zu", rows[i].br, rows[i].bc);
 *         return test_run_on_devices("prune", &list);
 *     }
 *
 * A case is a cmocka test, void run_case(void **state), with *state the row; it finds its device
 * through test_context(). Environment:
 *
 *     CLPRUNE_TEST_SKIP_NO_DEVICE=1   no device at all is a skip instead of a failure
 *     CLPRUNE_TEST_KERNELS=vector     (or tiled) runs one family only
 *     CLPRUNE_TEST_SMALL=1            runs short lists, for slow simulators
 *     CLPRUNE_TEST_CASES=text         runs the cases with this text in their name
 *     CLPRUNE_TEST_VERBOSE=1          prints what the library logs */
#ifndef CLPRUNE_TEST_DEVICE_H
#define CLPRUNE_TEST_DEVICE_H

/* What cmocka needs, and what most tests use of the C library. */
#include <CL/cl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clprune/clprune.h"
#include "support/linker_wrap.h"
#include "support/test_owned.h"

#ifdef _WIN32 /* mingw-w64's rounds the product */
#define fmaf(a, b, c) ((float)((double)(a) * (double)(b) + (double)(c)))
#endif

/* The number of elements of an array. */
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* The exit status by which CTest knows a skipped test. */
#define TEST_SKIPPED 77

typedef struct test_list {
    struct CMUnitTest *tests;
    size_t count, capacity;
} test_list;

/* Adds a case; `row` is handed to it as *state and must live until the list has run. */
void test_add(test_list *list, CMUnitTestFunction run, const void *row, const char *name, ...)
    __attribute__((__format__(__printf__, 4, 5)));

/* Adds a case for each row of an array, with the row's `name` in the text. */
#define TEST_ADD_EACH(list, run, rows, text)                                                       \
    for (size_t row_ = 0; row_ < COUNT_OF(rows); row_++)                                           \
    test_add(list, run, &(rows)[row_], text, (rows)[row_].name)

/* Run the list on each device and family; on each device with its own family; or once without a
 * device. All free the list and return the exit status of main. */
int test_run_on_devices(const char *group, test_list *list);
int test_run_on_each_device(const char *group, test_list *list);
int test_run_on_host(const char *group, test_list *list);

/* The context of the device under test. */
clprune_context *test_context(void);

/* Creates a further context on the device under test; options.device is ignored. */
clprune_status test_create(clprune_context_options options, clprune_context **other);

/* The same; the end of the case destroys the context, unless test_end(context) has. The case
 * fails if it cannot be made. */
clprune_context *test_open(clprune_context_options options);
/* Fails the case unless a context cannot be made with these options, on this queue if it is not
 * NULL, and the reason has `part`. */
void test_open_fails(cl_command_queue queue, const clprune_context_options *options,
    clprune_status expected, const char *part);
/* A context on a queue; NULL: on the device that the options choose. */
clprune_context *test_open_on(cl_command_queue queue, const clprune_context_options *options);
/* A dry context in the same way. */
clprune_context *test_open_dry(
    const clprune_device_info *device, const clprune_context_options *options);

/* On a described GPU with tensor cores and so much memory; 0: any amount. */
clprune_context *test_open_gpu(uint64_t memory, clprune_precision precision);

/* "0:0 device name, vector" of the device under test. */
const char *test_device_label(void);

/* The selection string of the device under test, "0:0". */
const char *test_device_selection(void);

/* Whether CLPRUNE_TEST_SMALL is set: short lists. */
bool test_small(void);

/* Fails the case unless `call` succeeded; prints the library's last errors: without a context, of
 * the context under test and of those from test_open. */
#define TEST_OK(call) test_ok((call), #call, __FILE__, __LINE__)
void test_ok(clprune_status status, const char *call, const char *file, int line);

/* Fails the case unless `call` returned `expected` and the last error contains `part` (NULL: any,
 * but not empty). */
#define TEST_FAILS(call, expected, part) TEST_FAILS_IN(test_context(), call, expected, part)

/* The same with the last error of another context; NULL: of the thread. */
#define TEST_FAILS_IN(context, call, expected, part)                                               \
    test_fails((call), context, expected, part, #call, __FILE__, __LINE__)
void test_fails(clprune_status status, const clprune_context *context, clprune_status expected,
    const char *part, const char *call, const char *file, int line);

/* Fails the case unless `text` has `part`. */
static inline void test_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' lacks '%s'", text, part);
}

/* Fails the case unless a call of OpenCL succeeded. */
#define TEST_CL(call) assert_int_equal(call, CL_SUCCESS)

/* Fails the case unless a call that is given `&event` succeeds and sets an event, which completes
 * and is released:
 *
 *     TEST_EVENT(clprune_mat_copy(context, from, to, &event)); */
#define TEST_EVENT(call)                                                                           \
    do {                                                                                           \
        cl_event event = NULL;                                                                     \
        TEST_OK(call);                                                                             \
        assert_non_null(event);                                                                    \
        TEST_CL(clWaitForEvents(1, &event));                                                       \
        TEST_CL(clReleaseEvent(event));                                                            \
    } while (0)

/* The parameter of a case that has no row. */
#define NO_ROW __attribute__((unused)) void **unused

#endif
