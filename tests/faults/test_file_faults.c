/* Files of the trainer while each call of the system or of the allocator fails: an error is not
 * taken for a file that is missing, and running out of memory not for a broken file.
 *
 * access, lstat, stat and realpath that fail replace no link. Memory also runs out in Jansson and
 * while a log is compared. */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fault_host.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/plain_file.h"
#include "trainer/files/safetensors.h"
#include "trainer/report/csv_log.h"

static char folder[TEST_PATH];

static const char *in_folder(const char *name)
{
    static char paths[4][TEST_PATH + 32];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void disarm(void)
{
    fault_host_arm(FAULT_FILES, 0, false);
}

static void exists(void **state)
{
    (void)state;
    bool there;
    fault f = {0};
    test_file_write(in_folder("file"), "x", 1);
    assert_true(plain_file_exists(in_folder("file"), &there, &f) && there);
    assert_true(plain_file_exists(in_folder("none"), &there, &f) && !there);
    assert_true(plain_file_exists(in_folder("file/none"), &there, &f) && !there);
    fault_host_arm(FAULT_FILES, 1, false);
    assert_false(plain_file_exists(in_folder("file"), &there, &f));
    disarm();
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "/file: Input/output error"));
}

static void assert_content(const char *path, const char *expected)
{
    size_t size;
    char *text = test_file_read(path, &size);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(text, expected, size);
}

/* The link stays, and the file that it names is the old one or the new one. */
static void linked(void **state)
{
    (void)state;
    for (int group = 0; group < FAULT_GROUPS; group++)
        for (int forever = 0; forever < 2; forever++)
            for (unsigned at = 1, failed = 1; failed; at++) {
                struct stat status;
                atomic_file file;
                fault f = {0};
                test_file_write(in_folder("target"), "old", 3);
                (void)unlink(in_folder("link"));
                assert_int_equal(symlink("target", in_folder("link")), 0);
                fault_host_arm((fault_group)group, at, forever);
                bool good = atomic_file_open(in_folder("link"), &file, &f);
                if (good) {
                    atomic_file_put(&file, "new", 3);
                    good = atomic_file_commit(&file, &f);
                }
                failed = fault_host_fired() != NULL;
                disarm();
                assert_int_equal(lstat(in_folder("link"), &status), 0);
                if (!S_ISLNK(status.st_mode))
                    fail_msg("call %u of group %d: the link was replaced", at, group);
                if (!good)
                    assert_int_equal(f.code, group == FAULT_MEMORY ? CODE_MEMORY : CODE_DATA);
                else
                    assert_content(in_folder("target"), "new");
            }
}

static void log_begins(void **state)
{
    (void)state;
    const csv_row row = {.epoch = 1, .step = 2};
    csv_log log;
    fault f = {0};
    assert_true(csv_log_open(&log, &row, 1, &f));
    assert_true(csv_log_write(&log, in_folder("log.csv"), &f));
    for (int group = 0; group < FAULT_GROUPS; group++)
        for (unsigned at = 1, failed = 1; failed; at++) {
            bool begins = false;
            f = (fault){0};
            fault_host_arm((fault_group)group, at, false);
            const bool good = csv_log_begins(&log, in_folder("log.csv"), &begins, &f);
            failed = fault_host_fired() != NULL;
            disarm();
            if (good && !begins)
                fail_msg("call %u of group %d: taken for another log", at, group);
            if (!good)
                assert_int_equal(f.code, group == FAULT_MEMORY ? CODE_MEMORY : CODE_DATA);
        }
    csv_log_close(&log);
}

/* Jansson's allocations are this program's. */
static void json(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
    safetensors s;
    fault f = {0};
    if (!safetensors_parse("w", header, sizeof header - 1, 8, &s, &f) && f.code == CODE_USAGE)
        skip(); /* built without jansson */
    safetensors_close(&s);
    unsigned at = 0;
    for (bool failed = true; failed;) {
        f = (fault){0};
        const long before = fault_host_blocks();
        fault_host_arm(FAULT_MEMORY, ++at, false);
        const bool good = safetensors_parse("w", header, sizeof header - 1, 8, &s, &f);
        failed = fault_host_fired() != NULL;
        disarm();
        if (failed && f.code != CODE_MEMORY)
            fail_msg("allocation %u: code %d: %s", at, f.code, f.text);
        assert_int_equal(good, !failed);
        safetensors_close(&s);
        assert_int_equal(fault_host_blocks(), before);
    }
    assert_true(at > 20);
}

static int set_up(void **state)
{
    (void)state;
    test_folder_make(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exists),
        cmocka_unit_test(linked),
        cmocka_unit_test(log_begins),
        cmocka_unit_test(json),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
