/* Bad arguments: each function is called with good arguments but one, and must return the exact
 * status, name the argument and touch no output. Functions of context, memory and matrix are tested
 * by their own files, creation by test_invalid_create.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test_buffer.h"

enum { BATCH = 2, ROWS = 6, COLS = 20, OUT = 9, BLOCKS = 6 * 5, KEEP = 13 };

/* What functions take. Sizes of the good arguments fit all functions. */
typedef struct arguments {
    clprune_context *context;
    clprune_norm norm;
    clprune_bsr bsr;
    const clprune_bsr *xs; /* &bsr or NULL */
    clprune_mat mat[5];
    cl_mem scores, mask;
    size_t batch, blocks, keep;
    size_t stride_a, stride_b, stride_c;
    clprune_saved *saved;
    clprune_linear *linear, *token;
} arguments;

static clprune_status call_pack(const arguments *a)
{
    return clprune_bsr_pack(a->context, a->mat[0], a->mask, a->xs, NULL);
}

static clprune_status call_unpack(const arguments *a)
{
    return clprune_bsr_unpack(a->context, a->xs, a->mat[0], NULL);
}

static clprune_status call_validate(const arguments *a)
{
    return clprune_bsr_validate(a->context, a->xs);
}

static clprune_status call_prune(const arguments *a)
{
    return clprune_prune(a->context, a->norm, CLPRUNE_CRITERION_LARGEST, 0, a->mat[0], a->xs, NULL);
}

static clprune_status call_prune_sampled(const arguments *a)
{
    return clprune_prune(a->context, a->norm, CLPRUNE_CRITERION_SAMPLED, 7, a->mat[0], a->xs, NULL);
}

static clprune_status call_score(const arguments *a)
{
    return clprune_prune_score(
        a->context, a->norm, a->xs != NULL ? &a->xs->desc : NULL, a->mat[0], a->scores, NULL);
}

static clprune_status call_select(const arguments *a)
{
    return clprune_prune_select(a->context, a->batch, a->blocks, a->keep, a->scores, a->mask, NULL);
}

static clprune_status call_tn(const arguments *a)
{
    return clprune_bspmm_tn(a->context, 1, 1, a->mat[0], a->xs, a->mat[1], NULL);
}

static clprune_status call_nt(const arguments *a)
{
    return clprune_bspmm_nt(a->context, 1, 1, a->mat[0], a->xs, a->mat[1], NULL);
}

static clprune_status call_nn(const arguments *a)
{
    return clprune_bspmm_nn(a->context, 1, 1, a->xs, a->mat[0], a->mat[1], NULL);
}

static clprune_status call_gemm(const arguments *a)
{
    return clprune_gemm(a->context, false, true, 1, 1, a->mat[0], a->mat[1], a->mat[2], NULL);
}

static clprune_status call_batched(const arguments *a)
{
    return clprune_gemm_batched(a->context, a->batch, false, true, 1, 1, a->mat[0], a->stride_a,
        a->mat[1], a->stride_b, a->mat[2], a->stride_c, NULL);
}

static clprune_status call_store(const arguments *a)
{
    return clprune_saved_store(a->saved, 0, a->batch, a->mat[0], NULL);
}

static clprune_status call_product_tn(const arguments *a)
{
    return clprune_saved_product_tn(a->saved, 0, a->batch, 0, a->mat[0], a->mat[1], NULL);
}

static clprune_status call_product_nt(const arguments *a)
{
    return clprune_saved_product_nt(a->saved, 0, a->batch, 0, a->mat[0], a->mat[1], NULL);
}

static clprune_status call_linear_forward(const arguments *a)
{
    return clprune_linear_forward(
        a->linear, a->batch, a->mat[0], a->mat[1], a->mat[2], a->mat[3], a->saved, NULL);
}

static clprune_status call_linear_backward(const arguments *a)
{
    return clprune_linear_backward(a->linear, a->batch, a->saved, a->mat[0], a->mat[1],
        &(clprune_grads){.dx = a->mat[2], .dw = a->mat[3], .db = a->mat[4]}, NULL);
}

static clprune_status call_rows_forward(const arguments *a)
{
    return clprune_linear_forward(
        a->token, a->batch, a->mat[0], a->mat[1], a->mat[2], a->mat[3], a->saved, NULL);
}

