/* Which values are kept.
 *
 *     DENSE, INPUTS   all that the ways need
 *     EXACT, COMPACT  the fewest bytes from which all that the ways need follows without a product:
 *                     a value is dropped if the layers that make it again from kept ones are
 *                     cheap, and another is kept in its place if that saves bytes. Then products,
 *                     too, within `extra_work`: those first that save the most bytes for their work
 *     LEAST           joints: all between two of them is made again once, from the first */
#include "net/plan/choose.h"

#include <math.h>
#include <stdlib.h>

#include "core/checked.h"
#include "core/system.h"
#include "net/plan/cover.h"
#include "net/plan/narrow.h"
#include "net/plan/price.h"
#include "net/plan/regions.h"
#include "net/plan/steps.h"
#include "nn/store/form.h"
#include "runtime/context/check.h"

/* A preset: a row of numbers. */
typedef struct preset_row {
    clprune__net_policy policy;
    enum { KEEPS_DENSE, KEEPS_INPUTS, KEEPS_ALL } form; /* what is kept in the caller's form */
    bool makes_again; /* what follows from kept values without a product is not kept */
    bool small_share; /* small products run again, up to small_share of a step's; not if pruned */
    bool raises_bits; /* codes have at least the bits that ways and residual paths need */
    bool gelu_codes;  /* if pruned: GELU's derivative is kept as codes */
} preset_row;

static const preset_row presets[] = {
    [CLPRUNE_NET_DENSE] = {{0, CLPRUNE__NET_SIGNS_AGAIN}, KEEPS_DENSE},
    [CLPRUNE_NET_INPUTS] = {{1, CLPRUNE__NET_SIGNS_OF_SUMS}, KEEPS_INPUTS},
    [CLPRUNE_NET_EXACT] = {{2, CLPRUNE__NET_SIGNS_AGAIN}, KEEPS_DENSE, .makes_again = true},
    [CLPRUNE_NET_COMPACT] = {{2, CLPRUNE__NET_SIGNS_KEPT}, KEEPS_ALL, true, true, true, true},
    [CLPRUNE_NET_LEAST] = {{2, CLPRUNE__NET_SIGNS_AGAIN}, KEEPS_ALL, .makes_again = true},
};

/* How a value is needed by the backward pass. */
typedef struct use {
    bool needed;
    bool product;  /* only by products, which read any form */
    bool sign;     /* only for the sign of a sum that has it as a term */
    bool function; /* by an activation, which has no rotated codes, or for its sign */
    unsigned bits; /* of its codes, at least */
} use;

static void find_uses(const clprune__net_plan *plan, use *uses)
{
    for (size_t i = 0; i < plan->graph->count; ++i)
        uses[i] = (use){.product = true, .sign = true};
    for (size_t t = 0; t < plan->tiles_count; ++t) {
        const clprune__net_tile *tile = &plan->tiles[t];
        if (!plan->graph->values[tile->layers[tile->count - 1]].trained)
            continue;
        for (size_t k = 0; k < tile->way->needs_count; ++k) {
            if (!clprune__net_is_needed(plan->graph, tile, k))
                continue;
            use *u = &uses[clprune__net_needed(plan->graph, tile, k)];
            u->needed = true;
            if (tile->way->needs[k].bits > u->bits)
                u->bits = tile->way->needs[k].bits;
            u->product = u->product && tile->way->needs[k].how == CLPRUNE__NET_PRODUCT;
            u->function = u->function || tile->way->needs[k].how == CLPRUNE__NET_CODES ||
                          tile->way->needs[k].how == CLPRUNE__NET_SIGN;
            u->sign = u->sign && tile->way->needs[k].how == CLPRUNE__NET_SIGN &&
                      tile->way->needs[k].in == 1;
        }
    }
    /* What is made again from codes has their error, also what a product is added to. */
    for (size_t i = plan->graph->count; i-- > 0;) {
        const clprune__net_layer *layer = &plan->graph->layers[i];
        const size_t ins = layer->kind->work == NULL ? layer->ins : layer->kind->over;
        for (size_t k = 0; k < ins; ++k) {
            use *u = &uses[layer->in[k]];
            if (uses[i].bits > u->bits)
                u->bits = uses[i].bits;
        }
    }
}

