/* Counts what a backward pass makes again from what is kept. */
#include "net/price.h"

#include "net/graph.h"
#include "net/layers/kinds.h"
#include "net/steps.h"

/* Making an element again costs as much as keeping this many bytes. So a chain of layers is not
 * made again from the far end for each of its values. */
static const double byte_per_element = 0.05;

/* What a choice costs in the backward pass. */
typedef struct cost {
    const clprune_net *net;
    size_t *made;    /* (count) the region that makes a value again, + 1 */
    size_t region;   /* that is counted */
    double elements; /* made again or restored, per sample */
    clprune__net_price price;
} cost;

/* A product of so few multiplications an element takes about as long as a pass over memory. One of
 * an adapter counts as such a pass if it has at most so many an element of its input or output. */
enum { SMALL_PRODUCT = 64, ADAPTER_PRODUCT = 16 };

/* Multiplications of a forward pass that count as a product. */
static double work_of(const clprune_net *net, const clprune__net_layer *layer)
{
    const size_t y = clprune__net_elements(&net->values[clprune__net_out(net, layer)]);
    const size_t x = clprune__net_elements(&net->values[layer->in[0]]);
    const double work = layer->kind->work != NULL ? layer->kind->work(net, layer) : 0;
    const bool passes = layer->adapter && net->adapter_products &&
                        work <= ADAPTER_PRODUCT * (double)(x > y ? x : y);
    return passes ? 0 : work;
}

/* Counts the multiplications of making a value again, for one of `most` elements. A small product
 * of more elements than that takes more memory, while it is there, than is saved. */
static void count_work(cost *c, size_t v, size_t most)
{
    const clprune_net *net = c->net;
    const clprune__net_layer *layer = &net->layers[v];
    const size_t tile = layer->tile;
    if (tile != SIZE_MAX && net->tiles[tile].way->fused)
        layer = &net->layers[net->tiles[tile].layers[0]];
    const double work = work_of(net, layer);
    const size_t elements = clprune__net_elements(&net->values[v]);
    if (work <= (double)net->products * (double)elements)
        return;
    if (net->small_products && elements <= most && work <= SMALL_PRODUCT * (double)elements)
        c->price.small_work += work;
    else
        c->price.work += work;
}

/* Counts what it takes to have a value in the region, for one of `most` elements. */
static void count_making(cost *c, size_t v, bool product, size_t most)
{
    const clprune_net *net = c->net;
    const clprune__net_layer *layer = &net->layers[v];
    const clprune__net_value *value = &net->values[v];
    const size_t tile = layer->tile;
    if (clprune__net_is_data(layer) || c->made[v] == c->region + 1 ||
        (value->kept && (product || value->keep.form == CLPRUNE_FORM_DENSE)))
        return;
    c->made[v] = c->region + 1;
    c->elements += (double)clprune__net_elements(value);
    if (value->kept)
        return;
    const bool fused = tile != SIZE_MAX && net->tiles[tile].way->fused;
    const size_t *in = fused ? net->tiles[tile].ends : layer->in;
    const size_t ins = fused ? net->tiles[tile].ends_count : layer->ins;
    if (layer->kind->forward == NULL)
        c->price.possible = false;
    if (!value->ruled)
        count_work(c, v, most);
    for (size_t k = 0; k < ins && c->price.possible; ++k)
        count_making(c, in[k], false, most);
}

/* The last layer of the region that layer `first` begins. */
static size_t region_end(const clprune_net *net, size_t first, const bool *joints)
{
    size_t last = first;
    for (size_t r = 0; joints == NULL && r < net->regions_count; ++r)
        if (net->regions[r].last >= first)
            return net->regions[r].last;
    while (last + 1 < net->count && !(joints[last] && net->values[last].kept))
        ++last;
    return last;
}

clprune__net_price clprune__net_price_of(const clprune_net *net, const bool *joints, size_t *made)
{
    cost c = {.net = net, .made = made, .price = {.possible = true}};
    size_t last = region_end(net, 0, joints);
    for (size_t i = 0; i < net->count; ++i) {
        made[i] = 0;
        if (net->values[i].kept)
            c.price.bytes += (double)clprune__net_bytes(net, i);
    }
    for (size_t t = 0; t < net->tiles_count && c.price.possible; ++t) {
        const clprune__net_tile *tile = &net->tiles[t];
        const size_t out = tile->layers[tile->count - 1];
        for (; out > last; last = region_end(net, last + 1, joints))
            c.region++;
        for (size_t k = 0; k < tile->way->needs_count && net->values[out].trained; ++k) {
            const size_t v = clprune__net_needed(net, tile, k);
            if (clprune__net_is_needed(net, tile, k))
                count_making(&c, v, tile->way->needs[k].how == CLPRUNE__NET_PRODUCT,
                    clprune__net_elements(&net->values[v]));
        }
    }
    c.price.bytes += byte_per_element * c.elements * (double)net->desc.batch;
    return c.price;
}

/* A product forward, and one for each gradient: its input's, and its weight's or its other input's;
 * also of frozen weights, so that with them no more is kept. */
double clprune__net_step_work(const clprune_net *net)
{
    double work = 0;
    for (size_t i = 0; i < net->count; ++i)
        if (!net->layers[i].gone)
            work += 3 * work_of(net, &net->layers[i]);
    return work;
}
