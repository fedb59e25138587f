/* Measuring the errors of gradients, item by item. */
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/session/gradient_check.h"

/* Thresholds of squares. A slot touches a parameter if the parameter's relative error is above
 * 1e-4: far above rounding, far below what the form with the fewest bytes causes. A parameter with
 * less than least_share of all squares is left out: its gradient may be rounding. */
static const double touched_from = 1e-8, least_share = 1e-12;

static size_t elements_of(clprune_mat mat)
{
    return mat.rows * mat.cols;
}

/* Copies parameters and states [first, end) of a model to the host, one after the other, or with
 * `write` back to the device. */
static bool move(
    const session *s, net_model *model, size_t first, size_t end, bool write, float *host, fault *f)
{
    bool good = true;
    for (size_t i = first; good && i < end; ++i) {
        const clprune_mat mat = session_tensor(s, model, i);
        good = fault_check(f, s->context,
            write ? clprune_mat_write(s->context, mat, host)
                  : clprune_mat_read(s->context, mat, host),
            i < s->params_count ? "copying a parameter" : "copying a state");
        host += elements_of(mat);
    }
    return good;
}

static bool warm_up(session *s, fault *f)
{
    const options *o = s->options;
    const augment_options augment = options_augment(o, 0);
    s->rate = (learning_rate){.schedule = {.base = 0.1 * o->lr, .min = 0.1 * o->lr, .total = 1}};
    tally_reset(&s->tally, tally_zero, 1);
    for (; s->step < AUTO_WARMUP && s->step < s->steps_per_epoch && stop_signal() == 0; ++s->step) {
        clprune_mat loss, hit;
        const session_pass pass =
            session_only_pass(session_count_at(options_pass(o), s->step, o->train_limit));
        if (!feed_batch(&s->feed, DATASET_TRAIN, s->order + s->step * options_pass(o), pass.count,
                o->no_augment ? NULL : &augment, f) ||
            !tally_next(&s->tally, pass.count, &loss, &hit, f) ||
            !fault_check(f, s->context, session_enqueue_pass(s, &pass, loss, hit), "measuring") ||
            !session_update(s, f) ||
            (s->step == 0 && !session_wait(s, "first step of measuring", f)))
            return false;
    }
    return tally_read(&s->tally, f) &&
           (s->tally.sums.finite ||
               fault_set(f, CODE_DIVERGED,
                   "diverged: the loss is no finite number within the steps before measuring; try "
                   "a lower --lr"));
}

/* Leaves the gradients of a batch in the model's parameters. Batches follow those of the
 * warm-up. */
static bool batch_gradients(auto_probe *probe, net_model *model, size_t batch, fault *f)
{
    session *s = &probe->s;
    const uint64_t index = (s->step + batch) % s->steps_per_epoch;
    clprune_net_set_seed(model->net, 1 + batch);
    return fault_check_signal(f, "measuring gradients") &&
           gradient_make(s, model, s->order + index * options_pass(s->options),
               session_count_at(options_pass(s->options), index, s->options->train_limit), f);
}

