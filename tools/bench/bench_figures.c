/* bench_figures.c: Fig. 4 and Fig. 5 of arXiv 2311.16883, measured on this device.
 *
 * Each figure is a CSV, the same cases as JSON lines, and a gnuplot script that finds the CSV in
 * its own folder, so that a plot can be drawn again there. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_plots.h" /* generated: the scripts fig4.gp and fig5.gp */
#include "trainer/base/open_output.h"

/* One figure with its files. */
typedef struct figure {
    const char *name;
    const bench *b;
    FILE *csv, *json, *script;
    const char *peer; /* NULL: none */
    double peer_ms;   /* sum over the cases */
    int cases;
} figure;

static figure fig4 = {.name = "fig4"}, fig5 = {.name = "fig5"};

/* A file of a figure; with `if_there` NULL where it does not exist. */
static FILE *open_file(const char *dir, const char *name, const char *ending, bool if_there)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s%s", dir, name, ending);
    FILE *stream = NULL;
    errno = ENAMETOOLONG;
    if (length > 0 && (size_t)length < sizeof path) {
        if (if_there && access(path, F_OK) != 0)
            return NULL;
        stream = open_output(path, O_CREAT);
    }
    if (stream == NULL)
        tool_quit(EXIT_RUN, "cannot write %s/%s%s: %s", dir, name, ending, strerror(errno));
    return stream;
}

/* Writes a string of a gnuplot script; quotes and non-printable characters become spaces. */
static void plot_text(FILE *script, const char *key, const char *value)
{
    fprintf(script, "%s = '", key);
    for (; *value != '\0'; value++)
        fputc(*value == '\'' || *value < ' ' || *value > '~' ? ' ' : *value, script);
    fprintf(script, "'\n");
}

static void write_script(
    const figure *f, const bench_list *blocks, const unsigned char *body, size_t size)
{
    FILE *script = f->script;
    tool_empty(script, "a plot script");
    plot_text(script, "device", f->b->device);
    plot_text(script, "peer", f->peer != NULL ? f->peer : "");
    fprintf(script, "peer_ms = %.6g\n", f->peer != NULL ? f->peer_ms / f->cases : 0.0);
    fprintf(script, "peak = %.6g\n", isfinite(f->b->peak_gflops) ? f->b->peak_gflops : 0.0);
    fprintf(script, "blocks = '");
    for (int i = 0; i < blocks->count; i++)
        fprintf(script, i == 0 ? "%.0f" : " %.0f", blocks->values[i]);
    fprintf(script, "'\n");
    fwrite(body, 1, size, script);
    tool_close(script, "a plot script");
}

/* Runs gnuplot on a script in the output folder; without gnuplot says so and goes on. */
static void draw(const figure *f)
{
    const char *dir = f->b->settings->output_dir;
    char script[16];
    (void)snprintf(script, sizeof script, "%s.gp", f->name);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(dir) == 0)
            (void)execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0)
        fprintf(stderr,
            WIFEXITED(status) && WEXITSTATUS(status) == 127
                ? "clprune-bench: gnuplot is not installed; draw with it: cd %s; gnuplot %s\n"
                : "clprune-bench: gnuplot failed: cd %s; gnuplot %s\n",
            dir, script);
}

static void figure_open(figure *f, const char *dir)
{
    f->csv = open_file(dir, f->name, ".csv", false);
    f->json = open_file(dir, f->name, ".jsonl", false);
    f->script = open_file(dir, f->name, ".gp", false);
    FILE *plot = open_file(dir, f->name, ".png", true); /* gnuplot makes it */
    if (plot != NULL)
        (void)fclose(plot);
}

static void figure_begin(figure *f, const bench *b, const char *columns)
{
    f->b = b;
    tool_empty(f->csv, "a CSV");
    tool_empty(f->json, "a file of JSON lines");
    fprintf(f->csv, "%s\n", columns);
}

static void figure_close(
    figure *f, const bench_list *blocks, const unsigned char *body, size_t size)
{
    tool_close(f->csv, "a CSV");
    tool_close(f->json, "a file of JSON lines");
    write_script(f, blocks, body, size);
    draw(f);
}

