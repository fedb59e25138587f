#include "net/plan/narrow.h"

#include "net/graph.h"
#include "net/plan/cover.h"

bool clprune__net_is_bf16(const clprune__net_value *value)
{
    return value->kept && value->keep.form == CLPRUNE_FORM_QUANTISED && value->keep.bits == 16 &&
           value->shape.cols % 16 == 0;
}

/* Whether a layer writes v in bf16, and all layers that read it take it; products: only products
 * do. */
static bool is_passed_on(const clprune_net *net, size_t v, bool products)
{
    const clprune__net_kind *maker = net->layers[v].kind;
    if (v == net->output || clprune__net_fused(net, v) != NULL || maker->gives_bf16 == NULL ||
        !maker->gives_bf16(net))
        return false;
    for (size_t i = v + 1; i <= net->values[v].last_user; ++i) {
        const clprune__net_layer *layer = &net->layers[i];
        for (size_t k = 0; k < layer->ins && !layer->gone; ++k)
            if (layer->in[k] == v &&
                (clprune__net_fused(net, i) != NULL || layer->kind->takes_bf16 == NULL ||
                    (products && layer->kind->work == NULL) ||
                    !layer->kind->takes_bf16(net, layer, k)))
                return false;
    }
    return true;
}

bool clprune__net_goes_to_store(const clprune_net *net, size_t v)
{
    return clprune__net_is_bf16(&net->values[v]) && is_passed_on(net, v, false);
}

/* Whether a tile reads v not only in products. */
static bool reads_dense(const clprune_net *net, size_t tile, size_t v)
{
    const clprune__net_way *way = tile != SIZE_MAX ? net->tiles[tile].way : NULL;
    for (size_t k = 0; way != NULL && k < way->needs_count; ++k)
        if (clprune__net_is_needed(net, &net->tiles[tile], k) &&
            clprune__net_needed(net, &net->tiles[tile], k) == v &&
            way->needs[k].how != CLPRUNE__NET_PRODUCT)
            return true;
    return false;
}

bool clprune__net_is_for_products(const clprune_net *net, size_t v)
{
    const clprune__net_value *value = &net->values[v];
    if (value->kept || value->shape.cols % 16 != 0 || net->layers[v].kind->work != NULL ||
        !is_passed_on(net, v, true))
        return false;
    for (size_t i = v; i == v || i <= net->values[v].last_user; ++i)
        if (reads_dense(net, net->layers[i].tile, v))
            return false;
    return true;
}
