/* Objects of the library that live until the end of their case, or until test_end(context). The
 * case fails if one cannot be made. */
#ifndef CLPRUNE_TEST_OBJECTS_H
#define CLPRUNE_TEST_OBJECTS_H

#include "support/test_device.h"

/* A matrix of category INPUT. */
clprune_mat test_new_mat(clprune_context *context, size_t rows, size_t cols);
/* The same, with these values; NULL: not written. */
clprune_mat test_new_mat_of(
    clprune_context *context, const char *name, size_t rows, size_t cols, const float *values);
clprune_bsr test_new_bsr(clprune_context *context, clprune_bsr_desc desc);
clprune_linear *test_new_linear(clprune_context *context, clprune_linear_desc desc);
clprune_conv2d *test_new_conv2d(clprune_context *context, clprune_conv2d_desc desc);
clprune_saved *test_new_saved(
    clprune_context *context, clprune_keep keep, size_t batch, size_t rows, size_t cols);
clprune_optimizer *test_new_optimizer(clprune_context *context, clprune_optimizer_desc desc,
    size_t count, const clprune_param *params);
/* With settings that are neither 0 nor 1, and the same as AdamW's for all kinds. */
clprune_optimizer_desc test_optimizer_desc(clprune_optimizer_kind kind);
/* Adds `run` for each optimizer whose state has so many bits (0: any); *state points to its
 * clprune_optimizer_info. */
void test_add_optimizers(
    test_list *list, unsigned state_bits, CMUnitTestFunction run, const char *what);
/* The plan of a dry context; it does not go with the context. */
clprune_plan *test_new_plan(clprune_context *dry);

/* For what a layer keeps of x. */
clprune_saved *test_new_linear_saved(
    clprune_context *context, clprune_linear *layer, size_t batch, size_t rows);
clprune_saved *test_new_conv2d_saved(
    clprune_context *context, clprune_conv2d *layer, size_t batch, clprune_extent image);
/* What some creation returned. */
clprune_saved *test_own_saved(clprune_context *context, clprune_saved *saved);

/* Queues and events of a context that has OpenCL. */
cl_command_queue test_new_queue(clprune_context *context, cl_command_queue_properties properties);
cl_event test_new_event(clprune_context *context);

/* The ledger's bytes. */
uint64_t test_live(const clprune_context *context, clprune_memory_category category);

#endif
