/* Objects of one context in calls on another: one on the same queue, one with an OpenCL context of
 * its own, and a dry one. Each call is refused, names the argument and borrows nothing. */
#include <string.h>

#include "support/test_device.h"

/* More refused calls than there are chunks of scratch. */
enum { ROWS = 4, BATCH = 2, TOKENS = BATCH * ROWS, COLS = 8, ROUNDS = 20 };

typedef enum kind { SAME_QUEUE, OWN, DRY } kind;

static const kind kinds[] = {SAME_QUEUE, OWN, DRY};
static const char *const names[] = {"on the same queue", "of its own OpenCL context", "dry"};

static const clprune_mat none = {.buffer = NULL};

static clprune_context *open_other(kind which)
{
    clprune_context *other = NULL;
    switch (which) {
    case SAME_QUEUE:
        TEST_OK(clprune_context_create(clprune_context_queue(test_context()), NULL, &other));
        break;
    case OWN:
        TEST_OK(test_create((clprune_context_options){0}, &other));
        break;
    case DRY:
        TEST_OK(clprune_context_create_dry(NULL, NULL, &other));
        break;
    }
    return other;
}

static clprune_mat make(clprune_context *context, size_t rows, size_t cols)
{
    clprune_mat mat;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", rows, cols, &mat));
    return mat;
}

#define REFUSED(call) TEST_FAILS(call, CLPRUNE_INVALID_ARGUMENT, "saved belongs to another context")

static void stores(void **state)
{
    clprune_context *context = test_context(), *other = open_other(*(const kind *)*state);
    const clprune_keep keep = {.form = CLPRUNE_FORM_DENSE};
    const clprune_linear_desc linear_desc = {COLS, COLS, CLPRUNE_AXIS_FEATURES, keep};
    const clprune_conv2d_desc conv_desc = {.in = COLS, .out = COLS, .kernel = {1, 1}, .keep = keep};
    const clprune_extent image = {2, 2};
    const clprune_activation gelu = CLPRUNE_ACTIVATION_GELU;
    clprune_linear *linear = NULL;
    clprune_conv2d *conv = NULL;
    clprune_saved *foreign = NULL, *own = NULL;
    TEST_OK(clprune_linear_create(context, &linear_desc, &linear));
    TEST_OK(clprune_conv2d_create(context, &conv_desc, &conv));
    TEST_OK(clprune_saved_create(context, "own", &keep, BATCH, ROWS, COLS, &own));
    TEST_OK(clprune_saved_create(other, "foreign", &keep, BATCH, ROWS, COLS, &foreign));
    const clprune_mat x = make(context, TOKENS, COLS), y = make(context, TOKENS, COLS),
                      dx = make(context, TOKENS, COLS), w = make(context, COLS, COLS),
                      dw = make(context, COLS, COLS);
    const clprune_memory_usage before = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    for (int i = 0; i < ROUNDS; i++) {
        REFUSED(clprune_linear_forward(linear, BATCH, x, w, none, y, foreign, NULL));
        REFUSED(clprune_linear_backward(
            linear, BATCH, foreign, y, w, &(clprune_grads){.dx = dx, .dw = dw}, NULL));
        REFUSED(clprune_linear_backward(
            linear, BATCH, foreign, y, w, &(clprune_grads){.dx = dx}, NULL));
        REFUSED(clprune_conv2d_forward(conv, BATCH, image, x, w, none, y, foreign, NULL));
        REFUSED(clprune_conv2d_backward(
            conv, BATCH, image, foreign, y, w, &(clprune_grads){.dx = dx, .dw = dw}, NULL));
        REFUSED(clprune_activation_forward(context, gelu, 0, BATCH, x, none, y, foreign, NULL));
        REFUSED(clprune_activation_backward(
            context, gelu, 0, BATCH, foreign, y, &(clprune_grads){.dx = dx}, NULL));
    }
    const clprune_memory_usage after = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    assert_memory_equal(&after, &before, sizeof after);
    TEST_OK(clprune_saved_store(own, 0, BATCH, x, NULL));
    TEST_OK(clprune_context_finish(context));
    clprune_saved_destroy(foreign);
    clprune_saved_destroy(own);
    clprune_conv2d_destroy(conv);
    clprune_linear_destroy(linear);
    clprune_context_destroy(other);
    const clprune_mat mats[] = {x, y, dx, w, dw};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++)
        clprune_buffer_release(context, mats[i].buffer);
}

/* Buffers belong to an OpenCL context: those of a context on the same queue are good. */
static void buffers(void **state)
{
    const kind which = *(const kind *)*state;
    clprune_context *context = test_context(), *other = open_other(which);
    const clprune_keep keep = {.form = CLPRUNE_FORM_DENSE};
    const clprune_mat own = make(context, TOKENS, COLS);
    const clprune_mat foreign = make(other, TOKENS, COLS);
    clprune_saved *saved = NULL;
    if (which == SAME_QUEUE) {
        TEST_OK(clprune_mat_fill(context, 1, foreign, NULL));
        TEST_OK(clprune_mat_copy(context, foreign, own, NULL));
        TEST_OK(clprune_context_finish(context));
    } else {
        const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
        const char *part =
            which == DRY ? "was created in a dry context" : "belongs to another OpenCL context";
        TEST_FAILS(clprune_mat_copy(context, foreign, own, NULL), bad, part);
        TEST_FAILS(clprune_mat_fill(context, 1, foreign, NULL), bad, part);
        TEST_FAILS(clprune_buffer_forget(context, foreign.buffer), bad, part);
        TEST_FAILS(clprune_saved_create_in(context, &keep, BATCH, ROWS, COLS, foreign.buffer, 0,
                       TOKENS * COLS * sizeof(float), &saved),
            bad, part);
        assert_null(saved);
        assert_int_equal(clprune_mat_copy(other, own, foreign, NULL), bad);
        part = which == DRY ? "was not created in this dry context" : part;
        if (strstr(clprune_last_error(other), part) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", part, clprune_last_error(other));
    }
    clprune_buffer_release(context, own.buffer);
    clprune_context_destroy(other);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        test_add(&list, stores, &kinds[i], "a store of a context %s", names[i]);
        test_add(&list, buffers, &kinds[i], "buffers of a context %s", names[i]);
    }
    return test_run_on_each_device("other contexts", &list);
}
