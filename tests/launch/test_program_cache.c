/* The program cache in use: hits and misses in memory and on disk, damaged files, bad folders,
 * build failures. Whatever happens to the files, the results stay right.
 *
 * A file of another user or key, a link, a FIFO and a folder in a file's place never reach the
 * driver. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/launch/disk_cache.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/program_cache.h"
#include "support/test_cache.h"
#include "support/test_rng.h"

static void memory_hits(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.cache_dir = "off"});
    const clprune__kernel *first, *second, *other;
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, "-DLOCAL=1 -DVW=4", &first));
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, "-DLOCAL=1 -DVW=4", &second));
    assert_ptr_equal(first, second);
    assert_int_equal(clprune_context_cache_stats(context).memory_hits, 1);
    assert_int_equal(clprune_context_cache_stats(context).builds, 1);
    static const char *const others[] = {
        "-DLOCAL=1 -DSUMS=1 -DVW=4", "-DLOCAL=1 -DVW=8", "-DLOCAL=2 -DVW=4"};
    for (int i = 0; i < 3; i++) {
        TEST_OK(clprune__kernel_get(context, &test_fill_kernel, others[i], &other));
        assert_int_equal(clprune_context_cache_stats(context).builds, 2 + i);
    }
}

static bool is_pocl(const clprune_context *context)
{
    cl_platform_id platform;
    char name[256] = "";
    TEST_CL(clGetDeviceInfo(clprune_context_device(context), CL_DEVICE_PLATFORM,
        sizeof(cl_platform_id), &platform, NULL));
    TEST_CL(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL));
    return strcmp(name, "Portable Computing Language") == 0;
}

/* The options of a program that the context builds now. */
static const char *build_options(clprune_context *context, const char *defines)
{
    static char options[1024];
    cl_device_id device;
    cl_program program;
    const clprune__kernel *kernel;
    TEST_CL(clGetCommandQueueInfo(
        clprune_context_queue(context), CL_QUEUE_DEVICE, sizeof device, &device, NULL));
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, defines, &kernel));
    TEST_CL(clGetKernelInfo(kernel->kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL));
    TEST_CL(clGetProgramBuildInfo(
        program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options, NULL));
    return options;
}

/* Programs are built with divisions and square roots that are rounded correctly, where the device
 * has them. */
static void divisions(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.cache_dir = "off"});
    cl_device_id device;
    cl_device_fp_config floats;
    TEST_CL(clGetCommandQueueInfo(
        clprune_context_queue(context), CL_QUEUE_DEVICE, sizeof device, &device, NULL));
    TEST_CL(clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL));
    const char *options = build_options(context, "-DLOCAL=1 -DVW=4");
    assert_true((strstr(options, "-cl-fp32-correctly-rounded-divide-sqrt ") != NULL) ==
                ((floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0));
}

/* A driver that refuses programs which declare the built-in functions. The linker puts this
 * function in front. */
static bool refuses_declarations;

TEST_WRAP(cl_int, clBuildProgram,
    (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
        void(CL_CALLBACK *notify)(cl_program, void *), void *user))
{
    if (refuses_declarations && strstr(options, "-DCLPRUNE_BUILTINS ") != NULL)
        return CL_BUILD_PROGRAM_FAILURE;
    return __real_clBuildProgram(program, count, devices, options, notify, user);
}

/* On PoCL programs declare the built-in functions; a PoCL that refuses this gets none. */
static void declarations(NO_ROW)
{
    for (int refuses = 0; refuses < 2; refuses++) {
        refuses_declarations = refuses == 1;
        clprune_context *context = test_open((clprune_context_options){.cache_dir = "off"});
        const char *options = build_options(context, "-DLOCAL=1 -DVW=4");
        refuses_declarations = false;
        assert_true(
            (strstr(options, "-DCLPRUNE_BUILTINS ") != NULL) == (is_pocl(context) && refuses == 0));
    }
}

static void check_mode(const char *path, mode_t mode)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
}

static void disk_hits(NO_ROW)
{
    test_stocked s = test_stock();
    check_mode(s.dir, 0700);
    check_mode(s.file, 0600);
    const clprune_cache_stats stats = test_use(s.dir, NULL);
    assert_int_equal(stats.disk_hits, 1);
    assert_int_equal(stats.builds, 0);
    assert_int_equal(stats.rejected, 0);
}

static void umask_does_not_matter(NO_ROW)
{
    const mode_t before = umask(0);
    test_stocked s = test_stock();
    (void)umask(before);
    check_mode(s.dir, 0700);
    check_mode(s.file, 0600);
}

