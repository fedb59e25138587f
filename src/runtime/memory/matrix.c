#include "runtime/memory/matrix_private.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def mat_copy_kernel = {"products/fill.cl", "mat_copy"};
static const clprune__kernel_def fill_kernel = {"products/fill.cl", "fill"};

size_t clprune__rows_coded(clprune_mat mat)
{
    enum { ELEMENTS = 1 << 16 };
    return clprune__min(mat.rows, clprune__max(1, ELEMENTS / clprune__max(1, mat.cols)));
}

static clprune_status create(clprune_context *context, clprune_memory_category category,
    const char *name, clprune_value_type type, size_t rows, size_t cols, clprune_mat *mat)
{
    REQUIRE(mat != NULL, CLPRUNE_INVALID_ARGUMENT, "mat is NULL");
    clprune_mat made = {NULL, 0, rows, cols, cols, type};
    REQUIRE(clprune__is_mat_type(type), CLPRUNE_INVALID_ARGUMENT,
        "a matrix of type %d, expected FP32, BF16, CODES8, CODES4 or NF4", (int)type);
    made.ld = clprune__mat_units(made).cols;
    size_t bytes;
    REQUIRE((rows == 0 || cols <= SIZE_MAX / sizeof(float)) &&
                clprune__mul3(rows, made.ld, clprune__element_bytes(made), &bytes),
        CLPRUNE_SIZE_OVERFLOW, "the bytes of a %zu x %zu matrix overflow size_t", rows, cols);
    if (type != CLPRUNE_VALUES_FP32) { /* what a write borrows: plans then have it */
        SCRATCH_SCOPE(context);
        clprune_mat piece;
        TRY(clprune__scratch_mat(context, clprune__rows_coded(made), cols, &piece));
    }
    TRY(clprune__buffer_create(context, category, name, bytes, &made.buffer));
    *mat = made;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_mat_create_as(clprune_context *context, clprune_memory_category category,
    const char *name, clprune_value_type type, size_t rows, size_t cols, clprune_mat *mat)
{
    ENTER_CREATE(context, mat);
    return create(context, category, name, type, rows, cols, mat);
}

clprune_status clprune_mat_create(clprune_context *context, clprune_memory_category category,
    const char *name, size_t rows, size_t cols, clprune_mat *mat)
{
    ENTER_CREATE(context, mat);
    return create(context, category, name, CLPRUNE_VALUES_FP32, rows, cols, mat);
}

/* Floats of a cache line: matrices that start on one have aligned vectors of any width. */
#define LINE 16

clprune_status clprune__mats_create(clprune_context *context, clprune_memory_category category,
    size_t count, const char *const *names, clprune_mat *mats)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__ledger_part *parts = NULL;
    REQUIRE_DONE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE_DONE(count == 0 || mats != NULL, CLPRUNE_INVALID_ARGUMENT, "mats is NULL");
    REQUIRE_DONE(count == 0 || names != NULL, CLPRUNE_INVALID_ARGUMENT, "names is NULL");
    if (count == 0)
        goto done;
    parts = calloc(count, sizeof *parts);
    REQUIRE_DONE(
        parts != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a list of %zu matrices", count);
    for (size_t i = 0; i < count; i++) {
        parts[i].name = names[i];
        REQUIRE_DONE(clprune__mul3(mats[i].rows, mats[i].cols, sizeof(float), &parts[i].bytes),
            CLPRUNE_SIZE_OVERFLOW, "the bytes of the %zu x %zu matrix %s overflow size_t",
            mats[i].rows, mats[i].cols, names[i] != NULL ? names[i] : "(no name)");
    }
    cl_mem buffer;
    TRY_DONE(clprune__buffer_create_shared(context, category, count, parts, &buffer));
    /* Matrices of whole cache lines come first: they all start on a line, and no gaps are
     * needed. */
    size_t offset = 0;
    for (int ragged = 0; ragged < 2; ragged++)
        for (size_t i = 0; i < count; i++) {
            const size_t elements = mats[i].rows * mats[i].cols;
            if ((elements % LINE != 0) != ragged)
                continue;
            mats[i] = clprune_mat_of(buffer, mats[i].rows, mats[i].cols);
            mats[i].offset = offset;
            offset += elements;
        }
done:
    free(parts);
    return status;
}

clprune_status clprune_mats_create(clprune_context *context, clprune_memory_category category,
    size_t count, const char *const *names, clprune_mat *mats)
{
    for (size_t i = 0; mats != NULL && i < count; i++)
        mats[i].buffer = NULL;
    ENTER(context);
    return clprune__mats_create(context, category, count, names, mats);
}

static clprune__rect rect_of(clprune_mat mat)
{
    const size_t bytes = mat.type == CLPRUNE_VALUES_BF16 ? sizeof(cl_ushort) : sizeof(float);
    return (clprune__rect){
        mat.buffer, mat.offset * bytes, mat.rows, mat.cols * bytes, mat.ld * bytes};
}

clprune_status clprune__mat_write(clprune_context *context, clprune_mat mat, const float *host)
{
    TRY(clprune__check_mat(context, "mat", mat, mat.rows, mat.cols));
    if (mat.rows == 0 || mat.cols == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(host != NULL, CLPRUNE_INVALID_ARGUMENT, "host is NULL");
    const clprune__rect rect = rect_of(mat);
    return context->backend->write(context, &rect, host);
}

clprune_status clprune__mat_read(clprune_context *context, clprune_mat mat, float *host)
{
    const size_t count = mat.rows * mat.cols;
    const bool narrow = mat.type == CLPRUNE_VALUES_BF16;
    TRY(clprune__check_mat_bf16(context, "mat", mat, mat.rows, mat.cols));
    if (count == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(host != NULL, CLPRUNE_INVALID_ARGUMENT, "host is NULL");
    const clprune__rect rect = rect_of(mat);
    uint16_t *halves = (uint16_t *)(void *)host + (narrow ? count : 0); /* behind the floats that
                                                                           they become */
    TRY(context->backend->read(context, &rect, halves));
    for (size_t i = 0; narrow && i < count; ++i) {
        const uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(host + i, &bits, sizeof bits);
    }
    return CLPRUNE_SUCCESS;
}

/* A kernel: clEnqueueCopyBufferRect needs equal pitches within one buffer, and crashes on
 * sub-buffers in PoCL 3.1. */
clprune_status clprune__mat_copy(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event)
{
    TRY(clprune__check_mat(context, "from", from, from.rows, from.cols));
    TRY(clprune__check_mat(context, "to", to, from.rows, from.cols));
    TRY(clprune__check_apart(context, "from", from, "to", to));
    const clprune__rowwise plan = clprune__rowwise_plan(context, to.rows, to.cols);
    const clprune_mat mats[] = {from, to};
    return clprune__rowwise_run(context, &mat_copy_kernel, &plan, 2, mats, event);
}

clprune_status clprune_mat_copy(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event)
{
    ENTER(context);
    return clprune__mat_copy(context, from, to, event);
}

clprune_status clprune__mat_fill(
    clprune_context *context, float value, clprune_mat mat, cl_event *event)
{
    TRY(clprune__check_mat(context, "mat", mat, mat.rows, mat.cols));
    const clprune__rowwise plan = clprune__rowwise_plan(context, mat.rows, mat.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &fill_kernel, &plan, &launch));
    clprune__arg_float(&launch, value);
    clprune__arg_mat(&launch, mat);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_mat_fill(
    clprune_context *context, float value, clprune_mat mat, cl_event *event)
{
    ENTER(context);
    return clprune__mat_fill(context, value, mat, event);
}
