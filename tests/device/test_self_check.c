/* A device whose results are wrong (support/device_layer.c) is refused when a context is created.
 * The order of the cases matters: a device that passed is not asked again. CTest loads the layer;
 * without it the program is skipped.
 *
 * The layer changes single results of the self-check: NaN and wrong last bits are refused, with the
 * name of the device and of the driver. The caller's queue is not waited for. */
#include "support/device_layer.h"
#include "support/test.h"

static unsigned built;

/* Counts the programs of self-checks, which are not kept on disk here. */
static void count_built(void *user, clprune_log_level level, const char *message)
{
    (void)user;
    (void)level;
    built += strstr(message, "built device/self_check.cl") != NULL;
}

static clprune_context_options options_of(clprune_kernels kernels)
{
    built = 0;
    return (clprune_context_options){.cache_dir = "off", .kernels = kernels, .log = count_built};
}

static clprune_context *create(cl_command_queue queue, clprune_kernels kernels)
{
    const clprune_context_options options = options_of(kernels);
    return test_open_on(queue, &options);
}

static const struct wrong_row {
    const char *name, *settings, *parts[3]; /* of the text */
} wrong_rows[] = {
    {"NaN in a transpose", "spoil=self_check:0", {" gives ", "nan", "of a transpose in local"}},
    {"NaN in a product", "spoil=self_check:511", {" gives ", "nan", "of products of vectors"}},
    {"NaN in exp", "spoil=self_check:512", {" gives ", "nan", "of exp, erf, sqrt and log"}},
    {"NaN at the end", "spoil=self_check:1023", {" gives ", "nan", "of 64-bit products"}},
    {"the last bit of a transpose", "spoil=self_check:100:1", {"of a transpose in local memory"}},
    {"the last bit of a product", "spoil=self_check:300:-1", {"of products of vectors"}},
    {"the last bits of erf", "spoil=self_check:577:500", {"of exp, erf, sqrt and log"}},
    {"the last bit of a loop", "spoil=self_check:1024:1", {"of a long loop"}},
    {"the last bit of a draw", "spoil=self_check:800:1", {"of 64-bit products"}},
};

static void wrong(void **state)
{
    const struct wrong_row *row = *state;
    clprune_device_info info;
    size_t count;
    TEST_OK(clprune_device_list(1, &info, &count));
    const char *const parts[] = {"the device computes wrong results", info.platform, info.driver,
        "CLPRUNE_DEBUG=check=off", row->parts[0], row->parts[1], row->parts[2]};
    device_layer_set(row->settings);
    for (int kernels = CLPRUNE_KERNELS_VECTOR; kernels <= CLPRUNE_KERNELS_TILED; kernels++) {
        const clprune_context_options options = options_of((clprune_kernels)kernels);
        test_open_fails(NULL, &options, CLPRUNE_UNSUPPORTED, parts[0]);
        const char *text = clprune_last_error(NULL);
        for (size_t i = 1; i < COUNT_OF(parts) && parts[i] != NULL; i++)
            test_says(text, parts[i]);
    }
}

/* The switch of clprune/context.h. */
static void skipped(NO_ROW)
{
    device_layer_set("spoil=self_check:0");
    test_debug("check=off");
    (void)create(NULL, CLPRUNE_KERNELS_AUTO);
    assert_int_equal(built, 0);
}

static void built_times(unsigned times, clprune_kernels kernels)
{
    clprune_context *context = create(NULL, kernels);
    assert_int_equal(built, times);
    assert_int_equal(clprune_context_cache_stats(context).builds, 0);
    assert_int_equal(clprune_context_cache_stats(context).memory_hits, 0);
    const clprune_memory_usage memory = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    assert_int_equal(memory.peak, 0);
}

/* A command that is held back on the caller's queue does not hold back the creation. */
static void on_a_busy_queue(NO_ROW)
{
    cl_event done;
    test_debug("check=off");
    clprune_context *owner = create(NULL, CLPRUNE_KERNELS_TILED);
    test_debug(NULL);
    const cl_command_queue queue = clprune_context_queue(owner);
    const cl_event gate = test_new_event(owner);
    TEST_CL(clEnqueueBarrierWithWaitList(queue, 1, &gate, &done));
    clprune_context *context = create(queue, CLPRUNE_KERNELS_TILED);
    assert_int_equal(built, 1);
    assert_ptr_equal(clprune_context_queue(context), queue);
    cl_int now = CL_QUEUED;
    TEST_CL(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    assert_int_not_equal(now, CL_COMPLETE);
    TEST_CL(clSetUserEventStatus(gate, CL_COMPLETE));
    (void)clReleaseEvent(done);
}

/* Each family once; statistics and memory do not count the check. */
static void once(NO_ROW)
{
    built_times(0, CLPRUNE_KERNELS_TILED); /* of the case before */
    built_times(1, CLPRUNE_KERNELS_VECTOR);
    built_times(0, CLPRUNE_KERNELS_VECTOR);
    device_layer_set("spoil=self_check:0");
    built_times(0, CLPRUNE_KERNELS_VECTOR);
}

int main(void)
{
    if (!device_layer_is_loaded()) {
        print_message("self-check: $OPENCL_LAYERS has no device layer that the loader knows\n");
        return TEST_SKIPPED;
    }
    test_list list = {0};
    TEST_ADD_EACH(&list, wrong, wrong_rows, "%s");
    test_add(&list, skipped, NULL, "skipped");
    test_add(&list, on_a_busy_queue, NULL, "on a busy queue");
    test_add(&list, once, NULL, "once");
    return test_run_on_host("self-check", &list);
}
