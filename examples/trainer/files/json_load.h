/*
 * json_load.h: values of JSON, in a build with jansson.
 */
#ifndef TRAINER_JSON_LOAD_H
#define TRAINER_JSON_LOAD_H

#if TRAINER_JANSSON
#include <jansson.h>

#include "trainer/base/fault.h"

/* The value of a text, to be released; NULL: *starved if memory ran out, else *error tells why it
 * is no JSON. A name that an object has twice is an error. */
json_t *json_load_text(const char *text, size_t length, json_error_t *error, bool *starved);

/* That of a file of at most `most` bytes: *root is NULL if it is no JSON. Where an integer has more
 * than 64 bits, as model_max_length of transformers, all numbers are reals. Faults: CODE_DATA,
 * CODE_MEMORY. */
bool json_load_path(const char *path, int most, json_t **root, json_error_t *error, fault *f);
#endif

#endif
