/* A vocabulary in tokenizer.json of transformers' tokenizers, byte-level BPE alone: that of
 * SentencePiece has merges in place of scores. Its post_processor tells what begins a
 * text, config.json what ends one. */
#include <stdlib.h>
#include <string.h>

#include "trainer/files/json_load.h"
#include "trainer/files/plain_file.h"
#include "trainer/vocabulary/vocabulary_private.h"

#if TRAINER_JANSSON

enum { MOST = 1 << 26 /* bytes */, TOKENS = 1 << 20 };

static const char name[] = "tokenizer.json";

static bool is(const json_t *object, const char *key, const char *want)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && strcmp(text, want) == 0;
}

/* *root is NULL, and the file is not there or no object, which is a fault unless it is `optional`.
 */
static bool load(const vocabulary *v, const char *file, json_t **root, fault *f)
{
    char *path = path_join(v->path, "", file);
    json_error_t error;
    bool there = false;
    *root = NULL;
    bool good = path != NULL ? plain_file_exists(path, &there, f)
                             : fault_set(f, CODE_MEMORY, "out of memory");
    good = good && (!there || json_load_path(path, MOST, root, &error, f));
    if (good && there && !json_is_object(*root))
        good = fault_set(f, CODE_DATA, "%s: no JSON object%s%s", path, *root == NULL ? ": " : "",
            *root == NULL ? error.text : "");
    free(path);
    if (!good) {
        json_decref(*root);
        *root = NULL;
    }
    return good;
}

static bool wrong(const vocabulary *v, const char *what, fault *f)
{
    return fault_set(f, CODE_DATA, "%s/%s: %s", v->path, name, what);
}

/* A token's number, below `TOKENS`; -1. */
static json_int_t id_of(const json_t *value)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id < TOKENS ? id : -1;
}

/* The texts of all tokens by their numbers, to be freed; NULL where there is none. */
static const char **list_texts(
    const vocabulary *v, json_t *vocab, const json_t *added, size_t *count, fault *f)
{
    const char *key;
    json_t *value;
    json_int_t most = -1, least = 0;
    size_t i;
    json_object_foreach(vocab, key, value)
    {
        most = id_of(value) > most ? id_of(value) : most;
        least = id_of(value) < least ? id_of(value) : least;
    }
    json_array_foreach(added, i, value)
    {
        const json_int_t id = id_of(json_object_get(value, "id"));
        most = id > most ? id : most;
        least = id < least || !json_is_string(json_object_get(value, "content")) ? -1 : least;
    }
    if (least < 0 || most < 0) {
        (void)wrong(v, "a token has no number from 0 to 1048575", f);
        return NULL;
    }
    *count = (size_t)most + 1;
    const char **texts = calloc(*count, sizeof *texts);
    if (texts == NULL)
        (void)fault_set(f, CODE_MEMORY, "%s: no memory for its tokens", v->path);
    json_object_foreach(vocab, key, value) if (texts != NULL) texts[id_of(value)] = key;
    json_array_foreach(added, i, value) if (texts != NULL)
        texts[id_of(json_object_get(value, "id"))] =
            json_string_value(json_object_get(value, "content"));
    return texts;
}

static bool read_tokens(vocabulary *v, const json_t *root, fault *f)
{
    const json_t *added = json_object_get(root, "added_tokens"), *value;
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    size_t count = 0, size = 0, i;
    const char **texts = list_texts(v, vocab, added, &count, f);
    for (i = 0; texts != NULL && i < count; ++i)
        size += texts[i] != NULL ? strlen(texts[i]) : 0;
    const bool good = texts != NULL && vocabulary__reserve(v, count, size, f);
    json_array_foreach(added, i, value) if (good) v->kinds[id_of(json_object_get(value, "id"))] =
        json_is_true(json_object_get(value, "special")) ? VOCABULARY_CONTROL : VOCABULARY_USER;
    for (i = 0; good && i < count; ++i)
        vocabulary__put(
            v, texts[i] != NULL ? texts[i] : "", texts[i] != NULL ? strlen(texts[i]) : 0);
    free(texts);
    return good;
}

