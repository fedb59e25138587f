/* What the planner chose, as text. */
#include <stdarg.h>
#include <stdio.h>

#include "clprune/net.h"
#include "net/build/append.h"
#include "net/net_private.h"
#include "net/plan/cover.h"
#include "net/plan/steps.h"
#include "runtime/context/check.h"

typedef struct printer {
    void (*write)(void *user, const char *text);
    void *user;
} printer;

static void say(const printer *p, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));

static void say(const printer *p, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    p->write(p->user, line);
}

/* "quantised, 4 bits", "again", "-": not needed. */
static void describe(const clprune__net_choice *value, char *text, size_t size)
{
    const clprune_keep *keep = &value->keep;
    if (!value->kept)
        (void)snprintf(text, size, "%s", value->needed ? "made again" : "-");
    else if (keep->form == CLPRUNE_FORM_QUANTISED)
        (void)snprintf(text, size, keep->bits == 16 ? "bf16" : "%u bits", keep->bits);
    else if (keep->form == CLPRUNE_FORM_PRUNED)
        (void)snprintf(text, size, "pruned %g", (double)keep->sparsity);
    else
        (void)snprintf(text, size, "%s", clprune_form_name(keep->form));
}

static bool is_shown(const clprune_net *net, size_t i)
{
    return !net->graph.layers[i].gone && net->graph.layers[i].kind->forward != NULL;
}

static const char *way_of(const clprune_net *net, size_t i)
{
    const clprune__net_tile *tile = clprune__net_tile_of(&net->plan, i);
    return tile != NULL ? tile->way->name : "input";
}

/* ---- why ---------------------------------------------------------------------------------------
 */

typedef struct reason {
    char *text;
    size_t size, used;
    const char *next; /* what comes before the next name */
} reason;

static void name_one(reason *r, const char *name)
{
    if (r->used >= r->size)
        return;
    const int more = snprintf(r->text + r->used, r->size - r->used, "%s%s", r->next, name);
    r->used += more > 0 ? (size_t)more : 0;
    r->next = ", ";
}

static bool is_input(const clprune__net_layer *layer, size_t v)
{
    for (size_t k = 0; k < layer->ins; ++k)
        if (layer->in[k] == v)
            return true;
    return false;
}

static bool needs(const clprune_net *net, const clprune__net_tile *tile, size_t v)
{
    if (!net->graph.values[tile->layers[tile->count - 1]].trained)
        return false;
    for (size_t k = 0; k < tile->way->needs_count; ++k)
        if (clprune__net_is_needed(&net->graph, tile, k) &&
            clprune__net_needed(&net->graph, tile, k) == v)
            return true;
    return false;
}

static bool runs_again(const clprune__net_steps *backward, size_t layer)
{
    for (size_t i = 0; i < backward->count; ++i)
        if (backward->steps[i].act == CLPRUNE__NET_FORWARD && backward->steps[i].id == layer)
            return true;
    return false;
}

/* What reads value v in the backward pass: "gradients of fc1; makes gelu1 again". */
static void explain(const clprune_net *net, size_t v, char *text, size_t size)
{
    reason r = {.text = text, .size = size, .next = "gradients of "};
    text[0] = '\0';
    for (size_t t = 0; t < net->plan.tiles_count; ++t) {
        const clprune__net_tile *tile = &net->plan.tiles[t];
        const size_t count = needs(net, tile, v) ? tile->count : 0;
        for (size_t i = 0; i < count; ++i)
            name_one(&r, net->graph.layers[tile->layers[i]].name);
    }
    r.next = r.used > 0 ? "; makes again " : "makes again ";
    for (size_t i = v + 1; i < net->graph.count; ++i)
        if (is_input(&net->graph.layers[i], v) && runs_again(&net->plan.backward, i))
            name_one(&r, net->graph.layers[i].name);
}

static void print_table(const clprune_net *net, const printer *p)
{
    const clprune_memory_usage total = clprune_memory_query(net->context, CLPRUNE_MEMORY_TOTAL);
    uint64_t all = 0;
    say(p, "%-32s %12s  %-12s %10.1f  KiB, at most\n", "all memory of the context", "", "",
        (double)total.peak / 1024);
    say(p, "%-32s %12s  %-12s %10s  %-28s %s\n", "tensor", "shape", "kept", "KiB", "backward",
        "what reads it then");
    for (size_t i = 0; i < net->graph.count; ++i) {
        const clprune__net_shape *size = &net->graph.values[i].shape;
        const clprune__net_choice *value = &net->plan.values[i];
        char shape[48], form[48], why[512];
        if (!is_shown(net, i))
            continue;
        const uint64_t bytes = value->kept ? clprune__net_bytes(&net->plan, i) : 0;
        all += bytes;
        describe(value, form, sizeof form);
        (void)snprintf(shape, sizeof shape, "%zu x %zu", size->rows, size->cols);
        explain(net, i, why, sizeof why);
        say(p, "%-32s %12s  %-12s %10.1f  %-28s %s\n", net->graph.layers[i].name, shape, form,
            (double)bytes / 1024, way_of(net, i), why);
    }
    say(p, "%-32s %12s  %-12s %10.1f\n", "signs, positions, statistics", "", "",
        (double)(net->body.kept_bytes - all) / 1024);
    say(p, "%-32s %12s  %-12s %10.1f\n", "all that is kept", "", "",
        (double)net->body.kept_bytes / 1024);
}

static void print_dot(const clprune_net *net, const printer *p)
{
    say(p, "digraph net {\n  node [shape=box, style=filled, fillcolor=white];\n");
    for (size_t i = 0; i < net->graph.count; ++i) {
        char form[48];
        if (!is_shown(net, i))
            continue;
        describe(&net->plan.values[i], form, sizeof form);
        say(p, "  n%zu [label=\"%s\\n%zu x %zu, %s\"%s];\n", i, net->graph.layers[i].name,
            net->graph.values[i].shape.rows, net->graph.values[i].shape.cols, form,
            net->plan.values[i].kept ? ", fillcolor=lightblue" : "");
        for (size_t k = 0; k < net->graph.layers[i].ins; ++k)
            if (is_shown(net, net->graph.layers[i].in[k]))
                say(p, "  n%zu -> n%zu;\n", net->graph.layers[i].in[k], i);
    }
    say(p, "}\n");
}

clprune_status clprune_net_print(const clprune_net *net, clprune_net_format format,
    void (*write)(void *user, const char *text), void *user)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(net != NULL && write != NULL, CLPRUNE_INVALID_ARGUMENT, "net or write is NULL");
    REQUIRE(clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT, "the net is not settled");
    REQUIRE(format == CLPRUNE_NET_TABLE || format == CLPRUNE_NET_DOT, CLPRUNE_INVALID_ARGUMENT,
        "format is %d, expected a clprune_net_format", (int)format);
    const printer p = {write, user};
    if (format == CLPRUNE_NET_DOT)
        print_dot(net, &p);
    else
        print_table(net, &p);
    return CLPRUNE_SUCCESS;
}
