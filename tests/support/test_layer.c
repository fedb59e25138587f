#include "support/test_layer.h"

/* ---- one case and one shape ---- */

/* Operands on the host: inputs, and what the first call gave. */
typedef struct problem {
    const layer_case *c;
    const void *shape;
    size_t count;
    layer_size size[LAYER_MOST];
    float *raw[LAYER_MOST]; /* inputs; words of BITS */
    layer_data data[LAYER_MOST];
    float *first[LAYER_MOST];
    size_t calls;
} problem;

/* One call. */
typedef struct way {
    const char *name;
    unsigned absent;          /* bit i: operand i is CLPRUNE_NO_MAT */
    size_t place[LAYER_MOST]; /* in which operand's matrix operand i lies */
    float beta;
    float *old[LAYER_MOST]; /* of sums, unless beta is 0 */
} way;

static bool is(const problem *p, size_t i, unsigned role)
{
    return (p->c->operands[i].role & role) != 0;
}

static size_t elements(const problem *p, size_t i)
{
    return p->size[i].rows * p->size[i].cols;
}

static size_t count_of(const layer_case *c)
{
    size_t count = 0;
    while (count < LAYER_MOST && c->operands[count].name != NULL)
        count++;
    return count;
}

static double *widen(const layer_operand *o, size_t count, const float *raw)
{
    double *wide = layer_widen(count, raw);
    for (size_t i = 0; (o->role & LAYER_BITS) != 0 && i < count; i++) {
        uint32_t word;
        memcpy(&word, &raw[i], sizeof word);
        wide[i] = word;
    }
    return wide;
}

static float *narrow(const layer_operand *o, size_t count, const double *wide)
{
    float *raw = layer_narrow(count, wide);
    for (size_t i = 0; (o->role & LAYER_BITS) != 0 && i < count; i++) {
        const uint32_t word = (uint32_t)wide[i];
        memcpy(&raw[i], &word, sizeof word);
    }
    return raw;
}

static float *make_values(const layer_operand *o, const void *shape, size_t count, uint64_t seed)
{
    float *values = o->low < o->high ? test_new_uniform(seed, o->low, o->high, count)
                                     : test_new_normal(seed, count);
    if (o->change != NULL)
        o->change(shape, count, values);
    return values;
}

static void set_input(problem *p, size_t i, float *raw)
{
    p->raw[i] = raw;
    p->data[i].in = widen(&p->c->operands[i], elements(p, i), raw);
}

/* Sizes and room for the results; inputs are the caller's to set. */
static problem problem_new(const layer_case *c, const void *shape)
{
    problem p = {.c = c, .shape = shape, .count = count_of(c)};
    for (size_t i = 0; i < p.count; i++) {
        p.size[i] = c->operands[i].size(shape);
        p.data[i] = (layer_data){.shape = shape,
            .rows = p.size[i].rows,
            .cols = p.size[i].cols,
            .count = elements(&p, i)};
        if (is(&p, i, LAYER_OUT)) {
            p.data[i].want = test_doubles(elements(&p, i));
            p.data[i].bound = test_doubles(elements(&p, i));
        }
    }
    return p;
}

static bool is_absent(const way *w, size_t i)
{
    return (w->absent >> i & 1) != 0;
}

/* Whether an output lies in the place of operand i. */
static bool is_covered(const way *w, size_t i)
{
    for (size_t k = 0; k < LAYER_MOST; k++)
        if (k != i && w->place[k] == i)
            return true;
    return false;
}

