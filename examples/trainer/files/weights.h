/*
 * weights.h: a model's weights from and to other programs, in safetensors files with the names and
 * shapes of timm and torchvision.
 */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "trainer/base/fault.h"
#include "trainer/model/trainer_model.h"

/* Takes every weight of the model from a file, and its counts: a count that is not in the file is
 * TRAINER_NO_COUNT. Other tensors are ignored. The head keeps its values if the file's head has
 * another number of classes: then *head_left is set. All tensors are checked before anything is
 * changed. Faults: CODE_DATA, CODE_MEMORY, CODE_USAGE (built without
 * jansson). */
bool weights_import(const trainer_model *type, void *model, clprune_context *context,
    const char *path, bool *head_left, fault *f);

/* Writes the counts that have a value, in I64, then every weight, in fp32; each sorted by name.
 * Importing such a file and exporting again gives the same bytes. */
bool weights_export(
    const trainer_model *type, void *model, clprune_context *context, const char *path, fault *f);

#endif
