/* A run's settings from options and from checkpoints, old and new: the index of pruned blocks, and
 * settings that not all programs have. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "resmlp_model.h"
#include "support/test_device.h"
#include "trainer/options/options.h"
#include "trainer/options/options_table.h"

typedef struct indices_row {
    const char *name;
    const char *arguments[6]; /* ends with NULL */
    const char *settings;     /* of the checkpoint, each ended by ';'; NULL: none */
    clprune_index_type want;
} indices_row;

static const indices_row rows[] = {
    {"dense", {NULL}, NULL, CLPRUNE_INDEX_INT32},
    {"paper", {"--activations", "paper", NULL}, NULL, CLPRUNE_INDEX_INT32},
    {"paper, asked for", {"--activations", "paper", "--indices", "bitmap", NULL}, NULL,
        CLPRUNE_INDEX_BITMAP},
    {"compact-pruned", {"--activations", "compact-pruned", NULL}, NULL, CLPRUNE_INDEX_SMALLEST},
    {"asked for", {"--indices", "int32", "--activations", "compact-pruned", NULL}, NULL,
        CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, paper", {"--resume", "c", NULL},
        "activations=paper;values=fp32;", CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, compact", {"--resume", "c", NULL},
        "activations=compact;values=fp16;", CLPRUNE_INDEX_SMALLEST},
    {"a checkpoint", {"--resume", "c", NULL}, "activations=compact;indices=bitmap;",
        CLPRUNE_INDEX_BITMAP},
    {"a checkpoint with int16", {"--resume", "c", NULL}, "activations=compact;indices=int16;",
        CLPRUNE_INDEX_BITMAP},
    {"a checkpoint with int16, asked for otherwise", {"--resume", "c", "--indices", "int32", NULL},
        "activations=compact;indices=int16;", CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, asked for", {"--resume", "c", "--indices", "bitmap", NULL},
        "activations=paper;", CLPRUNE_INDEX_BITMAP},
};

/* Fills *o from arguments and, where settings are not NULL, a checkpoint with those. */
static bool make_options(const char *const arguments[], const char *settings, options *o, fault *f)
{
    static char program[] = "resmlp-train", words[6][32], text[256];
    char *argv[8] = {program};
    int argc = 1;
    for (; arguments[argc - 1] != NULL; argc++) {
        (void)snprintf(words[argc - 1], sizeof words[0], "%s", arguments[argc - 1]);
        argv[argc] = words[argc - 1];
    }
    optind = 0; /* getopt starts anew */
    assert_true(options_parse(&resmlp_model, argc, argv, o, f));
    if (settings == NULL)
        return true;
    const size_t size = strlen(settings);
    memcpy(text, settings, size);
    for (size_t i = 0; i < size; i++)
        if (text[i] == ';')
            text[i] = '\0';
    return options_restore(o, text, size, f);
}

static void indices(void **state)
{
    const indices_row *row = *state;
    options o;
    fault f = {0};
    assert_true(make_options(row->arguments, row->settings, &o, &f));
    assert_int_equal(options_index_type(&o), row->want);

    /* What is saved is what was settled. */
    char *text, want[32];
    size_t size;
    bool found = false;
    (void)snprintf(
        want, sizeof want, "indices=%s", options_indices[options_index_choice(row->want)]);
    assert_true(options_save(&o, false, &text, &size, &f));
    for (const char *p = text; p < text + size; p += strlen(p) + 1)
        found = found || strcmp(p, want) == 0;
    assert_true(found);
    free(text);
    options_close(&o);
}

