/* Contexts, buffers and entries of the tests of plans. */
#ifndef SUPPORT_TEST_PLAN_H
#define SUPPORT_TEST_PLAN_H

#include "runtime/memory/arena.h"
#include "support/test_objects.h"

enum { MOST = 256 };

static uint64_t largest; /* max_allocation of dry contexts; 0: the device's */

static inline clprune_context *open_dry(void)
{
    clprune_device_info info = clprune_context_device_info(test_context());
    if (largest != 0)
        info.max_allocation = largest;
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context())};
    clprune_context *dry = test_open_dry(&info, &options);
    assert_null(clprune_context_queue(dry));
    assert_int_equal(clprune_context_kernels(dry), clprune_context_kernels(test_context()));
    return dry;
}

static inline clprune_context *open_real(void)
{
    return test_open((clprune_context_options){.kernels = clprune_context_kernels(test_context())});
}

/* A buffer of its own, which the context releases. */
static inline clprune_mat create(
    clprune_context *context, const char *name, size_t rows, size_t cols)
{
    clprune_mat mat;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols, &mat));
    return mat;
}

/* Copies of a plan's entries. */
typedef struct entries {
    clprune_plan_entry entry[MOST];
    size_t count;
} entries;

static inline void collect(void *user, const clprune_plan_entry *entry)
{
    entries *all = user;
    assert_true(all->count < MOST);
    all->entry[all->count++] = *entry;
}

static inline entries entries_of(const clprune_plan *plan)
{
    entries all = {.count = 0};
    clprune_plan_visit(plan, collect, &all);
    return all;
}

static inline bool meet(const clprune_plan_entry *a, const clprune_plan_entry *b)
{
    for (size_t i = 0; i < a->spans_count; i++)
        for (size_t k = 0; k < b->spans_count; k++)
            if (a->spans[i].first <= b->spans[k].last && b->spans[k].first <= a->spans[i].last)
                return true;
    return a->spans_count == 0 || b->spans_count == 0;
}

static inline uint64_t slab_of(uint64_t offset)
{
    return largest == 0 ? 0 : offset / (largest - largest % CLPRUNE__ARENA_ALIGN);
}

/* Who lives at once lies apart, above what is borrowed, inside the arena, and in one slab. */
static inline void check_places(const clprune_plan *plan)
{
    const entries all = entries_of(plan);
    const clprune_plan_totals totals = clprune_plan_sizes(plan);
    uint64_t most = 0;
    for (size_t i = 0; i < all.count; i++) {
        const clprune_plan_entry *a = &all.entry[i];
        assert_int_equal(a->offset % CLPRUNE__ARENA_ALIGN, 0);
        assert_true(a->offset + a->bytes <= totals.arena_bytes);
        assert_int_equal(slab_of(a->offset), slab_of(a->offset + a->bytes - 1));
        for (size_t k = 0; k < i; k++) {
            const clprune_plan_entry *b = &all.entry[k];
            if (meet(a, b) && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                fail_msg("%s and %s live at once in one place", a->name, b->name);
        }
        for (size_t s = 0; s < a->spans_count; s++)
            for (uint64_t c = a->spans[s].first; c <= a->spans[s].last; c++)
                assert_true(a->offset >= clprune_plan_scratch(plan, c));
    }
    for (uint64_t c = 0; c < totals.commands; c++) {
        uint64_t live = clprune_plan_scratch(plan, c);
        for (size_t i = 0; i < all.count; i++)
            for (size_t s = 0; s < all.entry[i].spans_count; s++)
                if (all.entry[i].spans[s].first <= c && c <= all.entry[i].spans[s].last)
                    live += all.entry[i].bytes;
        most = live > most ? live : most;
    }
    assert_int_equal(totals.live_bytes, most);
    assert_true(totals.arena_bytes >= totals.live_bytes);
}

#endif
