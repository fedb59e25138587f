/* Sampled pruning: draws, selection and weights against a reference; unbiasedness; special values;
 * saved activations and layers.
 *
 * The mean over fixed seeds is the dense tensor within 5 standard errors (gradients in test_resmlp:
 * 6). Without the weights it is not. */
#include <float.h>

#include "ops/prune/prune_private.h"
#include "ref/prune_ref.h"
#include "ref/quantise_ref.h"
#include "support/test_index.h"
#include "support/test_shapes.h"
#include "support/test_store.h"

/* Devices may divide with 2.5 units of error: twice that, for a threshold and a weight, and the
 * product; and what two numbers must be apart by so that their order is sure. */
static const double rounding = 6 * 0x1p-23;
static const double apart = 1 + 0x1p-19;

/* Where blocks go that the reference selects: a mask, and a weight for each. */
typedef struct selection {
    unsigned char *mask;
    float *weights;
} selection;

/* The reference's selection from given scores. No draw may be so close that a rounding decides. */
static selection select_by_reference(
    uint64_t seed, size_t batch, size_t blocks, size_t keep, const float *scores, const char *name)
{
    selection s = {test_alloc(batch * blocks + 1), test_floats(batch * blocks)};
    float *priorities = test_floats(blocks);
    for (size_t n = 0; n < batch; n++) {
        const size_t at = n * blocks;
        prune_ref_draw(seed, (uint32_t)n, blocks, scores + at, priorities);
        const float threshold =
            prune_ref_sample(blocks, keep, scores + at, priorities, s.mask + at, s.weights + at);
        for (size_t i = 0; i < blocks; i++)
            if (s.mask[at + i] && (double)priorities[i] < (double)threshold * apart)
                fail_msg("%s: seed %llu, sample %zu: near tie of %.9g and %.9g; take another seed",
                    name, (unsigned long long)seed, n, (double)priorities[i], (double)threshold);
    }
    return s;
}

/* Prunes x and compares all with the reference, which gets `scores`, or else the device's own. */
static void check(clprune_norm norm, uint64_t seed, const clprune_bsr_desc *d, const float *x,
    const float *scores, const char *name)
{
    bsr_ref ref = bsr_ref_of(*d);
    const size_t count = d->batch * ref.blocks, elements = d->block.rows * d->block.cols;
    const size_t total = d->batch * d->keep * elements;
    test_mat dx = test_mat_make(d->batch * d->rows, d->cols, 1, x);
    test_buf dscores = test_buf_make(count * sizeof(float), NULL);
    clprune_bsr_sizes sizes;
    TEST_OK(clprune_bsr_size_query(d, &sizes));
    TEST_OK(clprune__prune_score(test_context(), norm, d, &sizes, dx.mat, NULL,
        (clprune__region){dscores.buffer, 0, sizeof(float)}, NULL));
    float *own = test_buf_get(&dscores, "scores");
    if (scores == NULL)
        scores = own;
    selection s = select_by_reference(seed, d->batch, ref.blocks, d->keep, scores, name);
    bsr_ref_pack(&ref, x, s.mask);

    /* The kept blocks, in the order of their indices, times their weights. */
    double *want = test_doubles(total), *bound = test_doubles(total);
    for (size_t i = 0, k = 0; i < count; i++) {
        if (!s.mask[i])
            continue;
        const double weight = (double)s.weights[i];
        for (size_t e = k * elements; e < (k + 1) * elements; e++) {
            want[e] = weight * (double)ref.values[e];
            bound[e] = weight > 1 ? rounding * fabs(want[e]) : 0;
        }
        k++;
    }
    for (int index = 0; index < TEST_INDEXES; index++) {
        test_bsr bsr = test_pruned(test_with_index(*d, test_index_types[index]), norm,
            CLPRUNE_CRITERION_SAMPLED, seed, &dx);
        float *values = test_buf_get(&bsr.values, "values");
        test_same_index(&bsr, &ref, name);
        test_close("values", d->batch * d->keep, elements, values, want, bound, "%s, keep %zu, %s",
            name, d->keep, test_index_names[index]);
    }
    test_mat_unchanged(&dx, "x");
}

