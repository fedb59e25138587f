/*
 * weights.h: a model's weights from and to other programs, in safetensors files with the names and
 * shapes of timm and torchvision.
 */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "fault.h"
#include "trainer_model.h"

/* Takes every weight from a file; tensors that the model does not have are passed over. The head
 * keeps its values where the file's has another number of classes: then *head_left is set. Nothing
 * is changed unless all others fit. Faults: CODE_DATA, CODE_MEMORY, CODE_USAGE (jansson). */
bool weights_import(const trainer_model *type, void *model, clprune_context *context,
    const char *path, bool *head_left, fault *f);

/* Writes every weight, in fp32, sorted by name. What is imported from such a file and exported
 * again has the same bytes. */
bool weights_export(
    const trainer_model *type, void *model, clprune_context *context, const char *path, fault *f);

#endif
