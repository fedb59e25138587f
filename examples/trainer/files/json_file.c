#include "trainer/files/json_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/json_load.h"
#include "trainer/files/plain_file.h"

#if TRAINER_JANSSON

enum { MOST = 1 << 24 }; /* bytes */

/* Jansson tells a failed allocation as a syntax error, or without a text. */
static bool has_starved;

static void *allocate(size_t bytes)
{
    void *block = malloc(bytes);
    has_starved = has_starved || block == NULL;
    return block;
}

static void release(void *block)
{
    free(block);
}

static json_t *load(
    const char *text, size_t length, size_t flags, json_error_t *error, bool *starved)
{
    has_starved = false;
    json_set_alloc_funcs(allocate, release);
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES | flags, error);
    *starved = has_starved;
    if (*starved) {
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *json_load_text(const char *text, size_t length, json_error_t *error, bool *starved)
{
    return load(text, length, 0, error, starved);
}

bool json_load_path(const char *path, int most, json_t **root, json_error_t *error, fault *f)
{
    size_t length;
    bool starved;
    *root = NULL;
    char *text = plain_file_read(path, (size_t)most, &length, f);
    if (text == NULL)
        return false;
    *root = load(text, length, 0, error, &starved);
    if (*root == NULL && !starved && json_error_code(error) == json_error_numeric_overflow)
        *root = load(text, length, JSON_DECODE_INT_AS_REAL, error, &starved);
    free(text);
    return !starved || fault_set(f, CODE_MEMORY, "%s: no memory for it", path);
}

struct json_file {
    json_t *root;
};

json_file *json_file_open(const char *path, fault *f)
{
    json_error_t error;
    json_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        (void)fault_set(f, CODE_MEMORY, "out of memory");
    else if (json_load_path(path, MOST, &file->root, &error, f)) {
        if (json_is_object(file->root))
            return file;
        (void)fault_set(f, CODE_DATA, "%s: no JSON object%s%s", path,
            file->root == NULL ? ": " : "", file->root == NULL ? error.text : "");
    }
    json_file_close(file);
    return NULL;
}

void json_file_close(json_file *file)
{
    if (file != NULL)
        json_decref(file->root);
    free(file);
}

/* A member of an object, or an element of an array. */
static const json_t *member(const json_t *of, const char *name)
{
    char *end;
    if (!json_is_array(of))
        return json_object_get(of, name);
    const unsigned long index = strtoul(name, &end, 10);
    return end != name && *end == '\0' ? json_array_get(of, index) : NULL;
}

static const json_t *find_any(const json_file *file, const char *name)
{
    const json_t *at = file->root;
    char part[64];
    for (const char *dot; at != NULL && (dot = strchr(name, '.')) != NULL; name = dot + 1) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(dot - name), name);
        at = member(at, part);
    }
    return member(at, name);
}

static const json_t *find(const json_file *file, const char *name)
{
    const json_t *at = find_any(file, name);
    return json_is_null(at) ? NULL : at;
}

bool json_file_has(const json_file *file, const char *name)
{
    return find_any(file, name) != NULL;
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

bool json_file_has(const json_file *file, const char *name)
{
    (void)file, (void)name;
    return false;
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
