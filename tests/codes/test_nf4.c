/* Matrices of NF4: the levels are the published ones, codes and scales the nearest, in rows of any
 * length; what is not finite; the error of a normal weight beside that of CODES4. What reads them:
 * test_mat_values. */
#include <float.h>

#include "ref/quantise_ref.h"
#include "support/test.h"

/* bitsandbytes 0.50: functional.get_4bit_type("nf4"). */
static const float levels[16] = {-1.0f, -0.6961928009986877f, -0.5250730514526367f,
    -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f,
    0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

enum { GROUP = 64, SCALES = 256 };

/* The value below which a normal one lies with probability p. */
static double normal_quantile(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < p ? &low : &high) = middle;
    }
    return low;
}

/* Level i by QLoRA's formula: quantiles at even distances, 8 of them up to 0, and 9 from it on. */
static double level_by_formula(int i)
{
    const double offset = 0.9677083, most = normal_quantile(offset);
    const int steps = i < 7 ? 7 : 8, at = i < 7 ? i : 15 - i;
    const double size = normal_quantile(offset + (0.5 - offset) * at / steps) / most;
    return i < 7 ? -size : size;
}

typedef struct row {
    size_t rows, cols, gap; /* gap: words between rows */
} row;

/* Whole groups; ends within a unit; less than a unit; more groups than share a word. */
static const row rows[] = {
    {5, 192, 0}, {9, 77, 3}, {3, 5, 0}, {70, 576, 1}, {3, SCALES *GROUP + 3 * GROUP + 9, 2}};

static size_t words_of(size_t cols)
{
    const size_t groups = (cols + GROUP - 1) / GROUP;
    return 2 * ((cols + 15) / 16) + (groups + SCALES - 1) / SCALES + (groups + 3) / 4;
}

/* A matrix of NF4 between canaries, and its values. */
typedef struct coded {
    test_mat words;
    clprune_mat mat;
    float *values;
} coded;

static coded make(const row *r, const float *from)
{
    coded made = {.values = test_floats(r->rows * r->cols)};
    made.words = test_mat_make(r->rows, words_of(r->cols), r->gap, NULL);
    made.mat = (clprune_mat){made.words.mat.buffer, made.words.mat.offset, r->rows, r->cols,
        words_of(r->cols) + r->gap, CLPRUNE_VALUES_NF4};
    TEST_OK(clprune_mat_write(test_context(), made.mat, from));
    TEST_OK(clprune_mat_read(test_context(), made.mat, made.values));
    return made;
}

static void published(NO_ROW)
{
    static const row shape = {1, GROUP, 0};
    float x[GROUP];
    for (int i = 0; i < GROUP; i++)
        x[i] = (float)level_by_formula(i % 16);
    const coded m = make(&shape, x);
    test_same_floats("levels", 1, 16, m.values, levels, "of bitsandbytes");
    for (int i = 0; i < 16; i++)
        assert_true(fabs(level_by_formula(i) - (double)levels[i]) < 1e-6);
}

/* The reference of one group, read bit by bit: its scale, and that each code is the nearest. */
static void check_group(
    const float *x, const float *got, const uint32_t *codes, size_t first, size_t end, float scale)
{
    for (size_t c = first; c < end; c++) {
        const unsigned code = quantise_ref_code(codes, 4, c);
        double best = INFINITY;
        if (got[c] != levels[code] * scale)
            fail_msg(
                "column %zu is %g, expected level %u * %g", c, (double)got[c], code, (double)scale);
        for (int i = 0; i < 16; i++)
            best = fmin(best, fabs((double)x[c] - (double)levels[i] * (double)scale));
        const double error = fabs((double)x[c] - (double)got[c]);
        if (!(error <= best + 4 * (double)FLT_EPSILON * (double)scale))
            fail_msg("column %zu, %g, is %g, %g off; another level is %g off", c, (double)x[c],
                (double)got[c], error, best);
    }
}

/* A row: words, scales and codes against the definitions of quantise_private.h. */
static void check_row(const float *x, const float *got, const uint32_t *words, size_t cols)
{
    const size_t groups = (cols + GROUP - 1) / GROUP;
    const uint32_t *block = words + 2 * ((cols + 15) / 16);
    for (size_t at = 0; at < groups; at += SCALES, block += 1 + SCALES / 4) {
        const size_t count = groups - at < SCALES ? groups - at : SCALES;
        float peaks[SCALES] = {0};
        for (size_t c = at * GROUP; c < cols && c < (at + count) * GROUP; c++)
            peaks[c / GROUP - at] =
                fmaxf(peaks[c / GROUP - at], (float)fabs(quantise_ref_bounded(x[c])));
        const quantise_ref_group want = quantise_ref_of(8, false, count, peaks);
        const float step = quantise_ref_scale(8, *block), zero = quantise_ref_zero(*block);
        assert_true((double)step == want.scale && (double)zero == want.zero);
        for (size_t g = 0; g < count; g++) {
            const unsigned code = quantise_ref_code(block + 1, 8, g);
            const float scale = fmaf((float)code, step, zero);
            const double most = code == 0 || code == 255
                                    ? fmax(want.scale, (want.high - want.low) / 255)
                                    : want.scale / 2; /* quantise_private.h */
            if (!(fabs((double)scale - (double)peaks[g]) <=
                    most + 0x1p-14 * want.scale + 0x1p-23 * (double)peaks[g]))
                fail_msg("the scale of group %zu is %g, expected %g", at + g, (double)scale,
                    (double)peaks[g]);
            const size_t first = (at + g) * GROUP;
            check_group(x, got, words, first, first + GROUP < cols ? first + GROUP : cols, scale);
        }
    }
}