static void whole(void **state)
{
    const test_shape *shape = *state;
    clprune_bsr_desc d = shape->desc;
    clprune_bsr_sizes sizes;
    float *x = test_new_normal(61, d.batch * d.rows * d.cols);
    TEST_OK(clprune_bsr_size_query(&d, &sizes));
    check(CLPRUNE_NORM_L2, UINT64_C(0x123456789abcdef), &d, x, NULL, shape->name);
    if (d.keep == (sizes.blocks + 1) / 2 && sizes.blocks > 1) { /* once for each size */
        check(CLPRUNE_NORM_L1, 3, &d, x, NULL, shape->name);
        d.keep = sizes.blocks - 1;
        check(CLPRUNE_NORM_L2, UINT64_MAX, &d, x, NULL, shape->name);
    }
}

/* Scores that no rounding touches: here the draws alone decide, and are those of the reference on
 * every device. Block counts around the work-items of a group, samples beyond one. */
static void same_on_every_device(NO_ROW)
{
    static const size_t counts[] = {2, 3, 63, 64, 65, 255, 256, 257, 1000};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        const size_t blocks = counts[i], batch = i % 2 ? 1 : 7;
        float *x = test_new_uniform(90 + i, 0.5f, 2.0f, batch * blocks);
        const size_t keeps[] = {1, blocks / 2, blocks - 1};
        for (size_t k = 0; k < 3; k++) {
            const clprune_bsr_desc d = {batch, 1, blocks, {1, 1}, keeps[k]};
            check(CLPRUNE_NORM_MAX, 1000 * i + k, &d, x, x, "exact scores");
        }
    }
    const clprune_bsr_desc none = {0, 4, 16, {1, 4}, 3};
    check(CLPRUNE_NORM_L2, 1, &none, NULL, NULL, "no samples");
}

/* Blocks as large as what is drawn for them all have priority 1, so that a dropped one sets the
 * threshold 1, and the kept ones become 1. */