/* A few of the damages of test_disk_cache.c: none reaches the driver, and the file is replaced. */
static void damaged_files(NO_ROW)
{
    test_stocked s = test_stock();
    const size_t places[] = {0, 8, 40, 80, s.size / 2, s.size - 1};
    unsigned char *longer = test_alloc(s.size + 1);
    memcpy(longer, s.content, s.size);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        test_file_write(s.file, s.content, places[i]);
        test_check_healed(&s, test_text("cut to %zu of %zu bytes", places[i], s.size));
        longer[places[i]] ^= (unsigned char)(1 << i);
        test_file_write(s.file, longer, s.size);
        test_check_healed(&s, test_text("a bit of byte %zu of %zu", places[i], s.size));
        longer[places[i]] ^= (unsigned char)(1 << i);
    }
    test_file_write(s.file, longer, s.size + 1);
    test_check_healed(&s, "one byte too many");
}

static void wrong_mode(NO_ROW)
{
    test_stocked s = test_stock();
    static const mode_t modes[] = {0620, 0602, 0666, 0777};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        assert_int_equal(chmod(s.file, modes[i]), 0);
        test_check_healed(&s, "a file that others may write");
    }
}

static void wrong_owner(NO_ROW)
{
    if (geteuid() != 0)
        skip(); /* only root can give files away */
    test_stocked s = test_stock();
    assert_int_equal(chown(s.file, 65534, 65534), 0);
    test_check_healed(&s, "a file of another user");
    assert_int_equal(chown(s.dir, 65534, 65534), 0);
    test_warnings seen;
    const clprune_cache_stats stats = test_use(s.dir, &seen);
    assert_int_equal(stats.builds, 1);
    assert_true(seen.count > 0);
}

static void link_in_place(NO_ROW)
{
    test_stocked s = test_stock();
    const char *target = test_text("%s/target", s.base);
    test_file_write(target, s.content, s.size); /* even to a good file */
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(unlink(s.file), 0);
    assert_int_equal(symlink(target, s.file), 0);
    test_check_healed(&s, "a link");
    size_t size;
    unsigned char *now = test_file_read(target, &size);
    assert_int_equal(size, s.size);
    assert_memory_equal(now, s.content, size);
}

static void fifo_in_place(NO_ROW)
{
    test_stocked s = test_stock();
    assert_int_equal(unlink(s.file), 0);
    assert_int_equal(mkfifo(s.file, 0600), 0);
    test_check_healed(&s, "a FIFO");
}

/* A folder cannot be replaced by renaming, so it stays; it must only do no harm. */
static void folder_in_place(NO_ROW)
{
    test_stocked s = test_stock();
    assert_int_equal(unlink(s.file), 0);
    assert_int_equal(mkdir(s.file, 0700), 0);
    for (int i = 0; i < 2; i++) {
        test_warnings seen;
        const clprune_cache_stats stats = test_use(s.dir, &seen);
        assert_int_equal(stats.rejected, 1);
        assert_int_equal(stats.builds, 1);
        assert_true(seen.count > 0);
    }
    assert_int_equal(test_folder_count(s.dir, NULL), 1); /* no temporary files pile up */
}

/* The good binary of one key under the name of another. */
static void file_of_another_key(NO_ROW)
{
    test_stocked s = test_stock();
    char name[TEST_PATH];
    assert_int_equal(unlink(s.file), 0);
    test_end(test_build_other(s.dir));
    assert_int_equal(test_folder_count(s.dir, name), 1);
    assert_int_equal(rename(test_text("%s/%s", s.dir, name), s.file), 0);
    test_check_healed(&s, "a file of another key");
}

/* The folder cannot be used: the cache is off with one warning, and all else works. */
static void check_off(const char *dir, bool warned)
{
    test_warnings seen = {0};
    const clprune_context_options options = {.cache_dir = dir, .log = test_note, .log_user = &seen};
    clprune_context *context = test_open(options);
    assert_null(clprune_context_cache_dir(context));
    test_end(context);
    assert_int_equal(seen.count, warned ? 1 : 0);
    assert_int_equal(test_use(dir, NULL).builds, 1);
}

