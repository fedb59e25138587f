/* Attention: y and gradients of all shapes against the reference, with shared heads of k and v,
 * lengths, causal or not; padding; windows of one matrix; far scores; bad sizes; slopes. */
#include "clprune/attention.h"

#include "tokens/attention_shape.h"

static clprune_status call_forward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_attention_desc desc = desc_of(s);
    return clprune_attention_forward(
        c->context, &desc, s->ref.batch, c->m[0], c->m[1], c->m[2], c->m[3], c->event);
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    attention_ref_forward(&s->ref, d[0].in, d[1].in, d[2].in, d[3].want, d[3].bound);
    loosen(&d[3]);
}

static const layer_case forward = {"forward",
    {{"q", LAYER_IN, size_q}, {"k", LAYER_IN, size_k}, {"v", LAYER_IN, size_k},
        {"y", LAYER_OUT, size_y}},
    call_forward, ref_forward, NULL};

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_mat *m = c->m;
    const clprune_attention_desc desc = desc_of(s);
    return clprune_attention_backward(
        c->context, &desc, s->ref.batch, m[0], m[1], m[2], m[3], m[4], m[5], m[6], c->event);
}

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    double *const grads[4] = {d[4].want, d[5].want, d[6].want};
    double *const bounds[4] = {d[4].bound, d[5].bound, d[6].bound};
    attention_ref_backward(&s->ref, d[0].in, d[1].in, d[2].in, d[3].in, grads, bounds);
    for (size_t i = 4; i < 7; i++)
        loosen(&d[i]);
}

static const layer_case backward = {"backward",
    {{"q", LAYER_IN, size_q}, {"k", LAYER_IN, size_k}, {"v", LAYER_IN, size_k},
        {"dy", LAYER_IN, size_y}, {"dq", LAYER_OUT, size_q}, {"dk", LAYER_OUT, size_k},
        {"dv", LAYER_OUT, size_k}},
    call_backward, ref_backward, NULL};

/* Sequences of 1, 3, 19, 2, 45, 1, 80, 7, ... rows, which samples of so many rows cut. */
static void fill_starts(int32_t *starts, size_t samples, size_t rows)
{
    static const size_t sizes[] = {1, 3, 19, 2, 45, 1, 80, 7, 200};
    for (size_t i = 0, size = 0, left = 0; i < samples * rows; i++, left--) {
        if (left == 0)
            left = sizes[size++ % COUNT_OF(sizes)];
        const bool begins = left == sizes[(size - 1) % COUNT_OF(sizes)] || i % rows == 0;
        starts[i] = begins ? (int32_t)(i % rows) : starts[i - 1];
    }
}

/* Sequences side by side have the rows of attention of each alone. */
static void apart(NO_ROW)
{
    enum { HEADS = 2, COLS = 16, WIDTH = HEADS * COLS };
    static const size_t sizes[] = {150, 1100};
    clprune_context *context = test_context();
    for (size_t t = 0; t < COUNT_OF(sizes) - test_small(); t++) {
        const size_t rows = sizes[t], count = rows * WIDTH;
        int32_t *starts = test_alloc(rows * sizeof *starts);
        fill_starts(starts, 1, rows);
        const test_buf buffer = test_buf_make(rows * sizeof *starts, starts);
        clprune_attention_desc desc = {.rows = rows, .heads = HEADS, .cols = COLS, .causal = true};
        test_mat in[4], all[4], one[4];
        for (size_t i = 0; i < 4; i++) {
            in[i] = test_mat_make(rows, WIDTH, 0, test_new_normal(5 + i, count));
            all[i] = test_mat_make(rows, WIDTH, 0, NULL);
            one[i] = test_mat_make(rows, WIDTH, 0, NULL);
        }
        for (size_t at = 0; at <= rows; at = at < rows ? desc.rows + at : rows + 1) {
            const bool whole = at == rows; /* at last all at once */
            size_t end = at + 1;
            while (end < rows && starts[end] == (int32_t)at)
                end++;
            desc.rows = whole ? rows : end - at;
            desc.starts = whole ? test_buf_ints(&buffer) : (clprune_ints){NULL, 0};
            clprune_mat m[8];
            for (size_t i = 0; i < 8; i++)
                m[i] = clprune_mat_rows(i < 4   ? in[i].mat
                                        : whole ? all[i - 4].mat
                                                : one[i - 4].mat,
                    whole ? 0 : at, desc.rows);
            TEST_OK(clprune_attention_forward(context, &desc, 1, m[0], m[1], m[2], m[4], NULL));
            TEST_OK(clprune_attention_backward(
                context, &desc, 1, m[0], m[1], m[2], m[3], m[5], m[6], m[7], NULL));
        }
        for (size_t i = 0; i < 4; i++) {
            const float *got = test_mat_get(&all[i], "all"), *want = test_mat_get(&one[i], "one");
            for (size_t e = 0; e < count; e++)
                if (!(fabsf(got[e] - want[e]) <= 1e-5f + (gemm_ref_operand != NULL ? 3e-2f : 0)))
                    fail_msg("%zu rows, matrix %zu: row %zu has %.9g, alone %.9g", rows, i,
                        e / WIDTH, (double)got[e], (double)want[e]);
        }
    }
}

