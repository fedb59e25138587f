/*
 * One rank of a test of reduce_mpi; test_reduce.sh starts several of them.
 *
 *     test_reduce_mpi sums            every exchange, against values that each rank computes alone
 *     test_reduce_mpi fast            sums by MPI_Iallreduce, to rounding
 *     test_reduce_mpi coded           sums from codes: errors, bits, and bytes sent
 *     test_reduce_mpi lose VICTIM HOW SECONDS FOLDER
 *                                     steps with a deadline of SECONDS; in step 20 the rank VICTIM
 *                                     is lost: HOW is kill, stop, exit, abort or leave (closes)
 *     test_reduce_mpi lose VICTIM slow SECONDS FOLDER
 *                                     30 steps; in step 20 VICTIM's values come after 3 s. With
 *                                     `signal` for `slow` the other ranks then get SIGTERM
 *
 *     test_reduce_mpi differ A B      rank 1 makes call number A of `calls`, the others B: a fault
 *     test_reduce_mpi calls           prints the number of calls
 *
 * Exits 0, 1 after a check that failed, or with the code of a fault. Files of FOLDER: pid.RANK;
 * died, milliseconds of the clock; saved, which rank 0 writes 0.3 s after a fault,
 * 1.5 s with abort.
 */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trainer/base/stop.h"
#include "trainer/reduce/reduce.h"
#include "trainer/reduce/reduce_code.h"
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

/* In place of MPI's: counts what is sent, signs of life included. */
static size_t bytes_sent;

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
    MPI_Request *request)
{
    int size = 0;
    (void)PMPI_Type_size(type, &size);
    bytes_sent += (size_t)count * (size_t)size;
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

/* A gradient of a rank. */
static float small_value(int rank, size_t i)
{
    return (float)((double)(reduce_key((uint64_t)rank, i) >> 11) * 0x1p-53 - 0.3);
}

enum { CODED = 4 };
static const size_t coded_counts[CODED] = {1100003, 0, 700, 700};

/* Sums of four windows in flight, of draws of a number. */
static void coded_sums(reduce_kind kind, uint64_t number, float *const *windows)
{
    reduce->draw(group, number);
    for (int w = 0; w < CODED; ++w) {
        for (size_t i = 0; i < coded_counts[w]; ++i)
            windows[w][i] = small_value(place.rank, i);
        CHECK(reduce->begin(group, kind, NULL, windows[w], coded_counts[w], &f));
    }
    CHECK(reduce->finish(group, &f));
    for (int w = 0; w < CODED; ++w)
        CHECK(windows[w][coded_counts[w]] == 77);
}

static uint32_t bits_of(const float *values, size_t count)
{
    uint64_t key = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        key = reduce_key(key, bits);
    }
    return (uint32_t)key;
}

/* The largest difference of small_value in a group is below 1, of sums of N ranks below N: each
 * part is off by less than 1/255, and the sum's codes by less than N/255, and a little for the
 * errors of its limits. */
static void check_coded(reduce_kind kind, float *const *windows)
{
    const int ranks = place.ranks;
    const double parts = (double)(ranks - 1) / 255;
    const double sum = kind == REDUCE_SUM_CODED && ranks > 1 ? 1.01 * ranks / 255 : 0;
    double off = 0;
    for (int w = 0; w < CODED; ++w) {
        const reduce_slice own = reduce_slice_of(coded_counts[w], ranks, place.rank);
        for (size_t i = 0; i < coded_counts[w]; ++i) {
            double want = 0;
            for (int r = 0; r < ranks; ++r)
                want += (double)small_value(r, i);
            if (kind == REDUCE_SCATTER_CODED && (i < own.first || i >= own.first + own.count)) {
                CHECK(windows[w][i] == small_value(place.rank, i));
            } else {
                const double error = (double)windows[w][i] - want;
                CHECK(fabs(error) <= parts + sum + 1e-6);
                off += fabs(error);
            }
        }
    }
    CHECK(ranks == 1 || off > 100); /* there are codes */
}