/* Makes the call and reads every operand that it has, into `got`; inputs have not changed. */
static void run(problem *p, const way *w, float **got)
{
    const layer_case *c = p->c;
    test_mat mats[LAYER_MOST];
    clprune_mat given[LAYER_MOST] = {{0}};
    for (size_t i = 0; i < p->count; i++) {
        const size_t gap = p->size[i].gap + (p->calls + i) % 4;
        const float *old = is(p, i, LAYER_IN) ? p->raw[i] : w->old[i];
        if (!is_absent(w, i) && w->place[i] == i)
            mats[i] = test_mat_make(p->size[i].rows, p->size[i].cols, gap, old);
    }
    for (size_t i = 0; i < p->count; i++)
        if (!is_absent(w, i))
            given[i] = mats[w->place[i]].mat;
    layer_call call = {test_context(), p->shape, w->beta, given, NULL};
    if (p->calls++ % 2 == 0)
        TEST_EVENT((call.event = &event, c->call(&call)));
    else
        TEST_OK(c->call(&call));
    for (size_t i = 0; i < p->count; i++) {
        char what[128];
        (void)snprintf(what, sizeof what, "%s, %s", c->operands[i].name, w->name);
        if (is_absent(w, i))
            continue;
        got[i] = test_mat_get(&mats[w->place[i]], what);
        if (!is(p, i, LAYER_OUT) && !is_covered(w, i))
            test_mat_unchanged(&mats[i], what);
    }
}

static void check_first(problem *p, const char *what)
{
    for (size_t i = 0; i < p->count; i++) {
        const layer_data *d = &p->data[i];
        const char *name = p->c->operands[i].name;
        if (!is(p, i, LAYER_OUT) || is(p, i, LAYER_CHECKED | LAYER_SCRATCH))
            continue;
        if (is(p, i, LAYER_BITS))
            test_same_floats(name, d->rows, d->cols, p->first[i],
                narrow(&p->c->operands[i], d->count, d->want), "%s, %s", p->c->name, what);
        else
            test_close(
                name, d->rows, d->cols, p->first[i], d->want, d->bound, "%s, %s", p->c->name, what);
    }
    if (p->c->check != NULL)
        p->c->check(p->shape, p->first);
}

/* got = sum + beta * old: exactly as fma has it, but for NEAR. */
static void check_sum(const problem *p, size_t i, const way *w, const float *got)
{
    for (size_t k = 0; k < elements(p, i); k++) {
        const float old = w->old[i][k], value = p->first[i][k];
        const float want = fmaf(w->beta, old, value);
        const float slack = 1e-4f * (fabsf(w->beta * old) + fabsf(value) + 10);
        if (is(p, i, LAYER_NEAR) ? !(fabsf(got[k] - want) <= slack) : got[k] != want)
            fail_msg("%s, %s, beta %g: element %zu is %.9g instead of %.9g", p->c->name,
                p->c->operands[i].name, (double)w->beta, k, (double)got[k], (double)want);
    }
}

/* Another call: each output has the bits of the first one, but sums with a beta. */
static void check_way(problem *p, const way *w)
{
    const size_t mark = test_mark();
    float *got[LAYER_MOST] = {NULL};
    run(p, w, got);
    for (size_t i = 0; i < p->count; i++) {
        if (!is(p, i, LAYER_OUT) || is(p, i, LAYER_SCRATCH) || got[i] == NULL || is_covered(w, i))
            continue;
        if (w->beta != 0 && is(p, i, LAYER_SUM))
            check_sum(p, i, w, got[i]);
        else
            test_same_floats(p->c->operands[i].name, p->size[i].rows, p->size[i].cols, got[i],
                p->first[i], "%s, %s", p->c->name, w->name);
    }
    test_release(mark);
}

static way way_new(const char *name, unsigned absent)
{
    way w = {.name = name, .absent = absent};
    for (size_t i = 0; i < LAYER_MOST; i++)
        w.place[i] = i;
    return w;
}

/* Each output in each place that it may have. Returns the way with all outputs in place, each in a
 * place of its own. */
static way check_places(problem *p, unsigned absent)
{
    way all = way_new("all in place", absent);
    unsigned taken = absent;
    size_t moved = 0;
    for (size_t i = 0; i < p->count; i++) {
        const unsigned over = p->c->operands[i].over & ~absent;
        for (size_t k = 0; k < p->count && (absent >> i & 1) == 0; k++) {
            if ((over >> k & 1) == 0)
                continue;
            char name[128];
            (void)snprintf(
                name, sizeof name, "%s over %s", p->c->operands[i].name, p->c->operands[k].name);
            way w = way_new(name, absent);
            w.place[i] = k;
            check_way(p, &w);
            if (all.place[i] == i && (taken >> k & 1) == 0) {
                all.place[i] = k;
                taken |= 1u << k;
                moved++;
            }
        }
    }
    if (moved > 1)
        check_way(p, &all);
    return all;
}

