/* Optimizers whose state is 8-bit codes: levels, codes and scales against the reference, means of
 * many steps, steps, windows, small parameters, checkpoints, NaN, repeatability. */
#include <assert.h>
#include <float.h>

#include "ref/moment_code_ref.h"
#include "ref/optimizer_ref.h"
#include "support/test_layer.h"

/* Codes and scales of a slot of parameter 0. */
typedef struct coded {
    size_t count, blocks;
    unsigned char *codes;
    float *scales;
} coded;

static clprune_optimizer_desc desc_of(clprune_optimizer_kind kind)
{
    clprune_optimizer_desc desc = test_optimizer_desc(kind);
    desc.state_bits = 8;
    return desc;
}

static coded coded_read(const clprune_optimizer *optimizer, size_t param, size_t slot, size_t count)
{
    clprune_mat words, scales;
    clprune_optimizer_codes(optimizer, param, slot, &words, &scales);
    coded c = {.count = count, .blocks = (count + MOMENT_BLOCK - 1) / MOMENT_BLOCK};
    assert_true(words.rows == 1 && words.cols == (count + 3) / 4);
    assert_true(scales.rows == 1 && scales.cols == c.blocks);
    assert_null(clprune_optimizer_state(optimizer, param, slot).buffer);
    c.codes = test_alloc(words.cols * sizeof(float));
    c.scales = test_alloc(c.blocks * sizeof(float));
    TEST_OK(clprune_mat_read(test_context(), words, (float *)(void *)c.codes));
    TEST_OK(clprune_mat_read(test_context(), scales, c.scales));
    return c;
}

static void coded_write(
    const clprune_optimizer *optimizer, size_t param, size_t slot, const coded *c)
{
    clprune_mat words, scales;
    clprune_optimizer_codes(optimizer, param, slot, &words, &scales);
    TEST_OK(clprune_mat_write(test_context(), words, (const float *)(const void *)c->codes));
    TEST_OK(clprune_mat_write(test_context(), scales, c->scales));
}

static void coded_same(const char *what, const coded *a, const coded *b)
{
    test_same_bytes(what, a->count, a->codes, b->codes, "codes");
    test_same_floats(what, 1, a->blocks, a->scales, b->scales, "scales");
}

static double *coded_values(const coded *c, const double levels[MOMENT_CODES])
{
    double *values = test_doubles(c->count);
    for (size_t i = 0; i < c->count; i++)
        values[i] = levels[c->codes[i]] * (double)c->scales[i / MOMENT_BLOCK];
    return values;
}

/* The largest relative error of fp32 arithmetic in levels and moments. */
#define SLACK 4e-5

/* Each block has the scale of its largest value, and each value a level beside it; a positive
 * second moment is at least the first level. */
static void coded_check(const char *what, const coded *c, const double *want, bool has_sign)
{
    double levels[MOMENT_CODES];
    moment_levels(has_sign, levels);
    for (size_t first = 0; first < c->count; first += MOMENT_BLOCK) {
        const size_t last = first + MOMENT_BLOCK < c->count ? first + MOMENT_BLOCK : c->count;
        const double scale = (double)c->scales[first / MOMENT_BLOCK];
        double most = 0;
        for (size_t i = first; i < last; i++)
            most = fmax(most, fabs(want[i]));
        if (most > 0 && most < 0x1p-126)
            most = 0x1p-126;
        if (!(fabs(scale - most) <= SLACK * most))
            fail_msg("%s: the scale of block %zu is %g, not %g", what, first / MOMENT_BLOCK, scale,
                most);
        for (size_t i = first; i < last; i++) {
            const double x = scale > 0 ? want[i] / scale : 0, got = levels[c->codes[i]];
            const double gap = 2 * moment_half_gap(levels, fmax(-1, fmin(x, 1)));
            const double bound = gap + SLACK * fmax(fabs(x), gap);
            const bool first_level = !has_sign && x > 0 && x < levels[1];
            if (first_level ? c->codes[i] != 1 : !(fabs(got - x) <= bound))
                fail_msg("%s %zu: %g of scale %g has code %u, level %g", what, i, x, scale,
                    c->codes[i], got);
        }
    }
}

