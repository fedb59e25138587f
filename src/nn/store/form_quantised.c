/* QUANTISED: codes of some bits, with a scale and a zero for each group of columns, or bf16. */
#include "core/checked.h"
#include "nn/store/form.h"
#include "ops/codes/quantise_private.h"
#include "runtime/context/fail.h"

#define DEFAULT_GROUP 64

static clprune__quantised_desc describe(const clprune__kept *kept)
{
    return (clprune__quantised_desc){
        kept->batch * kept->rows, kept->cols, kept->keep.bits, kept->keep.group, kept->keep.rotate};
}

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    REQUIRE((unsigned)keep->rounding <= CLPRUNE_ROUNDING_NEAREST, CLPRUNE_INVALID_ARGUMENT,
        "rounding is %d, expected a clprune_rounding", (int)keep->rounding);
    if (keep->group == 0)
        keep->group = DEFAULT_GROUP;
    size_t words;
    const clprune__quantised_desc one = {1, 1, keep->bits, keep->group, keep->rotate};
    TRY(clprune__quantised_words(context, &one, &words)); /* checks bits, group and rotate */
    return CLPRUNE_SUCCESS;
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    const clprune__quantised_desc desc = describe(kept);
    size_t words, elements;
    REQUIRE(clprune__mul(kept->rows, kept->cols, &elements) && elements <= UINT32_MAX,
        CLPRUNE_SIZE_OVERFLOW, "samples are %zu x %zu, expected fewer than 2^32 elements",
        kept->rows, kept->cols);
    TRY(clprune__quantised_words(context, &desc, &words));
    found->bytes = found->values_bytes = words * sizeof(cl_uint);
    return CLPRUNE_SUCCESS;
}

clprune__quantised clprune__kept_quantised(const clprune__kept *kept, clprune__range range)
{
    const clprune__quantised_desc desc = describe(kept);
    const clprune__quantised all =
        clprune__quantised_of(&desc, kept->buffer, kept->offset / sizeof(cl_uint));
    return clprune__quantised_rows(&all, range.first * kept->rows, range.count * kept->rows);
}

/* With 16 bits, rows of whole units are a matrix of bf16. */
static clprune_mat mat(const clprune__kept *kept, clprune__range range)
{
    const clprune__quantised q = clprune__kept_quantised(kept, range);
    return clprune__quantised_mat(&q);
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    const clprune__quantised q = clprune__kept_quantised(kept, range);
    const bool nearest = kept->keep.rounding == CLPRUNE_ROUNDING_NEAREST;
    (void)scores;
    return clprune__quantise(context, nearest ? NULL : &kept->seed, clprune__max(kept->rows, 1),
        range.first, x, &q, event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    const clprune__quantised q = clprune__kept_quantised(kept, range);
    return clprune__dequantise(context, &q, x, event);
}

static clprune_status product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__quantised q = clprune__kept_quantised(kept, range);
    if (nt && kept->keep.rotate)
        return clprune__restored_product(context, kept, range, nt, beta, dy, dw, event);
    if (nt)
        return clprune__quantised_nt(context, range.count, beta, dy, &q, dw, event);
    return clprune__quantised_tn(context, beta, dy, &q, dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    const clprune__quantised q = clprune__kept_quantised(kept, range);
    if (kept->keep.rotate || !clprune__conv_reads_codes(context, conv, &q))
        return clprune__restored_product_conv(context, kept, range, conv, beta, dy, dw, event);
    return clprune__conv_dw_quantised(context, conv, beta, &q, dy, dw, event);
}

const clprune__form clprune__form_quantised = {.name = "quantised",
    .settle = settle,
    .sizes = sizes,
    .mat = mat,
    .store = store,
    .restore = restore,
    .product = product,
    .product_reads_bf16 = true,
    .product_conv = product_conv};
