/* dataset_missing.c: what to say of a folder that holds no set. */
#include "trainer/data/dataset_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/data/file_kind.h"
#include "trainer/files/plain_file.h"

enum { NAME = 256 };

/* What a folder has; of several, the first in the order of their bytes; "" without one. */
typedef struct contents {
    char images[NAME]; /* a folder with images */
    char python[NAME]; /* CIFAR's version for Python */
    bool train, test;  /* a folder of that name, or val */
} contents;

static bool has_images(const char *path)
{
    bool found = false;
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && !found && (entry = readdir(dir)) != NULL;)
        found = file_kind_ends_with(entry->d_name, ".jpg") ||
                file_kind_ends_with(entry->d_name, ".jpeg") ||
                file_kind_ends_with(entry->d_name, ".png");
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

static void keep_first(char kept[NAME], const char *name)
{
    if (kept[0] == '\0' || strcmp(name, kept) < 0)
        (void)snprintf(kept, NAME, "%s", name);
}

static void look_at(const char *dir, const char *name, contents *c)
{
    char path[4096];
    struct stat info;
    const int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (name[0] == '.' || length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode))
        return;
    c->train = c->train || strcmp(name, "train") == 0;
    c->test = c->test || strcmp(name, "val") == 0 || strcmp(name, "test") == 0;
    if (strcmp(name, "cifar-10-batches-py") == 0 || strcmp(name, "cifar-100-python") == 0)
        keep_first(c->python, name);
    if (has_images(path))
        keep_first(c->images, name);
}

bool dataset_missing(const char *dir, fault *f)
{
    struct stat info;
    contents c = {0};
    DIR *folder = NULL;
    if (stat(dir, &info) != 0)
        return fault_set(f, CODE_DATA, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        const char *why;
        uint64_t size;
        const int descriptor = plain_file_descriptor(dir, &size, &why);
        if (descriptor >= 0) {
            (void)file_kind_check(dir, descriptor, FILE_KIND_OF_TEXT, "a folder of images", f);
            (void)close(descriptor);
        }
        return fault_set(f, CODE_DATA, "%s: is no folder; name the one that has the files", dir);
    }
    if (access(dir, R_OK | X_OK) != 0 || (folder = opendir(dir)) == NULL)
        return fault_set(f, CODE_DATA, "%s: %s", dir, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        look_at(dir, entry->d_name, &c);
    (void)closedir(folder);
    if (c.train || c.test)
        return fault_set(f, CODE_DATA,
            "%s: has a folder %s, but %s; expected train/CLASS/*.jpg and val/CLASS/*.jpg", dir,
            c.train ? "train" : "val or test", c.train ? "neither val nor test" : "no train");
    if (c.images[0] != '\0')
        return fault_set(f, CODE_DATA,
            "%s: has images in %s; expected train/CLASS/*.jpg and val/CLASS/*.jpg", dir, c.images);
    if (c.python[0] != '\0')
        return fault_set(f, CODE_DATA,
            "%s: %s is the version for Python; expected the binary version", dir, c.python);
    return file_kind_check_folder(dir, f) &&
           fault_set(f, CODE_DATA,
               "%s: no data set there: expected files of CIFAR-10 (data_batch_1.bin ...), "
               "CIFAR-100 "
               "(train.bin), or IDX (train-images-idx3-ubyte ...), or train/CLASS/*.jpg and "
               "val/CLASS/*.jpg",
               dir);
}
