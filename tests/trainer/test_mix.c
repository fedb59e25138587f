/* --mixup and --cutmix: what an image is mixed with, its share and its box; the images and labels
 * of a batch are those of plain ones, mixed as drawn, whatever the batch. */
#include "support/test_dataset.h"
#include "trainer/data/augment/augment.h"
#include "trainer/data/rng.h"

enum { IMAGES = 24, EPOCHS = 8 };

/* Moments of Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)), fourth central moment 3 / (16 (2 a +
 * 1) (2 a + 3)). */
static void beta(NO_ROW)
{
    static const double alphas[] = {0.001, 0.2, 0.8, 1, 2, 30};
    enum { DRAWS = 100000 };
    for (size_t i = 0; i < COUNT_OF(alphas); i++) {
        const double a = alphas[i], variance = 1 / (4 * (2 * a + 1)),
                     fourth = 3 / (16 * (2 * a + 1) * (2 * a + 3));
        double sums[3] = {0};
        rng r = rng_open(7, RNG_MIX, (uint32_t)i, 0);
        for (size_t k = 0; k < DRAWS; k++) {
            const double x = rng_beta(&r, a);
            assert_true(x >= 0 && x <= 1);
            sums[0] += x / DRAWS;
            sums[1] += (x - 0.5) * (x - 0.5) / DRAWS;
            sums[2] += pow(x - 0.5, 4) / DRAWS;
        }
        assert_near(sums[0], 0.5, 4 * sqrt(variance / DRAWS), "the mean");
        assert_near(sums[1], variance, 4 * sqrt((fourth - variance * variance) / DRAWS) + 1e-9,
            "the variance");
        assert_near(sums[2], fourth, 0.02 * fourth, "the fourth moment");
    }
}

/* Draws: each image may be the other one; a box has what the share lacks; with both options about
 * half of the images have a box. */
static void draws(NO_ROW)
{
    enum { DRAWS = 20000, S = 32 };
    const augment_options kinds[] = {
        {.seed = 3, .mixup = 1}, {.seed = 3, .cutmix = 1}, {.seed = 3, .mixup = 1, .cutmix = 1}};
    for (size_t kind = 0; kind < 3; kind++) {
        size_t boxes = 0, others[IMAGES] = {0};
        double share = 0;
        for (uint32_t i = 0; i < DRAWS; i++) {
            const augment_mix mix = augment_draw_mix(&kinds[kind], i, IMAGES, S);
            const uint32_t area = mix.box.height * mix.box.width;
            assert_true(mix.other < IMAGES && mix.share <= AUGMENT_WHOLE);
            assert_true(mix.box.top + mix.box.height <= S && mix.box.left + mix.box.width <= S);
            others[mix.other]++;
            share += (double)mix.share / AUGMENT_WHOLE / DRAWS;
            boxes += area > 0;
            if (area > 0)
                assert_int_equal(mix.share, AUGMENT_WHOLE - area * (AUGMENT_WHOLE / (S * S)));
            if (kind == 1 && area == 0) /* so small that no pixel is in it */
                assert_int_equal(mix.share, AUGMENT_WHOLE);
        }
        for (size_t k = 0; k < IMAGES; k++)
            assert_near((double)others[k], DRAWS / (double)IMAGES, 130, "images as others");
        if (kind == 0)
            assert_near(share, 0.5, 0.01, "the mean share");
        assert_true(kind == 0 ? boxes == 0 : kind == 1 ? boxes > 0.98 * DRAWS : true);
        if (kind == 2)
            assert_near((double)boxes, DRAWS / 2.0, 400, "images with boxes");
    }
    const augment_options none = {.seed = 3};
    const augment_mix mix = augment_draw_mix(&none, 5, IMAGES, S);
    assert_true(mix.other == 5 && mix.share == AUGMENT_WHOLE && mix.box.height == 0);
}

