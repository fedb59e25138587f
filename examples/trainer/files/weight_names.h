/*
 * weight_names.h: which tensor of another program's file is which weight of a model.
 *
 * Names are compared without the modules that wrappers add (torch.compile, DistributedDataParallel,
 * FSDP and others), wherever they stand, and with "weight" and "bias" for the older "gamma" and
 * "beta" at the end. All may have one prefix.
 */
#ifndef TRAINER_WEIGHT_NAMES_H
#define TRAINER_WEIGHT_NAMES_H

#include "trainer/files/tensors/tensor_file.h"
#include "trainer/model/trainer_model.h"

enum { WEIGHT_NAMES_PREFIX = 64 };

/* What became of a tensor: nothing; nothing is made of it; a head's, or another weight's value. */
typedef enum weight_role { WEIGHT_UNREAD, WEIGHT_LEFT, WEIGHT_HEAD, WEIGHT_READ } weight_role;

typedef struct weight_names {
    const trainer_model *type;
    tensor_file file;
    char **keys;                      /* (file.count) names, as they are compared */
    weight_role *roles;               /* (file.count) of the caller */
    char prefix[WEIGHT_NAMES_PREFIX]; /* of the keys */
} weight_names;

/* Opens a file, and finds the prefix with which it has all weights but heads; none: "". Faults:
 * CODE_DATA (also if it has them with two prefixes), CODE_MEMORY; *n then needs no closing. */
bool weight_names_open(const trainer_model *type, const char *path, const trainer_weight *weights,
    size_t count, weight_names *n, fault *f);
void weight_names_close(weight_names *n); /* accepts {0} */

/* The tensor of this name, or of a name that another program uses for it; NULL: none. */
const file_tensor *weight_names_find(const weight_names *n, const char *name);

/* The tensor of a weight's twin; and that of its name, or else of its twin. */
const file_tensor *weight_names_twin(const weight_names *n, const trainer_weight *w);
const file_tensor *weight_names_of(const weight_names *n, const trainer_weight *w);

/* What stands before the name of `w` in the file, wrappers included. */
void weight_names_before(const weight_names *n, const trainer_weight *w, char *before, size_t size);

/* Names the unread tensors, but whole numbers and buffers; names that differ in numbers are one.
 * Fails if some belong to a module whose other tensors are read, or are a norm beside it: a model
 * that has them computes something else. */
bool weight_names_rest(const weight_names *n, char *unread, size_t size, fault *f);

/* The name that another program uses for a weight (trainer_model.renames); the same without one. */
void weights_other_name(const trainer_model *type, const char *name, char *other, size_t size);

#endif
