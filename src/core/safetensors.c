#include "core/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bytes;
} types[] = {{"BOOL", 1}, {"U8", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2},
    {"U16", 2}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8},
    {"U64", 8}};

/* Bytes of an element; 0: not known. */
static unsigned bytes_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bytes;
    return 0;
}

uint64_t clprune__little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

void clprune__to_little_endian(uint64_t value, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

const char *clprune__safetensor_shape(size_t rank, const uint64_t *shape, char text[128])
{
    size_t used = 0;
    (void)snprintf(text, 128, "%s", rank == 0 ? "1 number" : "");
    for (size_t i = 0; i < rank && used < 100; ++i) {
        const bool cut = i == CLPRUNE__SAFETENSORS_RANK || used > 70;
        const char *times = i > 0 ? " x " : "";
        (void)(cut ? snprintf(text + used, 128 - used, " x ...")
                   : snprintf(text + used, 128 - used, "%s%" PRIu64, times, shape[i]));
        used = cut ? 128 : strlen(text);
    }
    return text;
}

/* ---- reading ---------------------------------------------------------------------------------
 */

typedef struct parser {
    const char *begin, *at, *end;
    char *text; /* why it failed; "": no memory */
} parser;

static bool wrong(parser *p, const char *format, ...) __attribute__((__format__(__printf__, 2, 3)));
static bool wrong(parser *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(p->text, CLPRUNE__SAFETENSORS_TEXT, format, arguments);
    va_end(arguments);
    return false;
}

static bool unlike(parser *p, const char *expected)
{
    return wrong(p, "its header has no %s at byte %zu", expected, (size_t)(p->at - p->begin));
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        ++p->at;
}

/* Takes the character, if it is the next one. */
static bool takes(parser *p, char c)
{
    skip_space(p);
    if (p->at == p->end || *p->at != c)
        return false;
    ++p->at;
    return true;
}

static bool expect(parser *p, char c)
{
    const char expected[] = {c, '\0'};
    return takes(p, c) || unlike(p, expected);
}

/* Bytes of the valid UTF-8 character at `s`, of which `left` are there; 0: it is none. */
static size_t utf8_bytes(const char *s, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)*s;
    const size_t bytes = first < 0x80             ? 1
                         : (first & 0xe0) == 0xc0 ? 2
                         : (first & 0xf0) == 0xe0 ? 3
                         : (first & 0xf8) == 0xf0 ? 4
                                                  : 0;
    uint32_t code = bytes > 1 ? first & (0x7fu >> bytes) : first;
    if (bytes == 0 || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; ++i) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)s[i] & 0x3fu);
    }
    return code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : bytes;
}

