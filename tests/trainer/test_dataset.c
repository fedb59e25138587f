/* The example trainer's data sets: files and batches.
 *
 * CIFAR files are small fakes in a temporary folder. See test_dataset_random.c for the rest. */
#include "trainer/data/augment/augment.h"

#include <sys/stat.h>

#include "support/test_dataset.h"

/* ---- CIFAR files ----------------------------------------------------------------------------- */

static const char *path_of(const char *dir, const char *name)
{
    return test_text("%s/%s", dir, name);
}

/* What the fakes hold: label = first + i, byte k = hash of (first + i, k). */
static uint8_t fake_pixel(unsigned record, unsigned k)
{
    return (uint8_t)((record * 2654435761u + k * 40503u) >> 7);
}

/* A file of `bytes` bytes, whole records or not; record i has label first + i, a coarse label is
 * always 99. */
static void write_bytes(
    const char *dir, const char *name, unsigned label_bytes, unsigned first, size_t bytes)
{
    uint8_t *file = test_alloc(bytes);
    const size_t record = label_bytes + PIXELS;
    for (size_t at = 0; at < bytes; ++at) {
        const unsigned number = first + (unsigned)(at / record);
        const unsigned within = (unsigned)(at % record);
        file[at] = within >= label_bytes ? fake_pixel(number, within - label_bytes) : 99;
        if (within == label_bytes - 1)
            file[at] = (uint8_t)number;
    }
    test_file_write(path_of(dir, name), file, bytes);
}

static void write_records(
    const char *dir, const char *name, unsigned label_bytes, unsigned first, unsigned count)
{
    write_bytes(dir, name, label_bytes, first, count * (label_bytes + (size_t)PIXELS));
}

/* CIFAR-10 with labels 0,1 | 2,3 | 4,5 | 6,7 | 8,9 and a test file of 3. */
static void write_cifar10(const char *dir)
{
    for (unsigned i = 0; i < 5; ++i)
        write_records(dir, test_text("data_batch_%u.bin", i + 1), 1, 2 * i, 2);
    write_records(dir, "test_batch.bin", 1, 3, 3);
}

/* Image `index` of the split must be the fake record of that number, and its levels normalised. */
static void expect_record(const dataset *data, dataset_split split, uint32_t index, unsigned record)
{
    static const double mean10[3] = {0.4914, 0.4822, 0.4465}, std10[3] = {0.2470, 0.2435, 0.2616};
    static const double mean100[3] = {0.5071, 0.4865, 0.4409}, std100[3] = {0.2673, 0.2564, 0.2762};
    const bool ten = dataset_classes(data) == 10;
    static uint8_t image[PIXELS];
    int32_t label = -1;
    read_batch(data, split, &index, 1, NULL, image, &label);
    assert_int_equal(label, record);
    for (unsigned k = 0; k < PIXELS; ++k)
        assert_int_equal(image[k], fake_pixel(record, k));
    for (unsigned i = 0; i < DATASET_CHANNELS * DATASET_LEVELS; ++i) {
        const unsigned c = i / DATASET_LEVELS, v = i % DATASET_LEVELS;
        const double mean = (ten ? mean10 : mean100)[c], std = (ten ? std10 : std100)[c];
        assert_near(dataset_levels(data)[i], (v / 255.0 - mean) / std, 1e-6, "level");
    }
}

static void expect_whole_cifar10(const char *dir)
{
    dataset *data = open_well(dir, NULL);
    assert_string_equal(dataset_name(data), "CIFAR-10");
    assert_int_equal(dataset_classes(data), 10);
    assert_int_equal(dataset_image_size(data), SIDE);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 10);
    assert_int_equal(dataset_count(data, DATASET_TEST), 3);
    for (unsigned i = 0; i < 10; ++i)
        expect_record(data, DATASET_TRAIN, i, i);
    for (unsigned i = 0; i < 3; ++i)
        expect_record(data, DATASET_TEST, i, 3 + i);
}

static void cifar10_in_the_folder_itself(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    expect_whole_cifar10(dir);
}

static void cifar10_in_its_subfolder(NO_ROW)
{
    const char *dir = test_folder(), *inner = make_folder_in(dir, "cifar-10-batches-bin");
    write_cifar10(inner);
    expect_whole_cifar10(dir);
    expect_whole_cifar10(inner);
}

static void cifar100_uses_the_fine_label(NO_ROW)
{
    const char *dir = test_folder();
    make_folder_in(dir, "cifar-100-binary");
    write_records(dir, "cifar-100-binary/train.bin", 2, 93, 7);
    write_records(dir, "cifar-100-binary/test.bin", 2, 0, 2);
    dataset *data = open_well(dir, &(dataset_options){.image_size = 32, .classes = 100});
    assert_string_equal(dataset_name(data), "CIFAR-100");
    assert_int_equal(dataset_classes(data), 100);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 7);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
    for (unsigned i = 0; i < 7; ++i)
        expect_record(data, DATASET_TRAIN, i, 93 + i);
    expect_record(data, DATASET_TEST, 1, 1);
}

