/* Options to and from the text of a checkpoint, of a summary, and of what ranks must have in
 * common. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/learning_rate.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/options.h"
#include "trainer/options/options_table.h"

enum { TEXT_MOST = 4096 + 64 }; /* of one "name=value" string: PATH_MAX and a name */

static bool for_checkpoint(const option_row *row, bool set)
{
    return row->memory != OPTION_PROCESS && row->memory != OPTION_FORGET && set;
}

static bool for_summary(const option_row *row, bool set)
{
    (void)set;
    return row->memory != OPTION_PROCESS;
}

/* --resume, --memory-limit and --help decide on values of others, so they are told first. */
static bool for_ranks(const option_row *row, bool set)
{
    (void)set;
    return row->ranks != RANKS_OWN && !for_checkpoint(row, true);
}

static bool for_ranks_settled(const option_row *row, bool set)
{
    (void)set;
    return row->ranks != RANKS_OWN && for_checkpoint(row, true);
}

/* Adds the options that a function takes to a text with room for all. */
static size_t put_options(
    const options *o, bool (*takes)(const option_row *, bool), const char *before, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < option_rows_count(o->model); ++i) {
        const option_row row = option_row_at(o->model, i);
        const bool set = option_is_set(&row, o);
        char value[TEXT_MOST - 32] = "";
        if (!takes(&row, set))
            continue;
        if (set && before[0] != '\0' && row.ranks == RANKS_PLACE)
            (void)strcpy(value, "a file");
        else if (set)
            option_print(&row, o, value, sizeof value);
        used += (size_t)snprintf(out + used, TEXT_MOST, "%s%s=%s", before, row.name, value) + 1;
    }
    return used;
}

static char *room_for_options(const options *o, fault *f)
{
    char *out = malloc((option_rows_count(o->model) + 1) * TEXT_MOST);
    if (out == NULL)
        (void)fault_set(f, CODE_MEMORY, "out of memory");
    return out;
}

bool options_save(const options *o, bool all, char **text, size_t *size, fault *f)
{
    *text = room_for_options(o, f);
    if (*text == NULL)
        return false;
    *size = put_options(o, all ? for_summary : for_checkpoint, "", *text);
    return true;
}

bool options_of_ranks(const options *o, char **text, size_t *size, fault *f)
{
    *text = room_for_options(o, f);
    if (*text == NULL)
        return false;
    *size = put_options(o, for_ranks, "--", *text);
    *size += put_options(o, for_ranks_settled, "--", *text + *size);
    return true;
}

/* Options that a run may lack, and then its checkpoint. */
static const char *const lacking[] = {"model", "train", "lora", "base-bits"};

/* Whether a given --sparsity is without effect, as check_needs allows it to be: the run has 0. */
static bool ignores_sparsity(const options *o, const option_row *row)
{
    return strcmp(row->name, "sparsity") == 0 && options_given(o, "activations") &&
           !keep_preset_has(o->activations, KEEP_PRUNED);
}

static bool same_milestones(const char *a, const char *b)
{
    learning_rate x, y;
    fault ignored = {0};
    return learning_rate_milestones(a, &x, &ignored) && learning_rate_milestones(b, &y, &ignored) &&
           x.count == y.count &&
           memcmp(x.milestones, y.milestones, x.count * sizeof *x.milestones) == 0;
}

/* Whether a given value that is written otherwise than the run's may be the same. A --train-limit
 * may exceed the images, whose number the checkpoint has, or be of other --data:
 * session_check_limit compares. */
static bool may_be_same(const options *o, const option_row *row, const char *value)
{
    if (strcmp(row->name, "milestones") == 0)
        return same_milestones(o->milestones, value);
    if (strcmp(row->name, "train-limit") != 0)
        return ignores_sparsity(o, row);
    return o->run_images > 0 && (o->run_images < o->train_limit || options_given(o, "data"));
}

