/* tune_search.c: coordinate descent, then random steps from the best row until the time is over.
 *
 * A candidate is checked, then timed in turns with the best row so far. Its speed-up is the
 * geometric mean over the cases of ratios of medians. It must exceed WIN, and the ratio of the best
 * row to itself in two contexts. It must do so again with more rounds, with a mean less two
 * standard errors above 1, and pass all checks. At the end, parameters that are no faster than the
 * built-in row are dropped. */
#include "tune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"

#define WIN         1.02
#define HOPELESS    0.9  /* after the first round */
#define RUN_SECONDS 0.01 /* of one timing, at least */

enum { MAX_ROUNDS = 15, MAX_TRIED = 8192 };

typedef struct search {
    tune *t;
    double end; /* when the time is over */
    uint64_t tried[MAX_TRIED];
    size_t tried_count;
    uint64_t random;
    unsigned timed, wrong;
    double win; /* the ratio that a candidate must exceed */
    /* Seconds with CLBlast's own parameters, taken before they are overridden. */
    double defaults[MAX_CASES];
} search;

/* A fresh context with a row, on the queue of t->base; NULL where the library refuses the row. */
static clprune_context *open_candidate(const tune *t, const tune_row *row)
{
    const clprune_context_options options = {
        .kernels = clprune_context_kernels(t->base), .precision = t->precision, .cache_dir = "off"};
    clprune_context *context = NULL;
    FILE *file = fopen(t->file, "w");
    if (file != NULL)
        tune_write_file(file, t, row, t->op, NULL);
    if (file == NULL || fclose(file) != 0)
        tool_quit(EXIT_RUN, "the temporary file: %s", strerror(errno));
    (void)setenv("CLPRUNE_TUNING", t->file, 1);
    if (t->op->kind == KIND_GEMM)
        (void)setenv("CLPRUNE_DEBUG", t->op->blast ? t->debug_blast : t->debug_vector, 1);
    const clprune_status status =
        clprune_context_create(clprune_context_queue(t->base), &options, &context);
    (void)unsetenv("CLPRUNE_TUNING");
    if (status != CLPRUNE_SUCCESS && status != CLPRUNE_INVALID_ARGUMENT)
        tool_fail(NULL, status);
    return context;
}

static double time_case(clprune_context *context, const tune_case *c)
{
    const double start = tool_now();
    double now;
    unsigned runs = 0;
    do {
        CHECK(context, tune_case_run(context, c));
        CHECK(context, clprune_context_finish(context));
        runs++;
        now = tool_now();
    } while (now - start < RUN_SECONDS);
    return (now - start) / runs;
}

/* Runs each case once, untimed: programs are built, scratch is taken. */
static bool warm_up(const tune *t, clprune_context *context)
{
    for (size_t i = 0; i < t->case_count; i++)
        if (stop_signal() != 0 || tune_case_run(context, &t->cases[i]) != CLPRUNE_SUCCESS ||
            clprune_context_finish(context) != CLPRUNE_SUCCESS)
            return false;
    return true;
}

/* Whether a row leaves CLBlast its own parameters. */
static bool is_default(const tune *t, const tune_row *row)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->parameters[i].section, "clblast.Xgemm") == 0)
            return !row->is_set[i];
    return false;
}

/* A comparison: the second row against the first. */
typedef struct verdict {
    double ratio; /* speed-up: geometric mean over the cases of ratios of medians */
    double sure;  /* a lower bound: geometric mean over cases and rounds, less two standard errors
                     over the rounds */
} verdict;

/* Opens and warms up the context of one side; false if its programs do not build or run. */
static bool open_side(const tune *t, const tune_row *row, clprune_context **context)
{
    if (*context != NULL)
        return true;
    *context = open_candidate(t, row);
    return *context != NULL && warm_up(t, *context);
}

/* One round of timings into seconds[side][case]. CLBlast's parameters are global to the process. So
 * its contexts are opened anew for each round, and CLBlast's default parameters, which cannot be
 * set again, were timed before the search. Other contexts live side by side and take turns case by
 * case. */
