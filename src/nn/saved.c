#include "clprune/saved.h"

#include <stdlib.h>

#include "clprune/bspmm.h"
#include "clprune/gemm.h"
#include "core/checked.h"
#include "nn/column_sum.h"
#include "nn/saved_private.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

#define SIDE_BY_SIDE ((size_t)8 << 20)

struct clprune_saved {
    clprune_context *context;
    clprune_saved_desc desc;
    clprune_mat dense; /* DENSE: room for desc.batch samples */
    clprune_bsr bsr;   /* PRUNED */
    uint64_t seed;     /* SAMPLED */
};

clprune_status clprune_saved_create(clprune_context *context, const char *name,
    const clprune_saved_desc *desc, clprune_saved **saved)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_saved *made = NULL;
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    *saved = NULL;
    REQUIRE(context != NULL && name != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT,
        "context, name or desc is NULL");
    made = calloc(1, sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", name);
    made->context = context;
    made->desc = *desc;
    if (desc->form == CLPRUNE_SAVED_DENSE) {
        size_t rows;
        REQUIRE(clprune__mul(desc->batch, desc->rows, &rows), CLPRUNE_SIZE_OVERFLOW,
            "%zu samples of %zu rows", desc->batch, desc->rows);
        TRY(clprune_mat_create(
            context, CLPRUNE_MEMORY_ACTIVATIONS, name, rows, desc->cols, &made->dense));
    } else {
        REQUIRE(desc->form == CLPRUNE_SAVED_PRUNED, CLPRUNE_INVALID_ARGUMENT, "form is %d",
            (int)desc->form);
        REQUIRE(desc->sparsity >= 0.0f && desc->sparsity <= 1.0f, CLPRUNE_INVALID_ARGUMENT,
            "sparsity is %g, expected 0 to 1", (double)desc->sparsity);
        REQUIRE((unsigned)desc->norm <= CLPRUNE_NORM_MAX, CLPRUNE_INVALID_ARGUMENT, "norm is %d",
            (int)desc->norm);
        REQUIRE((unsigned)desc->criterion <= CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INVALID_ARGUMENT,
            "criterion is %d", (int)desc->criterion);
        clprune_bsr_desc shape = {desc->batch, desc->rows, desc->cols, desc->block, 0,
            desc->value_type, desc->index_type};
        clprune_bsr_sizes sizes;
        status = clprune_bsr_size_query(&shape, &sizes);
        REQUIRE(status == CLPRUNE_SUCCESS, status, "%s: %s", name, clprune_last_error(NULL));
        shape.keep = clprune_keep_count(sizes.blocks, desc->sparsity);
        TRY(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, name, &shape, &made->bsr));
    }
    *saved = made;
    made = NULL;
done:
    clprune_saved_destroy(made);
    return status;
}

void clprune_saved_destroy(clprune_saved *saved)
{
    if (saved == NULL)
        return;
    clprune_buffer_release(saved->context, saved->dense.buffer);
    clprune_bsr_destroy(saved->context, &saved->bsr);
    free(saved);
}

clprune_saved_desc clprune__saved_desc(const clprune_saved *saved)
{
    return saved->desc;
}

clprune_mat clprune_saved_target(const clprune_saved *saved, size_t batch, clprune_mat scratch)
{
    if (saved == NULL || saved->desc.form != CLPRUNE_SAVED_DENSE)
        return scratch;
    return clprune_saved_dense(saved, batch);
}

clprune_status clprune__saved_scores(
    const clprune_saved *saved, size_t batch, clprune__gemm_scores *scores)
{
    const clprune_saved_desc *desc = &saved->desc;
    *scores = (clprune__gemm_scores){.width = desc->block.cols, .norm = desc->norm};
    if (desc->form != CLPRUNE_SAVED_PRUNED || desc->block.rows != 1)
        return CLPRUNE_SUCCESS;
    const size_t blocks = desc->rows * clprune__ceil_div(desc->cols, desc->block.cols);
    if (saved->bsr.desc.keep == 0 || saved->bsr.desc.keep == blocks)
        return CLPRUNE_SUCCESS;
    clprune_mat floats;
    const clprune_status status = clprune__scratch_mat(saved->context, batch, blocks, &floats);
    scores->to = (clprune__region){floats.buffer, floats.offset};
    return status;
}

