/* Labels and tokens out of range: a kernel notes the first one, the next blocking read fails. */
#include "clprune/cross_entropy.h"
#include "core/checked.h"
#include "net/build/append.h"
#include "net/net_private.h"
#include "net/run/body.h"
#include "net/run/call.h"
#include "nn/tokens/int_range.h"
#include "runtime/context/check.h"
#include "runtime/memory/transfer.h"

/* Elements of net->body.ranges: two for labels, two for the tokens of each input. */
enum { LABELS = 0, TOKENS = 2, SPARE = TOKENS + 2 * CLPRUNE__NET_MOST_INPUTS, INTS = SPARE + 1 };

static bool has_tokens(const clprune_net *net, size_t input)
{
    return net->graph.layers[net->graph.inputs[input]].kind->gives == CLPRUNE__NET_TOKENS;
}

/* Labels below it have a class; tokens of an input a row in each embedding. */
static size_t limit_of(const clprune_net *net, size_t what)
{
    size_t limit = SIZE_MAX;
    if (what == LABELS)
        return net->graph.head > 0 ? net->graph.params[net->graph.head - 1].shape[0]
                                   : net->graph.values[net->graph.output].shape.cols;
    for (size_t i = 1; i < net->graph.count; ++i)
        if (net->graph.layers[i].kind->reads == CLPRUNE__NET_TOKENS &&
            clprune__net_input_of(&net->graph, &net->graph.layers[i]) == (what - TOKENS) / 2)
            limit = clprune__min(limit, net->graph.params[net->graph.layers[i].param[0]].shape[0]);
    return limit;
}

static clprune_status look(void *user)
{
    static const int32_t none[INTS];
    clprune_net *net = user;
    clprune_context *context = net->context;
    int32_t found[INTS];
    TRY(clprune__transfer_read(context, net->body.ranges.buffer, 0, sizeof found, found));
    size_t what = TOKENS;
    while (what < SPARE && found[what] == 0)
        what += 2;
    what = what < SPARE ? what : LABELS;
    if (found[what] == 0)
        return CLPRUNE_SUCCESS;
    const clprune__net_field name = what == LABELS
                                        ? clprune__net_field_of(0, "labels")
                                        : clprune__net_field_of((what - TOKENS) / 2, "tokens");
    TRY(clprune__transfer_write(context, none, net->body.ranges.buffer, 0, sizeof none));
    net->at.phase = CLPRUNE__NET_EMPTY;
    return clprune__fail(context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
        "a pass of the net met %s[%d] = %d, expected 0 to %zu%s; its results are no numbers",
        name.text, found[what] - 1, found[what + 1], limit_of(net, what) - 1,
        what == LABELS ? ", or CLPRUNE_IGNORED (-100)" : "");
}

clprune_status clprune__net_ranges_create(clprune_net *net)
{
    static const float none[INTS];
    clprune_context *context = net->context;
    bool ints =
        net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY || net->graph.loss == CLPRUNE__NET_TOKEN_LOSS;
    for (size_t i = 0; i < net->graph.inputs_count; ++i)
        ints = ints || has_tokens(net, i);
    if (!ints)
        return CLPRUNE_SUCCESS;
    TRY(clprune_mat_create(
        context, CLPRUNE_MEMORY_INPUT, "labels out of range", 1, INTS, &net->body.ranges));
    net->body.watch = (clprune__watch){context->watches, false, look, net};
    context->watches = &net->body.watch;
    return clprune_mat_write(context, net->body.ranges, none);
}

void clprune__net_ranges_destroy(clprune_net *net)
{
    clprune__watch **at = &net->context->watches;
    while (*at != NULL && *at != &net->body.watch)
        at = &(*at)->next;
    if (*at != NULL)
        *at = net->body.watch.next;
    clprune_buffer_release(net->context, net->body.ranges.buffer);
}

static clprune_status find(clprune_net *net, size_t what, size_t rows, int32_t ignored,
    clprune_ints ints, clprune_mat poison)
{
    net->body.watch.pending = true;
    return clprune__int_range(net->context, rows, limit_of(net, what), ignored, ints,
        (clprune_ints){net->body.ranges.buffer, what}, poison);
}

/* An element of a matrix that lies apart from the records. */
static clprune_mat first_of(clprune_mat mat, size_t offset)
{
    return (clprune_mat){mat.buffer, mat.offset + offset, 1, 1, 1, CLPRUNE_VALUES_FP32};
}

clprune_status clprune__net_check_tokens(clprune_net *net, const clprune_net_data *data)
{
    for (size_t i = 0; i < net->graph.inputs_count; ++i)
        if (has_tokens(net, i))
            TRY(find(net, TOKENS + 2 * i,
                data->batch * net->graph.values[net->graph.inputs[i]].shape.rows, 0,
                clprune__net_input_at(data, i).tokens, first_of(net->body.ranges, SPARE)));
    return CLPRUNE_SUCCESS;
}

/* Gradients of rows with such labels are 0. So that the others do not train on, poison goes to the
 * weight of all rows, or to one element of the gradients that a token loss has made. */
clprune_status clprune__net_check_labels(clprune_net *net, const clprune_net_data *data)
{
    const clprune_mat x = clprune__net_output(net, data->batch);
    clprune_mat poison = net->body.row_weight;
    if (net->graph.loss == CLPRUNE__NET_ELEMENT_LOSS ||
        (net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY && data->targets.buffer != NULL))
        return CLPRUNE_SUCCESS;
    if (net->graph.loss == CLPRUNE__NET_TOKEN_LOSS) {
        const clprune_mat dw = net->body.tensors[net->graph.head - 1].grad;
        const clprune_mat db = net->graph.head_bias > 0
                                   ? net->body.tensors[net->graph.head_bias - 1].grad
                                   : CLPRUNE_NO_MAT;
        poison = net->at.phase != CLPRUNE__NET_TRAINED ? first_of(net->body.ranges, SPARE)
                 : dw.buffer != NULL                   ? first_of(dw, 0)
                 : db.buffer != NULL                   ? first_of(db, 0)
                                                       : first_of(x, 0);
    }
    if (net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY && data->shares.buffer != NULL)
        TRY(find(net, LABELS, x.rows, 0, data->other_labels, poison)); /* 0 is one of them */
    return find(net, LABELS, x.rows, CLPRUNE_IGNORED, data->labels, poison);
}
