#include "trainer/model/net_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/try.h"
#include "trainer/model/net_tune.h"

/* ---- presets -----------------------------------------------------------------------------------
 */

const char *const net_model_preset_names[] = {"dense", "paper", "pruned", "quantised", "pooled",
    "exact", "exact-tokens", "exact-plus", "checkpoint", "compact", "compact-plus",
    "compact-pruned", "least", "auto", NULL};

enum {
    DENSE,
    PAPER,
    PRUNED,
    QUANTISED,
    POOLED,
    EXACT,
    EXACT_TOKENS,
    EXACT_PLUS,
    CHECKPOINT,
    COMPACT,
    COMPACT_PLUS,
    COMPACT_PRUNED,
    LEAST,
    AUTO,
    PRESETS
};

_Static_assert(PRESETS == (int)NET_MODEL_PRESETS, "a row for each preset");

/* Products of at most so many multiplications an element run again in exact-tokens. */
enum { CHEAP_PRODUCT = 256 };

/* Percent of a step's products that run again in the presets with plus, and in checkpoint. */
enum { PLUS_WORK = 12, CHECKPOINT_WORK = 25 };

/* The presets whose kept tensors auto chooses forms for. */
static const size_t framed[NET_MODEL_FRAMES] = {COMPACT, QUANTISED, LEAST};

/* The letters of all tensors follow from the net, and are filled in by net_model_settle. */
static const char *const no_frames[] = {"", NULL};
const keep_preset_row net_model_presets[] = {
    [DENSE] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep what autograd keeps"},
    [PAPER] = {"", CLPRUNE_CRITERION_LARGEST, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers and convolutions pruned to their largest blocks (arXiv "
        "2311.16883)",
        .uses = "p"},
    [PRUNED] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same tensors with sampled blocks, in images around the mean of each image, which make "
        "the weight gradients unbiased",
        .uses = "p"},
    [QUANTISED] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the inputs of linear layers and convolutions as codes of --code-bits bits",
        .uses = "q"},
    [POOLED] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep the means of these inputs over cells of neighbouring rows (arXiv 2409.11902)",
        .uses = "o"},
    [EXACT] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep fewer tensors, from which the same gradients follow without another product",
        .uses = ""},
    [EXACT_TOKENS] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same, and run small products, such as those over tokens, twice", .uses = ""},
    [EXACT_PLUS] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same, and run the products that save most, up to 12 % of a step's, again", .uses = ""},
    [CHECKPOINT] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "the same with up to 25 %: about the inputs of blocks are kept", .uses = ""},
    [COMPACT] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep such tensors as codes of --code-bits bits, sums of residual paths in at least 8; run "
        "small products, up to 4 % of a step's, again",
        .uses = "q"},
    [COMPACT_PLUS] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "such codes, and the products that save most, up to 12 % of a step's, run again",
        .uses = "q"},
    [COMPACT_PRUNED] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "keep such tensors pruned, with a code of GELU's derivative", .uses = "pc"},
    [LEAST] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32,
        "keep a few tensors between blocks as codes of --code-bits bits, and make all others again",
        .uses = "q"},
    [AUTO] = {"", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_SMALLEST,
        "measure the gradient errors of each tensor's forms, and choose within --memory-limit",
        no_frames, .uses = ""},
};

/* Presets with dense's gradients come first. */
const keep_rung net_model_ladder[] = {{"dense", 0}, {"exact", 0}, {"exact-tokens", 0},
    {"compact", 8}, {"compact", 4}, {"least", 8}, {"least", 4}};

/* Before preset pruned existed, preset paper had --criterion, sampled by default; programs of
 * version 2 have always had both. compact pruned before it quantised. */
const keep_renamed net_model_renamed[] = {
    {"paper", "sampled", "pruned", 1}, {"compact", NULL, "compact-pruned", 1}};

