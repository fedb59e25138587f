#include "trainer/run/sample.h"

#include <CL/cl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"
#include "trainer/base/try.h"
#include "trainer/data/rng.h"
#include "trainer/data/token_file.h"
#include "trainer/files/plain_file.h"
#include "trainer/vocabulary/chat.h"

enum { FIRST = 32 /* tokens of the tests */, MOST = 128 /* that are read in a pass */ };

typedef struct sampler {
    session *s;
    net_model *writer;                 /* the model, token by token */
    size_t context, vocabulary, begun; /* begun: tokens of the prompt */
    int32_t *tokens;                   /* (context) of the data; (begun + N) written so far */
    size_t first, read; /* the first token of the context; how many from it on the writer took */
    float *values;      /* (2 * vocabulary) logits, and room to sort them */
    clprune_mat logits;
    const sample_start *start;
} sampler;

/* Gives a writer of `rows` tokens a pass those of the context from `at` on. */
static bool read_tokens(sampler *w, net_model *writer, size_t at, size_t rows, fault *f)
{
    session *s = w->s;
    clprune_net_data data = session_data(s, 1, 1);
    data.first = at;
    const cl_int sent =
        clEnqueueWriteBuffer(clprune_context_queue(s->context), s->feed.tokens.buffer, CL_TRUE, 0,
            rows * sizeof *w->tokens, w->tokens + w->first + at, 0, NULL, NULL);
    w->read = at + rows;
    return fault_check_cl(f, sent, "sending tokens to the device") &&
           fault_check(f, s->context, net_model_forward(writer, &data, false), "--sample");
}

/* Those behind a row of its last pass. */
static clprune_status read_logits(const sampler *w, net_model *writer, size_t row)
{
    TRY(clprune_net_logits(writer->net, 1, row, w->logits, NULL));
    TRY(clprune_mat_read(w->s->context, w->logits, w->values));
    return clprune_plan_end_step(w->s->context);
}

/* Takes the next `count` tokens in as few passes as can be, the last of which takes some again, and
 * the logits behind them. */
static bool read_all(sampler *w, size_t count, fault *f)
{
    const session *s = w->s;
    const size_t passes = (count + MOST - 1) / MOST, rows = (count + passes - 1) / passes;
    const size_t last = w->read + count - rows;
    net_model *reader = w->writer;
    bool good = count == 1 || fault_check(f, s->context,
                                  net_model_create_writer(w->writer, rows, &reader), "--sample");
    for (size_t i = 0; good && i < passes; ++i)
        good = read_tokens(w, reader, w->read < last ? w->read : last, rows, f);
    good = good && fault_check(f, s->context, read_logits(w, reader, rows - 1), "--sample");
    if (reader != w->writer)
        net_model_destroy(reader);
    return good;
}

/* The logits of what follows the first `count` tokens. */
static bool look(sampler *w, size_t count, fault *f)
{
    if (count - w->first > w->context) {
        w->first = count - (w->context + 1) / 2;
        w->read = 0;
    }
    return read_all(w, count - w->first - w->read, f);
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y); /* the largest first */
}

/* The probability of a logit, relative to the largest one's. */
static double weight(const sampler *w, float value, double most)
{
    return exp(((double)value - most) / w->s->options->temperature);
}

/* The smallest logit that is drawn: those from it on have --top-p of all probability. */
static double least(const sampler *w, double most, double sum)
{
    const double part = w->s->options->top_p * sum;
    float *sorted = w->values + w->vocabulary;
    double above = 0;
    size_t i;
    memcpy(sorted, w->values, w->vocabulary * sizeof *sorted);
    qsort(sorted, w->vocabulary, sizeof *sorted, compare);
    for (i = 0; i + 1 < w->vocabulary; ++i) {
        above += weight(w, sorted[i], most);
        if (above >= part)
            break;
    }
    return (double)sorted[i];
}

