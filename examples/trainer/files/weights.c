#include "trainer/files/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/files/weight_names.h"

uint64_t weights_elements(const trainer_weight *w)
{
    uint64_t count = 1;
    for (size_t i = 0; i < w->rank; ++i)
        count *= w->shape[i];
    return count;
}

/* The weights of a model, in a copy to be freed; NULL: no memory. */
static trainer_weight *copy_weights(const net_model *model)
{
    trainer_weight *weights = calloc(model->weights_count + 1, sizeof *weights);
    if (weights != NULL && model->weights_count > 0)
        memcpy(weights, model->weights, model->weights_count * sizeof *weights);
    return weights;
}

static uint64_t most_elements(const trainer_weight *weights, size_t count)
{
    uint64_t most = 1;
    for (size_t i = 0; i < count; ++i)
        if (weights_elements(&weights[i]) > most)
            most = weights_elements(&weights[i]);
    return most;
}

/* to is from, rows x cols, transposed. */
static void transpose(size_t rows, size_t cols, const float *from, float *to)
{
    for (size_t i = 0; i < rows; ++i)
        for (size_t k = 0; k < cols; ++k)
            to[k * rows + i] = from[i * cols + k];
}

/* Between the file's order, out x in x height x width or in x out, and the model's, out x height x
 * width x in or out x in. */
static clprune_status reorder(const trainer_weight *w, bool to_model, const float *from, float *to)
{
    const size_t pixels = w->image.height * w->image.width, outputs = w->shape[0];
    if (w->transposed) {
        transpose(w->shape[to_model ? 0 : 1], w->shape[to_model ? 1 : 0], from, to);
        return CLPRUNE_SUCCESS;
    }
    for (size_t i = 0; i < outputs && w->heads > 0; ++i) { /* row i of the model */
        const size_t cols = (size_t)weights_elements(w) / outputs, each = outputs / 3 / w->heads;
        const size_t head = i / each % w->heads, part = i / each / w->heads;
        const size_t there = (head * 3 + part) * each + i % each;
        memcpy(to + (to_model ? i : there) * cols, from + (to_model ? there : i) * cols,
            cols * sizeof *to);
    }
    if (w->heads > 0)
        return CLPRUNE_SUCCESS;
    if (pixels == 0) {
        memcpy(to, from, (size_t)weights_elements(w) * sizeof *to);
        return CLPRUNE_SUCCESS;
    }
    const size_t inputs = (size_t)weights_elements(w) / outputs / pixels;
    return to_model ? clprune_conv2d_weights_from_oihw(outputs, inputs, w->image, from, to)
                    : clprune_conv2d_weights_to_oihw(outputs, inputs, w->image, from, to);
}

static void shape_text(size_t rank, const uint64_t *shape, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < rank; ++i) {
        const size_t used = strlen(text);
        if (i == TENSOR_RANK) {
            (void)snprintf(text + used, size - used, " x ...");
            break;
        }
        (void)snprintf(text + used, size - used, "%s%" PRIu64, i > 0 ? " x " : "", shape[i]);
    }
}

/* Sizes of 1 are ignored: timm has 1 x 1 x 384 for 384. */
static bool same_shape(const trainer_weight *w, const file_tensor *t)
{
    size_t a = 0, b = 0;
    if (t->rank > TENSOR_RANK)
        return false;
    for (;;) {
        while (a < w->rank && w->shape[a] == 1)
            ++a;
        while (b < t->rank && t->shape[b] == 1)
            ++b;
        if (a == w->rank || b == t->rank)
            return a == w->rank && b == t->rank;
        if (w->shape[a++] != t->shape[b++])
            return false;
    }
}

/* Whether a tensor has more rows than a weight that takes the first of them. */
static bool is_longer(const trainer_weight *w, const file_tensor *t)
{
    bool longer = w->longer && t->rank == w->rank && t->shape[0] > w->shape[0];
    for (size_t i = 1; longer && i < w->rank; ++i)
        longer = t->shape[i] == w->shape[i];
    return longer;
}

/* A file, a model whose weights it may have, and room for two tensors of `most` elements. */
typedef struct source {
    net_model *model;
    trainer_weight *weights;
    size_t count;
    bool *given; /* (count) has a tensor */
    weight_names names;
    float *values, *more;
} source;