/* What the net is told of a preset. */
static clprune_net_keep net_keep(size_t preset, const keep_how *how, clprune_value_type store)
{
    static const clprune_net_preset nets[PRESETS] = {[DENSE] = CLPRUNE_NET_DENSE,
        [PAPER] = CLPRUNE_NET_INPUTS,
        [PRUNED] = CLPRUNE_NET_INPUTS,
        [QUANTISED] = CLPRUNE_NET_INPUTS,
        [POOLED] = CLPRUNE_NET_INPUTS,
        [EXACT] = CLPRUNE_NET_EXACT,
        [EXACT_TOKENS] = CLPRUNE_NET_EXACT,
        [EXACT_PLUS] = CLPRUNE_NET_EXACT,
        [CHECKPOINT] = CLPRUNE_NET_EXACT,
        [COMPACT] = CLPRUNE_NET_COMPACT,
        [COMPACT_PLUS] = CLPRUNE_NET_COMPACT,
        [COMPACT_PRUNED] = CLPRUNE_NET_COMPACT,
        [LEAST] = CLPRUNE_NET_LEAST,
        [AUTO] = CLPRUNE_NET_EXACT};
    clprune_net_keep keep = {.preset = nets[preset], .keep = how->keep, .store = store};
    const bool prunes = preset == PAPER || preset == PRUNED || preset == COMPACT_PRUNED;
    keep.keep.form = prunes             ? CLPRUNE_FORM_PRUNED
                     : preset == POOLED ? CLPRUNE_FORM_POOLED
                                        : CLPRUNE_FORM_QUANTISED;
    if (preset == COMPACT_PRUNED)
        keep.gelu_bits = how->gelu_bits;
    if (preset == EXACT_TOKENS)
        keep.products = CHEAP_PRODUCT;
    if (preset == EXACT_PLUS || preset == COMPACT_PLUS)
        keep.extra_work = PLUS_WORK;
    if (preset == CHECKPOINT)
        keep.extra_work = CHECKPOINT_WORK;
    return keep;
}

/* ---- the tensors of a net, as a keep_table -----------------------------------------------------
 */

static char wrong[512];

/* The length of a tensor's place in its name: "blocks.3" of "blocks.3.mlp.fc1". 0: none. */
static size_t place_length(const char *name)
{
    size_t length = 0;
    for (const char *p = name; *p != '\0'; ++p) {
        const size_t part = strcspn(p, ".");
        if (p[part] != '.')
            break;
        if (strspn(p, "0123456789") == part)
            length = (size_t)(p + part - name);
        p += part;
    }
    return length;
}

/* Collects the tensors of a settled net. */
typedef struct listing {
    net_model_tensors *tensors;
    size_t preset, count, text; /* text: bytes of it that are taken */
    bool first;                 /* names and shapes, too */
    bool full;
    uint64_t bytes, elements; /* that are kept: of a batch; of a sample */
} listing;

/* A copy in the table's text. */
static const char *copied(listing *l, const char *text, size_t length)
{
    char *to = l->tensors->text + l->text;
    if (length >= sizeof l->tensors->text - l->text) {
        l->full = true;
        return "";
    }
    memcpy(to, text, length);
    to[length] = '\0';
    l->text += length + 1;
    return to;
}

static char letter_of(const clprune_net_tensor *tensor)
{
    if (!tensor->kept)
        return 'r';
    switch (tensor->keep.form) {
    case CLPRUNE_FORM_PRUNED:
        return KEEP_PRUNED;
    case CLPRUNE_FORM_POOLED:
        return KEEP_POOLED;
    case CLPRUNE_FORM_QUANTISED:
        return tensor->keep.bits == 16 ? KEEP_BF16 : tensor->keep.bits == 8 ? 'e' : KEEP_QUANTISED;
    default:
        return 'd';
    }
}

