#include "support/test_folder.h"

#include <dirent.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_device.h"
#ifdef _WIN32
#include "support/test_windows.h"
#endif

/* The folders that exist; "": none. */
enum { FOLDERS = 32 };
static char folders[FOLDERS][TEST_PATH];

TEST_UNDO(remove_folder, test_folder_remove(what))

void test_folder_make(char path[TEST_PATH])
{
    const char *base = getenv("TMPDIR");
    size_t i = 0;
    (void)snprintf(path, TEST_PATH, "%.400s/clprune-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    while (i < FOLDERS && folders[i][0] != '\0')
        i++;
    assert_true(i < FOLDERS);
    memcpy(folders[i], path, TEST_PATH);
    test_later(remove_folder, NULL, folders[i]);
}

const char *test_folder(void)
{
    char *path = test_alloc(TEST_PATH);
    test_folder_make(path);
    return path;
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
    for (size_t i = 0; i < FOLDERS; i++)
        if (strcmp(folders[i], path) == 0)
            folders[i][0] = '\0';
}

char *test_text(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const size_t size = (size_t)vsnprintf(NULL, 0, format, arguments) + 1;
    char *text = test_alloc(size);
    (void)vsnprintf(text, size, format, again);
    va_end(arguments);
    va_end(again);
    return text;
}

TEST_UNDO(leave_locale, (void)setlocale(LC_ALL, "C"))

void test_comma_locale(int category)
{
    char folder[TEST_PATH];
    test_folder_make(folder);
    const bool made = system(test_text("sh '%s/comma_locale.sh' '%s'", TEST_SUPPORT, folder)) == 0;
    test_environment("LOCPATH", folder);
    if (!made || setlocale(category, "comma") == NULL) {
        print_message("no locale with a decimal comma can be made here\n");
        skip();
    }
    test_later(leave_locale, NULL, NULL);
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

void test_file_same(const char *a, const char *b)
{
    size_t size, other;
    const void *bytes = test_file_read(a, &size), *others = test_file_read(b, &other);
    assert_int_equal(size, other);
    assert_memory_equal(bytes, others, size);
}

void test_file_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A variable that a case has changed, and what it was. */
typedef struct variable {
    char name[32], value[2048];
    bool changed, was_set;
} variable;

enum { VARIABLES = 16 };
static variable variables[VARIABLES];

static void set_variable(const char *name, const char *value)
{
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void restore(void *of, void *what)
{
    variable *v = what;
    (void)of;
    if (v->changed)
        set_variable(v->name, v->was_set ? v->value : NULL);
    v->changed = false;
}

void test_keep_environment(void)
{
    for (size_t i = 0; i < VARIABLES; i++)
        variables[i].changed = false;
}

void test_environment(const char *name, const char *value)
{
    const char *before = getenv(name);
    size_t i = 0;
    while (i < VARIABLES && variables[i].changed && strcmp(variables[i].name, name) != 0)
        i++;
    assert_true(i < VARIABLES);
    variable *v = &variables[i];
    if (!v->changed) {
        *v = (variable){.changed = true, .was_set = before != NULL};
        assert_true(strlen(name) < sizeof v->name);
        assert_true(before == NULL || strlen(before) < sizeof v->value);
        strcpy(v->name, name);
        strcpy(v->value, before != NULL ? before : "");
        test_later(restore, NULL, v);
    }
    set_variable(name, value);
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
