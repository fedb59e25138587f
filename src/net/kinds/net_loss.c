/* Losses: softmax cross-entropy, also of a large vocabulary, means over elements, the caller's. */
#include "net/kinds/net_loss.h"
#include "net/run/call.h"

#include <math.h>

#include "net/build/append.h"
#include "net/net_private.h"
#include "nn/layers/biased_product.h"
#include "nn/layers/loss_private.h"
#include "nn/tokens/token_loss_private.h"
#include "runtime/context/check.h"

static void set_loss(
    clprune_net *net, clprune__net_loss loss, const char *name, clprune_net_value value)
{
    const clprune__net_value *y = clprune__net_read(net, name, value);
    if (y == NULL)
        return;
    if (net->graph.loss != CLPRUNE__NET_NO_LOSS)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "the net has two losses, expected one");
    if (net->graph.layers[value.id - 1].ins == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "%s: its value is the input", name);
    net->graph.loss = loss;
    net->graph.output = value.id - 1;
}

void clprune_net_cross_entropy(clprune_net *net, clprune_net_value logits)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_loss(net, CLPRUNE__NET_CROSS_ENTROPY, "cross_entropy", logits);
}

static void set_element_loss(
    clprune_net *net, const char *name, clprune_net_value value, clprune_element_loss loss)
{
    if (!(loss.beta >= 0 && isfinite(loss.beta)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "%s: beta is %g, expected a finite number of at least 0", name, (double)loss.beta);
    set_loss(net, CLPRUNE__NET_ELEMENT_LOSS, name, value);
    if (net != NULL && !net->settled)
        net->graph.element = loss;
}

void clprune_net_mean_squared_error(clprune_net *net, clprune_net_value y)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_element_loss(net, "mean_squared_error", y, (clprune_element_loss){CLPRUNE_LOSS_SQUARED, 0});
}

void clprune_net_smooth_l1(clprune_net *net, clprune_net_value y, float beta)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_element_loss(net, "smooth_l1", y, (clprune_element_loss){CLPRUNE_LOSS_SMOOTH_L1, beta});
}

void clprune_net_binary_cross_entropy(clprune_net *net, clprune_net_value logits)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_element_loss(
        net, "binary_cross_entropy", logits, (clprune_element_loss){CLPRUNE_LOSS_BINARY, 0});
}

void clprune_net_custom_loss(clprune_net *net, clprune_net_value y)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_loss(net, CLPRUNE__NET_CUSTOM_LOSS, "custom_loss", y);
}

/* Whether a function about the logits of a token loss has one before it. */
static bool has_logits(clprune_net *net)
{
    if (net == NULL || net->settled || net->status != CLPRUNE_SUCCESS)
        return false;
    if (net->graph.loss != CLPRUNE__NET_TOKEN_LOSS)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "the net has no token loss before it, whose logits have a cap or a bias");
    return net->graph.loss == CLPRUNE__NET_TOKEN_LOSS;
}

void clprune_net_cap_logits(clprune_net *net, float cap)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (!has_logits(net))
        return;
    if (!(cap > 0 && isfinite(cap)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "the cap of logits is %g, expected a finite number above 0", (double)cap);
    else
        net->graph.cap = cap;
}

void clprune_net_bias_logits(clprune_net *net)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (!has_logits(net))
        return;
    const clprune__net_param *w = &net->graph.params[net->graph.head - 1];
    const size_t bias = clprune__net_add_to_head(
        net, ".bias", (clprune__net_param){.rank = 1, .shape = {w->shape[0]}, .inputs = w->inputs});
    if (bias != SIZE_MAX)
        net->graph.head_bias = bias + 1;
}

void clprune_net_token_loss(
    clprune_net *net, const char *name, clprune_net_value x, size_t vocabulary)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *value = clprune__net_read(net, name, x);
    if (value == NULL)
        return;
    const size_t cols = value->shape.cols;
    if (vocabulary == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "%s: its vocabulary is 0", name);
    else if (vocabulary > SIZE_MAX / sizeof(float) / cols)
        clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW, "%s: a weight of %zu x %zu is too large",
            name, vocabulary, cols);
    set_loss(net, CLPRUNE__NET_TOKEN_LOSS, name, x);
    const size_t head = clprune__net_add_head(net, name, x.id - 1,
        (clprune__net_param){
            .rank = 2, .shape = {vocabulary, cols}, .inputs = cols, .decay = true});
    if (head != SIZE_MAX)
        net->graph.head = head + 1;
}

static float scale_of(const clprune_net_data *data)
{
    return data->scale != 0 ? data->scale : 1.0f / (float)data->batch;
}

static clprune_mat log_p_of(const clprune_net *net, size_t batch)
{
    return clprune_mat_rows(
        net->body.log_p, 0, batch * net->graph.values[net->graph.output].shape.rows);
}

/* Whether a cross-entropy has probabilities in place of labels. */
static bool is_soft(const clprune_net *net, const clprune_net_data *data)
{
    return net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY && !clprune__is_absent(data->targets);
}

static clprune__label_terms terms_of(const clprune_net *net, const clprune_net_data *data)
{
    return (clprune__label_terms){data->other_labels, data->shares, data->class_weights,
        is_soft(net, data) ? data->targets : CLPRUNE_NO_MAT, data->weights,
        net->graph.values[net->graph.output].shape.rows, 0};
}

static clprune__element_weights weights_of(const clprune_net_data *data)
{
    return (clprune__element_weights){data->class_weights, data->positive_weights, data->weights};
}