static clprune_status call_rows_backward(const arguments *a)
{
    return clprune_linear_backward(a->token, a->batch, a->saved, a->mat[0], a->mat[1],
        &(clprune_grads){.dx = a->mat[2], .dw = a->mat[3], .db = a->mat[4]}, NULL);
}

/* A matrix argument: its name, size, and what may not be broken. */
typedef struct mat_row {
    const char *name;
    size_t rows, cols;
    bool optional; /* without a buffer it is absent */
    bool output;
    bool free_cols; /* another argument is blamed for a wrong number of columns, */
    bool free_rows; /* or rows */
} mat_row;

enum { NEEDS_BSR = 1, NEEDS_SCORES = 2, NEEDS_MASK = 4, NEEDS_SAVED = 8, NEEDS_LAYER = 16 };

typedef struct function_row {
    const char *name;
    clprune_status (*call)(const arguments *a);
    unsigned needs;
    mat_row mats[5];
} function_row;

#define TOKENS (BATCH * ROWS)

static const function_row functions[] = {
    {"bsr_pack", call_pack, NEEDS_BSR | NEEDS_MASK, {{.name = "x", .rows = TOKENS, .cols = COLS}}},
    {"bsr_unpack", call_unpack, NEEDS_BSR,
        {{.name = "y", .rows = TOKENS, .cols = COLS, .output = true}}},
    {"bsr_validate", call_validate, NEEDS_BSR, {{0}}},
    {"prune", call_prune, NEEDS_BSR, {{.name = "x", .rows = TOKENS, .cols = COLS}}},
    {"prune_sampled", call_prune_sampled, NEEDS_BSR, {{.name = "x", .rows = TOKENS, .cols = COLS}}},
    {"prune_score", call_score, NEEDS_SCORES, {{.name = "x", .rows = TOKENS, .cols = COLS}}},
    {"prune_select", call_select, NEEDS_SCORES | NEEDS_MASK, {{0}}},
    {"bspmm_tn", call_tn, NEEDS_BSR,
        {{.name = "dy", .rows = TOKENS, .cols = OUT, .free_cols = true},
            {.name = "dw", .rows = OUT, .cols = COLS, .output = true}}},
    {"bspmm_nt", call_nt, NEEDS_BSR,
        {{.name = "dy", .rows = BATCH * OUT, .cols = COLS},
            {.name = "dw", .rows = OUT, .cols = ROWS, .output = true, .free_rows = true}}},
    {"bspmm_nn", call_nn, NEEDS_BSR,
        {{.name = "w", .rows = COLS, .cols = OUT, .free_cols = true},
            {.name = "y", .rows = TOKENS, .cols = OUT, .output = true}}},
    {"gemm", call_gemm, 0,
        {{.name = "a", .rows = ROWS, .cols = COLS, .free_cols = true},
            {.name = "b", .rows = OUT, .cols = COLS},
            {.name = "c",
                .rows = ROWS,
                .cols = OUT,
                .output = true,
                .free_rows = true,
                .free_cols = true}}},
    {"gemm_batched", call_batched, 0,
        {{.name = "a", .rows = ROWS, .cols = COLS, .free_cols = true},
            {.name = "b", .rows = OUT, .cols = COLS},
            {.name = "c",
                .rows = ROWS,
                .cols = OUT,
                .output = true,
                .free_rows = true,
                .free_cols = true}}},
    {"saved_store", call_store, NEEDS_SAVED, {{.name = "x", .rows = TOKENS, .cols = COLS}}},
    {"saved_product_tn", call_product_tn, NEEDS_SAVED,
        {{.name = "dy", .rows = TOKENS, .cols = OUT, .free_cols = true},
            {.name = "dw", .rows = OUT, .cols = COLS, .output = true}}},
    {"saved_product_nt", call_product_nt, NEEDS_SAVED,
        {{.name = "dy", .rows = BATCH * OUT, .cols = COLS},
            {.name = "dw", .rows = OUT, .cols = ROWS, .output = true, .free_rows = true}}},
    {"linear_forward", call_linear_forward, NEEDS_LAYER,
        {{.name = "x", .rows = TOKENS, .cols = COLS}, {.name = "w", .rows = OUT, .cols = COLS},
            {.name = "b", .rows = 1, .cols = OUT, .optional = true},
            {.name = "y", .rows = TOKENS, .cols = OUT, .output = true}}},
    {"linear_backward", call_linear_backward, NEEDS_LAYER | NEEDS_SAVED,
        {{.name = "dy", .rows = TOKENS, .cols = OUT}, {.name = "w", .rows = OUT, .cols = COLS},
            {.name = "dx", .rows = TOKENS, .cols = COLS, .optional = true, .output = true},
            {.name = "dw", .rows = OUT, .cols = COLS, .optional = true, .output = true},
            {.name = "db", .rows = 1, .cols = OUT, .optional = true, .output = true}}},
    {"linear_forward, rows", call_rows_forward, NEEDS_LAYER,
        {{.name = "x", .rows = TOKENS, .cols = COLS, .free_cols = true},
            {.name = "w", .rows = OUT, .cols = ROWS},
            {.name = "b", .rows = 1, .cols = OUT, .optional = true},
            {.name = "y", .rows = BATCH * OUT, .cols = COLS, .output = true}}},
    {"linear_backward, rows", call_rows_backward, NEEDS_LAYER | NEEDS_SAVED,
        {{.name = "dy", .rows = BATCH * OUT, .cols = COLS, .free_cols = true},
            {.name = "w", .rows = OUT, .cols = ROWS},
            {.name = "dx", .rows = TOKENS, .cols = COLS, .optional = true, .output = true},
            {.name = "dw", .rows = OUT, .cols = ROWS, .optional = true, .output = true},
            {.name = "db", .rows = 1, .cols = OUT, .optional = true, .output = true}}},
};

