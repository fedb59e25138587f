/* clprune-bench: times each operation on a device, beside a dense peer where OpenBLAS was found.
 *
 * A figure is the median over repetitions; ours and the peer's alternate, so that a drifting
 * machine touches both alike. Patterns come from clprune_prune on random activations. */
#include <clprune/clprune.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef CLPRUNE_BENCH_OPENBLAS
#include <cblas.h>
#endif

enum { EXIT_RUN = 1, EXIT_USAGE = 2, EXIT_DEVICE = 3 };
enum { MAX_LIST = 64, MAX_REPETITIONS = 1000 };

typedef enum operation { OP_GEMM, OP_PRUNE, OP_BSPMM_TN, OP_BSPMM_NT, OP_BSPMM_NN } operation;

typedef struct bench_case {
    operation op;
    size_t batch, rows; /* samples, rows of one */
    size_t in, out;     /* columns of x; outputs */
    size_t block;       /* 1 x block */
    float sparsity;
} bench_case;

typedef struct settings {
    size_t batch, rows, in, out;
    size_t blocks[MAX_LIST], block_count;
    float sparsities[MAX_LIST];
    size_t sparsity_count;
    int repetitions;
    const char *device;
    FILE *json; /* NULL: a table on stdout */
} settings;

typedef struct measurement {
    double ours[MAX_REPETITIONS], peer[MAX_REPETITIONS]; /* seconds */
    int count;
    bool has_peer;
} measurement;

#define CHECK(call)                                                                                \
    do {                                                                                           \
        const clprune_status status_ = (call);                                                     \
        if (status_ != CLPRUNE_SUCCESS) {                                                          \
            fprintf(stderr, "clprune-bench: %s\n  %s\n", clprune_status_string(status_),           \
                clprune_last_error(context));                                                      \
            exit(status_ == CLPRUNE_NO_DEVICE ? EXIT_DEVICE : EXIT_RUN);                           \
        }                                                                                          \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, int count, double q)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[(int)(q * (count - 1) + 0.5)];
}

static float *host_floats(size_t count)
{
    float *values = malloc((count > 0 ? count : 1) * sizeof *values);
    if (values == NULL) {
        fprintf(stderr, "clprune-bench: no host memory for %zu floats\n", count);
        exit(EXIT_RUN);
    }
    return values;
}

/* Random activations: GELU-like, so most are small and some large. */
static void fill(float *values, size_t count)
{
    static unsigned long long state = 88172645463325252ull;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const float u = (float)(state >> 40) * 0x1p-23f - 1.0f;
        values[i] = u > 0.0f ? u : 0.05f * u;
    }
}

/* The operands of a case, on the device and, for the peer, on the host. */
typedef struct operands {
    clprune_mat a, b, c;
    float *host_a, *host_b, *host_c;
    clprune_bsr xs;
    clprune_bsr_desc desc;
} operands;

static void upload(clprune_context *context, const char *name, size_t rows, size_t cols,
    clprune_mat *mat, float **host)
{
    *host = host_floats(rows * cols);
    fill(*host, rows * cols);
    CHECK(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols, mat));
    CHECK(clprune_mat_write(context, *mat, *host));
}

/* x: batch * rows x in (operand a), the second operand b and the result c by operation. */
static void prepare(clprune_context *context, const bench_case *bench, operands *o)
{
    const size_t total = bench->batch * bench->rows;
    memset(o, 0, sizeof *o);
    upload(context, "x", total, bench->in, &o->a, &o->host_a);
    switch (bench->op) {
    case OP_GEMM:
    case OP_BSPMM_NN:
        upload(context, "w", bench->in, bench->out, &o->b, &o->host_b);
        upload(context, "y", total, bench->out, &o->c, &o->host_c);
        break;
    case OP_BSPMM_TN:
        upload(context, "dy", total, bench->out, &o->b, &o->host_b);
        upload(context, "dw", bench->out, bench->in, &o->c, &o->host_c);
        break;
    case OP_BSPMM_NT: /* out is the number of output tokens */
        upload(context, "dy", bench->batch * bench->out, bench->in, &o->b, &o->host_b);
        upload(context, "dw", bench->out, bench->rows, &o->c, &o->host_c);
        break;
    case OP_PRUNE:
        break;
    }
    if (bench->op == OP_GEMM)
        return;
    clprune_bsr_sizes sizes;
    o->desc = (clprune_bsr_desc){bench->batch, bench->rows, bench->in, {1, bench->block}, 0};
    CHECK(clprune_bsr_size_query(&o->desc, &sizes));
    o->desc.keep = clprune_keep_count(sizes.blocks, bench->sparsity);
    CHECK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "xs", &o->desc, &o->xs));
    CHECK(clprune_prune(context, CLPRUNE_NORM_L2, o->a, &o->xs, NULL));
}