/* Checkpoints of programs with fewer options, and with more. */
static const struct version_row {
    const char *name;
    const char *arguments[6];
    const char *settings;
    const char *message; /* NULL: it is read */
    size_t criterion, values;
    const char *preset;
} versions[] = {
    {"before --criterion", {"--resume", "c", NULL}, "activations=paper;sparsity=0.5;", NULL,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "paper"},
    {"with --criterion largest", {"--resume", "c", NULL}, "activations=paper;criterion=largest;",
        NULL, CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "paper"},
    /* ran as pruned does, before there was that preset */
    {"with --criterion sampled", {"--resume", "c", NULL}, "activations=paper;criterion=sampled;",
        NULL, CLPRUNE_CRITERION_SAMPLED, CLPRUNE_VALUES_FP32, "pruned"},
    {"with --criterion sampled first", {"--resume", "c", "--activations", "pruned", NULL},
        "criterion=sampled;activations=paper;", NULL, CLPRUNE_CRITERION_SAMPLED,
        CLPRUNE_VALUES_FP32, "pruned"},
    {"with --criterion sampled, given as paper", {"--resume", "c", "--activations", "paper", NULL},
        "activations=paper;criterion=sampled;", "--activations paper: the run in c has pruned", 0,
        0, NULL},
    {"of preset paper with --criterion sampled", {"--resume", "c", "--activations", "paper", NULL},
        "presets=2;activations=paper;criterion=sampled;", NULL, CLPRUNE_CRITERION_SAMPLED,
        CLPRUNE_VALUES_FP32, "paper"},
    {"of preset pruned", {"--resume", "c", NULL}, "activations=pruned;criterion=largest;", NULL,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "pruned"},
    /* pruned before there was a number */
    {"of preset compact, once", {"--resume", "c", NULL}, "activations=compact;criterion=sampled;",
        NULL, CLPRUNE_CRITERION_SAMPLED, CLPRUNE_VALUES_FP32, "compact-pruned"},
    {"of preset compact, the oldest", {"--resume", "c", NULL}, "activations=compact;", NULL,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "compact-pruned"},
    {"of preset compact, 1", {"--resume", "c", NULL}, "activations=compact;presets=1;", NULL,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "compact-pruned"},
    {"of preset compact", {"--resume", "c", NULL}, "presets=2;activations=compact;", NULL,
        CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "compact"},
    {"of preset compact, once, given as compact",
        {"--resume", "c", "--activations", "compact", NULL}, "activations=compact;",
        "--activations compact: the run in c has compact-pruned", 0, 0, NULL},
    {"of newer presets", {"--resume", "c", NULL}, "presets=3;activations=compact;",
        "c: the setting 'presets=3' is unknown; a newer resmlp-train", 0, 0, NULL},
    {"of presets without sense", {"--resume", "c", NULL}, "presets=;activations=compact;",
        "c: the setting 'presets=' is unknown", 0, 0, NULL},
    {"before --criterion, given as it was", {"--resume", "c", "--criterion", "largest", NULL},
        "activations=paper;", NULL, CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32, "paper"},
    {"before --criterion, given otherwise", {"--resume", "c", "--criterion", "sampled", NULL},
        "activations=paper;", "--criterion sampled: the run in c has largest", 0, 0},
    {"before --values, given otherwise", {"--resume", "c", "--values", "int8", NULL},
        "activations=paper;criterion=largest;", "--values int8: the run in c has fp32", 0, 0},
    {"before --gelu-code, given otherwise", {"--resume", "c", "--gelu-code", "8", NULL},
        "activations=paper;", "--gelu-code 8: the run in c has 2", 0, 0},
    {"with --criterion random", {"--resume", "c", NULL}, "activations=paper;criterion=random;",
        NULL, CLPRUNE_CRITERION_RANDOM, CLPRUNE_VALUES_FP32, "paper"},
    {"before --code-bits, given otherwise", {"--resume", "c", "--code-bits", "8", NULL},
        "activations=paper;", "--code-bits 8: the run in c has 4", 0, 0, NULL},
    {"before --group, given otherwise", {"--resume", "c", "--group", "16", NULL},
        "activations=paper;", "--group 16: the run in c has 64", 0, 0, NULL},
    {"before --rounding, given otherwise", {"--resume", "c", "--rounding", "nearest", NULL},
        "activations=paper;", "--rounding nearest: the run in c has stochastic", 0, 0, NULL},
    {"before --pool, given otherwise", {"--resume", "c", "--pool", "3", NULL}, "activations=paper;",
        "--pool 3: the run in c has 2", 0, 0, NULL},
    {"of dense, with the --sparsity that it ignores",
        {"--resume", "c", "--activations", "dense", "--sparsity=0.7", NULL},
        "activations=dense;sparsity=0;criterion=largest;", NULL, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_FP32, "dense"},
    {"of paper, another --sparsity",
        {"--resume", "c", "--activations", "paper", "--sparsity=0.7", NULL},
        "activations=paper;sparsity=0.5;", "--sparsity 0.7: the run in c has 0.5", 0, 0, NULL},
    {"of --milestones written otherwise", {"--resume", "c", "--milestones", "0.50,.750", NULL},
        "activations=dense;schedule=step;milestones=0.5,0.75;", NULL, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_FP32, "dense"},
    {"of fewer --milestones", {"--resume", "c", "--milestones", "0.50", NULL},
        "activations=dense;schedule=step;milestones=0.5,0.75;",
        "--milestones 0.50: the run in c has 0.5,0.75", 0, 0, NULL},
    {"of a lower --train-limit", {"--resume", "c", "--train-limit", "10", NULL},
        "activations=dense;train-limit=9;", NULL, CLPRUNE_CRITERION_LARGEST, CLPRUNE_VALUES_FP32,
        "dense"},
    {"of a higher --train-limit", {"--resume", "c", "--train-limit", "8", NULL},
        "activations=dense;train-limit=9;", "--train-limit 8: the run in c has 9", 0, 0, NULL},
    {"of a newer program", {"--resume", "c", NULL}, "activations=paper;rotation=on;",
        "c: the setting 'rotation=on' is unknown; a newer resmlp-train", 0, 0},
};

static void version(void **state)
{
    const struct version_row *row = *state;
    options o;
    fault f = {0};
    const bool good = make_options(row->arguments, row->settings, &o, &f);
    if (row->message != NULL) {
        assert_false(good);
        assert_int_equal(f.code, strstr(row->message, "unknown") ? CODE_DATA : CODE_USAGE);
        if (strstr(f.text, row->message) == NULL)
            fail_msg("'%s' is not in '%s'", row->message, f.text);
    } else {
        assert_true(good);
        assert_int_equal(o.criterion, row->criterion);
        assert_int_equal(o.values, row->values);
        assert_string_equal(options_preset(&o), row->preset);
    }
    options_close(&o);
}