/* The form in which a preset keeps a value. Inputs of activations are not rotated, which made the
 * gradients of pre-trained weights worse (examples/bert/results), nor what ReLU reads its signs
 * from: zeros would not be read as zeros. Vectors in a net of tokens or pixels stay dense, and so
 * do images of few channels, unless they are pooled. All else is dense or bf16, or has a form. */
static clprune_keep form_of(
    const clprune__net_plan *plan, size_t v, const clprune_net_keep *how, const use *u)
{
    const clprune__net_value *value = &plan->graph->values[v];
    clprune_keep keep = how->keep;
    keep.rotate = keep.rotate && !u->function;
    const preset_row *row = &presets[how->preset];
    const bool dense = row->form == KEEPS_DENSE || (row->form == KEEPS_INPUTS && !u->product) ||
                       (keep.form == CLPRUNE_FORM_PRUNED && !(keep.sparsity > 0) &&
                           keep.value_type == CLPRUNE_VALUES_FP32);
    bool vectors = true; /* all values have one row */
    for (size_t i = 0; i < plan->graph->count; ++i)
        vectors = vectors && plan->graph->values[i].shape.rows == 1;
    if ((value->shape.rows == 1 && !vectors) ||
        (value->shape.cols < 4 && (dense || keep.form != CLPRUNE_FORM_POOLED)))
        return (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    if (dense)
        return how->store == CLPRUNE_VALUES_BF16 ||
                       (u->product && clprune__net_is_rounded(plan->graph, v))
                   ? (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = 16}
                   : (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    if (row->form == KEEPS_INPUTS || keep.form == CLPRUNE_FORM_PRUNED) {
        keep.grid_height = (unsigned)value->shape.grid.height;
        keep.grid_width = (unsigned)value->shape.grid.width;
        return keep;
    }
    keep.form = CLPRUNE_FORM_QUANTISED;
    const unsigned bits = plan->graph->layers[v].kind->stream ? 8 : u->bits;
    if (row->raises_bits && keep.bits < bits)
        keep.bits = bits;
    return keep;
}

/* ---- the caller's rules ------------------------------------------------------------------------
 */

/* Whether a value can be made again: an image or rows from the data, others from their inputs. */
static bool is_tensor(const clprune__net_plan *plan, size_t v)
{
    return !plan->graph->layers[v].gone && plan->graph->layers[v].kind->forward != NULL;
}

static clprune_status apply_rules(clprune__net_plan *plan, const clprune_net_keep *how)
{
    clprune_context *context = plan->graph->context;
    for (size_t r = 0; r < how->rules_count; ++r) {
        const clprune_net_rule *rule = &how->rules[r];
        bool found = false;
        REQUIRE(rule->pattern != NULL, CLPRUNE_INVALID_ARGUMENT, "rule %zu has no pattern", r);
        for (size_t v = 0; v < plan->graph->count; ++v) {
            const clprune__net_shape *shape = &plan->graph->values[v].shape;
            clprune__net_choice *value = &plan->values[v];
            clprune_saved_sizes sizes;
            if (!is_tensor(plan, v) ||
                !clprune__system_matches(rule->pattern, plan->graph->layers[v].name))
                continue;
            found = true;
            value->ruled = true;
            value->kept = !rule->again;
            if (rule->again)
                continue;
            value->keep = rule->keep;
            REQUIRE(clprune_saved_size_query(&rule->keep, plan->graph->desc.batch, shape->rows,
                        shape->cols, &sizes) == CLPRUNE_SUCCESS,
                CLPRUNE_INVALID_ARGUMENT, "rule %s for tensor %s: %s", rule->pattern,
                plan->graph->layers[v].name, clprune_last_error(NULL));
            TRY(clprune__keep_restores(context, &rule->keep));
        }
        REQUIRE(found, CLPRUNE_INVALID_ARGUMENT,
            "no tensor matches the rule %s; clprune_net_visit lists those of a net without rules",
            rule->pattern);
    }
    return CLPRUNE_SUCCESS;
}

/* ---- without products --------------------------------------------------------------------------
 */

/* Of a step's multiplications, those of small products that may run again. */
static const double small_share = 0.04;

enum { CHANGES = 9, LIMITS = 1 << 16, TRIALS = 64 }; /* changes at a time; of LEAST */

/* Changes the choice if that is cheaper. */
static bool take_cheaper(
    clprune__net_pricer *pricer, const size_t *values, size_t count, double most_small)
{
    const clprune__net_price now = clprune__net_price_with(pricer, values, count);
    if (!now.possible || now.work > 0 || now.small_work > most_small ||
        clprune__net_price_bytes(pricer->plan, &now) >=
            clprune__net_price_bytes(pricer->plan, &pricer->price))
        return false;
    clprune__net_price_take(pricer, values, count, &now);
    return true;
}

/* v, and the kept values that its users make from it. */
static size_t list_users(const clprune__net_plan *plan, size_t v, size_t *values)
{
    size_t count = 0;
    values[count++] = v;
    for (size_t i = v + 1; i <= plan->graph->values[v].last_user && count < CHANGES; ++i)
        for (size_t k = 0; k < plan->graph->layers[i].ins; ++k)
            if (plan->graph->layers[i].in[k] == v && plan->values[i].kept &&
                !plan->values[i].ruled && values[count - 1] != i && count < CHANGES)
                values[count++] = i;
    return count;
}

/* Drops a kept value, keeps another, or one in place of others, as long as that is cheaper. */
static clprune_status keep_without_products(clprune__net_plan *plan)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const double most_small = small_share * clprune__net_step_work(plan);
    clprune__net_pricer pricer;
    TRY_DONE(clprune__net_pricer_open(&pricer, plan, false));
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t v = plan->graph->count; v-- > 0;) {
            size_t values[CHANGES];
            if (!is_tensor(plan, v) || plan->values[v].ruled)
                continue;
            if (take_cheaper(&pricer, &v, 1, most_small)) {
                changed = true;
                continue;
            }
            const size_t count = plan->values[v].kept ? 1 : list_users(plan, v, values);
            if (count > 1 && take_cheaper(&pricer, values, count, most_small))
                changed = true;
        }
    }
