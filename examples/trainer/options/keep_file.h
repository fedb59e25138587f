/*
 * keep_file.h: overrides of a preset of --activations, block by block, from the lines of a text:
 *
 *     # PATTERN  TENSOR FORM        settings
 *     blocks.*   gelu   pruned      sparsity=0.5 block=16 values=fp16
 *     blocks.0   x2     dense
 *     blocks.5   fc1    code        bits=8
 *     blocks.*   norm1  quantised   bits=4 group=64 rounding=nearest
 *     blocks.*   norm2  pooled      cell=2
 *     last       x      recomputed  # the last block's output
 *
 * PATTERN: one block, all blocks, or a place outside of the blocks; TENSOR: a name in the model's
 * keep_table; FORM: dense, pruned, quantised, pooled, recomputed, code, mean or mask.
 *
 * Settings have the options' names: sparsity, block, norm, criterion, centre, values and indices
 * for pruned; bits (--code-bits), group and rounding for quantised; cell (--pool) for pooled, and
 * for pruned with centre=cells; bits (--gelu-code) for code. A setting that a line leaves out has
 * the run's option; without a sparsity, all blocks are kept in values that are not fp32. Later
 * lines win. A comment starts with #. indices=int16, of older files, is read as bitmap.
 */
#ifndef TRAINER_KEEP_FILE_H
#define TRAINER_KEEP_FILE_H

#include "trainer/options/options.h"

/* The whole text of a file, for the caller to free. Faults: CODE_DATA, CODE_MEMORY. */
bool keep_file_read(const char *path, char **text, fault *f);

/* Whether two texts have the same lines, apart from comments, spaces and empty lines. */
bool keep_file_same(const char *a, const char *b);

/* Overrides `rules`, the rules of a model of these settled sizes; o: the options of the run. Faults
 * (CODE_DATA) name `source` and a line: if the rules of a block contradict each other or those of
 * another block, the last line about these blocks. After a fault the rules are undefined. */
bool keep_file_apply(const char *text, const char *source, const options *o,
    const trainer_sizes *sizes, keep_rule *rules, fault *f);

/* Writes lines that set these rules, for a model of these sizes, over any preset; all settings are
 * written out. Tensors without rows are skipped. The caller frees *text. Faults: CODE_MEMORY. */
bool keep_file_write(const keep_table *table, const trainer_sizes *sizes, const keep_rule *rules,
    char **text, fault *f);

/* Writes form and settings of a rule: "quantised bits=4 group=64 rounding=stochastic". */
void keep_file_form(const keep_rule *rule, char *text, size_t size);

#endif
