/* The random criterion: what is kept is scaled by blocks / keep, every block is kept equally often,
 * and the mean over seeds is the dense tensor. */
#include "support/test_index.h"
#include "support/test_store.h"

enum { BATCH = 64, ROWS = 6, COLS = 40, WIDTH = 8, BLOCKS = ROWS * COLS / WIDTH, DRAWS = 40 };

/* Blocks 1000 times as large as others are kept no more often; kept ones are exactly weighted. */
static void uniform(NO_ROW)
{
    static const size_t keeps[] = {1, 7, 15, BLOCKS - 1};
    float *x = test_new_uniform(3, 1, 2, (size_t)BATCH * ROWS * COLS);
    for (size_t i = 0; i < (size_t)BATCH * ROWS * COLS; i++)
        x[i] *= i / WIDTH % 3 == 0 ? 1000.0f : 1.0f;
    test_mat mx = test_mat_make(BATCH * ROWS, COLS, 2, x);
    for (size_t k = 0; k < COUNT_OF(keeps); k++) {
        const clprune_bsr_desc d = {BATCH, ROWS, COLS, {1, WIDTH}, keeps[k]};
        const float weight = (float)BLOCKS / (float)keeps[k];
        size_t kept[BLOCKS] = {0};
        for (uint64_t seed = 0; seed < DRAWS; seed++) {
            float *got = test_drawn(d, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_RANDOM, seed, &mx);
            for (size_t i = 0; i < (size_t)BATCH * BLOCKS; i++) {
                const float *from = x + i * WIDTH, *to = got + i * WIDTH;
                kept[i % BLOCKS] += to[0] != 0;
                for (size_t e = 0; e < WIDTH; e++)
                    if (to[e] != (to[0] != 0 ? weight * from[e] : 0.0f))
                        fail_msg(
                            "keep %zu: %g became %g", keeps[k], (double)from[e], (double)to[e]);
            }
        }
        const double n = (double)BATCH * DRAWS, p = (double)keeps[k] / BLOCKS;
        for (size_t i = 0; i < BLOCKS; i++)
            if (fabs((double)kept[i] - n * p) > 5 * sqrt(n * p * (1 - p)))
                fail_msg("keep %zu: block %zu is kept %zu times of %g, expected %g", keeps[k], i,
                    kept[i], n, n * p);
    }
}

/* The seed alone decides, and a part of a batch is drawn as it is in the whole. */
static void seeds(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED,
        .sparsity = 0.5f,
        .block = {1, WIDTH},
        .criterion = CLPRUNE_CRITERION_RANDOM};
    check_parts(keep, 9, ROWS, COLS, "random");
    float *x = test_new_normal(5, (size_t)BATCH * ROWS * COLS), *got[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        clprune_saved *saved = test_new_saved(test_context(), keep, BATCH, ROWS, COLS);
        clprune_saved_set_seed(saved, 7 + seed);
        store_all(saved, x);
        got[seed] = restored(saved, 0, BATCH);
    }
    assert_memory_not_equal(got[1], got[0], (size_t)BATCH * ROWS * COLS * sizeof *x);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, uniform, NULL, "uniform, and weighted");
    test_add(&list, seeds, NULL, "seeds and parts");
    return test_run_on_devices("random criterion", &list);
}
