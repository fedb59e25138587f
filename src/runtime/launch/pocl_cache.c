/* PoCL's folder has FOLDER/AB/HASH for a program, with last_accessed, program.bc, and
 * KERNEL/SHAPE/KERNEL.so for each kernel and work-group. It renames finished files, so an
 * incomplete one is what a power cut or a full disk left. */
#include "runtime/launch/pocl_cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "runtime/context/check.h"
#include "runtime/launch/disk_cache.h"

enum { PATH_BYTES = 4096, MOST_BYTES = 64 << 20, SLACK_S = 2 };

typedef struct walk {
    char path[PATH_BYTES]; /* of the folder being read; in the end of the damaged file */
    int64_t since;         /* seconds since 1970 */
    bool unread;           /* not all could be read */
} walk;

static uint64_t number_at(const unsigned char *data, size_t at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i > 0; i--)
        value = value << 8 | data[at + i - 1];
    return value;
}

/* An ELF file ends with the table of its sections, which all lie in it. */
static bool is_library(const unsigned char *data, size_t size)
{
    static const struct {
        size_t header, table, entry, type, offset, word;
    } layouts[] = {{52, 0x20, 0x2e, 4, 16, 4}, {64, 0x28, 0x3a, 4, 24, 8}};
    if (size < 64)
        return false;
#ifndef __ELF__
    return true; /* of another format */
#endif
    if (memcmp(data, "\177ELF", 4) != 0 || data[4] < 1 || data[4] > 2)
        return false;
    if (data[5] != 1)
        return true; /* big-endian */
    const size_t word = layouts[data[4] - 1].word, entry = layouts[data[4] - 1].entry;
    const uint64_t table = number_at(data, layouts[data[4] - 1].table, word);
    const uint64_t bytes = number_at(data, entry, 2), count = number_at(data, entry + 2, 2);
    if (count == 0 || bytes < 24 + 2 * word || table > size || count * bytes > size - table)
        return false;
    for (uint64_t i = 1; i < count; i++) {
        const size_t at = (size_t)(table + i * bytes);
        const uint64_t type = number_at(data, at + 4, 4);
        const uint64_t offset = number_at(data, at + layouts[data[4] - 1].offset, word);
        const uint64_t length = number_at(data, at + layouts[data[4] - 1].offset + word, word);
        const bool in_file = type != 8; /* SHT_NOBITS */
        if (type == 0 || (in_file && (offset > size || length > size - offset)))
            return false;
    }
    return true;
}