static void slopes(NO_ROW)
{
    if (is_paired())
        skip(); /* y goes in steps */
    static const int32_t lengths[] = {3, 5};
    static const shape few[] = {{{1, 9, 2, 2, 8, false, 0, 0.3, 9, 2}, 0},
        {{2, 5, 2, 1, 8, true, 0, 0, 0, 0}, 0}, {{1, 9, 2, 2, 3, false, 0, 0, 0, 0}, 0},
        {{2, 5, 2, 1, 3, false, 0, 0, 0, 0, lengths}, 0}, {{2, 5, 2, 1, 8, true, .cap = 1.5}, 0}};
    for (size_t i = 0; i < COUNT_OF(few); i++)
        layer_slopes_of(&forward, &backward, &few[i], (layer_steps){1e-5, 1e-7, 1e-2, 1e-3, 1e-4});
}

/* q, k and v are windows of one matrix, and so are their gradients: the same bits. */
static void windows(NO_ROW)
{
    enum { BATCH = 2, ROWS = 37, HEADS = 2, COLS = 8, WIDTH = HEADS * COLS };
    const clprune_attention_desc desc = {
        .rows = ROWS, .heads = HEADS, .cols = COLS, .causal = true};
    const size_t rows = (size_t)BATCH * ROWS;
    const float *values = test_new_normal(5, rows * 3 * WIDTH);
    const test_mat qkv = test_mat_make(rows, 3 * WIDTH, 1, values),
                   dqkv = test_mat_make(rows, 3 * WIDTH, 2, NULL),
                   dy = test_mat_make(rows, WIDTH, 0, test_new_normal(6, rows * WIDTH)),
                   y = test_mat_make(rows, WIDTH, 0, NULL),
                   same = test_mat_make(rows, WIDTH, 0, NULL);
    clprune_mat parts[3], grads[3];
    test_mat alone[3], alone_grads[3];
    for (size_t i = 0; i < 3; i++) {
        parts[i] = qkv.mat;
        parts[i].offset += i * WIDTH;
        parts[i].cols = WIDTH;
        grads[i] = dqkv.mat;
        grads[i].offset += i * WIDTH;
        grads[i].cols = WIDTH;
        float *part = test_floats(rows * WIDTH);
        for (size_t e = 0; e < rows * WIDTH; e++)
            part[e] = values[e / WIDTH * 3 * WIDTH + i * WIDTH + e % WIDTH];
        alone[i] = test_mat_make(rows, WIDTH, 3, part);
        alone_grads[i] = test_mat_make(rows, WIDTH, 0, NULL);
    }
    clprune_context *context = test_context();
    TEST_OK(clprune_attention_forward(
        context, &desc, BATCH, parts[0], parts[1], parts[2], y.mat, NULL));
    TEST_OK(clprune_attention_forward(
        context, &desc, BATCH, alone[0].mat, alone[1].mat, alone[2].mat, same.mat, NULL));
    layer_same("y", &same, &y);
    TEST_OK(clprune_attention_backward(context, &desc, BATCH, parts[0], parts[1], parts[2], dy.mat,
        grads[0], grads[1], grads[2], NULL));
    TEST_OK(clprune_attention_backward(context, &desc, BATCH, alone[0].mat, alone[1].mat,
        alone[2].mat, dy.mat, alone_grads[0].mat, alone_grads[1].mat, alone_grads[2].mat, NULL));
    const float *all = test_mat_get(&dqkv, "dqkv");
    for (size_t i = 0; i < 3; i++) {
        const float *part = test_mat_get(&alone_grads[i], "gradient");
        for (size_t e = 0; e < rows * WIDTH; e++)
            assert_true(part[e] == all[e / WIDTH * 3 * WIDTH + i * WIDTH + e % WIDTH]);
    }
}

