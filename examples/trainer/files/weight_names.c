#include "trainer/files/weight_names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/options/options.h"

enum { PREFIX = WEIGHT_NAMES_PREFIX, NAME = sizeof(((trainer_weight *)NULL)->name), OTHER = 32 };
#define NONE SIZE_MAX

void weights_other_name(const trainer_model *type, const char *name, char *other, size_t size)
{
    char before[NAME + OTHER];
    (void)snprintf(other, size, "%s", name);
    for (const char *const(*r)[2] = type->renames; r != NULL && (*r)[0] != NULL; ++r) {
        (void)snprintf(before, sizeof before, "%s", other);
        const char *at = strstr(before, (*r)[0]);
        while (at != NULL && at > before && at[-1] != '.' && (*r)[0][0] != '.')
            at = strstr(at + 1, (*r)[0]); /* amid a word */
        if (at != NULL)
            (void)snprintf(
                other, size, "%.*s%s%s", (int)(at - before), before, (*r)[1], at + strlen((*r)[0]));
    }
}

/* ---- keys --------------------------------------------------------------------------------------
 */

static bool is_wrapper(const char *module, size_t length)
{
    static const char *const wrappers[] = {"module", "_orig_mod", "_forward_module", "_fpw_module",
        "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; ++i)
        if (strlen(wrappers[i]) == length && strncmp(wrappers[i], module, length) == 0)
            return true;
    return false;
}

/* key has room for one byte more than the name with its end. */
static void make_key(const char *name, char *key)
{
    size_t length;
    while (name[length = strcspn(name, ".")] == '.') {
        ++length;
        if (!is_wrapper(name, length - 1)) {
            memcpy(key, name, length);
            key += length;
        }
        name += length;
    }
    const char *leaf = strcmp(name, "gamma") == 0  ? "weight"
                       : strcmp(name, "beta") == 0 ? "bias"
                                                   : name;
    memcpy(key, leaf, strlen(leaf) + 1);
}

static bool make_keys(weight_names *n, fault *f)
{
    n->keys = calloc(n->file.count + 1, sizeof *n->keys);
    n->roles = calloc(n->file.count + 1, sizeof *n->roles);
    bool good = n->keys != NULL && n->roles != NULL;
    for (size_t i = 0; good && i < n->file.count; ++i) {
        n->keys[i] = malloc(strlen(n->file.tensors[i].name) + 2);
        good = n->keys[i] != NULL;
        if (good)
            make_key(n->file.tensors[i].name, n->keys[i]);
    }
    return good || fault_set(f, CODE_MEMORY, "out of memory");
}

/* ---- finding -----------------------------------------------------------------------------------
 */

/* The tensor of a name, the same name rather than one with the same key. */
static size_t look(const weight_names *n, const char *prefix, const char *name)
{
    char exact[PREFIX + NAME + OTHER], key[sizeof exact + 1];
    size_t found = NONE;
    (void)snprintf(exact, sizeof exact, "%s%s", prefix, name);
    make_key(exact, key);
    for (size_t i = 0; i < n->file.count; ++i)
        if (strcmp(n->keys[i], key) == 0 &&
            (found == NONE || strcmp(n->file.tensors[i].name, exact) == 0))
            found = i;
    return found;
}

static size_t look_both(const weight_names *n, const char *prefix, const char *name)
{
    char other[NAME + OTHER];
    const size_t found = look(n, prefix, name);
    if (found != NONE || n->type->renames == NULL)
        return found;
    weights_other_name(n->type, name, other, sizeof other);
    return look(n, prefix, other);
}

const file_tensor *weight_names_find(const weight_names *n, const char *name)
{
    const size_t found = look_both(n, n->prefix, name);
    return found != NONE ? &n->file.tensors[found] : NULL;
}

/* A head may stand outside of the prefix. */
static size_t look_twin(const weight_names *n, const char *name)
{
    const size_t found = look_both(n, n->prefix, name);
    return found != NONE ? found : look_both(n, "", name);
}

const file_tensor *weight_names_twin(const weight_names *n, const trainer_weight *w)
{
    const size_t found = w->twin[0] != '\0' ? look_twin(n, w->twin) : NONE;
    return found != NONE ? &n->file.tensors[found] : NULL;
}

const file_tensor *weight_names_of(const weight_names *n, const trainer_weight *w)
{
    const file_tensor *found = weight_names_find(n, w->name);
    return found != NULL ? found : weight_names_twin(n, w);
}

static bool has_all(const weight_names *n, const trainer_weight *weights, size_t count)
{
    size_t i = 0;
    while (i < count && (weights[i].head || weight_names_of(n, &weights[i]) != NULL))
        ++i;
    return i == count;
}

/* Finds what stands before the name of the first weight, where that is the prefix of all. Of two
 * that mean the same tensors, such as "module." and "module.encoder.", it is the shorter. */
static bool find_prefix(weight_names *n, const trainer_weight *weights, size_t count, fault *f)
{
    char found[PREFIX] = "", ends[2][NAME + OTHER + 1], other[NAME + OTHER];
    const file_tensor *first = NULL;
    if (count == 0 || has_all(n, weights, count))
        return true;
    weights_other_name(n->type, weights[0].name, other, sizeof other);
    make_key(weights[0].name, ends[0]);
    make_key(other, ends[1]);
    for (size_t i = 0; i < 2 * n->file.count; ++i) {
        const char *key = n->keys[i / 2], *end = ends[i % 2];
        const size_t length = strlen(key), most = strlen(end);
        const size_t before = length > most ? length - most : 0;
        if (before == 0 || before >= PREFIX || key[before - 1] != '.' ||
            strcmp(key + before, end) != 0)
            continue;
        (void)snprintf(n->prefix, PREFIX, "%.*s", (int)before, key);
        if (!has_all(n, weights, count))
            continue;
        const file_tensor *here = weight_names_find(n, weights[0].name);
        if (first != NULL && here != first)
            return fault_set(f, CODE_DATA,
                "%s: its names begin with \"%s\" or with \"%s\", and both have all weights; "
                "expected one of them",
                n->file.path, found, n->prefix);
        if (first == NULL || before < strlen(found))
            memcpy(found, n->prefix, PREFIX);
        first = here;
    }
    memcpy(n->prefix, found, PREFIX);
    return true;
}

bool weight_names_open(const trainer_model *type, const char *path, const trainer_weight *weights,
    size_t count, weight_names *n, fault *f)
{
    *n = (weight_names){.type = type};
    const bool good = tensor_file_open(path, type->ggufs, &n->file, f) && make_keys(n, f) &&
                      find_prefix(n, weights, count, f);
    if (!good)
        weight_names_close(n);
    return good;
}

void weight_names_close(weight_names *n)
{
    for (size_t i = 0; n->keys != NULL && i < n->file.count; ++i)
        free(n->keys[i]);
    free(n->keys);
    free(n->roles);
    tensor_file_close(&n->file);
    *n = (weight_names){0};
}

void weight_names_before(const weight_names *n, const trainer_weight *w, char *before, size_t size)
{
    const file_tensor *t = weight_names_find(n, w->name);
    before[0] = '\0';
    if (t == NULL)
        return;
    const size_t length = strlen(n->keys[t - n->file.tensors] + strlen(n->prefix));
    const char *end = t->name + strlen(t->name);
    char *key = malloc(strlen(t->name) + 2);
    for (const char *at = end; key != NULL && at > t->name; --at) {
        make_key(at, key);
        if (at[-1] != '.' || strlen(key) != length)
            continue;
        (void)snprintf(before, size, "%.*s", (int)(at - t->name), t->name);
        break;
    }
    free(key);
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

/* Length of the modules, each with its dot, that all read weights but heads are in. */
static size_t root_length(const weight_names *n, const char **root)
{
    size_t length = 0;
    *root = NULL;
    for (size_t i = 0; i < n->file.count; ++i) {
        const char *key = n->keys[i];
        size_t same = 0;
        if (n->roles[i] != WEIGHT_READ)
            continue;
        if (*root == NULL) {
            *root = key;
            length = strlen(key);
        }
        while (same < length && key[same] == (*root)[same])
            ++same;
        while (same > 0 && key[same - 1] != '.')
            --same;
        length = same;
    }
    return length;
}

/* Whether a tensor whose key has these bytes first, and no other module behind them if `leaf`, is
 * read. */
static bool is_read(const weight_names *n, const char *key, size_t length, bool leaf)
{
    for (size_t i = 0; i < n->file.count; ++i)
        if (n->roles[i] >= WEIGHT_HEAD && strncmp(n->keys[i], key, length) == 0 &&
            (!leaf || strchr(n->keys[i] + length, '.') == NULL))
            return true;
    return false;
}

/* Whether an unread tensor belongs to what is read: its outermost module that does not contain all
 * (the root) has tensors that are read, or the root itself, where it has no other module. Or it is
 * the weight of a norm in the root: a head has matrices. */
static bool is_beside(const weight_names *n, size_t tensor)
{
    const char *key = n->keys[tensor], *root, *dot;
    const size_t most = root_length(n, &root);
    size_t at = 0;
    if (root == NULL || strncmp(key, n->prefix, strlen(n->prefix)) != 0)
        return false;
    while ((dot = strchr(key + at, '.')) != NULL) {
        const size_t next = (size_t)(dot - key) + 1;
        if (next > most || strncmp(key, root, next) != 0)
            return is_read(n, key, next, false) ||
                   (at == most && n->file.tensors[tensor].rank == 1 && strcmp(dot, ".weight") == 0);
        at = next;
    }
    return at == most && is_read(n, key, at, true);
}

/* Whole numbers are counts and positions, buffers what the model makes itself. */
static bool is_harmless(const weight_names *n, size_t tensor)
{
    bool buffer = n->file.tensors[tensor].whole;
    for (const char *const *p = n->type->buffers; !buffer && p != NULL && *p != NULL; ++p)
        buffer = fnmatch(*p, n->keys[tensor], 0) == 0;
    return buffer;
}

/* The name with a star for each number between dots; what cannot be printed is a question mark. */
static void make_pattern(const char *name, char *pattern, size_t size)
{
    size_t used = 0;
    for (bool start = true; *name != '\0' && used + 1 < size; start = name[-1] == '.') {
        const size_t digits = start ? strspn(name, "0123456789") : 0;
        const bool number = digits > 0 && (name[digits] == '.' || name[digits] == '\0');
        pattern[used++] = (char)(number ? '*' : *name < ' ' || *name == '\x7f' ? '?' : *name);
        name += number ? digits : 1;
    }
    pattern[used] = '\0';
}

/* Names the tensors of which `beside` is true, or false. Returns how many there are. */
static size_t name_rest(const weight_names *n, const bool *rest, char *text, size_t size)
{
    enum { MOST = 6 };
    char patterns[MOST][128], pattern[128];
    size_t counts[MOST] = {0}, known = 0, more = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n->file.count; ++i) {
        size_t k = 0;
        if (!rest[i])
            continue;
        make_pattern(n->file.tensors[i].name, pattern, sizeof pattern);
        while (k < known && strcmp(patterns[k], pattern) != 0)
            ++k;
        if (k == MOST) {
            ++more;
            continue;
        }
        if (k == known)
            memcpy(patterns[known++], pattern, sizeof pattern);
        ++counts[k];
    }
    for (size_t k = 0; k < known; ++k) {
        options_append(text, size, "%s\"%s\"", k > 0 ? ", " : "", patterns[k]);
        if (counts[k] > 1)
            options_append(text, size, " (%zu)", counts[k]);
    }
    if (more > 0)
        options_append(text, size, " and %zu more", more);
    return known;
}

bool weight_names_rest(const weight_names *n, char *unread, size_t size, fault *f)
{
    char text[1024];
    bool *rest = calloc(2 * n->file.count + 1, sizeof *rest), *beside = rest + n->file.count;
    if (rest == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; i < n->file.count; ++i) {
        const bool counts = n->roles[i] == WEIGHT_UNREAD && !is_harmless(n, i);
        beside[i] = counts && is_beside(n, i);
        rest[i] = counts && !beside[i];
    }
    const bool good = name_rest(n, beside, text, sizeof text) == 0 ||
                      fault_set(f, CODE_DATA,
                          "%s: the model has no %s, beside weights that it has: it would compute "
                          "something else; take a file without them, or another --arch",
                          n->file.path, text);
    (void)name_rest(n, rest, unread, size);
    free(rest);
    return good;
}
