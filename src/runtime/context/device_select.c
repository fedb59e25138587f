#include "runtime/context/device_select.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "runtime/context/check.h"

/* The ICD loader answers "no platform" with this code (cl_khr_icd). */
#define PLATFORM_NOT_FOUND (-1001)

typedef struct found_device {
    cl_platform_id platform;
    cl_device_id device;
    size_t platform_index, device_index;
} found_device;

typedef struct device_table {
    found_device *devices;
    size_t count;
    cl_uint platforms;
    char refusal[256]; /* of the last platform that did not list its devices; "": none */
} device_table;

/* Drivers initialise in the first call that lists their devices. In PoCL a second thread does not
 * wait for that and sees half-initialised devices; so one thread lists at a time. */
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;

static cl_int list_platforms(cl_uint capacity, cl_platform_id *platforms, cl_uint *count)
{
    (void)pthread_mutex_lock(&listing);
    const cl_int code = clGetPlatformIDs(capacity, platforms, count);
    (void)pthread_mutex_unlock(&listing);
    return code;
}

static cl_int list_devices(
    cl_platform_id platform, cl_uint capacity, cl_device_id *devices, cl_uint *count)
{
    (void)pthread_mutex_lock(&listing);
    const cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, capacity, devices, count);
    (void)pthread_mutex_unlock(&listing);
    return code;
}

/* The name of a platform, cut to `size` bytes; "" if the query fails. */
static cl_int platform_name(cl_platform_id platform, size_t size, char *name)
{
    char whole[1024] = "";
    const cl_int code =
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof whole - 1, whole, NULL);
    (void)snprintf(name, size, "%.*s", (int)size - 1, code == CL_SUCCESS ? whole : "");
    return code;
}

enum { LEAST_STACK = 128 * 1024 }; /* PoCL 3.1 needs 96 KiB to list devices, and 128 for kernels */

/* Lists the devices of all platforms; the caller frees table->devices. A platform that fails is
 * passed over, since another one may serve: an installed driver may lack its hardware. */
static clprune_status enumerate(clprune_context *context, device_table *table)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_platform_id *platforms = NULL;
    cl_device_id *devices = NULL;
    *table = (device_table){.devices = NULL};
    const size_t stack = clprune__system_stack_limit();
    REQUIRE_DONE(stack >= LEAST_STACK, CLPRUNE_INVALID_ARGUMENT,
        "the stack may have %zu KiB, with which drivers crash, expected at least %d; ulimit -s "
        "sets it",
        stack / 1024, LEAST_STACK / 1024);
    const char *pocl = getenv("POCL_CACHE_DIR");
    REQUIRE_DONE(pocl == NULL || pocl[0] != '\0', CLPRUNE_INVALID_ARGUMENT,
        "POCL_CACHE_DIR is empty, which ends a process where PoCL is installed; unset it, or name "
        "a folder");

    cl_uint platform_count = 0;
    const cl_int code = list_platforms(0, NULL, &platform_count);
    if (code == PLATFORM_NOT_FOUND || (code == CL_SUCCESS && platform_count == 0))
        goto done;
    TRY_CODE_DONE("clGetPlatformIDs", code);
    table->platforms = platform_count;
    platforms = calloc(platform_count, sizeof(cl_platform_id));
    REQUIRE_DONE(platforms != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a list of %u platforms", platform_count);
    TRY_CODE_DONE("clGetPlatformIDs", list_platforms(platform_count, platforms, NULL));
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_uint count = 0;
        const cl_int listed = list_devices(platforms[p], 0, NULL, &count);
        if (listed != CL_SUCCESS || count == 0) {
            char name[100];
            (void)platform_name(platforms[p], sizeof name, name);
            (void)snprintf(table->refusal, sizeof table->refusal,
                "clGetDeviceIDs of platform %u (%s) found none: %s (%d)", (unsigned)p, name,
                clprune__cl_name(listed), (int)listed);
            if (listed != CL_SUCCESS && listed != CL_DEVICE_NOT_FOUND)
                clprune__log(context, CLPRUNE_LOG_WARNING, "%s", table->refusal);
            continue;
        }
        free(devices);
        devices = calloc(count, sizeof(cl_device_id));
        found_device *grown =
            realloc(table->devices, (table->count + count) * sizeof *table->devices);
        if (grown != NULL)
            table->devices = grown;
        REQUIRE_DONE(devices != NULL && grown != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
            "no memory for a list of %u devices", count);
        TRY_CODE_DONE("clGetDeviceIDs", list_devices(platforms[p], count, devices, NULL));
        for (cl_uint d = 0; d < count; d++)
            table->devices[table->count++] = (found_device){platforms[p], devices[d], p, d};
    }