/* Finds a weight's tensor. True with *taken NULL: a head with another number of classes or without
 * a tensor, to be left as it is. */
static bool match(source *s, const trainer_weight *w, const file_tensor **taken, fault *f)
{
    const char *path = s->names.file.path;
    char here[128], there[128];
    uint64_t shape[4];
    *taken = weight_names_of(&s->names, w);
    if (*taken == NULL)
        return w->head ||
               fault_set(f, CODE_DATA, "%s: no tensor \"%s\"; is it of another architecture?", path,
                   w->name);
    weight_role *role = &s->names.roles[*taken - s->names.file.tensors];
    *role = w->head ? WEIGHT_HEAD : WEIGHT_READ;
    if (same_shape(w, *taken) || is_longer(w, *taken))
        return true;
    for (size_t i = 0; i < w->rank; ++i)
        shape[i] = w->shape[i];
    shape_text(w->rank, shape, here, sizeof here);
    shape_text((*taken)->rank, (*taken)->shape, there, sizeof there);
    if (!w->head || (*taken)->rank != w->rank || (w->rank > 1 && (*taken)->shape[1] != w->shape[1]))
        return fault_set(
            f, CODE_DATA, "%s: tensor \"%s\" is %s, the model's %s", path, w->name, there, here);
    *role = WEIGHT_LEFT;
    *taken = NULL;
    return true;
}

/* Reads a tensor, whose numbers must be finite. */
static bool read_finite(const source *s, const file_tensor *from, float *values, fault *f)
{
    if (!tensor_file_read(&s->names.file, from, values, f))
        return false;
    for (uint64_t i = 0; i < from->count; ++i)
        if (!isfinite(values[i]))
            return fault_set(f, CODE_DATA, "%s: tensor \"%.100s\" has a value that is not finite",
                s->names.file.path, from->name);
    return true;
}

/* Whether the tensor of a weight's twin, if the file has both, is the same. */
static bool check_twin(source *s, const trainer_weight *w, const file_tensor *taken, fault *f)
{
    const file_tensor *twin = weight_names_twin(&s->names, w);
    if (twin == NULL || twin == taken)
        return true;
    s->names.roles[twin - s->names.file.tensors] = WEIGHT_HEAD;
    bool same = same_shape(w, twin);
    if (same && !read_finite(s, twin, s->more, f))
        return false;
    same = same && memcmp(s->values, s->more, (size_t)weights_elements(w) * sizeof *s->values) == 0;
    return same || fault_set(f, CODE_DATA,
                       "%s: tensor \"%.100s\" is not \"%.100s\", to which the model ties it: it "
                       "would compute something else",
                       s->names.file.path, twin->name, taken->name);
}

static void add_to_all(const trainer_weight *w, float less, float *values)
{
    for (size_t i = 0; less != 0 && i < weights_elements(w); ++i)
        values[i] += less;
}

static bool write_weight(const source *s, const trainer_weight *w, fault *f)
{
    add_to_all(w, w->less, s->values);
    return fault_check(f, NULL, reorder(w, true, s->values, s->more), "reordering weights") &&
           fault_check(f, s->model->context, clprune_mat_write(s->model->context, w->mat, s->more),
               "writing weights");
}

/* Reads a count; TRAINER_NO_COUNT where the file has none. */
static bool read_count(const source *s, const char *name, int64_t *value, fault *f)
{
    const tensor_file *file = &s->names.file;
    const file_tensor *t = weight_names_find(&s->names, name);
    char shape[128];
    *value = TRAINER_NO_COUNT;
    if (t == NULL)
        return true;
    s->names.roles[t - file->tensors] = WEIGHT_LEFT;
    if (strcmp(t->type, "I64") != 0 || t->rank != 0) {
        shape_text(t->rank, t->shape, shape, sizeof shape);
        return fault_set(f, CODE_DATA,
            "%s: tensor \"%s\" is %s of shape [%s]; a count is I64 of shape []", file->path, name,
            t->type, shape);
    }
    if (!tensor_file_read_i64(file, t, value, f))
        return false;
    return *value >= 0 ||
           fault_set(f, CODE_DATA, "%s: tensor \"%s\" is %" PRId64 "; a count is 0 or more",
               file->path, name, *value);
}

