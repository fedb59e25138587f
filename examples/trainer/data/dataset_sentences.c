/*
 * dataset_sentences.c: sequences of tokens of different lengths, with a label each.
 *
 * A file NAME.bin has for each sentence three kinds of numbers, one behind the other, all as wide
 * as a token (token_file.h): its label, its number of tokens, 1 to T, and the tokens. All are below
 * the vocabulary. Its last tenth is for tests, unless there is a file with "val" in place of the
 * last "train" in its name.
 *
 * Generated sentences have T / 4 to T tokens. Each class has 8 words of its own; a token is one of
 * them with 1/4, else any.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/dataset_source.h"
#include "trainer/data/fnv.h"
#include "trainer/data/rng.h"
#include "trainer/data/token_file.h"

enum { DEFAULT_TRAIN = 8000, DEFAULT_TEST = 2000, TENTH = 10, WORDS = 8 };

/* Writes token i of a sentence; 0 behind the last one. */
static void put(uint8_t *inputs, size_t i, uint32_t token)
{
    ((int32_t *)(void *)inputs)[i] = (int32_t)token;
}

/* ---- generated ---------------------------------------------------------------------------------
 */

typedef struct words {
    uint64_t seed;
    uint32_t vocabulary, labels, context;
} words;

static bool fetch_generated(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    const words *w = state;
    rng r = rng_open(w->seed, RNG_SEQUENCE, (uint32_t)split, index);
    const uint32_t label = index % w->labels, least = w->context / 4 > 0 ? w->context / 4 : 1;
    const uint32_t length = least + rng_below(&r, w->context - least + 1);
    (void)augment;
    (void)f;
    for (uint32_t i = 0; i < w->context; ++i) {
        const uint32_t own = (label * WORDS + rng_below(&r, WORDS)) % w->vocabulary;
        const uint32_t any = rng_below(&r, w->vocabulary);
        put(inputs, i, i >= length ? 0 : rng_below(&r, 4) == 0 ? own : any);
    }
    put(inputs, w->context, length);
    *labels = (int32_t)label;
    return true;
}

static bool open_generated(const dataset_options *options, dataset_source *source, fault *f)
{
    words *w = malloc(sizeof *w);
    if (w == NULL)
        return dataset_no_memory(f, "generated");
    *w = (words){options->seed, options->classes, options->labels, (uint32_t)options->context};
    *source = (dataset_source){
        .name = "generated sentences",
        .count = {options->train_limit == 0 ? DEFAULT_TRAIN : options->train_limit,
            options->test_limit == 0 ? DEFAULT_TEST : options->test_limit},
        .state = w,
        .fetch = fetch_generated,
        .destroy = free,
    };
    return true;
}

/* ---- files -------------------------------------------------------------------------------------
 */

/* A file, and where its sentences begin. */
typedef struct sentence_file {
    token_file file;
    uint64_t *starts; /* (count) */
    size_t count;
    bool *has; /* (labels) whether a sentence has the label */
} sentence_file;

typedef struct sentences {
    sentence_file files[2];     /* the second one: for tests, or {0} */
    const sentence_file *of[2]; /* by split */
    size_t first[2];            /* likewise: its first sentence there */
    size_t context;
    uint32_t labels;
} sentences;

static bool fetch_sentence(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    const sentences *s = state;
    const sentence_file *from = s->of[split];
    const uint64_t start = from->starts[s->first[split] + index];
    uint32_t head[2], tokens[1024];
    enum { PIECE = sizeof tokens / sizeof *tokens };
    (void)augment;
    if (!token_file_read(&from->file, start, 2, head, f))
        return false;
    /* checked when it was opened */
    if (head[0] >= s->labels || head[1] == 0 || head[1] > s->context)
        return fault_set(f, CODE_DATA, "%s: it has changed", from->file.path);
    for (size_t done = 0; done < s->context;) {
        const size_t left = done < head[1] ? head[1] - done : s->context - done;
        const size_t now = left < PIECE ? left : PIECE;
        if (done >= head[1])
            memset(tokens, 0, now * sizeof *tokens);
        else if (!token_file_read(&from->file, start + 2 + done, now, tokens, f))
            return false;
        for (size_t i = 0; i < now; ++i, ++done)
            put(inputs, done, tokens[i]);
    }
    put(inputs, s->context, head[1]);
    *labels = (int32_t)head[0];
    return true;
}

static void destroy(void *state)
{
    sentences *s = state;
    for (int i = 0; i < 2; ++i) {
        token_file_close(&s->files[i].file);
        free(s->files[i].starts);
        free(s->files[i].has);
    }
    free(s);
}

