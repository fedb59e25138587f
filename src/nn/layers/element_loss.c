#include "nn/layers/loss_private.h"

#include <math.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {
    "layers/element_loss.cl", "element_loss_forward"};
static const clprune__kernel_def mean_kernel = {"layers/element_loss.cl", "element_loss_mean"};
static const clprune__kernel_def backward_kernel = {
    "layers/element_loss.cl", "element_loss_backward"};

/* Columns of a part, and how many vectors of 16 floats a part has at most: so many terms of each
 * sum are added up in order. */
#define SEGMENT      1024
#define PART_VECTORS (SEGMENT / 16)

static clprune_status check_desc(clprune_context *context, const clprune_element_loss *desc)
{
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    REQUIRE(desc->kind >= CLPRUNE_LOSS_SQUARED && desc->kind <= CLPRUNE_LOSS_BINARY,
        CLPRUNE_INVALID_ARGUMENT, "kind is %d, expected a clprune_element_loss_kind",
        (int)desc->kind);
    REQUIRE(desc->kind == CLPRUNE_LOSS_SMOOTH_L1 ? desc->beta >= 0 && isfinite(desc->beta)
                                                 : desc->beta == 0,
        CLPRUNE_INVALID_ARGUMENT, "beta is %g, expected a finite number of at least 0%s",
        (double)desc->beta,
        desc->kind == CLPRUNE_LOSS_SMOOTH_L1 ? "" : ", and 0 of another kind than SMOOTH_L1");
    return CLPRUNE_SUCCESS;
}

/* Sets *rows to those of a sample. */
static clprune_status size_samples(
    clprune_context *context, size_t batch, clprune_mat y, size_t *rows)
{
    *rows = batch > 0 ? y.rows / batch : 0;
    REQUIRE(*rows * batch == y.rows, CLPRUNE_INVALID_SIZE,
        "y has %zu rows, expected a multiple of the batch, %zu", y.rows, batch);
    return CLPRUNE_SUCCESS;
}

/* Which weights a call has; those of positives belong to the binary loss. */
static clprune_status take_weights(clprune_context *context, const clprune_element_loss *desc,
    const clprune__element_weights *weights, clprune__element_weights *taken)
{
    *taken = weights != NULL ? *weights : (clprune__element_weights){.columns = CLPRUNE_NO_MAT};
    REQUIRE(clprune__is_absent(taken->positives) || desc->kind == CLPRUNE_LOSS_BINARY,
        CLPRUNE_INVALID_ARGUMENT,
        "positive_weights are given, but only the binary cross-entropy has them");
    return CLPRUNE_SUCCESS;
}

/* The defines of the loss, and then its last arguments: the weights that there are. */
static void define_loss(clprune__defines *defines, const clprune_element_loss *desc,
    const clprune__element_weights *weights)
{
    clprune__define(defines, "LOSS", (size_t)desc->kind);
    if (!clprune__is_absent(weights->columns))
        clprune__define(defines, "WEIGHTS", 1);
    if (!clprune__is_absent(weights->positives))
        clprune__define(defines, "POSITIVES", 1);
}

static void add_weights(clprune__launch *launch, const clprune__element_weights *weights)
{
    if (!clprune__is_absent(weights->columns))
        clprune__arg_mat(launch, weights->columns);
    if (!clprune__is_absent(weights->positives))
        clprune__arg_mat(launch, weights->positives);
}

/* First the sums of all parts of all samples, then the mean of each sample; a sample of one part
 * needs one launch. */
