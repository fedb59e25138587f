#include "clprune/gelu_code.h"

#include "core/checked.h"
#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/rowwise.h"
#include "runtime/scratch.h"

static const clprune__kernel_def gelu_code_forward_kernel = {
    "gelu_code.cl", "gelu_code_forward", "nn.clh gelu_code.clh"};
static const clprune__kernel_def gelu_code_backward_kernel = {
    "gelu_code.cl", "gelu_code_backward", "nn.clh gelu_code.clh"};

static clprune_status check_sizes(clprune_context *context, size_t rows, size_t cols, unsigned bits,
    clprune_gelu_code_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_gelu_code_sizes found;
    size_t all;
    REQUIRE(sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "sizes is NULL");
    *sizes = (clprune_gelu_code_sizes){0};
    REQUIRE(bits == 2 || bits == 4 || bits == 8, CLPRUNE_INVALID_ARGUMENT,
        "bits is %u, not 2, 4 or 8", bits);
    REQUIRE(
        clprune__mul(cols, bits, &all), CLPRUNE_SIZE_OVERFLOW, "%zu codes of %u bits", cols, bits);
    found.cols = clprune__ceil_div(all, 32);
    REQUIRE(clprune__mul3(rows, found.cols, sizeof(float), &found.bytes), CLPRUNE_SIZE_OVERFLOW,
        "codes of %zu x %zu", rows, cols);
    *sizes = found;
done:
    return status;
}

clprune_status clprune_gelu_code_size_query(
    size_t rows, size_t cols, unsigned bits, clprune_gelu_code_sizes *sizes)
{
    return check_sizes(NULL, rows, cols, bits, sizes);
}

/* What both passes check: sizes, and that out, where it is not `in`, lies apart from it. */
static clprune_status check(clprune_context *context, unsigned bits, const char *in_name,
    clprune_mat in, const char *out_name, clprune_mat out, clprune_mat codes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_gelu_code_sizes sizes;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(check_sizes(context, in.rows, in.cols, bits, &sizes));
    TRY(clprune__check_mat(context, in_name, in, in.rows, in.cols));
    TRY(clprune__check_mat(context, out_name, out, in.rows, in.cols));
    TRY(clprune__check_mat(context, "codes", codes, in.rows, sizes.cols));
    if (!clprune__same_mat(out, in))
        TRY(clprune__check_apart(context, out_name, out, in_name, in));
done:
    return status;
}

clprune_status clprune_gelu_code_forward(clprune_context *context, unsigned bits, clprune_mat h,
    clprune_mat b, clprune_mat g, clprune_mat codes, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const bool bias = b.buffer != NULL;
    TRY(check(context, bits, "h", h, "g", g, codes));
    TRY(clprune__check_apart(context, "codes", codes, "h", h));
    TRY(clprune__check_apart(context, "codes", codes, "g", g));
    if (bias) {
        TRY(clprune__check_mat(context, "b", b, 1, h.cols));
        TRY(clprune__check_apart(context, "h", h, "b", b));
        TRY(clprune__check_apart(context, "g", g, "b", b));
        TRY(clprune__check_apart(context, "codes", codes, "b", b));
    }
    clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__define(&plan.defines, "BITS", bits);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &gelu_code_forward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, bias ? b : h); /* a buffer it does not read */
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, g);
    clprune__arg_mat(&launch, codes);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

static clprune_status check_sums(
    clprune_context *context, clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "db", db, 1, dg.cols));
    TRY(clprune__check_apart(context, "db", db, "dg", dg));
    TRY(clprune__check_apart(context, "db", db, "codes", codes));
    TRY(clprune__check_apart(context, "db", db, "dh", dh));
done:
    return status;
}

clprune_status clprune_gelu_code_backward(clprune_context *context, bool accumulate, unsigned bits,
    clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    const bool sums = db.buffer != NULL;
    TRY(check(context, bits, "dg", dg, "dh", dh, codes));
    TRY(clprune__check_apart(context, "dh", dh, "codes", codes));
    if (sums)
        TRY(check_sums(context, dg, codes, dh, db));
    clprune__rowwise plan = sums ? clprune__strip_plan(context, dg.rows, dg.cols, 1)
                                 : clprune__rowwise_plan(context, dg.rows, dg.cols);
    clprune__define(&plan.defines, "BITS", bits);
    clprune__define(&plan.defines, "SUMS", sums);
    clprune_mat partial = dh; /* a buffer that is not touched */
    if (sums)
        TRY(clprune__scratch_mat(context, plan.groups, dg.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &gelu_code_backward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, dg.rows);
    clprune__arg_ulong(&launch, dg.cols);
    clprune__arg_mat(&launch, dg);
    clprune__arg_mat(&launch, dh);
    clprune__arg_mat(&launch, codes);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, sums ? NULL : event));
    if (sums)
        TRY(clprune__column_sums_final(context, accumulate, plan.groups, partial, 1, &db, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
