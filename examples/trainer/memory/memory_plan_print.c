/* The output of --plan. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/atomic_file.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/output_files.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/memory/memory_plan.h"
#include "trainer/memory/memory_report.h"
#include "trainer/memory/plan_times.h"

/* Live bytes of a tensor at each command of the training step: "relu1" adds up all blocks and all
 * buffers of relu1. */
typedef struct tensor {
    char name[48];
    clprune_memory_category category;
    uint64_t *live; /* (commands) bytes */
} tensor;

enum { MOST_TENSORS = 48 };

typedef struct timeline {
    uint64_t commands;
    tensor tensors[MOST_TENSORS];
    size_t count;
    uint64_t *scratch; /* (commands) */
    bool failed;       /* no memory, or too many tensors */
} timeline;

/* The tensor of a buffer: "relu1" of "layer3.1.relu1.signs", "slot" of "slot 3". */
static void tensor_name(const char *name, char *out, size_t size)
{
    const char *start = name;
    for (const char *p = name; strchr(p, '.') != NULL;) { /* behind the last number */
        const size_t part = strcspn(p, ".");
        const bool number = strspn(p, "0123456789") == part;
        p += part + 1;
        start = number ? p : start;
    }
    (void)snprintf(out, size, "%.*s", (int)strcspn(start, ". "), start);
}

static tensor *tensor_of(timeline *line, const clprune_plan_entry *entry)
{
    char name[sizeof line->tensors[0].name];
    tensor_name(entry->name, name, sizeof name);
    for (size_t i = 0; i < line->count; ++i)
        if (line->tensors[i].category == entry->category &&
            strcmp(line->tensors[i].name, name) == 0)
            return &line->tensors[i];
    if (line->count == MOST_TENSORS)
        return NULL;
    tensor *made = &line->tensors[line->count];
    made->live = calloc(line->commands + 1, sizeof *made->live);
    if (made->live == NULL)
        return NULL;
    made->category = entry->category;
    memcpy(made->name, name, sizeof name);
    ++line->count;
    return made;
}

static void visit(void *user, const clprune_plan_entry *entry)
{
    timeline *line = user;
    tensor *found = tensor_of(line, entry);
    if (found == NULL) {
        line->failed = true;
        return;
    }
    for (size_t i = 0; i < entry->spans_count; ++i)
        for (uint64_t k = entry->spans[i].first; k <= entry->spans[i].last && k < line->commands;
             ++k)
            found->live[k] += entry->bytes;
}

static void timeline_close(timeline *line)
{
    for (size_t i = 0; i < line->count; ++i)
        free(line->tensors[i].live);
    free(line->scratch);
    *line = (timeline){0};
}

static bool timeline_make(const memory_plan *plan, timeline *line, fault *f)
{
    *line = (timeline){.commands = plan->commands};
    line->scratch = calloc(line->commands + 1, sizeof *line->scratch);
    clprune_plan_visit(plan->plan, visit, line);
    if (line->scratch == NULL || line->failed) {
        timeline_close(line);
        return fault_set(f, CODE_MEMORY, "no memory for a timeline");
    }
    for (uint64_t k = 0; k < line->commands; ++k)
        line->scratch[k] = clprune_plan_scratch(plan->plan, k);
    return true;
}

/* Live bytes of a category at a command. */
static uint64_t live_at(const timeline *line, uint64_t k, clprune_memory_category category)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < line->count; ++i)
        sum += line->tensors[i].category == category ? line->tensors[i].live[k] : 0;
    return sum;
}

static uint64_t part_end(const memory_plan *plan, size_t i)
{
    return i + 1 < plan->parts_count ? plan->parts[i + 1].first : plan->commands;
}

/* Prints a line for each part: the live bytes at the command that has most. */
static void print_timeline(const memory_plan *plan, const timeline *line)
{
    (void)printf("\n%-22s %9s %12s %12s %12s %12s\n",
        plan->only_tests ? "a test, MiB" : "a training step, MiB", "commands", "activations",
        "workspace", "borrowed", "together");
    for (size_t i = 0; i < plan->parts_count; ++i) {
        const uint64_t first = plan->parts[i].first, end = part_end(plan, i);
        uint64_t fullest = first, most = 0;
        for (uint64_t k = first; k < end; ++k) {
            const uint64_t live = live_at(line, k, CLPRUNE_MEMORY_ACTIVATIONS) +
                                  live_at(line, k, CLPRUNE_MEMORY_WORKSPACE) + line->scratch[k];
            if (live > most) {
                most = live;
                fullest = k;
            }
        }
        if (first == end)
            continue;
        (void)printf("%-22s %9" PRIu64 " %12.2f %12.2f %12.2f %12.2f\n", plan->parts[i].name,
            end - first, memory_mib(live_at(line, fullest, CLPRUNE_MEMORY_ACTIVATIONS)),
            memory_mib(live_at(line, fullest, CLPRUNE_MEMORY_WORKSPACE)),
            memory_mib(line->scratch[fullest]), memory_mib(most));
    }
}

