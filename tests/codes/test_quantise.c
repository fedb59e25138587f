/* Quantised matrices: codes and scales against the reference, the documented errors, stochastic
 * rounding, parts of a batch, and the products that read codes. */
#include <float.h>

#include "ops/codes/quantise_private.h"
#include "ops/products/gemm_private.h"
#include "ref/quantise_ref.h"
#include "support/test_product.h"

/* A batch of samples and how they are quantised; `outputs`: the other side of a product. */
typedef struct row {
    size_t batch, rows, cols;
    unsigned bits;
    size_t group, outputs;
} row;

/* Whole groups, ragged last groups and units, rows narrower than a unit, a product of several
 * depths that end within units, single elements, nothing. Every pair of bits and group, and every
 * width of a product's tiles with it, costs the compilation of its own programs: so there is one
 * group for each number of bits, the narrowest tiles have 8 bits and those in between 4. */
static const row rows[] = {
    {3, 20, 96, 4, 32, 40},
    {2, 66, 100, 2, 16, 33},
    {4, 9, 77, 8, 64, 33},
    {1, 70, 300, 8, 64, 66},
    {5, 3, 5, 8, 64, 7},
    {2, 52, 900, 4, 32, 19},
    {2, 66, 900, 8, 64, 66},
    {6, 1, 53, 8, 64, 18},
    {1, 1, 1, 8, 64, 1},
    {3, 0, 20, 4, 32, 5},
    {3, 4, 0, 4, 32, 5},
    {0, 4, 20, 2, 16, 5},
    {3, 49, 128, 2, 16, 64},
    {3, 20, 96, 16, 0, 40},
    {2, 9, 77, 16, 0, 33},
    {1, 70, 300, 16, 0, 66},
    {1, 1, 1, 16, 0, 1},
    {3, 4, 0, 16, 0, 5},
};

enum { ROWS = COUNT_OF(rows) };

/* The widest groups, without products. */
static const row widest = {2, 9, 300, 4, 256, 1};

static clprune__quantised_desc desc_of(const row *r)
{
    return (clprune__quantised_desc){r->batch * r->rows, r->cols, r->bits, r->group};
}

/* A quantised matrix in words between canaries, beside x. */
typedef struct quantised {
    row shape;
    float *x;
    test_mat mat, words;
    clprune__quantised q;
} quantised;

static const unsigned all_bits[] = {2, 4, 8};

/* Quantises values, or normal ones of `seed`. draw: NULL for the nearest. */
static quantised make(row r, uint64_t seed, const float *values, const uint64_t *draw)
{
    const clprune__quantised_desc desc = desc_of(&r);
    const size_t count = desc.rows * r.cols;
    quantised made = {.shape = r,
        .x = values != NULL ? test_copy(count * sizeof *values, values)
                            : test_new_normal(seed, count)};
    size_t words;
    made.mat = test_mat_make(desc.rows, r.cols, 3, made.x);
    TEST_OK(clprune__quantised_words(test_context(), &desc, &words));
    made.words = test_mat_make(1, words, 0, NULL);
    made.q = clprune__quantised_of(&desc, made.words.mat.buffer, made.words.mat.offset);
    TEST_EVENT(clprune__quantise(
        test_context(), draw, r.rows > 0 ? r.rows : 1, 0, made.mat.mat, &made.q, &event));
    return made;
}

/* The dequantised matrix. */
static float *restored(const clprune__quantised *q)
{
    test_mat y = test_mat_make(q->desc.rows, q->desc.cols, 2, NULL);
    TEST_OK(clprune__dequantise(test_context(), q, y.mat, NULL));
    return test_mat_get(&y, "y");
}

