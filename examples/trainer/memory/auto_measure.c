/* Measuring the errors of gradients, item by item. */
#include <stdlib.h>
#include <string.h>

#include "trainer/memory/auto_keep.h"
#include "trainer/run/gradient_check.h"
#include "trainer/run/stop.h"

/* Thresholds of squares. A slot touches a parameter if the parameter's relative error is above
 * 1e-4: far above rounding, far below what the form with the fewest bytes causes. A parameter with
 * less than least_share of all squares is left out: its gradient may be rounding. */
static const double touched_from = 1e-8, least_share = 1e-12;

static size_t elements_of(clprune_mat mat)
{
    return mat.rows * mat.cols;
}

/* Copies parameters to the host, one after the other, or with `write` back to the device. */
static bool move_params(clprune_context *context, clprune_param *params, size_t count, bool write,
    float *host, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < count; ++i) {
        const clprune_mat value = params[i].value;
        good = fault_check(f, context,
            write ? clprune_mat_write(context, value, host)
                  : clprune_mat_read(context, value, host),
            "copying a parameter");
        host += elements_of(value);
    }
    return good;
}

static bool move_states(const trainer *t, void *model, bool write, float *host, fault *f)
{
    size_t count = 0;
    bool good = true;
    const trainer_state *states = t->type->states == NULL ? NULL : t->type->states(model, &count);
    for (size_t i = 0; good && i < count; ++i) {
        const clprune_mat mat = states[i].mat;
        good = fault_check(f, t->context,
            write ? clprune_mat_write(t->context, mat, host)
                  : clprune_mat_read(t->context, mat, host),
            "copying a state");
        host += elements_of(mat);
    }
    return good;
}

static size_t state_elements(const trainer *t)
{
    size_t count = 0, sum = 0;
    const trainer_state *states =
        t->type->states == NULL ? NULL : t->type->states(t->model, &count);
    for (size_t i = 0; i < count; ++i)
        sum += elements_of(states[i].mat);
    return sum;
}

/* Images of step `index` of an epoch. */
static size_t count_at(const trainer *t, uint64_t index)
{
    const uint64_t left = t->options->train_limit - index * t->options->batch_size;
    return (size_t)(left < t->options->batch_size ? left : t->options->batch_size);
}

static bool warm_up(trainer *t, fault *f)
{
    const options *o = t->options;
    const augment_options augment = {.seed = o->seed, .epoch = 0};
    t->rate = (learning_rate){.schedule = {.base = 0.1 * o->lr, .min = 0.1 * o->lr, .total = 1}};
    tally_reset(&t->tally, tally_zero);
    for (; t->at.step < AUTO_WARMUP && t->at.step < t->steps_per_epoch && stop_signal() == 0;
         ++t->at.step) {
        clprune_mat loss, hit;
        const size_t count = count_at(t, t->at.step);
        if (!feed_batch(&t->feed, DATASET_TRAIN, t->order + t->at.step * o->batch_size, count,
                o->no_augment ? NULL : &augment, f) ||
            !tally_next(&t->tally, count, &loss, &hit, f) ||
            !fault_check(f, t->context, trainer_enqueue_step(t, count, loss, hit), "measuring") ||
            (t->at.step == 0 && !trainer_wait(t, "first step of measuring", f)))
            return false;
    }
    return tally_read(&t->tally, f) &&
           (t->tally.sums.finite ||
               fault_set(f, CODE_DIVERGED,
                   "diverged: the loss is no finite number within the steps before measuring; try "
                   "a lower --lr"));
}

/* Leaves the gradients of a batch in the model's parameters. Batches follow those of the
 * warm-up. */
static bool batch_gradients(auto_probe *probe, void *model, size_t batch, fault *f)
{
    trainer *t = &probe->t;
    const uint64_t index = (t->at.step + batch) % t->steps_per_epoch;
    t->type->set_seed(model, 1 + batch);
    return fault_check_signal(f, "measuring gradients") &&
           gradient_make(t, model, &t->feed, &t->tally, t->order + index * t->options->batch_size,
               count_at(t, index), f);
}

static bool read_exact(auto_probe *probe, fault *f)
{
    const trainer *t = &probe->t;
    bool good = true;
    for (size_t b = 0; good && b < probe->batches; ++b) {
        float *to = probe->exact + b * probe->elements;
        good = batch_gradients(probe, t->model, b, f);
        for (size_t i = 0; good && i < t->params_count; ++i) {
            const size_t count = elements_of(t->params[i].grad);
            good = fault_check(f, t->context, clprune_mat_read(t->context, t->params[i].grad, to),
                "reading a gradient");
            for (size_t e = 0; good && e < count; ++e)
                probe->squares[i] += (double)to[e] * (double)to[e];
            to += count;
        }
    }
    return good;
}

