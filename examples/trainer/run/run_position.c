#include "trainer/run/run_position.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/report/csv_log.h"

/* No run has more bytes or samples (csv_log.h), or seconds: 30,000 years. */
#define MOST_COUNT   (UINT64_C(1) << 53)
#define MOST_SECONDS 1e12

/* A number of a position, and the range that it can have in a run. */
typedef struct expectation {
    const char *name;
    uint64_t value, low, high;
} expectation;

/* Steps of an epoch. */
static uint64_t steps_of(const session *s, const run_stage *stage)
{
    const uint64_t batch = s->options->batch_size;
    return (stage->samples + batch - 1) / batch;
}

/* Steps done after `epochs` epochs and `done` steps. */
static uint64_t steps_at(const session *s, const run_stage *stage, uint64_t epochs, uint64_t done)
{
    return stage->step + (epochs - stage->epoch) * steps_of(s, stage) + done;
}

/* Whether a stage can come after `last`, in its epoch or a later one. */
static bool follows(const session *s, const run_stage *last, const run_stage *stage)
{
    return stage->epoch >= last->epoch && stage->epoch <= OPTIONS_EPOCHS_MOST &&
           stage->step > last->step && stage->step >= steps_at(s, last, stage->epoch, 0) &&
           stage->step <= steps_at(s, last, stage->epoch, steps_of(s, last));
}

