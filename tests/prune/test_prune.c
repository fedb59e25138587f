/* Pruning: scores, selection, and both together with packing.
 *
 * Each sample keeps exactly `keep` blocks, in a total order that covers NaN, Inf and ties. The same
 * input gives the same bits twice. */
#include <float.h>

#include "ops/prune/prune_private.h"
#include "ref/prune_ref.h"
#include "support/test_index.h"
#include "support/test_shapes.h"

static const char *const norm_names[] = {"l2", "l1", "max"};

/* Whether the device may take denormal numbers as zero. */
static bool flushes_denormals(void)
{
    cl_device_fp_config config = 0;
    TEST_CL(clGetDeviceInfo(clprune_context_device(test_context()), CL_DEVICE_SINGLE_FP_CONFIG,
        sizeof config, &config, NULL));
    return (config & CL_FP_DENORM) == 0;
}

/* The scores of x by the library. */
static float *scores_of(clprune_norm norm, const clprune_bsr_desc *d, const test_mat *x)
{
    test_buf scores = test_buf_make(d->batch * bsr_ref_of(*d).blocks * sizeof(float), NULL);
    clprune_bsr_sizes sizes;
    TEST_OK(clprune_bsr_size_query(d, &sizes));
    TEST_EVENT(clprune__prune_score(test_context(), norm, d, &sizes, x->mat, NULL,
        (clprune__region){scores.buffer, 0, sizeof(float)}, &event));
    return test_buf_get(&scores, "scores");
}

/* The mask of what the library selects; a new array. */
static unsigned char *selection_of(size_t batch, size_t blocks, size_t keep, const float *scores)
{
    test_buf in = test_buf_make(batch * blocks * sizeof *scores, scores);
    test_buf out = test_buf_make(batch * blocks, NULL);
    TEST_OK(clprune__prune_select(test_context(), batch, blocks, keep,
        (clprune__region){in.buffer, 0, sizeof(float)}, (clprune__region){out.buffer, 0, 1},
        (clprune__region){0}, NULL));
    test_buf_unchanged(&in, "scores");
    return test_buf_get(&out, "mask");
}

/* Scores of x against the reference: n roundings in a sum of n terms, and a few units for square
 * root and scaling. */
static void check_scores(
    clprune_norm norm, const clprune_bsr_desc *d, const float *x, const char *name)
{
    const size_t blocks = bsr_ref_of(*d).blocks, count = d->batch * blocks;
    double *want = prune_ref_scores(
        (prune_ref_norm)norm, d->batch, d->rows, d->cols, d->block.rows, d->block.cols, x);
    double *bound = test_doubles(count);
    const double terms = (double)(d->block.rows * d->block.cols);
    for (size_t i = 0; i < count; i++) {
        if (isfinite(want[i]))
            want[i] = fmin(want[i], FLT_MAX);
        bound[i] = norm == CLPRUNE_NORM_MAX ? 0 : (terms / 2 + 6) * 0x1p-24 * want[i] + 0x1p-149;
        if (flushes_denormals())
            bound[i] += terms * (double)FLT_MIN;
    }
    test_mat dx = test_mat_make(d->batch * d->rows, d->cols, 2, x);
    test_close("scores", d->batch, blocks, scores_of(norm, d, &dx), want, bound, "%s, %s",
        norm_names[norm], name);
    test_mat_unchanged(&dx, "x");
}

/* The same for each norm. */
static void check_norms(const clprune_bsr_desc *d, const float *x, const char *name)
{
    for (int norm = 0; norm < 3; norm++)
        check_scores((clprune_norm)norm, d, x, name);
}

static void scores(void **state)
{
    const test_shape *shape = *state;
    const clprune_bsr_desc *d = &shape->desc;
    float *x = test_new_normal(31, d->batch * d->rows * d->cols);
    if (d->block.rows * d->block.cols == 16 || d->block.cols == 7)
        check_norms(d, x, shape->name);
    else
        check_scores(CLPRUNE_NORM_L2, d, x, shape->name);
}

/* Blocks at every magnitude, each beside the others. */
static void scores_of_extremes(NO_ROW)
{
    static const float specials[] = {1e30f, 1e-30f, 1e38f, 1e-40f, FLT_TRUE_MIN, FLT_MIN, FLT_MAX,
        NAN, -NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 1.0f, 3e18f, 2e-19f, 4e-23f, 1e-15f};
    enum { COUNT = COUNT_OF(specials), COLS = 4 * 17 };
    static const clprune_block blocks[] = {{1, 16}, {1, 8}, {1, 4}, {3, 7}, {1, 1}};
    for (size_t b = 0; b < COUNT_OF(blocks); b++) {
        const clprune_bsr_desc d = {COUNT, 6, COLS, blocks[b], 0};
        float *x = test_new_uniform(32, 0.5f, 1.0f, COUNT * 6 * COLS);
        test_rng rng = {33};
        for (size_t i = 0; i < COUNT * 6 * COLS; i++) {
            const float special = specials[i / (6 * COLS)];
            const size_t kind = i / COLS % 6;
            if (kind < 2) /* rows full of it, or with it once in a while */
                x[i] *= special;
            else if (kind < 4)
                x[i] = test_rng_below(&rng, 5) == 0 ? special : kind == 2 ? 0.0f : x[i];
            else /* rows of all of them mixed */
                x[i] = specials[test_rng_below(&rng, COUNT)];
        }
        check_norms(&d, x, "extreme values");
    }
}

