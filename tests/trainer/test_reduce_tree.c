/* Sums in a fixed order, slices of windows, and the group of one process. */
#include <string.h>

#include "support/test_fault.h"
#include "trainer/reduce/reduce.h"
#include "trainer/reduce/reduce_tree.h"

enum { RANKS = 13, COUNT = 2500 }; /* more than one block of reduce_tree, and a part of one */

/* Of magnitudes that differ, so that another order gives other bits. */
static float value(size_t rank, size_t i)
{
    const uint32_t h = ((uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 77u) * 2246822519u;
    return ((float)(h % 4001) - 2000.0f) * (float)(1 << (h >> 20) % 24);
}

static float parts_of[RANKS][COUNT], *parts[RANKS];

static void fill(size_t ranks)
{
    for (size_t r = 0; r < ranks; r++) {
        parts[r] = parts_of[r];
        for (size_t i = 0; i < COUNT; i++)
            parts_of[r][i] = value(r, i);
    }
}

static void by_hand(NO_ROW)
{
    float sum[COUNT];
    for (int ranks = 1; ranks <= 7; ranks++) {
        fill((size_t)ranks);
        reduce_tree(parts, ranks, COUNT, sum);
        for (size_t i = 0; i < COUNT; i++) {
            float v[7];
            for (size_t r = 0; r < 7; r++)
                v[r] = value(r, i);
            const float four = (v[0] + v[1]) + (v[2] + v[3]);
            const float want[] = {v[0], v[0] + v[1], (v[0] + v[1]) + v[2], four, four + v[4],
                four + (v[4] + v[5]), four + ((v[4] + v[5]) + v[6])};
            assert_memory_equal(&sum[i], &want[ranks - 1], sizeof(float));
        }
    }
}

/* A binary counter adds micro-batches as they come; four ranks with 2 of 8, the same bits. */
static void across_ranks(NO_ROW)
{
    float whole[COUNT], halves[4][COUNT], *half[4], sum[COUNT];
    fill(8);
    reduce_tree(parts, 8, COUNT, whole);
    fill(8);
    for (size_t r = 0; r < 4; r++) {
        half[r] = halves[r];
        reduce_tree(parts + 2 * r, 2, COUNT, half[r]);
    }
    reduce_tree(half, 4, COUNT, sum);
    assert_memory_equal(sum, whole, sizeof sum);
}

/* The sum may replace any of its parts. */
static void in_place(NO_ROW)
{
    static float want[COUNT];
    fill(RANKS);
    reduce_tree(parts, RANKS, COUNT, want);
    for (size_t r = 0; r < RANKS; r++) {
        fill(RANKS);
        reduce_tree(parts, RANKS, COUNT, parts[r]);
        assert_memory_equal(parts[r], want, sizeof want);
    }
}

static void slices(NO_ROW)
{
    static const size_t counts[] = {0, 1, 255, 256, 257, 1000, 4096, 100003, SIZE_MAX / 8};
    for (size_t c = 0; c < COUNT_OF(counts); c++)
        for (int ranks = 1; ranks <= RANKS; ranks++) {
            size_t next = 0, most = 0;
            for (int r = 0; r < ranks; r++) {
                const reduce_slice s = reduce_slice_of(counts[c], ranks, r);
                assert_true(s.first == next && (s.first % 256 == 0 || s.count == 0));
                assert_true(r == 0 || s.count <= most);
                most = s.count;
                next += s.count;
            }
            assert_true(next == counts[c]);
            most = reduce_slice_of(counts[c], ranks, 0).count;
            assert_true(most / 256 <= counts[c] / 256 / (size_t)ranks + 1);
        }
}

/* One process waits for its values, and says what ranks say. */
static void alone(NO_ROW)
{
    const reduce_functions *const reduce = &reduce_alone;
    const reduce_options options = {.peer_timeout = 1};
    reduce_group *group;
    reduce_place place;
    cl_context context;
    float values[3] = {1, 2, 3};
    uint32_t words[2] = {4, 5};
    char all[4] = "";
    size_t bytes = 0;
    TEST_GOOD(reduce->open(&options, &group, &place, &f));
    assert_true(place.rank == 0 && place.ranks == 1);
    assert_true(place.local_rank == 0 && place.local_ranks == 1 && place.host[0] != '\0');
    TEST_GOOD(reduce->finish(group, &f));
    TEST_CL(clGetCommandQueueInfo(
        clprune_context_queue(test_context()), CL_QUEUE_CONTEXT, sizeof context, &context, NULL));
    for (int i = 0; i < 20; i++) {
        cl_event ready = clCreateUserEvent(context, NULL);
        TEST_GOOD(reduce->begin(group, REDUCE_SUM, ready, values, 3, &f));
        TEST_GOOD(reduce->begin(group, REDUCE_SCATTER, NULL, values, 3, &f));
        TEST_CL(clSetUserEventStatus(ready, i == 19 ? -5 : CL_COMPLETE));
        TEST_CL(clReleaseEvent(ready));
    }
    TEST_REFUSED(reduce->finish(group, &f), CODE_RUN, "waiting for gradients");
    TEST_GOOD(reduce->finish(group, &f));
    assert_true(values[0] == 1 && values[2] == 3);
    TEST_GOOD(reduce->gather(group, "abc", 3, all, sizeof all, &bytes, &f));
    assert_true(bytes == 3 && strcmp(all, "abc") == 0);
    TEST_REFUSED(reduce->gather(group, "abcde", 5, all, sizeof all, &bytes, &f), CODE_RUN, "5");
    TEST_GOOD(reduce->broadcast(group, all, sizeof all, &f));
    TEST_GOOD(reduce->agree(group, words, 2, &f));
    assert_true(words[0] == 4 && words[1] == 5);
    TEST_GOOD(reduce->close(group, &f));
}

int main(void)
{
    test_list list = {0};
    test_add(&list, by_hand, NULL, "the order, by hand");
    test_add(&list, across_ranks, NULL, "the order within ranks and across them");
    test_add(&list, in_place, NULL, "sums in place");
    test_add(&list, slices, NULL, "slices");
    test_add(&list, alone, NULL, "one process");
    return test_run_on_each_device("reduce_tree", &list);
}
