#include "trainer/run/summary.h"

#include <CL/cl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/atomic_file.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/model/keep_presets.h"
#include "trainer/report/json.h"

void summary_device(const training_run *r, char *name, size_t size)
{
    if (clGetDeviceInfo(clprune_context_device(r->s.context), CL_DEVICE_NAME, size, name, NULL) !=
        CL_SUCCESS)
        (void)snprintf(name, size, "unknown");
}

static void write_settings(json *j, const training_run *r)
{
    const session *s = &r->s;
    const options *o = s->options;
    const bool tokens = s->type->tokens;
    char block[64], device[256];
    options_block_text(o->block, block, sizeof block);
    summary_device(r, device, sizeof device);
    json_text(j, "version", CLPRUNE_VERSION);
    json_text(j, "arch", session_arch_name(s));
    json_count(j, "parameters", s->sizes.parameters);
    if (!tokens)
        json_count(j, "image_size", s->sizes.image);
    for (size_t i = 0; i < s->type->extras_count; ++i)
        json_count(j, s->type->extras[i].key, s->sizes.extra[i]);
    json_count(j, tokens ? "vocabulary" : "classes", s->sizes.classes);
    json_text(j, "dataset", dataset_name(s->data));
    json_count(
        j, tokens ? "train_sequences" : "train_images", dataset_count(s->data, DATASET_TRAIN));
    json_count(j, tokens ? "test_sequences" : "test_images", dataset_count(s->data, DATASET_TEST));
    if (dataset_tests(s->data)[0] != '\0')
        json_text(j, "tests", dataset_tests(s->data));
    json_count(j, "epochs", o->epochs);
    json_count(j, "batch_size", o->batch_size);
    json_count(j, "micro_batches", o->micro_batches);
    json_text(j, "activations", options_preset(o));
    json_real(j, "sparsity", o->sparsity);
    json_text(j, "block", block);
    json_text(j, "norm", options_norms[o->norm]);
    json_text(j, "criterion", options_criteria[o->criterion]);
    json_text(j, "values", options_values[o->values]);
    json_text(j, "indices", options_indices[o->indices]);
    json_text(j, "precision", clprune_precision_name(clprune_context_precision(s->context)));
    if (keep_preset_has(o->activations, KEEP_CODED))
        json_count(j, "gelu_code", options_gelu_code_bits(o));
    if (keep_preset_has(o->activations, KEEP_QUANTISED)) {
        json_count(j, "code_bits", options_quantised_bits(o));
        json_count(j, "group", options_quantised_group(o));
        json_text(j, "rounding", options_roundings[o->rounding]);
        json_text(j, "rotate", options_rotate[o->rotate]);
    }
    json_text(j, "store", options_stores[o->store]);
    json_text(j, "base_bits", options_base_bits[o->base_bits]);
    if (keep_preset_has(o->activations, KEEP_POOLED) || o->centre == CLPRUNE_CENTRE_CELLS)
        json_count(j, "pool", o->pool);
    if (o->keep_text != NULL)
        json_text(j, "keep_file", o->keep_text);
    json_text(j, "optimizer", options_optimizers()[o->optimizer]);
    json_real(j, "lr", o->lr);
    json_text(j, "schedule", options_schedules[o->schedule]);
    if (o->schedule == OPTIONS_STEP)
        json_text(j, "milestones", o->milestones);
    json_real(j, "weight_decay", o->weight_decay);
    json_count(j, "seed", o->seed);
    json_text(j, "device", device);
    if (o->import_file != NULL && o->resume == NULL)
        json_text(j, "imported_head", r->imported.head_left ? "no" : "yes");
    if (r->folder.path != NULL)
        json_text(j, "output_dir", r->folder.path);
}

/* Every option that decides on the results, as the command line takes it; "" if it is not set. */
static bool write_options(json *j, const training_run *r, fault *f)
{
    char *text;
    size_t size;
    if (!options_save(r->s.options, true, &text, &size, f))
        return false;
    json_open(j, "options");
    for (char *at = text; at < text + size;) {
        char *next = at + strlen(at) + 1, *sign = strchr(at, '=');
        *sign = '\0'; /* each is "name=value" */
        json_text(j, at, sign + 1);
        at = next;
    }
    json_close(j);
    free(text);
    return true;
}

static void write_memory(json *j, const clprune_context *context)
{
    json_open(j, "memory");
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; ++i) {
        const clprune_memory_category category = (clprune_memory_category)i;
        const clprune_memory_usage usage = clprune_memory_query(context, category);
        json_open(j, clprune_memory_category_name(category));
        json_count(j, "live", usage.live);
        json_count(j, "peak", usage.peak);
        json_close(j);
    }
    json_close(j);
}

/* null where no test was made */
static void write_best(json *j, const training_run *r)
{
    const csv_row none = {.step = (double)NAN, .top1 = (double)NAN, .test_loss = (double)NAN};
    const csv_row *row = run_best(r).row;
    row = row != NULL ? row : &none;
    json_real(j, "best_step", row->step);
    json_real(j, "best_top1", row->top1);
    json_real(j, "best_test_loss", row->test_loss);
}

bool summary_write(const training_run *r, const gradient_check *check, fault *f)
{
    const session *s = &r->s;
    atomic_file file;
    if (s->options->summary_json == NULL)
        return true;
    if (!atomic_file_open(s->options->summary_json, &file, f))
        return false;
    const meter *m = &r->all;
    json j = {.stream = file.stream};
    json_open(&j, NULL);
    write_settings(&j, r);
    const bool good = write_options(&j, r, f);
    json_count(&j, "epochs_done", r->at.epoch);
    json_count(&j, "steps", s->step);
    json_count(&j, "skipped", r->at.skipped);
    json_real(&j, "top1", r->top1);
    json_real(&j, "test_loss", r->test_loss);
    if (s->type->pixels)
        json_real(&j, "mean_iou", r->mean_iou);
    if (trainer_predicts_tokens(s->type))
        json_real(&j, "perplexity", run_perplexity(r));
    if (dataset_is_text(s->data))
        json_real(&j, "bits_per_byte", run_bits_per_byte(r));
    write_best(&j, r);
    json_real(&j, "train_loss", r->train_loss);
    json_real(&j, trainer_words_of(s->type->tokens).column, session_speed(s, m));
    json_real(&j, "step_ms", meter_step_ms(m));
    json_real(&j, "seconds", r->at.seconds + clock_seconds() - r->began);
    json_real(&j, "cpu_seconds", r->at.cpu_seconds + cpu_seconds());
    json_count(&j, "saved_activation_bytes", s->saved_activation_bytes);
    json_count(&j, "peak_bytes", session_peak_bytes(s));
    write_memory(&j, s->context);
    gradient_check_json(check, s, &j);
    auto_keep_json(s, &j);
    json_close(&j);
    if (good)
        return atomic_file_commit(&file, f);
    atomic_file_abandon(&file);
    return false;
}