/* Kernels take some blocks of a row at once, and the rest one by one. */
static void scores_of_long_rows(NO_ROW)
{
    static const size_t widths[] = {1, 2, 4, 8, 12, 16, 32, 48, 64};
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        const clprune_bsr_desc d = {2, 3, 21 * widths[i] + widths[i] / 2, {1, widths[i]}, 0};
        check_norms(&d, test_new_uniform(35 + i, -1, 1, d.batch * d.rows * d.cols), "long rows");
    }
}

/* "A block of 1e30 scores 1e30 * sqrt(b)", and is not equal to one of 2e30. */
static void large_blocks_stay_ordered(NO_ROW)
{
    const clprune_bsr_desc d = {1, 4, 16, {1, 16}, 2};
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float[]){1e30f, 3e30f, 2e30f, 1e-30f}[i / 16];
    test_mat dx = test_mat_make(4, 16, 0, x);
    float *got = scores_of(CLPRUNE_NORM_L2, &d, &dx);
    unsigned char *kept = selection_of(1, 4, 2, got);
    static const double want[] = {4e30, 12e30, 8e30, 4e-30};
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)got[i] - want[i]) <= 1e-6 * want[i]);
    test_same_bytes("mask", 4, kept, (const unsigned char[]){0, 1, 1, 0}, "keep 2");
}

/* Runs the selection and compares it, mask bit for mask bit, with the reference. */
static void check_select(
    size_t batch, size_t blocks, size_t keep, const float *scores, const char *name)
{
    unsigned char *want = test_alloc(batch * blocks + 1);
    unsigned char *got = selection_of(batch, blocks, keep, scores);
    for (size_t n = 0; n < batch; n++) {
        size_t marked = 0;
        prune_ref_select(blocks, keep, scores + n * blocks, want + n * blocks);
        for (size_t i = 0; i < blocks; i++)
            marked += got[n * blocks + i];
        if (marked != keep)
            fail_msg("%s: sample %zu keeps %zu of %zu blocks, expected %zu", name, n, marked,
                blocks, keep);
    }
    test_same_bytes("mask", batch * blocks, got, want, "%s: %zu x %zu blocks, keep %zu", name,
        batch, blocks, keep);
}

static void select_order(NO_ROW)
{
    uint32_t bits[] = {0xff800000, 0xbf800000, 0x80000001, 0x80000000, 0x00000000, 0x00000001,
        0x3f800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff};
    enum { COUNT = COUNT_OF(bits) };
    float rising[COUNT], falling[COUNT];
    memcpy(rising, bits, sizeof bits);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(&falling[i], &bits[COUNT - 1 - i], sizeof falling[i]);
    for (size_t keep = 0; keep <= COUNT; keep++) {
        check_select(1, COUNT, keep, rising, "every kind of score, rising");
        check_select(1, COUNT, keep, falling, "every kind of score, falling");
    }
}

static void select_sizes(NO_ROW)
{
    static const size_t sizes[] = {
        1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4704};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const size_t blocks = sizes[i], batch = blocks > 300 || test_small() ? 2 : 5;
        if (test_small() && blocks % 32 != 1)
            continue;
        const size_t keeps[] = {0, 1, blocks / 2, blocks - 1, blocks};
        float *uniform = test_new_uniform(41 + i, 0, 1, batch * blocks);
        float *equal = test_floats(batch * blocks), *three = test_floats(batch * blocks);
        for (size_t j = 0; j < batch * blocks; j++) {
            equal[j] = 7.5f;
            three[j] = (float)(j % 3);
        }
        for (size_t k = 0; k < COUNT_OF(keeps); k++) {
            check_select(batch, blocks, keeps[k], uniform, "uniform scores");
            check_select(batch, blocks, keeps[k], equal, "equal scores");
            check_select(batch, blocks, keeps[k], three, "three scores");
        }
    }
    check_select(0, 10, 3, NULL, "no samples");
    check_select(3, 0, 0, NULL, "no blocks");
}

