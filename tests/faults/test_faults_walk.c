/* Every call of OpenCL, of the allocator and of file functions that a public function makes fails
 * in turn, once, and once with all later ones. The function returns the right status with a text,
 * or its result has the right bits; nothing leaks; the next call on the same context has the right
 * bits; after the context is destroyed, nothing is left. The cases are in support/fault_*.c.
 *
 *     test_faults_walk [long] [part of a case's name]
 *
 * warm: programs and scratch exist; one context for all calls. cold: a new context for each call,
 * so its kernels are built. Without `long`, a part of that: cold every 16th case; the tiled
 * kernels every 64th; every STEP-th call, instead of each, if cold, with all later ones or of
 * files; every 5 * STEP-th for contexts.
 *
 * Calls fail also while the context is destroyed. Functions of files fail through
 * support/fault_host.c, by the linker's --wrap. */
#include "support/fault_case.h"
#include "support/fault_control.h"
#include "support/fault_host.h"

enum { OPENCL, MEMORY, FILES };

/* Without `long`: calls from one that fails to the next, where not each does. */
enum { STEP = 17 };
static const char *const group_names[] = {"OpenCL", "memory", "files"};

typedef struct walk {
    const fault_case *with;
    int group;
    bool forever;
    unsigned first, step;
    bool each; /* warm: each call of OpenCL and allocation fails once */
    clprune_kernels kernels;
} walk;

static fault_controls layer;
static unsigned failures, harmless; /* of all walks */

/* ---- what is alive --------------------------------------------------------------------------- */

typedef struct population {
    fault_objects objects;
    long blocks, files;
} population;

static population count_alive(void)
{
    population p = {.blocks = fault_host_blocks(), .files = fault_host_files()};
    layer.alive(&p.objects);
    return p;
}

static void same_population(const char *when, population want, population got)
{
    const fault_objects *w = &want.objects, *g = &got.objects;
    if (memcmp(w, g, sizeof *w) != 0 || want.blocks != got.blocks || want.files != got.files)
        fail_msg("%s there are %u contexts, %u queues, %u buffers (%zu bytes), %u programs, "
                 "%u kernels, %u events, %zu released twice, %ld blocks of memory, %ld files; "
                 "expected %u, %u, %u (%zu bytes), %u, %u, %u, %zu, %ld, %ld",
            when, g->contexts, g->queues, g->buffers, g->bytes, g->programs, g->kernels, g->events,
            g->strays, got.blocks, got.files, w->contexts, w->queues, w->buffers, w->bytes,
            w->programs, w->kernels, w->events, w->strays, want.blocks, want.files);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void arm(const walk *w, unsigned at)
{
    if (w->group == OPENCL)
        layer.arm(NULL, at, w->forever ? CL_OUT_OF_RESOURCES : CL_INVALID_OPERATION, w->forever);
    else
        fault_host_arm(w->group == MEMORY ? FAULT_MEMORY : FAULT_FILES, at, w->forever);
}

/* The function that failed, or NULL. */
static const char *disarm(const walk *w)
{
    const char *fired = w->group == OPENCL ? layer.fired() : fault_host_fired();
    layer.arm(NULL, 0, 0, false);
    fault_host_arm(FAULT_MEMORY, 0, false);
    return fired;
}

/* Of calls that fail for ever, another than the first may be the one that counts. */
static bool is_right(const walk *w, const char *function, clprune_status status)
{
    if (w->group == MEMORY)
        return status == CLPRUNE_OUT_OF_HOST_MEMORY;
    if (w->group == FILES)
        return status == CLPRUNE_INVALID_ARGUMENT; /* what a variable of the environment names */
    if (status == CLPRUNE_BUILD_FAILED)
        return w->forever || strcmp(function, "clBuildProgram") == 0;
    if (status == CLPRUNE_NO_DEVICE) /* a platform that does not list its devices has none */
        return strcmp(function, "clGetDeviceIDs") == 0;
    return status == (w->forever ? CLPRUNE_OUT_OF_DEVICE_MEMORY : CLPRUNE_OPENCL_ERROR) ||
           status == CLPRUNE_CLBLAST_ERROR;
}

/* Whether a text for users has an expression of C. */
static bool has_c(const char *text)
{
    static const char *const parts[] = {"->", "clprune__", "&&", "||", " == ", "NULL)"};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (strstr(text, parts[i]) != NULL)
            return true;
    return false;
}

/* The text names the call, or what it was for. */
static bool is_told(const walk *w, const char *function, const char *text)
{
    if (has_c(text))
        return false;
    if (w->group != OPENCL)
        return strlen(text) > 20;
    if (strstr(text, w->forever ? "CL_OUT_OF_RESOURCES" : function) != NULL)
        return true;
    if (strcmp(function, "clEnqueueNDRangeKernel") == 0 && strstr(text, "kernel ") != NULL)
        return true;
    if (strcmp(function, "clCreateBuffer") == 0 && strstr(text, "made no buffer of ") != NULL)
        return true;
    return strstr(text, "CLBlast") != NULL;
}

static unsigned long long own_bytes(const clprune_context *context)
{
    return clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live -
           clprune_memory_query(context, CLPRUNE_MEMORY_WORKSPACE).live;
}

/* ---- walks ----------------------------------------------------------------------------------- */

static clprune_context *make_context(const walk *w)
{
    clprune_context *context = NULL;
    const clprune_context_options options = {
        .device = test_device_selection(), .kernels = w->kernels, .cache_dir = NULL};
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(NULL));
    return context;
}

