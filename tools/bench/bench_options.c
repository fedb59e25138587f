/* bench_options.c: the command line: operations, lists and ranges of the numeric options. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/open_output.h"

static void usage(FILE *stream)
{
    fputs("usage: clprune-bench OPERATION... [options]\n"
          "       clprune-bench figures --output-dir DIR [options]\n"
          "operations, with their forms:\n"
          "  gemm          nt  y = x * w^T       nn  dx = dy * w      tn  dw = dy^T * x\n"
          "  gemm-batched  nn  y_n = w * x_n     tn  dx_n = w^T * dy_n   (token layer)\n"
          "  bspmm         tn  dw = dy^T * xs    nn  y = xs * w\n"
          "                nt  dw = sum_n dy_n * xs_n^T                  (token layer)\n"
          "  stored-bf16, stored-8, stored-4, stored-nf4\n"
          "                nt nn  as gemm, from a frozen w of bf16, of codes of 8 or 4 bits, or "
          "NF4;\n"
          "                dense_ms is gemm\n"
          "  quantised-2, quantised-4, quantised-8, pooled\n"
          "                tn nt  dw as with bspmm, from codes of 2, 4 or 8 bits or from means\n"
          "                of cells of 2 x 2 rows; dense_ms is the product from a dense store\n"
          "  prune unpack  dense to BSR and back\n"
          "  linear        step  forward, prune and backward of clprune_linear\n"
          "                forward  forward and prune; dense_ms is the forward pass alone\n"
          "  gelu affine layerscale patch_embed token_mean attention cross_entropy\n"
          "                forward, backward; attention has heads of 64 features\n"
          "  batch_norm    moments, forward, residual, sums, input: the passes over channels-last\n"
          "                images; residual is forward with one, sums and input are backward\n"
          "  max_pool      forward, backward: 3 x 3 taps, stride 2, positions kept\n"
          "  optimizer     a form each, such as adamw or, of 8 bits, adamw8: a step of an O x I\n"
          "                weight, its bias\n"
          "  conv          forward, dx, dw, and dw from an input kept as pruned, pooled-2,\n"
          "                pooled-4, quantised-4; dense_ms is dw from a dense store;\n"
          "                forward-bf16: from an x of bf16 where --precision takes it\n"
          "  depthwise     forward, dx, dw: a convolution of I groups\n"
          "  all           all of them\n",
        stream);
    fputs("options; those with a * take lists and ranges (4,16,64 or first:last:step), and the\n"
          "cases are their product:\n"
          "  --form LIST    forms to run (all of the operation)\n"
          "  --batch N *    samples (32)\n"
          "  --tokens T *   rows of one sample (196)\n"
          "  --rows R *     rows of all samples, instead of --tokens: T = R / N\n"
          "  --in I *       features of x (384)\n"
          "  --out O *      outputs (1536); of the token layer: output tokens, with the T tokens\n"
          "                 as its inputs and I features, so that bspmm nt reduces over N * I;\n"
          "                 classes of cross_entropy; features that patch_embed makes of patches\n"
          "                 of 3 x 16 x 16\n"
          "  --block B *    blocks of 1 x B (16)\n"
          "  --sparsity S * from 0 to 1 (0.5,0.7,0.9)\n"
          "  --image P *    pixels per side of images (56)\n"
          "  --kernel K *   taps per side (3); the padding is K / 2\n"
          "  --stride S *   of a convolution (1)\n"
          "  --repeat N     repetitions behind a median (11)\n"
          "  --precision P  operand precision of products:\n"
          "                 fp32 (the default), tf32 or bf16; the report has the one in use\n"
          "  --device TEXT  \"platform:device\" or part of a name\n"
          "  --json FILE    one object a line instead of the table; - is stdout. rows is the\n"
          "                 total, ms and all other times are medians, null is not applicable\n"
          "  --output-dir DIR   of the figures: CSV, JSON lines, gnuplot scripts and plots;\n"
          "                 --batch, --block and --sparsity replace the paper's values\n"
          "  -h, --help\n"
          "  --version\n",
        stream);
}

static _Noreturn void bad_value(const char *option, const char *text, const char *rule)
{
    tool_quit(EXIT_USAGE, "--%s: \"%s\" is not %s", option, text, rule);
}

/* The values that an option allows, and its default ones. */
typedef struct value_rule {
    const char *option;
    bool whole;
    double low, high;
    const char *text;
    bench_list usual;
} value_rule;

static const char count_text[] = "a count from 1 to 2^30";

