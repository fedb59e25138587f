/* One cache folder, many processes at once, some of them killed: every result is right. This
 * program runs itself: without arguments as the parent, with a folder as a child, with a folder and
 * "write" as a child that only stores. CLPRUNE_TEST_LONG=1 has more of each (tests/long_runs.md).
 *
 * Processes are killed also in a write; the temporary files of dead processes go. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/disk_cache.h"
#include "support/test.h"

enum { CHILDREN_MOST = 8, PAYLOAD = 1 << 20 };

/* How often; main sets them. */
static int children = 4, rounds = 3, kills = 8, writer_kills = 10;

static const char key[] = "the key of a binary that is stored again and again";

static const char *program;

/* The child: runs three different programs from the cache and checks what they do. */
static int child(const char *dir)
{
    clprune_context *context = NULL;
    const clprune_context_options options = {.cache_dir = dir};
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS)
        return 2;
    int wrong = 0;
    enum { ROWS = 64, COLS = 20 };
    clprune_mat mat, out;
    static float values[ROWS * COLS];
    if (clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", ROWS, COLS, &mat) ||
        clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "out", ROWS, COLS, &out) ||
        clprune_mat_fill(context, 1.25f, mat, NULL) ||
        clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, mat, CLPRUNE_NO_MAT, mat, NULL, NULL) ||
        clprune_token_mean_forward(context, ROWS, 1, mat, out, NULL) ||
        clprune_mat_read(context, out, values))
        wrong = 3;
    for (size_t i = 0; i < ROWS * COLS; i++)
        wrong = values[i] == 1.25f ? wrong : 4;
    clprune_context_destroy(context);
    return wrong;
}

/* The other child: stores one of two binaries under one key, for ever. */
static int write_always(const char *dir)
{
    static unsigned char payload[PAYLOAD];
    const char *reason;
    for (unsigned char version = 1;; version = 3 - version) {
        memset(payload, version, sizeof payload);
        if (clprune__disk_store(dir, key, payload, PAYLOAD, &reason) != CLPRUNE__DISK_OK)
            return 2;
    }
}

/* Whether the binary is there, which must then be whole. */
static bool is_stored(const char *dir)
{
    unsigned char *payload;
    const char *reason;
    size_t size;
    const clprune__disk_result result = clprune__disk_load(dir, key, &payload, &size, &reason);
    if (result == CLPRUNE__DISK_MISS)
        return false;
    if (result != CLPRUNE__DISK_OK)
        fail_msg("a killed writer leaves a file that is refused: %s", reason);
    assert_int_equal(size, PAYLOAD);
    for (size_t i = 0; i < PAYLOAD; i++)
        assert_int_equal(payload[i], payload[0]);
    free(payload);
    return true;
}

static pid_t start(const char *dir, const char *mode)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execl(program, program, dir, mode, (char *)NULL);
        _exit(9);
    }
    return pid;
}

static int finish(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void at_once(NO_ROW)
{
    for (int round = 0; round < rounds; round++) {
        const char *base = test_folder(), *dir = test_text("%s/cache", base);
        pid_t pids[CHILDREN_MOST];
        for (int i = 0; i < children; i++)
            pids[i] = start(dir, NULL);
        for (int i = 0; i < children; i++)
            assert_int_equal(finish(pids[i]), 0);
        assert_int_equal(test_folder_count(dir, NULL), 4); /* three, and that of the self-check */
        test_folder_remove(base);
    }
}

static void killed(NO_ROW)
{
    const char *dir = test_text("%s/cache", test_folder());
    for (long i = 0; i < kills; i++) {
        const pid_t pid = start(dir, NULL);
        const struct timespec wait = {0, 8000000L * (i % 16 + 1)};
        (void)nanosleep(&wait, NULL);
        (void)kill(pid, SIGKILL);
        (void)finish(pid);
        assert_int_equal(finish(start(dir, NULL)), 0);
        test_folder_remove(dir);
    }
}

/* Killed at any moment of a store, a writer leaves the binary before it or its own; what it had
 * half written is tidied up when it is old. */
static void killed_writers(NO_ROW)
{
    const char *dir = test_text("%s/cache", test_folder());
    int stored = 0, halves = 0;
    test_rng rng = {31};
    for (int i = 0; i < writer_kills; i++) {
        const char *reason;
        char *made = clprune__disk_folder(dir, &reason);
        assert_string_equal(made, dir);
        free(made);
        const pid_t pid = start(dir, "write");
        for (int waited = 0; !is_stored(dir) && waited < 2000; waited++)
            (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
        if (i % 2 == 0) /* any moment; else one at which a file is half there */
            (void)nanosleep(&(struct timespec){0, (long)test_rng_below(&rng, 30000000)}, NULL);
        for (int waited = 0; i % 2 != 0 && test_folder_count(dir, NULL) < 2 && waited < 1000000;)
            waited++;
        (void)kill(pid, SIGKILL);
        const int status = finish(pid);
        assert_true(WIFSIGNALED(status)); /* it did not end by itself */
        assert_true(is_stored(dir));
        stored++;
        halves += test_folder_count(dir, NULL) > 1;
        test_folder_remove(dir);
    }
    print_message(
        "%d of %d killed writers left a whole file, %d of them half of another beside it\n", stored,
        writer_kills, halves);
    assert_true(halves > 0); /* else none was hit in a write */
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return write_always(argv[1]);
    if (argc > 1)
        return child(argv[1]);
    program = argv[0];
    const char *many = getenv("CLPRUNE_TEST_LONG");
    if (many != NULL && many[0] != '\0') {
        children = CHILDREN_MOST;
        rounds = 20;
        kills = writer_kills = 50;
    }
    test_list list = {0};
    test_add(&list, at_once, NULL, "%d processes with a cold cache, %d times", children, rounds);
    test_add(&list, killed, NULL, "a process killed at %d moments", kills);
    test_add(&list, killed_writers, NULL, "a writer killed at %d moments", writer_kills);
    return test_run_on_host("cache processes", &list);
}
