/*
 * weights.h: a model's weights from and to other programs, in safetensors files with the names and
 * shapes of timm and torchvision; and from GGUF files, if the model has tables of their names.
 *
 * A file in the layout of Python's safetensors with metadata {"format": "pt"} has the same bytes
 * after import and export. Names of the authors' code become timm's, other types fp32, other or no
 * metadata {"format": "pt"}.
 *
 * Counts are torchvision's num_batches_tracked, the training batches that each batch norm has seen.
 * A model with counts adds one in each step, as PyTorch does: to imported counts, or from 0 in a
 * new model. An imported count that is no I64 of shape [], or is negative, is refused. Counts that
 * are not in the imported file, or in the checkpoint of an older program, are not exported. PyTorch
 * loads files with and without them; its BatchNorm reads them only with momentum=None.
 */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "trainer/base/fault.h"
#include "trainer/files/atomic_file.h"
#include "trainer/model/net_model.h"

/* What weights_import did beside taking the weights. */
typedef struct weights_imported {
    bool head_left;    /* the file's has another number of classes, or is not there */
    char prefix[64];   /* "module.", "_orig_mod.": what all names begin with; "" without one */
    char unread[1024]; /* names of tensors that were not read (weight_names.h); "" without */
} weights_imported;

/* Whether a file can be opened, and is one that weights_import reads. Faults as there. */
bool weights_probe(const trainer_model *type, const char *path, fault *f);

/* Takes every weight of the model from a file, and its counts: a count that is not in the file is
 * TRAINER_NO_COUNT. What has no value there, a head or adapters, gets its initial value of `seed`.
 * Names are found as weight_names.h says. Tensors that no weight takes are named, or refused where
 * the model would compute something else with them. All tensors are checked before anything is
 * changed. Faults: CODE_DATA, CODE_MEMORY, CODE_USAGE (built without jansson). */
bool weights_import(
    net_model *model, const char *path, uint64_t seed, weights_imported *imported, fault *f);

/* Writes the counts that have a value, in I64, then every weight, in fp32, adapters merged into it;
 * each sorted by name.
 * Importing such a file and exporting again gives the same bytes. */
bool weights_export(const net_model *model, const char *path, fault *f);

/* Writes the elements of one weight so. */
bool weights_put(clprune_context *context, const trainer_weight *w, atomic_file *file, fault *f);
uint64_t weights_elements(const trainer_weight *w);

#endif
