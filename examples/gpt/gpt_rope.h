/* gpt_rope.h: rotary positions at scaled angles. */
#ifndef GPT_ROPE_H
#define GPT_ROPE_H

#include "gpt_config.h"
#include "trainer/files/json_file.h"

/* Sets the frequencies to theta's, and the factor to 1: pair i of a head, i < turned / 2, turns by
 * theta^(-2 i / turned) from row to row. */
void gpt_rope_begin(gpt_arch *a);

/* Pairs of a head that rotate; a->head and a->turned are set. */
size_t gpt_rope_pairs(const gpt_arch *a);

/* Scores become products of queries and keys / sqrt(scalar), in place of / sqrt(head). */
void gpt_rope_queries(gpt_arch *a, double scalar);

/* Reads rope_scaling, or rope_parameters, of config.json, as modeling_rope_utils.py of transformers
 * does: what theta, head, turned and context of *a become. Returns NULL, or one phrase that says
 * what is wrong; the next call overwrites it. */
const char *gpt_rope_read(const json_file *c, gpt_arch *a);

#endif
