/* Cases for contexts, their folder of programs, and plans. */
#include "support/fault_case.h"
#include "support/test_folder.h"

enum { ROWS = 8, COLS = 24, MOST = 64 };

static float host[MOST];
static clprune_mat made[2];

/* ---- contexts -------------------------------------------------------------------------------- */

/* A context that a call made, and what its error was. */
static clprune_context *second;
static char error_text[4096];

static clprune_status keep_error(clprune_status status, const clprune_context *of)
{
    if (status != CLPRUNE_SUCCESS)
        (void)strncpy(error_text, clprune_last_error(of), sizeof error_text - 1);
    return status;
}

static const char *text_of_second(void)
{
    return error_text;
}

static void undo_second(clprune_context *c)
{
    (void)c;
    clprune_context_destroy(second);
    second = NULL;
    error_text[0] = '\0';
}

/* Computes a result in a context, into `host`. */
static clprune_status use_context(clprune_context *c)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_mem whole;
    size_t origin;
    memset(host, 0, sizeof host);
    memset(made, 0, sizeof made);
    THEN(clprune_mat_create(c, CLPRUNE_MEMORY_INPUT, "a", 6, 6, &made[0]));
    THEN(clprune_mat_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "b", 6, 6, &made[1]));
    THEN(clprune_mat_write(c, made[0], fault_some(3)));
    THEN(clprune_gemm(c, false, true, 1, 0, made[0], made[0], made[1], NULL));
    THEN(clprune_buffer_forget(c, made[0].buffer));
    THEN(clprune_buffer_window(c, made[1].buffer, &whole, &origin));
    THEN(clprune_mat_read(c, made[1], host));
    return status;
}

static void result_of_second(clprune_context *c, fault_bytes *to)
{
    (void)c;
    fault_add(to, host, sizeof host);
}

/* On the queue of another; with a lock, and a probe of tensor cores. */
static clprune_status call_context(clprune_context *c)
{
    const clprune_context_options options = {
        .thread_safe = 1, .precision = CLPRUNE_PRECISION_TF32, .kernels = CLPRUNE_KERNELS_VECTOR};
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(fault_checked(
        clprune_context_create(clprune_context_queue(c), &options, &second), &second));
    THEN(use_context(second));
    return keep_error(status, second);
}