/* Of the training images; those of the test may change. */
static void cifar_has_a_checksum(NO_ROW)
{
    static const struct {
        const char *name;
        unsigned first;
        bool same;
    } rows[] = {
        {"data_batch_4.bin", 2, false}, {"data_batch_4.bin", 6, true}, {"test_batch.bin", 1, true}};
    const char *dir = test_folder();
    write_cifar10(dir);
    const dataset *data = open_well(dir, NULL);
    const uint64_t checksum = dataset_checksum(data);
    for (size_t i = 0; i < COUNT_OF(rows); ++i) {
        write_records(dir, rows[i].name, 1, rows[i].first, 2);
        assert_true((dataset_checksum(open_well(dir, NULL)) == checksum) == rows[i].same);
    }
    /* a limit above the number of images is none */
    data = open_well(dir, &(dataset_options){.train_limit = 11});
    assert_true(dataset_checksum(data) == checksum);
}

static void limits_stop_the_reading(NO_ROW)
{
    const char *dir = test_folder();
    write_records(dir, "data_batch_1.bin", 1, 0, 2);
    write_records(dir, "data_batch_2.bin", 1, 2, 9); /* its last label, 10, is out of range */
    write_records(dir, "test_batch.bin", 1, 8, 4);   /* so are 10 and 11 here */

    dataset *data = open_well(dir, &(dataset_options){.train_limit = 10, .test_limit = 2});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 10);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
    expect_record(data, DATASET_TRAIN, 9, 9);
    expect_record(data, DATASET_TEST, 1, 9);

    for (uint32_t limit = 1; limit <= 2; ++limit) {
        data = open_well(dir, &(dataset_options){.train_limit = limit, .test_limit = 1});
        assert_int_equal(dataset_count(data, DATASET_TRAIN), limit);
    }

    expect_failure(dir, &(dataset_options){.train_limit = 11, .test_limit = 2}, CODE_DATA,
        "data_batch_2.bin", "record 8 has label 10");
    expect_failure(
        dir, &(dataset_options){.train_limit = 2}, CODE_DATA, "test_batch.bin", "label 10");
}

static void limits_beyond_the_files_take_all(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    dataset *data = open_well(dir, &(dataset_options){.train_limit = 11, .test_limit = INT32_MAX});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 10);
    assert_int_equal(dataset_count(data, DATASET_TEST), 3);
    expect_failure(
        dir, &(dataset_options){.train_limit = (uint32_t)INT32_MAX + 1}, CODE_USAGE, dir, "limit");
}

static void missing_files_are_named(NO_ROW)
{
    static const char none[] = "No such file";
    const char *dir = test_folder(), *test_batch = path_of(dir, "test_batch.bin");
    expect_failure(dir, NULL, CODE_DATA, dir, "CIFAR-100 (train.bin), or IDX");
    expect_failure(dir, NULL, CODE_DATA, dir, "or train/CLASS/*.jpg and val");
    expect_failure("/nowhere/at/all", NULL, CODE_DATA, "/nowhere/at/all", none);
    write_records(dir, "test_batch.bin", 1, 0, 1);
    expect_failure(test_batch, NULL, CODE_DATA, test_batch, "is no folder");
    expect_failure(dir, NULL, CODE_DATA, "data_batch_1.bin", none);
    write_records(dir, "data_batch_1.bin", 1, 0, 1);
    write_records(dir, "data_batch_3.bin", 1, 0, 1);
    expect_failure(dir, NULL, CODE_DATA, "data_batch_2.bin", none);
    assert_int_equal(remove(test_batch), 0);
    expect_failure(dir, &(dataset_options){.train_limit = 1}, CODE_DATA, "test_batch.bin", none);
}

static void truncated_files_are_refused(NO_ROW)
{
    static const size_t lengths[] = {1, 2, 3072, 3074, 2 * 3073 - 1, 2 * 3073 + 1, 3 * 3073 - 3072};
    const char *dir = test_folder();
    for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
        const char *bytes = test_text(" %zu bytes", lengths[i]);
        write_cifar10(dir);
        write_bytes(dir, "data_batch_4.bin", 1, 0, lengths[i]);
        expect_failure(dir, NULL, CODE_DATA, "data_batch_4.bin: truncated", bytes);
        /* A limit that ends inside the file does not excuse it. */
        expect_failure(
            dir, &(dataset_options){.train_limit = 7}, CODE_DATA, "data_batch_4.bin", bytes);
        write_records(dir, "data_batch_4.bin", 1, 0, 1);
        write_bytes(dir, "test_batch.bin", 1, 0, lengths[i]);
        expect_failure(dir, NULL, CODE_DATA, "test_batch.bin: truncated", bytes);
    }
}