static void print_totals(const memory_plan *plan)
{
    const clprune_plan_totals *totals = &plan->totals;
    (void)printf("%-46s %22s %10s\n", "planned device memory", "bytes", "MiB");
    memory_print_line("peak of everything", memory_plan_bytes(plan));
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; ++i)
        if (i != CLPRUNE_MEMORY_ACTIVATIONS && i != CLPRUNE_MEMORY_ARENA &&
            i != CLPRUNE_MEMORY_WORKSPACE)
            memory_print_line(
                clprune_memory_category_name((clprune_memory_category)i), plan->live[i]);
    memory_print_line("saved activations", plan->live[CLPRUNE_MEMORY_ACTIVATIONS]);
    memory_print_line("activations and workspace, side by side", totals->buffer_bytes);
    memory_print_line("  live at once, at most", totals->live_bytes);
    memory_print_line("  arena: the peak of both", totals->arena_bytes);
}

/* A tensor's name, and its category where another tensor has the same name. */
static void print_name(FILE *file, const timeline *line, const tensor *named)
{
    size_t same = 0;
    for (size_t i = 0; i < line->count; ++i)
        same += strcmp(line->tensors[i].name, named->name) == 0;
    (void)fprintf(file, ",%s", named->name);
    if (same > 1)
        (void)fprintf(file, " (%s)", clprune_memory_category_name(named->category));
}

/* One line for each command. */
static bool write_csv(const char *path, const memory_plan *plan, const timeline *line, fault *f)
{
    atomic_file file;
    if (!atomic_file_open(path, &file, f))
        return false;
    (void)fputs("command,part", file.stream);
    for (size_t i = 0; i < line->count; ++i)
        print_name(file.stream, line, &line->tensors[i]);
    (void)fputs(",borrowed\n", file.stream);
    for (size_t p = 0; p < plan->parts_count; ++p) {
        for (uint64_t k = plan->parts[p].first; k < part_end(plan, p); ++k) {
            (void)fprintf(file.stream, "%" PRIu64 ",%s", k, plan->parts[p].name);
            for (size_t i = 0; i < line->count; ++i)
                (void)fprintf(file.stream, ",%" PRIu64, line->tensors[i].live[k]);
            (void)fprintf(file.stream, ",%" PRIu64 "\n", line->scratch[k]);
        }
    }
    return atomic_file_commit(&file, f);
}

/* Reads the properties of the run's device, or has those of --plan-device. *found: there is one.
 * Without one it fails only if --device was given. */
static bool find_device(const options *o, clprune_device_info *device, bool *found, fault *f)
{
    clprune_context *context = NULL;
    fault none = {0};
    const plan_card *card = plan_card_of(o->plan_device);
    *found = card != NULL;
    if (*found) {
        *device = plan_card_device(card);
        return true;
    }
    const clprune_context_options wanted = {.device = o->device, .cache_dir = "off"};
    const clprune_status status = session_create_context(&wanted, &context, &none);
    *found = status == CLPRUNE_SUCCESS;
    if (*found)
        *device = clprune_context_device_info(context);
    clprune_context_destroy(context);
    return *found || (status == CLPRUNE_NO_DEVICE && o->device == NULL) ||
           fault_set(f, none.code, "%s", none.text);
}

bool memory_plan_run(options *o, fault *f)
{
    progress shown = progress_begin(o->quiet);
    run_folder none = {.lock = -1};
    session s = {.options = o, .shown = &shown, .folder = &none};
    checkpoint c = {0};
    memory_plan plan = {0};
    timeline line = {0};
    clprune_device_info device;
    bool found;
    bool good = output_files_check(o, o->output_dir, f) &&
                (o->plan_csv == NULL || atomic_file_probe(o->plan_csv, f)) &&
                session_prepare(&s, &c, f) && find_device(o, &device, &found, f) &&
                memory_plan_choose(&s, found ? &device : NULL, &plan, f) &&
                timeline_make(&plan, &line, f);
    if (good) {
        const bool tokens = s.type->tokens;
        char passes[64] = "";
        if (options_passes(o) > 1)
            (void)snprintf(passes, sizeof passes, " in %zu micro-batches", options_passes(o));
        if (o->ranks.at.ranks > 1)
            options_append(passes, sizeof passes, " on %d processes", o->ranks.at.ranks);
        (void)printf("%s, %zu %s, batch %" PRIu64 "%s, activations %s; for %s\n\n",
            session_arch_name(&s), tokens ? s.sizes.context : s.sizes.image,
            tokens ? "tokens" : "px", o->batch_size, passes, options_preset(o),
            found ? device.device : "a CPU like this machine's: no OpenCL device was found");
        print_totals(&plan);
        print_timeline(&plan, &line);
        const plan_card *card = plan_card_of(o->plan_device);
        good = (card == NULL || plan_times_print(card, &plan, f)) &&
               (o->plan_csv == NULL || write_csv(o->plan_csv, &plan, &line, f));
    }
    timeline_close(&line);
    memory_plan_close(&plan);
    checkpoint_close(&c);
    progress_end(&shown);
    auto_keep_close(s.automatic);
    session_close(&s);
    return good;
}