/* With equal scores and v the identity, y has the probabilities: each is dropped as often as the
 * rate says, independently in rows, columns, heads and seeds; parts of a batch draw as the whole.
 */
static void dropout(NO_ROW)
{
    enum { BATCH = 4, ROWS = 64, HEADS = 2, WIDTH = HEADS * ROWS, COUNT = BATCH * ROWS * WIDTH };
    clprune_attention_desc desc = {
        .rows = ROWS, .heads = HEADS, .cols = ROWS, .rate = 0.25f, .seed = 3};
    clprune_context *context = test_context();
    float *ones = test_floats(COUNT), *v = test_floats(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        ones[i] = 0;
        v[i] = i / WIDTH % ROWS == i % ROWS;
    }
    const test_mat q = test_mat_make(BATCH * ROWS, WIDTH, 0, ones),
                   m = test_mat_make(BATCH * ROWS, WIDTH, 0, v),
                   y = test_mat_make(BATCH * ROWS, WIDTH, 0, NULL),
                   part = test_mat_make(ROWS, WIDTH, 0, NULL);
    float *got[2];
    for (int seed = 0; seed < 2; seed++) {
        desc.seed = 3 + (uint64_t)seed;
        TEST_OK(clprune_attention_forward(context, &desc, BATCH, q.mat, q.mat, m.mat, y.mat, NULL));
        got[seed] = test_mat_get(&y, "y");
    }
    double all = 0, right = 0, below = 0, heads = 0, seeds = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const size_t j = i % ROWS, h = i / ROWS % HEADS, r = i / WIDTH % ROWS;
        const bool dropped = got[1][i] == 0;
        assert_true(dropped || fabsf(got[1][i] * ROWS * 0.75f - 1) < 1e-5f);
        all += dropped;
        right += dropped && j + 1 < ROWS && got[1][i + 1] == 0;
        below += dropped && r + 1 < ROWS && got[1][i + WIDTH] == 0;
        heads += dropped && h == 0 && got[1][i + ROWS] == 0;
        seeds += dropped && got[0][i] == 0;
    }
    const double p = 0.25, pairs[] = {right, below, 2 * heads, seeds};
    assert_true(fabs(all / COUNT - p) < 5 * sqrt(p * (1 - p) / COUNT));
    for (size_t i = 0; i < COUNT_OF(pairs); i++) /* edges have fewer pairs: 1 / 64 */
        assert_true(fabs(pairs[i] / COUNT - p * p) < 0.01);
    for (size_t n = 0; n < BATCH; n++) {
        desc.first = n;
        TEST_OK(clprune_attention_forward(context, &desc, 1,
            clprune_mat_rows(q.mat, n * ROWS, ROWS), clprune_mat_rows(q.mat, n * ROWS, ROWS),
            clprune_mat_rows(m.mat, n * ROWS, ROWS), part.mat, NULL));
        test_same_floats("y", ROWS, WIDTH, test_mat_get(&part, "y"), got[1] + n * ROWS * WIDTH,
            "sample %zu alone", n);
    }
}

