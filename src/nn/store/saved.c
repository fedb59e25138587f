/* The store: checks, shapes and memory. The forms are in form_*.c. */
#include "clprune/saved.h"

#include <stdlib.h>

#include "core/checked.h"
#include "nn/store/form.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/ledger.h"

struct clprune_saved {
    clprune_context *context;
    clprune__kept kept;
    size_t bytes;           /* capacity for the blob */
    bool lent;              /* the buffer is the caller's */
    clprune__stored stored; /* only if is_guarded */
};

/* Whether reading samples that were never stored fails. Garbage in the index of a PRUNED store
 * would send kernels out of their buffers. Forms that are matrices are not guarded: callers may
 * write the matrix directly. */
static bool is_guarded(const clprune_saved *saved)
{
    const clprune__form *form = saved->kept.form;
    return form->mat == NULL || clprune__is_absent(form->mat(&saved->kept, (clprune__range){0, 0}));
}

/* The sizes of a settled store. */
static clprune_status sizes_of(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *sizes)
{
    clprune_saved_sizes found = {0};
    size_t dense;
    REQUIRE(clprune__mul3(kept->batch, kept->rows, kept->cols, &dense) &&
                clprune__mul(dense, sizeof(float), &found.dense_bytes) &&
                found.dense_bytes <= SIZE_MAX - CLPRUNE_SAVED_ALIGN,
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu x %zu overflow size_t", kept->batch, kept->rows,
        kept->cols);
    TRY(kept->form->sizes(context, kept, &found));
    REQUIRE(found.bytes <= SIZE_MAX - CLPRUNE_SAVED_ALIGN, CLPRUNE_SIZE_OVERFLOW,
        "a blob of %zu bytes overflows size_t", found.bytes);
    found.bytes = clprune__round_up(found.bytes, CLPRUNE_SAVED_ALIGN);
    *sizes = found;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_saved_size_query(
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved_sizes *sizes)
{
    clprune_context *context = NULL;
    clprune__kept kept = {.batch = batch, .rows = rows, .cols = cols};
    REQUIRE(sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "sizes is NULL");
    *sizes = (clprune_saved_sizes){0};
    TRY(clprune__keep_settle(context, keep, &kept.keep));
    kept.form = clprune__form_of(kept.keep.form);
    return sizes_of(context, &kept, sizes);
}

/* Creates a store without memory; *bytes: what its shape needs. */
static clprune_status begin(clprune_context *context, const clprune_keep *keep, size_t batch,
    size_t rows, size_t cols, clprune_saved **saved, size_t *bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_saved_sizes sizes;
    clprune_saved *made = calloc(1, sizeof *made);
    REQUIRE_DONE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a store");
    made->context = context;
    made->kept = (clprune__kept){.batch = batch, .rows = rows, .cols = cols};
    TRY_DONE(clprune__keep_settle(context, keep, &made->kept.keep));
    made->kept.form = clprune__form_of(made->kept.keep.form);
    TRY_DONE(sizes_of(context, &made->kept, &sizes));
    *bytes = sizes.bytes;
    *saved = made;
    made = NULL;
done:
    free(made);
    return status;
}

clprune_status clprune__saved_create(clprune_context *context, const char *name,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved **saved)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_saved *made = NULL;
    REQUIRE_DONE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    REQUIRE_DONE(
        context != NULL && name != NULL, CLPRUNE_INVALID_ARGUMENT, "context or name is NULL");
    size_t bytes;
    TRY_DONE(begin(context, keep, batch, rows, cols, &made, &bytes));
    made->bytes = bytes;
    TRY_DONE(clprune__buffer_create(
        context, CLPRUNE_MEMORY_ACTIVATIONS, name, bytes, &made->kept.buffer));
    *saved = made;
    made = NULL;
done:
    free(made);
    return status;
}

clprune_status clprune_saved_create(clprune_context *context, const char *name,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved **saved)
{
    ENTER_CREATE(context, saved);
    return clprune__saved_create(context, name, keep, batch, rows, cols, saved);
}

