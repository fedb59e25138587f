#include "trainer/files/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* access */

#include "trainer/data/fnv.h"
#include "trainer/files/plain_file.h"

/* Two fixed parts of the file, laid out without padding. */
typedef struct file_header {
    char magic[8];
    uint32_t version, order;
} file_header;

typedef struct record_header {
    uint32_t name_length, type;
    uint64_t rows, cols;
} record_header;

typedef struct file_trailer {
    uint32_t mark, records;
    uint64_t size;
    uint64_t hash;
} file_trailer;

static const file_header expected = {
    {'C', 'L', 'P', 'R', 'C', 'K', 'P', 'T'}, 2, UINT32_C(0x01020304)};

enum { NAME_MOST = 255 };
static const uint32_t trailer_mark = UINT32_C(0xFFFFFFFF);

static size_t element_size(uint32_t type)
{
    switch (type) {
    case CHECKPOINT_BYTES:
        return 1;
    case CHECKPOINT_U64:
    case CHECKPOINT_F64:
        return 8;
    case CHECKPOINT_F32:
        return 4;
    default:
        return 0;
    }
}

static uint64_t padding(uint64_t size)
{
    return (8 - size % 8) % 8;
}

/* ---- writing ---- */

static void put(checkpoint_writer *writer, const void *data, size_t size)
{
    writer->hash = fnv1a(writer->hash, data, size);
    writer->size += size;
    if (size > 0)
        atomic_file_put(&writer->file, data, size);
}

static void put_padded(checkpoint_writer *writer, const void *data, size_t size)
{
    static const char zeros[8] = {0};
    put(writer, data, size);
    put(writer, zeros, (size_t)padding(size));
}

bool checkpoint_create(const char *path, checkpoint_writer *writer, fault *f)
{
    *writer = (checkpoint_writer){.hash = FNV_START};
    if (!atomic_file_open(path, &writer->file, f))
        return false;
    put(writer, &expected, sizeof expected);
    return true;
}

void checkpoint_put(checkpoint_writer *writer, const char *name, checkpoint_type type,
    uint64_t rows, uint64_t cols, const void *data)
{
    const record_header header = {(uint32_t)strlen(name), (uint32_t)type, rows, cols};
    put(writer, &header, sizeof header);
    put_padded(writer, name, header.name_length);
    put_padded(writer, data, (size_t)(rows * cols) * element_size(header.type));
    ++writer->records;
}

bool checkpoint_commit(checkpoint_writer *writer, fault *f)
{
    file_trailer trailer = {trailer_mark, writer->records, writer->size + sizeof trailer, 0};
    put(writer, &trailer, offsetof(file_trailer, hash));
    trailer.hash = writer->hash;
    put(writer, &trailer.hash, sizeof trailer.hash);
    return atomic_file_commit(&writer->file, f);
}

void checkpoint_abandon(checkpoint_writer *writer)
{
    atomic_file_abandon(&writer->file);
}

/* ---- reading ---- */

static bool damaged(const checkpoint *c, const char *what, fault *f)
{
    return fault_set(f, CODE_DATA, "%s: not a good checkpoint: %s", c->path, what);
}

/* For a run's folder, the fault names the checkpoint in it. */
static FILE *open_file(const char *path, uint64_t *bytes, fault *f)
{
    static const char name[] = "last.ckpt";
    const char *why;
    FILE *file = plain_file_open(path, bytes, &why);
    if (file != NULL)
        return file;
    const size_t length = strlen(path), size = length + sizeof name + 1;
    char *inside = malloc(size);
    if (inside != NULL)
        (void)snprintf(
            inside, size, "%s%s%s", path, length > 0 && path[length - 1] == '/' ? "" : "/", name);
    const bool is_run = inside != NULL && access(inside, F_OK) == 0;
    (void)fault_set(f, CODE_DATA, "cannot read %s: %s%s%s", path, why,
        is_run ? "; its checkpoint is " : "", is_run ? inside : "");
    free(inside);
    return NULL;
}

static bool load(checkpoint *c, fault *f)
{
    uint64_t bytes;
    bool good = false;
    FILE *file = open_file(c->path, &bytes, f);
    if (file == NULL)
        return false;
    c->size = (size_t)bytes;
    c->bytes = malloc(c->size + 1);
    if (c->bytes == NULL) {
        (void)fault_set(f, CODE_MEMORY, "%s: no memory for %zu bytes", c->path, c->size);
        goto done;
    }
    good = fread(c->bytes, 1, c->size, file) == c->size ||
           damaged(c, "it cannot be read to its end", f);
done:
    (void)fclose(file);
    return good;
}

