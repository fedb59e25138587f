#include "runtime/check.h"

#include "core/checked.h"
#include "runtime/backend.h"
#include "runtime/context_private.h"
#include "runtime/verbose.h"

/* One past the last element of a non-empty matrix; false where it does not fit a size_t. */
static bool mat_end(clprune_mat mat, size_t *end)
{
    size_t last_row;
    return clprune__mul(mat.rows - 1, mat.ld, &last_row) &&
           clprune__add(mat.offset, last_row, end) && clprune__add(*end, mat.cols, end);
}

clprune_status clprune__check_mat(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(mat.rows == rows && mat.cols == cols, CLPRUNE_INVALID_SIZE,
        "%s is %zu x %zu, expected %zu x %zu", name, mat.rows, mat.cols, rows, cols);
    if (rows == 0 || cols == 0)
        goto done;
    REQUIRE(mat.buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s has no buffer", name);
    REQUIRE(mat.ld >= cols, CLPRUNE_INVALID_SIZE,
        "%s has ld %zu, expected at least its %zu columns", name, mat.ld, cols);
    size_t end;
    REQUIRE(
        mat_end(mat, &end), CLPRUNE_SIZE_OVERFLOW, "%s: offset + rows * ld overflows size_t", name);
    TRY(clprune__check_buffer(context, name, mat.buffer, end, sizeof(float)));
    if (context->verbose != NULL)
        clprune__verbose_operand(context->verbose, name, mat);
done:
    return status;
}

clprune_status clprune__check_buffer(
    clprune_context *context, const char *name, cl_mem buffer, size_t count, size_t size)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    if (count == 0 || size == 0)
        goto done;
    REQUIRE(buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s is NULL", name);
    size_t needed, bytes;
    REQUIRE(clprune__mul(count, size, &needed), CLPRUNE_SIZE_OVERFLOW,
        "%s: %zu elements of %zu bytes overflow size_t", name, count, size);
    TRY(context->backend->size(context, name, buffer, &bytes));
    REQUIRE(needed <= bytes, CLPRUNE_INVALID_SIZE, "%s needs %zu bytes, its buffer has %zu", name,
        needed, bytes);
done:
    return status;
}

/* Whether two matrices of one buffer have the same ld and disjoint columns. With `first` starting
 * at column 0 of its rows, `second` starts at column `shift`. The ld of a single row is free. */
static bool are_side_by_side(clprune_mat first, clprune_mat second)
{
    if (first.offset > second.offset)
        return are_side_by_side(second, first);
    if (first.ld != second.ld && first.rows > 1 && second.rows > 1)
        return false;
    const size_t ld = first.rows > 1 ? first.ld : second.ld;
    const size_t shift = ld > 0 ? (second.offset - first.offset) % ld : 0;
    return first.cols <= shift && second.cols <= ld - shift;
}

clprune_status clprune__check_apart(
    clprune_context *context, const char *name_a, clprune_mat a, const char *name_b, clprune_mat b)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (a.buffer == NULL || a.buffer != b.buffer || a.rows == 0 || a.cols == 0 || b.rows == 0 ||
        b.cols == 0)
        goto done;
    size_t end_a, end_b;
    REQUIRE(mat_end(a, &end_a) && mat_end(b, &end_b), CLPRUNE_SIZE_OVERFLOW,
        "%s or %s: offset + rows * ld overflows size_t", name_a, name_b);
    REQUIRE(end_a <= b.offset || end_b <= a.offset || are_side_by_side(a, b),
        CLPRUNE_INVALID_ARGUMENT, "%s overlaps %s", name_a, name_b);
done:
    return status;
}

clprune_status clprune__check_operands(
    clprune_context *context, const clprune__operand *operands, size_t inputs, size_t count)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__operand *p = operands;
    for (size_t i = 0; i < count; i++)
        if (!p[i].optional || !clprune__is_absent(p[i].mat))
            TRY(clprune__check_mat(context, p[i].name, p[i].mat, p[i].rows, p[i].cols));
    for (size_t i = inputs; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if ((p[i].in_place >> k & 1) == 0 || !clprune__same_mat(p[i].mat, p[k].mat))
                TRY(clprune__check_apart(context, p[i].name, p[i].mat, p[k].name, p[k].mat));
done:
    return status;
}

clprune_status clprune__check_reserved(
    clprune_context *context, const char *name, const void *reserved, size_t bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const unsigned char *byte = reserved;
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(byte[i] == 0, CLPRUNE_INVALID_ARGUMENT,
            "%s.reserved is not zero; zero-initialise %s before setting its fields", name, name);
done:
    return status;
}

bool clprune__is_absent(clprune_mat mat)
{
    return mat.buffer == NULL;
}

bool clprune__same_mat(clprune_mat a, clprune_mat b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.cols == b.cols &&
           (a.ld == b.ld || a.rows <= 1);
}

clprune_status clprune__empty_event(clprune_context *context, cl_event *event)
{
    return event != NULL ? context->backend->mark(context, event) : CLPRUNE_SUCCESS;
}
