/* What a session has before it opens a device: options, data, sizes. */
#include "trainer/session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* access */

#include "trainer/files/output_files.h"
#include "trainer/model/net_model.h"
#include "trainer/options/keep_file.h"

bool session_check_limit(const session *s, fault *f)
{
    const options *o = s->options;
    return s->other_data || o->run_images == 0 || o->run_images == o->train_limit ||
           fault_set(f, CODE_USAGE,
               "--train-limit %" PRIu64 ": the run in %s has %" PRIu64
               "; leave it out, or train anew",
               o->given_limits[0] != 0 ? o->given_limits[0] : o->train_limit, o->resume,
               o->run_images);
}

static void hear_data(void *user, const char *note)
{
    session *s = user;
    char line[MESSAGE_SIZE];
    (void)snprintf(line, sizeof line, "%s", note);
    for (char *p = line; *p != '\0'; ++p)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    if (s->shown->dirty) {
        progress_end(s->shown);
        (void)fflush(stdout);
    }
    (void)fprintf(stderr, "%s: note: --data: %s\n", s->type->program, line);
}

/* Of images: files know their sizes; generated images can have those of the architecture. c: of the
 * run that goes on, or {0}. */
static dataset_options data_wanted(session *s, const checkpoint *c)
{
    fault unread = {0}; /* run_restore reads it again */
    const uint64_t *resumed = s->options->resume != NULL
                                  ? checkpoint_get(c, "checksum", CHECKPOINT_U64, 1, 1, &unread)
                                  : NULL;
    const options *o = s->options;
    dataset_options wanted = {
        .train_limit = (uint32_t)o->train_limit,
        .test_limit = (uint32_t)o->test_limit,
        .resumed = resumed != NULL && !s->other_data ? *resumed : 0,
        .seed = 1, /* runs of different --seed see the same samples */
        .skip_broken = o->skip_broken,
        .normalise = (dataset_normalise)o->normalise,
        .processes = o->ranks.at.local_ranks,
        .hear = hear_data,
        .hear_user = s,
    };
    if (s->type->tokens) {
        wanted.context = s->sizes.context;
        wanted.classes = (uint32_t)s->sizes.classes;
        wanted.labels = (uint32_t)s->sizes.labels;
        s->text.path = o->model_folder;
        s->text.chat = o->chat != 0;
        wanted.apart = o->packing != 0;
        wanted.model = o->model_folder != NULL ? &s->text : NULL;
        return wanted;
    }
    const bool generated = strcmp(o->data, "generated") == 0;
    trainer_sizes usual = {.arch = o->arch};
    (void)net_model_settle(s->type, &usual);
    wanted.usual_image_size = (uint32_t)usual.image;
    wanted.image_size = (uint32_t)(o->image_size == 0 && generated ? usual.image : o->image_size);
    wanted.pixels = s->type->pixels;
    wanted.classes =
        (uint32_t)(o->classes == 0 && (generated || s->type->pixels) ? usual.classes : o->classes);
    return wanted;
}

bool session_has_data(const dataset *data, const checkpoint *c)
{
    fault unread = {0};
    const char *now = dataset_name(data);
    const checkpoint_record *name = checkpoint_find(c, "dataset");
    const uint64_t *checksum = checkpoint_get(c, "checksum", CHECKPOINT_U64, 1, 1, &unread);
    return name != NULL && name->type == CHECKPOINT_BYTES &&
           name->rows * name->cols == strlen(now) + 1 &&
           memcmp(name->data, now, strlen(now) + 1) == 0 &&
           (checksum == NULL || *checksum == dataset_checksum(data));
}

/* Whether --data names other samples than those of the run that goes on, which are looked at with
 * its limit. */
static bool names_other_data(session *s, const checkpoint *c)
{
    const options *o = s->options;
    dataset_options wanted = data_wanted(s, c);
    dataset *data;
    fault unopened = {0}; /* open_data says why */
    wanted.train_limit = (uint32_t)o->run_images;
    wanted.hear = NULL;
    if (o->resume == NULL || !options_given(o, "data") ||
        !dataset_open(o->data, &wanted, &data, &unopened))
        return false;
    const bool other = !session_has_data(data, c);
    dataset_close(data);
    return other;
}

