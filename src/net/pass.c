/* Passes of a net, and which may follow which. */
#include <math.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/net_batch_norm.h"
#include "net/kinds/net_loss.h"
#include "net/net_private.h"
#include "net/run/body.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

void clprune_net_set_seed(clprune_net *net, uint64_t seed)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    net->at.seed = seed;
    net->at.seeded = true;
}

/* ---- checks ------------------------------------------------------------------------------------
 */

/* Fails unless a settled net can run `data`. */
static clprune_status check_data(const clprune_net *net, const clprune_net_data *data, bool loss)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    REQUIRE(net != NULL && data != NULL, CLPRUNE_INVALID_ARGUMENT, "net or data is NULL");
    REQUIRE(clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT, "the net is not settled");
    TRY(clprune__check_reserved(context, "data", data->reserved, sizeof data->reserved));
    REQUIRE(data->batch > 0 && data->batch <= net->graph.desc.batch, CLPRUNE_INVALID_SIZE,
        "the batch is %zu, expected 1 to %zu", data->batch, net->graph.desc.batch);
    REQUIRE(!data->add || net->graph.desc.adds, CLPRUNE_INVALID_ARGUMENT,
        "data.add needs a net that was created with desc.adds");
    REQUIRE(isfinite(data->scale), CLPRUNE_INVALID_ARGUMENT, "the scale is %g, expected a number",
        (double)data->scale);
    REQUIRE(data->smoothing >= 0 && data->smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)data->smoothing);
    REQUIRE(!loss || net->graph.loss != CLPRUNE__NET_NO_LOSS, CLPRUNE_INVALID_ARGUMENT,
        "the net has no loss");
    return CLPRUNE_SUCCESS;
}

