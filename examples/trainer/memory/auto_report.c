/* Reports of measurement and choice: the table, auto.keep, auto.csv, JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/atomic_file.h"
#include "trainer/files/plain_file.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/keep_file.h"

enum { LABEL = 16, COLUMNS = 24 };

/* A short name of a form and its strength. */
static void label_of(const keep_rule *rule, char *text, size_t size)
{
    const clprune_keep *keep = &rule->keep;
    switch (keep->form) {
    case CLPRUNE_FORM_QUANTISED:
        (void)snprintf(text, size, "%u bits", keep->bits);
        break;
    case CLPRUNE_FORM_POOLED:
        (void)snprintf(text, size, "cell %u", keep->cell);
        break;
    case CLPRUNE_FORM_PRUNED:
        (void)snprintf(
            text, size, "s%.1f %s", (double)keep->sparsity, options_values[keep->value_type]);
        break;
    default:
        (void)snprintf(text, size, "dense");
        break;
    }
}

static void slot_name(const session *s, const auto_slot *slot, char *text, size_t size)
{
    const keep_tensor *tensor = auto_tensor(s->automatic, slot);
    (void)snprintf(text, size, "%s.%s", tensor->place, tensor->name);
}

static bool is_chosen(const auto_keep *a, const auto_slot *slot, size_t item)
{
    return slot->frame == a->frame && slot->item == item;
}

/* The forms of a frame, in the order of their first occurrence; dense is left out. */
static size_t columns_of(const auto_keep *a, size_t frame, char labels[COLUMNS][LABEL])
{
    size_t count = 0;
    for (size_t n = 0; n < a->slots_count; ++n)
        for (size_t i = 1; a->slots[n].frame == frame && i < a->slots[n].count; ++i) {
            char label[LABEL];
            size_t k = 0;
            label_of(&a->items[a->slots[n].first + i].rule, label, sizeof label);
            while (k < count && strcmp(labels[k], label) != 0)
                ++k;
            if (k == count && count < COLUMNS)
                memcpy(labels[count++], label, LABEL);
        }
    return count;
}

static void print_slot(
    const session *s, const auto_slot *slot, size_t columns, char labels[COLUMNS][LABEL])
{
    const auto_keep *a = s->automatic;
    char name[160];
    slot_name(s, slot, name, sizeof name);
    (void)printf("%-22s%c", name, is_chosen(a, slot, 0) ? '*' : ' ');
    for (size_t k = 0; k < columns; ++k) {
        size_t i = 1;
        for (; i < slot->count; ++i) {
            char label[LABEL];
            label_of(&a->items[slot->first + i].rule, label, sizeof label);
            if (strcmp(label, labels[k]) == 0)
                break;
        }
        if (i < slot->count)
            (void)printf(" %8.4f%c", sqrt(a->items[slot->first + i].error),
                is_chosen(a, slot, i) ? '*' : ' ');
        else
            (void)printf(" %8s ", "");
    }
    (void)printf("\n");
}

static void print_frame(const session *s, size_t first, size_t end)
{
    const auto_keep *a = s->automatic;
    const size_t frame = a->slots[first].frame;
    char labels[COLUMNS][LABEL];
    const size_t columns = columns_of(a, frame, labels);
    (void)printf("\nrecomputed:");
    for (size_t i = 0; i < a->frames[frame].count; ++i) {
        const keep_tensor *tensor = &a->frames[frame].tensors[i];
        if (tensor->rule.recomputed)
            (void)printf(" %s.%s", tensor->place, tensor->name);
    }
    (void)printf("\n%-23s", "");
    for (size_t k = 0; k < columns; ++k)
        (void)printf(" %8s ", labels[k]);
    (void)printf("\n");
    for (size_t n = first; n < end; ++n)
        print_slot(s, &a->slots[n], columns, labels);
}

void auto_keep_print(const session *s)
{
    const auto_keep *a = s->automatic;
    if (a == NULL || s->options->quiet)
        return;
    if (a->exact != NULL) {
        (void)printf("activations auto: %s, with dense's gradients, is planned in %" PRIu64
                     " of %" PRIu64 " bytes\n",
            a->exact, a->planned, a->limit);
        return;
    }
    (void)printf("\nerror of the gradients by form: the square root of the sum, over parameters, "
                 "of |g - dense|^2 / |dense|^2\n* chosen\n");
    for (size_t first = 0, end; first < a->slots_count; first = end) {
        end = first;
        while (end < a->slots_count && a->slots[end].frame == a->slots[first].frame)
            ++end;
        print_frame(s, first, end);
    }
    (void)printf("\nactivations auto: %" PRIu64 " of %" PRIu64
                 " bytes are planned; error %.4f by the sum, %.4f measured; %.0f s\n\n",
        a->planned, a->limit, sqrt(a->predicted), sqrt(a->measured), a->seconds);
}

