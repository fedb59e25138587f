/* The state of optimizers: checkpoints, names and bytes in the ledger, the budget. */
#include "support/test_layer.h"

/* Steps `first` to `last` with gradients of their own. */
static void run_steps(
    clprune_optimizer *optimizer, test_mat *grad, size_t count, uint64_t first, uint64_t last)
{
    for (uint64_t t = first; t <= last; t++) {
        float *g = test_new_normal(200 + t, count);
        test_mat_set(grad, g);
        TEST_OK(clprune_optimizer_step(optimizer, 0.1f, NULL));
    }
}

/* Four steps have the bits of two steps, a checkpoint, and two steps of another optimizer. */
static void checkpoint(void **state)
{
    const clprune_optimizer_desc desc =
        test_optimizer_desc(((const clprune_optimizer_info *)*state)->desc.kind);
    clprune_context *context = test_context();
    enum { COUNT = 77 };
    float *p = test_new_normal(91, COUNT), saved[COUNT];
    test_mat whole = test_mat_make(7, 11, 0, p), parts = test_mat_make(7, 11, 0, p);
    test_mat grad = test_mat_make(7, 11, 0, p);
    clprune_param param = {"w", whole.mat, grad.mat, true};
    clprune_optimizer *one = test_new_optimizer(context, desc, 1, &param);
    param.value = parts.mat;
    clprune_optimizer *two = test_new_optimizer(context, desc, 1, &param),
                      *three = test_new_optimizer(context, desc, 1, &param);
    run_steps(one, &grad, COUNT, 1, 4);
    run_steps(two, &grad, COUNT, 1, 2);
    for (size_t slot = 0; slot < clprune_optimizer_slots(two); slot++) {
        const clprune_mat from = clprune_optimizer_state(two, 0, slot);
        assert_true(from.rows == 7 && from.cols == 11);
        TEST_OK(clprune_mat_read(context, from, saved));
        TEST_OK(clprune_mat_write(context, clprune_optimizer_state(three, 0, slot), saved));
    }
    clprune_optimizer_set_steps(three, clprune_optimizer_steps(two));
    run_steps(three, &grad, COUNT, 3, 4);
    layer_same("parameter", &whole, &parts);
}

static void note_name(void *user, const clprune_memory_entry *entry)
{
    char *names = user;
    if (entry->category == CLPRUNE_MEMORY_OPTIMIZER) {
        strcat(names, entry->name);
        strcat(names, " ");
    }
}

static void ledger(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_ADAMW);
    test_mat value = test_mat_make(6, 5, 0, NULL), grad = test_mat_make(6, 5, 0, NULL);
    char w[] = "w";
    const clprune_param params[2] = {
        {w, clprune_mat_rows(value.mat, 0, 3), clprune_mat_rows(grad.mat, 0, 3), true},
        {NULL, clprune_mat_rows(value.mat, 3, 3), clprune_mat_rows(grad.mat, 3, 3), true}};
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_TOTAL);
    clprune_optimizer *optimizer = test_new_optimizer(context, desc, 2, params);
    const size_t table = 2 * 11 * sizeof(cl_ulong); /* a row for each tensor */
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_OPTIMIZER), 4 * 15 * sizeof(float) + table);
    w[0] = 'x'; /* the name was copied */
    char names[256] = "";
    clprune_memory_visit(context, note_name, names);
    assert_string_equal(names, "w.m parameter 1.m w.v parameter 1.v optimizer.table ");
    /* The state starts at zero. */
    for (size_t slot = 0; slot < 2; slot++) {
        float m[15];
        TEST_OK(clprune_mat_read(context, clprune_optimizer_state(optimizer, 0, slot), m));
        for (size_t i = 0; i < 15; i++)
            assert_true(m[i] == 0);
    }
    assert_null(clprune_optimizer_state(optimizer, 2, 0).buffer);
    assert_null(clprune_optimizer_state(optimizer, 0, 2).buffer);
    test_end(optimizer);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before);
}

/* A state that does not fit the budget fails and leaves nothing behind. */
static void over_budget(NO_ROW)
{
    const clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_ADAMW);
    clprune_context *context =
        test_open((clprune_context_options){.cache_dir = "off", .mem_limit = 1000});
    cl_int code;
    cl_mem buffer = test_own(clCreateBuffer(
        clprune_context_cl(context), CL_MEM_READ_WRITE, 400 * sizeof(float), NULL, &code));
    TEST_CL(code);
    const clprune_mat value = clprune_mat_of(buffer, 1, 150);
    const clprune_mat grad = {buffer, 200, 1, 150, 150};
    const clprune_param param = {"w", value, grad, true};
    clprune_optimizer *optimizer = (clprune_optimizer *)&buffer; /* must become NULL */
    assert_int_equal(clprune_optimizer_create(context, &desc, 1, &param, &optimizer),
        CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_null(optimizer);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), 0);
}

int main(void)
{
    test_list list = {0};
    test_add_optimizers(&list, 32, checkpoint, "checkpoint");
    test_add(&list, ledger, NULL, "names and bytes in the ledger");
    test_add(&list, over_budget, NULL, "over the budget");
    return test_run_on_devices("optimizer state", &list);
}
