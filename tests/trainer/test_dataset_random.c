/* What the example trainer's data code draws instead of reading.
 *
 * Sections: random numbers, shuffle, augmentation, generated images. */
#include "trainer/data/augment/augment.h"
#include "trainer/data/rng.h"

#include "support/test_dataset.h"

/* ---- random numbers -------------------------------------------------------------------------- */

/* Random123 1.14, tests/kat_vectors, the three "philox4x32 10" lines. */
static void philox_known_answers(NO_ROW)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
            {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        uint32_t out[4];
        rng_philox4x32_10(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* A stream is the blocks (0, b, a, domain), (1, b, a, domain) ... under the seed, low word first.
 */
static void stream_is_philox_blocks(NO_ROW)
{
    const uint32_t key[2] = {0x89abcdef, 0x01234567};
    rng r = rng_open(0x0123456789abcdef, RNG_AUGMENT, 7, 9);
    for (uint32_t block = 0; block < 3; ++block) {
        const uint32_t counter[4] = {block, 9, 7, RNG_AUGMENT};
        uint32_t expected[4];
        rng_philox4x32_10(counter, key, expected);
        for (int i = 0; i < 4; ++i)
            assert_int_equal(rng_next(&r), expected[i]);
    }
}

/* Without rejection a bound of 3/4 * 2^32 would give the multiples of 3 half of all draws. */
static void below_is_unbiased(NO_ROW)
{
    enum { DRAWS = 30000 };
    int residues[3] = {0};
    int sides[6] = {0};
    rng r = rng_open(1, RNG_IMAGE, 0, 0);
    for (int i = 0; i < DRAWS; ++i) {
        const uint32_t draw = rng_below(&r, 3u << 30);
        assert_true(draw < 3u << 30);
        residues[draw % 3]++;
        const uint32_t side = rng_below(&r, 6);
        assert_in_range(side, 0, 5);
        sides[side]++;
    }
    for (int i = 0; i < 3; ++i)
        assert_near(residues[i] / (double)DRAWS, 1.0 / 3, 0.015, "share of a residue");
    for (int i = 0; i < 6; ++i)
        assert_near(sides[i] / (double)DRAWS, 1.0 / 6, 0.012, "share of a die's side");
    assert_int_equal(rng_below(&r, 1), 0);
}

static void between_includes_both_ends(NO_ROW)
{
    bool seen[7] = {false};
    rng r = rng_open(1, RNG_IMAGE, 0, 1);
    for (int i = 0; i < 500; ++i) {
        const int32_t v = rng_between(&r, -4, 2);
        assert_true(v >= -4 && v <= 2);
        seen[v + 4] = true;
    }
    for (int i = 0; i < 7; ++i)
        assert_true(seen[i]);
    assert_int_equal(rng_between(&r, -5, -5), -5);
}

/* ---- shuffle --------------------------------------------------------------------------------- */

static void shuffle_is_a_permutation(NO_ROW)
{
    static const uint32_t sizes[] = {1, 2, 3, 100, 5000};
    for (size_t i = 0; i < COUNT_OF(sizes); ++i) {
        const uint32_t n = sizes[i];
        uint32_t *indices = test_alloc((n + 1) * sizeof *indices);
        bool *seen = test_alloc(n * sizeof *seen);
        indices[n] = 0xCAFE;
        dataset_shuffle(3, 4, n, indices);
        assert_int_equal(indices[n], 0xCAFE);
        for (uint32_t k = 0; k < n; ++k) {
            assert_true(indices[k] < n);
            assert_false(seen[indices[k]]);
            seen[indices[k]] = true;
        }
    }
    dataset_shuffle(3, 4, 0, NULL);
}

static void shuffle_depends_on_seed_and_epoch_only(NO_ROW)
{
    enum { N = 64 };
    uint32_t first[N], other[N];
    dataset_shuffle(1, 5, N, first);
    dataset_shuffle(1, 6, N, other);
    assert_memory_not_equal(first, other, sizeof first);
    dataset_shuffle(2, 5, N, other);
    assert_memory_not_equal(first, other, sizeof first);
    dataset_shuffle(1, 5, N, other);
    assert_memory_equal(first, other, sizeof first);
}

static void shuffle_gives_all_orders_alike(NO_ROW)
{
    enum { EPOCHS = 6000 };
    int seen[27] = {0};
    for (uint32_t epoch = 0; epoch < EPOCHS; ++epoch) {
        uint32_t order[3];
        dataset_shuffle(1, epoch, 3, order);
        seen[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int orders = 0;
    for (int i = 0; i < 27; ++i) {
        if (seen[i] == 0)
            continue;
        assert_near(seen[i], EPOCHS / 6.0, 150, "times that an order of 3 came up");
        ++orders;
    }
    assert_int_equal(orders, 6);
}

/* ---- augmentation ---------------------------------------------------------------------------- */

static void draws_cover_all_moves(NO_ROW)
{
    int downs[9] = {0}, rights[9] = {0}, mirrored = 0;
    enum { DRAWS = 3000 };
    for (uint32_t i = 0; i < DRAWS; ++i) {
        const augment_options options = {.seed = 1, .epoch = i % 3};
        const augment_move m = augment_draw(&options, i, SIDE);
        assert_true(m.down >= -4 && m.down <= 4 && m.right >= -4 && m.right <= 4);
        downs[m.down + 4]++;
        rights[m.right + 4]++;
        mirrored += m.mirror;
    }
    for (int i = 0; i < 9; ++i) {
        assert_near(downs[i], DRAWS / 9.0, 90, "times of a move down");
        assert_near(rights[i], DRAWS / 9.0, 90, "times of a move right");
    }
    assert_near(mirrored, DRAWS / 2.0, 140, "times mirrored");
}

static void draws_depend_on_seed_epoch_and_index(NO_ROW)
{
    int same[3] = {0};
    for (uint32_t i = 0; i < 200; ++i) {
        const augment_options a = {.seed = 1, .epoch = 2}, seed = {.seed = 2, .epoch = 2},
                              epoch = {.seed = 1, .epoch = 3};
        const augment_move base = augment_draw(&a, i, SIDE);
        const augment_move others[3] = {augment_draw(&seed, i, SIDE), augment_draw(&epoch, i, SIDE),
            augment_draw(&a, i + 1000, SIDE)};
        const augment_move again = augment_draw(&a, i, SIDE);
        assert_true(
            again.down == base.down && again.right == base.right && again.mirror == base.mirror);
        for (int k = 0; k < 3; ++k)
            same[k] += others[k].down == base.down && others[k].right == base.right &&
                       others[k].mirror == base.mirror;
    }
    for (int k = 0; k < 3; ++k)
        assert_in_range(same[k], 0, 10);
}

/* A 3 x 8 x 8 image whose byte is 1 + its index, so that every place can be told from the border's
 * 0. */
static void move_of_a_small_image(NO_ROW)
{
    enum { S = 8 };
    static const augment_move moves[] = {{0, 0, false}, {0, 0, true}, {1, 0, false}, {-1, 0, false},
        {0, 1, false}, {0, -1, true}, {-1, 1, true}};
    uint8_t pixels[3 * S * S];
    uint8_t image[3 * S * S];
    for (int i = 0; i < 3 * S * S; ++i)
        pixels[i] = (uint8_t)(1 + i);
    for (size_t k = 0; k < COUNT_OF(moves); ++k) {
        const augment_move m = moves[k];
        augment_apply(m, false, S, pixels, image);
        for (int c = 0; c < 3; ++c)
            for (int y = 0; y < S; ++y)
                for (int x = 0; x < S; ++x) {
                    const int fy = y + m.down, fx = (m.mirror ? S - 1 - x : x) + m.right;
                    const bool inside = fy >= 0 && fy < S && fx >= 0 && fx < S;
                    const int expected = inside ? 1 + (c * S + fy) * S + fx : 0;
                    const int got = image[(c * S + y) * S + x];
                    if (got != expected)
                        fail_msg("move %zu (%d, %d, %d) at c %d y %d x %d: got %d, expected %d", k,
                            m.down, m.right, m.mirror, c, y, x, got, expected);
                }
    }
    augment_apply((augment_move){1, -1, true}, false, S, pixels, image);
    assert_int_equal(image[0], pixels[1 * S + 6]); /* row 1; column 7, one to the left */
    assert_int_equal(image[7], 0);                 /* column -1 is border */
    augment_apply((augment_move){-2, 1, false}, true, S, pixels, image);
    assert_int_equal(image[0], pixels[2 * S + 1]); /* row -2 is row 2 */
    assert_int_equal(image[7], pixels[2 * S + 6]); /* column 8 is column 6 */
    assert_int_equal(image[7 * S + 7], pixels[5 * S + 6]);
}

/* Mirrors that alternate: those of the first epoch, and then in turn; shifts as far as they are
 * told.
 */
static void draws_as_told(NO_ROW)
{
    int downs[5] = {0};
    for (uint32_t i = 0; i < 300; i++) {
        augment_options drawn = {.seed = 5, .shift = 2}, turned = {.seed = 5, .alternates = true};
        const bool first = augment_draw(&drawn, i, SIDE).mirror;
        for (uint32_t epoch = 0; epoch < 4; epoch++) {
            drawn.epoch = turned.epoch = epoch;
            const augment_move m = augment_draw(&drawn, i, SIDE);
            assert_true(m.down >= -2 && m.down <= 2 && m.right >= -2 && m.right <= 2);
            downs[m.down + 2]++;
            turned.shift = 2;
            const augment_move t = augment_draw(&turned, i, SIDE);
            assert_int_equal(t.mirror, first != (epoch % 2 == 1));
            assert_true(t.down == m.down && t.right == m.right);
        }
    }
    for (int k = 0; k < 5; k++)
        assert_near(downs[k], 240, 60, "times of a move down");
}

/* The weights of the views of an image have the sum 1. */
static void views_of_an_image(NO_ROW)
{
    static const size_t counts[] = {1, 2, 6};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        double sum = 0;
        for (size_t v = 0; v < counts[i]; v++)
            sum += (double)augment_views(counts[i])[v].weight;
        assert_near(sum, 1, 1e-12, "weights");
    }
}

/* ---- generated images ------------------------------------------------------------------------ */

/* FNV-1a of count images' bytes, and of their labels. */
static uint64_t hash_images(
    const dataset *data, dataset_split split, uint32_t first, uint32_t count)
{
    const size_t length = (size_t)3 * dataset_image_size(data) * dataset_image_size(data);
    uint8_t *image = test_alloc(length * sizeof *image);
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t i = first; i < first + count; ++i) {
        int32_t label;
        read_batch(data, split, &i, 1, NULL, image, &label);
        hash = (hash ^ (uint64_t)label) * 0x100000001b3;
        for (size_t k = 0; k < length; ++k)
            hash = (hash ^ image[k]) * 0x100000001b3;
    }
    return hash;
}

static void generated_bits_are_these(NO_ROW)
{
    static const struct {
        dataset_options options;
        dataset_split split;
        uint32_t count;
        uint64_t hash;
    } cases[] = {
        {{.seed = 0}, DATASET_TRAIN, 200, 0xb215e8fc9767f909},
        {{.seed = 0}, DATASET_TEST, 50, 0x668dd16b1e9aef16},
        {{.seed = 0x123456789}, DATASET_TRAIN, 50, 0x5f731bef172d4d33},
        {{.image_size = 50, .classes = 1250}, DATASET_TRAIN, 20, 0x9f00047f089b9d63},
        {{.image_size = 224, .classes = 1000}, DATASET_TRAIN, 2, 0xd329141478509fdc},
        {{.image_size = 16, .classes = 7}, DATASET_TRAIN, 20, 0x9d11fd1d89469182},
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        dataset *data = open_well("generated", &cases[i].options);
        const uint64_t hash = hash_images(data, cases[i].split, 0, cases[i].count);
        if (hash != cases[i].hash) {
            print_error("case %zu: hash is 0x%016llx\n", i, (unsigned long long)hash);
            ++wrong;
        }
    }
    assert_int_equal(wrong, 0);
}

static void generated_images_depend_on_seed_split_and_index_only(NO_ROW)
{
    dataset *small =
        open_well("generated", &(dataset_options){.seed = 1, .train_limit = 30, .test_limit = 30});
    dataset *large = open_well("generated", &(dataset_options){.seed = 1});
    dataset *other = open_well("generated", &(dataset_options){.seed = 2});
    const uint64_t hash = hash_images(large, DATASET_TRAIN, 20, 10);
    assert_true(hash_images(small, DATASET_TRAIN, 20, 10) == hash);
    assert_true(hash_images(large, DATASET_TRAIN, 20, 10) == hash);
    assert_true(hash_images(other, DATASET_TRAIN, 20, 10) != hash);
    assert_true(hash_images(large, DATASET_TEST, 20, 10) != hash);
    assert_true(hash_images(large, DATASET_TRAIN, 30, 10) != hash);
}

static void generated_defaults(NO_ROW)
{
    dataset *data = open_well("generated", NULL);
    assert_string_equal(dataset_name(data), "generated");
    assert_int_equal(dataset_classes(data), 10);
    assert_int_equal(dataset_image_size(data), 32);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 8000);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2000);
}

