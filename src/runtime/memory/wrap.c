#include "runtime/memory/wrap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/matrix_private.h"

struct clprune__wrap {
    clprune__wrap *next;
    cl_mem buffer;
    float *host;
    size_t rows, cols, ld; /* of host */
    size_t bytes;          /* of the buffer */
    clprune_access access;
    bool staged;  /* the buffer is a dense copy in the ledger; else it is the host memory itself */
    bool is_host; /* the host may use the memory; else the device */
    void *mapped; /* zero-copy: the mapping, while is_host */
};

static clprune_status find(clprune_context *context, cl_mem buffer, clprune__wrap **wrap)
{
    clprune__wrap *w = context->wraps;
    while (w != NULL && w->buffer != buffer)
        w = w->next;
    REQUIRE(w != NULL, CLPRUNE_INVALID_ARGUMENT, "mat is not a wrapped matrix of this context");
    *wrap = w;
    return CLPRUNE_SUCCESS;
}

/* Copies between the host's rows and the staged matrix, which has no gaps. A dry context notes a
 * write for either direction: that leaves the host's memory alone. */
static clprune_status copy(clprune_context *context, const clprune__wrap *w, bool to_device)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_mat mat = clprune_mat_of(w->buffer, w->rows, w->cols);
    const size_t row_bytes = w->cols * sizeof(float);
    float *dense = w->host, *packed = NULL;
    if (!context->backend->runs) {
        TRY_DONE(clprune__mat_write(context, mat, dense));
        goto done;
    }
    if (w->ld != w->cols) {
        packed = malloc(w->bytes);
        REQUIRE_DONE(packed != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
            "no memory for a copy of %zu bytes", w->bytes);
        dense = packed;
    }
    for (size_t r = 0; packed != NULL && to_device && r < w->rows; r++)
        memcpy(packed + r * w->cols, w->host + r * w->ld, row_bytes);
    if (to_device)
        TRY_DONE(clprune__mat_write(context, mat, dense));
    else
        TRY_DONE(clprune__mat_read(context, mat, dense));
    for (size_t r = 0; packed != NULL && !to_device && r < w->rows; r++)
        memcpy(w->host + r * w->ld, packed + r * w->cols, row_bytes);
done:
    free(packed);
    return status;
}

static clprune_status to_host(clprune_context *context, clprune__wrap *w)
{
    if (w->is_host)
        return CLPRUNE_SUCCESS;
    if (!w->staged) {
        cl_int code;
        w->mapped = clEnqueueMapBuffer(context->queue, w->buffer, CL_TRUE,
            CL_MAP_READ | CL_MAP_WRITE, 0, w->bytes, 0, NULL, NULL, &code);
        TRY_CODE("clEnqueueMapBuffer", code);
    } else if (w->access & CLPRUNE_ACCESS_WRITE) {
        TRY(copy(context, w, false));
    } else {
        TRY(context->backend->finish(context));
    }
    w->is_host = true;
    return CLPRUNE_SUCCESS;
}

static clprune_status to_device(clprune_context *context, clprune__wrap *w)
{
    if (!w->is_host)
        return CLPRUNE_SUCCESS;
    if (w->mapped != NULL) {
        TRY_CL(clEnqueueUnmapMemObject(context->queue, w->buffer, w->mapped, 0, NULL, NULL));
        w->mapped = NULL;
    } else if (w->access & CLPRUNE_ACCESS_READ) {
        TRY(copy(context, w, true));
    }
    w->is_host = false;
    return CLPRUNE_SUCCESS;
}

/* A buffer on the host memory itself. OpenCL accepts any address, but drivers copy unaligned
 * memory. 64 bytes are enough, and the allocators of PyTorch and others give that; the 128 of PoCL
 * hold for sub-buffers only. */
static clprune_status use_memory(clprune_context *context, clprune__wrap *w)
{
    cl_int code;
    w->bytes = ((w->rows - 1) * w->ld + w->cols) * sizeof(float);
    w->buffer = clCreateBuffer(
        context->cl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, w->bytes, w->host, &code);
    TRY_CODE("clCreateBuffer", code);
    return CLPRUNE_SUCCESS;
}

static clprune_status stage(clprune_context *context, clprune__wrap *w)
{
    w->staged = true;
    w->bytes = w->rows * w->cols * sizeof(float);
    TRY(clprune__buffer_create(context, CLPRUNE_MEMORY_INPUT, "wrapped", w->bytes, &w->buffer));
    w->is_host = true;
    return to_device(context, w);
}

static void release(clprune_context *context, clprune__wrap *w)
{
    if (w == NULL)
        return;
    if (w->staged)
        clprune__buffer_release(context, w->buffer);
    else if (w->buffer != NULL)
        (void)clReleaseMemObject(w->buffer);
    free(w);
}

