/* The file $CLPRUNE_TUNING. A row is walked twice: once for its device, then for its parameters. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/json_read.h"
#include "ops/tuning.h"
#include "runtime/check.h"
#include "runtime/context_private.h"

enum { MOST_BYTES = 1 << 20, MOST_ENTRIES = 128 };

typedef struct reader {
    clprune_context *context;
    const char *path;
    clprune__json json;
    const clprune__tuning *base; /* the built-in row */
    clprune__tuning tuning;      /* the result so far */
    bool given[MOST_ENTRIES];    /* by the row for this device */
    bool matched;                /* there was a row for this device */
} reader;

/* Fails with the file, the place, what stands there and what is wrong with it. */
static clprune_status refuse(
    const reader *r, const char *section, const char *key, const char *wrong)
{
    size_t line, column;
    clprune__json_position(&r->json, &line, &column);
    return clprune__fail(r->context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__, "CLPRUNE_TUNING",
        "%.1000s:%zu:%zu: %s%s%s%s%s", r->path, line, column, section, key[0] != '\0' ? "." : "",
        key, section[0] != '\0' ? ": " : "", r->json.error != NULL ? r->json.error : wrong);
}

#define ACCEPT(condition, section, key, wrong)                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            status = refuse(r, section, key, wrong);                                               \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

static clprune_status read_value(reader *r, const char *section, const char *key, size_t number)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t count;
    uint64_t value;
    char range[96];
    const clprune__tuning_entry *entry = &clprune__tuning_entries(&count)[number];
    ACCEPT(!r->given[number], section, key, "given twice");
    ACCEPT(clprune__json_whole(&r->json, &value), section, key, "");
    (void)snprintf(range, sizeof range, "%llu is not from %u to %u or no multiple of %u",
        (unsigned long long)value, entry->least, entry->most, entry->multiple);
    ACCEPT(value >= entry->least && value <= entry->most && value % entry->multiple == 0, section,
        key, range);
    *clprune__tuning_value(&r->tuning, entry) = (uint32_t)value;
    r->given[number] = true;
    if (entry->blast >= 0)
        r->tuning.blast_set[entry->blast] = true;
done:
    return status;
}

static clprune_status read_section(reader *r, const char *section)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char key[64];
    size_t count;
    const clprune__tuning_entry *entries = clprune__tuning_entries(&count);
    bool known = false;
    for (size_t i = 0; i < count; i++)
        known = known || strcmp(entries[i].section, section) == 0;
    ACCEPT(known, "parameters", section, "there is no such section");
    ACCEPT(clprune__json_object(&r->json), "parameters", section, "");
    while (clprune__json_key(&r->json, key, sizeof key)) {
        size_t i = 0;
        while (i < count &&
               (strcmp(entries[i].section, section) != 0 || strcmp(entries[i].key, key) != 0))
            i++;
        ACCEPT(i < count, section, key, "there is no such parameter");
        TRY(read_value(r, section, key, i));
    }
    ACCEPT(r->json.error == NULL, section, "", "");
done:
    return status;
}

static clprune_status read_parameters(reader *r)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char section[64];
    size_t count;
    const clprune__tuning_entry *entries = clprune__tuning_entries(&count);
    ACCEPT(clprune__json_object(&r->json), "parameters", "", "");
    const char *start = r->json.mark;
    while (clprune__json_key(&r->json, section, sizeof section))
        TRY(read_section(r, section));
    ACCEPT(r->json.error == NULL, "parameters", "", "");
    r->json.mark = start; /* for what the parameters break together */
    for (size_t i = 0; i < count; i++) {
        const int blast = entries[i].blast;
        ACCEPT(blast < 0 || !r->tuning.blast_set[blast] || r->base->blast_set[blast] || r->given[i],
            entries[i].section, entries[i].key,
            "missing; the built-in row has no value for this device");
    }
    const char *conflict = clprune__tuning_conflict(r->context, &r->tuning);
    ACCEPT(conflict == NULL, "parameters", "", conflict);
done:
    return status;
}