static bool four_digits(parser *p, uint32_t *code)
{
    *code = 0;
    for (unsigned i = 0; i < 4; ++i, ++p->at) {
        const char c = p->at < p->end ? *p->at : ' ';
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return unlike(p, "hexadecimal digit");
        *code = *code * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

/* The character of \uXXXX, or of a pair of these, behind its u. */
static bool escaped_code(parser *p, char **to)
{
    uint32_t code, low;
    if (!four_digits(p, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && p->end - p->at >= 2 && p->at[0] == '\\' &&
        p->at[1] == 'u') {
        p->at += 2;
        if (!four_digits(p, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return unlike(p, "second half of a pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        return unlike(p, "character in its \\u");
    const unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *(*to)++ = (char)(lead[more] | code >> (6 * more));
    for (unsigned i = more; i-- > 0;)
        *(*to)++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return true;
}

static bool escaped(parser *p, char **to)
{
    static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";
    const char *found = p->at < p->end && *p->at != '\0' ? strchr(from, *p->at) : NULL;
    if (found != NULL) {
        *(*to)++ = as[found - from];
        ++p->at;
        return true;
    }
    if (p->at == p->end || *p->at != 'u')
        return unlike(p, "escape of JSON");
    ++p->at;
    return escaped_code(p, to);
}

/* A string, to be freed. */
static bool read_string(parser *p, char **string)
{
    *string = NULL;
    if (!takes(p, '"'))
        return unlike(p, "string");
    const char *close = p->at;
    while (close < p->end && *close != '"')
        close += *close == '\\' && p->end - close > 1 ? 2 : 1;
    if (close == p->end)
        return wrong(p, "its header ends within a string");
    char *to = *string = malloc((size_t)(close - p->at) + 1); /* an escape is not longer decoded */
    if (to == NULL)
        return false;
    while (p->at < close) {
        if (*p->at == '\\') {
            ++p->at;
            if (!escaped(p, &to))
                return false;
            continue;
        }
        const size_t bytes = utf8_bytes(p->at, (size_t)(close - p->at));
        if (bytes == 0 || (unsigned char)*p->at < ' ')
            return unlike(p, "valid UTF-8");
        memcpy(to, p->at, bytes);
        to += bytes;
        p->at += bytes;
    }
    *to = '\0';
    ++p->at;
    return true;
}

static bool read_count(parser *p, uint64_t *count)
{
    skip_space(p);
    const char *begin = p->at;
    for (*count = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; ++p->at) {
        const uint64_t digit = (uint64_t)(*p->at - '0');
        if (*count > (UINT64_MAX - digit) / 10)
            return unlike(p, "number of 64 bits");
        *count = *count * 10 + digit;
    }
    if (p->at == begin || (*begin == '0' && p->at > begin + 1))
        return unlike(p, "size");
    return true;
}

static bool read_shape(parser *p, clprune__safetensor *t)
{
    t->count = 1;
    if (!expect(p, '['))
        return false;
    if (takes(p, ']'))
        return true;
    do {
        uint64_t size;
        if (!read_count(p, &size))
            return false;
        if (size != 0 && t->count > UINT64_MAX / size)
            return wrong(p, "tensor \"%.100s\": its elements overflow 64 bits", t->name);
        t->count *= size;
        if (t->rank < CLPRUNE__SAFETENSORS_RANK)
            t->shape[t->rank] = size;
        ++t->rank;
    } while (takes(p, ','));
    return expect(p, ']');
}

static bool read_dtype(parser *p, clprune__safetensor *t)
{
    char *dtype;
    const bool good = read_string(p, &dtype);
    if (good)
        (void)snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    free(dtype);
    return good;
}

static bool read_field(parser *p, clprune__safetensor *t, bool seen[3])
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    char *key;
    size_t i = 0;
    bool good = read_string(p, &key);
    while (good && i < 3 && strcmp(key, fields[i]) != 0)
        ++i;
    if (good && (i == 3 || seen[i]))
        good = wrong(p, "tensor \"%.100s\": its \"%.20s\" is %s", t->name, key,
            i == 3 ? "not expected" : "there twice");
    free(key);
    if (!good || !expect(p, ':'))
        return false;
    seen[i] = true;
    return i == 0   ? read_dtype(p, t)
           : i == 1 ? read_shape(p, t)
                    : expect(p, '[') && read_count(p, &t->from) && expect(p, ',') &&
                          read_count(p, &t->to) && expect(p, ']');
}

static bool read_tensor(parser *p, uint64_t data_bytes, clprune__safetensor *t)
{
    bool seen[3] = {false, false, false};
    if (!expect(p, '{'))
        return false;
    do
        if (!read_field(p, t, seen))
            return false;
    while (takes(p, ','));
    if (!expect(p, '}'))
        return false;
    if (!seen[0] || !seen[1] || !seen[2])
        return wrong(p, "tensor \"%.100s\" has no %s", t->name,
            !seen[0]   ? "dtype"
            : !seen[1] ? "shape"
                       : "data_offsets");
    if (t->from > t->to || t->to > data_bytes)
        return wrong(p,
            "tensor \"%.100s\" has bytes %" PRIu64 " to %" PRIu64
            " of the data, which have %" PRIu64,
            t->name, t->from, t->to, data_bytes);
    const unsigned each = bytes_of(t->dtype);
    if (each > 0 && (t->count > UINT64_MAX / each || t->to - t->from != t->count * each))
        return wrong(p,
            "tensor \"%.100s\": %" PRIu64 " elements of %s, but %" PRIu64 " bytes of data", t->name,
            t->count, t->dtype, t->to - t->from);
    return true;
}

/* Room for one more, zeroed; `count` grows when it is good. */
static void *room(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    unsigned char *grown = realloc(list, (count > 0 ? 2 * count : 1) * size);
    if (grown != NULL)
        memset(grown + count * size, 0, (count > 0 ? count : 1) * size);
    return grown;
}

static bool read_notes(parser *p, clprune__safetensors *s)
{
    if (!expect(p, '{'))
        return false;
    if (takes(p, '}'))
        return true;
    do {
        clprune__safetensors_note *grown = room(s->notes, s->notes_count, sizeof *s->notes);
        if (grown == NULL)
            return false;
        s->notes = grown;
        clprune__safetensors_note *note = &s->notes[s->notes_count++];
        if (!read_string(p, &note->key) || !expect(p, ':') || !read_string(p, &note->value))
            return false;
    } while (takes(p, ','));
    return expect(p, '}');
}

static bool read_entry(parser *p, uint64_t data_bytes, clprune__safetensors *s, bool *has_notes)
{
    clprune__safetensor *grown = room(s->tensors, s->count, sizeof *s->tensors);
    if (grown == NULL)
        return false;
    s->tensors = grown;
    clprune__safetensor *t = &s->tensors[s->count++];
    if (!read_string(p, &t->name) || !expect(p, ':'))
        return false;
    if (strcmp(t->name, "__metadata__") != 0)
        return read_tensor(p, data_bytes, t);
    free(t->name);
    t->name = NULL;
    --s->count;
    if (*has_notes)
        return wrong(p, "its header has \"__metadata__\" twice");
    *has_notes = true;
    return read_notes(p, s);
}

static int by_data(const void *a, const void *b)
{
    const clprune__safetensor *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_data(parser *p, uint64_t data_bytes, clprune__safetensors *s)
{
    uint64_t end = 0;
    if (s->count > 0)
        qsort(s->tensors, s->count, sizeof *s->tensors, by_data);
    for (size_t i = 0; i < s->count; ++i) {
        if (s->tensors[i].from != end)
            return wrong(p,
                "tensor \"%.100s\" begins at byte %" PRIu64 " of the data, expected %" PRIu64,
                s->tensors[i].name, s->tensors[i].from, end);
        end = s->tensors[i].to;
    }
    return end == data_bytes ||
           wrong(p, "its tensors have %" PRIu64 " bytes, its data %" PRIu64 "; is it cut off?", end,
               data_bytes);
}

static bool sort_names(parser *p, clprune__safetensors *s)
{
    if (s->count > 0)
        qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
    if (s->notes_count > 0)
        qsort(s->notes, s->notes_count, sizeof *s->notes, by_name);
    for (size_t i = 1; i < s->count; ++i)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
            return wrong(p, "tensor \"%.100s\" is there twice", s->tensors[i].name);
    for (size_t i = 1; i < s->notes_count; ++i)
        if (strcmp(s->notes[i - 1].key, s->notes[i].key) == 0)
            return wrong(p, "its metadata have \"%.100s\" twice", s->notes[i].key);
    return true;
}

static bool read_entries(parser *p, uint64_t data_bytes, clprune__safetensors *s)
{
    bool has_notes = false;
    if (p->at == p->end || *p->at != '{')
        return wrong(p, "its header does not begin with {");
    ++p->at;
    if (!takes(p, '}')) {
        do
            if (!read_entry(p, data_bytes, s, &has_notes))
                return false;
        while (takes(p, ','));
        if (!expect(p, '}'))
            return false;
    }
    skip_space(p);
    return p->at == p->end || unlike(p, "end");
}

bool clprune__safetensors_parse(const char *header, size_t length, uint64_t data_bytes,
    clprune__safetensors *s, char text[CLPRUNE__SAFETENSORS_TEXT])
{
    parser p = {header, header, header + length, text};
    *s = (clprune__safetensors){0};
    text[0] = '\0';
    const bool good =
        read_entries(&p, data_bytes, s) && check_data(&p, data_bytes, s) && sort_names(&p, s);
    if (!good)
        clprune__safetensors_free(s);
    return good;
}

void clprune__safetensors_free(clprune__safetensors *s)
{
    for (size_t i = 0; i < s->count; ++i)
        free(s->tensors[i].name);
    for (size_t i = 0; i < s->notes_count; ++i) {
        free(s->notes[i].key);
        free(s->notes[i].value);
    }
    free(s->tensors);
    free(s->notes);
    *s = (clprune__safetensors){0};
}

const clprune__safetensor *clprune__safetensors_find(
    const clprune__safetensors *s, const char *name)
{
    return s->count > 0 ? bsearch(&name, s->tensors, s->count, sizeof *s->tensors, by_name) : NULL;
}

const char *clprune__safetensors_note_of(const clprune__safetensors *s, const char *key)
{
    const clprune__safetensors_note *note =
        s->notes_count > 0 ? bsearch(&key, s->notes, s->notes_count, sizeof *s->notes, by_name)
                           : NULL;
    return note != NULL ? note->value : NULL;
}

/* ---- writing ---------------------------------------------------------------------------------
 */

/* A text that grows; NULL after a failure. */
typedef struct writer {
    char *text;
    size_t count, room;
} writer;

static void put(writer *w, const char *text, size_t count)
{
    if (w->text != NULL && w->room - w->count < count) {
        w->room = 2 * w->room + count;
        char *grown = realloc(w->text, w->room);
        if (grown == NULL)
            free(w->text);
        w->text = grown;
    }
    if (w->text == NULL)
        return;
    memcpy(w->text + w->count, text, count);
    w->count += count;
}

static void put_text(writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_string(writer *w, const char *string)
{
    char code[8];
    put(w, "\"", 1);
    for (; *string != '\0'; ++string) {
        if (*string == '"' || *string == '\\')
            put(w, "\\", 1);
        if ((unsigned char)*string >= ' ') {
            put(w, string, 1);
            continue;
        }
        (void)snprintf(code, sizeof code, "\\u%04x", (unsigned)*string);
        put_text(w, code);
    }
    put(w, "\"", 1);
}

static void put_count(writer *w, const char *before, uint64_t count)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%s%" PRIu64, before, count);
    put_text(w, text);
}

char *clprune__safetensors_header(const clprune__safetensors *s, size_t *length)
{
    writer w = {malloc(4096), CLPRUNE__SAFETENSORS_PREFIX, 4096};
    put_text(&w, "{\"__metadata__\":{");
    for (size_t i = 0; i < s->notes_count; ++i) {
        put_text(&w, i > 0 ? "," : "");
        put_string(&w, s->notes[i].key);
        put_text(&w, ":");
        put_string(&w, s->notes[i].value);
    }
    put_text(&w, "}");
    for (size_t i = 0; i < s->count; ++i) {
        const clprune__safetensor *t = &s->tensors[i];
        put_text(&w, ",");
        put_string(&w, t->name);
        put_text(&w, ":{\"dtype\":");
        put_string(&w, t->dtype);
        put_text(&w, ",\"shape\":[");
        for (size_t k = 0; k < t->rank; ++k)
            put_count(&w, k > 0 ? "," : "", t->shape[k]);
        put_count(&w, "],\"data_offsets\":[", t->from);
        put_count(&w, ",", t->to);
        put_text(&w, "]}");
    }
    put_text(&w, "}");
    while (w.text != NULL && w.count % CLPRUNE__SAFETENSORS_PREFIX != 0)
        put_text(&w, " ");
    if (w.text != NULL)
        clprune__to_little_endian(w.count - CLPRUNE__SAFETENSORS_PREFIX, (unsigned char *)w.text,
            CLPRUNE__SAFETENSORS_PREFIX);
    *length = w.count;
    return w.text;
}
