/* bench_report.c: one result as a JSON object in a line, or as a row of a table. */
#include "bench.h"

#include <math.h>

static void json_text(FILE *stream, const char *key, const char *value)
{
    fprintf(stream, ",\"%s\":", key);
    if (value == NULL) {
        fputs("null", stream);
        return;
    }
    fputc('"', stream);
    for (; *value != '\0'; value++) {
        const unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            fprintf(stream, "\\%c", c);
        else
            fputc(c < 0x20 || c > 0x7e ? '?' : c, stream);
    }
    fputc('"', stream);
}

/* A missing axis has the value 0. */
static void json_count(FILE *stream, const char *key, size_t value)
{
    if (value == 0)
        fprintf(stream, ",\"%s\":null", key);
    else
        fprintf(stream, ",\"%s\":%zu", key, value);
}

static void json_real(FILE *stream, const char *key, double value)
{
    if (isfinite(value))
        fprintf(stream, ",\"%s\":%.6g", key, value);
    else
        fprintf(stream, ",\"%s\":null", key);
}

static double useful_gflops(const bench_result *r)
{
    return r->flops > 0.0 ? 1e-6 * r->flops / r->ms : NAN;
}

static double gb_per_s(const bench_result *r)
{
    return r->bytes > 0.0 ? 1e-6 * r->bytes / r->ms : NAN;
}

void bench_report_json(FILE *stream, const bench *b, const bench_op *op, const bench_result *result)
{
    const bench_shape *shape = &result->shape;
    const double gflops = useful_gflops(result);
    const bool forward = op->dense_is_forward;
    const double dense_ms = forward ? NAN : result->dense_ms;
    const double forward_ms = forward ? result->dense_ms : NAN;
    fprintf(stream, "{\"op\":\"%s\"", op->name);
    json_text(stream, "form", op->form);
    json_count(stream, "batch", shape->batch);
    json_count(stream, "tokens", shape->tokens);
    json_count(stream, "rows", shape->batch * shape->tokens);
    json_count(stream, "in", shape->in);
    json_count(stream, "out", shape->out);
    json_count(stream, "block", shape->block);
    json_real(stream, "sparsity", (double)shape->sparsity);
    if (shape->image > 0) {
        json_count(stream, "image", shape->image);
        json_count(stream, "kernel", shape->kernel);
        json_count(stream, "stride", shape->stride);
    }
    json_real(stream, "ms", result->ms);
    fprintf(stream, ",\"ms_quartiles\":[%.6g,%.6g],\"repetitions\":%d", result->low_ms,
        result->high_ms, result->repetitions);
    json_real(stream, "dense_ms", dense_ms);
    json_real(stream, "speedup_vs_dense", dense_ms / result->ms);
    json_text(stream, "peer", result->peer);
    json_real(stream, "peer_ms", result->peer_ms);
    json_real(stream, "speedup_vs_peer", result->peer_ms / result->ms);
    json_real(stream, "useful_gflops", gflops);
    json_real(stream, "peak_gflops", b->peak_gflops);
    json_real(stream, "peak_fraction", gflops / b->peak_gflops);
    json_count(stream, "bytes", (size_t)result->bytes);
    json_real(stream, "gb_per_s", gb_per_s(result));
    json_real(stream, "forward_ms", forward_ms);
    json_real(stream, "forward_share", result->ms / forward_ms);
    json_text(stream, "precision", clprune_precision_name(clprune_context_precision(b->context)));
    json_text(stream, "device", b->device);
    fputs("}\n", stream);
    fflush(stream);
}

/* A column of a table; a missing number is blank. */
static void cell(int width, int digits, double value, const char *unit)
{
    if (isfinite(value))
        printf(" %*.*f%s", width, digits, value, unit);
    else
        printf(" %*s", width + (int)(unit[0] != '\0'), "");
}

static void cell_count(int width, size_t value)
{
    if (value > 0)
        printf(" %*zu", width, value);
    else
        printf(" %*s", width, "");
}

static void table_row(const bench *b, const bench_op *op, const bench_result *result)
{
    static bool started;
    const bench_shape *shape = &result->shape;
    if (!started) {
        printf("device %s, FMA peak %.1f GF/s, peer %s, products in %s\n", b->device,
            b->peak_gflops, result->peer != NULL ? result->peer : "none",
            clprune_precision_name(clprune_context_precision(b->context)));
        printf("%-13s %-13s %5s %6s %5s %5s %5s %5s %9s %17s %7s %6s %6s %9s %6s %9s %6s\n", "op",
            "form", "batch", "tokens", "in", "out", "block", "spars", "ms", "quartiles", "GF/s",
            "peak", "GB/s", "dense ms", "dense", "peer ms", "peer");
        started = true;
    }
    printf("%-13s %-13s", op->name, op->form != NULL ? op->form : "");
    cell_count(5, shape->batch);
    cell_count(6, shape->image > 0 ? shape->image : shape->tokens);
    cell_count(5, shape->in);
    cell_count(5, shape->out);
    cell_count(5, shape->block);
    cell(5, 2, (double)shape->sparsity, "");
    printf(" %9.3f %8.3f-%8.3f", result->ms, result->low_ms, result->high_ms);
    cell(7, 1, useful_gflops(result), "");
    cell(5, 1, 100.0 * useful_gflops(result) / b->peak_gflops, "%");
    cell(6, 1, gb_per_s(result), "");
    if (op->dense_is_forward) {
        printf("  %.1f%% of the forward product, %.3f ms\n", 100.0 * result->ms / result->dense_ms,
            result->dense_ms);
    } else {
        cell(9, 3, result->dense_ms, "");
        cell(5, 2, result->dense_ms / result->ms, "x");
        cell(9, 3, result->peer_ms, "");
        cell(5, 2, result->peer_ms / result->ms, "x");
        printf("\n");
    }
    fflush(stdout);
}

void bench_report(const bench *b, const bench_op *op, const bench_result *result)
{
    if (b->settings->json != NULL)
        bench_report_json(b->settings->json, b, op, result);
    else
        table_row(b, op, result);
}
