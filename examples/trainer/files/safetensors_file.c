#include "trainer/files/safetensors_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/float_bits.h"
#include "trainer/files/json_load.h"
#include "trainer/files/plain_file.h"

/* The reference reader's limit. */
enum { MOST_HEADER = 100000000, PREFIX = 8 };

/* In the order of safetensor_type. */
static const struct {
    const char *name;
    unsigned bytes;
} types[SAFETENSOR_OTHER] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}};

bool safetensors_readable(void)
{
    return TRAINER_JANSSON;
}

#if TRAINER_JANSSON

static bool to_count(const json_t *value, uint64_t *count)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *count = (uint64_t)json_integer_value(value);
    return true;
}

/* Parses a tensor's shape; returns NULL or what is wrong with it. */
static const char *parse_shape(const json_t *shape, safetensor *t)
{
    if (!json_is_array(shape))
        return "its shape is no list";
    t->rank = json_array_size(shape);
    if (t->rank > SAFETENSORS_RANK)
        t->type = SAFETENSOR_OTHER;
    t->count = 1;
    for (size_t i = 0; i < t->rank; ++i) {
        uint64_t size;
        if (!to_count(json_array_get(shape, i), &size))
            return "its shape has something that is no size";
        if (size != 0 && t->count > UINT64_MAX / size)
            return "its number of elements overflows 64 bits";
        t->count *= size;
        if (i < SAFETENSORS_RANK)
            t->shape[i] = size;
    }
    return NULL;
}

static const char *parse_tensor(const json_t *entry, uint64_t data_bytes, safetensor *t)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    size_t type = 0;
    if (!json_is_object(entry))
        return "it is no object";
    if (name == NULL)
        return "it has no dtype";
    while (type < SAFETENSOR_OTHER && strcmp(types[type].name, name) != 0)
        ++type;
    t->type = (safetensor_type)type;
    (void)snprintf(t->dtype, sizeof t->dtype, "%s", name);
    const char *wrong = parse_shape(json_object_get(entry, "shape"), t);
    if (wrong != NULL)
        return wrong;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !to_count(json_array_get(offsets, 0), &t->from) ||
        !to_count(json_array_get(offsets, 1), &t->to))
        return "its data_offsets are no pair of offsets";
    if (t->from > t->to || t->to > data_bytes)
        return "its data lie outside of the file";
    if (t->type != SAFETENSOR_OTHER && (t->count > UINT64_MAX / types[type].bytes ||
                                           t->to - t->from != t->count * types[type].bytes))
        return "its shape and its data have different sizes";
    return NULL;
}

