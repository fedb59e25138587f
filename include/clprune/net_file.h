/* The parameters and states of a net in a file, and with an optimizer all that a resumed training
 * needs: its next step has the bits of an uninterrupted one.
 *
 * The file is a safetensors file, as PyTorch's safetensors.torch.save_file writes it. Tensors have
 * the names and shapes of clprune_net_weight, in PyTorch's order (convolutions out x in x height x
 * width), in F32, and the names of clprune_net_states. A tied parameter is written once, under the
 * name of the other one. With an optimizer, each of its parameters NAME also has its state,
 * "optimizer.NAME.v" with SGD, else "optimizer.NAME.m" and "optimizer.NAME.v", in the parameter's
 * shape; 8-bit state is ".codes" in U8 and ".scales" behind that. The metadata then have
 * "optimizer", such as "adamw" or, of 8 bits, "adamw8", and "optimizer.steps". The learning rate,
 * the position in the data and the seeds of passes are the caller's. */
#ifndef CLPRUNE_NET_FILE_H
#define CLPRUNE_NET_FILE_H

#include "clprune/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the file: as a temporary file beside it, which takes its name once it is on the disk, so
 * it is there whole or as it was. Only the user may read it (mode 0600). optimizer: NULL, or one
 * over parameters of the net, whose state is written too. Blocks. Errors: INVALID_ARGUMENT (the net
 * is not settled, has a parameter without values or two tensors of one name; the optimizer has
 * other tensors; the file cannot be written, with the system's reason), UNSUPPORTED (a dry
 * context). */
CLPRUNE_API clprune_status clprune_net_save(
    clprune_net *net, const clprune_optimizer *optimizer, const char *path);

/* Reads the parameters and states of the net from F32, F16 or BF16, and the state of the optimizer,
 * unless that is NULL. Tensors that the net does not have are ignored, and so are sizes of 1 in
 * shapes. A tied parameter may have its own name in the file or the other one's, which comes first.
 * Takes host memory for the data of the file. Ends a pass as clprune_net_init does. Blocks.
 *
 * The whole file is read and checked before anything is written. Errors: INVALID_ARGUMENT, which
 * changes nothing (the file cannot be read or is no safetensors file; a tensor is missing or has
 * another shape or type; the file has no state of an optimizer, or another kind's; the net is
 * not settled, the optimizer has other tensors). */
CLPRUNE_API clprune_status clprune_net_load(
    clprune_net *net, clprune_optimizer *optimizer, const char *path);

#ifdef __cplusplus
}
#endif
#endif
