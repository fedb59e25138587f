#include "runtime/launch/program_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/version.h"
#include "core/sha256.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/compiler_memory.h"
#include "runtime/launch/defines.h"
#include "runtime/launch/disk_cache.h"
#include "runtime/launch/kernel_source.h"

/* Raise it when cached binaries of unchanged sources are no longer valid. */
#define CACHE_FORMAT 2

static const char *const order_defines[] = {"", " -DORDER=1", " -DORDER=2"};
/* PoCL parses a header of all built-in functions for each program, a third of the time of a build.
 * With its include guard defined it has the declarations of builtins.clh instead. */
static const char *const declare_builtins = "-D_OPENCL_H_ -DCLPRUNE_BUILTINS ";

/* FNV-1a, for the lookup in memory only. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static uint64_t hash_key(const char *name, const char *defines)
{
    return hash_text(hash_text(14695981039346656037u, name), defines);
}

static const clprune__kernel_source *find_source(const char *name)
{
    for (size_t i = 0; i < clprune__kernel_sources_count; i++)
        if (strcmp(clprune__kernel_sources[i].name, name) == 0)
            return &clprune__kernel_sources[i];
    return NULL;
}

/* The strings a program is made of: a #line and the text of each of its files. */
typedef struct source_list {
    const char *text[2 * CLPRUNE__KERNEL_PARTS];
    size_t size[2 * CLPRUNE__KERNEL_PARTS];
    cl_uint count;
    char line[CLPRUNE__KERNEL_PARTS][96];
} source_list;

static clprune_status collect_sources(
    clprune_context *context, const clprune__kernel_def *def, source_list *list)
{
    const clprune__kernel_source *source = find_source(def->file);
    REQUIRE(source != NULL, CLPRUNE_INTERNAL_ERROR, "%s is not embedded", def->file);
    list->count = 0;
    for (size_t i = 0; source->parts[i] != NULL; i++) {
        const clprune__kernel_part *part = source->parts[i];
        const int length =
            snprintf(list->line[i], sizeof list->line[i], "\n#line 1 \"cl/%s\"\n", part->name);
        list->text[list->count] = list->line[i];
        list->size[list->count++] = (size_t)length;
        list->text[list->count] = (const char *)part->text;
        list->size[list->count++] = part->size;
    }
    return CLPRUNE_SUCCESS;
}

/* The complete key of a cache file: everything its binary depends on. malloced. */
static char *disk_key(const clprune_context *context, const char *key, const source_list *list)
{
    clprune__sha256 hash;
    unsigned char digest[CLPRUNE__SHA256_BYTES];
    char hex[65];
    clprune__sha256_begin(&hash);
    for (cl_uint i = 0; i < list->count; i++)
        clprune__sha256_update(&hash, list->text[i], list->size[i]);
    clprune__sha256_end(&hash, digest);
    clprune__sha256_hex(digest, hex);
    const char *const format = "clprune %s, format %d\n%s\nsource %s\n%s\n";
    const int length = snprintf(
        NULL, 0, format, CLPRUNE_VERSION, CACHE_FORMAT, context->cache->device_key, hex, key);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text != NULL)
        (void)snprintf(text, (size_t)length + 1, format, CLPRUNE_VERSION, CACHE_FORMAT,
            context->cache->device_key, hex, key);
    return text;
}

static bool is_pocl(const clprune_context *context)
{
    return strcmp(context->facts.platform, "Portable Computing Language") == 0;
}

/* The build log as a new string; NULL: there is none. */
static char *build_log(const clprune_context *context, cl_program program)
{
    size_t size = 0;
    if (clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
        CL_SUCCESS)
        return NULL;
    char *log = calloc(size + 1, 1);
    if (log != NULL && clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, size,
                           log, NULL) != CL_SUCCESS) {
        free(log);
        log = NULL;
    }
    return log;
}

/* Fails with the build log. Compilers name the cause first, so a log that is too long loses its
 * end. */