done:
    clprune__net_pricer_close(&pricer);
    return status;
}

/* ---- with some products ------------------------------------------------------------------------
 */

/* The value whose absence saves the most bytes for each multiplication that runs again, within
 * `most` multiplications; plan->graph->count: none. *before: of clprune__net_price_without. */
static size_t best_to_drop(clprune__net_pricer *pricer, double most, size_t *before)
{
    const clprune__net_plan *plan = pricer->plan;
    const double now = clprune__net_price_bytes(plan, &pricer->price);
    size_t best = plan->graph->count, joint = 0;
    double gain = 0;
    for (size_t v = 0; v < plan->graph->count; ++v) {
        const size_t border = joint;
        if (!plan->values[v].kept)
            continue;
        joint = pricer->joints[v] ? v + 1 : joint;
        if (plan->values[v].ruled)
            continue;
        const clprune__net_price p = clprune__net_price_without(pricer, v, border, false);
        const double bytes = now - clprune__net_price_bytes(plan, &p),
                     work = p.work - pricer->price.work;
        if (!p.possible || p.work > most || bytes <= 0 || bytes <= gain * work)
            continue;
        gain = work > 0 ? bytes / work : bytes;
        best = v;
        *before = border;
    }
    return best;
}

static clprune_status run_products_again(clprune__net_plan *plan, double share)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const double most = share * clprune__net_step_work(plan);
    clprune__net_pricer pricer;
    size_t before = 0;
    TRY_DONE(clprune__net_pricer_open(&pricer, plan, true));
    for (size_t v; (v = best_to_drop(&pricer, most, &before)) < plan->graph->count;)
        (void)clprune__net_price_without(&pricer, v, before, true);
done:
    clprune__net_pricer_close(&pricer);
    return status;
}

static void find_joints(const clprune__net_plan *plan, bool *joints)
{
    clprune__net_list_joints(plan, joints);
    for (size_t i = 0; i < plan->graph->count; ++i)
        joints[i] = joints[i] && i > 0 && i <= plan->graph->output && is_tensor(plan, i);
}

/* ---- least -------------------------------------------------------------------------------------
 */

/* What is made again between two joints. */
typedef struct span {
    double elements, largest;
    bool whole;
} span;

static void add_layer(const clprune__net_plan *plan, span *s, size_t i)
{
    const clprune__net_layer *layer = &plan->graph->layers[i];
    if (layer->gone || layer->kind->forward == NULL)
        return;
    s->whole = s->whole || layer->kind->whole;
    if (clprune__net_fused(plan, i) != NULL && plan->layers[i].tile_last != i)
        return;
    const double each = (double)clprune__net_elements(&plan->graph->values[i]);
    s->elements += each;
    s->largest = each > s->largest ? each : s->largest;
}