/* Scores far from 0, and far from each other: no overflow; the largest takes all. */
static void far_scores(NO_ROW)
{
    enum { ROWS = 70, COLS = 20 };
    const clprune_attention_desc desc = {.rows = ROWS, .heads = 1, .cols = COLS};
    float q[ROWS * COLS], k[ROWS * COLS] = {0}, v[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++) {
        q[i] = i % COLS == 0 ? (i / COLS % 2 == 0 ? 1e4f : -1e4f) : 0;
        k[i] = i % COLS == 0 ? (float)(i / COLS) : 0;
        v[i] = (float)(i % 251); /* 8 bits: bf16 has them */
    }
    const test_mat mq = test_mat_make(ROWS, COLS, 0, q), mk = test_mat_make(ROWS, COLS, 0, k),
                   mv = test_mat_make(ROWS, COLS, 0, v), y = test_mat_make(ROWS, COLS, 0, NULL);
    TEST_OK(
        clprune_attention_forward(test_context(), &desc, 1, mq.mat, mk.mat, mv.mat, y.mat, NULL));
    const float *got = test_mat_get(&y, "y");
    for (size_t i = 0; i < ROWS * COLS; i++) {
        const size_t most = i / COLS % 2 == 0 ? ROWS - 1 : 0;
        assert_true(got[i] == v[most * COLS + i % COLS]);
    }
}

/* Each query's own key takes nearly all, by scores of hundreds: dv is dy, also where k and q are
 * rounded for tensor cores. So the probabilities of the backward pass's kernels agree. And dp of
 * that key is the mean which is subtracted from it: dq and dk are 0, whatever dp is. */
static void own_keys(NO_ROW)
{
    enum { ROWS = 70, COLS = 64, COUNT = ROWS * COLS };
    const clprune_attention_desc desc = {.rows = ROWS, .heads = 1, .cols = COLS};
    const float *x = test_new_normal(3, COUNT), *noise = test_new_normal(4, COUNT),
                *dy = test_new_normal(5, COUNT);
    float *q = test_floats(COUNT), *k = test_floats(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        q[i] = 6 * x[i];
        k[i] = q[i] * (1 + 0.3f * noise[i]);
    }
    const test_mat mq = test_mat_make(ROWS, COLS, 0, q), mk = test_mat_make(ROWS, COLS, 0, k),
                   mv = test_mat_make(ROWS, COLS, 0, x), mdy = test_mat_make(ROWS, COLS, 0, dy);
    test_mat grads[3];
    for (size_t i = 0; i < COUNT_OF(grads); i++)
        grads[i] = test_mat_make(ROWS, COLS, 0, NULL);
    TEST_OK(clprune_attention_backward(test_context(), &desc, 1, mq.mat, mk.mat, mv.mat, mdy.mat,
        grads[0].mat, grads[1].mat, grads[2].mat, NULL));
    const float *dv = test_mat_get(&grads[2], "dv");
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabsf(dv[i] - dy[i]) <= 0x1p-8f * fabsf(dy[i]) + 1e-4f);
    for (size_t m = 0; m < 2; m++) {
        const float *got = test_mat_get(&grads[m], m == 0 ? "dq" : "dk");
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabsf(got[i]) <= 1e-4f);
    }
}

/* Keys and values beyond a length are not read, and get gradients of 0; a sample without keys gives
 * zeros. With few rows, and with more than a group of the backward pass takes at once. */