clprune_status clprune__element_loss_forward(clprune_context *context,
    const clprune_element_loss *desc, const clprune__element_weights *weights, size_t batch,
    clprune_mat y, clprune_mat target, clprune_mat loss, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t cols = y.cols;
    size_t rows;
    clprune__element_weights by;
    TRY(check_desc(context, desc));
    TRY(take_weights(context, desc, weights, &by));
    TRY(size_samples(context, batch, y, &rows));
    enum { Y, TARGET, COLUMNS, POSITIVES, SAMPLES, LOSS, ALL };
    const clprune__operand operands[ALL] = {{"y", y, y.rows, cols},
        {"target", target, y.rows, cols}, {"class_weights", by.columns, 1, cols, .optional = true},
        {"positive_weights", by.positives, 1, cols, .optional = true},
        {"weights", by.samples, batch, 1, .optional = true}, {"loss", loss, batch, 1}};
    TRY(clprune__check_operands(context, operands, LOSS, ALL));
    if (rows == 0 || cols == 0)
        return clprune__mat_fill(context, NAN, loss, event);

    const float mean = (float)(1 / ((double)rows * (double)cols));
    const size_t width = clprune__min(cols, SEGMENT);
    const size_t part_rows = PART_VECTORS / clprune__ceil_div(width, 16);
    const size_t parts = clprune__ceil_div(cols, SEGMENT) * clprune__ceil_div(rows, part_rows);
    const bool has_samples = !clprune__is_absent(by.samples);
    const clprune_mat samples = has_samples ? by.samples : clprune__untouched(y);
    clprune_mat sum = loss;
    if (parts > 1)
        TRY(clprune__scratch_mat(context, batch * parts, 1, &sum));
    clprune__rowwise plan = clprune__team_plan(context, batch * parts, part_rows * width);
    plan.cols = cols;
    clprune__define(&plan.defines, "SEGMENT", SEGMENT);
    define_loss(&plan.defines, desc, &by);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    ARG_ULONGS(&launch, rows, part_rows);
    clprune__arg_float(&launch, parts > 1 ? 1 : mean);
    clprune__arg_float(&launch, desc->beta);
    clprune__arg_uint(&launch, has_samples && parts == 1);
    ARG_MATS(&launch, y, target, samples, sum);
    add_weights(&launch, &by);
    TRY(clprune__rowwise_end(&launch, &plan, parts > 1 ? NULL : event));
    if (parts == 1)
        return CLPRUNE_SUCCESS;

    sum.rows = batch;
    sum.cols = sum.ld = parts;
    plan = clprune__team_plan(context, batch, parts);
    clprune__define(&plan.defines, "SEGMENT", SEGMENT);
    clprune__define(&plan.defines, "LOSS", (size_t)desc->kind);
    TRY(clprune__rowwise_begin(context, &mean_kernel, &plan, &launch));
    clprune__arg_float(&launch, mean);
    clprune__arg_uint(&launch, has_samples);
    ARG_MATS(&launch, sum, samples, loss);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_element_loss_forward(clprune_context *context,
    const clprune_element_loss *desc, size_t batch, clprune_mat y, clprune_mat target,
    clprune_mat loss, cl_event *event)
{
    ENTER(context);
    return clprune__element_loss_forward(context, desc, NULL, batch, y, target, loss, event);
}

clprune_status clprune__element_loss_backward(clprune_context *context,
    const clprune_element_loss *desc, const clprune__element_weights *weights, size_t batch,
    float scale, clprune_mat y, clprune_mat target, clprune_mat dy, cl_event *event)
{
    size_t rows;
    clprune__element_weights by;
    TRY(check_desc(context, desc));
    TRY(take_weights(context, desc, weights, &by));
    TRY(size_samples(context, batch, y, &rows));
    enum { Y, TARGET, COLUMNS, POSITIVES, SAMPLES, DY, ALL };
    const clprune__operand operands[ALL] = {{"y", y, y.rows, y.cols},
        {"target", target, y.rows, y.cols},
        {"class_weights", by.columns, 1, y.cols, .optional = true},
        {"positive_weights", by.positives, 1, y.cols, .optional = true},
        {"weights", by.samples, batch, 1, .optional = true},
        {"dy", dy, y.rows, y.cols, .in_place = 1u << Y}};
    TRY(clprune__check_operands(context, operands, DY, ALL));
    const bool has_samples = !clprune__is_absent(by.samples);
    clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    define_loss(&plan.defines, desc, &by);
    const double factor = desc->kind == CLPRUNE_LOSS_SQUARED ? 2 : 1;
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, (float)(factor * (double)scale / ((double)rows * (double)y.cols)));
    clprune__arg_float(&launch, desc->beta);
    clprune__arg_ulong(&launch, has_samples ? rows : 0);
    ARG_MATS(&launch, y, target, has_samples ? by.samples : clprune__untouched(y), dy);
    add_weights(&launch, &by);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_element_loss_backward(clprune_context *context,
    const clprune_element_loss *desc, size_t batch, float scale, clprune_mat y, clprune_mat target,
    clprune_mat dy, cl_event *event)
{
    ENTER(context);
    return clprune__element_loss_backward(context, desc, NULL, batch, scale, y, target, dy, event);
}
