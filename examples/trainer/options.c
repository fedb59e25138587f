#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"

enum {
    TEXT_MOST = 4096 + 64, /* of one "name=value" string: PATH_MAX and a name */
    LONG_OPTION = 256      /* + a row's position: what getopt_long returns for it, no character */
};

static size_t row_named(const char *name, size_t length)
{
    size_t i = 0;
    while (i < option_rows_count &&
           (strncmp(option_rows[i].name, name, length) != 0 || option_rows[i].name[length] != '\0'))
        ++i;
    return i; /* option_rows_count: there is none */
}

const option_row *option_row_named(const char *name)
{
    return &option_rows[row_named(name, strlen(name))];
}

bool options_given(const options *o, const char *name)
{
    return o->given[row_named(name, strlen(name))];
}

/* No position in options_indices: the preset decides. Checkpoints of versions without the option do
 * not name it. */
enum { INDICES_BY_PRESET = CLPRUNE_INDEX_SMALLEST + 1 };

static const options defaults = {
    .arch = 4, /* resmlp_tiny */
    .data = "generated",
    .sparsity = 0.5,
    .block = {1, 16},
    .criterion = CLPRUNE_CRITERION_SAMPLED,
    .indices = INDICES_BY_PRESET,
    .epochs = 10,
    .batch_size = 64,
    .optimizer = OPTIONS_ADAMW,
    .warmup_epochs = 1,
    .label_smoothing = 0.1,
    .seed = 1,
    .checkpoint_every = 1,
};

/* The usual strengths of each optimizer; LAMB's decay is that of the ResMLP paper. */
static void fill_by_optimizer(options *o)
{
    static const double lr[] = {0.05, 0.002, 0.005};
    static const double decay[] = {0.0005, 0.05, 0.2};
    if (!options_given(o, "lr"))
        o->lr = lr[o->optimizer];
    if (!options_given(o, "weight-decay"))
        o->weight_decay = decay[o->optimizer];
}

void options_settle(options *o)
{
    if (!keep_preset_prunes(o->activations))
        o->sparsity = 0;
    if (o->indices == INDICES_BY_PRESET)
        o->indices = keep_preset_index(o->activations);
}

static bool refuse(const char *what, const char *name, fault *f)
{
    return fault_set(f, CODE_USAGE, "%s '%s'; try --help", what, name);
}

static bool parse_all(int argc, char **argv, options *o, fault *f)
{
    /* Were they alike, getopt_long would take the first of several that an abbreviation fits. */
    struct option table[OPTIONS_MOST + 1] = {0};
    for (size_t i = 0; i < option_rows_count; ++i)
        table[i] = (struct option){option_rows[i].name,
            option_rows[i].kind == OPTION_FLAG ? no_argument : required_argument, NULL,
            LONG_OPTION + (int)i};
    opterr = 0;
    for (;;) {
        const int found = getopt_long(argc, argv, ":h", table, NULL);
        const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
        if (found == -1)
            break;
        if (found == 'h') {
            o->help = true;
            continue;
        }
        if (found == ':')
            return refuse("a value is missing after", word, f);
        if (found < LONG_OPTION) {
            if (optopt >= LONG_OPTION)
                return refuse("no value belongs to", word, f);
            if (optopt != 0) /* a short one, perhaps among others in the word */
                return fault_set(f, CODE_USAGE, "unknown option '-%c'; try --help", optopt);
            return refuse("unknown or ambiguous option", word, f);
        }
        const size_t index = (size_t)(found - LONG_OPTION);
        const option_row *row = &option_rows[index];
        if (!option_set(row, row->kind == OPTION_FLAG ? "1" : optarg, o, f))
            return false;
        o->given[index] = true;
    }
    if (optind < argc)
        return refuse("an argument that belongs to no option:", argv[optind], f);
    return true;
}