/* The device of the row that begins here, and the walk past it. */
static clprune_status read_device(reader *r, char *device, size_t capacity)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char key[64];
    bool found = false;
    ACCEPT(clprune__json_object(&r->json), "rows", "", "");
    const char *start = r->json.mark;
    while (clprune__json_key(&r->json, key, sizeof key)) {
        if (strcmp(key, "device") != 0) {
            (void)clprune__json_skip(&r->json);
            continue;
        }
        ACCEPT(!found, "rows", key, "given twice");
        found = clprune__json_string(&r->json, device, capacity);
    }
    ACCEPT(r->json.error == NULL, "rows", "", "");
    r->json.mark = start;
    ACCEPT(found, "rows", "device", "missing");
done:
    return status;
}

static clprune_status read_row(reader *r)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__json start = r->json;
    char key[64], text[256];
    bool parameters = false;
    TRY(read_device(r, text, sizeof text));
    if (strcmp(text, r->context->facts.device) != 0)
        goto done;
    ACCEPT(!r->matched, "rows", "device", "a second row for this device");
    r->matched = true;
    r->json = start;
    (void)clprune__json_object(&r->json);
    while (clprune__json_key(&r->json, key, sizeof key)) {
        if (strcmp(key, "parameters") == 0) {
            ACCEPT(!parameters, "rows", key, "given twice");
            parameters = true;
            TRY(read_parameters(r));
        } else if (strcmp(key, "device") == 0 || strcmp(key, "driver") == 0) {
            ACCEPT(clprune__json_string(&r->json, text, sizeof text), "rows", key, "");
        } else {
            ACCEPT(strcmp(key, "speedup") == 0, "rows", key, "there is no such key");
            (void)clprune__json_skip(&r->json);
        }
    }
    ACCEPT(r->json.error == NULL, "rows", "", "");
    ACCEPT(parameters, "rows", "parameters", "missing");
done:
    return status;
}

static clprune_status read_text(reader *r)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char key[64];
    uint64_t version = 0;
    bool rows = false;
    ACCEPT(clprune__json_object(&r->json), "", "", "");
    while (clprune__json_key(&r->json, key, sizeof key)) {
        if (strcmp(key, "clprune_tuning") == 0) {
            ACCEPT(clprune__json_whole(&r->json, &version) && version == 1, key, "",
                "this version of clprune reads 1");
        } else {
            ACCEPT(strcmp(key, "rows") == 0, key, "", "there is no such key");
            ACCEPT(!rows, key, "", "given twice");
            rows = true;
            ACCEPT(clprune__json_array(&r->json), key, "", "");
            while (clprune__json_element(&r->json))
                TRY(read_row(r));
        }
    }
    ACCEPT(clprune__json_end(&r->json), "", "", "");
    ACCEPT(version == 1, "clprune_tuning", "", "missing");
    ACCEPT(rows, "rows", "", "missing");
done:
    return status;
}

/* The whole file as a new array. Folders, pipes and devices are refused. */
static clprune_status read_file(
    clprune_context *context, const char *path, char **text, size_t *size)
{
    clprune_status status = CLPRUNE_SUCCESS;
    struct stat info;
    FILE *file = NULL;
    REQUIRE(
        stat(path, &info) == 0 && (!S_ISREG(info.st_mode) || (file = fopen(path, "rb")) != NULL),
        CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_TUNING: cannot read %.1000s: %s", path, strerror(errno));
    REQUIRE(file != NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_TUNING: %.1000s is not a file", path);
    *text = malloc(MOST_BYTES + 1);
    REQUIRE(*text != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %.1000s", path);
    *size = fread(*text, 1, MOST_BYTES + 1, file);
    REQUIRE(!ferror(file), CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_TUNING: cannot read %.1000s", path);
    REQUIRE(*size <= MOST_BYTES, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_TUNING: %.1000s is larger than %d bytes", path, (int)MOST_BYTES);
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
    REQUIRE(count <= MOST_ENTRIES, CLPRUNE_INTERNAL_ERROR, "%zu parameters", count);
    TRY(read_file(context, path, &text, &size));
    r.json = clprune__json_begin(text, size);
    TRY(read_text(&r));
    if (r.matched) {
        *tuning = r.tuning;
        (void)snprintf(tuning->source, sizeof tuning->source, "%s", path);
    }
done:
    free(text);
    return status;
}
