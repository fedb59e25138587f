#include "trainer/data/token_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h> /* pread */

#include "trainer/data/file_kind.h"
#include "trainer/data/fnv.h"
#include "trainer/files/plain_file.h"

enum { HEADER = 256 * 4, PIECE = 4096, PIECES = 4096 /* that are checked */ };

/* Sets *found to "folder" + name, a file that is there, for the caller to free: of this name, else
 * the first in the order of bytes that differs in the case of letters alone; else to NULL. folder:
 * "", or ends with '/'. */
static bool find_name(const char *folder, const char *name, char **found, fault *f)
{
    const size_t size = strlen(folder) + strlen(name) + 1;
    char *path = malloc(size);
    bool there = false;
    *found = NULL;
    if (path == NULL)
        return fault_set(f, CODE_MEMORY, "%s%s: out of memory", folder, name);
    (void)snprintf(path, size, "%s%s", folder, name);
    bool good = plain_file_exists(path, &there, f);
    DIR *dir = good && !there ? opendir(folder[0] == '\0' ? "." : folder) : NULL;
    char *last = path + strlen(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (strcasecmp(entry->d_name, name) == 0 && (!there || strcmp(entry->d_name, last) < 0)) {
            (void)snprintf(last, strlen(name) + 1, "%s", entry->d_name);
            there = true;
        }
    if (dir != NULL)
        (void)closedir(dir);
    if (good && there)
        *found = path;
    else
        free(path);
    return good;
}

/* The file of a folder, else the path itself; for the caller to free. */
static char *training_file(const char *path, fault *f)
{
    static const char *const names[] = {"train.bin", "train.txt"};
    struct stat info;
    char *found[2] = {NULL, NULL};
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        found[0] = strdup(path);
        if (found[0] == NULL)
            (void)fault_set(f, CODE_MEMORY, "%s: out of memory", path);
        return found[0];
    }
    char *folder = path_join(path, "", "");
    bool good = folder != NULL || fault_set(f, CODE_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; good && i < 2; ++i)
        good = find_name(folder, names[i], &found[i], f);
    free(folder);
    if (good && found[0] != NULL && found[1] != NULL)
        good = fault_set(f, CODE_USAGE, "%s: holds train.bin and train.txt; name the file", path);
    if (good && found[0] == NULL && found[1] == NULL)
        good = file_kind_check_folder(path, f) &&
               fault_set(f, CODE_DATA,
                   "%s: no tokens there: expected train.bin or train.txt, or a file", path);
    char *file = found[0] != NULL ? found[0] : found[1];
    if (good)
        return file;
    free(found[0]);
    free(found[1]);
    return NULL;
}

/* The last "train" of a name, in capitals or not; NULL without one. */
static const char *last_train(const char *name)
{
    const char *last = NULL;
    for (const char *p = name; *p != '\0'; ++p)
        if (strncasecmp(p, "train", strlen("train")) == 0)
            last = p;
    return last;
}

/* Turns the last number before the ending of a name to 0, as that of llm.c's file for tests. */
static void clear_number(char *name)
{
    char *p = strrchr(name, '.');
    if (p == NULL)
        p = name + strlen(name);
    while (p > name && !isdigit((unsigned char)p[-1]))
        --p;
    while (p > name && isdigit((unsigned char)p[-1]))
        *--p = '0';
}

/* The file for tests beside a file: *found is NULL without one, else for the caller to free. */
static bool test_file(const char *path, char **found, fault *f)
{
    static const char *const words[] = {"val", "valid", "validation"};
    enum { WORDS = sizeof words / sizeof *words, LONGEST = sizeof "validation" };
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *last = last_train(name);
    *found = NULL;
    if (last == NULL)
        return true;
    char *folder = strdup(path), *other = malloc(strlen(name) + LONGEST);
    bool good =
        (folder != NULL && other != NULL) || fault_set(f, CODE_MEMORY, "%s: out of memory", path);
    if (folder != NULL)
        folder[name - path] = '\0';
    for (size_t i = 0; good && *found == NULL && i < 2 * WORDS; ++i) {
        const int before = snprintf(
            other, strlen(name) + LONGEST, "%.*s%s", (int)(last - name), name, words[i % WORDS]);
        (void)snprintf(
            other + before, strlen(name) + LONGEST - (size_t)before, "%s", last + strlen("train"));
        if (i >= WORDS)
            clear_number(other + before);
        good = find_name(folder, other, found, f);
    }
    free(folder);
    free(other);
    return good;
}

