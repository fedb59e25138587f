/* A vocabulary in a GGUF file: a text, a kind and a score of each token, and merges. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/float_bits.h"
#include "trainer/files/tensors/gguf_file.h"
#include "trainer/vocabulary/vocabulary_private.h"

enum { TYPE_INT32 = 5, TYPE_FP32 = 6 }; /* of elements */

static bool read_bytes(const gguf_file *g, const gguf_value *list, unsigned char **bytes, fault *f)
{
    const size_t size = (size_t)(list->end - list->at);
    *bytes = malloc(size + 1);
    if (*bytes == NULL)
        return fault_set(f, CODE_MEMORY, "%s: no memory for its %.100s", g->path, list->key);
    return (fseeko(g->stream, (off_t)list->at, SEEK_SET) == 0 &&
               fread(*bytes, 1, size, g->stream) == size) ||
           fault_set(f, CODE_DATA, "%s: cannot be read", g->path);
}

/* The next text of an array of them: false where the file is not the one that gguf_open saw. */
static bool next_text(const gguf_value *list, const unsigned char *bytes, size_t *at,
    const char **text, size_t *length)
{
    const size_t size = (size_t)(list->end - list->at);
    *text = NULL;
    *length = 0;
    if (size - *at < 8 || little_endian(bytes + *at, 8) > size - *at - 8)
        return false;
    *length = (size_t)little_endian(bytes + *at, 8);
    *text = (const char *)bytes + *at + 8;
    *at += 8 + *length;
    return true;
}

/* Reads an array of 4 bytes for each of `count` tokens, to be freed; *bytes is NULL without the
 * key. */
static bool read_numbers(const gguf_file *g, const char *key, uint32_t type, size_t count,
    unsigned char **bytes, fault *f)
{
    const gguf_value *list = gguf_find(g, key);
    *bytes = NULL;
    if (list == NULL)
        return true;
    if (list->kind != GGUF_ARRAY || list->type != type || list->count != count)
        return fault_set(f, CODE_DATA,
            "%s: its %s is no array of %s for %zu tokens (type %" PRIu32 ", %" PRIu64 " of them)",
            g->path, key, type == TYPE_FP32 ? "fp32" : "int32", count, list->type, list->count);
    return read_bytes(g, list, bytes, f);
}

static bool read_kinds(const gguf_file *g, size_t count, vocabulary *v, fault *f)
{
    unsigned char *bytes;
    bool good = read_numbers(g, "tokenizer.ggml.token_type", TYPE_INT32, count, &bytes, f);
    for (size_t i = 0; good && bytes != NULL && i < count; ++i) {
        const uint64_t kind = little_endian(bytes + 4 * i, 4);
        v->kinds[i] = kind <= VOCABULARY_BYTE ? (unsigned char)kind : VOCABULARY_UNUSED;
    }
    free(bytes);
    return good;
}

static bool read_texts(const gguf_file *g, const gguf_value *list, vocabulary *v, fault *f)
{
    unsigned char *bytes = NULL;
    const char *text;
    size_t at = 0, length;
    const size_t count = (size_t)list->count;
    bool good = vocabulary__reserve(v, count, (size_t)(list->end - list->at), f) &&
                read_kinds(g, count, v, f) && read_bytes(g, list, &bytes, f);
    while (good && v->count < list->count) {
        good = next_text(list, bytes, &at, &text, &length) ||
               fault_set(f, CODE_DATA, "%s: cannot be read", g->path);
        if (good)
            vocabulary__put(v, text, length);
    }
    free(bytes);
    return good;
}

/* A token by its number; VOCABULARY_NONE without the key. */
static bool read_token(
    const gguf_file *g, const vocabulary *v, const char *key, int32_t *token, fault *f)
{
    const double number = gguf_number(g, key, VOCABULARY_NONE);
    const bool good = number >= VOCABULARY_NONE && number < (double)v->count &&
                      number == floor(number) && number <= INT32_MAX;
    *token = good ? (int32_t)number : VOCABULARY_NONE;
    return good || fault_set(f, CODE_DATA, "%s: its %s is %g, but it has %zu tokens", g->path, key,
                       number, v->count);
}

/* The row of its way to cut texts; NULL if it has none that is known. */
static const vocabulary_way *way_of(const gguf_file *g)
{
    const char *name = gguf_text(g, "tokenizer.ggml.pre", NULL);
    return name != NULL ? vocabulary_way_of(name) : NULL;
}

static bool read_ends(const gguf_file *g, vocabulary *v, fault *f)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    const vocabulary_way *way = way_of(g);
    const double begins = v->pieces || (way != NULL && way->begins);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        int32_t token;
        if (!read_token(g, v, keys[i], &token, f))
            return false;
        if (token != VOCABULARY_NONE)
            v->ends[v->ends_count++] = token;
    }
    return gguf_number(g, "tokenizer.ggml.add_bos_token", begins) != 1 ||
           read_token(g, v, "tokenizer.ggml.bos_token_id", &v->begin, f);
}

bool vocabulary__gguf_read(vocabulary *v, fault *f)
{
    gguf_file g;
    if (!gguf_open(v->path, &g, f))
        return false;
    const gguf_value *list = gguf_find(&g, "tokenizer.ggml.tokens");
    const char *kind = gguf_text(&g, "tokenizer.ggml.model", "");
    bool good = true;
    v->pieces = kind != NULL && strcmp(kind, "llama") == 0;
    if (list != NULL && list->kind == GGUF_ARRAY && list->type == GGUF_TYPE_TEXT && kind != NULL &&
        list->count < INT32_MAX && (v->pieces || strcmp(kind, "gpt2") == 0))
        good = read_texts(&g, list, v, f) && read_ends(&g, v, f);
    gguf_close(&g);
    return good;
}

