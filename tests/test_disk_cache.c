/* The disk layer by itself: every truncation and every bit flip of a file is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/disk_cache.h"
#include "support/test_device.h"
#include "support/test_folder.h"

enum { PAYLOAD = 300 };

static const char key[] = "a key\nof two lines";

typedef struct setting {
    char dir[TEST_PATH], path[2 * TEST_PATH];
    unsigned char payload[PAYLOAD], *file;
    size_t size;
} setting;

static setting open_setting(void)
{
    setting s;
    char name[TEST_PATH];
    const char *reason;
    test_folder_make(s.dir);
    for (size_t i = 0; i < PAYLOAD; i++)
        s.payload[i] = (unsigned char)(i * i);
    assert_int_equal(
        clprune__disk_store(s.dir, key, s.payload, PAYLOAD, &reason), CLPRUNE__DISK_OK);
    assert_null(reason);
    assert_int_equal(test_folder_count(s.dir, name), 1);
    (void)snprintf(s.path, sizeof s.path, "%s/%s", s.dir, name);
    s.file = test_file_read(s.path, &s.size);
    return s;
}

static void close_setting(setting *s)
{
    test_folder_remove(s->dir);
    free(s->file);
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

static void round_trip(void **state)
{
    (void)state;
    setting s = open_setting();
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
    assert_int_equal(load(&s, "another key"), CLPRUNE__DISK_MISS);
    assert_int_equal(load(&s, ""), CLPRUNE__DISK_MISS);
    close_setting(&s);
}

static void every_truncation(void **state)
{
    (void)state;
    setting s = open_setting();
    for (size_t size = 0; size < s.size; size++) {
        test_file_write(s.path, s.file, size);
        if (load(&s, key) != CLPRUNE__DISK_REFUSED)
            fail_msg("a file cut to %zu of %zu bytes was taken", size, s.size);
    }
    test_file_write(s.path, s.file, s.size);
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
    close_setting(&s);
}

static void every_bit_flip(void **state)
{
    (void)state;
    setting s = open_setting();
    for (size_t bit = 0; bit < 8 * s.size; bit++) {
        const unsigned char mask = (unsigned char)(1u << (bit % 8));
        s.file[bit / 8] ^= mask;
        test_file_write(s.path, s.file, s.size);
        s.file[bit / 8] ^= mask;
        if (load(&s, key) != CLPRUNE__DISK_REFUSED)
            fail_msg("bit %zu of byte %zu was flipped and the file taken", bit % 8, bit / 8);
    }
    close_setting(&s);
}

/* A header that claims a payload of the rest of memory must not be believed. */
static void huge_claims(void **state)
{
    (void)state;
    setting s = open_setting();
    static const unsigned char claims[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0},
        {255, 255, 255, 255, 255, 255, 255, 255},
        {255, 255, 255, 255, 255, 255, 255, 127},
        {168, 255, 255, 255, 255, 255, 255, 255},
        {0, 0, 0, 16, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        memcpy(s.file + 8 + 32, claims[i], 8);
        test_file_write(s.path, s.file, s.size);
        assert_int_equal(load(&s, key), CLPRUNE__DISK_REFUSED);
    }
    close_setting(&s);
}

static void failing_store(void **state)
{
    (void)state;
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
    close_setting(&s);
}

static void overwriting(void **state)
{
    (void)state;
    setting s = open_setting();
    const char *reason;
    s.payload[17] ^= 1;
    assert_int_equal(
        clprune__disk_store(s.dir, key, s.payload, PAYLOAD, &reason), CLPRUNE__DISK_OK);
    assert_int_equal(load(&s, key), CLPRUNE__DISK_OK);
    assert_int_equal(test_folder_count(s.dir, NULL), 1);
    close_setting(&s);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, round_trip, NULL, "store and load");
    test_add(&list, every_truncation, NULL, "every truncation is refused");
    test_add(&list, every_bit_flip, NULL, "every bit flip is refused");
    test_add(&list, huge_claims, NULL, "absurd sizes in the header");
    test_add(&list, failing_store, NULL, "stores that cannot be done");
    test_add(&list, overwriting, NULL, "a second store replaces the first");
    return test_run_on_host("disk cache", &list);
}
