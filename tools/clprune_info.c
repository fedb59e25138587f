/* clprune-info: lists the OpenCL devices, and shows what the library uses of one of them. */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { MAX_DEVICES = 64 };

static void usage(FILE *stream)
{
    fprintf(stream,
        "usage: clprune-info [--device TEXT] [--list]\n"
        "  --device TEXT  \"platform:device\" or part of a name; default $CLPRUNE_DEVICE\n"
        "  --list         print the devices only\n"
        "  -h, --help\n"
        "  --version\n");
}

static const char *type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return "GPU";
    if (type & CL_DEVICE_TYPE_CPU)
        return "CPU";
    return type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : "other";
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void list_devices(void)
{
    static clprune_device_info devices[MAX_DEVICES];
    size_t count;
    if (clprune_device_list(MAX_DEVICES, devices, &count) != CLPRUNE_SUCCESS)
        tool_quit(EXIT_RUN, "%s", clprune_last_error(NULL));
    if (count == 0)
        tool_quit(EXIT_DEVICE,
            "no OpenCL device was found; install a driver, on Debian for CPUs: pocl-opencl-icd. "
            "PoCL needs a writable $HOME or $POCL_CACHE_DIR");
    for (size_t i = 0; i < count && i < MAX_DEVICES; i++) {
        const clprune_device_info *d = &devices[i];
        printf("%zu:%zu  %s\n", d->platform_index, d->device_index, d->device);
        printf("     platform        %s\n", d->platform);
        printf("     vendor          %s\n", d->vendor);
        printf("     version         %s, driver %s\n", d->version, d->driver);
        printf("     type            %s, %u compute units, work-groups up to %zu\n",
            type_name(d->type), d->compute_units, d->max_work_group);
        printf("     memory          %.0f MiB, one buffer up to %.0f MiB, %.0f KiB local\n",
            mib(d->global_memory), mib(d->max_allocation), (double)d->local_memory / 1024.0);
    }
}

static bool has_extension(cl_device_id device, const char *name)
{
    static char text[16384];
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof text - 1, text, NULL) != CL_SUCCESS)
        return false;
    const size_t length = strlen(name);
    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + length, name))
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static void show_choices(const char *selection)
{
    clprune_context *context;
    const clprune_context_options options = {.device = selection};
    const clprune_status status = clprune_context_create(NULL, &options, &context);
    if (status != CLPRUNE_SUCCESS)
        tool_quit(status == CLPRUNE_NO_DEVICE ? EXIT_DEVICE : EXIT_RUN, "%s: %s",
            clprune_status_string(status), clprune_last_error(NULL));
    const cl_device_id device = clprune_context_device(context);
    const clprune_device_info facts = clprune_context_device_info(context);
    const char *dir = clprune_context_cache_dir(context);
    printf("chosen device    %s\n", facts.device);
    printf("kernels          %s\n", clprune_context_kernels(context) == CLPRUNE_KERNELS_VECTOR
                                        ? "vector (one work-item a group)"
                                        : "tiled (many work-items a group)");
    printf("float vectors    %u wide\n", facts.vector_width);
    printf("tuning           %s\n", clprune_context_tuning_source(context));
    printf("fp16, sub-groups %s, %s\n", has_extension(device, "cl_khr_fp16") ? "yes" : "no",
        has_extension(device, "cl_khr_subgroups") ? "yes" : "no");
    printf("products         %s\n", clprune_precision_name(clprune_context_precision(context)));
    printf("program cache    %s\n", dir != NULL ? dir : "off");
    clprune_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
        {"list", no_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'}, {NULL, 0, NULL, 0}};
    const char *selection = NULL;
    bool list_only = false;
    int option;
    tool_begin("clprune-info");
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            selection = optarg;
            break;
        case 'l':
            list_only = true;
            break;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        case 'v':
            printf("clprune-info (clprune) %s\n", CLPRUNE_VERSION);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind != argc)
        tool_quit(EXIT_USAGE, "unexpected argument \"%s\"", argv[optind]);
    if (!list_only) /* whose first words the shell completes */
        printf("clprune %s\n\n", CLPRUNE_VERSION);
    list_devices();
    if (!list_only) {
        printf("\n");
        show_choices(selection);
    }
    const bool broken = ferror(stdout) != 0;
    if (fclose(stdout) != 0 || broken)
        tool_quit(EXIT_RUN, "standard output: %s", strerror(errno));
    return EXIT_SUCCESS;
}