static bool allocate(auto_probe *probe, fault *f)
{
    size_t most = 1;
    for (size_t i = 0; i < probe->t.params_count; ++i) {
        const size_t count = elements_of(probe->t.params[i].value);
        probe->elements += count;
        most = count > most ? count : most;
    }
    probe->params = malloc(probe->elements * sizeof(float));
    probe->states = malloc((state_elements(&probe->t) + 1) * sizeof(float));
    probe->exact = malloc(probe->elements * probe->batches * sizeof(float));
    probe->base = malloc(probe->elements * probe->batches * sizeof(float));
    probe->got = malloc(most * sizeof(float));
    probe->squares = calloc(probe->t.params_count, sizeof(double));
    return (probe->params != NULL && probe->states != NULL && probe->exact != NULL &&
               probe->base != NULL && probe->got != NULL && probe->squares != NULL) ||
           fault_set(
               f, CODE_MEMORY, "no memory for the gradients of %zu parameters", probe->elements);
}

bool auto_probe_open(trainer *t, auto_probe *probe, fault *f)
{
    const options *o = t->options;
    const clprune_context_options wanted = {
        .device = o->device, .precision = options_precision(o), .log = trainer_hear, .log_user = t};
    *probe = (auto_probe){.t = {.options = t->options,
                              .data = t->data,
                              .type = t->type,
                              .sizes = t->sizes,
                              .order = t->order,
                              .run = t,
                              .streams = TRAINER_STREAMS}};
    trainer *mine = &probe->t;
    dataset_shuffle(o->seed, 0, (uint32_t)o->train_limit, t->order);
    if (trainer_create_context(&wanted, &mine->context, f) != CLPRUNE_SUCCESS ||
        !trainer_create_feed(mine, f) || !trainer_create_model(mine, f) ||
        !fault_check(
            f, mine->context, mine->type->init(mine->model, o->seed), "initialising the model"))
        return false;
    probe->batches = mine->steps_per_epoch < AUTO_BATCHES ? 1 : AUTO_BATCHES;
    return allocate(probe, f) && warm_up(mine, f) &&
           move_params(mine->context, mine->params, mine->params_count, false, probe->params, f) &&
           move_states(mine, mine->model, false, probe->states, f) && read_exact(probe, f);
}

void auto_probe_close(auto_probe *probe)
{
    trainer *t = &probe->t;
    tally_close(&t->tally);
    feed_close(&t->feed);
    clprune_optimizer_destroy(t->optimizer);
    if (t->type != NULL)
        t->type->destroy(t->model);
    free(t->rules);
    clprune_context_destroy(t->context);
    free(probe->params);
    free(probe->states);
    free(probe->exact);
    free(probe->base);
    free(probe->got);
    free(probe->squares);
}

/* Adds the squared differences of the gradients to `errors`; beside and store: of this batch. */
static bool add_errors(auto_probe *probe, clprune_param *params, const float *beside, float *store,
    double *errors, fault *f)
{
    const trainer *t = &probe->t;
    for (size_t i = 0; i < t->params_count; ++i) {
        const size_t count = elements_of(params[i].grad);
        double sum = 0;
        if (!fault_check(f, t->context, clprune_mat_read(t->context, params[i].grad, probe->got),
                "reading a gradient"))
            return false;
        for (size_t e = 0; e < count; ++e) {
            const double off = (double)probe->got[e] - (double)beside[e];
            sum += off * off;
        }
        errors[i] += sum;
        beside += count;
        if (store != NULL) {
            memcpy(store, probe->got, count * sizeof *store);
            store += count;
        }
    }
    return true;
}

bool auto_probe_errors(auto_probe *probe, const keep_rule *rules, const float *beside, float *store,
    double *errors, fault *f)
{
    const trainer *t = &probe->t;
    void *model = NULL;
    size_t count = 0;
    double all = 0;
    clprune_param *params = NULL;
    bool good = fault_check(f, t->context,
        t->type->create(t->context, &t->sizes, rules, (size_t)t->options->batch_size, &model),
        "creating a model to measure");
    if (good)
        params = t->type->params(model, &count);
    good = good && move_params(t->context, params, count, true, probe->params, f);
    memset(errors, 0, t->params_count * sizeof *errors);
    for (size_t b = 0; good && b < probe->batches; ++b) {
        const size_t at = b * probe->elements;
        good = move_states(t, model, true, probe->states, f) &&
               batch_gradients(probe, model, b, f) &&
               add_errors(probe, params, beside + at, store == NULL ? NULL : store + at, errors, f);
    }
    for (size_t i = 0; i < t->params_count; ++i)
        all += probe->squares[i];
    for (size_t i = 0; i < t->params_count; ++i)
        errors[i] = probe->squares[i] > least_share * all ? errors[i] / probe->squares[i] : 0;
    t->type->destroy(model);
    return good;
}

/* The item of a slot with the fewest bytes. */
static auto_item *smallest(const auto_keep *a, const auto_slot *slot)
{
    auto_item *least = &a->items[slot->first];
    for (size_t i = 1; i < slot->count; ++i)
        if (a->items[slot->first + i].bytes < least->bytes)
            least = &a->items[slot->first + i];
    return least;
}

/* What a measurement needs beside the probe. */
typedef struct bench {
    auto_probe *probe;
    auto_keep *a;
    keep_rule *rules; /* of the frame */
    double *errors;   /* (params) */
    bool *busy;       /* (params) touched by the slots of a pass */
    bool *known;      /* (items) */
} bench;