static int by_data(const void *a, const void *b)
{
    const safetensor *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static bool take_tensors(
    const char *path, json_t *root, uint64_t data_bytes, safetensors *s, fault *f)
{
    const char *name;
    json_t *entry;
    s->tensors = calloc(json_object_size(root) + 1, sizeof *s->tensors);
    if (s->tensors == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    json_object_foreach(root, name, entry)
    {
        safetensor *t = &s->tensors[s->count];
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const char *wrong = parse_tensor(entry, data_bytes, t);
        if (wrong != NULL)
            return fault_set(f, CODE_DATA, "%s: tensor \"%.100s\": %s", path, name, wrong);
        t->name = strdup(name);
        if (t->name == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory");
        ++s->count;
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, by_data);
    uint64_t end = 0;
    for (size_t i = 0; i < s->count; ++i) {
        if (s->tensors[i].from != end)
            return fault_set(f, CODE_DATA,
                "%s: tensor \"%.100s\" begins at byte %" PRIu64 " of the data, expected %" PRIu64,
                path, s->tensors[i].name, s->tensors[i].from, end);
        end = s->tensors[i].to;
    }
    return end == data_bytes ||
           fault_set(f, CODE_DATA, "%s: its tensors have %" PRIu64 " bytes, its data %" PRIu64,
               path, end, data_bytes);
}

bool safetensors_parse(const char *path, const char *header, size_t length, uint64_t data_bytes,
    safetensors *s, fault *f)
{
    json_error_t error;
    bool starved;
    *s = (safetensors){0};
    if (length == 0 || header[0] != '{')
        return fault_set(f, CODE_DATA, "%s: its header does not begin with {", path);
    json_t *root = json_load_text(header, length, &error, &starved);
    if (starved)
        return fault_set(f, CODE_MEMORY, "%s: no memory for its header", path);
    if (root == NULL)
        return fault_set(f, CODE_DATA, "%s: its header is no JSON: %s (byte %d)", path, error.text,
            error.position);
    bool good = take_tensors(path, root, data_bytes, s, f);
    json_decref(root);
    if (!good)
        safetensors_close(s);
    return good;
}

#else

bool safetensors_parse(const char *path, const char *header, size_t length, uint64_t data_bytes,
    safetensors *s, fault *f)
{
    (void)header, (void)length, (void)data_bytes;
    *s = (safetensors){0};
    return fault_set(f, CODE_USAGE,
        "%s: this program was built without jansson and cannot read safetensors files; install "
        "libjansson-dev and build again",
        path);
}

#endif

/* What a file is that is no safetensors file, from its first 8 bytes. */
static const char *kind_of(const unsigned char *prefix)
{
    static const struct {
        const char *begin, *kind;
    } kinds[] = {
        {"PK\3\4", "a file of torch.save; save its weights with safetensors.torch.save_file"},
        {"\x80\2", "a file of torch.save; save its weights with safetensors.torch.save_file"},
        {"CLPRCKPT",
            "a checkpoint; --resume goes on with it, and writes its weights with --export"},
        {"GGUF", "a GGUF file"}, {"\x89HDF", "an HDF5 file"},
        {"version ", "a pointer of Git LFS; git lfs pull fetches the file"},
        {"<!DOC", "a page of HTML, not the file itself"},
        {"<html", "a page of HTML, not the file itself"},
        {"{", "JSON; the index of a model in several files is called NAME.safetensors.index.json"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (memcmp(prefix, kinds[i].begin, strlen(kinds[i].begin)) == 0)
            return kinds[i].kind;
    return NULL;
}

static bool read_header(
    const char *path, FILE *stream, uint64_t bytes, safetensors *s, uint64_t *data, fault *f)
{
    unsigned char prefix[PREFIX];
    if (bytes < PREFIX || fread(prefix, 1, PREFIX, stream) != PREFIX)
        return fault_set(f, CODE_DATA, "%s: shorter than 8 bytes", path);
    const uint64_t length = little_endian(prefix, PREFIX);
    const char *kind = kind_of(prefix);
    if (length > bytes - PREFIX && kind != NULL)
        return fault_set(f, CODE_DATA, "%s: no safetensors file, but %s", path, kind);
    if (length > MOST_HEADER || length > bytes - PREFIX)
        return fault_set(f, CODE_DATA,
            "%s: a header of %" PRIu64 " bytes, but the file has %" PRIu64
            " (no safetensors file?)",
            path, length, bytes);
    char *header = malloc((size_t)length + 1);
    if (header == NULL)
        return fault_set(f, CODE_MEMORY, "no memory for a header of %" PRIu64 " bytes", length);
    bool good = fread(header, 1, (size_t)length, stream) == length ||
                fault_set(f, CODE_DATA, "%s: cannot be read", path);
    good = good && safetensors_parse(path, header, (size_t)length, bytes - PREFIX - length, s, f);
    free(header);
    *data = PREFIX + length;
    return good;
}

static bool open_file(const char *path, safetensors *s, fault *f)
{
    uint64_t bytes = 0;
    const char *why;
    safetensors_part part = {0};
    *s = (safetensors){0};
    part.stream = plain_file_open(path, &bytes, &why);
    if (part.stream == NULL)
        return fault_set(f, CODE_DATA, "%s: %s", path, why);
    bool good = read_header(path, part.stream, bytes, s, &part.data, f);
    s->parts = malloc(sizeof *s->parts);
    s->path = strdup(path);
    if (s->parts != NULL)
        s->parts[s->parts_count++] = part;
    else
        (void)fclose(part.stream);
    good = good &&
           ((s->path != NULL && s->parts != NULL) || fault_set(f, CODE_MEMORY, "out of memory"));
    if (!good)
        safetensors_close(s);
    return good;
}

/* ---- several files -----------------------------------------------------------------------------
 */
#if TRAINER_JANSSON

/* Moves the tensors of `more`, one file, to the end of s. */
static bool take_part(safetensors *s, safetensors *more, fault *f)
{
    safetensor *tensors = realloc(s->tensors, (s->count + more->count + 1) * sizeof *tensors);
    if (tensors != NULL)
        s->tensors = tensors;
    safetensors_part *parts = realloc(s->parts, (s->parts_count + 1) * sizeof *parts);
    if (parts != NULL)
        s->parts = parts;
    if (tensors == NULL || parts == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; i < more->count; ++i) {
        tensors[s->count] = more->tensors[i];
        tensors[s->count++].part = s->parts_count;
        more->tensors[i].name = NULL;
    }
    parts[s->parts_count++] = more->parts[0];
    more->parts_count = 0;
    return true;
}

/* Checks that each tensor of an index is in the file that it names, and no other tensor in any. */
static bool check_map(const json_t *map, const char *const *files, const safetensors *s, fault *f)
{
    for (size_t i = 0; i < s->count; ++i) {
        const safetensor *t = &s->tensors[i];
        const char *file = json_string_value(json_object_get(map, t->name));
        if (file == NULL || strcmp(file, files[t->part]) != 0)
            return fault_set(f, CODE_DATA,
                "%s: tensor \"%.100s\" is in %.100s, but the index has %s%.100s", s->path, t->name,
                files[t->part], file != NULL ? "it in " : "no such tensor",
                file != NULL ? file : "");
    }
    return s->count == json_object_size(map) ||
           fault_set(f, CODE_DATA, "%s: it names %zu tensors, its files have %zu", s->path,
               json_object_size(map), s->count);
}

static bool open_files(json_t *map, const char **files, safetensors *s, fault *f)
{
    const char *name;
    json_t *entry;
    size_t count = 0;
    char *folder = folder_of(s->path);
    bool good = folder != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    json_object_foreach(map, name, entry)
    {
        const char *file = json_string_value(entry);
        size_t known = 0;
        while (file != NULL && known < count && strcmp(files[known], file) != 0)
            ++known;
        if (!good || (file != NULL && known < count))
            continue;
        if (file == NULL || strchr(file, '/') != NULL) {
            good = fault_set(f, CODE_DATA,
                "%s: tensor \"%.100s\" has no file in the folder of the index", s->path, name);
            continue;
        }
        files[count++] = file;
        safetensors more = {0};
        char *path = path_join(folder, "", file);
        good = (path != NULL || fault_set(f, CODE_MEMORY, "out of memory")) &&
               open_file(path, &more, f) && take_part(s, &more, f);
        safetensors_close(&more);
        free(path);
    }
    free(folder);
    return good && check_map(map, files, s, f);
}

static bool open_index(const char *path, safetensors *s, fault *f)
{
    json_error_t error;
    json_t *root;
    *s = (safetensors){0};
    if (!json_load_path(path, MOST_HEADER, &root, &error, f))
        return false;
    json_t *map = json_object_get(root, "weight_map");
    const size_t most = json_object_size(map);
    const char **files = calloc(most + 1, sizeof *files);
    s->path = strdup(path);
    bool good = (files != NULL && s->path != NULL) ||
                fault_set(f, CODE_MEMORY, "%s: no memory for the index", path);
    if (good && most == 0)
        good = fault_set(f, CODE_DATA, "%s: no index of safetensors files: %s", path,
            root == NULL ? error.text : "it has no weight_map");
    good = good && open_files(map, files, s, f);
    free(files);
    json_decref(root);
    if (!good)
        safetensors_close(s);
    return good;
}

#else

static bool open_index(const char *path, safetensors *s, fault *f)
{
    return safetensors_parse(path, "", 0, 0, s, f);
}

#endif

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), most = strlen(end);
    return length >= most && strcmp(text + length - most, end) == 0;
}

bool safetensors_open(const char *path, safetensors *s, fault *f)
{
    static const char one[] = "model.safetensors", index[] = ".index.json";
    struct stat about;
    *s = (safetensors){0};
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return ends_with(path, index) ? open_index(path, s, f) : open_file(path, s, f);
    char name[sizeof one + sizeof index];
    (void)snprintf(name, sizeof name, "%s%s", one, index);
    char *single = path_join(path, "", one), *several = path_join(path, "", name);
    bool there = false;
    const bool good =
        (single != NULL && several != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    const bool opened = good && plain_file_exists(several, &there, f) &&
                        (there ? open_index(several, s, f) : open_file(single, s, f));
    free(single);
    free(several);
    return opened;
}

void safetensors_close(safetensors *s)
{
    for (size_t i = 0; i < s->count; ++i)
        free(s->tensors[i].name);
    free(s->tensors);
    free(s->path);
    for (size_t i = 0; i < s->parts_count; ++i)
        (void)fclose(s->parts[i].stream);
    free(s->parts);
    *s = (safetensors){0};
}

const safetensor *safetensors_find(const safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->count; ++i)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    return NULL;
}

static const safetensors_part *part_of(const safetensors *s, const safetensor *tensor)
{
    return &s->parts[tensor->part];
}

static float element(safetensor_type type, const unsigned char *bytes)
{
    switch (type) {
    case SAFETENSOR_F64:
        return (float)double_of_bits(little_endian(bytes, 8));
    case SAFETENSOR_F16:
        return float_of_half((uint32_t)little_endian(bytes, 2));
    case SAFETENSOR_BF16:
        return float_of_bits((uint32_t)little_endian(bytes, 2) << 16);
    default:
        return float_of_bits((uint32_t)little_endian(bytes, 4));
    }
}

bool safetensors_read(const safetensors *s, const safetensor *tensor, float *values, fault *f)
{
    const uint64_t bytes = tensor->to - tensor->from;
    const size_t each = tensor->count > 0 ? (size_t)(bytes / tensor->count) : 1;
    unsigned char part[4096];
    if (tensor->type >= SAFETENSOR_I64)
        return fault_set(f, CODE_DATA,
            "%s: tensor \"%.100s\" is %s with %zu dimensions; expected F64, F32, F16 or BF16 with "
            "at "
            "most %d",
            s->path, tensor->name, tensor->dtype, tensor->rank, SAFETENSORS_RANK);
    bool good = fseeko(part_of(s, tensor)->stream, (off_t)(part_of(s, tensor)->data + tensor->from),
                    SEEK_SET) == 0;
    for (uint64_t done = 0; good && done < tensor->count;) {
        const uint64_t left = tensor->count - done;
        const size_t run = left < sizeof part / each ? (size_t)left : sizeof part / each;
        good = fread(part, each, run, part_of(s, tensor)->stream) == run;
        for (size_t i = 0; good && i < run; ++i)
            values[done + i] = element(tensor->type, part + i * each);
        done += run;
    }
    return good || fault_set(f, CODE_DATA, "%s: cannot be read", s->path);
}

bool safetensors_read_i64(const safetensors *s, const safetensor *tensor, int64_t *values, fault *f)
{
    unsigned char bytes[sizeof *values];
    if (tensor->type != SAFETENSOR_I64)
        return fault_set(f, CODE_DATA, "%s: tensor \"%.100s\" is %s, not I64", s->path,
            tensor->name, tensor->dtype);
    bool good = fseeko(part_of(s, tensor)->stream, (off_t)(part_of(s, tensor)->data + tensor->from),
                    SEEK_SET) == 0;
    for (uint64_t i = 0; good && i < tensor->count; ++i) {
        good = fread(bytes, sizeof bytes, 1, part_of(s, tensor)->stream) == 1;
        const uint64_t bits = good ? little_endian(bytes, sizeof bytes) : 0;
        memcpy(&values[i], &bits, sizeof bits);
    }
    return good || fault_set(f, CODE_DATA, "%s: cannot be read", s->path);
}

bool safetensors_put_header(atomic_file *file, size_t count, const safetensor *tensors, fault *f)
{
    char *header = NULL;
    size_t length = 0;
    uint64_t at = 0;
    FILE *text = open_memstream(&header, &length);
    if (text == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    (void)fputs("{\"__metadata__\":{\"format\":\"pt\"}", text);
    for (size_t i = 0; i < count; ++i) {
        const safetensor *t = &tensors[i];
        const uint64_t end = at + types[t->type].bytes * t->count;
        (void)fprintf(text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, types[t->type].name);
        for (size_t k = 0; k < t->rank; ++k)
            (void)fprintf(text, "%s%" PRIu64, k > 0 ? "," : "", t->shape[k]);
        (void)fprintf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    (void)fputc('}', text);
    bool good = fflush(text) == 0 && !ferror(text); /* no entry is missing */
    while (good && length % PREFIX != 0)
        good = fputc(' ', text) != EOF && fflush(text) == 0;
    good = fclose(text) == 0 && good;
    if (!good)
        (void)fault_set(f, CODE_MEMORY, "out of memory");
    for (unsigned i = 0; good && i < PREFIX; ++i)
        (void)fputc((int)((uint64_t)length >> (8 * i) & 0xff), file->stream);
    if (good)
        atomic_file_put(file, header, length);
    free(header);
    return good;
}

static void to_little_endian(uint64_t bits, size_t size, unsigned char *bytes)
{
    for (size_t k = 0; k < size; ++k)
        bytes[k] = (unsigned char)(bits >> (8 * k));
}

void safetensors_put_i64(atomic_file *file, int64_t value)
{
    unsigned char bytes[sizeof value];
    to_little_endian((uint64_t)value, sizeof bytes, bytes);
    atomic_file_put(file, bytes, sizeof bytes);
}

void safetensors_put_f32(atomic_file *file, size_t count, float *values)
{
    unsigned char *bytes = (unsigned char *)values;
    for (size_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        to_little_endian(bits, sizeof bits, bytes + i * sizeof bits);
    }
    atomic_file_put(file, bytes, count * sizeof(uint32_t));
}
