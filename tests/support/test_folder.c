#include "support/test_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_device.h"

void test_folder_make(char path[TEST_PATH])
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, TEST_PATH, "%.400s/clprune-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

static int is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

void test_folder_remove(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    if (S_ISDIR(info.st_mode)) {
        DIR *folder = opendir(path);
        const struct dirent *entry;
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            char child[8 * TEST_PATH];
            if (is_dots(entry->d_name))
                continue;
            (void)snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
            test_folder_remove(child);
        }
        if (folder != NULL)
            (void)closedir(folder);
        (void)rmdir(path);
    } else {
        (void)unlink(path);
    }
}

size_t test_folder_count(const char *path, char name[TEST_PATH])
{
    size_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (is_dots(entry->d_name))
            continue;
        count++;
        if (name != NULL)
            (void)snprintf(name, TEST_PATH, "%s", entry->d_name);
    }
    (void)closedir(folder);
    return count;
}

void *test_file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    *size = (size_t)end;
    void *data = test_alloc(*size + 1);
    assert_int_equal(fread(data, 1, *size, file), *size);
    (void)fclose(file);
    return data;
}

void test_file_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void test_environment(const char *name, const char *value)
{
    const int failed = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    assert_int_equal(failed, 0);
}

void test_debug(const char *words)
{
    static char started_with[256], all[512];
    static bool known = false;
    if (!known) {
        const char *environment = getenv("CLPRUNE_DEBUG");
        (void)snprintf(
            started_with, sizeof started_with, "%s", environment != NULL ? environment : "");
        known = true;
    }
    (void)snprintf(all, sizeof all, "%s%s%s", started_with,
        started_with[0] != '\0' && words != NULL ? "," : "", words != NULL ? words : "");
    test_environment("CLPRUNE_DEBUG", all);
}