/* Fails unless data has input `number`, of its batch. */
static clprune_status check_input(
    const clprune_net *net, const clprune_net_data *data, size_t number)
{
    enum { LEVELS = 256 };
    clprune_context *context = net->context;
    const size_t value = net->graph.inputs[number];
    const clprune__net_layer *layer = &net->graph.layers[value];
    const clprune__net_shape *shape = &net->graph.values[value].shape;
    const clprune_net_input input = clprune__net_input_at(data, number);
    const size_t rows = data->batch * shape->rows;
    clprune_mat row;
    TRY(clprune__check_reserved(context, "data.more", input.reserved, sizeof input.reserved));
    if (layer->kind->gives == CLPRUNE__NET_TOKENS)
        return clprune__check_ints(
            context, clprune__net_field_of(number, "tokens").text, input.tokens, rows, &row);
    if (layer->kind->gives == CLPRUNE__NET_BYTES) {
        const clprune__net_field name = clprune__net_field_of(number, "images");
        size_t end;
        REQUIRE(
            input.images.buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s has no buffer", name.text);
        REQUIRE(clprune__add(input.images.offset, rows * shape->cols, &end), CLPRUNE_SIZE_OVERFLOW,
            "%s: offset + size overflows size_t", name.text);
        TRY(clprune__check_buffer(context, name.text, input.images.buffer, end, 1));
        return clprune__check_mat(context, clprune__net_field_of(number, "images.levels").text,
            input.images.levels, shape->cols, LEVELS);
    }
    const clprune__net_field name = clprune__net_field_of(number, "rows");
    const clprune_mat x = input.rows;
    const bool planes = shape->grid.height > 0 && x.cols == shape->rows * shape->cols;
    REQUIRE(planes ? x.rows >= data->batch : x.rows >= rows && x.cols == shape->cols,
        CLPRUNE_INVALID_SIZE,
        "%s has %zu rows of %zu, expected %zu rows of %zu for each of %zu samples", name.text,
        x.rows, x.cols, shape->rows, shape->cols, data->batch);
    return clprune__check_mat(context, name.text, x, x.rows, x.cols);
}

/* Fails unless data has as many inputs as the net. */
static clprune_status check_more(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const size_t others = net->graph.inputs_count - 1,
                 have = data->more != NULL ? data->more_count : 0;
    REQUIRE(have == others, CLPRUNE_INVALID_ARGUMENT,
        "data.more has %zu inputs, expected %zu: the net has %zu, the first of which is in data "
        "itself",
        have, others, others + 1);
    return CLPRUNE_SUCCESS;
}

/* Fails unless data has the inputs of its batch: before the pass, which then changes nothing. */
static clprune_status check_inputs(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const size_t rows = data->batch * net->graph.values[0].shape.rows;
    clprune_mat row;
    TRY(check_more(net, data));
    if (data->lengths.buffer != NULL)
        TRY(clprune__check_ints(context, "data.lengths", data->lengths, data->batch, &row));
    if (data->starts.buffer != NULL)
        TRY(clprune__check_ints(context, "data.starts", data->starts, rows, &row));
    for (size_t i = 0; i < net->graph.inputs_count; ++i)
        TRY(check_input(net, data, i));
    return CLPRUNE_SUCCESS;
}

/* Fails unless the net has come to one of the phases in `allowed`, with as many samples. */
static clprune_status check_phase(
    const clprune_net *net, const char *function, unsigned allowed, const char *first, size_t batch)
{
    static const char *const phases[] = {
        [CLPRUNE__NET_EMPTY] = "the net has no output: there was no forward pass, it failed, or a "
                               "backward pass has used it",
        [CLPRUNE__NET_INFERRED] = "the last forward pass was for inference",
        [CLPRUNE__NET_TRAINED] = "the forward pass in training has no loss yet",
        [CLPRUNE__NET_HAS_LOSS] = "the token loss has overwritten the output of the forward pass"};
    clprune_context *context = net->context;
    REQUIRE((allowed >> net->at.phase & 1) != 0, CLPRUNE_INVALID_ARGUMENT, "%s: %s; call %s first",
        function, phases[net->at.phase], first);
    REQUIRE(batch == net->at.data.batch, CLPRUNE_INVALID_SIZE,
        "%s: the batch is %zu, expected %zu, as in clprune_net_forward", function, batch,
        net->at.data.batch);
    return CLPRUNE_SUCCESS;
}

/* Fails unless the layers have kept what a pass over the rows from data->first on reads. */
static clprune_status check_first(clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const clprune__net_progress *at = &clprune__net_keeper(net)->at;
    const size_t first = data->first, rows = net->graph.desc.rows_at_once;
    REQUIRE(first == 0 || net->graph.whole > 0, CLPRUNE_INVALID_ARGUMENT,
        "data.first is %zu, expected 0 in a net without desc.rows_at_once", first);
    REQUIRE(first <= net->graph.whole - rows, CLPRUNE_INVALID_SIZE,
        "data.first is %zu, expected at most %zu: a pass has %zu rows, and a sample %zu", first,
        net->graph.whole - rows, rows, net->graph.whole);
    REQUIRE(first == 0 || (first <= at->rows && data->batch <= at->samples),
        CLPRUNE_INVALID_ARGUMENT,
        "data.first is %zu of %zu samples, but passes have made %zu rows of %zu", first,
        data->batch, at->rows, at->samples);
    return CLPRUNE_SUCCESS;
}

static bool same(clprune_mat a, clprune_mat b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.cols == b.cols &&
           a.ld == b.ld && a.type == b.type;
}

static bool same_ints(clprune_ints a, clprune_ints b)
{
    return a.buffer == b.buffer && a.offset == b.offset;
}

/* Fails if an input has changed since the forward pass. */
static clprune_status check_inputs_unchanged(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->graph.inputs_count; ++i) {
        const clprune_net_input a = clprune__net_input_at(data, i),
                                b = clprune__net_input_at(&net->at.data, i);
        const char *changed = a.images.buffer != b.images.buffer ||
                                      a.images.offset != b.images.offset ||
                                      !same(a.images.levels, b.images.levels)
                                  ? "images"
                              : !same(a.rows, b.rows)          ? "rows"
                              : !same_ints(a.tokens, b.tokens) ? "tokens"
                                                               : NULL;
        REQUIRE(changed == NULL, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_backward: %s has changed since clprune_net_forward",
            clprune__net_field_of(i, changed).text);
    }
    return CLPRUNE_SUCCESS;
}