/* Measures a slot's smallest item alone, to find the parameters that the slot touches. */
static bool find_touched(bench *m, auto_slot *slot, fault *f)
{
    const size_t params = m->probe->t.params_count;
    auto_item *item = smallest(m->a, slot);
    slot->touched = calloc(params, sizeof *slot->touched);
    if (slot->touched == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    m->known[slot->first] = m->known[item - m->a->items] = true;
    if (slot->count == 1)
        return true;
    m->rules[slot->at] = item->rule;
    const bool good = auto_probe_errors(m->probe, m->rules, m->probe->base, NULL, m->errors, f);
    m->rules[slot->at] = m->a->items[slot->first].rule;
    for (size_t i = 0; good && i < params; ++i) {
        slot->touched[i] = m->errors[i] > touched_from;
        item->error += m->errors[i];
    }
    return good;
}

/* The next item of a slot that is not measured yet. NULL if there is none, or if another slot of
 * the pass touches the same parameters. */
static auto_item *next_item(const bench *m, const auto_slot *slot)
{
    for (size_t i = 0; i < m->probe->t.params_count; ++i)
        if (slot->touched[i] && m->busy[i])
            return NULL;
    for (size_t i = slot->first; i < slot->first + slot->count; ++i)
        if (!m->known[i])
            return &m->a->items[i];
    return NULL;
}

/* Measures at once one item of each slot in [first, end) that has one left and touches no parameter
 * of another. *more: at least one was measured. */
static bool measure_pass(bench *m, size_t first, size_t end, bool *more, fault *f)
{
    const size_t params = m->probe->t.params_count;
    auto_slot *slots = m->a->slots;
    *more = false;
    memset(m->busy, 0, params * sizeof *m->busy);
    for (size_t s = first; s < end; ++s) {
        const auto_item *item = next_item(m, &slots[s]);
        slots[s].item = 0;
        if (item == NULL)
            continue;
        slots[s].item = (size_t)(item - m->a->items) - slots[s].first;
        m->rules[slots[s].at] = item->rule;
        for (size_t i = 0; i < params; ++i)
            m->busy[i] = m->busy[i] || slots[s].touched[i];
        *more = true;
    }
    if (*more && !auto_probe_errors(m->probe, m->rules, m->probe->base, NULL, m->errors, f))
        return false;
    for (size_t s = first; s < end; ++s) {
        const size_t at = slots[s].first + slots[s].item;
        m->rules[slots[s].at] = m->a->items[slots[s].first].rule;
        if (slots[s].item == 0)
            continue;
        m->known[at] = true;
        for (size_t i = 0; i < params; ++i)
            m->a->items[at].error += slots[s].touched[i] ? m->errors[i] : 0;
        slots[s].item = 0;
    }
    return true;
}

/* Measures the gradients under the frame's rules. Their error is divided equally among the slots
 * that have codes. */
static bool measure_base(bench *m, size_t first, size_t end, fault *f)
{
    auto_probe *probe = m->probe;
    double sum = 0;
    size_t codes = 0;
    if (!auto_probe_errors(probe, m->rules, probe->exact, probe->base, m->errors, f))
        return false;
    for (size_t i = 0; i < probe->t.params_count; ++i)
        sum += m->errors[i];
    for (size_t s = first; s < end; ++s)
        codes += m->a->items[m->a->slots[s].first].rule.keep.form != CLPRUNE_FORM_DENSE;
    for (size_t s = first; s < end; ++s) {
        auto_item *item = &m->a->items[m->a->slots[s].first];
        if (item->rule.keep.form != CLPRUNE_FORM_DENSE)
            item->error = sum / (double)codes;
    }
    return true;
}

static bool measure_frame(bench *m, size_t first, size_t end, fault *f)
{
    const trainer *t = &m->probe->t;
    bool good = true, more = true;
    keep_frame_rules(
        t->type->keep, auto_frame(t, m->a->slots[first].frame), t->sizes.blocks, m->rules);
    good = measure_base(m, first, end, f);
    for (size_t s = first; good && s < end; ++s)
        good = find_touched(m, &m->a->slots[s], f);
    while (good && more)
        good = measure_pass(m, first, end, &more, f);
    return good;
}

bool auto_measure(auto_probe *probe, auto_keep *a, fault *f)
{
    const size_t params = probe->t.params_count;
    const size_t rules = keep_rules_count(probe->t.type->keep, probe->t.sizes.blocks);
    bench m = {.probe = probe,
        .a = a,
        .rules = malloc(rules * sizeof(keep_rule)),
        .errors = malloc(params * sizeof(double)),
        .busy = malloc(params * sizeof(bool)),
        .known = calloc(a->items_count + 1, sizeof(bool))};
    bool good = (m.rules != NULL && m.errors != NULL && m.busy != NULL && m.known != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t first = 0, end; good && first < a->slots_count; first = end) {
        end = first;
        while (end < a->slots_count && a->slots[end].frame == a->slots[first].frame)
            ++end;
        good = measure_frame(&m, first, end, f);
    }
    free(m.rules);
    free(m.errors);
    free(m.busy);
    free(m.known);
    return good;
}
