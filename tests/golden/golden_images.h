/* The images of the golden values on the device; reading and writing there. */
#ifndef CLPRUNE_GOLDEN_IMAGES_H
#define CLPRUNE_GOLDEN_IMAGES_H

#include "golden/golden_rng.h"
#include "support/test_objects.h"

static inline float *read_mat(clprune_mat mat)
{
    float *values = test_floats(mat.rows * mat.cols);
    TEST_OK(clprune_mat_read(test_context(), mat, values));
    return values;
}

static inline void golden_buffer_write(cl_mem buffer, size_t bytes, const void *from)
{
    TEST_CL(clEnqueueWriteBuffer(
        clprune_context_queue(test_context()), buffer, CL_TRUE, 0, bytes, from, 0, NULL, NULL));
}

/* The mean of a batch's losses. */
static inline double golden_mean_loss(clprune_mat loss)
{
    const float *losses = read_mat(loss);
    double sum = 0;
    for (size_t i = 0; i < loss.rows; i++)
        sum += (double)losses[i];
    return sum / (double)loss.rows;
}

/* Room for `bytes` bytes of images of three channels, and their levels. */
static inline clprune_image_bytes golden_images_make(size_t bytes)
{
    float levels[3 * 256];
    golden_fill_levels(levels);
    return (clprune_image_bytes){.buffer = test_new_mat(test_context(), 1, bytes / 4 + 1).buffer,
        .levels = test_new_mat_of(test_context(), "levels", 3, 256, levels)};
}

static inline void golden_images_write(
    const clprune_image_bytes *images, size_t bytes, uint64_t seed)
{
    uint8_t *host = test_alloc(bytes);
    golden_fill_image(seed, bytes, host);
    golden_buffer_write(images->buffer, bytes, host);
}

#endif
