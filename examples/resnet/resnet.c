/* Making and destroying a model; the passes are in resnet_forward.c and resnet_backward.c. */
#include "resnet.h"

#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h> /* memcpy */

#include "resnet_private.h"
#include "trainer/base/try.h"

static clprune_status create_part(resnet *model, size_t index)
{
    clprune_context *context = model->context;
    resnet_part *part = &model->parts[index];
    const resnet_unit *unit = &part->unit;
    const clprune_param *params = &model->params[3 * index];
    const clprune_conv2d_desc desc = {.in = unit->in,
        .out = unit->out,
        .kernel = resnet_square(unit->kernel),
        .stride = resnet_square(unit->stride),
        .padding = resnet_square(unit->padding)};
    TRY(clprune_conv2d_create(context, &desc, &part->conv));
    part->w = params[0].value, part->dw = params[0].grad;
    part->gamma = params[1].value, part->dgamma = params[1].grad;
    part->beta = params[2].value, part->dbeta = params[2].grad;
    const struct {
        const char *name;
        clprune_memory_category category;
        clprune_mat *mat;
    } mats[] = {{"running_mean", CLPRUNE_MEMORY_PARAMETERS, &part->running_mean},
        {"running_var", CLPRUNE_MEMORY_PARAMETERS, &part->running_var},
        {"mean", CLPRUNE_MEMORY_WORKSPACE, &part->mean},
        {"inv", CLPRUNE_MEMORY_WORKSPACE, &part->inv}};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; ++i) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.%s", unit->norm, mats[i].name);
        TRY(clprune_mat_create(context, mats[i].category, name, 1, unit->out, mats[i].mat));
        if (i < 2) {
            memcpy(model->state_names[2 * index + i], name, sizeof name);
            model->states[2 * index + i] =
                (trainer_state){model->state_names[2 * index + i], *mats[i].mat};
        }
    }
    trainer_count *count = &model->counts[index];
    (void)snprintf(count->name, sizeof count->name, "%s.num_batches_tracked", unit->norm);
    count->value = &part->batches;
    return CLPRUNE_SUCCESS;
}

/* A store, unless the rule recomputes the tensor or the tensor has no rows. */
static clprune_status create_store(
    resnet *model, size_t block, size_t entry, const keep_rule *rule, clprune_saved **saved)
{
    const resnet_shape shape = resnet_keep_shape(&model->arch, block, entry);
    const keep_entry *e = &resnet_keep_table.entries[entry];
    char name[64];
    if (rule->recomputed || shape.side == 0)
        return CLPRUNE_SUCCESS;
    if (e->place != NULL)
        (void)snprintf(name, sizeof name, "%s.%s", e->place, e->name);
    else
        (void)snprintf(name, sizeof name, "blocks.%zu.%s", block, e->name);
    return clprune_saved_create(model->context, name, &rule->keep, model->batch,
        shape.side * shape.side, shape.channels, saved);
}

static clprune_status create_stores(resnet *model, const keep_rule *rules)
{
    const size_t blocks = model->blocks_count;
    for (size_t i = 0; i < blocks; ++i)
        for (size_t k = 0; k < KEEP_IN_BLOCK; ++k) {
            resnet_block *block = &model->blocks[i];
            block->rule[k] = rules[keep_rule_at(&resnet_keep_table, blocks, i, k)];
            TRY(create_store(model, i, k, &block->rule[k], &block->kept[k]));
        }
    for (size_t k = KEEP_IN_BLOCK; k < KEEP_ALL; ++k) {
        model->rule[k] = rules[keep_rule_at(&resnet_keep_table, blocks, 0, k)];
        TRY(create_store(model, 0, k, &model->rule[k], &model->kept[k]));
    }
    return CLPRUNE_SUCCESS;
}

/* A matrix of the workspace: one row, which resnet_room shapes. With a view, also a dense store on
 * it, whose shape the passes set. */