static void nearest(void **state)
{
    const row *r = *state;
    float *x = test_new_normal(3, r->rows * r->cols);
    for (size_t i = 0; i < r->rows * r->cols; i++) /* groups of different scales */
        x[i] *= 1.0f + (float)(i / GROUP % 5);
    const coded m = make(r, x);
    const float *words = test_mat_get(&m.words, "words");
    uint32_t *row_words = (uint32_t *)(void *)test_floats(words_of(r->cols));
    for (size_t i = 0; i < r->rows; i++) {
        memcpy(row_words, words + i * words_of(r->cols), words_of(r->cols) * sizeof *row_words);
        check_row(x + i * r->cols, m.values + i * r->cols, row_words, r->cols);
    }
}

/* Rows of a matrix are coded alone: the same, written and read in other parts. */
static void parts(void **state)
{
    const row *r = *state;
    const float *x = test_new_normal(4, r->rows * r->cols);
    const coded whole = make(r, x), part = make(r, test_floats(r->rows * r->cols));
    float *got = test_floats(r->rows * r->cols);
    for (size_t i = 0; i < r->rows; i++)
        TEST_OK(
            clprune_mat_write(test_context(), clprune_mat_rows(part.mat, i, 1), x + i * r->cols));
    for (size_t i = 0; i < r->rows; i++)
        TEST_OK(
            clprune_mat_read(test_context(), clprune_mat_rows(part.mat, i, 1), got + i * r->cols));
    test_same_floats("values", r->rows, r->cols, got, whole.values, "row by row");
}

/* What is not finite makes the columns of its word NaN, and no others. */
static void not_finite(NO_ROW)
{
    static const row shape = {4, SCALES * GROUP + 70, 0};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float *x = test_new_normal(5, shape.rows * shape.cols);
    for (size_t i = 0; i < 3; i++)
        x[i * shape.cols + (i == 1 ? SCALES * GROUP + 69 : 100 * i)] = bad[i];
    const coded m = make(&shape, x);
    for (size_t r = 0; r < shape.rows; r++)
        for (size_t c = 0; c < shape.cols; c++) {
            const bool second = c >= SCALES * GROUP, lost = r < 3 && second == (r == 1);
            assert_true(lost == isnan(m.values[r * shape.cols + c]));
        }
}

/* Zeros stay zeros; tiny and huge magnitudes are those of codes. */
static void extremes(NO_ROW)
{
    static const row shape = {1, 4 * GROUP, 0};
    float x[4 * GROUP] = {0};
    for (int i = 0; i < GROUP; i++) {
        x[GROUP + i] = 0x1p-110f; /* as 0 */
        x[2 * GROUP + i] = i % 2 ? FLT_MAX : -FLT_MAX;
    }
    const coded m = make(&shape, x);
    for (int i = 0; i < 4 * GROUP; i++) {
        const bool huge = i / GROUP == 2;
        const double want = !huge ? 0 : i % 2 ? 0x1p126 : -0x1p126;
        assert_true(fabs((double)m.values[i] - want) <= 0x1p-8 * fabs(want));
    }
}

static double error_of(clprune_value_type type, size_t rows_count, size_t cols, const float *x)
{
    clprune_mat mat;
    float *got = test_floats(rows_count * cols);
    double off = 0, all = 0;
    TEST_OK(clprune_mat_create_as(
        test_context(), CLPRUNE_MEMORY_PARAMETERS, "w", type, rows_count, cols, &mat));
    TEST_OK(clprune_mat_write(test_context(), mat, x));
    TEST_OK(clprune_mat_read(test_context(), mat, got));
    clprune_buffer_release(test_context(), mat.buffer);
    for (size_t i = 0; i < rows_count * cols; i++) {
        off += ((double)got[i] - (double)x[i]) * ((double)got[i] - (double)x[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(off / all);
}

/* The relative error of a normal weight: 0.0920, that of bitsandbytes, and 0.0896 with a scale and
 * a zero for each group. */
static void error(NO_ROW)
{
    const float *x = test_new_normal(6, 128 * 4096);
    const double nf4 = error_of(CLPRUNE_VALUES_NF4, 128, 4096, x),
                 codes = error_of(CLPRUNE_VALUES_CODES4, 128, 4096, x);
    if (!(fabs(nf4 - 0.0920) < 3e-4 && fabs(codes - 0.0896) < 5e-4))
        fail_msg("errors are %.5f and %.5f, expected 0.0920 and 0.0896", nf4, codes);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, published, NULL, "published levels");
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, nearest, &rows[i], "nearest: %zu x %zu", rows[i].rows, rows[i].cols);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, parts, &rows[i], "parts: %zu x %zu", rows[i].rows, rows[i].cols);
    test_add(&list, not_finite, NULL, "not finite");
    test_add(&list, extremes, NULL, "extremes");
    test_add(&list, error, NULL, "error");
    return test_run_on_devices("nf4", &list);
}