/* Bits of the operands that have all of `role`. */
static unsigned which(const problem *p, unsigned role)
{
    unsigned bits = 0;
    for (size_t i = 0; i < p->count; i++)
        bits |= (p->c->operands[i].role & role) == role ? 1u << i : 0;
    return bits;
}

/* The next larger subset of `set`; 0 after the last. */
static unsigned next_subset(unsigned subset, unsigned set)
{
    return (subset - set) & set;
}

static void check_betas(problem *p, unsigned absent, way in_place)
{
    static const float betas[] = {0.5f, 1, -2};
    for (size_t b = 0; b < COUNT_OF(betas); b++) {
        const size_t mark = test_mark();
        way w = b == 1 ? in_place : way_new("with beta", absent);
        w.beta = betas[b];
        for (size_t i = 0; i < p->count; i++)
            if (is(p, i, LAYER_SUM))
                w.old[i] = test_new_normal(90 + i, elements(p, i));
        check_way(p, &w);
        test_release(mark);
    }
}

/* What is added to the first operand by the call gives the bits of an addition before. */
static void check_added(problem *p, unsigned absent, size_t bias)
{
    const size_t count = elements(p, 0), cols = p->size[0].cols;
    float *before = p->raw[0], *sum = test_copy(count * sizeof *sum, before);
    for (size_t i = 0; i < count; i++)
        sum[i] += p->raw[bias][i % cols];
    p->raw[0] = sum;
    const way w = way_new("with the bias added before", absent | 1u << bias);
    check_way(p, &w);
    p->raw[0] = before;
}

/* All of it, with the optional inputs of `absent` left out. */
static void check_inputs(problem *p, unsigned absent)
{
    const double *kept[LAYER_MOST];
    const unsigned inputs = which(p, LAYER_IN), optional = which(p, LAYER_OUT | LAYER_OPTIONAL);
    for (size_t i = 0; i < p->count; i++) {
        kept[i] = p->data[i].in;
        if ((absent >> i & 1) != 0)
            p->data[i].in = NULL;
        for (size_t k = 0; is(p, i, LAYER_OUT) && k < elements(p, i); k++)
            p->data[i].want[k] = p->data[i].bound[k] = 0;
    }
    const way first = way_new(absent == 0 ? "first call" : "without optional inputs", absent);
    memset(p->first, 0, sizeof p->first);
    p->c->reference(p->data);
    run(p, &first, p->first);
    check_first(p, first.name);
    const way again = way_new("again", absent);
    check_way(p, &again);
    const way in_place = check_places(p, absent);
    for (unsigned without = next_subset(0, optional); without != 0;
         without = next_subset(without, optional)) {
        const way w = way_new("without optional outputs", absent | without);
        check_way(p, &w);
        (void)check_places(p, absent | without);
    }
    if (which(p, LAYER_SUM) != 0)
        check_betas(p, absent, in_place);
    for (size_t i = 0; i < p->count; i++)
        if (is(p, i, LAYER_ADDED) && (absent >> i & 1) == 0)
            check_added(p, absent, i);
    for (size_t i = 0; i < p->count; i++)
        if ((inputs >> i & 1) != 0)
            p->data[i].in = kept[i];
}

/* ---- lists ---- */

typedef struct case_row {
    const layer_case *c;
    const void *shape;
} case_row;

static void run_case(void **state)
{
    const case_row *row = *state;
    problem p = problem_new(row->c, row->shape);
    for (size_t i = 0; i < p.count; i++)
        if (is(&p, i, LAYER_IN))
            set_input(
                &p, i, make_values(&row->c->operands[i], row->shape, elements(&p, i), 11 + i));
    const unsigned optional = which(&p, LAYER_IN | LAYER_OPTIONAL);
    check_inputs(&p, 0);
    for (unsigned absent = next_subset(0, optional); absent != 0;
         absent = next_subset(absent, optional))
        check_inputs(&p, absent);
}