static void padding(NO_ROW)
{
    enum { BATCH = 4, HEADS = 2, COLS = 8, WIDTH = HEADS * COLS };
    static const int32_t lengths[BATCH] = {0, 1, 19, 37};
    static const size_t sizes[] = {37, 1100};
    clprune_context *context = test_context();
    for (size_t t = 0; t < COUNT_OF(sizes) - test_small(); t++) {
        const size_t rows = sizes[t], count = BATCH * rows * WIDTH;
        const test_buf buffer = test_buf_make(sizeof lengths, lengths);
        const clprune_attention_desc desc = {
            .rows = rows, .heads = HEADS, .cols = COLS, .lengths = test_buf_ints(&buffer)};
        float *keys = test_new_normal(5, count);
        for (size_t i = 0; i < count; i++)
            if (i / WIDTH % rows >= (size_t)lengths[i / WIDTH / rows])
                keys[i] = NAN;
        const test_mat q = test_mat_make(BATCH * rows, WIDTH, 1, test_new_normal(6, count)),
                       k = test_mat_make(BATCH * rows, WIDTH, 0, keys),
                       dy = test_mat_make(BATCH * rows, WIDTH, 0, test_new_normal(7, count)),
                       y = test_mat_make(BATCH * rows, WIDTH, 0, NULL);
        test_mat grads[3];
        for (size_t i = 0; i < 3; i++)
            grads[i] = test_mat_make(BATCH * rows, WIDTH, i, NULL);
        TEST_OK(clprune_attention_forward(context, &desc, BATCH, q.mat, k.mat, k.mat, y.mat, NULL));
        TEST_OK(clprune_attention_backward(context, &desc, BATCH, q.mat, k.mat, k.mat, dy.mat,
            grads[0].mat, grads[1].mat, grads[2].mat, NULL));
        const float *all[] = {test_mat_get(&y, "y"), test_mat_get(&grads[0], "dq"),
            test_mat_get(&grads[1], "dk"), test_mat_get(&grads[2], "dv")};
        for (size_t m = 0; m < COUNT_OF(all); m++)
            for (size_t i = 0; i < count; i++) {
                const size_t n = i / WIDTH / rows;
                const bool none =
                    lengths[n] == 0 || (m >= 2 && i / WIDTH % rows >= (size_t)lengths[n]);
                assert_true(none ? all[m][i] == 0 : isfinite(all[m][i]));
            }
        test_buf_unchanged(&buffer, "lengths");
    }
}

/* A NaN in a query reaches gradients of the keys that count, not those beyond the length, which
 * may share a vector or a tile with them. */
static void padding_and_nan(NO_ROW)
{
    enum { COLS = 16, LENGTH = 19 };
    static const int32_t length = LENGTH;
    static const size_t sizes[] = {37, 1100};
    clprune_context *context = test_context();
    for (size_t t = 0; t < COUNT_OF(sizes) - test_small(); t++) {
        const size_t rows = sizes[t], count = rows * COLS;
        const test_buf buffer = test_buf_make(sizeof length, &length);
        const clprune_attention_desc desc = {
            .rows = rows, .heads = 1, .cols = COLS, .lengths = test_buf_ints(&buffer)};
        float *queries = test_new_normal(6, count);
        queries[3 * COLS] = NAN;
        const test_mat q = test_mat_make(rows, COLS, 0, queries),
                       k = test_mat_make(rows, COLS, 0, test_new_normal(5, count)),
                       dy = test_mat_make(rows, COLS, 0, test_new_normal(7, count));
        test_mat grads[3];
        for (size_t i = 0; i < 3; i++)
            grads[i] = test_mat_make(rows, COLS, 0, NULL);
        TEST_OK(clprune_attention_backward(context, &desc, 1, q.mat, k.mat, k.mat, dy.mat,
            grads[0].mat, grads[1].mat, grads[2].mat, NULL));
        for (size_t m = 1; m < 3; m++) {
            const float *got = test_mat_get(&grads[m], m == 1 ? "dk" : "dv");
            for (size_t i = 0; i < count; i++)
                assert_true(i / COLS < LENGTH ? isnan(got[i]) : got[i] == 0);
        }
    }
}