/* Normal numbers of sizes 1 to 10^-decades. */
static float *spread(uint64_t seed, size_t count, float decades)
{
    float *values = test_new_normal(seed, count);
    float *size = test_new_uniform(seed + 1, -decades, 0, count);
    for (size_t i = 0; i < count; i++)
        values[i] *= powf(10, size[i]);
    return values;
}

/* --- Codes --- */

/* A step of SGD with momentum 1 and gradient 0 moves the parameter by each level, exactly scale for
 * 127 and 255, and keeps codes and scales. */
static void signed_levels(NO_ROW)
{
    enum { COUNT = 4096 };
    clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 1, .state_bits = 8};
    float *zeros = test_floats(COUNT);
    test_mat value = test_mat_make(1, COUNT, 0, zeros), grad = test_mat_make(1, COUNT, 0, zeros);
    const clprune_param param = {"w", value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, 1, &param);
    coded c = coded_read(optimizer, 0, 0, COUNT);
    double levels[MOMENT_CODES];
    moment_levels(true, levels);
    for (size_t i = 0; i < COUNT; i++)
        c.codes[i] = i % 256 == 128 ? 0 : (unsigned char)i; /* 128 is -0, which becomes 0 */
    for (size_t b = 0; b < c.blocks; b++)
        c.scales[b] = ldexpf(1, (int)(b * 16) - 126);
    coded_write(optimizer, 0, 0, &c);
    clprune_optimizer_set_steps(optimizer, 1);
    TEST_OK(clprune_optimizer_step(optimizer, 1, NULL));
    double *want = coded_values(&c, levels), *bound = test_doubles(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        want[i] = -want[i];
        bound[i] = c.codes[i] % 128 == 127 ? 0 : 1e-5 * fabs(want[i]) + 0x1p-149;
    }
    layer_check("parameter", &value, want, bound, "levels");
    const coded after = coded_read(optimizer, 0, 0, COUNT);
    coded_same("state", &after, &c);
}

/* Likewise the second moment's: m is 1, v a level, so p moves by 1 / sqrt(v). */
static void unsigned_levels(NO_ROW)
{
    enum { COUNT = 4096 };
    clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW,
        .beta1 = 0.5f,
        .beta2 = 0.5f,
        .eps = 1e-30f,
        .state_bits = 8};
    float *zeros = test_floats(COUNT);
    test_mat value = test_mat_make(1, COUNT, 0, zeros), grad = test_mat_make(1, COUNT, 0, zeros);
    const clprune_param param = {"w", value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, 1, &param);
    coded m = coded_read(optimizer, 0, 0, COUNT), v = coded_read(optimizer, 0, 1, COUNT);
    double levels[MOMENT_CODES], want[COUNT], bound[COUNT];
    moment_levels(false, levels);
    for (size_t i = 0; i < COUNT; i++) {
        m.codes[i] = 127;
        v.codes[i] = i % 256 == 0 ? 255 : (unsigned char)i;
        want[i] = -1 / sqrt(levels[v.codes[i]]);
        bound[i] = 1e-5 * fabs(want[i]);
    }
    for (size_t b = 0; b < m.blocks; b++)
        m.scales[b] = v.scales[b] = 1;
    coded_write(optimizer, 0, 0, &m);
    coded_write(optimizer, 0, 1, &v);
    clprune_optimizer_set_steps(optimizer, 10000);              /* no bias is left to correct */
    TEST_OK(clprune_optimizer_step(optimizer, sqrtf(2), NULL)); /* 0.5 / sqrt(0.5) */
    layer_check("parameter", &value, want, bound, "levels");
    const coded after = coded_read(optimizer, 0, 1, COUNT);
    test_same_bytes("v", COUNT, after.codes, v.codes, "codes");
}

/* The first step of SGD encodes the gradient; one of AdamW with betas 0 it and its square. The
 * error is less than the gap between levels. */
