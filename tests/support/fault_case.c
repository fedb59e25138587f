#include "support/fault_case.h"

const float *fault_some(unsigned salt)
{
    static float numbers[FAULT_SOME];
    for (unsigned i = 0; i < FAULT_SOME; i++)
        numbers[i] = 0.25f + (float)((i * 29 + salt * 13) % 97) / 64;
    return numbers;
}

clprune_status fault_checked(clprune_status status, const void *place)
{
    const void *handle;
    memcpy(&handle, place, sizeof handle);
    assert_true((status == CLPRUNE_SUCCESS) == (handle != NULL));
    return status;
}

void fault_add(fault_bytes *bytes, const void *data, size_t count)
{
    assert_true(count <= sizeof bytes->data - bytes->count);
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void fault_add_mat(fault_bytes *bytes, clprune_context *context, clprune_mat mat)
{
    float values[4096];
    assert_true(mat.rows * mat.cols <= 4096);
    TEST_OK(clprune_mat_read(context, mat, values));
    fault_add(bytes, values, mat.rows * mat.cols * sizeof *values);
}

void fault_add_buffer(
    fault_bytes *bytes, clprune_context *context, cl_mem buffer, size_t offset, size_t count)
{
    assert_true(count <= sizeof bytes->data - bytes->count);
    TEST_CL(clEnqueueReadBuffer(clprune_context_queue(context), buffer, CL_TRUE, offset, count,
        bytes->data + bytes->count, 0, NULL, NULL));
    bytes->count += count;
}
