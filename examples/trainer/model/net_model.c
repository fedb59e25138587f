#include "trainer/model/net_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/fault.h"
#include "trainer/base/try.h"
#include "trainer/model/keep_presets.h"
#include "trainer/model/net_tune.h"

/* ---- a net without a device --------------------------------------------------------------------
 */

static char wrong[512];

/* Rules of a list for the net, with the texts of their patterns. */
typedef struct given_rules {
    clprune_net_rule *rules;
    char (*names)[128];
    size_t count;
} given_rules;

static void free_rules(given_rules *given)
{
    free(given->rules);
    free(given->names);
}

/* The caller frees *given in any case. */
static clprune_status make_rules(const keep_list *list, given_rules *given)
{
    const size_t most = list == NULL ? 0 : list->count;
    *given = (given_rules){.rules = calloc(most + 1, sizeof *given->rules),
        .names = calloc(most + 1, sizeof *given->names)};
    if (given->rules == NULL || given->names == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < most; ++i) {
        const keep_tensor *tensor = &list->tensors[i];
        char *name = given->names[given->count];
        if (!tensor->given)
            continue;
        keep_tensor_name(tensor, name, sizeof *given->names);
        given->rules[given->count++] = (clprune_net_rule){
            .pattern = name, .again = tensor->rule.recomputed, .keep = tensor->rule.keep};
    }
    return CLPRUNE_SUCCESS;
}

/* Creates and settles a net, for the caller to destroy in any case. *text: NULL, or what is wrong
 * with the texts of sizes; what is wrong with its layers is clprune_last_error. */
static clprune_status make_net_of(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, const clprune_net_desc *desc,
    clprune_net **net, const char **text)
{
    given_rules given = {0};
    *text = NULL;
    *net = NULL;
    clprune_net_keep keep = keep_preset_net(choice->preset, &choice->how);
    clprune_status status = make_rules(choice->list, &given);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_net_create(context, desc, net);
    if (status == CLPRUNE_SUCCESS) {
        keep.rules = given.rules;
        keep.rules_count = given.count;
        *text = net_tune_build(type, sizes, *net);
        status = *text != NULL ? CLPRUNE_INVALID_ARGUMENT : clprune_net_settle(*net, &keep);
    }
    free_rules(&given);
    return status;
}

static clprune_status make_net(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, size_t batch, clprune_net **net,
    const char **text)
{
    const clprune_net_desc desc = {.batch = batch,
        .drops_grads = choice->drops_grads,
        .shares_statistics = choice->shares_statistics,
        .infers = choice->infers};
    return make_net_of(type, context, sizes, choice, &desc, net, text);
}

/* The library's last error, with the option whose function failed in that one's place. */
static const char *last_error(const clprune_context *context)
{
    static const char *const options[][2] = {
        {"clprune_net_train_only", "--train"}, {"clprune_net_lora", "--lora"}};
    static char text[sizeof wrong];
    const char *detail = fault_detail(context);
    for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
        const size_t length = strlen(options[i][0]);
        if (strncmp(detail, options[i][0], length) == 0) {
            (void)snprintf(text, sizeof text, "%s%s", options[i][1], detail + length);
            return text;
        }
    }
    return detail;
}

/* Makes such a net in a context without a device, and calls `use`, which returns false if there is
 * no memory. NULL, or what is wrong, valid until the next call. */
static const char *with_dry_net(const trainer_model *type, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch,
    bool (*use)(void *user, clprune_context *context, clprune_net *net), void *user)
{
    clprune_context *context = NULL;
    clprune_net *net = NULL;
    const char *text = NULL;
    clprune_status status = clprune_context_create_dry(NULL, NULL, &context);
    /* With a wrong environment variable, say: opening the device says why. */
    if (status != CLPRUNE_SUCCESS && status != CLPRUNE_OUT_OF_HOST_MEMORY)
        return NULL;
    if (status == CLPRUNE_SUCCESS)
        status = make_net(type, context, sizes, choice, batch, &net, &text);
    if (status == CLPRUNE_SUCCESS && !use(user, context, net))
        status = CLPRUNE_OUT_OF_HOST_MEMORY;
    if (text == NULL && status != CLPRUNE_SUCCESS)
        text = status == CLPRUNE_OUT_OF_HOST_MEMORY ? TRAINER_NO_MEMORY : last_error(context);
    if (text != NULL)
        (void)snprintf(wrong, sizeof wrong, "%s", text);
    clprune_net_destroy(net);
    clprune_context_destroy(context);
    return text == NULL ? NULL : wrong;
}