static clprune_status build_failed(
    clprune_context *context, cl_program program, cl_int code, const char *key)
{
    enum { MOST_LOG = CLPRUNE__ERROR_TEXT - 4096 };
    char *log = build_log(context, program);
    const size_t length = log != NULL ? strlen(log) : 0;
    char cut[128] = "";
    if (length > MOST_LOG)
        (void)snprintf(
            cut, sizeof cut, "\n... and %zu more bytes of the build log", length - MOST_LOG);
    else if (is_pocl(context) && (log == NULL || strstr(log, "error:") == NULL))
        (void)snprintf(cut, sizeof cut,
            "\nPoCL gives no reason where its cache cannot be written or the disk is full: see "
            "POCL_CACHE_DIR, or HOME");
    const clprune_status status = clprune__fail(context, CLPRUNE_BUILD_FAILED, __FILE__, __LINE__,
        "clBuildProgram failed with %s (%d) for %s:\n%.*s%s", clprune__cl_name(code), (int)code,
        key, (int)MOST_LOG, log != NULL ? log : "(no build log)", cut);
    free(log);
    return status;
}

/* Makes a program from a verified binary; any failure means "compile instead". */
static cl_program load_binary(clprune_context *context, const char *key)
{
    clprune__program_cache *cache = context->cache;
    unsigned char *payload = NULL;
    size_t size = 0;
    const char *reason = NULL;
    cl_program program = NULL;
    const clprune__disk_result result =
        clprune__disk_load(cache->dir, key, &payload, &size, &reason);
    if (result == CLPRUNE__DISK_OK) {
        const unsigned char *binary = payload;
        cl_int code, binary_status;
        program = clCreateProgramWithBinary(
            context->cl, 1, &context->device, &size, &binary, &binary_status, &code);
        if (program != NULL &&
            clBuildProgram(program, 1, &context->device, "", NULL, NULL) != CL_SUCCESS) {
            (void)clReleaseProgram(program);
            program = NULL;
        }
        if (program == NULL)
            reason = "the driver refused the binary";
    }
    if (reason != NULL) {
        cache->stats.rejected += result != CLPRUNE__DISK_MISS;
        clprune__log(context, CLPRUNE_LOG_WARNING, "program cache: %s", reason);
    }
    free(payload);
    return program;
}

/* The caller frees *binary. The program belongs to all devices of the OpenCL context, but was built
 * for one: of the others drivers have empty binaries, or, as PoCL 3.1, none. */
static bool get_binary(
    const clprune_context *context, cl_program program, unsigned char **binary, size_t *size)
{
    enum { MOST = 256 };
    cl_device_id devices[MOST];
    size_t sizes[MOST], bytes = 0, size_bytes = 0, i = 0;
    unsigned char *binaries[MOST] = {NULL}; /* those that stay NULL are skipped */
    if (clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &bytes) !=
            CL_SUCCESS ||
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &size_bytes) !=
            CL_SUCCESS)
        return false;
    const size_t count = size_bytes / sizeof *sizes;
    while (count == bytes / sizeof *devices && i < count && devices[i] != context->device)
        i++;
    if (i >= count || sizes[i] == 0)
        return false;
    *size = sizes[i];
    *binary = binaries[i] = malloc(sizes[i]);
    return *binary != NULL && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binaries,
                                  (void *)binaries, NULL) == CL_SUCCESS;
}

static void save_binary(clprune_context *context, const char *key, cl_program program)
{
    unsigned char *binary = NULL;
    size_t size = 0;
    const char *reason = NULL;
    if (get_binary(context, program, &binary, &size))
        (void)clprune__disk_store(context->cache->dir, key, binary, size, &reason);
    else
        reason = "the driver gives no binary of a program";
    if (reason != NULL)
        clprune__log(context, CLPRUNE_LOG_WARNING, "program cache: %s", reason);
    else
        clprune__disk_tidy(context->cache->dir, context->cache->disk_limit);
    free(binary);
}

