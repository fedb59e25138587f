/* Cases for the functions that take matrices: the table of test_functions.h, with real values. */
#include "support/fault_case.h"
#include "support/test_functions.h"

static const function *f;
static clprune_mat mats[MOST];
static float values[MOST][2 * BATCH * PIXELS * COLS];

static void open_function(clprune_context *c, const void *row)
{
    f = row;
    open_arguments(c, f);
    for (size_t i = 0; i < count_of(f); i++) {
        const operand *o = &f->mats[i];
        mats[i] = test_new_mat(c, elements_of(o), 1);
        mats[i] = clprune_mat_of(mats[i].buffer, o->rows, o->cols);
        fill_operand(o, (unsigned)i, values[i]);
    }
}

static void prepare_function(clprune_context *c)
{
    for (size_t i = 0; i < count_of(f); i++) {
        const clprune_mat all = clprune_mat_of(mats[i].buffer, elements_of(&f->mats[i]), 1);
        TEST_OK(clprune_mat_write(c, all, values[i]));
    }
}

static clprune_status call_function(clprune_context *c)
{
    (void)c;
    return f->call(mats);
}

static void result_of_function(clprune_context *c, fault_bytes *to)
{
    for (size_t i = 0; i < count_of(f); i++)
        if ((f->mats[i].flags & OUTPUT) != 0)
            fault_add_buffer(to, c, mats[i].buffer, 0, elements_of(&f->mats[i]) * sizeof(float));
    if (f->store == NULL)
        return;
    const clprune_saved_info info = clprune_saved_describe(with.saved);
    fault_add_buffer(to, c, info.buffer, info.offset, info.sizes.bytes);
}

size_t fault_function_cases(const fault_case **cases)
{
    enum { COUNT = COUNT_OF(functions) };
    static fault_case made[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        made[i] = (fault_case){.name = functions[i].name,
            .row = &functions[i],
            .open = open_function,
            .prepare = prepare_function,
            .call = call_function,
            .result = result_of_function};
    *cases = made;
    return COUNT;
}