/* Draws from softmax(values / temperature). */
static int32_t draw(const sampler *w, uint32_t index)
{
    rng r = rng_open(w->s->options->seed, RNG_SAMPLE, index, 0);
    double most = -(double)INFINITY, low = most, sum = 0;
    size_t i, last = 0;
    for (i = 0; i < w->vocabulary; ++i)
        if ((double)w->values[i] > most) {
            most = (double)w->values[i];
            last = i;
        }
    if (w->s->options->temperature <= 0)
        return (int32_t)last;
    for (i = 0; i < w->vocabulary; ++i)
        sum += weight(w, w->values[i], most);
    if (w->s->options->top_p < 1) {
        low = least(w, most, sum);
        sum = 0;
        for (i = 0; i < w->vocabulary; ++i)
            sum += (double)w->values[i] >= low ? weight(w, w->values[i], most) : 0;
    }
    double left = rng_uniform(&r) * sum;
    for (i = 0; i < w->vocabulary && left >= 0; ++i)
        if (!((double)w->values[i] < low)) {
            left -= weight(w, w->values[i], most);
            last = i;
        }
    return (int32_t)last;
}

static void print_byte(int byte)
{
    const bool control = byte < ' ' || byte == 127;
    (void)putchar(control && byte != '\n' && byte != '\t' ? '?' : byte);
}

static void print_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; ++i)
        print_byte((unsigned char)text[i]);
}

static void print_token(const sampler *w, int32_t token)
{
    const vocabulary *words = &w->s->text.words;
    size_t length;
    if ((size_t)token < words->count) {
        const char *text = vocabulary_text(words, (size_t)token, &length);
        print_text(text, length);
    } else if (dataset_is_text(w->s->data) || (words->count == 0 && w->start->text != NULL)) {
        print_byte(token);
    } else {
        (void)printf("%d ", (int)token);
    }
}

/* Places of planned buffers are the run's. */
static clprune_status open_writer(sampler *w)
{
    session *s = w->s;
    TRY(clprune_context_use_plan(s->context, NULL));
    TRY(net_model_create_writer(s->model, 1, &w->writer));
    return clprune_mat_create(
        s->context, CLPRUNE_MEMORY_WORKSPACE, "logits", 1, w->vocabulary, &w->logits);
}

/* Reads the first tokens of the tests. */
static bool read_tests(sampler *w, fault *f)
{
    const uint32_t first = 0;
    int32_t *labels = malloc(w->context * sizeof *labels);
    fault wrong = {0};
    const bool good = labels != NULL ? dataset_batch(w->s->data, DATASET_TEST, &first, 1, NULL,
                                           (uint8_t *)w->tokens, labels, &wrong) ||
                                           feed_check(f, &wrong)
                                     : fault_set(f, CODE_MEMORY, "out of memory");
    free(labels);
    for (size_t i = 0; good && i < w->begun; ++i)
        print_token(w, w->tokens[i]);
    return good;
}

static bool write_all(sampler *w, size_t count, fault *f)
{
    session *s = w->s;
    const sample_start *start = w->start;
    bool good = start->text != NULL || read_tests(w, f);
    if (start->text != NULL) {
        memcpy(w->tokens, start->prompt.tokens, w->begun * sizeof *w->tokens);
        print_text(start->text, start->length);
        if (start->end != VOCABULARY_NONE && start->text[start->length - 1] != '\n')
            (void)putchar('\n');
    }
    good = good && fault_check(f, s->context, open_writer(w), "making room for --sample");
    for (size_t i = 0; good && i < count && stop_signal() == 0; ++i) {
        good = look(w, w->begun + i, f);
        if (!good)
            break;
        const int32_t token = w->tokens[w->begun + i] = draw(w, (uint32_t)i);
        if (token == start->end || vocabulary_ends(&s->text.words, token))
            break;
        print_token(w, token);
        (void)fflush(stdout);
    }
    (void)putchar('\n');
    clprune_buffer_release(s->context, w->logits.buffer);
    net_model_destroy(w->writer);
    return good;
}