static void encoded(void **state)
{
    const float decades = *(const float *)*state;
    enum { COUNT = 5000 };
    double levels[2][MOMENT_CODES];
    moment_levels(true, levels[0]);
    moment_levels(false, levels[1]);
    float *p = test_new_normal(11, COUNT), *g = spread(12, COUNT, decades);
    for (size_t i = 256; i < 512; i++) /* a block of zeros, and one of moments below 2^-126 */
        g[i] = 0;
    for (size_t i = 512; i < 768; i++)
        g[i] *= 1e-21f;
    g[768] = -10; /* the largest of its block */
    clprune_optimizer_desc descs[2] = {{.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.5f},
        {.kind = CLPRUNE_OPTIMIZER_ADAMW, .beta2 = FLT_MIN}}; /* both 0: defaults */
    for (size_t d = 0; d < 2; d++) {
        descs[d].state_bits = 8;
        test_mat value = test_mat_make(1, COUNT, 0, p), grad = test_mat_make(1, COUNT, 0, g);
        const clprune_param param = {"w", value.mat, grad.mat, true};
        clprune_optimizer *optimizer = test_new_optimizer(test_context(), descs[d], 1, &param);
        TEST_OK(clprune_optimizer_step(optimizer, 0.1f, NULL));
        for (size_t slot = 0; slot < clprune_optimizer_slots(optimizer); slot++) {
            const coded c = coded_read(optimizer, 0, slot, COUNT);
            double *want = layer_widen(COUNT, g), *got = coded_values(&c, levels[slot]);
            for (size_t i = 0; slot == 1 && i < COUNT; i++)
                want[i] = (double)(g[i] * g[i]);
            coded_check("state", &c, want, slot == 0);
            for (size_t i = 0; i < COUNT; i++) {
                const double scale = (double)c.scales[i / MOMENT_BLOCK];
                const double x = scale > 0 ? want[i] / scale : 0;
                const double gap = 2 * moment_half_gap(levels[slot], x);
                const bool lifted = slot == 1 && x > 0 && x < levels[1][1]; /* never 0 */
                const double error = scale > 0 ? fabs(got[i] / scale - x) : fabs(got[i]);
                if (error > (lifted ? 2 : 1) * gap + 1e-5 * fmax(fabs(x), gap))
                    fail_msg("element %zu, %g of scale %g: code %u is off by %g", i, x, scale,
                        c.codes[i], error);
            }
            assert_true(c.scales[1] == 0);
            for (size_t i = 256; i < 512; i++)
                assert_int_equal(c.codes[i], 0);
            assert_true(c.scales[3] == (slot == 0 ? 10 : 100) &&
                        c.codes[768] == 255); /* the sign and 127, or 255 */
        }
    }
}

/* Moments follow their exact means over many steps, in which each changes by a fraction of the gap
 * between levels: the mean over all elements of their ratio to the exact ones is near 1. */
