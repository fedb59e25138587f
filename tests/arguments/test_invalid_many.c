/* Bad matrices and buffers, by loops over functions, operands and faults: each operand is broken in
 * each way that it has. The exact status, a message that names the operands, nothing written.
 *
 * 102 functions. Faults: shapes, absent operands, offsets, short, foreign, dry and image buffers,
 * overlaps by handles and by sub-buffers, overlaps with a store, no context; bad BSR descriptors,
 * batches, norms and strides. Afterwards the good arguments work. */
#include "support/test_buffer.h"

/* A refused call leaves its event alone. */
static cl_event event;
#define EVENT &event

#include "support/test_functions.h"

/* ---- faults ---------------------------------------------------------------------------------- */

/* Good arguments, each in a buffer of its size, and what is passed in their place. */
typedef struct setting {
    const function *f;
    size_t count, calls;
    clprune_mat good[MOST];
    test_buf mats[MOST];
    cl_mem foreign, dry, picture;
} setting;

/* Whether `name` is a word of the first `length` characters. */
static bool has_word(const char *text, size_t length, const char *name)
{
    const char *const letters = "abcdefghijklmnopqrstuvwxyz_0123456789";
    const size_t size = strlen(name);
    for (size_t at = 0; at + size <= length; at++)
        if (strncmp(text + at, name, size) == 0 &&
            (at == 0 || strchr(letters, text[at - 1]) == NULL) &&
            (text[at + size] == 0 || strchr(letters, text[at + size]) == NULL))
            return true;
    return false;
}

/* Whether the message is about an operand: "file.c:1: NAME is 4 x 5"; or about two: "A overlaps B",
 * in any order. */
static bool is_about(const char *text, const operand *a, const operand *b)
{
    const char *const start = strchr(text, ' '), *const verb = strstr(text, " overlaps ");
    if (start == NULL)
        return false;
    if (b == NULL) {
        const char *end = start + 1; /* up to the first number */
        while (*end != 0 && (*end != ' ' || end[1] < '0' || end[1] > '9'))
            end++;
        return has_word(start, (size_t)(end - start), a->name);
    }
    if (((a->flags | b->flags) & RENAMED) != 0)
        return true;
    if (verb == NULL)
        return false;
    const size_t before = (size_t)(verb - start), after = strlen(verb);
    return (has_word(start, before, a->name) && has_word(verb, after, b->name)) ||
           (has_word(start, before, b->name) && has_word(verb, after, a->name));
}

/* The call fails with one of two statuses, touches no event and its message names operand i, and k
 * if they overlap (MOST: no other one). i = MOST: another operand is blamed. */
static void fails(setting *s, const clprune_mat *m, clprune_status expected, clprune_status or_else,
    size_t i, size_t k, const char *fault)
{
    const clprune_status status = s->f->call(m);
    const char *text = clprune_last_error(context);
    const operand *a = i < MOST ? &s->f->mats[i] : NULL, *b = k < MOST ? &s->f->mats[k] : NULL;
    if ((status != expected && status != or_else) || text[0] == 0 || event != NULL ||
        (a != NULL && !is_about(text, a, b)))
        fail_msg("%s, %s%s%s, %s: %s \"%s\", expected %s", s->f->name,
            a == NULL ? "some operand" : a->name, b == NULL ? "" : " upon ",
            b == NULL ? "" : b->name, fault, clprune_status_name(status),
            status == CLPRUNE_SUCCESS ? "" : text, clprune_status_name(expected));
    s->calls++;
}

/* What a matrix that ends beyond its buffer is refused with: no size_t may overflow. */
static clprune_status status_beyond(clprune_mat m)
{
    __extension__ typedef unsigned __int128 wide;
    const wide end = ((wide)m.rows - 1) * m.ld + m.offset + m.cols;
    return end * sizeof(float) >> 64 != 0 ? CLPRUNE_SIZE_OVERFLOW : CLPRUNE_INVALID_SIZE;
}

/* 2^31, 2^32, 2^61, 2^62, 2^63: elements and bytes around the limits of integers. */
static const unsigned powers[] = {31, 32, 61, 62, 63};
enum { POWERS = COUNT_OF(powers) };

