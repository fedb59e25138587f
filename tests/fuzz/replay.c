/* main of a target without libFuzzer: runs it on each file named, and on each file of the folders
 * named, once with files in memory and once with those of the system. Ends with 1 where there is
 * none: an empty corpus shows nothing. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static size_t runs;

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL);
    FUZZ_CHECK(fseek(file, 0, SEEK_END) == 0);
    const long end = ftell(file);
    FUZZ_CHECK(end >= 0);
    rewind(file);
    uint8_t *data = malloc((size_t)end > 0 ? (size_t)end : 1); /* exactly: overreads show */
    FUZZ_CHECK(data != NULL);
    FUZZ_CHECK(fread(data, 1, (size_t)end, file) == (size_t)end);
    (void)fclose(file);
    for (int disk = 0; disk < 2; ++disk) {
        fuzz_on_disk = disk == 1;
        (void)LLVMFuzzerTestOneInput(data, (size_t)end);
    }
    free(data);
    ++runs;
}

static void run_path(const char *path)
{
    struct stat info;
    FUZZ_CHECK(stat(path, &info) == 0);
    if (!S_ISDIR(info.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **entries;
    const int count = scandir(path, &entries, NULL, alphasort);
    FUZZ_CHECK(count >= 0);
    for (int i = 0; i < count; ++i) {
        char below[4096];
        const int length = snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name);
        FUZZ_CHECK(length > 0 && (size_t)length < sizeof below);
        if (entries[i]->d_name[0] != '.')
            run_file(below);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i)
        run_path(argv[i]);
    (void)printf("%zu inputs, no finding\n", runs);
    return runs > 0 ? 0 : 1;
}