clprune_status clprune_saved_create_in(clprune_context *context, const clprune_keep *keep,
    size_t batch, size_t rows, size_t cols, cl_mem buffer, size_t offset, size_t bytes,
    clprune_saved **saved)
{
    ENTER_CREATE(context, saved);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_saved *made = NULL;
    size_t needed, end;
    REQUIRE_DONE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    REQUIRE_DONE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY_DONE(begin(context, keep, batch, rows, cols, &made, &needed));
    REQUIRE_DONE(needed <= bytes, CLPRUNE_INVALID_SIZE,
        "%zu samples of %zu x %zu need %zu bytes; the region has %zu", batch, rows, cols, needed,
        bytes);
    REQUIRE_DONE(offset % CLPRUNE_SAVED_ALIGN == 0, CLPRUNE_INVALID_ARGUMENT,
        "offset is %zu, expected a multiple of %d bytes", offset, CLPRUNE_SAVED_ALIGN);
    REQUIRE_DONE(clprune__add(offset, bytes, &end), CLPRUNE_SIZE_OVERFLOW,
        "%zu bytes from byte %zu overflow size_t", bytes, offset);
    TRY_DONE(clprune__check_buffer(context, "buffer", buffer, end, 1));
    REQUIRE_DONE(clprune__stored_reserve(&made->stored), CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a store");
    clprune__stored_add(&made->stored, (clprune__range){0, batch}); /* the caller vouches for it */
    made->lent = true;
    made->bytes = bytes;
    made->kept.buffer = buffer;
    made->kept.offset = offset;
    *saved = made;
    made = NULL;
done:
    if (made != NULL)
        clprune__stored_clear(&made->stored);
    free(made);
    return status;
}

void clprune_saved_destroy(clprune_saved *saved)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    if (saved == NULL || clprune__is_forked(saved->context))
        return;
    if (!saved->lent)
        clprune__buffer_release(saved->context, saved->kept.buffer);
    clprune__stored_clear(&saved->stored);
    free(saved);
}

/* *kept = the store in another shape, *bytes = its size; fails if that exceeds the store. */
static clprune_status shape(clprune_context *context, const clprune_saved *saved, size_t batch,
    size_t rows, size_t cols, clprune__kept *kept, size_t *bytes)
{
    clprune_saved_sizes sizes = {0};
    *kept = saved->kept;
    kept->batch = batch;
    kept->rows = rows;
    kept->cols = cols;
    TRY(sizes_of(context, kept, &sizes));
    REQUIRE(sizes.bytes <= saved->bytes, CLPRUNE_INVALID_SIZE,
        "%zu samples of %zu x %zu need %zu bytes; the store has %zu", batch, rows, cols,
        sizes.bytes, saved->bytes);
    *bytes = sizes.bytes;
    return CLPRUNE_SUCCESS;
}

static void take_shape(clprune_saved *saved, const clprune__kept *kept)
{
    clprune__stored_clear(&saved->stored);
    saved->kept = *kept;
}

clprune_status clprune_saved_reshape(clprune_saved *saved, size_t batch, size_t rows, size_t cols)
{
    ENTER(clprune__saved_context(saved));
    clprune_context *context = clprune__saved_context(saved);
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    clprune__kept kept;
    size_t bytes = 0;
    TRY(shape(context, saved, batch, rows, cols, &kept, &bytes));
    take_shape(saved, &kept);
    return CLPRUNE_SUCCESS;
}

clprune_saved_info clprune_saved_describe(const clprune_saved *saved)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    clprune_saved_info info = {0};
    if (saved == NULL)
        return info;
    const clprune__kept *kept = &saved->kept;
    info = (clprune_saved_info){.keep = kept->keep,
        .batch = kept->batch,
        .rows = kept->rows,
        .cols = kept->cols,
        .buffer = kept->buffer,
        .offset = kept->offset,
        .bytes = saved->bytes};
    (void)sizes_of(NULL, kept, &info.sizes); /* it was checked when the shape was set */
    return info;
}

