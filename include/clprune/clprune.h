/* clprune: training with block-pruned activations on any OpenCL device (arXiv 2311.16883).
 *
 * The tour, in reading order:
 *   status.h version.h      what every call returns; which library is loaded
 *   context.h memory.h      the device, its kernels, the memory ledger
 *   plan.h                  memory planned before the run, and a context without a device
 *   matrix.h wrap.h         clprune_mat, the argument of every operation; host memory as one
 *   gemm.h                  dense products
 *   bsr.h prune.h bspmm.h   the method: block-sparse storage, selection, products
 *   keep.h saved.h          how a tensor is kept for the backward pass, and its store
 *   saved_host.h            the store with tensors of host memory
 *   linear.h activation.h   the layers that keep what they need in any form
 *   affine.h gelu.h gelu_code.h relu.h layerscale.h patch_embed.h token_mean.h cross_entropy.h
 *                           the other layers of a ResMLP, each forward and backward, some of them
 *                           backward without an activation that PyTorch would keep
 *   token_mix.h             three of them at once, backward from their input
 *   optimizer.h schedule.h  SGD, AdamW, LAMB, clipping; cosine with warm-up
 *
 * Rules that hold everywhere: argument order is context, sizes, scalars, inputs, outputs, event.
 * Operations enqueue on the in-order queue and return; `event`, where not NULL, receives an event
 * of the last command, to be released by the caller; clprune_context_wait makes what is enqueued
 * next wait for events. Sizes and offsets are in elements unless a
 * name says bytes. Nothing is allocated or built once the shapes of a step have been seen. The
 * numbers of enumerators are part of the ABI. Options and descriptions end in `reserved` fields,
 * which must be zero: zero-initialise a description, then set what matters.
 *
 * For bindings of other languages: enums have the size of int, bool is _Bool, small structs such as
 * clprune_mat are passed and returned by value. Strings that go in are copied; strings that come
 * out are not to be freed. An event is valid after success only; after a failure, new handles are
 * NULL. clprune_..._create is undone by clprune_..._destroy, clprune_buffer_create and
 * clprune_mat_create by clprune_buffer_release, clprune_mat_wrap by clprune_mat_unwrap. OpenCL
 * keeps a released buffer alive for the commands that use it. context.h has the rules for threads
 * and processes. */
#ifndef CLPRUNE_CLPRUNE_H
#define CLPRUNE_CLPRUNE_H

#include "clprune/activation.h"
#include "clprune/affine.h"
#include "clprune/bspmm.h"
#include "clprune/bsr.h"
#include "clprune/context.h"
#include "clprune/cross_entropy.h"
#include "clprune/gelu.h"
#include "clprune/gelu_code.h"
#include "clprune/gemm.h"
#include "clprune/keep.h"
#include "clprune/layerscale.h"
#include "clprune/linear.h"
#include "clprune/matrix.h"
#include "clprune/memory.h"
#include "clprune/optimizer.h"
#include "clprune/patch_embed.h"
#include "clprune/plan.h"
#include "clprune/prune.h"
#include "clprune/relu.h"
#include "clprune/saved.h"
#include "clprune/saved_host.h"
#include "clprune/schedule.h"
#include "clprune/status.h"
#include "clprune/token_mean.h"
#include "clprune/token_mix.h"
#include "clprune/version.h"
#include "clprune/wrap.h"

#endif
