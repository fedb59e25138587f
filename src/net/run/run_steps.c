/* Runs the steps of a pass. */
#include "clprune/add.h"
#include "clprune/plan.h"
#include "core/checked.h"
#include "net/plan/cover.h"
#include "net/run/body.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_status run_tile(clprune__net_call *call)
{
    const clprune__net_way *way = call->net->plan.tiles[call->step->id].way;
    call->tile = &call->net->plan.tiles[call->step->id];
    switch (call->step->act) {
    case CLPRUNE__NET_BEGIN:
        return way->begin(call);
    case CLPRUNE__NET_BACKWARD:
        return way->backward(call);
    default:
        return way->end(call);
    }
}

static clprune_status run_layer(clprune__net_call *call)
{
    const clprune_net *net = call->net;
    call->layer = &net->graph.layers[call->step->id];
    const clprune__net_tile *fused = clprune__net_fused(&net->plan, call->step->id);
    return fused != NULL ? fused->way->forward(call) : call->layer->kind->forward(call);
}

/* Tells who watches that a layer runs, or backward a region, by its last layer. */
static void tell(
    const clprune_net *net, const clprune__net_steps *list, const clprune__net_step *step)
{
    const bool backward = list == &net->plan.backward;
    if (net->at.tell == NULL)
        return;
    if (!backward && step->act == CLPRUNE__NET_FORWARD)
        net->at.tell(net->at.tell_user, false, net->graph.layers[step->id].name);
    else if (backward && step->act == CLPRUNE__NET_LOOP)
        net->at.tell(
            net->at.tell_user, true, net->graph.layers[net->plan.regions[step->id].last].name);
}

static clprune_status run_step(clprune__net_call *call)
{
    const clprune__net_step *step = call->step;
    clprune_net *net = call->net;
    switch (step->act) {
    case CLPRUNE__NET_FORWARD:
        return run_layer(call);
    case CLPRUNE__NET_KEEP:
        return clprune_saved_store(net->body.stores[step->id], call->first, call->count,
            clprune__net_at(call, step->out, step->id), NULL);
    case CLPRUNE__NET_RESTORE:
        return clprune_saved_restore(net->body.stores[step->id], call->first, call->count,
            clprune__net_at(call, step->out, step->id), NULL);
    case CLPRUNE__NET_SUM: {
        const clprune_mat sum = clprune__net_at(call, step->out, step->id);
        return clprune_add(
            net->context, 1.0f, sum, 1.0f, clprune__net_at(call, step->in[0], step->id), sum, NULL);
    }
    case CLPRUNE__NET_COPY:
        return clprune_mat_copy(net->context, clprune__net_at(call, step->in[0], step->id),
            clprune__net_at(call, step->out, step->id), NULL);
    case CLPRUNE__NET_DONE:
        return clprune__net_end_region(net, step->id);
    case CLPRUNE__NET_FORGET:
        return clprune_buffer_forget(net->context, net->body.spaces[step->id].buffer);
    default:
        return run_tile(call);
    }
}

clprune_status clprune__net_run(
    clprune_net *net, const clprune__net_steps *list, const clprune_net_data *data, bool training)
{
    clprune__net_call call = {
        .net = net, .data = data, .first = 0, .count = data->batch, .training = training};
    size_t loop = 0;
    for (size_t i = 0; i < list->count; ++i) {
        const clprune__net_step *step = &list->steps[i];
        tell(net, list, step);
        if (step->act == CLPRUNE__NET_LOOP) {
            call.region = &net->plan.regions[step->id];
            loop = i;
            call.first = 0;
            call.count = clprune__min(call.region->chunk, data->batch);
            continue;
        }
        if (step->act == CLPRUNE__NET_END_LOOP) {
            call.first += call.count;
            if (call.first < data->batch) {
                call.count = clprune__min(call.region->chunk, data->batch - call.first);
                i = loop;
            } else {
                call.first = 0;
                call.count = data->batch;
            }
            continue;
        }
        call.step = step;
        if (net->at.checks_finite)
            TRY(clprune__net_check_params(&call));
        TRY(run_step(&call));
        if (net->at.checks_finite)
            TRY(clprune__net_check_written(&call));
    }
    return CLPRUNE_SUCCESS;
}
