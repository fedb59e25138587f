#include "trainer/files/tensors/gguf_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/float_bits.h"
#include "trainer/base/utf8.h"
#include "trainer/files/plain_file.h"

enum { LONGEST_KEY = 65535, LONGEST_TEXT = 255, ALIGNMENT = 32 };

/* What a value and a tensor take in a file at least, so that counts have a bound. */
enum { LEAST_VALUE = 8 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 4 + 8 };

enum { TYPE_BOOL = 7, TYPE_ARRAY = 9, TYPES = 13 };

/* Bytes of a number of each type; 0 for texts and arrays. */
static const unsigned number_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ---- the header's bytes ------------------------------------------------------------------------
 */

typedef struct reader {
    const char *path;
    FILE *stream;
    uint64_t at, end;
    fault *f;
} reader;

static bool ends_early(const reader *r)
{
    return fault_set(r->f, CODE_DATA, "%s: it ends inside of its header", r->path);
}

static bool take(reader *r, void *bytes, size_t count)
{
    if (count > r->end - r->at)
        return ends_early(r);
    r->at += count;
    return fread(bytes, 1, count, r->stream) == count ||
           fault_set(r->f, CODE_DATA, "%s: cannot be read", r->path);
}

/* Few bytes are read, which keeps the stream's buffer. */
static bool skip(reader *r, uint64_t count)
{
    char passed[512];
    if (count <= sizeof passed)
        return take(r, passed, (size_t)count);
    if (count > r->end - r->at)
        return ends_early(r);
    r->at += count;
    return fseeko(r->stream, (off_t)r->at, SEEK_SET) == 0 ||
           fault_set(r->f, CODE_DATA, "%s: cannot be read", r->path);
}

static bool take_number(reader *r, unsigned bytes, uint64_t *number)
{
    unsigned char raw[8] = {0};
    const bool good = take(r, raw, bytes);
    *number = little_endian(raw, bytes);
    return good;
}

static bool take_word(reader *r, uint32_t *word)
{
    uint64_t number;
    const bool good = take_number(r, 4, &number);
    *word = (uint32_t)number;
    return good;
}

static bool take_length(reader *r, uint64_t *length)
{
    if (!take_number(r, 8, length))
        return false;
    return *length <= r->end - r->at ||
           fault_set(r->f, CODE_DATA,
               "%s: it has a text of %" PRIu64 " bytes, but %" PRIu64 " are left of the file",
               r->path, *length, r->end - r->at);
}

/* Takes a text to be freed, *text NULL if it has a NUL or cannot be printed. */
static bool take_text(reader *r, uint64_t length, char **text)
{
    *text = malloc((size_t)length + 1);
    if (*text == NULL)
        return fault_set(r->f, CODE_MEMORY, "out of memory");
    const bool good = take(r, *text, (size_t)length);
    (*text)[length] = '\0';
    if (!good || strlen(*text) != length || !utf8_printable(*text)) {
        free(*text);
        *text = NULL;
    }
    return good;
}

/* A key or a name. */
static bool take_name(reader *r, const char *what, char **name)
{
    uint64_t length;
    if (!take_length(r, &length))
        return false;
    if (length == 0 || length > LONGEST_KEY)
        return fault_set(r->f, CODE_DATA, "%s: a %s has %" PRIu64 " bytes, expected 1 to %d",
            r->path, what, length, LONGEST_KEY);
    return take_text(r, length, name) &&
           (*name != NULL || fault_set(r->f, CODE_DATA, "%s: a %s is no UTF-8 that can be printed",
                                 r->path, what));
}

/* ---- values ------------------------------------------------------------------------------------
 */

static double number_of(uint32_t type, uint64_t bits)
{
    static const bool is_signed[TYPES] = {[1] = true, [3] = true, [5] = true, [11] = true};
    const unsigned width = 8 * number_bytes[type];
    if (type == 6)
        return (double)float_of_bits((uint32_t)bits);
    if (type == 12)
        return double_of_bits(bits);
    if (is_signed[type] && bits >> (width - 1) != 0)
        return -(double)(width < 64 ? ((uint64_t)1 << width) - bits : ~bits + 1);
    return (double)bits;
}

