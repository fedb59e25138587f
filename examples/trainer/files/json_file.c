#include "trainer/files/json_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/plain_file.h"

#if TRAINER_JANSSON
#include <jansson.h>

struct json_file {
    json_t *root;
};

enum { MOST = 1 << 24 }; /* bytes */

json_file *json_file_open(const char *path, fault *f)
{
    json_error_t error;
    uint64_t bytes = 0;
    const char *why;
    FILE *stream = plain_file_open(path, &bytes, &why);
    if (stream == NULL) {
        (void)fault_set(f, CODE_DATA, "%s: %s", path, why);
        return NULL;
    }
    json_file *file = calloc(1, sizeof *file);
    if (file != NULL && bytes <= MOST)
        file->root = json_loadf(stream, JSON_REJECT_DUPLICATES, &error);
    (void)fclose(stream);
    if (file == NULL)
        (void)fault_set(f, CODE_MEMORY, "out of memory");
    else if (bytes > MOST)
        (void)fault_set(f, CODE_DATA, "%s: more than %d bytes", path, MOST);
    else if (!json_is_object(file->root))
        (void)fault_set(f, CODE_DATA, "%s: no JSON object%s%s", path,
            file->root == NULL ? ": " : "", file->root == NULL ? error.text : "");
    else
        return file;
    json_file_close(file);
    return NULL;
}

void json_file_close(json_file *file)
{
    if (file != NULL)
        json_decref(file->root);
    free(file);
}

static const json_t *find(const json_file *file, const char *name)
{
    const json_t *at = file->root;
    char part[64];
    for (const char *dot; at != NULL && (dot = strchr(name, '.')) != NULL; name = dot + 1) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(dot - name), name);
        at = json_object_get(at, part);
    }
    at = json_object_get(at, name);
    return json_is_null(at) ? NULL : at;
}

double json_file_number(const json_file *file, const char *name, double usual)
{
    const json_t *value = find(file, name);
    return value == NULL            ? usual
           : json_is_boolean(value) ? json_boolean_value(value)
           : json_is_number(value)  ? json_number_value(value)
                                    : (double)NAN;
}

const char *json_file_text(const json_file *file, const char *name, const char *usual)
{
    const json_t *value = find(file, name);
    return value == NULL ? usual : json_string_value(value);
}

#else

struct json_file {
    char none;
};

json_file *json_file_open(const char *path, fault *f)
{
    (void)fault_set(f, CODE_USAGE,
        "%s: this program was built without jansson and cannot read JSON; install libjansson-dev "
        "and build again",
        path);
    return NULL;
}

void json_file_close(json_file *file)
{
    (void)file;
}

double json_file_number(const json_file *file, const char *name, double usual)
{
    (void)file, (void)name;
    return usual;
}

const char *json_file_text(const json_file *file, const char *name, const char *usual)
{
    (void)file, (void)name;
    return usual;
}

#endif