static void write_csv(const session *s, FILE *stream)
{
    const auto_keep *a = s->automatic;
    (void)fprintf(stream, "frame,tensor,form,bytes,error,chosen\n");
    for (size_t n = 0; n < a->slots_count; ++n)
        for (size_t i = 0; i < a->slots[n].count; ++i) {
            const auto_item *item = &a->items[a->slots[n].first + i];
            char name[160], form[128];
            slot_name(s, &a->slots[n], name, sizeof name);
            keep_file_form(&item->rule, form, sizeof form);
            (void)fprintf(stream, "%zu,%s,%s,%" PRIu64 ",%.9g,%d\n", a->slots[n].frame, name, form,
                item->bytes, sqrt(item->error), is_chosen(a, &a->slots[n], i) ? 1 : 0);
        }
}

static void write_keep(const session *s, FILE *stream)
{
    const auto_keep *a = s->automatic;
    if (a != NULL)
        (void)fprintf(stream,
            "# --activations auto --memory-limit %" PRIu64 ", batch %" PRIu64 ": %" PRIu64
            " bytes planned, error %.4f\n",
            a->limit, s->options->batch_size, a->planned, sqrt(a->measured));
    (void)fputs(s->options->keep_text, stream);
}

/* A resumed run did not choose: it leaves the file of its folder as it is. Without last.ckpt there,
 * the file may be another run's. */
static bool save_one(const session *s, const char *last, const char *name,
    void (*write)(const session *s, FILE *stream), fault *f)
{
    char *path = run_folder_file(s->folder, name);
    atomic_file file;
    if (path == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    bool there = false, saved = false;
    bool good = s->automatic != NULL ||
                (plain_file_exists(path, &there, f) && plain_file_exists(last, &saved, f));
    const bool leave = there && saved;
    good = good && (leave || atomic_file_open(path, &file, f));
    if (good && !leave) {
        write(s, file.stream);
        good = atomic_file_commit(&file, f);
    }
    free(path);
    return good;
}

bool auto_keep_save(const session *s, const char *last, fault *f)
{
    const auto_keep *a = s->automatic;
    const options *o = s->options;
    if (!keep_preset_chooses(o->activations) || o->keep_text == NULL)
        return true;
    return save_one(s, last, "auto.keep", write_keep, f) &&
           (a == NULL || a->exact != NULL || save_one(s, last, "auto.csv", write_csv, f));
}

/* Sets *there, and *same: it is the choice of this run. */
static bool compare_keep(const session *s, const char *path, bool *there, bool *same, fault *f)
{
    const options *o = s->options;
    char *text = NULL;
    *same = false;
    if (!plain_file_exists(path, there, f))
        return false;
    if (!*there)
        return true;
    if (!keep_file_read(path, &text, f))
        return false;
    *same = keep_preset_chooses(o->activations) && o->keep_text != NULL &&
            keep_file_same(text, o->keep_text);
    free(text);
    return true;
}

bool auto_keep_check(const session *s, fault *f)
{
    char *keep = run_folder_file(s->folder, "auto.keep");
    char *csv = run_folder_file(s->folder, "auto.csv");
    bool there = false, same = false, table = false;
    bool good = (keep != NULL && csv != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && compare_keep(s, keep, &there, &same, f) && plain_file_exists(csv, &table, f);
    if (good && !same && (there || table))
        good = fault_set(f, CODE_USAGE,
            "%s: this is not of the run in %s; replace it with --overwrite, or give another "
            "--output-dir",
            there ? keep : csv, s->options->resume);
    free(keep);
    free(csv);
    return good;
}

void auto_keep_json(const session *s, json *j)
{
    const auto_keep *a = s->automatic;
    if (a == NULL)
        return;
    json_open(j, "auto");
    json_count(j, "memory_limit", a->limit);
    json_count(j, "planned_bytes", a->planned);
    json_real(j, "error_by_sum", sqrt(a->predicted));
    json_real(j, "error_measured", sqrt(a->measured));
    json_real(j, "seconds", a->seconds);
    if (a->exact != NULL)
        json_text(j, "preset", a->exact);
    for (size_t n = 0; n < a->slots_count; ++n) {
        const auto_slot *slot = &a->slots[n];
        char name[160];
        if (slot->frame != a->frame)
            continue;
        slot_name(s, slot, name, sizeof name);
        json_open(j, name);
        for (size_t i = 1; i < slot->count; ++i) {
            char label[LABEL];
            label_of(&a->items[slot->first + i].rule, label, sizeof label);
            json_real(j, label, sqrt(a->items[slot->first + i].error));
        }
        json_close(j);
    }
    json_close(j);
}