static bool has_shape(const clprune_saved *saved, size_t rows, size_t cols)
{
    return saved->kept.rows == rows && saved->kept.cols == cols;
}

clprune_status clprune__saved_fit(clprune_context *context, clprune_saved *saved, size_t batch,
    size_t rows, size_t cols, size_t count, const clprune__operand *operands)
{
    const clprune_mat x = operands[0].mat;
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    TRY(clprune__keep_restores(context, &saved->kept.keep));
    const bool fits = batch == 0 || (has_shape(saved, rows, cols) && batch <= saved->kept.batch);
    clprune__kept kept = saved->kept;
    size_t bytes = 0;
    TRY(shape(context, saved, fits ? kept.batch : batch, fits ? kept.rows : rows,
        fits ? kept.cols : cols, &kept, &bytes));
    const clprune__bytes blob = {kept.buffer, kept.offset, bytes};
    const bool dense = saved->kept.form == &clprune__form_dense;
    const clprune_mat own = dense ? saved->kept.form->mat(&kept, (clprune__range){0, batch}) : x;
    for (size_t i = 1; i < count; i++)
        TRY(clprune__check_bytes_apart(
            context, operands[i].name, clprune__bytes_of(operands[i].mat), "saved", blob));
    if (!dense)
        TRY(clprune__check_bytes_apart(context, "x", clprune__bytes_of(x), "saved", blob));
    else if (!clprune__same_mat(x, own))
        TRY(clprune__check_apart(context, "x", x, "saved", own));
    if (!fits)
        take_shape(saved, &kept);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__saved_check(clprune_context *context, const clprune_saved *saved,
    clprune__range range, size_t rows, size_t cols)
{
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    TRY(clprune__keep_restores(context, &saved->kept.keep));
    if (range.count == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(has_shape(saved, rows, cols), CLPRUNE_INVALID_SIZE,
        "saved holds samples of %zu x %zu, expected %zu x %zu", saved->kept.rows, saved->kept.cols,
        rows, cols);
    REQUIRE(range.first <= saved->kept.batch && range.count <= saved->kept.batch - range.first,
        CLPRUNE_INVALID_SIZE, "the call has %zu samples, but saved holds at most %zu",
        range.first + range.count, saved->kept.batch);
    return clprune__saved_check_stored(context, saved, range);
}

clprune_status clprune__saved_check_apart(
    clprune_context *context, const clprune_saved *saved, const char *name, clprune_mat mat)
{
    clprune_saved_sizes sizes;
    if (clprune__is_absent(mat))
        return CLPRUNE_SUCCESS;
    TRY(sizes_of(context, &saved->kept, &sizes));
    return clprune__check_bytes_apart(context, name, clprune__bytes_of(mat), "saved",
        (clprune__bytes){saved->kept.buffer, saved->kept.offset, sizes.bytes});
}

clprune_status clprune__saved_scores(
    const clprune_saved *saved, size_t batch, clprune__gemm_scores *scores)
{
    *scores = (clprune__gemm_scores){.to.buffer = NULL};
    if (saved->kept.form->scores == NULL)
        return CLPRUNE_SUCCESS;
    return saved->kept.form->scores(saved->context, &saved->kept, batch, scores);
}

clprune_context *clprune__saved_context(const clprune_saved *saved)
{
    return saved != NULL ? saved->context : NULL;
}

const clprune__kept *clprune__saved_kept(const clprune_saved *saved)
{
    return &saved->kept;
}

clprune_status clprune__saved_check_range(
    clprune_context *context, const clprune_saved *saved, clprune__range range)
{
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    const size_t batch = saved->kept.batch;
    REQUIRE(range.first <= batch && range.count <= batch - range.first, CLPRUNE_INVALID_SIZE,
        "samples: %zu from sample %zu, but the store holds %zu", range.count, range.first, batch);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__saved_check_stored(
    clprune_context *context, const clprune_saved *saved, clprune__range range)
{
    const size_t run = is_guarded(saved) ? clprune__stored_run(&saved->stored, range) : range.count;
    REQUIRE(run == range.count, CLPRUNE_INVALID_ARGUMENT,
        "sample %zu of saved was not stored since the store was created or reshaped; call a "
        "layer's forward pass or clprune_saved_store first",
        range.first + run);
    return CLPRUNE_SUCCESS;
}

static bool is_form(const clprune_saved *saved, const clprune__form *form)
{
    return saved != NULL && saved->kept.form == form;
}

/* Samples [first, first + count), clipped to the batch; CLPRUNE_NO_MAT unless the store has form
 * `form`. */
static clprune_mat view(
    const clprune_saved *saved, const clprune__form *form, size_t first, size_t count)
{
    if (!is_form(saved, form))
        return CLPRUNE_NO_MAT;
    first = clprune__min(first, saved->kept.batch);
    count = clprune__min(count, saved->kept.batch - first);
    return form->mat(&saved->kept, (clprune__range){first, count});
}

clprune_mat clprune_saved_dense(const clprune_saved *saved, size_t first, size_t count)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    return view(saved,
        is_form(saved, &clprune__form_quantised) ? &clprune__form_quantised : &clprune__form_dense,
        first, count);
}

clprune_bsr clprune_saved_bsr(const clprune_saved *saved, size_t first, size_t count)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    clprune_bsr bsr = {0};
    clprune_saved_sizes sizes;
    if (!is_form(saved, &clprune__form_pruned) ||
        clprune__pruned_bsr(saved->context, &saved->kept, &bsr, &sizes) != CLPRUNE_SUCCESS)
        return bsr;
    return clprune_bsr_samples(&bsr, first, count);
}

clprune_mat clprune_saved_mask(const clprune_saved *saved, size_t first, size_t count)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    return view(saved, &clprune__form_mask, first, count);
}

