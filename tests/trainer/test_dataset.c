/*
 * test_dataset.c: the example trainer's data sets: files and batches.
 *
 * CIFAR files are small fakes in a temporary folder. See test_dataset_random.c for the rest.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include "trainer/data/augment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_dataset.h"

/* ---- CIFAR files ----------------------------------------------------------------------------- */

/* A temporary folder; everything made in it by the functions below is removed at the end, the last
 * first. */
typedef struct folder {
    char dir[32];
    char *made[16];
    int count;
} folder;

/* The path of a name in the folder; owned by the folder. */
static const char *remember(folder *f, const char *name)
{
    const size_t length = strlen(f->dir) + strlen(name) + sizeof "/";
    char *path = test_alloc(length);
    (void)snprintf(path, length, "%s/%s", f->dir, name);
    for (int i = 0; i < f->count; ++i) {
        if (strcmp(f->made[i], path) == 0) {
            return f->made[i];
        }
    }
    assert_true(f->count < 16);
    return f->made[f->count++] = path;
}

static void make_folder(folder *f, const char *name)
{
    assert_int_equal(mkdir(remember(f, name), 0700), 0);
}

/* What the fakes hold: label = first + i, byte k = hash of (first + i, k). */
static uint8_t fake_pixel(unsigned record, unsigned k)
{
    return (uint8_t)((record * 2654435761u + k * 40503u) >> 7);
}

/* A file of `bytes` bytes, whole records or not; record i has label first + i, a coarse label is
 * always 99. */
static void write_bytes(
    folder *f, const char *name, unsigned label_bytes, unsigned first, size_t bytes)
{
    FILE *stream = fopen(remember(f, name), "wb");
    assert_non_null(stream);
    const size_t record = label_bytes + PIXELS;
    for (size_t at = 0; at < bytes; ++at) {
        const unsigned number = first + (unsigned)(at / record);
        const unsigned within = (unsigned)(at % record);
        int byte = within >= label_bytes ? fake_pixel(number, within - label_bytes) : 99;
        if (within == label_bytes - 1)
            byte = (uint8_t)number;
        assert_int_equal(putc(byte, stream), byte);
    }
    assert_int_equal(fclose(stream), 0);
}

static void write_records(
    folder *f, const char *name, unsigned label_bytes, unsigned first, unsigned count)
{
    write_bytes(f, name, label_bytes, first, count * (label_bytes + (size_t)PIXELS));
}

/* CIFAR-10 with labels 0,1 | 2,3 | 4,5 | 6,7 | 8,9 and a test file of 3. */
static void write_cifar10(folder *f, const char *prefix)
{
    char name[64];
    for (unsigned i = 0; i < 5; ++i) {
        (void)snprintf(name, sizeof name, "%sdata_batch_%u.bin", prefix, i + 1);
        write_records(f, name, 1, 2 * i, 2);
    }
    (void)snprintf(name, sizeof name, "%stest_batch.bin", prefix);
    write_records(f, name, 1, 3, 3);
}

static int setup(void **state)
{
    folder *f = test_alloc(sizeof *f);
    *state = f;
    if (f == NULL)
        return -1;
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/test_dataset_XXXXXX");
    return mkdtemp(f->dir) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    folder *f = *state;
    while (f->count > 0) {
        char *path = f->made[--f->count];
        (void)remove(path);
    }
    const int left = rmdir(f->dir);
    return left;
}

/* Image `index` of the split must be the fake record of that number, and its levels normalised. */
static void expect_record(const dataset *data, dataset_split split, uint32_t index, unsigned record)
{
    static const double mean10[3] = {0.4914, 0.4822, 0.4465}, std10[3] = {0.2470, 0.2435, 0.2616};
    static const double mean100[3] = {0.5071, 0.4865, 0.4409}, std100[3] = {0.2673, 0.2564, 0.2762};
    const bool ten = dataset_classes(data) == 10;
    static uint8_t image[PIXELS];
    int32_t label = -1;
    char err[256];
    assert_int_equal(
        dataset_batch(data, split, &index, 1, NULL, image, &label, err, sizeof err), DATASET_OK);
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
    dataset_close(data);
}

static void cifar10_in_the_folder_itself(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    expect_whole_cifar10(f->dir);
}

static void cifar10_in_its_subfolder(void **state)
{
    folder *f = *state;
    make_folder(f, "cifar-10-batches-bin");
    write_cifar10(f, "cifar-10-batches-bin/");
    expect_whole_cifar10(f->dir);
    expect_whole_cifar10(f->made[0]);
}

