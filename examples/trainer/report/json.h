/* json.h: writes one JSON value to a stream: objects and their members, escaped (RFC 8259). */
#ifndef TRAINER_JSON_H
#define TRAINER_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h> /* FILE */

typedef struct json {
    FILE *stream; /* errors stay in ferror */
    int depth;
    bool started; /* the open object has a member */
} json;

/* key is NULL for the outermost object. */
void json_open(json *j, const char *key);
void json_close(json *j);

void json_text(json *j, const char *key, const char *value); /* UTF-8; other bytes become '?' */
void json_count(json *j, const char *key, uint64_t value);
void json_real(json *j, const char *key, double value); /* null where there is no such number */

#endif
