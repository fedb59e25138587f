/* Creates a context: the runtime's part, then the state of the operations. */
#include <stdio.h>
#include <stdlib.h>

#include "clprune/plan.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/device/precision.h"
#include "ops/device/self_check.h"
#include "ops/device/switches.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_open.h"
#include "runtime/context/context_private.h"

/* Sets context->setup: all that operations read of a context when they choose their commands and
 * take scratch. Compute units count for tiled kernels and tensor cores only: CPUs' kernels take the
 * same scratch with any number. */
static clprune_status write_setup(clprune_context *context)
{
    clprune__ops *ops = context->ops;
    const clprune_device_info *facts = &context->facts;
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const bool fp32 = ops->precision == CLPRUNE_PRECISION_FP32;
    size_t count;
    const clprune__tuning_entry *entries = clprune__tuning_entries(&count);
    int length = snprintf(ops->setup, sizeof ops->setup,
        "kernels %s\nprecision %s%s\ngemm engine %d\ndevice.local_memory %llu\n"
        "device.max_work_group %zu\ndevice.compute_units %u\n",
        vector ? "vector" : "tiled", clprune_precision_name(ops->precision),
        !fp32 && ops->mma_emulated ? ", emulated" : "", (int)ops->gemm_engine,
        (unsigned long long)facts->local_memory, facts->max_work_group,
        vector && !clprune__uses_mma(context) ? 0 : (unsigned)facts->compute_units);
    for (size_t i = 0; i < count && (size_t)length < sizeof ops->setup; i++)
        length += snprintf(ops->setup + length, sizeof ops->setup - (size_t)length, "%s.%s %u\n",
            entries[i].section, entries[i].key,
            (unsigned)*clprune__tuning_value(&ops->tuning, &entries[i]));
    REQUIRE((size_t)length < sizeof ops->setup, CLPRUNE_INTERNAL_ERROR,
        "the setup of a context exceeds %zu bytes", sizeof ops->setup);
    context->setup = ops->setup;
    return CLPRUNE_SUCCESS;
}

/* Opens context->ops; the runtime's part is open, so kernels can be launched. */
static clprune_status open_ops(clprune_context *context, const clprune_context_options *options,
    const clprune__switches *switches)
{
    context->ops = calloc(1, sizeof *context->ops);
    REQUIRE(context->ops != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the context");
    context->ops->gemm_engine = clprune__gemm_choose(context, switches->gemm);
    if (context->ops->gemm_engine != CLPRUNE__ENGINE_VECTOR && clprune__gemm_blast_built)
        context->most_slab = CLPRUNE__BLAST_BYTES;
    context->ops->mma_emulated = switches->emulate_mma;
    if (!switches->skip_check)
        TRY(clprune__self_check(context));
    TRY(clprune__tuning_open(context, switches->row, &context->ops->tuning));
    TRY(clprune__precision_open(context, options->precision, switches->bf16));
    return write_setup(context);
}

static clprune_status create(
    clprune__context_setup setup, const clprune_context_options *options, clprune_context **out)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL; /* errors go to the thread's text until *out is set */
    clprune_context *made = NULL;
    const clprune_context_options defaults = {0};
    clprune__switches switches;
    REQUIRE_DONE(out != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    *out = NULL;
    if (options == NULL)
        options = &defaults;
    TRY_DONE(clprune__check_reserved(NULL, "options", options->reserved, sizeof options->reserved));
    if (setup.device != NULL)
        TRY_DONE(clprune__check_reserved(
            NULL, "device", setup.device->reserved, sizeof setup.device->reserved));
    REQUIRE_DONE((unsigned)options->kernels <= CLPRUNE_KERNELS_TILED, CLPRUNE_INVALID_ARGUMENT,
        "options.kernels is %d, expected a clprune_kernels", (int)options->kernels);
    TRY_DONE(clprune__switches_read(&switches));
    setup.options = options;
    setup.kernels = options->kernels != CLPRUNE_KERNELS_AUTO ? options->kernels : switches.kernels;
    setup.poison = switches.poison;
    setup.is_apart = switches.is_apart;
    setup.order = switches.order;
    setup.units = switches.units;
    TRY_DONE(clprune__context_open(&setup, &made));
    status = open_ops(made, options, &switches);
    if (status == CLPRUNE_SUCCESS && options->thread_safe != 0)
        status = clprune__guard_share(made);
    if (status != CLPRUNE_SUCCESS) {
        clprune__pass_error(made);
        goto done;
    }
    *out = made;
    made = NULL;
done:
    clprune_context_destroy(made);
    return status;
}

clprune_status clprune_context_create(
    cl_command_queue queue, const clprune_context_options *options, clprune_context **context)
{
    return create((clprune__context_setup){.queue = queue}, options, context);
}

clprune_status clprune_context_create_dry(const clprune_device_info *device,
    const clprune_context_options *options, clprune_context **context)
{
    return create((clprune__context_setup){.dry = true, .device = device}, options, context);
}

void clprune_context_destroy(clprune_context *context)
{
    if (context == NULL || clprune__is_forked(context))
        return;
    clprune__ops *ops = context->ops; /* freed last: the allocator may query the context */
    if (ops != NULL) {
        if (context->queue != NULL)
            (void)clFinish(context->queue); /* no call of the API: the last error stays */
        clprune__gemm_blast_close(context);
    }
    clprune__context_close(context);
    free(ops);
}

clprune_status clprune_context_tuning(const clprune_context *context, size_t capacity,
    clprune_tuning_parameter *parameters, size_t *count)
{
    if (context == NULL || count == NULL || (parameters == NULL && capacity > 0))
        return clprune__fail(NULL, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
            "context, parameters or count is NULL");
    const clprune__tuning_entry *entries = clprune__tuning_entries(count);
    for (size_t i = 0; i < *count && i < capacity; i++) {
        const clprune__tuning_entry *e = &entries[i];
        parameters[i] = (clprune_tuning_parameter){.section = e->section,
            .key = e->key,
            .value = *clprune__tuning_value(&context->ops->tuning, e),
            .least = e->least,
            .most = e->most,
            .multiple = e->multiple,
            .is_set = e->blast < 0 || context->ops->tuning.blast_set[e->blast]};
    }
    return CLPRUNE_SUCCESS;
}

const char *clprune_context_tuning_source(const clprune_context *context)
{
    return context != NULL ? context->ops->tuning.source : NULL;
}
