/* CLBlast's programs hold the OpenCL context that they were built for. They are released when the
 * last context that used CLBlast is destroyed, and while others live after every eighth destroyed
 * one. */
#include <clblast_c.h>

#include "support/test_device.h"
#include "support/test_folder.h"

static int cleared;

CLBlastStatusCode __real_CLBlastClearCache(void);
CLBlastStatusCode __wrap_CLBlastClearCache(void);

CLBlastStatusCode __wrap_CLBlastClearCache(void)
{
    cleared++;
    return __real_CLBlastClearCache();
}

static clprune_context *open_context(void)
{
    clprune_context *context = NULL;
    if (clprune_context_create(NULL, NULL, &context) != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(NULL));
    return context;
}

/* 3 * 3 = 9, by CLBlast. */
static void multiply(clprune_context *context)
{
    clprune_mat a, c;
    float got = 0;
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    assert_int_equal(clprune_mat_create(context, input, "a", 1, 1, &a), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(context, input, "c", 1, 1, &c), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_fill(context, 3, a, NULL), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_gemm(context, false, false, 1, 0, a, a, c, NULL), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_read(context, c, &got), CLPRUNE_SUCCESS);
    assert_true(got == 9);
    clprune_buffer_release(context, a.buffer);
    clprune_buffer_release(context, c.buffer);
}

static void last_context(void **state)
{
    (void)state;
    test_debug("gemm=clblast");
    clprune_context *first = open_context(), *second = open_context(), *idle = open_context();
    multiply(first);
    multiply(second);
    clprune_context_destroy(first);
    assert_int_equal(cleared, 0);
    multiply(second); /* its programs are there */
    clprune_context_destroy(second);
    assert_int_equal(cleared, 1); /* though `idle`, which never called CLBlast, lives */
    multiply(idle);
    clprune_context_destroy(idle);
    assert_int_equal(cleared, 2);
    idle = open_context();
    clprune_context_destroy(idle);
    assert_int_equal(cleared, 2);
    test_debug(NULL);
}

/* Beside a context that stays, some closed ones may leave their programs, but not any number. */
static void beside_another(void **state)
{
    (void)state;
    enum { MANY = 20 };
    test_debug("gemm=clblast");
    clprune_context *stays = open_context();
    multiply(stays);
    cleared = 0;
    for (int i = 0; i < MANY; i++) {
        clprune_context *context = open_context();
        multiply(context);
        clprune_context_destroy(context);
    }
    assert_int_equal(cleared, MANY / 8);
    multiply(stays); /* with programs built once more */
    clprune_context_destroy(stays);
    assert_int_equal(cleared, MANY / 8 + 1);
    test_debug(NULL);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, last_context, NULL, "the last context clears the cache");
    test_add(&list, beside_another, NULL, "many contexts beside one that stays");
    return test_run_on_host("CLBlast", &list);
}