static float wide(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What the checks of one matrix saw, in units of the scale. */
typedef struct seen {
    double most_error, least_step;
} seen;

/* Every scale, zero, code and padding against the reference, every value against its code, and the
 * documented errors. */
static seen check(const quantised *q, const uint64_t *draw)
{
    const row *r = &q->shape;
    const unsigned levels = (1u << r->bits) - 1;
    const size_t ld = q->q.codes.ld, groups = q->q.groups.ld, units = ld / (r->bits / 2);
    const float *as_floats = test_mat_get(&q->words, "words");
    const uint32_t *words = (const uint32_t *)(const void *)as_floats;
    float *y = restored(&q->q);
    seen s = {0, 1};
    assert_int_equal(units, (r->cols + 15) / 16);
    assert_int_equal(groups, (r->cols + r->group - 1) / r->group);
    for (size_t i = 0; i < r->batch * r->rows; i++) {
        const uint32_t *codes = words + i * ld;
        for (size_t g = 0; g < groups; g++) {
            const size_t first = g * r->group;
            const size_t count = r->cols - first < r->group ? r->cols - first : r->group;
            const float *x = q->x + i * r->cols + first;
            const uint32_t word = words[r->batch * r->rows * ld + i * groups + g];
            const float scale = quantise_ref_scale(r->bits, word), zero = quantise_ref_zero(word);
            const quantise_ref_group want = quantise_ref_of(r->bits, false, count, x);
            if (want.finite ? (double)scale != want.scale || (double)zero != want.zero
                            : !isnan(scale))
                fail_msg("row %zu, group %zu: scale %g, zero %g, expected %g, %g", i, g,
                    (double)scale, (double)zero, want.scale, want.zero);
            const double exact_first = scale > 0 ? (want.low - (double)zero) / (double)scale : 0;
            const double first_code = fabs(exact_first - rint(exact_first)) < 0x1p-14
                                          ? fmin(levels, rint(exact_first) + 1)
                                          : want.first; /* or the one before */
            for (size_t c = 0; c < count; c++) {
                const unsigned code = quantise_ref_code(codes, r->bits, first + c);
                const float value = y[i * r->cols + first + c];
                if (!want.finite) {
                    assert_true(isnan(value) && code == 0);
                    continue;
                }
                if (value != fmaf((float)code, scale, zero))
                    fail_msg("code %u at scale %g, zero %g is read as %.9g", code, (double)scale,
                        (double)zero, (double)value);
                const double bounded = quantise_ref_bounded(x[c]);
                const double exact = scale > 0 ? (bounded - (double)zero) / (double)scale : 0;
                const double at = fmin(fmax(exact, want.first), levels);
                const bool between = exact >= first_code && exact <= levels;
                const double u = draw == NULL ? 0.5
                                              : quantise_ref_uniform(*draw, (uint32_t)(i / r->rows),
                                                    (uint32_t)(i % r->rows * r->cols + first + c));
                const double expected = draw == NULL ? rint(at) : floor(at) + (u < at - floor(at));
                const double near = draw == NULL
                                        ? fabs(at - floor(at) - 0.5)
                                        : fmin(fabs(at - floor(at) - u), fabs(at - rint(at)));
                if ((double)code != expected && !(near < 0x1p-14 && fabs(code - at) < 1.001) &&
                    !(code == first_code && at <= first_code))
                    fail_msg("(%zu, %zu): x %.9g is %.9g steps, u %g: code %u, expected %g", i,
                        first + c, (double)x[c], at, u, code, expected);
                /* The documented bounds. */
                const double slack = 0x1p-14 * (double)scale +
                                     0x1p-23 * fmax(fabs(bounded), fabs((double)zero)) + 0x1p-112;
                const double error = fabs((double)value - bounded);
                const double most = between ? (double)scale * (draw == NULL ? 0.5 : 1)
                                            : fmax((double)scale, (want.high - want.low) / levels);
                if (error > most + slack)
                    fail_msg("(%zu, %zu): x %.9g is read as %.9g, scale %g", i, first + c,
                        (double)x[c], (double)value, (double)scale);
                /* Nothing is read outside of the group's values, unless no code is read inside. */
                const bool none =
                    want.first == levels && fma(levels, (double)scale, (double)zero) < want.low;
                if ((double)value > want.high || ((double)value < want.low && !none) ||
                    (double)value < want.low - 0x1p-15 * fabs(want.low) - 0x1p-107)
                    fail_msg("row %zu, group %zu of %.9g to %.9g: code %u is read as %.9g", i, g,
                        want.low, want.high, code, (double)value);
                if (scale > 0 && between)
                    s.most_error = fmax(s.most_error, error / (double)scale);
            }
            if (want.finite && scale > 0) {
                const double step = (double)scale * levels / (want.high - (double)zero);
                assert_true(step <= 1 && step >= (1 - 0x1p-8) * (1 - 0x1p-20));
                s.least_step = fmin(s.least_step, step);
            }
        }
        for (size_t c = r->cols; c < units * 16; c++)
            assert_int_equal(quantise_ref_code(codes, r->bits, c), 0);
    }
    test_mat_unchanged(&q->mat, "x");
    return s;
}

/* Codes of 16 bits are bf16, whatever the seed. */
static void check_bf16(const quantised *q)
{
    const row *r = &q->shape;
    const uint32_t *words = (const uint32_t *)(const void *)test_mat_get(&q->words, "words");
    float *y = restored(&q->q);
    assert_int_equal(q->q.groups.cols, 0);
    for (size_t i = 0; i < r->batch * r->rows; i++)
        for (size_t c = 0; c < q->q.codes.ld * 2; c++) {
            const float x = c < r->cols ? q->x[i * r->cols + c] : 0;
            const float want = gemm_ref_bf16(x);
            const float got = wide(quantise_ref_code(words + i * q->q.codes.ld, 16, c) << 16);
            const bool same = isnan(x) ? isnan(got) : memcmp(&got, &want, sizeof got) == 0;
            if (!same || (c < r->cols && memcmp(&y[i * r->cols + c], &got, sizeof got) != 0))
                fail_msg("(%zu, %zu): x %.9g is kept as %.9g, expected %.9g", i, c, (double)x,
                    (double)got, (double)want);
        }
    test_mat_unchanged(&q->mat, "x");
}

static void codes(void **state)
{
    const row *r = *state;
    const uint64_t draw = UINT64_C(0x123456789abcdef0);
    quantised nearest = make(*r, 21, NULL, NULL), drawn = make(*r, 22, NULL, &draw);
    if (r->bits == 16) {
        check_bf16(&nearest);
        check_bf16(&drawn);
        return;
    }
    (void)check(&nearest, NULL);
    (void)check(&drawn, &draw);
}

/* The bounds of the errors and of the step are reached, not only kept. */
static void bounds_are_reached(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(all_bits); i++) {
        const row r = {1, 200, 64, all_bits[i], all_bits[i] * 8, 1};
        const uint64_t draw = 5;
        quantised nearest = make(r, 31, NULL, NULL), drawn = make(r, 31, NULL, &draw);
        const seen a = check(&nearest, NULL), b = check(&drawn, &draw);
        assert_true(a.most_error > 0.499);
        assert_true(b.most_error > 0.98);
        assert_true(a.least_step < 1 - 0.9 * 0x1p-8);
    }
}

