/* Windows, with the compiler and the threads of mingw-w64. Paths are in the process's code page. */
#include "core/system.h"

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <share.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

uint32_t clprune__system_processors(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwNumberOfProcessors > 0 ? (uint32_t)info.dwNumberOfProcessors : 1;
}

int clprune__system_watch_forks(void (*child)(void))
{
    (void)child;
    return 0;
}

const char *const clprune__system_driver_advice =
    "install that of your GPU or CPU, which comes with OpenCL.dll";

int clprune__system_format(char *text, size_t size, const char *format, va_list arguments)
{
    const int length = vsnprintf(text, size, format, arguments);
    const char *point = localeconv()->decimal_point;
    if (strcmp(point, ".") != 0 && strlen(point) == 1 && length > 0)
        for (char *at = text; (at = strchr(at, point[0])) != NULL; at++)
            if (at > text && at[-1] >= '0' && at[-1] <= '9' && at[1] >= '0' && at[1] <= '9')
                *at = '.';
    return length;
}

/* The end of a bracket expression, or NULL: the bracket stands for itself. *hit: c is in it. */
static const char *bracket(const char *p, char c, bool *hit)
{
    const bool not = p[1] == '!';
    const char *first = p + 1 + not, *at = first;
    *hit = false;
    for (; *at != '\0' && (*at != ']' || at == first); at++) {
        if (at[1] == '-' && at[2] != ']' && at[2] != '\0') {
            *hit = *hit || (c >= at[0] && c <= at[2]);
            at += 2;
        } else {
            *hit = *hit || c == *at;
        }
    }
    *hit = *hit != not ;
    return *at == ']' ? at : NULL;
}

bool clprune__system_matches(const char *pattern, const char *text)
{
    const char *p = pattern, *again = NULL, *from = NULL; /* behind the last *, and its end */
    for (;;) {
        bool hit = false;
        const char *end = p;
        if (*p == '*') {
            again = ++p;
            from = text;
            continue;
        }
        if (*p == '\0' && *text == '\0')
            return true;
        if (*text != '\0' && *p != '\0') {
            const char *closed = *p == '[' ? bracket(p, *text, &hit) : NULL;
            if (closed != NULL) {
                end = closed;
            } else {
                end = *p == '\\' && p[1] != '\0' ? p + 1 : p;
                hit = *p == '?' || *end == *text;
            }
        }
        if (hit) {
            p = end + 1;
            text++;
        } else if (again != NULL && *from != '\0') {
            p = again;
            text = ++from;
        } else {
            return false;
        }
    }
}

int clprune__system_open_file(const char *path)
{
    return _open(path, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

FILE *clprune__system_append(const char *path)
{
    return fopen(path, "a");
}

void clprune__system_lock(FILE *stream)
{
    _lock_file(stream);
}

void clprune__system_unlock(FILE *stream)
{
    _unlock_file(stream);
}

/* ---- a folder of the user's own files ---- */

const char *const clprune__system_no_cache =
    "neither CLPRUNE_CACHE_DIR nor LOCALAPPDATA names a folder";

bool clprune__system_cache_home(char *path, size_t size)
{
    const char *local = getenv("LOCALAPPDATA");
    if (local == NULL || local[0] == '\0')
        return false;
    (void)snprintf(path, size, "%s", local);
    return true;
}

static bool is_separator(char c)
{
    return c == '/' || c == '\\';
}

bool clprune__system_make_folders(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && (is_separator(path[length - 1]) ||
                             (path[length - 1] == '.' && is_separator(path[length - 2]))))
        path[--length] = '\0';
    for (char *p = path + 1;; p++) {
        if (!is_separator(*p) && *p != '\0')
            continue;
        const char end = *p;
        *p = '\0';
        const bool drive = p[-1] == ':' || is_separator(p[-1]); /* "C:", or "\\" of a share */
        const bool failed = !drive && _mkdir(path) != 0 && errno != EEXIST && errno != EACCES;
        *p = end;
        if (failed)
            return false;
        if (end == '\0')
            return true;
    }
}

clprune__folder_state clprune__system_folder_state(const char *path)
{
    const DWORD found = GetFileAttributesA(path);
    const bool folder = found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_DIRECTORY) != 0;
    return folder && (found & FILE_ATTRIBUTE_REPARSE_POINT) == 0 ? CLPRUNE__FOLDER_PRIVATE
                                                                 : CLPRUNE__FOLDER_NONE;
}

/* Others may replace the file while it is open; a link is opened itself, and is no regular file. */
int clprune__system_open_private(const char *path)
{
    const HANDLE handle = CreateFileA(path, GENERIC_READ | FILE_WRITE_ATTRIBUTES,
        FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
        FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        const DWORD error = GetLastError();
        errno = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ? ENOENT : EACCES;
        return -1;
    }
    const int file = _open_osfhandle((intptr_t)handle, _O_RDONLY | _O_BINARY);
    if (file < 0)
        (void)CloseHandle(handle);
    return file;
}

