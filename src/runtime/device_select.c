#include "runtime/device_select.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/check.h"

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
} device_table;

/* Lists the devices of all platforms; the caller frees table->devices. */
static clprune_status enumerate(device_table *table)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL;
    cl_platform_id *platforms = NULL;
    cl_device_id *devices = NULL;
    *table = (device_table){NULL, 0};

    cl_uint platform_count = 0;
    const cl_int code = clGetPlatformIDs(0, NULL, &platform_count);
    if (code == PLATFORM_NOT_FOUND || (code == CL_SUCCESS && platform_count == 0))
        goto done;
    TRY_CL(code);
    platforms = calloc(platform_count, sizeof(cl_platform_id));
    REQUIRE(platforms != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a list of %u platforms",
        platform_count);
    TRY_CL(clGetPlatformIDs(platform_count, platforms, NULL));
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_uint count = 0;
        const cl_int none = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, NULL, &count);
        if (none == CL_DEVICE_NOT_FOUND || count == 0)
            continue; /* an installed driver without its hardware */
        TRY_CL(none);
        free(devices);
        devices = calloc(count, sizeof(cl_device_id));
        found_device *grown =
            realloc(table->devices, (table->count + count) * sizeof *table->devices);
        if (grown != NULL)
            table->devices = grown;
        REQUIRE(devices != NULL && grown != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
            "no memory for a list of %u devices", count);
        TRY_CL(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, count, devices, NULL));
        for (cl_uint d = 0; d < count; d++)
            table->devices[table->count++] = (found_device){platforms[p], devices[d], p, d};
    }
done:
    free(platforms);
    free(devices);
    if (status != CLPRUNE_SUCCESS) {
        free(table->devices);
        *table = (device_table){NULL, 0};
    }
    return status;
}

static void device_text(cl_device_id device, cl_device_info what, size_t size, char *text)
{
    char whole[1024] = "";
    if (clGetDeviceInfo(device, what, sizeof whole - 1, whole, NULL) != CL_SUCCESS)
        whole[0] = '\0';
    (void)snprintf(text, size, "%.*s", (int)size - 1, whole);
}

clprune_device_info clprune__device_describe(cl_device_id device)
{
    clprune_device_info info = {.type = CL_DEVICE_TYPE_DEFAULT, .max_work_group = 1};
    char name[1024] = "";
    cl_platform_id platform;
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL) ==
            CL_SUCCESS &&
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS)
        (void)snprintf(info.platform, sizeof info.platform, "%.127s", name);
    device_text(device, CL_DEVICE_NAME, sizeof info.device, info.device);
    device_text(device, CL_DEVICE_VENDOR, sizeof info.vendor, info.vendor);
    device_text(device, CL_DRIVER_VERSION, sizeof info.driver, info.driver);
    device_text(device, CL_DEVICE_VERSION, sizeof info.version, info.version);
    /* What is not answered stays as it is. */
    const struct {
        cl_device_info what;
        size_t size;
        void *to;
    } fact[] = {
        {CL_DEVICE_TYPE, sizeof info.type, &info.type},
        {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof info.global_memory, &info.global_memory},
        {CL_DEVICE_LOCAL_MEM_SIZE, sizeof info.local_memory, &info.local_memory},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof info.max_allocation, &info.max_allocation},
        {CL_DEVICE_MAX_COMPUTE_UNITS, sizeof info.compute_units, &info.compute_units},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof info.vector_width, &info.vector_width},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof info.max_work_group, &info.max_work_group},
    };
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
        (void)clGetDeviceInfo(device, fact[i].what, fact[i].size, fact[i].to, NULL);
    return info;
}

static clprune_device_info describe(const found_device *found)
{
    clprune_device_info info = clprune__device_describe(found->device);
    info.platform_index = found->platform_index;
    info.device_index = found->device_index;
    return info;
}

clprune_status clprune_device_list(size_t capacity, clprune_device_info *devices, size_t *count)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL;
    device_table table = {NULL, 0};
    REQUIRE(count != NULL, CLPRUNE_INVALID_ARGUMENT, "count is NULL");
    *count = 0;
    REQUIRE(devices != NULL || capacity == 0, CLPRUNE_INVALID_ARGUMENT, "devices is NULL");
    TRY(clprune__claim_opencl());
    TRY(enumerate(&table));
    for (size_t i = 0; i < table.count && i < capacity; i++)
        devices[i] = describe(&table.devices[i]);
    *count = table.count;
done:
    free(table.devices);
    return status;
}

static bool contains(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (
            part[i] != '\0' && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
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
    if (!isdigit((unsigned char)text[0]) || sscanf(text, "%9lu:%9lu%c", &p, &d, &rest) != 2)
        return false;
    *platform = p;
    *device = d;
    return true;
}

static bool matches(const found_device *found, const char *selection)
{
    size_t platform, device;
    if (parse_indices(selection, &platform, &device))
        return found->platform_index == platform && found->device_index == device;
    const clprune_device_info info = describe(found);
    return contains(info.device, selection) || contains(info.platform, selection);
}

clprune_status clprune__device_select(
    const char *selection, cl_platform_id *platform, cl_device_id *device)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL;
    device_table table;
    TRY(enumerate(&table));
    const found_device *chosen = NULL;
    const bool any = selection == NULL || selection[0] == '\0';
    for (size_t i = 0; i < table.count && chosen == NULL; i++) {
        cl_device_type type = 0;
        if (any)
            (void)clGetDeviceInfo(
                table.devices[i].device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
        if (any ? (type & CL_DEVICE_TYPE_GPU) != 0 : matches(&table.devices[i], selection))
            chosen = &table.devices[i];
    }
    if (any && chosen == NULL && table.count > 0)
        chosen = &table.devices[0];
    REQUIRE(table.count > 0, CLPRUNE_NO_DEVICE,
        "no OpenCL device is installed; install a driver, on Debian for CPUs: pocl-opencl-icd");
    REQUIRE(chosen != NULL, CLPRUNE_NO_DEVICE,
        "none of the %zu OpenCL devices matches \"%.100s\"; clprune-info lists them", table.count,
        selection);
    *platform = chosen->platform;
    *device = chosen->device;
done:
    free(table.devices);
    return status;
}