/* A group of every kind of trouble; the last one of each row is ragged. */
static void hard_groups(NO_ROW)
{
    static const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 3.0e-39f, -3.0e-39f, 0x1p-100f,
        0x1.fffffep-101f, -0x1p-100f, 0x1p-126f, 1e30f, -1e30f, FLT_MAX, -FLT_MAX, 0x1p126f,
        -0x1.000002p126f, 1003.0f, -1003.0f, 0x1.01p0f, -0x1.01p0f, 0x1.010002p0f, -0x1.010002p0f,
        255.0f, 15.0f, 3.0f, 0x1.fffffep0f, -0x1.fffffep0f, 0.1f, -0.1f, FLT_MIN, 1e-20f};
    enum { EDGES = COUNT_OF(edges) };
    for (size_t b = 0; b < COUNT_OF(all_bits); b++) {
        const size_t group = 8 * all_bits[b], cols = 3 * group + 5; /* the last group is ragged */
        float *x = test_new_normal(41, EDGES * EDGES * cols);
        for (size_t i = 0; i < EDGES * EDGES; i++) {
            float *at = x + i * cols;
            const float first = edges[i / EDGES], second = edges[i % EDGES];
            for (size_t c = 0; c < group; c++) {
                at[c] = first; /* equal values */
                at[group + c] = c % 2 == 0 ? first : second;
                at[2 * group + c] = c == i % group ? first : at[2 * group + c] * second;
            }
            for (size_t c = 3 * group; c < cols; c++)
                at[c] = c % 2 == 0 ? first + (float)c * 0x1p-20f * second : first;
            if (i % 7 == 0)
                at[i % cols] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
        }
        const row r = {1, EDGES * EDGES, cols, all_bits[b], group, 1};
        const uint64_t draw = 77;
        quantised nearest = make(r, 41, x, NULL), drawn = make(r, 41, x, &draw);
        (void)check(&nearest, NULL);
        (void)check(&drawn, &draw);
    }
}

