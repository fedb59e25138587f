#include "trainer/options/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/learning_rate.h"
#include "trainer/base/param_rates.h"
#include "trainer/files/plain_file.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/options_table.h"

enum { LONG_OPTION = 256 }; /* + a row's position: what getopt_long returns for it, no character */

static size_t index_named(const options *o, const char *name)
{
    return option_index(o->model, name, strlen(name));
}

bool options_given(const options *o, const char *name)
{
    const size_t index = index_named(o, name);
    return index < OPTIONS_MOST && o->given[index];
}

const char *options_preset(const options *o)
{
    return keep_presets[o->activations].name;
}

static const options defaults = {
    .data = "generated",
    .sparsity = 0.5,
    .block = {1, 16},
    .criterion = OPTIONS_UNSET, /* the preset's */
    .centre = OPTIONS_UNSET,    /* likewise */
    .indices = OPTIONS_UNSET,   /* likewise */
    .precision = OPTIONS_UNSET,
    .code_bits = 1, /* 4 */
    .group = 3,     /* 64 */
    .rounding = CLPRUNE_ROUNDING_STOCHASTIC,
    .pool = 2,
    .gradient_draws = 1,
    .epochs = 10,
    .batch_size = 64,
    .micro_batches = 1,
    .ranks = RANKS_ALONE,
    .peer_timeout = 60,
    .temperature = 0.8,
    .top_p = 1,
    .warmup_epochs = 1,
    .milestones = "0.5,0.75",
    .points = "0:0,0.25:1,1:0",
    .momentum = 0.9,
    .label_smoothing = 0.1,
    .seed = 1,
    .checkpoint_every = 1,
    .test_every = 1,
};

options options_defaults(const trainer_model *model)
{
    options o = defaults;
    o.model = model;
    o.arch = model->arch;
    while (strcmp(options_optimizers()[o.optimizer], OPTIONS_OPTIMIZER) != 0)
        o.optimizer++;
    for (const char *const(*d)[2] = model->defaults; d != NULL && (*d)[0] != NULL; ++d) {
        const option_row row = option_row_at(model, index_named(&o, (*d)[0]));
        fault ignored = {0};
        (void)option_set(&row, (*d)[1], &o, &ignored);
    }
    return o;
}

/* The optimizer's learning rate and weight decay, or those that the model has for the default
 * optimizer. */
static void fill_by_optimizer(options *o)
{
    const clprune_optimizer_info info = clprune_optimizer_describe(o->optimizer);
    const bool own = strncmp(info.name, OPTIONS_OPTIMIZER, strlen(OPTIONS_OPTIMIZER)) == 0;
    if (!options_given(o, "lr") && !(own && option_own_default(o->model, "lr") != NULL))
        o->lr = info.lr;
    if (!options_given(o, "weight-decay") &&
        !(own && option_own_default(o->model, "weight-decay") != NULL))
        o->weight_decay = info.weight_decay;
}

void options_settle(options *o)
{
    const keep_preset *preset = &keep_presets[o->activations];
    if (!keep_preset_has(o->activations, KEEP_PRUNED))
        o->sparsity = 0;
    if (o->criterion == OPTIONS_UNSET)
        o->criterion = preset->criterion;
    if (o->centre == OPTIONS_UNSET)
        o->centre =
            preset->criterion == CLPRUNE_CRITERION_SAMPLED ? o->model->centre : CLPRUNE_CENTRE_NONE;
    if (o->indices == OPTIONS_UNSET)
        o->indices = options_index_choice(preset->index_type);
}

static bool refuse(const char *what, const char *name, fault *f)
{
    return fault_set(f, CODE_USAGE, "%s '%s'; try --help", what, name);
}

static bool parse_all(int argc, char **argv, options *o, fault *f)
{
    /* Each option has a value of its own: with equal ones, getopt_long would take the first of
     * several options that an abbreviation fits. */
    struct option table[OPTIONS_MOST + 1] = {0};
    const size_t count = option_rows_count(o->model);
    for (size_t i = 0; i < count; ++i) {
        const option_row row = option_row_at(o->model, i);
        table[i] = (struct option){row.name,
            row.kind == OPTION_FLAG ? no_argument : required_argument, NULL, LONG_OPTION + (int)i};
    }
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
        const option_row row = option_row_at(o->model, index);
        if (!option_set(&row, row.kind == OPTION_FLAG ? "1" : optarg, o, f))
            return false;
        o->given[index] = true;
    }
    if (optind < argc)
        return refuse("an argument that belongs to no option:", argv[optind], f);
    return true;
}