static void release(clprune_context *context, operands *o)
{
    clprune_buffer_release(context, o->a.buffer);
    clprune_buffer_release(context, o->b.buffer);
    clprune_buffer_release(context, o->c.buffer);
    clprune_bsr_destroy(context, &o->xs);
    free(o->host_a);
    free(o->host_b);
    free(o->host_c);
}

static void run_ours(clprune_context *context, const bench_case *bench, operands *o)
{
    switch (bench->op) {
    case OP_GEMM:
        CHECK(clprune_gemm(context, false, false, 1.0f, 0.0f, o->a, o->b, o->c, NULL));
        break;
    case OP_PRUNE:
        CHECK(clprune_prune(context, CLPRUNE_NORM_L2, o->a, &o->xs, NULL));
        break;
    case OP_BSPMM_TN:
        CHECK(clprune_bspmm_tn(context, 1.0f, 0.0f, o->b, &o->xs, o->c, NULL));
        break;
    case OP_BSPMM_NT:
        CHECK(clprune_bspmm_nt(context, 1.0f, 0.0f, o->b, &o->xs, o->c, NULL));
        break;
    case OP_BSPMM_NN:
        CHECK(clprune_bspmm_nn(context, 1.0f, 0.0f, &o->xs, o->b, o->c, NULL));
        break;
    }
    CHECK(clprune_context_finish(context));
}

/* The same product, dense, by OpenBLAS; false where there is no peer. */
static bool run_peer(const bench_case *bench, const operands *o)
{
#ifdef CLPRUNE_BENCH_OPENBLAS
    const int total = (int)(bench->batch * bench->rows), in = (int)bench->in, out = (int)bench->out,
              rows = (int)bench->rows;
    switch (bench->op) {
    case OP_GEMM:
    case OP_BSPMM_NN:
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, total, out, in, 1.0f, o->host_a, in,
            o->host_b, out, 0.0f, o->host_c, out);
        return true;
    case OP_BSPMM_TN:
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, total, 1.0f, o->host_b, out,
            o->host_a, in, 0.0f, o->host_c, in);
        return true;
    case OP_BSPMM_NT:
        for (size_t n = 0; n < bench->batch; n++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, out, rows, in, 1.0f,
                o->host_b + n * bench->out * bench->in, in, o->host_a + n * bench->rows * bench->in,
                in, n == 0 ? 0.0f : 1.0f, o->host_c, rows);
        return true;
    case OP_PRUNE:
        return false;
    }
#else
    (void)bench;
    (void)o;
#endif
    return false;
}

static void measure(
    clprune_context *context, const bench_case *bench, int repetitions, measurement *m)
{
    operands o;
    prepare(context, bench, &o);
    run_ours(context, bench, &o); /* builds the kernels */
    m->has_peer = run_peer(bench, &o);
    for (m->count = 0; m->count < repetitions; m->count++) {
        double start = now();
        run_ours(context, bench, &o);
        m->ours[m->count] = now() - start;
        if (m->has_peer) {
            start = now();
            (void)run_peer(bench, &o);
            m->peer[m->count] = now() - start;
        }
    }
    release(context, &o);
}

static const char *op_name(operation op)
{
    switch (op) {
    case OP_GEMM:
        return "gemm";
    case OP_PRUNE:
        return "prune";
    case OP_BSPMM_TN:
        return "bspmm tn";
    case OP_BSPMM_NT:
        return "bspmm nt";
    case OP_BSPMM_NN:
        return "bspmm nn";
    }
    return "?";
}