/* Checks the counts of a file, or also gives them to the model. */
static bool take_counts(const source *s, bool give, fault *f)
{
    for (size_t i = 0; i < s->model->counts_count; ++i) {
        const trainer_count *count = &s->model->counts[i];
        int64_t value;
        if (!read_count(s, count->name, &value, f))
            return false;
        if (give)
            *count->value = value;
    }
    return true;
}

/* Checks the weights of a file, or also gives them to the model. */
static bool take(source *s, bool give, fault *f)
{
    for (size_t i = 0; i < s->count; ++i) {
        const trainer_weight *w = &s->weights[i];
        const file_tensor *from;
        if (!match(s, w, &from, f))
            return false;
        s->given[i] = from != NULL;
        if (from != NULL && (!read_finite(s, from, s->values, f) ||
                                !(give ? write_weight(s, w, f) : check_twin(s, w, from, f))))
            return false;
    }
    return take_counts(s, give, f);
}

/* A GGUF file has all matrices out x in, also those that transformers has in x out, and weights of
 * norms as they are used. */
static void turn_round(source *s)
{
    for (size_t i = 0; s->names.file.is_gguf && i < s->count; ++i) {
        trainer_weight *w = &s->weights[i];
        const size_t outputs = w->shape[1];
        w->less = 0;
        if (!w->transposed)
            continue;
        w->shape[1] = w->shape[0];
        w->shape[0] = outputs;
        w->transposed = false;
    }
}

