#include "random_activations.h"

#include <stdint.h>

void random_activations(float *values, size_t count)
{
    static uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const float u = (float)(state >> 40) * 0x1p-23f - 1.0f;
        values[i] = u > 0.0f ? u : 0.05f * u;
    }
}