static void generated_options_have_limits(NO_ROW)
{
    static const dataset_options bad[] = {{.image_size = 15}, {.image_size = 1025}, {.classes = 1},
        {.classes = 1251}, {.train_limit = 0x80000000}, {.test_limit = 0x80000000}};
    for (size_t i = 0; i < COUNT_OF(bad); ++i)
        expect_failure("generated", &bad[i], CODE_USAGE, "generated", "");
    open_well("generated", &(dataset_options){.image_size = 1024, .classes = 1250});
    open_well("generated", &(dataset_options){.image_size = 16, .classes = 2});
}

static void generated_classes_are_balanced(NO_ROW)
{
    static const uint32_t classes[] = {2, 7, 10, 100};
    for (size_t i = 0; i < COUNT_OF(classes); ++i) {
        const uint32_t count = 205;
        dataset *data = open_well("generated",
            &(dataset_options){.image_size = 16, .classes = classes[i], .train_limit = count});
        uint8_t *images = test_alloc((size_t)count * 3 * 16 * 16 * sizeof *images);
        int32_t labels[205];
        uint32_t indices[205];
        uint32_t seen[100] = {0};
        dataset_shuffle(1, 1, count, indices);
        read_batch(data, DATASET_TRAIN, indices, count, NULL, images, labels);
        for (uint32_t k = 0; k < count; ++k) {
            assert_true(labels[k] >= 0 && (uint32_t)labels[k] < classes[i]);
            seen[labels[k]]++;
        }
        for (uint32_t c = 0; c < classes[i]; ++c)
            assert_in_range(seen[c], count / classes[i], count / classes[i] + 1);
    }
}

