/* The symbols of a word are a list, and candidates to merge a heap: n bytes take O(n log n), also
 * those of a word without an end. A candidate whose symbols have changed since is passed over. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/utf8.h"
#include "trainer/vocabulary/vocabulary_private.h"

enum { FEW = 64 }; /* symbols of a word that needs no allocation */

static const size_t END = SIZE_MAX;

/* length 0: it is a part of the one before. */
typedef struct symbol {
    size_t begin, length, before, after;
    int32_t token;
} symbol;

/* Two symbols that would become a token; the lowest key comes first, of equal ones the leftmost. */
typedef struct candidate {
    double key;
    size_t left, length; /* length: of both */
    int32_t token;
} candidate;

typedef struct merger {
    const vocabulary *v;
    const char *text;
    symbol *symbols;
    candidate *heap;
    size_t count, room; /* of the heap */
} merger;

static bool comes_first(const candidate *a, const candidate *b)
{
    return a->key < b->key || (a->key <= b->key && a->left < b->left);
}

static void swap(candidate *a, candidate *b)
{
    const candidate kept = *a;
    *a = *b;
    *b = kept;
}

static void push(merger *m, candidate c)
{
    size_t i = m->count++;
    m->heap[i] = c;
    for (; i > 0 && comes_first(&m->heap[i], &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&m->heap[i], &m->heap[(i - 1) / 2]);
}

static candidate pop(merger *m)
{
    const candidate top = m->heap[0];
    m->heap[0] = m->heap[--m->count];
    for (size_t i = 0, child; (child = 2 * i + 1) < m->count; i = child) {
        if (child + 1 < m->count && comes_first(&m->heap[child + 1], &m->heap[child]))
            ++child;
        if (!comes_first(&m->heap[child], &m->heap[i]))
            break;
        swap(&m->heap[child], &m->heap[i]);
    }
    return top;
}

/* Adds the candidate of a symbol and the one after it, if they have a token. */
static void consider(merger *m, size_t left)
{
    if (left == END || m->symbols[left].after == END)
        return;
    const symbol *a = &m->symbols[left], *b = &m->symbols[a->after];
    candidate c = {.left = left, .length = a->length + b->length};
    if (m->v->pieces) {
        c.token = vocabulary__find(m->v, m->text + a->begin, c.length);
        if (c.token == VOCABULARY_NONE)
            return;
        c.key = -(double)m->v->encoder->scores[c.token];
    } else {
        const encoder_merge *found =
            vocabulary__merge_of(m->v->encoder, (uint32_t)a->token, (uint32_t)b->token);
        if (found == NULL)
            return;
        c.key = found->rank;
        c.token = (int32_t)found->token;
    }
    push(m, c);
}

static void merge_all(merger *m)
{
    while (m->count > 0) {
        const candidate c = pop(m);
        symbol *a = &m->symbols[c.left];
        if (a->length == 0 || a->after == END ||
            a->length + m->symbols[a->after].length != c.length)
            continue;
        symbol *b = &m->symbols[a->after];
        a->length = c.length;
        a->token = c.token;
        a->after = b->after;
        b->length = 0;
        if (a->after != END)
            m->symbols[a->after].before = c.left;
        consider(m, a->before);
        consider(m, c.left);
    }
}

/* The character, or a byte in the middle of one. */
static bool no_token(const char *name, const char *text, fault *f)
{
    char shown[8] = "";
    const size_t length = utf8_length((const unsigned char *)text);
    memcpy(shown, text, length);
    return fault_set(f, CODE_DATA, "%s: the vocabulary has no token for %s (%02x)", name,
        length > 0 && utf8_printable(shown) ? shown : "a byte", (unsigned)(unsigned char)text[0]);
}

/* A symbol of a character without a token is its bytes. */
static bool put_symbol(
    const merger *m, const char *name, const symbol *s, token_list *list, fault *f)
{
    if (s->token != VOCABULARY_NONE)
        return token_list_add(list, s->token, f);
    for (size_t i = 0; i < s->length; ++i) {
        const int32_t token = m->v->encoder->single[(unsigned char)m->text[s->begin + i]];
        if (token == VOCABULARY_NONE)
            return no_token(name, m->text + s->begin, f);
        if (!token_list_add(list, token, f))
            return false;
    }
    return true;
}

/* Bytes, or of SentencePiece characters. Returns how many; 0 after a fault. */
static size_t make_symbols(merger *m, const char *name, size_t length, fault *f)
{
    size_t count = 0;
    for (size_t at = 0; at < length; ++count) {
        const char *text = m->text + at;
        const size_t size = m->v->pieces ? utf8_length((const unsigned char *)text) : 1;
        symbol *s = &m->symbols[count];
        *s = (symbol){.begin = at, .length = size, .before = count - 1, .after = count + 1};
        s->token = m->v->pieces ? vocabulary__find(m->v, text, size)
                                : m->v->encoder->single[(unsigned char)text[0]];
        if (!m->v->pieces && s->token == VOCABULARY_NONE) {
            (void)no_token(name, text, f);
            return 0;
        }
        at += size;
    }
    m->symbols[count - 1].after = END;
    return count;
}

bool vocabulary__merge(const vocabulary *v, const char *name, const char *text, size_t length,
    token_list *list, fault *f)
{
    symbol few[FEW];
    candidate first[3 * FEW];
    const bool many = length > FEW;
    merger m = {.v = v, .text = text, .symbols = few, .heap = first};
    if (many) { /* each symbol is a candidate once, and each merge makes two */
        m.symbols =
            length < SIZE_MAX / 3 / sizeof *m.heap ? malloc(length * sizeof *m.symbols) : NULL;
        m.heap = m.symbols != NULL ? malloc(3 * length * sizeof *m.heap) : NULL;
        if (m.heap == NULL) {
            free(m.symbols);
            return fault_set(f, CODE_MEMORY, "%s: no memory for a word of %zu bytes", name, length);
        }
    }
    const size_t count = make_symbols(&m, name, length, f);
    bool good = count > 0;
    for (size_t i = 0; i < count; ++i)
        consider(&m, i);
    merge_all(&m);
    for (size_t i = 0; good && i < count; ++i)
        good = m.symbols[i].length == 0 || put_symbol(&m, name, &m.symbols[i], list, f);
    if (many) {
        free(m.symbols);
        free(m.heap);
    }
    return good;
}