/* What a preset and --criterion say together. */
static const struct criterion_row {
    const char *name;
    const char *arguments[6];
    clprune_criterion want;
} criteria[] = {
    {"paper", {"--activations", "paper", NULL}, CLPRUNE_CRITERION_LARGEST},
    {"pruned", {"--activations", "pruned", NULL}, CLPRUNE_CRITERION_SAMPLED},
    {"compact-pruned", {"--activations", "compact-pruned", NULL}, CLPRUNE_CRITERION_SAMPLED},
    {"paper, sampled", {"--criterion", "sampled", "--activations", "paper", NULL},
        CLPRUNE_CRITERION_SAMPLED},
    {"pruned, largest", {"--activations", "pruned", "--criterion", "largest", NULL},
        CLPRUNE_CRITERION_LARGEST},
    {"pruned, random", {"--activations", "pruned", "--criterion", "random", NULL},
        CLPRUNE_CRITERION_RANDOM},
    {"dense", {NULL}, CLPRUNE_CRITERION_SAMPLED},
};

static void criterion(void **state)
{
    const struct criterion_row *row = *state;
    options o;
    fault f = {0};
    assert_true(make_options(row->arguments, NULL, &o, &f));
    assert_int_equal(o.criterion, row->want);
    options_close(&o);
}

/* How tensors are kept in a form, from options, and from a checkpoint that has them. */
static const struct form_row {
    const char *name;
    const char *arguments[6];
    const char *settings;
    unsigned bits, group;
    clprune_rounding rounding;
    unsigned cell, gelu_bits;
} form_rows[] = {
    {"by default", {NULL}, NULL, 4, 64, CLPRUNE_ROUNDING_STOCHASTIC, 2, 2},
    {"of an older program", {"--resume", "c", NULL}, "activations=compact;gelu-code=8;", 4, 64,
        CLPRUNE_ROUNDING_STOCHASTIC, 2, 8},
    {"8 bits, groups of 256",
        {"--activations", "quantised", "--code-bits", "8", "--group=256", NULL}, NULL, 8, 256,
        CLPRUNE_ROUNDING_STOCHASTIC, 2, 2},
    {"to nearest", {"--activations", "quantised", "--rounding", "nearest", "--group=16", NULL},
        NULL, 4, 16, CLPRUNE_ROUNDING_NEAREST, 2, 2},
    {"pooled", {"--activations", "pooled", "--pool", "3", NULL}, NULL, 4, 64,
        CLPRUNE_ROUNDING_STOCHASTIC, 3, 2},
    {"a checkpoint", {"--resume", "c", NULL},
        "activations=quantised;code-bits=2;group=48;rounding=nearest;pool=7;", 2, 48,
        CLPRUNE_ROUNDING_NEAREST, 7, 2},
};

static void forms(void **state)
{
    const struct form_row *row = *state;
    options o;
    fault f = {0};
    assert_true(make_options(row->arguments, row->settings, &o, &f));
    const clprune_keep keep = options_keep(&o, CLPRUNE_FORM_QUANTISED);
    const keep_how how = options_how(&o);
    assert_int_equal(keep.form, CLPRUNE_FORM_QUANTISED);
    assert_int_equal(keep.bits, row->bits);
    assert_int_equal(keep.group, row->group);
    assert_int_equal(keep.rounding, row->rounding);
    assert_int_equal(keep.cell, row->cell);
    assert_int_equal(how.keep.bits, row->bits);
    assert_int_equal(how.gelu_bits, row->gelu_bits);
    assert_int_equal(options_keep(&o, CLPRUNE_FORM_GELU_CODE).bits, row->gelu_bits);
    options_close(&o);
}

/* A model without codes lacks the option of their bits, and no other. */
static void no_codes(void **state)
{
    (void)state;
    static const char *const names[] = {"dense", NULL};
    keep_table keep = *resmlp_model.keep;
    trainer_model plain = resmlp_model;
    keep.preset_names = names;
    plain.keep = &keep;
    const size_t count = option_rows_count(&resmlp_model);
    const size_t left_out = option_index(&resmlp_model, "gelu-code", strlen("gelu-code"));
    assert_true(left_out < count);
    assert_int_equal(option_rows_count(&plain), count - 1);
    for (size_t i = 0; i < count - 1; ++i)
        assert_string_equal(
            option_row_at(&plain, i).name, option_row_at(&resmlp_model, i + (i >= left_out)).name);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof form_rows / sizeof form_rows[0]; i++)
        test_add(&list, forms, &form_rows[i], "forms: %s", form_rows[i].name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        test_add(&list, indices, &rows[i], "indices: %s", rows[i].name);
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        test_add(&list, version, &versions[i], "a checkpoint %s", versions[i].name);
    for (size_t i = 0; i < sizeof criteria / sizeof criteria[0]; i++)
        test_add(&list, criterion, &criteria[i], "criterion: %s", criteria[i].name);
    test_add(&list, no_codes, NULL, "a model without codes");
    return test_run_on_host("options", &list);
}
