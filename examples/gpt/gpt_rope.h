/* gpt_rope.h: rotary positions at scaled angles. */
#ifndef GPT_ROPE_H
#define GPT_ROPE_H

#include "gpt_config.h"
#include "trainer/files/json_file.h"

/* Sets the frequencies of *to to theta's, and the factor to 1: pair i of a head, i < turned / 2,
 * turns by theta^(-2 i / turned) from row to row. */
void gpt_rope_begin(const gpt_arch *a, gpt_rotary *to);

/* Pairs of a head that rotate; a->head and a->turned are set. */
size_t gpt_rope_pairs(const gpt_arch *a);

/* Scores become products of queries and keys / sqrt(scalar), in place of / sqrt(head). */
void gpt_rope_queries(gpt_arch *a, double scalar);

/* Reads an object of config.json, such as rope_scaling, as modeling_rope_utils.py of transformers
 * does: what theta of *to becomes, which is in *a, with head, turned and context. Returns NULL, or
 * one phrase that says what is wrong; the next call overwrites it. */
const char *gpt_rope_read(const json_file *c, const char *object, gpt_arch *a, gpt_rotary *to);

#endif