static clprune_status compile(clprune_context *context, const char *key, const char *defines,
    source_list *list, cl_program *program)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char options[1024];
    cl_int code;
    cl_device_fp_config floats = 0;
    *program = NULL;
    TRY_CL_DONE(
        clGetDeviceInfo(context->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL));
    *program = clCreateProgramWithSource(context->cl, list->count, list->text, list->size, &code);
    TRY_CODE_DONE("clCreateProgramWithSource", code);
    /* The error bounds of GELU and the draws of a seed assume it; OpenCL allows 2.5 ulp. */
    const char *const divide = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0
                                   ? "-cl-fp32-correctly-rounded-divide-sqrt "
                                   : "";
    clprune__program_cache *cache = context->cache;
    for (bool again = true; again;) {
        const int length = snprintf(options, sizeof options, "-cl-std=CL1.2 -w %s%s%s%s", divide,
            cache->declares ? declare_builtins : "", defines, order_defines[cache->order]);
        REQUIRE_DONE(length > 0 && (size_t)length < sizeof options, CLPRUNE_INTERNAL_ERROR,
            "the defines of %s are too long", key);
        clprune__compiler_watch *const compiler =
            is_pocl(context) ? clprune__compiler_watch_begin() : NULL;
        code = clBuildProgram(*program, 1, &context->device, options, NULL, NULL);
        clprune__compiler_watch_end(compiler);
        /* Another PoCL may not take the declarations. */
        again = code == CL_BUILD_PROGRAM_FAILURE && cache->declares;
        cache->declares = cache->declares && !again;
    }
    if (code != CL_SUCCESS)
        TRY_DONE(build_failed(context, *program, code, key));
done:
    if (status != CLPRUNE_SUCCESS && *program != NULL) {
        (void)clReleaseProgram(*program);
        *program = NULL;
    }
    return status;
}

/* Makes room for one more element of `size` bytes. Returns the array, which may have moved, or
 * NULL, and then it is as it was. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    const size_t larger = *capacity == 0 ? 32 : *capacity * 2;
    void *grown = realloc(array, larger * size);
    if (grown != NULL)
        *capacity = larger;
    return grown;
}

/* How a program that is not in memory is made: program_make loads or builds it, program_count only
 * counts it and sets *program to NULL (dry contexts). */
typedef clprune_status program_maker(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const char *key, cl_program *program);

static clprune_status program_make(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const char *key, cl_program *program)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__program_cache *cache = context->cache;
    char *file_key = NULL;
    source_list list;
    *program = NULL;
    TRY_DONE(collect_sources(context, def, &list));
    if (cache->dir != NULL)
        file_key = disk_key(context, key, &list);
    if (file_key != NULL)
        *program = load_binary(context, file_key);
    if (*program != NULL) {
        cache->stats.disk_hits++;
    } else {
        TRY_DONE(compile(context, key, defines, &list, program));
        cache->stats.builds++;
        if (file_key != NULL)
            save_binary(context, file_key, *program);
        clprune__log(context, CLPRUNE_LOG_INFO, "built %s", key);
    }
done:
    free(file_key);
    return status;
}

static clprune_status program_count(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const char *key, cl_program *program)
{
    (void)def;
    (void)defines;
    (void)key;
    context->cache->stats.builds++;
    *program = NULL;
    return CLPRUNE_SUCCESS;
}

static clprune_status program_get(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, program_maker *make, cl_program *program)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__program_cache *cache = context->cache;
    const uint64_t hash = hash_key(def->file, defines);
    const char *order = order_defines[cache->order];
    const size_t key_size = strlen(def->file) + strlen(defines) + strlen(order) + 2;
    char *key = malloc(key_size);
    REQUIRE_DONE(key != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a program key of %zu bytes", key_size);
    (void)snprintf(key, key_size, "%s %s%s", def->file, defines, order);
    for (size_t i = 0; i < cache->programs_count; i++)
        if (cache->programs[i].hash == hash && strcmp(cache->programs[i].key, key) == 0) {
            *program = cache->programs[i].program;
            cache->stats.memory_hits++;
            goto done;
        }
    clprune__program *grown = grow(
        cache->programs, cache->programs_count, &cache->programs_capacity, sizeof *cache->programs);
    REQUIRE_DONE(grown != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a list of more than %zu programs", cache->programs_count);
    cache->programs = grown;
    TRY_DONE(make(context, def, defines, key, program));
    cache->programs[cache->programs_count++] = (clprune__program){key, hash, *program};
    key = NULL;
done:
    free(key);
    return status;
}

clprune_status clprune__program_note(
    clprune_context *context, const clprune__kernel_def *def, const char *defines)
{
    cl_program none;
    return program_get(context, def, defines, program_count, &none);
}

char *clprune__programs_noted(const clprune_context *context)
{
    const clprune__program_cache *cache = context->cache;
    const size_t order = strlen(order_defines[cache->order]); /* is added again */
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < cache->programs_count; i++)
        bytes += strlen(cache->programs[i].key) - order + 1;
    char *noted = calloc(bytes, 1);
    for (size_t i = 0; i < cache->programs_count && noted != NULL; i++) {
        const size_t length = strlen(cache->programs[i].key) - order;
        memcpy(noted + at, cache->programs[i].key, length);
        at += length + 1;
    }
    return noted;
}

