/* The builder of defines: its text, and what overflows. */
#include "runtime/launch/launch.h"
#include "support/test_device.h"

static const clprune__kernel_def fill_kernel = {"products/fill.cl", "fill"};

static void test_text(NO_ROW)
{
    clprune__defines d = {0};
    assert_string_equal(d.text, "");
    clprune__define(&d, "BR", 1);
    assert_string_equal(d.text, "-DBR=1");
    clprune__define(&d, "BC", 0);
    clprune__define(&d, "ROWS", SIZE_MAX);
    assert_string_equal(d.text, "-DBR=1 -DBC=0 -DROWS=18446744073709551615");
    assert_int_equal(d.length, strlen(d.text));
    assert_false(d.overflow);
}

/* Fills `d` so that `left` characters fit before the zero. */
static void fill_up_to(clprune__defines *d, size_t left)
{
    while (CLPRUNE__DEFINES_TEXT - 1 - d->length >= left + 2 * strlen(" -DA=1"))
        clprune__define(d, "A", 1);
    const size_t rest = CLPRUNE__DEFINES_TEXT - 1 - d->length - left;
    char name[32] = "";
    memset(name, 'B', rest - strlen(" -D=1"));
    clprune__define(d, name, 1);
    assert_false(d->overflow);
    assert_int_equal(CLPRUNE__DEFINES_TEXT - 1 - d->length, left);
}

static void test_overflow(NO_ROW)
{
    clprune__defines d = {0}, before;
    fill_up_to(&d, strlen(" -DLAST=1"));
    clprune__define(&d, "LAST", 1);
    assert_false(d.overflow);
    assert_int_equal(d.length, CLPRUNE__DEFINES_TEXT - 1);

    d = (clprune__defines){0};
    fill_up_to(&d, strlen(" -DLAST=1"));
    before = d;
    clprune__define(&d, "LAST", 10);
    assert_true(d.overflow);
    assert_string_equal(d.text, before.text);
    clprune__define(&d, "X", 1); /* would fit, but the kernel would lack LAST */
    assert_string_equal(d.text, before.text);
    assert_true(d.overflow);
}

static void refuses(clprune_context *context)
{
    clprune__defines d = {0};
    clprune__launch launch;
    while (!d.overflow)
        clprune__define(&d, "LOCAL", 1);
    TEST_FAILS(clprune__launch_begin(context, &fill_kernel, &d, &launch), CLPRUNE_INTERNAL_ERROR,
        "overflow");
}

/* A launch refuses defines that lack some, with a device or without. */
static void test_launch(NO_ROW)
{
    clprune_context *dry = NULL;
    refuses(test_context());
    dry = test_open_dry(NULL, NULL);
    refuses(dry);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, test_text, NULL, "text");
    test_add(&list, test_overflow, NULL, "overflow");
    test_add(&list, test_launch, NULL, "a launch refuses an overflow");
    return test_run_on_each_device("defines", &list);
}