static bool time_round(const search *s, const tune_row *rows[2], clprune_context *contexts[2],
    int round, double *seconds[2])
{
    const tune *t = s->t;
    for (int side = 0; t->op->blast && side < 2; side++) {
        if (!is_default(t, rows[side]) && !open_side(t, rows[side], &contexts[side]))
            return false;
        for (size_t i = 0; i < t->case_count; i++)
            seconds[side][i] = is_default(t, rows[side]) ? s->defaults[i]
                                                         : time_case(contexts[side], &t->cases[i]);
        clprune_context_destroy(contexts[side]);
        contexts[side] = NULL;
    }
    if (t->op->blast)
        return true;
    if (!open_side(t, rows[0], &contexts[0]) || !open_side(t, rows[1], &contexts[1]))
        return false;
    for (size_t i = 0; i < t->case_count; i++)
        for (int turn = 0; turn < 2; turn++) {
            const int side = (turn + round) % 2;
            seconds[side][i] = time_case(contexts[side], &t->cases[i]);
        }
    return true;
}

static verdict measure(const search *s, const tune_row *rows[2], int rounds, double hopeless)
{
    static double seconds[MAX_ROUNDS][2][MAX_CASES];
    const tune *t = s->t;
    const double cases = (double)t->case_count;
    clprune_context *contexts[2] = {NULL, NULL};
    double logs[MAX_ROUNDS], mean = 0.0, square = 0.0, sum = 0.0;
    int done = 0;
    while (done < rounds) {
        double *now[2] = {seconds[done][0], seconds[done][1]};
        if (stop_signal() != 0 || !time_round(s, rows, contexts, done, now)) {
            done = 0;
            break;
        }
        logs[done] = 0.0;
        for (size_t i = 0; i < t->case_count; i++)
            logs[done] += log(now[0][i] / now[1][i]) / cases;
        mean += logs[done] / rounds;
        if (done++ == 0 && exp(logs[0]) < hopeless)
            break;
    }
    for (int side = 0; side < 2; side++)
        clprune_context_destroy(contexts[side]);
    if (done < rounds)
        return done == 0 ? (verdict){0.0, 0.0} : (verdict){exp(logs[0]), 0.0};
    for (size_t i = 0; i < t->case_count; i++)
        for (int side = 0; side < 2; side++) {
            double sorted[MAX_ROUNDS];
            for (int k = 0; k < rounds; k++)
                sorted[k] = seconds[k][side][i];
            qsort(sorted, (size_t)rounds, sizeof *sorted, compare_doubles);
            sum += log(sorted[rounds / 2]) * (side == 0 ? 1.0 : -1.0) / cases;
        }
    for (int k = 0; k < rounds; k++)
        square += (logs[k] - mean) * (logs[k] - mean);
    const double error = sqrt(square / (rounds - 1) / rounds);
    return (verdict){exp(sum), exp(mean - 2.0 * error)};
}

/* Remembers a row; false where it was tried before. */
static bool is_new(search *s, const tune_row *row)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < s->t->count; i++)
        hash = (hash ^ row->values[i]) * 1099511628211u;
    for (size_t i = 0; i < s->tried_count; i++)
        if (s->tried[i] == hash)
            return false;
    if (s->tried_count < MAX_TRIED)
        s->tried[s->tried_count++] = hash;
    return true;
}

static void describe(const search *s, const tune_row *row, const char *text)
{
    fprintf(stderr, "%s:", s->t->op->name);
    for (size_t i = 0; i < s->t->count; i++)
        if (row->values[i] != s->t->best.values[i])
            fprintf(stderr, " %s %u -> %u", s->t->parameters[i].key, s->t->best.values[i],
                row->values[i]);
    fprintf(stderr, ": %s\n", text);
}

/* Tries a candidate; true if it becomes the best row. */
static bool try_row(search *s, const tune_row *row)
{
    tune *t = s->t;
    const tune_row *rows[2] = {&t->best, row};
    char why[256], text[300];
    if (stop_signal() != 0 || tool_now() > s->end || !is_new(s, row))
        return false;
    clprune_context *context = open_candidate(t, row);
    if (context == NULL)
        return false; /* not legal */
    const bool right = tune_check(t, context, row, false, why);
    clprune_context_destroy(context);
    if (stop_signal() != 0)
        return false;
    if (!right) {
        s->wrong++;
        (void)snprintf(text, sizeof text, "dropped, %s", why);
        describe(s, row, text);
        return false;
    }
    verdict v = measure(s, rows, t->op->blast ? 3 : t->quick ? 5 : 7, HOPELESS);
    if (stop_signal() != 0)
        return false;
    s->timed++;
    const bool again = v.ratio > s->win;
    if (again)
        v = measure(s, rows, t->op->blast ? 5 : t->quick ? 11 : 15, 0.0);
    bool wins = again && v.ratio > s->win && v.sure > 1.0;
    (void)snprintf(text, sizeof text, "%.3f%s", v.ratio,
        wins    ? ", wins"
        : again ? ", not sure"
                : "");
    if (stop_signal() != 0)
        return false;
    if (wins && (context = open_candidate(t, row)) != NULL) {
        wins = tune_check(t, context, row, true, why);
        clprune_context_destroy(context);
        if (stop_signal() != 0)
            return false; /* not all was checked */
        if (!wins) {
            s->wrong++;
            (void)snprintf(text, sizeof text, "dropped, %s", why);
        }
    }
    describe(s, row, text);
    if (wins)
        t->best = *row;
    return wins;
}