static bool make_room(source *s, fault *f)
{
    uint64_t most = most_elements(s->weights, s->count);
    for (size_t i = 0; i < s->count; ++i) {
        const trainer_weight *w = &s->weights[i];
        const file_tensor *longer = w->longer ? weight_names_find(&s->names, w->name) : NULL;
        /* the counts of other types are not checked against the data; reading refuses them */
        if (longer != NULL && longer->readable && longer->count > most)
            most = longer->count;
    }
    s->values = malloc(2 * (size_t)most * sizeof *s->values);
    s->more = s->values != NULL ? s->values + most : NULL;
    s->given = calloc(s->count + 1, sizeof *s->given);
    return (s->values != NULL && s->given != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
}

bool weights_probe(const trainer_model *type, const char *path, fault *f)
{
    tensor_file file;
    const bool good = tensor_file_open(path, type->ggufs, &file, f);
    tensor_file_close(&file);
    return good;
}

bool weights_import(
    net_model *model, const char *path, uint64_t seed, weights_imported *imported, fault *f)
{
    source s = {.model = model, .weights = copy_weights(model), .count = model->weights_count};
    *imported = (weights_imported){0};
    bool good = (s.weights != NULL || fault_set(f, CODE_MEMORY, "out of memory")) &&
                weight_names_open(model->type, path, s.weights, s.count, &s.names, f);
    if (good)
        turn_round(&s);
    good = good && make_room(&s, f) && take(&s, false, f) &&
           weight_names_rest(&s.names, imported->unread, sizeof imported->unread, f);
    if (good && s.count > 0) {
        weight_names_before(&s.names, &s.weights[0], imported->prefix, sizeof imported->prefix);
        good = fault_check(
            f, model->context, net_model_init(model, seed, s.given), "initialising the model");
    }
    good = good && take(&s, true, f);
    for (size_t i = 0; good && i < s.count; ++i)
        imported->head_left = imported->head_left || !s.given[i];
    free(s.values);
    free(s.given);
    free(s.weights);
    weight_names_close(&s.names);
    return good;
}

/* Both begin with their name. */
_Static_assert(
    offsetof(trainer_weight, name) == 0 && offsetof(trainer_count, name) == 0, "by_name");

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The model's counts that have a value, sorted by name, to be freed; NULL: no memory. */
static trainer_count *list_counts(const net_model *model, size_t *count)
{
    trainer_count *listed = calloc(model->counts_count + 1, sizeof *listed);
    *count = 0;
    for (size_t i = 0; listed != NULL && i < model->counts_count; ++i)
        if (*model->counts[i].value != TRAINER_NO_COUNT)
            listed[(*count)++] = model->counts[i];
    if (listed != NULL)
        qsort(listed, *count, sizeof *listed, by_name);
    return listed;
}

/* values += factor * B A of the weight's adapter. */
static bool merge_adapter(
    clprune_context *context, const trainer_weight *w, float *values, fault *f)
{
    const size_t rank = w->lora_a.rows, cols = w->lora_a.cols, rows = w->lora_b.rows;
    if (rank == 0)
        return true;
    float *a = malloc((rank * cols + rows * rank) * sizeof *a), *b = a + rank * cols;
    bool good =
        (a != NULL || fault_set(f, CODE_MEMORY, "out of memory")) &&
        fault_check(f, context, clprune_mat_read(context, w->lora_a, a), "reading adapters") &&
        fault_check(f, context, clprune_mat_read(context, w->lora_b, b), "reading adapters");
    for (size_t i = 0; good && i < rows; ++i)
        for (size_t k = 0; k < cols; ++k) {
            double sum = 0;
            for (size_t r = 0; r < rank; ++r)
                sum += (double)b[i * rank + r] * (double)a[r * cols + k];
            values[i * cols + k] += (float)((double)w->lora_factor * sum);
        }
    free(a);
    return good;
}

/* values and ordered have room for the elements; both are overwritten. */
static bool put_values(clprune_context *context, const trainer_weight *w, float *values,
    float *ordered, atomic_file *file, fault *f)
{
    if (!fault_check(f, context, clprune_mat_read(context, w->mat, values), "reading weights") ||
        !merge_adapter(context, w, values, f) ||
        !fault_check(f, NULL, reorder(w, false, values, ordered), "reordering weights"))
        return false;
    add_to_all(w, -w->less, ordered);
    safetensors_put_f32(file, (size_t)weights_elements(w), ordered);
    return true;
}

bool weights_put(clprune_context *context, const trainer_weight *w, atomic_file *file, fault *f)
{
    const size_t count = (size_t)weights_elements(w);
    float *values = malloc(2 * count * sizeof *values);
    const bool good = (values != NULL || fault_set(f, CODE_MEMORY, "out of memory")) &&
                      put_values(context, w, values, values + count, file, f);
    free(values);
    return good;
}

bool weights_export(const net_model *model, const char *path, fault *f)
{
    atomic_file file = {0};
    const size_t count = model->weights_count;
    size_t counted;
    trainer_weight *weights = copy_weights(model);
    trainer_count *counts = list_counts(model, &counted);
    safetensor *tensors = calloc(counted + count + 1, sizeof *tensors);
    const uint64_t most = weights != NULL ? most_elements(weights, count) : 1;
    float *values = malloc(2 * (size_t)most * sizeof *values);
    bool good = (weights != NULL && counts != NULL && tensors != NULL && values != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    if (good)
        qsort(weights, count, sizeof *weights, by_name);
    for (size_t i = 0; good && i < counted; ++i)
        tensors[i] = (safetensor){.name = counts[i].name, .type = SAFETENSOR_I64, .count = 1};
    for (size_t i = 0; good && i < count; ++i) {
        safetensor *t = &tensors[counted + i];
        *t = (safetensor){.name = weights[i].name,
            .type = SAFETENSOR_F32,
            .rank = weights[i].rank,
            .count = weights_elements(&weights[i])};
        for (size_t k = 0; k < weights[i].rank; ++k)
            t->shape[k] = weights[i].shape[k];
    }
    good = good && atomic_file_open(path, &file, f) &&
           safetensors_put_header(&file, counted + count, tensors, f);
    for (size_t i = 0; good && i < counted; ++i)
        safetensors_put_i64(&file, *counts[i].value);
    for (size_t i = 0; good && i < count; ++i)
        good = put_values(model->context, &weights[i], values, values + most, &file, f);
    if (good)
        good = atomic_file_commit(&file, f);
    else
        atomic_file_abandon(&file);
    free(values);
    free(tensors);
    free(counts);
    free(weights);
    return good;
}
