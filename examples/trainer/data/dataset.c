#include "trainer/data/dataset.h"

#include "clprune/cross_entropy.h"
#include "trainer/data/augment/rand_augment.h"
#include "trainer/data/dataset_source.h"
#include "trainer/data/fnv.h"
#include "trainer/data/rng.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>  /* snprintf */
#include <stdlib.h> /* malloc, free */
#include <string.h> /* strcmp */
#include <unistd.h> /* sysconf */

/* What skip_broken replaced. */
typedef struct broken_images {
    pthread_mutex_t lock;
    uint64_t count;
    bool told[]; /* (images of both splits) whether it was named */
} broken_images;

struct dataset {
    dataset_source source;
    float levels[DATASET_CHANNELS * DATASET_LEVELS]; /* (3, 256) */
    uint8_t mean[DATASET_CHANNELS];                  /* the byte whose level is nearest to 0 */
    dataset_hear_fn *hear;
    void *hear_user;
    broken_images *broken; /* NULL: the first one is a failure */
    int processes;
};

/* What a batch is made of; threads take its samples in turn. */
typedef struct batch_job {
    const dataset *data;
    dataset_split split;
    const uint32_t *indices;
    size_t count;
    const augment_options *augment;
    dataset_shape sample;
    uint8_t *inputs;
    int32_t *labels;
    int32_t *others; /* NULL: images are not mixed */
    float *shares;
    atomic_size_t next;

    pthread_mutex_t lock; /* of *f: the first failure */
    fault *f;
} batch_job;

static broken_images *open_broken(const dataset_source *source)
{
    const size_t images = (size_t)source->count[0] + source->count[1];
    broken_images *broken = calloc(1, sizeof *broken + images * sizeof broken->told[0]);
    if (broken != NULL)
        (void)pthread_mutex_init(&broken->lock, NULL);
    return broken;
}