/* Walks over an array: texts one by one, numbers at once. */
static bool walk_array(reader *r, gguf_value *v)
{
    if (!take_word(r, &v->type) || !take_number(r, 8, &v->count))
        return false;
    if (v->type == TYPE_ARRAY || v->type >= TYPES)
        return fault_set(r->f, CODE_DATA, "%s: %.100s is an array of %s (type %" PRIu32 ")",
            r->path, v->key, v->type == TYPE_ARRAY ? "arrays" : "something unknown", v->type);
    const unsigned least = v->type == GGUF_TYPE_TEXT ? 8 : number_bytes[v->type];
    if (v->count > (r->end - r->at) / least)
        return fault_set(r->f, CODE_DATA,
            "%s: %.100s is an array of %" PRIu64 " elements, but %" PRIu64
            " bytes are left of the file",
            r->path, v->key, v->count, r->end - r->at);
    v->at = r->at;
    bool good = v->type == GGUF_TYPE_TEXT || skip(r, v->count * least);
    for (uint64_t i = 0; good && v->type == GGUF_TYPE_TEXT && i < v->count; ++i) {
        uint64_t length;
        good = take_length(r, &length) && skip(r, length);
    }
    v->end = r->at;
    return good;
}

static bool take_value(reader *r, gguf_value *v)
{
    uint32_t type;
    uint64_t bits, length;
    if (!take_name(r, "key", &v->key) || !take_word(r, &type))
        return false;
    if (type >= TYPES)
        return fault_set(
            r->f, CODE_DATA, "%s: %.100s has the unknown type %" PRIu32, r->path, v->key, type);
    v->kind = type == GGUF_TYPE_TEXT ? GGUF_TEXT : type == TYPE_ARRAY ? GGUF_ARRAY : GGUF_NUMBER;
    if (v->kind == GGUF_ARRAY)
        return walk_array(r, v);
    if (v->kind == GGUF_TEXT && !take_length(r, &length))
        return false;
    if (v->kind == GGUF_TEXT) {
        v->at = r->at;
        v->end = r->at + length;
        return length > LONGEST_TEXT ? skip(r, length) : take_text(r, length, &v->text);
    }
    if (!take_number(r, number_bytes[type], &bits))
        return false;
    v->number = number_of(type, bits);
    return type != TYPE_BOOL || bits <= 1 ||
           fault_set(r->f, CODE_DATA, "%s: %.100s is true or false, but has the value %" PRIu64,
               r->path, v->key, bits);
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

static bool wrong_tensor(const reader *r, const gguf_tensor *t, const char *wrong)
{
    return fault_set(r->f, CODE_DATA, "%s: tensor \"%.100s\": %s", r->path, t->name, wrong);
}

/* Takes the shape, turned round, and the number of elements. */
static bool take_shape(reader *r, gguf_tensor *t)
{
    uint32_t rank;
    if (!take_word(r, &rank))
        return false;
    if (rank > GGUF_RANK)
        return fault_set(r->f, CODE_DATA,
            "%s: tensor \"%.100s\" has %" PRIu32 " dimensions, expected at most %d", r->path,
            t->name, rank, GGUF_RANK);
    t->rank = rank;
    t->count = 1;
    for (size_t i = t->rank; i-- > 0;) {
        uint64_t size;
        if (!take_number(r, 8, &size))
            return false;
        if (size != 0 && t->count > UINT64_MAX / size)
            return wrong_tensor(r, t, "its number of elements overflows 64 bits");
        t->shape[i] = size;
        t->count *= size;
    }
    return true;
}

/* The bytes of the data, `to` relative to from. */
static bool take_tensor(reader *r, gguf_tensor *t)
{
    if (!take_name(r, "name of a tensor", &t->name) || !take_shape(r, t) ||
        !take_word(r, &t->type) || !take_number(r, 8, &t->from))
        return false;
    t->block = gguf_block_of(t->type);
    if (t->block == NULL)
        return true;
    const uint64_t row = t->rank > 0 ? t->shape[t->rank - 1] : 1;
    if (row % t->block->elements != 0)
        return fault_set(r->f, CODE_DATA,
            "%s: tensor \"%.100s\" has rows of %" PRIu64 " elements, and is %s, in blocks of %u",
            r->path, t->name, row, t->block->name, t->block->elements);
    const uint64_t blocks = t->count / t->block->elements;
    if (blocks > UINT64_MAX / t->block->bytes)
        return wrong_tensor(r, t, "its number of bytes overflows 64 bits");
    t->to = blocks * t->block->bytes;
    return true;
}

/* ---- the header --------------------------------------------------------------------------------
 */

/* Makes room for element `count` of an array that doubles. */
static bool make_room(void **elements, size_t count, size_t size, fault *f)
{
    if ((count & (count - 1)) != 0)
        return true;
    void *more = realloc(*elements, (count == 0 ? 1 : 2 * count) * size);
    if (more == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    *elements = more;
    return true;
}

static bool check_count(const reader *r, const char *what, uint64_t count, unsigned least)
{
    return count <= (r->end - r->at) / least ||
           fault_set(r->f, CODE_DATA,
               "%s: it says that it has %" PRIu64 " %s; it has %" PRIu64 " bytes", r->path, count,
               what, r->end);
}

static bool take_values(reader *r, gguf_file *g, uint64_t count)
{
    bool good = check_count(r, "values", count, LEAST_VALUE);
    for (uint64_t i = 0; good && i < count; ++i) {
        void *room = g->values;
        good = make_room(&room, g->values_count, sizeof *g->values, r->f);
        g->values = room;
        if (!good)
            break;
        g->values[g->values_count] = (gguf_value){0};
        good = take_value(r, &g->values[g->values_count++]);
    }
    return good;
}

static bool take_tensors(reader *r, gguf_file *g, uint64_t count)
{
    bool good = check_count(r, "tensors", count, LEAST_TENSOR);
    for (uint64_t i = 0; good && i < count; ++i) {
        void *room = g->tensors;
        good = make_room(&room, g->count, sizeof *g->tensors, r->f);
        g->tensors = room;
        if (!good)
            break;
        g->tensors[g->count] = (gguf_tensor){0};
        good = take_tensor(r, &g->tensors[g->count++]);
    }
    return good;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const gguf_value *)a)->key, ((const gguf_value *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gguf_tensor *)a)->name, ((const gguf_tensor *)b)->name);
}