static clprune_status create_work(const resnet *model, const char *owner, const char *name,
    size_t rows, size_t cols, clprune_mat *mat, clprune_saved **view)
{
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const size_t align = CLPRUNE_SAVED_ALIGN / sizeof(float);
    const size_t elements = (rows * cols + align - 1) / align * align;
    char whole[64];
    (void)snprintf(whole, sizeof whole, "%s.%s", owner, name);
    TRY(clprune_mat_create(model->context, CLPRUNE_MEMORY_WORKSPACE, whole, 1, elements, mat));
    if (view != NULL)
        TRY(clprune_saved_create_in(
            model->context, &dense, 1, 1, 1, mat->buffer, 0, elements * sizeof(float), view));
    return CLPRUNE_SUCCESS;
}

static clprune_status create_block_work(resnet *model, size_t i)
{
    resnet_block *block = &model->blocks[i];
    const resnet_unit *u = &block->conv2->unit;
    const size_t rows = resnet_pixels(model->batch, u->to), cols = u->out;
    const bool last = i + 1 == model->blocks_count;
    char owner[32];
    (void)snprintf(owner, sizeof owner, "blocks.%zu", i);
    for (size_t k = 0; k <= KEEP_OUT; ++k) {
        const keep_rule *rule = k == KEEP_OUT && last ? &model->rule[KEEP_LAST] : &block->rule[k];
        char name[32];
        (void)snprintf(name, sizeof name, "%s_made", resnet_keep_table.entries[k].name);
        if (!keep_has_form(rule, CLPRUNE_FORM_DENSE) && (k != KEEP_DOWN || block->down != NULL))
            TRY(create_work(model, owner, name, rows, cols, &block->made[k],
                k == KEEP_OUT     ? &block->out_view
                : k == KEEP_RELU1 ? &block->relu1_view
                                  : NULL));
    }
    if (block->down != NULL) {
        TRY(create_work(model, owner, "shortcut", rows, cols, &block->shortcut, NULL));
        TRY(create_work(model, owner, "dx", resnet_pixels(model->batch, resnet_x_side(model, i)),
            resnet_x_channels(model, i), &block->dx, NULL));
    }
    TRY(create_work(model, owner, "dconv2", rows, cols, &block->dconv2, NULL));
    return create_work(model, owner, "drelu1", rows, cols, &block->drelu1, NULL);
}

/* Images at a time in the stem's backward pass. If its gradients are products, half of the batch,
 * so that the gradient of the stem's relu stays smaller than the peak of the forward pass. */
static size_t stem_step(const resnet *model)
{
    return resnet_stem_by_product(model) ? (model->batch + 1) / 2 : model->batch;
}

/* The matrices of resnet_stem_by_product. */
static clprune_status create_stem_products(resnet *model)
{
    resnet_workspace *work = &model->work;
    const resnet_unit *u = &model->parts[0].unit;
    const clprune_mat w = model->parts[0].w;
    const size_t pixels = resnet_pixels(1, u->from);
    TRY(create_work(
        model, "stem", "image_mean", pixels, u->in, &work->image_mean, &work->mean_view));
    TRY(create_work(model, "stem", "ones", resnet_pixels(1, u->to), u->out, &work->ones, NULL));
    TRY(create_work(model, "stem", "conv_product", w.rows, w.cols, &work->conv_product, NULL));
    return create_work(model, "stem", "patch_sums", w.rows, w.cols, &work->patch_sums, NULL);
}