static clprune_status call_own_device(clprune_context *c)
{
    (void)c;
    clprune_device_info infos[4];
    size_t count;
    const clprune_context_options options = {.device = test_device_selection(),
        .kernels = CLPRUNE_KERNELS_VECTOR,
        .cache_dir = "off"}; /* its programs are built */
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(fault_checked(clprune_context_create(NULL, &options, &second), &second));
    THEN(use_context(second));
    if (status != CLPRUNE_SUCCESS)
        return keep_error(status, second);
    return keep_error(clprune_device_list(4, infos, &count), NULL);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[TEST_PATH];

static void open_folder(clprune_context *c, const void *row)
{
    (void)c;
    (void)row;
    test_folder_make(folder);
}

static void close_folder(clprune_context *c)
{
    (void)c;
    test_folder_remove(folder);
}

static clprune_status call_cached(clprune_context *c)
{
    const clprune_context_options options = {
        .cache_dir = folder, .kernels = CLPRUNE_KERNELS_VECTOR};
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(fault_checked(
        clprune_context_create(clprune_context_queue(c), &options, &second), &second));
    THEN(use_context(second));
    return keep_error(status, second);
}

/* Another context with the same folder computes the same; no file of it is damaged. */
static void result_of_cached(clprune_context *c, fault_bytes *to)
{
    fault_add(to, host, sizeof host);
    undo_second(c);
    TEST_OK(call_cached(c));
    assert_int_equal(clprune_context_cache_stats(second).rejected, 0);
    fault_add(to, host, sizeof host);
}

static void empty_folder(clprune_context *c)
{
    (void)c;
    test_folder_remove(folder);
    test_folder_make(folder);
}

/* Each file that is stored makes room by removing the one before. */
static void small_folder(clprune_context *c)
{
    empty_folder(c);
    test_environment("CLPRUNE_CACHE_LIMIT", "1");
}

static void undo_variables(clprune_context *c)
{
    static const char *const names[] = {"CLPRUNE_CACHE_LIMIT", "CLPRUNE_TUNING", "CLPRUNE_VERBOSE"};
    undo_second(c);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        test_environment(names[i], NULL);
}

static void name_in_folder(const char *variable, const char *prefix, const char *name)
{
    char value[TEST_PATH + 32];
    (void)snprintf(value, sizeof value, "%s%s/%s", prefix, folder, name);
    test_environment(variable, value);
}

static void prepare_tuning(clprune_context *c)
{
    static const char text[] = "clprune_tuning = 1\nend\n";
    (void)c;
    name_in_folder("CLPRUNE_TUNING", "", "tuning");
    test_file_write(getenv("CLPRUNE_TUNING"), text, sizeof text - 1);
}

static void prepare_verbose(clprune_context *c)
{
    (void)c;
    name_in_folder("CLPRUNE_VERBOSE", "2:", "trace");
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A step of a dry context, planned; then in the arena. */
static clprune_context *dry;
static clprune_plan *plan;

static clprune_status dry_step(void)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat a = CLPRUNE_NO_MAT, of = CLPRUNE_NO_MAT;
    THEN(clprune_plan_begin(dry));
    THEN(clprune_mat_create(dry, CLPRUNE_MEMORY_INPUT, "a", 6, 6, &a));
    THEN(clprune_mat_create(dry, CLPRUNE_MEMORY_ACTIVATIONS, "b", 6, 6, &of));
    THEN(clprune_gemm(dry, false, true, 1, 0, a, a, of, NULL));
    THEN(clprune_buffer_forget(dry, a.buffer));
    THEN(clprune_plan_end_step(dry));
    THEN(fault_checked(clprune_plan_create(dry, &plan), &plan));
    return status;
}

static clprune_status call_plan(clprune_context *c)
{
    const clprune_device_info device = clprune_context_device_info(c);
    const clprune_context_options options = {.kernels = CLPRUNE_KERNELS_VECTOR};
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(fault_checked(clprune_context_create_dry(&device, &options, &dry), &dry));
    THEN(dry_step());
    if (status != CLPRUNE_SUCCESS)
        return keep_error(status, dry);
    THEN(clprune_context_create(clprune_context_queue(c), &options, &second));
    THEN(clprune_plan_build(second, plan));
    THEN(clprune_context_use_plan(second, plan));
    THEN(use_context(second));
    THEN(clprune_plan_end_step(second));
    return keep_error(status, second);
}

static void undo_plan(clprune_context *c)
{
    undo_second(c);
    clprune_plan_destroy(plan);
    clprune_context_destroy(dry);
    plan = NULL;
    dry = NULL;
}

/* Functions that acquire nothing, so only bad arguments can make them fail. */
static clprune_status call_sizes(clprune_context *c)
{
    clprune_max_pool_sizes pool;
    clprune_relu_mask_sizes mask;
    clprune_tuning_parameter parameters[4];
    size_t count;
    float weights[12];
    clprune_status status = CLPRUNE_SUCCESS;
    THEN(clprune_max_pool_size_query(ROWS, COLS, &pool));
    THEN(clprune_relu_mask_size_query(ROWS, COLS, &mask));
    THEN(clprune_context_tuning(c, 4, parameters, &count));
    THEN(clprune_conv2d_weights_from_oihw(2, 2, (clprune_extent){1, 3}, fault_some(1), weights));
    THEN(clprune_conv2d_weights_to_oihw(2, 2, (clprune_extent){1, 3}, weights, host));
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define CONTEXT(NAME, CALL, UNDO)                                                                  \
    {                                                                                              \
        .name = (NAME), .call = (CALL), .result = result_of_second, .undo = (UNDO),                \
        .text = text_of_second                                                                     \
    }
#define IN_FOLDER(NAME, PREPARE, CALL, RESULT)                                                     \
    {                                                                                              \
        .name = (NAME), .open = open_folder, .prepare = (PREPARE), .call = (CALL),                 \
        .result = (RESULT), .undo = undo_variables, .close = close_folder, .text = text_of_second  \
    }

static const fault_case cases[] = {
    CONTEXT("context", call_context, undo_second),
    CONTEXT("context on a device", call_own_device, undo_second),
    CONTEXT("plan", call_plan, undo_plan),
    IN_FOLDER("folder of programs, empty", empty_folder, call_cached, result_of_cached),
    IN_FOLDER("folder of programs, full", NULL, call_cached, result_of_cached),
    IN_FOLDER("folder of programs, small", small_folder, call_cached, result_of_cached),
    IN_FOLDER("tuning file", prepare_tuning, call_context, result_of_second),
    IN_FOLDER("trace in a file", prepare_verbose, call_context, result_of_second),
    {.name = "sizes", .call = call_sizes},
};

size_t fault_context_cases(const fault_case **list)
{
    *list = cases;
    return COUNT_OF(cases);
}