done:
    free(platforms);
    free(devices);
    if (status != CLPRUNE_SUCCESS) {
        free(table->devices);
        *table = (device_table){.devices = NULL};
    }
    return status;
}

/* A text of a device, cut to `size` bytes; "" if the query fails. */
static cl_int device_text(cl_device_id device, cl_device_info what, size_t size, char *text)
{
    char whole[1024] = "";
    const cl_int code = clGetDeviceInfo(device, what, sizeof whole - 1, whole, NULL);
    (void)snprintf(text, size, "%.*s", (int)size - 1, code == CL_SUCCESS ? whole : "");
    return code;
}

clprune_status clprune__device_describe(
    clprune_context *context, cl_device_id device, clprune_device_info *info)
{
#define FACT(what, field, is_text)                                                                 \
    {                                                                                              \
        what, "clGetDeviceInfo(" #what ")", sizeof info->field, &info->field, is_text              \
    }
    const struct {
        cl_device_info what;
        const char *query;
        size_t size;
        void *to;
        bool is_text;
    } facts[] = {
        FACT(CL_DEVICE_NAME, device, true),
        FACT(CL_DEVICE_VENDOR, vendor, true),
        FACT(CL_DRIVER_VERSION, driver, true),
        FACT(CL_DEVICE_VERSION, version, true),
        FACT(CL_DEVICE_TYPE, type, false),
        FACT(CL_DEVICE_GLOBAL_MEM_SIZE, global_memory, false),
        FACT(CL_DEVICE_LOCAL_MEM_SIZE, local_memory, false),
        FACT(CL_DEVICE_MAX_MEM_ALLOC_SIZE, max_allocation, false),
        FACT(CL_DEVICE_MAX_COMPUTE_UNITS, compute_units, false),
        FACT(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, vector_width, false),
        FACT(CL_DEVICE_MAX_WORK_GROUP_SIZE, max_work_group, false),
    };
#undef FACT
    clprune_status status = CLPRUNE_SUCCESS;
    *info = (clprune_device_info){.type = 0};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const cl_int code =
            facts[i].is_text
                ? device_text(device, facts[i].what, facts[i].size, facts[i].to)
                : clGetDeviceInfo(device, facts[i].what, facts[i].size, facts[i].to, NULL);
        if (code != CL_SUCCESS)
            status = clprune__fail_cl(context, code, __FILE__, __LINE__, facts[i].query);
    }
    cl_platform_id platform;
    TRY_CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL));
    TRY_CODE("clGetPlatformInfo(CL_PLATFORM_NAME)",
        platform_name(platform, sizeof info->platform, info->platform));
    return status;
}

clprune_status clprune_device_list(size_t capacity, clprune_device_info *devices, size_t *count)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL;
    device_table table = {.devices = NULL};
    REQUIRE_DONE(count != NULL, CLPRUNE_INVALID_ARGUMENT, "count is NULL");
    *count = 0;
    REQUIRE_DONE(devices != NULL || capacity == 0, CLPRUNE_INVALID_ARGUMENT, "devices is NULL");
    TRY_DONE(clprune__claim_opencl());
    TRY_DONE(enumerate(context, &table));
    for (size_t i = 0; i < table.count && i < capacity; i++) {
        const found_device *found = &table.devices[i];
        (void)clprune__device_describe(context, found->device, &devices[i]);
        devices[i].platform_index = found->platform_index;
        devices[i].device_index = found->device_index;
    }
    *count = table.count;
done:
    free(table.devices);
    return status;
}

/* Letters of ASCII alone: tolower() leaves I as it is in a Turkish program. */
static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool contains(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (part[i] != '\0' && lower(text[i]) == lower(part[i]))
            i++;
        if (part[i] == '\0')
            return true;
    }
    return false;
}