bool clprune__system_facts(int file, clprune__file_facts *facts)
{
    BY_HANDLE_FILE_INFORMATION info;
    static const DWORD others = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
    if (GetFileInformationByHandle((HANDLE)_get_osfhandle(file), &info) == 0)
        return false;
    *facts = (clprune__file_facts){(info.dwFileAttributes & others) == 0, true,
        (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow};
    return true;
}

enum { MOST = 1 << 30 }; /* bytes of a call, whose argument has 32 bits */

bool clprune__system_read(int file, void *data, size_t size)
{
    for (unsigned char *at = data; size > 0;) {
        const int got = _read(file, at, (unsigned)(size < MOST ? size : MOST));
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

void clprune__system_used_now(int file)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    (void)SetFileTime((HANDLE)_get_osfhandle(file), NULL, NULL, &now);
}

void clprune__system_close(int file)
{
    (void)_close(file);
}

int clprune__system_create_temporary(const char *name, char *temporary, size_t size)
{
    (void)snprintf(temporary, size, "%s.XXXXXX", name);
    if (_mktemp(temporary) == NULL)
        return -1;
    return _sopen(temporary, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _SH_DENYNO,
        _S_IREAD | _S_IWRITE);
}

bool clprune__system_write(int file, const void *data, size_t size)
{
    for (const unsigned char *at = data; size > 0;) {
        const int put = _write(file, at, (unsigned)(size < MOST ? size : MOST));
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

bool clprune__system_commit(int file, bool good, const char *temporary, const char *name)
{
    good = good && _commit(file) == 0;
    good = _close(file) == 0 && good;
    good = good && MoveFileExA(temporary, name, MOVEFILE_REPLACE_EXISTING) != 0;
    if (!good)
        (void)_unlink(temporary);
    return good;
}

struct clprune__folder {
    HANDLE search;
    bool ended;
    WIN32_FIND_DATAA found;
    char path[MAX_PATH], name[MAX_PATH];
};

/* "folder\name". */
static bool join(const clprune__folder *folder, const char *name, char *path, size_t size)
{
    return snprintf(path, size, "%s\\%s", folder->path, name) < (int)size;
}

clprune__folder *clprune__system_open_folder(const char *path)
{
    clprune__folder *folder = calloc(1, sizeof *folder);
    char all[MAX_PATH + 8];
    if (folder == NULL)
        return NULL;
    if (snprintf(folder->path, sizeof folder->path, "%s", path) < (int)sizeof folder->path &&
        join(folder, "*", all, sizeof all)) {
        folder->search = FindFirstFileA(all, &folder->found);
        if (folder->search != INVALID_HANDLE_VALUE)
            return folder;
    }
    free(folder);
    errno = ENOENT;
    return NULL;
}

size_t clprune__system_stack_limit(void)
{
    return SIZE_MAX;
}

bool clprune__system_modified(const char *path, int64_t *seconds)
{
    struct __stat64 info;
    if (_stat64(path, &info) != 0)
        return false;
    *seconds = (int64_t)info.st_mtime;
    return true;
}

/* kind: FILE_ATTRIBUTE_DIRECTORY, or 0 for files. */
static bool next_entry(clprune__folder *folder, DWORD kind, bool (*wanted)(const char *name),
    clprune__folder_entry *entry)
{
    static const DWORD kinds = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
    bool taken = false;
    while (!taken && !folder->ended) {
        const WIN32_FIND_DATAA *found = &folder->found;
        taken = (found->dwFileAttributes & kinds) == kind && wanted(found->cFileName);
        if (taken) { /* times count units of 100 ns since 1601 */
            const uint64_t time = (uint64_t)found->ftLastWriteTime.dwHighDateTime << 32 |
                                  found->ftLastWriteTime.dwLowDateTime;
            memcpy(folder->name, found->cFileName, sizeof folder->name);
            *entry = (clprune__folder_entry){folder->name,
                (uint64_t)found->nFileSizeHigh << 32 | found->nFileSizeLow,
                (int64_t)(time / 10000000) - 11644473600, (int64_t)(time % 10000000) * 100};
        }
        folder->ended = FindNextFileA(folder->search, &folder->found) == 0;
    }
    return taken;
}

bool clprune__system_next_file(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry)
{
    return next_entry(folder, 0, wanted, entry);
}

bool clprune__system_next_folder(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry)
{
    return next_entry(folder, FILE_ATTRIBUTE_DIRECTORY, wanted, entry);
}

void clprune__system_remove_file(clprune__folder *folder, const char *name)
{
    char path[2 * MAX_PATH];
    if (join(folder, name, path, sizeof path))
        (void)_unlink(path);
}

void clprune__system_close_folder(clprune__folder *folder)
{
    (void)FindClose(folder->search);
    free(folder);
}