static void truncated_cifar100_is_refused(NO_ROW)
{
    static const size_t lengths[] = {1, 3073, 3075, 2 * 3074 - 1};
    const char *dir = test_folder();
    write_records(dir, "test.bin", 2, 0, 1);
    for (size_t i = 0; i < COUNT_OF(lengths); ++i) {
        write_bytes(dir, "train.bin", 2, 0, lengths[i]);
        expect_failure(dir, NULL, CODE_DATA, "train.bin: truncated", "3074");
    }
    write_records(dir, "train.bin", 2, 99, 2);
    expect_failure(dir, NULL, CODE_DATA, "train.bin", "record 1 has label 100");
}

static void empty_files_are_refused(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    write_bytes(dir, "data_batch_2.bin", 1, 0, 0);
    expect_failure(dir, NULL, CODE_DATA, "data_batch_2.bin", "empty");
    write_records(dir, "data_batch_2.bin", 1, 0, 1);
    write_bytes(dir, "test_batch.bin", 1, 0, 0);
    expect_failure(dir, NULL, CODE_DATA, "test_batch.bin", "empty");
}

static void a_folder_is_no_file(NO_ROW)
{
    const char *dir = test_folder();
    make_folder_in(dir, "data_batch_1.bin");
    expect_failure(dir, NULL, CODE_DATA, "data_batch_1.bin", "");
}

static void two_sets_are_ambiguous(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    write_records(dir, "train.bin", 2, 0, 1);
    expect_failure(dir, NULL, CODE_USAGE, dir, "more than one");
}

static void options_must_fit_the_files(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    expect_failure(dir, &(dataset_options){.image_size = 64}, CODE_USAGE, dir, "64x64");
    expect_failure(dir, &(dataset_options){.classes = 100}, CODE_USAGE, dir, "10 classes, not 100");
}

/* ---- batches --------------------------------------------------------------------------------- */

static void batch_checks_its_indices(NO_ROW)
{
    const dataset *data =
        open_well("generated", &(dataset_options){.train_limit = 5, .test_limit = 3});
    uint8_t images[2 * PIXELS];
    int32_t labels[2];
    const uint32_t good[2] = {0, 2}, bad[2] = {0, 3};
    read_batch(data, DATASET_TEST, good, 2, NULL, images, labels);
    read_batch(data, DATASET_TRAIN, bad, 2, NULL, images, labels);
    assert_string_equal(
        refuse_batch(data, DATASET_TEST, bad, 2, images, labels, CODE_USAGE, "index"),
        "generated: index 3, but the test split has 3 images");
    read_batch(data, DATASET_TEST, NULL, 0, NULL, NULL, NULL);
}

/* One batch of three against three batches of one in another order, augmented: the same bits. And
 * those are the plain images, moved as augment_draw says. */
static void batch_does_not_depend_on_history(NO_ROW)
{
    const char *dir = test_folder();
    write_cifar10(dir);
    const dataset *data = open_well(dir, NULL);
    const augment_options epoch3 = {.seed = 11, .epoch = 3}, epoch4 = {.seed = 11, .epoch = 4};
    const uint32_t indices[3] = {7, 2, 7};
    uint8_t batch[3 * PIXELS], one[PIXELS];
    int32_t labels[3], label;
    read_batch(data, DATASET_TRAIN, indices, 3, &epoch3, batch, labels);
    int differ_at_4 = 0;
    for (int i = 2; i >= 0; --i) {
        read_batch(data, DATASET_TRAIN, &indices[i], 1, &epoch4, one, &label);
        differ_at_4 += memcmp(one, batch + i * PIXELS, sizeof one) != 0;
        read_batch(data, DATASET_TRAIN, &indices[i], 1, &epoch3, one, &label);
        assert_memory_equal(one, batch + i * PIXELS, sizeof one);
        assert_int_equal(label, labels[i]);
        assert_int_equal(label, indices[i]);
    }
    assert_int_equal(differ_at_4, 3);

    uint8_t pixels[PIXELS];
    for (unsigned k = 0; k < PIXELS; ++k)
        pixels[k] = fake_pixel(2, k);
    augment_apply(augment_draw(&epoch3, 2, SIDE), false, SIDE, pixels, one);
    assert_memory_equal(batch + PIXELS, one, PIXELS);
}