/* Groups whose span in fp32 rounds up to one of 8 bits of mantissa: the next one would be read
 * above the largest value, also where the step is rounded down. */
static void rounded_spans(NO_ROW)
{
    static const float ends[][2] = {{-0x1.fep+0f, -0x1.820002p-1f}, {-0x1.76p+0f, 0x1.01fffep-1f},
        {-0x1.fcp-1f, 0x1.01fffep-1f}};
    for (size_t b = 0; b < COUNT_OF(all_bits); b++) {
        const size_t group = 8 * all_bits[b], cols = COUNT_OF(ends) * group;
        float *x = test_floats(cols);
        for (size_t c = 0; c < cols; c++)
            x[c] = ends[c / group][c % 2];
        const quantised q = make((row){1, 1, cols, all_bits[b], group, 1}, 41, x, NULL);
        (void)check(&q, NULL);
    }
}

/* Ties, the largest values, the smallest normal ones, NaN with any payload, in words and tails. */
static void hard_bf16(NO_ROW)
{
    enum { COLS = 85, ROWS_OF = 40 };
    float *x = test_new_normal(42, ROWS_OF * COLS);
    for (size_t i = 0; i < ROWS_OF * COLS; i++) {
        static const uint32_t tails[] = {0x0000, 0x7fff, 0x8000, 0x8001, 0xffff};
        static const uint32_t heads[] = {0x3f80, 0x3f81, 0xbfff, 0x0080, 0x007f, 0x8001, 0x7f7f,
            0xff7f, 0x7f80, 0xff80, 0x7fa0, 0x0000, 0x4049};
        if (i % 3 != 0)
            x[i] = wide(heads[i % COUNT_OF(heads)] << 16 | tails[i % COUNT_OF(tails)]);
    }
    const row r = {1, ROWS_OF, COLS, 16, 0, 1};
    quantised q = make(r, 42, x, NULL);
    check_bf16(&q);
}

/* The mean of the same values over many samples and seeds: within 5 standard errors of x, or of the
 * first or last code that is used where that is nearer to the middle. */
