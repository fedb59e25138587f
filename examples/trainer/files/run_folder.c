#include "trainer/files/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h> /* intmax_t */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trainer/files/atomic_file.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/plain_file.h"
#include "trainer/report/csv_log.h"

static const char *const run_files[] = {
    "last.ckpt", "best.ckpt", "auto.keep", "auto.csv", "log.csv"};

enum { RUN_FILES = sizeof run_files / sizeof *run_files, TRIES = 100 };

char *run_folder_file(const run_folder *folder, const char *name)
{
    return path_join(folder->path, "", name);
}

static bool fail(const char *doing, const char *path, fault *f)
{
    return fault_set_file(f, doing, path, errno);
}

/* runs/ARCH-DATE-TIME; of several in one second, the later ones end with -2, -3 ... */
static bool make_new(const options *o, run_folder *folder, fault *f)
{
    char name[256], stamp[32] = "";
    struct tm date;
    const time_t now = time(NULL);
    if (localtime_r(&now, &date) != NULL)
        (void)strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &date);
    bool there;
    fault refused = {0};
    if (!plain_file_exists("runs", &there, f))
        return false;
    folder->made_runs = !there;
    if (!make_folder("runs", &refused))
        return fault_set(f, refused.code, "%s; --output-dir chooses another place", refused.text);
    for (int i = 1; i <= TRIES; ++i) {
        const int length =
            snprintf(name, sizeof name, "runs/%s-%s", o->model->archs[o->arch], stamp);
        if (i > 1)
            (void)snprintf(name + length, sizeof name - (size_t)length, "-%d", i);
        folder->made = mkdir(name, 0777) == 0; /* it is new, or there is another name */
        if (folder->made || errno != EEXIST)
            break;
    }
    if (!folder->made)
        return fail("make the folder", name, f);
    folder->path = strdup(name);
    return folder->path != NULL || fault_set(f, CODE_MEMORY, "out of memory");
}

