#include "runtime/context/check.h"

#include "core/checked.h"
#include "runtime/context/context_private.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/arena.h"

unsigned clprune__code_bits(clprune_mat mat)
{
    const bool four = mat.type == CLPRUNE_VALUES_CODES4 || mat.type == CLPRUNE_VALUES_NF4;
    return mat.type == CLPRUNE_VALUES_CODES8 ? 8 : four ? 4 : 0;
}

size_t clprune__nf4_words(size_t cols)
{
    const size_t groups = clprune__ceil_div(cols, CLPRUNE__CODES_GROUP);
    return clprune__ceil_div(groups, CLPRUNE__NF4_SCALES) + clprune__ceil_div(groups, 4);
}

clprune_mat clprune__mat_units(clprune_mat mat)
{
    const size_t bits = clprune__code_bits(mat);
    if (bits == 0)
        return mat;
    const size_t scales = mat.type == CLPRUNE_VALUES_NF4
                              ? clprune__nf4_words(mat.cols)
                              : clprune__ceil_div(mat.cols, CLPRUNE__CODES_GROUP);
    mat.cols = clprune__ceil_div(mat.cols, 16) * (bits / 2) + scales;
    mat.type = CLPRUNE_VALUES_FP32;
    return mat;
}

/* One past the last element of a non-empty matrix; false where it does not fit a size_t. */
static bool mat_end(clprune_mat mat, size_t *end)
{
    size_t last_row;
    return clprune__mul(mat.rows - 1, mat.ld, &last_row) &&
           clprune__add(mat.offset, last_row, end) && clprune__add(*end, mat.cols, end);
}

size_t clprune__element_bytes(clprune_mat mat)
{
    return mat.type == CLPRUNE_VALUES_BF16 ? 2 : sizeof(float);
}

clprune_mat clprune__mat_in_window(clprune_mat mat)
{
    const clprune__window window = clprune__window_of(mat.buffer);
    mat.buffer = window.whole;
    mat.offset += window.origin / clprune__element_bytes(mat);
    return mat;
}

