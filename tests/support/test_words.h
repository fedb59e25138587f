/* Vocabularies of the trainer: the tokens of a text, as texts. */
#ifndef CLPRUNE_TEST_WORDS_H
#define CLPRUNE_TEST_WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test_fault.h"
#include "trainer/vocabulary/vocabulary.h"

/* Opens a vocabulary for texts; skips the case in a build without PCRE2, if that is needed. */
static inline void open_well(const char *path, vocabulary *v)
{
    fault f = {0};
    test_good(vocabulary_open(path, v, &f), &f);
    if (!vocabulary_prepare(v, &f) && f.code == CODE_USAGE) {
        vocabulary_close(v);
        skip(); /* built without PCRE2 */
    }
    test_good(f.code == CODE_OK, &f);
}

/* Adds the text of a token, with a '|' before it unless it is the first one. */
static inline void join(const vocabulary *v, int32_t token, char *joined, size_t size)
{
    size_t length;
    const char *text = vocabulary_text(v, (size_t)token, &length);
    const size_t used = strlen(joined);
    (void)snprintf(joined + used, size - used, "%s%.*s", used > 0 ? "|" : "", (int)length, text);
}

/* The tokens of a text, with '|' between their texts. */
static inline const char *encoded(const vocabulary *v, const char *text, bool special)
{
    static char joined[4096];
    token_list list = {0};
    TEST_GOOD(vocabulary_encode(v, "a text", text, strlen(text), special, &list, &f));
    joined[0] = '\0';
    for (size_t i = 0; i < list.count; ++i)
        join(v, list.tokens[i], joined, sizeof joined);
    free(list.tokens);
    return joined;
}

#endif