/* Good arguments of a function, each buffer exactly as large as it must be. */
typedef struct setting {
    const function_row *f;
    arguments good;
    test_buf mat[5], scores, mask, values, crow, col;
    int cases;
} setting;

/* `bytes` bytes, full of the float `value`: no two arguments hold the same, so that writing what
 * was read from another, or a sum, shows. */
static test_buf exact(size_t bytes, float value)
{
    float *values = test_alloc(bytes + sizeof *values);
    for (size_t i = 0; i < bytes / sizeof *values; i++)
        values[i] = value;
    test_buf made = test_buf_make(bytes, values);
    return made;
}

static void open_setting(const function_row *f, setting *s)
{
    const clprune_bsr_desc d = {BATCH, ROWS, COLS, {1, 4}, KEEP};
    *s = (setting){.f = f};
    arguments *a = &s->good;
    for (int i = 0; i < 5 && f->mats[i].name != NULL; i++) {
        const size_t copies = f->call == call_batched ? 2 : 1;
        s->mat[i] =
            exact(f->mats[i].rows * f->mats[i].cols * copies * sizeof(float), (float)(i + 2));
        a->mat[i] = clprune_mat_of(s->mat[i].buffer, f->mats[i].rows, f->mats[i].cols);
    }
    int32_t crow[BATCH * (ROWS + 1)], col[BATCH * KEEP];
    for (int i = 0; i < BATCH * (ROWS + 1); i++)
        crow[i] = i % (ROWS + 1) * 5 < KEEP ? i % (ROWS + 1) * 5 : KEEP;
    for (int i = 0; i < BATCH * KEEP; i++)
        col[i] = i % KEEP % 5;
    unsigned char mask[BATCH * BLOCKS]; /* the last blocks, unlike crow and col */
    for (int i = 0; i < BATCH * BLOCKS; i++)
        mask[i] = i % BLOCKS >= BLOCKS - KEEP;
    s->scores = exact(BATCH * BLOCKS * sizeof(float), 11);
    s->mask = test_buf_make(sizeof mask, mask);
    s->values = exact(BATCH * KEEP * 4 * sizeof(float), 13);
    s->crow = test_buf_make(sizeof crow, crow);
    s->col = test_buf_make(sizeof col, col);
    a->context = test_context();
    a->bsr = (clprune_bsr){d, s->values.buffer, s->crow.buffer, s->col.buffer};
    a->scores = s->scores.buffer;
    a->mask = s->mask.buffer;
    a->batch = BATCH;
    a->blocks = BLOCKS;
    a->keep = KEEP;
    a->stride_a = ROWS * COLS;
    a->stride_b = OUT * COLS;
    a->stride_c = ROWS * OUT;
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 4}};
    const clprune_linear_desc linear = {.in = COLS, .out = OUT};
    const clprune_linear_desc token = {.in = ROWS, .out = OUT, .axis = CLPRUNE_AXIS_ROWS};
    TEST_OK(clprune_saved_create(test_context(), "saved", &keep, BATCH, ROWS, COLS, &a->saved));
    TEST_OK(clprune_linear_create(test_context(), &linear, &a->linear));
    TEST_OK(clprune_linear_create(test_context(), &token, &a->token));
    /* Something is kept, for the products. */
    test_mat x = test_mat_make(TOKENS, COLS, 0, NULL);
    TEST_OK(clprune_mat_fill(test_context(), 1, x.mat, NULL));
    TEST_OK(clprune_saved_store(a->saved, 0, BATCH, x.mat, NULL));
    TEST_OK(clprune_context_finish(test_context()));
}

