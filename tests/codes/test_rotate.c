/* The rotation before coding: against the reference, orthogonal, and as the codes of the rotated
 * matrix; readers of rotated codes; an outlier column, and the mean of a block. */
#include "ops/codes/quantise_private.h"
#include "ops/codes/rotate_private.h"
#include "ops/products/gemm_private.h"
#include "ref/quantise_ref.h"
#include "ref/rotate_ref.h"
#include "support/test_product.h"

/* A batch of samples; `outputs`: the other side of a product. */
typedef struct row {
    size_t batch, rows, cols;
    unsigned bits;
    size_t group, outputs;
} row;

/* Whole blocks, blocks narrower than a group, rests of each width, rows narrower than a block.
 * Every pair of bits and group costs the compilation of its own programs. */
static const row rows[] = {
    {3, 20, 128, 4, 64, 40},
    {2, 33, 189, 4, 64, 33},
    {2, 17, 100, 2, 48, 20},
    {1, 21, 127, 8, 32, 7},
    {2, 9, 495, 4, 256, 9},
    {2, 9, 300, 8, 96, 18},
    {4, 3, 383, 4, 128, 5},
    {2, 5, 16, 4, 16, 6},
    {3, 4, 7, 4, 64, 5},
    {1, 1, 1, 8, 32, 1},
    {3, 0, 20, 4, 64, 5},
    {3, 4, 0, 4, 64, 5},
};

/* Whether sums and products of a row's codes are tested, for whose kernels a group is a width like
 * others: one group for each number of bits, and the widest. */
static bool is_summed(const row *r)
{
    return r->group == (r->bits == 2 ? 48 : r->bits == 4 ? 64 : 32) || r->group == 256;
}

/* The norm of the block of element i. */
static double block_norm(const row *r, const float *x, size_t i)
{
    size_t first;
    const size_t width = rotate_ref_block(r->group, r->cols, i % r->cols, &first);
    double sum = 0;
    for (size_t c = first; c < first + width; c++)
        sum += pow((double)x[i - i % r->cols + c], 2);
    return sqrt(sum);
}

/* A float result of a rotation, whose sums have at most 8 steps, and a product with the norm. */
static void check_close(const char *what, const row *r, const float *x, const float *got,
    const double *want, double slack)
{
    for (size_t i = 0; i < r->batch * r->rows * r->cols; i++)
        if (!(fabs((double)got[i] - want[i]) <= slack * 10 * 0x1p-24 * block_norm(r, x, i)))
            fail_msg("%s, groups of %zu: row %zu, column %zu is %.9g, not %.9g", what, r->group,
                i / r->cols, i % r->cols, (double)got[i], want[i]);
}

static float *rotated(const row *r, const float *x, bool back)
{
    test_mat m = test_mat_make(r->batch * r->rows, r->cols, 3, x);
    TEST_EVENT(clprune__rotate(test_context(), r->group, back, m.mat, &event));
    return test_mat_get(&m, "rotated");
}

/* x R and x R^T in double, and x R R^T = x: R is orthogonal. */
static void rotation(void **state)
{
    const row *r = *state;
    const size_t count = r->batch * r->rows * r->cols;
    float *x = test_new_normal(11, count);
    double *want = test_doubles(count), *same = test_doubles(count);
    for (int back = 0; back < 2; back++) {
        rotate_ref(r->group, r->batch * r->rows, r->cols, back, x, want);
        float *y = rotated(r, x, back);
        check_close(back ? "back" : "forth", r, x, y, want, 1);
        for (size_t i = 0; i < count; i++)
            same[i] = (double)x[i];
        check_close("there and back", r, x, rotated(r, y, !back), same, 2);
        for (size_t i = 0; i < count; i++)
            if (r->cols - i % r->cols <= r->cols % 16)
                assert_true(y[i] == x[i]); /* of the last columns */
    }
}

/* A quantised matrix in words between canaries. */
typedef struct quantised {
    row shape;
    test_mat words;
    clprune__quantised q;
} quantised;