/* 10^4 small samples with few different scores, so that ties and special values abound. */
static void select_random(NO_ROW)
{
    static const float pool[] = {0, -0.0f, 1, 1, 2, NAN, -NAN, INFINITY, -INFINITY, -1,
        FLT_TRUE_MIN, FLT_MIN, 1.0000001f, FLT_MAX, 1e-40f, -1e-40f};
    enum { POOL = COUNT_OF(pool) };
    test_rng rng = {51};
    const size_t batch = test_small() ? 10 : 100;
    for (int run = 0; run < (test_small() ? 3 : 100); run++) {
        const size_t blocks = 1 + test_rng_below(&rng, 70);
        const size_t keep = test_rng_below(&rng, blocks + 1);
        const size_t kinds = 1 + test_rng_below(&rng, POOL);
        float *scores = test_new_uniform(test_rng_next(&rng), 0, 1, batch * blocks);
        for (size_t i = 0; i < batch * blocks; i++)
            if (test_rng_below(&rng, 4) != 0)
                scores[i] = pool[test_rng_below(&rng, kinds)];
        check_select(batch, blocks, keep, scores, "random scores with special values");
    }
}

/* The whole gives the result of the library's own scores, selected and packed by the reference. */
static void whole(void **state)
{
    const test_shape *shape = *state;
    const clprune_bsr_desc d = shape->desc;
    bsr_ref ref = bsr_ref_of(d);
    float *x = test_new_normal(61, d.batch * d.rows * d.cols);
    test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 1, x);
    float *by_library = scores_of(CLPRUNE_NORM_L2, &d, &dx);
    unsigned char *mask = test_alloc(d.batch * ref.blocks + 1);
    for (size_t n = 0; n < d.batch; n++)
        prune_ref_select(ref.blocks, d.keep, by_library + n * ref.blocks, mask + n * ref.blocks);
    bsr_ref_pack(&ref, x, mask);
    for (int index = 0; index < TEST_INDEXES; index++) {
        test_bsr bsr = test_pruned(test_with_index(d, test_index_types[index]), CLPRUNE_NORM_L2,
            CLPRUNE_CRITERION_LARGEST, 0, &dx);
        test_same_bsr(&bsr, &ref, test_text("%s, %s", shape->name, test_index_names[index]));
    }
    test_mat_unchanged(&dx, "x");
}

/* Scaling x by a power of two scales all scores alike, so the same blocks are kept. */
static void scale_invariance(NO_ROW)
{
    const clprune_bsr_desc d = {3, 20, 64, {1, 16}, 33};
    enum { COUNT = 3 * 20 * 64 };
    float *x = test_new_normal(71, COUNT), *scaled = test_floats(COUNT);
    int32_t *first = NULL;
    static const float scales[] = {1.0f, 0x1p+90f, 0x1p-60f, 0x1p+20f};
    for (size_t i = 0; i < COUNT_OF(scales); i++) {
        for (size_t j = 0; j < COUNT; j++)
            scaled[j] = x[j] * scales[i];
        test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 0, scaled);
        test_bsr bsr = test_pruned(d, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, &dx);
        int32_t *col = test_buf_get(&bsr.col, "col");
        if (i == 0)
            first = col;
        test_same_ints("col", d.batch * d.keep, col, first, "scale %g", (double)scales[i]);
    }
}

/* A NaN stays visible: its block is kept even if only one is. */
static void nan_is_kept(NO_ROW)
{
    const clprune_bsr_desc d = {2, 5, 40, {1, 8}, 1};
    float *x = test_new_uniform(81, 100, 200, 2 * 5 * 40);
    x[3 * 40 + 17] = NAN;
    x[5 * 40 + 4 * 40 + 39] = -NAN;
    test_mat dx = test_mat_make(10, 40, 0, x);
    for (int norm = 0; norm < 3; norm++) {
        test_bsr bsr = test_pruned(d, (clprune_norm)norm, CLPRUNE_CRITERION_LARGEST, 0, &dx);
        int32_t *col = test_buf_get(&bsr.col, "col"), *crow = test_buf_get(&bsr.crow, "crow");
        test_same_ints("col", 2, col, (const int32_t[]){2, 4}, "%s", norm_names[norm]);
        test_same_ints("crow", 12, crow, (const int32_t[]){0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1},
            "%s", norm_names[norm]);
    }
}

/* Arguments: "full" for the full list of shapes, "select" or "scores" for these alone. */
int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    const bool full = strcmp(part, "full") == 0, select_only = strcmp(part, "select") == 0;
    const bool scores_only = strcmp(part, "scores") == 0, all = !select_only && !scores_only;
    test_list list = {0};
    if (!full && !scores_only) {
        test_add(&list, select_order, NULL, "the order of scores");
        test_add(&list, select_sizes, NULL, "selection at many sizes");
        test_add(&list, select_random, NULL, "selection in 10000 random samples");
    }
    if (!full && !select_only) {
        test_add(&list, scores_of_extremes, NULL, "scores of extreme values");
        test_add(&list, scores_of_long_rows, NULL, "scores of long rows");
    }
    if (!full && all) {
        test_add(&list, large_blocks_stay_ordered, NULL, "blocks of 1e30 stay ordered");
        test_add(&list, scale_invariance, NULL, "selection does not depend on the scale");
        test_add(&list, nan_is_kept, NULL, "a NaN is kept");
    }
    if (!select_only)
        test_add_shapes(&list, scores, full, "scores");
    if (all)
        test_add_shapes(&list, whole, full, "prune");
    return test_run_on_devices("prune", &list);
}