/* Whether --memory-limit decides on the preset. */
static bool chooses_preset(const options *o)
{
    return o->memory_limit != 0 && o->resume == NULL && !options_given(o, "activations");
}

/* Options that say how blocks are kept; those that a keep file may use where no preset does, or
 * not.
 */
static const struct {
    const char *name;
    bool always;
} pruning[] = {
    {"values", true}, {"indices", true}, {"block", false}, {"norm", false}, {"criterion", false}};

/* Options that make sense only together. */
static bool check_together(const options *o, fault *f)
{
    if (o->plan_csv != NULL && !o->plan)
        return fault_set(f, CODE_USAGE, "--plan-csv needs --plan");
    if (o->test_only && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--test-only needs --resume FILE");
    if (chooses_preset(o) && o->keep_file != NULL)
        return fault_set(f, CODE_USAGE, "--keep-file with --memory-limit needs --activations");
    if (chooses_preset(o))
        return true;
    if (o->resume == NULL && options_given(o, "sparsity") && !options_given(o, "activations"))
        return fault_set(f, CODE_USAGE, "--sparsity needs --activations paper or compact");
    for (size_t i = 0; i < sizeof pruning / sizeof *pruning; ++i)
        if (o->resume == NULL && options_given(o, pruning[i].name) &&
            !keep_preset_prunes(o->activations) && (pruning[i].always || o->keep_file == NULL))
            return fault_set(
                f, CODE_USAGE, "--%s needs --activations paper or compact", pruning[i].name);
    if (o->resume == NULL && options_given(o, "gelu-code") && !keep_preset_codes(o->activations))
        return fault_set(f, CODE_USAGE, "--gelu-code needs --activations compact");
    return true;
}

/* Where files go if not said: beside the checkpoint, else in a folder of the usual name; a run
 * limited by --steps is a trial and leaves none. */
static bool choose_folder(options *o, fault *f)
{
    if (o->output_dir != NULL || o->steps != 0 || o->test_only)
        return true;
    o->output_dir = "resmlp-out";
    if (o->resume == NULL)
        return true;
    const char *slash = strrchr(o->resume, '/');
    const size_t length = slash == NULL ? 1 : slash == o->resume ? 1 : (size_t)(slash - o->resume);
    o->folder = calloc(length + 1, 1);
    if (o->folder == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    memcpy(o->folder, slash == NULL ? "." : o->resume, length);
    o->output_dir = o->folder;
    return true;
}

bool options_parse(int argc, char **argv, options *o, fault *f)
{
    *o = defaults;
    if (!parse_all(argc, argv, o, f))
        return false;
    if (o->help || o->version || o->list_devices)
        return true;
    if (!check_together(o, f))
        return false;
    fill_by_optimizer(o);
    if (o->resume == NULL && !chooses_preset(o))
        options_settle(o);
    return choose_folder(o, f);
}

void options_close(options *o)
{
    free(o->restored);
    free(o->folder);
    free(o->keep_text);
    o->restored = NULL;
    o->folder = NULL;
    o->keep_text = NULL;
}

/* Prints words from column 30 on, in lines of at most 96. */
static void print_wrapped(FILE *file, const char *text)
{
    size_t column = 30;
    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        const bool first = column == 30, wrap = !first && column + 1 + word > 96;
        if (wrap)
            (void)fprintf(file, "\n%30s", "");
        (void)fprintf(file, "%s%.*s", first || wrap ? "" : " ", (int)word, text);
        column = wrap ? 30 + word : column + word + (first ? 0 : 1);
        text += word;
        text += strspn(text, " ");
    }
    (void)fputc('\n', file);
}

void options_print_help(FILE *file)
{
    (void)fputs("usage: resmlp-train [options]\n\n"
                "Trains a ResMLP on images, on any OpenCL device, with kept activations that are\n"
                "dense, pruned in blocks (arXiv 2311.16883), or few and the rest recomputed.\n\n",
        file);
    for (size_t i = 0; i < option_rows_count; ++i) {
        const option_row *row = &option_rows[i];
        char left[64];
        (void)snprintf(left, sizeof left, "  --%s%s%s", row->name, row->value == NULL ? "" : " ",
            row->value == NULL ? "" : row->value);
        (void)fprintf(file, "%-29s ", left);
        print_wrapped(file, row->help);
    }
    (void)fputs("\nexit codes: 0 ok, 1 failure at run time, 2 bad option or variable, 3 no OpenCL\n"
                "device, 4 bad data or file, 5 out of memory, 6 diverged (the loss is no number);\n"
                "130 and 143 after SIGINT and SIGTERM, which finish the step and save a\n"
                "checkpoint first (a second one quits at once)\n\n"
                "environment: CLPRUNE_DEVICE, CLPRUNE_MEM_LIMIT (bytes; K, M, G), "
                "CLPRUNE_CACHE_DIR,\nCLPRUNE_TUNING (a file of clprune-tune)\n",
        file);
}

bool options_save(const options *o, char **text, size_t *size, fault *f)
{
    char *out = malloc(option_rows_count * TEXT_MOST);
    size_t used = 0;
    if (out == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; i < option_rows_count; ++i) {
        const option_row *row = &option_rows[i];
        char value[TEXT_MOST - 32];
        if (row->memory == OPTION_FORGET)
            continue;
        option_print(row, o, value, sizeof value);
        used += (size_t)snprintf(out + used, TEXT_MOST, "%s=%s", row->name, value) + 1;
    }
    *text = out;
    *size = used;
    return true;
}

/* What runs were before there was an option for it: checkpoints of programs that old do not name
 * it. */
static const struct {
    const char *name, *value;
} before[] = {{"criterion", "largest"}, {"values", "fp32"}, {"gelu-code", "2"}};

static bool restore_value(options *o, size_t index, const char *value, fault *f)
{
    const option_row *row = &option_rows[index];
    if (!o->given[index]) {
        /* 0 stands for "not limited", which no option can say */
        if (row->kind == OPTION_COUNT && row->low > 0 && strcmp(value, "0") == 0)
            return true;
        return option_set(row, value, o, f);
    }
    char now[TEXT_MOST - 32];
    option_print(row, o, now, sizeof now);
    if (row->memory == OPTION_MATCH && strcmp(now, value) != 0)
        return fault_set(f, CODE_USAGE,
            "--%s %s: the run in %s has %s; leave it out, or train anew", row->name, now, o->resume,
            value);
    return true;
}

static bool restore_one(options *o, const char *text, bool seen[OPTIONS_MOST], fault *f)
{
    const char *value = strchr(text, '=');
    if (value == NULL)
        return fault_set(f, CODE_DATA, "%s: '%s' is no setting", o->resume, text);
    const size_t index = row_named(text, (size_t)(value - text));
    if (index == option_rows_count)
        return fault_set(f, CODE_DATA,
            "%s: the setting '%s' is unknown; a newer resmlp-train may have written it", o->resume,
            text);
    seen[index] = true;
    return restore_value(o, index, value + 1, f);
}

bool options_restore(options *o, const char *text, size_t size, fault *f)
{
    if (size == 0 || text[size - 1] != '\0')
        return fault_set(f, CODE_DATA, "%s: its settings are not ended", o->resume);
    o->restored = malloc(size);
    if (o->restored == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    memcpy(o->restored, text, size);
    bool seen[OPTIONS_MOST] = {false};
    for (const char *p = o->restored; p < o->restored + size; p += strlen(p) + 1)
        if (!restore_one(o, p, seen, f))
            return false;
    for (size_t i = 0; i < sizeof before / sizeof *before; ++i) {
        const size_t index = row_named(before[i].name, strlen(before[i].name));
        if (!seen[index] && !restore_value(o, index, before[i].value, f))
            return false;
    }
    options_settle(o);
    return true;
}
