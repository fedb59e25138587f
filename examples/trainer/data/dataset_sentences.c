/*
 * dataset_sentences.c: sequences of tokens of different lengths, with a label each.
 *
 * A file NAME.bin has for each sentence three kinds of numbers, one behind the other, all as wide
 * as a token (token_file.h): its label, its number of tokens, 1 to T, and the tokens. All are below
 * the vocabulary. Of each ten sentences one is drawn for tests, the same in all runs, unless there
 * is a file for them (token_files_open). A limit draws its sentences likewise, so that sorted files
 * have all classes in training and tests. Earlier programs took the last tenth, and the first up to
 * a limit: their runs go on with these.
 *
 * Generated sentences have T / 4 to T tokens. Each class has 8 words of its own; a token is one of
 * them with 1/4, else any.
 */
#include <inttypes.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

#include "trainer/data/dataset_source.h"
#include "trainer/data/rng.h"
#include "trainer/data/token_file.h"
#include "trainer/files/plain_file.h"

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

/* A sentence: where it begins. */
typedef struct sentence {
    uint64_t start;
    uint32_t label;
} sentence;

/* A file and its sentences. */
typedef struct sentence_file {
    token_file file;
    sentence *at; /* (count) */
    size_t count;
} sentence_file;

/* The sentences of a split. */
typedef struct part {
    const token_file *file;
    sentence *at; /* (count), of the file */
    size_t count;
} part;

typedef struct sentences {
    sentence_file files[2]; /* the second one: for tests, or {0} */
    part parts[2];          /* by split */
    size_t context;
    uint32_t labels;
} sentences;

static bool fetch_sentence(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    const sentences *s = state;
    const token_file *from = s->parts[split].file;
    const uint64_t start = s->parts[split].at[index].start;
    uint32_t head[2], tokens[1024];
    enum { PIECE = sizeof tokens / sizeof *tokens };
    (void)augment;
    if (!token_file_read(from, start, 2, head, f))
        return false;
    /* checked when it was opened */
    if (head[0] >= s->labels || head[1] == 0 || head[1] > s->context)
        return fault_set(f, CODE_DATA, "%s: it has changed", from->path);
    for (size_t done = 0; done < s->context;) {
        const size_t left = done < head[1] ? head[1] - done : s->context - done;
        const size_t now = left < PIECE ? left : PIECE;
        if (done >= head[1])
            memset(tokens, 0, now * sizeof *tokens);
        else if (!token_file_read(from, start + 2 + done, now, tokens, f))
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
        free(s->files[i].at);
    }
    free(s);
}

/* Whether the sentence at `start` fits the options; its label; *end: what is behind it. */
static bool check_sentence(const sentence_file *s, const dataset_options *options, uint64_t start,
    uint32_t *label, uint64_t *end, fault *f)
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
    *label = head[0];
    return *end <= file->count ||
           fault_set(f, CODE_DATA, "%s: it ends within sentence %zu", file->path, s->count);
}

static bool list_sentences(sentence_file *s, const dataset_options *options, fault *f)
{
    size_t room = 0;
    uint32_t label = 0;
    for (uint64_t start = 0, end = 0; start < s->file.count; start = end) {
        if (!check_sentence(s, options, start, &label, &end, f))
            return false;
        if (s->count == INT32_MAX)
            break;
        if (s->count == room) {
            room = room == 0 ? 1024 : 2 * room;
            sentence *more = realloc(s->at, room * sizeof *more);
            if (more == NULL)
                return dataset_no_memory(f, s->file.path);
            s->at = more;
        }
        s->at[s->count++] = (sentence){start, label};
    }
    return true;
}

/* Draw i of `count` from `all`: one from each of `count` parts in succession. */
static size_t drawn(size_t all, size_t count, size_t i)
{
    rng r = rng_open(0, RNG_DRAWN, (uint32_t)i, (uint32_t)count);
    const uint64_t first = (uint64_t)i * all / count, end = (uint64_t)(i + 1) * all / count;
    return (size_t)first + rng_below(&r, (uint32_t)(end - first));
}

/* Puts the sentences that are drawn for tests behind the others. */
static bool put_tests_last(sentence_file *s, size_t tests, fault *f)
{
    size_t kept = 0, taken = 0;
    sentence *last = malloc(tests * sizeof *last);
    if (last == NULL)
        return dataset_no_memory(f, s->file.path);
    for (size_t i = 0; i < s->count; ++i)
        if (taken < tests && i == drawn(s->count, tests, taken))
            last[taken++] = s->at[i];
        else
            s->at[kept++] = s->at[i];
    memcpy(s->at + kept, last, tests * sizeof *last);
    free(last);
    return true;
}

