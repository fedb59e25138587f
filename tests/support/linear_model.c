#include "support/linear_model.h"

#include "support/test_device.h"
#include "trainer/base/try.h"

static const char *const archs[] = {"small", "large", NULL};
static const char *const preset_names[] = {"dense", NULL};
static const keep_preset rows[] = {
    {CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep the images"}};
static const keep_rung ladder[] = {{"dense", 0}};
static const trainer_extra extras[] = {{"stretch", "stretch", 1, 9, "a number that nobody reads"}};

static const keep_presets presets = {
    .names = preset_names, .rows = rows, .ladder = ladder, .rungs = 1};
static const keep_presets presets_without_ladder = {.names = preset_names, .rows = rows};

static const char *settle(const trainer_model *type, trainer_sizes *sizes)
{
    (void)type;
    if (sizes->image == 0)
        sizes->image = sizes->arch == 0 ? 16 : 32;
    if (sizes->classes == 0)
        sizes->classes = 4;
    if (sizes->extra[0] == 0)
        sizes->extra[0] = 3;
    sizes->parameters = 3 * sizes->image * sizes->image * sizes->classes;
    return sizes->image == 17 ? "17 is no size" : NULL;
}

static const char *list(const trainer_model *type, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, keep_list *made)
{
    const keep_tensor images = {.shape = {1, 3 * sizes->image * sizes->image, 0, 0}};
    (void)type;
    (void)choice;
    (void)batch;
    return keep_list_add(made, "images", &images) ? NULL : TRAINER_NO_MEMORY;
}

static void destroy(void *model)
{
    linear_model *m = model;
    if (m == NULL)
        return;
    const clprune_mat mats[] = {m->w, m->dw, m->mean, m->ones, m->zero, m->logits, m->log_p};
    for (size_t i = 0; i < COUNT_OF(mats); i++)
        clprune_buffer_release(m->context, mats[i].buffer);
    free(m);
}

static clprune_status create(const trainer_model *type, clprune_context *context,
    const trainer_sizes *sizes, const keep_choice *choice, size_t batch, void **model)
{
    (void)type;
    linear_model *m = calloc(1, sizeof *m);
    const size_t pixels = 3 * sizes->image * sizes->image, classes = sizes->classes;
    *model = NULL;
    if (m == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    assert_int_equal(choice->preset, 0);
    assert_null(choice->list);
    *m = (linear_model){.context = context,
        .whole = {3, sizes->image, sizes->image, sizes->image, classes},
        .pixels = pixels,
        .classes = classes};
    const struct {
        const char *name;
        clprune_memory_category category;
        size_t rows, cols;
        clprune_mat *mat;
    } mats[] = {{"w", CLPRUNE_MEMORY_PARAMETERS, classes, pixels, &m->w},
        {"dw", CLPRUNE_MEMORY_GRADIENTS, classes, pixels, &m->dw},
        {"mean", CLPRUNE_MEMORY_PARAMETERS, 1, classes, &m->mean},
        {"ones", CLPRUNE_MEMORY_PARAMETERS, batch, 1, &m->ones},
        {"zero", CLPRUNE_MEMORY_PARAMETERS, 1, classes, &m->zero},
        {"logits", CLPRUNE_MEMORY_WORKSPACE, batch, classes, &m->logits},
        {"log_p", CLPRUNE_MEMORY_ACTIVATIONS, batch, classes, &m->log_p}};
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < COUNT_OF(mats) && status == CLPRUNE_SUCCESS; i++)
        status = clprune_mat_create(
            context, mats[i].category, mats[i].name, mats[i].rows, mats[i].cols, mats[i].mat);
    m->param = (clprune_param){.name = "w", .value = m->w, .grad = m->dw, .decay = true};
    m->state = (trainer_state){"mean", m->mean};
    m->count = (trainer_count){"batches", &m->batches};
    *model = m;
    return status;
}

static clprune_status init(void *model, uint64_t seed, const bool *given)
{
    linear_model *m = model;
    (void)given;
    const size_t count = m->classes * m->pixels;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u + seed) % 1000) * 1e-5f;
    const clprune_status status = clprune_mat_write(m->context, m->w, values);
    free(values);
    TRY(status);
    TRY(clprune_mat_fill(m->context, 0.0f, m->mean, NULL));
    return clprune_mat_fill(m->context, 1.0f, m->ones, NULL);
}

static clprune_param *params(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->param;
}

static const trainer_state *states(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->state;
}

static const trainer_count *counts(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->count;
}

static void set_seed(void *model, uint64_t seed)
{
    linear_model *m = model;
    if (m->steps < COUNT_OF(m->seeds))
        m->seeds[m->steps++] = seed;
}

static void watch(void *model, trainer_watcher watcher)
{
    ((linear_model *)model)->watcher = watcher;
}

/* mean = 0.9 mean + 0.1 (mean over the batch of images W^T) in training. */
static clprune_status forward(void *model, const clprune_net_data *data, bool training)
{
    linear_model *m = model;
    const size_t batch = data->batch;
    const clprune_mat logits = clprune_mat_rows(m->logits, 0, batch);
    clprune_mat ones = clprune_mat_rows(m->ones, 0, batch);
    trainer_tell(&m->watcher, "forward");
    if (training && m->batches != TRAINER_NO_COUNT)
        ++m->batches;
    TRY(clprune_mat_fill(m->context, 1.0f, ones, NULL));
    TRY(clprune_mat_fill(m->context, 0.0f, m->zero, NULL));
    TRY(clprune_patch_embed_forward_bytes(
        m->context, &m->whole, batch, data->images, m->w, m->zero, logits, NULL));
    if (training)
        TRY(clprune_gemm(
            m->context, true, false, 0.1f / (float)batch, 0.9f, ones, logits, m->mean, NULL));
    return clprune_gemm(m->context, false, false, 1.0f, 1.0f, ones, m->mean, logits, NULL);
}

static clprune_status loss(
    void *model, const clprune_net_data *data, clprune_mat losses, clprune_mat hit)
{
    linear_model *m = model;
    return clprune_cross_entropy_forward(m->context, data->smoothing,
        clprune_mat_rows(m->logits, 0, data->batch), data->labels,
        clprune_mat_rows(m->log_p, 0, data->batch), losses, hit, NULL);
}

static clprune_status backward(void *model, const clprune_net_data *data)
{
    linear_model *m = model;
    const clprune_mat log_p = clprune_mat_rows(m->log_p, 0, data->batch);
    TRY(clprune_cross_entropy_backward(
        m->context, data->smoothing, data->scale, log_p, data->labels, log_p, NULL));
    return clprune_patch_embed_backward_bytes(m->context, &m->whole, data->batch, data->images,
        log_p, &(clprune_grads){.dw = m->dw}, NULL);
}

#define MODEL(kept)                                                                                \
    .program = "linear-train", .about = "Trains a linear model.\n", .archs = archs,                \
    .extras = extras, .extras_count = 1, .presets = kept, .settle = settle, .list = list,          \
    .create = create, .destroy = destroy, .init = init, .params = params, .set_seed = set_seed,    \
    .forward = forward, .loss = loss, .backward = backward, .watch = watch

const trainer_model linear_with_state = {MODEL(&presets), .states = states, .counts = counts};
const trainer_model linear_without_state = {MODEL(&presets)};
const trainer_model linear_without_ladder = {MODEL(&presets_without_ladder)};
