/*
 * dataset_folder.c: images as ImageNet has them on disk, a folder for each class.
 *
 *     DIR/train/CLASS/NAME.jpg    (.jpeg, .png, any case)
 *     DIR/val/CLASS/NAME.jpg      (or DIR/test)
 *
 * Classes are the folders of train in the order of their bytes. Files are listed when the set is
 * opened and read when a batch asks for them, by several threads (dataset.c).
 *
 * Or, with a label for each pixel, an image and its mask of the same size and name:
 *
 *     DIR/train/images/NAME.jpg    DIR/train/masks/NAME.png
 *     DIR/val/images/NAME.jpg      DIR/val/masks/NAME.png
 *
 * The values of a grey mask, or the numbers of its palette's colours, are the labels; 255 is none.
 *
 * Training: a random window of 8 to 100 % of the area, its sides 3:4 to 4:3, resized to S x S, and
 * mirrored one time in two (Szegedy et al., arXiv 1409.4842; torchvision's RandomResizedCrop).
 * Else: the centred square of 7/8 of the shorter side, which is 224 of 256 pixels; with masks, the
 * whole image. A mask has the window of its image, and of each pixel the nearest one's label.
 */
#include "trainer/data/dataset_source.h"

#include <clprune/cross_entropy.h> /* CLPRUNE_IGNORED */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "trainer/data/fnv.h"
#include "trainer/data/image_file.h"
#include "trainer/data/rng.h"
#include "trainer/files/plain_file.h"

enum { DEFAULT_SIDE = 224, MOST_SIDE = 4096, TRIES = 10, MOST_SIZES = 65536, NO_LABEL = 255 };

typedef struct names {
    char **at;
    size_t count, room;
} names;

/* What is left out of a split. */
typedef struct left_out {
    size_t count;
    char *first; /* "CLASS/NAME" */
} left_out;

typedef struct split_files {
    char *folder;             /* names are relative to it */
    names files;              /* "CLASS/NAME" */
    int32_t *label;           /* (files.count) */
    left_out others, folders; /* files that are no images; folders in classes */
} split_files;

typedef struct folder_set {
    uint32_t side, labels; /* labels: of pixels, below this; 0: files have no masks */
    names classes;
    split_files split[2];
    uint32_t count[2]; /* in use */
} folder_set;

/* Takes a name from malloc. False if memory is out, also for NULL. */
static bool names_add(names *n, char *name)
{
    if (name != NULL && n->count == n->room) {
        const size_t room = 2 * n->room + 64;
        char **grown = realloc(n->at, room * sizeof *grown);
        if (grown == NULL) {
            free(name);
            return false;
        }
        n->at = grown;
        n->room = room;
    }
    if (name != NULL)
        n->at[n->count++] = name;
    return name != NULL;
}

static void names_close(names *n)
{
    for (size_t i = 0; i < n->count; ++i)
        free(n->at[i]);
    free(n->at);
    *n = (names){0};
}

static bool is_folder(dataset_search *search, const char *name)
{
    char path[4096];
    struct stat info;
    const int length = snprintf(path, sizeof path, "%s/%s", search->dir, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;
    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode);
    dataset_search_failed(search, errno);
    return false;
}

bool dataset_folder_found(dataset_search *search)
{
    return is_folder(search, "train") && (is_folder(search, "val") || is_folder(search, "test"));
}

static bool is_image(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                              strcasecmp(dot, ".png") == 0);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts names by their bytes, so that the order does not depend on the file system. */
static void sort(names *n)
{
    if (n->count > 0)
        qsort(n->at, n->count, sizeof *n->at, by_bytes);
}

/* The next entry. NULL after the last one and on failure; errno tells which. */
static const struct dirent *next_entry(DIR *dir)
{
    errno = 0;
    return readdir(dir);
}

/* The sorted names of a folder's classes. With `others` and `folders`: of its images, of files that
 * are none, and of folders in it. On failure the caller still closes these two. */
