#include "clprune/context.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_open.h"
#include "runtime/context/context_private.h"
#include "runtime/context/device_select.h"
#include "runtime/context/queue.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/compiler_memory.h"
#include "runtime/launch/disk_cache.h"
#include "runtime/launch/pocl_cache.h"
#include "runtime/launch/program_cache.h"
#include "runtime/launch/record.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/huge_pages.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/scratch.h"
#include "runtime/memory/wrap.h"

/* CPUs whose native vectors hold fewer floats run the tiled kernels, which are for GPUs. */
#define NARROWEST_VECTORS 4
/* Some tiled kernels need groups of this size; devices with smaller ones run the vector kernels. */
#define SMALLEST_GROUPS 64

static cl_mem default_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    const clprune_context *context = user;
    if (context->facts.type & CL_DEVICE_TYPE_CPU)
        return clprune__buffer_in_huge_pages(cl, bytes, error);
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

static void default_release(void *user, cl_mem buffer)
{
    (void)user;
    (void)clReleaseMemObject(buffer);
}

/* Parses "1500", "64M", "2G"; false on anything else or beyond 64 bits. */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    unsigned shift = 0;
    switch (*p) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    if (shift > 0)
        p++;
    if (p == text || *p != '\0' || value == 0 || value > (UINT64_MAX >> shift))
        return false;
    *bytes = value << shift;
    return true;
}

/* Sets *bytes from an environment variable; unset or empty, it leaves *bytes as it is. */
static clprune_status read_bytes(clprune_context *context, const char *name, uint64_t *bytes)
{
    const char *text = getenv(name);
    if (text != NULL && text[0] != '\0')
        REQUIRE(parse_bytes(text, bytes), CLPRUNE_INVALID_ARGUMENT,
            "%s is \"%.100s\", expected a number of bytes such as 1500M or 2G", name, text);
    return CLPRUNE_SUCCESS;
}

/* Sets the memory budget (the option, else CLPRUNE_MEM_LIMIT, else the device's memory) and the
 * limit of the disk cache. A dry context has no budget of its own: buffers that it holds side by
 * side share places in a plan. */
static clprune_status choose_limits(clprune_context *context, uint64_t option)
{
    context->ledger->limit = option != 0 ? option : context->facts.global_memory;
    context->cache->disk_limit = CLPRUNE__DISK_LIMIT;
    if (option == 0)
        TRY(read_bytes(context, "CLPRUNE_MEM_LIMIT", &context->ledger->limit));
    if (option == 0 && context->record != NULL)
        context->ledger->limit = UINT64_MAX;
    return read_bytes(context, "CLPRUNE_CACHE_LIMIT", &context->cache->disk_limit);
}

/* Retains the caller's queue, which must be in-order, and its OpenCL context. */
static clprune_status adopt_queue(clprune_context *context, cl_command_queue queue)
{
    cl_context cl;
    TRY(clprune__queue_facts(context, queue, &context->device, &cl));
    TRY_CL(clRetainContext(cl));
    context->cl = cl;
    TRY_CL(clRetainCommandQueue(queue));
    context->queue = queue;
    return CLPRUNE_SUCCESS;
}