/* Adds a token of config.json, or those of a list. */
static void take_ends(vocabulary *v, const json_t *ends)
{
    const json_t *value;
    size_t i;
    const json_int_t id = id_of(ends);
    if (id >= 0 && (size_t)id < v->count && v->ends_count < VOCABULARY_ENDS)
        v->ends[v->ends_count++] = (int32_t)id;
    json_array_foreach(ends, i, value) if (json_is_integer(value)) take_ends(v, value);
}

/* The token that a template puts before a text; VOCABULARY_NONE. */
static int32_t begin_of(const vocabulary *v, const json_t *after)
{
    const json_t *parts = json_object_get(after, "processors"), *part;
    const json_t *first = json_array_get(json_object_get(after, "single"), 0);
    const char *text =
        json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
    const json_t *of =
        text != NULL ? json_object_get(json_object_get(after, "special_tokens"), text) : NULL;
    const json_int_t id = id_of(json_array_get(json_object_get(of, "ids"), 0));
    int32_t begin = id >= 0 && (size_t)id < v->count ? (int32_t)id : VOCABULARY_NONE;
    size_t i;
    json_array_foreach(parts, i,
        part) if (begin == VOCABULARY_NONE && json_object_get(part, "processors") == NULL) begin =
        begin_of(v, part);
    return begin;
}

/* Whether texts and tokens are as they are written: no normalizer changes texts, but NFC's; no
 * token takes the spaces beside it, or is found as a word alone. */
static bool is_plain(const json_t *root)
{
    const json_t *change = json_object_get(root, "normalizer"), *token;
    bool plain = change == NULL || json_is_null(change) || is(change, "type", "NFC");
    size_t i;
    json_array_foreach(json_object_get(root, "added_tokens"), i, token) plain =
        plain && !json_is_true(json_object_get(token, "lstrip")) &&
        !json_is_true(json_object_get(token, "rstrip")) &&
        !json_is_true(json_object_get(token, "single_word"));
    return plain;
}

/* Its way to cut texts, from the descriptions of the authors' own; NULL. */
static const vocabulary_way *way_of(const json_t *root)
{
    static const char begin[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}";
    static const char end[] = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const char tekken[] =
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
        "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    const json_t *cut = json_object_get(root, "pre_tokenizer");
    const json_t *parts = json_object_get(cut, "pretokenizers");
    const json_t *first = json_array_get(parts, 0);
    const json_t *bytes = json_array_size(parts) == 2 ? json_array_get(parts, 1) : cut;
    const bool words = !json_is_false(json_object_get(bytes, "use_regex"));
    const char *expression =
        json_string_value(json_object_get(json_object_get(first, "pattern"), "Regex"));
    if (!is(bytes, "type", "ByteLevel") || json_is_true(json_object_get(bytes, "add_prefix_space")))
        return NULL;
    if (bytes == cut)
        return words ? vocabulary_way_of("gpt-2") : NULL;
    if (words)
        return is(first, "type", "Digits") &&
                       json_is_true(json_object_get(first, "individual_digits"))
                   ? vocabulary_way_of("smollm")
                   : NULL;
    if (expression == NULL || !is(first, "behavior", "Isolated") ||
        json_is_true(json_object_get(first, "invert")))
        return NULL;
    if (strcmp(expression, tekken) == 0)
        return vocabulary_way_of("tekken");
    const size_t length = strlen(expression), middle = sizeof begin - 1, last = sizeof end - 1;
    if (length < middle + last || strncmp(expression, begin, middle) != 0 ||
        strcmp(expression + length - last, end) != 0)
        return NULL;
    return length == middle + last ? vocabulary_way_of("qwen2")
           : length == middle + last + 5 && strncmp(expression + middle, "{1,3}", 5) == 0
               ? vocabulary_way_of("llama-bpe")
               : NULL;
}

bool vocabulary__json_read(vocabulary *v, fault *f)
{
    json_t *root, *config = NULL;
    if (!load(v, name, &root, f))
        return false;
    const json_t *model = json_object_get(root, "model");
    v->pieces = json_is_true(json_object_get(model, "byte_fallback"));
    const bool known = is(model, "type", "BPE");
    const bool good = !known || (read_tokens(v, root, f) && load(v, "config.json", &config, f));
    if (good && known) {
        take_ends(v, json_object_get(config, "eos_token_id"));
        v->begin = begin_of(v, json_object_get(root, "post_processor"));
    }
    json_decref(config);
    json_decref(root);
    return good;
}

