#include "support/test_objects.h"

TEST_UNDO(release_mat, clprune_buffer_release(of, what))

clprune_mat test_new_mat_of(
    clprune_context *context, const char *name, size_t rows, size_t cols, const float *values)
{
    clprune_mat mat;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, name, rows, cols, &mat));
    test_later(release_mat, context, mat.buffer);
    if (values != NULL)
        TEST_OK(clprune_mat_write(context, mat, values));
    return mat;
}

clprune_mat test_new_mat(clprune_context *context, size_t rows, size_t cols)
{
    return test_new_mat_of(context, "mat", rows, cols, NULL);
}

TEST_UNDO(destroy_bsr, clprune_bsr_destroy(of, what))

clprune_bsr test_new_bsr(clprune_context *context, clprune_bsr_desc desc)
{
    clprune_bsr *bsr = test_alloc(sizeof *bsr);
    TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "bsr", &desc, bsr));
    test_later(destroy_bsr, context, bsr);
    return *bsr;
}

/* What the end of the case does. */
#define DESTROY(object) TEST_UNDO(destroy_##object, clprune_##object##_destroy(what))
DESTROY(linear)
DESTROY(conv2d)
DESTROY(saved)
DESTROY(optimizer)
DESTROY(plan)

/* A creation with a description. */
#define NEW(object)                                                                                \
    clprune_##object *test_new_##object(clprune_context *context, clprune_##object##_desc desc)    \
    {                                                                                              \
        clprune_##object *made = NULL;                                                             \
        TEST_OK(clprune_##object##_create(context, &desc, &made));                                 \
        test_later(destroy_##object, context, made);                                               \
        return made;                                                                               \
    }
NEW(linear)
NEW(conv2d)

clprune_saved *test_own_saved(clprune_context *context, clprune_saved *saved)
{
    test_later(destroy_saved, context, saved);
    return saved;
}

clprune_saved *test_new_saved(
    clprune_context *context, clprune_keep keep, size_t batch, size_t rows, size_t cols)
{
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create(context, "saved", &keep, batch, rows, cols, &saved));
    return test_own_saved(context, saved);
}

clprune_saved *test_new_linear_saved(
    clprune_context *context, clprune_linear *layer, size_t batch, size_t rows)
{
    clprune_saved *saved = NULL;
    TEST_OK(clprune_linear_saved_create(layer, batch, rows, "x", &saved));
    return test_own_saved(context, saved);
}

clprune_saved *test_new_conv2d_saved(
    clprune_context *context, clprune_conv2d *layer, size_t batch, clprune_extent image)
{
    clprune_saved *saved = NULL;
    TEST_OK(clprune_conv2d_saved_create(layer, batch, image, "x", &saved));
    return test_own_saved(context, saved);
}

clprune_optimizer *test_new_optimizer(clprune_context *context, clprune_optimizer_desc desc,
    size_t count, const clprune_param *params)
{
    clprune_optimizer *optimizer = NULL;
    TEST_OK(clprune_optimizer_create(context, &desc, count, params, &optimizer));
    test_later(destroy_optimizer, context, optimizer);
    return optimizer;
}

clprune_optimizer_desc test_optimizer_desc(clprune_optimizer_kind kind)
{
    return (clprune_optimizer_desc){.kind = kind,
        .momentum = 0.9f,
        .beta1 = 0.9f,
        .beta2 = 0.99f,
        .eps = 1e-6f,
        .weight_decay = 0.1f};
}

void test_add_optimizers(
    test_list *list, unsigned state_bits, CMUnitTestFunction run, const char *what)
{
    static clprune_optimizer_info rows[32];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] = clprune_optimizer_describe(i);
        const bool fits = state_bits == 0 || rows[i].desc.state_bits == state_bits;
        if (rows[i].name != NULL && fits)
            test_add(list, run, &rows[i], "%s: %s", what, rows[i].name);
    }
}

clprune_plan *test_new_plan(clprune_context *dry)
{
    clprune_plan *plan = NULL;
    TEST_OK(clprune_plan_create(dry, &plan));
    test_later(destroy_plan, NULL, plan);
    return plan;
}

TEST_UNDO(release_queue, TEST_CL(clReleaseCommandQueue(what)))

cl_command_queue test_new_queue(clprune_context *context, cl_command_queue_properties properties)
{
    cl_int code;
    const cl_command_queue queue = clCreateCommandQueue(
        clprune_context_cl(context), clprune_context_device(context), properties, &code);
    TEST_CL(code);
    test_later(release_queue, context, queue);
    return queue;
}

/* Ends what may still wait for the event: a driver may do so when the context is released. */
TEST_UNDO(release_event, (void)clSetUserEventStatus(what, CL_COMPLETE);
          TEST_CL(clReleaseEvent(what)))

cl_event test_new_event(clprune_context *context)
{
    cl_int code;
    const cl_event event = clCreateUserEvent(clprune_context_cl(context), &code);
    TEST_CL(code);
    test_later(release_event, context, event);
    return event;
}

uint64_t test_live(const clprune_context *context, clprune_memory_category category)
{
    return clprune_memory_query(context, category).live;
}