static void batches(void **state)
{
    const augment_options *kind = *state;
    const dataset_options sizes = {.train_limit = IMAGES, .test_limit = 1};
    const dataset *data = open_well("generated", &sizes);
    const uint32_t side = dataset_image_size(data);
    const size_t bytes = 3 * (size_t)side * side;
    uint8_t *plain = test_alloc(IMAGES * bytes), *mixed = test_alloc(IMAGES * bytes),
            *one = test_alloc(bytes);
    size_t changed = 0;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        augment_options with = *kind, without = *kind;
        uint32_t indices[IMAGES];
        int32_t labels[IMAGES], others[IMAGES], own[IMAGES], label, other;
        float shares[IMAGES], share;
        with.epoch = without.epoch = epoch;
        without.mixup = without.cutmix = 0;
        for (uint32_t i = 0; i < IMAGES; i++)
            indices[i] = (i * 5 + epoch) % IMAGES;
        read_batch(data, DATASET_TRAIN, indices, IMAGES, &without, plain, own);
        TEST_GOOD(dataset_batch_mixed(
            data, DATASET_TRAIN, indices, IMAGES, &with, mixed, labels, others, shares, &f));
        for (size_t i = 0; i < IMAGES; i++) {
            const augment_mix mix = augment_draw_mix(&with, indices[i], IMAGES, side);
            size_t from = 0;
            TEST_GOOD(dataset_batch_mixed(
                data, DATASET_TRAIN, &indices[i], 1, &with, one, &label, &other, &share, &f));
            assert_memory_equal(one, mixed + i * bytes, bytes); /* alone */
            assert_true(label == labels[i] && other == others[i] && share == shares[i]);
            while (indices[from] != mix.other)
                from++;
            assert_int_equal(labels[i], own[i]);
            assert_int_equal(others[i], mix.share == AUGMENT_WHOLE ? own[i] : own[from]);
            assert_true(shares[i] == (float)mix.share / AUGMENT_WHOLE);
            for (size_t k = 0; k < bytes; k++) {
                const size_t y = k / side % side, x = k % side;
                const double a = plain[i * bytes + k], b = plain[from * bytes + k];
                const bool inside =
                    y - mix.box.top < mix.box.height && x - mix.box.left < mix.box.width;
                const double own_share = mix.box.height == 0 ? (double)shares[i] : inside ? 0 : 1;
                assert_true(fabs(one[k] - (own_share * a + (1 - own_share) * b)) <= 0.5001);
            }
            changed += mix.share < AUGMENT_WHOLE;
        }
        /* without options, and without augmentation, nothing is mixed */
        TEST_GOOD(dataset_batch_mixed(
            data, DATASET_TRAIN, indices, IMAGES, &without, mixed, labels, others, shares, &f));
        assert_memory_equal(mixed, plain, IMAGES * bytes);
        for (size_t i = 0; i < IMAGES; i++)
            assert_true(shares[i] == 1 && others[i] == own[i]);
        TEST_GOOD(dataset_batch_mixed(
            data, DATASET_TRAIN, indices, IMAGES, NULL, mixed, labels, others, shares, &f));
        assert_true(shares[0] == 1 && others[0] == labels[0]);
    }
    assert_true(changed > IMAGES * EPOCHS / 2);
}

int main(void)
{
    static const augment_options kinds[] = {{.seed = 3, .mixup = 0.8}, {.seed = 3, .cutmix = 1},
        {.seed = 3, .mixup = 0.8, .cutmix = 1, .erase = 0.5}};
    static const char *const names[] = {"mixup", "cutmix", "both, erased"};
    test_list list = {0};
    test_add(&list, beta, NULL, "shares");
    test_add(&list, draws, NULL, "draws");
    for (size_t i = 0; i < 3; i++)
        test_add(&list, batches, &kinds[i], "batches: %s", names[i]);
    return test_run_on_host("mixed images", &list);
}