static bool restore_value(options *o, size_t index, const char *value, fault *f)
{
    const option_row row = option_row_at(o->model, index);
    fault ignored = {0};
    if (value != NULL && row.memory == OPTION_CHANGE)
        (void)option_set(&row, value, o->before, &ignored);
    if (!o->given[index]) {
        if (value == NULL)
            return true;
        /* 0 is "not limited", which cannot be given on the command line */
        if (row.kind == OPTION_COUNT && row.low > 0 && strcmp(value, "0") == 0)
            return true;
        fault wrong = {0};
        return option_set(&row, value, o, &wrong) ||
               fault_set(f, CODE_DATA,
                   "%s: its --%s is '%.200s', which this %s does not have; another program or a "
                   "newer one may have written it",
                   o->resume, row.name, value, o->model->program);
    }
    char now[TEXT_MOST - 32];
    option_print(&row, o, now, sizeof now);
    if (row.memory == OPTION_MATCH &&
        (value == NULL || (strcmp(now, value) != 0 && !may_be_same(o, &row, value))))
        return fault_set(f, CODE_USAGE,
            "--%s %s: the run in %s has %s; leave it out, or train anew", row.name, now, o->resume,
            value == NULL ? "none" : value);
    return true;
}

/* The value of a setting in the text of a checkpoint; NULL where there is none. */
static const char *setting_of(const char *text, size_t size, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = text; p < text + size; p += strlen(p) + 1)
        if (strncmp(p, name, length) == 0 && p[length] == '=')
            return p + length + 1;
    return NULL;
}

static bool restore_one(options *o, const char *setting, bool *seen, fault *f)
{
    const char *value = strchr(setting, '=');
    if (value == NULL)
        return fault_set(f, CODE_DATA, "%s: '%s' is no setting", o->resume, setting);
    const size_t index = option_index(o->model, setting, (size_t)(value - setting));
    if (index == option_rows_count(o->model))
        return fault_set(f, CODE_DATA,
            "%s: the setting '%s' is unknown; a newer %s may have written it", o->resume, setting,
            o->model->program);
    seen[index] = true;
    return restore_value(o, index, value + 1, f);
}

void options_changed(const options *o, char *was, char *now, size_t size)
{
    char values[2][TEXT_MOST - 32];
    was[0] = now[0] = '\0';
    for (size_t i = 0; o->before != NULL && i < option_rows_count(o->model); ++i) {
        const option_row row = option_row_at(o->model, i);
        if (row.memory != OPTION_CHANGE || !o->given[i])
            continue;
        option_print(&row, o->before, values[0], sizeof values[0]);
        option_print(&row, o, values[1], sizeof values[1]);
        if (strcmp(row.name, "milestones") == 0 ? same_milestones(values[0], values[1])
                                                : strcmp(values[0], values[1]) == 0)
            continue;
        options_append(was, size, " --%s %s", row.name, values[0]);
        options_append(now, size, " --%s %s", row.name, values[1]);
    }
}

bool options_restore(options *o, const char *text, size_t size, fault *f)
{
    if (size == 0 || text[size - 1] != '\0')
        return fault_set(f, CODE_DATA, "%s: its settings are not ended", o->resume);
    o->restored = malloc(size);
    o->before = malloc(sizeof *o->before);
    if (o->restored == NULL || o->before == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    *o->before = *o;
    memcpy(o->restored, text, size);
    const char *images = setting_of(o->restored, size, "train-limit");
    o->run_images = images != NULL ? strtoull(images, NULL, 10) : 0;
    o->given_limits[0] = options_given(o, "train-limit") ? o->train_limit : 0;
    o->given_limits[1] = options_given(o, "test-limit") ? o->test_limit : 0;
    bool seen[OPTIONS_MOST] = {false};
    for (const char *p = o->restored; p < o->restored + size; p += strlen(p) + 1)
        if (!restore_one(o, p, seen, f))
            return false;
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; ++i) {
        const size_t index = option_index(o->model, lacking[i], strlen(lacking[i]));
        if (index < option_rows_count(o->model) && !seen[index] &&
            !restore_value(o, index, NULL, f))
            return false;
    }
    options_settle(o);
    return options_check_restored(o, f);
}
