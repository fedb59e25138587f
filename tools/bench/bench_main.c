/* clprune-bench: times each operation on a device, beside our dense product and a dense peer.
 *
 * A figure is the median over repetitions; ours, the dense product and the peer's alternate, so
 * that a drifting machine touches all alike. Patterns come from clprune_prune on random
 * activations. */
#include "bench.h"

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

/* Whether the command line asks for this operation in this form. */
static bool is_selected(const bench_settings *set, const bench_op *op, const char *name)
{
    bool fits = set->form_count == 0;
    for (int i = 0; i < set->form_count; i++)
        fits = fits || bench_has_form(op, set->forms[i]);
    return fits && bench_has_name(op, name);
}

static bench_shape shape_of(const bench_settings *set, const int index[AXES])
{
    double value[AXES];
    for (int a = 0; a < AXES; a++)
        value[a] = set->axes[a].values[index[a]];
    const size_t batch = (size_t)value[AXIS_BATCH], tokens = (size_t)value[AXIS_TOKENS];
    return (bench_shape){
        .batch = batch,
        .tokens = set->by_rows ? tokens / batch : tokens,
        .in = (size_t)value[AXIS_IN],
        .out = (size_t)value[AXIS_OUT],
        .block = (size_t)value[AXIS_BLOCK],
        .sparsity = (float)value[AXIS_SPARSITY],
        .image = (size_t)value[AXIS_IMAGE],
        .kernel = (size_t)value[AXIS_KERNEL],
        .stride = (size_t)value[AXIS_STRIDE],
    };
}

/* Every case of an operation: each combination of values on the axes that it uses. */
static void run_operation(const bench *b, const bench_op *op)
{
    const bench_settings *set = b->settings;
    int index[AXES] = {0};
    int axis;
    do {
        const bench_shape shape = shape_of(set, index);
        const bench_result result = bench_measure(b, op, &shape);
        bench_report(b, op, &result);
        for (axis = AXES - 1; axis >= 0; axis--) { /* counts up, the last axis fastest */
            if ((op->axes >> axis & 1u) != 0 && ++index[axis] < set->axes[axis].count)
                break;
            index[axis] = 0;
        }
    } while (axis >= 0);
}

static void run_selected(const bench *b)
{
    const bench_settings *set = b->settings;
    for (int i = 0; i < set->op_count; i++)
        for (size_t t = 0; t < BENCH_TABLES; t++)
            for (const bench_op *op = bench_tables[t]; op->name != NULL; op++)
                if (is_selected(set, op, set->ops[i]))
                    run_operation(b, op);
}

int main(int argc, char **argv)
{
    bench_settings settings;
    tool_begin("clprune-bench");
    bench_list_optimizers();
    bench_options_parse(argc, argv, &settings);
    bench b = {.settings = &settings};
    const clprune_context_options options = {
        .device = settings.device, .precision = settings.precision};
    CHECK(NULL, clprune_context_create(NULL, &options, &b.context));
    /* Only now: a run that cannot begin leaves an older file as it is. */
    const bool figures = strcmp(settings.ops[0], "figures") == 0;
    if (figures)
        bench_figures_open(&settings);
    if (settings.json != NULL && settings.json != stdout)
        tool_empty(settings.json, "--json");
    if (settings.precision != CLPRUNE_PRECISION_DEFAULT &&
        clprune_context_precision(b.context) != settings.precision)
        fprintf(stderr,
            "clprune-bench: --precision %s: the device does not have it; the products run in %s\n",
            clprune_precision_name(settings.precision),
            clprune_precision_name(clprune_context_precision(b.context)));
    const clprune_device_info facts = clprune_context_device_info(b.context);
    memcpy(b.device, facts.device, sizeof b.device);
    b.peers = (facts.type & CL_DEVICE_TYPE_CPU) != 0;
    b.peak_gflops = bench_peak(b.context);
    if (figures)
        bench_figures(&b);
    else
        run_selected(&b);
    clprune_context_destroy(b.context);
    if (settings.json != NULL && settings.json != stdout)
        tool_close(settings.json, "--json");
    tool_close(stdout, "standard output");
    return EXIT_SUCCESS;
}
