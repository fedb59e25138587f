/* A plan is used only in contexts that enqueue the same commands, with the same scratch, as its dry
 * context.
 *
 * A refused plan says what differs: kernels, precision, tuning, engine or device. With an accepted
 * plan, also one for other compute units on CPUs, scratch overwrites no live buffer. */
#include "support/test.h"

/* Tiled kernels take as much scratch for FEW rows as vector kernels for MANY. KEPT: floats. */
enum { COLS = 64, FEW = 2048, MANY = 8 * FEW, KEPT = 1024 };

/* What the dry context has other than the real one. */
typedef struct facts {
    clprune_device_info device;
    clprune_context_options options;
} facts;

typedef struct change {
    const char *name;
    void (*make)(facts *f);
    const char *refused[2]; /* by vector and tiled kernels, with this text; NULL: accepted */
} change;

#define CHANGE(name, statement)                                                                    \
    static void name(facts *f)                                                                     \
    {                                                                                              \
        (void)f;                                                                                   \
        statement;                                                                                 \
    }

CHANGE(nothing, )
CHANGE(kernels, f->options.kernels = f->options.kernels == CLPRUNE_KERNELS_VECTOR
                                         ? CLPRUNE_KERNELS_TILED
                                         : CLPRUNE_KERNELS_VECTOR)
CHANGE(local_memory, f->device.local_memory /= 2)
CHANGE(work_groups, f->device.max_work_group /= 2)
CHANGE(compute_units, f->device.compute_units += 3)
CHANGE(engine, test_debug("gemm=clblast"))

static void precision(facts *f)
{
    (void)strcpy(f->device.vendor, "NVIDIA"); /* assumed to have tensor cores */
    f->options.precision = CLPRUNE_PRECISION_TF32;
}

/* Another built-in row of parameters. */
static void tuning(facts *f)
{
    const bool narrow = f->device.type == CL_DEVICE_TYPE_CPU && f->device.vector_width < 16;
    f->device.type = CL_DEVICE_TYPE_CPU;
    f->device.vector_width = narrow ? 16 : 8;
}

static void memory(facts *f)
{
    f->device.global_memory *= 2;
    f->options.mem_limit = UINT64_MAX;
}

static const change changes[] = {
    {"nothing", nothing, {NULL, NULL}},
    {"memory", memory, {NULL, NULL}},
    {"compute units", compute_units, {NULL, "device.compute_units"}},
    {"local memory", local_memory, {"device.local_memory", "device.local_memory"}},
    {"work-groups", work_groups, {"device.max_work_group", "device.max_work_group"}},
    {"tuning", tuning, {"gemm.accumulators", "gemm.accumulators"}},
    {"products", engine, {"gemm engine", "gemm engine"}},
    {"precision", precision, {"precision tf32", "precision tf32"}},
    {"kernels", kernels, {"kernels tiled", "kernels vector"}},
};

/* `kept` lives while FEW rows borrow scratch. MANY rows make room in the arena for more. */
typedef struct program {
    clprune_context *context;
    clprune_mat t, dy, ls, dls, out, kept;
} program;

static clprune_mat create(clprune_context *context, const char *name, size_t rows, size_t cols)
{
    clprune_mat mat;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols, &mat));
    TEST_OK(clprune_mat_fill(context, 0.0f, mat, NULL));
    return mat;
}

static program open_program(clprune_context *context, bool plan)
{
    program p = {.context = context,
        .t = create(context, "t", MANY, COLS),
        .dy = create(context, "dy", MANY, COLS),
        .ls = create(context, "ls", 1, COLS),
        .dls = create(context, "dls", 1, COLS),
        .out = create(context, "out", 1, KEPT)};
    if (plan)
        TEST_OK(clprune_plan_begin(context));
    p.kept = create(context, "kept", 1, KEPT);
    TEST_OK(clprune_plan_end_step(context));
    return p;
}

static void run_step(const program *p)
{
    TEST_OK(clprune_mat_fill(p->context, 1.0f, p->kept, NULL));
    for (size_t rows = FEW; rows <= MANY; rows += MANY - FEW) {
        const clprune_mat t = clprune_mat_rows(p->t, 0, rows),
                          dy = clprune_mat_rows(p->dy, 0, rows);
        TEST_OK(clprune_layerscale_backward(
            p->context, 0, t, p->ls, dy, t, &(clprune_layerscale_grads){.dls = p->dls}, NULL));
        if (rows == FEW)
            TEST_OK(clprune_mat_copy(p->context, p->kept, p->out, NULL));
    }
    TEST_OK(clprune_plan_end_step(p->context));
}

static clprune_plan *make_plan(void (*make)(facts *f))
{
    facts f = {.device = clprune_context_device_info(test_context()),
        .options = {.kernels = clprune_context_kernels(test_context()),
            .precision = clprune_context_precision(test_context())}};
    make(&f);
    clprune_context *dry = test_open_dry(&f.device, &f.options);
    test_debug(NULL);
    const program p = open_program(dry, true);
    run_step(&p);
    return test_new_plan(dry);
}

/* A refusal names the difference, and a plan of the context's own may follow it. With a plan that
 * is accepted, scratch overwrites no live buffer. */
static void run_change(void **state)
{
    const change *row = *state;
    const clprune_kernels family = clprune_context_kernels(test_context());
    const char *refused = row->refused[family == CLPRUNE_KERNELS_TILED];
    float out[KEPT];
    clprune_plan *other = make_plan(row->make), *own = make_plan(nothing);
    clprune_context *context = test_open((clprune_context_options){.kernels = family});
    const clprune_status status = clprune_context_use_plan(context, other);
    if (status != CLPRUNE_SUCCESS) {
        TEST_FAILS_IN(
            context, status, CLPRUNE_INVALID_ARGUMENT, refused != NULL ? refused : "no refusal");
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), 0);
        TEST_OK(clprune_context_use_plan(context, own));
    }
    const program p = open_program(context, false);
    run_step(&p);
    TEST_OK(clprune_mat_read(context, p.out, out));
    for (size_t i = 0; i < KEPT; i++)
        if (out[i] != 1.0f)
            fail_msg("element %zu of a live buffer is %g", i, (double)out[i]);
    assert_true((status == CLPRUNE_SUCCESS) == (refused == NULL));
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, run_change, changes, "other %s");
    return test_run_on_devices("plan device", &list);
}
