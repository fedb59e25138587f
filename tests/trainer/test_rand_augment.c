/* Operations of RandAugment against torchvision's (golden/make_golden_rand_augment.py).
 *
 * Where pixels move, one in 50 may be its neighbour: places are rounded from single precision
 * there. Colours may be one off. Draws depend on seed, epoch and index, take all operations in both
 * directions, and leave tests alone. */
#include <stdlib.h>

#include "support/test_dataset.h"
#include "trainer/data/augment/rand_augment.h"

enum { EDGE = 17, BYTES = 3 * EDGE * EDGE };

typedef struct golden_row {
    const char *name;
    rand_operation operation;
    int magnitude;
    const char *pixels;
} golden_row;

#include "golden/golden_rand_augment.inc"

static void unhex(const char *text, uint8_t bytes[BYTES])
{
    for (int i = 0; i < BYTES; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void operation(void **state)
{
    const golden_row *row = *state;
    const bool moves = row->operation > RAND_IDENTITY && row->operation <= RAND_ROTATE;
    uint8_t image[BYTES], got[BYTES], want[BYTES];
    int off = 0, far = 0;
    unhex(golden_image, image);
    unhex(row->pixels, want);
    rand_augment_apply(row->operation, row->magnitude, EDGE, image, got);
    for (int i = 0; i < BYTES; i++) {
        off += got[i] != want[i];
        far += abs(got[i] - want[i]) > 1;
    }
    if (off > BYTES / 50 || (far > 0 && !moves))
        fail_msg("%d of %d bytes differ, %d by more than 1", off, BYTES, far);
}

/* Which of the operations, in which direction, makes `got` of `image`; -1: none. */
static int find(const uint8_t *image, const uint8_t *got, int magnitude)
{
    uint8_t made[BYTES], again[BYTES];
    for (int i = 0; i < 4 * RAND_OPERATIONS * RAND_OPERATIONS; i++) {
        const rand_operation first = (rand_operation)(i / 4 % RAND_OPERATIONS),
                             second = (rand_operation)(i / 4 / RAND_OPERATIONS);
        const bool one_way = first >= RAND_POSTERIZE, other_way = second >= RAND_POSTERIZE;
        if ((one_way && (i & 1) != 0) || (other_way && (i & 2) != 0))
            continue;
        rand_augment_apply(first, (i & 1) != 0 ? -magnitude : magnitude, EDGE, image, made);
        rand_augment_apply(second, (i & 2) != 0 ? -magnitude : magnitude, EDGE, made, again);
        if (memcmp(again, got, BYTES) == 0)
            return i;
    }
    return -1;
}

static void draws(NO_ROW)
{
    enum { DRAWS = 300 };
    uint8_t image[BYTES], got[BYTES], same[BYTES], room[BYTES];
    bool seen[RAND_OPERATIONS] = {false}, ways[4] = {false};
    int changed = 0;
    unhex(golden_image, image);
    for (uint32_t i = 0; i < DRAWS; i++) {
        const augment_options options = {.seed = 4, .epoch = i % 3, .rand_augment = 9};
        memcpy(got, image, BYTES);
        memcpy(same, image, BYTES);
        rand_augment(&options, i, EDGE, got, room);
        rand_augment(&options, i, EDGE, same, room);
        assert_memory_equal(got, same, BYTES);
        changed += memcmp(got, image, BYTES) != 0;
        const int found = find(image, got, 9);
        assert_true(found >= 0);
        seen[found / 4 % RAND_OPERATIONS] = true;
        ways[found & 3] = true;
    }
    for (int i = 0; i < RAND_OPERATIONS; i++)
        assert_true(seen[i]);
    assert_true(ways[0] && ways[1] && ways[2]);
    assert_true(changed > DRAWS * 9 / 10 && changed < DRAWS);
}

/* Of a data set: training alone, after moves and before a rectangle is erased. */
static void of_data(NO_ROW)
{
    static const uint32_t first[] = {0, 1};
    static uint8_t plain[2 * PIXELS], got[2 * PIXELS], room[PIXELS];
    int32_t labels[2];
    const dataset *data = open_well("generated", NULL);
    augment_options options = {.seed = 5, .epoch = 1};
    read_batch(data, DATASET_TRAIN, first, 2, &options, plain, labels);
    options.rand_augment = 12;
    read_batch(data, DATASET_TRAIN, first, 2, &options, got, labels);
    for (uint32_t i = 0; i < 2; i++)
        rand_augment(&options, i, SIDE, plain + i * PIXELS, room);
    assert_memory_equal(got, plain, 2 * PIXELS);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(golden_rows); i++)
        test_add(&list, operation, &golden_rows[i], "%s", golden_rows[i].name);
    ADD(&list, draws);
    ADD(&list, of_data);
    return test_run_on_host("rand_augment", &list);
}