static void equal_priorities(NO_ROW)
{
    enum { ALL = 300, KEPT = 70, SEED = 11 };
    const clprune_bsr_desc d = {1, 1, ALL, {1, 1}, KEPT};
    float drawn[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        drawn[i] = (float)(quantise_ref_uniform(SEED, 0, i) + 0x1p-24);
    test_mat x = test_mat_make(1, ALL, 0, drawn);
    float *y = test_drawn(d, CLPRUNE_NORM_MAX, CLPRUNE_CRITERION_SAMPLED, SEED, &x);
    size_t kept = 0;
    for (size_t i = 0; i < ALL; i++) {
        kept += y[i] != 0;
        assert_true(y[i] == 0 || fabs((double)y[i] - 1) <= rounding);
    }
    assert_int_equal(kept, KEPT);
}

/* ---- one small matrix, drawn from often ------------------------------------------------------ */

enum { ROWS = 4, COLS = 24, BLOCKS = 24, KEEP = 9, SIZE = ROWS * COLS };
static const clprune_block block = {1, 4};

/* `samples` copies of one ROWS x COLS matrix on the device, to draw from. */
typedef struct source {
    clprune_bsr_desc desc;
    float *x; /* one of the copies */
    test_mat dx;
} source;

/* Blocks of magnitudes from 1 to `spread`, or all of one norm where it is 1. */
static source source_make(size_t samples, float spread)
{
    source s = {{samples, ROWS, COLS, block, KEEP}, test_new_uniform(7, 0.5f, 1.0f, SIZE)};
    for (size_t i = 0; i < SIZE; i++) {
        const float sign = i % 3 == 0 ? -1.0f : 1.0f, part = (float)(i / 4 * 7 % BLOCKS) / BLOCKS;
        s.x[i] = sign * (spread > 1 ? s.x[i] * powf(spread, part) : 0.25f * (float)(1 + i % 4));
    }
    float *all = test_floats(samples * SIZE);
    for (size_t n = 0; n < samples; n++)
        memcpy(all + n * SIZE, s.x, SIZE * sizeof *all);
    s.dx = test_mat_make(samples * ROWS, COLS, 0, all);
    return s;
}

/* What is drawn, as dense samples; a new array. */
static float *source_draw(const source *s, uint64_t seed)
{
    return test_drawn(s->desc, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED, seed, &s->dx);
}

/* Whether both keep the same blocks. */
static bool same_blocks(const float *a, const float *b)
{
    for (size_t i = 0; i < SIZE; i++)
        if ((a[i] != 0) != (b[i] != 0))
            return false;
    return true;
}

/* The same seed gives the same bits; each of its bits, and the sample, selects otherwise. */
static void seeds(NO_ROW)
{
    source s = source_make(2, 2);
    const uint64_t seed = UINT64_C(0x5eed);
    float *first = source_draw(&s, seed), *again = source_draw(&s, seed);
    test_same_floats("y", 2 * ROWS, COLS, again, first, "the same seed");
    assert_false(same_blocks(first, first + SIZE));
    for (int bit = 0; bit < 64; bit++) {
        float *other = source_draw(&s, seed ^ UINT64_C(1) << bit);
        if (same_blocks(other, first) || same_blocks(other + SIZE, first + SIZE))
            fail_msg("bit %d of the seed makes no difference", bit);
    }
}

/* Sums of a number and of its square. */
typedef struct moments {
    double sum, squares;
} moments;

/* Elements whose mean is more than 5 standard errors off x. */
static size_t count_off(const moments *m, size_t draws, const float *x)
{
    size_t off = 0;
    for (size_t i = 0; i < SIZE; i++) {
        const double n = (double)draws, mean = m[i].sum / n, want = (double)x[i];
        const double variance = fmax(m[i].squares / n - mean * mean, 0);
        off += !(fabs(mean - want) <= 5 * sqrt(variance / n) + 1e-6 * fabs(want));
    }
    return off;
}

/* The mean of what is drawn is x; it is not without the weights. And seeds or samples beside each
 * other draw as if they had nothing to do with each other. */
static void unbiased(void **state)
{
    enum { SEEDS = 500, SAMPLES = 4, DRAWS = SEEDS * SAMPLES };
    const float spread = *(const float *)*state;
    source s = source_make(SAMPLES, spread);
    moments weighted[SIZE] = {{0}}, plain[SIZE] = {{0}}, kept[SIZE] = {{0}}, pairs[2][BLOCKS];
    float *before = NULL;
    memset(pairs, 0, sizeof pairs);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float *y = source_draw(&s, seed);
        for (size_t i = 0; i < SAMPLES * SIZE; i++) {
            const double v = (double)y[i], u = y[i] != 0 ? (double)s.x[i % SIZE] : 0;
            weighted[i % SIZE].sum += v;
            weighted[i % SIZE].squares += v * v;
            plain[i % SIZE].sum += u;
            plain[i % SIZE].squares += u * u;
            kept[i % SIZE].sum += y[i] != 0;
        }
        for (size_t i = 0; before != NULL && i < BLOCKS; i++) {
            pairs[0][i].sum += y[4 * i] != 0 && before[4 * i] != 0;   /* this seed, and the last */
            pairs[1][i].sum += y[4 * i] != 0 && y[SIZE + 4 * i] != 0; /* samples 0 and 1 */
        }
        before = y;
    }
    const size_t off = count_off(weighted, DRAWS, s.x), off_plain = count_off(plain, DRAWS, s.x);
    if (off > 0)
        fail_msg("%zu elements are off by more than 5 standard errors", off);
    if (off_plain < SIZE / 2)
        fail_msg("without weights only %zu elements would be off: the test is blind", off_plain);
    for (size_t i = 0; i < BLOCKS; i++)
        for (int kind = 0; kind < 2; kind++) {
            const double n = SEEDS - 1, p = kept[4 * i].sum / DRAWS, both = p * p;
            if (!(fabs(pairs[kind][i].sum / n - both) <= 5 * sqrt(both * (1 - both) / n) + 1e-9))
                fail_msg("block %zu: kept %.4f of the time, in neighbouring %s both %.4f", i, p,
                    kind == 0 ? "seeds" : "samples", pairs[kind][i].sum / n);
        }
}

/* Blocks whose norm is beyond the threshold are always kept, and as they are; others are scaled,
 * each by one factor above 1. */
static void large_blocks_are_certain(NO_ROW)
{
    source s = source_make(1, 2);
    static const size_t large[] = {0, 7, 23};
    for (size_t l = 0; l < 3; l++)
        for (size_t e = 0; e < 4; e++)
            s.x[4 * large[l] + e] *= 1e9f; /* more than any 1 / u */
    test_mat_set(&s.dx, s.x);
    for (uint64_t seed = 0; seed < 40; seed++) {
        float *y = source_draw(&s, seed);
        size_t scaled = 0;
        for (size_t i = 0; i < BLOCKS; i++) {
            const float *got = y + 4 * i, *want = s.x + 4 * i;
            const double factor = (double)got[0] / (double)want[0];
            if (i == large[0] || i == large[1] || i == large[2])
                test_same_floats("block", 1, 4, got, want, "large block %zu", i);
            for (size_t e = 0; e < 4; e++)
                assert_true(fabs((double)got[e] - factor * (double)want[e]) <=
                            rounding * fabs((double)got[e]));
            assert_true(factor == 0 || factor >= 1);
            scaled += factor > 1;
        }
        assert_true(scaled > 0 && scaled <= KEEP - 3);
    }
}