static void bad_sizes(NO_ROW)
{
    static const struct {
        clprune_attention_desc desc;
        const char *text;
    } rows[] = {
        {{.rows = 0, .heads = 1, .kv_heads = 1, .cols = 1, .queries = 0}, "desc has 0 rows"},
        {{.rows = 1, .heads = 0, .kv_heads = 1, .cols = 1, .queries = 0}, "desc has 0 heads"},
        {{.rows = 1, .heads = 1, .kv_heads = 1, .cols = 0, .queries = 0},
            "desc has heads of 0 columns"},
        {{.rows = 1, .heads = 1, .kv_heads = 1, .cols = 513, .queries = 0},
            "desc has heads of 513 columns"},
        {{.rows = 3, .heads = 1, .kv_heads = 1, .cols = 1, .queries = 4},
            "desc has 4 queries, expected at most its 3 rows"},
        {{.rows = 1, .heads = 3, .kv_heads = 2, .cols = 1, .queries = 0},
            "2 heads of k and v do not divide 3 heads of q"},
        {{.rows = 1, .heads = 1, .kv_heads = 3, .cols = 1, .queries = 0},
            "3 heads of k and v do not divide 1 heads of q"},
        {{.rows = 1, .heads = 1, .cols = 1, .keys = (size_t)INT32_MAX + 1},
            "desc has 2147483648 keys, expected at most 2147483647"},
        {{.rows = 2, .heads = 1, .cols = 1, .causal = true, .past = (size_t)INT32_MAX - 1},
            "desc has a past of 2147483646 before 2 rows, expected at most 2147483647 in all"}};
    static const float rates[] = {-0.1f, 1, NAN};
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(
            clprune_attention_forward(context, &rows[i].desc, 1, none, none, none, none, NULL),
            CLPRUNE_INVALID_SIZE);
        assert_non_null(strstr(clprune_last_error(context), rows[i].text));
        assert_int_equal(clprune_attention_backward(context, &rows[i].desc, 1, none, none, none,
                             none, none, none, none, NULL),
            CLPRUNE_INVALID_SIZE);
    }
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        const clprune_attention_desc desc = {.rows = 1, .heads = 1, .cols = 1, .rate = rates[i]};
        assert_int_equal(clprune_attention_forward(context, &desc, 1, none, none, none, none, NULL),
            CLPRUNE_INVALID_ARGUMENT);
    }
    const clprune_attention_desc cap = {.rows = 1, .heads = 1, .cols = 1, .cap = INFINITY};
    assert_int_equal(clprune_attention_forward(context, &cap, 1, none, none, none, none, NULL),
        CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(context), "desc has a cap of inf"));
    const clprune_attention_desc past = {.rows = 1, .heads = 1, .cols = 1, .keys = 3, .past = 1};
    assert_int_equal(clprune_attention_forward(context, &past, 1, none, none, none, none, NULL),
        CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(
        strstr(clprune_last_error(context), "desc has a past of 1, expected 0 without causal"));
    const test_buf few = test_buf_make(5 * sizeof(int32_t), NULL);
    const clprune_attention_desc starts[] = {{.rows = 2, .heads = 1, .cols = 1},
        {.rows = 2, .heads = 1, .cols = 1, .causal = true, .keys = 3},
        {.rows = 2, .heads = 1, .cols = 1, .causal = true, .past = 1},
        {.rows = 2, .heads = 1, .cols = 1, .causal = true, .bias = {few.buffer, 0, 1, 1, 1}},
        {.rows = 2, .heads = 1, .cols = 1, .causal = true, .first = 1000}};
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        clprune_attention_desc desc = starts[i];
        desc.starts = test_buf_ints(&few);
        assert_int_equal(clprune_attention_forward(context, &desc, 1, none, none, none, none, NULL),
            desc.first > 0 ? CLPRUNE_INVALID_SIZE : CLPRUNE_INVALID_ARGUMENT);
        if (strstr(clprune_last_error(context), "starts") == NULL)
            fail_msg("%zu: %s", i, clprune_last_error(context));
    }
    const clprune_attention_desc more = {
        .rows = 1, .heads = 1, .cols = 1, .first = 3, .lengths = {few.buffer, 0}};
    const test_mat m = test_mat_make(3, 1, 0, test_new_normal(1, 3)),
                   y = test_mat_make(3, 1, 0, NULL);
    assert_int_equal(clprune_attention_forward(context, &more, 3, m.mat, m.mat, m.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE);
    assert_non_null(strstr(clprune_last_error(context), "lengths"));
    assert_int_equal(clprune_attention_forward(context, NULL, 1, none, none, none, none, NULL),
        CLPRUNE_INVALID_ARGUMENT);
}

