/* gpt_gguf.h: GPT-2 and models of Llama's kind in GGUF files, as llama.cpp's converter writes them.
 */
#ifndef GPT_GGUF_H
#define GPT_GGUF_H

#include "gpt_config.h"
#include "trainer/model/trainer_model.h"

/* The names of tensors in files of each architecture. */
extern const trainer_gguf gpt_ggufs[];

/* Reads the sizes of a file. Returns as gpt_config_read. */
const char *gpt_gguf_read(const char *path, gpt_arch *arch);

#endif