/* The sources in folders. */
static const struct {
    bool (*found)(dataset_search *search);
    bool (*open)(const char *dir, const dataset_options *options, dataset_source *source, fault *f);
} kinds[] = {
    {dataset_idx_found, dataset_idx}, {dataset_folder_found, dataset_folder},
    {dataset_cifar_found, dataset_cifar}, /* the last: it says what is missing if none is found */
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool open_source(
    const char *name, const dataset_options *options, dataset_source *source, fault *f)
{
    dataset_search search = {name, 0};
    size_t found = 0, kind = KINDS - 1;
    if (options->context > 0)
        return options->labels > 0 ? dataset_sentences(name, options, source, f)
                                   : dataset_tokens(name, options, source, f);
    if (strcmp(name, "generated") == 0)
        return dataset_generated(options, source, f);
    if (options->pixels)
        return dataset_folder(name, options, source, f);
    for (size_t i = 0; i < KINDS; ++i)
        if (kinds[i].found(&search)) {
            kind = i;
            ++found;
        }
    if (!dataset_search_check(&search, f))
        return false;
    if (found > 1)
        return fault_set(f, CODE_USAGE,
            "%s: holds more than one kind of set; name the folder of the one you want", name);
    return kinds[kind].open(name, options, source, f);
}

static uint8_t nearest_to_mean(double mean)
{
    return (uint8_t)(mean * 255 + 0.5);
}

bool dataset_open(const char *source, const dataset_options *options, dataset **out, fault *f)
{
    static const dataset_options defaults = {0};
    *out = NULL;
    if (options == NULL)
        options = &defaults;
    if (options->train_limit > INT32_MAX || options->test_limit > INT32_MAX)
        return fault_set(f, CODE_USAGE, "%s: limits end at 2147483647", source);

    dataset *data = calloc(1, sizeof *data);
    if (data == NULL)
        return dataset_no_memory(f, source);
    if (!open_source(source, options, &data->source, f)) {
        free(data);
        return false;
    }
    if (options->normalise == DATASET_BY_IMAGENET)
        dataset_by_imagenet(&data->source);
    for (int c = 0; options->normalise == DATASET_BY_HALF && c < DATASET_CHANNELS; ++c)
        data->source.mean[c] = data->source.std[c] = 0.5;
    for (int c = 0; options->context == 0 && c < DATASET_CHANNELS; ++c)
        for (int v = 0; v < DATASET_LEVELS; ++v)
            data->levels[c * DATASET_LEVELS + v] =
                (float)((v / 255.0 - data->source.mean[c]) / data->source.std[c]);
    for (int c = 0; c < DATASET_CHANNELS; ++c)
        data->mean[c] = nearest_to_mean(data->source.mean[c]);
    data->hear = options->hear;
    data->hear_user = options->hear_user;
    data->processes = options->processes;
    if (options->skip_broken && options->context == 0 &&
        (data->broken = open_broken(&data->source)) == NULL) {
        dataset_close(data);
        return dataset_no_memory(f, source);
    }
    *out = data;
    return true;
}

void dataset_close(dataset *data)
{
    if (data == NULL)
        return;
    data->source.destroy(data->source.state);
    if (data->broken != NULL)
        (void)pthread_mutex_destroy(&data->broken->lock);
    free(data->broken);
    free(data);
}

const char *dataset_name(const dataset *data)
{
    return data->source.name;
}

const char *dataset_tests(const dataset *data)
{
    return data->source.tests;
}

uint64_t dataset_checksum(const dataset *data)
{
    return data->source.checksum;
}

uint64_t dataset_sizes(const dataset *data)
{
    return data->source.sizes;
}

uint64_t dataset_tests_checksum(const dataset *data)
{
    const dataset_source *source = &data->source;
    const uint32_t count = source->count[DATASET_TEST], most = source->fetch != NULL ? 64 : count;
    const uint32_t some = count < most ? count : most;
    const dataset_shape sample = dataset_sample(data);
    const size_t bytes = sample.bytes, label_bytes = sample.labels * sizeof(int32_t);
    uint64_t hash = FNV_START;
    uint8_t *image = malloc(bytes);
    int32_t *labels = malloc(label_bytes);
    for (uint32_t i = 0; image != NULL && labels != NULL && source->checksum != 0 &&
                         source->context == 0 && i < some;
         ++i) {
        const uint32_t index = (uint32_t)((uint64_t)count * i / some);
        fault unread = {0};
        memset(image, 0, bytes);
        memset(labels, 0xff, label_bytes); /* of a file that cannot be read: -1 */
        if (source->fetch != NULL)
            (void)source->fetch(source->state, DATASET_TEST, index, NULL, image, labels, &unread);
        else
            *labels = source->read(source->state, DATASET_TEST, index, image);
        hash = fnv1a(fnv1a(hash, labels, label_bytes), image, unread.code == CODE_OK ? bytes : 0);
    }
    free(image);
    free(labels);
    return hash == FNV_START ? 0 : hash;
}

uint64_t dataset_skipped(const dataset *data)
{
    uint64_t count = 0;
    if (data->broken != NULL) {
        (void)pthread_mutex_lock(&data->broken->lock);
        count = data->broken->count;
        (void)pthread_mutex_unlock(&data->broken->lock);
    }
    return count;
}

uint32_t dataset_classes(const dataset *data)
{
    return data->source.classes;
}

uint32_t dataset_image_size(const dataset *data)
{
    return data->source.image_size;
}

uint32_t dataset_count(const dataset *data, dataset_split split)
{
    return data->source.count[split == DATASET_TEST];
}

dataset_shape dataset_sample(const dataset *data)
{
    const size_t side = data->source.image_size, context = data->source.context;
    if (context > 0)
        return data->source.sentences
                   ? (dataset_shape){(context + 1) * sizeof(int32_t), 1, true, .lengths = true}
                   : (dataset_shape){(data->source.apart ? 2 : 1) * context * sizeof(int32_t),
                         context, true, .starts = data->source.apart};
    return (dataset_shape){
        .bytes = DATASET_CHANNELS * side * side, .labels = data->source.pixels ? side * side : 1};
}

bool dataset_moves(const dataset *data)
{
    return data->source.fetch == NULL;
}

bool dataset_is_text(const dataset *data)
{
    return strcmp(data->source.name, "text") == 0;
}

const float *dataset_levels(const dataset *data)
{
    return data->levels;
}

/* Counts a broken image, and names it at the first time. */
static void count_broken(const batch_job *job, uint32_t index, const char *why)
{
    const dataset *data = job->data;
    broken_images *broken = data->broken;
    bool *told = &broken->told[index + (job->split == DATASET_TEST ? data->source.count[0] : 0)];
    char note[MESSAGE_SIZE + 40];
    (void)snprintf(note, sizeof note, "%s; the next image takes its place", why);
    (void)pthread_mutex_lock(&broken->lock);
    ++broken->count;
    if (!*told && data->hear != NULL)
        data->hear(data->hear_user, note);
    *told = true;
    (void)pthread_mutex_unlock(&broken->lock);
}

/* Reads one sample. With skip_broken, a broken image is replaced by the next good one. */
static bool fetch_sample(
    const batch_job *job, uint32_t index, uint8_t *inputs, int32_t *labels, fault *f)
{
    const dataset_source *source = &job->data->source;
    const uint32_t count = source->count[job->split];
    for (uint32_t tries = 0; tries < count; ++tries) {
        *f = (fault){0};
        if (source->fetch(source->state, job->split, index, job->augment, inputs, labels, f))
            return true;
        if (f->code != CODE_DATA || job->data->broken == NULL)
            break;
        count_broken(job, index, f->text);
        index = index + 1 < count ? index + 1 : 0;
    }
    const size_t used = strlen(f->text);
    if (f->code == CODE_DATA && job->data->broken == NULL && !job->sample.tokens)
        (void)snprintf(
            f->text + used, sizeof f->text - used, "; --skip-broken replaces such files");
    return false;
}

/* What an image gets after it was moved. room: for an image. */
static void alter(const batch_job *job, uint32_t index, uint8_t *image, uint8_t *room)
{
    const uint32_t size = job->data->source.image_size;
    if (job->augment == NULL || job->sample.tokens)
        return;
    rand_augment(job->augment, index, size, image, room);
    augment_erase(augment_draw_box(job->augment, index, size), size, job->data->mean, image);
}

/* pixels: room for an image. */
static bool make_input(const batch_job *job, uint32_t index, uint8_t *pixels, uint8_t *input,
    int32_t *labels, fault *f)
{
    const dataset_source *source = &job->data->source;
    const uint32_t size = source->image_size;
    const bool moves = job->augment != NULL;
    if (source->fetch != NULL) {
        if (!fetch_sample(job, index, input, labels, f))
            return false;
        alter(job, index, input, pixels);
        return true;
    }
    *labels = source->read(source->state, job->split, index, moves ? pixels : input);
    if (moves) {
        augment_move move = augment_draw(job->augment, index, size);
        move.mirror = move.mirror && !source->keeps_sides;
        augment_apply(move, job->augment->reflects, size, pixels, input);
        alter(job, index, input, pixels);
    }
    return true;
}

/* room: for two images. */
static bool make_sample(const batch_job *job, size_t i, uint8_t *room, fault *f)
{
    const dataset_source *source = &job->data->source;
    const uint32_t index = job->indices[i];
    uint8_t *input = job->inputs + i * job->sample.bytes, *other = room + job->sample.bytes;
    int32_t *labels = &job->labels[i * job->sample.labels];
    if (!make_input(job, index, room, input, labels, f))
        return false;
    if (job->others == NULL)
        return true;
    job->others[i] = labels[0];
    job->shares[i] = 1;
    if (job->augment == NULL)
        return true;
    const augment_mix mix =
        augment_draw_mix(job->augment, index, source->count[job->split], source->image_size);
    if (mix.share == AUGMENT_WHOLE)
        return true;
    if (!make_input(job, mix.other, room, other, &job->others[i], f))
        return false;
    augment_mix_images(&mix, source->image_size, other, input);
    job->shares[i] = (float)mix.share / AUGMENT_WHOLE;
    return true;
}

static void *work(void *what)
{
    batch_job *job = what;
    fault f = {0};
    uint8_t *room = malloc((job->others != NULL ? 2 : 1) * job->sample.bytes);
    for (size_t i; (i = atomic_fetch_add(&job->next, 1)) < job->count;) {
        if (room != NULL ? make_sample(job, i, room, &f)
                         : fault_set(&f, CODE_MEMORY, "out of memory"))
            continue;
        (void)pthread_mutex_lock(&job->lock);
        (void)fault_set(job->f, f.code, "%s", f.text);
        (void)pthread_mutex_unlock(&job->lock);
        break;
    }
    free(room);
    return NULL;
}

/* Threads; bytes that are worth one where images lie in memory or are generated: CIFAR's take one.
 */
enum { MOST_THREADS = 64, WORTH_A_THREAD = 1 << 20 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t threads_for(const dataset *data, const dataset_shape *sample, size_t count)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN) / (data->processes > 1 ? data->processes : 1);
    const size_t most = smaller(online < 1 ? 1 : (size_t)online, smaller(MOST_THREADS, count));
    if (sample->tokens)
        return 1;
    return data->source.fetch != NULL ? most
                                      : smaller(most, 1 + count * sample->bytes / WORTH_A_THREAD);
}