/* The files of --data: a file, or that of a folder; and that for tests, or NULL. */
static bool find_files(const char *path, char *paths[2], fault *f)
{
    paths[1] = NULL;
    paths[0] = training_file(path, f);
    return paths[0] != NULL && test_file(paths[0], &paths[1], f);
}

bool token_files_open(const char *path, uint32_t tokens, text_model *model, uint64_t resumed,
    token_file files[2], uint64_t *checksum, fault *f)
{
    uint64_t checksums[2] = {0};
    char *paths[2];
    bool good = find_files(path, paths, f);
    files[0] = files[1] = (token_file){0};
    for (int i = 0; good && i < 2 && paths[i] != NULL; ++i) {
        if (i == 1 && resumed == fnv1a(FNV_START, checksums, sizeof checksums))
            break;
        good = token_file_open(paths[i], tokens, model, &files[i], &checksums[i], f);
    }
    *checksum = fnv1a(FNV_START, checksums, sizeof checksums);
    free(paths[0]);
    free(paths[1]);
    return good;
}

static uint32_t little_endian(const uint8_t *bytes, uint32_t width)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < width; ++i)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

/* descriptor: of the file, or of its mask. */
static bool read_bytes(
    const token_file *file, int descriptor, uint64_t at, size_t size, uint8_t *bytes, fault *f)
{
    for (size_t done = 0; done < size;) {
        const ssize_t got = pread(descriptor, bytes + done, size - done, (off_t)(at + done));
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
        if (!read_bytes(file, file->descriptor, file->data + (first + done) * file->width,
                now * file->width, bytes, f))
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
    if (!read_bytes(file, file->descriptor, 0, sizeof bytes, bytes, f))
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

/* Puts the tokens of a text in its place, if --model has a vocabulary. */
static bool take_text(token_file *file, text_model *model, uint64_t *size, fault *f)
{
    struct stat info;
    const int text = file->descriptor;
    text_tokens made;
    if (model == NULL || (text_model_open(model, f) && model->words.count == 0))
        return true;
    if (!model->opened || !text_tokens_open(file->path, model, &made, f))
        return false;
    (void)close(text);
    file->descriptor = made.descriptor;
    file->mask = made.mask;
    file->begins = made.begins;
    file->texts = made.lines;
    file->width = 4;
    *size = fstat(file->descriptor, &info) == 0 ? (uint64_t)info.st_size : 0;
    return true;
}

/* Fills in width, data and count. */
static bool take_layout(token_file *file, text_model *model, uint64_t size, fault *f)
{
    const bool binary = file_kind_ends_with(file->path, ".bin");
    file->width = !binary ? 1 : file->vocabulary > 1 << 16 ? 4 : 2;
    if (binary && !take_header(file, size, f))
        return false;
    if (file->data == 0 && !file_kind_check(file->path, file->descriptor,
                               binary ? FILE_KIND_OF_TOKENS : FILE_KIND_OF_TEXT,
                               binary ? "tokens" : "a text, or tokens in NAME.bin", f))
        return false;
    if (!binary && !take_text(file, model, &size, f))
        return false;
    if (file->width == 1 && file->vocabulary != TOKEN_BYTES)
        return fault_set(f, CODE_USAGE,
            "%s: a text has a vocabulary of %d, its bytes; the model's has %" PRIu32
            ", and %s; tokens are in files whose names end with .bin",
            file->path, TOKEN_BYTES, file->vocabulary,
            model == NULL ? "takes texts with --model FILE.gguf" : "no texts of them");
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

/* Whether every second number is 0, of bytes nearly so: of numbers that are twice as wide. */
static bool is_wider(const token_file *file, const halves *h)
{
    if (h->numbers < 4 || file->data != 0)
        return false;
    if (file->width == 1)
        return (h->odd < h->even / 8 && h->even > h->numbers / 4) ||
               (h->even < h->odd / 8 && h->odd > h->numbers / 4);
    return file->width == 2 && h->odd == 0 && h->even > h->numbers / 4;
}

/* Tokens written as uint32 would be taken for twice as many, every second one a 0. */
static bool check_width(const token_file *file, const halves *h, fault *f)
{
    if (!is_wider(file, h))
        return true;
    if (file->width == 1)
        return fault_set(f, CODE_DATA,
            "%s: every second byte is 0, as in a text in UTF-16, which iconv -f UTF-16 -t UTF-8 "
            "converts, or in tokens, whose file's name ends with .bin",
            file->path);
    return fault_set(f, CODE_DATA,
        "%s: every second number of 16 bits is 0, as in a file of uint32; a vocabulary of %" PRIu32
        " takes uint16",
        file->path, file->vocabulary);
}

bool token_file_read_mask(
    const token_file *file, uint64_t first, size_t count, uint8_t *mask, fault *f)
{
    if (file->mask >= 0)
        return read_bytes(file, file->mask, first, count, mask, f);
    memset(mask, 1, count);
    return true;
}

/* Checks pieces that are spread over the file, all of it if it is small. */
static bool check_pieces(token_file *file, uint64_t *checksum, fault *f)
{
    uint32_t tokens[PIECE / 4];
    uint8_t mask[sizeof tokens / sizeof *tokens];
    const size_t most = sizeof tokens / sizeof *tokens;
    const uint64_t all = (file->count + most - 1) / most, taken = all < PIECES ? all : PIECES;
    halves h = {0};
    *checksum = fnv1a(FNV_START, &file->count, sizeof file->count);
    for (uint64_t i = 0; i < taken; ++i) {
        const uint64_t first = i * all / taken * most;
        const uint64_t left = file->count - first;
        const size_t count = left < most ? (size_t)left : most;
        if (!token_file_read(file, first, count, tokens, f) ||
            (file->mask >= 0 && !token_file_read_mask(file, first, count, mask, f)))
            return false;
        *checksum = fnv1a(*checksum, tokens, count * sizeof *tokens);
        if (file->mask >= 0)
            *checksum = fnv1a(*checksum, mask, count);
        count_halves(tokens, count, &h);
    }
    file->zeros = h.numbers - h.even - h.odd;
    return check_width(file, &h, f);
}

/* Opens NAME.mask, if it is there. */
static bool take_mask(token_file *file, fault *f)
{
    const size_t stem = strlen(file->path) - strlen(".bin");
    char *path = malloc(stem + sizeof ".mask");
    const char *why;
    uint64_t size;
    bool there = false;
    if (path == NULL)
        return fault_set(f, CODE_MEMORY, "%s: out of memory", file->path);
    (void)snprintf(path, stem + sizeof ".mask", "%.*s.mask", (int)stem, file->path);
    bool good = plain_file_exists(path, &there, f);
    if (good && there) {
        file->mask = plain_file_descriptor(path, &size, &why);
        good = file->mask >= 0 ? size == file->count ||
                                     fault_set(f, CODE_DATA,
                                         "%s: %" PRIu64 " bytes, but %s has %" PRIu64 " tokens",
                                         path, size, file->path, file->count)
                               : fault_set(f, CODE_DATA, "%s: %s", path, why);
    }
    free(path);
    return good;
}

bool token_file_open(const char *path, uint32_t tokens, text_model *model, token_file *file,
    uint64_t *checksum, fault *f)
{
    const char *why;
    uint64_t size;
    *file = (token_file){.descriptor = -1, .mask = -1, .vocabulary = tokens, .path = strdup(path)};
    bool good = file->path != NULL || fault_set(f, CODE_MEMORY, "%s: out of memory", path);
    if (good) {
        file->descriptor = plain_file_descriptor(path, &size, &why);
        good = file->descriptor >= 0 || fault_set(f, CODE_DATA, "%s: %s", path, why);
    }
    good = good && take_layout(file, model, size, f) &&
           (!file_kind_ends_with(path, ".bin") || take_mask(file, f)) &&
           check_pieces(file, checksum, f);
    if (!good)
        token_file_close(file);
    return good;
}

void token_file_close(token_file *file)
{
    if (file->path != NULL && file->descriptor >= 0)
        (void)close(file->descriptor);
    if (file->path != NULL && file->mask >= 0)
        (void)close(file->mask);
    free(file->begins);
    free(file->path);
    *file = (token_file){0};
}
