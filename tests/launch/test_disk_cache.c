/* The disk layer by itself: every truncation and every bit flip of a file is refused.
 *
 * Disks that are full after any number of bytes and folders that cannot be written only fail the
 * store. Temporaries of dead processes go; the least recently used files make room. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/disk_cache.h"
#include "support/test.h"

enum { PAYLOAD = 300, NOBODY = 65534 };

static const char key[] = "a key\nof two lines";

typedef struct setting {
    const char *dir, *path;
    unsigned char payload[PAYLOAD], *file;
    size_t size;
} setting;

static void store(const setting *s, const char *with_key)
{
    const char *reason;
    assert_int_equal(
        clprune__disk_store(s->dir, with_key, s->payload, PAYLOAD, &reason), CLPRUNE__DISK_OK);
    assert_null(reason);
}

static setting open_setting(void)
{
    setting s = {.dir = test_folder()};
    char name[TEST_PATH];
    for (size_t i = 0; i < PAYLOAD; i++)
        s.payload[i] = (unsigned char)(i * i);
    store(&s, key);
    assert_int_equal(test_folder_count(s.dir, name), 1);
    s.path = test_text("%s/%s", s.dir, name);
    s.file = test_file_read(s.path, &s.size);
    return s;
}

static clprune__disk_result load(const setting *s, const char *with_key)
{
    unsigned char *payload = NULL;
    size_t size = 1;
    const char *reason = NULL;
    const clprune__disk_result result =
        clprune__disk_load(s->dir, with_key, &payload, &size, &reason);
    if (result == CLPRUNE__DISK_OK) {
        assert_int_equal(size, PAYLOAD);
        assert_memory_equal(payload, s->payload, PAYLOAD);
        assert_null(reason);
    } else {
        assert_null(payload);
        assert_int_equal(size, 0);
        assert_true((result == CLPRUNE__DISK_MISS) == (reason == NULL));
    }
    free(payload);
    return result;
}

static void round_trip(NO_ROW)
{
    setting s = open_setting();
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
    assert_int_equal(load(&s, "another key"), CLPRUNE__DISK_MISS);
    assert_int_equal(load(&s, ""), CLPRUNE__DISK_MISS);
}

static void every_truncation(NO_ROW)
{
    setting s = open_setting();
    for (size_t size = 0; size < s.size; size++) {
        test_file_write(s.path, s.file, size);
        if (load(&s, key) != CLPRUNE__DISK_REFUSED)
            fail_msg("a file cut to %zu of %zu bytes was taken", size, s.size);
    }
    test_file_write(s.path, s.file, s.size);
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
}

static void every_bit_flip(NO_ROW)
{
    setting s = open_setting();
    for (size_t bit = 0; bit < 8 * s.size; bit++) {
        const unsigned char mask = (unsigned char)(1u << (bit % 8));
        s.file[bit / 8] ^= mask;
        test_file_write(s.path, s.file, s.size);
        s.file[bit / 8] ^= mask;
        if (load(&s, key) != CLPRUNE__DISK_REFUSED)
            fail_msg("bit %zu of byte %zu was flipped and the file taken", bit % 8, bit / 8);
    }
}

/* A header that claims a payload of the rest of memory must not be believed. */
static void huge_claims(NO_ROW)
{
    setting s = open_setting();
    static const unsigned char claims[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0},
        {255, 255, 255, 255, 255, 255, 255, 255},
        {255, 255, 255, 255, 255, 255, 255, 127},
        {168, 255, 255, 255, 255, 255, 255, 255},
        {0, 0, 0, 16, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(claims); i++) {
        memcpy(s.file + 8 + 32, claims[i], 8);
        test_file_write(s.path, s.file, s.size);
        assert_int_equal(load(&s, key), CLPRUNE__DISK_REFUSED);
    }
    /* a byte above the limit, in a file of that size: it is not even read */
    const off_t above = ((off_t)256 << 20) + 1;
    memcpy(s.file + 8 + 32, (const unsigned char[8]){1, 0, 0, 16}, 8);
    test_file_write(s.path, s.file, s.size);
    assert_int_equal(truncate(s.path, (off_t)(s.size - PAYLOAD) + above), 0);
    unsigned char *payload;
    size_t size;
    const char *reason;
    assert_int_equal(
        clprune__disk_load(s.dir, key, &payload, &size, &reason), CLPRUNE__DISK_REFUSED);
    assert_string_equal(reason, "a file has the wrong size");
}