clprune_mat clprune_saved_target(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat scratch)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    return is_form(saved, &clprune__form_dense) ? view(saved, &clprune__form_dense, first, count)
                                                : scratch;
}

void clprune_saved_set_seed(clprune_saved *saved, uint64_t seed)
{
    ENTER_QUIETLY(clprune__saved_context(saved));
    if (saved != NULL)
        saved->kept.seed = seed;
}

/* Checks that x has the size of `count` samples and, unless the form is DENSE, lies apart from the
 * store. DENSE also takes its own memory, and checks the rest itself. */
static clprune_status check_dense(
    clprune_context *context, const clprune_saved *saved, size_t count, clprune_mat x)
{
    TRY(clprune__check_mat(context, "x", x, count * saved->kept.rows, saved->kept.cols));
    if (saved->kept.form != &clprune__form_dense)
        TRY(clprune__saved_check_apart(context, saved, "x", x));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__saved_store(clprune_saved *saved, size_t first, size_t count,
    clprune__region scores, clprune_mat x, cl_event *event)
{
    clprune_context *context = clprune__saved_context(saved);
    const clprune__range range = {first, count};
    TRY(clprune__saved_check_range(context, saved, range));
    TRY(check_dense(context, saved, count, x));
    if (is_guarded(saved)) {
        REQUIRE(clprune__stored_reserve(&saved->stored), CLPRUNE_OUT_OF_HOST_MEMORY,
            "no memory for the list of stored samples");
        clprune__stored_remove(&saved->stored, range);
    }
    TRY(saved->kept.form->store(context, &saved->kept, range, scores, x, event));
    if (is_guarded(saved))
        clprune__stored_add(&saved->stored, range);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_saved_store(
    clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event)
{
    ENTER(clprune__saved_context(saved));
    return clprune__saved_store(saved, first, count, (clprune__region){0}, x, event);
}

clprune_status clprune__saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event)
{
    clprune_context *context = clprune__saved_context(saved);
    const clprune__range range = {first, count};
    TRY(clprune__saved_check_range(context, saved, range));
    TRY(check_dense(context, saved, count, x));
    TRY(clprune__saved_check_stored(context, saved, range));
    return saved->kept.form->restore(context, &saved->kept, range, x, event);
}

clprune_status clprune__saved_quantised(
    const clprune_saved *saved, size_t first, size_t count, clprune__quantised *q)
{
    clprune_context *context = clprune__saved_context(saved);
    const clprune__range range = {first, count};
    TRY(clprune__saved_check_range(context, saved, range));
    TRY(clprune__saved_check_stored(context, saved, range));
    *q = clprune__kept_quantised(&saved->kept, range);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__saved_add(const clprune_saved *saved, size_t first, size_t count,
    clprune_mat x, clprune_mat ls, clprune_mat y, cl_event *event)
{
    clprune__quantised q;
    TRY(clprune__saved_quantised(saved, first, count, &q));
    return clprune__dequantise_add(clprune__saved_context(saved), &q, x, ls, y, event);
}

clprune_status clprune_saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event)
{
    ENTER(clprune__saved_context(saved));
    return clprune__saved_restore(saved, first, count, x, event);
}

bool clprune__saved_reads_bf16(const clprune_saved *saved)
{
    return saved != NULL && saved->kept.form->product_reads_bf16;
}

clprune_status clprune__saved_product(const clprune_saved *saved, clprune__range range, bool nt,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__form *form = saved->kept.form;
    return (form->product != NULL ? form->product : clprune__restored_product)(
        saved->context, &saved->kept, range, nt, beta, dy, dw, event);
}

clprune_status clprune__saved_multiply(const clprune_saved *saved, clprune__range range, bool nt,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    clprune_context *context = clprune__saved_context(saved);
    size_t dy_rows;
    TRY(clprune__saved_check_range(context, saved, range));
    const clprune__kept *kept = &saved->kept;
    const size_t each = nt ? dw.rows : kept->rows, outputs = nt ? dw.rows : dy.cols;
    REQUIRE(clprune__mul(range.count, each, &dy_rows), CLPRUNE_SIZE_OVERFLOW,
        "dy: %zu samples of %zu rows overflow size_t", range.count, each);
    const bool narrow = !nt && clprune__form_reads_bf16_dy(context, kept->keep.form);
    TRY((narrow ? clprune__check_mat_bf16 : clprune__check_mat)(
        context, "dy", dy, dy_rows, nt ? kept->cols : dy.cols));
    TRY(clprune__check_mat(context, "dw", dw, outputs, nt ? kept->rows : kept->cols));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__saved_check_apart(context, saved, "dw", dw));
    TRY(clprune__saved_check_stored(context, saved, range));
    return clprune__saved_product(saved, range, nt, beta, dy, dw, event);
}

clprune_status clprune_saved_product_tn(const clprune_saved *saved, size_t first, size_t count,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    ENTER(clprune__saved_context(saved));
    return clprune__saved_multiply(
        saved, (clprune__range){first, count}, false, beta, dy, dw, event);
}

clprune_status clprune_saved_product_nt(const clprune_saved *saved, size_t first, size_t count,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    ENTER(clprune__saved_context(saved));
    return clprune__saved_multiply(
        saved, (clprune__range){first, count}, true, beta, dy, dw, event);
}

clprune_status clprune__saved_product_conv(const clprune_saved *saved, size_t first,
    const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__range range = {first, conv->batch};
    const clprune__form *form = saved->kept.form;
    if (form->product_conv == NULL || (conv->groups > 1 && form != &clprune__form_dense))
        return clprune__restored_product_conv(
            saved->context, &saved->kept, range, conv, beta, dy, dw, event);
    return form->product_conv(saved->context, &saved->kept, range, conv, beta, dy, dw, event);
}
