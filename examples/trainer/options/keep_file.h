/*
 * keep_file.h: overrides of a preset of --activations, block by block, from the lines of a text:
 *
 *     # PLACE    TENSOR     FORM        settings
 *     blocks.*   mlp.gelu   pruned      sparsity=0.5 block=16 values=fp16
 *     blocks.0   ls1        dense
 *     blocks.*   norm1      quantised   bits=4 group=64 rounding=nearest
 *     blocks.*   norm2      pooled      cell=2
 *     net        pool       recomputed
 *
 * PLACE and TENSOR are patterns of a shell over the names of the model's tensors: those of layers,
 * cut behind the last number. Tensors without a number are at "net". FORM: dense, pruned,
 * quantised, pooled, recomputed.
 *
 * Settings have the options' names: sparsity, block, norm, criterion, centre, values and indices
 * for pruned; bits (--code-bits), group, rounding and rotate for quantised; cell (--pool) for
 * pooled, and for pruned with centre=cells. A setting that a line leaves out has the run's option;
 * without a sparsity, all blocks are kept in values that are not fp32. Later lines win. A comment
 * starts with #.
 */
#ifndef TRAINER_KEEP_FILE_H
#define TRAINER_KEEP_FILE_H

#include "trainer/model/keep_list.h"
#include "trainer/options/options.h"

/* The whole text of a file, for the caller to free. Faults: CODE_DATA, CODE_MEMORY. */
bool keep_file_read(const char *path, char **text, fault *f);

/* Whether two texts have the same lines, apart from comments, spaces and empty lines. */
bool keep_file_same(const char *a, const char *b);

/* Sets rules of a list of the model's tensors; o: the options of the run. Faults (CODE_DATA) name
 * `source` and a line. After a fault the rules are undefined. */
bool keep_file_apply(
    const char *text, const char *source, const options *o, keep_list *list, fault *f);

/* Writes lines that set these rules over any preset; all settings are written out. The caller frees
 * *text. Faults: CODE_MEMORY. */
bool keep_file_write(const keep_list *list, char **text, fault *f);

/* Writes form and settings of a rule: "quantised bits=4 group=64 rounding=stochastic". */
void keep_file_form(const keep_rule *rule, char *text, size_t size);

#endif
