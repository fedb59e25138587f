#include "ops/device/precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/memory.h"
#include "ops/device/amx.h"
#include "ops/device/bf16.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/context/queue.h"
#include "runtime/launch/backend.h"

/* By clprune_precision; DEFAULT has none. */
static const char *const names[] = {NULL, "fp32", "tf32", "bf16"};

enum { PRECISIONS = sizeof names / sizeof names[0] };

/* The option, else $CLPRUNE_PRECISION. */
static clprune_status choose_precision(clprune_context *context, clprune_precision option)
{
    const char *environment = getenv("CLPRUNE_PRECISION");
    REQUIRE((unsigned)option < PRECISIONS, CLPRUNE_INVALID_ARGUMENT,
        "options.precision is %d, expected a clprune_precision", (int)option);
    context->ops->precision = option != CLPRUNE_PRECISION_DEFAULT ? option : CLPRUNE_PRECISION_FP32;
    if (option != CLPRUNE_PRECISION_DEFAULT || environment == NULL || environment[0] == '\0')
        return CLPRUNE_SUCCESS;
    size_t i = CLPRUNE_PRECISION_FP32;
    while (i < PRECISIONS && strcmp(environment, names[i]) != 0)
        i++;
    REQUIRE(i < PRECISIONS, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_PRECISION is \"%.100s\", expected fp32, tf32 or bf16", environment);
    context->ops->precision = (clprune_precision)i;
    return CLPRUNE_SUCCESS;
}

/* Runs a probe twice, with either operand rounded. Writes why it failed, or an empty text. */
static clprune_status run_probe(clprune_context *context,
    clprune_status (*probe)(clprune_context *, bool), char *reason, size_t size)
{
    clprune__own_queue own;
    reason[0] = '\0';
    TRY(clprune__own_queue_begin(context, &own));
    /* A failed probe is not the caller's error: it is not logged as one. */
    const clprune_log_fn log = context->log;
    context->log = NULL;
    for (int i = 0; i < 2 && reason[0] == '\0'; i++)
        if (probe(context, i == 0) != CLPRUNE_SUCCESS)
            (void)snprintf(reason, size, "%.*s", (int)size - 1, clprune__error_text(context));
    context->log = log;
    clprune__own_queue_end(context, &own);
    clprune__error_text(context)[0] = '\0'; /* the context's own: it has no lock yet */
    clprune_memory_reset_peak(context);
    return CLPRUNE_SUCCESS;
}

/* Whether dense products have AMX, beside AVX512-BF16, or its emulation. */
static clprune_status open_amx(clprune_context *context, clprune__bf16_switch bf16)
{
    char reason[1024] = "";
    if (bf16 == CLPRUNE__BF16_TILES)
        context->ops->amx = CLPRUNE__AMX_EMULATED;
    else if (bf16 == CLPRUNE__BF16_AUTO && context->ops->pairs == CLPRUNE__PAIRS_INSTRUCTION &&
             context->is_cpu)
        context->ops->amx = CLPRUNE__AMX_INSTRUCTION;
    else
        return CLPRUNE_SUCCESS;
    TRY(run_probe(context, clprune__amx_probe, reason, sizeof reason));
    if (reason[0] != '\0') {
        context->ops->amx = CLPRUNE__AMX_NONE;
        clprune__log(context, CLPRUNE_LOG_INFO, "no AMX: %s", reason);
    } else {
        clprune__log(context, CLPRUNE_LOG_INFO, "dense products by AMX%s",
            bf16 == CLPRUNE__BF16_TILES ? ", emulated" : "");
    }
    return CLPRUNE_SUCCESS;
}

/* Vector kernels: bf16 by the instruction if it works, else by conversion. */
static clprune_status open_pairs(clprune_context *context, clprune__bf16_switch bf16)
{
    char reason[1024] = "the switch bf16=converted";
    context->ops->pairs = CLPRUNE__PAIRS_CONVERTED;
    if (!context->backend->runs)
        return CLPRUNE_SUCCESS;
    if (bf16 != CLPRUNE__BF16_CONVERTED)
        TRY(run_probe(context, clprune__bf16_probe, reason, sizeof reason));
    if (reason[0] == '\0') {
        context->ops->pairs = CLPRUNE__PAIRS_INSTRUCTION;
        clprune__log(context, CLPRUNE_LOG_INFO, "precision bf16, by AVX512-BF16");
    } else {
        clprune__log(
            context, CLPRUNE_LOG_INFO, "precision bf16, by conversion to fp32: %s", reason);
    }
    return open_amx(context, bf16);
}

static clprune_status open_mma(clprune_context *context)
{
    const char *name = names[context->ops->precision];
    char reason[1024] = "";
    TRY(clprune__mma_missing(context, reason, sizeof reason));
    if (reason[0] == '\0' && context->backend->runs)
        TRY(run_probe(context, clprune__mma_probe, reason, sizeof reason));
    if (reason[0] != '\0') {
        context->ops->precision = CLPRUNE_PRECISION_FP32;
        clprune__log(context, CLPRUNE_LOG_WARNING,
            "precision %s is not available, products stay in fp32: %s", name, reason);
    } else {
        clprune__log(context, CLPRUNE_LOG_INFO, "precision %s, %s", name,
            context->ops->mma_emulated ? "emulated" : "by mma.sync");
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__precision_open(
    clprune_context *context, clprune_precision option, clprune__bf16_switch bf16)
{
    TRY(choose_precision(context, option));
    if (context->ops->precision == CLPRUNE_PRECISION_FP32)
        return CLPRUNE_SUCCESS;
    if (context->kernels == CLPRUNE_KERNELS_VECTOR &&
        context->ops->precision == CLPRUNE_PRECISION_BF16 && !context->ops->mma_emulated)
        TRY(open_pairs(context, bf16));
    else
        TRY(open_mma(context));
    return CLPRUNE_SUCCESS;
}

clprune_precision clprune_context_precision(const clprune_context *context)
{
    return context != NULL ? context->ops->precision : CLPRUNE_PRECISION_FP32;
}

const char *clprune_precision_name(clprune_precision precision)
{
    return (unsigned)precision < PRECISIONS ? names[precision] : NULL;
}