/* Sizes, strides and offsets of one operand. */
static void break_shape(setting *s, size_t i)
{
    const operand *o = &s->f->mats[i];
    const clprune_status bad = CLPRUNE_INVALID_SIZE;
    clprune_mat m[MOST], *const one = &m[i];
    const clprune_mat good = s->good[i];
    const bool free_rows = (o->flags & FREE_ROWS) != 0, free_cols = (o->flags & FREE_COLS) != 0;
    const size_t of_rows = free_rows ? MOST : i, of_cols = free_cols ? MOST : i;
#define BROKEN_OF(blamed, change, status, or_else, fault)                                          \
    do {                                                                                           \
        memcpy(m, s->good, sizeof m);                                                              \
        change;                                                                                    \
        fails(s, m, status, or_else, blamed, MOST, fault);                                         \
    } while (0)
#define BROKEN(change, status, or_else, fault) BROKEN_OF(i, change, status, or_else, fault)
    BROKEN_OF(of_rows, one->rows++, bad, bad, "a row too many");
    BROKEN_OF(of_cols, one->cols++, bad, bad, "a column too many");
    if (!free_rows)
        BROKEN(one->rows--, bad, bad, "a row too few");
    if (!free_cols)
        BROKEN(one->cols--, bad, bad, "a column too few");
    if ((o->flags & OPTIONAL) == 0)
        BROKEN_OF(free_rows || free_cols ? MOST : i, *one = CLPRUNE_NO_MAT, bad,
            CLPRUNE_INVALID_ARGUMENT, "absent");
    BROKEN(one->ld--, bad, bad, "ld below the columns");
    BROKEN(one->ld = 0, bad, bad, "ld 0");
    BROKEN(one->offset++, bad, bad, "an element beyond the buffer");
    BROKEN(one->offset = SIZE_MAX - 1, CLPRUNE_SIZE_OVERFLOW, CLPRUNE_SIZE_OVERFLOW,
        "an offset that overflows");
    if (o->rows > 1)
        BROKEN(one->ld++, bad, bad, "ld one too large");
    for (size_t p = 0; p < POWERS; p++) {
        const size_t large = (size_t)1 << powers[p];
        clprune_mat at = good;
        at.offset = large;
        BROKEN(one->offset = large, status_beyond(at), status_beyond(at), "a large offset");
        at = good;
        at.ld = large;
        if (o->rows > 1)
            BROKEN(one->ld = large, status_beyond(at), status_beyond(at), "a large ld");
        BROKEN_OF(
            of_rows, one->rows = large, bad, free_rows ? CLPRUNE_SIZE_OVERFLOW : bad, "many rows");
        BROKEN_OF(of_cols, one->cols = one->ld = large, bad,
            free_cols ? CLPRUNE_SIZE_OVERFLOW : bad, "many columns");
    }
#undef BROKEN
#undef BROKEN_OF
}

/* Buffers that one operand must not have. */
static void break_buffer(setting *s, size_t i)
{
    const operand *o = &s->f->mats[i];
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_mat m[MOST];
    test_buf small = test_buf_make(elements_of(o) * sizeof(float) - 1, NULL);
    const struct {
        cl_mem buffer;
        clprune_status status;
        const char *fault;
    } rows[] = {{NULL, bad, "no buffer"}, {s->foreign, bad, "a foreign buffer"},
        {s->dry, bad, "a buffer of a dry context"},
        {small.buffer, CLPRUNE_INVALID_SIZE, "a byte too small"}, {s->picture, bad, "an image"}};
    const size_t count = COUNT_OF(rows) - (s->picture == NULL);
    for (size_t k = 0; k < count; k++) {
        memcpy(m, s->good, sizeof m);
        m[i].buffer = rows[k].buffer;
        fails(s, m, rows[k].status, rows[k].status, i, MOST, rows[k].fault);
    }
    test_buf_unchanged(&small, "the small buffer");
}

/* Operands i and k where they share memory: in one buffer, in sub-buffers of one, in a buffer and a
 * sub-buffer of it. i is an output, or both are parts of one thing. */
