/*
 * dataset_tokens.c: sequences of tokens, each with the same text one token later as labels.
 *
 * A file, or train.bin, train.txt of a folder. Its last tenth is for tests, unless there is a file
 * for them (token_files_open). A sequence has T tokens and needs the one
 * after it. Labels of tokens that a mask leaves out are CLPRUNE_IGNORED. Sequence i of the tests
 * begins at token i * T. In training all begin o tokens later, o drawn below T for each epoch; the
 * last one ends with the last token, so that all epochs have as many.
 *
 * Or, with options->apart, a sequence has whole texts of NAME.jsonl (text_packs.h), the same ones
 * in each epoch, and zeros that are not to be learnt behind them.
 *
 * Generated tokens are a chain: each token has four successors, which follow it with 1/2, 1/4, 1/8
 * and 1/8. So the loss of a perfect model is 1.75 ln 2 = 1.2130 nats.
 */
#include <inttypes.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

#include "clprune/cross_entropy.h"
#include "trainer/data/dataset_source.h"
#include "trainer/data/rng.h"
#include "trainer/data/token_file.h"
#include "trainer/vocabulary/text_packs.h"

enum { DEFAULT_TRAIN = 8000, DEFAULT_TEST = 2000, TENTH = 10 };

/* Writes inputs and labels: token i of a sequence is input i and, if it is to be learnt, label
 * i - 1. */
static void put(
    uint32_t token, bool learnt, size_t i, size_t context, int32_t *inputs, int32_t *labels)
{
    if (i < context)
        inputs[i] = (int32_t)token;
    if (i > 0)
        labels[i - 1] = learnt ? (int32_t)token : CLPRUNE_IGNORED;
}

/* ---- generated ---------------------------------------------------------------------------------
 */

typedef struct chain {
    uint64_t seed;
    uint32_t vocabulary;
    size_t context;
} chain;

static uint32_t successor(const chain *c, uint32_t token, uint32_t draw)
{
    rng r = rng_open(c->seed, RNG_SUCCESSOR, token, 0);
    uint32_t next = 0;
    const int which = draw < 1u << 31 ? 0 : draw < 3u << 30 ? 1 : draw < 7u << 29 ? 2 : 3;
    for (int i = 0; i <= which; ++i)
        next = rng_below(&r, c->vocabulary);
    return next;
}

static bool fetch_generated(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    const chain *c = state;
    rng r = rng_open(c->seed, RNG_SEQUENCE, (uint32_t)split, index);
    uint32_t token = rng_below(&r, c->vocabulary);
    (void)augment;
    (void)f;
    for (size_t i = 0; i <= c->context; ++i) {
        put(token, true, i, c->context, (int32_t *)(void *)inputs, labels);
        token = successor(c, token, rng_next(&r));
    }
    return true;
}

static bool open_generated(const dataset_options *options, dataset_source *source, fault *f)
{
    chain *c = malloc(sizeof *c);
    if (c == NULL)
        return dataset_no_memory(f, "generated");
    *c = (chain){options->seed, options->classes, options->context};
    *source = (dataset_source){
        .name = "generated tokens",
        .count = {options->train_limit == 0 ? DEFAULT_TRAIN : options->train_limit,
            options->test_limit == 0 ? DEFAULT_TEST : options->test_limit},
        .state = c,
        .fetch = fetch_generated,
        .destroy = free,
    };
    return true;
}

/* ---- files -------------------------------------------------------------------------------------
 */

/* The tokens of a split: `count` of a file, from `first` on. */
typedef struct part {
    const token_file *file;
    uint64_t first, count;
} part;

typedef struct text {
    token_file files[2]; /* the second one: for tests, or {0} */
    part parts[2];       /* by split */
    text_packs packs[2]; /* by split: of texts apart */
    size_t context;
} text;