/* Header and trailer; leaves the number of records in c->count. */
static bool check_frame(checkpoint *c, fault *f)
{
    file_header header;
    file_trailer trailer;
    if (c->size < sizeof header + sizeof trailer)
        return damaged(c, "it is too short", f);
    memcpy(&header, c->bytes, sizeof header);
    memcpy(&trailer, c->bytes + c->size - sizeof trailer, sizeof trailer);
    if (memcmp(header.magic, expected.magic, sizeof header.magic) != 0)
        return damaged(c, "it does not begin as one", f);
    if (header.order != expected.order)
        return damaged(c, "it was written on a machine of another byte order", f);
    if (header.version != expected.version)
        return fault_set(f, CODE_DATA,
            "%s: a checkpoint of format %" PRIu32 "; this program reads format %" PRIu32, c->path,
            header.version, expected.version);
    if (trailer.mark != trailer_mark || trailer.size != c->size)
        return damaged(c, "it is cut off or has something appended", f);
    if (trailer.hash != fnv1a(FNV_START, c->bytes, c->size - sizeof trailer.hash))
        return damaged(c, "its checksum is wrong", f);
    if (trailer.records > c->size / sizeof(record_header))
        return damaged(c, "it has more records than room", f);
    c->count = trailer.records;
    return true;
}

/* Takes `size` bytes and their padding off [*at, end); NULL where there are fewer. */
static unsigned char *take(unsigned char **at, const unsigned char *end, uint64_t size)
{
    unsigned char *here = *at;
    const uint64_t left = (uint64_t)(end - here);
    if (size > left || padding(size) > left - size)
        return NULL;
    *at += size + padding(size);
    return here;
}

/* The checksum holds, so a fault here was written, not caused by damage; it is reported as well. */
static bool parse_record(unsigned char **at, const unsigned char *end, checkpoint_record *record)
{
    record_header header;
    unsigned char *raw = take(at, end, sizeof header);
    if (raw == NULL)
        return false;
    memcpy(&header, raw, sizeof header);
    const uint64_t element = element_size(header.type);
    if (header.name_length == 0 || header.name_length > NAME_MOST || element == 0)
        return false;
    if (header.cols != 0 && header.rows > UINT64_MAX / element / header.cols)
        return false;
    unsigned char *name = take(at, end, header.name_length);
    unsigned char *data = take(at, end, header.rows * header.cols * element);
    if (name == NULL || data == NULL)
        return false;
    /* The name gets its NUL: it moves onto its record's header, which is 24 bytes before it. */
    memmove(raw, name, header.name_length);
    raw[header.name_length] = '\0';
    *record = (checkpoint_record){
        (const char *)raw, (checkpoint_type)header.type, header.rows, header.cols, data};
    return true;
}

static bool parse(checkpoint *c, fault *f)
{
    unsigned char *at = c->bytes + sizeof(file_header);
    const unsigned char *end = c->bytes + c->size - sizeof(file_trailer);
    c->records = calloc(c->count + 1, sizeof *c->records);
    if (c->records == NULL)
        return fault_set(f, CODE_MEMORY, "%s: out of memory", c->path);
    for (size_t i = 0; i < c->count; ++i)
        if (!parse_record(&at, end, &c->records[i]))
            return damaged(c, "a record is malformed", f);
    return at == end || damaged(c, "there is more in it than its records", f);
}

bool checkpoint_probe(const char *path, fault *f)
{
    char magic[sizeof expected.magic] = {0};
    FILE *file = open_file(path, NULL, f);
    if (file == NULL)
        return false;
    (void)!fread(magic, 1, sizeof magic, file);
    (void)fclose(file);
    return memcmp(magic, expected.magic, sizeof magic) == 0 ||
           fault_set(f, CODE_DATA, "%s: it does not begin as a checkpoint", path);
}

bool checkpoint_open(const char *path, checkpoint *c, fault *f)
{
    *c = (checkpoint){.path = strdup(path)};
    bool good = c->path != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && load(c, f) && check_frame(c, f) && parse(c, f);
    if (!good)
        checkpoint_close(c);
    return good;
}

void checkpoint_close(checkpoint *c)
{
    free(c->path);
    free(c->bytes);
    free(c->records);
    *c = (checkpoint){0};
}

const checkpoint_record *checkpoint_find(const checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->count; ++i)
        if (strcmp(c->records[i].name, name) == 0)
            return &c->records[i];
    return NULL;
}

const void *checkpoint_get(const checkpoint *c, const char *name, checkpoint_type type,
    uint64_t rows, uint64_t cols, fault *f)
{
    const checkpoint_record *record = checkpoint_find(c, name);
    if (record == NULL)
        (void)fault_set(f, CODE_DATA, "%s: '%s' is not in this checkpoint", c->path, name);
    else if (record->type != type || record->rows != rows || record->cols != cols)
        (void)fault_set(f, CODE_DATA,
            "%s: '%s' is %" PRIu64 " x %" PRIu64 ", not %" PRIu64 " x %" PRIu64, c->path, name,
            record->rows, record->cols, rows, cols);
    else
        return record->data;
    return NULL;
}
