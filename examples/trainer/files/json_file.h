/*
 * json_file.h: numbers and texts of a JSON object in a file, such as config.json of transformers.
 * Names of members of members have dots, "rope_parameters.rope_theta", and so have elements of
 * arrays: "short_factor.0". Reading takes a build with jansson.
 */
#ifndef TRAINER_JSON_FILE_H
#define TRAINER_JSON_FILE_H

#include "trainer/base/fault.h"

typedef struct json_file json_file;

/* NULL after a fault: CODE_DATA, CODE_MEMORY, CODE_USAGE (without jansson). */
json_file *json_file_open(const char *path, fault *f);
void json_file_close(json_file *file); /* accepts NULL */

/* Whether there is a member, also null. */
bool json_file_has(const json_file *file, const char *name);

/* A number, or 0 and 1 for false and true; `usual` where there is none or null; NaN where it is
 * something else. */
double json_file_number(const json_file *file, const char *name, double usual);

/* A text, owned by the file; `usual` where there is none or null; NULL where it is something else.
 */
const char *json_file_text(const json_file *file, const char *name, const char *usual);

#endif