/* LLVM's bitcode is a list of blocks, each with its length in words. */
static bool is_bitcode(const unsigned char *data, size_t size)
{
    size_t at = 4;
    if (size >= 20 && memcmp(data, "\xde\xc0\x17\x0b", 4) == 0)
        return true; /* in Apple's wrapper */
    if (size < 12 || memcmp(data, "BC\xc0\xde", 4) != 0)
        return false;
    while (at < size) {
        if (size - at < 8 || (data[at] & 3) != 1)
            return false;
        const uint64_t words = number_at(data, at + 4, 4);
        at += 8;
        if (words > (size - at) / 4)
            return false;
        at += 4 * (size_t)words;
    }
    return true;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

/* PoCL's own names for unfinished files begin with tempfile_. */
static bool is_checked(const char *name)
{
    return (strcmp(name, "program.bc") == 0 || ends_with(name, ".so")) &&
           strncmp(name, "temp", 4) != 0;
}

/* False only if bytes that were read are wrong: another process may replace or remove a file. The
 * size is that of the open file, since entry->bytes may be another one's. */
static bool is_whole(walk *w, const clprune__folder_entry *entry)
{
    clprune__file_facts facts;
    bool good = true, read = false;
    unsigned char *data = NULL;
    const int file = clprune__system_open_private(w->path);
    if (file >= 0 && clprune__system_facts(file, &facts)) {
        const size_t size = facts.bytes <= MOST_BYTES ? (size_t)facts.bytes : 0;
        read = facts.bytes > MOST_BYTES;
        data = read ? NULL : malloc(size + 1);
        if (data != NULL && clprune__system_read(file, data, size)) {
            read = true;
            good = ends_with(entry->name, ".so") ? is_library(data, size) : is_bitcode(data, size);
        }
    }
    if (file >= 0)
        clprune__system_close(file);
    free(data);
    w->unread = w->unread || !read;
    return good;
}

static bool any_name(const char *name)
{
    return name[0] != '.';
}

/* Appends "/name" to the path of `w`; the length before. */
static size_t enter(walk *w, const char *name)
{
    const size_t length = strlen(w->path);
    (void)snprintf(w->path + length, sizeof w->path - length, "/%s", name);
    return length;
}

/* Whether PoCL has used the program in w->path since the last check. */
static bool is_recent(walk *w)
{
    int64_t used = INT64_MAX;
    const size_t length = enter(w, "last_accessed");
    const bool known = clprune__system_modified(w->path, &used);
    w->path[length] = '\0';
    return !known || used >= w->since;
}

static clprune__folder *open_folder(walk *w)
{
    clprune__folder *folder = clprune__system_open_folder(w->path);
    w->unread = w->unread || folder == NULL;
    return folder;
}

/* Whether all files of a folder `depth` levels below PoCL's are whole; if not, w->path is that of
 * the damaged one. */
static bool check_folder(walk *w, int depth)
{
    clprune__folder_entry entry;
    bool good = true;
    if (depth == 2 && !is_recent(w))
        return true;
    clprune__folder *folder = open_folder(w);
    if (folder == NULL)
        return true;
    while (good && depth >= 2 && clprune__system_next_file(folder, is_checked, &entry)) {
        const size_t length = enter(w, entry.name);
        good = is_whole(w, &entry);
        if (good)
            w->path[length] = '\0';
    }
    clprune__system_close_folder(folder);
    folder = good && depth < 4 ? open_folder(w) : NULL;
    while (folder != NULL && good && clprune__system_next_folder(folder, any_name, &entry)) {
        const size_t length = enter(w, entry.name);
        good = check_folder(w, depth + 1);
        if (good)
            w->path[length] = '\0';
    }
    if (folder != NULL)
        clprune__system_close_folder(folder);
    return good;
}

/* The folder of PoCL; false: none is known. */
static bool find_folder(char *path, size_t size)
{
    const char *given = getenv("POCL_CACHE_DIR"), *used = getenv("POCL_KERNEL_CACHE");
    char home[PATH_BYTES];
    int length = -1;
    if (used != NULL && strcmp(used, "0") == 0)
        return false;
    if (given != NULL)
        length = snprintf(path, size, "%s", given);
    else if (clprune__system_cache_home(home, sizeof home))
        length = snprintf(path, size, "%s/pocl/kcache", home);
    return length > 0 && (size_t)length < size / 2;
}

/* The file that says when the folder was checked: FNV-1a of its name. */
static char *stamp_of(const char *path, char *stamp, size_t size)
{
    const char *reason;
    uint64_t hash = 14695981039346656037u;
    char *own = clprune__disk_folder(NULL, &reason);
    for (const char *p = path; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    if (own == NULL)
        return NULL;
    const int length =
        snprintf(stamp, size, "%s/pocl-checked.%016llx", own, (unsigned long long)hash);
    free(own);
    return length > 0 && (size_t)length < size ? stamp : NULL;
}

clprune_status clprune__pocl_cache_check(clprune_context *context)
{
    static atomic_bool checked;
    walk w = {.since = INT64_MIN};
    char top[PATH_BYTES], own[PATH_BYTES], temporary[PATH_BYTES + 16];
    if (strcmp(context->facts.platform, "Portable Computing Language") != 0 ||
        atomic_load(&checked) || !find_folder(top, sizeof top))
        return CLPRUNE_SUCCESS;
    memcpy(w.path, top, sizeof w.path);
    const char *stamp = stamp_of(top, own, sizeof own);
    if (stamp != NULL && clprune__system_modified(stamp, &w.since))
        w.since -= SLACK_S;
    /* the new time is that before the check */
    const int file =
        stamp != NULL ? clprune__system_create_temporary(stamp, temporary, sizeof temporary) : -1;
    const bool good = check_folder(&w, 0);
    if (file >= 0)
        (void)clprune__system_commit(file, good && !w.unread, temporary, stamp);
    REQUIRE(good, CLPRUNE_BUILD_FAILED,
        "PoCL would end the process at %s, which a power cut or a full disk has damaged; remove "
        "the "
        "folder %s, where PoCL keeps compiled kernels",
        w.path, top);
    atomic_store(&checked, true);
    return CLPRUNE_SUCCESS;
}
