/* Folders of images as a user makes them: what is left out, refused, noted or missing.
 *
 * Each folder without a set is told what it lacks. Empty classes, and classes that cannot be looked
 * at, are refused. Left-out files and folders, missing classes and broken images are noted once.
 * Checksums, also of earlier programs. The count of threads that decode or generate. Levels of each
 * kind of set, images and others, by each choice. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_dataset.h"
#include "trainer/data/fnv.h"

#if TRAINER_IMAGES
#include <png.h>
#endif

/* Threads that were started; a folder that may not be read, and the errno of such a read. */
static atomic_int threads;
static const char *closed;
static int closed_by;

TEST_WRAP(int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user))
{
    atomic_fetch_add(&threads, 1);
    return __real_pthread_create(thread, attributes, start, user);
}

TEST_WRAP(int, access, (const char *path, int mode))
{
    if (closed == NULL || strncmp(path, closed, strlen(closed)) != 0)
        return __real_access(path, mode);
    errno = closed_by;
    return -1;
}

/* Makes a file of `bytes` zeros, and the folders before it; with a slash at its end, a folder. */
static void put(const char *folder, const char *name, size_t bytes)
{
    static const uint8_t zeros[64];
    char *path = test_text("%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL;) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash++ = '/';
    }
    if (path[strlen(path) - 1] != '/')
        test_file_write(path, zeros, bytes);
}

/* ---- no set ---------------------------------------------------------------------------------- */

typedef struct missing_row {
    const char *made[2], *said;
} missing_row;

static const missing_row missing_rows[] = {
    {{"notes.txt"}, "no data set there: expected files of CIFAR-10 "},
    {{"notes.txt"}, "or train/CLASS/*.jpg and val/CLASS/*.jpg"},
    {{"train/a/1.jpg"}, "has a folder train, but neither val nor test; expected train/CLASS"},
    {{"val/a/1.jpg"}, "has a folder val or test, but no train; expected train/CLASS"},
    {{"test/a/1.jpg"}, "has a folder val or test, but no train; expected train/CLASS"},
    {{"dog/1.JPG", "cat/1.png"}, "has images in cat; expected train/CLASS"},
    {{"t10k-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte.gz"},
        "t10k-labels-idx1-ubyte.gz is packed; unpack it with gunzip"},
    {{"cifar-10-binary.tar.gz"}, "cifar-10-binary.tar.gz is packed; unpack it with tar xf"},
    {{"cifar-10-python.tar.gz", "cifar-10-batches-py/"},
        "cifar-10-batches-py is the version for Python; expected the binary version"},
};

