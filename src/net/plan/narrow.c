#include "net/plan/narrow.h"

#include "net/plan/cover.h"

bool clprune__net_is_rounded(const clprune__net_graph *graph, size_t v)
{
    return graph->values[v].shape.cols % 16 == 0 && clprune_linear_takes_bf16(graph->context) &&
           clprune_context_kernels(graph->context) == CLPRUNE_KERNELS_TILED;
}

bool clprune__net_is_bf16(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_choice *value = &plan->values[v];
    return value->kept && value->keep.form == CLPRUNE_FORM_QUANTISED && value->keep.bits == 16 &&
           plan->graph->values[v].shape.cols % 16 == 0;
}

/* Whether a layer writes v in bf16, and all layers that read it take it; products: only products
 * do. */
static bool is_passed_on(const clprune__net_plan *plan, size_t v, bool products)
{
    const clprune__net_kind *maker = plan->graph->layers[v].kind;
    if (v == plan->graph->output || clprune__net_fused(plan, v) != NULL ||
        maker->gives_bf16 == NULL || !maker->gives_bf16(plan->graph))
        return false;
    for (size_t i = v + 1; i <= plan->graph->values[v].last_user; ++i) {
        const clprune__net_layer *layer = &plan->graph->layers[i];
        for (size_t k = 0; k < layer->ins && !layer->gone; ++k)
            if (layer->in[k] == v &&
                (clprune__net_fused(plan, i) != NULL || layer->kind->takes_bf16 == NULL ||
                    (products && layer->kind->work == NULL) ||
                    !layer->kind->takes_bf16(plan->graph, layer, k)))
                return false;
    }
    return true;
}

bool clprune__net_goes_to_store(const clprune__net_plan *plan, size_t v)
{
    return clprune__net_is_bf16(plan, v) && is_passed_on(plan, v, false);
}

/* Whether a tile reads v not only in products. */
static bool reads_dense(const clprune__net_plan *plan, const clprune__net_tile *tile, size_t v)
{
    for (size_t k = 0; tile != NULL && k < tile->way->needs_count; ++k)
        if (clprune__net_is_needed(plan->graph, tile, k) &&
            clprune__net_needed(plan->graph, tile, k) == v &&
            tile->way->needs[k].how != CLPRUNE__NET_PRODUCT)
            return true;
    return false;
}

bool clprune__net_is_for_products(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_value *value = &plan->graph->values[v];
    if (plan->values[v].kept || value->shape.cols % 16 != 0 ||
        plan->graph->layers[v].kind->work != NULL || !is_passed_on(plan, v, true))
        return false;
    for (size_t i = v; i == v || i <= plan->graph->values[v].last_user; ++i)
        if (reads_dense(plan, clprune__net_tile_of(plan, i), v))
            return false;
    return true;
}

/* How a tile has what it needs of a value: kept, or made again. */
static clprune_keep keep_of(const clprune__net_plan *plan, size_t v)
{
    if (plan->values[v].kept)
        return plan->values[v].keep;
    return clprune__net_is_for_products(plan, v)
               ? (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = 16}
               : (clprune_keep){.form = CLPRUNE_FORM_DENSE};
}

/* Whether the gradient of v is also summed for its layer's bias, by no tile behind it. */
static bool sums_bias(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_layer *layer = &plan->graph->layers[v];
    return layer->params > 1 && !layer->frozen && !plan->layers[v].bias_sums;
}

bool clprune__net_is_narrow_grad(
    const clprune__net_plan *plan, const clprune__net_tile *writer, size_t k)
{
    const size_t v = writer->ends[k];
    const clprune__net_value *value = &plan->graph->values[v];
    const clprune__net_tile *reader = clprune__net_tile_of(plan, v);
    if (k > 0 || !writer->way->narrow_dx || sums_bias(plan, v) || !value->trained ||
        v == plan->graph->output || value->users != 1 || value->shape.cols % 16 != 0 ||
        reader == NULL || reader->layers[reader->count - 1] != v || reader->way->narrow_dy == NULL)
        return false;
    const bool needs = clprune__net_is_needed(plan->graph, reader, 0);
    const clprune_keep x = needs ? keep_of(plan, clprune__net_needed(plan->graph, reader, 0))
                                 : (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    return reader->way->narrow_dy(plan->graph, &plan->graph->layers[v], &x);
}
