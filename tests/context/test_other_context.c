/* Objects of one context in calls on another: one on the same queue, one with an OpenCL context of
 * its own, and a dry one. Each call is refused, names the argument and borrows nothing. */
#include "support/test_objects.h"

/* More refused calls than there are chunks of scratch. */
enum { ROWS = 4, BATCH = 2, TOKENS = BATCH * ROWS, COLS = 8, ROUNDS = 20 };

typedef enum kind { SAME_QUEUE, OWN, DRY } kind;

static const kind kinds[] = {SAME_QUEUE, OWN, DRY};
static const char *const names[] = {"on the same queue", "of its own OpenCL context", "dry"};

static const clprune_mat none = {.buffer = NULL};

static clprune_context *open_other(kind which)
{
    switch (which) {
    case SAME_QUEUE:
        return test_open_on(clprune_context_queue(test_context()), NULL);
    case OWN:
        return test_open((clprune_context_options){0});
    case DRY:
        return test_open_dry(NULL, NULL);
    }
    return NULL;
}

#define REFUSED(call) TEST_FAILS(call, CLPRUNE_INVALID_ARGUMENT, "saved belongs to another context")

static void stores(void **state)
{
    clprune_context *context = test_context(), *other = open_other(*(const kind *)*state);
    const clprune_keep keep = {.form = CLPRUNE_FORM_DENSE};
    const clprune_extent image = {2, 2};
    const clprune_activation gelu = CLPRUNE_ACTIVATION_GELU;
    clprune_linear *linear =
        test_new_linear(context, (clprune_linear_desc){COLS, COLS, CLPRUNE_AXIS_FEATURES, keep});
    clprune_conv2d *conv = test_new_conv2d(
        context, (clprune_conv2d_desc){.in = COLS, .out = COLS, .kernel = {1, 1}, .keep = keep});
    clprune_saved *own = test_new_saved(context, keep, BATCH, ROWS, COLS),
                  *foreign = test_new_saved(other, keep, BATCH, ROWS, COLS);
    const clprune_mat x = test_new_mat(context, TOKENS, COLS),
                      y = test_new_mat(context, TOKENS, COLS),
                      dx = test_new_mat(context, TOKENS, COLS),
                      w = test_new_mat(context, COLS, COLS), dw = test_new_mat(context, COLS, COLS);
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
}

/* Buffers belong to an OpenCL context: those of a context on the same queue are good. */
static void buffers(void **state)
{
    const kind which = *(const kind *)*state;
    clprune_context *context = test_context(), *other = open_other(which);
    const clprune_keep keep = {.form = CLPRUNE_FORM_DENSE};
    const clprune_mat own = test_new_mat(context, TOKENS, COLS);
    const clprune_mat foreign = test_new_mat(other, TOKENS, COLS);
    clprune_saved *saved = NULL;
    cl_mem whole;
    size_t origin;
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
        TEST_FAILS(clprune_buffer_window(context, foreign.buffer, &whole, &origin), bad, part);
        TEST_FAILS(clprune_saved_create_in(context, &keep, BATCH, ROWS, COLS, foreign.buffer, 0,
                       TOKENS * COLS * sizeof(float), &saved),
            bad, part);
        assert_null(saved);
        part = which == DRY ? "was not created in this dry context" : part;
        TEST_FAILS_IN(other, clprune_mat_copy(other, own, foreign, NULL), bad, part);
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        test_add(&list, stores, &kinds[i], "a store of a context %s", names[i]);
        test_add(&list, buffers, &kinds[i], "buffers of a context %s", names[i]);
    }
    return test_run_on_each_device("other contexts", &list);
}