static bench_result figure_case(figure *f, const char *form, const bench_shape *shape)
{
    const bench_op *op = bench_op_find("bspmm", form);
    const bench_result result = bench_measure(f->b, op, shape);
    bench_report_json(f->json, f->b, op, &result);
    bench_report(f->b, op, &result);
    f->peer = result.peer;
    f->peer_ms += result.peer_ms;
    f->cases++;
    return result;
}

/* A number of a CSV; a missing one is empty. */
static void csv_real(FILE *csv, double value)
{
    if (isfinite(value))
        fprintf(csv, ",%.6g", value);
    else
        fputc(',', csv);
}

/* Latency over the sparsity for each block size: dw of 64 samples of 196 x 384. */
static void draw_fig4(const bench *b, size_t batch, const bench_list *sparsities)
{
    static const bench_list usual = {{4.0, 8.0, 16.0, 32.0, 64.0, 128.0}, 6};
    const bench_list *given = &b->settings->axes[AXIS_BLOCK];
    const bench_list *blocks = given->count > 0 ? given : &usual;
    figure *f = &fig4;
    figure_begin(f, b, "block,sparsity,ms,dense_ms,peer_ms");
    for (int i = 0; i < blocks->count; i++)
        for (int k = 0; k < sparsities->count; k++) {
            const bench_shape shape = {
                batch, 196, 384, 384, (size_t)blocks->values[i], (float)sparsities->values[k]};
            const bench_result result = figure_case(f, "tn", &shape);
            fprintf(f->csv, "%zu,%.6g,%.6g", shape.block, sparsities->values[k], result.ms);
            csv_real(f->csv, result.dense_ms);
            csv_real(f->csv, result.peer_ms);
            fputc('\n', f->csv);
        }
    figure_close(f, blocks, plot_fig4, sizeof plot_fig4);
}

/* Throughput over the sparsity, in operations of the dense product, for the layers of ResMLP-S. */
static void draw_fig5(const bench *b, size_t batch, const bench_list *sparsities)
{
    static const struct {
        const char *name, *form;
        size_t in, out;
    } layers[] = {{"fc1", "tn", 384, 1536}, {"fc2", "tn", 1536, 384}, {"token", "nt", 384, 196}};
    static const bench_list usual = {{64.0, 16.0}, 2};
    const bench_list *given = &b->settings->axes[AXIS_BLOCK];
    const bench_list *blocks = given->count > 0 ? given : &usual;
    figure *f = &fig5;
    figure_begin(f, b, "layer,block,sparsity,gflops,dense_gflops,peer_gflops");
    for (int i = 0; i < blocks->count; i++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
            for (int k = 0; k < sparsities->count; k++) {
                const bench_shape shape = {batch, 196, layers[l].in, layers[l].out,
                    (size_t)blocks->values[i], (float)sparsities->values[k]};
                const bench_result result = figure_case(f, layers[l].form, &shape);
                const double work = 2e-6 * (double)(shape.batch * shape.tokens) * (double)shape.in *
                                    (double)shape.out;
                fprintf(f->csv, "%s,%zu,%.6g,%.6g", layers[l].name, shape.block,
                    sparsities->values[k], work / result.ms);
                csv_real(f->csv, work / result.dense_ms);
                csv_real(f->csv, work / result.peer_ms);
                fputc('\n', f->csv);
            }
    figure_close(f, blocks, plot_fig5, sizeof plot_fig5);
}

void bench_figures_open(const bench_settings *set)
{
    if (mkdir(set->output_dir, 0777) != 0 && errno != EEXIST)
        tool_quit(
            EXIT_USAGE, "--output-dir: cannot make \"%s\": %s", set->output_dir, strerror(errno));
    figure_open(&fig4, set->output_dir);
    figure_open(&fig5, set->output_dir);
}

void bench_figures(const bench *b)
{
    static const bench_list usual = {{0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, 10};
    const bench_settings *set = b->settings;
    const bench_list *given = &set->axes[AXIS_SPARSITY], *batch = &set->axes[AXIS_BATCH];
    const bench_list *sparsities = given->count > 0 ? given : &usual;
    draw_fig4(b, batch->count > 0 ? (size_t)batch->values[0] : 64, sparsities);
    draw_fig5(b, batch->count > 0 ? (size_t)batch->values[0] : 32, sparsities);
}
