/* A run's settings from options and from checkpoints, old and new: the index of pruned blocks, and
 * settings that not all programs have. */
#include <getopt.h>

#include "resmlp_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/data/dataset.h"
#include "trainer/options/options.h"
#include "trainer/options/options_table.h"

typedef struct indices_row {
    const char *name, *arguments;
    const char *settings; /* of the checkpoint, each ended by ';'; NULL: none */
    clprune_index_type want;
} indices_row;

static const indices_row rows[] = {
    {"dense", "", NULL, CLPRUNE_INDEX_INT32},
    {"paper", "--activations paper", NULL, CLPRUNE_INDEX_INT32},
    {"paper, asked for", "--activations paper --indices bitmap", NULL, CLPRUNE_INDEX_BITMAP},
    {"compact-pruned", "--activations compact-pruned", NULL, CLPRUNE_INDEX_SMALLEST},
    {"asked for", "--indices int32 --activations compact-pruned", NULL, CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, paper", "", "activations=paper;values=fp32;",
        CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, compact-pruned", "",
        "activations=compact-pruned;values=fp16;", CLPRUNE_INDEX_SMALLEST},
    {"a checkpoint", "", "activations=compact;indices=bitmap;", CLPRUNE_INDEX_BITMAP},
    {"a checkpoint with bitmap, asked for otherwise", "--indices int32",
        "activations=compact;indices=bitmap;", CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, asked for", "--indices bitmap", "activations=paper;",
        CLPRUNE_INDEX_BITMAP},
};

TEST_UNDO(close_options, options_close(what))

/* Fills *o, which ends with the case, from arguments and, where settings are not NULL, a checkpoint
 * c with those. */
static bool make_options(const char *arguments, const char *settings, options *o, fault *f)
{
    enum { WORDS = 16 };
    char *argv[WORDS],
        *rest = test_text("resmlp-train %s%s", settings != NULL ? "--resume c " : "", arguments);
    int argc = 0;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        argv[argc++] = word;
    optind = 0; /* getopt starts anew */
    test_good(options_parse(&resmlp_model, argc, argv, o, f), f);
    test_later(close_options, NULL, o);
    if (settings == NULL)
        return true;
    const size_t size = strlen(settings);
    char *text = test_copy(size, settings);
    for (size_t i = 0; i < size; i++)
        if (text[i] == ';')
            text[i] = '\0';
    return options_restore(o, text, size, f);
}

/* The same, which must succeed. */
static const options *good_options(const char *arguments, const char *settings)
{
    options *o = test_alloc(sizeof *o);
    TEST_GOOD(make_options(arguments, settings, o, &f));
    return o;
}

static void indices(void **state)
{
    const indices_row *row = *state;
    const options *o = good_options(row->arguments, row->settings);
    assert_int_equal(options_index_type(o), row->want);

    /* What is saved is what was settled. */
    const char *want = test_text("indices=%s", options_indices[options_index_choice(row->want)]);
    char *text;
    size_t size;
    bool found = false;
    TEST_GOOD(options_save(o, false, &text, &size, &f));
    for (const char *p = text; p < text + size; p += strlen(p) + 1)
        found = found || strcmp(p, want) == 0;
    assert_true(found);
    free(text);
}

/* Checkpoints. All have fp32 values. */
static const struct read_row {
    const char *name, *arguments, *settings, *criterion, *preset;
} read_rows[] = {
    {"of preset paper", "", "activations=paper;sparsity=0.5;criterion=largest;", "largest",
        "paper"},
    {"of preset paper with --criterion sampled", "--activations paper",
        "activations=paper;criterion=sampled;", "sampled", "paper"},
    {"with --criterion sampled first", "--activations pruned",
        "criterion=sampled;activations=pruned;", "sampled", "pruned"},
    {"of preset pruned", "", "activations=pruned;criterion=largest;", "largest", "pruned"},
    {"of preset compact", "", "activations=compact;criterion=largest;", "largest", "compact"},
    {"with --criterion, given as it was", "--criterion largest",
        "activations=paper;criterion=largest;", "largest", "paper"},
    {"with --criterion random", "", "activations=paper;criterion=random;", "random", "paper"},
    {"of dense, with the --sparsity that it ignores", "--activations dense --sparsity=0.7",
        "activations=dense;sparsity=0;criterion=largest;", "largest", "dense"},
    {"of --milestones written otherwise", "--milestones 0.50,.750",
        "activations=dense;criterion=largest;schedule=step;milestones=0.5,0.75;", "largest",
        "dense"},
    {"of a lower --train-limit", "--train-limit 10",
        "activations=dense;criterion=largest;train-limit=9;", "largest", "dense"},
};