static void unbiased(void **state)
{
    const unsigned bits = (unsigned)(uintptr_t)*state;
    enum { SAMPLES = 512, SEEDS = 8, ROWS_OF = 2, COLS = 70, EACH = ROWS_OF * COLS };
    const row r = {SAMPLES, ROWS_OF, COLS, bits, 8 * bits, 1};
    float *one = test_new_normal(51, EACH), *x = test_floats(SAMPLES * EACH);
    double sum[EACH] = {0};
    for (size_t n = 0; n < SAMPLES; n++)
        memcpy(x + n * EACH, one, EACH * sizeof *x);
    double worst = 0, squares = 0;
    quantised q = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const uint64_t draw = seed << 32 | (seed + 3);
        q = make(r, 51, x, &draw);
        float *y = restored(&q.q);
        for (size_t i = 0; i < SAMPLES * EACH; i++)
            sum[i % EACH] += (double)y[i];
    }
    float *words = test_mat_get(&q.words, "words");
    const uint32_t *group = (const uint32_t *)(const void *)words + q.q.desc.rows * q.q.codes.ld;
    for (size_t i = 0; i < EACH; i++) {
        const uint32_t word = group[i / COLS * q.q.groups.ld + i % COLS / (8 * bits)];
        const double scale = (double)quantise_ref_scale(bits, word);
        const double zero = (double)quantise_ref_zero(word), last = (1 << bits) - 1;
        const double at = fmin(fmax(((double)one[i] - zero) / scale, 0), last), up = at - floor(at);
        if (fabs(zero + at * scale - (double)one[i]) > last * scale * 0x1p-7)
            fail_msg("an end is %g from its code", (double)one[i]);
        const double n = SAMPLES * SEEDS, mean = sum[i] / n;
        const double error = scale * sqrt((up * (1 - up) + 1e-6) / n);
        const double off = (mean - (zero + at * scale)) / error;
        worst = fmax(worst, fabs(off));
        squares += off * off;
    }
    if (worst > 5 || squares / EACH > 1.6 || squares / EACH < 0.4)
        fail_msg("%u bits: worst mean is %g standard errors off, mean square %g", bits, worst,
            squares / EACH);
}

/* Sample by sample, in any order, makes the same words as the whole batch. */
static void parts(void **state)
{
    const row *r = *state;
    const uint64_t draw = 99;
    quantised whole = make(*r, 61, NULL, &draw);
    test_mat words = test_mat_make(1, whole.words.mat.cols, 0, NULL);
    const clprune__quantised_desc desc = desc_of(r);
    const clprune__quantised apart =
        clprune__quantised_of(&desc, words.mat.buffer, words.mat.offset);
    for (size_t n = r->batch; n-- > 0;) {
        const clprune__quantised one = clprune__quantised_rows(&apart, n * r->rows, r->rows);
        TEST_OK(clprune__quantise(test_context(), &draw, r->rows > 0 ? r->rows : 1, n,
            clprune_mat_rows(whole.mat.mat, n * r->rows, r->rows), &one, NULL));
    }
    test_same_floats("part by part", 1, words.mat.cols, test_mat_get(&words, "made apart"),
        test_mat_get(&whole.words, "words"), "group %zu", r->group);
}

/* x + q and x + ls * q, apart and over x: the bits of one fma of the dequantised value. */
static void added(void **state)
{
    const row *r = *state;
    quantised q = make(*r, 62, NULL, NULL);
    const size_t height = r->batch * r->rows, count = height * r->cols;
    float *value = restored(&q.q), *x = test_new_normal(63, count),
          *ls = test_new_normal(64, r->cols), *expected = test_new_normal(65, count);
    test_mat factors = test_mat_make(1, r->cols, 0, ls);
    for (unsigned way = 0; way < 4; way++) {
        const bool scaled = way % 2 != 0, over = way > 1;
        for (size_t i = 0; i < count; i++)
            expected[i] = fmaf(scaled ? ls[i % r->cols] : 1.0f, value[i], x[i]);
        test_mat from = test_mat_make(height, r->cols, 1, x),
                 y = test_mat_make(height, r->cols, 2, NULL);
        TEST_EVENT(clprune__dequantise_add(test_context(), &q.q, from.mat,
            scaled ? factors.mat : CLPRUNE_NO_MAT, over ? from.mat : y.mat, &event));
        test_same_floats(
            "sum", height, r->cols, test_mat_get(over ? &from : &y, "y"), expected, "way %u", way);
        if (!over)
            test_mat_unchanged(&from, "x");
    }
    test_mat_unchanged(&factors, "ls");
}