static void close_setting(setting *s)
{
    clprune_saved_destroy(s->good.saved);
    clprune_linear_destroy(s->good.linear);
    clprune_linear_destroy(s->good.token);
}

static void fails(
    setting *s, arguments a, clprune_status expected, const char *part, const char *what)
{
    if (a.xs != NULL)
        a.xs = &a.bsr;
    const clprune_status status = s->f->call(&a);
    const char *text = clprune_last_error(test_context());
    if (status != expected || strstr(text, part) == NULL)
        fail_msg("%s, %s: %s \"%s\", expected %s and \"%s\"", s->f->name, what,
            clprune_status_name(status), status == CLPRUNE_SUCCESS ? "" : text,
            clprune_status_name(expected), part);
    s->cases++;
}

/* No argument was written since it was made. */
static void untouched(const setting *s, const char *what)
{
    for (int i = 0; i < 5 && s->f->mats[i].name != NULL; i++)
        test_buf_unchanged(&s->mat[i], what);
    test_buf_unchanged(&s->scores, what);
    test_buf_unchanged(&s->mask, what);
    test_buf_unchanged(&s->values, what);
    test_buf_unchanged(&s->crow, what);
    test_buf_unchanged(&s->col, what);
}

/* Every way of breaking matrix argument i. */
static void break_matrix(setting *s, arguments good, int i)
{
    const mat_row *row = &s->f->mats[i];
    const char *name = row->name;
    char blamed_rows[8], blamed_cols[8];
    /* Where a size is free, it is another argument that no longer fits; every text has a " x ". */
    (void)snprintf(blamed_rows, sizeof blamed_rows, "%s", row->free_rows ? " x " : name);
    (void)snprintf(blamed_cols, sizeof blamed_cols, "%s", row->free_cols ? " x " : name);
    arguments a = good;
    a.mat[i].rows++;
    fails(s, a, CLPRUNE_INVALID_SIZE, blamed_rows, "a row too many");
    a = good;
    a.mat[i].rows--;
    fails(s, a, CLPRUNE_INVALID_SIZE, blamed_rows, "a row too few");
    a = good;
    a.mat[i].cols--;
    fails(s, a, CLPRUNE_INVALID_SIZE, blamed_cols, "a column too few");
    a = good;
    a.mat[i].ld--;
    fails(s, a, CLPRUNE_INVALID_SIZE, name, "ld below the columns");
    if (s->f->call != call_batched) {
        a = good;
        a.mat[i].offset++;
        fails(s, a, CLPRUNE_INVALID_SIZE, name, "an element beyond the buffer");
        if (row->rows > 1) {
            a = good;
            a.mat[i].ld++;
            fails(s, a, CLPRUNE_INVALID_SIZE, name, "ld one too large");
        }
    }
    a = good;
    a.mat[i].offset = SIZE_MAX - 1;
    fails(s, a, CLPRUNE_SIZE_OVERFLOW, name, "an offset that overflows");
    if (row->rows > 2) {
        a = good;
        a.mat[i].ld = SIZE_MAX / 2;
        fails(s, a, CLPRUNE_SIZE_OVERFLOW, name, "ld that overflows");
    }
    if (!row->optional) {
        a = good;
        a.mat[i].buffer = NULL;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, name, "no buffer");
    }
}

