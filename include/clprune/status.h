/* Status codes of clprune: every public function that can fail returns one of these. */
#ifndef CLPRUNE_STATUS_H
#define CLPRUNE_STATUS_H

/* Marks exported functions. */
#if defined(CLPRUNE_BUILDING) && defined(_WIN32)
#define CLPRUNE_API __declspec(dllexport)
#elif defined(CLPRUNE_BUILDING) && defined(__GNUC__)
#define CLPRUNE_API __attribute__((visibility("default")))
#else
#define CLPRUNE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text): the enum, the names and the texts are all made from this list. Values are
 * part of the ABI: a new code takes a new number, and an old number is never reused. */
#define CLPRUNE_STATUS_LIST(X)                                                                     \
    X(CLPRUNE_SUCCESS, 0, "success: all outputs are valid or enqueued")                            \
    X(CLPRUNE_INVALID_ARGUMENT, 10, "an argument is NULL, out of range or contradicts another")    \
    X(CLPRUNE_INVALID_SIZE, 11, "a matrix or buffer does not have the size the operation needs")   \
    X(CLPRUNE_SIZE_OVERFLOW, 12, "a size does not fit the integer type that must carry it")        \
    X(CLPRUNE_INVALID_BSR, 13, "the indices of a BSR matrix break the format's rules")             \
    X(CLPRUNE_NOT_FINITE, 14, "a computed value is NaN or infinite")                               \
    X(CLPRUNE_OUT_OF_HOST_MEMORY, 20, "the host is out of memory")                                 \
    X(CLPRUNE_OUT_OF_DEVICE_MEMORY, 21, "the device is out of memory or the budget is used up")    \
    X(CLPRUNE_NO_DEVICE, 30, "no OpenCL device fits the selection")                                \
    X(CLPRUNE_UNSUPPORTED, 31, "the device cannot run the operation")                              \
    X(CLPRUNE_FORKED, 32, "the process was forked since; create the context after fork")           \
    X(CLPRUNE_BUILD_FAILED, 40, "an OpenCL program did not build; the log is in the last error")   \
    X(CLPRUNE_OPENCL_ERROR, 41, "an OpenCL call failed; its code is in the last error")            \
    X(CLPRUNE_CLBLAST_ERROR, 42, "a CLBlast call failed; its code is in the last error")           \
    X(CLPRUNE_INTERNAL_ERROR, 50, "clprune broke one of its own rules; please report it")

/* The outcome of a call. */
typedef enum clprune_status {
#define CLPRUNE_STATUS_ENUM(name, value, text) name = value,
    CLPRUNE_STATUS_LIST(CLPRUNE_STATUS_ENUM)
#undef CLPRUNE_STATUS_ENUM
} clprune_status;

/* The identifier of a status, such as "CLPRUNE_INVALID_SIZE"; never NULL, static storage. */
CLPRUNE_API const char *clprune_status_name(clprune_status status);

/* One sentence about a status; never NULL, static storage. clprune_last_error has the details of a
 * failure: which argument, which OpenCL code, the build log. */
CLPRUNE_API const char *clprune_status_string(clprune_status status);

#ifdef __cplusplus
}
#endif
#endif
