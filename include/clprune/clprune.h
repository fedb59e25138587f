/* clprune: training with compact saved activations on any OpenCL device (arXiv 2311.16883).
 *
 * A first program needs context.h, matrix.h and net.h, or for layers of its own keep.h, saved.h and
 * linear.h or conv2d.h. The tour, in
 * reading order:
 *   status.h version.h      the result of every call; the version of the loaded library
 *   context.h memory.h      the device, its kernels, the memory ledger
 *   plan.h                  memory planned before the run, and a context without a device
 *   matrix.h wrap.h         clprune_mat, the argument of every operation; host memory as a matrix
 *   gemm.h                  dense products
 *   bsr.h prune.h bspmm.h   the method: block-sparse storage, selection, products
 *   keep.h saved.h          how a tensor is kept for the backward pass, and its store
 *   saved_host.h            the store with tensors in host memory
 *   linear.h activation.h grads.h   layers that use a store of any form; the gradients they compute
 *   conv2d.h image.h        convolutions on channels-last images; images of bytes
 *   relu.h                  the mask that ReLU can keep
 *   affine.h gelu.h layerscale.h patch_embed.h token_mean.h upsample.h
 *   cross_entropy.h
 *                           the other layers of a ResMLP, forward and backward; some backward
 *                           passes need fewer tensors than PyTorch keeps
 *   batch_norm.h max_pool.h the other layers of a ResNet, channels-last
 *   add.h                   weighted sums: residual connections, gradients that are added
 *   dropout.h               dropout that keeps no mask
 *   element_loss.h          losses of regressions and of several labels at once
 *   layer_norm.h            normalisation of rows, as transformers use it
 *   group_norm.h            normalisation of samples over groups of features
 *   response.h              how strong features of a sample are beside the others
 *   gate.h permute.h        features of a sample times numbers: squeeze-and-excitation; elements in
 *                           another order
 *   attention.h             attention, whose scores are never in memory
 *   softmax.h               the softmax of each row, for attention in other shapes
 *   embedding.h positions.h rotary.h   tokens: rows of a table, learned and rotary positions
 *   token_loss.h            the loss of each token, also of a large vocabulary
 *   rms_norm.h swiglu.h     normalisation without a mean; gated units
 *   recurrent.h             LSTM and GRU
 *   token_mix.h             affine, linear layer and LayerScale: one backward pass from the input
 *   net.h                   a whole model from layers; the library decides what is kept
 *   optimizer.h schedule.h  SGD, AdamW, LAMB, clipping; cosine with warm-up
 *   net_file.h              a net and its optimizer to and from a safetensors file
 *
 * Rules for all functions.
 *
 * Arguments. The order is context, sizes, scalars, inputs, outputs, event. The first scalar is
 * `beta`, the factor of old gradients; where beta is a matrix it is called old_sums. Sizes and
 * offsets are in elements unless a name says bytes. Strings are copied. Options and descriptions
 * end in `reserved` fields, which must be zero. Zero-initialise such a struct, then set the fields
 * you need. Plain values (clprune_mat, clprune_ints, clprune_extent, clprune_block,
 * clprune_bsr_offsets, clprune_image_bytes, clprune_allocator), groups of matrices (clprune_grads,
 * clprune_affine, clprune_layer_norm, clprune_batch_norm and others) and structs that only return
 * results have none.
 *
 * Order. Operations enqueue on the context's in-order queue and return. If `event` is not NULL, it
 * receives an event of the last command, which the caller releases; it is valid only after success.
 * clprune_context_wait makes later commands wait for events. With given shapes nothing is built
 * after the first step, and nothing allocated after the second.
 *
 * Errors. A function that can fail returns a clprune_status; clprune_last_error has the details.
 * Any function may return INVALID_ARGUMENT (NULL, a bad enumerator, a reserved field that is not
 * zero, an overlap, an object of another context), INVALID_SIZE (a matrix or buffer of the wrong
 * size), SIZE_OVERFLOW, OUT_OF_HOST_MEMORY and FORKED. Functions that use the device may also
 * return OUT_OF_DEVICE_MEMORY (scratch), BUILD_FAILED, UNSUPPORTED (the driver refuses a kernel's
 * work-group) and OPENCL_ERROR. The headers name those with a special reason. After
 * INVALID_ARGUMENT and INVALID_SIZE outputs are unchanged; after other errors their contents are
 * undefined. New handles are NULL. The context and its objects can still be used.
 *
 * Ownership. clprune_..._destroy releases objects of clprune_..._create; clprune_buffer_release
 * releases buffers of clprune_buffer_create, clprune_mat_create and clprune_mats_create;
 * clprune_mat_unwrap ends clprune_mat_wrap.
 * OpenCL keeps a released buffer alive for the commands that use it. Do not free returned strings.
 *
 * For bindings of other languages: enums have the size of int, bool is _Bool, small structs such as
 * clprune_mat are passed and returned by value. The numbers of enumerators are part of the ABI.
 * context.h has the rules for threads and processes. */
#ifndef CLPRUNE_CLPRUNE_H
#define CLPRUNE_CLPRUNE_H

#include "clprune/activation.h"
#include "clprune/add.h"
#include "clprune/affine.h"
#include "clprune/attention.h"
#include "clprune/batch_norm.h"
#include "clprune/bspmm.h"
#include "clprune/bsr.h"
#include "clprune/context.h"
#include "clprune/conv2d.h"
#include "clprune/cross_entropy.h"
#include "clprune/dropout.h"
#include "clprune/embedding.h"
#include "clprune/gate.h"
#include "clprune/gelu.h"
#include "clprune/gemm.h"
#include "clprune/grads.h"
#include "clprune/image.h"
#include "clprune/keep.h"
#include "clprune/group_norm.h"
#include "clprune/layer_norm.h"
#include "clprune/layerscale.h"
#include "clprune/linear.h"
#include "clprune/matrix.h"
#include "clprune/max_pool.h"
#include "clprune/element_loss.h"
#include "clprune/memory.h"
#include "clprune/net.h"
#include "clprune/net_file.h"
#include "clprune/optimizer.h"
#include "clprune/patch_embed.h"
#include "clprune/permute.h"
#include "clprune/plan.h"
#include "clprune/positions.h"
#include "clprune/prune.h"
#include "clprune/recurrent.h"
#include "clprune/relu.h"
#include "clprune/response.h"
#include "clprune/rms_norm.h"
#include "clprune/rotary.h"
#include "clprune/saved.h"
#include "clprune/saved_host.h"
#include "clprune/schedule.h"
#include "clprune/softmax.h"
#include "clprune/status.h"
#include "clprune/swiglu.h"
#include "clprune/token_loss.h"
#include "clprune/token_mean.h"
#include "clprune/token_mix.h"
#include "clprune/upsample.h"
#include "clprune/version.h"
#include "clprune/wrap.h"

#endif