static void print_result(const settings *set, const bench_case *bench, measurement *m)
{
    const double total = (double)bench->batch * (double)bench->rows;
    const double dense_flops =
        bench->op == OP_PRUNE ? 0.0 : 2.0 * total * (double)bench->in * (double)bench->out;
    const double kept = bench->op == OP_GEMM ? 1.0 : 1.0 - (double)bench->sparsity;
    const double low = quantile(m->ours, m->count, 0.25), high = quantile(m->ours, m->count, 0.75),
                 ours = quantile(m->ours, m->count, 0.5);
    const double peer = m->has_peer ? quantile(m->peer, m->count, 0.5) : NAN;
    if (set->json != NULL) {
        fprintf(set->json,
            "{\"op\":\"%s\",\"batch\":%zu,\"rows\":%zu,\"in\":%zu,\"out\":%zu,\"block\":%zu,"
            "\"sparsity\":%.6g,\"ms\":%.6g,\"ms_quartiles\":[%.6g,%.6g],\"repetitions\":%d,"
            "\"useful_gflops\":%.6g",
            op_name(bench->op), bench->batch, bench->rows, bench->in, bench->out, bench->block,
            (double)bench->sparsity, 1e3 * ours, 1e3 * low, 1e3 * high, m->count,
            1e-9 * dense_flops * kept / ours);
        if (m->has_peer)
            fprintf(set->json,
                ",\"peer\":\"OpenBLAS sgemm\",\"peer_ms\":%.6g,\"speedup_vs_peer\":%.4g",
                1e3 * peer, peer / ours);
        fprintf(set->json, "}\n");
        fflush(set->json);
        return;
    }
    printf("%-9s %5zu x %4zu x %5zu -> %5zu  b=%-4zu s=%.2f  %8.3f ms (%.3f-%.3f)  %6.1f GF/s",
        op_name(bench->op), bench->batch, bench->rows, bench->in, bench->out, bench->block,
        (double)bench->sparsity, 1e3 * ours, 1e3 * low, 1e3 * high,
        1e-9 * dense_flops * kept / ours);
    if (m->has_peer)
        printf("  OpenBLAS %8.3f ms  %.2fx", 1e3 * peer, peer / ours);
    printf("\n");
    fflush(stdout);
}

static void usage(FILE *stream)
{
    fprintf(stream, "usage: clprune-bench gemm|prune|bspmm-tn|bspmm-nt|bspmm-nn|all [options]\n"
                    "  --batch N        samples (32)\n"
                    "  --rows R         rows of a sample (196)\n"
                    "  --in I           columns of a sample (384)\n"
                    "  --out O          outputs (1536)\n"
                    "  --block LIST     block widths, such as 4,16,64 (16)\n"
                    "  --sparsity LIST  such as 0.3,0.5,0.9 (0.5,0.7,0.9)\n"
                    "  --repeat N       repetitions behind a median (11)\n"
                    "  --device TEXT    \"platform:device\" or part of a name\n"
                    "  --json FILE      one object a line instead of the table; - is stdout\n"
                    "  --help\n");
}

static size_t parse_size(const char *option, const char *text)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value == 0 || value > 1u << 30) {
        fprintf(stderr, "clprune-bench: --%s: \"%s\" is no count from 1 to 2^30\n", option, text);
        exit(EXIT_USAGE);
    }
    return (size_t)value;
}

/* Splits "a,b,c" in place and calls `take` for each part. */
static void parse_list(
    const char *option, char *text, settings *set, void (*take)(settings *set, const char *part))
{
    int count = 0;
    for (char *part = strtok(text, ","); part != NULL; part = strtok(NULL, ",")) {
        if (++count > MAX_LIST) {
            fprintf(stderr, "clprune-bench: --%s: more than %d values\n", option, MAX_LIST);
            exit(EXIT_USAGE);
        }
        take(set, part);
    }
    if (count == 0) {
        fprintf(stderr, "clprune-bench: --%s needs a value\n", option);
        exit(EXIT_USAGE);
    }
}

static void take_block(settings *set, const char *part)
{
    set->blocks[set->block_count++] = parse_size("block", part);
}

