/* Folders of images as a user makes them: what is left out, refused, noted or missing.
 *
 * Each folder without a set is told what it lacks. Empty classes, and classes that cannot be looked
 * at, are refused. Left-out files and folders, missing classes and broken images are noted once.
 * Checksums, also of earlier programs. The count of decoding threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/data/dataset.h"
#include "trainer/data/fnv.h"

#if TRAINER_IMAGES
#include <png.h>
#endif

/* Threads that were started; a folder that may not be read, "" for none. */
static atomic_int threads;
static char closed[TEST_PATH];
static int closed_by = EACCES; /* errno of such a read */

int __real_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __real_access(const char *path, int mode);
int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user);
int __wrap_access(const char *path, int mode);

int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    atomic_fetch_add(&threads, 1);
    return __real_pthread_create(thread, attributes, start, user);
}

int __wrap_access(const char *path, int mode)
{
    if (closed[0] == '\0' || strncmp(path, closed, strlen(closed)) != 0)
        return __real_access(path, mode);
    errno = closed_by;
    return -1;
}

/* Makes a file of `bytes` zeros, and the folders before it; with a slash at its end, a folder. */
static void put(const char *folder, const char *name, size_t bytes)
{
    static const uint8_t zeros[64];
    char path[2 * TEST_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
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

static void no_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof missing_rows / sizeof *missing_rows; i++) {
        const missing_row *row = &missing_rows[i];
        char folder[TEST_PATH], err[512];
        dataset *data;
        test_folder_make(folder);
        for (int k = 0; k < 2 && row->made[k] != NULL; k++)
            put(folder, row->made[k], 1);
        assert_int_equal(dataset_open(folder, NULL, &data, err, sizeof err), DATASET_NOT_FOUND);
        if (strncmp(err, folder, strlen(folder)) != 0 || strstr(err, row->said) == NULL)
            fail_msg("'%s' lacks '%s'", err, row->said);
        (void)snprintf(closed, sizeof closed, "%s", folder);
        const dataset_status status = dataset_open(folder, NULL, &data, err, sizeof err);
        closed[0] = '\0';
        assert_int_equal(status, DATASET_NOT_FOUND);
        assert_non_null(strstr(err, strerror(EACCES)));
        (void)snprintf(closed, sizeof closed, "%s", folder);
        closed_by = EIO; /* what is there is not known */
        const dataset_status unknown = dataset_open(folder, NULL, &data, err, sizeof err);
        closed[0] = '\0';
        closed_by = EACCES;
        assert_int_equal(unknown, DATASET_BAD_FILE);
        assert_non_null(strstr(err, strerror(EIO)));
        test_folder_remove(folder);
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

#if TRAINER_IMAGES

static void put_image(const char *folder, const char *name)
{
    static const uint8_t rgb[3 * 8 * 8];
    char path[2 * TEST_PATH];
    png_image png = {
        .version = PNG_IMAGE_VERSION, .width = 8, .height = 8, .format = PNG_FORMAT_RGB};
    put(folder, name, 0);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_not_equal(png_image_write_to_file(&png, path, 0, rgb, 0, NULL), 0);
}

static void put_images(char folder[TEST_PATH])
{
    static const char *const names[] = {"train/a/1.png", "train/a/2.png", "train/b/1.png",
        "train/b/2.png", "val/a/1.png", "val/b/1.png"};
    test_folder_make(folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_image(folder, names[i]);
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

static dataset *open_well(const char *folder, bool skips, notes *heard)
{
    const dataset_options wanted = {
        .image_size = 8, .skip_broken = skips, .hear = hear, .hear_user = heard};
    char err[512];
    dataset *data;
    *heard = (notes){0};
    if (dataset_open(folder, &wanted, &data, err, sizeof err) != DATASET_OK)
        fail_msg("%s", err);
    return data;
}

static void expect_note(const notes *heard, int i, const char *part)
{
    if (heard->count <= i || strstr(heard->text[i], part) == NULL)
        fail_msg("note %d of %d, '%s', lacks '%s'", i, heard->count, heard->text[i], part);
}

static void classes(void **state)
{
    (void)state;
    static const char *const empty[] = {"train/c/", "val/c/"};
    char folder[TEST_PATH], err[512], part[64];
    notes heard;
    dataset *data;
    put_images(folder);
    put(folder, "train/c/notes.txt", 1);
    for (int i = 0; i < 2; i++) {
        put(folder, empty[i], 0);
        assert_int_equal(dataset_open(folder, NULL, &data, err, sizeof err), DATASET_BAD_FILE);
        (void)snprintf(part, sizeof part, "/%.*s: a class without .jpg, .jpeg or .png files",
            (int)strlen(empty[i]) - 1, empty[i]);
        if (strstr(err, part) == NULL)
            fail_msg("'%s' lacks '%s'", err, part);
        put_image(folder, "train/c/1.png"); /* now it is val's that has none */
    }
    put_image(folder, "val/c/1.png");
    put_image(folder, "train/d/1.png");
    put_image(folder, "train/e/1.png");
    data = open_well(folder, false, &heard);
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 1, "/val: 2 of 5 classes are missing, d among them");
    dataset_close(data);
    test_folder_remove(folder);
}

/* An entry that cannot be looked at may be a class: left out, it would number the later ones anew.
 */
static void lost_class(void **state)
{
    (void)state;
    static const char *const parts[] = {"train", "val"};
    char folder[TEST_PATH], path[2 * TEST_PATH], err[2 * TEST_PATH];
    dataset *data;
    put_images(folder);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/aa", folder, parts[i]);
        assert_int_equal(symlink("no-such-folder", path), 0);
        assert_int_equal(dataset_open(folder, NULL, &data, err, sizeof err), DATASET_BAD_FILE);
        (void)snprintf(path, sizeof path, "%s/%s/aa: %s", folder, parts[i], strerror(ENOENT));
        assert_string_equal(err, path);
        (void)snprintf(path, sizeof path, "%s/%s/aa", folder, parts[i]);
        assert_int_equal(unlink(path), 0);
    }
    test_folder_remove(folder);
}

static void other_files(void **state)
{
    (void)state;
    static const char *const names[] = {"train/b/x.jfif", "train/a/y.webp", "train/a/x.gif",
        "train/a/.hidden", "train/a/deeper/x.tif", "train/list.txt"};
    char folder[TEST_PATH];
    notes heard;
    put_images(folder);
    dataset_close(open_well(folder, false, &heard));
    assert_int_equal(heard.count, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(folder, names[i], 1);
    dataset_close(open_well(folder, false, &heard));
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 0,
        "/train: 3 files are no .jpg, .jpeg or .png and are left out, a/x.gif among them");
    expect_note(&heard, 1, "/train: 1 folders in classes are left out, a/deeper among them");
    test_folder_remove(folder);
}

/* Each broken file is named once, however often it is replaced, in either split. */
static void broken_files(void **state)
{
    (void)state;
    const uint32_t twice[2] = {1, 1};
    uint8_t images[2 * 3 * 8 * 8];
    char folder[TEST_PATH], err[512];
    int32_t labels[2];
    notes heard;
    put_images(folder);
    put(folder, "train/a/2.png", 0);
    put(folder, "val/b/1.png", 20);
    dataset *data = open_well(folder, true, &heard);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            dataset_batch(data, DATASET_TRAIN, twice, 2, NULL, images, labels, err, sizeof err),
            DATASET_OK);
    assert_int_equal(dataset_skipped(data), 4);
    assert_int_equal(heard.count, 1);
    expect_note(&heard, 0, "/train/a/2.png: it is empty, or larger than 2 GiB; the next image");
    assert_int_equal(
        dataset_batch(data, DATASET_TEST, twice, 1, NULL, images, labels, err, sizeof err),
        DATASET_OK);
    assert_int_equal(dataset_skipped(data), 5);
    assert_int_equal(heard.count, 2);
    expect_note(&heard, 1, "/val/b/1.png: ");
    dataset_close(data);
    data = open_well(folder, false, &heard);
    assert_int_equal(
        dataset_batch(data, DATASET_TRAIN, twice, 2, NULL, images, labels, err, sizeof err),
        DATASET_BAD_FILE);
    assert_non_null(strstr(err, "; --skip-broken replaces such files"));
    assert_int_equal(heard.count, 0);
    dataset_close(data);
    test_folder_remove(folder);
}

/* Makes the folders a/a/... below `folder` and appends them to its path, to 1700 characters. */
static void make_deep(char *folder)
{
    const char *name = "a-folder-with-a-long-name-and-many-of-its-kind-inside";
    for (size_t used; (used = strlen(folder)) < 1700;) {
        (void)sprintf(folder + used, "/%s", name);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* A long path does not cut off what is said of the file. */
static void long_paths(void **state)
{
    (void)state;
    static const uint32_t broken = 1;
    uint8_t images[3 * 8 * 8];
    char top[TEST_PATH], folder[2048], link[2 * TEST_PATH], path[2304], err[8192];
    int32_t label;
    notes heard;
    put_images(top);
    (void)snprintf(folder, sizeof folder, "%s", top);
    make_deep(folder);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(link, sizeof link, "%s/%s", top, i == 0 ? "train" : "val");
        (void)snprintf(path, sizeof path, "%s/%s", folder, i == 0 ? "train" : "val");
        assert_int_equal(rename(link, path), 0);
    }
    (void)snprintf(path, sizeof path, "%s/train/a/2.png", folder);
    test_file_write(path, "", 0);
    dataset *data = open_well(folder, false, &heard);
    assert_int_equal(
        dataset_batch(data, DATASET_TRAIN, &broken, 1, NULL, images, &label, err, sizeof err),
        DATASET_BAD_FILE);
    assert_non_null(strstr(err, "it is empty, or larger than 2 GiB; --skip-broken replaces"));
    dataset_close(data);
    data = open_well(folder, true, &heard);
    assert_int_equal(
        dataset_batch(data, DATASET_TRAIN, &broken, 1, NULL, images, &label, err, sizeof err),
        DATASET_OK);
    expect_note(&heard, 0, "it is empty, or larger than 2 GiB; the next image takes its place");
    dataset_close(data);
    test_folder_remove(top);
}

/* What earlier programs took for the checksum: the number of files, and the classes. */
static uint64_t old_checksum(uint64_t files, const char *all, size_t size)
{
    return fnv1a(fnv1a(FNV_START, &files, sizeof files), all, size);
}

/* Another name is another set, another size of a file is not; val does not count. */
static void checksums(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[2 * TEST_PATH], other[2 * TEST_PATH];
    notes heard;
    put_images(folder);
    dataset *data = open_well(folder, false, &heard);
    const uint64_t checksum = dataset_checksum(data), sizes = dataset_sizes(data);
    assert_true(dataset_has_checksum(data, checksum));
    assert_true(dataset_has_checksum(data, old_checksum(4, "a\0b", 4)));
    assert_false(dataset_has_checksum(data, old_checksum(5, "a\0b", 4)));
    dataset_close(data);
    put(folder, "train/b/2.png", 20);
    put(folder, "val/b/2.png", 20);
    data = open_well(folder, false, &heard);
    assert_true(dataset_checksum(data) == checksum && dataset_sizes(data) != sizes);
    dataset_close(data);
    put_image(folder, "train/b/2.png");
    (void)snprintf(path, sizeof path, "%s/train/b/2.png", folder);
    (void)snprintf(other, sizeof other, "%s/train/b/3.png", folder);
    assert_int_equal(rename(path, other), 0);
    data = open_well(folder, false, &heard);
    assert_true(dataset_checksum(data) != checksum && dataset_sizes(data) == sizes);
    dataset_close(data);
    test_folder_remove(folder);
}

/* One thread for each processor, this one included, but no more than images. */
static void decoding_threads(void **state)
{
    (void)state;
    enum { MOST = 80 };
    static uint8_t images[MOST * 3 * 8 * 8];
    uint32_t indices[MOST];
    int32_t labels[MOST];
    char folder[TEST_PATH], err[512];
    notes heard;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    put_images(folder);
    dataset *data = open_well(folder, false, &heard);
    for (uint32_t i = 0; i < MOST; i++)
        indices[i] = i % 4;
    for (size_t count = 1; count <= MOST; count += MOST - 1) {
        const long most = processors < 64 ? processors : 64;
        atomic_store(&threads, 0);
        assert_int_equal(dataset_batch(data, DATASET_TRAIN, indices, count, NULL, images, labels,
                             err, sizeof err),
            DATASET_OK);
        assert_int_equal(atomic_load(&threads), count == 1 ? 0 : most - 1);
    }
    dataset_close(data);
    test_folder_remove(folder);
}

#endif

int main(void)
{
    test_list list = {0};
    test_add(&list, no_set, NULL, "folders without a set");
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