/* The value or the gradient of the logits' bias, if they have one. */
static clprune_mat bias_of(const clprune_net *net, bool grad)
{
    if (net->graph.head_bias == 0)
        return CLPRUNE_NO_MAT;
    const clprune_param *b = &net->body.tensors[net->graph.head_bias - 1];
    return grad ? b->grad : b->value;
}

/* In training also the gradients of x, w and the bias. */
static clprune_status token_loss(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit)
{
    const clprune_param *w = &net->body.tensors[net->graph.head - 1];
    const clprune_mat x = clprune__net_output(net, data->batch);
    const bool training = net->at.phase == CLPRUNE__NET_TRAINED;
    const bool trained = net->graph.values[net->graph.output].trained;
    const clprune__label_terms terms = terms_of(net, data);
    return clprune__token_head(net->context, data->batch, 0.0f, data->smoothing, scale_of(data),
        net->graph.cap, x, w->value, bias_of(net, false), data->labels, &terms, loss, hit,
        training && trained ? x : CLPRUNE_NO_MAT, training ? w->grad : CLPRUNE_NO_MAT,
        training ? bias_of(net, true) : CLPRUNE_NO_MAT, NULL);
}

clprune_status clprune__net_loss_forward(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit)
{
    clprune_context *context = net->context;
    const clprune_mat y = clprune__net_output(net, data->batch);
    const clprune__label_terms terms = terms_of(net, data);
    const clprune__element_weights weights = weights_of(data);
    clprune_mat labels;
    REQUIRE(clprune__is_absent(data->shares) || net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY,
        CLPRUNE_INVALID_ARGUMENT,
        "data.shares are given, but only clprune_net_cross_entropy has other labels");
    REQUIRE(net->graph.loss != CLPRUNE__NET_CUSTOM_LOSS, CLPRUNE_INVALID_ARGUMENT,
        "the loss is the caller's (clprune_net_custom_loss); call clprune_net_backward with "
        "data.output_grad");
    const bool soft = is_soft(net, data);
    if (net->graph.loss == CLPRUNE__NET_ELEMENT_LOSS || soft)
        TRY(clprune__check_mat(context, "data.targets", data->targets, y.rows, y.cols));
    else
        TRY(clprune__check_ints(context, "data.labels", data->labels, y.rows, &labels));
    REQUIRE(!soft || data->labels.buffer == NULL, CLPRUNE_INVALID_ARGUMENT,
        "data.labels and data.targets are given, but a cross-entropy has either");
    REQUIRE(clprune__is_absent(hit) || (net->graph.loss != CLPRUNE__NET_ELEMENT_LOSS && !soft),
        CLPRUNE_INVALID_ARGUMENT, "hit is given, but a loss with targets has none");
    REQUIRE(
        net->graph.loss == CLPRUNE__NET_ELEMENT_LOSS || clprune__is_absent(data->positive_weights),
        CLPRUNE_INVALID_ARGUMENT,
        "data.positive_weights are given, but only clprune_net_binary_cross_entropy has them");
    if (net->graph.loss == CLPRUNE__NET_TOKEN_LOSS)
        return token_loss(net, data, loss, hit);
    if (net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY)
        return clprune__token_loss_forward(context, data->batch, data->smoothing, y, data->labels,
            &terms, log_p_of(net, data->batch), net->body.row_weight, loss, hit, NULL);
    return clprune__element_loss_forward(
        context, &net->graph.element, &weights, data->batch, y, data->targets, loss, NULL);
}

/* loss = mean over the samples of -sum_k q_k log_softmax(logits)_k, or of the mean of f(y, target)
 */
clprune_status clprune__net_loss_backward(clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const clprune_mat y = clprune__net_output(net, data->batch);
    const clprune__label_terms terms = terms_of(net, data);
    const clprune__element_weights weights = weights_of(data);
    if (net->graph.loss == CLPRUNE__NET_CUSTOM_LOSS)
        return clprune__same_mat(data->output_grad, y)
                   ? CLPRUNE_SUCCESS
                   : clprune_mat_copy(context, data->output_grad, y, NULL);
    if (net->graph.loss == CLPRUNE__NET_TOKEN_LOSS)
        return CLPRUNE_SUCCESS;
    if (net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY)
        return clprune__token_loss_backward(context, data->smoothing, scale_of(data),
            net->body.row_weight, log_p_of(net, data->batch), data->labels, &terms, y, NULL);
    return clprune__element_loss_backward(context, &net->graph.element, &weights, data->batch,
        scale_of(data), y, data->targets, y, NULL);
}

clprune_status clprune__net_loss_logits(
    clprune_net *net, size_t batch, size_t row, clprune_mat logits, cl_event *event)
{
    clprune_context *context = net->context;
    const clprune__net_shape *shape = &net->graph.values[net->graph.output].shape;
    REQUIRE(row < shape->rows, CLPRUNE_INVALID_SIZE, "row is %zu, expected less than %zu", row,
        shape->rows);
    const clprune_mat x = {net->body.spaces[0].buffer, row * shape->cols, batch, shape->cols,
        shape->rows * shape->cols};
    const float cap = net->graph.cap;
    TRY(clprune__check_mat(
        context, "logits", logits, batch, net->graph.params[net->graph.head - 1].shape[0]));
    TRY(clprune__product_rows(context, x, net->body.tensors[net->graph.head - 1].value,
        bias_of(net, false), logits, NULL, cap != 0 ? NULL : event));
    return cap != 0 ? clprune__logit_cap(context, cap, logits, event) : CLPRUNE_SUCCESS;
}