/* Says which labels a split lacks. */
static bool tell_empty(const part *p, const dataset_options *options, dataset_split split, fault *f)
{
    bool *has = calloc(options->labels, sizeof *has);
    if (has == NULL)
        return dataset_no_memory(f, p->file->path);
    for (size_t i = 0; i < p->count; ++i)
        has[p->at[i].label] = true;
    dataset_tell_empty(p->file->path, options, split, options->labels, has, options->labels);
    free(has);
    return true;
}

/* Takes the sentences up to the limits. */
static bool use(sentences *s, const dataset_options *options, dataset_source *source, fault *f)
{
    const uint32_t limits[2] = {options->train_limit, options->test_limit};
    for (int i = 0; i < 2; ++i) {
        part *p = &s->parts[i];
        const size_t all = p->count;
        if (limits[i] != 0 && limits[i] < all)
            p->count = limits[i];
        for (size_t k = 0; p->count < all && k < p->count; ++k)
            p->at[k] = p->at[drawn(all, p->count, k)];
        source->count[i] = (uint32_t)p->count;
        if (!tell_empty(p, options, (dataset_split)i, f))
            return false;
    }
    return true;
}

/* The file NAME.labels beside NAME.bin, which has the numbers of its labels (tokens.py); NULL
 * without one. */
static FILE *open_labels(const token_file *file, fault *f)
{
    static const char ending[] = ".labels";
    if (file->path == NULL || file->width == 1)
        return NULL;
    const size_t stem = strlen(file->path) - strlen(".bin");
    const char *why;
    char *name = malloc(stem + sizeof ending);
    bool there = false;
    FILE *stream = NULL;
    if (name == NULL) {
        (void)dataset_no_memory(f, file->path);
        return NULL;
    }
    (void)snprintf(name, stem + sizeof ending, "%.*s%s", (int)stem, file->path, ending);
    if (plain_file_exists(name, &there, f) && there) {
        stream = plain_file_open(name, NULL, &why);
        if (stream == NULL)
            (void)fault_set(f, CODE_DATA, "%s: %s", name, why);
    }
    free(name);
    return stream;
}

/* Fails where the labels of training and tests have different numbers. */
static bool check_labels(const token_file files[2], const dataset_options *options, fault *f)
{
    char note[MESSAGE_SIZE];
    FILE *train = open_labels(&files[0], f), *tests = open_labels(&files[1], f);
    int a = 0, b = 0;
    while (train != NULL && tests != NULL && a == b && a != EOF) {
        a = getc(train);
        b = getc(tests);
    }
    if (a != b)
        (void)fault_set(f, CODE_DATA,
            "%s: its .labels has other numbers for labels than that of %s; make it again with "
            "tokens.py",
            files[1].path, files[0].path);
    if (files[1].path != NULL && (train == NULL) != (tests == NULL) && options->hear != NULL) {
        (void)snprintf(note, sizeof note,
            "%s: it has no .labels, as %s has: nothing says that their labels are the same",
            files[train == NULL ? 0 : 1].path, files[train == NULL ? 1 : 0].path);
        options->hear(options->hear_user, note);
    }
    if (train != NULL)
        (void)fclose(train);
    if (tests != NULL)
        (void)fclose(tests);
    return f->code == CODE_OK;
}

static bool open_files(const char *path, const dataset_options *options, sentences *s,
    dataset_source *source, fault *f)
{
    token_file files[2];
    bool good = token_files_open(
        path, options->classes, NULL, options->resumed, files, &source->checksum, f);
    const bool split = files[1].path == NULL;
    for (int i = 0; i < 2; ++i) {
        s->files[i].file = files[i];
        good = good && (files[i].path == NULL || list_sentences(&s->files[i], options, f));
    }
    if (!good || !check_labels(files, options, f))
        return false;
    sentence_file *train = &s->files[0], *other = &s->files[1];
    const size_t all = train->count, tests = split ? all / TENTH : other->count;
    if (tests == 0)
        return fault_set(f, CODE_DATA,
            "%s: %zu sentences, expected at least %d: a tenth is for tests", train->file.path, all,
            TENTH);
    source->name = "sentences";
    if (split && !put_tests_last(train, tests, f))
        return false;
    const size_t kept = split ? all - tests : all;
    s->parts[DATASET_TRAIN] = (part){&train->file, train->at, kept};
    s->parts[DATASET_TEST] = split ? (part){&train->file, train->at + kept, tests}
                                   : (part){&other->file, other->at, tests};
    (void)snprintf(source->tests, sizeof source->tests, "%s%s",
        split ? "one of each ten sentences, drawn over all of " : "",
        s->parts[DATASET_TEST].file->path);
    return use(s, options, source, f);
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
