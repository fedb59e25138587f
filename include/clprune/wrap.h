/* Host memory as a matrix: zero-copy on CPU devices, staged in a device buffer elsewhere. A program
 * written for one runs on the other.
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
 * Who owns the memory. Wrapped memory is the device's or the host's, never both. It is the device's
 * from clprune_mat_wrap and clprune_mat_sync_to_device on: the host neither reads nor writes its
 * elements. It is the host's from clprune_mat_sync_to_host and clprune_mat_unwrap on: no call may
 * be given the matrix. Elements between rows (ld > cols) stay the host's and are never written.
 * Breaking this is not noticed: staged memory then holds old values, zero-copy memory either. The
 * memory must stay allocated until clprune_mat_unwrap returns, and not overlap other wrapped
 * memory. */
#ifndef CLPRUNE_WRAP_H
#define CLPRUNE_WRAP_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the device does with wrapped memory. */
typedef enum clprune_access {
    CLPRUNE_ACCESS_READ =
        1, /* reads only: nothing is copied back; host may point to const memory */
    CLPRUNE_ACCESS_WRITE = 2, /* writes each element before reading it: nothing is copied there */
    CLPRUNE_ACCESS_READ_WRITE = 3
} clprune_access;

/* An address that is a multiple of so many bytes is used without a copy on CPU devices. Others are
 * staged there too. */
#define CLPRUNE_WRAP_ALIGN 64

/* Makes *mat a rows x cols matrix of host memory, whose element (r, c) is host[r * ld + c]. The
 * matrix has an ld of its own. Staged bytes, and nothing else, are booked under input as "wrapped";
 * a dry context books all wrapped memory so. Waits where it copies. On failure *mat is
 * CLPRUNE_NO_MAT. Errors: INVALID_ARGUMENT, SIZE_OVERFLOW, OUT_OF_DEVICE_MEMORY,
 * OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_mat_wrap(clprune_context *context, float *host, size_t rows,
    size_t cols, size_t ld, clprune_access access, clprune_mat *mat);

/* Gives the memory of a wrapped matrix, or of a window of it, as a whole to the host, and to the
 * device. The first waits for all work enqueued before; afterwards the host sees what was written.
 * Both do nothing where the memory is there already. Errors: INVALID_ARGUMENT (not wrapped). */
CLPRUNE_API clprune_status clprune_mat_sync_to_host(clprune_context *context, clprune_mat mat);
CLPRUNE_API clprune_status clprune_mat_sync_to_device(clprune_context *context, clprune_mat mat);

/* Gives the memory to the host for good, as clprune_mat_sync_to_host does, and releases what
 * wrapping took: the only way to release it, but for clprune_context_destroy, which copies nothing
 * back. *mat becomes CLPRUNE_NO_MAT, also on failure. Accepts CLPRUNE_NO_MAT. */
CLPRUNE_API clprune_status clprune_mat_unwrap(clprune_context *context, clprune_mat *mat);

#ifdef __cplusplus
}
#endif
#endif