/* What --erase does: other bytes than without only in the rectangle, where all are the mean's. */
static void erased(NO_ROW)
{
    enum { COUNT = 10, EPOCHS = 200 };
    const char *dir = test_folder();
    write_cifar10(dir);
    const dataset *data = open_well(dir, NULL);
    const float *levels = dataset_levels(data);
    uint32_t indices[COUNT];
    size_t boxes = 0;
    double area = 0, ratio = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = i;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        const augment_options plain = {.seed = 11, .epoch = epoch},
                              some = {.seed = 11, .epoch = epoch, .erase = 0.25};
        static uint8_t whole[COUNT * PIXELS], part[COUNT * PIXELS], one[PIXELS];
        int32_t labels[COUNT];
        read_batch(data, DATASET_TRAIN, indices, COUNT, &plain, whole, labels);
        read_batch(data, DATASET_TRAIN, indices, COUNT, &some, part, labels);
        for (uint32_t i = 0; i < COUNT; i++) {
            const augment_box box = augment_draw_box(&some, i, SIDE);
            read_batch(data, DATASET_TRAIN, &i, 1, &some, one, labels); /* alone */
            assert_memory_equal(one, part + i * PIXELS, PIXELS);
            for (uint32_t k = 0; k < PIXELS; k++) {
                const uint32_t c = k / (SIDE * SIDE), y = k / SIDE % SIDE, x = k % SIDE;
                const bool inside = y - box.top < box.height && x - box.left < box.width;
                if (!inside) {
                    assert_int_equal(one[k], whole[i * PIXELS + k]);
                    continue;
                }
                const float *level = levels + c * DATASET_LEVELS;
                assert_true(fabsf(level[one[k]]) <= 0.5001f * (level[1] - level[0]));
            }
            if (box.height == 0)
                continue;
            assert_true(box.top + box.height <= SIDE && box.left + box.width <= SIDE);
            boxes++;
            area += (double)(box.height * box.width) / (SIDE * SIDE);
            ratio += log((double)box.height / box.width);
        }
    }
    assert_near((double)boxes, 500, 60, "rectangles of 2000 images"); /* 3 deviations */
    assert_near(area / (double)boxes, 0.175, 0.012, "their area");
    assert_near(ratio / (double)boxes, 0, 0.09, "the logarithm of their ratio");
}

/* All rectangles of many draws are of the area and the ratio that augment.h says. */
static void boxes(NO_ROW)
{
    enum { S = 224, DRAWS = 20000 };
    double least = 1, most = 0, tallest = 0, widest = 0;
    uint32_t top = 0, left = 0, none = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const augment_options all = {.seed = 5, .epoch = i % 7, .erase = 1};
        const augment_box box = augment_draw_box(&all, i, S);
        none += box.height == 0;
        if (box.height == 0)
            continue;
        const double area = (double)box.height * box.width / (S * S);
        least = fmin(least, area);
        most = fmax(most, area);
        tallest = fmax(tallest, (double)box.height / box.width);
        widest = fmax(widest, (double)box.width / box.height);
        assert_true(box.top + box.height <= S && box.left + box.width <= S);
        top += box.top == 0;
        left += box.left == 0;
    }
    assert_int_equal(none, 0);
    assert_true(least > 0.019 && least < 0.021 && most < 0.334 && most > 0.32);
    assert_true(tallest < 3.45 && tallest > 3.2 && widest < 3.45 && widest > 3.2);
    assert_true(top > DRAWS / S && left > DRAWS / S && top < 3 * DRAWS / S * 2);
    const augment_options never = {.seed = 5};
    assert_int_equal(augment_draw_box(&never, 1, S).height, 0);
    for (uint32_t i = 0; i < 100; i++) { /* of a pixel: all of it, or nothing */
        const augment_options all = {.seed = 5, .erase = 1};
        assert_true(augment_draw_box(&all, i, 1).height <= 1);
    }
}

int main(void)
{
    test_list list = {0};
    ADD(&list, cifar10_in_the_folder_itself);
    ADD(&list, cifar10_in_its_subfolder);
    ADD(&list, cifar100_uses_the_fine_label);
    ADD(&list, cifar_has_a_checksum);
    ADD(&list, limits_stop_the_reading);
    ADD(&list, limits_beyond_the_files_take_all);
    ADD(&list, missing_files_are_named);
    ADD(&list, truncated_files_are_refused);
    ADD(&list, truncated_cifar100_is_refused);
    ADD(&list, empty_files_are_refused);
    ADD(&list, a_folder_is_no_file);
    ADD(&list, two_sets_are_ambiguous);
    ADD(&list, options_must_fit_the_files);
    ADD(&list, batch_checks_its_indices);
    ADD(&list, batch_does_not_depend_on_history);
    ADD(&list, erased);
    ADD(&list, boxes);
    return test_run_on_host("dataset", &list);
}