static void take_sparsity(settings *set, const char *part)
{
    char *end;
    const double value = strtod(part, &end);
    if (end == part || *end != '\0' || !(value >= 0.0 && value <= 1.0)) {
        fprintf(stderr, "clprune-bench: --sparsity: \"%s\" is not from 0 to 1\n", part);
        exit(EXIT_USAGE);
    }
    set->sparsities[set->sparsity_count++] = (float)value;
}

static void parse_options(int argc, char **argv, settings *set)
{
    static const struct option options[] = {{"batch", required_argument, NULL, 'n'},
        {"rows", required_argument, NULL, 'r'}, {"in", required_argument, NULL, 'i'},
        {"out", required_argument, NULL, 'o'}, {"block", required_argument, NULL, 'b'},
        {"sparsity", required_argument, NULL, 's'}, {"repeat", required_argument, NULL, 'k'},
        {"device", required_argument, NULL, 'd'}, {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    *set = (settings){.batch = 32, .rows = 196, .in = 384, .out = 1536, .repetitions = 11};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            set->batch = parse_size("batch", optarg);
            break;
        case 'r':
            set->rows = parse_size("rows", optarg);
            break;
        case 'i':
            set->in = parse_size("in", optarg);
            break;
        case 'o':
            set->out = parse_size("out", optarg);
            break;
        case 'b':
            set->block_count = 0;
            parse_list("block", optarg, set, take_block);
            break;
        case 's':
            set->sparsity_count = 0;
            parse_list("sparsity", optarg, set, take_sparsity);
            break;
        case 'k': {
            const size_t repetitions = parse_size("repeat", optarg);
            set->repetitions = (int)(repetitions < MAX_REPETITIONS ? repetitions : MAX_REPETITIONS);
            break;
        }
        case 'd':
            set->device = optarg;
            break;
        case 'j':
            set->json = strcmp(optarg, "-") == 0 ? stdout : fopen(optarg, "w");
            if (set->json == NULL) {
                fprintf(stderr, "clprune-bench: --json: cannot write \"%s\"\n", optarg);
                exit(EXIT_USAGE);
            }
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_USAGE);
        }
    }
    if (set->block_count == 0)
        set->blocks[set->block_count++] = 16;
    if (set->sparsity_count == 0) {
        const float usual[] = {0.5f, 0.7f, 0.9f};
        for (int i = 0; i < 3; i++)
            set->sparsities[set->sparsity_count++] = usual[i];
    }
}

static void run_operation(clprune_context *context, const settings *set, operation op)
{
    static measurement m;
    bench_case bench = {op, set->batch, set->rows, set->in, set->out, 0, 0.0f};
    if (op == OP_GEMM) {
        measure(context, &bench, set->repetitions, &m);
        print_result(set, &bench, &m);
        return;
    }
    for (size_t b = 0; b < set->block_count; b++)
        for (size_t s = 0; s < set->sparsity_count; s++) {
            bench.block = set->blocks[b];
            bench.sparsity = set->sparsities[s];
            measure(context, &bench, set->repetitions, &m);
            print_result(set, &bench, &m);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        operation op;
    } operations[] = {{"gemm", OP_GEMM}, {"prune", OP_PRUNE}, {"bspmm-tn", OP_BSPMM_TN},
        {"bspmm-nt", OP_BSPMM_NT}, {"bspmm-nn", OP_BSPMM_NN}};
    settings set;
    parse_options(argc, argv, &set);
    if (optind + 1 != argc) {
        usage(stderr);
        return EXIT_USAGE;
    }
    clprune_context *context = NULL;
    const clprune_context_options options = {.device = set.device};
    CHECK(clprune_context_create(NULL, &options, &context));
    bool known = false;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(argv[optind], "all") == 0 || strcmp(argv[optind], operations[i].name) == 0) {
            known = true;
            run_operation(context, &set, operations[i].op);
        }
    clprune_context_destroy(context);
    if (!known) {
        fprintf(stderr, "clprune-bench: no operation \"%s\"\n", argv[optind]);
        return EXIT_USAGE;
    }
    if (set.json != NULL && set.json != stdout)
        fclose(set.json);
    return EXIT_SUCCESS;
}