/* ---- its tensors -------------------------------------------------------------------------------
 */

typedef struct listing {
    keep_list *list;
    bool full;
} listing;

static void list_tensor(void *user, const clprune_net_tensor *tensor)
{
    listing *l = user;
    const keep_tensor made = {
        .shape = {tensor->rows, tensor->cols, tensor->grid.height, tensor->grid.width},
        .product = tensor->product,
        .rule = {.recomputed = !tensor->kept, .keep = tensor->keep}};
    l->full = l->full || !keep_list_add(l->list, tensor->name, &made);
}

static bool list_tensors(void *user, clprune_context *context, clprune_net *net)
{
    listing l = {.list = user};
    (void)context;
    clprune_net_visit(net, list_tensor, &l);
    return !l.full;
}

const char *net_model_list(const trainer_model *type, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, keep_list *list)
{
    return with_dry_net(type, sizes, choice, batch, list_tensors, list);
}

/* ---- its sizes ---------------------------------------------------------------------------------
 */

void net_model_usual(trainer_sizes *sizes, size_t image, size_t classes, uint64_t extra)
{
    if (sizes->image == 0)
        sizes->image = image;
    if (sizes->classes == 0)
        sizes->classes = classes;
    if (sizes->extra[0] == 0)
        sizes->extra[0] = extra;
}

const char *net_model_check_classes(const trainer_sizes *sizes)
{
    return sizes->classes < 2 || sizes->classes > 1000000 ? "there must be 2 to 1000000 classes"
                                                          : NULL;
}

/* Whether parameter `index` is tied to an earlier one: it is the same matrix. */
static bool is_tied(const clprune_net *net, size_t index, const clprune_mat *value)
{
    clprune_net_weight other;
    for (size_t i = 0; i < index && clprune_net_weight_at(net, i, &other); ++i)
        if (other.value.buffer == value->buffer && other.value.offset == value->offset)
            return true;
    return false;
}

static void add_bytes(void *user, const clprune_net_tensor *tensor)
{
    *(uint64_t *)user += tensor->bytes;
}

enum { BATCH = 32 }; /* of the net whose elements are counted */

static bool count_elements(void *user, clprune_context *context, clprune_net *net)
{
    trainer_sizes *sizes = user;
    clprune_net_weight weight;
    const uint64_t saved = clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    uint64_t bytes = 0;
    size_t trained;
    const clprune_param *params = clprune_net_params(net, &trained);
    sizes->parameters = sizes->trained = 0;
    for (size_t i = 0; i < trained; ++i)
        sizes->trained += params[i].value.rows * params[i].value.cols;
    for (size_t i = 0; clprune_net_weight_at(net, i, &weight); ++i)
        if (!is_tied(net, i, &weight.value))
            sizes->parameters += weight.value.rows * weight.value.cols;
    clprune_net_visit(net, add_bytes, &bytes);
    sizes->fixed = (saved - bytes) / BATCH / sizeof(float);
    return true;
}

const char *net_model_settle(const trainer_model *type, trainer_sizes *sizes)
{
    const char *text = type->settle(sizes);
    return text != NULL
               ? text
               : with_dry_net(type, sizes, &(keep_choice){0}, BATCH, count_elements, sizes);
}

/* ---- a model -----------------------------------------------------------------------------------
 */

static bool is_frozen(clprune_net *net, clprune_mat value)
{
    size_t count;
    const clprune_param *params = clprune_net_params(net, &count);
    for (size_t i = 0; i < count; ++i)
        if (params[i].value.buffer == value.buffer && params[i].value.offset == value.offset)
            return false;
    return true;
}

/* Running statistics, with a count of batches for each pair; and frozen parameters, which a
 * checkpoint must have. */
