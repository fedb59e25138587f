/* Images with a label for each pixel.
 *
 * Windows, mirrors and resizing treat a mask as its image: where a pixel has the colour of one
 * class alone, it has its label. Masks of each depth, with a palette, interlaced; 255 is no label.
 * A mask that is missing, of another size, of colours, cut off, no PNG file or with a label too
 * large is refused by its name. Generated ones: pixels differ from the ground where the label says
 * so. The mean intersection over union against counts by hand. */
#include <unistd.h>

#include "support/test_dataset.h"
#include "trainer/report/iou.h"

#if TRAINER_IMAGES
#include <png.h>

enum { WIDTH = 24, HEIGHT = 16, CLASSES = 4, SMALL = 12 };

static const dataset_options options = {.image_size = SMALL, .classes = CLASSES, .pixels = true};

/* Writes a PNG file whose rows are `row` bytes each. */
static void put_png(const char *path, uint32_t width, uint32_t height, int depth, int type,
    int interlace, const uint8_t *bytes, size_t row)
{
    static const png_color colours[CLASSES] = {{9, 9, 9}, {8, 0, 0}, {0, 7, 0}, {9, 9, 9}};
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(file != NULL && info != NULL);
    png_init_io(png, file);
    png_set_IHDR(png, info, width, height, depth, type, interlace, PNG_COMPRESSION_TYPE_DEFAULT,
        PNG_FILTER_TYPE_DEFAULT);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, colours, CLASSES);
    png_write_info(png, info);
    png_bytep *rows = test_alloc(height * sizeof *rows);
    for (uint32_t y = 0; y < height; y++) {
        rows[y] = test_alloc(row);
        memcpy(rows[y], bytes + y * row, row);
    }
    png_write_image(png, rows);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

/* A class for each quarter. */
static int class_of(uint32_t x, uint32_t y)
{
    return 2 * (y >= HEIGHT / 2) + (x >= WIDTH / 2);
}

static void put_image(const char *path)
{
    uint8_t rgb[HEIGHT][WIDTH][3];
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++)
                rgb[y][x][c] = class_of(x, y) == c || class_of(x, y) == 3 ? 200 : 0;
    put_png(path, WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, rgb[0][0], 3 * WIDTH);
}

/* depth: 2, 4 or 8 bits. */
static void put_mask(const char *path, int depth, int type, int interlace)
{
    uint8_t packed[HEIGHT * WIDTH] = {0};
    const uint32_t each = 8 / (uint32_t)depth, row = WIDTH / each;
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            packed[y * row + x / each] |=
                (uint8_t)(class_of(x, y) << (8 - depth - (int)(x % each) * depth));
    put_png(path, WIDTH, HEIGHT, depth, type, interlace, packed, row);
}

/* Two images for training, one for tests. */
static const char *put_set(int depth, int type, int interlace)
{
    static const char *const splits[] = {"train", "val"};
    const char *folder = test_folder();
    for (int s = 0; s < 2; s++) {
        const char *split = make_folder_in(folder, splits[s]);
        const char *images = make_folder_in(split, "images"),
                   *masks = make_folder_in(split, "masks");
        for (int i = 0; i < 2 - s; i++) {
            put_image(test_text("%s/%d.b.png", images, i));
            put_mask(test_text("%s/%d.b.png", masks, i), depth, type, interlace);
        }
    }
    return folder;
}

/* The class whose colour a pixel has, not blended with another one; -1: none. */
static int seen_at(const uint8_t *image, size_t at)
{
    const uint8_t rgb[3] = {image[at], image[SMALL * SMALL + at], image[2 * SMALL * SMALL + at]};
    for (int k = 0; k < CLASSES; k++) {
        bool is = true;
        for (int c = 0; c < 3; c++)
            is = is && rgb[c] == (k == c || k == 3 ? 200 : 0);
        if (is)
            return k;
    }
    return -1;
}

/* Reads an image; returns in how many pixels the label was compared. */
static int compare(const dataset *data, dataset_split split, const augment_options *augment,
    int32_t labels[SMALL * SMALL])
{
    static const uint32_t first = 0;
    uint8_t image[3 * SMALL * SMALL];
    int compared = 0;
    read_batch(data, split, &first, 1, augment, image, labels);
    for (size_t i = 0; i < SMALL * SMALL; i++) {
        const int seen = seen_at(image, i);
        if (seen >= 0 && seen != labels[i])
            fail_msg("pixel %zu has the colour of %d and the label %d", i, seen, (int)labels[i]);
        compared += seen >= 0;
    }
    return compared;
}

