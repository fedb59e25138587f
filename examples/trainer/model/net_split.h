/*
 * net_split.h: a weight that is several tensors in files of other programs, one behind the other,
 * such as the q, k and v of an attention.
 */
#ifndef TRAINER_NET_SPLIT_H
#define TRAINER_NET_SPLIT_H

#include "trainer/model/trainer_model.h"

/* For in_files of a trainer_model. If pieces[0] is "STEM`joint`.weight" or "STEM`joint`.bias", it
 * becomes `count` pieces of these rows, of a bias elements, and with parts[i] in place of `joint`:
 * returns count. Else changes nothing and returns 1. */
size_t net_split(trainer_weight *pieces, const char *joint, const size_t *rows,
    const char *const *parts, size_t count);

#endif
