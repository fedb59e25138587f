#include "trainer/base/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h> /* snprintf */
#include <string.h>

#include "trainer/base/stop.h"

bool fault_set(fault *f, int code, const char *format, ...)
{
    va_list args;
    if (f->code != CODE_OK)
        return false;
    f->code = code;
    va_start(args, format);
    (void)vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    /* One line: a file name, or a build log, may have more. */
    for (char *p = f->text; *p != '\0'; ++p)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    return false;
}

bool fault_set_file(fault *f, const char *doing, const char *path, int error)
{
    return fault_set(f, error == ENOMEM ? CODE_MEMORY : CODE_DATA, "cannot %s %s: %s", doing, path,
        strerror(error));
}

static int code_of(clprune_status status)
{
    switch (status) {
    case CLPRUNE_NO_DEVICE:
        return CODE_NO_DEVICE;
    case CLPRUNE_OUT_OF_HOST_MEMORY:
    case CLPRUNE_OUT_OF_DEVICE_MEMORY:
        return CODE_MEMORY;
    default:
        return CODE_RUN;
    }
}

const char *fault_detail(const clprune_context *context)
{
    const char *text = clprune_last_error(context), *colon = strchr(text, ':');
    const size_t digits = colon == NULL ? 0 : strspn(colon + 1, "0123456789");
    return digits > 0 && strncmp(colon + 1 + digits, ": ", 2) == 0 ? colon + digits + 3 : text;
}

bool fault_check(fault *f, const clprune_context *context, clprune_status status, const char *doing)
{
    if (status == CLPRUNE_SUCCESS)
        return true;
    const char *detail = fault_detail(context);
    return fault_set(f, code_of(status), "%s: %s%s%s%s", doing, clprune_status_string(status),
        detail[0] == '\0' ? "" : " (", detail, detail[0] == '\0' ? "" : ")");
}

bool fault_check_signal(fault *f, const char *doing)
{
    return stop_signal() == 0 ||
           fault_set(f, CODE_STOPPED + stop_signal(), "%s: stopped by a signal", doing);
}

bool fault_check_cl(fault *f, cl_int code, const char *doing)
{
    if (code == CL_SUCCESS)
        return true;
    const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                        code == CL_OUT_OF_HOST_MEMORY;
    return fault_set(f, memory ? CODE_MEMORY : CODE_RUN, "%s: OpenCL error %d", doing, code);
}