/* Runs the job on `threads` threads, the caller's included, or on as many as can be started. */
static void run(batch_job *job, size_t threads)
{
    pthread_t others[MOST_THREADS];
    size_t started = 0;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, job) == 0)
        ++started;
    (void)work(job);
    while (started > 0)
        (void)pthread_join(others[--started], NULL);
}

bool dataset_batch(const dataset *data, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f)
{
    return dataset_batch_mixed(data, split, indices, count, augment, inputs, labels, NULL, NULL, f);
}

uint64_t dataset_labels_counted(const int32_t *labels, size_t count)
{
    uint64_t counted = 0;
    for (size_t i = 0; i < count; ++i)
        counted += labels[i] != CLPRUNE_IGNORED;
    return counted;
}

bool dataset_count_labels(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint64_t *labels, fault *f)
{
    const dataset_shape sample = dataset_sample(data);
    *labels = 0;
    if (!data->source.masks)
        return true;
    uint8_t *input = malloc(sample.bytes);
    int32_t *own = malloc(sample.labels * sizeof *own);
    bool good = (input != NULL && own != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; good && i < count; ++i) {
        good = dataset_batch(data, split, &indices[i], 1, augment, input, own, f);
        *labels += good ? dataset_labels_counted(own, sample.labels) : 0;
    }
    free(input);
    free(own);
    return good;
}

