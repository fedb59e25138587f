#include "trainer/data/token_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h> /* pread */

#include "trainer/data/fnv.h"
#include "trainer/files/plain_file.h"

enum { HEADER = 256 * 4, PIECE = 4096, PIECES = 4096 /* that are checked */ };

/* The file of a folder, else the path itself; for the caller to free. */
static char *training_file(const char *path, fault *f)
{
    static const char *const names[] = {"train.bin", "train.txt"};
    struct stat info;
    char *found = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        found = strdup(path);
        if (found == NULL)
            (void)fault_set(f, CODE_MEMORY, "%s: out of memory", path);
        return found;
    }
    for (size_t i = 0; i < 2; ++i) {
        char *other = path_join(path, "", names[i]);
        bool there = false;
        if (other == NULL)
            (void)fault_set(f, CODE_MEMORY, "%s: out of memory", path);
        else if (plain_file_exists(other, &there, f) && there && found != NULL)
            (void)fault_set(
                f, CODE_USAGE, "%s: holds train.bin and train.txt; name the file", path);
        if (there && found == NULL)
            found = other;
        else
            free(other);
    }
    if (found == NULL)
        (void)fault_set(
            f, CODE_DATA, "%s: no tokens there: expected train.bin or train.txt, or a file", path);
    if (f->code == CODE_OK)
        return found;
    free(found);
    return NULL;
}

/* The file for tests beside a file: *found is NULL without one, else for the caller to free. */
static bool test_file(const char *path, char **found, fault *f)
{
    const char *slash = strrchr(path, '/'), *last = NULL;
    bool there;
    *found = NULL;
    for (const char *p = slash == NULL ? path : slash; (p = strstr(p, "train")) != NULL; ++p)
        last = p;
    if (last == NULL)
        return true;
    *found = malloc(strlen(path) + 1);
    if (*found == NULL)
        return fault_set(f, CODE_MEMORY, "%s: out of memory", path);
    (void)snprintf(
        *found, strlen(path) + 1, "%.*sval%s", (int)(last - path), path, last + strlen("train"));
    const bool good = plain_file_exists(*found, &there, f);
    if (good && there)
        return true;
    free(*found);
    *found = NULL;
    return good;
}

bool token_file_paths(const char *path, char *paths[2], fault *f)
{
    paths[1] = NULL;
    paths[0] = training_file(path, f);
    return paths[0] != NULL && test_file(paths[0], &paths[1], f);
}

static uint32_t little_endian(const uint8_t *bytes, uint32_t width)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < width; ++i)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

static bool read_bytes(const token_file *file, uint64_t at, size_t size, uint8_t *bytes, fault *f)
{
    for (size_t done = 0; done < size;) {
        const ssize_t got = pread(file->descriptor, bytes + done, size - done, (off_t)(at + done));
        if (got == 0)
            return fault_set(f, CODE_DATA, "%s: it became shorter", file->path);
        if (got < 0 && errno != EINTR)
            return fault_set(f, CODE_DATA, "%s: %s", file->path, strerror(errno));
        done += got < 0 ? 0 : (size_t)got;
    }
    return true;
}

bool token_file_read(
    const token_file *file, uint64_t first, size_t count, uint32_t *tokens, fault *f)
{
    uint8_t bytes[PIECE];
    const size_t most = PIECE / file->width;
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < most ? count - done : most;
        if (!read_bytes(
                file, file->data + (first + done) * file->width, now * file->width, bytes, f))
            return false;
        for (size_t i = 0; i < now; ++i, ++done) {
            tokens[done] = little_endian(bytes + i * file->width, file->width);
            if (tokens[done] >= file->vocabulary)
                return fault_set(f, CODE_DATA,
                    "%s: token %" PRIu32 " at position %" PRIu64 "; the vocabulary has %" PRIu32,
                    file->path, tokens[done], first + done, file->vocabulary);
        }
    }
    return true;
}