static void failing_store(NO_ROW)
{
    setting s = open_setting();
    const char *reason = NULL;
    assert_int_equal(clprune__disk_store(s.dir, key, s.payload, 0, &reason), CLPRUNE__DISK_FAILED);
    assert_int_equal(clprune__disk_store("/nonexistent/folder", key, s.payload, PAYLOAD, &reason),
        CLPRUNE__DISK_FAILED);
    assert_non_null(reason);
    static char name[8000];
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(
        clprune__disk_store(name, key, s.payload, PAYLOAD, &reason), CLPRUNE__DISK_FAILED);
    assert_int_equal(test_folder_count(s.dir, NULL), 1);
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
}

/* The file is as it was, and alone. */
static void check_untouched(const setting *s)
{
    size_t size;
    unsigned char *now = test_file_read(s->path, &size);
    assert_int_equal(size, s->size);
    assert_memory_equal(now, s->file, size);
    assert_int_equal(test_folder_count(s->dir, NULL), 1);
}

/* The disk is full, or says that it cannot write, at any moment of a store: what was there stays.
 * Where files end is a limit on their size here. */
static void full_disk(NO_ROW)
{
    setting s = open_setting();
    struct rlimit before, tight;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    s.payload[17] ^= 1;
    for (rlim_t room = 0; room < s.size; room += 1 + room / 8) {
        const char *reason = NULL;
        tight = before;
        tight.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        const clprune__disk_result result =
            clprune__disk_store(s.dir, key, s.payload, PAYLOAD, &reason);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (result != CLPRUNE__DISK_FAILED || reason == NULL)
            fail_msg(
                "with room for %lu bytes a store of %zu succeeds", (unsigned long)room, s.size);
        check_untouched(&s);
    }
    s.payload[17] ^= 1;
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
}

/* Acts as a user without a superuser's rights, who may write everywhere. */
static void become_nobody(const char *folder)
{
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    assert_int_equal(seteuid(NOBODY), 0);
}

static void become_oneself(void)
{
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
}

/* A home that cannot be written has no cache; a folder that became so serves what it holds. */
static void read_only_folders(NO_ROW)
{
    const char *base = test_folder(), *dir = test_text("%s/below/cache", base);
    unsigned char payload[PAYLOAD] = {7}, *loaded;
    const char *reason;
    size_t size;
    become_nobody(base);
    assert_int_equal(chmod(base, 0500), 0);
    assert_null(clprune__disk_folder(dir, &reason));
    assert_string_equal(reason, "the folder cannot be created");
    assert_int_equal(chmod(base, 0700), 0);
    char *made = clprune__disk_folder(dir, &reason);
    assert_string_equal(made, dir);
    assert_int_equal(clprune__disk_store(made, key, payload, PAYLOAD, &reason), CLPRUNE__DISK_OK);
    assert_int_equal(chmod(dir, 0500), 0);
    free(made);
    made = clprune__disk_folder(dir, &reason);
    assert_string_equal(made, dir);
    assert_int_equal(clprune__disk_load(made, key, &loaded, &size, &reason), CLPRUNE__DISK_OK);
    assert_int_equal(size, PAYLOAD);
    assert_memory_equal(loaded, payload, PAYLOAD);
    free(loaded);
    assert_int_equal(
        clprune__disk_store(made, "another key", payload, PAYLOAD, &reason), CLPRUNE__DISK_FAILED);
    assert_string_equal(reason, "a file cannot be created");
    assert_int_equal(
        clprune__disk_load(made, "another key", &loaded, &size, &reason), CLPRUNE__DISK_MISS);
    clprune__disk_tidy(made, 0); /* which cannot remove anything */
    free(made);
    assert_int_equal(chmod(dir, 0700), 0);
    become_oneself();
}