void layer_add_one(test_list *list, const layer_case *c, const void *shape, const char *text, ...)
{
    static case_row rows[512];
    static size_t used;
    char name[128];
    va_list arguments;
    va_start(arguments, text);
    (void)vsnprintf(name, sizeof name, text, arguments);
    va_end(arguments);
    if (used == COUNT_OF(rows))
        abort();
    rows[used] = (case_row){c, shape};
    test_add(list, run_case, &rows[used++], "%s %s", c->name, name);
}

void layer_add(test_list *list, const layer_case *c)
{
    for (size_t i = 0; i < LAYER_SHAPES; i++) {
        const layer_shape *s = &layer_shapes[i];
        if (layer_is_wanted(s))
            layer_add_one(list, c, s, "%zu x %zu + %zu", s->rows, s->cols, s->gap);
    }
}

/* ---- gradients ---- */

/* The operand with this name behind `prefix`, or `none`. */
static size_t find(const layer_case *c, unsigned role, const char *prefix, const char *name)
{
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < count_of(c); i++)
        if ((c->operands[i].role & role) != 0 &&
            strncmp(c->operands[i].name, prefix, length) == 0 &&
            strcmp(c->operands[i].name + length, name) == 0)
            return i;
    return LAYER_MOST;
}

/* A forward pass as a function of its parameters, one after the other, and the weights of its
 * outputs in the loss. */
typedef struct loss {
    problem p;
    size_t total, params, param[LAYER_MOST];
    float *weight[LAYER_MOST]; /* dy of output i, or NULL */
} loss;

static double loss_ref(void *user, const double *theta)
{
    loss *l = user;
    double sum = 0;
    for (size_t i = 0; i < l->params; i++) {
        l->p.data[l->param[i]].in = theta;
        theta += elements(&l->p, l->param[i]);
    }
    l->p.c->reference(l->p.data);
    for (size_t i = 0; i < l->p.count; i++)
        for (size_t k = 0; l->weight[i] != NULL && k < elements(&l->p, i); k++)
            sum += (double)l->weight[i][k] * l->p.data[i].want[k];
    return sum;
}

static double loss_device(void *user, const double *theta)
{
    loss *l = user;
    double sum = 0;
    float *got[LAYER_MOST];
    const way w = way_new("loss", 0);
    for (size_t i = 0; i < l->params; i++) {
        l->p.raw[l->param[i]] = layer_narrow(elements(&l->p, l->param[i]), theta);
        theta += elements(&l->p, l->param[i]);
    }
    run(&l->p, &w, got);
    for (size_t i = 0; i < l->p.count; i++)
        for (size_t k = 0; l->weight[i] != NULL && k < elements(&l->p, i); k++)
            sum += (double)l->weight[i][k] * (double)got[i][k];
    return sum;
}

/* An input of the backward pass: the forward pass's of the same name, a weight of the loss, or its
 * own. */
static float *backward_input(const loss *l, const problem *back, size_t i)
{
    const layer_operand *o = &back->c->operands[i];
    const layer_case *forward = l->p.c;
    const size_t in = find(forward, LAYER_IN, "", o->name),
                 out = find(forward, LAYER_OUT, "", o->name);
    if (in < LAYER_MOST)
        return l->p.raw[in];
    if (out < LAYER_MOST)
        return narrow(&forward->operands[out], elements(&l->p, out), l->p.data[out].want);
    const size_t y = o->name[0] == 'd' ? find(forward, LAYER_OUT, "", o->name + 1) : LAYER_MOST;
    if (y < LAYER_MOST)
        return l->weight[y];
    return make_values(o, back->shape, elements(back, i), 31 + i);
}