static void list_tensor(void *user, const clprune_net_tensor *tensor)
{
    listing *l = user;
    const size_t i = l->count;
    if (i == NET_MODEL_TENSORS) {
        l->full = true;
        return;
    }
    l->count++;
    l->tensors->letters[l->preset][i] = letter_of(tensor);
    l->bytes += tensor->bytes;
    l->elements += tensor->kept ? tensor->rows * tensor->cols : 0;
    const char frame = !tensor->kept ? 'r' : tensor->product ? 'k' : 'q';
    for (size_t k = 0; k < NET_MODEL_FRAMES; ++k)
        if (framed[k] == l->preset)
            l->tensors->frame_letters[k][i] = frame;
    if (!l->first)
        return;
    const size_t place = place_length(tensor->name);
    const char *rest = tensor->name + place + (place > 0);
    l->tensors->entries[i] = (keep_entry){.name = copied(l, rest, strlen(rest)),
        .place = place > 0 ? copied(l, tensor->name, place) : "net",
        .again = "the layers before it"};
    l->tensors->shapes[i] =
        (keep_shape){tensor->rows, tensor->cols, tensor->grid.height, tensor->grid.width};
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

/* Settings that no option of a run has, so that letters tell forms apart: codes of 4 bits. */
static const keep_how plain = {.keep = {.sparsity = 0.5f, .bits = 4, .cell = 2}, .gelu_bits = 2};

/* The tensors of a preset, for a batch of 32: the planner weighs bytes of a batch. */
static clprune_status list_preset(
    const net_model_parts *parts, trainer_sizes *sizes, size_t preset, clprune_value_type store)
{
    listing l = {.tensors = parts->tensors,
        .preset = preset,
        .first = preset == DENSE && store == CLPRUNE_VALUES_FP32};
    const clprune_net_keep keep = net_keep(preset, &plain, store);
    clprune_context *context = NULL;
    clprune_net *net = NULL;
    enum { BATCH = 32 };
    /* Without a context, as with a wrong environment variable, opening the device says why. */
    parts->tensors->letters[preset][0] = '\0';
    if (clprune_context_create_dry(NULL, NULL, &context) != CLPRUNE_SUCCESS)
        return CLPRUNE_SUCCESS;
    clprune_status status = clprune_net_create(context, &(clprune_net_desc){.batch = BATCH}, &net);
    const char *text = NULL;
    if (status == CLPRUNE_SUCCESS) {
        text = net_tune_build(parts, sizes, net);
        status = text != NULL ? CLPRUNE_INVALID_ARGUMENT : clprune_net_settle(net, &keep);
    }
    if (text != NULL)
        (void)snprintf(wrong, sizeof wrong, "%s", text);
    else if (status != CLPRUNE_SUCCESS)
        (void)snprintf(wrong, sizeof wrong, "%s",
            status == CLPRUNE_OUT_OF_HOST_MEMORY ? TRAINER_NO_MEMORY : clprune_last_error(context));
    clprune_net_visit(net, list_tensor, &l);
    if (l.full) {
        (void)snprintf(wrong, sizeof wrong, "the net has too many tensors or too long names");
        status = CLPRUNE_INVALID_ARGUMENT;
    }
    if (status == CLPRUNE_SUCCESS && l.first) {
        clprune_net_weight weight;
        const uint64_t saved = clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
        size_t trained;
        const clprune_param *params = clprune_net_params(net, &trained);
        sizes->parameters = sizes->trained = 0;
        for (size_t i = 0; i < trained; ++i)
            sizes->trained += params[i].value.rows * params[i].value.cols;
        for (size_t i = 0; clprune_net_weight_at(net, i, &weight); ++i)
            if (!is_tied(net, i, &weight.value))
                sizes->parameters += weight.value.rows * weight.value.cols;
        sizes->dense = l.elements;
        sizes->fixed = (saved - l.bytes) / BATCH / sizeof(float);
        parts->keep->count = l.count;
    }
    parts->tensors->letters[preset][l.count] = '\0';
    clprune_net_destroy(net);
    clprune_context_destroy(context);
    return status;
}

void net_model_usual(trainer_sizes *sizes, size_t image, size_t classes, uint64_t extra)
{
    if (sizes->image == 0)
        sizes->image = image;
    if (sizes->classes == 0)
        sizes->classes = classes;
    if (sizes->extra[0] == 0)
        sizes->extra[0] = extra;
}

const char *net_model_settle(const net_model_parts *parts, trainer_sizes *sizes)
{
    net_model_tensors *tensors = parts->tensors;
    memcpy(tensors->presets, net_model_presets, sizeof tensors->presets);
    for (size_t preset = 0; preset < PRESETS; ++preset) {
        if (preset == DENSE && sizes->store != CLPRUNE_VALUES_FP32 &&
            list_preset(parts, sizes, preset, CLPRUNE_VALUES_FP32) != CLPRUNE_SUCCESS)
            return wrong;
        if (list_preset(parts, sizes, preset, sizes->store) != CLPRUNE_SUCCESS)
            return wrong;
        tensors->presets[preset].forms = tensors->letters[preset];
    }
    for (size_t i = 0; i < NET_MODEL_FRAMES; ++i) {
        tensors->frame_letters[i][parts->keep->count] = '\0';
        tensors->frames[i] = tensors->frame_letters[i];
    }
    tensors->presets[AUTO].frames = tensors->frames;
    sizes->blocks = 0;
    parts->keep->entries = tensors->entries;
    parts->keep->in_block = 0;
    parts->keep->shapes = tensors->shapes;
    parts->keep->presets = tensors->presets;
    return NULL;
}

/* ---- a model -----------------------------------------------------------------------------------
 */

typedef struct net_model {
    const net_model_parts *parts;
    trainer_sizes sizes;
    clprune_context *context; /* not owned */
    clprune_net *net;
    clprune_net_data data; /* of the latest forward pass */
    trainer_state *states;
    trainer_count *counts; /* one for each batch norm */
    int64_t *batches;
    size_t states_count;     /* running statistics, then frozen parameters */
    size_t norms;            /* a mean and a variance each */
    trainer_weight *weights; /* (weights_count) parameters, then running statistics */
    size_t weights_count;
    trainer_watcher watcher;
    char part[64]; /* that was told last */
} net_model;

/* A rule for each tensor, so that the net keeps what the table says. *rules and the text of their
 * patterns are for the caller to free. */
static clprune_status make_rules(
    const keep_table *table, const keep_rule *rules, clprune_net_rule **made, char **patterns)
{
    const keep_entry *entries = table->entries;
    const size_t entries_count = table->count;
    size_t size = 1, used = 0;
    for (size_t i = 0; i < entries_count; ++i)
        size += strlen(entries[i].place) + strlen(entries[i].name) + 2;
    *made = calloc(entries_count + 1, sizeof **made);
    *patterns = malloc(size);
    if (*made == NULL || *patterns == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < entries_count; ++i) {
        const bool inside = strcmp(entries[i].place, "net") != 0;
        (*made)[i] = (clprune_net_rule){
            .pattern = *patterns + used, .again = rules[i].recomputed, .keep = rules[i].keep};
        used += (size_t)snprintf(*patterns + used, size - used, "%s%s%s",
                    inside ? entries[i].place : "", inside ? "." : "", entries[i].name) +
                1;
    }
    return CLPRUNE_SUCCESS;
}

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
    model->norms = count / 2;
    model->states = calloc(count + frozen + 1, sizeof *model->states);
    model->counts = calloc(count + 1, sizeof *model->counts);
    model->batches = calloc(count + 1, sizeof *model->batches);
    if (model->states == NULL || model->counts == NULL || model->batches == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; ++i)
        model->states[i] = (trainer_state){states[i].name, states[i].mat};
    model->states_count = count;
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &weight); ++i)
        if (!is_tied(model->net, i, &weight.value) && is_frozen(model->net, weight.value))
            model->states[model->states_count++] = (trainer_state){weight.name, weight.value};
    for (size_t i = 0; i < model->norms; ++i) {
        const char *name = states[2 * i].name;
        (void)snprintf(model->counts[i].name, sizeof model->counts[i].name,
            "%.*s.num_batches_tracked", (int)(strrchr(name, '.') - name), name);
        model->counts[i].value = &model->batches[i];
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status list_weights(net_model *model)
{
    clprune_net_weight found;
    size_t count = 0;
    while (clprune_net_weight_at(model->net, count, &found))
        ++count;
    model->weights =
        calloc(count * NET_MODEL_PIECES + 2 * model->norms + 1, sizeof *model->weights);
    if (model->weights == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    trainer_weight *next = model->weights;
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &found); ++i) {
        if (is_tied(model->net, i, &found.value) || net_tune_is_adapter(found.name))
            continue;
        *next = (trainer_weight){
            .rank = found.rank, .mat = found.value, .image = found.image, .head = found.output};
        memcpy(next->shape, found.shape, sizeof next->shape);
        (void)snprintf(next->name, sizeof next->name, "%s", found.name);
        const size_t pieces =
            model->parts->in_files != NULL ? model->parts->in_files(&model->sizes, next) : 1;
        net_tune_attach(model->net, &model->sizes, &found, next, pieces);
        next += pieces;
    }
    for (size_t i = 0; i < 2 * model->norms; ++i, ++next) {
        const trainer_state *state = &model->states[i];
        *next = (trainer_weight){.rank = 1, .shape = {state->mat.cols}, .mat = state->mat};
        (void)snprintf(next->name, sizeof next->name, "%s", state->name);
    }
    model->weights_count = (size_t)(next - model->weights);
    return CLPRUNE_SUCCESS;
}