static const value_rule axis_rules[AXES] = {
    [AXIS_BATCH] = {"batch", true, 1.0, 0x1p30, count_text, {{32.0}, 1}},
    [AXIS_TOKENS] = {"tokens", true, 1.0, 0x1p30, count_text, {{196.0}, 1}},
    [AXIS_IN] = {"in", true, 1.0, 0x1p30, count_text, {{384.0}, 1}},
    [AXIS_OUT] = {"out", true, 1.0, 0x1p30, count_text, {{1536.0}, 1}},
    [AXIS_BLOCK] = {"block", true, 1.0, 0x1p30, count_text, {{16.0}, 1}},
    [AXIS_SPARSITY] = {"sparsity", false, 0.0, 1.0, "a number from 0 to 1", {{0.5, 0.7, 0.9}, 3}},
    [AXIS_IMAGE] = {"image", true, 1.0, 4096.0, "a count from 1 to 4096", {{56.0}, 1}},
    [AXIS_KERNEL] = {"kernel", true, 1.0, 64.0, "a count from 1 to 64", {{3.0}, 1}},
    [AXIS_STRIDE] = {"stride", true, 1.0, 64.0, "a count from 1 to 64", {{1.0}, 1}},
};

static const value_rule rows_rule = {"rows", true, 1.0, 0x1p30, count_text};
static const value_rule repeat_rule = {
    "repeat", true, 1.0, MAX_REPETITIONS, "a count from 1 to 1000"};