static bool fetch_sequence(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    const text *t = state;
    const part *p = &t->parts[split];
    const size_t context = t->context;
    uint64_t start = (uint64_t)index * context;
    uint32_t tokens[1024];
    enum { PIECE = sizeof tokens / sizeof *tokens };
    uint8_t mask[PIECE];
    if (augment != NULL) {
        rng r = rng_open(augment->seed, RNG_OFFSET, augment->epoch, 0);
        start += rng_below(&r, (uint32_t)context);
        if (start > p->count - context - 1)
            start = p->count - context - 1;
    }
    for (size_t done = 0; done <= context;) {
        const size_t now = context + 1 - done < PIECE ? context + 1 - done : PIECE;
        const uint64_t first = p->first + start + done;
        if (!token_file_read(p->file, first, now, tokens, f) ||
            !token_file_read_mask(p->file, first, now, mask, f))
            return false;
        for (size_t i = 0; i < now; ++i, ++done)
            put(tokens[i], mask[i] != 0, done, context, (int32_t *)(void *)inputs, labels);
    }
    return true;
}

/* Writes `rows` rows of a text that begins at row `at` of a sequence. */
static bool put_text(const token_file *file, const packed_text *from, size_t at, size_t context,
    int32_t *inputs, int32_t *labels, fault *f)
{
    uint32_t tokens[1024];
    enum { PIECE = sizeof tokens / sizeof *tokens };
    uint8_t mask[PIECE];
    for (size_t done = 0; done <= from->rows;) {
        const size_t left = from->rows + 1 - done, now = left < PIECE ? left : PIECE;
        if (!token_file_read(file, from->first + done, now, tokens, f) ||
            !token_file_read_mask(file, from->first + done, now, mask, f))
            return false;
        for (size_t i = 0; i < now; ++i, ++done)
            put(tokens[i], mask[i] != 0, done, from->rows, inputs + at, labels + at);
    }
    for (size_t i = 0; i < from->rows; ++i)
        inputs[context + at + i] = (int32_t)at;
    return true;
}

static bool fetch_apart(const void *state, dataset_split split, uint32_t index,
    const augment_options *augment, uint8_t *bytes, int32_t *labels, fault *f)
{
    const text *t = state;
    const text_packs *packs = &t->packs[split];
    int32_t *inputs = (int32_t *)(void *)bytes;
    size_t at = 0;
    (void)augment;
    for (size_t i = packs->firsts[index]; i < packs->firsts[index + 1]; ++i) {
        if (!put_text(t->parts[split].file, &packs->texts[i], at, t->context, inputs, labels, f))
            return false;
        at += packs->texts[i].rows;
    }
    for (; at < t->context; ++at) {
        inputs[at] = 0;
        inputs[t->context + at] = (int32_t)at;
        labels[at] = CLPRUNE_IGNORED;
    }
    return true;
}

static void destroy(void *state)
{
    text *t = state;
    text_packs_free(&t->packs[0]);
    text_packs_free(&t->packs[1]);
    token_file_close(&t->files[0]);
    token_file_close(&t->files[1]);
    free(t);
}

/* Counts the sequences of a split, up to the limit. */
static bool count_sequences(
    const text *t, dataset_split split, uint32_t limit, uint32_t *count, fault *f)
{
    const part *p = &t->parts[split];
    const uint64_t sequences = p->count > 0 ? (p->count - 1) / t->context : 0;
    if (sequences == 0)
        return fault_set(f, CODE_DATA,
            "%s: %" PRIu64 " tokens for %s; a sequence of %zu and the next token are %zu",
            p->file->path, p->count, split == DATASET_TRAIN ? "training" : "tests", t->context,
            t->context + 1);
    *count = limit != 0 && limit < sequences ? limit
             : sequences > INT32_MAX         ? INT32_MAX
                                             : (uint32_t)sequences;
    return true;
}