/* The same words everywhere, ties included: a hash of them, as it first was. */
static void same_everywhere(NO_ROW)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < COUNT_OF(all_bits); i++) {
        const row r = {3, 50, 200, all_bits[i], 8 * all_bits[i], 1};
        const uint64_t draw = UINT64_C(0xfedcba9876543210);
        quantised q = make(r, 71, NULL, &draw);
        unsigned char *bytes = (unsigned char *)test_mat_get(&q.words, "words");
        for (size_t k = 0; k < 4 * q.words.mat.cols; k++)
            hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
    }
    if (hash != UINT64_C(0x8086494f675f581c))
        fail_msg("hash 0x%016llx", (unsigned long long)hash);
}

static const float betas[] = {0.0f, 1.0f, 0.5f};

/* dw by the codes of samples [first, first + count), against the reference, and in the vector
 * family against the dense product of the restored matrix, which the same kernel makes. */
static void check_product(const quantised *q, operands *o, size_t first, size_t count, float beta)
{
    const row *r = &q->shape;
    clprune_context *context = test_context();
    const clprune__quantised part =
        clprune__quantised_rows(&q->q, first * r->rows, count * r->rows);
    float *x = restored(&q->q), *part_x = restored(&part);
    test_mat dense = test_mat_make(count * r->rows, r->cols, 2, part_x);
    const clprune_mat dy = operands_part(o, first, count);
    const char *name = test_text("%u bits", r->bits);
    test_same_floats("a part", count * r->rows, r->cols, part_x, x + first * r->rows * r->cols,
        "%s, %zu samples from %zu on", name, count, first);
    operands_reset(o, beta);
    if (o->kind == NT)
        TEST_EVENT(clprune__quantised_nt(context, count, beta, dy, &part, o->out.mat, &event));
    else
        TEST_EVENT(clprune__quantised_tn(context, beta, dy, &part, o->out.mat, &event));
    float *got = operands_check_part(o, first, count, 1, beta, x, name);
    if (clprune_context_kernels(context) != CLPRUNE_KERNELS_VECTOR)
        return;
    if (r->bits == 16 && gemm_ref_operand != NULL) /* products of bf16 round x anyway */
        test_mat_set(&dense, q->x + first * r->rows * r->cols);
    operands_reset(o, beta);
    if (o->kind == NT)
        TEST_OK(clprune__gemm_sum_nt(context, count, beta, dy, dense.mat, NULL, o->out.mat, NULL));
    else
        TEST_OK(clprune_gemm(context, true, false, 1, beta, dy, dense.mat, o->out.mat, NULL));
    test_same_floats("dw and the dense one", o->out_rows, o->out_cols, got,
        test_mat_get(&o->out, "dense dw"), "%s, %s, beta %g", product_names[o->kind], name,
        (double)beta);
}

static operands operands_of(const row *r, product kind)
{
    return operands_make(kind, (bspmm_ref_sizes){r->batch, r->rows, r->cols, r->outputs}, 81, 1, 3);
}

static void products(void **state)
{
    const row *r = *state;
    quantised q = make(*r, 91, NULL, NULL);
    float *before = test_mat_get(&q.words, "words");
    for (int kind = TN; kind <= NT; kind++) {
        operands o = operands_of(r, (product)kind);
        for (size_t i = 0; i < COUNT_OF(betas); i++)
            check_product(&q, &o, 0, r->batch, betas[i]);
        for (size_t first = 1; first <= r->batch; first++)
            check_product(
                &q, &o, first, r->batch - first < 2 ? r->batch - first : 2, betas[first % 3]);
    }
    test_same_floats("words", 1, q.words.mat.cols, test_mat_get(&q.words, "words"), before,
        "after the products");
}