static clprune_status create_workspace(resnet *model)
{
    resnet_workspace *work = &model->work;
    const resnet_unit *stem = &model->parts[0].unit;
    const resnet_unit *last = &model->blocks[model->blocks_count - 1].conv2->unit;
    const size_t batch = model->batch;
    const struct {
        resnet_keep entry;
        const char *name;
        size_t side, channels;
        clprune_saved **view;
    } made[] = {{KEEP_IMAGE, "image_made", stem->from, stem->in, &work->image_view},
        {KEEP_STEM, "conv_made", stem->to, stem->out, NULL},
        {KEEP_STEM_RELU, "relu_made", stem->to, stem->out, &work->first_view},
        {KEEP_POOL, "pool_made", model->arch.pools ? resnet_arch_first_side(&model->arch) : 0,
            stem->out, NULL}};
    for (size_t i = 0; i < model->blocks_count; ++i)
        TRY(create_block_work(model, i));
    for (size_t i = 0; i < sizeof made / sizeof *made; ++i)
        if (made[i].side > 0 &&
            !(made[i].entry == KEEP_STEM_RELU &&
                (resnet_relu_in_place(model) || resnet_stem_fused(model))) &&
            !keep_has_form(&model->rule[made[i].entry], CLPRUNE_FORM_DENSE))
            TRY(create_work(model, "stem", made[i].name, resnet_pixels(batch, made[i].side),
                made[i].channels, &work->made[made[i].entry], made[i].view));
    model->stem_step = stem_step(model);
    if (resnet_stem_by_product(model))
        TRY(create_stem_products(model));
    else if (!keep_has_form(&model->rule[KEEP_STEM], CLPRUNE_FORM_DENSE))
        TRY(create_work(model, "stem", "conv_again", resnet_pixels(model->stem_step, stem->to),
            stem->out, &work->conv_again, NULL));
    if (!keep_has_form(&model->rule[KEEP_IMAGE], CLPRUNE_FORM_DENSE))
        TRY(create_work(model, "stem", "image_again", resnet_pixels(model->stem_step, stem->from),
            stem->in, &work->image_again, &work->again_view));
    if (model->arch.pools)
        TRY(create_work(model, "stem", "dstem", resnet_pixels(model->stem_step, stem->to),
            stem->out, &work->dstem, NULL));
    TRY(create_work(model, "work", "sums", 2, last->out, &work->sums, NULL));
    TRY(create_work(
        model, "head", "dlast", resnet_pixels(batch, last->to), last->out, &work->dlast, NULL));
    return create_work(model, "head", "dfeatures", batch, last->out, &work->dfeatures, NULL);
}

static clprune_status create_tail(resnet *model)
{
    clprune_context *context = model->context;
    const size_t features = model->parts[model->parts_count - 1].unit.out;
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const clprune_linear_desc head = {.in = features, .out = model->arch.classes};
    TRY(clprune_linear_create(context, &head, &model->head));
    TRY(clprune_saved_create(
        context, "features", &dense, model->batch, 1, features, &model->features));
    TRY(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "log_softmax", model->batch,
        model->arch.classes, &model->log_p));
    TRY(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "logits", model->batch,
        model->arch.classes, &model->logits));
    if (model->arch.pools) {
        const size_t rows = resnet_pixels(model->batch, resnet_arch_first_side(&model->arch));
        clprune_max_pool_sizes sizes;
        TRY(clprune_max_pool_size_query(rows, model->parts[0].unit.out, &sizes));
        TRY(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "stem.positions", sizes.rows,
            sizes.cols, &model->positions));
    }
    return CLPRUNE_SUCCESS;
}

/* Fills in a model that is zero but for its sizes and arrays. */
static clprune_status create_all(
    resnet *model, const resnet_unit units[RESNET_UNITS], const keep_rule *rules)
{
    const model_tensors all = resnet_arch_all(&model->arch);
    model->tensors = all.count;
    TRY(model_params_create(model->context, &all, &model->params, &model->names));
    for (size_t i = 0; i < model->parts_count; ++i) {
        resnet_part *part = &model->parts[i];
        resnet_block *block = &model->blocks[units[i].block];
        part->unit = units[i];
        if (units[i].role == RESNET_CONV1)
            block->conv1 = part;
        else if (units[i].role == RESNET_CONV2)
            block->conv2 = part;
        else if (units[i].role == RESNET_DOWN)
            block->down = part;
        TRY(create_part(model, i));
    }
    const clprune_param *tail = &model->params[model->tensors - 2];
    model->head_w = tail[0].value, model->head_dw = tail[0].grad;
    model->head_b = tail[1].value, model->head_db = tail[1].grad;
    TRY(create_stores(model, rules));
    TRY(create_tail(model));
    return create_workspace(model);
}