static bool list_folder(const char *path, names *found, names *others, names *folders, fault *f)
{
    const bool classes = others == NULL;
    const struct dirent *entry;
    bool good = true;
    DIR *dir = opendir(path);
    *found = (names){0};
    if (dir == NULL)
        return fault_set(f, CODE_DATA, "%s: %s", path, strerror(errno));
    while (good && (entry = next_entry(dir)) != NULL) {
        const char *name = entry->d_name;
        names *list = found;
        struct stat info;
        if (name[0] == '.')
            continue;
        if (classes || !is_image(name)) {
            const bool seen = fstatat(dirfd(dir), name, &info, 0) == 0;
            const bool folder = seen && S_ISDIR(info.st_mode);
            if (classes && !seen) /* left out, it would number the classes behind it anew */
                good = fault_set(f, CODE_DATA, "%s/%s: %s", path, name, strerror(errno));
            if (classes && !folder)
                continue;
            if (!classes)
                list = folder ? folders : others;
        }
        if (!names_add(list, strdup(name)))
            good = dataset_no_memory(f, path);
    }
    if (good && errno != 0)
        good = fault_set(f, CODE_DATA, "%s: %s", path, strerror(errno));
    (void)closedir(dir);
    sort(found);
    if (!classes) {
        sort(others);
        sort(folders);
    }
    if (!good)
        names_close(found);
    return good;
}

static int32_t class_of(const names *classes, const char *name)
{
    char **at = classes->count == 0
                    ? NULL
                    : bsearch(&name, classes->at, classes->count, sizeof *classes->at, by_bytes);
    return at == NULL ? -1 : (int32_t)(at - classes->at);
}

/* Counts the names of a class, and keeps the first of the split. False if memory is out. */
static bool leave_out(left_out *left, const char *class, const names *found)
{
    if (left->count == 0 && found->count > 0)
        left->first = path_join(class, "", found->at[0]);
    left->count += found->count;
    return left->count == 0 || left->first != NULL;
}

/* Adds the images of one class. empty: what to say if there are none. */
static bool add_class(
    split_files *split, const char *class, int32_t label, const char *empty, fault *f)
{
    names found = {0}, others = {0}, folders = {0};
    char *path = path_join(split->folder, "", class);
    if (path == NULL)
        return dataset_no_memory(f, split->folder);
    bool good = list_folder(path, &found, &others, &folders, f);
    if (good && found.count == 0)
        good = fault_set(f, CODE_DATA, "%s: %s", path, empty);
    int32_t *grown =
        good ? realloc(split->label, (split->files.count + found.count + 1) * sizeof *grown) : NULL;
    if (grown != NULL)
        split->label = grown;
    if (good && (grown == NULL || !leave_out(&split->others, class, &others) ||
                    !leave_out(&split->folders, class, &folders)))
        good = dataset_no_memory(f, path);
    for (size_t i = 0; good && i < found.count; ++i) {
        if (names_add(&split->files, path_join(class, "", found.at[i])))
            split->label[split->files.count - 1] = label;
        else
            good = dataset_no_memory(f, path);
    }
    names_close(&found);
    names_close(&others);
    names_close(&folders);
    free(path);
    return good;
}

/* Says which files and folders are left out, and which classes of `all` have no folder among
 * `found`. */
static void tell(
    const dataset_options *options, const split_files *split, const names *all, const names *found)
{
    char note[MESSAGE_SIZE];
    size_t missing = 0, first = 0;
    for (size_t i = all->count; i-- > 0;)
        if (class_of(found, all->at[i]) < 0) {
            first = i;
            ++missing;
        }
    if (options->hear != NULL && split->others.count > 0) {
        (void)snprintf(note, sizeof note,
            "%s: %zu files are no .jpg, .jpeg or .png and are left out, %s among them",
            split->folder, split->others.count, split->others.first);
        options->hear(options->hear_user, note);
    }
    if (options->hear != NULL && split->folders.count > 0) {
        (void)snprintf(note, sizeof note, "%s: %zu folders in classes are left out, %s among them",
            split->folder, split->folders.count, split->folders.first);
        options->hear(options->hear_user, note);
    }
    if (options->hear != NULL && missing > 0) {
        (void)snprintf(note, sizeof note, "%s: %zu of %zu classes are missing, %s among them",
            split->folder, missing, all->count, all->at[first]);
        options->hear(options->hear_user, note);
    }
}

/* The file of a mask, DIR/SPLIT/masks/NAME.png; NULL: memory is out. image: "images/NAME.jpg" */
static char *mask_path(const split_files *split, const char *image)
{
    const char *name = strchr(image, '/') + 1;
    const int length = (int)(strrchr(name, '.') - name);
    const size_t size = strlen(split->folder) + sizeof "/masks/.png" + (size_t)length;
    char *path = malloc(size);
    if (path != NULL)
        (void)snprintf(path, size, "%s/masks/%.*s.png", split->folder, length, name);
    return path;
}

