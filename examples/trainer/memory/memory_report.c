#include "trainer/memory/memory_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Buffers whose names differ only in numbers between dots: "blocks.*.norm1". */
typedef struct group {
    clprune_memory_category category;
    char name[96];
    uint64_t bytes, count;
} group;

typedef struct ledger {
    size_t count, room;
    group *groups; /* in order of the first buffer */
    bool failed;   /* out of memory */
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
}

double memory_mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

void memory_print_line(const char *name, uint64_t bytes)
{
    (void)printf("%-46s %22" PRIu64 " %10.2f\n", name, bytes, memory_mib(bytes));
}

static void print_categories(const session *s)
{
    (void)printf("\n%-46s %6s %15s %10s %15s %10s\n", "device memory", "count", "live bytes", "MiB",
        "peak bytes", "MiB");
    for (int i = -1; i < CLPRUNE_MEMORY_CATEGORIES; ++i) { /* the total first */
        const clprune_memory_category category =
            i >= 0 ? (clprune_memory_category)i : CLPRUNE_MEMORY_TOTAL;
        const clprune_memory_usage usage = clprune_memory_query(s->context, category);
        const uint64_t peak = category == CLPRUNE_MEMORY_TOTAL ? session_peak_bytes(s) : usage.peak;
        (void)printf("%-46s %6" PRIu64 " %15" PRIu64 " %10.2f %15" PRIu64 " %10.2f\n",
            clprune_memory_category_name(category), usage.count, usage.live, memory_mib(usage.live),
            peak, memory_mib(peak));
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
                    l->groups[k].count, l->groups[k].bytes, memory_mib(l->groups[k].bytes));
    }
}

/* What the bytes of kept activations are of: a form, or the indices of PRUNED. */
enum { INDICES = CLPRUNE_FORM_MASK + 1, KINDS };

static const struct {
    int kind;
    const char *text;
    bool always; /* shown if there are none, too */
} kinds[] = {
    {CLPRUNE_FORM_DENSE, "kept dense", true},
    {CLPRUNE_FORM_PRUNED, "pruned: blocks (values, scales)", true},
    {INDICES, "pruned: indices (crow, col, bitmap)", true},
    {CLPRUNE_FORM_QUANTISED, "quantised: codes, scales, zeros", false},
    {CLPRUNE_FORM_POOLED, "pooled: means of cells", false},
    {CLPRUNE_FORM_MASK, "signs and codes beside tensors", false},
};

/* From the shapes of the tensors. */
typedef struct kept_bytes {
    uint64_t of[KINDS]; /* DENSE with MEAN */
    uint64_t dense;     /* with preset dense, in fp32 */
} kept_bytes;

static bool add_tensor(const session *s, const keep_tensor *tensor, kept_bytes *bytes, fault *f)
{
    const keep_rule *rule = &tensor->rule;
    clprune_saved_sizes sizes;
    if (rule->recomputed)
        return true;
    if (!fault_check(f, NULL,
            clprune_saved_size_query(&rule->keep, options_pass(s->options), tensor->shape.rows,
                tensor->shape.cols, &sizes),
            "adding up the kept activations"))
        return false;
    const clprune_form form = rule->keep.form;
    bytes->of[form == CLPRUNE_FORM_MEAN ? CLPRUNE_FORM_DENSE : form] += sizes.values_bytes;
    bytes->of[INDICES] += sizes.index_bytes;
    return true;
}