static const struct refused_row {
    const char *name, *arguments, *settings, *message;
} refused_rows[] = {
    {"of another preset", "--activations compact", "activations=compact-pruned;",
        "--activations compact: the run in c has compact-pruned"},
    {"of another criterion", "--criterion sampled", "activations=paper;criterion=largest;",
        "--criterion sampled: the run in c has largest"},
    {"of an older format", "", "presets=2;activations=compact;",
        "c: the setting 'presets=2' is unknown"},
    {"of --normalise, given otherwise", "--normalise imagenet", "activations=dense;normalise=half;",
        "--normalise imagenet: the run in c has half"},
    {"of paper, another --sparsity", "--activations paper --sparsity=0.7",
        "activations=paper;sparsity=0.5;", "--sparsity 0.7: the run in c has 0.5"},
    {"of --milestones without their schedule", "--milestones 0.50",
        "activations=dense;schedule=cosine;milestones=0.5,0.75;",
        "--milestones needs --schedule step, which the run in c lacks"},
    {"of a warm-up longer than --epochs", "--epochs 4",
        "activations=dense;epochs=9;warmup-epochs=5;", "--warmup-epochs 5: more than --epochs, 4"},
    {"of a higher --train-limit", "--train-limit 8", "activations=dense;train-limit=9;",
        "--train-limit 8: the run in c has 9"},
    {"adapters of a run without", "--lora 4", "activations=dense;",
        "--lora 4: the run in c has none; leave it out, or train anew"},
    {"other adapters", "--lora 4", "activations=dense;lora=8;", "--lora 4: the run in c has 8"},
    {"patterns of a run without", "--train head.*", "activations=dense;",
        "--train head.*: the run in c has none; leave it out, or train anew"},
    {"adapters of a run without, for PEFT", "--adapters x", "activations=dense;",
        "--adapters needs --lora, which the run in c lacks"},
    {"gradients that the run drops", "--gradient-check 1", "activations=dense;early-update=1;",
        "--gradient-check does not go with --early-update, which the run in c has"},
    {"of a newer program", "", "activations=paper;rotation=on;",
        "c: the setting 'rotation=on' is unknown; a newer resmlp-train"},
};

static void read_settings(void **state)
{
    const struct read_row *row = *state;
    const options *o = good_options(row->arguments, row->settings);
    assert_string_equal(options_criteria[o->criterion], row->criterion);
    assert_int_equal(o->values, CLPRUNE_VALUES_FP32);
    assert_string_equal(options_preset(o), row->preset);
}

static void refused(void **state)
{
    const struct refused_row *row = *state;
    const bool unknown = strstr(row->message, "unknown") != NULL;
    options *o = test_alloc(sizeof *o);
    TEST_REFUSED(make_options(row->arguments, row->settings, o, &f),
        unknown ? CODE_DATA : CODE_USAGE, row->message);
}

/* Of a run, and of one that goes on. */
static const struct normalise_row {
    const char *name, *arguments, *settings;
    dataset_normalise want;
} normalise_rows[] = {
    {"by default", "", NULL, DATASET_BY_DATA},
    {"imagenet", "--normalise imagenet", NULL, DATASET_BY_IMAGENET},
    {"half", "--normalise half", NULL, DATASET_BY_HALF},
    {"a checkpoint", "", "activations=dense;normalise=half;", DATASET_BY_HALF},
};