/* llm.c's headers. */
static const struct {
    uint32_t magic, version, width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* Takes the header of a file of `size` bytes, if it has one. */
static bool take_header(token_file *file, uint64_t size, fault *f)
{
    uint8_t bytes[3 * 4];
    if (size < HEADER)
        return true;
    if (!read_bytes(file, 0, sizeof bytes, bytes, f))
        return false;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; ++i) {
        if (little_endian(bytes, 4) != headers[i].magic)
            continue;
        const uint32_t version = little_endian(bytes + 4, 4), count = little_endian(bytes + 8, 4);
        if (version != headers[i].version)
            return fault_set(f, CODE_DATA,
                "%s: version %" PRIu32 " in its header, expected %" PRIu32, file->path, version,
                headers[i].version);
        file->width = headers[i].width;
        file->data = HEADER;
        if ((uint64_t)count * file->width != size - HEADER)
            return fault_set(f, CODE_DATA,
                "%s: %" PRIu32 " tokens in its header, but %" PRIu64
                " bytes after it; expected %" PRIu64,
                file->path, count, size - HEADER, (uint64_t)count * file->width);
    }
    return true;
}

static bool is_binary(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".bin") == 0;
}

/* Fills in width, data and count. */
static bool take_layout(token_file *file, uint64_t size, fault *f)
{
    file->width = 1;
    if (is_binary(file->path)) {
        file->width = file->vocabulary > 1 << 16 ? 4 : 2;
        if (!take_header(file, size, f))
            return false;
    } else if (file->vocabulary != TOKEN_BYTES) {
        return fault_set(f, CODE_USAGE,
            "%s: a text has a vocabulary of %d, its bytes; the model's has %" PRIu32
            "; tokens are in files whose names end with .bin",
            file->path, TOKEN_BYTES, file->vocabulary);
    }
    file->count = (size - file->data) / file->width;
    if (size == file->data)
        return fault_set(f, CODE_DATA, "%s: it is empty", file->path);
    return (size - file->data) % file->width == 0 ||
           fault_set(f, CODE_DATA,
               "%s: %" PRIu64 " bytes are no whole number of tokens of %" PRIu32 " bytes",
               file->path, size - file->data, file->width);
}

/* Numbers at even and at odd positions that are not 0. */
typedef struct halves {
    uint64_t numbers, even, odd;
} halves;

static void count_halves(const uint32_t *tokens, size_t count, halves *h)
{
    h->numbers += count;
    for (size_t i = 0; i < count; ++i)
        *(i % 2 == 0 ? &h->even : &h->odd) += tokens[i] != 0;
}

/* Tokens written as uint32 would be taken for twice as many, every second one a 0. */
static bool check_width(const token_file *file, const halves *h, fault *f)
{
    const bool wide =
        file->width == 2 && file->data == 0 && h->odd == 0 && h->even > h->numbers / 4;
    return !wide || h->numbers < 4 ||
           fault_set(f, CODE_DATA,
               "%s: every second number of 16 bits is 0, as in a file of uint32; a vocabulary of "
               "%" PRIu32 " takes uint16",
               file->path, file->vocabulary);
}

/* Checks pieces that are spread over the file, all of it if it is small. */
static bool check_pieces(const token_file *file, uint64_t *checksum, fault *f)
{
    uint32_t tokens[PIECE / 4];
    const size_t most = sizeof tokens / sizeof *tokens;
    const uint64_t all = (file->count + most - 1) / most, taken = all < PIECES ? all : PIECES;
    halves h = {0};
    *checksum = fnv1a(FNV_START, &file->count, sizeof file->count);
    for (uint64_t i = 0; i < taken; ++i) {
        const uint64_t first = i * all / taken * most;
        const uint64_t left = file->count - first;
        const size_t count = left < most ? (size_t)left : most;
        if (!token_file_read(file, first, count, tokens, f))
            return false;
        *checksum = fnv1a(*checksum, tokens, count * sizeof *tokens);
        count_halves(tokens, count, &h);
    }
    return check_width(file, &h, f);
}

bool token_file_open(
    const char *path, uint32_t vocabulary, token_file *file, uint64_t *checksum, fault *f)
{
    const char *why;
    uint64_t size;
    *file = (token_file){.descriptor = -1, .vocabulary = vocabulary, .path = strdup(path)};
    bool good = file->path != NULL || fault_set(f, CODE_MEMORY, "%s: out of memory", path);
    if (good) {
        file->descriptor = plain_file_descriptor(path, &size, &why);
        good = file->descriptor >= 0 || fault_set(f, CODE_DATA, "%s: %s", path, why);
    }
    good = good && take_layout(file, size, f) && check_pieces(file, checksum, f);
    if (!good)
        token_file_close(file);
    return good;
}

void token_file_close(token_file *file)
{
    if (file->path != NULL && file->descriptor >= 0)
        (void)close(file->descriptor);
    free(file->path);
    *file = (token_file){0};
}