static void no_set(NO_ROW)
{
    static const int errors[] = {EACCES, EIO}; /* EIO: what is there is not known */
    for (size_t i = 0; i < COUNT_OF(missing_rows); i++) {
        const missing_row *row = &missing_rows[i];
        const char *folder = test_folder();
        for (int k = 0; k < 2 && row->made[k] != NULL; k++)
            put(folder, row->made[k], 1);
        const char *said = expect_failure(folder, NULL, CODE_DATA, folder, row->said);
        assert_ptr_equal(strstr(said, folder), said);
        for (int k = 0; k < 2; k++) {
            closed = folder;
            closed_by = errors[k];
            expect_failure(folder, NULL, CODE_DATA, strerror(errors[k]), "");
            closed = NULL;
        }
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

#if TRAINER_IMAGES

static void put_image(const char *folder, const char *name)
{
    static const uint8_t rgb[3 * 8 * 8];
    png_image png = {
        .version = PNG_IMAGE_VERSION, .width = 8, .height = 8, .format = PNG_FORMAT_RGB};
    put(folder, name, 0);
    assert_int_not_equal(
        png_image_write_to_file(&png, test_text("%s/%s", folder, name), 0, rgb, 0, NULL), 0);
}

static const char *put_images(void)
{
    static const char *const names[] = {"train/a/1.png", "train/a/2.png", "train/b/1.png",
        "train/b/2.png", "val/a/1.png", "val/b/1.png"};
    const char *folder = test_folder();
    for (size_t i = 0; i < COUNT_OF(names); i++)
        put_image(folder, names[i]);
    return folder;
}

typedef struct notes {
    int count;
    char text[4][4096];
} notes;

static void hear(void *user, const char *note)
{
    notes *n = user;
    if (n->count < 4)
        (void)snprintf(n->text[n->count], sizeof n->text[0], "%s", note);
    n->count++;
}

static const dataset *open_heard(const char *folder, bool skips, notes *heard)
{
    const dataset_options wanted = {
        .image_size = 8, .skip_broken = skips, .hear = hear, .hear_user = heard};
    *heard = (notes){0};
    return open_well(folder, &wanted);
}

static void expect_note(const notes *heard, int i, const char *part)
{
    if (heard->count <= i || strstr(heard->text[i], part) == NULL)
        fail_msg("note %d of %d, '%s', lacks '%s'", i, heard->count, heard->text[i], part);
}

static void classes(NO_ROW)
{
    static const char *const empty[] = {"train/c", "val/c"};
    const char *folder = put_images();
    notes heard;
    put(folder, "train/c/notes.txt", 1);
    for (int i = 0; i < 2; i++) {
        put(folder, test_text("%s/", empty[i]), 0);
        expect_failure(folder, NULL, CODE_DATA,
            test_text("/%s: a class without .jpg, .jpeg or .png files", empty[i]), "");
        put_image(folder, "train/c/1.png"); /* now it is val's that has none */
    }
    put_image(folder, "val/c/1.png");
    put_image(folder, "train/d/1.png");
    put_image(folder, "train/e/1.png");
    (void)open_heard(folder, false, &heard);
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 1, "/val: 2 of 5 classes are missing, d among them");
}

/* An entry that cannot be looked at may be a class: left out, it would number the later ones anew.
 */
static void lost_class(NO_ROW)
{
    static const char *const parts[] = {"train", "val"};
    const char *folder = put_images();
    for (int i = 0; i < 2; i++) {
        const char *path = test_text("%s/%s/aa", folder, parts[i]);
        assert_int_equal(symlink("no-such-folder", path), 0);
        assert_string_equal(expect_failure(folder, NULL, CODE_DATA, path, ""),
            test_text("%s: %s", path, strerror(ENOENT)));
        assert_int_equal(unlink(path), 0);
    }
}

static void other_files(NO_ROW)
{
    static const char *const names[] = {"train/b/x.jfif", "train/a/y.webp", "train/a/x.gif",
        "train/a/.hidden", "train/a/deeper/x.tif", "train/list.txt"};
    const char *folder = put_images();
    notes heard;
    (void)open_heard(folder, false, &heard);
    assert_int_equal(heard.count, 0);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        put(folder, names[i], 1);
    (void)open_heard(folder, false, &heard);
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 0,
        "/train: 3 files are no .jpg, .jpeg or .png and are left out, a/x.gif among them");
    expect_note(&heard, 1, "/train: 1 folders in classes are left out, a/deeper among them");
}

/* Each broken file is named once, however often it is replaced, in either split. */
static void broken_files(NO_ROW)
{
    const uint32_t twice[2] = {1, 1};
    const char *folder = put_images();
    uint8_t images[2 * 3 * 8 * 8];
    int32_t labels[2];
    notes heard;
    put(folder, "train/a/2.png", 0);
    put(folder, "val/b/1.png", 20);
    const dataset *data = open_heard(folder, true, &heard);
    for (int i = 0; i < 2; i++)
        read_batch(data, DATASET_TRAIN, twice, 2, NULL, images, labels);
    assert_int_equal(dataset_skipped(data), 4);
    assert_int_equal(heard.count, 1);
    expect_note(&heard, 0, "/train/a/2.png: it is empty, or larger than 2 GiB; the next image");
    read_batch(data, DATASET_TEST, twice, 1, NULL, images, labels);
    assert_int_equal(dataset_skipped(data), 5);
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 1, "/val/b/1.png: ");
    data = open_heard(folder, false, &heard);
    refuse_batch(data, DATASET_TRAIN, twice, 2, images, labels, CODE_DATA,
        "; --skip-broken replaces such files");
    assert_int_equal(heard.count, 0);
}