/* Packs the texts of a split, and says which were cut or left out. */
static bool pack_texts(
    text *t, dataset_split split, const dataset_options *options, uint32_t *count, fault *f)
{
    static const char *const names[2] = {"training", "tests"};
    const token_file *file = t->parts[split].file;
    const size_t tests = t->files[1].path == NULL ? file->texts / TENTH : 0;
    const bool tail = split == DATASET_TEST && tests > 0;
    const uint32_t limit = split == DATASET_TRAIN ? options->train_limit : options->test_limit;
    const size_t first = tail ? file->texts - tests : 0;
    const size_t texts =
        split == DATASET_TEST && t->files[1].path == NULL ? tests : file->texts - tests;
    text_packs *packs = &t->packs[split];
    char note[MESSAGE_SIZE];
    if (file->begins == NULL)
        return fault_set(f, CODE_USAGE,
            "--packing apart: %s is no NAME.jsonl with tokens by the vocabulary of --model",
            file->path);
    if (!text_packs_make(file->begins + first, texts, t->context, packs))
        return dataset_no_memory(f, file->path);
    if (packs->count == 0)
        return fault_set(
            f, CODE_DATA, "%s: no texts for %s; it has %zu", file->path, names[split], file->texts);
    *count = limit != 0 && limit < packs->count ? limit
             : packs->count > INT32_MAX         ? INT32_MAX
                                                : (uint32_t)packs->count;
    (void)snprintf(note, sizeof note,
        "%s: %zu of the %zu texts for %s are cut at %zu tokens, %zu have none to learn", file->path,
        packs->cut, texts, names[split], t->context + 1, packs->empty);
    if (options->hear != NULL && packs->cut + packs->empty > 0)
        options->hear(options->hear_user, note);
    return true;
}

/* Says that a text may be none. */
static void tell_zeros(const token_file *file, const dataset_options *options)
{
    char note[MESSAGE_SIZE];
    if (file->width != 1 || file->zeros == 0 || options->hear == NULL)
        return;
    (void)snprintf(note, sizeof note,
        "%s: %" PRIu64 " of its bytes are 0: it may be no text; tokens are in files whose names "
        "end with .bin",
        file->path, file->zeros);
    options->hear(options->hear_user, note);
}

static bool open_files(
    const char *path, const dataset_options *options, text *t, dataset_source *source, fault *f)
{
    const uint32_t limits[2] = {options->train_limit, options->test_limit};
    bool good = token_files_open(
        path, options->classes, options->model, options->resumed, t->files, &source->checksum, f);
    if (good) {
        const token_file *file = &t->files[0];
        const bool split = t->files[1].path == NULL;
        const uint64_t tests = split ? file->count / TENTH : 0;
        t->parts[DATASET_TRAIN] = (part){file, 0, file->count - tests};
        t->parts[DATASET_TEST] = split ? (part){file, file->count - tests, tests}
                                       : (part){&t->files[1], 0, t->files[1].count};
        (void)snprintf(source->tests, sizeof source->tests, "%s%s",
            split ? "the last tenth of " : "", t->parts[DATASET_TEST].file->path);
        source->name = file->width == 1 ? "text" : "tokens";
    }
    for (int split = 0; good && split < 2; ++split)
        good =
            options->apart
                ? pack_texts(t, (dataset_split)split, options, &source->count[split], f)
                : count_sequences(t, (dataset_split)split, limits[split], &source->count[split], f);
    for (int i = 0; good && i < 2; ++i)
        tell_zeros(&t->files[i], options);
    return good;
}

static bool open_text(
    const char *path, const dataset_options *options, dataset_source *source, fault *f)
{
    text *t = calloc(1, sizeof *t);
    if (t == NULL)
        return dataset_no_memory(f, path);
    t->context = options->context;
    if (!open_files(path, options, t, source, f)) {
        destroy(t);
        return false;
    }
    source->state = t;
    source->fetch = options->apart ? fetch_apart : fetch_sequence;
    source->apart = options->apart;
    source->masks = options->apart || t->files[0].mask >= 0;
    source->destroy = destroy;
    return true;
}

bool dataset_tokens(
    const char *path, const dataset_options *options, dataset_source *source, fault *f)
{
    if (options->apart && strcmp(path, "generated") == 0)
        return fault_set(f, CODE_USAGE, "--packing apart needs --data NAME.jsonl");
    if (!(strcmp(path, "generated") == 0 ? open_generated(options, source, f)
                                         : open_text(path, options, source, f)))
        return false;
    source->classes = options->classes;
    source->context = options->context;
    return true;
}