clprune_status resnet_create(clprune_context *context, const resnet_arch *arch,
    const keep_rule *rules, size_t batch, resnet *model)
{
    resnet_unit units[RESNET_UNITS];
    *model = (resnet){0};
    if (resnet_arch_check(arch) != NULL || batch == 0)
        return CLPRUNE_INVALID_ARGUMENT;
    for (size_t i = 0, other; i <= resnet_arch_blocks(arch); ++i)
        if (!resnet_keep_check(arch, i, rules, &other, NULL, 0))
            return CLPRUNE_INVALID_ARGUMENT;
    model->context = context;
    model->arch = *arch;
    model->batch = batch;
    model->parts_count = resnet_arch_units(arch, units);
    model->blocks_count = resnet_arch_blocks(arch);
    model->blocks = calloc(model->blocks_count, sizeof *model->blocks);
    model->parts = calloc(model->parts_count, sizeof *model->parts);
    model->states = calloc(2 * model->parts_count, sizeof *model->states);
    model->state_names = calloc(2 * model->parts_count, sizeof *model->state_names);
    model->counts = calloc(model->parts_count, sizeof *model->counts);
    const bool room = model->blocks != NULL && model->parts != NULL && model->states != NULL &&
                      model->state_names != NULL && model->counts != NULL;
    const clprune_status status =
        room ? create_all(model, units, rules) : CLPRUNE_OUT_OF_HOST_MEMORY;
    if (status != CLPRUNE_SUCCESS)
        resnet_destroy(model);
    return status;
}

static void destroy_block(clprune_context *context, const resnet_block *block)
{
    const clprune_mat mats[] = {block->shortcut, block->dx, block->dconv2, block->drelu1};
    for (size_t k = 0; k < KEEP_IN_BLOCK; ++k) {
        clprune_saved_destroy(block->kept[k]);
        clprune_buffer_release(context, block->made[k].buffer);
    }
    for (size_t k = 0; k < sizeof mats / sizeof *mats; ++k)
        clprune_buffer_release(context, mats[k].buffer);
    clprune_saved_destroy(block->out_view);
    clprune_saved_destroy(block->relu1_view);
}

static void destroy_part(clprune_context *context, const resnet_part *part)
{
    const clprune_mat mats[] = {part->running_mean, part->running_var, part->mean, part->inv};
    for (size_t k = 0; k < sizeof mats / sizeof *mats; ++k)
        clprune_buffer_release(context, mats[k].buffer);
    clprune_conv2d_destroy(part->conv);
}

void resnet_destroy(resnet *model)
{
    clprune_context *context = model->context;
    const resnet_workspace *work = &model->work;
    if (context == NULL)
        return;
    const clprune_mat mats[] = {work->image_again, work->conv_again, work->dstem, work->image_mean,
        work->ones, work->conv_product, work->patch_sums, work->sums, work->dlast, work->dfeatures,
        model->positions, model->log_p, model->logits};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; ++i)
        clprune_buffer_release(context, mats[i].buffer);
    for (size_t k = 0; k < KEEP_ALL; ++k) {
        clprune_buffer_release(context, work->made[k].buffer);
        clprune_saved_destroy(model->kept[k]);
    }
    clprune_saved_destroy(work->first_view);
    clprune_saved_destroy(work->image_view);
    clprune_saved_destroy(work->again_view);
    clprune_saved_destroy(work->mean_view);
    for (size_t i = 0; model->blocks != NULL && i < model->blocks_count; ++i)
        destroy_block(context, &model->blocks[i]);
    for (size_t i = 0; model->parts != NULL && i < model->parts_count; ++i)
        destroy_part(context, &model->parts[i]);
    clprune_saved_destroy(model->features);
    clprune_linear_destroy(model->head);
    model_params_release(context, model->params, model->names);
    free(model->blocks);
    free(model->parts);
    free(model->states);
    free(model->state_names);
    free(model->counts);
    *model = (resnet){0};
}