/* ---- special values -------------------------------------------------------------------------- */

enum { ONE_NAN, ONE_MINUS_NAN, ONE_INF, ZEROS, TWO_BLOCKS, MANY_NANS, MANY_INFS, TINY, HUGE_ONES };
enum { SPECIALS = HUGE_ONES + 1 };

static void set_block(float *x, size_t n, size_t i, float value)
{
    for (size_t e = 0; e < 4; e++)
        x[n * SIZE + 4 * i + e] = value;
}

static void fill_specials(float *x)
{
    x[ONE_NAN * SIZE + 4 * 13 + 2] = NAN;
    x[ONE_MINUS_NAN * SIZE + 4 * 23 + 3] = -NAN;
    x[ONE_INF * SIZE + 4 * 5] = -INFINITY;
    for (size_t i = 0; i < BLOCKS; i++) {
        set_block(x, ZEROS, i, 0);
        set_block(x, TWO_BLOCKS, i, i == 11 || i == 17 ? -3.5f : -0.0f);
        if (i % 2 == 0) {
            set_block(x, MANY_NANS, i, NAN);
            x[MANY_INFS * SIZE + 4 * i + 1] = INFINITY;
        }
    }
    for (size_t e = 0; e < SIZE; e++) {
        x[TINY * SIZE + e] *= 1e-38f;
        x[HUGE_ONES * SIZE + e] *= 1e30f;
    }
}

/* Where NaN and Inf are beyond what x has, and how many blocks are not all zero. */
static size_t check_special(size_t n, const float *x, const float *y)
{
    size_t blocks = 0;
    for (size_t i = 0; i < SIZE; i += 4) {
        bool some = false;
        for (size_t e = i; e < i + 4; e++) {
            const bool odd = !isfinite(y[e]);
            if (odd && !(isnan(x[e]) ? isnan(y[e]) : x[e] == y[e]))
                fail_msg("special case %zu, element %zu: %g becomes %g", n, e, (double)x[e],
                    (double)y[e]);
            some = some || odd || y[e] != 0;
        }
        blocks += some;
    }
    return blocks;
}

static void special_values(NO_ROW)
{
    const clprune_bsr_desc d = {SPECIALS, ROWS, COLS, block, KEEP};
    float *x = test_new_uniform(82, 1, 2, SPECIALS * SIZE);
    fill_specials(x);
    test_mat dx = test_mat_make(SPECIALS * ROWS, COLS, 0, x);
    for (uint64_t seed = 0; seed < 60; seed++) {
        const clprune_norm norm = (clprune_norm)(seed % 3);
        float *y = test_drawn(d, norm, CLPRUNE_CRITERION_SAMPLED, seed, &dx);
        for (size_t n = 0; n < SPECIALS; n++) {
            const size_t blocks = check_special(n, x + n * SIZE, y + n * SIZE);
            if (n != TINY) /* where denormal numbers may be zero */
                assert_int_equal(blocks, n == ZEROS ? 0 : n == TWO_BLOCKS ? 2 : KEEP);
        }
        /* The certain ones are kept, with all their bits. */
        static const size_t certain[][2] = {
            {ONE_NAN, 13}, {ONE_MINUS_NAN, 23}, {ONE_INF, 5}, {TWO_BLOCKS, 11}, {TWO_BLOCKS, 17}};
        for (size_t c = 0; c < COUNT_OF(certain); c++)
            for (size_t e = 0; e < 4; e++) {
                const size_t at = certain[c][0] * SIZE + 4 * certain[c][1] + e;
                assert_true(isnan(x[at]) ? isnan(y[at]) : x[at] == y[at]);
            }
        /* More NaN than blocks: the first ones. More Inf: as they are, in the same order. */
        for (size_t i = 0; i < BLOCKS; i++) {
            assert_true(isnan(y[MANY_NANS * SIZE + 4 * i]) == (i % 2 == 0 && i < 2 * KEEP));
            assert_true(isinf(y[MANY_INFS * SIZE + 4 * i + 1]) == (i % 2 == 0 && i < 2 * KEEP));
            if (i % 2 == 0 && i < 2 * KEEP)
                assert_true(y[MANY_INFS * SIZE + 4 * i] == x[MANY_INFS * SIZE + 4 * i]);
        }
    }
}

