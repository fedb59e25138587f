/*
 * text_packs.h: which texts share a sequence whose attention keeps them apart.
 *
 * A text of n tokens takes n - 1 rows, with the tokens behind these as labels. One that needs more
 * than a sequence has is cut. Texts keep their order as far as they fit: each goes where it leaves
 * the least room, of the sequences that were begun last.
 */
#ifndef TRAINER_TEXT_PACKS_H
#define TRAINER_TEXT_PACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct packed_text {
    uint64_t first; /* token */
    size_t rows;
} packed_text;

typedef struct text_packs {
    packed_text *texts; /* those of sequence i: firsts[i] ... firsts[i + 1] - 1 */
    size_t *firsts;     /* (count + 1) */
    size_t count;       /* sequences */
    size_t cut, empty;  /* texts that were cut, or have no label */
} text_packs;

/* Packs `texts` of them; text i ends where begins[i + 1] is. Returns false for want of memory. */
bool text_packs_make(const uint64_t *begins, size_t texts, size_t context, text_packs *packs);
void text_packs_free(text_packs *packs); /* accepts {0} */

#endif