static bool add_up(const session *s, const keep_list *list, kept_bytes *bytes, fault *f)
{
    keep_list dense = {0};
    bool good = session_list(s, 0, &dense, f);
    uint64_t elements = s->sizes.fixed; /* of a sample */
    if (!session_only_tests(s))
        bytes->of[CLPRUNE_FORM_DENSE] = options_pass(s->options) * elements * sizeof(float);
    for (size_t i = 0; i < dense.count; ++i)
        if (!dense.tensors[i].rule.recomputed)
            elements += dense.tensors[i].shape.rows * dense.tensors[i].shape.cols;
    bytes->dense = options_pass(s->options) * elements * sizeof(float);
    keep_list_close(&dense);
    for (size_t i = 0; good && i < list->count; ++i)
        good = add_tensor(s, &list->tensors[i], bytes, f);
    const uint64_t kept = clprune_memory_query(s->context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    uint64_t known = 0;
    for (int i = 0; i < KINDS; ++i)
        known += bytes->of[i];
    if (kept > known + 64 * list->count) /* stores are rounded up to 64 bytes each */
        bytes->of[CLPRUNE_FORM_MASK] = kept - known;
    return good;
}

/* "pruned fp16", "quantised 4 bits", "bf16", "pooled 2x2", "code 2 bits", "recomputed". */
static void form_text(const keep_rule *rule, char *text, size_t size)
{
    const char *form = clprune_form_name(rule->keep.form);
    if (rule->recomputed)
        (void)snprintf(text, size, "recomputed");
    else if (rule->keep.form == CLPRUNE_FORM_PRUNED)
        (void)snprintf(text, size, "%s %s", form, options_values[rule->keep.value_type]);
    else if (rule->keep.form == CLPRUNE_FORM_QUANTISED && rule->keep.bits == 16)
        (void)snprintf(text, size, "bf16");
    else if (rule->keep.form == CLPRUNE_FORM_QUANTISED)
        (void)snprintf(text, size, "%s %u bits", form, rule->keep.bits);
    else if (rule->keep.form == CLPRUNE_FORM_POOLED)
        (void)snprintf(text, size, "%s %u%s%.0u", form, rule->keep.cell,
            rule->keep.grid_height == 0 ? "" : "x",
            rule->keep.grid_height == 0 ? 0 : rule->keep.cell);
    else
        (void)snprintf(text, size, "%s", form);
}

/* The name of a tensor, with * for numbers between dots. */
static void general_name(const keep_tensor *tensor, char *name, size_t size)
{
    char whole[160];
    (void)snprintf(whole, sizeof whole, "%s.%s", tensor->place, tensor->name);
    generalise(whole, name, size);
}

/* One line for each form of the tensors whose names differ only in numbers, at the first of them.
 */
static void print_tensor(const keep_list *list, size_t at)
{
    char name[96], text[32], other_name[96], other[32];
    size_t count = 0;
    general_name(&list->tensors[at], name, sizeof name);
    form_text(&list->tensors[at].rule, text, sizeof text);
    for (size_t i = 0; i < list->count; ++i) {
        general_name(&list->tensors[i], other_name, sizeof other_name);
        form_text(&list->tensors[i].rule, other, sizeof other);
        if (strcmp(name, other_name) != 0 || strcmp(text, other) != 0)
            continue;
        if (i < at)
            return;
        ++count;
    }
    (void)printf("  %-44s %6zu   %s\n", name, count, text);
}

/* `kept`: live on the ledger, where a tensor's bytes are rounded up. */
static void print_kept(const kept_bytes *bytes, uint64_t kept)
{
    const uint64_t all_dense = bytes->dense;
    (void)printf("\n%-46s %22s %10s\n", "kept activations", "bytes", "MiB");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (kinds[i].always || bytes->of[kinds[i].kind] != 0)
            memory_print_line(kinds[i].text, bytes->of[kinds[i].kind]);
    memory_print_line("together", kept);
    memory_print_line("all dense they would be", all_dense);
    if (all_dense >= kept)
        memory_print_line("less than dense", all_dense - kept);
    else
        memory_print_line("more than dense", kept - all_dense);
    (void)printf("%-46s %33.1f\n", "saved, % of dense",
        100.0 * ((double)all_dense - (double)kept) / (double)all_dense);
}

bool memory_report_print(const session *s, fault *f)
{
    ledger l = {0};
    kept_bytes bytes = {0};
    keep_list list = {0};
    clprune_memory_visit(s->context, visit, &l);
    bool good = !l.failed || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && session_list_kept(s, &list, f) && add_up(s, &list, &bytes, f);
    if (good) {
        print_categories(s);
        print_tensors(&l);
        (void)printf("(Buffers are made once: the peak of a tensor is its live bytes.)\n");
        (void)printf("\n%-46s %6s   %s\n", "tensors", "count", "kept as");
        for (size_t i = 0; i < list.count; ++i)
            print_tensor(&list, i);
        print_kept(&bytes, clprune_memory_query(s->context, CLPRUNE_MEMORY_ACTIVATIONS).live);
    }
    keep_list_close(&list);
    free(l.groups);
    return good;
}