/* Fails where a mask is missing, or is that of two images. */
static bool check_masks(const split_files *split, fault *f)
{
    names masks = {0};
    bool good = true;
    for (size_t i = 0; good && i < split->files.count; ++i) {
        struct stat info;
        char *path = mask_path(split, split->files.at[i]);
        if (!names_add(&masks, path))
            good = dataset_no_memory(f, split->folder);
        else if (stat(path, &info) != 0)
            good = fault_set(f, CODE_DATA, "%s: %s; it is the mask of %s", path, strerror(errno),
                split->files.at[i]);
    }
    sort(&masks);
    for (size_t i = 1; good && i < masks.count; ++i)
        if (strcmp(masks.at[i - 1], masks.at[i]) == 0)
            good = fault_set(f, CODE_DATA, "%s: the mask of two images", masks.at[i]);
    names_close(&masks);
    return good;
}

/* Lists the images of a split whose pixels have labels. */
static bool list_masked(split_files *split, const dataset_options *options, fault *f)
{
    const names none = {0};
    if (!add_class(split, "images", 0,
            "no .jpg, .jpeg or .png files; expected images/NAME.jpg and masks/NAME.png in train, "
            "and in val or test",
            f) ||
        !check_masks(split, f))
        return false;
    tell(options, split, &none, &none);
    return true;
}

/* Lists a split's files. The classes of train are those of the set. */
static bool list_split(folder_set *set, dataset_split which, const char *dir, const char *name,
    const dataset_options *options, fault *f)
{
    split_files *split = &set->split[which];
    names found = {0};
    split->folder = path_join(dir, "", name);
    if (split->folder == NULL)
        return dataset_no_memory(f, dir);
    if (set->labels > 0)
        return list_masked(split, options, f);
    names *classes = which == DATASET_TRAIN ? &set->classes : &found;
    bool good = list_folder(split->folder, classes, NULL, NULL, f);
    for (size_t i = 0; good && i < classes->count; ++i) {
        const int32_t label = class_of(&set->classes, classes->at[i]);
        if (label < 0)
            good = fault_set(
                f, CODE_DATA, "%s/%s: train has no such class", split->folder, classes->at[i]);
        else
            good = add_class(split, classes->at[i], label,
                "a class without .jpg, .jpeg or .png files; fill the folder, or remove it", f);
    }
    if (good && split->files.count == 0)
        good =
            fault_set(f, CODE_DATA, "%s: no folders with .jpg, .jpeg or .png files", split->folder);
    else if (good && split->files.count > INT32_MAX)
        good = fault_set(f, CODE_DATA, "%s: too many files", split->folder);
    if (good)
        tell(options, split, &set->classes, classes);
    names_close(&found);
    return good;
}

/* For choose_window: a random window; without augment the centred one, or the whole image. */
typedef struct chooser {
    const augment_options *augment;
    uint32_t index;
    bool whole;
    uint32_t width, height; /* of the image, */
    image_window window;    /* and what was chosen */
} chooser;

/* Uniform in [low, high). */
static double uniform(rng *r, double low, double high)
{
    return low + (high - low) * ((double)rng_next(r) * 0x1p-32);
}

static image_window draw_window(const chooser *c, uint32_t width, uint32_t height)
{
    const double w = width, h = height, shorter = w < h ? w : h;
    image_window window = {0};
    if (c->augment != NULL) {
        rng r = rng_open(c->augment->seed, RNG_AUGMENT, c->augment->epoch, c->index);
        (void)rng_next(&r); /* the draw of draws_mirror */
        for (int i = 0; i < TRIES; ++i) {
            const double area = w * h * uniform(&r, 0.08, 1);
            const double ratio = exp(uniform(&r, log(3.0 / 4), log(4.0 / 3)));
            window.width = floor(sqrt(area * ratio) + 0.5);
            window.height = floor(sqrt(area / ratio) + 0.5);
            if (window.width >= 1 && window.height >= 1 && window.width <= w &&
                window.height <= h) {
                window.left = floor(uniform(&r, 0, w - window.width + 1));
                window.top = floor(uniform(&r, 0, h - window.height + 1));
                return window;
            }
        }
    }
    if (c->whole)
        return (image_window){0, 0, w, h};
    const double side = c->augment != NULL ? shorter : shorter * 7 / 8;
    return (image_window){(w - side) / 2, (h - side) / 2, side, side};
}

