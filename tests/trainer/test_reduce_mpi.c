/*
 * One rank of a test of reduce_mpi; test_reduce.sh starts several of them.
 *
 *     test_reduce_mpi sums            every exchange, against values that each rank computes alone
 *     test_reduce_mpi fast            sums by MPI_Iallreduce, to rounding
 *     test_reduce_mpi lose VICTIM HOW SECONDS FOLDER
 *                                     steps with a deadline of SECONDS; in step 20 the rank VICTIM
 *                                     is lost: HOW is kill, stop, exit, abort or leave (closes)
 *     test_reduce_mpi lose VICTIM slow SECONDS FOLDER
 *                                     30 steps; in step 20 VICTIM's values come after 3 s. With
 *                                     `signal` for `slow` the other ranks then get SIGTERM
 *
 * Exits 0, 1 after a check that failed, or with the code of a fault. Files of FOLDER: pid.RANK;
 * died, milliseconds of the clock; saved, which rank 0 writes 0.3 s after a fault,
 * 1.5 s with abort.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trainer/base/stop.h"
#include "trainer/reduce/reduce.h"
#include "trainer/reduce/reduce_tree.h"

static const reduce_functions *const reduce = &reduce_mpi;
static reduce_group *group;
static reduce_place place;
static fault f;

static _Noreturn void end(int code)
{
    (void)fflush(stdout);
    reduce->abort(group, code);
    _exit(code);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(                                                                         \
                stderr, "FAILED: rank %d: line %d: %s\n", place.rank, __LINE__, #condition);       \
            end(1);                                                                                \
        }                                                                                          \
    } while (0)

static void pause_for(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    while (nanosleep(&time, &time) != 0)
        ;
}

static void write_file(const char *folder, const char *name, long long number)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    (void)fprintf(file, "%lld\n", number);
    (void)fclose(file);
}

/* A value of a rank: of many magnitudes, so that another order gives other bits. */
static float value(int rank, size_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    return ((float)(h % 4001) - 2000.0f) * (float)(1 << (h >> 20) % 24) / 4096.0f;
}

/* The tree from the top: the left side has the largest power of two below `ranks`. */
static float tree(int first, int ranks, size_t i)
{
    int left = 1;
    if (ranks == 1)
        return value(first, i);
    while (2 * left < ranks)
        left *= 2;
    return tree(first, left, i) + tree(first + left, ranks - left, i);
}

static void fill(float *values, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        values[i] = value(place.rank, i);
}

static float *new_window(size_t count)
{
    float *values = malloc((count + 1) * sizeof *values);
    CHECK(values != NULL);
    values[count] = 77;
    return values;
}

/* A user event; its context stays till the end. */
static cl_event new_event(void)
{
    static cl_context context;
    cl_platform_id platform;
    cl_device_id device;
    if (context == NULL) {
        CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
        CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS);
        context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
        CHECK(context != NULL);
    }
    cl_event event = clCreateUserEvent(context, NULL);
    CHECK(event != NULL);
    return event;
}

static void set_event(cl_event event)
{
    CHECK(clSetUserEventStatus(event, CL_COMPLETE) == CL_SUCCESS);
    CHECK(clReleaseEvent(event) == CL_SUCCESS);
}

/* Windows of all sizes in flight; their values come after they began, the last window's first. */
static void sums(size_t large)
{
    const size_t ranks = (size_t)place.ranks, counts[] = {1, 0, ranks - 1, ranks, 255, 256, 257,
                                                  large / 2 + 1, 256 * ranks, large, 7};
    enum { WINDOWS = sizeof counts / sizeof *counts };
    float *windows[WINDOWS];
    cl_event ready[WINDOWS];
    for (size_t w = 0; w < WINDOWS; ++w) {
        windows[w] = new_window(counts[w]);
        memset(windows[w], 0, counts[w] * sizeof(float));
        ready[w] = new_event();
        CHECK(reduce->begin(group, REDUCE_SUM, ready[w], windows[w], counts[w], &f));
    }
    pause_for(0.02 * place.rank);
    for (size_t w = WINDOWS; w-- > 0;) {
        fill(windows[w], counts[w]);
        set_event(ready[w]);
    }
    CHECK(reduce->finish(group, &f));
    for (size_t w = 0; w < WINDOWS; ++w) {
        for (size_t i = 0; i < counts[w]; ++i) {
            const float want = tree(0, place.ranks, i);
            CHECK(memcmp(&windows[w][i], &want, sizeof want) == 0);
        }
        CHECK(windows[w][counts[w]] == 77);
        free(windows[w]);
    }
}

