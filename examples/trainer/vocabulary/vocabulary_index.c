/* Tables of tokens and merges: open hash tables that are at most half full. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/fnv.h"
#include "trainer/vocabulary/vocabulary_private.h"

/* At least twice `count`, a power of 2. */
static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

/* The place of a text in the index, or the free one where it belongs. */
static uint32_t *place_of(const vocabulary *v, const char *text, size_t length)
{
    const encoder *e = v->encoder;
    for (size_t i = (size_t)fnv1a(FNV_START, text, length);; ++i) {
        uint32_t *place = &e->index[i & (e->index_slots - 1)];
        size_t size;
        if (*place == 0)
            return place;
        const char *other = vocabulary_text(v, *place - 1, &size);
        if (size == length && memcmp(other, text, length) == 0)
            return place;
    }
}

int32_t vocabulary__find(const vocabulary *v, const char *text, size_t length)
{
    const uint32_t place = length > 0 ? *place_of(v, text, length) : 0;
    return place > 0 ? (int32_t)(place - 1) : VOCABULARY_NONE;
}

/* Notes the tokens of texts: of SentencePiece normal ones alone, as others may have the text of
 * one. */
static void fill_index(vocabulary *v)
{
    encoder *e = v->encoder;
    for (size_t byte = 0; byte < 256; ++byte)
        e->single[byte] = VOCABULARY_NONE;
    e->lines = true;
    for (size_t i = 0; i < v->count; ++i) {
        size_t length;
        const char *text = vocabulary_text(v, i, &length);
        if (v->kinds[i] == VOCABULARY_BYTE && length == 1)
            e->single[(unsigned char)text[0]] = (int32_t)i;
        if (length == 0 || (v->pieces && v->kinds[i] != VOCABULARY_NORMAL))
            continue;
        uint32_t *place = place_of(v, text, length);
        if (*place != 0)
            continue; /* the first one counts */
        *place = (uint32_t)i + 1;
        e->lines = e->lines && (length == 1 || memchr(text, '\n', length) == NULL);
        if (!v->pieces && length == 1)
            e->single[(unsigned char)text[0]] = (int32_t)i;
    }
}

/* Lists the tokens that are found in texts as they are. */
static bool list_added(vocabulary *v, fault *f)
{
    encoder *e = v->encoder;
    token_list list = {0};
    bool good = true;
    for (size_t i = 0; good && i < v->count; ++i) {
        size_t length;
        const char *text = vocabulary_text(v, i, &length);
        if ((v->kinds[i] != VOCABULARY_CONTROL && v->kinds[i] != VOCABULARY_USER) || length == 0 ||
            vocabulary__bad_byte(text, length) < length)
            continue; /* also what would cut a character apart */
        good = token_list_add(&list, (int32_t)i, f);
        e->first[(unsigned char)text[0]] = true;
    }
    e->added = list.tokens;
    e->added_count = list.count;
    return good;
}

bool vocabulary__index(vocabulary *v, size_t merges, fault *f)
{
    encoder *e = v->encoder = calloc(1, sizeof *e);
    if (e != NULL) {
        e->index_slots = slots_for(v->count);
        e->merge_slots = slots_for(merges);
        e->index = calloc(e->index_slots, sizeof *e->index);
        e->merges = malloc(e->merge_slots * sizeof *e->merges);
    }
    if (e == NULL || e->index == NULL || e->merges == NULL)
        return fault_set(f, CODE_MEMORY, "%s: no memory for its tokens", v->path);
    for (size_t i = 0; i < e->merge_slots; ++i)
        e->merges[i] = (encoder_merge){.rank = UINT32_MAX};
    fill_index(v);
    return list_added(v, f);
}

/* The place of a merge, or the free one where it belongs. */
static encoder_merge *merge_place(const encoder *e, uint32_t left, uint32_t right)
{
    const uint64_t key = (uint64_t)left << 32 | right;
    for (size_t i = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32);; ++i) {
        encoder_merge *place = &e->merges[i & (e->merge_slots - 1)];
        if (place->rank == UINT32_MAX || (place->left == left && place->right == right))
            return place;
    }
}

const encoder_merge *vocabulary__merge_of(const encoder *e, uint32_t left, uint32_t right)
{
    const encoder_merge *place = merge_place(e, left, right);
    return place->rank == UINT32_MAX ? NULL : place;
}

bool vocabulary__add_merge(vocabulary *v, uint32_t rank, const char *left, size_t before,
    const char *right, size_t after, fault *f)
{
    char *text = malloc(before + after + 2);
    if (text == NULL)
        return fault_set(f, CODE_MEMORY, "%s: no memory for its merges", v->path);
    memcpy(text, left, before);
    text[before] = '\0';
    before = vocabulary__decode(v, text);
    memcpy(text + before, right, after);
    text[before + after] = '\0';
    after = vocabulary__decode(v, text + before);
    const int32_t one = vocabulary__find(v, text, before);
    const int32_t other = vocabulary__find(v, text + before, after);
    const int32_t both = vocabulary__find(v, text, before + after);
    free(text);
    if (one == VOCABULARY_NONE || other == VOCABULARY_NONE || both == VOCABULARY_NONE)
        return fault_set(f, CODE_DATA, "%s: %s merge %" PRIu32 " is no token", v->path,
            one == VOCABULARY_NONE     ? "the left side of"
            : other == VOCABULARY_NONE ? "the right side of"
                                       : "the result of",
            rank);
    encoder_merge *place = merge_place(v->encoder, (uint32_t)one, (uint32_t)other);
    if (place->rank == UINT32_MAX) /* the first one counts */
        *place = (encoder_merge){(uint32_t)one, (uint32_t)other, rank, (uint32_t)both};
    return true;
}

bool vocabulary__cut(vocabulary *v, const vocabulary_way *way, fault *f)
{
    v->encoder->split = vocabulary_split_open(way, v->path, f);
    return v->encoder->split != NULL;
}
