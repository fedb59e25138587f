#include "trainer/files/tensors/gguf_words.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/base/float_bits.h"
#include "trainer/base/utf8.h"

/* The character of a byte of "gpt2": itself, or of those that cannot be printed the n-th. */
static unsigned character_of(unsigned byte)
{
    static const unsigned first[] = {'!', 0xA1, 0xAE}, last[] = {'~', 0xAC, 0xFF};
    unsigned before = 0; /* bytes that can be printed */
    for (size_t i = 0; i < 3; ++i) {
        if (byte >= first[i] && byte <= last[i])
            return byte;
        if (byte > last[i])
            before += last[i] - first[i] + 1;
    }
    return 0x100 + byte - before;
}

/* Of each character below U+0144 its byte, or -1. */
enum { CHARACTERS = 0x144 };

static void make_table(int *table)
{
    for (unsigned c = 0; c < CHARACTERS; ++c)
        table[c] = -1;
    for (unsigned byte = 0; byte < 256; ++byte)
        table[character_of(byte)] = (int)byte;
}

/* Replaces the text by bytes, which are no more; returns how many. Other characters stay. */
static size_t decode_characters(const int *table, char *text)
{
    size_t used = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        const size_t valid = utf8_length(s), length = valid > 0 ? valid : 1;
        const unsigned c = valid == 2 ? (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu) : s[0];
        if (valid > 0 && valid < 3 && c < CHARACTERS && table[c] >= 0)
            text[used++] = (char)table[c];
        else
            for (size_t i = 0; i < length; ++i)
                text[used++] = (char)s[i];
        s += length;
    }
    return used;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The same of "llama". */
static size_t decode_pieces(char *text)
{
    static const char space[] = "\xE2\x96\x81";
    size_t used = 0;
    if (strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>' &&
        hex_digit(text[3]) >= 0 && hex_digit(text[4]) >= 0) {
        text[0] = (char)(16 * hex_digit(text[3]) + hex_digit(text[4]));
        return 1;
    }
    for (const char *s = text; *s != '\0';) {
        const bool blank = strncmp(s, space, sizeof space - 1) == 0;
        text[used++] = blank ? ' ' : *s;
        s += blank ? sizeof space - 1 : 1;
    }
    return used;
}

/* Turns the array in w->bytes, of texts with their lengths, into bytes without them. False where
 * they are not those that gguf_open saw. */
static bool decode(gguf_words *w, size_t count, bool characters, size_t size)
{
    int table[CHARACTERS];
    size_t at = 0, used = 0;
    make_table(table);
    for (; w->count < count; ++w->count) {
        if (size - at < 8)
            return false;
        const uint64_t length = little_endian((const unsigned char *)w->bytes + at, 8);
        at += 8;
        if (length > size - at)
            return false;
        char *text = w->bytes + used; /* ends before the next length */
        memmove(text, w->bytes + at, (size_t)length);
        text[length] = '\0';
        w->begins[w->count] = used;
        used += characters ? decode_characters(table, text) : decode_pieces(text);
        at += (size_t)length;
    }
    w->begins[count] = used;
    return true;
}

static bool read_list(
    const gguf_file *g, const gguf_value *list, bool characters, gguf_words *w, fault *f)
{
    const size_t size = (size_t)(list->end - list->at), count = (size_t)list->count;
    w->bytes = malloc(size + 1);
    w->begins = malloc((count + 1) * sizeof *w->begins);
    if (w->bytes == NULL || w->begins == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    return (fseeko(g->stream, (off_t)list->at, SEEK_SET) == 0 &&
               fread(w->bytes, 1, size, g->stream) == size && decode(w, count, characters, size)) ||
           fault_set(f, CODE_DATA, "%s: cannot be read", g->path);
}

bool gguf_words_read(const char *path, gguf_words *w, fault *f)
{
    gguf_file g;
    *w = (gguf_words){0};
    if (!gguf_open(path, &g, f))
        return false;
    const gguf_value *list = gguf_find(&g, "tokenizer.ggml.tokens");
    const char *kind = gguf_text(&g, "tokenizer.ggml.model", NULL);
    const bool characters = kind != NULL && strcmp(kind, "gpt2") == 0;
    const bool pieces = kind != NULL && strcmp(kind, "llama") == 0;
    bool good = true;
    if (list != NULL && list->kind == GGUF_ARRAY && list->type == GGUF_TYPE_TEXT &&
        (characters || pieces))
        good = read_list(&g, list, characters, w, f);
    gguf_close(&g);
    if (!good)
        gguf_words_close(w);
    return good;
}

void gguf_words_close(gguf_words *w)
{
    free(w->begins);
    free(w->bytes);
    *w = (gguf_words){0};
}

const char *gguf_words_of(const gguf_words *w, size_t token, size_t *length)
{
    *length = w->begins[token + 1] - w->begins[token];
    return w->bytes + w->begins[token];
}
