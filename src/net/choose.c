/* Which values are kept.
 *
 *     DENSE, INPUTS   all that the ways need
 *     EXACT, COMPACT  the fewest bytes from which all that the ways need follows without a product:
 *                     a value is dropped if the layers that make it again from kept ones are
 *                     cheap, and another is kept in its place if that saves bytes
 *     LEAST           joints: all between two of them is made again once, from the first */
#include "net/choose.h"

#include <stdlib.h>

#include "net/cover.h"
#include "net/graph.h"
#include "net/kinds.h"
#include "net/steps.h"
#include "runtime/context/check.h"

/* How a value is needed by the backward pass. */
typedef struct use {
    bool needed;
    bool product; /* only by products, which read any form */
} use;

static void find_uses(const clprune_net *net, use *uses)
{
    for (size_t i = 0; i < net->count; ++i)
        uses[i] = (use){false, true};
    for (size_t t = 0; t < net->tiles_count; ++t) {
        const clprune__net_tile *tile = &net->tiles[t];
        if (!net->values[tile->layers[tile->count - 1]].trained)
            continue;
        for (size_t k = 0; k < tile->way->needs_count; ++k) {
            use *u = &uses[clprune__net_needed(net, tile, k)];
            u->needed = true;
            u->product = u->product && tile->way->needs[k].how == CLPRUNE__NET_PRODUCT;
        }
    }
}

static size_t elements_of(const clprune__net_value *value)
{
    return value->shape.rows * value->shape.cols;
}

/* The form in which a preset keeps a value. Small values, and rows too short for a block, stay
 * dense. */