/* One call that succeeds, and its result. */
static void run(const walk *w, clprune_context *context, const char *when, fault_bytes *result)
{
    const fault_case *c = w->with;
    result->count = 0;
    if (c->prepare != NULL)
        c->prepare(context);
    if (c->call(context) != CLPRUNE_SUCCESS)
        fail_msg("%s: %s", when, c->text != NULL ? c->text() : clprune_last_error(context));
    if (c->result != NULL)
        c->result(context, result);
    if (c->undo != NULL)
        c->undo(context);
}

static void same_bytes(const char *when, const fault_bytes *want, const fault_bytes *got)
{
    if (want->count != got->count || memcmp(want->data, got->data, want->count) != 0)
        fail_msg("%s the result has other bits", when);
}

static void begin(const walk *w, clprune_context *context)
{
    if (w->with->open != NULL)
        w->with->open(context, w->with->row);
}

static void end(const walk *w, clprune_context *context)
{
    if (w->with->close != NULL)
        w->with->close(context);
    test_end(context); /* what was made in it */
    clprune_context_destroy(context);
}

/* Call number `at` fails; whether there was one. */
static bool fail_one(
    const walk *w, clprune_context *context, unsigned at, const fault_bytes *want, const char *when)
{
    const fault_case *c = w->with;
    static fault_bytes got;
    if (c->prepare != NULL)
        c->prepare(context);
    const unsigned long long held = own_bytes(context);
    arm(w, at);
    const clprune_status status = c->call(context);
    const char *function = disarm(w);
    static char text[4096];
    text[0] = '\0';
    (void)strncat(text, c->text != NULL ? c->text() : clprune_last_error(context), sizeof text - 1);
    if (function == NULL && status != CLPRUNE_SUCCESS)
        fail_msg("%s: nothing failed, but %s: %s", when, clprune_status_name(status), text);
    if (function != NULL && status == CLPRUNE_SUCCESS) {
        got.count = 0;
        if (c->result != NULL)
            c->result(context, &got);
        same_bytes(when, want, &got);
        harmless += w->group == OPENCL;
    }
    if (status != CLPRUNE_SUCCESS) {
        if (!is_right(w, function, status) || !is_told(w, function, text))
            fail_msg("%s, %s: %s \"%s\"", when, function, clprune_status_name(status), text);
        failures++;
    }
    if (c->undo != NULL)
        c->undo(context);
    if (own_bytes(context) != held)
        fail_msg("%s, %s: the context holds %llu bytes of matrices, before %llu", when,
            function != NULL ? function : "no failure", own_bytes(context), held);
    return function != NULL;
}

/* "OpenCL, once, call 7", for messages. */
static const char *name_of(const walk *w, unsigned at)
{
    static char name[64];
    (void)snprintf(name, sizeof name, "%s, %s, call %u", group_names[w->group],
        w->forever ? "for ever" : "once", at);
    return name;
}

/* Whether the case has such calls, other than those that all contexts make. */
static bool has(const walk *w)
{
    return w->group != FILES || w->with->text != NULL;
}

/* Runs the case until no call builds or allocates; what is alive then. *want: its result. */
static population settle(const walk *w, clprune_context *context, fault_bytes *want)
{
    begin(w, context);
    for (int i = 0; i < 2; i++)
        run(w, context, "unfailed", want);
    return count_alive();
}

static void walk_warm(walk *w)
{
    static fault_bytes want, got;
    const population before = count_alive();
    clprune_context *context = make_context(w);
    const population settled = settle(w, context, &want);
    for (int mode = 0; mode < 6; mode++) {
        w->group = mode % 3;
        w->forever = mode >= 3;
        const bool each = w->each && !w->forever && w->group != FILES;
        const unsigned step = each ? 1 : w->step;
        bool more = has(w);
        for (unsigned at = step > 1 ? w->first : 1; more; at += step) {
            const char *when = name_of(w, at);
            more = fail_one(w, context, at, &want, when);
            run(w, context, when, &got);
            same_bytes(when, &want, &got);
            same_population(when, settled, count_alive());
        }
    }
    end(w, context);
    same_population("at the end", before, count_alive());
}

