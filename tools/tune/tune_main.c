/* clprune-tune: searches the parameters of the kernels on a device, and writes them as a file for
 * CLPRUNE_TUNING.
 *
 * Every candidate runs in a new context that reads it from a temporary file, so the measurement is
 * of what the library will do. The search starts from CLPRUNE_TUNING if that is set. */
#include "tune.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/base/stop.h"

/* Static for cleaning up at exit. */
static tune state = {
    .ops = {{.name = "gemm",
                .kind = KIND_GEMM,
                .vector = {"gemm"},
                .tiled = {"gemm"},
                .bf16 = {"gemm_bf16"}},
        {.name = "bspmm-tn",
            .kind = KIND_TN,
            .vector = {"bspmm_tn"},
            .tiled = {"tiled_tn"},
            .bf16 = {"bspmm_tn_bf16"},
            .mma = {"mma_tn"}},
        {.name = "bspmm-nt",
            .kind = KIND_NT,
            .vector = {"bspmm_nt"},
            .tiled = {"tiled_nt"},
            .bf16 = {"bspmm_nt_bf16"},
            .mma = {"mma_nt"}},
        {.name = "blast",
            .kind = KIND_GEMM,
            .blast = true,
            .vector = {"clblast", "clblast.Xgemm"},
            .tiled = {"clblast", "clblast.Xgemm"}}},
};

static void usage(FILE *stream)
{
    fputs("usage: clprune-tune [options]\n"
          "  --op NAME       gemm, bspmm-tn, bspmm-nt, blast, or all that the device uses (all)\n"
          "  --quick         few shapes, coarse steps, 30 seconds per operation\n"
          "  --precision P   fp32 (the default); bf16 tunes its products on CPUs; tf32 and bf16\n"
          "                  those on tensor cores\n"
          "  --time SECONDS  search time for each operation (600)\n"
          "  --output FILE   file for the row, replaced as a whole at the end (stdout); rows of\n"
          "                  other devices that it has are kept\n"
          "  --c             also print the row as C source for the built-in table\n"
          "  --device TEXT   \"platform:device\" or part of a name; default $CLPRUNE_DEVICE\n"
          "  -h, --help\n"
          "  --version\n"
          "The search starts from the file in $CLPRUNE_TUNING, if set, and keeps what differs\n"
          "from the built-in row in other operations. Progress goes to stderr.\n"
          "SIGINT, SIGTERM and SIGHUP end the search, write the best row so far and exit\n"
          "with 130, 143 and 129; another signal, a second or more later, quits at once.\n",
        stream);
}

static void remove_temporary(void)
{
    if (state.folder[0] == '\0')
        return;
    (void)unlink(state.file);
    (void)rmdir(state.folder);
}

static void make_temporary(tune *t)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(t->folder, sizeof t->folder, "%.200s/clprune-tune-XXXXXX",
        base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(t->folder) == NULL) {
        perror("clprune-tune: a temporary folder");
        t->folder[0] = '\0';
        exit(EXIT_RUN);
    }
    (void)snprintf(t->file, sizeof t->file, "%s/row.txt", t->folder);
    const char *debug = getenv("CLPRUNE_DEBUG");
    const char *given = debug != NULL ? debug : "", *comma = given[0] != '\0' ? "," : "";
    (void)snprintf(t->debug_vector, sizeof t->debug_vector, "%.250s%sgemm=vector", given, comma);
    (void)snprintf(t->debug_blast, sizeof t->debug_blast, "%.250s%sgemm=clblast", given, comma);
    (void)atexit(remove_temporary);
    stop_before_end(remove_temporary); /* unlink and rmdir: safe in a handler */
    stop_hold(true);
    stop_install();
}

static void read_row(const clprune_context *context, tune *t, tune_row *row)
{
    CHECK(context, clprune_context_tuning(context, MAX_PARAMETERS, t->parameters, &t->count));
    if (t->count > MAX_PARAMETERS)
        tool_fail(context, CLPRUNE_INTERNAL_ERROR);
    memset(row, 0, sizeof *row);
    for (size_t i = 0; i < t->count; i++) {
        row->values[i] = t->parameters[i].value;
        row->is_set[i] = t->parameters[i].is_set != 0;
    }
}

static void say_start(const tune *t, const clprune_context *start)
{
    fprintf(stderr, "device %s, driver %s, from %s\n", t->device, t->driver,
        clprune_context_tuning_source(start));
}

/* Opens the context with the built-in row; reads the row that the environment selects, and says
 * where the search starts. */
