/* What the library reads from the environment, a value a line: CLPRUNE_MEM_LIMIT,
 * CLPRUNE_CACHE_LIMIT, CLPRUNE_PRECISION, CLPRUNE_DEBUG, CLPRUNE_VERBOSE, CLPRUNE_DEVICE and a
 * cache folder. Files that values name are in a folder of ours. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clprune/clprune.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_files.h"
#include "runtime/context/context_private.h"
#include "runtime/context/device_select.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/disk_cache.h"

enum { VALUE = 512 };

static void set(const char *name, const char *value)
{
    FUZZ_CHECK(setenv(name, value, 1) == 0);
}

/* While it is entered, relative paths lie in our folder, and what goes to stderr is dropped. */
static void enter_folder(bool enter)
{
    static int here = -1;
    static FILE *sink, *usual;
    if (sink == NULL) {
        sink = memory_files_sink();
        usual = stderr;
        here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        FUZZ_CHECK(sink != NULL && here >= 0);
    }
#ifdef __GLIBC__ /* others have no variable */
    stderr = enter ? sink : usual;
#endif
    if (fuzz_in_memory())
        memory_files_here(enter);
    else
        FUZZ_CHECK((enter ? chdir(fuzz_folder()) : fchdir(here)) == 0);
}

/* A context that would run commands, so that it opens its verbose file, in our folder. Nothing
 * runs. */
static void be_verbose(clprune_context *context, const char *value)
{
    enter_folder(true);
    clprune__backend live = *context->backend;
    live.runs = true;
    context->backend = &live;
    set("CLPRUNE_VERBOSE", value);
    const clprune_status status = clprune__verbose_open(context);
    FUZZ_CHECK(status == CLPRUNE_SUCCESS || status == CLPRUNE_INVALID_ARGUMENT);
    set("CLPRUNE_VERBOSE", "");
    clprune__verbose_close(context);
    context->backend = &live; /* what verbose had put before it is gone */
    clprune_context_destroy(context);
    enter_folder(false);
}

static void open_folder(const char *value)
{
    char path[2 * VALUE + 64];
    const char *reason = NULL;
    (void)snprintf(path, sizeof path, "%s/caches/%s", fuzz_folder(), value);
    if (strstr(value, "..") != NULL)
        return;
    fuzz_subfolder("caches");
    char *made = clprune__disk_folder(path, &reason);
    FUZZ_CHECK((made != NULL) == (reason == NULL));
    free(made);
    fuzz_remove("caches");
}

static bool is_above_64_bits(const char *value)
{
    const size_t zeros = strspn(value, "0"), digits = strspn(value + zeros, "0123456789");
    return digits > 20 || (digits == 20 && strncmp(value + zeros, "18446744073709551615", 20) > 0);
}

void fuzz_target(fuzz_input in)
{
    char value[VALUE];
    clprune_context *context = NULL;
    set("CLPRUNE_TUNING", "");
    set("CLPRUNE_VERBOSE", "");
    set("CLPRUNE_MEM_LIMIT", fuzz_line(&in, value, sizeof value));
    const bool too_large = is_above_64_bits(value);
    set("CLPRUNE_CACHE_LIMIT", fuzz_line(&in, value, sizeof value));
    set("CLPRUNE_PRECISION", fuzz_line(&in, value, sizeof value));
    set("CLPRUNE_DEBUG", fuzz_line(&in, value, sizeof value));
    const clprune_status status = clprune_context_create_dry(NULL, NULL, &context);
    FUZZ_CHECK((status == CLPRUNE_SUCCESS) == (context != NULL));
    FUZZ_CHECK(status == CLPRUNE_SUCCESS || status == CLPRUNE_INVALID_ARGUMENT);
    FUZZ_CHECK(status != CLPRUNE_SUCCESS || !too_large);
    if (status != CLPRUNE_SUCCESS)
        FUZZ_CHECK(strstr(clprune_last_error(NULL), "CLPRUNE_") != NULL);
    (void)fuzz_line(&in, value, sizeof value);
    if (context != NULL && strchr(value, '/') == NULL && strlen(value) < 200) {
        be_verbose(context, value);
        if (strlen(value) > 2 && value[strspn(value, "12:.")] != '\0')
            fuzz_remove(value + 2);
    } else {
        clprune_context_destroy(context);
    }
    (void)fuzz_line(&in, value, sizeof value);
    if (value[0] != '\0') {
        cl_platform_id platform;
        cl_device_id device;
        const clprune_status found = clprune__device_select(NULL, value, &platform, &device);
        FUZZ_CHECK(found == CLPRUNE_SUCCESS || found == CLPRUNE_NO_DEVICE);
    }
    (void)fuzz_line(&in, value, sizeof value);
    if (value[0] != '\0')
        open_folder(value);
}