static clprune_status check_mat(clprune_context *context, const clprune__operand *operand)
{
    const char *name = operand->name;
    const clprune_mat mat = operand->mat, units = clprune__mat_units(mat);
    const size_t rows = operand->rows, cols = operand->cols;
    const bool bf16 = operand->bf16, codes = operand->codes;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(mat.rows == rows && mat.cols == cols, CLPRUNE_INVALID_SIZE,
        "%s is %zu x %zu, expected %zu x %zu", name, mat.rows, mat.cols, rows, cols);
    REQUIRE(mat.type == CLPRUNE_VALUES_FP32 || (bf16 && mat.type == CLPRUNE_VALUES_BF16) ||
                (codes && clprune__code_bits(mat) > 0),
        CLPRUNE_INVALID_ARGUMENT, "%s has elements of type %d, expected fp32%s%s", name,
        (int)mat.type, bf16 ? " or bf16" : "", codes ? " or codes" : "");
    if (rows == 0 || cols == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(mat.buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s has no buffer", name);
    REQUIRE(mat.ld >= units.cols, CLPRUNE_INVALID_SIZE,
        "%s has ld %zu, expected at least its %zu %s", name, mat.ld, units.cols,
        clprune__code_bits(mat) > 0 ? "words" : "columns");
    size_t end;
    REQUIRE(mat_end(units, &end), CLPRUNE_SIZE_OVERFLOW, "%s: offset + rows * ld overflows size_t",
        name);
    TRY(clprune__check_buffer(context, name, mat.buffer, end, clprune__element_bytes(mat)));
    if (context->verbose != NULL)
        clprune__verbose_operand(context->verbose, name, mat);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_mat(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols)
{
    return check_mat(context, &(clprune__operand){name, mat, rows, cols});
}

clprune_status clprune__check_mat_bf16(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols)
{
    return check_mat(context, &(clprune__operand){name, mat, rows, cols, .bf16 = true});
}

clprune_status clprune__check_mat_any(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols)
{
    return check_mat(
        context, &(clprune__operand){name, mat, rows, cols, .bf16 = true, .codes = true});
}

clprune_status clprune__check_buffer(
    clprune_context *context, const char *name, cl_mem buffer, size_t count, size_t size)
{
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    if (count == 0 || size == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s is NULL", name);
    size_t needed, bytes;
    REQUIRE(clprune__mul(count, size, &needed), CLPRUNE_SIZE_OVERFLOW,
        "%s: %zu elements of %zu bytes overflow size_t", name, count, size);
    TRY(context->backend->size(context, name, buffer, &bytes));
    REQUIRE(needed <= bytes, CLPRUNE_INVALID_SIZE, "%s needs %zu bytes, its buffer has %zu", name,
        needed, bytes);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_ints(
    clprune_context *context, const char *name, clprune_ints ints, size_t count, clprune_mat *mat)
{
    size_t end;
    REQUIRE(clprune__add(ints.offset, count, &end), CLPRUNE_SIZE_OVERFLOW,
        "%s: %zu elements from %zu on overflow size_t", name, count, ints.offset);
    TRY(clprune__check_buffer(context, name, ints.buffer, count > 0 ? end : 0, sizeof(int32_t)));
    *mat = clprune_mat_of(ints.buffer, 1, count);
    mat->offset = ints.offset;
    return CLPRUNE_SUCCESS;
}

/* Translates a region of a sub-buffer to its parent buffer; other regions stay. */
static clprune_status locate(clprune_context *context, clprune__bytes region, clprune__bytes *found)
{
    size_t origin = 0;
    *found = region;
    if (region.buffer == NULL || region.count == 0)
        return CLPRUNE_SUCCESS;
    TRY(context->backend->locate(context, region.buffer, &found->buffer, &origin));
    found->begin += origin;
    return CLPRUNE_SUCCESS;
}

clprune__bytes clprune__bytes_of(clprune_mat mat)
{
    if (mat.buffer == NULL || mat.rows == 0 || mat.cols == 0)
        return (clprune__bytes){NULL, 0, 0};
    const size_t bytes = clprune__element_bytes(mat), cols = clprune__mat_units(mat).cols;
    return (clprune__bytes){
        mat.buffer, mat.offset * bytes, ((mat.rows - 1) * mat.ld + cols) * bytes};
}

static bool meet(clprune__bytes a, clprune__bytes b)
{
    return a.buffer != NULL && a.buffer == b.buffer && a.count > 0 && b.count > 0 &&
           a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

/* Whether two matrices of one buffer have the same type and ld and disjoint columns. With `first`
 * starting at column 0 of its rows, `second` starts at column `shift`. The ld of a single row is
 * free. */
static bool are_side_by_side(clprune_mat first, clprune_mat second)
{
    if (first.offset > second.offset)
        return are_side_by_side(second, first);
    if (first.type != second.type || (first.ld != second.ld && first.rows > 1 && second.rows > 1))
        return false;
    const size_t ld = first.rows > 1 ? first.ld : second.ld;
    const size_t shift = ld > 0 ? (second.offset - first.offset) % ld : 0;
    return first.cols <= shift && second.cols <= ld - shift;
}

/* A matrix, translated from a sub-buffer to its parent, and its bytes there. */
typedef struct window {
    clprune_mat mat;
    clprune__bytes bytes;
} window;

static clprune_status window_of(clprune_context *context, clprune_mat mat, window *found)
{
    TRY(locate(context, clprune__bytes_of(mat), &found->bytes));
    found->mat = clprune__mat_units(mat);
    found->mat.buffer = found->bytes.buffer;
    found->mat.offset = found->bytes.begin / clprune__element_bytes(mat);
    return CLPRUNE_SUCCESS;
}

static clprune_status check_windows(clprune_context *context, const char *name_a, const window *a,
    const char *name_b, const window *b)
{
    REQUIRE(!meet(a->bytes, b->bytes) || are_side_by_side(a->mat, b->mat), CLPRUNE_INVALID_ARGUMENT,
        "%s overlaps %s; give each its own memory", name_a, name_b);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_apart(
    clprune_context *context, const char *name_a, clprune_mat a, const char *name_b, clprune_mat b)
{
    window window_a = {clprune__mat_units(a), clprune__bytes_of(a)},
           window_b = {clprune__mat_units(b), clprune__bytes_of(b)};
    if (a.buffer != b.buffer) {
        TRY(window_of(context, a, &window_a));
        TRY(window_of(context, b, &window_b));
    }
    return check_windows(context, name_a, &window_a, name_b, &window_b);
}

clprune_status clprune__check_bytes_apart(clprune_context *context, const char *name_a,
    clprune__bytes a, const char *name_b, clprune__bytes b)
{
    TRY(locate(context, a, &a));
    TRY(locate(context, b, &b));
    REQUIRE(!meet(a, b), CLPRUNE_INVALID_ARGUMENT, "%s overlaps %s; give each its own memory",
        name_a, name_b);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_operands(
    clprune_context *context, const clprune__operand *operands, size_t inputs, size_t count)
{
    const clprune__operand *p = operands;
    window windows[CLPRUNE__OPERANDS];
    REQUIRE(count <= CLPRUNE__OPERANDS, CLPRUNE_INTERNAL_ERROR, "%zu operands", count);
    for (size_t i = 0; i < count; i++)
        if (!p[i].optional || !clprune__is_absent(p[i].mat))
            TRY(check_mat(context, &p[i]));
    for (size_t i = 0; i < count; i++)
        TRY(window_of(context, p[i].mat, &windows[i]));
    for (size_t i = inputs; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if ((p[i].in_place >> k & 1) == 0 || !clprune__same_mat(windows[i].mat, windows[k].mat))
                TRY(check_windows(context, p[i].name, &windows[i], p[k].name, &windows[k]));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_batch(clprune_context *context, size_t batch, clprune_mat x)
{
    REQUIRE(batch > 0 ? x.rows % batch == 0 : x.rows == 0, CLPRUNE_INVALID_SIZE,
        "x has %zu rows, expected a multiple of batch, %zu", x.rows, batch);
    return CLPRUNE_SUCCESS;
}

bool clprune__is_mat_type(clprune_value_type type)
{
    return type == CLPRUNE_VALUES_FP32 || type == CLPRUNE_VALUES_BF16 ||
           clprune__code_bits((clprune_mat){.type = type}) > 0;
}

clprune_status clprune__check_reserved(
    clprune_context *context, const char *name, const void *reserved, size_t bytes)
{
    const unsigned char *byte = reserved;
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(byte[i] == 0, CLPRUNE_INVALID_ARGUMENT,
            "%s.reserved is not zero; zero-initialise %s before setting its fields", name, name);
    return CLPRUNE_SUCCESS;
}

bool clprune__is_absent(clprune_mat mat)
{
    return mat.buffer == NULL && mat.cols == 0;
}

bool clprune__same_mat(clprune_mat a, clprune_mat b)
{
    return a.rows > 0 && a.cols > 0 && a.buffer == b.buffer && a.offset == b.offset &&
           a.type == b.type && a.rows == b.rows && a.cols == b.cols &&
           (a.ld == b.ld || a.rows == 1);
}

clprune_status clprune__is_in_place(
    clprune_context *context, clprune_mat a, clprune_mat b, bool *same)
{
    window window_a, window_b;
    TRY(window_of(context, a, &window_a));
    TRY(window_of(context, b, &window_b));
    *same = clprune__same_mat(window_a.mat, window_b.mat);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__empty_event(clprune_context *context, cl_event *event)
{
    return event != NULL ? context->backend->mark(context, event) : CLPRUNE_SUCCESS;
}
