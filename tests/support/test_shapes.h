/* The one list of shapes for kernel tests: block sizes x tile boundaries x kept blocks.
 *
 * The tile boundaries are those of tiles of 64, vectors of 16 and segments of 256 rows, in bf16
 * 512. Each case has a number, from which test_shape_at() makes it. The short list
 * (CLPRUNE_TEST_SMALL) and the usual list are parts of the full list, which is for tests labelled
 * slow. */
#ifndef CLPRUNE_TEST_SHAPES_H
#define CLPRUNE_TEST_SHAPES_H

#include "support/test_device.h"

static const clprune_block test_blocks[] = {{1, 1}, {1, 4}, {1, 8}, {1, 16}, {1, 32}, {1, 64},
    {1, 128}, {1, 5}, {2, 2}, {4, 4}, {3, 7}, {16, 16}, {8, 1}};

typedef struct test_tile {
    const char *name;
    size_t batch, rows, cols, outputs; /* rows and cols 0: those of a block */
} test_tile;

static const test_tile test_tiles[] = {
    {"ragged", 5, 37, 101, 71},
    {"single block", 1, 0, 0, 1},
    {"equal", 2, 16, 64, 64},
    {"one less", 2, 15, 63, 63},
    {"one more", 2, 17, 65, 65},
    {"multiple", 3, 32, 128, 128},
    {"segments", 1, 513, 33, 17},
};

static const char *const test_keeps[] = {"half", "all", "1", "0"};

enum {
    TEST_BLOCKS = COUNT_OF(test_blocks),
    TEST_TILES = COUNT_OF(test_tiles),
    TEST_KEEPS = COUNT_OF(test_keeps),
    TEST_SHAPES = TEST_BLOCKS * TEST_TILES * TEST_KEEPS
};

typedef struct test_shape {
    clprune_bsr_desc desc;
    size_t outputs; /* the other side of a product */
    char name[96];
} test_shape;

static inline test_shape test_shape_at(size_t number)
{
    const clprune_block block = test_blocks[number % TEST_BLOCKS];
    const test_tile *tile = &test_tiles[number / TEST_BLOCKS % TEST_TILES];
    const size_t keep = number / (TEST_BLOCKS * TEST_TILES) % TEST_KEEPS;
    test_shape shape = {.outputs = tile->outputs};
    clprune_bsr_desc *desc = &shape.desc;
    desc->batch = tile->batch;
    desc->rows = tile->rows > 0 ? tile->rows : block.rows;
    desc->cols = tile->cols > 0 ? tile->cols : block.cols;
    desc->block = block;
    const size_t blocks =
        ((desc->rows + block.rows - 1) / block.rows) * ((desc->cols + block.cols - 1) / block.cols);
    const size_t keeps[TEST_KEEPS] = {(blocks + 1) / 2, blocks, 1, 0};
    desc->keep = keeps[keep];
    (void)snprintf(shape.name, sizeof shape.name, "%zux%zu %s: %zu x %zu x %zu, o %zu, keep %s",
        block.rows, block.cols, tile->name, desc->batch, desc->rows, desc->cols, shape.outputs,
        test_keeps[keep]);
    return shape;
}

/* Whether the usual list has a case: most block sizes with the ragged tile, and 1x16 with each
 * tile. Not all: each block size compiles its own programs. The short list: blocks 1x4, 1x16 and
 * 3x7 with the ragged tile, half and 1 kept. */
static inline bool test_shape_is_usual(size_t number)
{
    static const unsigned char usual_blocks[TEST_BLOCKS] = {
        1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0}; /* as in test_blocks */
    const size_t block = number % TEST_BLOCKS, tile = number / TEST_BLOCKS % TEST_TILES;
    const size_t keep = number / (TEST_BLOCKS * TEST_TILES);
    if (test_small())
        return tile == 0 && (block == 1 || block == 3 || block == 10) && keep % 2 == 0;
    return tile == 0 ? usual_blocks[block] != 0 : block == 3;
}

/* Adds `run` for each shape of the usual list, or of the full list; *state points to the shape. */
static inline void test_add_shapes(
    test_list *list, CMUnitTestFunction run, bool full, const char *what)
{
    static test_shape shapes[TEST_SHAPES];
    for (size_t i = 0; i < TEST_SHAPES; i++) {
        shapes[i] = test_shape_at(i);
        if (full || test_shape_is_usual(i))
            test_add(list, run, &shapes[i], "%s %s", what, shapes[i].name);
    }
}

#endif