static image_window choose_window(void *user, uint32_t width, uint32_t height)
{
    chooser *c = user;
    c->width = width;
    c->height = height;
    return c->window = draw_window(c, width, height);
}

static bool draws_mirror(const augment_options *augment, uint32_t index)
{
    rng r = rng_open(augment->seed, RNG_AUGMENT, augment->epoch, index);
    return rng_next(&r) >> 31 != 0;
}

/* A whole file. On failure *code is CODE_MEMORY if the file may be good, else CODE_DATA. */
static uint8_t *read_bytes(const char *path, size_t *count, int *code, const char **why)
{
    uint8_t *bytes = NULL;
    uint64_t size;
    FILE *stream = plain_file_open(path, &size, why);
    *code = CODE_DATA;
    if (stream == NULL) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            *code = CODE_MEMORY;
        return NULL;
    }
    *why = "reading it failed";
    if (size > 0 && size < INT32_MAX) {
        *count = (size_t)size;
        bytes = malloc(*count);
        if (bytes == NULL) {
            *why = image_file_no_memory;
            *code = CODE_MEMORY;
        } else if (fread(bytes, 1, *count, stream) != *count) {
            free(bytes);
            bytes = NULL;
        }
    } else {
        *why = "it is empty, or larger than 2 GiB";
    }
    (void)fclose(stream);
    return bytes;
}

/* Reads a file and has it decoded; takes the path, NULL if memory is out. */
static bool decode_file(char *path, const split_files *split,
    bool (*decode)(
        void *user, const uint8_t *bytes, size_t count, const char **why, char message[256]),
    void *user, fault *f)
{
    const char *why = image_file_no_memory;
    char message[256];
    size_t count = 0;
    int code = CODE_MEMORY;
    uint8_t *bytes = path != NULL ? read_bytes(path, &count, &code, &why) : NULL;
    if (bytes != NULL) {
        const bool good = decode(user, bytes, count, &why, message);
        code = good ? CODE_OK : why == image_file_no_memory ? CODE_MEMORY : CODE_DATA;
    }
    if (code != CODE_OK)
        (void)fault_set(f, code, "%s: %s", path != NULL ? path : split->folder, why);
    free(bytes);
    free(path);
    return code == CODE_OK;
}

/* What a sample is decoded to. */
typedef struct sample {
    const folder_set *set;
    chooser chooser;
    bool mirror;
    uint8_t *pixels;
    int32_t *labels;
} sample;

static bool decode_image(
    void *user, const uint8_t *bytes, size_t count, const char **why, char message[256])
{
    sample *s = user;
    return image_file_decode(
        bytes, count, choose_window, &s->chooser, s->set->side, s->mirror, s->pixels, why, message);
}

static bool decode_mask(
    void *user, const uint8_t *bytes, size_t count, const char **why, char message[256])
{
    const sample *s = user;
    const chooser *c = &s->chooser;
    if (!image_file_decode_mask(bytes, count, c->width, c->height, c->window, s->set->side,
            s->mirror, s->labels, why, message))
        return false;
    for (size_t i = 0; i < (size_t)s->set->side * s->set->side; ++i) {
        if (s->labels[i] == NO_LABEL) {
            s->labels[i] = CLPRUNE_IGNORED;
        } else if ((uint32_t)s->labels[i] >= s->set->labels) {
            (void)snprintf(message, 256,
                "a pixel has the label %d, but there are %lu classes, from 0 on; 255 is no label",
                (int)s->labels[i], (unsigned long)s->set->labels);
            *why = message;
            return false;
        }
    }
    return true;
}

static bool fetch(const void *state, dataset_split which, uint32_t index,
    const augment_options *augment, uint8_t *pixels, int32_t *labels, fault *f)
{
    const folder_set *set = state;
    const split_files *split = &set->split[which];
    /* Spread, so that a limit leaves images of all classes. */
    const size_t at = (size_t)((uint64_t)index * split->files.count / set->count[which]);
    const char *name = split->files.at[at];
    sample s = {.set = set,
        .chooser = {.augment = augment, .index = index, .whole = set->labels > 0},
        .mirror = augment != NULL && draws_mirror(augment, index),
        .pixels = pixels,
        .labels = labels};
    *labels = split->label[at];
    return decode_file(path_join(split->folder, "", name), split, decode_image, &s, f) &&
           (set->labels == 0 || decode_file(mask_path(split, name), split, decode_mask, &s, f));
}

