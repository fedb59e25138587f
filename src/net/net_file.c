/* A net and its optimizer to and from a file. */
#include "clprune/net_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/safetensors.h"
#include "core/system.h"
#include "net/build/append.h"
#include "net/net_private.h"
#include "net/run/body.h"
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"

/* A matrix of the net or the optimizer, as a tensor of a file. */
typedef struct item {
    char *name;
    const char *alias; /* of the parameter that is tied to it, or NULL */
    size_t rank;
    uint64_t shape[4];
    clprune_extent image; /* clprune_net_weight */
    bool codes;           /* U8, four in an element of mat; else F32 */
    clprune_mat mat;
    size_t stored; /* 1 + a parameter of bf16 or codes, whose words mat has; 0: none */
    const clprune__safetensor *from; /* of the file that is read */
} item;

typedef struct items {
    clprune_context *context;
    item *list;
    size_t count;
    float *values, *ordered; /* room for the elements of each */
} items;

static size_t words_of(const item *i)
{
    return i->mat.rows * i->mat.cols;
}

/* ---- what a file has --------------------------------------------------------------------------
 */

/* Adds an item called `before` NAME `after`. */
static clprune_status add(
    items *all, item made, const char *before, const char *name, const char *after)
{
    clprune_context *context = all->context;
    const size_t size = strlen(before) + strlen(name) + strlen(after) + 1;
    made.name = malloc(size);
    REQUIRE(made.name != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the name of a tensor");
    (void)snprintf(made.name, size, "%s%s%s", before, name, after);
    all->list[all->count++] = made;
    return CLPRUNE_SUCCESS;
}

/* Parameter `index` in the shape and order of files. */
static item item_of(const clprune_net *net, size_t index, clprune_mat mat)
{
    const clprune__net_param *param = &net->graph.params[index];
    item made = {.rank = param->rank, .image = param->image, .mat = mat};
    for (size_t k = 0; k < param->rank; ++k)
        made.shape[k] = param->shape[k];
    for (size_t k = 0; k < net->graph.params_count; ++k)
        if (net->graph.params[k].tied == index + 1)
            made.alias = net->graph.params[k].name;
    return made;
}

static const char *stored_suffix(clprune_value_type type)
{
    return type == CLPRUNE_VALUES_BF16     ? ".bf16"
           : type == CLPRUNE_VALUES_CODES8 ? ".codes8"
           : type == CLPRUNE_VALUES_NF4    ? ".nf4"
                                           : ".codes4";
}

static item row_of(clprune_mat mat, bool codes)
{
    return (item){.rank = 1,
        .shape = {mat.rows * mat.cols * (codes ? sizeof(float) : 1)},
        .codes = codes,
        .mat = mat};
}

/* A parameter; the words of one that is no floats, as "NAME.bf16", "NAME.nf4" or "NAME.codes4". */
static clprune_status add_param(items *all, const clprune_net *net, size_t index)
{
    const clprune_mat *value = &net->body.tensors[index].value;
    const char *name = net->graph.params[index].name;
    item made = item_of(net, index, *value);
    if (value->type == CLPRUNE_VALUES_FP32)
        return add(all, made, "", name, "");
    const clprune_mat words = clprune_mat_words(*value);
    made = row_of(
        (clprune_mat){words.buffer, words.offset, 1, words.rows * words.ld, words.rows * words.ld},
        true);
    made.stored = index + 1;
    return add(all, made, "", name, stored_suffix(value->type));
}

static clprune_status add_state(
    items *all, const clprune_net *net, const clprune_optimizer *optimizer, size_t tensor)
{
    clprune_context *context = all->context;
    size_t i = 0;
    while (i < net->graph.params_count &&
           (net->graph.params[i].tied != 0 || !clprune__same_mat(net->body.tensors[i].value,
                                                  optimizer->tensors[tensor].param.value)))
        ++i;
    REQUIRE(i < net->graph.params_count, CLPRUNE_INVALID_ARGUMENT,
        "tensor %zu of the optimizer is no parameter of the net; take one over clprune_net_params",
        tensor);
    const char *name = net->graph.params[i].name;
    for (size_t slot = 0; slot < optimizer->slots; ++slot) {
        char after[] = ".x", codes[] = ".x.codes", scales[] = ".x.scales";
        after[1] = codes[1] = scales[1] = optimizer->row->usual.slots[slot];
        clprune_mat code, scale;
        const clprune_mat state = clprune_optimizer_state(optimizer, tensor, slot);
        clprune_optimizer_codes(optimizer, tensor, slot, &code, &scale);
        if (code.buffer == NULL) {
            item made = item_of(net, i, state);
            made.alias = NULL;
            TRY(add(all, made, "optimizer.", name, after));
            continue;
        }
        TRY(add(all, row_of(code, true), "optimizer.", name, codes));
        TRY(add(all, row_of(scale, false), "optimizer.", name, scales));
    }
    return CLPRUNE_SUCCESS;
}

/* F32 before U8, each sorted by name: the order of the reference writer. */
static int by_order(const void *a, const void *b)
{
    const item *left = a, *right = b;
    return left->codes != right->codes ? left->codes - right->codes
                                       : strcmp(left->name, right->name);
}

/* Lists all tensors, with room for the largest. */
static clprune_status open_items(
    items *all, const clprune_net *net, const clprune_optimizer *optimizer)
{
    clprune_context *context = all->context;
    const size_t state = optimizer != NULL ? optimizer->count * optimizer->slots * 2 : 0;
    all->list =
        calloc(net->graph.params_count + net->body.states_count + state + 1, sizeof *all->list);
    REQUIRE(all->list != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the list of tensors");
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied == 0)
            TRY(add_param(all, net, i));
    for (size_t i = 0; i < net->body.states_count; ++i)
        TRY(add(all, row_of(net->body.states[i].mat, false), "", net->body.states[i].name, ""));
    for (size_t i = 0; optimizer != NULL && i < optimizer->count; ++i)
        TRY(add_state(all, net, optimizer, i));
    qsort(all->list, all->count, sizeof *all->list, by_order);
    size_t most = 1, bytes;
    for (size_t i = 0; i < all->count; ++i) {
        const size_t stored = all->list[i].stored; /* may be read from floats */
        most = clprune__max(most, stored > 0
                                      ? clprune__net_param_elements(&net->graph.params[stored - 1])
                                      : words_of(&all->list[i]));
    }
    if (clprune__mul(most, 2 * sizeof *all->values, &bytes))
        all->values = malloc(bytes);
    REQUIRE(all->values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a tensor of %zu elements", most);
    all->ordered = all->values + most;
    return CLPRUNE_SUCCESS;
}

static void close_items(items *all)
{
    for (size_t i = 0; i < all->count; ++i)
        free(all->list[i].name);
    free(all->list);
    free(all->values);
}

/* From all->values, in the order of the file or the net, to all->ordered in the other. */
static clprune_status reorder(items *all, const item *i, bool to_net)
{
    const size_t pixels = i->image.height * i->image.width, words = words_of(i);
    if (pixels == 0 || words == 0) {
        memcpy(all->ordered, all->values, words * sizeof(float));
        return CLPRUNE_SUCCESS;
    }
    const size_t out = (size_t)i->shape[0], in = words / out / pixels;
    return to_net ? clprune_conv2d_weights_from_oihw(out, in, i->image, all->values, all->ordered)
                  : clprune_conv2d_weights_to_oihw(out, in, i->image, all->values, all->ordered);
}

/* "adamw", or with 8-bit state "adamw8". */
static const char *kind_of(const clprune_optimizer *optimizer)
{
    return clprune__optimizer_name(optimizer->row, optimizer->desc.state_bits);
}

static clprune_status check(clprune_context *context, const clprune_net *net, const char *path)
{
    REQUIRE(net != NULL && path != NULL, CLPRUNE_INVALID_ARGUMENT, "net or path is NULL");
    REQUIRE(clprune__net_is_settled(net), CLPRUNE_INVALID_ARGUMENT, "the net is not settled");
    REQUIRE(path[0] != '\0', CLPRUNE_INVALID_ARGUMENT, "path is empty");
    return CLPRUNE_SUCCESS;
}

/* ---- writing ---------------------------------------------------------------------------------
 */

/* The header, to be freed; refused if it could not be read again. */
static clprune_status make_header(const items *all, const clprune_optimizer *optimizer,
    const char *path, char **header, size_t *length)
{
    clprune_context *context = all->context;
    clprune_status status = CLPRUNE_SUCCESS;
    char format[] = "format", pt[] = "pt", kind[16], steps[24], kind_key[] = "optimizer",
         steps_key[] = "optimizer.steps", text[CLPRUNE__SAFETENSORS_TEXT];
    clprune__safetensors_note notes[] = {{format, pt}, {kind_key, kind}, {steps_key, steps}};
    clprune__safetensors s = {NULL, all->count, notes, optimizer != NULL ? 3 : 1}, again = {0};
    uint64_t at = 0;
    if (optimizer != NULL) {
        (void)snprintf(kind, sizeof kind, "%s", kind_of(optimizer));
        (void)snprintf(steps, sizeof steps, "%" PRIu64, clprune_optimizer_steps(optimizer));
    }
    s.tensors = calloc(all->count + 1, sizeof *s.tensors);
    REQUIRE_DONE(s.tensors != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the header");
    for (size_t i = 0; i < all->count; ++i) {
        const item *from = &all->list[i];
        clprune__safetensor *t = &s.tensors[i];
        *t = (clprune__safetensor){.name = from->name, .rank = from->rank, .from = at};
        (void)snprintf(t->dtype, sizeof t->dtype, "%s", from->codes ? "U8" : "F32");
        memcpy(t->shape, from->shape, sizeof from->shape);
        at = t->to = at + words_of(from) * sizeof(float);
    }
    *header = clprune__safetensors_header(&s, length);
    REQUIRE_DONE(*header != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the header");
    const bool good = clprune__safetensors_parse(*header + CLPRUNE__SAFETENSORS_PREFIX,
        *length - CLPRUNE__SAFETENSORS_PREFIX, at, &again, text);
    clprune__safetensors_free(&again);
    REQUIRE_DONE(good || text[0] != '\0', CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the header");
    REQUIRE_DONE(good, CLPRUNE_INVALID_ARGUMENT, "%.1000s is not written: %s", path, text);
done:
    free(s.tensors);
    return status;
}

static clprune_status refuse_write(clprune_context *context, const char *path)
{
    return clprune__fail(context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
        "%.1000s cannot be written: %s", path, strerror(errno));
}

static clprune_status put_item(items *all, const item *i, int file, const char *path)
{
    const size_t words = words_of(i);
    unsigned char *bytes = (unsigned char *)all->ordered;
    TRY(clprune_mat_read(all->context, i->mat, all->values));
    TRY(reorder(all, i, false));
    for (size_t k = 0; !i->codes && k < words; ++k) {
        uint32_t word;
        memcpy(&word, &all->ordered[k], sizeof word);
        clprune__to_little_endian(word, bytes + k * sizeof word, sizeof word);
    }
    errno = 0;
    return clprune__system_write(file, bytes, words * sizeof(float))
               ? CLPRUNE_SUCCESS
               : refuse_write(all->context, path);
}

static clprune_status save(items *all, const clprune_optimizer *optimizer, const char *path)
{
    clprune_context *context = all->context;
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t size = strlen(path) + 16;
    char *header = NULL, *temporary = malloc(size);
    size_t length = 0;
    int file = -1;
    REQUIRE_DONE(temporary != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a path");
    TRY_DONE(make_header(all, optimizer, path, &header, &length));
    errno = 0;
    file = clprune__system_create_temporary(path, temporary, size);
    if (file < 0 || !clprune__system_write(file, header, length))
        TRY_DONE(refuse_write(context, path));
    for (size_t i = 0; i < all->count; ++i)
        TRY_DONE(put_item(all, &all->list[i], file, path));
done:
    errno = 0;
    if (file >= 0 && !clprune__system_commit(file, status == CLPRUNE_SUCCESS, temporary, path) &&
        status == CLPRUNE_SUCCESS)
        status = refuse_write(context, path);
    free(header);
    free(temporary);
    return status;
}

clprune_status clprune_net_save(
    clprune_net *net, const clprune_optimizer *optimizer, const char *path)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    ENTER_WITH(context, "optimizer", optimizer != NULL ? optimizer->context : NULL);
    items all = {.context = context};
    TRY(check(context, net, path));
    REQUIRE(context->backend->runs, CLPRUNE_UNSUPPORTED, "a dry context has no values to save");
    TRY(clprune__net_check_values(net));
    clprune_status status = open_items(&all, net, optimizer);
    if (status == CLPRUNE_SUCCESS)
        status = save(&all, optimizer, path);
    close_items(&all);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------
 */

/* A file that is read. */
typedef struct source {
    const char *path;
    int file;
    clprune__safetensors header;
    uint64_t data_bytes;
    unsigned char *data;
    uint64_t steps; /* of the optimizer */
} source;

static clprune_status open_source(clprune_context *context, source *s)
{
    unsigned char prefix[CLPRUNE__SAFETENSORS_PREFIX];
    char text[CLPRUNE__SAFETENSORS_TEXT];
    clprune__file_facts facts;
    s->file = clprune__system_open_file(s->path);
    REQUIRE(s->file >= 0, CLPRUNE_INVALID_ARGUMENT, "%.1000s cannot be read: %s", s->path,
        strerror(errno));
    REQUIRE(clprune__system_facts(s->file, &facts) && facts.regular, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s is no regular file", s->path);
    REQUIRE(facts.bytes >= sizeof prefix, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s has %" PRIu64 " bytes; a safetensors file has at least 10", s->path, facts.bytes);
    REQUIRE(clprune__system_read(s->file, prefix, sizeof prefix), CLPRUNE_INVALID_ARGUMENT,
        "%.1000s cannot be read", s->path);
    const uint64_t length = clprune__little_endian(prefix, sizeof prefix);
    const uint64_t rest = facts.bytes - sizeof prefix;
    REQUIRE(length <= CLPRUNE__SAFETENSORS_MOST && length <= rest, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s has a header of %" PRIu64 " bytes, but %" PRIu64
        " bytes in all, and at most %d are read; is it a safetensors file?",
        s->path, length, facts.bytes, CLPRUNE__SAFETENSORS_MOST);
    char *header = malloc((size_t)length + 1);
    REQUIRE(
        header != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the header of %.1000s", s->path);
    s->data_bytes = rest - length;
    const bool read = clprune__system_read(s->file, header, (size_t)length);
    const bool good =
        read && clprune__safetensors_parse(header, (size_t)length, s->data_bytes, &s->header, text);
    free(header);
    REQUIRE(read, CLPRUNE_INVALID_ARGUMENT, "%.1000s cannot be read", s->path);
    REQUIRE(good || text[0] != '\0', CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the header of %.1000s", s->path);
    REQUIRE(good, CLPRUNE_INVALID_ARGUMENT, "%.1000s: %s", s->path, text);
    return CLPRUNE_SUCCESS;
}

/* Sizes of 1 are ignored: others have 1 x 1 x 384 for 384. */
static bool same_shape(const item *i, const clprune__safetensor *t)
{
    size_t a = 0, b = 0;
    if (t->rank > CLPRUNE__SAFETENSORS_RANK)
        return false;
    for (;;) {
        while (a < i->rank && i->shape[a] == 1)
            ++a;
        while (b < t->rank && t->shape[b] == 1)
            ++b;
        if (a == i->rank || b == t->rank)
            return a == i->rank && b == t->rank;
        if (i->shape[a++] != t->shape[b++])
            return false;
    }
}

/* Turns the words of a weight that is no floats into its values, which are rounded when they are
 * written. */
static void take_floats(const clprune_net *net, item *i)
{
    const size_t index = i->stored - 1;
    item floats = item_of(net, index, net->body.tensors[index].value);
    floats.name = i->name;
    floats.name[strlen(net->graph.params[index].name)] = '\0';
    *i = floats;
}

static clprune_status match(clprune_context *context, const clprune_net *net, source *s, item *i)
{
    if (i->stored > 0 && clprune__safetensors_find(&s->header, i->name) == NULL)
        take_floats(net, i);
    char want[128], seen[128];
    const char *types = i->codes ? "U8" : "F32, F16 or BF16";
    const clprune__safetensor *t = clprune__safetensors_find(&s->header, i->name);
    if (t == NULL && i->alias != NULL)
        t = clprune__safetensors_find(&s->header, i->alias);
    (void)clprune__safetensor_shape(i->rank, i->shape, want);
    REQUIRE(t != NULL, CLPRUNE_INVALID_ARGUMENT, "%.1000s has no tensor \"%s\", expected %s of %s",
        s->path, i->name, types, want);
    const bool type = i->codes ? strcmp(t->dtype, "U8") == 0
                               : strcmp(t->dtype, "F32") == 0 || strcmp(t->dtype, "F16") == 0 ||
                                     strcmp(t->dtype, "BF16") == 0;
    REQUIRE(type && same_shape(i, t), CLPRUNE_INVALID_ARGUMENT,
        "%.1000s: tensor \"%s\" is %s of %s, expected %s of %s", s->path, t->name, t->dtype,
        clprune__safetensor_shape(t->rank, t->shape, seen), types, want);
    i->from = t;
    return CLPRUNE_SUCCESS;
}

static clprune_status match_optimizer(
    clprune_context *context, source *s, const clprune_optimizer *optimizer)
{
    const char *kind = clprune__safetensors_note_of(&s->header, "optimizer");
    const char *steps = clprune__safetensors_note_of(&s->header, "optimizer.steps");
    REQUIRE(kind != NULL, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s has no state of an optimizer, expected that of %s; pass NULL to read the net "
        "alone",
        s->path, kind_of(optimizer));
    REQUIRE(strcmp(kind, kind_of(optimizer)) == 0, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s has the state of the optimizer \"%.20s\", expected \"%s\"", s->path, kind,
        kind_of(optimizer));
    bool good = steps != NULL && steps[0] != '\0';
    for (const char *c = steps; good && *c != '\0'; ++c) {
        const uint64_t digit = (uint64_t)(*c - '0');
        good = *c >= '0' && *c <= '9' && s->steps <= (UINT64_MAX - digit) / 10;
        s->steps = s->steps * 10 + digit;
    }
    REQUIRE(good, CLPRUNE_INVALID_ARGUMENT,
        "%.1000s has \"optimizer.steps\" \"%.30s\", expected a number of 64 bits", s->path,
        steps != NULL ? steps : "");
    return CLPRUNE_SUCCESS;
}

static clprune_status read_data(clprune_context *context, source *s)
{
    if (s->data_bytes < SIZE_MAX)
        s->data = malloc((size_t)s->data_bytes + 1);
    REQUIRE(s->data != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the %" PRIu64 " bytes of %.1000s", s->data_bytes, s->path);
    REQUIRE(clprune__system_read(s->file, s->data, (size_t)s->data_bytes), CLPRUNE_INVALID_ARGUMENT,
        "%.1000s cannot be read to its end", s->path);
    return CLPRUNE_SUCCESS;
}

/* fp16 as fp32, exactly. */
static uint32_t from_half(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, mantissa = half & 0x3ffu;
    const uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t bits;
    if (exponent == 31)
        return sign | 0x7f800000u | (mantissa << 13);
    if (exponent != 0)
        return sign | ((exponent + 112) << 23) | (mantissa << 13);
    const float value = (float)mantissa * 0x1p-24f; /* zero or subnormal */
    memcpy(&bits, &value, sizeof bits);
    return sign | bits;
}

static clprune_status write_item(items *all, const item *i, const unsigned char *data)
{
    const bool wide = i->from->dtype[0] == 'F' && i->from->dtype[1] == '3';
    const bool half = i->from->dtype[0] == 'F' && !wide;
    const unsigned char *bytes = data + i->from->from;
    if (i->codes) {
        memcpy(all->values, bytes, words_of(i) * sizeof(float));
        return clprune_mat_write(all->context, i->mat, all->values);
    }
    for (size_t k = 0; k < words_of(i); ++k) {
        uint32_t word = (uint32_t)clprune__little_endian(bytes + k * (wide ? 4 : 2), wide ? 4 : 2);
        word = wide ? word : half ? from_half(word) : word << 16;
        memcpy(&all->values[k], &word, sizeof word);
    }
    TRY(reorder(all, i, true));
    return clprune_mat_write(all->context, i->mat, all->ordered);
}

static clprune_status load(items *all, source *s, clprune_net *net, clprune_optimizer *optimizer)
{
    clprune_context *context = all->context;
    TRY(open_source(context, s));
    if (optimizer != NULL)
        TRY(match_optimizer(context, s, optimizer));
    for (size_t i = 0; i < all->count; ++i)
        TRY(match(context, net, s, &all->list[i]));
    TRY(read_data(context, s));
    net->at.phase = CLPRUNE__NET_EMPTY;
    for (size_t i = 0; i < all->count; ++i)
        TRY(write_item(all, &all->list[i], s->data));
    net->at.has_values = true;
    clprune_optimizer_set_steps(optimizer, s->steps);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_net_load(clprune_net *net, clprune_optimizer *optimizer, const char *path)
{
    clprune_context *context = net != NULL ? net->context : NULL;
    ENTER_WITH(context, "optimizer", optimizer != NULL ? optimizer->context : NULL);
    items all = {.context = context};
    source s = {.path = path, .file = -1};
    TRY(check(context, net, path));
    clprune_status status = open_items(&all, net, optimizer);
    if (status == CLPRUNE_SUCCESS)
        status = load(&all, &s, net, optimizer);
    if (s.file >= 0)
        clprune__system_close(s.file);
    clprune__safetensors_free(&s.header);
    free(s.data);
    close_items(&all);
    return status;
}
