/*
 * weights.h: a model's weights from and to other programs, in safetensors files with the names and
 * shapes of timm and torchvision.
 */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "fault.h"
#include "trainer_model.h"

/* Takes every weight of the model from a file; other tensors in it are ignored. The head keeps its
 * values if the file's head has another number of classes: then *head_left is set. All tensors are
 * checked before anything is changed. Faults: CODE_DATA, CODE_MEMORY, CODE_USAGE (built without
 * jansson). */
bool weights_import(const trainer_model *type, void *model, clprune_context *context,
    const char *path, bool *head_left, fault *f);

/* Writes every weight, in fp32, sorted by name. Importing such a file and exporting again gives the
 * same bytes. Tensors that are no weights of the model, such as torchvision's num_batches_tracked,
 * are not written. */
bool weights_export(
    const trainer_model *type, void *model, clprune_context *context, const char *path, fault *f);

#endif
