/* Checkpoints of the example trainer: what was written is read, and every truncation and every
 * flipped bit is noticed, before anything is used and without touching the file. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/files/checkpoint.h"

static const float weights[6] = {1.0f, -2.5f, 3e-40f, 0.0f, -0.0f, 1e30f};
static const uint64_t position[3] = {1, UINT64_MAX, 3};
static const double sums[1] = {0.1};

/* A small checkpoint in a new folder. */
static const char *write_small(void)
{
    const char *path = test_text("%s/a.ckpt", test_folder());
    fault f = {0};
    checkpoint_writer writer;
    assert_true(checkpoint_create(path, &writer, &f));
    checkpoint_put(&writer, "options", CHECKPOINT_BYTES, 1, 5, "a=b\0");
    checkpoint_put(&writer, "position", CHECKPOINT_U64, 1, 3, position);
    checkpoint_put(&writer, "sums", CHECKPOINT_F64, 1, 1, sums);
    checkpoint_put(&writer, "log", CHECKPOINT_F64, 0, 11, NULL);
    checkpoint_put(&writer, "param/blocks.0.w", CHECKPOINT_F32, 2, 3, weights);
    test_good(checkpoint_commit(&writer, &f), &f);
    return path;
}

static size_t files_beside(const char *path)
{
    return test_folder_count(test_text("%.*s", (int)(strrchr(path, '/') - path), path), NULL);
}

/* Whether the checkpoint at `path` has a record. */
static bool has_record(const char *path, const char *name)
{
    checkpoint c;
    TEST_GOOD(checkpoint_open(path, &c, &f));
    const bool found = checkpoint_find(&c, name) != NULL;
    checkpoint_close(&c);
    return found;
}

static void reads_what_was_written(NO_ROW)
{
    const char *path = write_small();
    fault f = {0};
    checkpoint c;
    assert_int_equal(files_beside(path), 1); /* no temporary file is left */
    test_good(checkpoint_open(path, &c, &f), &f);
    assert_int_equal(c.count, 5);
    assert_memory_equal(checkpoint_get(&c, "options", CHECKPOINT_BYTES, 1, 5, &f), "a=b\0", 5);
    assert_memory_equal(
        checkpoint_get(&c, "position", CHECKPOINT_U64, 1, 3, &f), position, sizeof position);
    assert_memory_equal(checkpoint_get(&c, "sums", CHECKPOINT_F64, 1, 1, &f), sums, sizeof sums);
    assert_non_null(checkpoint_get(&c, "log", CHECKPOINT_F64, 0, 11, &f));
    const void *values = checkpoint_get(&c, "param/blocks.0.w", CHECKPOINT_F32, 2, 3, &f);
    assert_memory_equal(values, weights, sizeof weights);
    assert_int_equal((uintptr_t)values % 8, 0);
    assert_int_equal(f.code, CODE_OK);
    assert_null(checkpoint_find(&c, "param"));

    test_refused(checkpoint_get(&c, "sums", CHECKPOINT_F32, 1, 1, &f), &f, CODE_DATA, "");
    test_refused(checkpoint_get(&c, "param/blocks.0.w", CHECKPOINT_F32, 3, 2, &f), &f, CODE_DATA,
        "2 x 3, not 3 x 2");
    test_refused(
        checkpoint_get(&c, "nothing", CHECKPOINT_F32, 3, 2, &f), &f, CODE_DATA, "'nothing'");
    checkpoint_close(&c);
    checkpoint_close(&c);
}

/* Fails to open with CODE_DATA, one line, and the name of the file. */
static void refuse(const char *path, const char *what, size_t where)
{
    fault f = {0};
    checkpoint c;
    if (checkpoint_open(path, &c, &f))
        fail_msg("%s at %zu was not noticed", what, where);
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, path));
    assert_null(strchr(f.text, '\n'));
    assert_null(c.bytes);
}

static void every_truncation(NO_ROW)
{
    const char *path = write_small();
    size_t size;
    const unsigned char *bytes = test_file_read(path, &size);
    for (size_t length = 0; length < size; length++) {
        test_file_write(path, bytes, length);
        refuse(path, "a truncation", length);
    }
    test_file_write(path, bytes, size + 1); /* test_file_read puts a 0 behind the bytes */
    refuse(path, "a byte too many", size);
}