static void normalise(void **state)
{
    const struct normalise_row *row = *state;
    assert_int_equal(good_options(row->arguments, row->settings)->normalise, row->want);
}

/* What a preset and --criterion say together. */
static const struct criterion_row {
    const char *name, *arguments;
    clprune_criterion want;
} criteria[] = {
    {"paper", "--activations paper", CLPRUNE_CRITERION_LARGEST},
    {"pruned", "--activations pruned", CLPRUNE_CRITERION_SAMPLED},
    {"compact-pruned", "--activations compact-pruned", CLPRUNE_CRITERION_SAMPLED},
    {"paper, sampled", "--criterion sampled --activations paper", CLPRUNE_CRITERION_SAMPLED},
    {"pruned, largest", "--activations pruned --criterion largest", CLPRUNE_CRITERION_LARGEST},
    {"pruned, random", "--activations pruned --criterion random", CLPRUNE_CRITERION_RANDOM},
    {"dense", "", CLPRUNE_CRITERION_SAMPLED},
};

static void criterion(void **state)
{
    const struct criterion_row *row = *state;
    assert_int_equal(good_options(row->arguments, NULL)->criterion, row->want);
}

/* How tensors are kept in a form, from options, and from a checkpoint that has them. */
static const struct form_row {
    const char *name, *arguments;
    const char *settings;
    unsigned bits, group;
    clprune_rounding rounding;
    unsigned cell, gelu_bits;
    bool rotate;
} form_rows[] = {
    {"by default", "", NULL, 4, 64, CLPRUNE_ROUNDING_STOCHASTIC, 2, 2},
    {"of a checkpoint with one", "", "activations=compact;gelu-code=8;", 4, 64,
        CLPRUNE_ROUNDING_STOCHASTIC, 2, 8},
    {"8 bits, groups of 256", "--activations quantised --code-bits 8 --group=256", NULL, 8, 256,
        CLPRUNE_ROUNDING_STOCHASTIC, 2, 2},
    {"to nearest", "--activations quantised --rounding nearest --group=16", NULL, 4, 16,
        CLPRUNE_ROUNDING_NEAREST, 2, 2},
    {"pooled", "--activations pooled --pool 3", NULL, 4, 64, CLPRUNE_ROUNDING_STOCHASTIC, 3, 2},
    {"rotated", "--activations quantised --rotate yes", NULL, 4, 64, CLPRUNE_ROUNDING_STOCHASTIC, 2,
        2, true},
    {"a checkpoint", "",
        "activations=quantised;code-bits=2;group=48;rounding=nearest;rotate=yes;pool=7;", 2, 48,
        CLPRUNE_ROUNDING_NEAREST, 7, 2, true},
};

static void forms(void **state)
{
    const struct form_row *row = *state;
    const options *o = good_options(row->arguments, row->settings);
    const clprune_keep keep = options_keep(o, CLPRUNE_FORM_QUANTISED);
    const keep_how how = options_how(o);
    assert_int_equal(keep.form, CLPRUNE_FORM_QUANTISED);
    assert_int_equal(keep.bits, row->bits);
    assert_int_equal(keep.group, row->group);
    assert_int_equal(keep.rounding, row->rounding);
    assert_int_equal(keep.rotate, row->rotate);
    assert_int_equal(keep.cell, row->cell);
    assert_int_equal(how.keep.bits, row->bits);
    assert_int_equal(how.gelu_bits, row->gelu_bits);
    assert_int_equal(options_keep(o, CLPRUNE_FORM_GELU_CODE).bits, row->gelu_bits);
}

/* The options that ranks of a run may have of their own; all others must agree. Of files, all ranks
 * have one or none has. */
static const char *const own[] = {"device", "peer-timeout", "output-dir", "overwrite", "export",
    "adapters", "check-finite", "gradient-check", "gradient-draws", "sample", "prompt",
    "temperature", "top-p", "plan-csv", "plan-device", "memory-report", "tensorboard",
    "summary-json", "quiet"};