static clprune_status list_states(net_model *model)
{
    size_t count, frozen = 0;
    const clprune_net_state *states = clprune_net_states(model->net, &count);
    clprune_net_weight weight;
    while (clprune_net_weight_at(model->net, frozen, &weight))
        ++frozen;
    model->states = calloc(count + frozen + 1, sizeof *model->states);
    model->counts = calloc(count + 1, sizeof *model->counts);
    model->counted = calloc(count + 1, sizeof *model->counted);
    if (model->states == NULL || model->counts == NULL || model->counted == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; ++i)
        model->states[i] = (trainer_state){states[i].name, states[i].mat};
    model->states_count = model->statistics_count = count;
    model->counts_count = count / 2;
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &weight); ++i)
        if (!is_tied(model->net, i, &weight.value) && is_frozen(model->net, weight.value))
            model->states[model->states_count++] =
                weight.value.type == CLPRUNE_VALUES_FP32
                    ? (trainer_state){weight.name, weight.value}
                    : (trainer_state){weight.name, clprune_mat_words(weight.value), true};
    for (size_t i = 0; i < model->counts_count; ++i) {
        const char *name = states[2 * i].name;
        (void)snprintf(model->counts[i].name, sizeof model->counts[i].name,
            "%.*s.num_batches_tracked", (int)(strrchr(name, '.') - name), name);
        model->counts[i].value = &model->counted[i];
    }
    return CLPRUNE_SUCCESS;
}

/* Whether a weight of files is a parameter, or rows of it. */
static bool is_of(const trainer_weight *weight, const clprune_mat *value)
{
    return weight->mat.buffer == value->buffer && weight->mat.offset >= value->offset &&
           weight->mat.offset < value->offset + value->rows * value->ld;
}

static clprune_status list_weights(net_model *model)
{
    clprune_net_weight found;
    size_t count = 0;
    while (clprune_net_weight_at(model->net, count, &found))
        ++count;
    model->weights =
        calloc(count * TRAINER_PIECES + model->statistics_count + 1, sizeof *model->weights);
    if (model->weights == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    trainer_weight *next = model->weights;
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &found); ++i) {
        if (net_tune_is_adapter(found.name))
            continue;
        if (is_tied(model->net, i, &found.value)) {
            for (trainer_weight *w = model->weights; w < next; ++w)
                if (is_of(w, &found.value))
                    (void)snprintf(w->twin, sizeof w->twin, "%s", found.name);
            continue;
        }
        *next = (trainer_weight){
            .rank = found.rank, .mat = found.value, .image = found.image, .head = found.output};
        memcpy(next->shape, found.shape, sizeof next->shape);
        (void)snprintf(next->name, sizeof next->name, "%s", found.name);
        const size_t pieces =
            model->type->in_files != NULL ? model->type->in_files(&model->sizes, next) : 1;
        net_tune_attach(model->net, &model->sizes, &found, next, pieces);
        next += pieces;
    }
    for (size_t i = 0; i < model->statistics_count; ++i, ++next) {
        const trainer_state *state = &model->states[i];
        *next = (trainer_weight){.rank = 1, .shape = {state->mat.cols}, .mat = state->mat};
        (void)snprintf(next->name, sizeof next->name, "%s", state->name);
    }
    model->weights_count = (size_t)(next - model->weights);
    return CLPRUNE_SUCCESS;
}