void layer_slopes_of(
    const layer_case *forward, const layer_case *backward, const void *shape, layer_steps steps)
{
    loss l = {.p = problem_new(forward, shape)};
    problem back = problem_new(backward, shape);
    size_t gradient_of[LAYER_MOST];
    const float *dy = NULL;
    for (size_t i = 0; i < l.p.count; i++) {
        const layer_operand *o = &forward->operands[i];
        const size_t count = elements(&l.p, i);
        if (is(&l.p, i, LAYER_IN))
            set_input(&l.p, i, make_values(o, shape, count, 11 + i));
        if (is(&l.p, i, LAYER_OUT) && find(backward, LAYER_IN, "d", o->name) < LAYER_MOST)
            dy = l.weight[i] = make_values(o, shape, count, 21 + i);
        gradient_of[i] = find(backward, LAYER_OUT, "d", o->name);
        if (is(&l.p, i, LAYER_IN) && (gradient_of[i] < LAYER_MOST || is(&l.p, i, LAYER_RESIDUAL))) {
            l.param[l.params++] = i;
            l.total += count;
        }
    }
    assert_true(l.params > 0);
    double *theta = test_doubles(l.total), *grad = test_doubles(l.total),
           *device = test_doubles(l.total);
    size_t at = 0;
    for (size_t i = 0; i < l.params; i++) {
        memcpy(theta + at, l.p.data[l.param[i]].in, elements(&l.p, l.param[i]) * sizeof *theta);
        at += elements(&l.p, l.param[i]);
    }
    (void)loss_ref(&l, theta); /* for the outputs that the backward pass takes */
    float *got[LAYER_MOST];
    const way w = way_new("gradients", 0);
    for (size_t i = 0; i < back.count; i++)
        if (is(&back, i, LAYER_IN))
            set_input(&back, i, backward_input(&l, &back, i));
    if (backward->reference != NULL)
        backward->reference(back.data);
    run(&back, &w, got);
    at = 0;
    for (size_t i = 0; i < l.params; i++) {
        const size_t g = gradient_of[l.param[i]];
        for (size_t k = 0; k < elements(&l.p, l.param[i]); k++, at++) {
            const bool residual = g == LAYER_MOST;
            device[at] = (double)(residual ? dy[k] : got[g][k]);
            grad[at] = residual ? device[at] : back.data[g].want[k];
        }
    }
    if (backward->reference == NULL)
        grad = device;
    else
        layer_slopes("reference", loss_ref, &l, l.total, theta, grad, steps.step, steps.tolerance);
    if (forward->call != NULL)
        layer_slopes("device", loss_device, &l, l.total, theta, grad, steps.device_step,
            steps.device_tolerance);
    layer_slopes(
        "gradient", loss_ref, &l, l.total, theta, device, steps.step, steps.gradient_tolerance);
}

/* ---- shapes ---- */

bool layer_is_wanted(const layer_shape *s)
{
    return !test_small() || s->rows * s->cols < 10000;
}

void layer_add_shapes(test_list *list, CMUnitTestFunction run_shape, const char *what)
{
    for (size_t i = 0; i < LAYER_SHAPES; i++) {
        const layer_shape *s = &layer_shapes[i];
        if (layer_is_wanted(s))
            test_add(list, run_shape, s, "%s %zu x %zu + %zu", what, s->rows, s->cols, s->gap);
    }
}

layer_size layer_all(const void *shape)
{
    const layer_shape *s = shape;
    return (layer_size){s->rows, s->cols, s->gap};
}

layer_size layer_row(const void *shape)
{
    return (layer_size){1, ((const layer_shape *)shape)->cols, 0};
}

layer_size layer_column(const void *shape)
{
    return (layer_size){1, ((const layer_shape *)shape)->rows, 0};
}

enum { LINEAR_ROWS = 11 };

layer_size layer_linear_x(const void *shape)
{
    return (layer_size){LINEAR_ROWS, ((const layer_shape *)shape)->cols, 0};
}

layer_size layer_linear_y(const void *shape)
{
    return (layer_size){LINEAR_ROWS, ((const layer_shape *)shape)->rows, 0};
}

layer_size layer_token_row(const void *shape)
{
    static const size_t some[] = {100, 75, 12, 8, 7, 1};
    size_t i = 0;
    while (((const layer_shape *)shape)->rows % some[i] != 0)
        i++;
    return (layer_size){1, some[i], 0};
}

/* ---- references ---- */