/* Whether images of the data can be moved as the options say. */
static bool check_moves(const session *s, fault *f)
{
    static const char *const names[] = {
        "shift", "border", "mirror", "views", "rand-augment", "erase", "mixup", "cutmix"};
    enum { MOVES = 4 };
    const options *o = s->options;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (options_given(o, names[i]) &&
            (s->type->pixels || (i < MOVES && !dataset_moves(s->data))))
            return fault_set(f, CODE_USAGE, "--%s does not go with %s", names[i],
                s->type->pixels ? "a label for each pixel" : "folders of images");
    return o->shift < o->image_size || s->type->tokens ||
           fault_set(f, CODE_USAGE, "--shift %" PRIu64 ": images have %" PRIu64 " pixels per side",
               o->shift, o->image_size);
}

static bool open_data(session *s, const checkpoint *c, fault *f)
{
    options *o = s->options;
    s->other_data = names_other_data(s, c);
    if (s->other_data) {
        o->train_limit = o->given_limits[0];
        o->test_limit = o->given_limits[1];
    }
    const dataset_options wanted = data_wanted(s, c);
    fault wrong = {0};
    (void)dataset_open(o->data, &wanted, &s->data, &wrong);
    if (!feed_check(f, &wrong)) {
        if (o->resume != NULL && !options_given(o, "data") && access(o->data, F_OK) != 0)
            options_append(f->text, sizeof f->text,
                "; the run in %s has its data there, --data DIR names another place", o->resume);
        return false;
    }
    o->image_size = dataset_image_size(s->data);
    o->classes = dataset_classes(s->data);
    o->train_limit = dataset_count(s->data, DATASET_TRAIN);
    o->test_limit = dataset_count(s->data, DATASET_TEST);
    if (!check_moves(s, f))
        return false;
    if (o->plan && !session_check_limit(s, f)) /* a run looks at its data first */
        return false;
    const size_t most = (size_t)(o->train_limit > o->test_limit ? o->train_limit : o->test_limit);
    s->order = malloc(most * sizeof *s->order);
    return s->order != NULL || fault_set(f, CODE_MEMORY, "no memory for %zu indices", most);
}

/* Of options_base_bits. */
static const clprune_value_type base_types[] = {CLPRUNE_VALUES_FP32, CLPRUNE_VALUES_BF16,
    CLPRUNE_VALUES_CODES8, CLPRUNE_VALUES_CODES4, CLPRUNE_VALUES_NF4};

void session_set_base(session *s)
{
    s->sizes.base = base_types[s->options->base_bits];
}

static bool choose_sizes(session *s, fault *f)
{
    options *o = s->options;
    char given[288] = "";
    s->sizes = (trainer_sizes){.arch = o->arch,
        .image = (size_t)o->image_size,
        .classes = (size_t)o->classes,
        .folder = o->model_folder,
        .dropout = (float)o->dropout,
        .train = o->train,
        .lora = o->lora,
        .lora_alpha = o->lora_alpha,
        .lora_dropout = o->lora_dropout,
        .rslora = o->rslora,
        .base = base_types[o->base_bits]};
    memcpy(s->sizes.extra, o->extra, sizeof s->sizes.extra);
    const char *wrong = net_model_settle(s->type, &s->sizes);
    memcpy(o->extra, s->sizes.extra, sizeof s->sizes.extra);
    if (wrong == NULL)
        return o->packing == 0 || !s->sizes.learned ||
               fault_set(f, CODE_USAGE,
                   "--packing apart needs a model with rotary positions; this one learns them");
    if (strcmp(wrong, TRAINER_NO_MEMORY) == 0)
        return fault_set(f, CODE_MEMORY, "%s", wrong);
    if (!s->type->tokens)
        options_append(given, sizeof given, "--image-size %zu", s->sizes.image);
    for (size_t i = 0; i < s->type->extras_count; ++i)
        options_append(given, sizeof given, "%s--%s %" PRIu64, given[0] == '\0' ? "" : ", ",
            s->type->extras[i].name, s->sizes.extra[i]);
    if (o->model_folder != NULL)
        return fault_set(f, CODE_DATA, "--model: %s", wrong);
    return fault_set(f, CODE_USAGE, "%s%s%s", strncmp(wrong, "--", 2) == 0 ? "" : given,
        strncmp(wrong, "--", 2) == 0 ? "" : ": ", wrong);
}

