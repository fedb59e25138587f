#include "trainer/run/run_ranks.h"

#include <clprune/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h> /* sysconf */

#include "trainer/run/launcher.h"

/* What rank 0 alone does. */
static void follow(options *o)
{
    o->output_dir = o->tensorboard = o->summary_json = o->export_file = o->adapters = NULL;
    o->new_folder = o->memory_report = false;
    o->gradient_check = o->sample = 0;
    o->quiet = true;
}

/* A process that is alone among others would run as many times, each in the others' files: of a
 * program for one process, or of another MPI than the launcher's. */
static bool check_alone(const options *o, bool mpi, int started, fault *f)
{
    return started < 2 || fault_set(f, CODE_USAGE,
                              mpi ? "this is one of %d processes, but alone for the MPI of %s-mpi; "
                                    "start it with the mpirun of that MPI"
                                  : "this is one of %d processes; the program for that is %s-mpi",
                              started, o->model->program);
}

/* The cores of this process, and its share of those that the processes of this host may take. */
static void count_cores(const options *o, long *own, long *share)
{
    long allowed;
    launcher_cores(own, &allowed);
    if (allowed == 0)
        *own = allowed = sysconf(_SC_NPROCESSORS_ONLN);
    *share = allowed > o->ranks.at.local_ranks ? allowed / o->ranks.at.local_ranks : 1;
}

/* mpirun binds each process to a core unless it is told not to. */
static void check_cores(const options *o)
{
    long own, share;
    count_cores(o, &own, &share);
    if (own < share && o->ranks.at.local_rank == 0)
        (void)fprintf(stderr,
            "%s: note: the launcher binds each process of %s to %ld of its %ld cores; mpirun "
            "--bind-to none, or srun --cpu-bind=none, leaves it all\n",
            o->model->program, o->ranks.at.host, own, share);
}

int run_ranks_fullest(const options *o)
{
    const int ranks = o->ranks.at.ranks;
    return o->zero && options_passes(o) % (size_t)ranks == 0 ? 0 : ranks - 1;
}

/* A plan of --processes. */
static bool imagine(options *o, fault *f)
{
    if (!o->ranks.call->close(o->ranks.group, f))
        return false;
    o->ranks.group = NULL;
    o->ranks.at.ranks = (int)o->processes;
    o->ranks.at.rank = run_ranks_fullest(o);
    return true;
}

bool run_ranks_open(const reduce_functions *call, options *o, fault *f)
{
    const bool mpi = call != &reduce_alone;
    const int started = launcher_processes();
    if (!mpi && !check_alone(o, false, started, f))
        return false;
    const reduce_options wanted = {.peer_timeout = o->peer_timeout};
    if (!call->open(&wanted, &o->ranks.group, &o->ranks.at, f))
        return false;
    o->ranks.call = call;
    if (o->ranks.at.ranks == 1 && !check_alone(o, true, started, f))
        return false;
    if (mpi && started > 0)
        check_cores(o);
    if (o->ranks.at.rank > 0)
        follow(o);
    return o->ranks.at.ranks > 1 || !o->plan || o->processes < 2 || imagine(o, f);
}

static bool has_part(const char *name, const char *part)
{
    const size_t length = strlen(part);
    for (; strlen(name) >= length; ++name)
        if (strncasecmp(name, part, length) == 0)
            return true;
    return false;
}

/* Whether a device is meant by --device: its indices, or a part of a name, any case. */
static bool is_meant(const clprune_device_info *device, const char *wanted)
{
    char indices[48];
    (void)snprintf(
        indices, sizeof indices, "%zu:%zu", device->platform_index, device->device_index);
    return strcmp(indices, wanted) == 0 || has_part(device->device, wanted) ||
           has_part(device->platform, wanted);
}

/* The devices that one process would choose from: those that are meant, or all GPUs, or all. */
static size_t choose_from(const clprune_device_info *devices, size_t count, const char *wanted,
    const clprune_device_info **chosen)
{
    size_t found = 0;
    bool gpu = false;
    for (size_t i = 0; i < count; ++i)
        gpu = gpu || (devices[i].type & CL_DEVICE_TYPE_GPU) != 0;
    for (size_t i = 0; i < count; ++i)
        if (wanted != NULL ? is_meant(&devices[i], wanted)
                           : !gpu || (devices[i].type & CL_DEVICE_TYPE_GPU) != 0)
            chosen[found++] = &devices[i];
    return found;
}