/* A buffer of another OpenCL context for matrix argument i. */
static void foreign_matrix(setting *s, arguments good, int i)
{
    clprune_context *other = NULL;
    clprune_mat mat;
    other = test_open((clprune_context_options){0});
    TEST_OK(clprune_mat_create(other, CLPRUNE_MEMORY_INPUT, "foreign", 1,
        4 * s->f->mats[i].rows * s->f->mats[i].cols, &mat));
    good.mat[i].buffer = mat.buffer;
    fails(s, good, CLPRUNE_INVALID_ARGUMENT, s->f->mats[i].name, "a foreign buffer");
}

/* A BSR argument: buffers that lack or are a byte too small, and bad descriptors. */
static void break_bsr(setting *s, arguments good)
{
    arguments a = good;
    a.xs = NULL;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "is NULL", "no bsr");
    cl_mem *const parts[3] = {&a.bsr.values, &a.bsr.crow, &a.bsr.col};
    const test_buf *const bufs[3] = {&s->values, &s->crow, &s->col};
    static const char *const names[3] = {"values", "crow", "col"};
    for (int i = 0; i < 3; i++) {
        a = good;
        *parts[i] = NULL;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, names[i], "a part is NULL");
        test_buf small = exact(bufs[i]->bytes - 1, 0);
        a = good;
        *parts[i] = small.buffer;
        fails(s, a, CLPRUNE_INVALID_SIZE, names[i], "a part is a byte too small");
        test_buf_unchanged(&small, "the small part");
    }
    a = good;
    a.bsr.desc.reserved[1] = 1;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "desc.reserved", "a reserved field of desc");
    a = good;
    a.bsr.reserved[0] = 1;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "bsr.reserved", "a reserved field");
    a = good;
    a.bsr.desc.block.rows = 0;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "block", "a block of no rows");
    a = good;
    a.bsr.desc.block.cols = 0;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "block", "a block of no columns");
    a = good;
    a.bsr.desc.keep = BLOCKS + 1;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, "keep", "more kept than there are");
    a = good;
    a.bsr.desc.batch = SIZE_MAX / 2;
    fails(s, a, CLPRUNE_SIZE_OVERFLOW, "", "a batch that overflows");
}

static void break_buffer(setting *s, arguments good, bool mask)
{
    const char *name = mask ? "mask" : "scores";
    arguments a = good;
    const bool optional = mask && s->f->call == call_pack; /* without a mask keep must be all */
    *(mask ? &a.mask : &a.scores) = NULL;
    fails(s, a, CLPRUNE_INVALID_ARGUMENT, optional ? "keep" : name, "no buffer");
    test_buf small = exact((mask ? s->mask.bytes : s->scores.bytes) - 1, 0);
    a = good;
    *(mask ? &a.mask : &a.scores) = small.buffer;
    fails(s, a, CLPRUNE_INVALID_SIZE, name, "a buffer a byte too small");
}

static void break_sizes(setting *s, arguments good)
{
    const function_row *f = s->f;
    arguments a = good;
    if (f->call == call_select) {
        a.keep = BLOCKS + 1;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "keep", "more kept than there are");
        a = good;
        a.batch++;
        fails(s, a, CLPRUNE_INVALID_SIZE, "scores", "a sample too many");
        a.batch = SIZE_MAX / 2;
        fails(s, a, CLPRUNE_SIZE_OVERFLOW, "", "samples that overflow");
    }
    if (f->call == call_prune || f->call == call_prune_sampled || f->call == call_score) {
        a.norm = (clprune_norm)3;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "norm", "an unknown norm");
        a.norm = (clprune_norm)-1;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "norm", "a negative norm");
    }
    if (f->call == call_score) {
        a = good;
        a.xs = NULL;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "desc", "no descriptor");
    }
    if (f->call == call_batched) {
        a.stride_c--;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "stride_c", "samples of c that overlap");
        a = good;
        a.stride_a++;
        fails(s, a, CLPRUNE_INVALID_SIZE, "a", "a stride that leads out of a");
        a = good;
        a.stride_b++;
        fails(s, a, CLPRUNE_INVALID_SIZE, "b", "a stride that leads out of b");
        a = good;
        a.stride_c++;
        fails(s, a, CLPRUNE_INVALID_SIZE, "c", "a stride that leads out of c");
        a = good;
        a.stride_a = SIZE_MAX;
        fails(s, a, CLPRUNE_SIZE_OVERFLOW, "a", "a stride that overflows");
    }
    if ((f->needs & (NEEDS_LAYER | NEEDS_SAVED)) != 0) {
        a = good;
        a.batch = TOKENS + 1; /* neither as many samples nor a divisor of their rows */
        fails(s, a, CLPRUNE_INVALID_SIZE, "", "samples too many");
        a = good;
        a.batch = 0;
        fails(s, a, CLPRUNE_INVALID_SIZE, "", "matrices for a batch of none");
    }
    if ((f->needs & NEEDS_SAVED) != 0 && (f->needs & NEEDS_LAYER) != 0) {
        a = good;
        a.saved = NULL;
        fails(s, a, CLPRUNE_INVALID_ARGUMENT, "saved", "nothing kept");
    }
}