/* Bytes of a span that ends at joint `last`, in chunks of 8 MiB. It orders spans;
 * clprune__net_backward_bytes measures. */
static double span_bytes(const clprune__net_plan *plan, const span *s, size_t last)
{
    const double batch = (double)plan->graph->desc.batch, room = 1u << 21;
    double chunk = s->largest > 0 ? room / s->largest : batch;
    if (s->whole || plan->graph->layers[last].kind->whole || chunk > batch)
        chunk = batch;
    return 4 * s->elements * (chunk < 1 ? 1 : chunk);
}

/* Keeps joints so that no span between two has more than `most` bytes. Returns the bytes of kept
 * joints. *longest: the most bytes of a span that was not cut: any limit from this up to `most`
 * keeps the same joints. */
static double keep_joints(clprune__net_plan *plan, const bool *joints, double most, double *longest)
{
    size_t first = 0, joint = 0; /* of the span; the last joint in it */
    double kept = 0;
    span s = {0};
    *longest = 0;
    for (size_t i = 0; i < plan->graph->count; ++i)
        plan->values[i].kept = plan->values[i].ruled && plan->values[i].kept;
    for (size_t i = 1; i <= plan->graph->output; ++i) {
        if (joints[i] && joint > first &&
            (!plan->values[joint].ruled || plan->values[joint].kept)) {
            const double bytes = span_bytes(plan, &s, i);
            if (bytes > most) {
                plan->values[joint].kept = true;
                kept += (double)clprune__net_bytes(plan, joint);
                first = joint;
                s = (span){0};
                for (size_t k = first + 1; k < i; ++k)
                    add_layer(plan, &s, k);
            } else if (bytes > *longest) {
                *longest = bytes;
            }
        }
        joint = joints[i] ? i : joint;
        add_layer(plan, &s, i);
    }
    return kept;
}

/* Keeps the joint before each kept one in its place: with the output of a block rather than of its
 * first half, say, the products of the second half that only make the output do not run again. */
static void keep_sooner(clprune__net_plan *plan, const bool *joints)
{
    size_t joint = 0;
    for (size_t i = 1; i <= plan->graph->output; ++i) {
        if (!joints[i])
            continue;
        if (joint > 0 && plan->values[i].kept && !plan->values[i].ruled &&
            !plan->values[joint].ruled) {
            plan->values[i].kept = false;
            plan->values[joint].kept = true;
        }
        joint = i;
    }
}

/* Joints that were tried: what they keep, what a step takes in all and what it runs again. */
typedef struct trial {
    clprune__net_room room;
    double limit, kept, work;
    bool sooner;
} trial;

static clprune_status try_joints(clprune__net_plan *plan, trial *t)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__net_pricer pricer;
    TRY_DONE(clprune__net_pricer_open(&pricer, plan, true));
    t->kept = pricer.price.kept;
    t->work = pricer.price.work;
    TRY_DONE(clprune__net_cut(plan, true, true));
    TRY_DONE(clprune__net_find_room(plan, &t->room));
done:
    clprune__net_pricer_close(&pricer);
    return status;
}

/* Whether a plan takes the place of another that runs less again: it keeps no more, and takes 5 %
 * less in all, in an arena and without: the choice, and so the bits, are the same. What operations
 * borrow, which is not counted, is less than that. */
static bool is_worth_it(const clprune__net_room *room, const clprune__net_room *other)
{
    return room->kept <= other->kept && room->arena < 0.95 * other->arena &&
           room->apart < 0.95 * other->apart;
}

static bool takes_no_more(const clprune__net_room *room, const clprune__net_room *other)
{
    return room->kept <= other->kept && room->arena <= other->arena && room->apart <= other->apart;
}

/* The trial that needs the least memory, or one with less work for at most 15 % more, kept and in
 * all. One that is sooner may keep less, but only for more work. */
static trial best_of(const trial *trials, size_t count)
{
    static const double worth = 1.15;
    trial least = trials[0];
    for (size_t i = 1; i < count; ++i)
        if (!trials[i].sooner && trials[i].room.backward < least.room.backward)
            least = trials[i];
    trial best = least;
    for (size_t i = 0; i < count; ++i)
        if (trials[i].room.backward <= worth * least.room.backward &&
            trials[i].kept <= worth * least.kept && trials[i].work < best.work)
            best = trials[i];
    return best;
}