/* Several GPUs: each rank of this host takes one. CPUs are shared by their cores. */
static bool take_device(options *o, fault *f)
{
    static char taken[48];
    const char *wanted = o->device != NULL ? o->device : getenv("CLPRUNE_DEVICE");
    size_t count, found = 0;
    if (!fault_check(f, NULL, clprune_device_list(0, NULL, &count), "listing devices"))
        return false;
    clprune_device_info *devices = calloc(count + 1, sizeof *devices);
    const clprune_device_info **chosen = calloc(count + 1, sizeof *chosen);
    bool good = (devices != NULL && chosen != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    good = good &&
           fault_check(f, NULL, clprune_device_list(count, devices, &count), "listing devices");
    if (good)
        found = choose_from(devices, count, wanted, chosen);
    if (found > 1) {
        const clprune_device_info *own = chosen[(size_t)o->ranks.at.local_rank % found];
        (void)snprintf(taken, sizeof taken, "%zu:%zu", own->platform_index, own->device_index);
        o->device = taken;
    }
    if (found > 0 && (chosen[0]->type & CL_DEVICE_TYPE_GPU) != 0 &&
        (size_t)o->ranks.at.local_ranks > found && o->ranks.at.local_rank == 0)
        (void)fprintf(stderr, "%s: note: %d processes of %s share %zu devices\n", o->model->program,
            o->ranks.at.local_ranks, o->ranks.at.host, found);
    free(devices);
    free(chosen);
    return good;
}

bool run_ranks_share(options *o, fault *f)
{
    long own, share;
    char threads[24];
    if (o->ranks.at.local_ranks < 2)
        return true;
    count_cores(o, &own, &share);
    (void)snprintf(threads, sizeof threads, "%ld", own < share ? own : share);
    (void)setenv("POCL_MAX_PTHREAD_COUNT", threads, 0);
    return take_device(o, f);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool run_ranks_pace(const options *o, run_pace *pace, fault *f)
{
    const rank_group *r = &o->ranks;
    const size_t ranks = (size_t)r->at.ranks;
    if (!ranks_many(r) || pace->steps == 0)
        return true;
    const double each = 1e3 / (double)pace->steps, mine[] = {each * pace->own, each * pace->waited};
    double(*all)[2] = calloc(ranks, sizeof *all), *own = calloc(ranks, sizeof *own);
    bool good = (all != NULL && own != NULL) || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && r->call->gather(r->group, mine, sizeof mine, all, ranks * sizeof *all, NULL, f);
    *pace = (run_pace){0};
    for (size_t i = 0; good && i < ranks; ++i) {
        own[i] = all[i][0];
        pace->waited_ms += all[i][1] / (double)ranks;
        if (own[i] > pace->slowest_ms) {
            pace->slowest_ms = own[i];
            pace->slowest = (int)i;
        }
    }
    if (good) {
        qsort(own, ranks, sizeof *own, by_size);
        pace->median_ms = (own[(ranks - 1) / 2] + own[ranks / 2]) / 2;
    }
    free(all);
    free(own);
    return good;
}

bool run_ranks_all(const options *o, bool good, fault *f)
{
    const rank_group *r = &o->ranks;
    const uint32_t mine = good ? 0 : (uint32_t)(r->at.ranks - r->at.rank);
    uint32_t words[] = {mine, 0};
    if (!ranks_many(r))
        return good;
    if (!r->call->agree(r->group, words, 1, f))
        return false;
    words[1] = words[0] != 0 && words[0] == mine ? (uint32_t)f->code : 0;
    if (words[0] == 0)
        return true;
    if (!r->call->agree(r->group, &words[1], 1, f))
        return false;
    if (words[0] != mine)
        *f = (fault){.code = (int)words[1]};
    return false;
}

/* "rank 1 on node2 has --lr 0.1, rank 0 has 0.01". Both texts end with NUL. */
static void tell_difference(const options *o, const char *own, size_t own_size, const char *first,
    size_t first_size, char words[MESSAGE_SIZE])
{
    const char *own_end = own + own_size, *first_end = first + first_size;
    while (own < own_end && first < first_end && strcmp(own, first) == 0) {
        own += strlen(own) + 1;
        first += strlen(first) + 1;
    }
    own = own < own_end ? own : "";
    first = first < first_end ? first : "";
    const char *value = strchr(own, '='), *other = strchr(first, '=');
    const int name = value != NULL ? (int)(value - own) : 0;
    const bool named =
        value != NULL && other == first + name && strncmp(own, first, (size_t)name) == 0;
    value = named ? value + 1 : own;
    other = named ? other + 1 : first;
    (void)snprintf(words, MESSAGE_SIZE, "rank %d on %s has %.*s%s%s, rank 0 has %s",
        o->ranks.at.rank, o->ranks.at.host, named ? name : 0, own, named ? " " : "",
        value[0] != '\0' ? value : "none", other[0] != '\0' ? other : "none");
}

bool run_ranks_compare(
    const options *o, const char *text, size_t size, int *other, char words[MESSAGE_SIZE], fault *f)
{
    const rank_group *r = &o->ranks;
    uint64_t first_size = size;
    *other = 0;
    words[0] = '\0';
    if (!r->call->broadcast(r->group, &first_size, sizeof first_size, f))
        return false;
    char *first = malloc((size_t)first_size + 1);
    if (first != NULL && r->at.rank == 0)
        memcpy(first, text, size);
    if (!run_ranks_all(o, first != NULL || fault_set(f, CODE_MEMORY, "out of memory"), f)) {
        free(first);
        return false;
    }
    if (!r->call->broadcast(r->group, first, (size_t)first_size, f))
        return false; /* MPI may still write there */
    const bool differs = size != first_size || memcmp(text, first, size) != 0;
    uint32_t word = differs ? (uint32_t)(r->at.ranks - r->at.rank) : 0;
    const bool good = r->call->agree(r->group, &word, 1, f);
    if (good && word != 0)
        *other = r->at.ranks - (int)word;
    if (good && differs && *other == r->at.rank)
        tell_difference(o, text, size, first, (size_t)first_size, words);
    free(first);
    return good;
}

bool run_ranks_same(const options *o, const char *text, size_t size, fault *f)
{
    char words[MESSAGE_SIZE];
    int other;
    return run_ranks_compare(o, text, size, &other, words, f) &&
           (other == 0 || fault_set(f, CODE_USAGE, "%s", words));
}

bool run_ranks_agree(const options *o, bool parsed, fault *f)
{
    char *settings = NULL, *text = NULL;
    size_t size = 0, head = 0;
    if (!ranks_many(&o->ranks))
        return parsed;
    bool good = parsed && options_of_ranks(o, &settings, &size, f);
    if (good) {
        text = malloc(size + 128);
        good = text != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    }
    if (good) {
        head = (size_t)snprintf(text, 128, "program=%s %s", o->model->program, CLPRUNE_VERSION) + 1;
        memcpy(text + head, settings, size);
    }
    good = run_ranks_all(o, good, f) && run_ranks_same(o, text, head + size, f);
    free(settings);
    free(text);
    return good;
}

/* A choice as a message. */
typedef struct choice {
    uint64_t code; /* CODE_OK, or why there is none */
    uint64_t activations, code_bits, batch_size, base_bits;
    uint64_t text; /* bytes of keep_text, its end among them; 0: there is none */
} choice;

/* Rank 0's keep_text to all, whose memory is there on all ranks or none takes part. */
static bool share_text(options *o, size_t size, fault *f)
{
    const rank_group *r = &o->ranks;
    if (r->at.rank > 0) {
        free(o->keep_text);
        o->keep_text = malloc(size);
    }
    uint32_t lacking = o->keep_text == NULL;
    return r->call->agree(r->group, &lacking, 1, f) &&
           (lacking == 0 || fault_set(f, CODE_MEMORY, "a rank is out of memory")) &&
           r->call->broadcast(r->group, o->keep_text, size, f);
}

bool run_ranks_share_choice(options *o, bool chosen, fault *f)
{
    const rank_group *r = &o->ranks;
    choice c = {.code = chosen ? CODE_OK : (uint64_t)f->code,
        .activations = o->activations,
        .code_bits = o->code_bits,
        .batch_size = o->batch_size,
        .base_bits = o->base_bits,
        .text = o->keep_text != NULL ? strlen(o->keep_text) + 1 : 0};
    fault lost = {0};
    if (!r->call->broadcast(r->group, &c, sizeof c, &lost)) {
        *f = lost;
        return false;
    }
    if (c.code != CODE_OK) {
        *f = r->at.rank == 0 ? *f : (fault){.code = (int)c.code};
        return false;
    }
    o->activations = (size_t)c.activations;
    o->code_bits = (size_t)c.code_bits;
    o->batch_size = c.batch_size;
    o->base_bits = (size_t)c.base_bits;
    options_settle(o);
    return c.text == 0 || share_text(o, (size_t)c.text, f);
}

void run_ranks_abort(const options *o, const fault *f)
{
    (void)fflush(stdout);
    if (f->text[0] != '\0')
        (void)fprintf(stderr, "%s: %s\n", o->model->program, f->text);
    o->ranks.call->abort(o->ranks.group, f->code);
}

void run_ranks_close(options *o, fault *f)
{
    fault late = {0};
    if (o->ranks.group != NULL && !o->ranks.call->close(o->ranks.group, &late))
        run_ranks_abort(o, f->code != CODE_OK ? f : &late);
    o->ranks.group = NULL;
}
