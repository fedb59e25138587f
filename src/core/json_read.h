/* A strict reader of JSON (RFC 8259) that walks a text from front to back and allocates nothing.
 *
 *     clprune__json json = clprune__json_begin(text, size);
 *     clprune__json_object(&json);
 *     while (clprune__json_key(&json, key, sizeof key))
 *         if (strcmp(key, "depth") == 0)
 *             clprune__json_whole(&json, &depth);
 *         else
 *             clprune__json_skip(&json);
 *     clprune__json_end(&json);
 *     if (json.error != NULL) ...
 *
 * The first error sticks: from then on every call returns false, so loops end by themselves. Each
 * key must be followed by one call that takes its value. A caller may copy the walk and go back to
 * the copy. Keys that come twice are the caller's business; bytes from 0x80 on are taken as they
 * are. */
#ifndef CLPRUNE_CORE_JSON_READ_H
#define CLPRUNE_CORE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLPRUNE__JSON_DEPTH 16 /* of objects and arrays in each other */

typedef struct clprune__json {
    const char *begin, *end, *at;
    const char *mark;  /* the start of what was read last, or where the error is */
    const char *error; /* what is wrong; NULL: nothing so far */
    unsigned depth;
    bool first; /* no member of the innermost object or array was read */
} clprune__json;

clprune__json clprune__json_begin(const char *text, size_t size);

/* Enters an object or an array. */
bool clprune__json_object(clprune__json *json);
bool clprune__json_array(clprune__json *json);

/* The next member: its key, or just that there is an element. False where the object or array ends,
 * which it leaves, and on an error. */
bool clprune__json_key(clprune__json *json, char *key, size_t capacity);
bool clprune__json_element(clprune__json *json);

/* Values. A string must fit `capacity` with its zero and hold none; a whole number has digits only
 * and fits 64 bits. */
bool clprune__json_string(clprune__json *json, char *text, size_t capacity);
bool clprune__json_whole(clprune__json *json, uint64_t *value);

/* Passes over one value of any kind, checking it. */
bool clprune__json_skip(clprune__json *json);

/* False unless the outermost value is complete and nothing but space follows. */
bool clprune__json_end(clprune__json *json);

/* Line and column of the mark, from 1; columns count bytes. */
void clprune__json_position(const clprune__json *json, size_t *line, size_t *column);

#endif