clprune_status clprune__programs_prepare(clprune_context *context, const char *noted)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char *file = NULL;
    for (; *noted != '\0' && status == CLPRUNE_SUCCESS; noted += strlen(noted) + 1) {
        cl_program program;
        const size_t length = strcspn(noted, " "); /* of "layers/gelu.cl -DN=1" */
        free(file);
        file = strdup(noted);
        REQUIRE_DONE(file != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the name of a file");
        file[length] = '\0';
        status = program_get(context, &(clprune__kernel_def){.file = file}, file + length + 1,
            program_make, &program);
    }
done:
    free(file);
    clprune__compiler_memory_return();
    return status;
}

static void kernel_free(clprune__kernel *kernel)
{
    if (kernel == NULL)
        return;
    if (kernel->kernel != NULL)
        (void)clReleaseKernel(kernel->kernel);
    free(kernel->defines);
    free(kernel);
}

static clprune_status kernel_make(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, clprune__kernel **kernel)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_program program;
    clprune__kernel *made = calloc(1, sizeof *made);
    REQUIRE_DONE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a kernel");
    made->def = def;
    made->defines = strdup(defines);
    REQUIRE_DONE(
        made->defines != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the key of a kernel");
    TRY_DONE(program_get(context, def, defines, program_make, &program));
    cl_int code;
    made->kernel = clCreateKernel(program, def->entry, &code);
    TRY_CODE_DONE("clCreateKernel", code);
    TRY_CL_DONE(clGetKernelInfo(
        made->kernel, CL_KERNEL_NUM_ARGS, sizeof made->arguments, &made->arguments, NULL));
    TRY_CL_DONE(clGetKernelWorkGroupInfo(made->kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE,
        sizeof made->max_work_group, &made->max_work_group, NULL));
    TRY_CL_DONE(
        clGetKernelWorkGroupInfo(made->kernel, context->device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
            sizeof made->reqd_work_group, made->reqd_work_group, NULL));
    *kernel = made;
    made = NULL;
done:
    kernel_free(made);
    return status;
}