/* Of equal values between two codes, each rank draws its own. */
static void other_draws(void)
{
    const size_t count = 256 * (size_t)place.ranks;
    const reduce_slice own = reduce_slice_of(count, place.ranks, place.rank);
    float *values = new_window(count);
    size_t halves = 0;
    for (size_t i = 0; i < count; ++i)
        values[i] = i % 256 == 0 ? 0.0f : i % 256 == 255 ? 255.0f : 100.5f;
    CHECK(reduce->begin(group, REDUCE_SCATTER_CODED, NULL, values, count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = own.first + 1; i < own.first + 255; ++i)
        halves += values[i] == 100.5f * (float)place.ranks; /* one rank rounds up, one down */
    CHECK(place.ranks != 3 || (halves > 80 && halves < 174));
    free(values);
}

/* The codes of a sum, of parts without an error: 0 to 255, and 0 or 255. Its scale is 2, and 101
 * lies between two codes, of which each group draws its own. */
static void sum_draws(void)
{
    enum { GROUPS = 16 };
    const size_t count = 256 * GROUPS;
    float *values = new_window(count);
    size_t ups = 0, apart = 0;
    for (size_t i = 0; i < count; ++i)
        values[i] = place.rank > 1 || i % 256 == 0 ? 0.0f
                    : i % 256 == 255               ? 255.0f
                    : place.rank == 0              ? 101.0f
                                                   : 0.0f;
    CHECK(reduce->begin(group, REDUCE_SUM_CODED, NULL, values, count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = 0; i < count; ++i)
        if (i % 256 > 0 && i % 256 < 255 && place.ranks > 1) {
            CHECK(values[i] == 100 || values[i] == 102);
            ups += values[i] == 102;
            apart += values[i] != values[(i + 1024) % count];
        }
    CHECK(place.ranks == 1 || (ups > 254 * 6 && ups < 254 * 10));
    CHECK(place.ranks == 1 || (apart > 254 * 6 && apart < 254 * 10));
    free(values);
}

static void coded(void)
{
    enum { DRAWS = 400 };
    const int ranks = place.ranks;
    float *windows[CODED], *again[CODED];
    for (int w = 0; w < CODED; ++w) {
        windows[w] = new_window(coded_counts[w]);
        again[w] = new_window(coded_counts[w]);
    }
    /* within bounds, the same bits on all ranks, a quarter of the bytes */
    size_t before = bytes_sent;
    coded_sums(REDUCE_SUM_CODED, 5, windows);
    size_t total = 0;
    for (int w = 0; w < CODED; ++w) {
        const uint32_t bits = bits_of(windows[w], coded_counts[w]);
        uint32_t words[2] = {bits, ~bits};
        CHECK(reduce->agree(group, words, 2, &f));
        CHECK(words[0] == bits && words[1] == ~bits);
        total += coded_counts[w];
    }
    const double plain = 2.0 * (ranks - 1) / ranks * 4 * (double)total;
    CHECK((double)(bytes_sent - before) <= 0.262 * plain + 4096 * ranks);
    CHECK(ranks == 1 || (double)(bytes_sent - before) >= 0.25 * plain);
    check_coded(REDUCE_SUM_CODED, windows);

    /* the same draw, and others; windows of a step differ, too */
    coded_sums(REDUCE_SUM_CODED, 5, again);
    CHECK(memcmp(windows[0], again[0], coded_counts[0] * sizeof(float)) == 0);
    CHECK(memcmp(windows[3], again[3], coded_counts[3] * sizeof(float)) == 0);
    CHECK(ranks == 1 || memcmp(windows[2], windows[3], coded_counts[3] * sizeof(float)) != 0);
    coded_sums(REDUCE_SUM_CODED, 6, again);
    CHECK(ranks == 1 || memcmp(windows[3], again[3], coded_counts[3] * sizeof(float)) != 0);

    coded_sums(REDUCE_SCATTER_CODED, 7, again);
    check_coded(REDUCE_SCATTER_CODED, again);

    other_draws();
    sum_draws();

    /* the mean of many draws; the deviation of a code is at most half a step */
    const size_t count = coded_counts[3];
    double sums[700] = {0}, deviation = sqrt(ranks - 1 + ranks * ranks) / 2 / 255, all = 0;
    for (int d = 0; d < DRAWS; ++d) {
        reduce->draw(group, (uint64_t)d);
        for (size_t i = 0; i < count; ++i)
            again[3][i] = small_value(place.rank, i);
        CHECK(reduce->begin(group, REDUCE_SUM_CODED, NULL, again[3], count, &f));
        CHECK(reduce->finish(group, &f));
        for (size_t i = 0; i < count; ++i)
            sums[i] += (double)again[3][i];
    }
    for (size_t i = 0; i < count; ++i) {
        double want = 0;
        for (int r = 0; r < ranks; ++r)
            want += (double)small_value(r, i);
        CHECK(fabs(sums[i] / DRAWS - want) <= 5 * deviation / sqrt(DRAWS));
        all += sums[i] / DRAWS - want;
    }
    CHECK(fabs(all) <= 5 * deviation * sqrt((double)count / DRAWS) + 1e-6 * (double)count);

    /* equal values are exact; a value that is not finite is seen by all, of one rank or of the sum
     */
    for (size_t i = 0; i < count; ++i)
        again[3][i] = i < 256 ? 0.5f : 0;
    if (place.rank == ranks - 1)
        again[3][300] = -INFINITY;
    CHECK(reduce->begin(group, REDUCE_SUM_CODED, NULL, again[3], count, &f));
    CHECK(reduce->finish(group, &f));
    for (size_t i = 0; i < count; ++i)
        CHECK(i < 256   ? again[3][i] == 0.5f * (float)ranks
              : i < 512 ? i == 300 || ranks == 1 || isnan(again[3][i])
                        : again[3][i] == 0);
    CHECK(!isfinite(again[3][300]));
    for (int w = 0; w < CODED; ++w) {
        free(windows[w]);
        free(again[w]);
    }
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

/* Calls that differ, and what the fault calls each. */
static const struct call_row {
    const char *says;
    reduce_kind kind; /* of a window */
    size_t count;     /* of values, bytes, or words */
    enum { WINDOW, GATHER, BROADCAST, AGREE } what;
    uint64_t draw;
} calls[] = {
    {"adds up 1000 values", REDUCE_SUM, 1000, WINDOW, 0},
    {"adds up 1001 values", REDUCE_SUM, 1001, WINDOW, 0},
    {"adds up 0 values", REDUCE_SUM, 0, WINDOW, 0},
    {"adds up its part of 1000 values", REDUCE_SCATTER, 1000, WINDOW, 0},
    {"gathers 1000 values", REDUCE_GATHER, 1000, WINDOW, 0},
    {"adds up the codes of 1000 values", REDUCE_SUM_CODED, 1000, WINDOW, 1},
    {"adds up the codes of 1000 values", REDUCE_SUM_CODED, 1000, WINDOW, 2},
    {"adds up the codes of its part of 1000 values", REDUCE_SCATTER_CODED, 1000, WINDOW, 1},
    {"gathers up to 1000 bytes", REDUCE_SUM, 1000, GATHER, 0},
    {"gathers up to 1001 bytes", REDUCE_SUM, 1001, GATHER, 0},
    {"takes 1000 bytes of rank 0", REDUCE_SUM, 1000, BROADCAST, 0},
    {"takes 1001 bytes of rank 0", REDUCE_SUM, 1001, BROADCAST, 0},
    {"takes a decision of 2 words", REDUCE_SUM, 2, AGREE, 0},
    {"takes a decision of 3 words", REDUCE_SUM, 3, AGREE, 0},
    {"takes a decision of 0 words", REDUCE_SUM, 0, AGREE, 0},
};
enum { CALLS = sizeof calls / sizeof *calls };

static bool make(const struct call_row *row)
{
    static float values[1024];
    static char all[1024];
    uint32_t words[REDUCE_WORDS] = {0};
    switch (row->what) {
    case WINDOW:
        reduce->draw(group, row->draw);
        return reduce->begin(group, row->kind, NULL, values, row->count, &f) &&
               reduce->finish(group, &f);
    case GATHER:
        return reduce->gather(group, values, 8, all, row->count, NULL, &f);
    case BROADCAST:
        return reduce->broadcast(group, all, row->count, &f);
    default:
        return reduce->agree(group, words, row->count, &f);
    }
}

static void differ(int a, int b)
{
    const struct call_row *mine = &calls[place.rank == 1 ? a : b];
    struct timespec before, now;
    CHECK(a < CALLS && b < CALLS && make(&calls[8]));
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK(!make(mine) && f.code == CODE_PEER);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec - before.tv_sec <= 4);
    CHECK(strstr(f.text, calls[a].says) != NULL && strstr(f.text, calls[b].says) != NULL);
    CHECK(strstr(f.text, "rank 1 on ") != NULL && strstr(f.text, "rank 0 on ") != NULL);
    CHECK((strcmp(calls[a].says, calls[b].says) == 0) == (strstr(f.text, "other draws") != NULL));
    (void)printf("differs\n");
    end(CODE_OK);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "calls") == 0)
        return printf("%d\n", CALLS) < 0;
    const bool loses = argc == 6 && strcmp(argv[1], "lose") == 0;
    const reduce_options options = {.peer_timeout = loses ? strtod(argv[4], NULL) : 20,
        .fast = argc == 2 && strcmp(argv[1], "fast") == 0};
    stop_install();
    bool good = reduce->open(&options, &group, &place, &f);
    if (good && loses)
        good = steps(atoi(argv[2]), argv[3], argv[5]);
    else if (good && options.fast)
        fast();
    else if (good && argc == 2 && strcmp(argv[1], "coded") == 0)
        coded();
    else if (good && argc == 4)
        differ(atoi(argv[2]), atoi(argv[3]));
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
