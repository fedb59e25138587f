/* Tokens as texts, and lists of tokens. */
#include <stdlib.h>
#include <string.h>

#include "trainer/base/utf8.h"
#include "trainer/vocabulary/vocabulary_private.h"

/* The byte that a character of byte-level BPE stands for, or -1: Latin-1's that can be printed
 * stand for themselves, those from U+0100 on for the n-th of the others. */
static int byte_of(unsigned c)
{
    const unsigned n = c - 0x100;
    if ((c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xFF && c != 0xAD))
        return (int)c;
    return c < 0x100 || n > 67 ? -1 : (int)(n < 33 ? n : n < 67 ? 0x7F + n - 33 : 0xAD);
}

/* Replaces the text by bytes, which are no more; returns how many. Other characters stay. */
static size_t decode_characters(char *text)
{
    size_t used = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        const size_t valid = utf8_length(s), length = valid > 0 ? valid : 1;
        const unsigned c = valid == 2 ? (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu) : s[0];
        if (valid > 0 && valid < 3 && byte_of(c) >= 0)
            text[used++] = (char)byte_of(c);
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

/* "<0x0A>" */
static bool is_byte(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           hex_digit(text[3]) >= 0 && hex_digit(text[4]) >= 0;
}

/* The same of SentencePiece. */
static size_t decode_pieces(char *text)
{
    static const char space[] = "\xE2\x96\x81";
    size_t used = 0;
    if (is_byte(text)) {
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

size_t vocabulary__decode(const vocabulary *v, char *text)
{
    return v->pieces ? decode_pieces(text) : decode_characters(text);
}

bool vocabulary__reserve(vocabulary *v, size_t count, size_t bytes, fault *f)
{
    v->bytes = malloc(bytes + 1);
    v->begins = calloc(count + 1, sizeof *v->begins);
    v->kinds = malloc(count + 1);
    if (v->kinds != NULL)
        memset(v->kinds, VOCABULARY_NORMAL, count);
    return (v->bytes != NULL && v->begins != NULL && v->kinds != NULL) ||
           fault_set(f, CODE_MEMORY, "%s: no memory for its tokens", v->path);
}

void vocabulary__put(vocabulary *v, const char *text, size_t length)
{
    const size_t used = v->begins[v->count];
    char *to = v->bytes + used;
    memcpy(to, text, length);
    to[length] = '\0';
    unsigned char *kind = &v->kinds[v->count];
    if (v->pieces && is_byte(to))
        *kind = VOCABULARY_BYTE;
    const bool plain = !v->pieces && (*kind == VOCABULARY_CONTROL || *kind == VOCABULARY_USER);
    v->begins[++v->count] = used + (plain ? length : vocabulary__decode(v, to));
}

const char *vocabulary_text(const vocabulary *v, size_t token, size_t *length)
{
    *length = v->begins[token + 1] - v->begins[token];
    return v->bytes + v->begins[token];
}

bool vocabulary_ends(const vocabulary *v, int32_t token)
{
    for (size_t i = 0; i < v->ends_count; ++i)
        if (v->ends[i] == token)
            return true;
    return false;
}

size_t vocabulary__bad_byte(const char *text, size_t length)
{
    size_t at = 0, size;
    while (at < length && (size = utf8_length((const unsigned char *)text + at)) > 0 &&
           size <= length - at)
        at += size;
    return at;
}

bool token_list_add(token_list *list, int32_t token, fault *f)
{
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 64;
        int32_t *more = realloc(list->tokens, room * sizeof *more);
        if (more == NULL)
            return fault_set(f, CODE_MEMORY, "no memory for %zu tokens", room);
        list->tokens = more;
        list->room = room;
    }
    list->tokens[list->count++] = token;
    return true;
}

char *vocabulary__copy(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}