static void every_flipped_bit(NO_ROW)
{
    const char *path = write_small();
    size_t size;
    unsigned char *bytes = test_file_read(path, &size);
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (unsigned char)(bytes[i] ^ (1u << bit));
            test_file_write(path, bytes, size);
            refuse(path, "a flipped bit", 8 * i + (size_t)bit);
            bytes[i] = (unsigned char)(bytes[i] ^ (1u << bit));
        }
    }
}

/* The file as another version of its format would begin. */
static void other_version(NO_ROW)
{
    const char *path = write_small();
    const uint32_t version = 1;
    checkpoint c;
    size_t size;
    unsigned char *bytes = test_file_read(path, &size);
    memcpy(bytes + 8, &version, sizeof version);
    test_file_write(path, bytes, size);
    TEST_REFUSED(checkpoint_open(path, &c, &f), CODE_DATA,
        "a checkpoint of format 1; this program reads format 2");
}

static void no_file_or_no_regular_one(NO_ROW)
{
    const char *folder = test_folder();
    refuse(test_text("%s/a.ckpt", folder), "a missing file", 0);
    refuse(folder, "a folder", 0);
    refuse("/dev/null", "a device", 0);
}

/* A checkpoint that is not finished leaves the one before as it is. */
static void abandoned(NO_ROW)
{
    const char *path = write_small();
    checkpoint_writer writer;
    TEST_GOOD(checkpoint_create(path, &writer, &f));
    checkpoint_put(&writer, "half", CHECKPOINT_F32, 2, 3, weights);
    checkpoint_abandon(&writer);
    assert_int_equal(files_beside(path), 1);
    assert_false(has_record(path, "half"));
}

/* So does one for which the disk has no room: here, a limit on the size of files. */
static void full_disk(NO_ROW)
{
    const char *path = write_small();
    fault f = {0};
    checkpoint_writer writer;
    struct rlimit before, tight;
    const float *large = test_floats(100000);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_true(checkpoint_create(path, &writer, &f));
    checkpoint_put(&writer, "large", CHECKPOINT_F32, 1, 100000, large);
    const bool committed = checkpoint_commit(&writer, &f);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    test_refused(committed, &f, CODE_DATA, path);
    assert_int_equal(files_beside(path), 1);
    assert_true(has_record(path, "param/blocks.0.w"));
}

static void no_folder(NO_ROW)
{
    const char *folder = test_folder(), *none = test_text("%s/none/a.ckpt", folder),
               *deep = test_text("%s/a/b//c/", folder), *file = test_text("%s/file", folder);
    checkpoint_writer writer;
    TEST_REFUSED(checkpoint_create(none, &writer, &f), CODE_DATA, none);
    checkpoint_abandon(&writer);
    TEST_GOOD(make_folder(deep, &f));
    TEST_GOOD(make_folder(deep, &f));
    test_file_write(file, "x", 1);
    TEST_REFUSED(make_folder(file, &f), CODE_DATA, "");
}

/* What is no regular file is written as it is, and stays what it is. */
static void device_file(NO_ROW)
{
    atomic_file file;
    struct stat status;
    TEST_GOOD(atomic_file_open("/dev/null", &file, &f));
    (void)fputs("gone", file.stream);
    TEST_GOOD(atomic_file_commit(&file, &f));
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    if (stat("/dev/full", &status) != 0)
        return;
    TEST_GOOD(atomic_file_open("/dev/full", &file, &f));
    (void)fputs("no room", file.stream);
    TEST_REFUSED(atomic_file_commit(&file, &f), CODE_DATA, "/dev/full");
}

int main(void)
{
    test_list list = {0};
    test_add(&list, reads_what_was_written, NULL, "reads what was written");
    test_add(&list, every_truncation, NULL, "every truncation");
    test_add(&list, every_flipped_bit, NULL, "every flipped bit");
    test_add(&list, other_version, NULL, "another version");
    test_add(&list, no_file_or_no_regular_one, NULL, "no file");
    test_add(&list, abandoned, NULL, "abandoned");
    test_add(&list, full_disk, NULL, "full disk");
    test_add(&list, no_folder, NULL, "no folder");
    test_add(&list, device_file, NULL, "device file");
    return test_run_on_host("checkpoint", &list);
}
