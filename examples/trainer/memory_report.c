#include "memory_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Buffers whose names differ only in numbers between dots: "blocks.*.norm1.values". */
typedef struct group {
    clprune_memory_category category;
    char name[96];
    uint64_t bytes, count;
} group;

typedef struct ledger {
    size_t count, room;
    group *groups;                          /* in order of the first buffer */
    bool failed;                            /* out of memory */
    uint64_t dense, values, indices, codes; /* of the activations */
} ledger;

static bool is_number(const char *text, size_t length)
{
    return length > 0 && strspn(text, "0123456789") >= length;
}

static void generalise(const char *name, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *part = name; used + 1 < size;) {
        const size_t length = strcspn(part, ".");
        const int printed =
            snprintf(out + used, size - used, "%.*s%s", is_number(part, length) ? 1 : (int)length,
                is_number(part, length) ? "*" : part, part[length] == '.' ? "." : "");
        used += (size_t)printed;
        if (part[length] == '\0')
            break;
        part += length + 1;
    }
}

static group *find_group(ledger *l, clprune_memory_category category, const char *name)
{
    for (size_t i = 0; i < l->count; ++i)
        if (l->groups[i].category == category && strcmp(l->groups[i].name, name) == 0)
            return &l->groups[i];
    if (l->count == l->room) {
        const size_t room = 2 * l->room + 64;
        group *groups = realloc(l->groups, room * sizeof *groups);
        if (groups == NULL)
            return NULL;
        l->groups = groups;
        l->room = room;
    }
    group *found = &l->groups[l->count++];
    *found = (group){.category = category};
    (void)snprintf(found->name, sizeof found->name, "%s", name);
    return found;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void visit(void *user, const clprune_memory_entry *entry)
{
    ledger *l = user;
    char name[96];
    generalise(entry->name, name, sizeof name);
    group *found = find_group(l, entry->category, name);
    if (found == NULL) {
        l->failed = true;
        return;
    }
    found->bytes += entry->bytes;
    found->count += 1;
    if (entry->category != CLPRUNE_MEMORY_ACTIVATIONS)
        return;
    if (ends_with(name, ".values") || ends_with(name, ".scales"))
        l->values += entry->bytes;
    else if (ends_with(name, ".crow") || ends_with(name, ".col") || ends_with(name, ".bitmap"))
        l->indices += entry->bytes;
    else if (ends_with(name, ".code"))
        l->codes += entry->bytes;
    else
        l->dense += entry->bytes;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_usage(const char *name, clprune_memory_usage usage, uint64_t earlier_peak)
{
    const uint64_t peak = usage.peak > earlier_peak ? usage.peak : earlier_peak;
    (void)printf("%-46s %6" PRIu64 " %15" PRIu64 " %10.2f %15" PRIu64 " %10.2f\n", name,
        usage.count, usage.live, mib(usage.live), peak, mib(peak));
}

static void print_categories(const trainer *t)
{
    (void)printf("\n%-46s %6s %15s %10s %15s %10s\n", "device memory", "count", "live bytes", "MiB",
        "peak bytes", "MiB");
    for (int i = 0; i <= CLPRUNE_MEMORY_CATEGORIES; ++i) {
        const clprune_memory_category category = (clprune_memory_category)i;
        const bool total = category == CLPRUNE_MEMORY_TOTAL;
        print_usage(clprune_memory_category_name(category),
            clprune_memory_query(t->context, category), total ? t->at.peak_bytes : 0);
    }
}

static void print_tensors(const ledger *l)
{
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; ++i) {
        const clprune_memory_category category = (clprune_memory_category)i;
        (void)printf("\n%-46s %6s %15s %10s\n", clprune_memory_category_name(category), "count",
            "live bytes", "MiB");
        for (size_t k = 0; k < l->count; ++k)
            if (l->groups[k].category == category)
                (void)printf("  %-44s %6" PRIu64 " %15" PRIu64 " %10.2f\n", l->groups[k].name,
                    l->groups[k].count, l->groups[k].bytes, mib(l->groups[k].bytes));
    }
}

/* What all tensors would take if they were kept dense. */
static uint64_t dense_bytes(const trainer *t)
{
    const keep_table *table = t->type->keep;
    uint64_t elements = t->sizes.fixed;
    for (size_t i = 0; i < table->count; ++i)
        for (size_t block = 0; block < (i < table->in_block ? t->sizes.blocks : 1); ++block) {
            const keep_shape shape = table->shape(&t->sizes, block, i);
            elements += (uint64_t)shape.rows * shape.cols;
        }
    return t->options->batch_size * elements * sizeof(float);
}

static void print_line(const char *name, uint64_t bytes)
{
    (void)printf("%-46s %22" PRIu64 " %10.2f\n", name, bytes, mib(bytes));
}

static void print_kept(const ledger *l, uint64_t all_dense)
{
    const uint64_t kept = l->dense + l->values + l->indices + l->codes;
    (void)printf("\n%-46s %22s %10s\n", "kept activations", "bytes", "MiB");
    print_line("kept dense", l->dense);
    print_line("pruned: blocks (values, scales)", l->values);
    print_line("pruned: indices (crow, col, bitmap)", l->indices);
    if (l->codes != 0)
        print_line("codes of GELU's derivative", l->codes);
    print_line("together", kept);
    print_line("all dense they would be", all_dense);
    if (all_dense >= kept)
        print_line("less than dense", all_dense - kept);
    else
        print_line("more than dense", kept - all_dense);
    (void)printf("%-46s %33.1f\n", "saved, % of dense",
        100.0 * ((double)all_dense - (double)kept) / (double)all_dense);
}

bool memory_report_print(const trainer *t, fault *f)
{
    ledger l = {0};
    clprune_memory_visit(t->context, visit, &l);
    const bool good = !l.failed || fault_set(f, CODE_MEMORY, "out of memory");
    if (good) {
        print_categories(t);
        print_tensors(&l);
        (void)printf("(Buffers are made once: the peak of a tensor is its live bytes.)\n");
        print_kept(&l, dense_bytes(t));
    }
    free(l.groups);
    return good;
}