/* What is no folder, without waiting for the other end of a FIFO. */
static void no_folders(NO_ROW)
{
    const char *reason, *fifo = test_text("%s/fifo", test_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const others[] = {fifo, "/dev/null", "/dev/zero"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_null(clprune__disk_folder(others[i], &reason));
        assert_string_equal(reason, "the folder's name is taken by a file or a link");
        assert_null(clprune__disk_folder(test_text("%s/below", others[i]), &reason));
        assert_string_equal(reason, "the folder cannot be created");
    }
}

static void overwriting(NO_ROW)
{
    setting s = open_setting();
    s.payload[17] ^= 1;
    store(&s, key);
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
    assert_int_equal(test_folder_count(s.dir, NULL), 1);
}

/* Gives a file of the folder an age and returns whether it is there. */
static void make_old(const char *dir, const char *name, long seconds)
{
    const char *path = test_text("%s/%s", dir, name);
    const struct timespec then = {time(NULL) - seconds, 0};
    const struct timespec times[2] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void make_file(const char *dir, const char *name, long age)
{
    test_file_write(test_text("%s/%s", dir, name), "x", 1);
    make_old(dir, name, age);
}

static bool is_there(const char *dir, const char *name)
{
    struct stat info;
    return lstat(test_text("%s/%s", dir, name), &info) == 0;
}

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Temporaries that nobody writes any more go; nothing else does. */
static void stale_temporaries(NO_ROW)
{
    static const struct {
        const char *name;
        long age;
        bool goes;
    } rows[] = {{DIGITS ".bin.aB3xYz", 2 * CLPRUNE__DISK_STALE_S, true},
        {DIGITS ".bin.000000", CLPRUNE__DISK_STALE_S + 60, true},
        {DIGITS ".bin.111111", CLPRUNE__DISK_STALE_S - 60, false}, {DIGITS ".bin", 1000000, false},
        {DIGITS ".bin.1234567", 1000000, false}, {DIGITS "0.bin.123456", 1000000, false},
        {"notes.txt", 1000000, false}, {"notes.bin.123456", 1000000, false}};
    enum { ROWS = COUNT_OF(rows) };
    const char *dir = test_folder();
    for (size_t i = 0; i < ROWS; i++)
        make_file(dir, rows[i].name, rows[i].age);
    assert_int_equal(symlink("notes.txt", test_text("%s/%s", dir, DIGITS ".bin.linked")), 0);
    make_old(dir, DIGITS ".bin.linked", 1000000);
    clprune__disk_tidy(dir, CLPRUNE__DISK_LIMIT);
    for (size_t i = 0; i < ROWS; i++)
        if (is_there(dir, rows[i].name) == rows[i].goes)
            fail_msg(
                "%s, %ld s old, is%s there", rows[i].name, rows[i].age, rows[i].goes ? "" : " not");
    assert_true(is_there(dir, DIGITS ".bin.linked"));
    clprune__disk_tidy("/nonexistent/folder", 0);
}

/* What was used last stays. */
static void least_recently_used(NO_ROW)
{
    enum { FILES = 5 };
    static const char *const keys[FILES] = {"a", "b", "c", "d", "e"};
    setting s = open_setting();
    char name[FILES][TEST_PATH];
    assert_int_equal(unlink(s.path), 0);
    for (int i = 0; i < FILES; i++) { /* a folder of one file tells its name */
        store(&s, keys[i]);
        assert_int_equal(test_folder_count(s.dir, name[i]), 1);
        assert_int_equal(unlink(test_text("%s/%s", s.dir, name[i])), 0);
    }
    for (int i = 0; i < FILES; i++) {
        store(&s, keys[i]);
        make_old(s.dir, name[i], 1000 - i);
    }
    make_file(s.dir, "notes.txt", 5000);
    clprune__disk_tidy(s.dir, FILES * s.size);
    assert_int_equal(test_folder_count(s.dir, NULL), FILES + 1); /* all fit */
    assert_int_equal(load(&s, "a"), CLPRUNE__DISK_OK);
    clprune__disk_tidy(s.dir, 3 * s.size + 1);
    static const bool stays[FILES] = {true, false, false, true, true};
    for (int i = 0; i < FILES; i++)
        if (is_there(s.dir, name[i]) != stays[i])
            fail_msg("%s is%s there", keys[i], stays[i] ? " not" : "");
    clprune__disk_tidy(s.dir, 0);
    assert_int_equal(test_folder_count(s.dir, NULL), 1);
    assert_true(is_there(s.dir, "notes.txt"));
}

int main(void)
{
    test_list list = {0};
    test_add(&list, round_trip, NULL, "store and load");
    test_add(&list, every_truncation, NULL, "every truncation is refused");
    test_add(&list, every_bit_flip, NULL, "every bit flip is refused");
    test_add(&list, huge_claims, NULL, "absurd sizes in the header");
    test_add(&list, failing_store, NULL, "stores that cannot be done");
    test_add(&list, full_disk, NULL, "a disk that is full after any number of bytes");
    test_add(&list, read_only_folders, NULL, "folders that may not be written");
    test_add(&list, no_folders, NULL, "FIFOs and devices in place of the folder");
    test_add(&list, stale_temporaries, NULL, "temporaries of processes that died");
    test_add(&list, least_recently_used, NULL, "the least recently used files make room");
    test_add(&list, overwriting, NULL, "a second store replaces the first");
    return test_run_on_host("disk cache", &list);
}