/* Parses "p:d"; false if the text has another form. */
static bool parse_indices(const char *text, size_t *platform, size_t *device)
{
    unsigned long p, d;
    char rest;
    if (text[0] < '0' || text[0] > '9' || sscanf(text, "%9lu:%9lu%c", &p, &d, &rest) != 2)
        return false;
    *platform = p;
    *device = d;
    return true;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* A query of a device and what it returned. */
typedef struct answer {
    const char *query;
    cl_int code;
} answer;

/* Whether a device matches a selection, indices or part of a name; without one, whether it is a
 * GPU. *result is false if the query fails. */
static answer fits(const found_device *found, const char *selection, bool *result)
{
    size_t platform, device;
    answer a = {"", CL_SUCCESS};
    *result = false;
    if (selection == NULL || selection[0] == '\0') {
        cl_device_type type = 0;
        a.query = "clGetDeviceInfo(CL_DEVICE_TYPE)";
        a.code = clGetDeviceInfo(found->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
        *result = a.code == CL_SUCCESS && (type & CL_DEVICE_TYPE_GPU) != 0;
    } else if (parse_indices(selection, &platform, &device)) {
        *result = found->platform_index == platform && found->device_index == device;
    } else {
        char name[1024], of[1024];
        a.query = "clGetDeviceInfo(CL_DEVICE_NAME)";
        a.code = device_text(found->device, CL_DEVICE_NAME, sizeof name, name);
        if (a.code == CL_SUCCESS) {
            a.query = "clGetPlatformInfo(CL_PLATFORM_NAME)";
            a.code = platform_name(found->platform, sizeof of, of);
        }
        *result = a.code == CL_SUCCESS && (contains(name, selection) || contains(of, selection));
    }
    return a;
}

/* Fails with the reason why no device was found. */
static clprune_status refuse_all(clprune_context *context, const device_table *table)
{
    REQUIRE(table->platforms > 0, CLPRUNE_NO_DEVICE,
        "no OpenCL device is installed: the loader knows no driver; %s",
        clprune__system_driver_advice);
    REQUIRE(false, CLPRUNE_NO_DEVICE,
        "no OpenCL device is available: %s; check the driver and its permissions; PoCL needs a "
        "folder that it can write: set POCL_CACHE_DIR, or HOME",
        table->refusal);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__device_select(
    clprune_context *context, const char *selection, cl_platform_id *platform, cl_device_id *device)
{
    clprune_status status = CLPRUNE_SUCCESS;
    device_table table = {.devices = NULL};
    const found_device *chosen = NULL, *other = NULL; /* the first that answers */
    answer failed = {"", CL_SUCCESS};
    const bool any = selection == NULL || selection[0] == '\0';
    REQUIRE_DONE(any || !is_number(selection), CLPRUNE_NO_DEVICE,
        "the device is selected by \"%.100s\", a bare number; expected \"platform:device\" such as "
        "\"0:%.100s\", or a longer part of a name; clprune-info lists the devices",
        selection, selection);
    TRY_DONE(enumerate(context, &table));
    if (table.count == 0)
        TRY_DONE(refuse_all(context, &table));
    /* A device whose query fails is passed over, as a platform is. */
    for (size_t i = 0; i < table.count && chosen == NULL; i++) {
        const found_device *found = &table.devices[i];
        bool fit;
        const answer a = fits(found, selection, &fit);
        if (a.code != CL_SUCCESS) {
            clprune__log(context, CLPRUNE_LOG_WARNING, "%s of device %zu:%zu: %s (%d)", a.query,
                found->platform_index, found->device_index, clprune__cl_name(a.code), (int)a.code);
            failed = failed.code == CL_SUCCESS ? a : failed;
        } else if (fit) {
            chosen = found;
        } else if (other == NULL) {
            other = found;
        }
    }
    if (any && chosen == NULL)
        chosen = other;
    if (chosen == NULL)
        TRY_CODE_DONE(failed.query, failed.code);
    REQUIRE_DONE(chosen != NULL, CLPRUNE_NO_DEVICE,
        "none of the %zu OpenCL devices matches \"%.100s\"; clprune-info lists them%s%s",
        table.count, selection, table.refusal[0] != '\0' ? "; " : "", table.refusal);
    *platform = chosen->platform;
    *device = chosen->device;
done:
    free(table.devices);
    return status;
}
