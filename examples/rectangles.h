/* The images of unet.c, which alone includes this file. */
#ifndef RECTANGLES_H
#define RECTANGLES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { SIDE = 32, CHANNELS = 3, BATCH = 16, ELEMENTS = BATCH * SIDE * SIDE * CHANNELS };

static double draw(uint64_t *state) /* in [0, 1), by xorshift */
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Images of four rectangles, with normal noise of deviation 0.3. */
static void draw_batch(uint64_t number, float *noisy, float *noise)
{
    uint64_t state = 0x9e3779b97f4a7c15 * (number + 1);
    for (size_t i = 0; i < ELEMENTS; i++)
        noisy[i] = 0;
    for (size_t n = 0; n < BATCH; n++)
        for (size_t k = 0; k < 4; k++) {
            const size_t top = (size_t)(draw(&state) * SIDE), left = (size_t)(draw(&state) * SIDE);
            const size_t bottom = top + (size_t)(draw(&state) * SIDE),
                         right = left + (size_t)(draw(&state) * SIDE);
            float colour[CHANNELS];
            for (size_t c = 0; c < CHANNELS; c++)
                colour[c] = (float)(2 * draw(&state) - 1);
            for (size_t i = top; i < bottom && i < SIDE; i++)
                for (size_t j = left; j < right && j < SIDE; j++)
                    for (size_t c = 0; c < CHANNELS; c++)
                        noisy[((n * SIDE + i) * SIDE + j) * CHANNELS + c] = colour[c];
        }
    for (size_t i = 0; i < ELEMENTS; i++) { /* Box and Muller */
        noise[i] = 0.3f * (float)(sqrt(-2 * log(1 - draw(&state))) *
                                  cos(6.283185307179586 * draw(&state)));
        noisy[i] += noise[i];
    }
}

#endif