clprune_status clprune__kernel_get(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const clprune__kernel **kernel)
{
    clprune__program_cache *cache = context->cache;
    *kernel = NULL;
    const uint64_t hash = hash_key(def->entry, defines);
    for (size_t i = 0; i < cache->kernels_count; i++) {
        const clprune__kernel *entry = cache->kernels[i].kernel;
        if (cache->kernels[i].hash == hash && entry->def == def &&
            strcmp(entry->defines, defines) == 0) {
            cache->stats.memory_hits++;
            *kernel = entry;
            return CLPRUNE_SUCCESS;
        }
    }
    clprune__kernel_entry *grown = grow(
        cache->kernels, cache->kernels_count, &cache->kernels_capacity, sizeof *cache->kernels);
    REQUIRE(grown != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a list of more than %zu kernels", cache->kernels_count);
    cache->kernels = grown;
    clprune__kernel *made = NULL;
    TRY(kernel_make(context, def, defines, &made));
    cache->kernels[cache->kernels_count++] = (clprune__kernel_entry){hash, made};
    cache->is_fresh = true;
    clprune__compiler_pages_drop(); /* those of the first step's peak */
    *kernel = made;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__kernel_shrink(clprune_context *context, const clprune__kernel *kernel,
    size_t local, const clprune__kernel **smaller)
{
    static const char name[] = "-DLOCAL=";
    const char *const from = strstr(kernel->defines, name);
    char defines[CLPRUNE__DEFINES_TEXT];
    *smaller = NULL;
    REQUIRE(
        from != NULL, CLPRUNE_INTERNAL_ERROR, "kernel %s has no define LOCAL", kernel->def->entry);
    const char *const rest = from + strcspn(from, " ");
    const int length = snprintf(defines, sizeof defines, "%.*s%s%zu%s",
        (int)(from - kernel->defines), kernel->defines, name, local, rest);
    REQUIRE(length > 0 && (size_t)length < sizeof defines, CLPRUNE_INTERNAL_ERROR,
        "the defines of kernel %s overflow", kernel->def->entry);
    return clprune__kernel_get(context, kernel->def, defines, smaller);
}

void clprune__kernel_replace(
    clprune_context *context, const clprune__kernel *kernel, const clprune__kernel *smaller)
{
    for (size_t i = 0; i < context->cache->kernels_count; i++)
        if (context->cache->kernels[i].kernel == kernel)
            context->cache->kernels[i].kernel->smaller = smaller;
}

/* One line per fact that a binary depends on and that stays the same for a context. */
static char *describe_device(const clprune_context *context)
{
    enum { FIELDS = 4, FIELD_SIZE = 512 };
    static const cl_device_info what[FIELDS] = {
        CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DRIVER_VERSION, CL_DEVICE_VERSION};
    char field[FIELDS + 1][FIELD_SIZE] = {{0}};
    for (int i = 0; i < FIELDS; i++)
        if (clGetDeviceInfo(context->device, what[i], FIELD_SIZE - 1, field[i], NULL) != CL_SUCCESS)
            return NULL;
    cl_platform_id platform;
    if (clGetDeviceInfo(context->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform,
            NULL) != CL_SUCCESS ||
        clGetPlatformInfo(platform, CL_PLATFORM_VERSION, FIELD_SIZE - 1, field[FIELDS], NULL) !=
            CL_SUCCESS)
        return NULL;
    char *text = malloc((FIELDS + 1) * (FIELD_SIZE + 1) + 1);
    size_t used = 0;
    for (int i = 0; text != NULL && i <= FIELDS; i++)
        used += (size_t)sprintf(text + used, "%s\n", field[i]);
    return text;
}

static bool is_named(const char *dir)
{
    const char *variable = getenv("CLPRUNE_CACHE_DIR");
    return (dir != NULL && dir[0] != '\0') || (variable != NULL && variable[0] != '\0');
}

void clprune__program_cache_open(clprune_context *context, const char *dir)
{
    const char *reason = NULL;
    context->cache->declares = is_pocl(context);
    /* PoCL caches kernels itself, for the work-group sizes in use. A program's binary also holds
     * each of its kernels for any work-group size, which PoCL compiles when the binary is
     * requested: a first start would take twice as long. */
    if (!is_named(dir) && is_pocl(context)) {
        clprune__log(context, CLPRUNE_LOG_INFO,
            "program cache is off: PoCL has its own; CLPRUNE_CACHE_DIR=folder turns it on");
        return;
    }
    context->cache->dir = clprune__disk_folder(dir, &reason);
    if (context->cache->dir != NULL) {
        context->cache->device_key = describe_device(context);
        if (context->cache->device_key == NULL) {
            reason = "the device does not describe itself";
            free(context->cache->dir);
            context->cache->dir = NULL;
        }
    }
    if (context->cache->dir != NULL)
        clprune__disk_tidy(context->cache->dir, context->cache->disk_limit);
    if (reason != NULL)
        clprune__log(context, CLPRUNE_LOG_WARNING, "program cache is off: %s", reason);
}

void clprune__program_cache_close(clprune_context *context)
{
    clprune__program_cache *cache = context->cache;
    for (size_t i = 0; i < cache->kernels_count; i++)
        kernel_free(cache->kernels[i].kernel);
    for (size_t i = 0; i < cache->programs_count; i++) {
        if (cache->programs[i].program != NULL)
            (void)clReleaseProgram(cache->programs[i].program);
        free(cache->programs[i].key);
    }
    free(cache->kernels);
    free(cache->programs);
    free(cache->dir);
    free(cache->device_key);
    *cache = (clprune__program_cache){0};
}

clprune_cache_stats clprune_context_cache_stats(const clprune_context *context)
{
    ENTER_QUIETLY(context);
    return context != NULL ? context->cache->stats : (clprune_cache_stats){0};
}

const char *clprune_context_cache_dir(const clprune_context *context)
{
    return context != NULL ? context->cache->dir : NULL;
}