static void followed(void **state)
{
    const clprune_optimizer_kind kind = ((const clprune_optimizer_info *)*state)->desc.kind;
    enum { COUNT = 8192, STEPS = 600 };
    const float beta = 0.998f;
    const clprune_optimizer_desc desc = {.kind = kind,
        .momentum = beta,
        .beta1 = beta,
        .beta2 = beta,
        .eps = 1e-8f,
        .state_bits = 8};
    test_mat value = test_mat_make(1, COUNT, 0, test_floats(COUNT));
    test_mat grad = test_mat_make(1, COUNT, 0, NULL);
    const clprune_param param = {"w", value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, 1, &param);
    const size_t slots = clprune_optimizer_slots(optimizer);
    double *exact[2] = {test_doubles(COUNT), test_doubles(COUNT)};
    const double rest = kind == CLPRUNE_OPTIMIZER_SGD ? 1 : 1 - (double)beta;
    for (uint64_t t = 0; t < STEPS; t++) {
        float *g = test_new_normal(90 + t, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            g[i] += 2; /* the mean is not 0 */
        test_mat_set(&grad, g);
        TEST_OK(clprune_optimizer_step(optimizer, 0, NULL));
        for (size_t i = 0; i < COUNT; i++) {
            const double x = (double)g[i];
            exact[0][i] = (double)beta * exact[0][i] + rest * x;
            exact[1][i] = (double)beta * exact[1][i] + rest * x * x;
        }
    }
    for (size_t slot = 0; slot < slots; slot++) {
        double levels[MOMENT_CODES], ratio = 0;
        moment_levels(slot == 0, levels);
        const coded c = coded_read(optimizer, 0, slot, COUNT);
        const double *got = coded_values(&c, levels);
        for (size_t i = 0; i < COUNT; i++)
            ratio += got[i] / exact[slot][i] / COUNT;
        if (!(fabs(ratio - 1) < 0.002))
            fail_msg("slot %zu is %g of its exact mean", slot, ratio);
    }
}

/* --- Steps --- */

typedef struct step_case {
    clprune_optimizer_info of;
    size_t rows, cols, gap;
} step_case;

/* Each of four steps against the reference, from the parameters, codes and scales before it. */
static void steps(void **state)
{
    const step_case *s = *state;
    clprune_context *context = test_context();
    const size_t count = s->rows * s->cols;
    const clprune_optimizer_desc desc = desc_of(s->of.desc.kind);
    double levels[2][MOMENT_CODES];
    const size_t slots = strlen(s->of.slots);
    moment_levels(true, levels[0]);
    moment_levels(false, levels[1]);
    float *p = test_new_normal(21, count);
    test_mat value = test_mat_make(s->rows, s->cols, s->gap, p);
    test_mat again = test_mat_make(s->rows, s->cols, 0, p);
    test_mat grad = test_mat_make(s->rows, s->cols, s->gap, p);
    clprune_param param = {"w", value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(context, desc, 1, &param);
    param.value = again.mat;
    clprune_optimizer *twin = test_new_optimizer(context, desc, 1, &param);
    assert_int_equal(clprune_optimizer_slots(optimizer), slots);
    for (uint64_t t = 1; t <= 4; t++) {
        float *g = spread(30 + t, count, 3), *before = test_mat_get(&value, "parameter");
        test_mat_set(&grad, g);
        optimizer_ref ref = optimizer_ref_make(count, g, before, NULL, NULL);
        double *moments[2] = {NULL, NULL};
        for (size_t slot = 0; slot < slots; slot++) {
            const coded c = coded_read(optimizer, 0, slot, count);
            moments[slot] = coded_values(&c, levels[slot]);
        }
        if (s->of.slots[0] == 'm')
            ref.m = moments[0];
        if (s->of.slots[slots - 1] == 'v')
            ref.v = moments[slots - 1];
        optimizer_ref_step(&desc, t, 0.05, true, &ref);
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
        TEST_OK(clprune_optimizer_step(twin, 0.05f, NULL));
        for (size_t i = 0; i < count; i++) /* levels are good to 1e-5 */
            ref.p_bound[i] *= 200;
        layer_check("parameter", &value, ref.p, ref.p_bound, "8 bits");
        layer_same("parameter", &value, &again);
        for (size_t slot = 0; slot < slots; slot++) {
            const coded c = coded_read(optimizer, 0, slot, count);
            const coded other = coded_read(twin, 0, slot, count);
            coded_check(slot == 0 ? "m" : "v", &c, moments[slot], slot == 0);
            coded_same("state", &c, &other);
        }
    }
}

/* A parameter of fewer than 4096 elements, beside a large one in the same buffers, keeps fp32 and
 * has the bits of the plain optimizer. */
static void small_parameters(void **state)
{
    const clprune_optimizer_kind kind = ((const clprune_optimizer_info *)*state)->desc.kind;
    clprune_context *context = test_context();
    enum { ROWS = 137, COLS = 40, SMALL = CLPRUNE_OPTIMIZER_CODED_LEAST - 1 };
    clprune_optimizer_desc desc = desc_of(kind);
    float *p = test_new_normal(41, ROWS * COLS + SMALL), *g = spread(42, ROWS * COLS + SMALL, 2);
    float *got[2];
    for (int run = 0; run < 2; run++) {
        test_mat value = test_mat_make(1, ROWS * COLS + SMALL, 0, p);
        test_mat grad = test_mat_make(1, ROWS * COLS + SMALL, 0, g);
        clprune_param params[2];
        for (size_t i = 0; i < 2; i++) {
            clprune_mat mats[2] = {value.mat, grad.mat};
            for (size_t k = 0; k < 2; k++) {
                mats[k].offset += i * SMALL;
                mats[k].rows = i == 0 ? 1 : ROWS;
                mats[k].cols = mats[k].ld = i == 0 ? SMALL : COLS;
            }
            params[i] = (clprune_param){"w", mats[0], mats[1], true};
        }
        desc.state_bits = run == 0 ? 8 : 32;
        clprune_optimizer *optimizer = test_new_optimizer(context, desc, 2, params);
        clprune_mat codes, scales;
        clprune_optimizer_codes(optimizer, 0, 0, &codes, &scales);
        assert_true(codes.buffer == NULL && scales.buffer == NULL);
        assert_non_null(clprune_optimizer_state(optimizer, 0, 0).buffer);
        clprune_optimizer_codes(optimizer, 1, 0, &codes, NULL);
        assert_int_equal(codes.buffer != NULL, run == 0);
        assert_int_equal(clprune_optimizer_state(optimizer, 1, 0).buffer != NULL, run == 1);
        for (uint64_t t = 0; t < 3; t++) {
            TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
            test_mat_set(&grad, spread(44 + t, ROWS * COLS + SMALL, 2));
        }
        got[run] = test_mat_get(&value, "parameters");
    }
    test_same_floats("small parameter", 1, SMALL, got[0], got[1], "beside a large one");
    assert_true(memcmp(got[0] + SMALL, got[1] + SMALL, ROWS * COLS * sizeof(float)) != 0);
}

/* Four steps have the bits of two steps, copies of codes and scales, and two steps of another
 * optimizer. */
static void checkpoint(void **state)
{
    const clprune_optimizer_kind kind = ((const clprune_optimizer_info *)*state)->desc.kind;
    clprune_context *context = test_context();
    enum { COUNT = 4999 };
    const clprune_optimizer_desc desc = desc_of(kind);
    float *p = test_new_normal(51, COUNT);
    test_mat whole = test_mat_make(1, COUNT, 0, p), parts = test_mat_make(1, COUNT, 0, p);
    test_mat grad = test_mat_make(1, COUNT, 0, p);
    clprune_param param = {"w", whole.mat, grad.mat, true};
    clprune_optimizer *one = test_new_optimizer(context, desc, 1, &param);
    param.value = parts.mat;
    clprune_optimizer *two = test_new_optimizer(context, desc, 1, &param),
                      *three = test_new_optimizer(context, desc, 1, &param);
    for (uint64_t t = 0; t < 4; t++) {
        float *g = spread(60 + t, COUNT, 3);
        test_mat_set(&grad, g);
        TEST_OK(clprune_optimizer_step(one, 0.05f, NULL));
        TEST_OK(clprune_optimizer_step(t < 2 ? two : three, 0.05f, NULL));
        for (size_t slot = 0; t == 1 && slot < clprune_optimizer_slots(two); slot++) {
            const coded c = coded_read(two, 0, slot, COUNT);
            coded_write(three, 0, slot, &c);
            clprune_optimizer_set_steps(three, clprune_optimizer_steps(two));
        }
    }
    layer_same("parameter", &whole, &parts);
    for (size_t slot = 0; slot < clprune_optimizer_slots(one); slot++) {
        const coded a = coded_read(one, 0, slot, COUNT), b = coded_read(three, 0, slot, COUNT);
        coded_same("state", &a, &b);
    }
}

/* A gradient that is not finite makes its block NaN in the next step, and no other one. */
static void not_finite(void **state)
{
    const clprune_optimizer_kind kind = ((const clprune_optimizer_info *)*state)->desc.kind;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    enum { COUNT = 4096 };
    for (size_t k = 0; k < COUNT_OF(values); k++) {
        float *p = test_new_normal(71, COUNT), *g = test_new_normal(72, COUNT);
        g[300] = values[k];
        test_mat value = test_mat_make(1, COUNT, 0, p), grad = test_mat_make(1, COUNT, 0, g);
        const clprune_param param = {"w", value.mat, grad.mat, true};
        clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc_of(kind), 1, &param);
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
        float *after = test_mat_get(&value, "parameter");
        for (size_t i = 0; i < COUNT; i++)
            assert_true(i == 300 || isfinite(after[i]));
        for (size_t slot = 0; slot < clprune_optimizer_slots(optimizer); slot++) {
            const coded c = coded_read(optimizer, 0, slot, COUNT);
            for (size_t b = 0; b < c.blocks; b++)
                assert_int_equal(isnan(c.scales[b]) != 0, b == 1);
        }
        TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
        after = test_mat_get(&value, "parameter");
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(isfinite(after[i]) != 0, i / MOMENT_BLOCK != 1);
    }
}

/* --- Memory and arguments --- */

/* 4 * (ceil(n / 4) + ceil(n / 256)) bytes a slot. */
static void ledger(NO_ROW)
{
    clprune_context *context = test_context();
    enum { COUNT = 5001, TABLE = 11 * sizeof(cl_ulong) };
    static const clprune_optimizer_kind kinds[] = {CLPRUNE_OPTIMIZER_SGD, CLPRUNE_OPTIMIZER_ADAMW};
    test_mat value = test_mat_make(1, COUNT, 0, NULL), grad = test_mat_make(1, COUNT, 0, NULL);
    const clprune_param param = {"w", value.mat, grad.mat, true};
    for (size_t k = 0; k < 2; k++) {
        clprune_optimizer *optimizer = test_new_optimizer(context, desc_of(kinds[k]), 1, &param);
        assert_int_equal(
            test_live(context, CLPRUNE_MEMORY_OPTIMIZER), (k + 1) * 4 * (1251 + 20) + TABLE);
        test_end(optimizer);
    }
    clprune_optimizer_desc bare = desc_of(CLPRUNE_OPTIMIZER_SGD);
    bare.momentum = 0; /* no state */
    clprune_optimizer *optimizer = test_new_optimizer(context, bare, 1, &param);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_OPTIMIZER), TABLE);
    assert_int_equal(clprune_optimizer_slots(optimizer), 0);
    TEST_OK(clprune_optimizer_step(optimizer, 0.05f, NULL));
}