/* Fails if data has changed since the forward pass and the loss. */
static clprune_status check_unchanged(const clprune_net *net, const clprune_net_data *data)
{
    const clprune_net_data *old = &net->at.data;
    enum { OF_FORWARD = 2 };
    const struct {
        const char *name;
        bool same;
    } fields[] = {
        {"lengths", same_ints(data->lengths, old->lengths)},
        {"starts", same_ints(data->starts, old->starts)},
        {"labels", same_ints(data->labels, old->labels)},
        {"other_labels", same_ints(data->other_labels, old->other_labels)},
        {"shares", same(data->shares, old->shares)},
        {"smoothing", data->smoothing == old->smoothing},
        {"targets", same(data->targets, old->targets)},
        {"weights", same(data->weights, old->weights)},
        {"class_weights", same(data->class_weights, old->class_weights)},
        {"positive_weights", same(data->positive_weights, old->positive_weights)},
        {"scale", data->scale == old->scale || net->graph.loss != CLPRUNE__NET_TOKEN_LOSS},
    };
    clprune_context *context = net->context;
    const size_t read =
        net->graph.loss == CLPRUNE__NET_CUSTOM_LOSS ? OF_FORWARD : sizeof fields / sizeof *fields;
    for (size_t i = 0; i < read; ++i)
        REQUIRE(fields[i].same, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_backward: data.%s has changed since clprune_net_%s", fields[i].name,
            i < OF_FORWARD ? "forward" : "loss");
    return CLPRUNE_SUCCESS;
}

/* Fails unless data has the gradient of the output, if the loss is the caller's. */
static clprune_status check_output_grad(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const clprune_mat y = clprune__net_output(net, data->batch);
    if (net->graph.loss == CLPRUNE__NET_CUSTOM_LOSS)
        return clprune__check_mat(context, "data.output_grad", data->output_grad, y.rows, y.cols);
    REQUIRE(clprune__is_absent(data->output_grad), CLPRUNE_INVALID_ARGUMENT,
        "data.output_grad is given, but the net has a loss; expected clprune_net_custom_loss");
    return CLPRUNE_SUCCESS;
}

/* Fails unless the gradients of inputs that data has are wanted, and shaped as their inputs. */
static clprune_status check_input_grads(const clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->graph.inputs_count; ++i) {
        const clprune_net_input input = clprune__net_input_at(data, i);
        const clprune__net_field name = clprune__net_field_of(i, "rows_grad");
        if (clprune__is_absent(input.rows_grad))
            continue;
        REQUIRE(net->graph.layers[net->graph.inputs[i]].wanted, CLPRUNE_INVALID_ARGUMENT,
            "%s is given, but clprune_net_want_grad was not called for this input", name.text);
        TRY(clprune__check_mat(
            context, name.text, input.rows_grad, input.rows.rows, input.rows.cols));
        TRY(clprune__check_apart(context, name.text, input.rows_grad,
            clprune__net_field_of(i, "rows").text, input.rows));
    }
    return CLPRUNE_SUCCESS;
}

/* ---- passes ------------------------------------------------------------------------------------
 */

/* Sets what the pass draws. */
static void draw(clprune_net *net, uint64_t seed)
{
    net->at.drawn = seed;
    for (size_t i = 0; i < net->graph.count; ++i)
        clprune_saved_set_seed(net->body.stores[i], seed + UINT64_C(0x9e3779b97f4a7c15) * i);
}

clprune_status clprune_net_forward(clprune_net *net, const clprune_net_data *data, bool training)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data, false));
    TRY(check_inputs(net, data));
    TRY(check_first(net, data));
    clprune_context *context = net->context;
    REQUIRE(!training || !net->graph.desc.infers, CLPRUNE_INVALID_ARGUMENT,
        "clprune_net_forward: a net with desc.infers has no pass in training");
    if (training)
        TRY(clprune__net_check_norms(net, data->batch));
    TRY(clprune__net_check_values(net));
    uint64_t seed = net->at.seed; /* unless it is new, the pass draws what follows from it */
    net->at.phase = CLPRUNE__NET_EMPTY;
    clprune__net_progress *kept = &clprune__net_keeper(net)->at;
    kept->rows = data->first; /* until the pass has made its own */
    kept->samples = data->batch;
    if (training)
        draw(net, net->at.seeded ? seed : clprune__net_random(&seed));
    TRY(clprune__net_check_tokens(net, data));
    TRY(clprune__net_run(
        net, training ? &net->plan.forward : &net->plan.inference, data, training));
    if (training) {
        net->at.seed = seed;
        net->at.seeded = false;
    }
    net->at.data = *data;
    for (size_t i = 0; i < data->more_count; ++i)
        net->at.more[i] = data->more[i];
    net->at.data.more = net->at.more;
    kept->rows = data->first + net->graph.desc.rows_at_once;
    net->at.phase = training ? CLPRUNE__NET_TRAINED : CLPRUNE__NET_INFERRED;
    return clprune__empty_event(net->context, data->event);
}