typedef struct depth_row {
    const char *name;
    int depth, type, interlace;
} depth_row;

static const depth_row depth_rows[] = {
    {"8 bits", 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE},
    {"4 bits", 4, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE},
    {"2 bits, interlaced", 2, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_ADAM7},
    {"palette of 8 bits, interlaced", 8, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_ADAM7},
    {"palette of 2 bits", 2, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE},
};

static void follows(void **state)
{
    const depth_row *row = *state;
    const dataset *data = open_well(put_set(row->depth, row->type, row->interlace), &options);
    int32_t labels[SMALL * SMALL];
    int mirrored = 0;
    assert_int_equal(dataset_sample(data).labels, SMALL * SMALL);
    assert_int_equal(dataset_classes(data), CLASSES);
    assert_true(compare(data, DATASET_TEST, NULL, labels) >= SMALL * SMALL / 2);
    assert_true(labels[0] == 0 && labels[SMALL - 1] == 1); /* the whole image */
    assert_true(labels[SMALL * (SMALL - 1)] == 2 && labels[SMALL * SMALL - 1] == 3);
    for (uint32_t epoch = 0; epoch < 40; epoch++) {
        assert_true(compare(data, DATASET_TRAIN, &(augment_options){.epoch = epoch}, labels) > 0);
        mirrored += labels[0] == 1;
    }
    assert_true(mirrored > 0);
}

static void no_label(NO_ROW)
{
    const char *folder = put_set(8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE);
    uint8_t mask[HEIGHT * WIDTH];
    int32_t labels[SMALL * SMALL];
    memset(mask, 255, sizeof mask);
    mask[0] = 3;
    const dataset *data = open_well(folder, &options);
    const uint64_t before = dataset_tests_checksum(data);
    put_png(test_text("%s/val/masks/0.b.png", folder), WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_GRAY,
        PNG_INTERLACE_NONE, mask, WIDTH);
    assert_true(dataset_tests_checksum(data) != before);
    uint8_t image[3 * SMALL * SMALL];
    read_batch(data, DATASET_TEST, &(uint32_t){0}, 1, NULL, image, labels);
    for (size_t i = 0; i < SMALL * SMALL; i++)
        assert_int_equal(labels[i], CLPRUNE_IGNORED); /* pixel 0 is nearest to none */
}

typedef struct wrong_row {
    const char *name;
    uint32_t width;
    int depth, type;
    uint8_t value;
    long cut; /* bytes of the file; 0: all */
    const char *said;
} wrong_row;

static const wrong_row wrong_rows[] = {
    {"size", WIDTH / 2, 8, PNG_COLOR_TYPE_GRAY, 0, 0,
        "it has 12 x 16 pixels, but its image 24 x 16"},
    {"colours", WIDTH, 8, PNG_COLOR_TYPE_RGB, 0, 0,
        "it has 3 channels of 8 bits; a mask is grey or has a palette"},
    {"16 bits", WIDTH, 16, PNG_COLOR_TYPE_GRAY, 0, 0,
        "it has 1 channels of 16 bits; a mask is grey or has a palette"},
    {"label", WIDTH, 8, PNG_COLOR_TYPE_GRAY, 4, 0,
        "a pixel has the label 4, but there are 4 classes, from 0 on; 255 is no label"},
    {"cut off", WIDTH, 8, PNG_COLOR_TYPE_GRAY, 0, 50, "the file ends too early"},
    {"no PNG", WIDTH, 8, PNG_COLOR_TYPE_GRAY, 0, 5, "it is no PNG file, as a mask is"},
};

static void wrong(void **state)
{
    const wrong_row *row = *state;
    const char *folder = put_set(8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE);
    const char *path = test_text("%s/val/masks/0.b.png", folder);
    const size_t bytes = (size_t)row->depth / 8 * (row->type == PNG_COLOR_TYPE_RGB ? 3 : 1);
    uint8_t *mask = test_alloc(HEIGHT * row->width * bytes), image[3 * SMALL * SMALL];
    int32_t labels[SMALL * SMALL];
    memset(mask, row->value, HEIGHT * row->width * bytes);
    put_png(path, row->width, HEIGHT, row->depth, row->type, PNG_INTERLACE_NONE, mask,
        row->width * bytes);
    if (row->cut > 0)
        assert_int_equal(truncate(path, row->cut), 0);
    const dataset *data = open_well(folder, &options);
    const char *said =
        refuse_batch(data, DATASET_TEST, &(uint32_t){0}, 1, image, labels, CODE_DATA, row->said);
    test_says(said, path);
}