static const char *const places[] = {"data", "keep-file", "resume", "import"};

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; ++i)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What ranks compare. */
static char *compared(const options *o, size_t *size)
{
    char *text;
    TEST_GOOD(options_of_ranks(o, &text, size, &f));
    return text;
}

/* Whether a text has "--NAME=VALUE", with another value than the other text, and is else the same.
 */
static bool differ_in(const char *a, size_t a_size, const char *b, size_t b_size, const char *name)
{
    const char *x = a, *y = b;
    size_t differences = 0;
    for (; x < a + a_size && y < b + b_size; x += strlen(x) + 1, y += strlen(y) + 1)
        if (strcmp(x, y) != 0) {
            const size_t length = strlen(name);
            assert_true(strncmp(x, "--", 2) == 0 && strncmp(x + 2, name, length) == 0);
            assert_int_equal(x[2 + length], '=');
            assert_int_equal(strncmp(x, y, 3 + length), 0);
            ++differences;
        }
    assert_true(x == a + a_size && y == b + b_size);
    assert_true(differences <= 1);
    return differences == 1;
}

/* Sets an option to another value than it has. */
static void change(const option_row *row, options *o)
{
    char before[8192] = "", text[64] = "";
    const char *to = text;
    fault f = {0};
    if (option_is_set(row, o))
        option_print(row, o, before, sizeof before);
    for (size_t attempt = 0; attempt < 2 && (attempt == 0 || strcmp(before, to) == 0); ++attempt)
        switch (row->kind) {
        case OPTION_FLAG:
            to = strcmp(before, "0") == 0 ? "1" : "0";
            break;
        case OPTION_TEXT:
            to = attempt == 0 ? "one" : "another";
            break;
        case OPTION_CHOICE:
            to = row->choices[attempt];
            break;
        case OPTION_BLOCK:
            to = "4x4";
            break;
        default:
            (void)snprintf(text, sizeof text, row->kind == OPTION_REAL ? "%.17g" : "%.0f",
                attempt == 0 ? row->low : row->high);
        }
    test_good(option_set(row, to, o, &f), &f);
}

/* Each option of the table, changed on one rank. */
static void ranks(NO_ROW)
{
    extern const trainer_model bert_model, gpt_model, resnet_model;
    const trainer_model *const models[] = {&resmlp_model, &resnet_model, &gpt_model, &bert_model};
    size_t seen = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; ++m)
        for (size_t i = 0; i < option_rows_count(models[m]); ++i) {
            const option_row row = option_row_at(models[m], i);
            const bool is_own = is_among(own, sizeof own / sizeof *own, row.name);
            const bool is_place = is_among(places, sizeof places / sizeof *places, row.name);
            options o = options_defaults(models[m]);
            size_t before_size, after_size, again_size;
            char *before = compared(&o, &before_size);
            const bool was_set = option_is_set(&row, &o);
            change(&row, &o);
            char *after = compared(&o, &after_size);
            const bool differs = differ_in(before, before_size, after, after_size, row.name);
            assert_int_equal(differs, !is_own && !(is_place && was_set));
            change(&row, &o);
            char *again = compared(&o, &again_size);
            if (is_place)
                assert_false(differ_in(after, after_size, again, again_size, row.name));
            seen += is_own || is_place;
            free(before);
            free(after);
            free(again);
        }
    /* no name of the lists is left over: three models lack --sample and its three settings */
    assert_int_equal(seen, 4 * (sizeof own / sizeof *own + sizeof places / sizeof *places) - 4 * 3);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, forms, form_rows, "forms: %s");
    TEST_ADD_EACH(&list, indices, rows, "indices: %s");
    TEST_ADD_EACH(&list, read_settings, read_rows, "a checkpoint %s");
    TEST_ADD_EACH(&list, refused, refused_rows, "a checkpoint %s");
    TEST_ADD_EACH(&list, normalise, normalise_rows, "normalise: %s");
    TEST_ADD_EACH(&list, criterion, criteria, "criterion: %s");
    test_add(&list, ranks, NULL, "options that ranks must have in common");
    return test_run_on_host("options", &list);
}
