/* pocl_cache.h: whether PoCL can read the kernels in its cache folder. It ends the process where it
 * cannot. */
#ifndef CLPRUNE_POCL_CACHE_H
#define CLPRUNE_POCL_CACHE_H

#include "runtime/context/context_private.h"

/* Fails with BUILD_FAILED and the name of the folder to remove if a file of PoCL's cache is
 * damaged: empty, cut off, or of another kind. Looks once in a process; a file
 * `pocl-checked.HASH` in the folder of this library's cache says when, and programs that PoCL has
 * not used since are left out. */
clprune_status clprune__pocl_cache_check(clprune_context *context);

#endif