bool run_take_stages(const session *s, const checkpoint *c, run_stages *stages, fault *f)
{
    const checkpoint_record *record = c != NULL ? checkpoint_find(c, "stages") : NULL;
    const run_stage only = {0, 0, s->options->run_images};
    const size_t count = c == NULL ? 0 : record == NULL ? 1 : (size_t)record->rows;
    if (record != NULL &&
        (record->type != CHECKPOINT_U64 || record->cols != STAGE_NUMBERS || record->rows == 0))
        return fault_set(f, CODE_DATA, "%s: its stages are no rows of three numbers", c->path);
    stages->list = calloc(count + 1, sizeof *stages->list);
    if (stages->list == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    memcpy(stages->list, record != NULL ? record->data : &only, count * sizeof only);
    for (stages->count = 0; stages->count < count; ++stages->count) {
        const run_stage *stage = &stages->list[stages->count];
        const bool good = stages->count > 0 ? follows(s, stage - 1, stage)
                                            : stage->epoch == 0 && stage->step == 0;
        if (!good || stage->samples == 0 || stage->samples > INT32_MAX)
            return fault_set(
                f, CODE_DATA, "%s: stage %zu of it is none of a run", c->path, stages->count + 1);
    }
    if (count > 0 && stages->list[count - 1].samples != only.samples)
        return fault_set(f, CODE_DATA,
            "%s: its last stage has %" PRIu64 " samples, its --train-limit is %" PRIu64, c->path,
            stages->list[count - 1].samples, only.samples);
    return true;
}

void run_begin_stage(session *s, uint64_t epoch, run_stages *stages)
{
    if (stages->count > 0 && stages->list[stages->count - 1].step == s->step)
        --stages->count;
    stages->list[stages->count++] = (run_stage){epoch, s->step, s->options->train_limit};
}

static bool check_position(const session *s, const checkpoint *c, const run_stage *stage,
    const uint64_t position[POSITION_NUMBERS], fault *f)
{
    const uint64_t batch = s->options->batch_size;
    const uint64_t epoch = position[0], done = position[1];
    const uint64_t seen = done * batch < stage->samples ? done * batch : stage->samples;
    const uint64_t step = steps_at(s, stage, epoch, done), timed = position[8];
    const uint64_t room = timed < done ? timed * batch : seen; /* in the timed steps */
    /* The order matters: later limits are computed from numbers that passed. */
    const expectation numbers[] = {
        {"epochs done", epoch, stage->epoch, OPTIONS_EPOCHS_MOST},
        {"step in the epoch", done, 0, steps_of(s, stage)},
        {"step", position[2], step, step},
        {"samples seen in the epoch", position[3], seen, seen},
        {"hits in the epoch", position[4], 0, seen * dataset_sample(s->data).labels},
        {"steps of the optimizer", position[5], step, step},
        {"peak bytes", position[6], 0, MOST_COUNT},
        {"saved activation bytes", position[7], 0, MOST_COUNT},
        {"steps timed in the epoch", timed, 0, done},
        {"samples timed in the epoch", position[9], timed, room},
        {"images replaced", position[10], 0, MOST_COUNT},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        const expectation *n = &numbers[i];
        char low[32] = "";
        if (n->low != n->high)
            (void)snprintf(low, sizeof low, "%" PRIu64 " to ", n->low);
        if (n->value < n->low || n->value > n->high)
            return fault_set(f, CODE_DATA,
                "%s: not a position of this run: %s: %" PRIu64 ", not %s%" PRIu64, c->path, n->name,
                n->value, low, n->high);
    }
    return true;
}

/* NaN is not. */
static bool is_within(double value, double most)
{
    return value >= 0 && value <= most;
}

static bool check_sums(const checkpoint *c, const uint64_t position[POSITION_NUMBERS],
    const double sums[SUM_NUMBERS], fault *f)
{
    /* the loss of a sample is a float */
    const struct {
        const char *name;
        double most;
    } numbers[SUM_NUMBERS] = {
        {"the loss summed in the epoch", FLT_MAX * (double)position[3]},
        {"the seconds of the run", MOST_SECONDS},
        {"the seconds of the epoch", position[8] > 0 ? MOST_SECONDS : 0},
        {"the seconds of processors", MOST_SECONDS},
    };
    for (size_t i = 0; i < SUM_NUMBERS; ++i)
        if (!is_within(sums[i], numbers[i].most))
            return fault_set(f, CODE_DATA, "%s: not a position of this run: %s: %g, not 0 to %g",
                c->path, numbers[i].name, sums[i], numbers[i].most);
    return true;
}

/* Whether a row's times and bytes are numbers that a run can have; its speed is NaN if no step was
 * timed. */
static bool is_measured(const csv_row *row)
{
    const double most = (double)MOST_COUNT;
    const bool timed = !isnan(row->step_ms);
    const bool fast =
        isnan(row->speed) ? !(row->step_ms > 0) : timed && is_within(row->speed, most);
    return fast && (!timed || is_within(row->step_ms, 1e3 * MOST_SECONDS)) &&
           is_within(row->seconds, MOST_SECONDS) && is_within(row->saved_activation_bytes, most) &&
           is_within(row->peak_bytes, most);
}

/* Whether a row is of epoch `epoch` + 1, of a stage: at its end or, with a test, before. *ends:
 * which of them. */
static bool is_of_epoch(
    const session *s, const run_stage *stage, uint64_t epoch, const csv_row *row, bool *ends)
{
    if (stage->epoch > epoch)
        return false;
    const double first = (double)steps_at(s, stage, epoch, 0);
    const double last = (double)steps_at(s, stage, epoch + 1, 0);
    *ends = fabs(row->step - last) < 0.5;
    return fabs(row->epoch - (double)(epoch + 1)) < 0.5 &&
           (*ends || (row->step > first && row->step < last && !isnan(row->top1)));
}

static bool has_numbers(const csv_row *row)
{
    return isfinite(row->lr) && isfinite(row->train_loss) && !isinf(row->test_loss) &&
           !isinf(row->top1) && isnan(row->test_loss) == isnan(row->top1) &&
           (isnan(row->grad_norm) || is_within(row->grad_norm, DBL_MAX)) && is_measured(row);
}

/* A row for each finished epoch, and of --test-steps some before its end. */
static bool check_log(const session *s, const checkpoint *c, const run_stages *stages,
    const uint64_t position[POSITION_NUMBERS], fault *f)
{
    size_t at = 0;
    uint64_t done = 0;
    double before = 0;
    const checkpoint_record *log = checkpoint_find(c, "log");
    if (log == NULL || log->type != CHECKPOINT_F64 || !csv_log_has_columns(log->cols))
        return fault_set(f, CODE_DATA, "%s: a checkpoint without its log", c->path);
    for (uint64_t i = 0; i < log->rows; ++i) {
        const csv_row row = csv_log_row(log->data, (size_t)log->cols, (size_t)i);
        bool ends = false;
        while (at + 1 < stages->count && (double)stages->list[at + 1].step < row.step)
            ++at;
        if (!is_of_epoch(s, &stages->list[at], done, &row, &ends) ||
            !(row.step > before && row.step <= (double)position[2]) || !has_numbers(&row))
            return fault_set(f, CODE_DATA,
                "%s: row %" PRIu64 " of its log is not that of epoch %" PRIu64, c->path, i + 1,
                done + 1);
        before = row.step;
        done += ends;
    }
    if (done != position[0])
        return fault_set(f, CODE_DATA,
            "%s: its log has %" PRIu64 " rows, not one for each of %" PRIu64 " epochs", c->path,
            log->rows, position[0]);
    return true;
}

/* --epochs may be changed, but not to less than the current epoch. */
static bool check_epochs(const session *s, const checkpoint *c, const uint64_t *position, fault *f)
{
    const uint64_t begun = position[0] + (position[1] > 0);
    if (s->options->test_only || begun <= s->options->epochs)
        return true;
    return fault_set(f, options_given(s->options, "epochs") ? CODE_USAGE : CODE_DATA,
        "--epochs %" PRIu64 ": the run in %s is in epoch %" PRIu64 " already", s->options->epochs,
        c->path, begun);
}

bool run_check_position(const session *s, const checkpoint *c, const run_stages *stages,
    const uint64_t position[POSITION_NUMBERS], const double sums[SUM_NUMBERS], fault *f)
{
    return check_position(s, c, &stages->list[stages->count - 1], position, f) &&
           check_sums(c, position, sums, f) && check_log(s, c, stages, position, f) &&
           check_epochs(s, c, position, f);
}

bool run_take_norms(const checkpoint *c, uint64_t steps, double norms[NORM_NUMBERS], fault *f)
{
    norms[0] = norms[1] = 0;
    if (checkpoint_find(c, "norms") == NULL)
        return true;
    const double *kept = checkpoint_get(c, "norms", CHECKPOINT_F64, 1, NORM_NUMBERS, f);
    if (kept == NULL)
        return false;
    if (!is_within(kept[0], DBL_MAX) || !is_within(kept[1], (double)steps) ||
        kept[1] != floor(kept[1]))
        return fault_set(f, CODE_DATA,
            "%s: not a position of this run: norms of gradients: %g of %g steps, not of 0 to "
            "%" PRIu64,
            c->path, kept[0], kept[1], steps);
    memcpy(norms, kept, NORM_NUMBERS * sizeof *norms);
    return true;
}
