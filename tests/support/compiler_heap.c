/* The driver's compiler without the address sanitizer's allocator, which makes it take 1.6 times as
 * long.
 *
 * A library for LD_PRELOAD. What a thread allocates within a call that compiles (clBuildProgram,
 * the launch of a kernel) lies in a heap of its own: memory of the driver, which no code of this
 * project allocates or frees. All other memory is the sanitizer's, and so are all checks: copies
 * that the driver makes of this project's memory, too. In a process without the sanitizer
 * everything is the C library's. */
#define _GNU_SOURCE
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The allocator behind this one: the sanitizer's, or NULL. */
#define BEHIND __attribute__((weak))
BEHIND void *__interceptor_malloc(size_t size);
BEHIND void *__interceptor_calloc(size_t count, size_t size);
BEHIND void *__interceptor_realloc(void *memory, size_t size);
BEHIND void __interceptor_free(void *memory);
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

/* Blocks of 16, 32 ... 1024 bytes, then of powers of two, each behind a header. A freed one goes to
 * a list of its thread; nothing goes back to the system. */
enum { STEP = 16, SMALL = 64, CLASSES = SMALL + 30, SLAB = 1 << 20 };
#define HEAP ((size_t)1 << 36)
typedef union block {
    struct {
        unsigned class;
    } head;
    union block *next; /* in what follows the head */
    char align[STEP];
} block;

static char *heap;
static atomic_size_t used;
#define OWN static _Thread_local __attribute__((tls_model("initial-exec")))
OWN block *unused[CLASSES];
OWN char *slab;
OWN size_t slab_left;
OWN unsigned depth; /* of calls that compile */

__attribute__((constructor)) static void reserve(void)
{
    if (__interceptor_malloc == NULL)
        return;
    void *memory = mmap(
        NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    heap = memory == MAP_FAILED ? NULL : memory;
}

static bool is_own(const void *memory)
{
    return heap != NULL && (uintptr_t)memory - (uintptr_t)heap < HEAP;
}

static unsigned class_of(size_t size)
{
    if (size <= SMALL * STEP)
        return size == 0 ? 0 : (unsigned)((size - 1) / STEP);
    return SMALL + 64 - (unsigned)__builtin_clzl((size - 1) / (SMALL * STEP)) - 1;
}

static size_t size_of(unsigned class)
{
    return class < SMALL ? (size_t)(class + 1) * STEP
                         : (size_t)(2 * SMALL * STEP) << (class - SMALL);
}

static void *take(size_t size)
{
    const unsigned class = class_of(size);
    if (class >= CLASSES)
        return NULL;
    block *made = unused[class];
    if (made != NULL) {
        unused[class] = made[1].next;
        return made + 1;
    }
    const size_t bytes = sizeof *made + size_of(class);
    if (bytes > slab_left) {
        const size_t more = bytes > SLAB ? bytes : SLAB;
        const size_t at = atomic_fetch_add(&used, more);
        if (at + more > HEAP)
            return NULL;
        slab = heap + at;
        slab_left = more;
    }
    made = (block *)(void *)slab;
    slab += bytes;
    slab_left -= bytes;
    made->head.class = class;
    return made + 1;
}

static void give(void *memory)
{
    block *const made = (block *)memory - 1;
    made[1].next = unused[made->head.class];
    unused[made->head.class] = made;
}

static size_t room(const void *memory)
{
    return size_of(((const block *)memory - 1)->head.class);
}

static bool compiles(void)
{
    return depth > 0 && heap != NULL;
}

void *malloc(size_t size)
{
    if (compiles())
        return take(size);
    return __interceptor_malloc != NULL ? __interceptor_malloc(size) : __libc_malloc(size);
}

void free(void *memory)
{
    if (is_own(memory))
        give(memory);
    else if (__interceptor_free != NULL)
        __interceptor_free(memory);
    else
        __libc_free(memory);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!compiles())
        return __interceptor_calloc != NULL ? __interceptor_calloc(count, size)
                                            : __libc_calloc(count, size);
    void *memory = __builtin_mul_overflow(count, size, &bytes) ? NULL : take(bytes);
    return memory != NULL ? memset(memory, 0, bytes) : NULL;
}

void *realloc(void *memory, size_t size)
{
    if (!is_own(memory) && (memory != NULL || !compiles()))
        return __interceptor_realloc != NULL ? __interceptor_realloc(memory, size)
                                             : __libc_realloc(memory, size);
    if (memory != NULL && size <= room(memory))
        return memory;
    void *grown = malloc(size);
    if (memory != NULL && grown != NULL) {
        memcpy(grown, memory, room(memory));
        give(memory);
    }
    return grown;
}

size_t malloc_usable_size(void *memory)
{
    static size_t (*behind)(void *);
    if (is_own(memory))
        return room(memory);
    if (behind == NULL)
        behind = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return behind(memory);
}

/* What a name was without this file; also of the OpenCL of a plug-in, which is not among the next.
 */