/* Outputs that lie on an input. */
static void break_overlap(setting *s, arguments good)
{
    for (int out = 0; out < 5 && s->f->mats[out].name != NULL; out++) {
        const mat_row *o = &s->f->mats[out];
        if (!o->output || strcmp(o->name, "dw") == 0 || strcmp(o->name, "db") == 0)
            if (!(o->output && (s->f->needs & NEEDS_BSR) != 0))
                continue;
        for (int in = 0; in < out; in++) {
            const bool promised =
                strcmp(s->f->mats[in].name, "w") != 0 && strcmp(s->f->mats[in].name, "b") != 0;
            if (s->f->mats[in].output || !(promised || s->f->needs == 0))
                continue;
            /* One buffer for both that is large enough, the output one element into the input. */
            test_buf both = exact(2 * (s->mat[in].bytes + s->mat[out].bytes), 5);
            arguments a = good;
            a.mat[in].buffer = a.mat[out].buffer = both.buffer;
            a.mat[out].offset = s->mat[in].bytes / sizeof(float) - 1;
            fails(s, a, CLPRUNE_INVALID_ARGUMENT, "overlaps", "an output upon an input");
            test_buf_unchanged(&both, "the common buffer");
        }
        if ((s->f->needs & NEEDS_BSR) != 0) {
            arguments a = good;
            test_buf both = exact(s->values.bytes + s->mat[out].bytes, 5);
            a.bsr.values = a.mat[out].buffer = both.buffer;
            fails(s, a, CLPRUNE_INVALID_ARGUMENT, "overlaps", "an output upon the values");
            test_buf_unchanged(&both, "the common buffer");
        }
    }
}

static void bad_arguments(void **state)
{
    setting s;
    open_setting(*state, &s);
    arguments good = s.good;
    const bool has_bsr = (s.f->needs & NEEDS_BSR) != 0 || s.f->call == call_score;
    good.xs = has_bsr ? &good.bsr : NULL;
    if ((s.f->needs & (NEEDS_SAVED | NEEDS_LAYER)) == 0) {
        arguments a = good;
        a.context = NULL;
        assert_int_equal(s.f->call(&a), CLPRUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(clprune_last_error(NULL), "context is NULL"));
    }
    if ((s.f->needs & (NEEDS_SAVED | NEEDS_LAYER)) != 0) {
        arguments a = good;
        if ((s.f->needs & NEEDS_LAYER) == 0)
            a.saved = NULL;
        a.linear = NULL;
        a.token = NULL;
        assert_int_equal(s.f->call(&a), CLPRUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(clprune_last_error(NULL), "is NULL"));
    }
    for (int i = 0; i < 5 && s.f->mats[i].name != NULL; i++) {
        break_matrix(&s, good, i);
        untouched(&s, s.f->mats[i].name);
        foreign_matrix(&s, good, i);
    }
    if ((s.f->needs & NEEDS_BSR) != 0)
        break_bsr(&s, good);
    if ((s.f->needs & NEEDS_SCORES) != 0)
        break_buffer(&s, good, false);
    if ((s.f->needs & NEEDS_MASK) != 0)
        break_buffer(&s, good, true);
    untouched(&s, "bad buffers");
    break_sizes(&s, good);
    untouched(&s, "bad sizes");
    break_overlap(&s, good);
    untouched(&s, "overlaps");
    /* Whatever was refused, the good arguments still work. */
    good.xs = has_bsr ? &good.bsr : NULL;
    TEST_OK(s.f->call(&good));
    TEST_OK(clprune_context_finish(test_context()));
    print_message("    %d bad calls\n", s.cases);
    close_setting(&s);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        test_add(&list, bad_arguments, &functions[i], "%s", functions[i].name);
    return test_run_on_devices("invalid arguments", &list);
}
