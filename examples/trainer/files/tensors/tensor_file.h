/*
 * tensor_file.h: named tensors of another program's file, safetensors (safetensors_file.h) or GGUF
 * (gguf_file.h), which can be read as fp32.
 *
 * Tensors of a GGUF file have the names that the model's tables of GGUF give them
 * (trainer_model.h), and the order of rows that transformers has. Its matrices are all out x in.
 */
#ifndef TRAINER_TENSOR_FILE_H
#define TRAINER_TENSOR_FILE_H

#include "trainer/files/safetensors_file.h"
#include "trainer/files/tensors/gguf_file.h"
#include "trainer/model/trainer_model.h"

enum { TENSOR_RANK = SAFETENSORS_RANK };

typedef struct file_tensor {
    char *name;
    char type[16]; /* in the file: "F32", "Q4_K"; cut off at 15 characters */
    bool readable; /* by tensor_file_read; then `count` is of the file's size */
    bool whole;    /* whole numbers */
    size_t rank;   /* above TENSOR_RANK: shape is cut off */
    uint64_t shape[TENSOR_RANK], count;
    uint64_t heads; /* of gguf_read */
} file_tensor;

typedef struct tensor_file {
    const char *path;
    size_t count;
    file_tensor *tensors;
    bool is_gguf;
    safetensors safetensors;
    gguf_file gguf;
} tensor_file;

/* Opens a file, an index or a folder as safetensors_open does; a GGUF file if there are tables of
 * GGUF, which end with an empty one (NULL: none). Faults: CODE_DATA, CODE_MEMORY, CODE_USAGE
 * (safetensors without jansson); *file then needs no closing. */
bool tensor_file_open(const char *path, const trainer_gguf *ggufs, tensor_file *file, fault *f);
void tensor_file_close(tensor_file *file); /* accepts {0} */

/* Reads a tensor's elements as fp32, or as whole numbers if it is I64 of safetensors; `values` has
 * room for tensor->count. Faults: CODE_DATA (also for other types), CODE_MEMORY. */
bool tensor_file_read(const tensor_file *file, const file_tensor *tensor, float *values, fault *f);
bool tensor_file_read_i64(
    const tensor_file *file, const file_tensor *tensor, int64_t *values, fault *f);

#endif
