/* A program cache with one file, for tests that damage or replace the file. */
#ifndef CLPRUNE_TEST_CACHE_H
#define CLPRUNE_TEST_CACHE_H

#include "runtime/launch/program_cache.h"
#include "support/test.h"

static const clprune__kernel_def test_fill_kernel = {"products/fill.cl", "fill"};

typedef struct test_warnings {
    int count;
    char last[512];
} test_warnings;

static inline void test_note(void *user, clprune_log_level level, const char *message)
{
    test_warnings *w = user;
    if (level != CLPRUNE_LOG_WARNING)
        return;
    w->count++;
    (void)snprintf(w->last, sizeof w->last, "%s", message);
}

/* Runs a kernel and checks its result. */
static inline void test_run_fill(clprune_context *context)
{
    const clprune_mat mat = test_new_mat(context, 2, 20);
    float values[40];
    TEST_OK(clprune_mat_fill(context, 2.5f, mat, NULL));
    TEST_OK(clprune_mat_read(context, mat, values));
    for (int i = 0; i < 40; i++)
        assert_true(values[i] == 2.5f);
}

/* Opens a context on the cache folder `dir`, runs a kernel, checks its result and returns the
 * counters. */
static inline clprune_cache_stats test_use(const char *dir, test_warnings *seen)
{
    test_warnings here = {0};
    if (seen == NULL)
        seen = &here;
    *seen = here;
    clprune_context *context =
        test_open((clprune_context_options){.cache_dir = dir, .log = test_note, .log_user = seen});
    test_run_fill(context);
    const clprune_cache_stats stats = clprune_context_cache_stats(context);
    assert_int_equal(stats.builds + stats.disk_hits, 1);
    test_end(context);
    return stats;
}

/* A cache folder with one file, and that file's path. */
typedef struct test_stocked {
    const char *base, *dir, *file;
    unsigned char *content;
    size_t size;
} test_stocked;

static inline test_stocked test_stock(void)
{
    test_stocked s = {.base = test_folder()};
    char name[TEST_PATH];
    s.dir = test_text("%s/cache", s.base);
    const clprune_cache_stats stats = test_use(s.dir, NULL);
    assert_int_equal(stats.builds, 1);
    assert_int_equal(stats.rejected, 0);
    assert_int_equal(test_folder_count(s.dir, name), 1); /* and no temporary file is left */
    s.file = test_text("%s/%s", s.dir, name);
    s.content = test_file_read(s.file, &s.size);
    return s;
}

/* A context with that folder that has built another program than test_use. */
static inline clprune_context *test_build_other(const char *dir)
{
    clprune_context *context = test_open((clprune_context_options){.cache_dir = dir});
    const clprune__kernel *kernel;
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, "-DLOCAL=1 -DVW=1", &kernel));
    return context;
}

/* The file was made unusable: it is refused and replaced, and the next context loads it. */
static inline void test_check_healed(const test_stocked *s, const char *what)
{
    test_warnings seen;
    clprune_cache_stats stats = test_use(s->dir, &seen);
    if (stats.rejected != 1 || stats.builds != 1 || seen.count == 0)
        fail_msg("%s: rejected %d, built %d, warned %d times", what, (int)stats.rejected,
            (int)stats.builds, seen.count);
    stats = test_use(s->dir, NULL);
    if (stats.rejected != 0 || stats.disk_hits != 1)
        fail_msg("%s: not replaced", what);
}

#endif