bool sample_print(session *s, const sample_start *start, fault *f)
{
    const size_t count = (size_t)s->options->sample;
    sampler w = {
        .s = s, .context = s->sizes.context, .vocabulary = s->sizes.classes, .start = start};
    if (count == 0)
        return true;
    w.begun = start->text != NULL ? start->prompt.count : w.context < FIRST ? w.context : FIRST;
    w.tokens = calloc(w.context + w.begun + count, sizeof *w.tokens);
    w.values = malloc(2 * w.vocabulary * sizeof *w.values);
    const bool good =
        (w.tokens != NULL && w.values != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    const bool quiet = s->shown->quiet;
    progress_end(s->shown);
    s->shown->quiet = true; /* no line about kernels amid the text */
    const bool written = good && write_all(&w, count, f);
    s->shown->quiet = quiet;
    free(w.tokens);
    free(w.values);
    return written;
}

/* ---- the prompt --------------------------------------------------------------------------------
 */

static bool read_prompt(const char *prompt, sample_start *start, fault *f)
{
    fault unread = {.code = CODE_OK};
    const bool file = prompt[0] == '@';
    start->text =
        file ? plain_file_read(prompt + 1, SIZE_MAX - 1, &start->length, &unread) : strdup(prompt);
    if (start->text == NULL)
        return fault_set(f, file ? unread.code : CODE_MEMORY, "--prompt: %s",
            file ? unread.text : "out of memory");
    if (!file)
        start->length = strlen(prompt);
    return start->length > 0 || fault_set(f, CODE_USAGE, "--prompt: %s is empty", prompt + 1);
}

/* As a message of the user. */
static bool take_message(const vocabulary *words, sample_start *start, fault *f)
{
    chat c;
    if (!chat_open(words, &c, f))
        return false;
    const chat_message message = {"user", start->text, start->length};
    const bool good =
        chat_encode(&c, words, "--prompt", &message, 1, true, &start->prompt, NULL, f);
    start->end = c.end;
    chat_close(&c);
    return good;
}

static bool take_words(session *s, sample_start *start, fault *f)
{
    vocabulary *words = &s->text.words;
    token_list *list = &start->prompt;
    if (!vocabulary_prepare(words, f))
        return false;
    if (s->text.chat)
        return take_message(words, start, f);
    return (words->begin == VOCABULARY_NONE || token_list_add(list, words->begin, f)) &&
           vocabulary_encode(
               words, "--prompt", start->text, start->length, VOCABULARY_SPECIAL, list, f);
}

static bool take_bytes(sample_start *start, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < start->length; ++i)
        good = token_list_add(&start->prompt, (unsigned char)start->text[i], f);
    return good;
}

bool sample_open(session *s, sample_start *start, fault *f)
{
    const options *o = s->options;
    const size_t tokens = s->sizes.classes;
    start->end = VOCABULARY_NONE;
    if (o->sample == 0)
        return true;
    if (s->text.path != NULL && !text_model_open(&s->text, f))
        return false;
    if (o->prompt == NULL)
        return true;
    if (s->text.words.count == 0 && (tokens != TOKEN_BYTES || o->chat != 0))
        return fault_set(f, CODE_USAGE,
            "--prompt: the model has %zu tokens, and no texts of them; --model FILE.gguf has both",
            tokens);
    if (!read_prompt(o->prompt, start, f) ||
        !(s->text.words.count > 0 ? take_words(s, start, f) : take_bytes(start, f)))
        return false;
    for (size_t i = 0; i < start->prompt.count; ++i)
        if ((size_t)start->prompt.tokens[i] >= tokens)
            return fault_set(f, CODE_DATA, "--prompt: token %" PRId32 "; the model has %zu",
                start->prompt.tokens[i], tokens);
    return start->prompt.count <= s->sizes.context ||
           fault_set(f, CODE_USAGE, "--prompt: %zu tokens, more than the %zu of --context",
               start->prompt.count, s->sizes.context);
}

void sample_close(sample_start *start)
{
    free(start->text);
    free(start->prompt.tokens);
    *start = (sample_start){0};
}
