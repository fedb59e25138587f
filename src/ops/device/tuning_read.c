/* The file $CLPRUNE_TUNING, line by line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/device/tuning.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

enum { MOST_BYTES = 1 << 20, MOST_LINE = 512, MOST_ENTRIES = 128 };

typedef struct reader {
    clprune_context *context;
    const char *path;
    size_t line;                 /* that is read, from 1 on */
    bool version, ended;         /* the first and the last line were there */
    bool in_row, matches;        /* below a device line; it names this device */
    size_t row_line;             /* where the row for this device begins; 0: there was none */
    bool driver;                 /* the row for this device has a driver line */
    const clprune__tuning *base; /* the built-in row */
    clprune__tuning tuning;      /* the result so far */
    bool given[MOST_ENTRIES];    /* by the row for this device */
} reader;

/* Fails with the file, the line, its key and what is wrong with it. */
static clprune_status refuse(const reader *r, const char *key, const char *wrong)
{
    return clprune__fail(r->context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
        "CLPRUNE_TUNING: %.1000s:%zu: %.200s%s%s", r->path, r->line, key,
        key[0] != '\0' ? ": " : "", wrong);
}

#define ACCEPT(condition, key, wrong)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return refuse(r, key, wrong);                                                          \
    } while (0)

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the white space at both ends. */
static char *trim(char *text)
{
    while (is_space(*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && is_space(text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Decimal digits only; false for others and above 32 bits. */
static bool parse_whole(const char *text, uint32_t *value)
{
    uint64_t sum = 0;
    size_t i = 0;
    for (; text[i] >= '0' && text[i] <= '9' && sum <= UINT32_MAX; i++)
        sum = 10 * sum + (uint64_t)(text[i] - '0');
    *value = (uint32_t)sum;
    return i > 0 && text[i] == '\0' && sum <= UINT32_MAX;
}

/* "section.key = value" */
static clprune_status read_parameter(reader *r, const char *key, const char *value)
{
    size_t count, i = 0;
    uint32_t number;
    char name[96], range[160];
    const clprune__tuning_entry *entries = clprune__tuning_entries(&count);
    for (; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", entries[i].section, entries[i].key);
        if (strcmp(name, key) == 0)
            break;
    }
    ACCEPT(i < count, key, "there is no such parameter");
    ACCEPT(!r->given[i], key, "given twice");
    const clprune__tuning_entry *entry = &entries[i];
    (void)snprintf(range, sizeof range, "\"%.40s\" is not a whole number from %u to %u%s", value,
        entry->least, entry->most, entry->multiple > 1 ? " and a multiple of " : "");
    if (entry->multiple > 1)
        (void)snprintf(range + strlen(range), sizeof range - strlen(range), "%u", entry->multiple);
    ACCEPT(parse_whole(value, &number) && number >= entry->least && number <= entry->most &&
               number % entry->multiple == 0,
        key, range);
    *clprune__tuning_value(&r->tuning, entry) = number;
    r->given[i] = true;
    if (entry->blast >= 0)
        r->tuning.blast_set[entry->blast] = true;
    return CLPRUNE_SUCCESS;
}

/* Ends a row; fails if the row for this device is incomplete or has conflicts. */
static clprune_status end_row(reader *r)
{
    size_t count;
    const clprune__tuning_entry *entries = clprune__tuning_entries(&count);
    if (!r->matches)
        return CLPRUNE_SUCCESS;
    r->matches = false;
    r->line = r->row_line;
    for (size_t i = 0; i < count; i++) {
        const int blast = entries[i].blast;
        char name[96];
        (void)snprintf(name, sizeof name, "%s.%s", entries[i].section, entries[i].key);
        ACCEPT(blast < 0 || !r->tuning.blast_set[blast] || r->base->blast_set[blast] || r->given[i],
            name, "missing; the built-in row has no value for this device");
    }
    const char *conflict = clprune__tuning_conflict(r->context, &r->tuning);
    ACCEPT(conflict == NULL, "", conflict);
    return CLPRUNE_SUCCESS;
}

static clprune_status begin_row(reader *r, const char *device)
{
    const size_t line = r->line;
    TRY(end_row(r));
    r->line = line;
    r->in_row = true;
    char name[sizeof r->context->facts.device];
    memcpy(name, r->context->facts.device, sizeof name);
    r->matches = strcmp(device, trim(name)) == 0;
    if (r->matches) {
        ACCEPT(r->row_line == 0, "device", "a second row for this device");
        r->row_line = line;
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status read_line(reader *r, char *text)
{
    text = trim(text);
    if (text[0] == '\0' || text[0] == '#')
        return CLPRUNE_SUCCESS;
    ACCEPT(!r->ended, text, "there is more after the line \"end\"");
    if (strcmp(text, "end") == 0 && r->version) {
        r->ended = true;
        return end_row(r);
    }
    char *sign = strchr(text, '=');
    ACCEPT(sign != NULL, text, "expected \"key = value\"");
    *sign = '\0';
    const char *key = trim(text), *value = trim(sign + 1);
    ACCEPT(key[0] != '\0' && value[0] != '\0', key, "expected \"key = value\"");
    if (strcmp(key, "clprune_tuning") == 0) {
        ACCEPT(!r->version, key, "given twice");
        ACCEPT(strcmp(value, "1") == 0, key, "this version of clprune reads 1");
        r->version = true;
        return CLPRUNE_SUCCESS;
    }
    ACCEPT(r->version, key, "expected \"clprune_tuning = 1\" first");
    if (strcmp(key, "device") == 0)
        return begin_row(r, value);
    ACCEPT(r->in_row, key, "expected \"device = name\" before it");
    if (!r->matches)
        return CLPRUNE_SUCCESS;
    if (strcmp(key, "driver") == 0) {
        ACCEPT(!r->driver, key, "given twice");
        r->driver = true;
    } else {
        TRY(read_parameter(r, key, value));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status read_lines(reader *r, const char *text, size_t size)
{
    char line[MOST_LINE];
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        const size_t length = (newline != NULL ? (size_t)(newline - text) : size) - at;
        r->line++;
        ACCEPT(length < sizeof line, "", "the line is too long");
        ACCEPT(memchr(text + at, '\0', length) == NULL, "", "the line has a zero byte");
        memcpy(line, text + at, length);
        line[length] = '\0';
        TRY(read_line(r, line));
        at += length + 1;
    }
    ACCEPT(r->version, "clprune_tuning", "missing");
    ACCEPT(r->ended, "end", "missing; the file is cut off");
    return CLPRUNE_SUCCESS;
}

/* The whole file, of at most MOST_BYTES, as a new array. Folders, pipes and devices are refused. */
static clprune_status read_file(
    clprune_context *context, const char *path, char **text, size_t *size)
{
    clprune_status status = CLPRUNE_SUCCESS;
    struct stat info;
    FILE *file = NULL;
    REQUIRE_DONE(
        stat(path, &info) == 0 && (!S_ISREG(info.st_mode) || (file = fopen(path, "rb")) != NULL),
        CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_TUNING: cannot read %.1000s: %s", path, strerror(errno));
    REQUIRE_DONE(file != NULL, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_TUNING: %.1000s is not a regular file", path);
    REQUIRE_DONE(info.st_size <= MOST_BYTES, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_TUNING: %.1000s is larger than %d bytes", path, (int)MOST_BYTES);
    *text = malloc((size_t)info.st_size + 1);
    REQUIRE_DONE(*text != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %.1000s", path);
    *size = fread(*text, 1, (size_t)info.st_size, file);
    REQUIRE_DONE(
        !ferror(file), CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_TUNING: cannot read %.1000s", path);
done:
    if (file != NULL)
        (void)fclose(file);
    return status;
}

clprune_status clprune__tuning_read(
    clprune_context *context, const char *path, clprune__tuning *tuning)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char *text = NULL;
    size_t size = 0, count;
    reader r = {.context = context, .path = path, .base = tuning, .tuning = *tuning};
    (void)clprune__tuning_entries(&count);
    REQUIRE_DONE(count <= MOST_ENTRIES, CLPRUNE_INTERNAL_ERROR,
        "%zu parameters are more than a file can set", count);
    TRY_DONE(read_file(context, path, &text, &size));
    TRY_DONE(read_lines(&r, text, size));
    if (r.row_line > 0) {
        *tuning = r.tuning;
        (void)snprintf(tuning->source, sizeof tuning->source, "%s", path);
    }
done:
    free(text);
    return status;
}