/* Makes the folders a/a/... below `folder`; returns the path of the last, of 1700 characters. */
static const char *make_deep(const char *folder)
{
    while (strlen(folder) < 1700) {
        folder = test_text("%s/a-folder-with-a-long-name-and-many-of-its-kind-inside", folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    return folder;
}

/* A long path does not cut off what is said of the file. */
static void long_paths(NO_ROW)
{
    static const char *const splits[] = {"train", "val"};
    static const uint32_t broken = 1;
    const char *top = put_images(), *folder = make_deep(top);
    uint8_t images[3 * 8 * 8];
    int32_t label;
    notes heard;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            rename(test_text("%s/%s", top, splits[i]), test_text("%s/%s", folder, splits[i])), 0);
    test_file_write(test_text("%s/train/a/2.png", folder), "", 0);
    const dataset *data = open_heard(folder, false, &heard);
    refuse_batch(data, DATASET_TRAIN, &broken, 1, images, &label, CODE_DATA,
        "it is empty, or larger than 2 GiB; --skip-broken replaces");
    data = open_heard(folder, true, &heard);
    read_batch(data, DATASET_TRAIN, &broken, 1, NULL, images, &label);
    expect_note(&heard, 0, "it is empty, or larger than 2 GiB; the next image takes its place");
}

/* Another name is another set, another size of a file is not; val does not count. */
static void checksums(NO_ROW)
{
    const char *folder = put_images();
    notes heard;
    const dataset *data = open_heard(folder, false, &heard);
    const uint64_t checksum = dataset_checksum(data), sizes = dataset_sizes(data);
    put(folder, "train/b/2.png", 20);
    put(folder, "val/b/2.png", 20);
    data = open_heard(folder, false, &heard);
    assert_true(dataset_checksum(data) == checksum && dataset_sizes(data) != sizes);
    put_image(folder, "train/b/2.png");
    assert_int_equal(
        rename(test_text("%s/train/b/2.png", folder), test_text("%s/train/b/3.png", folder)), 0);
    data = open_heard(folder, false, &heard);
    assert_true(dataset_checksum(data) != checksum && dataset_sizes(data) == sizes);
}

/* One thread for each processor, this one included, but no more than images. */
static void decoding_threads(NO_ROW)
{
    enum { MOST = 80 };
    static uint8_t images[MOST * 3 * 8 * 8];
    uint32_t indices[MOST];
    int32_t labels[MOST];
    notes heard;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN), most = processors < 64 ? processors : 64;
    const dataset *data = open_heard(put_images(), false, &heard);
    for (uint32_t i = 0; i < MOST; i++)
        indices[i] = i % 4;
    for (size_t count = 1; count <= MOST; count += MOST - 1) {
        atomic_store(&threads, 0);
        read_batch(data, DATASET_TRAIN, indices, count, NULL, images, labels);
        assert_int_equal(atomic_load(&threads), count == 1 ? 0 : most - 1);
    }
}

#endif

/* Large generated images are made by several threads, and have the bits that they have one by one.
 */
static void generating_threads(NO_ROW)
{
    enum { WIDTH = 224, MOST = 20, SAMPLE = 3 * WIDTH * WIDTH };
    const long processors = sysconf(_SC_NPROCESSORS_ONLN), wanted = 1 + MOST * SAMPLE / (1 << 20);
    const dataset *data = open_well("generated", &(dataset_options){.image_size = WIDTH});
    uint8_t *images = test_alloc(MOST * SAMPLE), *one = test_alloc(SAMPLE);
    uint32_t indices[MOST];
    int32_t labels[MOST], label;
    const augment_options augment = {.seed = 3, .epoch = 2};
    for (uint32_t i = 0; i < MOST; i++)
        indices[i] = 7 * i % 11;
    atomic_store(&threads, 0);
    read_batch(data, DATASET_TRAIN, indices, MOST, &augment, images, labels);
    assert_int_equal(atomic_load(&threads), (processors < wanted ? processors : wanted) - 1);
    for (size_t i = 0; i < MOST; i++) {
        read_batch(data, DATASET_TRAIN, &indices[i], 1, &augment, one, &label);
        assert_memory_equal(one, images + i * SAMPLE, SAMPLE);
        assert_int_equal(label, labels[i]);
    }
}

/* ---- levels ---------------------------------------------------------------------------------- */

static const char *generated(void)
{
    return "generated";
}

