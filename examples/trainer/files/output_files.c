#define _XOPEN_SOURCE 700 /* realpath */

#include "trainer/files/output_files.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "trainer/files/adapters.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/plain_file.h"

static const char *const run_files[] = {
    "last.ckpt", "best.ckpt", "log.csv", "auto.keep", "auto.csv", "run.lock"};

enum { RUN_FILES = sizeof run_files / sizeof *run_files };

typedef struct named_file {
    const char *option, *path; /* path is NULL if the option was not given */
} named_file;

/* Whether two paths lie in one folder. */
static bool same_folder(const char *a, const char *b)
{
    char *x = folder_of(a), *y = folder_of(b);
    const bool same = x != NULL && y != NULL && same_file(x, y);
    free(x);
    free(y);
    return same;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Whether two paths name one regular file, or will once it is written. */
static bool same_place(const char *a, const char *b)
{
    struct stat x, y;
    const bool x_is = stat(a, &x) == 0, y_is = stat(b, &y) == 0;
    if (x_is || y_is)
        return x_is && S_ISREG(x.st_mode) && same_file(a, b);
    return strcmp(last_name(a), last_name(b)) == 0 && same_folder(a, b);
}

/* A run's file by its name, or a checkpoint by its first bytes: "log.csv"; NULL if it is neither.
 */
static const char *of_a_run(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return NULL;
    for (size_t i = 0; i < RUN_FILES; ++i)
        if (strcmp(last_name(path), run_files[i]) == 0)
            return run_files[i];
    fault unread = {0};
    return checkpoint_probe(path, &unread) ? "checkpoint" : NULL;
}

static bool check_one(
    const named_file *output, const named_file *others, size_t count, const char *folder, fault *f)
{
    for (size_t i = 0; i < count; ++i)
        if (others[i].path != NULL && same_place(output->path, others[i].path))
            return fault_set(f, CODE_USAGE, "--%s %s: it is the file of --%s; name another one",
                output->option, output->path, others[i].option);
    const char *found = of_a_run(output->path);
    if (found != NULL)
        return fault_set(f, CODE_USAGE, "--%s %s: it is a run's own %s; name another file",
            output->option, output->path, found);
    for (size_t i = 0; folder != NULL && i < RUN_FILES; ++i) {
        char *path = path_join(folder, "", run_files[i]);
        if (path == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory");
        const bool same = same_place(output->path, path);
        free(path);
        if (same)
            return fault_set(f, CODE_USAGE, "--%s %s: it is a run's own %s; name another file",
                output->option, output->path, run_files[i]);
    }
    return true;
}

/* Whether a path from the folder of --data has the name of a file of a data set. */
static bool is_of_data(const char *path)
{
    static const char *const folders[] = {"train/", "val/", "test/"};
    const char *dot = strrchr(path, '.');
    bool images = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i)
        images = images || strncmp(path, folders[i], strlen(folders[i])) == 0;
    return images || strstr(path, "-ubyte") != NULL || strstr(path, ".idx") != NULL ||
           (dot != NULL && (strcasecmp(dot, ".bin") == 0 || strcasecmp(dot, ".txt") == 0 ||
                               strcmp(dot, ".labels") == 0));
}

static bool is_in(const char *path, const char *folder)
{
    struct stat status;
    char *file = realpath(path, NULL), *top = realpath(folder, NULL);
    bool found = false;
    if (file != NULL && top != NULL && stat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        const size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
        found =
            strncmp(file, top, length) == 0 && file[length] == '/' && is_of_data(file + length + 1);
    }
    free(file);
    free(top);
    return found;
}

/* Whether a path is --data itself, or a file of the data set in its folder, whatever links lead
 * there. */
static bool is_data(const char *path, const char *data)
{
    struct stat status;
    const bool is_folder = stat(data, &status) == 0 && S_ISDIR(status.st_mode);
    char *folder = is_folder ? strdup(data) : folder_of(data);
    const bool found = same_file(path, data) || (folder != NULL && is_in(path, folder));
    free(folder);
    return found;
}

bool output_files_check(const options *o, const char *folder, fault *f)
{
    char *adapters[2] = {NULL, NULL};
    bool good = true;
    for (size_t i = 0; o->adapters != NULL && good && i < 2; ++i) {
        adapters[i] = path_join(o->adapters, "", adapters_files[i]);
        good = adapters[i] != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    }
    /* outputs first: each is compared with what comes after it */
    const named_file files[] = {{"export", o->export_file}, {"summary-json", o->summary_json},
        {"plan-csv", o->plan_csv}, {"adapters", adapters[0]}, {"adapters", adapters[1]},
        {"resume", o->resume}, {"import", o->import_file}, {"keep-file", o->keep_file}};
    const size_t count = sizeof files / sizeof *files, outputs = 5;
    for (size_t i = 0; good && i < outputs; ++i)
        good =
            files[i].path == NULL || check_one(&files[i], &files[i + 1], count - i - 1, folder, f);
    free(adapters[0]);
    free(adapters[1]);
    return good;
}

bool output_files_check_data(const options *o, fault *f)
{
    const named_file files[] = {
        {"export", o->export_file}, {"summary-json", o->summary_json}, {"plan-csv", o->plan_csv}};
    /* only now is the import of a resumed run known */
    if (o->resume != NULL && !output_files_check(o, NULL, f))
        return false;
    if (strcmp(o->data, "generated") == 0)
        return true;
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i)
        if (files[i].path != NULL && is_data(files[i].path, o->data))
            return fault_set(f, CODE_USAGE, "--%s %s: it is a file of --data; name another file",
                files[i].option, files[i].path);
    return true;
}