/* Whether y is `want` * 2^shift, or the largest float where that is beyond. */
static bool is_shifted(float y, float want, int shift)
{
    const double exact = ldexp((double)want, shift);
    return fabs(exact) <= (double)FLT_MAX ? (double)y == exact : y == copysignf(FLT_MAX, want);
}

/* Priorities of large blocks do not overflow: the same blocks are drawn as of smaller values. */
static void large_values(NO_ROW)
{
    source s = source_make(2, 3);
    static const int shifts[] = {99, 100, 101, 120, 127, 128};
    float *x = test_floats(2 * SIZE);
    for (uint64_t seed = 0; seed < 30; seed++) {
        const clprune_criterion criterion =
            seed % 3 == 0 ? CLPRUNE_CRITERION_RANDOM : CLPRUNE_CRITERION_SAMPLED;
        float *y[2];
        const int shift = shifts[seed % 6];
        for (int large = 0; large < 2; large++) {
            for (size_t i = 0; i < 2 * SIZE; i++)
                x[i] = ldexpf(s.x[i % SIZE] / 4, large ? shift : 0);
            test_mat_set(&s.dx, x);
            y[large] = test_drawn(s.desc, CLPRUNE_NORM_MAX, criterion, seed, &s.dx);
        }
        for (size_t i = 0; i < 2 * SIZE; i++)
            if (!is_shifted(y[1][i], y[0][i], shift))
                fail_msg("seed %llu, element %zu: %g at 2^0 and %g at 2^%d",
                    (unsigned long long)seed, i, (double)y[0][i], (double)y[1][i], shift);
    }
}

/* Finite values stay finite with each norm, criterion and value type, up to the largest float. */
static void stay_finite(void **state)
{
    const clprune_value_type type = *(const clprune_value_type *)*state;
    const clprune_bsr_desc d = {2, ROWS, COLS, block, 2, type};
    float *x = test_new_uniform(83, 0.97f, 1.0f, 2 * SIZE);
    for (size_t i = 0; i < 2 * SIZE; i++)
        x[i] *= (i % 3 == 0 ? -1.0f : 1.0f) * (i < SIZE ? 2e37f : 3.3e38f);
    test_mat dx = test_mat_make(2 * ROWS, COLS, 0, x);
    for (uint64_t seed = 0; seed < 12; seed++) {
        const clprune_norm norm = (clprune_norm)(seed % 3);
        const clprune_criterion criterion =
            seed % 2 == 0 ? CLPRUNE_CRITERION_SAMPLED : CLPRUNE_CRITERION_RANDOM;
        float *y = test_drawn(d, norm, criterion, seed, &dx);
        for (size_t i = 0; i < 2 * SIZE; i++)
            if (!isfinite(y[i]) ||
                (type != CLPRUNE_VALUES_FP16 && y[i] != 0 && fabsf(y[i]) < 0.85f * fabsf(x[i])))
                fail_msg("seed %llu, element %zu: %g becomes %g", (unsigned long long)seed, i,
                    (double)x[i], (double)y[i]);
    }
}

/* x upon the values, or upon an index: refused, and nothing is written. */
static void overlaps(NO_ROW)
{
    const clprune_bsr_desc d = {1, ROWS, COLS, block, KEEP};
    test_bsr bsr = test_bsr_make(d);
    test_buf both = test_buf_make(2 * SIZE * sizeof(float), NULL);
    for (int part = 0; part < 3; part++) {
        clprune_bsr on = bsr.bsr;
        *(part == 0 ? &on.values : part == 1 ? &on.crow : &on.col) = both.buffer;
        TEST_FAILS(clprune_prune(test_context(), CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED, 1,
                       clprune_mat_of(both.buffer, ROWS, COLS), &on, NULL),
            CLPRUNE_INVALID_ARGUMENT, "overlaps");
        test_buf_unchanged(&both, "the common buffer");
        test_buf_unchanged(&bsr.values, "values");
    }
}

/* ---- saved activations and layers ------------------------------------------------------------ */

static clprune_keep keep_of(clprune_criterion criterion)
{
    return (clprune_keep){.form = CLPRUNE_FORM_PRUNED,
        .sparsity = 0.6f,
        .block = block,
        .norm = CLPRUNE_NORM_L1,
        .criterion = criterion};
}