/* Two images of 2 x 2 for training: half the pixels 51, half 153. */
static const char *put_grey(void)
{
    const char *folder = test_folder();
    static const uint8_t pixels[] = {51, 51, 153, 153, 51, 153, 51, 153}, labels[] = {0, 1};
    const uint32_t size[] = {2, 2, 2};
    put_idx(folder, "train-images-idx3-ubyte", 0x803, 3, size, pixels, sizeof pixels);
    put_idx(folder, "train-labels-idx1-ubyte", 0x801, 1, size, labels, sizeof labels);
    put_idx(folder, "t10k-images-idx3-ubyte", 0x803, 3, size, pixels, sizeof pixels);
    put_idx(folder, "t10k-labels-idx1-ubyte", 0x801, 1, size, labels, sizeof labels);
    return folder;
}

static const char *put_records(size_t label_bytes, const char *const *names)
{
    static uint8_t record[2 + PIXELS];
    const char *folder = test_folder();
    for (size_t i = 0; i < PIXELS; i++)
        record[label_bytes + i] = (uint8_t)(7 * i);
    for (; *names != NULL; names++)
        test_file_write(test_text("%s/%s", folder, *names), record, label_bytes + PIXELS);
    return folder;
}

static const char *put_cifar10(void)
{
    static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin", NULL};
    return put_records(1, names);
}

static const char *put_cifar100(void)
{
    static const char *const names[] = {"train.bin", "test.bin", NULL};
    return put_records(2, names);
}

#define IMAGENET                                                                                   \
    {                                                                                              \
        {0.485, 0.456, 0.406},                                                                     \
        {                                                                                          \
            0.229, 0.224, 0.225                                                                    \
        }                                                                                          \
    }

static const struct levels_row {
    const char *name;
    const char *(*put)(void);
    double own[2][3]; /* mean, deviation */
} levels_rows[] = {
    {"generated", generated, {{0.5, 0.5, 0.5}, {0.1, 0.1, 0.1}}},
    {"IDX", put_grey, {{0.4, 0.4, 0.4}, {0.2, 0.2, 0.2}}},
    {"CIFAR-10", put_cifar10, {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}},
    {"CIFAR-100", put_cifar100, {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}},
#if TRAINER_IMAGES
    {"folder", put_images, IMAGENET},
#endif
};

/* The choice is of levels alone: bytes and checksums are the same. */
static void levels(void **state)
{
    const struct levels_row *row = *state;
    static const double imagenet[2][3] = IMAGENET, half[2][3] = {{.5, .5, .5}, {.5, .5, .5}};
    const double(*const wants[])[3] = {
        [DATASET_BY_DATA] = row->own, [DATASET_BY_IMAGENET] = imagenet, [DATASET_BY_HALF] = half};
    const char *source = row->put();
    const dataset *plain = open_well(source, NULL);
    const size_t bytes = dataset_sample(plain).bytes;
    uint8_t *images[2] = {test_alloc(bytes), test_alloc(bytes)};
    const uint32_t first = 0;
    int32_t label;
    assert_string_equal(dataset_name(plain), row->name);
    read_batch(plain, DATASET_TRAIN, &first, 1, NULL, images[0], &label);
    for (int by = DATASET_BY_DATA; by <= DATASET_BY_HALF; by++) {
        const dataset *data =
            open_well(source, &(dataset_options){.normalise = (dataset_normalise)by});
        for (size_t i = 0; i < DATASET_CHANNELS * DATASET_LEVELS; i++) {
            const size_t c = i / DATASET_LEVELS, v = i % DATASET_LEVELS;
            assert_near(dataset_levels(data)[i],
                ((double)v / 255 - wants[by][0][c]) / wants[by][1][c], 1e-5, "level");
        }
        read_batch(data, DATASET_TRAIN, &first, 1, NULL, images[1], &label);
        assert_memory_equal(images[0], images[1], bytes);
        assert_true(dataset_checksum(data) == dataset_checksum(plain));
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, no_set, NULL, "folders without a set");
    test_add(&list, generating_threads, NULL, "generating threads");
    TEST_ADD_EACH(&list, levels, levels_rows, "levels: %s");
#if TRAINER_IMAGES
    test_add(&list, classes, NULL, "classes without images");
    test_add(&list, lost_class, NULL, "a class that cannot be looked at");
    test_add(&list, other_files, NULL, "files that are no images");
    test_add(&list, broken_files, NULL, "broken files are named once");
    test_add(&list, long_paths, NULL, "long paths");
    test_add(&list, checksums, NULL, "checksums");
    test_add(&list, decoding_threads, NULL, "decoding threads");
#endif
    return test_run_on_host("dataset_folder", &list);
}