/* The channels are normalised, and the class means say nothing: the nearest mean is right for about
 * one in ten. */
static void generated_images_defeat_class_means(NO_ROW)
{
    enum { TRAIN = 4000, TEST = 1000, CLASSES = 10 };
    dataset *data =
        open_well("generated", &(dataset_options){.train_limit = TRAIN, .test_limit = TEST});
    double(*means)[PIXELS] = test_alloc(CLASSES * sizeof *means);
    static uint8_t image[PIXELS];
    const float *levels = dataset_levels(data);
    double sum[3] = {0}, squares[3] = {0};
    int32_t label;
    for (uint32_t i = 0; i < TRAIN; ++i) {
        read_batch(data, DATASET_TRAIN, &i, 1, NULL, image, &label);
        for (int k = 0; k < PIXELS; ++k) {
            const int c = k / (SIDE * SIDE);
            const double value = (double)levels[c * 256 + image[k]];
            means[label][k] += value / (TRAIN / CLASSES);
            sum[c] += value;
            squares[c] += value * value;
        }
    }
    for (int c = 0; c < 3; ++c) {
        const double n = (double)TRAIN * SIDE * SIDE, mean = sum[c] / n;
        assert_near(mean, 0, 0.05, "mean of a channel");
        assert_near(sqrt(squares[c] / n - mean * mean), 1, 0.05, "standard deviation of a channel");
    }
    int right = 0;
    for (uint32_t i = 0; i < TEST; ++i) {
        read_batch(data, DATASET_TEST, &i, 1, NULL, image, &label);
        int nearest = 0;
        double least = INFINITY;
        for (int c = 0; c < CLASSES; ++c) {
            double distance = 0;
            for (int k = 0; k < PIXELS; ++k) {
                const double off = (double)levels[k / (SIDE * SIDE) * 256 + image[k]] - means[c][k];
                distance += off * off;
            }
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        right += nearest == label;
    }
    assert_in_range(right, 50, 190);
}

int main(void)
{
    test_list list = {0};
    ADD(&list, philox_known_answers);
    ADD(&list, stream_is_philox_blocks);
    ADD(&list, below_is_unbiased);
    ADD(&list, between_includes_both_ends);
    ADD(&list, shuffle_is_a_permutation);
    ADD(&list, shuffle_depends_on_seed_and_epoch_only);
    ADD(&list, shuffle_gives_all_orders_alike);
    ADD(&list, draws_cover_all_moves);
    ADD(&list, draws_depend_on_seed_epoch_and_index);
    ADD(&list, move_of_a_small_image);
    ADD(&list, draws_as_told);
    ADD(&list, views_of_an_image);
    ADD(&list, generated_bits_are_these);
    ADD(&list, generated_images_depend_on_seed_split_and_index_only);
    ADD(&list, generated_defaults);
    ADD(&list, generated_options_have_limits);
    ADD(&list, generated_classes_are_balanced);
    ADD(&list, generated_images_defeat_class_means);
    return test_run_on_host("dataset_random", &list);
}