/* What a store keeps has the bits of clprune_prune. */
static void check_saved(const clprune_saved *saved, const test_mat *x, clprune_criterion criterion,
    uint64_t seed, const char *name)
{
    const clprune_bsr got = clprune_saved_bsr(saved, 0, 2);
    test_same_floats("kept", 2 * ROWS, COLS, test_unpacked(&got),
        test_drawn(got.desc, CLPRUNE_NORM_L1, criterion, seed, x), "%s", name);
}

static void saved_activations(NO_ROW)
{
    const clprune_criterion sampled = CLPRUNE_CRITERION_SAMPLED,
                            largest = CLPRUNE_CRITERION_LARGEST;
    source s = source_make(2, 3);
    static const uint64_t drawn[] = {0, 7, UINT64_C(1) << 40, 7};
    clprune_saved *saved = test_new_saved(test_context(), keep_of(sampled), 2, ROWS, COLS);
    for (size_t i = 0; i < COUNT_OF(drawn); i++) {
        if (i > 0)
            clprune_saved_set_seed(saved, drawn[i]);
        for (int twice = 0; twice < 2; twice++) { /* a seed stays */
            TEST_OK(clprune_saved_store(saved, 0, 2, s.dx.mat, NULL));
            check_saved(saved, &s.dx, sampled, drawn[i], "sampled");
        }
    }
    saved = test_new_saved(test_context(), keep_of(largest), 2, ROWS, COLS);
    clprune_saved_set_seed(saved, 7);
    TEST_OK(clprune_saved_store(saved, 0, 2, s.dx.mat, NULL));
    check_saved(saved, &s.dx, largest, 0, "largest");
    clprune_saved_set_seed(NULL, 7);
    check_parts(keep_of(sampled), 3, ROWS, COLS, "sampled");
}

/* A layer hands its criterion to what it saves. */
static void layers(NO_ROW)
{
    enum { OUT = 5, SEED = 99 };
    static const clprune_criterion criteria[] = {
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_CRITERION_SAMPLED};
    source s = source_make(2, 3);
    for (size_t c = 0; c < COUNT_OF(criteria); c++)
        for (int rows = 0; rows < 2; rows++) { /* along features, and along rows */
            const clprune_linear_desc d = {rows ? ROWS : COLS, OUT,
                rows ? CLPRUNE_AXIS_ROWS : CLPRUNE_AXIS_FEATURES, keep_of(criteria[c])};
            clprune_linear *linear = test_new_linear(test_context(), d);
            test_mat w = test_mat_make(OUT, d.in, 0, NULL);
            test_mat y = test_mat_make(2 * (rows ? OUT : ROWS), rows ? COLS : OUT, 0, NULL);
            clprune_saved *saved =
                test_new_linear_saved(test_context(), linear, 2, rows ? COLS : ROWS);
            clprune_saved_set_seed(saved, SEED);
            TEST_OK(clprune_linear_forward(
                linear, 2, s.dx.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
            check_saved(saved, &s.dx, criteria[c], SEED, rows ? "linear along rows" : "linear");
        }
}

/* Argument: "full" for the full list of shapes. */
int main(int argc, char **argv)
{
    static const float spreads[] = {1, 3, 100};
    static const clprune_value_type types[] = {CLPRUNE_VALUES_FP32, CLPRUNE_VALUES_FP16,
        CLPRUNE_VALUES_BF16, CLPRUNE_VALUES_INT8, CLPRUNE_VALUES_INT4};
    const bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    test_list list = {0};
    if (!full) {
        test_add(&list, same_on_every_device, NULL, "the same draws on every device");
        test_add(&list, equal_priorities, NULL, "equal priorities");
        test_add(&list, seeds, NULL, "seeds");
        for (size_t i = 0; i < COUNT_OF(spreads) && !test_small(); i++)
            test_add(&list, unbiased, &spreads[i], "unbiased, norms 1 to %g", (double)spreads[i]);
        test_add(&list, large_blocks_are_certain, NULL, "large blocks are certain");
        test_add(&list, special_values, NULL, "NaN, Inf and zero");
        test_add(&list, large_values, NULL, "large values");
        for (size_t i = 0; i < COUNT_OF(types); i++)
            test_add(&list, stay_finite, &types[i], "finite values stay finite, type %zu", i);
        test_add(&list, overlaps, NULL, "x upon the result");
        test_add(&list, saved_activations, NULL, "saved activations");
        test_add(&list, layers, NULL, "layers");
    }
    test_add_shapes(&list, whole, full, "sampled");
    return test_run_on_devices("prune sampled", &list);
}