static void destroy(void *state)
{
    folder_set *set = state;
    names_close(&set->classes);
    for (int i = 0; i < 2; ++i) {
        names_close(&set->split[i].files);
        free(set->split[i].folder);
        free(set->split[i].label);
        free(set->split[i].others.first);
        free(set->split[i].folders.first);
    }
    free(set);
}

/* The checksums are of the training files: their names, and apart from them their sizes, so that a
 * file may break, or be mended, during a run. Of very many files some are looked at. */
static void sum_up(const folder_set *set, dataset_source *source)
{
    const split_files *train = &set->split[DATASET_TRAIN];
    const size_t count = train->files.count, stride = 1 + count / MOST_SIZES;
    uint64_t hash = fnv1a(FNV_START, &(uint64_t){count}, sizeof(uint64_t));
    for (size_t i = 0; i < set->classes.count; ++i) {
        const char *name = set->classes.at[i];
        hash = fnv1a(hash, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < count; ++i) {
        const char *name = train->files.at[i];
        hash = fnv1a(hash, name, strlen(name) + 1);
    }
    source->checksum = hash;
    source->sizes = FNV_START;
    for (size_t i = 0; i < count; i += stride) {
        char path[4096];
        struct stat info = {0};
        (void)snprintf(path, sizeof path, "%s/%s", train->folder, train->files.at[i]);
        (void)stat(path, &info); /* size 0: reading it will fail */
        source->sizes = fnv1a(source->sizes, &(uint64_t){(uint64_t)info.st_size}, sizeof(uint64_t));
        char *mask = set->labels > 0 ? mask_path(train, train->files.at[i]) : NULL;
        if (mask != NULL && stat(mask, &info) == 0)
            source->sizes =
                fnv1a(source->sizes, &(uint64_t){(uint64_t)info.st_size}, sizeof(uint64_t));
        free(mask);
    }
}

bool dataset_folder(
    const char *dir, const dataset_options *options, dataset_source *source, fault *f)
{
    const uint32_t limit[2] = {options->train_limit, options->test_limit};
    const uint32_t side = options->image_size != 0         ? options->image_size
                          : options->usual_image_size != 0 ? options->usual_image_size
                                                           : DEFAULT_SIDE;
    if (!image_file_readable())
        return fault_set(f, CODE_USAGE,
            "%s: this program was built without libturbojpeg and libpng (Debian: "
            "libturbojpeg0-dev, "
            "libpng-dev) and reads no JPEG or PNG files",
            dir);
    if (side > MOST_SIDE)
        return fault_set(
            f, CODE_USAGE, "%s: image size %lu is above %d", dir, (unsigned long)side, MOST_SIDE);
    if (options->pixels && options->classes == 0)
        return fault_set(f, CODE_USAGE, "%s: masks do not say how many classes there are", dir);
    folder_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return dataset_no_memory(f, dir);
    set->side = side;
    set->labels = options->pixels ? options->classes : 0;
    dataset_search search = {dir, 0};
    const char *test = is_folder(&search, "val") ? "val" : "test";
    bool good = dataset_search_check(&search, f);
    if (good)
        good = list_split(set, DATASET_TRAIN, dir, "train", options, f);
    if (good)
        good = list_split(set, DATASET_TEST, dir, test, options, f);
    const size_t classes = set->classes.count;
    if (good && set->labels == 0 && classes < 2)
        good = fault_set(f, CODE_DATA, "%s/train: one class is too few to learn", dir);
    if (good && options->classes != 0 && options->classes < classes)
        good = fault_set(f, CODE_USAGE, "%s: train has %lu classes, not %lu", dir,
            (unsigned long)classes, (unsigned long)options->classes);
    if (!good) {
        destroy(set);
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        const uint32_t count = (uint32_t)set->split[i].files.count;
        source->count[i] = set->count[i] = limit[i] != 0 && limit[i] < count ? limit[i] : count;
    }
    sum_up(set, source);
    dataset_by_imagenet(source);
    (void)snprintf(source->tests, sizeof source->tests, "%s", set->split[DATASET_TEST].folder);
    source->name = set->labels > 0 ? "masks" : "folder";
    source->pixels = set->labels > 0;
    source->classes = options->classes != 0 ? options->classes : (uint32_t)classes;
    source->image_size = side;
    source->state = set;
    source->fetch = fetch;
    source->destroy = destroy;
    return true;
}
