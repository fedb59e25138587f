/* What the ranks of a run must have in common. Sums of gradients have the same bits on all of them,
 * so parameters do as long as all ranks do the same on equal devices. */
#include "trainer/run/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/fnv.h"
#include "trainer/reduce/reduce_code.h"
#include "trainer/run/run_ranks.h"

enum { FACT = 256, FACTS = 8 * FACT };

/* "name=value" strings, each ended by NUL. */
typedef struct facts {
    char *text;
    size_t size;
} facts;

MESSAGE_PRINTF(2, 3)
static void add_fact(facts *all, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(all->text + all->size, FACT, format, args);
    all->size += strlen(all->text + all->size) + 1;
    va_end(args);
}

/* A hash of the values of parameters and of the model's states. */
static bool hash_tensors(const session *s, uint64_t *hash, fault *f)
{
    float *values = malloc((session_count_elements(s).most + 1) * sizeof *values);
    bool good = values != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    *hash = FNV_START;
    for (size_t i = 0; good && i < session_tensors(s); ++i) {
        const clprune_mat mat = session_tensor(s, s->model, i);
        const size_t count = mat.rows * mat.cols;
        good = fault_check(
            f, s->context, clprune_mat_read(s->context, mat, values), "reading parameters back");
        values[count] = 0;
        for (size_t j = 0; good && j < count; j += 2) {
            uint64_t pair;
            memcpy(&pair, values + j, sizeof pair);
            *hash = reduce_key(*hash, pair);
        }
    }
    free(values);
    return good;
}

/* What results depend on, in the order in which a difference is told: one may cause the next. */
static bool list_facts(const training_run *r, facts *all, fault *f)
{
    const session *s = &r->s;
    const char *keep = s->options->keep_text;
    char *settings;
    size_t size;
    uint64_t hash;
    if (!hash_tensors(s, &hash, f) || !options_of_ranks(s->options, &settings, &size, f))
        return false;
    all->text = malloc(size + FACTS);
    all->size = 0;
    if (all->text != NULL) {
        add_fact(all, "precision (of the device, --precision or CLPRUNE_PRECISION)=%s",
            clprune_precision_name(clprune_context_precision(s->context)));
        add_fact(all, "kernels for=%s",
            clprune_context_kernels(s->context) == CLPRUNE_KERNELS_TILED ? "GPUs" : "CPUs");
        add_fact(all, "--data with=%" PRIu32 " train and %" PRIu32 " test %s, %s %016" PRIx64,
            dataset_count(s->data, DATASET_TRAIN), dataset_count(s->data, DATASET_TEST),
            trainer_words_of(s->type->tokens).samples, dataset_name(s->data),
            dataset_checksum(s->data) ^ dataset_sizes(s->data) ^ dataset_tests_checksum(s->data));
        memcpy(all->text + all->size, settings, size);
        all->size += size;
        add_fact(all, "--keep-file with=checksum %016" PRIx64,
            fnv1a(FNV_START, keep, keep != NULL ? strlen(keep) : 0));
        add_fact(all, "done=%" PRIu64 " epochs and %" PRIu64 " steps", r->at.epoch, s->step);
        add_fact(all, "parameters with=checksum %016" PRIx64, hash);
    }
    free(settings);
    return all->text != NULL || fault_set(f, CODE_MEMORY, "out of memory");
}

bool run_compare_all(training_run *r, fault *f)
{
    const options *o = r->s.options;
    facts all = {0};
    char device[RUN_DEVICE_TEXT];
    r->compared = r->s.step;
    if (!ranks_many(&o->ranks))
        return true;
    const bool listed = list_facts(r, &all, f) && run_device_text(&r->s, device, f);
    char words[MESSAGE_SIZE];
    int other = 0;
    bool good = run_ranks_all(o, listed, f) && run_ranks_same(o, all.text, all.size, f);
    free(all.text);
    good = good && run_ranks_compare(o, device, strlen(device) + 1, &other, words, f);
    r->unequal = good && other != 0;
    if (r->unequal && words[0] != '\0')
        (void)fprintf(stderr,
            "%s: note: %s: the parameters of processes may differ by rounding, and are not "
            "compared\n",
            o->model->program, words);
    return good;
}

bool run_compare(training_run *r, fault *f)
{
    const options *o = r->s.options;
    char text[64], words[MESSAGE_SIZE];
    uint64_t hash = 0;
    int other = 0;
    if (!ranks_many(&o->ranks) || r->unequal || r->compared == r->s.step)
        return true;
    const bool read = hash_tensors(&r->s, &hash, f);
    (void)snprintf(text, sizeof text, "parameters with=checksum %016" PRIx64, hash);
    if (!run_ranks_all(o, read, f) ||
        !run_ranks_compare(o, text, strlen(text) + 1, &other, words, f))
        return false;
    r->compared = r->s.step;
    r->agreed = other != 0;
    if (words[0] != '\0')
        options_append(words, sizeof words,
            " after step %" PRIu64 ": they have drifted apart, and are not saved", r->s.step);
    return other == 0 || fault_set(f, CODE_RUN, "%s", words);
}