static quantised make(const row *r, bool is_rotated, const float *x, const uint64_t *draw)
{
    const clprune__quantised_desc desc = {
        r->batch * r->rows, r->cols, r->bits, r->group, is_rotated};
    quantised made = {.shape = *r};
    size_t words;
    test_mat from = test_mat_make(desc.rows, r->cols, 1, x);
    TEST_OK(clprune__quantised_words(test_context(), &desc, &words));
    made.words = test_mat_make(1, words, 0, NULL);
    made.q = clprune__quantised_of(&desc, made.words.mat.buffer, made.words.mat.offset);
    TEST_EVENT(clprune__quantise(
        test_context(), draw, r->rows > 0 ? r->rows : 1, 0, from.mat, &made.q, &event));
    test_mat_unchanged(&from, "x");
    return made;
}

static float *restored(const clprune__quantised *q)
{
    test_mat y = test_mat_make(q->desc.rows, q->desc.cols, 2, NULL);
    TEST_EVENT(clprune__dequantise(test_context(), q, y.mat, &event));
    return test_mat_get(&y, "y");
}

/* The values that the words of a row stand for. Words are those of z = x R: each scale and zero,
 * each code drawn or to the nearest, with no value beyond the first code or the last one. */
static void check_row(
    const quantised *made, const uint64_t *draw, size_t i, const float *z, float *values)
{
    const row *r = &made->shape;
    const size_t ld = made->q.codes.ld, groups = made->q.groups.ld;
    const uint32_t *words = (const uint32_t *)(const void *)test_mat_get(&made->words, "words");
    for (size_t c = 0; c < r->cols; c++) {
        const size_t first = c - c % r->group, left = r->cols - first;
        const uint32_t word = words[r->batch * r->rows * ld + i * groups + c / r->group];
        const float scale = quantise_ref_scale(r->bits, word), zero = quantise_ref_zero(word);
        const quantise_ref_group want =
            quantise_ref_of(r->bits, true, left < r->group ? left : r->group, z + first);
        const unsigned code = quantise_ref_code(words + i * ld, r->bits, c);
        const double at = scale > 0 ? ((double)z[c] - (double)zero) / (double)scale : 0;
        const double u = draw == NULL ? 0.5
                                      : 1 - quantise_ref_uniform(*draw, (uint32_t)(i / r->rows),
                                                (uint32_t)(i % r->rows * r->cols + c));
        if ((double)scale != want.scale || (double)zero != want.zero)
            fail_msg("row %zu, column %zu: scale %g, zero %g, expected %g, %g", i, c, (double)scale,
                (double)zero, want.scale, want.zero);
        if (at < 0 || at > ((1 << r->bits) - 1) * (1 + 0x1p-21) ||
            !(fabs(floor(at + u) - code) < 0.5 || fabs(at + u - rint(at + u)) < 0x1p-13))
            fail_msg("row %zu, column %zu: %g steps, u %g, code %u", i, c, at, u, code);
        values[c] = fmaf((float)code, scale, zero);
    }
}

/* What is read is the words' values times R^T, to the bit. */
static void codes(void **state)
{
    const row *r = *state;
    const size_t count = r->batch * r->rows * r->cols;
    const uint64_t seed = UINT64_C(0x123456789abc);
    float *x = test_new_normal(21, count), *z = rotated(r, x, false), *values = test_floats(count);
    for (int drawn = 0; drawn < 2; drawn++) {
        quantised q = make(r, true, x, drawn ? &seed : NULL);
        for (size_t i = 0; i < r->batch * r->rows; i++)
            check_row(&q, drawn ? &seed : NULL, i, z + i * r->cols, values + i * r->cols);
        test_same_floats("values", 1, count, restored(&q.q), rotated(r, values, true),
            "groups of %zu, drawn %d", r->group, drawn);
    }
}

/* x + q R^T and x + ls * q R^T, apart and over x: the bits of one fma of the restored value. */
static void added(void **state)
{
    const row *r = *state;
    const size_t height = r->batch * r->rows, count = height * r->cols;
    float *x = test_new_normal(31, count), *ls = test_new_normal(32, r->cols);
    float *expected = test_new_normal(33, count);
    quantised q = make(r, true, x, NULL);
    float *value = restored(&q.q);
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
    }
    test_mat_unchanged(&factors, "ls");
}

