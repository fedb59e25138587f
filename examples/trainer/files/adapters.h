/*
 * adapters.h: a model's adapters (--lora) as a folder that PEFT reads: adapter_model.safetensors
 * and adapter_config.json.
 */
#ifndef TRAINER_ADAPTERS_H
#define TRAINER_ADAPTERS_H

#include "trainer/base/fault.h"
#include "trainer/model/net_model.h"

/* In its order, the model's file and the settings: names in the folder. */
extern const char *const adapters_files[2];

/* Whether the folder and both files could be written now; leaves everything as it is, but for
 * folders above it. */
bool adapters_probe(const char *folder, fault *f);

/* Makes the folder, and writes both files. Modules have the names of timm, or of transformers'
 * models with a head. base: the file that the model's weights come from, or
 * NULL. What differs from it beside the adapters, such as trained heads and running statistics, is
 * there, too: whole modules as modules_to_save, with their adapters merged into them; biases; and
 * single tensors. missing: why base and adapters are not the model, or "". Faults: CODE_DATA,
 * CODE_MEMORY. */
bool adapters_export(const net_model *model, const char *base, const char *folder, char *missing,
    size_t size, fault *f);

#endif