static clprune_keep form_of(
    const clprune_net *net, size_t v, const clprune_net_keep *how, const use *u)
{
    const clprune__net_value *value = &net->values[v];
    clprune_keep keep = how->keep;
    const bool dense = how->preset == CLPRUNE_NET_DENSE || how->preset == CLPRUNE_NET_EXACT ||
                       (how->preset == CLPRUNE_NET_INPUTS && !u->product);
    size_t largest = 0;
    for (size_t i = 0; i < net->count; ++i)
        if (!net->layers[i].gone && elements_of(&net->values[i]) > largest)
            largest = elements_of(&net->values[i]);
    if (dense || elements_of(value) < largest / 64 || value->shape.cols < 16)
        return (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    if (how->preset == CLPRUNE_NET_INPUTS) {
        keep.grid_height = (unsigned)value->shape.grid.height;
        keep.grid_width = (unsigned)value->shape.grid.width;
        return keep;
    }
    keep.form = CLPRUNE_FORM_QUANTISED;
    if (how->preset == CLPRUNE_NET_COMPACT && net->layers[v].kind->stream)
        keep.bits = 8;
    return keep;
}

static uint64_t bytes_of(const clprune_net *net, size_t v)
{
    const clprune__net_value *value = &net->values[v];
    clprune_saved_sizes sizes;
    (void)clprune_saved_size_query(
        &value->keep, net->desc.batch, value->shape.rows, value->shape.cols, &sizes);
    return sizes.bytes;
}

/* ---- without products --------------------------------------------------------------------------
 */

/* Whether a value can be had in the backward pass: kept, or made again by cheap layers. */
static bool is_at_hand(const clprune_net *net, size_t v)
{
    const clprune__net_layer *layer = &net->layers[v];
    const size_t tile = layer->tile;
    if (net->values[v].kept || layer->kind == &clprune__net_input_kind)
        return true;
    if (layer->kind->work != NULL || layer->kind->forward == NULL)
        return false;
    if (tile != SIZE_MAX && net->tiles[tile].way->fused) {
        for (size_t k = 0; k < net->tiles[tile].ends_count; ++k)
            if (!is_at_hand(net, net->tiles[tile].ends[k]))
                return false;
        return true;
    }
    for (size_t k = 0; k < layer->ins; ++k)
        if (!is_at_hand(net, layer->in[k]))
            return false;
    return true;
}

static bool all_at_hand(const clprune_net *net, const use *uses)
{
    for (size_t i = 0; i < net->count; ++i)
        if (uses[i].needed && !is_at_hand(net, i))
            return false;
    return true;
}

/* Drops kept values, the largest first, as long as all that is needed is at hand. Returns the bytes
 * that are kept then. */
static uint64_t drop(clprune_net *net, const use *uses)
{
    for (;;) {
        size_t best = SIZE_MAX;
        uint64_t most = 0, all = 0;
        for (size_t i = net->count; i-- > 0;) {
            clprune__net_value *value = &net->values[i];
            if (!value->kept)
                continue;
            const uint64_t bytes = bytes_of(net, i);
            all += bytes;
            value->kept = false;
            if (bytes > most && all_at_hand(net, uses)) {
                best = i;
                most = bytes;
            }
            value->kept = true;
        }
        if (best == SIZE_MAX)
            return all;
        net->values[best].kept = false;
    }
}

static clprune_status keep_without_products(clprune_net *net, const use *uses)
{
    clprune_context *context = net->context;
    bool *before = calloc(net->count, sizeof *before);
    REQUIRE(before != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the plan of the net");
    uint64_t least = drop(net, uses);
    for (size_t v = 0; v < net->count; ++v) { /* another value in place of several? */
        if (net->values[v].kept || net->layers[v].gone || net->layers[v].kind->forward == NULL)
            continue;
        for (size_t i = 0; i < net->count; ++i)
            before[i] = net->values[i].kept;
        net->values[v].kept = true;
        const uint64_t bytes = drop(net, uses);
        if (bytes < least) {
            least = bytes;
            continue;
        }
        for (size_t i = 0; i < net->count; ++i)
            net->values[i].kept = before[i];
    }
    free(before);
    return CLPRUNE_SUCCESS;
}

/* ---- least -------------------------------------------------------------------------------------
 */

/* Bytes of the values between two joints, in chunks of the size of clprune__net_cut. */
static double span_bytes(const clprune_net *net, size_t first, size_t last)
{
    double elements = 0, largest = 0, border = 0;
    bool whole = false;
    for (size_t i = first; i <= last; ++i) {
        const double each = (double)elements_of(&net->values[i]);
        if (net->layers[i].gone || net->layers[i].kind->forward == NULL)
            continue;
        elements += each;
        whole = whole || net->layers[i].kind->whole;
        if (i == last)
            border = each;
        else if (each > largest)
            largest = each;
    }
    const double batch = (double)net->desc.batch, least = 1u << 21;
    const double room = border * batch > least ? border * batch : least;
    double chunk = largest > 0 ? room / largest : batch;
    if (whole || chunk > batch)
        chunk = batch;
    return 4 * elements * (chunk < 1 ? 1 : chunk);
}

/* Keeps joints so that no span between two has more than `most` bytes. Returns the bytes of kept
 * joints + of the largest span. */
static double keep_joints(clprune_net *net, double most)
{
    size_t first = 0, joint = 0; /* of the span; the last joint in it */
    double kept = 0, largest = 0;
    for (size_t i = 0; i < net->count; ++i)
        net->values[i].kept = false;
    for (size_t i = 1; i <= net->logits; ++i) {
        if (!clprune__net_is_joint(net, i) || net->layers[i].kind->forward == NULL)
            continue;
        if (joint > first && span_bytes(net, first + 1, i) > most) {
            net->values[joint].kept = true;
            kept += (double)bytes_of(net, joint);
            first = joint;
        }
        joint = i;
        const double bytes = span_bytes(net, first + 1, i);
        largest = bytes > largest ? bytes : largest;
    }
    return kept + largest;
}

static void keep_least(clprune_net *net)
{
    double best = 0, total = -1;
    for (size_t i = 1, first = 0; i <= net->logits; ++i) {
        if (!clprune__net_is_joint(net, i))
            continue;
        for (size_t back = first; back < i; ++back) {
            if (back > 0 && !clprune__net_is_joint(net, back))
                continue;
            const double most = span_bytes(net, back + 1, i), bytes = keep_joints(net, most);
            if (total < 0 || bytes < total) {
                total = bytes;
                best = most;
            }
        }
    }
    (void)keep_joints(net, best);
}

/* LEAST: regions end at kept joints. */
static bool is_not_kept(const clprune_net *net, size_t joint)
{
    return !net->values[joint].kept;
}

clprune_status clprune__net_choose(clprune_net *net, const clprune_net_keep *how)
{
    static const clprune__net_policy policies[] = {
        [CLPRUNE_NET_DENSE] = {0, CLPRUNE__NET_SIGNS_AGAIN},
        [CLPRUNE_NET_INPUTS] = {1, CLPRUNE__NET_SIGNS_OF_SUMS},
        [CLPRUNE_NET_EXACT] = {2, CLPRUNE__NET_SIGNS_AGAIN},
        [CLPRUNE_NET_COMPACT] = {2, CLPRUNE__NET_SIGNS_KEPT},
        [CLPRUNE_NET_LEAST] = {2, CLPRUNE__NET_SIGNS_AGAIN},
    };
    clprune_context *context = net->context;
    clprune_status status = CLPRUNE_SUCCESS;
    use *uses = calloc(net->count, sizeof *uses);
    REQUIRE_DONE(uses != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the plan of the net");
    TRY_DONE(clprune__net_cover(net, &policies[how->preset]));
    find_uses(net, uses);
    for (size_t i = 0; i < net->count; ++i) {
        net->values[i].keep = form_of(net, i, how, &uses[i]);
        net->values[i].kept = uses[i].needed;
    }
    if (!net->has_loss) {
        for (size_t i = 0; i < net->count; ++i)
            net->values[i].kept = false;
    } else if (how->preset == CLPRUNE_NET_LEAST) {
        keep_least(net);
    } else if (how->preset == CLPRUNE_NET_EXACT || how->preset == CLPRUNE_NET_COMPACT) {
        TRY_DONE(keep_without_products(net, uses));
    }
    TRY_DONE(clprune__net_cut(net, how->preset >= CLPRUNE_NET_EXACT,
        how->preset == CLPRUNE_NET_LEAST ? is_not_kept : NULL));
done:
    free(uses);
    return status;
}