/* dy^T x + beta dw of what is restored; the rotations add a few roundings of the sums. */
static void product_of(void **state)
{
    static const float betas[] = {0.0f, 1.0f, 0.5f};
    const row *r = *state;
    quantised q = make(r, true, test_new_normal(41, r->batch * r->rows * r->cols), NULL);
    float *x = restored(&q.q);
    operands o =
        operands_make(TN, (bspmm_ref_sizes){r->batch, r->rows, r->cols, r->outputs}, 42, 1, 3);
    for (size_t i = 0; i < COUNT_OF(betas); i++) {
        operands_reset(&o, betas[i]);
        TEST_EVENT(
            clprune__quantised_tn(test_context(), betas[i], o.din.mat, &q.q, o.out.mat, &event));
        gemm_ref ref = operands_reference(&o, 1, betas[i], o.in, x);
        float *got = test_mat_get(&o.out, "dw");
        for (size_t k = 0; k < r->outputs * r->cols; k++) {
            size_t first;
            const size_t at = k % r->cols, width = rotate_ref_block(r->group, r->cols, at, &first);
            double bound = 0;
            for (size_t c = k - at + first; c < k - at + first + width; c++)
                bound += pow((double)ref.bound[c] + 20 * 0x1p-24 * fabs(ref.want[c]), 2);
            if (!(fabs((double)got[k] - ref.want[k]) <= sqrt(bound)))
                fail_msg("groups of %zu, beta %g: dw[%zu][%zu] is %.9g, not %.9g", r->group,
                    (double)betas[i], k / r->cols, at, (double)got[k], ref.want[k]);
        }
        test_mat_unchanged(&o.din, "dy");
    }
}

/* The mean over many draws: within 5 standard errors, which the draws themselves estimate. */
static void unbiased(NO_ROW)
{
    enum { SAMPLES = 2048, COLS = 150 };
    const row r = {SAMPLES, 1, COLS, 4, 64, 1};
    const uint64_t draw = 5;
    float *one = test_new_normal(51, COLS), *x = test_floats(SAMPLES * COLS);
    for (size_t i = 0; i < SAMPLES * COLS; i++)
        x[i] = one[i % COLS] + 0.7f;
    quantised q = make(&r, true, x, &draw);
    float *y = restored(&q.q);
    double squares = 0;
    for (size_t c = 0; c < COLS; c++) {
        double sum = 0, square = 0;
        for (size_t n = 0; n < SAMPLES; n++) {
            sum += (double)y[n * COLS + c] - (double)x[c];
            square += pow((double)y[n * COLS + c] - (double)x[c], 2);
        }
        const double off = sum / sqrt(square);
        squares += off * off;
        if (fabs(off) > 5)
            fail_msg("column %zu: the mean is %g standard errors off", c, off);
    }
    if (squares / COLS > 1.5)
        fail_msg("the means are off by %g variances", squares / COLS);
}

/* The root mean square error of 4 bits in groups of 64: normal values, of which column 5 has
 * `outlier` times the size, and all have the mean `mean`. Without column 5. */
static double error_of(bool is_rotated, float outlier, float mean)
{
    enum { ROWS_OF = 400, COLS = 64 };
    const row r = {1, ROWS_OF, COLS, 4, 64, 1};
    float *x = test_new_normal(61, ROWS_OF * COLS);
    for (size_t i = 0; i < ROWS_OF * COLS; i++)
        x[i] = mean + (i % COLS == 5 ? outlier : 1.0f) * x[i];
    const uint64_t draw = 7;
    quantised q = make(&r, is_rotated, x, &draw);
    float *y = restored(&q.q);
    double sum = 0;
    for (size_t i = 0; i < ROWS_OF * COLS; i++)
        sum += i % COLS == 5 ? 0 : pow((double)y[i] - (double)x[i], 2);
    return sqrt(sum / (ROWS_OF * (COLS - 1)));
}

/* An outlier column triples the error of its neighbours, and less than doubles it if rotated; the
 * mean of a group adds to the error of the rotated, but not as one more outlier would. */