static void unusable_folders(NO_ROW)
{
    static const mode_t modes[] = {0777, 0770, 0702};
    const char *base = test_folder();
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        const char *path = test_text("%s/open%zu", base, i);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chmod(path, modes[i]), 0);
        check_off(path, true);
        assert_int_equal(test_folder_count(path, NULL), 0);
    }
    const char *file = test_text("%s/file", base), *other = test_text("%s/real", base);
    test_file_write(file, "x", 1);
    check_off(file, true);
    check_off(test_text("%s/below", file), true);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(other, test_text("%s/link", base)), 0);
    static const char *const ends[] = {"", "/", "//", "/.", "/./"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        check_off(test_text("%s/link%s", base, ends[i]), true);
        assert_int_equal(test_folder_count(other, NULL), 0);
    }
    static char name[8000];
    memset(name, 'x', sizeof name - 1);
    check_off(name, true);
    check_off("off", false);
}

/* A folder with less room than one binary keeps none; creation and stores both tidy up. */
static void limited_folder(NO_ROW)
{
    test_stocked s = test_stock();
    const struct timespec old[2] = {{1, 0}, {1, 0}};
    const char *stale = test_text("%s.abcdef", s.file);
    test_file_write(stale, "x", 1);
    assert_int_equal(utimensat(AT_FDCWD, stale, old, 0), 0);
    assert_int_equal(test_use(s.dir, NULL).disk_hits, 1);
    assert_int_equal(test_folder_count(s.dir, NULL), 1);
    test_environment("CLPRUNE_CACHE_LIMIT", "1K");
    assert_int_equal(test_use(s.dir, NULL).builds, 1);
    assert_int_equal(test_folder_count(s.dir, NULL), 0);
}

static void vanished_folder(NO_ROW)
{
    const char *base = test_folder(), *dir = test_text("%s/cache", base);
    clprune_context *context = test_open((clprune_context_options){.cache_dir = dir});
    test_folder_remove(base);
    const clprune__kernel *kernel;
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, "-DLOCAL=1 -DVW=4", &kernel));
}

/* Which folder the environment chooses; NULL: the cache is off, as it is on PoCL, which has its
 * own, unless CLPRUNE_CACHE_DIR names a folder. */
static void check_choice(
    const char *cache_dir, const char *cache_home, const char *home, const char *expected)
{
    static const char *const names[3] = {"CLPRUNE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    const char *const values[3] = {cache_dir, cache_home, home};
    for (int i = 0; i < 3; i++)
        test_environment(names[i], values[i]);
    clprune_context *context = test_open((clprune_context_options){0});
    const char *dir = clprune_context_cache_dir(context), *reason;
    const bool named = cache_dir != NULL && cache_dir[0] != '\0';
    if (expected == NULL || (!named && is_pocl(context)))
        assert_null(dir);
    else
        assert_string_equal(dir == NULL ? "(off)" : dir, expected);
    char *folder = clprune__disk_folder(NULL, &reason);
    if (expected == NULL)
        assert_null(folder);
    else
        assert_string_equal(folder == NULL ? "(off)" : folder, expected);
    free(folder);
}

static void choice_of_folder(NO_ROW)
{
    const char *base = test_folder(), *a = test_text("%s/deep/er", base),
               *b = test_text("%s/clprune", base), *c = test_text("%s/.cache/clprune", base);
    check_choice(a, base, base, a);
    check_choice("", base, base, b);
    check_choice(NULL, base, "/nonexistent", b);
    check_choice(NULL, NULL, base, c);
    check_choice(NULL, "relative", base, c);
    check_choice(NULL, "", base, c);
    check_choice(NULL, NULL, NULL, NULL);
    check_choice(NULL, NULL, "", NULL);
    check_choice(NULL, NULL, "relative", NULL);
    check_choice("off", base, base, NULL);
    check_mode(c, 0700);
}

static void build_failure(NO_ROW)
{
    static const struct {
        const char *defines, *part;
    } rows[] = {
        {"-DLOCAL=1 -DVW=3", "VW must be 1, 4, 8 or 16"},
        {"-DVW=1", "rowwise.clh needs LOCAL and VW"},
        {"-DLOCAL=1 -DVW=1 -Dglobal=wrong", "wrong"},
    };
    static const char *const files[] = {"cl/prelude/common.clh:", "cl/prelude/rowwise.clh:", "cl/"};
    clprune_context *context = test_context();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const clprune__kernel *kernel = (const clprune__kernel *)&rows;
        const clprune_cache_stats before = clprune_context_cache_stats(context);
        TEST_FAILS(clprune__kernel_get(context, &test_fill_kernel, rows[i].defines, &kernel),
            CLPRUNE_BUILD_FAILED, rows[i].part);
        assert_null(kernel);
        test_says(clprune_last_error(context), files[i]);
        test_says(clprune_last_error(context), rows[i].defines);
        assert_int_equal(clprune_context_cache_stats(context).builds, before.builds);
    }
    /* The context goes on working. */
    const clprune__kernel *kernel;
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, "-DLOCAL=1 -DVW=1", &kernel));
}