static clprune_status check_range(
    clprune_context *context, const clprune_saved *saved, size_t first, size_t count)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    REQUIRE(first <= saved->desc.batch && count <= saved->desc.batch - first, CLPRUNE_INVALID_SIZE,
        "%zu samples from sample %zu on, with room for %zu", count, first, saved->desc.batch);
done:
    return status;
}

/* Samples of a DENSE form. */
static clprune_mat dense_range(const clprune_saved *saved, size_t first, size_t count)
{
    return clprune_mat_rows(saved->dense, first * saved->desc.rows, count * saved->desc.rows);
}

static clprune_status copy_unless_same(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event)
{
    if (clprune__same_mat(from, to))
        return clprune__empty_event(context, event);
    return clprune_mat_copy(context, from, to, event);
}

clprune_status clprune_saved_store(
    clprune_saved *saved, size_t batch, clprune_mat x, cl_event *event)
{
    return clprune_saved_store_range(saved, 0, batch, x, event);
}

clprune_status clprune_saved_store_range(
    clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event)
{
    return clprune__saved_store(saved, first, count, (clprune__region){NULL, 0}, x, event);
}

clprune_status clprune__saved_store(clprune_saved *saved, size_t first, size_t count,
    clprune__region scores, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = saved != NULL ? saved->context : NULL;
    TRY(check_range(context, saved, first, count));
    TRY(clprune__check_mat(context, "x", x, count * saved->desc.rows, saved->desc.cols));
    if (saved->desc.form == CLPRUNE_SAVED_DENSE) {
        TRY(copy_unless_same(context, x, dense_range(saved, first, count), event));
    } else {
        const clprune_bsr kept = clprune_bsr_samples(&saved->bsr, first, count);
        const bool sampled = saved->desc.criterion == CLPRUNE_CRITERION_SAMPLED;
        TRY(clprune__prune(
            context, saved->desc.norm, sampled ? &saved->seed : NULL, scores, x, &kept, event));
    }
done:
    return status;
}

void clprune_saved_set_seed(clprune_saved *saved, uint64_t seed)
{
    if (saved != NULL)
        saved->seed = seed;
}

clprune_mat clprune_saved_dense(const clprune_saved *saved, size_t batch)
{
    if (saved == NULL || saved->desc.form != CLPRUNE_SAVED_DENSE)
        return CLPRUNE_NO_MAT;
    return clprune_mat_rows(
        saved->dense, 0, clprune__min(batch, saved->desc.batch) * saved->desc.rows);
}

clprune_bsr clprune_saved_bsr(const clprune_saved *saved, size_t batch)
{
    clprune_bsr bsr = {0};
    if (saved != NULL && saved->desc.form == CLPRUNE_SAVED_PRUNED) {
        bsr = saved->bsr;
        bsr.desc.batch = clprune__min(batch, saved->desc.batch);
    }
    return bsr;
}

clprune_status clprune_saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = saved != NULL ? saved->context : NULL;
    TRY(check_range(context, saved, first, count));
    TRY(clprune__check_mat(context, "x", x, count * saved->desc.rows, saved->desc.cols));
    if (saved->desc.form == CLPRUNE_SAVED_DENSE) {
        TRY(copy_unless_same(context, dense_range(saved, first, count), x, event));
    } else {
        const clprune_bsr kept = clprune_bsr_samples(&saved->bsr, first, count);
        TRY(clprune_bsr_unpack(context, &kept, x, event));
    }
done:
    return status;
}

clprune_status clprune_saved_product_tn(clprune_context *context, size_t batch, clprune_mat dy,
    const clprune_saved *saved, clprune_mat dw, cl_event *event)
{
    return clprune_saved_product_tn_range(context, 0, batch, 0.0f, dy, saved, dw, event);
}