static void walk_cold(const walk *w)
{
    static fault_bytes want, got;
    const population before = count_alive();
    clprune_context *context = make_context(w);
    const population settled = settle(w, context, &want);
    end(w, context);
    same_population("at first", before, count_alive());
    bool more = true;
    for (unsigned at = w->first; more; at += w->step) {
        const char *when = name_of(w, at);
        context = make_context(w);
        begin(w, context);
        more = fail_one(w, context, at, &want, when);
        run(w, context, when, &got);
        run(w, context, when, &got);
        same_bytes(when, &want, &got);
        same_population(when, settled, count_alive());
        end(w, context);
        same_population("at the end", before, count_alive());
    }
}

/* The context and all objects go while each call fails. */
static void walk_destroy(const walk *w)
{
    const population before = count_alive();
    bool more = true;
    for (unsigned at = w->first; more; at += w->step) {
        clprune_context *context = make_context(w);
        begin(w, context);
        if (w->with->prepare != NULL)
            w->with->prepare(context);
        arm(w, at);
        (void)w->with->call(context);
        if (w->with->undo != NULL)
            w->with->undo(context);
        end(w, context);
        more = disarm(w) != NULL;
        same_population("at the end", before, count_alive());
    }
}

/* The fixture's list of what it owns exists before blocks of memory are counted. */
static void begin_list(void)
{
    (void)test_alloc(1);
}

static void run_warm(void **state)
{
    begin_list();
    walk w = *(const walk *)*state;
    (void)disarm(&w); /* what a failed case left */
    walk_warm(&w);
}

static void run_cold(void **state)
{
    begin_list();
    walk w = *(const walk *)*state;
    (void)disarm(&w);
    w.forever = true;
    w.group = OPENCL;
    walk_destroy(&w);
    if (w.with->text != NULL)
        return; /* its calls make contexts: those of run_warm are cold, too */
    w.forever = false;
    for (w.group = OPENCL; w.group <= MEMORY; w.group++)
        walk_cold(&w);
}

static void how_many(NO_ROW)
{
    print_message("    %u failures told, %u of OpenCL harmless\n", failures, harmless);
    assert_true(failures > 5 * harmless);
}

/* ---- the list -------------------------------------------------------------------------------- */

enum { MOST_WALKS = 512 };
static walk walks[MOST_WALKS];
static size_t walks_count;

static void add(test_list *list, walk w, bool cold)
{
    static const char *const families[] = {"", ", vector", ", tiled"};
    assert_true(walks_count < MOST_WALKS);
    walks[walks_count] = w;
    test_add(list, run_warm, &walks[walks_count], "%s%s, warm", w.with->name, families[w.kernels]);
    if (cold)
        test_add(
            list, run_cold, &walks[walks_count], "%s%s, cold", w.with->name, families[w.kernels]);
    walks_count++;
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "long") == 0;
    const char *only = argc > 1 + all ? argv[1 + all] : "";
    if (!fault_find_layer(&layer)) {
        print_message("faults: $OPENCL_LAYERS has no fault layer that the loader knows\n");
        return TEST_SKIPPED;
    }
    test_list list = {0};
    (void)test_alloc(1); /* the fixture has its list now: no case is the first to make it */
    const fault_case *cases[3];
    const size_t counts[3] = {fault_function_cases(&cases[0]), fault_object_cases(&cases[1]),
        fault_context_cases(&cases[2])};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < counts[k]; i++) {
            const unsigned step = k == 2 ? 5 * STEP : STEP; /* creations make many calls */
            walk w = {.with = &cases[k][i],
                .kernels = CLPRUNE_KERNELS_VECTOR,
                .first = 1,
                .step = 1,
                .each = true};
            if (!all) {
                w.each = k != 2 || i == 1; /* one that creates a context on a device */
                w.step = step;
                w.first = 1 + (unsigned)i * 7 % step;
            }
            if (strstr(w.with->name, only) == NULL)
                continue;
            const size_t half = k < 2; /* not the first, which is of a net: many kernels */
            add(&list, w, all || (i + 8 * half) % 16 == 0);
            w.kernels = CLPRUNE_KERNELS_TILED;
            if (all || (i + 32 * half) % 64 == 0)
                add(&list, w, all);
        }
    if (only[0] == '\0')
        test_add(&list, how_many, NULL, "how many");
    return test_run_on_each_device("every call fails", &list);
}