static void break_overlap(setting *s, size_t i, size_t k)
{
    const operand *a = &s->f->mats[i], *b = &s->f->mats[k];
    const size_t bytes[2] = {elements_of(a) * sizeof(float), elements_of(b) * sizeof(float)};
    const bool may_be = (a->may_be >> k & 1) != 0 || (b->may_be >> i & 1) != 0;
    test_buf both = test_buf_make(2 * (bytes[0] + bytes[1]), NULL);
    cl_mem part[2];
    for (int p = 0; p < 2; p++) {
        const cl_buffer_region region = {both.front, bytes[p]};
        cl_int code;
        part[p] = clCreateSubBuffer(
            both.whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        TEST_CL(code);
    }
    clprune_mat m[MOST];
    if ((a->flags & BUFFER) == 0 || (b->flags & BUFFER) == 0) {
        const bool shift_a = (a->flags & BUFFER) == 0;
        memcpy(m, s->good, sizeof m);
        m[i].buffer = m[k].buffer = both.buffer;
        m[shift_a ? i : k].offset = elements_of(shift_a ? b : a) - 1;
        fails(s, m, CLPRUNE_INVALID_ARGUMENT, CLPRUNE_INVALID_ARGUMENT, i, k, "in one buffer");
    }
    if (!may_be) {
        memcpy(m, s->good, sizeof m);
        m[i].buffer = part[0];
        m[k].buffer = part[1];
        fails(s, m, CLPRUNE_INVALID_ARGUMENT, CLPRUNE_INVALID_ARGUMENT, i, k, "in sub-buffers");
        memcpy(m, s->good, sizeof m);
        m[i].buffer = m[k].buffer = both.buffer;
        fails(s, m, CLPRUNE_INVALID_ARGUMENT, CLPRUNE_INVALID_ARGUMENT, i, k, "the same memory");
    }
    if ((a->flags & BUFFER) == 0) {
        memcpy(m, s->good, sizeof m);
        m[i].buffer = both.whole;
        m[i].offset = both.front / sizeof(float) + elements_of(b) - 1;
        m[k].buffer = part[1];
        fails(s, m, CLPRUNE_INVALID_ARGUMENT, CLPRUNE_INVALID_ARGUMENT, i, k,
            "in a buffer and a sub-buffer");
    }
    for (int p = 0; p < 2; p++)
        TEST_CL(clReleaseMemObject(part[p]));
    test_buf_unchanged(&both, "the common buffer");
}

static void break_store(setting *s, size_t i)
{
    const clprune_saved_info info = clprune_saved_describe(with.saved);
    clprune_mat m[MOST];
    memcpy(m, s->good, sizeof m);
    m[i].buffer = info.buffer;
    m[i].offset = (info.offset + info.sizes.bytes) / sizeof(float) - 1;
    fails(s, m, CLPRUNE_INVALID_ARGUMENT, CLPRUNE_INVALID_ARGUMENT, i, MOST, "upon the store");
}

/* ---- arguments besides matrices -------------------------------------------------------------- */

static void refused(setting *s, clprune_status expected, const char *part, const char *fault)
{
    const clprune_status status = s->f->call(s->good);
    const char *text = clprune_last_error(context);
    if (status != expected || event != NULL || text[0] == 0 || strstr(text, part) == NULL)
        fail_msg("%s, %s: %s \"%s\", expected %s and \"%s\"", s->f->name, fault,
            clprune_status_name(status), status == CLPRUNE_SUCCESS ? "" : text,
            clprune_status_name(expected), part);
    s->calls++;
}

/* One of the arguments in `with` is changed. */
#define WITH(change, status, part)                                                                 \
    do {                                                                                           \
        const struct arguments kept = with;                                                        \
        with.change;                                                                               \
        refused(s, status, part, #change);                                                         \
        with = kept;                                                                               \
    } while (0)

static void break_bsr(setting *s)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    WITH(no_bsr = true, bad, "is NULL");
    WITH(bsr.desc.reserved[1] = 1, bad, "desc.reserved");
    WITH(bsr.reserved[0] = 1, bad, "bsr.reserved");
    WITH(bsr.desc.block.rows = 0, bad, "block");
    WITH(bsr.desc.block.cols = 0, bad, "block");
    WITH(bsr.desc.keep = BLOCKS + 1, bad, "keep");
    WITH(bsr.desc.batch = SIZE_MAX / 2, CLPRUNE_SIZE_OVERFLOW, "");
}

static bool has_operand(const function *f, const char *name)
{
    for (size_t i = 0; i < count_of(f); i++)
        if (is_named(&f->mats[i], name))
            return true;
    return false;
}

static void break_others(setting *s)
{
    const function *f = s->f;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    if (has_operand(f, "crow"))
        break_bsr(s);
    if (f->call == call_prune || f->call == call_prune_largest) {
        WITH(norm = (clprune_norm)3, bad, "norm");
        WITH(norm = (clprune_norm)-1, bad, "norm");
    }
    if (f->call == call_gemm_batched) {
        WITH(strides[2]--, bad, "stride_c"); /* samples of c overlap */
        WITH(strides[0]++, size, "a");       /* beyond the buffers */
        WITH(strides[1]++, size, "b");
        WITH(strides[2]++, size, "c");
        WITH(strides[0] = SIZE_MAX, CLPRUNE_SIZE_OVERFLOW, "a");
    }
    if (f->store != NULL) {
        WITH(batch = ROWS + 1, size, ""); /* neither as many samples nor a divisor of their rows */
        WITH(batch = 0, size, "");
    }
    if (f->call == call_linear_back || f->call == call_rows_back)
        WITH(saved = NULL, bad, "saved");
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* The good arguments are good: in a dry context, which checks and runs nothing. */
static void good_arguments(NO_ROW)
{
    clprune_context *dry = test_open_dry(NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        const function *f = &functions[i];
        clprune_mat m[MOST] = {{0}};
        open_arguments(dry, f);
        for (size_t k = 0; k < count_of(f); k++) {
            m[k] = test_new_mat(dry, elements_of(&f->mats[k]), 1);
            m[k] = clprune_mat_of(m[k].buffer, f->mats[k].rows, f->mats[k].cols);
        }
        const bool reads_back = f->call == call_validate;
        const clprune_status status = f->call(m);
        if (status != (reads_back ? CLPRUNE_UNSUPPORTED : CLPRUNE_SUCCESS))
            fail_msg("%s: %s", f->name, clprune_last_error(dry));
    }
}

static cl_mem make_picture(void)
{
    const cl_image_format format = {CL_R, CL_FLOAT};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 64};
    cl_int code;
    const cl_mem made =
        clCreateImage(clprune_context_cl(context), CL_MEM_READ_WRITE, &format, &desc, NULL, &code);
    return code == CL_SUCCESS ? test_own(made) : NULL; /* not every device has images */
}

/* No two operands hold the same, so that writing what was read from another one shows. */
static void make_operands(setting *s)
{
    s->count = count_of(s->f);
    for (size_t i = 0; i < s->count; i++) {
        const operand *o = &s->f->mats[i];
        float *values = test_floats(elements_of(o));
        fill_operand(o, (unsigned)i, values);
        s->mats[i] = test_buf_make(elements_of(o) * sizeof(float), values);
        s->good[i] = clprune_mat_of(s->mats[i].buffer, o->rows, o->cols);
    }
}

static void check_operands(const setting *s)
{
    for (size_t i = 0; i < s->count; i++)
        test_buf_unchanged(&s->mats[i], s->f->mats[i].name);
}

/* Without context and objects, with good matrices. */
static void no_context(void **state)
{
    setting s = {.f = *state};
    memset(&with, 0, sizeof with);
    context = NULL;
    make_operands(&s);
    refused(&s, CLPRUNE_INVALID_ARGUMENT, " is NULL", "no context");
    check_operands(&s);
}

static size_t all_calls;

static void bad_arguments(void **state)
{
    setting s = {.f = *state};
    open_arguments(test_context(), s.f);
    s.foreign = test_new_mat(test_open((clprune_context_options){0}), 1, 16384).buffer;
    s.dry = test_new_mat(test_open_dry(NULL, NULL), 1, 16384).buffer;
    s.picture = make_picture();
    make_operands(&s);
    for (size_t i = 0; i < s.count; i++) {
        const operand *o = &s.f->mats[i];
        if ((o->flags & BUFFER) == 0)
            break_shape(&s, i);
        break_buffer(&s, i);
        for (size_t k = 0; k < s.count; k++)
            if ((o->flags & OUTPUT) != 0 && (k < i || (s.f->mats[k].flags & OUTPUT) == 0) && k != i)
                break_overlap(&s, i, k);
        if ((o->flags & APART) != 0)
            break_store(&s, i);
    }
    break_others(&s);
    check_operands(&s);
    all_calls += s.calls;
    /* Whatever was refused, the good arguments still work. */
    TEST_OK(s.f->call(s.good));
    TEST_OK(clprune_context_finish(context));
    if (event != NULL)
        TEST_CL(clReleaseEvent(event));
    event = NULL;
}

static void how_many(NO_ROW)
{
    print_message("    %zu bad calls\n", all_calls);
    assert_true(all_calls > 1000);
    all_calls = 0;
}

int main(void)
{
    test_list list = {0};
    test_add(&list, good_arguments, NULL, "good arguments");
    const int failed = test_run_on_host("invalid arguments of all functions", &list);
    TEST_ADD_EACH(&list, bad_arguments, functions, "%s");
    TEST_ADD_EACH(&list, no_context, functions, "%s, no context");
    test_add(&list, how_many, NULL, "more than a thousand");
    return failed + test_run_on_devices("invalid arguments of all functions", &list);
}