/* Values to try next to `value`: half and twice, in between, and for small numbers the adjacent
 * ones. */
static size_t neighbours(const search *s, size_t parameter, uint32_t value, uint32_t found[6])
{
    const clprune_tuning_parameter *p = &s->t->parameters[parameter];
    const uint64_t wide = value;
    const uint64_t wanted[6] = {
        2 * wide, wide / 2, wide + 1, wide > 0 ? wide - 1 : 0, 3 * wide / 2, 3 * wide / 4};
    size_t count = 0;
    for (int i = 0; i < 6; i++) {
        if ((i == 2 || i == 3) && value > 8)
            continue;
        if (i >= 4 && s->t->quick)
            continue;
        const uint64_t rounded = wanted[i] - wanted[i] % p->multiple;
        if (rounded >= p->least && rounded <= p->most && rounded != value)
            found[count++] = (uint32_t)rounded;
    }
    return count;
}

static bool descend(search *s)
{
    tune *t = s->t;
    bool won = false;
    for (size_t i = 0; i < t->count; i++) {
        if (!tune_searches(t, t->op, i) || !t->best.is_set[i])
            continue;
        uint32_t found[6];
        const size_t count = neighbours(s, i, t->best.values[i], found);
        for (size_t k = 0; k < count; k++) {
            tune_row row = t->best;
            row.values[i] = found[k];
            if (try_row(s, &row)) {
                won = true;
                k = count; /* on from here in the next pass */
            }
        }
    }
    return won;
}

static size_t random_below(search *s, size_t bound)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (size_t)(s->random % bound);
}

/* Two or three steps at once, for parameters that are good only together. */
static bool random_step(search *s)
{
    tune *t = s->t;
    tune_row row = t->best;
    for (size_t steps = 2 + random_below(s, 2); steps > 0; steps--) {
        size_t i;
        uint32_t found[6];
        do
            i = random_below(s, t->count);
        while (!tune_searches(t, t->op, i) || !row.is_set[i]);
        const size_t count = neighbours(s, i, row.values[i], found);
        if (count > 0)
            row.values[i] = found[random_below(s, count)];
    }
    return try_row(s, &row);
}

/* Sets for CLBlast's Xgemm, in the order of its names: two with much work per work-item, which suit
 * CPUs, then some for GPUs. */
static const uint32_t blast_sets[][16] = {
    /* GEMMK KREG KWG KWI MDIMA MDIMC MWG NDIMB NDIMC NWG SA SB STRM STRN VWM VWN */
    {1, 1, 16, 1, 4, 4, 64, 4, 4, 64, 0, 0, 0, 0, 16, 1},
    {1, 1, 16, 1, 2, 2, 32, 2, 2, 32, 0, 0, 0, 0, 16, 1},
    {1, 1, 16, 1, 1, 1, 16, 1, 1, 16, 0, 0, 0, 0, 16, 1},
    {1, 1, 8, 1, 4, 4, 128, 4, 4, 32, 0, 0, 0, 0, 16, 1},
    {1, 2, 16, 1, 4, 4, 32, 4, 4, 32, 0, 0, 0, 0, 8, 2},
    {0, 1, 32, 2, 8, 8, 64, 8, 8, 64, 0, 0, 0, 0, 4, 4},
    {0, 1, 32, 2, 16, 16, 64, 16, 8, 64, 1, 1, 0, 0, 4, 4},
    {0, 1, 32, 2, 16, 16, 128, 16, 16, 128, 1, 1, 0, 0, 4, 4},
    {0, 1, 32, 8, 16, 16, 128, 16, 16, 64, 1, 1, 0, 0, 2, 2},
    {0, 1, 16, 2, 8, 8, 128, 16, 16, 128, 1, 1, 0, 0, 4, 4},
};

