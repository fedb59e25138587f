/* The command line of a training program: a byte, then the arguments, one a line. What a
 * checkpoint would keep of accepted ones is taken back and says the same. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "resmlp_model.h"
#include "resnet_model.h"
#include "trainer/options/options.h"

enum { WORDS = 32 };

/* The text of --memory-limit's choice is not made yet. */
static bool is_settled(const options *o)
{
    return !o->help && !o->version && !o->list_devices && o->resume == NULL && o->memory_limit == 0;
}

static void come_back(const options *o)
{
    char *text, *again;
    size_t size, again_size;
    fault f = {0};
    options other = options_defaults(o->model);
    other.resume = "a.ckpt";
    FUZZ_CHECK(options_save(o, false, &text, &size, &f));
    if (!options_restore(&other, text, size, &f))
        fuzz_check(false, f.text, __FILE__, __LINE__);
    FUZZ_CHECK(options_save(&other, false, &again, &again_size, &f));
    FUZZ_CHECK(again_size == size && memcmp(text, again, size) == 0);
    const double there[] = {
        o->lr, o->weight_decay, o->sparsity, o->warmup_epochs, o->clip_norm, o->label_smoothing};
    const double back[] = {other.lr, other.weight_decay, other.sparsity, other.warmup_epochs,
        other.clip_norm, other.label_smoothing};
    for (size_t i = 0; i < sizeof there / sizeof *there; ++i)
        FUZZ_CHECK(!(there[i] < back[i]) && !(there[i] > back[i]));
    FUZZ_CHECK(other.seed == o->seed && strcmp(other.data, o->data) == 0);
    free(text);
    free(again);
    options_close(&other);
}

/* An accepted seed has 16 digits at most, but for zeros before them. The first word is no value. */
static void check_seed(const char *word)
{
    if (word != NULL && strncmp(word, "--seed=", 7) == 0)
        FUZZ_CHECK(strlen(word + 7 + strspn(word + 7, "0")) <= 16);
}

void fuzz_target(fuzz_input in)
{
    const trainer_model *model = (fuzz_byte(&in) & 1) ? &resnet_model : &resmlp_model;
    char program[] = "train", *text = fuzz_text(&in), *argv[WORDS + 1] = {program}, *rest = text;
    int argc = 1;
    options o;
    fault f = {0};
    for (char *word; argc < WORDS && (word = strsep(&rest, "\n")) != NULL;)
        argv[argc++] = word;
    argv[argc] = NULL;
    const char *first = argv[1]; /* getopt moves words */
    optind = 0;                  /* getopt starts anew */
    if (!options_parse(model, argc, argv, &o, &f)) {
        FUZZ_CHECK(f.code == CODE_USAGE);
        FUZZ_CHECK(f.text[0] != '\0');
    } else {
        check_seed(first);
        if (is_settled(&o))
            come_back(&o);
    }
    options_close(&o);
    free(text);
}