clprune_mat clprune_net_output(const clprune_net *net, size_t batch)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return net != NULL && net->plan.slots_count > 0 && batch <= net->graph.desc.batch
               ? clprune__net_output(net, batch)
               : CLPRUNE_NO_MAT;
}

enum { /* phases, as bits */
    INFERRED = 1u << CLPRUNE__NET_INFERRED,
    TRAINED = 1u << CLPRUNE__NET_TRAINED,
    HAS_LOSS = 1u << CLPRUNE__NET_HAS_LOSS
};

/* Whether a function has failed before it began. */
static bool is_refusal(clprune_status status)
{
    return status == CLPRUNE_INVALID_ARGUMENT || status == CLPRUNE_INVALID_SIZE ||
           status == CLPRUNE_SIZE_OVERFLOW;
}

clprune_status clprune_net_loss(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data, true));
    TRY(check_phase(net, "clprune_net_loss",
        net->graph.loss == CLPRUNE__NET_TOKEN_LOSS ? INFERRED | TRAINED
                                                   : INFERRED | TRAINED | HAS_LOSS,
        "clprune_net_forward", data->batch));
    clprune_status status = clprune__net_loss_forward(net, data, loss, hit);
    if (status == CLPRUNE_SUCCESS)
        status = clprune__net_check_labels(net, data);
    if (status != CLPRUNE_SUCCESS) {
        if (!is_refusal(status))
            net->at.phase = CLPRUNE__NET_EMPTY;
        return status;
    }
    net->at.data.labels = data->labels;
    net->at.data.other_labels = data->other_labels;
    net->at.data.shares = data->shares;
    net->at.data.smoothing = data->smoothing;
    net->at.data.targets = data->targets;
    net->at.data.weights = data->weights;
    net->at.data.class_weights = data->class_weights;
    net->at.data.positive_weights = data->positive_weights;
    net->at.data.scale = data->scale;
    if (net->at.phase == CLPRUNE__NET_TRAINED)
        net->at.phase = CLPRUNE__NET_HAS_LOSS;
    return clprune__empty_event(net->context, data->event);
}

clprune_status clprune_net_logits(
    clprune_net *net, size_t batch, size_t row, clprune_mat logits, cl_event *event)
{
    ENTER(net != NULL ? net->context : NULL);
    clprune_context *context = net != NULL ? net->context : NULL;
    TRY(check_data(net, &(clprune_net_data){.batch = batch}, true));
    REQUIRE(net->graph.loss == CLPRUNE__NET_TOKEN_LOSS, CLPRUNE_INVALID_ARGUMENT,
        "clprune_net_logits needs clprune_net_token_loss");
    TRY(check_phase(net, "clprune_net_logits", INFERRED | TRAINED, "clprune_net_forward", batch));
    return clprune__net_loss_logits(net, batch, row, logits, event);
}

clprune_status clprune_net_backward(clprune_net *net, const clprune_net_data *data)
{
    ENTER(net != NULL ? net->context : NULL);
    TRY(check_data(net, data, true));
    const bool custom = net->graph.loss == CLPRUNE__NET_CUSTOM_LOSS;
    TRY(check_phase(net, "clprune_net_backward", custom ? TRAINED : HAS_LOSS,
        custom ? "clprune_net_forward in training"
        : net->at.phase == CLPRUNE__NET_TRAINED
            ? "clprune_net_loss"
            : "clprune_net_forward in training, then clprune_net_loss,",
        data->batch));
    TRY(check_more(net, data));
    TRY(check_inputs_unchanged(net, data));
    TRY(check_unchanged(net, data));
    TRY(check_output_grad(net, data));
    TRY(check_input_grads(net, data));
    net->at.phase = CLPRUNE__NET_EMPTY;
    TRY(clprune__net_loss_backward(net, data));
    if (net->at.checks_finite)
        TRY(clprune__net_check_loss(net, data->batch));
    TRY(clprune__net_run(net, &net->plan.backward, data, true));
    TRY(clprune__net_end_pass(net, data->add));
    return clprune__empty_event(net->context, data->event);
}