/* The halves: a sum of the own slice, and all slices. */
static void halves(size_t count)
{
    float *values = new_window(count);
    const reduce_slice own = reduce_slice_of(count, place.ranks, place.rank);
    fill(values, count);
    CHECK(reduce->begin(group, REDUCE_SCATTER, NULL, values, count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = 0; i < count; ++i)
        CHECK(values[i] == (i >= own.first && i < own.first + own.count ? tree(0, place.ranks, i)
                                                                        : value(place.rank, i)));
    CHECK(reduce->begin(group, REDUCE_GATHER, NULL, values, count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = 0; i < count; ++i)
        CHECK(values[i] == tree(0, place.ranks, i));
    CHECK(values[count] == 77);
    free(values);
}

static void gathered(void)
{
    char mine[64], all[64 * 64];
    size_t bytes[64], at = 0;
    const size_t own = (size_t)(place.rank * 7 % 20); /* 0 on rank 0 */
    CHECK(place.ranks <= 64);
    memset(mine, 'a' + place.rank, sizeof mine);
    CHECK(reduce->gather(group, mine, own, all, sizeof all, bytes, &f));
    for (int r = 0; r < place.ranks; ++r) {
        CHECK(bytes[r] == (size_t)(r * 7 % 20));
        for (size_t i = 0; i < bytes[r]; ++i)
            CHECK(all[at++] == 'a' + r);
    }
    fault refused = {0};
    CHECK(!reduce->gather(group, mine, 64, all, 64 * (size_t)place.ranks - 1, bytes, &refused));
    CHECK(refused.code == CODE_RUN);
}

static void told(void)
{
    enum { BYTES = 1000001 };
    unsigned char *data = malloc(BYTES);
    CHECK(data != NULL);
    for (size_t i = 0; i < BYTES; ++i)
        data[i] = (unsigned char)(place.rank == 0 ? i * 7 % 251 : 0);
    CHECK(reduce->broadcast(group, data, BYTES, &f));
    for (size_t i = 0; i < BYTES; ++i)
        CHECK(data[i] == i * 7 % 251);
    free(data);
    CHECK(reduce->broadcast(group, NULL, 0, &f));

    uint32_t words[REDUCE_WORDS] = {0};
    words[place.ranks - 1 - place.rank] = 100 + (uint32_t)place.rank;
    words[REDUCE_WORDS - 1] = 0xfffffff0u + (uint32_t)place.rank;
    CHECK(reduce->agree(group, words, REDUCE_WORDS, &f));
    for (int r = 0; r < place.ranks; ++r)
        CHECK(words[r] == 100 + (uint32_t)(place.ranks - 1 - r));
    CHECK(words[REDUCE_WORDS - 1] == 0xfffffff0u + (uint32_t)(place.ranks - 1));
    CHECK(reduce->agree(group, NULL, 0, &f));
    fault refused = {0};
    CHECK(!reduce->agree(group, words, REDUCE_WORDS + 1, &refused) && refused.code == CODE_RUN);
}

static void exchanges(void)
{
    CHECK(place.local_ranks == place.ranks && place.local_rank == place.rank);
    CHECK(place.host[0] != '\0');
    for (int i = 0; i < 2; ++i) {
        sums(i == 0 ? 2200003 : 1001);
        halves(100003);
        halves(3);
        gathered();
        told();
    }
}

static void fast(void)
{
    const size_t count = 1000003;
    float *values = new_window(count);
    fill(values, count);
    CHECK(reduce->begin(group, REDUCE_SUM, NULL, values, count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = 0; i < count; ++i) {
        double want = 0, most = 0;
        for (int r = 0; r < place.ranks; ++r) {
            want += (double)value(r, i);
            most += fabs((double)value(r, i));
        }
        CHECK(fabs((double)values[i] - want) <= 1e-6 * most);
    }
    free(values);
}

static void note_time(const char *folder)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    write_file(folder, "died", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static void lose(const char *how, const char *folder)
{
    note_time(folder);
    if (strcmp(how, "kill") == 0)
        (void)raise(SIGKILL);
    else if (strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    else if (strcmp(how, "exit") == 0)
        _exit(0);
    else if (strcmp(how, "abort") == 0)
        end(CODE_DATA);
    else if (reduce->close(group, &f)) /* leave */
        exit(CODE_OK);
}

static bool steps(int victim, const char *how, const char *folder)
{
    const size_t count = 100003;
    const bool stops = strcmp(how, "signal") == 0, slow = stops || strcmp(how, "slow") == 0;
    const int most = slow ? 30 : 1000000;
    float *values = new_window(count);
    char name[32];
    bool good = true;
    (void)snprintf(name, sizeof name, "pid.%d", place.rank);
    write_file(folder, name, (long long)getpid());
    for (int step = 0; step < most && good; ++step) {
        uint32_t word = stop_signal() != 0;
        const bool late = slow && step == 20 && place.rank == victim;
        cl_event ready = late ? new_event() : NULL;
        if (!slow && step == 20 && place.rank == victim)
            lose(how, folder);
        if (stops && step == 20 && !late)
            (void)kill(getpid(), SIGTERM);
        fill(values, count);
        good = reduce->begin(group, REDUCE_SUM, ready, values, count, &f);
        if (late) {
            pause_for(3);
            note_time(folder);
            set_event(ready);
        }
        good = good && reduce->finish(group, &f) && reduce->agree(group, &word, 1, &f);
        if (good && word != 0)
            good = fault_set(&f, CODE_STOPPED + SIGTERM, "all stop after a signal");
    }
    free(good ? values : NULL);
    return good;
}

int main(int argc, char **argv)
{
    const bool loses = argc == 6 && strcmp(argv[1], "lose") == 0;
    const reduce_options options = {.peer_timeout = loses ? strtod(argv[4], NULL) : 20,
        .fast = argc == 2 && strcmp(argv[1], "fast") == 0};
    stop_install();
    bool good = reduce->open(&options, &group, &place, &f);
    if (good && loses)
        good = steps(atoi(argv[2]), argv[3], argv[5]);
    else if (good && options.fast)
        fast();
    else if (good)
        exchanges();
    if (good && reduce->close(group, &f))
        return CODE_OK;
    (void)fprintf(stderr, "test_reduce_mpi: %s\n", f.text);
    if (loses && place.rank == 0) {
        pause_for(strcmp(argv[3], "abort") == 0 ? 1.5 : 0.3);
        write_file(argv[5], "saved", 1);
    }
    end(f.code);
}
