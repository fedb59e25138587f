/* The key of a program cache file covers everything that a binary depends on; a full disk does no
 * harm. */
#include <errno.h>
#include <unistd.h>

#include "core/sha256.h"
#include "runtime/launch/kernel_source.h"
#include "runtime/launch/launch.h"
#include "support/test_cache.h"

/* What the driver says of itself, instead of the truth; the linker puts these in front. */
static struct {
    bool platform; /* the platform is asked, else the device */
    cl_uint what;  /* 0: the truth */
    const char *text;
} lie;

static cl_int answer(const char *text, size_t size, void *value, size_t *actual)
{
    if (actual != NULL)
        *actual = strlen(text) + 1;
    if (value != NULL && size <= strlen(text))
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, text, strlen(text) + 1);
    return CL_SUCCESS;
}

TEST_WRAP(cl_int, clGetDeviceInfo,
    (cl_device_id device, cl_device_info what, size_t size, void *value, size_t *actual))
{
    return what == lie.what && !lie.platform
               ? answer(lie.text, size, value, actual)
               : __real_clGetDeviceInfo(device, what, size, value, actual);
}

TEST_WRAP(cl_int, clGetPlatformInfo,
    (cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *actual))
{
    return what == lie.what && lie.platform
               ? answer(lie.text, size, value, actual)
               : __real_clGetPlatformInfo(platform, what, size, value, actual);
}

/* What the device says; with `platform`, its platform. */
static void ask(bool platform, cl_uint what, size_t size, char *text)
{
    const cl_device_id device = clprune_context_device(test_context());
    cl_platform_id of;
    TEST_CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &of, NULL));
    TEST_CL(platform ? clGetPlatformInfo(of, what, size, text, NULL)
                     : clGetDeviceInfo(device, what, size, text, NULL));
}

static const struct {
    cl_uint what;
    bool platform;
} fields[] = {{CL_DEVICE_NAME, false}, {CL_DEVICE_VENDOR, false}, {CL_DRIVER_VERSION, false},
    {CL_DEVICE_VERSION, false}, {CL_PLATFORM_VERSION, true}};
enum { FIELDS = COUNT_OF(fields) };

/* Another device, driver or platform, be it by a letter, has a file of its own. */
static void each_field_of_the_key(NO_ROW)
{
    test_stocked s = test_stock();
    for (size_t i = 0; i < FIELDS; i++) {
        char text[1024] = "";
        ask(fields[i].platform, fields[i].what, 1000, text);
        text[strlen(text) - 1] ^= 1;
        lie.platform = fields[i].platform;
        lie.text = text;
        lie.what = fields[i].what;
        clprune_cache_stats stats = test_use(s.dir, NULL);
        if (stats.builds != 1 || stats.rejected != 0)
            fail_msg(
                "query 0x%x says \"%s\", and a binary of another is loaded", fields[i].what, text);
        stats = test_use(s.dir, NULL);
        assert_int_equal(stats.disk_hits, 1);
        lie.what = 0;
        assert_int_equal(test_folder_count(s.dir, NULL), i + 2);
    }
    assert_int_equal(test_use(s.dir, NULL).disk_hits, 1);
}

/* The name of a file says which fields the key has: the hash of this text, made here anew. */
static void all_of_the_key(NO_ROW)
{
    char field[FIELDS][512] = {""}, hex[65], found[TEST_PATH];
    unsigned char digest[CLPRUNE__SHA256_BYTES];
    clprune__sha256 hash;
    test_stocked s = test_stock();
    assert_int_equal(unlink(s.file), 0);
    (void)test_build_other(s.dir);
    for (size_t i = 0; i < FIELDS; i++)
        ask(fields[i].platform, fields[i].what, sizeof field[0], field[i]);
    clprune__sha256_begin(&hash);
    for (size_t k = 0; k < clprune__kernel_sources_count; k++) {
        const clprune__kernel_source *source = &clprune__kernel_sources[k];
        for (size_t i = 0; strcmp(source->name, "products/fill.cl") == 0 && source->parts[i]; i++) {
            const char *line = test_text("\n#line 1 \"cl/%s\"\n", source->parts[i]->name);
            clprune__sha256_update(&hash, line, strlen(line));
            clprune__sha256_update(&hash, source->parts[i]->text, source->parts[i]->size);
        }
    }
    clprune__sha256_end(&hash, digest);
    clprune__sha256_hex(digest, hex);
    const char *key = test_text(
        "clprune %s, format 2\n%s\n%s\n%s\n%s\n%s\n\nsource %s\nproducts/fill.cl -DLOCAL=1 "
        "-DVW=1\n",
        clprune_version_string(), field[0], field[1], field[2], field[3], field[4], hex);
    clprune__sha256_begin(&hash);
    clprune__sha256_update(&hash, key, strlen(key));
    clprune__sha256_end(&hash, digest);
    clprune__sha256_hex(digest, hex);
    assert_int_equal(test_folder_count(s.dir, found), 1);
    assert_string_equal(found, test_text("%s.bin", hex));
}

/* The calls of the library that write files, of which the n-th fails; 0: none. */
static struct {
    int write, fsync, rename;
} failing;

static bool fails(int *countdown)
{
    if (*countdown == 0 || --*countdown > 0)
        return false;
    errno = ENOSPC;
    return true;
}

TEST_WRAP(ssize_t, write, (int file, const void *data, size_t size))
{
    return fails(&failing.write) ? -1 : __real_write(file, data, size);
}

TEST_WRAP(int, fsync, (int file))
{
    return fails(&failing.fsync) ? -1 : __real_fsync(file);
}

TEST_WRAP(int, rename, (const char *from, const char *to))
{
    return fails(&failing.rename) ? -1 : __real_rename(from, to);
}

/* No room for the header, for the payload, or only found by fsync or rename: one warning, the right
 * result, no file; and the next context stores its binary. */
static void full_disk(NO_ROW)
{
    test_stocked s = test_stock();
    int *const calls[] = {&failing.write, &failing.write, &failing.fsync, &failing.rename};
    for (int i = 0; i < 4; i++) {
        test_warnings seen;
        assert_int_equal(unlink(s.file), 0);
        *calls[i] = i == 1 ? 2 : 1;
        const clprune_cache_stats stats = test_use(s.dir, &seen);
        assert_int_equal(*calls[i], 0); /* it came to that */
        assert_int_equal(stats.builds, 1);
        assert_int_equal(seen.count, 1);
        test_says(seen.last, "a file cannot be written");
        assert_int_equal(test_folder_count(s.dir, NULL), 0);
        assert_int_equal(test_use(s.dir, NULL).builds, 1);
        assert_int_equal(test_use(s.dir, NULL).disk_hits, 1);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, each_field_of_the_key, NULL, "each field of the key, changed by a letter");
    test_add(&list, all_of_the_key, NULL, "the key has all fields");
    test_add(&list, full_disk, NULL, "a full disk");
    return test_run_on_each_device("cache key", &list);
}
