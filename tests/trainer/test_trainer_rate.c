/* The learning rate of the trainer: milestones, lines, refused lists, and the cosine of the
 * library. */
#include "support/test_fault.h"
#include "trainer/base/learning_rate.h"

static learning_rate rate_of(const char *milestones, uint64_t warmup, uint64_t total)
{
    learning_rate rate = {.schedule = {.base = 0.4, .warmup = warmup, .total = total}};
    TEST_GOOD(learning_rate_milestones(milestones, &rate, &f));
    return rate;
}

static void near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-15);
}

static void steps(NO_ROW)
{
    const learning_rate rate = rate_of("0.5,0.75", 4, 40);
    for (uint64_t t = 0; t < 50; t++)
        near(learning_rate_at(&rate, t), t < 4    ? 0.1 * (double)(t + 1)
                                         : t < 20 ? 0.4
                                         : t < 30 ? 0.04
                                                  : 0.004);
    const learning_rate rounded = rate_of("0.25", 0, 10); /* 2.5 steps are 3 */
    near(learning_rate_at(&rounded, 2), 0.4);
    near(learning_rate_at(&rounded, 3), 0.04);
}

static void lines(NO_ROW)
{
    learning_rate rate = {.schedule = {.base = 2, .warmup = 9, .total = 40}};
    TEST_GOOD(learning_rate_points("0:0.2,0.25:1,1:0.1", &rate, &f));
    for (uint64_t t = 0; t < 50; t++)
        near(learning_rate_at(&rate, t), t < 10   ? 2 * (0.2 + 0.8 * (double)t / 10)
                                         : t < 40 ? 2 * (1 - 0.9 * (double)(t - 10) / 30)
                                                  : 2 * 0.1);
}

static void refused_points(NO_ROW)
{
    static const char *const lists[] = {"", "0:1", "0:1,1", "0:1,1:0,", "0:1,0.5:1", "0.1:1,1:0",
        "0:1,0.5:1,0.5:0,1:0", "0:,1:0", ":1,1:0", "0:-1,1:0", "0:1001,1:0", "0:nan,1:0", "0:1;1:0",
        "0:1,2:0", "0:0,.1:1,.2:1,.3:1,.4:1,.5:1,.6:1,.7:1,1:0"};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        learning_rate rate;
        print_message("'%s'\n", lists[i]);
        TEST_REFUSED(learning_rate_points(lists[i], &rate, &f), CODE_USAGE, "--points");
    }
}

static void cosine(NO_ROW)
{
    const learning_rate rate = {.schedule = {.base = 0.4, .warmup = 4, .total = 40}};
    for (uint64_t t = 0; t < 50; t++)
        assert_true(learning_rate_at(&rate, t) == clprune_schedule_lr(&rate.schedule, t));
}

static void refused(NO_ROW)
{
    static const char *const lists[] = {"", "0", "1", "0.5,", ",0.5", "0.5,0.5", "0.75,0.5", "0.5 ",
        " 0.5", "0.5;0.75", "-0.5", "nan", "0x.8p0", "5e-1", ".1,.2,.3,.4,.5,.6,.7,.8,.9"};
    char longest[MILESTONES_TEXT + 2] = "0.5"; /* a checkpoint has room for the longest */
    memset(longest + 3, '0', MILESTONES_TEXT - 3);
    (void)rate_of(longest, 0, 1);
    longest[MILESTONES_TEXT] = '0';
    for (size_t i = 0; i <= COUNT_OF(lists); i++) {
        const char *text = i < COUNT_OF(lists) ? lists[i] : longest;
        learning_rate rate;
        print_message("'%s'\n", text);
        TEST_REFUSED(learning_rate_milestones(text, &rate, &f), CODE_USAGE, "--milestones");
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, steps, NULL, "steps");
    test_add(&list, lines, NULL, "lines");
    test_add(&list, refused_points, NULL, "refused points");
    test_add(&list, cosine, NULL, "cosine");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_host("trainer_rate", &list);
}
