/* Faults of the trainer: what succeeds, and what is refused with a code and a text. */
#ifndef CLPRUNE_TEST_FAULT_H
#define CLPRUNE_TEST_FAULT_H

#include "support/test_device.h"
#include "trainer/base/fault.h"

/* Fails the case with the fault's text unless a call succeeded. */
static inline void test_good(bool good, const fault *f)
{
    if (!good)
        fail_msg("%s", f->text);
    assert_int_equal(f->code, CODE_OK);
}

/* Fails the case unless a call was refused with this code and a text that has `part`; clears *f. */
static inline void test_refused(bool good, fault *f, int code, const char *part)
{
    if (good)
        fail_msg("taken, not refused with '%s'", part);
    test_says(f->text, part);
    assert_int_equal(f->code, code);
    *f = (fault){0};
}

/* The same for a call that is given `&f`, a fault of its own:
 *
 *     TEST_GOOD(dataset_open(source, NULL, &data, &f));
 *     TEST_REFUSED(dataset_open(source, NULL, &data, &f), CODE_DATA, "no such file"); */
#define TEST_GOOD(call)                                                                            \
    do {                                                                                           \
        fault f = {0};                                                                             \
        test_good(call, &f);                                                                       \
    } while (0)
#define TEST_REFUSED(call, code, part)                                                             \
    do {                                                                                           \
        fault f = {0};                                                                             \
        test_refused(call, &f, code, part);                                                        \
    } while (0)

#endif