static void outliers(NO_ROW)
{
    const double plain = error_of(false, 1, 0), turned = error_of(true, 1, 0);
    const double hit = error_of(false, 15, 0), spread = error_of(true, 15, 0);
    const double shifted = error_of(true, 1, 1);
    if (!(turned < 1.1 * plain && hit > 3 * plain && spread < 0.6 * hit))
        fail_msg("errors %.3g, rotated %.3g; with an outlier %.3g, rotated %.3g", plain, turned,
            hit, spread);
    if (!(shifted < 1.6 * turned))
        fail_msg("a mean of 1: %.3g, without it %.3g", shifted, turned);
}

/* A NaN or an Inf makes its group read as NaN, and dw of the group's columns, and nothing else.
 * Huge and tiny values are finite. */
static void special(NO_ROW)
{
    const row r = {2, 9, 105, 8, 32, 10};
    float *x = test_new_normal(71, 2 * 9 * 105);
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-44f, 0x1p-100f};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        float *with = test_copy(2 * 9 * 105 * sizeof *x, x);
        for (size_t c = 0; c < (i < 3 ? 1 : 9); c++)
            with[5 * 105 + 40 + c] = values[i];
        quantised q = make(&r, true, with, NULL);
        float *y = restored(&q.q);
        test_mat dy = test_mat_make(18, 10, 0, x), dw = test_mat_make(10, 105, 1, NULL);
        TEST_OK(clprune__quantised_tn(test_context(), 0, dy.mat, &q.q, dw.mat, NULL));
        float *got = test_mat_get(&dw, "dw");
        for (size_t k = 0; k < 18 * 105; k++)
            assert_true(isnan(y[k]) == (i < 3 && k / 105 == 5 && k % 105 / 32 == 1));
        for (size_t k = 0; k < 10 * 105; k++)
            assert_true(isnan(got[k]) == (i < 3 && k % 105 / 32 == 1));
        for (size_t k = 0; k < 18 * 105; k++)
            assert_true(isnan(y[k]) || fabsf(y[k]) <= 0x1p119f);
    }
}

/* The same words everywhere: a hash of them, as it first was. */
static void same_everywhere(NO_ROW)
{
    static const size_t groups[] = {16, 32, 64, 48, 128, 256};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        const row r = {3, 20, 317, 2u << i % 3, groups[i], 1};
        const uint64_t draw = UINT64_C(0xfedcba9876543210);
        quantised q = make(&r, true, test_new_normal(81, 3 * 20 * 317), &draw);
        unsigned char *bytes = (unsigned char *)test_mat_get(&q.words, "words");
        for (size_t k = 0; k < 4 * q.words.mat.cols; k++)
            hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
    }
    if (hash != UINT64_C(0x287bdd9005e4c64d))
        fail_msg("hash 0x%016llx", (unsigned long long)hash);
}

static void refused(NO_ROW)
{
    static const clprune__quantised_desc of_bf16 = {4, 16, 16, 64, true};
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16, .rotate = true};
    clprune_saved *saved = NULL;
    size_t words;
    TEST_FAILS(clprune__quantised_words(test_context(), &of_bf16, &words), CLPRUNE_INVALID_ARGUMENT,
        "rotate is set with 16 bits");
    TEST_FAILS(clprune_saved_create(test_context(), "s", &keep, 1, 1, 1, &saved),
        CLPRUNE_INVALID_ARGUMENT, "rotate is set with 16 bits");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const row *r = &rows[i];
        const char *name = test_text("%zu x %zu x %zu, %u bits, groups of %zu", r->batch, r->rows,
            r->cols, r->bits, r->group);
        test_add(&list, rotation, r, "rotation: %s", name);
        test_add(&list, codes, r, "codes: %s", name);
        if (!is_summed(r))
            continue;
        test_add(&list, added, r, "added: %s", name);
        test_add(&list, product_of, r, "product: %s, o %zu", name, r->outputs);
    }
    test_add(&list, unbiased, NULL, "the mean");
    test_add(&list, outliers, NULL, "outliers");
    test_add(&list, special, NULL, "NaN, Inf, huge and tiny values");
    test_add(&list, same_everywhere, NULL, "the same words everywhere");
    test_add(&list, refused, NULL, "what is refused");
    return test_run_on_devices("rotate", &list);
}