static void missing(NO_ROW)
{
    const char *folder = put_set(8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE);
    assert_int_equal(unlink(test_text("%s/train/masks/1.b.png", folder)), 0);
    expect_failure(folder, &options, CODE_DATA, test_text("%s/train/masks/1.b.png: ", folder),
        "it is the mask of images/1.b.png");
    expect_failure(test_folder(), &options, CODE_DATA, "/train/images: ", "");
}

#endif

/* Pixels of a figure are textured: over many images, they differ more from their mean. */
static void generated(NO_ROW)
{
    enum { EDGE = 32, COUNT = 24, EACH = EDGE * EDGE };
    const dataset *data =
        open_well("generated", &(dataset_options){.image_size = EDGE, .pixels = true});
    uint8_t *images = test_alloc(COUNT * 3 * EACH), *turned = test_alloc(3 * EACH);
    int32_t *labels = test_alloc(COUNT * EACH * sizeof *labels);
    int32_t *other = test_alloc(EACH * sizeof *other);
    uint32_t indices[COUNT];
    double spread[2] = {0}, count[2] = {0};
    bool seen[6] = {false};
    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = i;
    assert_int_equal(dataset_classes(data), 6);
    read_batch(data, DATASET_TRAIN, indices, COUNT, NULL, images, labels);
    for (size_t i = 0; i < COUNT * EACH; i++) {
        assert_true(labels[i] >= 0 && labels[i] < 6);
        seen[labels[i]] = true;
        const double off = images[i / EACH * 3 * EACH + i % EACH] - 128.0;
        spread[labels[i] > 0] += off * off;
        count[labels[i] > 0]++;
    }
    for (int c = 0; c < 6; c++)
        assert_true(seen[c]);
    assert_true(spread[1] / count[1] > 1.3 * spread[0] / count[0]);
    bool mirrored = false;
    for (uint32_t epoch = 0; epoch < 8; epoch++) { /* as it is, or mirrored with its labels */
        const augment_options augment = {.epoch = epoch};
        read_batch(data, DATASET_TRAIN, indices, 1, &augment, turned, other);
        const bool same = memcmp(turned, images, 3 * EACH) == 0;
        mirrored = mirrored || !same;
        for (size_t y = 0; y < EDGE; y++)
            for (size_t x = 0; x < EDGE; x++) {
                const size_t from = y * EDGE + (same ? x : EDGE - 1 - x);
                assert_int_equal(turned[y * EDGE + x], images[from]);
                assert_int_equal(other[y * EDGE + x], labels[from]);
            }
    }
    assert_true(mirrored);
    expect_failure("generated", &(dataset_options){.classes = 7, .pixels = true}, CODE_USAGE,
        "7 classes are not within 2 ... 6", "");
}

/* Of 7 pixels and 4 classes: class 0 has 2 of 3, class 1 2 of 4, class 2 0 of 1; class 3 is
 * nowhere. */
static void intersections(NO_ROW)
{
    static const int said[] = {0, 0, 0, 1, 1, 2, 2};
    static const int32_t labels[] = {0, 0, 1, 1, 1, 1, CLPRUNE_IGNORED};
    float values[7 * 4] = {0};
    iou of;
    size_t counted;
    for (int i = 0; i < 7; i++)
        values[4 * i + said[i]] = 1;
    TEST_GOOD(iou_open(4, &of, &f));
    assert_true(isnan(iou_mean(&of, &counted)));
    assert_int_equal(counted, 0);
    iou_add(&of, 7, values, labels);
    assert_near(iou_mean(&of, &counted), 100 * (2.0 / 3 + 2.0 / 4 + 0) / 3, 1e-9, "mean");
    assert_int_equal(counted, 3);
    iou_close(&of);
}

int main(void)
{
    test_list list = {0};
#if TRAINER_IMAGES
    for (size_t i = 0; i < COUNT_OF(depth_rows); i++)
        test_add(&list, follows, &depth_rows[i], "follows: %s", depth_rows[i].name);
    for (size_t i = 0; i < COUNT_OF(wrong_rows); i++)
        test_add(&list, wrong, &wrong_rows[i], "wrong: %s", wrong_rows[i].name);
    ADD(&list, no_label);
    ADD(&list, missing);
#endif
    ADD(&list, generated);
    ADD(&list, intersections);
    return test_run_on_host("dataset_masks", &list);
}
