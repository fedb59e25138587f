/* Checkpoints of the example trainer: what was written is read, and every truncation and every
 * flipped bit is noticed, before anything is used and without touching the file. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/files/checkpoint.h"

typedef struct paths {
    char folder[TEST_PATH];
    char file[TEST_PATH + 16], temporary[TEST_PATH + 24];
} paths;

static paths make_paths(void)
{
    paths p;
    test_folder_make(p.folder);
    (void)snprintf(p.file, sizeof p.file, "%s/a.ckpt", p.folder);
    (void)snprintf(p.temporary, sizeof p.temporary, "%s.tmp", p.file);
    return p;
}

static const float weights[6] = {1.0f, -2.5f, 3e-40f, 0.0f, -0.0f, 1e30f};
static const uint64_t position[3] = {1, UINT64_MAX, 3};
static const double sums[1] = {0.1};

static void write_small(const char *path)
{
    fault f = {0};
    checkpoint_writer writer;
    assert_true(checkpoint_create(path, &writer, &f));
    checkpoint_put(&writer, "options", CHECKPOINT_BYTES, 1, 5, "a=b\0");
    checkpoint_put(&writer, "position", CHECKPOINT_U64, 1, 3, position);
    checkpoint_put(&writer, "sums", CHECKPOINT_F64, 1, 1, sums);
    checkpoint_put(&writer, "log", CHECKPOINT_F64, 0, 11, NULL);
    checkpoint_put(&writer, "param/blocks.0.w", CHECKPOINT_F32, 2, 3, weights);
    assert_true(checkpoint_commit(&writer, &f));
    assert_int_equal(f.code, CODE_OK);
}

static void reads_what_was_written(void **state)
{
    (void)state;
    const paths p = make_paths();
    fault f = {0};
    checkpoint c;
    write_small(p.file);
    assert_int_equal(test_folder_count(p.folder, NULL), 1); /* no temporary file is left */
    assert_true(checkpoint_open(p.file, &c, &f));
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

    assert_null(checkpoint_get(&c, "sums", CHECKPOINT_F32, 1, 1, &f));
    assert_int_equal(f.code, CODE_DATA);
    f = (fault){0};
    assert_null(checkpoint_get(&c, "param/blocks.0.w", CHECKPOINT_F32, 3, 2, &f));
    assert_non_null(strstr(f.text, "2 x 3, not 3 x 2"));
    f = (fault){0};
    assert_null(checkpoint_get(&c, "nothing", CHECKPOINT_F32, 3, 2, &f));
    assert_non_null(strstr(f.text, "'nothing'"));
    checkpoint_close(&c);
    checkpoint_close(&c);
    test_folder_remove(p.folder);
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

static void every_truncation(void **state)
{
    (void)state;
    const paths p = make_paths();
    size_t size;
    write_small(p.file);
    unsigned char *bytes = test_file_read(p.file, &size);
    for (size_t length = 0; length < size; length++) {
        test_file_write(p.file, bytes, length);
        refuse(p.file, "a truncation", length);
    }
    unsigned char *longer = test_alloc(size + 1);
    memcpy(longer, bytes, size);
    test_file_write(p.file, longer, size + 1);
    refuse(p.file, "a byte too many", size);
    test_folder_remove(p.folder);
}

static void every_flipped_bit(void **state)
{
    (void)state;
    const paths p = make_paths();
    size_t size;
    write_small(p.file);
    unsigned char *bytes = test_file_read(p.file, &size);
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (unsigned char)(bytes[i] ^ (1u << bit));
            test_file_write(p.file, bytes, size);
            refuse(p.file, "a flipped bit", 8 * i + (size_t)bit);
            bytes[i] = (unsigned char)(bytes[i] ^ (1u << bit));
        }
    }
    test_folder_remove(p.folder);
}

/* The file as another version of its format would begin. */
static void other_version(void **state)
{
    (void)state;
    const paths p = make_paths();
    fault f = {0};
    checkpoint c;
    size_t size;
    write_small(p.file);
    unsigned char *bytes = test_file_read(p.file, &size);
    const uint32_t version = 2;
    memcpy(bytes + 8, &version, sizeof version);
    test_file_write(p.file, bytes, size);
    assert_false(checkpoint_open(p.file, &c, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "a checkpoint of format 2; this program reads format 1"));
    test_folder_remove(p.folder);
}

static void no_file_or_no_regular_one(void **state)
{
    (void)state;
    const paths p = make_paths();
    refuse(p.file, "a missing file", 0);
    refuse(p.folder, "a folder", 0);
    refuse("/dev/null", "a device", 0);
    test_folder_remove(p.folder);
}

/* A checkpoint that is not finished leaves the one before as it is. */
static void abandoned(void **state)
{
    (void)state;
    const paths p = make_paths();
    fault f = {0};
    checkpoint_writer writer;
    checkpoint c;
    write_small(p.file);
    assert_true(checkpoint_create(p.file, &writer, &f));
    checkpoint_put(&writer, "half", CHECKPOINT_F32, 2, 3, weights);
    checkpoint_abandon(&writer);
    assert_int_equal(test_folder_count(p.folder, NULL), 1);
    assert_true(checkpoint_open(p.file, &c, &f));
    assert_null(checkpoint_find(&c, "half"));
    checkpoint_close(&c);
    test_folder_remove(p.folder);
}

/* So does one for which the disk has no room: here, a limit on the size of files. */
static void full_disk(void **state)
{
    (void)state;
    const paths p = make_paths();
    fault f = {0};
    checkpoint_writer writer;
    checkpoint c;
    struct rlimit before, tight;
    float *large = test_alloc(100000 * sizeof *large);
    write_small(p.file);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_true(checkpoint_create(p.file, &writer, &f));
    checkpoint_put(&writer, "large", CHECKPOINT_F32, 1, 100000, large);
    const bool committed = checkpoint_commit(&writer, &f);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(committed);
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, p.file));
    assert_int_equal(test_folder_count(p.folder, NULL), 1);
    f = (fault){0};
    assert_true(checkpoint_open(p.file, &c, &f));
    assert_non_null(checkpoint_find(&c, "param/blocks.0.w"));
    checkpoint_close(&c);
    test_folder_remove(p.folder);
}

static void no_folder(void **state)
{
    (void)state;
    const paths p = make_paths();
    fault f = {0};
    checkpoint_writer writer;
    char path[TEST_PATH + 32];
    (void)snprintf(path, sizeof path, "%s/none/a.ckpt", p.folder);
    assert_false(checkpoint_create(path, &writer, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, path));
    checkpoint_abandon(&writer);

    f = (fault){0};
    (void)snprintf(path, sizeof path, "%s/a/b//c/", p.folder);
    assert_true(make_folder(path, &f));
    assert_true(make_folder(path, &f));
    test_file_write(p.file, "x", 1);
    assert_false(make_folder(p.file, &f));
    assert_int_equal(f.code, CODE_DATA);
    test_folder_remove(p.folder);
}

/* What is no regular file is written as it is, and stays what it is. */
static void device_file(void **state)
{
    (void)state;
    fault f = {0};
    atomic_file file;
    struct stat status;
    assert_true(atomic_file_open("/dev/null", &file, &f));
    (void)fputs("gone", file.stream);
    assert_true(atomic_file_commit(&file, &f));
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    if (stat("/dev/full", &status) != 0)
        return;
    assert_true(atomic_file_open("/dev/full", &file, &f));
    (void)fputs("no room", file.stream);
    assert_false(atomic_file_commit(&file, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "/dev/full"));
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