/* Fails if the new wrap overlaps memory that is wrapped, and either of the two is written. */
static clprune_status check_apart(clprune_context *context, const clprune__wrap *new)
{
    for (const clprune__wrap *w = context->wraps; w != NULL; w = w->next) {
        if (((w->access | new->access) & CLPRUNE_ACCESS_WRITE) == 0)
            continue;
        /* Compared as if the address space were one buffer. */
        const clprune_mat old = {
            w->buffer, (uintptr_t)w->host / sizeof(float), w->rows, w->cols, w->ld};
        const clprune_mat mat = {
            w->buffer, (uintptr_t) new->host / sizeof(float), new->rows, new->cols, new->ld};
        TRY(clprune__check_apart(context, "host", mat, "memory that is wrapped", old));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__mat_wrap(clprune_context *context, float *host, size_t rows, size_t cols,
    size_t ld, clprune_access access, clprune_mat *mat)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__wrap *w = NULL;
    size_t last, bytes;
    REQUIRE_DONE(
        context != NULL && mat != NULL, CLPRUNE_INVALID_ARGUMENT, "context or mat is NULL");
    REQUIRE_DONE(access >= CLPRUNE_ACCESS_READ && access <= CLPRUNE_ACCESS_READ_WRITE,
        CLPRUNE_INVALID_ARGUMENT,
        "access is %d, expected CLPRUNE_ACCESS_READ, _WRITE or _READ_WRITE (1 to 3)", (int)access);
    if (rows == 0 || cols == 0) {
        *mat = clprune_mat_of(NULL, rows, cols);
        goto done;
    }
    REQUIRE_DONE(host != NULL, CLPRUNE_INVALID_ARGUMENT, "host is NULL");
    REQUIRE_DONE(ld >= cols, CLPRUNE_INVALID_ARGUMENT,
        "ld is %zu, expected at least the %zu columns", ld, cols);
    REQUIRE_DONE((uintptr_t)host % sizeof(float) == 0, CLPRUNE_INVALID_ARGUMENT,
        "host is not aligned to 4 bytes, the size of a float");
    REQUIRE_DONE(clprune__mul(rows, ld, &last) && clprune__mul(last, sizeof(float), &bytes),
        CLPRUNE_SIZE_OVERFLOW, "%zu rows of %zu elements overflow size_t", rows, ld);
    w = calloc(1, sizeof *w);
    REQUIRE_DONE(w != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory to wrap a matrix");
    *w = (clprune__wrap){.host = host, .rows = rows, .cols = cols, .ld = ld, .access = access};
    TRY_DONE(check_apart(context, w));
    const bool aligned = (uintptr_t)host % CLPRUNE_WRAP_ALIGN == 0;
    const bool in_place = context->backend->runs && context->is_cpu && aligned;
    TRY_DONE(in_place ? use_memory(context, w) : stage(context, w));
    *mat = clprune_mat_of(w->buffer, rows, cols);
    if (in_place)
        mat->ld = ld;
    w->next = context->wraps;
    context->wraps = w;
    w = NULL;
done:
    release(context, w);
    return status;
}

clprune_status clprune_mat_wrap(clprune_context *context, float *host, size_t rows, size_t cols,
    size_t ld, clprune_access access, clprune_mat *mat)
{
    ENTER_CREATE(context, mat);
    return clprune__mat_wrap(context, host, rows, cols, ld, access, mat);
}

/* hand_over: to_host or to_device. */
static clprune_status sync(clprune_context *context, clprune_mat mat,
    clprune_status (*hand_over)(clprune_context *context, clprune__wrap *w))
{
    clprune__wrap *w = NULL;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    if (mat.buffer == NULL)
        return CLPRUNE_SUCCESS;
    TRY(find(context, mat.buffer, &w));
    return hand_over(context, w);
}

clprune_status clprune_mat_sync_to_host(clprune_context *context, clprune_mat mat)
{
    ENTER(context);
    return sync(context, mat, to_host);
}

clprune_status clprune_mat_sync_to_device(clprune_context *context, clprune_mat mat)
{
    ENTER(context);
    return sync(context, mat, to_device);
}

void clprune__wrap_keep_host(clprune_context *context, clprune_mat mat)
{
    clprune__wrap *w = NULL;
    if (find(context, mat.buffer, &w) == CLPRUNE_SUCCESS && w->staged)
        w->is_host = true;
}

/* Takes a wrap out of the context's list. */
static void unlink_wrap(clprune_context *context, const clprune__wrap *w)
{
    clprune__wrap **at = &context->wraps;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

clprune_status clprune__mat_unwrap(clprune_context *context, cl_mem buffer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__wrap *w = NULL;
    TRY_DONE(find(context, buffer, &w));
    unlink_wrap(context, w);
    TRY_DONE(to_host(context, w));
    if (w->mapped != NULL)
        TRY_DONE(to_device(context, w)); /* unmapped, and not touched any more */
    /* The caller may use or free the memory once no command refers to it. */
    TRY_DONE(context->backend->finish(context));
done:
    if (status != CLPRUNE_SUCCESS && w != NULL && context->queue != NULL)
        (void)clFinish(context->queue); /* the first error counts */
    release(context, w);
    return status;
}

clprune_status clprune_mat_unwrap(clprune_context *context, clprune_mat *mat)
{
    const cl_mem buffer = mat != NULL ? mat->buffer : NULL;
    ENTER_CREATE(context, mat); /* clears *mat */
    REQUIRE(context != NULL && mat != NULL, CLPRUNE_INVALID_ARGUMENT, "context or mat is NULL");
    if (buffer != NULL)
        TRY(clprune__mat_unwrap(context, buffer));
    return CLPRUNE_SUCCESS;
}

void clprune__wraps_close(clprune_context *context)
{
    while (context->wraps != NULL) {
        clprune__wrap *w = context->wraps;
        context->wraps = w->next;
        if (w->mapped != NULL) {
            (void)clEnqueueUnmapMemObject(context->queue, w->buffer, w->mapped, 0, NULL, NULL);
            (void)clFinish(context->queue);
        }
        release(context, w);
    }
}