/* The options besides those of the axes, which are OPTION_AXIS + bench_axis. */
static const struct option other_options[] = {
    {"rows", required_argument, NULL, 'r'},
    {"form", required_argument, NULL, 'f'},
    {"repeat", required_argument, NULL, 'n'},
    {"device", required_argument, NULL, 'd'},
    {"precision", required_argument, NULL, 'p'},
    {"json", required_argument, NULL, 'j'},
    {"output-dir", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};
enum { OTHERS = sizeof other_options / sizeof *other_options, OPTION_AXIS = 0x100 };

static double parse_number(const value_rule *rule, const char *text, const char **end)
{
    char *stop;
    const double value = strtod(text, &stop);
    if (stop == text || !isfinite(value))
        bad_value(rule->option, text, rule->text);
    *end = stop;
    return value;
}

static void list_add(const value_rule *rule, const char *text, double value, bench_list *list)
{
    if (!(value >= rule->low && value <= rule->high) || (rule->whole && value != floor(value)))
        bad_value(rule->option, text, rule->text);
    if (list->count == MAX_LIST)
        tool_quit(EXIT_USAGE, "--%s: more than %d values", rule->option, MAX_LIST);
    list->values[list->count++] = value;
}

/* One part of a list: a number or first:last:step. */
static void parse_part(const value_rule *rule, const char *part, bench_list *list)
{
    const char *end;
    const double first = parse_number(rule, part, &end);
    if (*end == '\0') {
        list_add(rule, part, first, list);
        return;
    }
    double last = NAN, step = NAN;
    if (*end == ':')
        last = parse_number(rule, end + 1, &end);
    if (*end == ':')
        step = parse_number(rule, end + 1, &end);
    if (*end != '\0' || !(step > 0.0) || !(last >= first))
        bad_value(rule->option, part, "a number or a range first:last:step");
    for (int i = 0; first + i * step <= last + 1e-6 * step; i++)
        /* the nearest short decimal, so that 0.1 + 2 * 0.1 is 0.3 */
        list_add(rule, part, round((first + i * step) * 1e9) / 1e9, list);
}

/* Calls `take` for each part of "a,b,c", which it cuts in place. */
static void parse_list(const value_rule *rule, char *text, bench_list *list)
{
    list->count = 0;
    for (char *part = strtok(text, ","); part != NULL; part = strtok(NULL, ","))
        parse_part(rule, part, list);
    if (list->count == 0)
        bad_value(rule->option, text, rule->text);
}

static int parse_repeat(const char *text)
{
    bench_list one = {.count = 0};
    const char *end;
    list_add(&repeat_rule, text, parse_number(&repeat_rule, text, &end), &one);
    if (*end != '\0')
        bad_value("repeat", text, repeat_rule.text);
    return (int)one.values[0];
}

static void parse_forms(char *text, bench_settings *set)
{
    set->form_count = 0;
    for (char *part = strtok(text, ","); part != NULL; part = strtok(NULL, ",")) {
        if (set->form_count == MAX_LIST)
            bad_value("form", part, "one of few enough forms");
        set->forms[set->form_count++] = part;
    }
    if (set->form_count == 0)
        bad_value("form", text, "a list of forms");
}

static void check_figures(const bench_settings *set)
{
    if (set->op_count > 1 || set->output_dir == NULL)
        tool_quit(EXIT_USAGE, "figures stands alone and needs --output-dir");
    if (set->form_count > 0)
        tool_quit(EXIT_USAGE, "--form does not go with figures");
    for (int a = 0; a < AXES; a++)
        if (set->axes[a].count > 0 && a != AXIS_BATCH && a != AXIS_BLOCK && a != AXIS_SPARSITY)
            tool_quit(EXIT_USAGE, "--%s does not go with figures",
                a == AXIS_TOKENS && set->by_rows ? "rows" : axis_rules[a].option);
    if (set->axes[AXIS_BATCH].count > 1)
        tool_quit(EXIT_USAGE, "--batch takes one value with figures");
}

static void check_operations(const bench_settings *set)
{
    if (set->op_count == 0) {
        usage(stderr);
        exit(EXIT_USAGE);
    }
    if (strcmp(set->ops[0], "figures") == 0) {
        check_figures(set);
        return;
    }
    if (set->output_dir != NULL)
        tool_quit(EXIT_USAGE, "--output-dir goes with figures only");
    for (int i = 0; i < set->op_count; i++) {
        if (bench_op_find(set->ops[i], NULL) == NULL)
            tool_quit(EXIT_USAGE, "no operation \"%s\"; --help lists them", set->ops[i]);
        for (int f = 0; f < set->form_count; f++)
            if (bench_op_find(set->ops[i], set->forms[f]) == NULL)
                tool_quit(EXIT_USAGE, "%s has no form \"%s\"; --help lists them", set->ops[i],
                    set->forms[f]);
    }
}

/* For every --batch, the rows must be whole samples and fit an int. */
static void check_rows(const bench_settings *set)
{
    const bench_list *batch = &set->axes[AXIS_BATCH], *tokens = &set->axes[AXIS_TOKENS];
    for (int i = 0; i < batch->count; i++)
        for (int k = 0; k < tokens->count; k++) {
            const double samples = batch->values[i];
            const double rows = set->by_rows ? tokens->values[k] : tokens->values[k] * samples;
            if (fmod(rows, samples) != 0.0)
                tool_quit(EXIT_USAGE, "--rows: %.0f rows are not a multiple of --batch %.0f", rows,
                    samples);
            if (rows > INT_MAX)
                tool_quit(EXIT_USAGE, "%.0f rows are more than %d", rows, INT_MAX);
        }
}

static FILE *open_json(const char *path)
{
    if (strcmp(path, "-") == 0)
        return stdout;
    FILE *stream = open_output(path, O_CREAT);
    if (stream == NULL)
        tool_quit(EXIT_USAGE, "--json: cannot write \"%s\": %s", path, strerror(errno));
    return stream;
}

/* Completes the settings once all options are read: the rows, the operations, the defaults. */
static void settle(bench_settings *set, const bench_list *rows, char **ops, int op_count)
{
    if (rows->count > 0 && set->axes[AXIS_TOKENS].count > 0)
        tool_quit(EXIT_USAGE, "give --rows or --tokens, not both");
    set->by_rows = rows->count > 0;
    if (set->by_rows)
        set->axes[AXIS_TOKENS] = *rows;
    set->ops = ops;
    set->op_count = op_count;
    check_operations(set);
    for (int a = 0; strcmp(set->ops[0], "figures") != 0 && a < AXES; a++)
        if (set->axes[a].count == 0)
            set->axes[a] = axis_rules[a].usual;
    check_rows(set);
}

void bench_options_parse(int argc, char **argv, bench_settings *set)
{
    *set = (bench_settings){.repetitions = 11};
    bench_list rows = {.count = 0};
    const char *json = NULL;
    struct option options[AXES + OTHERS];
    int option;
    for (int a = 0; a < AXES; a++)
        options[a] =
            (struct option){axis_rules[a].option, required_argument, NULL, OPTION_AXIS + a};
    memcpy(options + AXES, other_options, sizeof other_options);
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option >= OPTION_AXIS) {
            const int axis = option - OPTION_AXIS;
            parse_list(&axis_rules[axis], optarg, &set->axes[axis]);
            continue;
        }
        switch (option) {
        case 'r':
            parse_list(&rows_rule, optarg, &rows);
            break;
        case 'f':
            parse_forms(optarg, set);
            break;
        case 'n':
            set->repetitions = parse_repeat(optarg);
            break;
        case 'd':
            set->device = optarg;
            break;
        case 'p':
            set->precision = parse_precision(optarg);
            break;
        case 'j':
            json = optarg;
            break;
        case 'o':
            set->output_dir = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        case 'v':
            printf("clprune-bench (clprune) %s\n", CLPRUNE_VERSION);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_USAGE);
        }
    }
    settle(set, &rows, argv + optind, argc - optind);
    if (json != NULL)
        set->json = open_json(json);
}