static void open_device(tune *t, const char *device)
{
    const char *text = getenv("CLPRUNE_TUNING");
    char *given = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
    const clprune_context_options options = {.device = device, .precision = t->precision};
    clprune_context *start = NULL;
    (void)unsetenv("CLPRUNE_TUNING");
    CHECK(NULL, clprune_context_create(NULL, &options, &t->base));
    if (t->precision != CLPRUNE_PRECISION_DEFAULT &&
        t->precision != clprune_context_precision(t->base))
        tool_quit(EXIT_DEVICE, "--precision: the device does not have it");
    t->precision = clprune_context_precision(t->base); /* $CLPRUNE_PRECISION */
    const clprune_device_info facts = clprune_context_device_info(t->base);
    memcpy(t->device, facts.device, sizeof t->device);
    memcpy(t->driver, facts.driver, sizeof t->driver);
    if (given != NULL) {
        (void)setenv("CLPRUNE_TUNING", given, 1);
        CHECK(NULL, clprune_context_create(clprune_context_queue(t->base), NULL, &start));
        read_row(start, t, &t->best);
        say_start(t, start);
        clprune_context_destroy(start);
        (void)unsetenv("CLPRUNE_TUNING");
        free(given);
    }
    read_row(t->base, t, &t->built_in);
    if (start == NULL) {
        t->best = t->built_in;
        say_start(t, t->base);
    }
}

/* The dense engine of this device: CLBlast or the vector kernel. */
static bool uses_blast(const tune *t)
{
    const char *debug = getenv("CLPRUNE_DEBUG");
    if (debug != NULL && strstr(debug, "gemm=clblast") != NULL)
        return true;
    if (debug != NULL && strstr(debug, "gemm=vector") != NULL)
        return false;
    return clprune_context_kernels(t->base) == CLPRUNE_KERNELS_TILED;
}

static bool is_asked_for(const tune *t, const tune_op *op, const char *name, bool blast)
{
    if (strcmp(name, "all") != 0)
        return strcmp(name, op->name) == 0;
    if (t->precision != CLPRUNE_PRECISION_FP32)
        return tune_sections(t, op) == op->bf16 || op->mma[0] != NULL;
    return op->kind != KIND_GEMM || op->blast == blast;
}

static double parse_seconds(const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0.0 && value <= 1e6))
        tool_quit(EXIT_USAGE, "--time: \"%s\" is not a number of seconds", text);
    return value;
}

/* What the command line says besides the fields of `tune`. */
typedef struct arguments {
    const char *device, *output, *name;
    bool print_c;
} arguments;

static const struct option long_options[] = {{"op", required_argument, NULL, 'o'},
    {"quick", no_argument, NULL, 'q'}, {"time", required_argument, NULL, 't'},
    {"output", required_argument, NULL, 'f'}, {"c", no_argument, NULL, 'c'},
    {"device", required_argument, NULL, 'd'}, {"precision", required_argument, NULL, 'p'},
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'v'}, {NULL, 0, NULL, 0}};

static void check_arguments(const tune *t, const arguments *a, const char *unexpected)
{
    bool known = strcmp(a->name, "all") == 0;
    for (size_t i = 0; i < OPS; i++)
        known = known || strcmp(a->name, t->ops[i].name) == 0;
    if (!known)
        tool_quit(
            EXIT_USAGE, "--op: \"%s\" is not gemm, bspmm-tn, bspmm-nt, blast or all", a->name);
    if (unexpected != NULL)
        tool_quit(EXIT_USAGE, "unexpected argument \"%s\"", unexpected);
}

/* Ends the program on an error and on --help. */
static void parse(int argc, char **argv, tune *t, arguments *a)
{
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case 'o':
            a->name = optarg;
            break;
        case 'q':
            t->quick = true;
            break;
        case 't':
            t->seconds = parse_seconds(optarg);
            break;
        case 'f':
            a->output = optarg;
            break;
        case 'c':
            a->print_c = true;
            break;
        case 'd':
            a->device = optarg;
            break;
        case 'p':
            t->precision = parse_precision(optarg);
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        case 'v':
            printf("clprune-tune (clprune) %s\n", CLPRUNE_VERSION);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_USAGE);
        }
    }
    check_arguments(t, a, argv[optind]);
    if (t->seconds == 0.0)
        t->seconds = t->quick ? 30.0 : 600.0;
}

/* Searches and writes; the exit code. */
static int run(tune *t, const arguments *a)
{
    if (!tune_write_output(t, a->output, true))
        return EXIT_RUN;
    make_temporary(t);
    open_device(t, a->device);
    const bool blast = uses_blast(t);
    unsigned timed = 0;
    for (size_t i = 0; i < OPS && stop_signal() == 0; i++)
        if (is_asked_for(t, &t->ops[i], a->name, blast)) {
            tune_search(t, &t->ops[i]);
            timed += t->ops[i].timed;
        }
    if (timed == 0) {
        const int signal = stop_signal();
        fprintf(stderr, "clprune-tune: no candidate was timed%s, so no row is written%s\n",
            signal != 0 ? " before the signal" : "", signal != 0 ? "" : "; give a longer --time");
        clprune_context_destroy(t->base);
        return signal != 0 ? 128 + signal : EXIT_RUN;
    }
    const bool written = tune_write_output(t, a->output, false);
    if (!written && a->output != NULL) /* the search is not lost */
        tune_write_file(stdout, t, &t->best, NULL, NULL);
    if (a->print_c)
        tune_write_c(stdout, t, &t->best);
    clprune_context_destroy(t->base);
    return !written ? EXIT_RUN : stop_signal() != 0 ? 128 + stop_signal() : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    arguments given = {.name = "all"};
    tool_begin("clprune-tune");
    parse(argc, argv, &state, &given);
    return run(&state, &given);
}