static clprune_status create_net(net_model *model, const keep_choice *choice, size_t batch)
{
    clprune_net_keep keep = net_keep(choice->preset, &choice->how, model->sizes.store);
    clprune_net_rule *rules = NULL;
    char *patterns = NULL;
    clprune_status status = clprune_net_create(model->context,
        &(clprune_net_desc){.batch = batch, .drops_grads = choice->drops_grads}, &model->net);
    if (status == CLPRUNE_SUCCESS)
        status = make_rules(model->parts->keep, choice->rules, &rules, &patterns);
    if (status == CLPRUNE_SUCCESS) {
        keep.rules = rules;
        keep.rules_count = model->parts->keep->count;
        (void)net_tune_build(
            model->parts, &model->sizes, model->net); /* net_model_settle checked */
        status = clprune_net_settle(model->net, &keep);
    }
    free(rules);
    free(patterns);
    TRY(status);
    TRY(list_states(model));
    return list_weights(model);
}

clprune_status net_model_create(const net_model_parts *parts, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *keep, size_t batch, void **model)
{
    net_model *made = calloc(1, sizeof *made);
    *model = NULL;
    if (made == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    *made = (net_model){.parts = parts, .sizes = *sizes, .context = context};
    const clprune_status status = create_net(made, keep, batch);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        net_model_destroy(made);
    return status;
}

void net_model_destroy(void *of)
{
    net_model *model = of;
    if (model == NULL)
        return;
    clprune_net_destroy(model->net);
    free(model->states);
    free(model->counts);
    free(model->batches);
    free(model->weights);
    free(model);
}

clprune_status net_model_init(void *of, uint64_t seed)
{
    net_model *model = of;
    clprune_net_weight weight;
    TRY(clprune_net_init(model->net, seed)); /* of the states, too */
    for (size_t i = 0; clprune_net_weight_at(model->net, i, &weight); ++i) {
        const size_t count = weight.value.rows * weight.value.cols;
        if (is_tied(model->net, i, &weight.value))
            continue;
        rng r = rng_open(seed, RNG_INIT, (uint32_t)i, 0);
        float *values = malloc(count * sizeof *values);
        if (values == NULL)
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        for (size_t k = 0; k < count; ++k)
            values[k] = (float)(net_tune_is_adapter(weight.name)
                                    ? net_tune_draw(&r, &weight)
                                    : model->parts->draw(&r, &model->sizes, &weight));
        const clprune_status status = clprune_mat_write(model->context, weight.value, values);
        free(values);
        TRY(status);
    }
    for (size_t i = 0; i < model->norms; ++i)
        model->batches[i] = 0;
    return CLPRUNE_SUCCESS;
}

clprune_param *net_model_params(void *of, size_t *count)
{
    return clprune_net_params(((net_model *)of)->net, count);
}

const trainer_state *net_model_states(void *of, size_t *count)
{
    const net_model *model = of;
    *count = model->states_count;
    return model->states;
}

const trainer_count *net_model_counts(void *of, size_t *count)
{
    const net_model *model = of;
    *count = model->norms;
    return model->counts;
}

bool net_model_weight(void *of, size_t index, trainer_weight *weight)
{
    const net_model *model = of;
    if (index < model->weights_count)
        *weight = model->weights[index];
    return index < model->weights_count;
}

/* ---- passes ------------------------------------------------------------------------------------
 */

void net_model_set_seed(void *of, uint64_t seed)
{
    clprune_net_set_seed(((net_model *)of)->net, seed);
}

/* As PyTorch's BatchNorm2d; the largest count stays. */
static void count_batch(net_model *model)
{
    for (size_t i = 0; i < model->norms; ++i)
        if (model->batches[i] != TRAINER_NO_COUNT && model->batches[i] < INT64_MAX)
            ++model->batches[i];
}

clprune_status net_model_forward(void *of, size_t batch, trainer_input input, bool training)
{
    net_model *model = of;
    model->data =
        (clprune_net_data){.batch = batch, .images = input.images, .tokens = input.tokens};
    model->part[0] = '\0';
    TRY(clprune_net_forward(model->net, &model->data, training));
    if (training)
        count_batch(model);
    return CLPRUNE_SUCCESS;
}

clprune_status net_model_loss(
    void *of, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit)
{
    net_model *model = of;
    model->data.batch = batch;
    model->data.labels = labels;
    model->data.smoothing = smoothing;
    return clprune_net_loss(model->net, &model->data, loss, hit);
}

clprune_status net_model_backward(
    void *of, size_t batch, trainer_input input, cl_mem labels, float smoothing)
{
    net_model *model = of;
    model->data = (clprune_net_data){.batch = batch,
        .images = input.images,
        .tokens = input.tokens,
        .labels = labels,
        .smoothing = smoothing};
    model->part[0] = '\0';
    return clprune_net_backward(model->net, &model->data);
}

clprune_status net_model_logits(void *of, size_t batch, size_t row, clprune_mat logits)
{
    return clprune_net_logits(((net_model *)of)->net, batch, row, logits);
}

/* Tells where the pass is: "forward blocks.3", "backward head". */
static void tell(void *of, bool backward, const char *layer)
{
    net_model *model = of;
    char text[sizeof model->part];
    const size_t place = place_length(layer), length = place > 0 ? place : strcspn(layer, ".");
    (void)snprintf(
        text, sizeof text, "%s %.*s", backward ? "backward" : "forward", (int)length, layer);
    if (strcmp(text, model->part) != 0)
        trainer_tell(&model->watcher, text);
    (void)snprintf(model->part, sizeof model->part, "%s", text);
}

void net_model_on_grads(void *of, clprune_status (*ready)(void *user, cl_mem grads), void *user)
{
    clprune_net_on_grads(((net_model *)of)->net, ready, user);
}

void net_model_watch(void *of, trainer_watcher watcher)
{
    net_model *model = of;
    model->watcher = watcher;
    clprune_net_watch(model->net, watcher.tell != NULL ? tell : NULL, model);
}

clprune_mat net_model_output(const void *model, size_t batch)
{
    return clprune_net_output(((const net_model *)model)->net, batch);
}