/* nt with more results than are made side by side at once, and with more than there is room for. */
static void products_in_runs(NO_ROW)
{
    static const row large[] = {{6, 700, 20, 4, 32, 600}, {2, 1500, 5, 2, 16, 1500}};
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        quantised q = make(large[i], 101, NULL, NULL);
        operands o = operands_of(&large[i], NT);
        for (size_t k = 0; k < COUNT_OF(betas); k++)
            check_product(&q, &o, 0, large[i].batch, betas[k]);
    }
}

/* A NaN in a group shows in the columns of that group, and nowhere else. */
static void nan_shows(NO_ROW)
{
    const row r = {2, 9, 96, 4, 32, 10};
    float *x = test_new_normal(111, 2 * 9 * 96);
    x[5 * 96 + 40] = NAN;
    quantised q = make(r, 111, x, NULL);
    test_mat dy = test_mat_make(18, 10, 0, x), dw = test_mat_make(10, 96, 1, NULL);
    TEST_OK(clprune__quantised_tn(test_context(), 0, dy.mat, &q.q, dw.mat, NULL));
    float *got = test_mat_get(&dw, "dw");
    for (size_t i = 0; i < 960; i++)
        assert_true(isnan(got[i]) == (i % 96 / 32 == 1));
}

static void refused(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    static const clprune__quantised_desc bad_descs[] = {{4, 16, 3, 16}, {4, 16, 12, 16},
        {4, 16, 4, 24}, {4, 16, 4, 0}, {4, 16, 4, 512}, {4, 16, 0, 16}};
    size_t words;
    for (size_t i = 0; i < COUNT_OF(bad_descs); i++)
        TEST_FAILS(clprune__quantised_words(context, &bad_descs[i], &words), bad,
            bad_descs[i].bits == 4 ? "group" : "bits");
    const clprune__quantised_desc huge = {SIZE_MAX / 2, 64, 4, 16};
    TEST_FAILS(clprune__quantised_words(context, &huge, &words), CLPRUNE_SIZE_OVERFLOW, "codes");
    const row r = {2, 4, 40, 4, 16, 6};
    quantised q = make(r, 121, NULL, NULL);
    assert_int_equal(q.words.mat.cols, 8 * (6 + 3));
    const clprune_mat x = q.mat.mat;
    test_mat dy = test_mat_make(12, 40, 0, NULL), dw = test_mat_make(6, 4, 0, NULL);
    clprune__quantised short_one = q.q;
    short_one.groups.offset += TEST_CANARIES + 1;
    TEST_FAILS(clprune__dequantise(context, &short_one, x, NULL), size, "q");
    clprune_mat over = q.q.codes;
    over.rows = 8, over.cols = 40, over.ld = 40;
    TEST_FAILS(clprune__dequantise(context, &q.q, over, NULL), size, "y");
    TEST_FAILS(clprune__dequantise_add(context, &q.q, x, CLPRUNE_NO_MAT, over, NULL), size, "y");
    TEST_FAILS(clprune__dequantise_add(context, &q.q, x, dw.mat, x, NULL), size, "ls");
    over.rows = 6, over.cols = over.ld = 4;
    TEST_FAILS(clprune__quantised_nt(context, 2, 0, dy.mat, &q.q, over, NULL), bad, "dw");
    TEST_FAILS(clprune__quantised_nt(context, 3, 0, dy.mat, &q.q, dw.mat, NULL), size, "dy");
    TEST_FAILS(clprune__quantise(context, NULL, 0, 0, x, &q.q, NULL), bad, "sample_rows");
    TEST_FAILS(clprune__quantise(context, NULL, (size_t)1 << 31, 0, x, &q.q, NULL),
        CLPRUNE_SIZE_OVERFLOW, "samples");
    test_mat_unchanged(&dw, "dw");
}