const char *session_arch_name(const session *s)
{
    return s->type->archs[s->sizes.arch];
}

/* Comes first: data and model follow from the checkpoint's options. */
static bool take_options(options *o, checkpoint *c, fault *f)
{
    if (o->resume == NULL)
        return true;
    if (!checkpoint_open(o->resume, c, f))
        return false;
    const checkpoint_record *record = checkpoint_find(c, "options");
    if (record == NULL || record->type != CHECKPOINT_BYTES)
        return fault_set(f, CODE_DATA, "%s: a checkpoint without options", o->resume);
    return options_restore(o, record->data, (size_t)(record->rows * record->cols), f);
}

/* A resumed run has the overrides of its checkpoint; a given --keep-file must be the same. */
static bool take_keep_file(options *o, const checkpoint *c, fault *f)
{
    const checkpoint_record *record = o->resume != NULL ? checkpoint_find(c, "keep") : NULL;
    const char *kept = record != NULL ? record->data : "";
    if (o->keep_file != NULL && !keep_file_read(o->keep_file, &o->keep_text, f))
        return false;
    if (o->resume == NULL)
        return true;
    if (record != NULL && (record->type != CHECKPOINT_BYTES || record->rows * record->cols == 0 ||
                              kept[record->rows * record->cols - 1] != '\0'))
        return fault_set(f, CODE_DATA, "%s: its overrides of activations are no text", o->resume);
    if (o->keep_file != NULL && !keep_file_same(o->keep_text, kept))
        return fault_set(f, CODE_USAGE,
            "--keep-file %s: the run in %s has other overrides; leave it out, or train anew",
            o->keep_file, o->resume);
    if (record != NULL) {
        free(o->keep_text);
        o->keep_text = strdup(kept);
        if (o->keep_text == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory");
    }
    return true;
}

/* The sizes of images come from the data, those of sequences from the model. */
bool session_prepare(session *s, checkpoint *c, fault *f)
{
    options *o = s->options;
    s->type = o->model;
    return take_options(o, c, f) && output_files_check_data(o, f) && take_keep_file(o, c, f) &&
           (s->type->tokens ? choose_sizes(s, f) && open_data(s, c, f)
                            : open_data(s, c, f) && choose_sizes(s, f));
}

session session_beside(const session *s)
{
    return (session){.options = s->options,
        .shown = s->shown,
        .folder = s->folder,
        .beside = true,
        .data = s->data,
        .order = s->order,
        .type = s->type,
        .sizes = s->sizes};
}

enum { FIT_IMAGES = 5000 }; /* at most */

bool session_fit(session *s, fault *f)
{
    const size_t count =
        s->options->train_limit < FIT_IMAGES ? s->options->train_limit : FIT_IMAGES;
    const dataset_shape sample = dataset_sample(s->data);
    const float *levels = dataset_levels(s->data);
    if (s->type->fit == NULL)
        return true;
    uint8_t *bytes = malloc(count * sample.bytes);
    float *images = malloc(count * sample.bytes * sizeof *images);
    int32_t *labels = malloc(count * sample.labels * sizeof *labels);
    for (size_t i = 0; i < count; ++i)
        s->order[i] = (uint32_t)i;
    bool good = (bytes != NULL && images != NULL && labels != NULL) ||
                fault_set(f, CODE_MEMORY, "no memory for %zu images", count);
    good = good && dataset_batch(s->data, DATASET_TRAIN, s->order, count, NULL, bytes, labels, f);
    for (size_t i = 0; good && i < count * sample.bytes; ++i) {
        const size_t channel = i / (sample.bytes / DATASET_CHANNELS) % DATASET_CHANNELS;
        images[i] = levels[channel * DATASET_LEVELS + bytes[i]];
    }
    good = good && fault_check(f, s->context, net_model_fit(s->model, count, images),
                       "initialising the model");
    free(bytes);
    free(images);
    free(labels);
    return good;
}
