/* The time of a command on a card, by hand; the cards of --plan-device. */
#include "support/test.h"
#include "trainer/memory/plan_times.h"
#include "trainer/options/options.h"

static const plan_card card = {"made up", 100, 10, 2e12, {10e12, 100e12, 200e12}, 5e-6};

/* 2 GB take 1 ms; multiplications count as two operations. */
static void seconds(NO_ROW)
{
    static const struct {
        clprune_plan_work work;
        double seconds;
    } rows[] = {
        {{"nothing", 0, 0, CLPRUNE_PRECISION_FP32}, 5e-6},
        {{"moving", 2e9, 0, CLPRUNE_PRECISION_FP32}, 1.005e-3},
        {{"multiplying", 0, 50e9, CLPRUNE_PRECISION_FP32}, 10.005e-3},
        {{"multiplying", 0, 50e9, CLPRUNE_PRECISION_TF32}, 1.005e-3},
        {{"multiplying", 0, 50e9, CLPRUNE_PRECISION_BF16}, .505e-3},
        {{"both, bound by bytes", 2e9, 50e9, CLPRUNE_PRECISION_BF16}, 1.005e-3},
        {{"both, bound by products", 2e9, 50e9, CLPRUNE_PRECISION_FP32}, 10.005e-3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        assert_float_equal(plan_card_seconds(&card, &rows[i].work), rows[i].seconds, 1e-12);
}

/* Each word has a card, whose device has tensor cores and fits a plan. */
static void cards(NO_ROW)
{
    assert_null(plan_card_of(0));
    assert_string_equal(options_plan_devices[0], "own");
    for (size_t i = 1; options_plan_devices[i] != NULL; ++i) {
        const plan_card *known = plan_card_of(i);
        const clprune_device_info device = plan_card_device(known);
        char number[8];
        assert_int_equal(sscanf(options_plan_devices[i], "%*[a-z]%7[0-9]", number), 1);
        assert_non_null(strstr(known->name, number));
        const clprune_context_options wanted = {.precision = CLPRUNE_PRECISION_BF16};
        clprune_context *dry;
        TEST_OK(clprune_context_create_dry(&device, &wanted, &dry));
        assert_int_equal(clprune_context_precision(dry), CLPRUNE_PRECISION_BF16);
        assert_int_equal(clprune_context_kernels(dry), CLPRUNE_KERNELS_TILED);
        clprune_context_destroy(dry);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, seconds, NULL, "seconds by hand");
    test_add(&list, cards, NULL, "cards");
    return test_run_on_host("plan_times", &list);
}
