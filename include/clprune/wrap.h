/* Host memory as a matrix: zero-copy on CPU devices, staged in a device buffer elsewhere. The same
 * program runs on both.
 *
 *     clprune_mat x, y;
 *     clprune_mat_wrap(context, in, rows, cols, cols, CLPRUNE_ACCESS_READ, &x);
 *     clprune_mat_wrap(context, out, rows, cols, cols, CLPRUNE_ACCESS_WRITE, &y);
 *     ... enqueue work that reads x and writes y ...
 *     clprune_mat_sync_to_host(context, y);      // out holds the result; the host may use it
 *     clprune_mat_sync_to_device(context, y);    // the device may write it again
 *     ...
 *     clprune_mat_unwrap(context, &x);
 *     clprune_mat_unwrap(context, &y);
 *
 * Ownership. Either the device or the host owns wrapped memory. After clprune_mat_wrap and
 * clprune_mat_sync_to_device the device owns it: the host must not read or write its elements.
 * After clprune_mat_sync_to_host and clprune_mat_unwrap the host owns it: no call may use the
 * matrix. The library does not detect a violation; the reader may then see old or new values.
 * Elements between rows (ld > cols) always belong to the host and are never written. The memory
 * must stay allocated until clprune_mat_unwrap returns, and must not overlap other wrapped memory
 * if either is written.
 */
#ifndef CLPRUNE_WRAP_H
#define CLPRUNE_WRAP_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the device accesses wrapped memory. */
typedef enum clprune_access {
    CLPRUNE_ACCESS_READ =
        1, /* reads only: nothing is copied back; host may point to const memory */
    CLPRUNE_ACCESS_WRITE = 2, /* writes each element before reading it: nothing is copied in, not
                                 even what the host wrote between two synchronisations */
    CLPRUNE_ACCESS_READ_WRITE = 3
} clprune_access;

/* On CPU devices, memory whose address is a multiple of this many bytes is used without a copy.
 * Other memory is staged. */
#define CLPRUNE_WRAP_ALIGN 64

/* Makes *mat a rows x cols matrix of host memory; its element (r, c) is host[r * ld + c]. mat->ld
 * may differ from ld. Only staged bytes are booked, under input as "wrapped"; a dry context books
 * all wrapped memory. Blocks if it copies. On failure *mat is CLPRUNE_NO_MAT. Errors:
 * INVALID_ARGUMENT, SIZE_OVERFLOW, OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_mat_wrap(clprune_context *context, float *host, size_t rows,
    size_t cols, size_t ld, clprune_access access, clprune_mat *mat);

/* Hand all memory of a wrapped matrix to the host, or to the device; `mat` may be a window of the
 * matrix. clprune_mat_sync_to_host waits for all enqueued work; the host then sees its results.
 * Both are no-ops if the memory is already there. Errors: INVALID_ARGUMENT (not wrapped). */
CLPRUNE_API clprune_status clprune_mat_sync_to_host(clprune_context *context, clprune_mat mat);
CLPRUNE_API clprune_status clprune_mat_sync_to_device(clprune_context *context, clprune_mat mat);

/* Hands the memory to the host, as clprune_mat_sync_to_host does, and ends the wrapping. Every
 * wrapped matrix needs this call: clprune_context_destroy also frees it, but copies nothing back.
 * On failure too *mat becomes CLPRUNE_NO_MAT, and no enqueued command uses the memory any more.
 * Accepts CLPRUNE_NO_MAT. */
CLPRUNE_API clprune_status clprune_mat_unwrap(clprune_context *context, clprune_mat *mat);

#ifdef __cplusplus
}
#endif
#endif