/* Whether --memory-limit chooses the preset, from the model's ladder. */
static bool chooses_preset(const options *o)
{
    return o->memory_limit != 0 && o->resume == NULL && !options_given(o, "activations");
}

/* Whether an option has an effect in the run's preset, or in one that --memory-limit may choose. */
static bool fits_preset(const options *o, option_needs needs)
{
    if (!chooses_preset(o))
        return option_preset_fits(o->activations, needs);
    for (size_t i = 0; i < KEEP_RUNGS; ++i)
        if (option_preset_fits(keep_preset_named(keep_ladder[i].preset), needs))
            return true;
    return false;
}

/* Fails if a given option has no effect in the run. --sparsity may go with any --activations that
 * was given: presets that prune nothing ignore it. */
static bool check_needs(const options *o, const option_row *row, fault *f)
{
    const bool sparsity = strcmp(row->name, "sparsity") == 0;
    char needed[320];
    if (row->needs == NEEDS_NOTHING || (sparsity && options_given(o, "activations")))
        return true;
    if (row->needs == NEEDS_POOLING_OR_FILE && o->centre == CLPRUNE_CENTRE_CELLS &&
        keep_preset_has(o->activations, KEEP_PRUNED))
        return true;
    if (fits_preset(o, row->needs) || (option_takes_file(row->needs) && o->keep_file != NULL))
        return true;
    option_needed(row->needs, needed, sizeof needed);
    return fault_set(f, CODE_USAGE, "--%s needs %s", row->name, needed);
}

/* Refuses what contradicts a preset that chooses by measured errors: it sets the strength of each
 * form. */
static bool check_chooser(const options *o, fault *f)
{
    static const char *const chosen[] = {
        "sparsity", "values", "code-bits", "pool", "gelu-code", "store"};
    const char *name = options_preset(o);
    if (o->resume != NULL)
        return true;
    if (o->memory_limit == 0)
        return fault_set(f, CODE_USAGE, "--activations %s needs --memory-limit", name);
    if (o->keep_file != NULL)
        return fault_set(f, CODE_USAGE,
            "--keep-file cannot override --activations %s, which chooses all tensors; a file that "
            "it wrote goes with --activations exact",
            name);
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; ++i)
        if (options_given(o, chosen[i]))
            return fault_set(f, CODE_USAGE, "--%s is chosen by --activations %s", chosen[i], name);
    return true;
}

/* Refuses options in `names`, which ends with NULL, beside the option `with`. */
static bool check_apart(const options *o, const char *with, const char *const *names, fault *f)
{
    const bool given = options_given(o, with);
    for (; given && *names != NULL; ++names)
        if (options_given(o, *names))
            return fault_set(f, CODE_USAGE, "--%s does not go with --%s", *names, with);
    return true;
}

static bool check_micro_batches(const options *o, fault *f)
{
    return o->micro_batches <= o->batch_size ||
           fault_set(f, CODE_USAGE, "--micro-batches: more than the %" PRIu64 " samples of a batch",
               o->batch_size);
}

/* Not of a checkpoint's: there --optimizer is not known yet, and settings of sgd cannot change. */
static bool check_sgd(const options *o, fault *f)
{
    static const char *const names[] = {"momentum", "nesterov"};
    const clprune_optimizer_desc desc = clprune_optimizer_describe(o->optimizer).desc;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (o->resume == NULL && options_given(o, names[i]) && desc.kind != CLPRUNE_OPTIMIZER_SGD)
            return fault_set(f, CODE_USAGE, "--%s needs --optimizer sgd", names[i]);
    if (o->resume == NULL && o->beta2 > 0 && desc.kind == CLPRUNE_OPTIMIZER_SGD)
        return fault_set(f, CODE_USAGE, "--beta2 does not go with --optimizer sgd");
    return !o->nesterov || o->momentum > 0 ||
           fault_set(f, CODE_USAGE, "--nesterov needs --momentum above 0");
}