/* The build log that the driver tells; 0: its own. The linker puts this function in front. */
static size_t told_log;

TEST_WRAP(cl_int, clGetProgramBuildInfo,
    (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void *value,
        size_t *actual))
{
    if (told_log == 0)
        return __real_clGetProgramBuildInfo(program, device, what, size, value, actual);
    if (actual != NULL)
        *actual = told_log + 1;
    if (value == NULL)
        return CL_SUCCESS;
    if (size <= told_log)
        return CL_INVALID_VALUE;
    memset(value, 'x', told_log);
    memcpy(value, "the first error", 15);
    ((char *)value)[told_log] = '\0';
    return CL_SUCCESS;
}

/* The last error keeps a log of 10000 bytes, and of a longer one the beginning. */
static void long_build_log(NO_ROW)
{
    static const size_t logs[] = {10000, 40000};
    for (int i = 0; i < 2; i++) {
        const clprune__kernel *kernel;
        told_log = logs[i];
        const clprune_status status =
            clprune__kernel_get(test_context(), &test_fill_kernel, "-DLOCAL=1 -DVW=3", &kernel);
        told_log = 0;
        assert_int_equal(status, CLPRUNE_BUILD_FAILED);
        const char *error = clprune_last_error(test_context());
        test_says(error, "the first errorxxx");
        assert_true(strlen(error) > 10000);
        assert_true((strstr(error, "more bytes of the build log") != NULL) == (i == 1));
    }
}

/* A launch keeps its kernel while so many others are made that the cache grows. */
static void kernels_stay(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.cache_dir = "off"});
    const clprune__kernel *other, *again;
    const clprune_mat mat = test_new_mat(context, 1, 4);
    clprune__launch launch;
    const size_t one = 1;
    float values[4];
    clprune__defines first = {0};
    clprune__define(&first, "LOCAL", 1);
    clprune__define(&first, "OTHER", 1);
    clprune__define(&first, "VW", 1);
    TEST_OK(clprune__launch_begin(context, &test_fill_kernel, &first, &launch));
    for (int i = 2; i < 80; i++) {
        const char *defines = test_text("-DLOCAL=1 -DOTHER=%d -DVW=1", i);
        TEST_OK(clprune__kernel_get(context, &test_fill_kernel, defines, &other));
    }
    TEST_OK(clprune__kernel_get(context, &test_fill_kernel, first.text, &again));
    assert_ptr_equal(launch.kernel, again);
    clprune__arg_ulong(&launch, mat.rows);
    clprune__arg_ulong(&launch, mat.cols);
    clprune__arg_ulong(&launch, 1); /* rows of a group */
    clprune__arg_float(&launch, 3.0f);
    clprune__arg_mat(&launch, mat);
    TEST_OK(clprune__launch_enqueue(&launch, 1, &one, &one, NULL));
    TEST_OK(clprune_mat_read(context, mat, values));
    for (int i = 0; i < 4; i++)
        assert_true(values[i] == 3.0f);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, divisions, NULL, "divisions");
    test_add(&list, declarations, NULL, "declarations");
    test_add(&list, memory_hits, NULL, "same key hits, a changed define misses");
    test_add(&list, disk_hits, NULL, "a second context loads from disk");
    test_add(&list, umask_does_not_matter, NULL, "modes are 0700 and 0600 at umask 0");
    test_add(&list, damaged_files, NULL, "files cut short, with a bit flipped, a byte too long");
    test_add(&list, wrong_mode, NULL, "files that others may write");
    test_add(&list, wrong_owner, NULL, "a file and a folder of another user");
    test_add(&list, link_in_place, NULL, "a link in a file's place");
    test_add(&list, fifo_in_place, NULL, "a FIFO in a file's place");
    test_add(&list, folder_in_place, NULL, "a folder in a file's place");
    test_add(&list, file_of_another_key, NULL, "the file of another key");
    test_add(&list, unusable_folders, NULL, "unusable folders");
    test_add(&list, limited_folder, NULL, "a folder with little room, and what a process left");
    test_add(&list, vanished_folder, NULL, "a folder that vanishes");
    test_add(&list, choice_of_folder, NULL, "the folder that the environment chooses");
    test_add(&list, build_failure, NULL, "a build failure reports log and file name");
    test_add(&list, long_build_log, NULL, "a long build log is kept");
    test_add(&list, kernels_stay, NULL, "a launch keeps its kernel while the cache grows");
    return test_run_on_each_device("program cache", &list);
}
