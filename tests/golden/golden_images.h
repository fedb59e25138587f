/* The images of the golden values on the device. */
#ifndef CLPRUNE_GOLDEN_IMAGES_H
#define CLPRUNE_GOLDEN_IMAGES_H

#include "golden/golden_rng.h"
#include "support/test_device.h"

/* Room for `bytes` bytes of images of three channels, and their levels. */
static inline clprune_image_bytes golden_images_make(size_t bytes)
{
    clprune_image_bytes images = {0};
    float levels[3 * 256];
    golden_fill_levels(levels);
    TEST_OK(clprune_buffer_create(
        test_context(), CLPRUNE_MEMORY_INPUT, "images", bytes, &images.buffer));
    TEST_OK(
        clprune_mat_create(test_context(), CLPRUNE_MEMORY_INPUT, "levels", 3, 256, &images.levels));
    TEST_OK(clprune_mat_write(test_context(), images.levels, levels));
    return images;
}

static inline void golden_images_write(
    const clprune_image_bytes *images, size_t bytes, uint64_t seed)
{
    uint8_t *host = test_alloc(bytes);
    golden_fill_image(seed, bytes, host);
    assert_int_equal(clEnqueueWriteBuffer(clprune_context_queue(test_context()), images->buffer,
                         CL_TRUE, 0, bytes, host, 0, NULL, NULL),
        CL_SUCCESS);
}

static inline void golden_images_free(clprune_image_bytes *images)
{
    clprune_buffer_release(test_context(), images->buffer);
    clprune_buffer_release(test_context(), images->levels.buffer);
    *images = (clprune_image_bytes){0};
}

#endif
