/*
 * keep_file.h: overrides of a preset of keep.h, block by block, from the lines of a text:
 *
 *     # PATTERN  TENSOR FORM        settings
 *     blocks.*   gelu   pruned      sparsity=0.5 block=16 values=fp16
 *     blocks.0   x2     dense
 *     blocks.11  fc1    code        bits=8
 *     last       x      recomputed  # the last block's output
 *
 * PATTERN: one block, or all; TENSOR: a name of keep_name; FORM: dense, pruned, recomputed or code.
 * Settings are those of the options: sparsity, block, norm, criterion, values and indices of what
 * is pruned, bits of a code; what a line does not say, the options of the run do. Later lines win.
 * # begins a comment.
 */
#ifndef RESMLP_KEEP_FILE_H
#define RESMLP_KEEP_FILE_H

#include "options.h"

/* The whole text of a file, for the caller to free. Faults: CODE_DATA, CODE_MEMORY. */
bool keep_file_read(const char *path, char **text, fault *f);

/* Overrides policies, those of `depth` blocks; o: the options of the run. Faults (CODE_DATA) name
 * `source` and the line, that of the latest line for a block whose policy makes no sense as a
 * whole; the policies are undefined then. */
bool keep_file_apply(const char *text, const char *source, const options *o, size_t depth,
    keep_policy *policies, fault *f);

#endif