/* Options that make sense only together. */
static bool check_together(const options *o, fault *f)
{
    static const char *const of_runs[] = {"export", "adapters", "gradient-check", "memory-report",
        "sample", "summary-json", "tensorboard", NULL};
    static const char *const of_augment[] = {"rand-augment", "erase", "mixup", "cutmix", NULL};
    static const char *const of_samples[] = {"prompt", "temperature", "top-p", NULL};
    static const char *const of_training[] = {
        "output-dir", "overwrite", "tensorboard", "best", "patience", NULL};
    if (o->early_update && o->gradient_check > 0)
        return fault_set(f, CODE_USAGE, "--gradient-check does not go with --early-update");
    if (o->resume == NULL && !check_micro_batches(o, f))
        return false;
    if (o->rotate != 0 && options_quantised_bits(o) == 16)
        return fault_set(f, CODE_USAGE, "--rotate yes does not go with --code-bits 16");
    if (o->adapters != NULL && o->lora == NULL && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--adapters needs --lora");
    if (o->lora_alpha > 0 && o->lora == NULL && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--lora-alpha needs --lora");
    if (o->rslora && o->lora_alpha <= 0 && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--rslora needs --lora-alpha");
    if (o->lora_dropout > 0 && o->lora == NULL && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--lora-dropout needs --lora");
    if (o->base_bits != 0 && o->lora == NULL && o->train == NULL && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--base-bits needs --lora or --train");
    if (o->processes > 0 && !o->plan)
        return fault_set(f, CODE_USAGE, "--processes needs --plan; mpirun starts them");
    if (o->plan_csv != NULL && !o->plan)
        return fault_set(f, CODE_USAGE, "--plan-csv needs --plan");
    if (o->plan_device != 0 && !o->plan)
        return fault_set(f, CODE_USAGE, "--plan-device needs --plan");
    if (!check_apart(o, "plan", of_runs, f) || !check_apart(o, "test-only", of_training, f))
        return false;
    if (o->gradient_draws > 1 && o->gradient_check == 0)
        return fault_set(f, CODE_USAGE, "--gradient-draws needs --gradient-check");
    if (o->chat != 0 && o->model_folder == NULL && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--chat yes needs --model, which has the template");
    learning_rate rate;
    if (options_given(o, "milestones") && o->schedule != OPTIONS_STEP && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--milestones needs --schedule step");
    for (size_t i = 0; o->sample == 0 && of_samples[i] != NULL; ++i)
        if (options_given(o, of_samples[i]))
            return fault_set(f, CODE_USAGE, "--%s needs --sample", of_samples[i]);
    if (o->resume == NULL && !check_apart(o, "no-augment", of_augment, f))
        return false;
    if (o->lookahead > 0 && o->ema > 0)
        return fault_set(f, CODE_USAGE, "--ema does not go with --lookahead");
    if (options_given(o, "points") && o->schedule != OPTIONS_LINEAR && o->resume == NULL)
        return fault_set(f, CODE_USAGE, "--points needs --schedule linear");
    if (!learning_rate_milestones(o->milestones, &rate, f) ||
        !learning_rate_points(o->points, &rate, f) || !param_rates_check(o->rates, f) ||
        !check_sgd(o, f))
        return false;
    if (o->import_file != NULL && o->resume != NULL)
        return fault_set(f, CODE_USAGE, "--import and --resume: the checkpoint has the weights");
    if (o->test_only && o->resume == NULL && o->import_file == NULL)
        return fault_set(f, CODE_USAGE, "--test-only needs --resume FILE or --import FILE");
    if (chooses_preset(o) && o->keep_file != NULL)
        return fault_set(f, CODE_USAGE, "--keep-file with --memory-limit needs --activations");
    if (keep_preset_chooses(o->activations))
        return check_chooser(o, f);
    const size_t count = option_rows_count(o->model);
    for (size_t i = 0; o->resume == NULL && i < count; ++i) {
        if (!o->given[i])
            continue;
        const option_row row = option_row_at(o->model, i);
        if (!check_needs(o, &row, f))
            return false;
    }
    return true;
}

/* Options of this process that need another one, which the run in the checkpoint lacks or has. */
static bool check_restored(const options *o, fault *f)
{
    if (o->early_update && o->gradient_check > 0)
        return fault_set(f, CODE_USAGE,
            "--gradient-check does not go with --early-update, which the run in %s has", o->resume);
    if (options_given(o, "milestones") && o->schedule != OPTIONS_STEP)
        return fault_set(f, CODE_USAGE,
            "--milestones needs --schedule step, which the run in %s lacks", o->resume);
    if (options_given(o, "points") && o->schedule != OPTIONS_LINEAR)
        return fault_set(f, CODE_USAGE,
            "--points needs --schedule linear, which the run in %s lacks", o->resume);
    /* --memory-limit may have chosen a smaller batch */
    return (!options_given(o, "micro-batches") || check_micro_batches(o, f)) &&
           (o->adapters == NULL || o->lora != NULL ||
               fault_set(
                   f, CODE_USAGE, "--adapters needs --lora, which the run in %s lacks", o->resume));
}

static bool check_warmup(const options *o, fault *f)
{
    return o->warmup_epochs <= (double)o->epochs ||
           fault_set(f, CODE_USAGE, "--warmup-epochs %g: more than --epochs, %" PRIu64,
               o->warmup_epochs, o->epochs);
}

bool options_check_restored(const options *o, fault *f)
{
    return check_restored(o, f) && check_warmup(o, f);
}

bool options_right_without(const options *o, const char *name)
{
    options less = *o;
    fault ignored = {0};
    less.given[index_named(o, name)] = false;
    return check_together(&less, &ignored);
}

/* The folder of a run without --output-dir: the checkpoint's, else a new one. A run with --steps or
 * --test-only has none. */
static bool choose_folder(options *o, fault *f)
{
    if (o->output_dir != NULL || o->steps != 0 || o->test_only)
        return true;
    o->new_folder = o->resume == NULL;
    if (o->new_folder)
        return true;
    o->folder = folder_of(o->resume);
    if (o->folder == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    o->output_dir = o->folder;
    return true;
}

/* --model: the last architecture, and what --import begins with. */
static bool take_folder(options *o, fault *f)
{
    if (options_given(o, "arch"))
        return fault_set(f, CODE_USAGE, "--model does not go with --arch");
    while (o->model->archs[o->arch + 1] != NULL)
        ++o->arch;
    if (o->import_file == NULL && o->resume == NULL)
        o->import_file = o->model_folder;
    return true;
}

bool options_parse(const trainer_model *model, int argc, char **argv, options *o, fault *f)
{
    *o = options_defaults(model);
    if (!parse_all(argc, argv, o, f))
        return false;
    if (o->help || o->version || o->list_devices)
        return true;
    if (o->model_folder != NULL && !take_folder(o, f))
        return false;
    if (!check_together(o, f) || (o->resume == NULL && !check_warmup(o, f)))
        return false;
    fill_by_optimizer(o);
    if (o->early_update && !options_given(o, "clip-norm"))
        o->clip_norm = 0; /* a resumed run has its own */
    if (o->resume == NULL && !chooses_preset(o))
        options_settle(o);
    return choose_folder(o, f);
}

void options_close(options *o)
{
    free(o->restored);
    free(o->before);
    free(o->folder);
    free(o->keep_text);
    o->restored = NULL;
    o->before = NULL;
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

void options_print_help(const trainer_model *model, FILE *file)
{
    (void)fprintf(file, "usage: %s [options]\n\n%s\n", model->program, model->about);
    for (size_t i = 0; i < option_rows_count(model); ++i) {
        const option_row row = option_row_at(model, i);
        char left[64], help[2048];
        option_help(model, &row, help, sizeof help);
        (void)snprintf(left, sizeof left, "  --%s%s%s", row.name, row.value == NULL ? "" : " ",
            row.value == NULL ? "" : row.value);
        (void)fprintf(file, "%-29s ", left);
        print_wrapped(file, help);
    }
    (void)fputs(
        "\nexit codes: 0 success, 1 failure at run time, 2 bad option or environment variable,\n"
        "3 no OpenCL device, 4 bad data or file, 5 out of memory, 6 diverged (the loss is\n"
        "not finite), 7 another process of the run is lost. SIGINT, SIGTERM, SIGHUP and\n"
        "SIGXCPU finish the step, save a checkpoint and exit with 130, 143, 129 and 152;\n"
        "another signal, a second or more later, quits at once. SIGUSR1 saves a checkpoint\n"
        "after the step, and the run goes on.\n\n"
        "environment: CLPRUNE_DEVICE, CLPRUNE_MEM_LIMIT (bytes; K, M, G), CLPRUNE_CACHE_DIR,\n"
        "CLPRUNE_CACHE_LIMIT (bytes), CLPRUNE_TUNING (a file of clprune-tune),\n"
        "CLPRUNE_PRECISION (fp32, tf32, bf16), CLPRUNE_VERBOSE (1 or 2: calls on stderr)\n",
        file);
}