/* A merge is "a b" or ["a", "b"]. */
static bool read_merges(vocabulary *v, const json_t *merges, fault *f)
{
    const json_t *merge;
    size_t i;
    bool good = true;
    json_array_foreach(merges, i, merge)
    {
        const char *one = json_string_value(merge);
        const char *space = one != NULL ? strchr(one, ' ') : NULL;
        const char *left = space != NULL ? one : json_string_value(json_array_get(merge, 0));
        const char *right = space != NULL ? space + 1 : json_string_value(json_array_get(merge, 1));
        good = good &&
               ((left != NULL && right != NULL) || wrong(v, "a merge has not two sides", f)) &&
               vocabulary__add_merge(v, (uint32_t)i, left,
                   space != NULL ? (size_t)(space - one) : strlen(left), right, strlen(right), f);
    }
    return good;
}

bool vocabulary__json_prepare(vocabulary *v, fault *f)
{
    json_t *root;
    if (v->pieces)
        return wrong(v, "of SentencePiece; a GGUF file of the model has its scores", f);
    if (!load(v, name, &root, f))
        return false;
    const json_t *model = json_object_get(root, "model"),
                 *merges = json_object_get(model, "merges");
    const vocabulary_way *way = way_of(root);
    const bool good =
        (json_is_array(merges) || wrong(v, "it has no list of merges", f)) &&
        (way != NULL || wrong(v, "its pre_tokenizer cuts texts in a way that is not known", f)) &&
        (is_plain(root) ||
            wrong(v, "its normalizer, or a token of it, changes texts in a way that is not known",
                f)) &&
        vocabulary__index(v, json_array_size(merges), f) && read_merges(v, merges, f) &&
        vocabulary__cut(v, way, f);
    if (good)
        v->encoder->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    json_decref(root);
    return good;
}

/* ---- the chat template -------------------------------------------------------------------------
 */

static bool copy(const vocabulary *v, const char *text, char **to, fault *f)
{
    *to = text != NULL ? strdup(text) : NULL;
    return text == NULL || *to != NULL || fault_set(f, CODE_MEMORY, "%s: no memory", v->path);
}

/* The text of a token: "text", or {"content": "text"}. */
static const char *token_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* A text, or that with the name "default" of a list. */
static const char *template_of(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template"), *one;
    const char *text = json_string_value(value);
    size_t i;
    json_array_foreach(value, i, one) if (is(one, "name", "default")) text =
        json_string_value(json_object_get(one, "template"));
    return text;
}

/* chat_template.jinja, else that of tokenizer_config.json. */
bool vocabulary__json_chat(const vocabulary *v, vocabulary_chat *c, fault *f)
{
    json_t *config;
    size_t length;
    bool there = false;
    char *path = path_join(v->path, "", "chat_template.jinja");
    bool good = load(v, "tokenizer_config.json", &config, f) &&
                (path != NULL ? plain_file_exists(path, &there, f)
                              : fault_set(f, CODE_MEMORY, "out of memory"));
    if (good && there) {
        c->jinja = plain_file_read(path, MOST, &length, f);
        good = c->jinja != NULL;
    }
    good = good && (there || copy(v, template_of(config), &c->jinja, f)) &&
           copy(v, token_of(config, "bos_token"), &c->bos, f) &&
           copy(v, token_of(config, "eos_token"), &c->eos, f);
    free(path);
    json_decref(config);
    return good;
}

#else

bool vocabulary__json_read(vocabulary *v, fault *f)
{
    (void)v, (void)f;
    return true;
}

bool vocabulary__json_prepare(vocabulary *v, fault *f)
{
    (void)v, (void)f;
    return false;
}

bool vocabulary__json_chat(const vocabulary *v, vocabulary_chat *c, fault *f)
{
    (void)v, (void)c, (void)f;
    return false;
}

#endif
