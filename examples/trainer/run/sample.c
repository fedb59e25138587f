#include "trainer/run/sample.h"

#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"
#include "trainer/base/try.h"
#include "trainer/data/rng.h"
#include "trainer/files/tensors/gguf_words.h"

enum { PROMPT = 32 };
static const double temperature = 0.8;

typedef struct sampler {
    session *s;
    size_t context, vocabulary, begun; /* begun: tokens of the prompt */
    int32_t *tokens;                   /* (context) of the data; (begun + N) written so far */
    float *values;                     /* (vocabulary) */
    clprune_mat logits;
    gguf_words words; /* of the vocabulary of --model FILE */
} sampler;

/* The logits of what follows token `row` of those in the feed. */
static clprune_status infer(const sampler *w, size_t row)
{
    session *s = w->s;
    const clprune_net_data data = session_data(s, 1, 1);
    TRY(s->type->forward(s->model, &data, false));
    TRY(s->type->logits(s->model, 1, row, w->logits));
    TRY(clprune_mat_read(s->context, w->logits, w->values));
    return clprune_plan_end_step(s->context);
}

/* The same for the first `count` tokens that were written. */
static bool look(const sampler *w, size_t count, fault *f)
{
    const session *s = w->s;
    const size_t seen = count < w->context ? count : w->context;
    const cl_int sent =
        clEnqueueWriteBuffer(clprune_context_queue(s->context), s->feed.tokens.buffer, CL_TRUE, 0,
            seen * sizeof *w->tokens, w->tokens + count - seen, 0, NULL, NULL);
    return fault_check_cl(f, sent, "sending tokens to the device") &&
           fault_check(f, s->context, infer(w, seen - 1), "--sample");
}

/* Draws from softmax(values / temperature). */
static int32_t draw(const sampler *w, uint32_t index)
{
    rng r = rng_open(w->s->options->seed, RNG_SAMPLE, index, 0);
    double most = -(double)INFINITY, sum = 0;
    size_t i;
    for (i = 0; i < w->vocabulary; ++i)
        most = fmax(most, (double)w->values[i]);
    for (i = 0; i < w->vocabulary; ++i)
        sum += exp(((double)w->values[i] - most) / temperature);
    double left = rng_uniform(&r) * sum;
    for (i = 0; i + 1 < w->vocabulary; ++i) {
        left -= exp(((double)w->values[i] - most) / temperature);
        if (left < 0)
            break;
    }
    return (int32_t)i;
}

static void print_byte(int byte)
{
    const bool control = byte < ' ' || byte == 127;
    (void)putchar(control && byte != '\n' && byte != '\t' ? '?' : byte);
}

static void print_token(const sampler *w, int32_t token)
{
    size_t length;
    if (dataset_is_text(w->s->data)) {
        print_byte(token);
    } else if ((size_t)token < w->words.count) {
        const char *bytes = gguf_words_of(&w->words, (size_t)token, &length);
        for (size_t i = 0; i < length; ++i)
            print_byte((unsigned char)bytes[i]);
    } else {
        (void)printf("%d ", (int)token);
    }
}

static bool write_all(sampler *w, size_t count, fault *f)
{
    session *s = w->s;
    const uint32_t first = 0;
    int32_t *labels = malloc(w->context * sizeof *labels);
    fault wrong = {0};
    bool good = labels != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && (dataset_batch(s->data, DATASET_TEST, &first, 1, NULL, (uint8_t *)w->tokens,
                        labels, &wrong) ||
                       feed_check(f, &wrong));
    free(labels);
    good = good && fault_check(f, s->context,
                       clprune_mat_create(s->context, CLPRUNE_MEMORY_WORKSPACE, "logits", 1,
                           w->vocabulary, &w->logits),
                       "making room for logits");
    for (size_t i = 0; good && i < w->begun; ++i)
        print_token(w, w->tokens[i]);
    for (size_t i = 0; good && i < count && stop_signal() == 0; ++i) {
        good = look(w, w->begun + i, f);
        if (good) {
            w->tokens[w->begun + i] = draw(w, (uint32_t)i);
            print_token(w, w->tokens[w->begun + i]);
            (void)fflush(stdout);
        }
    }
    (void)putchar('\n');
    clprune_buffer_release(s->context, w->logits.buffer);
    return good;
}

/* The words of a GGUF file, if --model has one. */
static bool read_words(sampler *w, fault *f)
{
    const char *path = w->s->options->model_folder;
    return path == NULL || !gguf_begins(path) || gguf_words_read(path, &w->words, f);
}

bool sample_print(session *s, fault *f)
{
    const size_t count = (size_t)s->options->sample;
    sampler w = {.s = s, .context = s->sizes.context, .vocabulary = s->sizes.classes};
    if (count == 0)
        return true;
    w.begun = w.context < PROMPT ? w.context : PROMPT;
    w.tokens = calloc(w.context + PROMPT + count, sizeof *w.tokens);
    w.values = malloc(w.vocabulary * sizeof *w.values);
    const bool good =
        (w.tokens != NULL && w.values != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    const bool written = good && read_words(&w, f) && write_all(&w, count, f);
    gguf_words_close(&w.words);
    free(w.tokens);
    free(w.values);
    return written;
}