/* Whether the sentence at `start` fits the options; *end: what is behind it. */
static bool check_sentence(
    const sentence_file *s, const dataset_options *options, uint64_t start, uint64_t *end, fault *f)
{
    const token_file *file = &s->file;
    uint32_t head[2];
    if (file->count - start < 2)
        return fault_set(f, CODE_DATA, "%s: it ends within sentence %zu", file->path, s->count);
    if (!token_file_read(file, start, 2, head, f))
        return false;
    if (head[0] >= options->labels)
        return fault_set(f, CODE_DATA,
            "%s: sentence %zu has label %" PRIu32 ", expected less than %" PRIu32
            "; --classes N sets it",
            file->path, s->count, head[0], options->labels);
    if (head[1] == 0 || head[1] > options->context)
        return fault_set(f, CODE_DATA,
            "%s: sentence %zu has %" PRIu32 " tokens, expected 1 to %zu; --context N sets it",
            file->path, s->count, head[1], options->context);
    *end = start + 2 + head[1];
    s->has[head[0]] = true;
    return *end <= file->count ||
           fault_set(f, CODE_DATA, "%s: it ends within sentence %zu", file->path, s->count);
}

static bool list_sentences(sentence_file *s, const dataset_options *options, fault *f)
{
    size_t room = 0;
    s->has = calloc(options->labels, sizeof *s->has);
    if (s->has == NULL)
        return dataset_no_memory(f, s->file.path);
    for (uint64_t start = 0, end = 0; start < s->file.count; start = end) {
        if (!check_sentence(s, options, start, &end, f))
            return false;
        if (s->count == INT32_MAX)
            break;
        if (s->count == room) {
            room = room == 0 ? 1024 : 2 * room;
            uint64_t *more = realloc(s->starts, room * sizeof *more);
            if (more == NULL)
                return dataset_no_memory(f, s->file.path);
            s->starts = more;
        }
        s->starts[s->count++] = start;
    }
    return true;
}

static bool open_files(const char *path, const dataset_options *options, sentences *s,
    dataset_source *source, fault *f)
{
    const uint32_t limits[2] = {options->train_limit, options->test_limit};
    uint64_t checksums[2] = {0};
    char *paths[2];
    bool good = token_file_paths(path, paths, f);
    for (int i = 0; good && i < 2 && paths[i] != NULL; ++i)
        good = token_file_open(paths[i], options->classes, &s->files[i].file, &checksums[i], f) &&
               list_sentences(&s->files[i], options, f);
    const bool split = paths[1] == NULL;
    free(paths[0]);
    free(paths[1]);
    if (!good)
        return false;
    const size_t all = s->files[0].count, tests = split ? all / TENTH : s->files[1].count;
    if (tests == 0)
        return fault_set(f, CODE_DATA,
            "%s: %zu sentences, expected at least %d: a tenth is for tests", s->files[0].file.path,
            all, TENTH);
    const size_t counts[2] = {split ? all - tests : all, tests};
    s->of[DATASET_TRAIN] = &s->files[0];
    s->of[DATASET_TEST] = &s->files[split ? 0 : 1];
    s->first[DATASET_TEST] = split ? counts[0] : 0;
    for (int i = 0; i < 2; ++i)
        source->count[i] =
            limits[i] != 0 && limits[i] < counts[i] ? limits[i] : (uint32_t)counts[i];
    dataset_tell_empty(
        s->files[0].file.path, options, options->labels, s->files[0].has, options->labels);
    source->name = "sentences";
    source->checksum = fnv1a(FNV_START, checksums, sizeof checksums);
    return true;
}

static bool open_sentences(
    const char *path, const dataset_options *options, dataset_source *source, fault *f)
{
    sentences *s = calloc(1, sizeof *s);
    if (s == NULL)
        return dataset_no_memory(f, path);
    s->context = options->context;
    s->labels = options->labels;
    if (!open_files(path, options, s, source, f)) {
        destroy(s);
        return false;
    }
    source->state = s;
    source->fetch = fetch_sentence;
    source->destroy = destroy;
    return true;
}

bool dataset_sentences(
    const char *path, const dataset_options *options, dataset_source *source, fault *f)
{
    if (!(strcmp(path, "generated") == 0 ? open_generated(options, source, f)
                                         : open_sentences(path, options, source, f)))
        return false;
    source->classes = options->classes;
    source->context = options->context;
    source->sentences = true;
    return true;
}