clprune_status clprune_saved_product_tn_range(clprune_context *context, size_t first, size_t count,
    float beta, clprune_mat dy, const clprune_saved *saved, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(check_range(context, saved, first, count));
    if (saved->desc.form == CLPRUNE_SAVED_DENSE) {
        TRY(clprune_gemm(
            context, true, false, 1.0f, beta, dy, dense_range(saved, first, count), dw, event));
    } else {
        const clprune_bsr kept = clprune_bsr_samples(&saved->bsr, first, count);
        TRY(clprune_bspmm_tn(context, 1.0f, beta, dy, &kept, dw, event));
    }
done:
    return status;
}

/* How many samples' products are made side by side before they are added up: a sample alone is too
 * small for a device, or costs a launch of its own. 1 where they would take more than SIDE_BY_SIDE
 * bytes of scratch, or where the sum needs more than an addition. */
static size_t side_by_side(size_t batch, float beta, clprune_mat dw)
{
    const size_t bytes = dw.rows * dw.cols * sizeof(float);
    if (bytes == 0 || (beta != 0.0f && beta != 1.0f) || dw.ld != dw.cols)
        return 1;
    return clprune__max(1, clprune__min(batch, SIDE_BY_SIDE / bytes));
}

clprune_status clprune__dense_product_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat x, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_mat(context, "dy", dy, batch * dw.rows, dy.cols));
    if (batch == 0) { /* an empty sum */
        TRY(clprune_gemm(context, false, true, 1.0f, beta, (clprune_mat){.rows = dw.rows},
            (clprune_mat){.rows = dw.cols}, dw, event));
        goto done;
    }
    const size_t run = side_by_side(batch, beta, dw);
    clprune_mat products = CLPRUNE_NO_MAT;
    if (run > 1)
        TRY(clprune__scratch_mat(context, run, dw.rows * dw.cols, &products));
    for (size_t n = 0; n < batch; n += run) {
        const size_t count = clprune__min(run, batch - n);
        const clprune_mat dy_n = clprune_mat_rows(dy, n * dw.rows, dw.rows);
        const clprune_mat x_n = clprune_mat_rows(x, n * dw.cols, dw.cols);
        cl_event *last = n + count == batch ? event : NULL;
        if (run == 1) {
            TRY(clprune_gemm(
                context, false, true, 1.0f, n == 0 ? beta : 1.0f, dy_n, x_n, dw, last));
            continue;
        }
        const clprune_mat first = {products.buffer, products.offset, dw.rows, dw.cols, dw.cols};
        TRY(clprune_gemm_batched(context, count, false, true, 1.0f, 0.0f, dy_n, dw.rows * dy.ld,
            x_n, dw.cols * x.ld, first, products.cols, NULL));
        const clprune_mat sum = {dw.buffer, dw.offset, 1, products.cols, products.cols};
        TRY(clprune__column_sums_final(
            context, n > 0 || beta != 0.0f, count, products, 1, &sum, last));
    }
done:
    clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_saved_product_nt(clprune_context *context, size_t batch, clprune_mat dy,
    const clprune_saved *saved, clprune_mat dw, cl_event *event)
{
    return clprune_saved_product_nt_range(context, 0, batch, 0.0f, dy, saved, dw, event);
}

clprune_status clprune_saved_product_nt_range(clprune_context *context, size_t first, size_t count,
    float beta, clprune_mat dy, const clprune_saved *saved, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(check_range(context, saved, first, count));
    if (saved->desc.form == CLPRUNE_SAVED_DENSE) {
        TRY(clprune__check_mat(context, "dw", dw, dw.rows, saved->desc.rows));
        TRY(clprune__dense_product_nt(
            context, count, beta, dy, dense_range(saved, first, count), dw, event));
    } else {
        const clprune_bsr kept = clprune_bsr_samples(&saved->bsr, first, count);
        TRY(clprune_bspmm_nt(context, 1.0f, beta, dy, &kept, dw, event));
    }
done:
    return status;
}