static void cifar100_uses_the_fine_label(void **state)
{
    folder *f = *state;
    make_folder(f, "cifar-100-binary");
    write_records(f, "cifar-100-binary/train.bin", 2, 93, 7);
    write_records(f, "cifar-100-binary/test.bin", 2, 0, 2);
    dataset *data = open_well(f->dir, &(dataset_options){.image_size = 32, .classes = 100});
    assert_string_equal(dataset_name(data), "CIFAR-100");
    assert_int_equal(dataset_classes(data), 100);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 7);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
    for (unsigned i = 0; i < 7; ++i)
        expect_record(data, DATASET_TRAIN, i, 93 + i);
    expect_record(data, DATASET_TEST, 1, 1);
    dataset_close(data);
}

/* Of the training images; those of the test may change. */
static void cifar_has_a_checksum(void **state)
{
    static const struct {
        const char *name;
        unsigned first;
        bool same;
    } rows[] = {
        {"data_batch_4.bin", 2, false}, {"data_batch_4.bin", 6, true}, {"test_batch.bin", 1, true}};
    folder *f = *state;
    write_cifar10(f, "");
    dataset *data = open_well(f->dir, NULL);
    const uint64_t checksum = dataset_checksum(data);
    assert_false(dataset_has_checksum(data, checksum + 1));
    dataset_close(data);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        write_records(f, rows[i].name, 1, rows[i].first, 2);
        data = open_well(f->dir, NULL);
        assert_true(dataset_has_checksum(data, checksum) == rows[i].same);
        dataset_close(data);
    }
    /* a limit above the number of images is none */
    data = open_well(f->dir, &(dataset_options){.train_limit = 11});
    assert_true(dataset_has_checksum(data, checksum));
    dataset_close(data);
}

static void limits_stop_the_reading(void **state)
{
    folder *f = *state;
    write_records(f, "data_batch_1.bin", 1, 0, 2);
    write_records(f, "data_batch_2.bin", 1, 2, 9); /* its last label, 10, is out of range */
    write_records(f, "test_batch.bin", 1, 8, 4);   /* so are 10 and 11 here */

    dataset *data = open_well(f->dir, &(dataset_options){.train_limit = 10, .test_limit = 2});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 10);
    assert_int_equal(dataset_count(data, DATASET_TEST), 2);
    expect_record(data, DATASET_TRAIN, 9, 9);
    expect_record(data, DATASET_TEST, 1, 9);
    dataset_close(data);

    data = open_well(f->dir, &(dataset_options){.train_limit = 1, .test_limit = 1});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 1);
    dataset_close(data);

    data = open_well(f->dir, &(dataset_options){.train_limit = 2, .test_limit = 1});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 2);
    dataset_close(data);

    expect_failure(f->dir, &(dataset_options){.train_limit = 11, .test_limit = 2}, DATASET_BAD_FILE,
        "data_batch_2.bin", "record 8 has label 10");
    expect_failure(f->dir, &(dataset_options){.train_limit = 2}, DATASET_BAD_FILE, "test_batch.bin",
        "label 10");
}

static void limits_beyond_the_files_take_all(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    dataset *data =
        open_well(f->dir, &(dataset_options){.train_limit = 11, .test_limit = INT32_MAX});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 10);
    assert_int_equal(dataset_count(data, DATASET_TEST), 3);
    dataset_close(data);
    expect_failure(f->dir, &(dataset_options){.train_limit = (uint32_t)INT32_MAX + 1},
        DATASET_BAD_ARGUMENT, f->dir, "limit");
}

static void missing_files_are_named(void **state)
{
    folder *f = *state;
    expect_failure(f->dir, NULL, DATASET_NOT_FOUND, f->dir, "CIFAR-100 (train.bin), or IDX");
    expect_failure(f->dir, NULL, DATASET_NOT_FOUND, f->dir, "or train/CLASS/*.jpg and val");
    expect_failure("/nowhere/at/all", NULL, DATASET_NOT_FOUND, "/nowhere/at/all", "No such file");
    write_records(f, "test_batch.bin", 1, 0, 1);
    expect_failure(f->made[0], NULL, DATASET_NOT_FOUND, f->made[0], "is no folder");
    expect_failure(f->dir, NULL, DATASET_NOT_FOUND, "data_batch_1.bin", "No such file");
    write_records(f, "data_batch_1.bin", 1, 0, 1);
    write_records(f, "data_batch_3.bin", 1, 0, 1);
    expect_failure(f->dir, NULL, DATASET_NOT_FOUND, "data_batch_2.bin", "No such file");
    assert_int_equal(remove(f->made[0]), 0);
    expect_failure(f->dir, &(dataset_options){.train_limit = 1}, DATASET_NOT_FOUND,
        "test_batch.bin", "No such file");
}

