/* A text is cut at tokens that are found in it as they are; what is between them into words, or
 * lines; and those are merged. */
#include <stdlib.h>
#include <string.h>

#include "trainer/base/utf8.h"
#include "trainer/vocabulary/vocabulary_private.h"

typedef struct target {
    const vocabulary *v;
    const char *name;
    unsigned how;
    token_list *list;
} target;

static bool put_word(void *user, const char *text, size_t length, fault *f)
{
    const target *t = user;
    const int32_t whole =
        t->v->encoder->whole_words ? vocabulary__find(t->v, text, length) : VOCABULARY_NONE;
    return whole != VOCABULARY_NONE && t->v->kinds[whole] == VOCABULARY_NORMAL
               ? token_list_add(t->list, whole, f)
               : vocabulary__merge(t->v, t->name, text, length, t->list, f);
}

/* SentencePiece's: in lines, where no token goes over their ends. */
static bool put_lines(target *t, const char *text, size_t length, fault *f)
{
    const encoder *e = t->v->encoder;
    bool good = true;
    for (size_t at = 0; good && at < length;) {
        const char *end = e->lines ? memchr(text + at, '\n', length - at) : NULL;
        const size_t size = end == NULL        ? length - at
                            : end == text + at ? 1
                                               : (size_t)(end - text) - at;
        good = vocabulary__merge(t->v, t->name, text + at, size, t->list, f);
        at += size;
    }
    return good;
}

/* A part without tokens that are found as they are. */
static bool put_part(target *t, const char *text, size_t length, fault *f)
{
    const encoder *e = t->v->encoder;
    if (length == 0)
        return true;
    if (!t->v->pieces)
        return vocabulary_split_text(e->split, text, length, put_word, t, f);
    if (!e->space_prefix || (t->how & (VOCABULARY_GOES_ON | VOCABULARY__SPACED)) != 0)
        return put_lines(t, text, length, f);
    char *longer = malloc(length + 1);
    if (longer == NULL)
        return fault_set(f, CODE_MEMORY, "%s: no memory for %zu bytes", t->name, length);
    longer[0] = ' ';
    memcpy(longer + 1, text, length);
    const bool good = put_lines(t, longer, length + 1, f);
    free(longer);
    return good;
}

/* Whether one of some bytes is said in a message. */
static bool is_said(const unsigned char *marks, size_t count)
{
    for (size_t i = 0; marks != NULL && i < count; ++i)
        if ((marks[i] & VOCABULARY__SAID) != 0)
            return true;
    return false;
}

/* The longest token that stands at a place as it is; VOCABULARY_NONE. */
static int32_t added_at(
    const vocabulary *v, const char *text, size_t left, unsigned how, const unsigned char *marks)
{
    const encoder *e = v->encoder;
    int32_t best = VOCABULARY_NONE;
    size_t most = 0;
    for (size_t i = 0; e->first[(unsigned char)text[0]] && i < e->added_count; ++i) {
        size_t length;
        const int32_t token = e->added[i];
        const char *word = vocabulary_text(v, (size_t)token, &length);
        if (length > most && length <= left && memcmp(word, text, length) == 0 &&
            (v->kinds[token] == VOCABULARY_USER ||
                ((how & VOCABULARY_SPECIAL) != 0 && !is_said(marks, length)))) {
            best = token;
            most = length;
        }
    }
    return best;
}

bool vocabulary__encode(const vocabulary *v, const char *name, const char *text, size_t length,
    unsigned how, const unsigned char *marks, token_list *list, fault *f)
{
    target t = {v, name, how, list};
    size_t begin = 0;
    const size_t bad = vocabulary__bad_byte(text, length);
    bool good = bad == length ||
                fault_set(f, CODE_DATA,
                    "%s: byte %zu (%02x) is no UTF-8; iconv -f latin1 -t UTF-8 converts a text of "
                    "Western Europe",
                    name, bad, (unsigned)(unsigned char)text[bad]);
    for (size_t at = 0; good && at < length;) {
        size_t size = utf8_length((const unsigned char *)text + at);
        const int32_t token =
            added_at(v, text + at, length - at, how, marks != NULL ? marks + at : NULL);
        if (token != VOCABULARY_NONE) {
            (void)vocabulary_text(v, (size_t)token, &size);
            good = put_part(&t, text + begin, at - begin, f) && token_list_add(list, token, f);
            t.how &= ~(unsigned)VOCABULARY_GOES_ON;
            begin = at + size;
        }
        at += size;
    }
    return good && put_part(&t, text + begin, length - begin, f);
}

bool vocabulary_encode(const vocabulary *v, const char *name, const char *text, size_t length,
    unsigned how, token_list *list, fault *f)
{
    return vocabulary__encode(v, name, text, length, how, NULL, list, f);
}

size_t vocabulary__length_in(const vocabulary *v, int32_t token, bool *begins)
{
    size_t length;
    const bool added = v->kinds[token] == VOCABULARY_CONTROL || v->kinds[token] == VOCABULARY_USER;
    (void)vocabulary_text(v, (size_t)token, &length);
    const bool longer = *begins && !added && v->pieces && v->encoder->space_prefix;
    *begins = added;
    return length - longer;
}