static void search_blast(search *s)
{
    const tune *t = s->t;
    if (is_default(t, &t->best)) {
        double seconds[5];
        clprune_context *context = open_candidate(t, &t->best);
        if (context == NULL || (!warm_up(t, context) && stop_signal() == 0))
            tool_fail(context, CLPRUNE_CLBLAST_ERROR);
        for (size_t i = 0; stop_signal() == 0 && i < t->case_count; i++) {
            for (int k = 0; k < 5; k++)
                seconds[k] = time_case(context, &t->cases[i]);
            qsort(seconds, 5, sizeof *seconds, compare_doubles);
            s->defaults[i] = seconds[2];
        }
        clprune_context_destroy(context);
    }
    for (size_t set = 0; set < sizeof blast_sets / sizeof *blast_sets; set++) {
        tune_row row = t->best;
        size_t n = 0;
        for (size_t i = 0; i < t->count; i++)
            if (strcmp(t->parameters[i].section, "clblast.Xgemm") == 0 && n < 16) {
                row.values[i] = blast_sets[set][n++];
                row.is_set[i] = true;
            }
        (void)try_row(s, &row);
    }
    /* The length of the runs that the inner dimension is cut into; 0: one run. */
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->parameters[i].section, "clblast") == 0 && !is_default(t, &t->best))
            for (uint32_t run = 0; run <= 2048; run = run == 0 ? 256 : 2 * run) {
                tune_row row = t->best;
                row.values[i] = run;
                (void)try_row(s, &row);
            }
}

/* Ends the program if the search's first row gives wrong results. */
static void check_start(tune *t)
{
    char why[256];
    clprune_context *context = open_candidate(t, &t->best);
    if (context == NULL)
        tool_fail(NULL, CLPRUNE_INTERNAL_ERROR);
    if (!tune_check(t, context, &t->best, true, why))
        tool_quit(EXIT_RUN, "%s is wrong before any change: %s", t->op->name, why);
    clprune_context_destroy(context);
}

/* The noise: the best row against itself, in two contexts. */
static void measure_noise(search *s)
{
    const tune_row *rows[2] = {&s->t->best, &s->t->best};
    const double ratio = measure(s, rows, s->t->quick ? 5 : 7, 0.0).ratio;
    s->win = fmax(WIN, ratio > 0.0 ? fmax(ratio, 1.0 / ratio) : WIN);
    fprintf(stderr, "%s: a candidate must be %.3f times as fast\n", s->t->op->name, s->win);
}

/* Measures the speed-up over the built-in row; without one, restores the built-in parameters. */
static void finish_op(search *s, tune_op *op)
{
    tune *t = s->t;
    const tune_row *rows[2] = {&t->built_in, &t->best};
    bool same = true;
    for (size_t i = 0; i < t->count; i++)
        same =
            same && (!tune_searches(t, op, i) || (t->best.values[i] == t->built_in.values[i] &&
                                                     t->best.is_set[i] == t->built_in.is_set[i]));
    op->speedup = 1.0;
    op->cut = stop_signal() != 0;
    if (same || op->cut)
        return;
    const verdict v = measure(s, rows, op->blast ? 5 : MAX_ROUNDS, 0.0);
    op->cut = stop_signal() != 0;
    if (op->cut)
        return;
    if (v.ratio > WIN && v.sure > 1.0) {
        op->speedup = v.ratio;
        return;
    }
    fprintf(stderr, "%s: %.3f in the end, back to the built-in row\n", op->name, v.ratio);
    for (size_t i = 0; i < t->count; i++)
        if (tune_searches(t, op, i)) {
            t->best.values[i] = t->built_in.values[i];
            t->best.is_set[i] = t->built_in.is_set[i];
        }
}

void tune_search(tune *t, tune_op *op)
{
    search *s = calloc(1, sizeof *s);
    if (s == NULL)
        tool_fail(NULL, CLPRUNE_OUT_OF_HOST_MEMORY);
    t->op = op;
    tune_cases_make(t);
    *s = (search){.t = t, .end = tool_now() + t->seconds, .random = 88172645463325252u};
    (void)is_new(s, &t->best);
    s->win = WIN;
    if (!op->blast) {
        check_start(t);
        if (stop_signal() == 0)
            measure_noise(s);
    }
    if (op->blast)
        search_blast(s);
    else
        while (descend(s))
            ;
    while (!op->blast && stop_signal() == 0 && tool_now() < s->end)
        (void)random_step(s);
    op->timed = s->timed;
    finish_op(s, op);
    fprintf(stderr, "%s: %u candidates timed, %u wrong; ", op->name, s->timed, s->wrong);
    if (op->cut)
        fprintf(stderr, "stopped by a signal\n");
    else
        fprintf(stderr, "%.3f times as fast as the built-in row\n", op->speedup);
    tune_cases_free(t);
    t->op = NULL;
    free(s);
}
