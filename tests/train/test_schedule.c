/* The learning-rate schedule: PyTorch's table, its ends, and degenerate lengths. */
#include "golden/golden_types.h"
#include "support/test_layer.h"

#include "golden/golden_optim.inc"

static void close_to(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-14 * fmax(fabs(want), 1e-3));
}

static void golden(NO_ROW)
{
    const clprune_schedule schedule = {.base = golden_cosine.base,
        .min = golden_cosine.min,
        .warmup = golden_cosine.warmup,
        .total = golden_cosine.total};
    for (uint64_t t = 0; t < GOLDEN_COSINE_STEPS; t++)
        close_to(clprune_schedule_lr(&schedule, t), golden_cosine_lr[t]);
}

static void ends(NO_ROW)
{
    const clprune_schedule s = {.base = 0.5, .min = 0.125, .warmup = 4, .total = 8};
    close_to(clprune_schedule_lr(&s, 0), 0.125);
    close_to(clprune_schedule_lr(&s, 3), 0.5);
    close_to(clprune_schedule_lr(&s, 4), 0.5);
    close_to(clprune_schedule_lr(&s, 6), (0.5 + 0.125) / 2);
    assert_true(clprune_schedule_lr(&s, 7) > 0.125);
    assert_true(clprune_schedule_lr(&s, 8) == 0.125);
    assert_true(clprune_schedule_lr(&s, UINT64_MAX) == 0.125);
}

static void degenerate(NO_ROW)
{
    const clprune_schedule none = {.base = 0.5, .min = 0.25};
    assert_true(clprune_schedule_lr(&none, 0) == 0.25);
    const clprune_schedule no_warmup = {.base = 0.5, .min = 0, .total = 2};
    close_to(clprune_schedule_lr(&no_warmup, 0), 0.5);
    close_to(clprune_schedule_lr(&no_warmup, 1), 0.25);
    const clprune_schedule only_warmup = {.base = 0.5, .min = 0.25, .warmup = 2, .total = 2};
    close_to(clprune_schedule_lr(&only_warmup, 0), 0.25);
    close_to(clprune_schedule_lr(&only_warmup, 1), 0.5);
    assert_true(clprune_schedule_lr(&only_warmup, 2) == 0.25);
    const clprune_schedule one = {.base = 0.5, .min = 0.25, .warmup = 1, .total = 2};
    close_to(clprune_schedule_lr(&one, 0), 0.5);
    close_to(clprune_schedule_lr(&one, 1), 0.5);
    assert_true(clprune_schedule_lr(NULL, 3) == 0);
    for (int i = 0; i < 2; i++) {
        clprune_schedule newer = one;
        newer.reserved[i] = 1;
        assert_true(isnan(clprune_schedule_lr(&newer, 0)));
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, golden, NULL, "PyTorch's table");
    test_add(&list, ends, NULL, "ends");
    test_add(&list, degenerate, NULL, "degenerate lengths");
    return test_run_on_host("schedule", &list);
}
