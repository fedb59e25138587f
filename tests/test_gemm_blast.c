/* CLBlast's programs hold the OpenCL context that they were built for. They are released when the
 * last context that used CLBlast is destroyed, and while others live after every eighth destroyed
 * one. While the process exits, no call reaches CLBlast. */
#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static clprune_context *outlives;
static clprune_mat operand, product;

static clprune_status multiply_again(void)
{
    return clprune_gemm(outlives, false, false, 1, 0, operand, operand, product, NULL);
}

/* CLBlast's objects are gone here if a program loads the library by dlopen after it registered this
 * function: a product fails, and the context is destroyed without a call of CLBlast. */
static void at_exit(void)
{
    const bool good = multiply_again() == CLPRUNE_CLBLAST_ERROR &&
                      strstr(clprune_last_error(outlives), "the process exits") != NULL;
    clprune_context_destroy(outlives);
    _exit(good && cleared == 0 ? 0 : 1);
}

static void exit_with_context(void)
{
    size_t count = 0;
    test_debug("gemm=clblast");
    if (clprune_device_list(0, NULL, &count) == CLPRUNE_SUCCESS && count == 0)
        _exit(0);
    if (atexit(at_exit) != 0 || clprune_context_create(NULL, NULL, &outlives) != CLPRUNE_SUCCESS ||
        clprune_mat_create(outlives, CLPRUNE_MEMORY_INPUT, "a", 1, 1, &operand) !=
            CLPRUNE_SUCCESS ||
        clprune_mat_create(outlives, CLPRUNE_MEMORY_INPUT, "c", 1, 1, &product) !=
            CLPRUNE_SUCCESS ||
        multiply_again() != CLPRUNE_SUCCESS ||
        clprune_context_finish(outlives) != CLPRUNE_SUCCESS) /* PoCL's compiler goes at exit too */
        _exit(2);
    exit(3);
}

int main(void)
{
    int told = 0;
    const pid_t child = fork(); /* before this process uses OpenCL */
    if (child == 0)
        exit_with_context();
    if (child < 0 || waitpid(child, &told, 0) != child || told != 0) {
        fprintf(stderr, "a process that exits beside CLBlast ends with status 0x%x\n", told);
        return 1;
    }
    test_list list = {0};
    test_add(&list, last_context, NULL, "the last context clears the cache");
    test_add(&list, beside_another, NULL, "many contexts beside one that stays");
    return test_run_on_host("CLBlast", &list);
}