static bool make(const options *o, run_folder *folder, fault *f)
{
    if (o->resume != NULL && !checkpoint_probe(o->resume, f)) /* no folder for a missing one */
        return false;
    if (o->new_folder)
        return make_new(o, folder, f);
    folder->path = strdup(o->output_dir);
    if (folder->path == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    bool there;
    if (!plain_file_exists(o->output_dir, &there, f))
        return false;
    folder->made = !there;
    return make_folder(o->output_dir, f);
}

static bool refuse_second(run_folder *folder, fault *f)
{
    struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char process[64] = "";
    if (fcntl(folder->lock, F_GETLK, &other) == 0 && other.l_type != F_UNLCK && other.l_pid > 0)
        (void)snprintf(process, sizeof process, " (process %ld)", (long)other.l_pid);
    (void)close(folder->lock);
    folder->lock = -1; /* not ours to remove */
    return fault_set(f, CODE_DATA,
        "%s: another run%s is writing there; wait for its end, or give another --output-dir",
        folder->path, process);
}

/* Whether the locked file still has its name: the run before may have removed it between open and
 * lock. */
static bool is_named(const run_folder *folder)
{
    struct stat locked, named;
    return fstat(folder->lock, &locked) == 0 && stat(folder->lock_path, &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

static bool take_lock(run_folder *folder, fault *f)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    folder->lock_path = path_join(folder->path, "", "run.lock");
    if (folder->lock_path == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (int i = 0; i < TRIES; ++i) {
        struct stat status;
        folder->lock = open(folder->lock_path, flags, 0666);
        if (folder->lock < 0 || fstat(folder->lock, &status) != 0)
            return fault_set(f, CODE_DATA,
                "cannot write %s: %s; --output-dir chooses another place", folder->lock_path,
                strerror(errno));
        if (!S_ISREG(status.st_mode)) {
            (void)close(folder->lock);
            folder->lock = -1; /* not ours to remove */
            return fault_set(f, CODE_DATA, "cannot write %s: %s", folder->lock_path,
                plain_file_refusal(status.st_mode));
        }
        if (status.st_size > 0) {
            (void)close(folder->lock);
            folder->lock = -1;
            return fault_set(f, CODE_DATA,
                "%s: it has %jd bytes, so it is no run's lock; remove it, or give another "
                "--output-dir",
                folder->lock_path, (intmax_t)status.st_size);
        }
        const int locked = fcntl(folder->lock, F_SETLK, &whole);
        if (locked == 0 && is_named(folder))
            return true;
        if (locked != 0 && (errno == EACCES || errno == EAGAIN))
            return refuse_second(folder, f);
        (void)close(folder->lock);
        folder->lock = -1;
        if (locked != 0) /* ENOLCK, ENOSYS: some file systems cannot */
            return true;
    }
    return fault_set(
        f, CODE_DATA, "%s: runs come and go there; give another --output-dir", folder->path);
}

/* False, with a fault, if the file cannot be looked at, or is a link to nothing. */
static bool look_at(const char *path, bool *there, struct stat *status, fault *f)
{
    *there = stat(path, status) == 0;
    if (*there)
        return true;
    if (errno != ENOENT)
        return fail("read", path, f);
    return lstat(path, status) != 0 ||
           fault_set(f, CODE_DATA, "cannot write %s: it is a link to nothing", path);
}

/* Whether two paths are of one file or folder; both must be there. */
static bool are_same(const char *a, const char *b, bool *same, fault *f)
{
    struct stat status;
    if (stat(a, &status) != 0)
        return fail("read", a, f);
    if (stat(b, &status) != 0)
        return fail("read", b, f);
    *same = same_file(a, b);
    return true;
}

/* *resumed: --resume continues this folder's run: it is last.ckpt, or lies there where there is
 * none. Another file beside last.ckpt may be of another run. */
static bool compare_with_resume(const options *o, const run_folder *folder, bool *resumed, fault *f)
{
    struct stat status;
    bool there;
    *resumed = false;
    if (o->resume == NULL)
        return true;
    char *last = run_folder_file(folder, "last.ckpt"), *parent = folder_of(o->resume);
    bool good = (last != NULL && parent != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && look_at(last, &there, &status, f);
    if (good && there)
        good = are_same(o->resume, last, resumed, f);
    else
        good = good && are_same(parent, folder->path, resumed, f);
    free(last);
    free(parent);
    return good;
}

/* Fails if a file of the run is a FIFO or a folder. *found: the first file that must not be lost,
 * or NULL. A log without rows may be lost: a run killed in its first epoch left it. */
static bool look_at_files(const run_folder *folder, const char **found, fault *f)
{
    *found = NULL;
    for (size_t i = 0; i < RUN_FILES; ++i) {
        struct stat status;
        char *path = run_folder_file(folder, run_files[i]);
        if (path == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory");
        bool there;
        const bool good = look_at(path, &there, &status, f);
        const char *why = there ? plain_file_refusal(status.st_mode) : NULL;
        if (why != NULL)
            (void)fault_set(f, CODE_DATA, "cannot write %s: %s", path, why);
        const bool empty =
            there && why == NULL && strcmp(run_files[i], "log.csv") == 0 && csv_log_is_empty(path);
        if (there && !empty && *found == NULL)
            *found = run_files[i];
        free(path);
        if (!good || why != NULL)
            return false;
    }
    return true;
}

static bool check_files(const options *o, run_folder *folder, fault *f)
{
    const char *found;
    bool resumed;
    if (!look_at_files(folder, &found, f) || !compare_with_resume(o, folder, &resumed, f))
        return false;
    const bool saved = found != NULL && strcmp(found, "last.ckpt") == 0;
    folder->is_new = found == NULL && !resumed;
    folder->replaces = o->overwrite && !(resumed && saved);
    if (found == NULL || resumed || o->overwrite)
        return true;
    return fault_set(f, CODE_USAGE,
        "--output-dir %s: there is a run already (%s); %s%s%sreplace it with --overwrite, or give "
        "another folder",
        folder->path, found, saved ? "continue it with --resume " : "", saved ? folder->path : "",
        saved ? "/last.ckpt, " : "");
}

bool run_folder_open(const options *o, run_folder *folder, fault *f)
{
    *folder = (run_folder){.lock = -1};
    if (o->output_dir == NULL && !o->new_folder)
        return true;
    const bool good = make(o, folder, f) && take_lock(folder, f) && check_files(o, folder, f);
    for (size_t i = 0; good && folder->lock >= 0 && i < RUN_FILES; ++i)
        atomic_file_sweep(folder->path, run_files[i]);
    if (!good)
        run_folder_close(folder);
    return good;
}

void run_folder_clear(run_folder *folder, const options *o)
{
    bool there;
    fault unknown = {0};
    for (size_t i = 0; folder->replaces && i < RUN_FILES; ++i) {
        char *path = run_folder_file(folder, run_files[i]);
        if (path != NULL && strcmp(run_files[i], "last.ckpt") == 0)
            folder->has_replaced = !plain_file_exists(path, &there, &unknown) || there;
        else if (path != NULL && strcmp(run_files[i], "log.csv") != 0 &&
                 !(o->resume != NULL && same_file(path, o->resume)) &&
                 !(o->keep_file != NULL && same_file(path, o->keep_file)))
            (void)unlink(path);
        free(path);
    }
    folder->replaces = false;
}

void run_folder_drop_replaced(run_folder *folder)
{
    char *path = folder->has_replaced ? run_folder_file(folder, "last.ckpt") : NULL;
    if (path != NULL)
        (void)unlink(path);
    free(path);
    folder->has_replaced = false;
}

void run_folder_undo(run_folder *folder)
{
    for (size_t i = 0; folder->path != NULL && folder->is_new && i < RUN_FILES; ++i) {
        char *path = run_folder_file(folder, run_files[i]);
        if (path != NULL)
            (void)unlink(path);
        free(path);
    }
    run_folder_close(folder);
}

void run_folder_close(run_folder *folder)
{
    /* Unlink before unlocking: a process that has opened the file meanwhile sees that the name is
     * gone. */
    if (folder->path != NULL && folder->lock >= 0) {
        (void)unlink(folder->lock_path);
        (void)close(folder->lock);
    }
    if (folder->path != NULL && folder->made)
        (void)rmdir(folder->path); /* fails unless it is empty */
    if (folder->made_runs)
        (void)rmdir("runs");
    free(folder->path);
    free(folder->lock_path);
    *folder = (run_folder){.lock = -1};
}
