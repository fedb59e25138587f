#include "clprune/permute.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def permute_kernel = {"layers/permute.cl", "permute"};

enum { RANK = CLPRUNE_PERMUTE_RANK };

/* The axes of y, from the first to the last. */
typedef struct axis_list {
    size_t count, extent[RANK], stride[RANK]; /* stride: in x */
} axis_list;

/* *axes: without those of one element, and neighbours that stay neighbours in one. *elements: of a
 * sample. */
static clprune_status take_axes(
    clprune_context *context, const clprune_permute_desc *desc, axis_list *axes, size_t *elements)
{
    bool seen[RANK] = {false};
    size_t strides[RANK];
    *elements = 1;
    REQUIRE(desc != NULL && desc->rank > 0 && desc->rank <= RANK, CLPRUNE_INVALID_ARGUMENT,
        "desc has %zu axes, expected 1 to %d", desc != NULL ? desc->rank : 0, RANK);
    for (size_t k = desc->rank; k-- > 0;) {
        strides[k] = *elements;
        REQUIRE(clprune__mul(*elements, desc->extents[k], elements), CLPRUNE_SIZE_OVERFLOW,
            "the extents of desc overflow size_t");
    }
    for (size_t k = 0; k < desc->rank; k++) {
        const size_t from = desc->order[k];
        REQUIRE(from < desc->rank && !seen[from], CLPRUNE_INVALID_ARGUMENT,
            "axis %zu of y is axis %zu of %zu, or there twice", k, from, desc->rank);
        seen[from] = true;
        const size_t extent = desc->extents[from], last = axes->count - 1;
        if (extent == 1)
            continue;
        if (axes->count > 0 && axes->stride[last] == strides[from] * extent) {
            axes->extent[last] *= extent;
            axes->stride[last] = strides[from];
        } else {
            axes->extent[axes->count] = extent;
            axes->stride[axes->count++] = strides[from];
        }
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status permute(clprune_context *context, const axis_list *of, size_t elements,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    const size_t last = of->count - 1, step = of->stride[last], rows = elements / of->extent[last];
    size_t all;
    REQUIRE(clprune__mul(x.rows, rows, &all) && all <= UINT32_MAX, CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows are too many", x.rows, rows);
    clprune__rowwise plan = clprune__rowwise_plan(context, all, of->extent[last]);
    clprune__define(&plan.defines, "AXES", last);
    clprune__define(&plan.defines, "RUNS", step == 1);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &permute_kernel, &plan, &launch));
    ARG_ULONGS(&launch, rows, step);
    for (size_t k = 0; k + 1 < RANK; k++) {
        const bool some = k < last;
        ARG_ULONGS(
            &launch, some ? of->extent[last - 1 - k] : 1, some ? of->stride[last - 1 - k] : 0);
    }
    ARG_MATS(&launch, x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_permute(clprune_context *context, const clprune_permute_desc *desc,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    axis_list axes = {0};
    size_t elements;
    TRY(take_axes(context, desc, &axes, &elements));
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, elements}, {"y", y, x.rows, elements}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    if (x.rows == 0 || elements == 0)
        return clprune__empty_event(context, event);
    if (axes.count < 2)
        return clprune_mat_copy(context, x, y, event);
    return permute(context, &axes, elements, x, y, event);
}

clprune_permute_desc clprune_permute_back(const clprune_permute_desc *desc)
{
    ENTER_QUIETLY(NULL);
    clprune_permute_desc back = {0};
    if (desc == NULL || desc->rank > RANK)
        return back;
    back.rank = desc->rank;
    for (size_t k = 0; k < desc->rank; k++) {
        const size_t from = desc->order[k];
        if (from >= desc->rank) /* refused */
            return *desc;
        back.extents[k] = desc->extents[from];
        back.order[from] = k;
    }
    return back;
}