/* The store's values for `keep` and a seed. */
static float *stored(clprune_keep keep, const row *r, uint64_t seed, clprune_mat x)
{
    clprune_saved *saved = test_new_saved(test_context(), keep, r->batch, r->rows, r->cols);
    clprune_saved_set_seed(saved, seed);
    TEST_OK(clprune_saved_store(saved, 0, r->batch, x, NULL));
    test_mat y = test_mat_make(r->batch * r->rows, r->cols, 0, NULL);
    TEST_OK(clprune_saved_restore(saved, 0, r->batch, y.mat, NULL));
    return test_mat_get(&y, "y");
}

/* The store rounds as it is told, from its seed, with groups of 64 where none is given. */
static void in_a_store(NO_ROW)
{
    const row r = {3, 10, 150, 4, 64, 1};
    const uint64_t seed = 19;
    const size_t count = r.batch * r.rows * r.cols;
    quantised nearest = make(r, 131, NULL, NULL), drawn = make(r, 131, NULL, &seed);
    const clprune_mat x = nearest.mat.mat;
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4};
    const clprune_keep to_nearest = {
        .form = CLPRUNE_FORM_QUANTISED, .bits = 4, .rounding = CLPRUNE_ROUNDING_NEAREST};
    float *got = stored(keep, &r, seed, x), *other = stored(keep, &r, seed + 1, x);
    test_same_floats("stochastic", 1, count, got, restored(&drawn.q), "a store");
    test_same_floats(
        "nearest", 1, count, stored(to_nearest, &r, seed, x), restored(&nearest.q), "a store");
    assert_memory_not_equal(got, other, count * sizeof *other);
    clprune_saved_sizes sizes;
    TEST_OK(clprune_saved_size_query(&keep, 2, 196, 384, &sizes));
    assert_int_equal(sizes.values_bytes, 2 * 196 * (384 / 2 + 384 / 64 * 4));
    static const struct {
        clprune_keep keep;
        const char *text;
    } bad[] = {
        {{.form = CLPRUNE_FORM_QUANTISED, .bits = 5}, "bits is 5"},
        {{.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .group = 40}, "group is 40"},
        {{.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .group = 48, .rounding = (clprune_rounding)2},
            "rounding is 2"},
    };
    clprune_saved *saved = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        TEST_FAILS(clprune_saved_create(test_context(), "s", &bad[i].keep, 1, 1, 1, &saved),
            CLPRUNE_INVALID_ARGUMENT, bad[i].text);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        if (test_small() && r->batch * r->rows * r->cols > 20000)
            continue;
        const char *name = test_text("%zu x %zu x %zu, %u bits, groups of %zu", r->batch, r->rows,
            r->cols, r->bits, r->group);
        test_add(&list, codes, r, "codes: %s", name);
        test_add(&list, parts, r, "parts: %s", name);
        test_add(&list, added, r, "added: %s", name);
        test_add(&list, products, r, "products: %s, o %zu", name, r->outputs);
    }
    test_add(&list, codes, &widest, "codes: groups of 256");
    test_add(&list, parts, &widest, "parts: groups of 256");
    test_add(&list, same_everywhere, NULL, "the same words everywhere");
    if (!test_small()) {
        for (unsigned bits = 2; bits <= 8; bits *= 2)
            test_add(&list, unbiased, (const void *)(uintptr_t)bits, "the mean of %u bits", bits);
        test_add(&list, bounds_are_reached, NULL, "the bounds are reached");
        test_add(&list, hard_groups, NULL, "hard groups");
        test_add(&list, hard_bf16, NULL, "hard values in bf16");
        test_add(&list, products_in_runs, NULL, "products in runs");
    }
    test_add(&list, rounded_spans, NULL, "spans that round up");
    test_add(&list, nan_shows, NULL, "a NaN shows");
    test_add(&list, in_a_store, NULL, "in a store");
    test_add(&list, refused, NULL, "what is refused");
    return test_run_on_devices("quantise", &list);
}