static void truncated_files_are_refused(void **state)
{
    static const size_t lengths[] = {1, 2, 3072, 3074, 2 * 3073 - 1, 2 * 3073 + 1, 3 * 3073 - 3072};
    folder *f = *state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
        char bytes[32];
        (void)snprintf(bytes, sizeof bytes, " %zu bytes", lengths[i]);
        write_cifar10(f, "");
        write_bytes(f, "data_batch_4.bin", 1, 0, lengths[i]);
        expect_failure(f->dir, NULL, DATASET_BAD_FILE, "data_batch_4.bin: truncated", bytes);
        /* A limit that ends inside the file does not excuse it. */
        expect_failure(f->dir, &(dataset_options){.train_limit = 7}, DATASET_BAD_FILE,
            "data_batch_4.bin", bytes);
        write_records(f, "data_batch_4.bin", 1, 0, 1);
        write_bytes(f, "test_batch.bin", 1, 0, lengths[i]);
        expect_failure(f->dir, NULL, DATASET_BAD_FILE, "test_batch.bin: truncated", bytes);
    }
}

static void truncated_cifar100_is_refused(void **state)
{
    static const size_t lengths[] = {1, 3073, 3075, 2 * 3074 - 1};
    folder *f = *state;
    write_records(f, "test.bin", 2, 0, 1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
        write_bytes(f, "train.bin", 2, 0, lengths[i]);
        expect_failure(f->dir, NULL, DATASET_BAD_FILE, "train.bin: truncated", "3074");
    }
    write_records(f, "train.bin", 2, 99, 2);
    expect_failure(f->dir, NULL, DATASET_BAD_FILE, "train.bin", "record 1 has label 100");
}

static void empty_files_are_refused(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    write_bytes(f, "data_batch_2.bin", 1, 0, 0);
    expect_failure(f->dir, NULL, DATASET_BAD_FILE, "data_batch_2.bin", "empty");
    write_records(f, "data_batch_2.bin", 1, 0, 1);
    write_bytes(f, "test_batch.bin", 1, 0, 0);
    expect_failure(f->dir, NULL, DATASET_BAD_FILE, "test_batch.bin", "empty");
}

static void a_folder_is_no_file(void **state)
{
    folder *f = *state;
    make_folder(f, "data_batch_1.bin");
    char err[256];
    dataset *data;
    const dataset_status status = dataset_open(f->dir, NULL, &data, err, sizeof err);
    assert_true(status == DATASET_BAD_FILE || status == DATASET_NOT_FOUND);
    assert_non_null(strstr(err, "data_batch_1.bin"));
}

static void two_sets_are_ambiguous(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    write_records(f, "train.bin", 2, 0, 1);
    expect_failure(f->dir, NULL, DATASET_BAD_ARGUMENT, f->dir, "more than one");
}

static void options_must_fit_the_files(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    expect_failure(
        f->dir, &(dataset_options){.image_size = 64}, DATASET_BAD_ARGUMENT, f->dir, "64x64");
    expect_failure(f->dir, &(dataset_options){.classes = 100}, DATASET_BAD_ARGUMENT, f->dir,
        "10 classes, not 100");
}

/* ---- batches --------------------------------------------------------------------------------- */

static void messages_fit_their_buffer(void **state)
{
    (void)state;
    char err[8];
    memset(err, 'x', sizeof err);
    dataset *data;
    assert_int_equal(dataset_open("/nowhere/at/all", NULL, &data, err, 5), DATASET_NOT_FOUND);
    assert_string_equal(err, "/now");
    assert_int_equal(err[5], 'x');
    assert_int_equal(dataset_open("/nowhere/at/all", NULL, &data, NULL, 0), DATASET_NOT_FOUND);
    assert_int_equal(dataset_open("generated", NULL, NULL, err, sizeof err), DATASET_BAD_ARGUMENT);
    expect_failure("", NULL, DATASET_BAD_ARGUMENT, "no data set", "named");
    expect_failure(NULL, NULL, DATASET_BAD_ARGUMENT, "no data set", "named");
    dataset_close(NULL);
}