static bool read_exact(auto_probe *probe, fault *f)
{
    const session *s = &probe->s;
    bool good = true;
    for (size_t b = 0; good && b < probe->batches; ++b) {
        float *to = probe->exact + b * probe->elements;
        good = batch_gradients(probe, s->model, b, f);
        for (size_t i = 0; good && i < s->params_count; ++i) {
            const size_t count = elements_of(s->params[i].grad);
            good = fault_check(f, s->context, clprune_mat_read(s->context, s->params[i].grad, to),
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
    const session *s = &probe->s;
    const session_elements elements = session_count_elements(s);
    probe->elements = elements.params;
    probe->tensors = malloc((elements.params + elements.states) * sizeof(float));
    probe->exact = malloc(probe->elements * probe->batches * sizeof(float));
    probe->base = malloc(probe->elements * probe->batches * sizeof(float));
    probe->got = malloc(elements.most * sizeof(float));
    probe->squares = calloc(s->params_count, sizeof(double));
    return (probe->tensors != NULL && probe->exact != NULL && probe->base != NULL &&
               probe->got != NULL && probe->squares != NULL) ||
           fault_set(
               f, CODE_MEMORY, "no memory for the gradients of %zu parameters", probe->elements);
}

bool auto_probe_open(session *run, auto_probe *probe, fault *f)
{
    const options *o = run->options;
    session *s = &probe->s;
    *probe = (auto_probe){.s = session_beside(run)};
    s->keeps_grads = true;
    dataset_shuffle(o->seed, 0, (uint32_t)o->train_limit, s->order);
    if (!session_open_device(s, run, f) || !session_create_feed(s, f) ||
        !session_create_model(s, f) ||
        !fault_check(
            f, s->context, net_model_init(s->model, o->seed, NULL), "initialising the model"))
        return false;
    probe->batches = s->steps_per_epoch < AUTO_BATCHES ? 1 : AUTO_BATCHES;
    return allocate(probe, f) && warm_up(s, f) &&
           move(s, s->model, 0, session_tensors(s), false, probe->tensors, f) &&
           read_exact(probe, f);
}

void auto_probe_close(auto_probe *probe)
{
    session_close(&probe->s);
    free(probe->tensors);
    free(probe->exact);
    free(probe->base);
    free(probe->got);
    free(probe->squares);
}

/* Adds the squared differences of the gradients to `errors`; beside and store: of this batch. */
static bool add_errors(auto_probe *probe, clprune_param *params, const float *beside, float *store,
    double *errors, fault *f)
{
    const session *s = &probe->s;
    for (size_t i = 0; i < s->params_count; ++i) {
        const size_t count = elements_of(params[i].grad);
        double sum = 0;
        if (!fault_check(f, s->context, clprune_mat_read(s->context, params[i].grad, probe->got),
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

bool auto_probe_errors(auto_probe *probe, const keep_list *rules, const float *beside, float *store,
    double *errors, fault *f)
{
    const session *s = &probe->s;
    const size_t params = s->params_count;
    net_model *model = NULL;
    size_t count;
    double all = 0;
    const keep_choice choice = {s->options->activations, options_how(s->options), rules, false};
    bool good = fault_check(f, s->context,
        net_model_create(s->type, s->context, &s->sizes, &choice, options_pass(s->options), &model),
        "creating a model to measure");
    good = good && move(s, model, 0, params, true, probe->tensors, f);
    memset(errors, 0, params * sizeof *errors);
    for (size_t b = 0; good && b < probe->batches; ++b) {
        const size_t at = b * probe->elements;
        good =
            move(s, model, params, session_tensors(s), true, probe->tensors + probe->elements, f) &&
            batch_gradients(probe, model, b, f) &&
            add_errors(probe, clprune_net_params(model->net, &count), beside + at,
                store == NULL ? NULL : store + at, errors, f);
    }
    for (size_t i = 0; i < params; ++i)
        all += probe->squares[i];
    for (size_t i = 0; i < params; ++i)
        errors[i] = probe->squares[i] > least_share * all ? errors[i] / probe->squares[i] : 0;
    net_model_destroy(model);
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
    keep_list *rules; /* the frame */
    double *errors;   /* (params) */
    bool *busy;       /* (params) touched by the slots of a pass */
    bool *known;      /* (items) */
} bench;

/* Measures a slot's smallest item alone, to find the parameters that the slot touches. */
static bool find_touched(bench *m, auto_slot *slot, fault *f)
{
    const size_t params = m->probe->s.params_count;
    auto_item *item = smallest(m->a, slot);
    slot->touched = calloc(params, sizeof *slot->touched);
    if (slot->touched == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    m->known[slot->first] = m->known[item - m->a->items] = true;
    if (slot->count == 1)
        return true;
    auto_tensor(m->a, slot)->rule = item->rule;
    const bool good = auto_probe_errors(m->probe, m->rules, m->probe->base, NULL, m->errors, f);
    auto_tensor(m->a, slot)->rule = m->a->items[slot->first].rule;
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
    for (size_t i = 0; i < m->probe->s.params_count; ++i)
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
    const size_t params = m->probe->s.params_count;
    auto_slot *slots = m->a->slots;
    *more = false;
    memset(m->busy, 0, params * sizeof *m->busy);
    for (size_t n = first; n < end; ++n) {
        const auto_item *item = next_item(m, &slots[n]);
        slots[n].item = 0;
        if (item == NULL)
            continue;
        slots[n].item = (size_t)(item - m->a->items) - slots[n].first;
        auto_tensor(m->a, &slots[n])->rule = item->rule;
        for (size_t i = 0; i < params; ++i)
            m->busy[i] = m->busy[i] || slots[n].touched[i];
        *more = true;
    }
    if (*more && !auto_probe_errors(m->probe, m->rules, m->probe->base, NULL, m->errors, f))
        return false;
    for (size_t n = first; n < end; ++n) {
        const size_t at = slots[n].first + slots[n].item;
        auto_tensor(m->a, &slots[n])->rule = m->a->items[slots[n].first].rule;
        if (slots[n].item == 0)
            continue;
        m->known[at] = true;
        for (size_t i = 0; i < params; ++i)
            m->a->items[at].error += slots[n].touched[i] ? m->errors[i] : 0;
        slots[n].item = 0;
    }
    return true;
}

static bool measure_frame(bench *m, size_t first, size_t end, fault *f)
{
    auto_probe *probe = m->probe;
    bool more = true;
    m->rules = &m->a->frames[m->a->slots[first].frame];
    for (size_t n = first; n < end; ++n)
        auto_tensor(m->a, &m->a->slots[n])->rule = m->a->items[m->a->slots[n].first].rule;
    bool good = auto_probe_errors(probe, m->rules, probe->exact, probe->base, m->errors, f);
    for (size_t n = first; good && n < end; ++n)
        good = find_touched(m, &m->a->slots[n], f);
    while (good && more)
        good = measure_pass(m, first, end, &more, f);
    return good;
}

bool auto_measure(auto_probe *probe, auto_keep *a, fault *f)
{
    const size_t params = probe->s.params_count;
    bench m = {.probe = probe,
        .a = a,
        .errors = malloc(params * sizeof(double)),
        .busy = malloc(params * sizeof(bool)),
        .known = calloc(a->items_count + 1, sizeof(bool))};
    bool good = (m.errors != NULL && m.busy != NULL && m.known != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t first = 0, end; good && first < a->slots_count; first = end) {
        end = first;
        while (end < a->slots_count && a->slots[end].frame == a->slots[first].frame)
            ++end;
        good = measure_frame(&m, first, end, f);
    }
    free(m.errors);
    free(m.busy);
    free(m.known);
    return good;
}