static clprune_status open_queue(clprune_context *context, const char *selection)
{
    if (selection == NULL || selection[0] == '\0')
        selection = getenv("CLPRUNE_DEVICE");
    cl_platform_id platform;
    TRY(clprune__device_select(context, selection, &platform, &context->device));
    const cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int code;
    context->cl = clCreateContext(properties, 1, &context->device, NULL, NULL, &code);
    TRY_CODE("clCreateContext", code);
    context->queue = clCreateCommandQueue(context->cl, context->device,
        clprune__verbose_wanted() ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    TRY_CODE("clCreateCommandQueue", code);
    return CLPRUNE_SUCCESS;
}

static clprune_status read_device_facts(clprune_context *context)
{
    TRY(clprune__device_describe(context, context->device, &context->facts));
    const clprune_device_info *facts = &context->facts;
    REQUIRE(facts->compute_units > 0 && facts->max_work_group > 0 && facts->global_memory > 0,
        CLPRUNE_OPENCL_ERROR,
        "the device reports %u compute units, work-groups of %zu and %llu bytes of memory, "
        "expected at least 1 of each; its OpenCL driver does not work",
        (unsigned)facts->compute_units, facts->max_work_group,
        (unsigned long long)facts->global_memory);
    return CLPRUNE_SUCCESS;
}

size_t clprune__part_elements(
    const clprune_context *context, size_t least, size_t share, size_t most)
{
    const uint64_t memory = context->facts.global_memory;
    if (context->is_cpu || memory == UINT64_MAX)
        return least;
    const size_t part = (size_t)(memory / sizeof(float) / share);
    return clprune__min(clprune__max(part, least), most);
}

/* Some CPU drivers vectorise across work-items: Mesa's llvmpipe makes each work-item a lane and
 * reports native vectors of 1 float. It splits explicit vectors, and a group of one work-item fills
 * one lane only; so such CPUs run the tiled kernels. Width 0: the description of a dry context's
 * device lacks it. */
static clprune_kernels family_of(const clprune_context *context)
{
    const uint32_t width = context->facts.vector_width;
    if (context->facts.max_work_group < SMALLEST_GROUPS)
        return CLPRUNE_KERNELS_VECTOR;
    return context->is_cpu && (width == 0 || width >= NARROWEST_VECTORS) ? CLPRUNE_KERNELS_VECTOR
                                                                         : CLPRUNE_KERNELS_TILED;
}

/* Sets the kernel family and the limits, which follow from the device's facts and the options. */
static clprune_status settle(clprune_context *context, const clprune__context_setup *setup)
{
    if (setup->units > 0)
        context->facts.compute_units = setup->units;
    context->is_cpu = (context->facts.type & CL_DEVICE_TYPE_CPU) != 0;
    context->kernels = setup->kernels;
    if (context->kernels == CLPRUNE_KERNELS_AUTO)
        context->kernels = family_of(context);
    return choose_limits(context, setup->options->mem_limit);
}

static clprune_status open_dry(clprune_context *made, const clprune_device_info *device)
{
    clprune_context *context = made;
    made->record = calloc(1, sizeof *made->record);
    REQUIRE(made->record != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the context");
    made->backend = &clprune__dry_backend;
    made->allocator = clprune__dry_allocator;
    made->facts = device != NULL ? *device : clprune__dry_device();
    REQUIRE(made->facts.compute_units > 0 && made->facts.max_work_group > 0,
        CLPRUNE_INVALID_ARGUMENT,
        "device.compute_units or device.max_work_group is 0, expected at least 1");
    if (made->facts.global_memory == 0)
        made->facts.global_memory = UINT64_MAX;
    return CLPRUNE_SUCCESS;
}

static clprune_status open_device(
    clprune_context *made, cl_command_queue queue, const clprune_context_options *options)
{
    made->backend = &clprune__opencl_backend;
    made->allocator = options->allocator;
    if (made->allocator.allocate == NULL)
        made->allocator = (clprune_allocator){default_allocate, default_release, made};
    TRY(clprune__claim_opencl());
    clprune__compiler_watch *const compiler = clprune__compiler_watch_begin();
    clprune_status status =
        queue != NULL ? adopt_queue(made, queue) : open_queue(made, options->device);
    clprune__compiler_watch_end(compiler);
    TRY(status);
    return read_device_facts(made);
}

/* A context and its parts in one piece of memory. */
typedef struct whole {
    clprune_context context; /* first, so that freeing it frees all */
    clprune__ledger ledger;
    clprune__scratch scratch;
    clprune__arena arena;
    clprune__program_cache cache;
} whole;

static clprune_context *allocate(void)
{
    whole *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->context.ledger = &made->ledger;
    made->context.total = &made->ledger.total;
    made->context.scratch = &made->scratch;
    made->context.arena = &made->arena;
    made->context.cache = &made->cache;
    return &made->context;
}

clprune_status clprune__context_open(const clprune__context_setup *setup, clprune_context **out)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL; /* errors go to the thread's text until *out is set */
    const clprune_context_options *options = setup->options;
    *out = NULL;
    REQUIRE(
        setup->dry || (options->allocator.allocate == NULL) == (options->allocator.release == NULL),
        CLPRUNE_INVALID_ARGUMENT,
        "options.allocator has one of allocate and release; set both or neither");
    clprune_context *made = allocate();
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the context");
    made->log = options->log;
    made->log_user = options->log_user;
    made->poison = setup->poison && !setup->dry;
    made->is_apart = made->poison || setup->is_apart;
    made->cache->order = setup->order;
    status = clprune__guard_open(made);
    if (status == CLPRUNE_SUCCESS)
        status =
            setup->dry ? open_dry(made, setup->device) : open_device(made, setup->queue, options);
    if (status == CLPRUNE_SUCCESS)
        status = settle(made, setup);
    if (status == CLPRUNE_SUCCESS)
        status = clprune__verbose_open(made);
    if (status == CLPRUNE_SUCCESS && !setup->dry)
        status = clprune__pocl_cache_check(made);
    if (status == CLPRUNE_SUCCESS && !setup->dry)
        clprune__program_cache_open(made, options->cache_dir);
    if (status == CLPRUNE_SUCCESS) {
        if (!setup->dry)
            clprune__compiler_memory_return();
        *out = made;
        return status;
    }
    if (made->error[0] != '\0')
        clprune__pass_error(made);
    clprune__context_close(made);
    return status;
}

void clprune__context_close(clprune_context *context)
{
    if (context == NULL)
        return;
    if (context->queue != NULL)
        (void)clFinish(context->queue);
    clprune__wraps_close(context);
    clprune__scratch_close(context);
    clprune__arena_close(context);
    clprune__ledger_close(context);
    clprune__program_cache_close(context);
    clprune__record_close(context);
    clprune__former_queues_release(context);
    if (context->queue != NULL)
        (void)clReleaseCommandQueue(context->queue);
    if (context->cl != NULL)
        (void)clReleaseContext(context->cl);
    clprune__verbose_close(context);
    clprune__guard_close(context);
    free(context);
}

cl_command_queue clprune_context_queue(const clprune_context *context)
{
    ENTER_QUIETLY(context);
    return context != NULL ? context->queue : NULL;
}

cl_context clprune_context_cl(const clprune_context *context)
{
    return context != NULL ? context->cl : NULL;
}

cl_device_id clprune_context_device(const clprune_context *context)
{
    return context != NULL ? context->device : NULL;
}

clprune_device_info clprune_context_device_info(const clprune_context *context)
{
    return context != NULL ? context->facts : (clprune_device_info){0};
}

clprune_kernels clprune_context_kernels(const clprune_context *context)
{
    return context != NULL ? context->kernels : CLPRUNE_KERNELS_AUTO;
}

clprune_status clprune_context_finish(clprune_context *context)
{
    ENTER_CONTEXT(context);
    TRY(context->backend->finish(context));
    clprune__former_queues_release(context);
    return CLPRUNE_SUCCESS;
}
