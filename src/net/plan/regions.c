/* Parts of the net between joints, and how many samples each works on. */
#include "net/plan/regions.h"

#include <stdlib.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"

void clprune__net_list_joints(const clprune__net_plan *plan, bool *joints)
{
    size_t first = SIZE_MAX; /* that later layers read */
    for (size_t i = plan->graph->count; i-- > 0;) {
        joints[i] = first >= i && !plan->graph->layers[i].gone;
        for (size_t k = 0; k < plan->graph->layers[i].ins && !plan->graph->layers[i].gone; ++k) {
            const size_t in = plan->graph->layers[i].in[k];
            if (in < first && !clprune__net_is_data(&plan->graph->layers[in]))
                first = in;
        }
    }
    for (size_t t = 0; t < plan->tiles_count; ++t)
        for (size_t i = plan->tiles[t].layers[0];
             i < plan->tiles[t].layers[plan->tiles[t].count - 1]; ++i)
            joints[i] = false;
}

void clprune__net_find_borders(const clprune__net_plan *plan, bool *border)
{
    for (size_t r = 0; r < plan->regions_count; ++r)
        for (size_t i = plan->regions[r].first; i <= plan->regions[r].last; ++i)
            for (size_t k = 0; k < plan->graph->layers[i].ins && !plan->graph->layers[i].gone; ++k)
                if (plan->graph->layers[i].in[k] < plan->regions[r].first)
                    border[plan->graph->layers[i].in[k]] = true;
    border[plan->graph->output] = true;
}

const clprune__net_region *clprune__net_region_of(const clprune__net_plan *plan, size_t layer)
{
    size_t first = 0, last = plan->regions_count - 1;
    while (first < last) {
        const size_t middle = (first + last) / 2;
        if (plan->regions[middle].last < layer)
            first = middle + 1;
        else
            last = middle;
    }
    return &plan->regions[first];
}

/* The elements of a layer's largest parameter in a product. */
static size_t weight_of(const clprune__net_plan *plan, size_t layer)
{
    size_t most = 0;
    for (size_t k = 0;
         k < plan->graph->layers[layer].params && plan->graph->layers[layer].kind->work != NULL;
         ++k) {
        const size_t elements =
            clprune__net_param_elements(&plan->graph->params[plan->graph->layers[layer].param[k]]);
        most = elements > most ? elements : most;
    }
    return most;
}

/* The elements of a chunk's largest tensor, at least: of 2 MiB with kernels for CPUs, which stay in
 * a second-level cache; of 8 MiB with others, on GPUs of 1/1024 of the memory, up to 128 MiB, which
 * they move in the time of some launches. */
static size_t elements_at_once(const clprune_context *context)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR
               ? (size_t)1 << 19
               : clprune__part_elements(context, (size_t)1 << 21, 1024, (size_t)1 << 25);
}

/* Samples whose largest tensor fits the largest of these, the border of the region (with joints
 * inside not), and its largest weights: in smaller chunks, starting kernels, or reading the weights
 * again, would take longer than the work on the samples. Up to a quarter more without joints
 * inside, if that saves a chunk; then chunks of equal size. All samples if a layer needs them, or
 * no tensor in the region needs a slot. */
static size_t chunk_of(const clprune__net_plan *plan, const clprune__net_region *region,
    const bool *border, bool joints)
{
    const size_t batch = plan->graph->desc.batch;
    size_t least = elements_at_once(plan->graph->context), largest = 0, weights = 0;
    for (size_t i = region->first; i <= region->last; ++i) {
        const clprune__net_value *value = &plan->graph->values[i];
        const size_t elements = value->shape.rows * value->shape.cols;
        if (plan->graph->layers[i].gone || plan->graph->layers[i].kind->forward == NULL)
            continue;
        if (plan->graph->layers[i].kind->whole)
            return batch;
        const size_t weight = weight_of(plan, i);
        weights = weight > weights ? weight : weights;
        if (border[i])
            least = joints || least > batch * elements ? least : batch * elements;
        else if (!(plan->values[i].kept && plan->values[i].keep.form == CLPRUNE_FORM_DENSE) &&
                 elements > largest)
            largest = elements;
    }
    if (largest == 0)
        return batch;
    least = weights > least ? weights : least;
    const size_t chunk = least / largest > 0 ? least / largest : 1;
    const size_t most = joints ? chunk : chunk + chunk / 4;
    return clprune__ceil_div(batch, clprune__ceil_div(batch, most));
}

clprune_status clprune__net_cut(clprune__net_plan *plan, bool chunks, bool at_kept)
{
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    size_t first = 0;
    bool *joints = calloc(plan->graph->count, sizeof *joints),
         *border = calloc(plan->graph->count, sizeof *border);
    free(plan->regions);
    plan->regions = calloc(plan->graph->count, sizeof *plan->regions);
    plan->regions_count = 0;
    REQUIRE_DONE(plan->regions != NULL && joints != NULL && border != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the regions");
    clprune__net_list_joints(plan, joints);
    for (size_t i = 0; i < plan->graph->count; ++i) {
        if (i + 1 < plan->graph->count &&
            !(i > 0 && joints[i] && (!at_kept || plan->values[i].kept)))
            continue;
        plan->regions[plan->regions_count++] =
            (clprune__net_region){first, i, plan->graph->desc.batch};
        first = i + 1;
    }
    clprune__net_find_borders(plan, border);
    for (size_t r = 0; chunks && r < plan->regions_count; ++r)
        plan->regions[r].chunk = chunk_of(plan, &plan->regions[r], border, at_kept);
done:
    free(joints);
    free(border);
    return status;
}