static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    clprune_optimizer *optimizer = NULL;
    clprune_optimizer_desc desc = desc_of(CLPRUNE_OPTIMIZER_LAMB);
    TEST_FAILS(clprune_optimizer_create(context, &desc, 0, NULL, &optimizer),
        CLPRUNE_INVALID_ARGUMENT, "state_bits is 8, expected 0 or 32 for lamb");
    static const unsigned bad[] = {1, 4, 16, 31, 64};
    desc.kind = CLPRUNE_OPTIMIZER_ADAMW;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        desc.state_bits = bad[i];
        TEST_FAILS(clprune_optimizer_create(context, &desc, 0, NULL, &optimizer),
            CLPRUNE_INVALID_ARGUMENT, "state_bits");
    }
    assert_null(optimizer);
    clprune_mat codes = clprune_mat_of((cl_mem)&desc, 1, 1), scales = codes;
    clprune_optimizer_codes(NULL, 0, 0, &codes, &scales);
    assert_true(codes.buffer == NULL && scales.buffer == NULL);
    clprune_optimizer_codes(NULL, 0, 0, NULL, NULL);
}

int main(void)
{
    static const size_t shapes[][3] = {{1, 4096, 0}, {1, 4097, 0}, {1, 4351, 0}, {64, 65, 3},
        {3, 1371, 1}, {5000, 1, 2}, {1, 16385, 0}, {130, 131, 0}, {1, 50001, 0}};
    static const float decades[] = {0, 4, 9};
    static step_case cases[16 * COUNT_OF(shapes)];
    size_t count = 0;
    test_list list = {0};
    test_add(&list, signed_levels, NULL, "levels with a sign");
    test_add(&list, unsigned_levels, NULL, "levels without a sign");
    for (size_t i = 0; i < COUNT_OF(decades); i++)
        test_add(&list, encoded, &decades[i], "codes of %g decades", (double)decades[i]);
    for (size_t k = 0; clprune_optimizer_describe(k).name != NULL; k++) {
        const clprune_optimizer_info of = clprune_optimizer_describe(k);
        for (size_t i = 0; of.desc.state_bits == 8 && i < COUNT_OF(shapes); i++) {
            assert(count < COUNT_OF(cases));
            cases[count] = (step_case){of, shapes[i][0], shapes[i][1], shapes[i][2]};
            test_add(&list, steps, &cases[count++], "%s, %zu x %zu, gaps of %zu", of.name,
                shapes[i][0], shapes[i][1], shapes[i][2]);
        }
    }
    test_add_optimizers(&list, 8, followed, "means of many steps");
    test_add_optimizers(&list, 8, small_parameters, "small parameters");
    test_add_optimizers(&list, 8, checkpoint, "checkpoint");
    test_add_optimizers(&list, 8, not_finite, "gradients that are not finite");
    test_add(&list, ledger, NULL, "bytes in the ledger");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("optimizer codes", &list);
}