int main(void)
{
    static const int32_t some[] = {5, 1, 7, 33, 32, 16, 70, 1100, 0, -3};
    /* Columns of a head, and what is causal, dropped, capped or has lengths, compile programs: long
     * shapes share theirs. */
    static const shape shapes[] = {{{1, 1, 1, 1, 1, false, 0, 0, 0, 0, some + 1}, 0},
        {{9, 7, 2, 1, 3, false, 0, 0, 0, 1, some}, 1},
        {{3, 33, 2, 2, 8, true, 0, 0, 0, 2, some}, 0},
        {{7, 37, 2, 2, 16, false, 1, 0, 0, 3, some}, 2},
        {{6, 70, 2, 1, 8, false, 0, 0.25, 9, 4, some}, 0},
        {{3, 70, 1, 1, 8, true, 40, 0.5, 9, 4, some}, 0},
        {{3, 1100, 2, 2, 8, false, 0, 0, 0, 5, some}, 0},
        {{5, 1050, 2, 1, 8, true, 0, 0.125, 3, 5, some}, 0},
        {{1, 1, 1, 1, 1, false, 0, 0, 0, 0}, 0}, {{2, 5, 2, 2, 3, false, 0, 0, 0, 0}, 1},
        {{2, 16, 3, 3, 4, true, 0, 0, 0, 0}, 0}, {{1, 17, 4, 2, 8, true, 0, 0, 0, 0}, 2},
        {{3, 33, 2, 1, 20, false, 0, 0, 0, 0}, 0}, {{2, 65, 3, 3, 64, false, 0, 0, 0, 0}, 0},
        {{1, 130, 2, 2, 8, true, 0, 0, 0, 0}, 0}, {{1, 1100, 2, 1, 8, true, 0, 0, 0, 0}, 0},
        {{1, 1040, 1, 1, 20, false, 0, 0, 0, 0}, 0}, {{1, 197, 1, 1, 20, false, 0, 0, 0, 0}, 5},
        {{1, 300, 2, 2, 8, true, 0, 0, 0, 0}, 0}, {{1, 40, 1, 1, 160, true, 0, 0, 0, 0}, 0},
        {{3, 70, 2, 1, 8, false, 1, 0, 0, 0}, 1}, {{2, 50, 1, 1, 8, true, 35, 0, 0, 0}, 0},
        {{1, 1050, 1, 1, 8, false, 3, 0, 0, 0}, 0}, {{2, 90, 2, 1, 8, false, 0, 0.25, 77, 3}, 0},
        {{2, 40, 2, 2, 8, true, 0, 0.5, UINT64_MAX, 1}, 0},
        {{1, 1030, 1, 1, 8, false, 19, 0.125, 5, 0}, 0}, {{0, 8, 2, 2, 4, false, 0, 0, 0, 0}, 0},
        /* keys and past */
        {{2, 5, 2, 1, 8, false, 0, 0, 0, 0, NULL, 37}, 1},
        {{3, 40, 2, 2, 4, false, 0, 0.25, 3, 0, NULL, 7}, 0},
        {{2, 1, 4, 2, 8, true, 0, 0, 0, 0, NULL, 40, 19}, 0},
        {{2, 35, 2, 1, 8, true, 0, 0, 0, 0, NULL, 64, 13}, 2},
        {{2, 37, 1, 1, 16, true, 20, 0.5, 7, 0, NULL, 30, 3}, 0},
        {{2, 19, 1, 1, 8, true, 0, 0, 0, 1, some, 1100, 1000}, 0},
        {{1, 70, 2, 2, 8, true, 0, 0, 0, 0, NULL, 1200, 1090}, 0},
        {{7, 3, 2, 2, 16, false, 0, 0, 0, 3, some, 75}, 0}, {{2, 37, 2, 1, 8, true, .cap = 1.5}, 0},
        {{3, 70, 2, 2, 20, false, .rate = 0.25, .seed = 9, .first = 4, .lengths = some, .cap = 0.5},
            1},
        {{1, 1040, 2, 1, 8, true, .queries = 900, .cap = 1}, 0}};
    /* heads that tensor cores take: programs that compile slowly where they are emulated; behind
     * them some for pairs in vector kernels alone */
    enum { ON_TENSOR_CORES = 8 };
    static const shape of_bf16[] = {{{4, 37, 2, 2, 16, false, 1, 0, 0, 3, some}, 2},
        {{1, 130, 1, 1, 64, true, 0, 0, 0, 0}, 0},
        {{2, 150, 2, 1, 32, true, 0, 0.25, 9, 4, some}, 0},
        {{1, 75, 1, 1, 128, false, 70, 0, 0, 0}, 1},
        {{2, 1, 2, 1, 16, true, 0, 0, 0, 0, NULL, 150, 131}, 0},
        {{2, 75, 1, 1, 16, true, 0, 0, 0, 0, NULL, 150, 70}, 0},
        {{3, 20, 1, 1, 32, false, 0, 0.25, 9, 4, some, 90}, 0},
        {{2, 75, 2, 1, 48, true, .cap = 1.5}, 0}, {{9, 7, 2, 1, 3, false, 0, 0, 0, 1, some}, 1},
        {{2, 75, 2, 2, 20, false, 0, 0.25, 9, 4, some, .cap = 0.5}, 1},
        {{5, 1050, 2, 1, 8, true, 0, 0.125, 3, 5, some}, 0}, {{1, 1040, 1, 1, 20, false}, 0}};
    static shape starting[] = {{{2, 5, 2, 1, 3, true}, 1},
        {{3, 70, 2, 1, 8, true, 40, 0.25, 9, 2}, 0}, {{2, 130, 2, 2, 20, true, .cap = 1.5}, 0},
        {{1, 1100, 2, 1, 8, true}, 0}, {{4, 37, 1, 1, 16, true, .first = 3, .lengths = some}, 2}};
    static shape starting_there[] = {
        {{2, 150, 2, 1, 16, true, 0, 0.25, 9, 2}, 1}, {{1, 130, 1, 1, 64, true}, 0}};
    test_list list = {0};
    const bool rounded = getenv("CLPRUNE_PRECISION") != NULL;
    const char *kernels = getenv("CLPRUNE_TEST_KERNELS");
    const bool paired = rounded && kernels != NULL && strcmp(kernels, "vector") == 0;
    const shape *all = rounded ? of_bf16 : shapes;
    const size_t count = paired ? COUNT_OF(of_bf16) : rounded ? ON_TENSOR_CORES : COUNT_OF(shapes);
    for (size_t i = 0; i < count; i++) {
        const attention_ref_shape *s = &all[i].ref;
        if (!rounded && test_small() && (s->rows > 40 || s->keys > 100))
            continue;
        layer_add_one(&list, &forward, &all[i],
            "%zu x %zu%s, %zu heads of %zu, %zu of k%s, %zu queries, rate %g, %zu keys, past %zu, "
            "cap %g",
            s->batch, s->rows, s->lengths != NULL ? " with lengths" : "", s->heads, s->cols,
            s->kv_heads, s->causal ? ", causal" : "", s->queries, s->rate, s->keys, s->past,
            s->cap);
        layer_add_one(&list, &backward, &all[i],
            "%zu x %zu%s, %zu heads of %zu, %zu of k%s, %zu queries, rate %g, %zu keys, past %zu, "
            "cap %g",
            s->batch, s->rows, s->lengths != NULL ? " with lengths" : "", s->heads, s->cols,
            s->kv_heads, s->causal ? ", causal" : "", s->queries, s->rate, s->keys, s->past,
            s->cap);
    }
    static int32_t starts[COUNT_OF(starting)][1200];
    shape *of_starts = rounded ? starting_there : starting;
    for (size_t i = 0; i < (rounded ? COUNT_OF(starting_there) : COUNT_OF(starting)); i++) {
        attention_ref_shape *s = &of_starts[i].ref;
        if (!rounded && test_small() && s->rows > 40)
            continue;
        fill_starts(starts[i], s->first + s->batch, s->rows);
        s->starts = starts[i];
        layer_add_one(&list, &forward, &of_starts[i], "sequences apart: %zu x %zu, heads of %zu",
            s->batch, s->rows, s->cols);
        layer_add_one(&list, &backward, &of_starts[i], "sequences apart: %zu x %zu, heads of %zu",
            s->batch, s->rows, s->cols);
    }
    test_add(&list, apart, NULL, "sequences apart are those alone");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, windows, NULL, "windows of one matrix");
    if (!test_small())
        test_add(&list, dropout, NULL, "dropout");
    test_add(&list, far_scores, NULL, "far scores");
    test_add(&list, own_keys, NULL, "own keys");
    test_add(&list, padding, NULL, "padding");
    test_add(&list, padding_and_nan, NULL, "padding and NaN");
    test_add(&list, bad_sizes, NULL, "bad sizes");
    return test_run_on_devices("attention", &list);
}
