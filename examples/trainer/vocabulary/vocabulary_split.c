#include "trainer/vocabulary/vocabulary_split.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* White space of Unicode, within brackets; \s of PCRE2 has one character more. */
#define SPACE "\\x09-\\x0D\\x85\\p{Z}"
#define REST  "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" REST
#define WORDS_AND_NUMBERS(digits)                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^" SPACE       \
    "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" REST

/* Words of capitals, then small letters; letters without case are both. */
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "*" SMALL "+|[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "+" SMALL        \
    "*|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|[" SPACE "]*[\\r\\n]+|" REST

static const vocabulary_way ways[] = {
    {.name = "gpt-2", .patterns = {WORDS}},
    {.name = "llama-bpe",
        .patterns = {WORDS_AND_NUMBERS("{1,3}")},
        .whole_words = true,
        .begins = true},
    {.name = "qwen2", .patterns = {WORDS_AND_NUMBERS("")}},
    {.name = "deepseek-r1-qwen", .patterns = {WORDS_AND_NUMBERS("")}},
    {.name = "tekken", .patterns = {CASED_WORDS}, .whole_words = true, .begins = true},
    {.name = "smollm", .patterns = {"\\p{N}", WORDS}},
    {.name = "default", .patterns = {"[\\p{P}$+<=>^~|]+", WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

const vocabulary_way *vocabulary_way_of(const char *name)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}

void vocabulary_way_names(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < sizeof ways / sizeof *ways && used < size; ++i)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", ways[i].name);
}

#if TRAINER_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { STAGES = sizeof((vocabulary_way *)NULL)->patterns / sizeof(const char *) };

struct vocabulary_split {
    size_t count;
    pcre2_code *codes[STAGES];
    pcre2_match_data *found[STAGES];
    pcre2_match_context *limits;
};

static bool compile(vocabulary_split *split, const vocabulary_way *way)
{
    int error;
    PCRE2_SIZE at;
    split->limits = pcre2_match_context_create(NULL);
    if (split->limits == NULL)
        return false;
    (void)pcre2_set_match_limit(split->limits, UINT32_MAX); /* long runs of spaces are harmless */
    for (; split->count < STAGES && way->patterns[split->count] != NULL; ++split->count) {
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)way->patterns[split->count],
            PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, NULL);
        split->codes[split->count] = code;
        split->found[split->count] =
            code != NULL ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
        if (split->found[split->count] == NULL)
            return false;
    }
    return true;
}

vocabulary_split *vocabulary_split_open(const vocabulary_way *way, const char *path, fault *f)
{
    vocabulary_split *split = calloc(1, sizeof *split);
    if (split != NULL && compile(split, way))
        return split;
    vocabulary_split_close(split);
    (void)fault_set(f, CODE_MEMORY, "%s: no memory to cut texts", path);
    return NULL;
}

void vocabulary_split_close(vocabulary_split *split)
{
    for (size_t i = 0; split != NULL && i < STAGES; ++i) {
        pcre2_match_data_free(split->found[i]);
        pcre2_code_free(split->codes[i]);
    }
    if (split != NULL)
        pcre2_match_context_free(split->limits);
    free(split);
}

typedef struct call {
    const vocabulary_split *split;
    bool (*word)(void *user, const char *text, size_t length, fault *f);
    void *user;
    fault *f;
} call;

/* Cuts a piece by stage `stage` and those after it. */
static bool cut(const call *c, size_t stage, const char *text, size_t length)
{
    if (length == 0)
        return true;
    if (stage == STAGES || stage == c->split->count)
        return c->word(c->user, text, length, c->f);
    for (size_t at = 0; at < length;) {
        pcre2_match_data *found = c->split->found[stage];
        const int got = pcre2_match(c->split->codes[stage], (PCRE2_SPTR)text, length, at,
            PCRE2_NO_UTF_CHECK, found, c->split->limits);
        if (got < 0 && got != PCRE2_ERROR_NOMATCH)
            return fault_set(c->f, CODE_MEMORY, "cutting a text into words: PCRE2 error %d", got);
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(found);
        const size_t begin = got < 0 ? length : place[0], end = got < 0 ? length : place[1];
        if (!cut(c, stage + 1, text + at, begin - at) ||
            !cut(c, stage + 1, text + begin, end - begin))
            return false;
        at = end;
    }
    return true;
}

bool vocabulary_split_text(const vocabulary_split *split, const char *text, size_t length,
    bool (*word)(void *user, const char *text, size_t length, fault *f), void *user, fault *f)
{
    const call c = {split, word, user, f};
    return cut(&c, 0, text, length);
}

#else

vocabulary_split *vocabulary_split_open(const vocabulary_way *way, const char *path, fault *f)
{
    (void)way;
    (void)fault_set(f, CODE_USAGE,
        "%s: this program was built without PCRE2 and cannot cut texts into words for this "
        "vocabulary; install libpcre2-dev and build again",
        path);
    return NULL;
}

void vocabulary_split_close(vocabulary_split *split)
{
    (void)split;
}

bool vocabulary_split_text(const vocabulary_split *split, const char *text, size_t length,
    bool (*word)(void *user, const char *text, size_t length, fault *f), void *user, fault *f)
{
    (void)split, (void)text, (void)length, (void)word, (void)user, (void)f;
    return false;
}

#endif