clprune_status net_model_create(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, size_t batch, net_model **model)
{
    const char *text; /* none: net_model_settle checked */
    net_model *made = calloc(1, sizeof *made);
    *model = NULL;
    if (made == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    *made = (net_model){.type = type, .sizes = *sizes, .context = context};
    clprune_status status = make_net(type, context, sizes, choice, batch, &made->net, &text);
    if (status == CLPRUNE_SUCCESS)
        status = list_states(made);
    if (status == CLPRUNE_SUCCESS)
        status = list_weights(made);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        net_model_destroy(made);
    return status;
}

void net_model_destroy(net_model *model)
{
    if (model == NULL)
        return;
    clprune_net_destroy(model->net);
    free(model->states);
    free(model->counts);
    free(model->counted);
    free(model->weights);
    free(model);
}

/* Whether all pieces of a parameter are given. */
static bool is_given(const net_model *model, const bool *given, const clprune_mat *value)
{
    bool all = given != NULL, any = false;
    for (size_t i = 0; all && i < model->weights_count; ++i)
        if (is_of(&model->weights[i], value)) {
            any = true;
            all = given[i];
        }
    return all && any;
}

clprune_status net_model_init(net_model *model, uint64_t seed, const bool *given)
{
    clprune_net_weight weight;
    if (given == NULL)
        TRY(clprune_net_init(model->net, seed)); /* of the states, too */
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &weight); ++i) {
        const size_t count = weight.value.rows * weight.value.cols;
        if (is_tied(model->net, i, &weight.value) || is_given(model, given, &weight.value))
            continue;
        rng r = rng_open(seed, RNG_INIT, (uint32_t)i, 0);
        float *values = malloc(count * sizeof *values);
        if (values == NULL)
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        for (size_t k = 0; k < count; ++k)
            values[k] = (float)(net_tune_is_adapter(weight.name)
                                    ? net_tune_draw(&r, &weight)
                                    : model->type->draw(&r, &model->sizes, &weight));
        const clprune_status status = clprune_mat_write(model->context, weight.value, values);
        free(values);
        TRY(status);
    }
    for (size_t i = 0; given == NULL && i < model->counts_count; ++i)
        model->counted[i] = 0;
    return CLPRUNE_SUCCESS;
}

clprune_status net_model_fit(net_model *model, size_t count, const float *images)
{
    clprune_net_weight weight;
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &weight); ++i) {
        float *values = malloc(weight.value.rows * weight.value.cols * sizeof *values);
        clprune_status status = values != NULL ? CLPRUNE_SUCCESS : CLPRUNE_OUT_OF_HOST_MEMORY;
        if (status == CLPRUNE_SUCCESS)
            status = clprune_mat_read(model->context, weight.value, values);
        if (status == CLPRUNE_SUCCESS)
            model->type->fit(&model->sizes, &weight, count, images, values);
        if (status == CLPRUNE_SUCCESS)
            status = clprune_mat_write(model->context, weight.value, values);
        free(values);
        TRY(status);
    }
    return CLPRUNE_SUCCESS;
}

/* ---- passes ------------------------------------------------------------------------------------
 */

/* As PyTorch's BatchNorm2d; the largest count stays. */
static void count_batch(net_model *model)
{
    for (size_t i = 0; i < model->counts_count; ++i)
        if (model->counted[i] != TRAINER_NO_COUNT && model->counted[i] < INT64_MAX)
            ++model->counted[i];
}

clprune_status net_model_forward(net_model *model, const clprune_net_data *data, bool training)
{
    model->part[0] = '\0';
    TRY(clprune_net_forward(model->net, data, training));
    if (training)
        count_batch(model);
    return CLPRUNE_SUCCESS;
}

clprune_status net_model_backward(net_model *model, const clprune_net_data *data)
{
    model->part[0] = '\0';
    return clprune_net_backward(model->net, data);
}

clprune_status net_model_create_writer(net_model *of, size_t rows, net_model **writer)
{
    net_model *made = calloc(1, sizeof *made);
    const clprune_net_desc desc = {
        .batch = 1, .infers = true, .rows_at_once = rows, .weights_of = of->net};
    const char *text; /* none: the model was made with them */
    *writer = made;
    if (made == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    *made = (net_model){.type = of->type, .sizes = of->sizes, .context = of->context};
    const clprune_status status =
        make_net_of(of->type, of->context, &of->sizes, &(keep_choice){0}, &desc, &made->net, &text);
    if (status != CLPRUNE_SUCCESS) {
        net_model_destroy(made);
        *writer = NULL;
    }
    return status;
}

/* Tells where the pass is: "forward blocks.3", "backward head". */
static void tell(void *of, bool backward, const char *layer)
{
    net_model *model = of;
    char text[sizeof model->part];
    const size_t place = keep_place_length(layer), length = place > 0 ? place : strcspn(layer, ".");
    (void)snprintf(
        text, sizeof text, "%s %.*s", backward ? "backward" : "forward", (int)length, layer);
    if (strcmp(text, model->part) != 0)
        trainer_tell(&model->watcher, text);
    (void)snprintf(model->part, sizeof model->part, "%s", text);
}

void net_model_watch(net_model *model, trainer_watcher watcher)
{
    model->watcher = watcher;
    clprune_net_watch(model->net, watcher.tell != NULL ? tell : NULL, model);
}