static int by_data(const void *a, const void *b)
{
    const gguf_tensor *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* An array without elements may be NULL, which qsort does not take. */
static void sort(
    void *elements, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(elements, count, size, order);
}

static bool check_values(const reader *r, gguf_file *g)
{
    sort(g->values, g->values_count, sizeof *g->values, by_key);
    for (size_t i = 1; i < g->values_count; ++i)
        if (by_key(&g->values[i - 1], &g->values[i]) == 0)
            return fault_set(
                r->f, CODE_DATA, "%s: %.100s is there twice", r->path, g->values[i].key);
    const double parts = gguf_number(g, "split.count", 1);
    return parts == 1 ||
           fault_set(r->f, CODE_DATA,
               "%s: a part of a model in %g files; llama-gguf-split --merge joins them", r->path,
               parts);
}

static bool find_data(const reader *r, gguf_file *g, uint64_t *alignment)
{
    const double given = gguf_number(g, "general.alignment", ALIGNMENT);
    int exponent;
    if (!(given >= 1 && given <= 0x1p31 && frexp(given, &exponent) == 0.5))
        return fault_set(
            r->f, CODE_DATA, "%s: its general.alignment is no power of 2 from 1 to 2^31", r->path);
    *alignment = (uint64_t)given;
    g->data = (r->at + *alignment - 1) / *alignment * *alignment;
    if (g->data > g->bytes)
        g->data = g->bytes;
    return true;
}

static bool check_tensor(const reader *r, const gguf_file *g, gguf_tensor *t, uint64_t alignment)
{
    const uint64_t most = g->bytes - g->data, bytes = t->to;
    if (t->from % alignment != 0)
        return fault_set(r->f, CODE_DATA,
            "%s: tensor \"%.100s\" begins at byte %" PRIu64 " of the data, no multiple of %" PRIu64,
            r->path, t->name, t->from, alignment);
    if (t->from > most || bytes > most - t->from)
        return fault_set(r->f, CODE_DATA,
            "%s: tensor \"%.100s\" has %" PRIu64 " bytes from byte %" PRIu64
            " of the data on, which has %" PRIu64 "; is the file whole?",
            r->path, t->name, bytes, t->from, most);
    t->to += t->from;
    return true;
}

static bool check_tensors(const reader *r, gguf_file *g, uint64_t alignment)
{
    sort(g->tensors, g->count, sizeof *g->tensors, by_name);
    for (size_t i = 1; i < g->count; ++i)
        if (by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
            return wrong_tensor(r, &g->tensors[i], "it is there twice");
    for (size_t i = 0; i < g->count; ++i)
        if (!check_tensor(r, g, &g->tensors[i], alignment))
            return false;
    sort(g->tensors, g->count, sizeof *g->tensors, by_data);
    for (size_t i = 1; i < g->count; ++i)
        if (g->tensors[i].from < g->tensors[i - 1].to)
            return fault_set(r->f, CODE_DATA,
                "%s: tensors \"%.100s\" and \"%.100s\" have bytes in common", r->path,
                g->tensors[i - 1].name, g->tensors[i].name);
    return true;
}

static bool take_start(reader *r, uint64_t *tensors, uint64_t *values)
{
    unsigned char magic[4];
    uint32_t version;
    if (r->end < sizeof magic)
        return fault_set(r->f, CODE_DATA, "%s: shorter than 4 bytes", r->path);
    if (!take(r, magic, sizeof magic))
        return false;
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return fault_set(r->f, CODE_DATA, "%s: no GGUF file", r->path);
    if (!take_word(r, &version))
        return false;
    if (version != 2 && version != 3)
        return fault_set(r->f, CODE_DATA,
            "%s: a GGUF file of version %" PRIu32 "%s, expected 2 or 3", r->path, version,
            (version & 0xffff) == 0 ? " (big-endian?)" : "");
    return take_number(r, 8, tensors) && take_number(r, 8, values);
}

bool gguf_open(const char *path, gguf_file *g, fault *f)
{
    uint64_t tensors = 0, values = 0, alignment = ALIGNMENT;
    const char *why;
    *g = (gguf_file){.path = strdup(path)};
    g->stream = g->path != NULL ? plain_file_open(path, &g->bytes, &why) : NULL;
    reader r = {.path = path, .stream = g->stream, .end = g->bytes, .f = f};
    bool good = g->path != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && (g->stream != NULL || fault_set(f, CODE_DATA, "%s: %s", path, why));
    good = good && take_start(&r, &tensors, &values) && take_values(&r, g, values) &&
           check_values(&r, g) && take_tensors(&r, g, tensors) && find_data(&r, g, &alignment) &&
           check_tensors(&r, g, alignment);
    if (!good)
        gguf_close(g);
    return good;
}

void gguf_close(gguf_file *g)
{
    for (size_t i = 0; i < g->values_count; ++i) {
        free(g->values[i].key);
        free(g->values[i].text);
    }
    for (size_t i = 0; i < g->count; ++i)
        free(g->tensors[i].name);
    free(g->values);
    free(g->tensors);
    free(g->path);
    if (g->stream != NULL)
        (void)fclose(g->stream);
    *g = (gguf_file){0};
}

/* ---- what it has -------------------------------------------------------------------------------
 */

bool gguf_begins(const char *path)
{
    char magic[4];
    const char *why;
    FILE *stream = plain_file_open(path, NULL, &why);
    if (stream == NULL)
        return false;
    const bool is = fread(magic, 1, sizeof magic, stream) == sizeof magic &&
                    memcmp(magic, "GGUF", sizeof magic) == 0;
    (void)fclose(stream);
    return is;
}

const gguf_value *gguf_find(const gguf_file *g, const char *key)
{
    size_t low = 0, high = g->values_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(g->values[middle].key, key);
        if (order == 0)
            return &g->values[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf_file *g, const char *name)
{
    for (size_t i = 0; i < g->count; ++i)
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    return NULL;
}

double gguf_number(const gguf_file *g, const char *key, double usual)
{
    const gguf_value *v = gguf_find(g, key);
    if (v == NULL)
        return usual;
    return v->kind == GGUF_NUMBER ? v->number : (double)NAN;
}

const char *gguf_text(const gguf_file *g, const char *key, const char *usual)
{
    const gguf_value *v = gguf_find(g, key);
    return v == NULL ? usual : v->text;
}

/* ---- elements ----------------------------------------------------------------------------------
 */

/* Puts elements from `first` on where their rows belong. half: rows of half a head. */
static void put_rows(const gguf_tensor *t, uint64_t half, uint64_t first, size_t count,
    const float *elements, float *values)
{
    const uint64_t cols = t->count / t->shape[0];
    for (size_t k = 0; k < count;) {
        const uint64_t row = (first + k) / cols, at = (first + k) % cols, in = row % (2 * half);
        const uint64_t to = row - in + in % 2 * half + in / 2;
        const size_t run = count - k < cols - at ? count - k : (size_t)(cols - at);
        memcpy(values + to * cols + at, elements + k, run * sizeof *values);
        k += run;
    }
}

bool gguf_read(
    const gguf_file *g, const gguf_tensor *tensor, uint64_t heads, float *values, fault *f)
{
    enum { ROOM = 16 * GGUF_BLOCK_ELEMENTS };
    unsigned char bytes[8 * ROOM]; /* 8: of F64 */
    float elements[ROOM];
    const gguf_block *b = tensor->block;
    if (b == NULL || b->decode == NULL)
        return fault_set(f, CODE_DATA,
            "%s: tensor \"%.100s\" has elements of type %" PRIu32
            ", expected F64, F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q6_K",
            g->path, tensor->name, tensor->type);
    const uint64_t rows = tensor->rank > 0 ? tensor->shape[0] : 1;
    if (heads > 0 && (rows % heads != 0 || rows / heads % 2 != 0))
        return fault_set(f, CODE_DATA,
            "%s: tensor \"%.100s\" has %" PRIu64 " rows, which are no %" PRIu64 " heads", g->path,
            tensor->name, rows, heads);
    bool good = fseeko(g->stream, (off_t)(g->data + tensor->from), SEEK_SET) == 0;
    for (uint64_t done = 0; good && done < tensor->count;) {
        const uint64_t left = (tensor->count - done) / b->elements;
        const size_t most = ROOM / b->elements, run = left < most ? (size_t)left : most;
        good = fread(bytes, b->bytes, run, g->stream) == run;
        float *to = heads > 0 ? elements : values + done;
        for (size_t i = 0; good && i < run; ++i)
            b->decode(bytes + i * b->bytes, to + i * b->elements);
        if (good && heads > 0)
            put_rows(tensor, rows / heads / 2, done, run * b->elements, elements, values);
        done += run * b->elements;
    }
    return good || fault_set(f, CODE_DATA, "%s: cannot be read", g->path);
}