static void batch_checks_its_arguments(void **state)
{
    (void)state;
    dataset *data = open_well("generated", &(dataset_options){.train_limit = 5, .test_limit = 3});
    uint8_t *images = test_alloc(2 * PIXELS * sizeof *images);
    int32_t labels[2];
    char err[256];
    const uint32_t good[2] = {0, 2}, bad[2] = {0, 3};
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, good, 2, NULL, images, labels, err, sizeof err),
        DATASET_OK);
    assert_string_equal(err, "");
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, bad, 2, NULL, images, labels, err, sizeof err),
        DATASET_BAD_ARGUMENT);
    assert_string_equal(err, "generated: index 3, but the test split has 3 images");
    assert_int_equal(
        dataset_batch(data, DATASET_TRAIN, bad, 2, NULL, images, labels, err, sizeof err),
        DATASET_OK);
    assert_int_equal(
        dataset_batch(data, (dataset_split)2, good, 2, NULL, images, labels, err, sizeof err),
        DATASET_BAD_ARGUMENT);
    assert_int_equal(
        dataset_batch(NULL, DATASET_TEST, good, 2, NULL, images, labels, err, sizeof err),
        DATASET_BAD_ARGUMENT);
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, NULL, 2, NULL, images, labels, err, sizeof err),
        DATASET_BAD_ARGUMENT);
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, good, 2, NULL, NULL, labels, err, sizeof err),
        DATASET_BAD_ARGUMENT);
    assert_int_equal(dataset_batch(data, DATASET_TEST, good, 2, NULL, images, NULL, NULL, 0),
        DATASET_BAD_ARGUMENT);
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, NULL, 0, NULL, NULL, NULL, err, sizeof err), DATASET_OK);
    dataset_close(data);
}

/* One batch of three against three batches of one in another order, augmented: the same bits. And
 * those are the plain images, moved as augment_draw says. */
static void batch_does_not_depend_on_history(void **state)
{
    folder *f = *state;
    write_cifar10(f, "");
    dataset *data = open_well(f->dir, NULL);
    const augment_options epoch3 = {.seed = 11, .epoch = 3}, epoch4 = {.seed = 11, .epoch = 4};
    const uint32_t indices[3] = {7, 2, 7};
    uint8_t *batch = test_alloc(3 * PIXELS * sizeof *batch),
            *one = test_alloc(PIXELS * sizeof *one);
    int32_t labels[3], label;
    char err[256];
    assert_int_equal(
        dataset_batch(data, DATASET_TRAIN, indices, 3, &epoch3, batch, labels, err, sizeof err),
        DATASET_OK);
    int differ_at_4 = 0;
    for (int i = 2; i >= 0; --i) {
        (void)dataset_batch(
            data, DATASET_TRAIN, &indices[i], 1, &epoch4, one, &label, err, sizeof err);
        differ_at_4 += memcmp(one, batch + i * PIXELS, PIXELS * sizeof *one) != 0;
        (void)dataset_batch(
            data, DATASET_TRAIN, &indices[i], 1, &epoch3, one, &label, err, sizeof err);
        assert_memory_equal(one, batch + i * PIXELS, PIXELS * sizeof *one);
        assert_int_equal(label, labels[i]);
        assert_int_equal(label, indices[i]);
    }
    assert_int_equal(differ_at_4, 3);

    uint8_t pixels[PIXELS];
    for (unsigned k = 0; k < PIXELS; ++k)
        pixels[k] = fake_pixel(2, k);
    augment_apply(augment_draw(&epoch3, 2, SIDE), SIDE, pixels, one);
    assert_memory_equal(batch + PIXELS, one, PIXELS);
    dataset_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cifar10_in_the_folder_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(cifar10_in_its_subfolder, setup, teardown),
        cmocka_unit_test_setup_teardown(cifar100_uses_the_fine_label, setup, teardown),
        cmocka_unit_test_setup_teardown(cifar_has_a_checksum, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_stop_the_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_beyond_the_files_take_all, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_files_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(truncated_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(truncated_cifar100_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_is_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(two_sets_are_ambiguous, setup, teardown),
        cmocka_unit_test_setup_teardown(options_must_fit_the_files, setup, teardown),
        cmocka_unit_test(messages_fit_their_buffer),
        cmocka_unit_test(batch_checks_its_arguments),
        cmocka_unit_test_setup_teardown(batch_does_not_depend_on_history, setup, teardown),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
