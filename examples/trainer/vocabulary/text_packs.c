#include "trainer/vocabulary/text_packs.h"

#include <stdlib.h>

enum { OPEN = 64 /* sequences that still take texts */ };

typedef struct open_sequence {
    size_t number, room;
} open_sequence;

/* The sequence that text takes `rows` of: the one with the least room of those that have it, or a
 * new one, in place of the fullest. */
static size_t choose(
    open_sequence *open, size_t *used, size_t *sequences, size_t context, size_t rows)
{
    size_t best = *used, fullest = 0;
    for (size_t i = 0; i < *used; ++i) {
        if (open[i].room >= rows && (best == *used || open[i].room < open[best].room))
            best = i;
        if (open[i].room < open[fullest].room)
            fullest = i;
    }
    if (best == *used) {
        best = *used < OPEN ? (*used)++ : fullest;
        open[best] = (open_sequence){(*sequences)++, context};
    }
    open[best].room -= rows;
    return open[best].number;
}

bool text_packs_make(const uint64_t *begins, size_t texts, size_t context, text_packs *packs)
{
    open_sequence open[OPEN];
    size_t used = 0;
    size_t *sequence = calloc(texts + 1, sizeof *sequence);
    *packs = (text_packs){.texts = calloc(texts + 1, sizeof *packs->texts),
        .firsts = calloc(texts + 2, sizeof *packs->firsts)};
    const bool good = sequence != NULL && packs->texts != NULL && packs->firsts != NULL;
    for (size_t i = 0; good && i < texts; ++i) {
        const uint64_t tokens = begins[i + 1] - begins[i];
        const size_t rows = tokens > context ? context : (size_t)tokens - (tokens > 0);
        packs->cut += tokens > (uint64_t)context + 1;
        packs->empty += rows == 0;
        sequence[i] = rows > 0 ? choose(open, &used, &packs->count, context, rows) : SIZE_MAX;
        if (rows > 0)
            ++packs->firsts[sequence[i] + 2]; /* of the next sequence, for now one further on */
    }
    for (size_t i = 2; good && i <= packs->count; ++i)
        packs->firsts[i] += packs->firsts[i - 1];
    for (size_t i = 0; good && i < texts; ++i) {
        const uint64_t tokens = begins[i + 1] - begins[i];
        if (sequence[i] != SIZE_MAX)
            packs->texts[packs->firsts[sequence[i] + 1]++] =
                (packed_text){begins[i], tokens > context ? context : (size_t)tokens - 1};
    }
    free(sequence);
    if (!good)
        text_packs_free(packs);
    return good;
}

void text_packs_free(text_packs *packs)
{
    free(packs->texts);
    free(packs->firsts);
    *packs = (text_packs){0};
}