static void *next(const char *name)
{
    void *const found = dlsym(RTLD_NEXT, name);
    void *const opencl = found == NULL ? dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return opencl != NULL ? dlsym(opencl, name) : found;
}
#define NEXT(type, name) ((type)next(name))

/* new and delete of C++; the sanitizer has its own. */
#define NEW(symbol, ...)                                                                           \
    void *symbol(size_t size __VA_OPT__(, ) __VA_ARGS__);                                          \
    void *symbol(size_t size __VA_OPT__(, ) __VA_ARGS__)                                           \
    {                                                                                              \
        static void *(*behind)(size_t, const void *);                                              \
        if (compiles())                                                                            \
            return take(size);                                                                     \
        if (__interceptor_malloc == NULL)                                                          \
            return __libc_malloc(size);                                                            \
        if (behind == NULL)                                                                        \
            behind = NEXT(void *(*)(size_t, const void *), #symbol);                               \
        return behind(size, NULL);                                                                 \
    }
NEW(_Znwm)
NEW(_Znam)
NEW(_ZnwmRKSt9nothrow_t, const void *nothrow __attribute__((unused)))
NEW(_ZnamRKSt9nothrow_t, const void *nothrow __attribute__((unused)))
#define DELETE(symbol, ...)                                                                        \
    void symbol(void *memory, size_t size);                                                        \
    void symbol(void *memory, size_t size)                                                         \
    {                                                                                              \
        static void (*behind)(void *, size_t);                                                     \
        if (is_own(memory) || __interceptor_malloc == NULL) {                                      \
            free(memory);                                                                          \
            return;                                                                                \
        }                                                                                          \
        if (behind == NULL)                                                                        \
            behind = NEXT(void (*)(void *, size_t), #symbol);                                      \
        behind(memory, size);                                                                      \
    }
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm)
DELETE(_ZdaPvm)
DELETE(_ZdlPvRKSt9nothrow_t)
DELETE(_ZdaPvRKSt9nothrow_t)

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
    const char *options, void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    static cl_int (*behind)(cl_program, cl_uint, const cl_device_id *, const char *,
        void(CL_CALLBACK *)(cl_program, void *), void *);
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "clBuildProgram");
    depth++;
    const cl_int code = behind(program, count, devices, options, done, user);
    depth--;
    return code;
}

/* PoCL reads files in small steps, each of which the sanitizer's realloc copies to new memory. */
cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
    const size_t *sizes, const unsigned char **binaries, cl_int *loaded, cl_int *error)
{
    static cl_program (*behind)(cl_context, cl_uint, const cl_device_id *, const size_t *,
        const unsigned char **, cl_int *, cl_int *);
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "clCreateProgramWithBinary");
    depth++;
    const cl_program program = behind(context, count, devices, sizes, binaries, loaded, error);
    depth--;
    return program;
}

cl_int clGetProgramInfo(
    cl_program program, cl_program_info what, size_t size, void *value, size_t *got)
{
    static cl_int (*behind)(cl_program, cl_program_info, size_t, void *, size_t *);
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "clGetProgramInfo");
    depth++;
    const cl_int code = behind(program, what, size, value, got);
    depth--;
    return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
    const size_t *first, const size_t *global, const size_t *local, cl_uint count,
    const cl_event *events, cl_event *event)
{
    static cl_int (*behind)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
        const size_t *, cl_uint, const cl_event *, cl_event *);
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "clEnqueueNDRangeKernel");
    depth++;
    const cl_int code =
        behind(queue, kernel, dimensions, first, global, local, count, events, event);
    depth--;
    return code;
}

/* Pages of the compiler's code stay in memory: to read them again takes a tenth of a test's time.
 * Nothing else here is given back. Without a question to the loader, whose locks are held. */
int madvise(void *memory, size_t size, int advice)
{
    static int (*behind)(void *, size_t, int);
    if (heap != NULL && advice == MADV_DONTNEED)
        return 0;
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "madvise");
    return behind(memory, size, advice);
}

/* A thread of PoCL, which compiles what it launches. */
typedef struct thread {
    void *(*run)(void *);
    void *user;
} thread;

static void *run_compiling(void *user)
{
    const thread own = *(thread *)user;
    free(user);
    depth = 1;
    return own.run(own.user);
}

int pthread_create(
    pthread_t *made, const pthread_attr_t *attributes, void *(*run)(void *), void *user)
{
    static int (*behind)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info caller;
    if (behind == NULL)
        behind = NEXT(__typeof__(behind), "pthread_create");
    const bool is_driver = heap != NULL && dladdr(__builtin_return_address(0), &caller) != 0 &&
                           caller.dli_fname != NULL && strstr(caller.dli_fname, "libpocl") != NULL;
    thread *const own = is_driver ? malloc(sizeof *own) : NULL;
    if (own == NULL)
        return behind(made, attributes, run, user);
    *own = (thread){run, user};
    const int code = behind(made, attributes, run_compiling, own);
    if (code != 0)
        free(own);
    return code;
}