static bool read_scores(const gguf_file *g, vocabulary *v, fault *f)
{
    static const char key[] = "tokenizer.ggml.scores";
    encoder *e = v->encoder;
    unsigned char *bytes;
    bool good = read_numbers(g, key, TYPE_FP32, v->count, &bytes, f);
    e->scores = good && bytes != NULL ? malloc((v->count + 1) * sizeof *e->scores) : NULL;
    if (good && e->scores == NULL)
        good = bytes == NULL ? fault_set(f, CODE_DATA, "%s: it has no %s", g->path, key)
                             : fault_set(f, CODE_MEMORY, "%s: no memory for its scores", g->path);
    for (size_t i = 0; good && i < v->count; ++i) {
        e->scores[i] = float_of_bits((uint32_t)little_endian(bytes + 4 * i, 4));
        good = isfinite(e->scores[i]) ||
               fault_set(f, CODE_DATA, "%s: the score of token %zu is not finite", g->path, i);
    }
    e->space_prefix = gguf_number(g, "tokenizer.ggml.add_space_prefix", 1) != 0;
    free(bytes);
    return good;
}

/* The two sides of a merge have one space between them, and none within them. */
static bool read_merges(const gguf_file *g, const gguf_value *list, vocabulary *v, fault *f)
{
    unsigned char *bytes = NULL;
    const char *text;
    size_t at = 0, length;
    bool good = read_bytes(g, list, &bytes, f);
    for (uint32_t i = 0; good && i < list->count; ++i) {
        good = next_text(list, bytes, &at, &text, &length) ||
               fault_set(f, CODE_DATA, "%s: cannot be read", g->path);
        const char *space = good ? memchr(text, ' ', length) : NULL;
        const size_t before = space != NULL ? (size_t)(space - text) : 0;
        good = good &&
               (space != NULL || fault_set(f, CODE_DATA, "%s: merge %" PRIu32 " has one side alone",
                                     g->path, i)) &&
               vocabulary__add_merge(v, i, text, before, space + 1, length - before - 1, f);
    }
    free(bytes);
    return good;
}

static bool prepare_words(const gguf_file *g, vocabulary *v, fault *f)
{
    static const char key[] = "tokenizer.ggml.merges";
    const vocabulary_way *way = way_of(g);
    const char *name = gguf_text(g, "tokenizer.ggml.pre", "(none)");
    const gguf_value *list = gguf_find(g, key);
    if (way == NULL) {
        char names[128];
        vocabulary_way_names(names, sizeof names);
        return fault_set(f, CODE_DATA, "%s: its tokenizer.ggml.pre is %.60s, expected one of %s",
            g->path, name != NULL ? name : "no text", names);
    }
    if (list == NULL || list->kind != GGUF_ARRAY || list->type != GGUF_TYPE_TEXT ||
        list->count >= INT32_MAX)
        return fault_set(f, CODE_DATA, "%s: its %s is no array of texts", g->path, key);
    const bool good = vocabulary__index(v, (size_t)list->count, f) && read_merges(g, list, v, f) &&
                      vocabulary__cut(v, way, f);
    if (good)
        v->encoder->whole_words = way->whole_words;
    return good;
}

bool vocabulary__gguf_prepare(vocabulary *v, fault *f)
{
    gguf_file g;
    if (!gguf_open(v->path, &g, f))
        return false;
    const bool good =
        v->pieces ? vocabulary__index(v, 0, f) && read_scores(&g, v, f) : prepare_words(&g, v, f);
    gguf_close(&g);
    return good;
}

/* ---- the chat template -------------------------------------------------------------------------
 */

/* A text of the file, as it is, *text NULL without the key. */
static bool read_jinja(const gguf_file *g, char **text, fault *f)
{
    const gguf_value *value = gguf_find(g, "tokenizer.chat_template");
    *text = NULL;
    if (value == NULL)
        return true;
    if (value->kind != GGUF_TEXT)
        return fault_set(f, CODE_DATA, "%s: its %s is no text", g->path, value->key);
    unsigned char *bytes;
    const bool good = read_bytes(g, value, &bytes, f);
    *text = (char *)bytes;
    if (*text != NULL)
        (*text)[value->end - value->at] = '\0';
    return good;
}

/* The text of a token that the file names. */
static bool read_token_text(
    const gguf_file *g, const vocabulary *v, const char *key, char **text, fault *f)
{
    int32_t token;
    size_t length;
    *text = NULL;
    if (!read_token(g, v, key, &token, f) || token == VOCABULARY_NONE)
        return token == VOCABULARY_NONE && f->code == CODE_OK;
    const char *bytes = vocabulary_text(v, (size_t)token, &length);
    *text = vocabulary__copy(bytes, length);
    return *text != NULL || fault_set(f, CODE_MEMORY, "%s: no memory for a token", g->path);
}

bool vocabulary__gguf_chat(const vocabulary *v, vocabulary_chat *c, fault *f)
{
    gguf_file g;
    if (!gguf_open(v->path, &g, f))
        return false;
    const bool good = read_jinja(&g, &c->jinja, f) &&
                      read_token_text(&g, v, "tokenizer.ggml.bos_token_id", &c->bos, f) &&
                      read_token_text(&g, v, "tokenizer.ggml.eos_token_id", &c->eos, f);
    gguf_close(&g);
    return good;
}