void layer_set(const layer_data *to, size_t i, double value, size_t terms, double size)
{
    to->want[i] = value;
    to->bound[i] = test_bound(terms, size, value);
}

void layer_set_token_sums(
    const layer_data *to, size_t rows, size_t cols, const double *values, const double *bounds)
{
    const size_t tokens = to->cols;
    double *sum = test_doubles(tokens), *size = test_doubles(tokens), *off = test_doubles(tokens);
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t q = i / cols % tokens;
        sum[q] += values[i];
        size[q] += fabs(values[i]);
        off[q] += bounds != NULL ? bounds[i] : 0;
    }
    for (size_t q = 0; q < tokens; q++) {
        layer_set(to, q, sum[q], rows / tokens * cols, size[q]);
        to->bound[q] += off[q];
    }
}

void layer_set_sums(const layer_data *to, size_t rows, const double *values, const double *bounds)
{
    layer_set_token_sums(to, rows * to->cols, 1, values, bounds);
}

void layer_set_dots(const layer_data *to, size_t rows, const double *a, const double *b)
{
    double *products = test_doubles(rows * to->cols);
    for (size_t i = 0; i < rows * to->cols; i++)
        products[i] = a[i] * b[i];
    layer_set_sums(to, rows, products, NULL);
}

/* ---- values ---- */

double *layer_widen(size_t count, const float *values)
{
    double *wide = test_doubles(count);
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    return wide;
}

float *layer_narrow(size_t count, const double *values)
{
    float *narrowed = test_floats(count);
    for (size_t i = 0; i < count; i++)
        narrowed[i] = (float)values[i];
    return narrowed;
}

void layer_zeros(const void *shape, size_t count, float *values)
{
    (void)shape;
    memset(values, 0, count * sizeof *values);
}

float *layer_same_values(size_t count, float value)
{
    float *values = test_floats(count);
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    return values;
}

bool layer_bit(const float *mask, size_t words, size_t r, size_t c)
{
    const unsigned char *row = (const unsigned char *)(mask + r * words);
    return (row[c / 8] >> c % 8 & 1) != 0;
}

/* ---- checks ---- */

void layer_check(const char *what, const test_mat *m, const double *want, const double *bound,
    const char *parameters)
{
    const float *got = test_mat_get(m, what);
    test_close(what, m->mat.rows, m->mat.cols, got, want, bound, "%s", parameters);
}

void layer_same(const char *what, const test_mat *a, const test_mat *b)
{
    const float *x = test_mat_get(a, what), *y = test_mat_get(b, what);
    test_same_floats(what, a->mat.rows, a->mat.cols, x, y, "two runs");
}

void layer_same_bias_gradient(const test_mat *dy, const test_mat *db)
{
    const clprune_mat none = CLPRUNE_NO_MAT;
    const test_mat again = test_mat_make(1, dy->mat.cols, 2, NULL);
    clprune_linear *layer =
        test_new_linear(test_context(), (clprune_linear_desc){.in = 1, .out = dy->mat.cols});
    TEST_OK(clprune_linear_backward(
        layer, 1, NULL, dy->mat, none, &(clprune_grads){.db = again.mat}, NULL));
    layer_same("db of the linear layer", db, &again);
}

void layer_slopes(const char *what, layer_function f, void *user, size_t count, const double *x,
    const double *grad, double step, double tolerance)
{
    double *moved = test_doubles(count);
    for (uint64_t trial = 0; trial < 3; trial++) {
        const float *v = test_new_normal(900 + trial, count);
        double slope = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            slope += grad[i] * (double)v[i];
            size += fabs(grad[i] * (double)v[i]);
            moved[i] = x[i] + step * (double)v[i];
        }
        const double ahead = f(user, moved);
        for (size_t i = 0; i < count; i++)
            moved[i] = x[i] - step * (double)v[i];
        const double found = (ahead - f(user, moved)) / (2 * step);
        if (!(fabs(found - slope) <= tolerance * size))
            fail_msg("%s: the slope by differences is %.12g, by the gradient %.12g, allowed %.3g",
                what, found, slope, tolerance * size);
    }
}
