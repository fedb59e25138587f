/* tune_output.c: the file of --output. */
#include "tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/base/open_output.h"

enum { MOST_BYTES = 1 << 20 }; /* of a tuning file, as in src/ops/device/tuning_read.c */

static bool is_stdout(const char *path)
{
    struct stat named, out;
    return stat(path, &named) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
           named.st_dev == out.st_dev && named.st_ino == out.st_ino;
}

/* Whether two words are equal but for white space around them. The names of some devices begin with
 * spaces. */
static bool is_word(const char *text, const char *word)
{
    static const char space[] = " \t\r\n";
    text += strspn(text, space);
    word += strspn(word, space);
    size_t length = strlen(text), word_length = strlen(word);
    while (length > 0 && strchr(space, text[length - 1]) != NULL)
        length--;
    while (word_length > 0 && strchr(space, word[word_length - 1]) != NULL)
        word_length--;
    return length == word_length && memcmp(text, word, length) == 0;
}

/* The value of a line "key = value", or NULL for another line. */
static const char *value_of(const char *line, const char *key)
{
    const size_t length = strlen(key);
    if (strncmp(line, key, length) != 0)
        return NULL;
    line += length + strspn(line + length, " \t");
    return *line == '=' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

/* Copies the rows of other devices from a tuning file to `rows`. False if it is not one, or is cut
 * off; an empty file is one. */
static bool copy_others(FILE *file, const char *device, FILE *rows)
{
    bool empty = true, version = false, ended = false, other = false, good = true;
    char *line = NULL;
    size_t capacity = 0;
    while (good && !ended && getline(&line, &capacity, file) >= 0) {
        const char *text = line + strspn(line, " \t\r"), *name = value_of(text, "device");
        const char *format = value_of(text, "clprune_tuning");
        empty = false;
        if (format != NULL)
            good = version = is_word(format, "1");
        else if (text[0] != '\n' && text[0] != '#')
            good = version;
        ended = is_word(text, "end");
        if (name != NULL)
            other = !is_word(name, device);
        if (other && !ended)
            (void)fputs(line, rows);
    }
    good = good && !ferror(file) && (ended || empty);
    free(line);
    return good;
}

/* The rows of other devices in the regular file `path`, as a new string in *rows; NULL where no
 * such file is. False, with errno, if it cannot be read; errno is 0 if it is not a tuning file, and
 * EFBIG if the library would refuse its size. */
static bool read_others(const char *path, const char *device, char **rows)
{
    struct stat status;
    size_t size;
    *rows = NULL;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    if (status.st_size > MOST_BYTES) {
        errno = EFBIG;
        return false;
    }
    FILE *file = fopen(path, "r"), *copy = file != NULL ? open_memstream(rows, &size) : NULL;
    bool good = copy != NULL;
    if (good) {
        errno = 0;
        good = copy_others(file, device, copy);
        const int cause = errno;
        good = fclose(copy) == 0 && good;
        errno = cause;
    }
    if (file != NULL) {
        const int cause = errno;
        (void)fclose(file);
        errno = cause;
    }
    return good;
}

bool tune_write_output(const tune *t, const char *path, bool probe)
{
    if (path == NULL || is_stdout(path)) {
        if (!probe)
            tune_write_file(stdout, t, &t->best, NULL, NULL);
        return fflush(stdout) == 0 && !ferror(stdout);
    }
    char *others = NULL;
    if (!read_others(path, t->device, &others)) {
        if (errno == EFBIG)
            fprintf(stderr,
                "clprune-tune: --output: %s: larger than %d bytes; it is left as it is\n", path,
                MOST_BYTES);
        else
            fprintf(stderr, "clprune-tune: --output: %s: %s\n", path,
                errno != 0 ? strerror(errno) : "not a whole tuning file; it is left as it is");
        free(others);
        return false;
    }
    struct stat status;
    const bool direct = lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
    const size_t size = strlen(path) + 32;
    char *temporary = malloc(size);
    if (temporary == NULL) {
        free(others);
        return false;
    }
    (void)snprintf(temporary, size, "%s.%ld.tmp", path, (long)getpid());
    FILE *stream = direct ? open_output(path, probe ? 0 : O_TRUNC)
                          : open_output(temporary, O_CREAT | O_EXCL | O_NOFOLLOW);
    bool good = stream != NULL;
    if (good) {
        if (!probe)
            tune_write_file(stream, t, &t->best, NULL, others);
        good = fflush(stream) == 0 && !ferror(stream) && (direct || fsync(fileno(stream)) == 0);
        good = fclose(stream) == 0 && good;
        good = good && (probe || direct || rename(temporary, path) == 0);
    }
    if (!good)
        fprintf(stderr, "clprune-tune: --output: cannot write %s: %s\n", path, strerror(errno));
    if (stream != NULL && !direct && (probe || !good))
        (void)unlink(temporary);
    free(temporary);
    free(others);
    return good;
}