/* Takes joints whose step needs about the least memory, by the limit of the spans between them, of
 * those that need no more than `most`. *found: there are such joints. */
static clprune_status keep_least(
    clprune__net_plan *plan, const clprune__net_room *most, bool *found)
{
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    double before = -1, limit = HUGE_VAL, longest = 1;
    size_t limits_count = 0, tried = 0;
    bool *joints = calloc(plan->graph->count, sizeof *joints);
    double *limits = calloc(LIMITS, sizeof *limits);
    trial *trials = calloc(TRIALS, 2 * sizeof *trials);
    REQUIRE_DONE(joints != NULL && limits != NULL && trials != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the plan of the net");
    find_joints(plan, joints);
    for (; longest > 0 && limits_count < LIMITS; limit = nextafter(longest, 0)) {
        const double kept = keep_joints(plan, joints, limit, &longest);
        if (kept != before)
            limits[limits_count++] = limit;
        before = kept;
    }
    const size_t step = clprune__ceil_div(limits_count, TRIALS);
    for (size_t i = 0; i < limits_count; i += step) {
        (void)keep_joints(plan, joints, limits[i], &longest);
        for (int sooner = 0; sooner < 2; ++sooner) {
            trials[tried] = (trial){.limit = limits[i], .sooner = sooner};
            if (sooner)
                keep_sooner(plan, joints);
            TRY_DONE(try_joints(plan, &trials[tried]));
            tried += is_worth_it(&trials[tried].room, most);
        }
    }
    *found = tried > 0;
    if (tried == 0)
        goto done;
    const trial best = best_of(trials, tried);
    (void)keep_joints(plan, joints, best.limit, &longest);
    if (best.sooner)
        keep_sooner(plan, joints);
done:
    free(joints);
    free(limits);
    free(trials);
    return status;
}

/* ---- the presets -------------------------------------------------------------------------------
 */

/* A plan: a preset, and how much work it may run again, in percent of a step's. */
typedef struct attempt {
    clprune_net_preset preset;
    unsigned work;
} attempt;

static clprune_status start(clprune__net_plan *plan, const clprune_net_keep *how, attempt p)
{
    const preset_row *row = &presets[p.preset];
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    const bool prunes = how->keep.form == CLPRUNE_FORM_PRUNED;
    use *uses = calloc(plan->graph->count, sizeof *uses);
    REQUIRE_DONE(uses != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the plan of the net");
    clprune__net_policy policy = row->policy;
    if (how->store == CLPRUNE_VALUES_BF16) { /* signs of what is rounded may be others */
        policy.level = policy.level > 1 ? policy.level : 1;
        policy.signs = CLPRUNE__NET_SIGNS_KEPT;
    }
    plan->gelu_bits = 0;
    if (row->gelu_codes && prunes)
        plan->gelu_bits = how->gelu_bits > 0 ? how->gelu_bits : 2;
    plan->small_products = row->small_share && !prunes && p.work == 0;
    plan->adapter_products = plan->small_products || p.work > 0;
    TRY_DONE(clprune__net_cover(plan, &policy));
    find_uses(plan, uses);
    clprune_net_keep keep = *how;
    keep.preset = p.preset;
    for (size_t i = 0; i < plan->graph->count; ++i) {
        plan->values[i].keep = form_of(plan, i, &keep, &uses[i]);
        plan->values[i].needed = uses[i].needed;
        plan->values[i].product = uses[i].product;
        /* as autograd, which reads the sign of the sum itself */
        plan->values[i].kept = uses[i].needed && (row->makes_again || !uses[i].sign);
    }
    TRY_DONE(apply_rules(plan, how));
    for (size_t i = 0; i < plan->graph->count && clprune__net_infers(plan->graph); ++i)
        plan->values[i].kept = false;
done:
    free(uses);
    return status;
}

/* All but LEAST. room: what it takes. */
static clprune_status make_plan(
    clprune__net_plan *plan, const clprune_net_keep *how, attempt p, clprune__net_room *room)
{
    const bool again = presets[p.preset].makes_again;
    TRY(start(plan, how, p));
    if (again && !clprune__net_infers(plan->graph)) {
        TRY(clprune__net_cut(plan, false, false));
        TRY(keep_without_products(plan));
        if (p.work > 0)
            TRY(run_products_again(plan, 0.01 * (double)p.work));
    }
    TRY(clprune__net_cut(plan, again, p.work > 0));
    return room != NULL ? clprune__net_find_room(plan, room) : CLPRUNE_SUCCESS;
}

static clprune_status make_least(clprune__net_plan *plan, const clprune_net_keep *how,
    const clprune__net_room *most, bool *found)
{
    TRY(start(plan, how, (attempt){.preset = CLPRUNE_NET_LEAST}));
    TRY(keep_least(plan, most, found));
    return clprune__net_cut(plan, true, true);
}

/* What extra_work is rounded down to, so that what one of them takes is also tried with more. */
static const unsigned shares[] = {1, 2, 4, 8, 12, 16, 20, 25, 33, 50, 100};

/* Tries more work, from the same choice without products. *last: what was tried last. */
static clprune_status run_more(clprune__net_plan *plan, const clprune_net_keep *how, attempt *best,
    clprune__net_room *least, attempt *last)
{
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__net_room room;
    bool *kept = calloc(plan->graph->count, sizeof *kept);
    REQUIRE_DONE(kept != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the plan of the net");
    TRY_DONE(start(plan, how, (attempt){how->preset, 1}));
    TRY_DONE(clprune__net_cut(plan, false, false));
    TRY_DONE(keep_without_products(plan));
    for (size_t v = 0; v < plan->graph->count; ++v)
        kept[v] = plan->values[v].kept;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && shares[i] <= how->extra_work; ++i) {
        for (size_t v = 0; v < plan->graph->count; ++v)
            plan->values[v].kept = kept[v];
        *last = (attempt){how->preset, shares[i]};
        TRY_DONE(run_products_again(plan, 0.01 * (double)shares[i]));
        TRY_DONE(clprune__net_cut(plan, true, true));
        TRY_DONE(clprune__net_find_room(plan, &room));
        if (is_worth_it(&room, least)) {
            *best = *last;
            *least = room;
        }
    }
done:
    free(kept);
    return status;
}

/* A plan of a stricter preset takes the place of a looser one's only if it neither keeps nor takes
 * more; one of LEAST or with more work only if it keeps no more and takes less in all. */
clprune_status clprune__net_choose(clprune__net_plan *plan, const clprune_net_keep *how)
{
    const clprune_net_preset preset = how->preset;
    const bool prunes = how->keep.form == CLPRUNE_FORM_PRUNED && presets[preset].form == KEEPS_ALL;
    attempt best = {.preset = preset}, last = {.preset = CLPRUNE_NET_DENSE};
    clprune__net_room least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}, room;
    bool found = false;
    clprune_context *context = plan->graph->context;
    plan->values = calloc(plan->graph->count, sizeof *plan->values);
    plan->layers = calloc(plan->graph->count, sizeof *plan->layers);
    REQUIRE(plan->values != NULL && plan->layers != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the plan of the net");
    if (!presets[preset].makes_again || clprune__net_infers(plan->graph))
        return make_plan(plan, how, best, NULL);
    const clprune_net_preset strictest = preset == CLPRUNE_NET_LEAST ? CLPRUNE_NET_COMPACT : preset;
    const bool ruled = how->rules_count > 0; /* the caller decides, and ways are the preset's */
    for (clprune_net_preset p = prunes || ruled ? strictest : CLPRUNE_NET_DENSE; p <= strictest;
         ++p) {
        if (p == CLPRUNE_NET_INPUTS)
            continue;
        last = (attempt){.preset = p};
        TRY(make_plan(plan, how, last, &room));
        if (takes_no_more(&room, &least)) {
            best = last;
            least = room;
        }
    }
    if (preset == CLPRUNE_NET_LEAST) {
        TRY(make_least(plan, how, &least, &found));
        return found ? CLPRUNE_SUCCESS : make_plan(plan, how, best, NULL);
    }
    if (how->extra_work > 0)
        TRY(run_more(plan, how, &best, &least, &last));
    return last.preset == best.preset && last.work == best.work ? CLPRUNE_SUCCESS
                                                                : make_plan(plan, how, best, NULL);
}