bool dataset_batch_mixed(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint8_t *inputs, int32_t *labels, int32_t *others,
    float *shares, fault *f)
{
    const dataset_shape sample = dataset_sample(data);
    for (size_t i = 0; i < count; ++i)
        if (indices[i] >= data->source.count[split])
            return fault_set(f, CODE_USAGE, "%s: index %lu, but the %s split has %lu %s",
                data->source.name, (unsigned long)indices[i],
                split == DATASET_TRAIN ? "train" : "test", (unsigned long)data->source.count[split],
                sample.tokens ? "sequences" : "images");

    batch_job job = {.data = data,
        .split = split,
        .indices = indices,
        .count = count,
        .augment = augment,
        .sample = sample,
        .inputs = inputs,
        .labels = labels,
        .others = others,
        .shares = shares,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .f = f};
    run(&job, threads_for(data, &sample, count));
    return f->code == CODE_OK;
}

/* Fisher and Yates, in the form of Durstenfeld. */
void dataset_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *indices)
{
    rng r = rng_open(seed, RNG_SHUFFLE, epoch, 0);
    for (uint32_t i = 0; i < n; ++i)
        indices[i] = i;
    for (uint32_t left = n; left > 1; --left) {
        const uint32_t pick = rng_below(&r, left);
        const uint32_t last = indices[left - 1];
        indices[left - 1] = indices[pick];
        indices[pick] = last;
    }
}
