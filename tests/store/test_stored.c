/* The list of stored samples against an array of flags. */
#include "nn/store/stored.h"
#include "support/test.h"

enum { SAMPLES = 12, STEPS = 20000 };

/* Ranges are in order, apart, and those of the flags; runs are as long as they should be. */
static void check(const clprune__stored *stored, const bool *flags)
{
    bool found[SAMPLES] = {false};
    size_t end = 0;
    for (size_t i = 0; i < stored->count; i++) {
        const clprune__range r = stored->ranges[i];
        assert_true(r.count > 0 && (i == 0 || r.first > end));
        end = r.first + r.count;
        assert_true(end <= SAMPLES);
        for (size_t n = r.first; n < end; n++)
            found[n] = true;
    }
    assert_memory_equal(found, flags, sizeof found);
    for (size_t first = 0; first < SAMPLES; first++) {
        size_t run = 0;
        while (first + run < SAMPLES && flags[first + run])
            run++;
        for (size_t count = 0; first + count <= SAMPLES; count++)
            assert_int_equal(clprune__stored_run(stored, (clprune__range){first, count}),
                run < count ? run : count);
    }
}

static void like_flags(NO_ROW)
{
    clprune__stored stored = {.ranges = NULL};
    bool flags[SAMPLES] = {false};
    test_rng rng = {1};
    for (size_t i = 0; i < STEPS; i++) {
        const size_t first = test_rng_below(&rng, SAMPLES);
        const clprune__range range = {first, test_rng_below(&rng, SAMPLES + 1 - first)};
        const bool add = test_rng_below(&rng, 2) == 0;
        assert_true(clprune__stored_reserve(&stored));
        (add ? clprune__stored_add : clprune__stored_remove)(&stored, range);
        for (size_t n = 0; n < range.count; n++)
            flags[range.first + n] = add;
        check(&stored, flags);
    }
    clprune__stored_clear(&stored);
    assert_int_equal(clprune__stored_run(&stored, (clprune__range){0, 1}), 0);
}

/* What a store reserves is enough for removing and adding. */
static void room(NO_ROW)
{
    clprune__stored stored = {.ranges = NULL};
    assert_true(clprune__stored_reserve(&stored));
    clprune__stored_add(&stored, (clprune__range){0, SIZE_MAX});
    for (size_t n = 1; n < 200; n += 2) {
        assert_true(clprune__stored_reserve(&stored));
        clprune__stored_remove(&stored, (clprune__range){n, 1});
        assert_true(stored.count < stored.room);
    }
    assert_int_equal(stored.count, 101);
    clprune__stored_clear(&stored);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, like_flags, NULL, "as an array of flags");
    test_add(&list, room, NULL, "room");
    return test_run_on_host("stored", &list);
}
