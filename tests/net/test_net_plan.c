/* What presets keep and take in dry contexts: a stricter preset keeps no more, more work takes no
 * more, least takes no more than compact, and plans of long nets are made in time. */
#include "net/net_models.h"

#include <time.h>

enum { DEPTHS = 2, ACTIVATIONS = 6, LONG = 2000 };

typedef struct shape {
    const char *name;
    clprune_net_value (*add)(clprune_net *net, clprune_net_value x, size_t i, unsigned activation);
    bool images;
    size_t layers; /* of a part */
} shape;

static clprune_net_value act(clprune_net *net, clprune_net_value x, unsigned activation)
{
    switch (activation) {
    case 0:
        return clprune_net_relu(net, "act", x);
    case 1:
        return clprune_net_gelu(net, "act", x);
    case 2:
        return clprune_net_silu(net, "act", x);
    case 3:
        return clprune_net_relu6(net, "act", x);
    case 4:
        return clprune_net_hard_swish(net, "act", x);
    default:
        return clprune_net_tanh(net, "act", x);
    }
}

static clprune_net_value conv(clprune_net *net, const char *name, clprune_net_value x)
{
    return clprune_net_conv2d(
        net, name, x, &(clprune_net_conv){.out = 16, .kernel = {3, 3}, .padding = {1, 1}});
}

static clprune_net_value conv_norm(
    clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    (void)i;
    return act(net, clprune_net_batch_norm(net, "bn", conv(net, "conv", x)), activation);
}

static clprune_net_value conv_pool(
    clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    x = conv(net, "conv", x);
    if (i < 3)
        x = clprune_net_max_pool(net, "pool", x, &(clprune_max_pool_desc){.kernel = {2, 2}});
    return act(net, clprune_net_batch_norm(net, "bn", x), activation);
}

static clprune_net_value conv_alone(
    clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    (void)i;
    return act(net, conv(net, "conv", x), activation);
}

static clprune_net_value residual(
    clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    clprune_net_value t = conv_norm(net, x, i, activation);
    t = clprune_net_batch_norm(net, "bn2", conv(net, "conv2", t));
    return clprune_net_relu(net, "out", clprune_net_add(net, "add", x, t));
}

static clprune_net_value linear(
    clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    return act(net, clprune_net_linear(net, "fc", x, 16 * (1 + i * 7919 % 5)), activation);
}

static clprune_net_value block(clprune_net *net, clprune_net_value x, size_t i, unsigned activation)
{
    clprune_net_value t = clprune_net_layer_norm(net, "ln", x);
    (void)i;
    t = act(net, clprune_net_linear(net, "fc1", t, 64), activation);
    return clprune_net_add(net, "add", x, clprune_net_linear(net, "fc2", t, 16));
}

static const shape shapes[] = {{"conv, batch norm", conv_norm, true, 3},
    {"conv, pool, batch norm", conv_pool, true, 3}, {"conv", conv_alone, true, 2},
    {"residual", residual, true, 7}, {"linear", linear, false, 2}, {"block", block, false, 5}};

/* Small nets of 2 to 9 random layers; i: their number. Some add what a layer has to what came one
 * or two layers before it. */
static clprune_net_value drawn(clprune_net *net, clprune_net_value x, size_t i, unsigned side)
{
    test_rng rng = {i};
    clprune_net_value values[10] = {x};
    size_t cols[10] = {4};
    const size_t layers = 2 + test_rng_below(&rng, 8);
    for (size_t k = 1; k <= layers; k++) {
        const unsigned kind = (unsigned)test_rng_below(&rng, side > 0 ? 9 : 8);
        const size_t out = (size_t)4 << test_rng_below(&rng, 4);
        char part[24];
        (void)snprintf(part, sizeof part, "l%zu", k);
        clprune_net_part(net, part);
        cols[k] = kind < 3 ? out : cols[k - 1];
        x = values[k - 1];
        x = kind >= 3 && kind < 7 ? act(net, x, kind - 3)
            : kind == 7           ? side > 0 ? clprune_net_batch_norm(net, "n", x)
                                             : clprune_net_layer_norm(net, "n", x)
                      : kind == 8 ? clprune_net_affine(net, "a", x)
            : side > 0            ? clprune_net_conv2d(net, "w", x,
                                        &(clprune_net_conv){.out = out, .kernel = {3, 3}, .padding = {1, 1}})
                                  : clprune_net_linear(net, "w", x, out);
        const size_t other = k - 1 - (k > 1 ? test_rng_below(&rng, 2) : 0);
        if (cols[other] == cols[k] && test_rng_below(&rng, 3) == 0)
            x = clprune_net_add(net, "add", x, values[other]);
        values[k] = x;
    }
    return x;
}

static clprune_context *settle(const shape *s, size_t parts, unsigned activation,
    const clprune_net_keep *keep, clprune_net **net, double *seconds)
{
    clprune_context *dry = NULL;
    char part[24];
    TEST_OK(clprune_context_create_dry(NULL, NULL, &dry));
    TEST_OK(clprune_net_create(dry, &(clprune_net_desc){.batch = 8}, net));
    clprune_net_value x =
        s->images ? clprune_net_pixels(*net, 16, 16, 16) : clprune_net_rows(*net, 16, 16);
    for (size_t i = 0; i < parts; i++) {
        (void)snprintf(part, sizeof part, "b%zu", i);
        clprune_net_part(*net, part);
        x = s->add(*net, x, i, activation);
    }
    clprune_net_part(*net, NULL);
    x = clprune_net_linear(*net, "head", clprune_net_mean(*net, "mean", x), NET_CLASSES);
    clprune_net_cross_entropy(*net, x);
    const clock_t began = clock();
    TEST_OK(clprune_net_settle(*net, keep));
    *seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    return dry;
}

typedef struct bytes {
    uint64_t kept, total;
} bytes;

static bytes bytes_of(
    const shape *s, size_t parts, unsigned activation, clprune_net_preset preset, unsigned work)
{
    clprune_net *net = NULL;
    double seconds;
    const clprune_net_keep keep = {.preset = preset, .extra_work = work};
    clprune_context *dry = settle(s, parts, activation, &keep, &net, &seconds);
    const bytes found = {clprune_memory_query(dry, CLPRUNE_MEMORY_ACTIVATIONS).live,
        clprune_memory_query(dry, CLPRUNE_MEMORY_TOTAL).live};
    clprune_net_destroy(net);
    clprune_context_destroy(dry);
    return found;
}

static void no_more(const char *what, const char *name, uint64_t now, uint64_t before)
{
    if (now > before)
        fail_msg("%s: %s is %llu bytes, above %llu", name, what, (unsigned long long)now,
            (unsigned long long)before);
}

static const clprune_net_preset presets[] = {
    CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT, CLPRUNE_NET_LEAST};

static void stricter_presets(void **state)
{
    static const unsigned works[] = {4, 10, 12, 25, 50, 100};
    const shape *s = *state;
    for (unsigned a = 0; a < ACTIVATIONS; a++)
        for (size_t parts = 4; parts <= 4 * DEPTHS; parts += 4) {
            bytes before = {UINT64_MAX, UINT64_MAX};
            for (size_t p = 0; p < COUNT_OF(presets); p++) {
                const bytes now = bytes_of(s, parts, a, presets[p], 0);
                no_more("kept", s->name, now.kept, before.kept);
                no_more("the total", s->name, now.total, before.total);
                before = now;
                bytes less = now;
                for (size_t w = 0; w < COUNT_OF(works) && (p == 1 || p == 2); w++) {
                    const bytes more = bytes_of(s, parts, a, presets[p], works[w]);
                    no_more("kept with more work", s->name, more.kept, less.kept);
                    no_more("the total with more work", s->name, more.total, less.total);
                    less = more;
                }
            }
        }
}

static void random_nets(void **state)
{
    enum { NETS = 150 };
    const bool images = *(const bool *)*state;
    for (size_t i = 0; i < NETS; i++) {
        bytes before = {UINT64_MAX, UINT64_MAX};
        char name[24];
        (void)snprintf(name, sizeof name, "net %zu", i);
        for (size_t p = 0; p < COUNT_OF(presets); p++) {
            clprune_context *dry = NULL;
            clprune_net *net = NULL;
            TEST_OK(clprune_context_create_dry(NULL, NULL, &dry));
            TEST_OK(clprune_net_create(dry, &(clprune_net_desc){.batch = 1 + i % 7}, &net));
            clprune_net_value x = images ? clprune_net_pixels(net, 4, 4 + i % 5, 4)
                                         : clprune_net_rows(net, 1 + i % 9, 4);
            x = drawn(net, x, i, images ? 4 : 0);
            clprune_net_part(net, NULL);
            clprune_net_cross_entropy(
                net, clprune_net_linear(net, "head", clprune_net_mean(net, "mean", x), 8));
            TEST_OK(clprune_net_settle(net, &(clprune_net_keep){.preset = presets[p]}));
            const bytes now = {clprune_memory_query(dry, CLPRUNE_MEMORY_ACTIVATIONS).live,
                clprune_memory_query(dry, CLPRUNE_MEMORY_TOTAL).live};
            no_more("kept", name, now.kept, before.kept);
            no_more("the total", name, now.total, before.total);
            before = now;
            clprune_net_destroy(net);
            clprune_context_destroy(dry);
        }
    }
}

/* 15 to 67 s with a plan whose time is cubic. */
static void long_nets(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    const double most = 20;
#else
    const double most = 2;
#endif
    static const clprune_net_keep keeps[] = {{.preset = CLPRUNE_NET_EXACT, .extra_work = 100},
        {.preset = CLPRUNE_NET_COMPACT}, {.preset = CLPRUNE_NET_LEAST}};
    const shape *s = *state;
    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        clprune_net *net = NULL;
        double seconds;
        clprune_context *dry = settle(s, LONG / s->layers, 1, &keeps[i], &net, &seconds);
        clprune_net_destroy(net);
        clprune_context_destroy(dry);
        if (seconds > most)
            fail_msg("%s, preset %d: a plan of %d layers took %.2f s of %.0f", s->name,
                (int)keeps[i].preset, LONG, seconds, most);
    }
}

/* ---- what a table says ------------------------------------------------------------------------
 */

/* A line of clprune_net_print by the name at its beginning. */
typedef struct wanted {
    const char *begins, *ends;
    unsigned found;
} wanted;

static void find_lines(void *user, const char *text)
{
    wanted *want = user;
    for (; want->begins != NULL; want++)
        if (strncmp(text, want->begins, strlen(want->begins)) == 0) {
            want->found++;
            if (strstr(text, want->ends) == NULL)
                fail_msg("expected '%s' in: %s", want->ends, text);
        }
}

/* A settled net of two linear layers with `middle` between them, and a head. */
static clprune_net *open_mlp(clprune_context *dry, size_t batch, size_t rows, size_t cols,
    size_t hidden, const char *middle,
    clprune_net_value (*add)(clprune_net *net, const char *name, clprune_net_value x),
    const clprune_net_keep *keep)
{
    clprune_net *net = NULL;
    TEST_OK(clprune_net_create(dry, &(clprune_net_desc){.batch = batch}, &net));
    clprune_net_value v = clprune_net_linear(net, "fc1", clprune_net_rows(net, rows, cols), hidden);
    v = clprune_net_linear(net, "fc2", add(net, middle, v), cols);
    clprune_net_cross_entropy(
        net, clprune_net_linear(net, "head", clprune_net_mean(net, "m", v), 10));
    TEST_OK(clprune_net_settle(net, keep));
    return net;
}

/* The gradient of ln reads fc1, and ln is made again from it for the gradient of fc2's weight. */
static void reasons(NO_ROW)
{
    wanted want[] = {{"fc1 ", "gradients of ln; makes again ln\n", 0},
        {"ln ", "gradients of fc2\n", 0}, {"fc2 ", " linear", 0}, {NULL, NULL, 0}};
    clprune_context *context = NULL;
    assert_int_equal(clprune_context_create_dry(NULL, NULL, &context), CLPRUNE_SUCCESS);
    clprune_net *net = open_mlp(context, 4, 8, 16, 32, "ln", clprune_net_layer_norm,
        &(clprune_net_keep){.preset = CLPRUNE_NET_EXACT});
    assert_int_equal(clprune_net_print(net, CLPRUNE_NET_TABLE, find_lines, want), CLPRUNE_SUCCESS);
    for (size_t i = 0; want[i].begins != NULL; i++)
        assert_int_equal(want[i].found, 1);
    clprune_net_destroy(net);
    clprune_context_destroy(context);
}

/* Bytes that a net of two linear layers with a norm between them keeps on a GPU. */
static uint64_t kept_on_gpu(clprune_precision precision, const clprune_net_keep *keep)
{
    clprune_context *dry = test_open_gpu(0, precision);
    clprune_net *net = open_mlp(dry, 4, 8, 16, 32, "ln", clprune_net_layer_norm, keep);
    const uint64_t kept = clprune_memory_query(dry, CLPRUNE_MEMORY_ACTIVATIONS).live;
    clprune_net_destroy(net);
    return kept;
}

/* On tensor cores in bf16 what only products read, here ln, is kept as they read it; by a rule
 * dense. */
static void kept_as_read(NO_ROW)
{
    static const clprune_net_rule rule = {.pattern = "ln", .keep = {.form = CLPRUNE_FORM_DENSE}};
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_DENSE},
                           ruled = {.preset = CLPRUNE_NET_DENSE, .rules = &rule, .rules_count = 1};
    const uint64_t wide = kept_on_gpu(CLPRUNE_PRECISION_FP32, &keep);
    assert_int_equal(kept_on_gpu(CLPRUNE_PRECISION_TF32, &keep), wide);
    assert_int_equal(
        kept_on_gpu(CLPRUNE_PRECISION_BF16, &ruled) - kept_on_gpu(CLPRUNE_PRECISION_BF16, &keep),
        4 * 8 * 32 * 2);
    assert_true(kept_on_gpu(CLPRUNE_PRECISION_BF16, &ruled) <= wide);
}

/* Bytes of a net's workspace on a GPU of so much memory. Its GELU, 1 MiB a sample, is made again.
 */
static uint64_t workspace_on_gpu(uint64_t memory)
{
    clprune_context *dry = test_open_gpu(memory, CLPRUNE_PRECISION_FP32);
    clprune_net *net = open_mlp(dry, 64, 256, 64, 1024, "act", clprune_net_gelu,
        &(clprune_net_keep){.preset = CLPRUNE_NET_LEAST});
    const uint64_t live = clprune_memory_query(dry, CLPRUNE_MEMORY_WORKSPACE).live;
    clprune_net_destroy(net);
    return live;
}

/* What is made again is made for 8 MiB of samples at a time, on larger GPUs for more. */
static void larger_chunks(NO_ROW)
{
    static const uint64_t GIB = (uint64_t)1 << 30;
    const uint64_t unknown = workspace_on_gpu(0), twice = workspace_on_gpu(16 * GIB);
    assert_int_equal(workspace_on_gpu(8 * GIB), unknown);
    assert_true(twice > unknown + unknown / 2);
    assert_true(workspace_on_gpu(32 * GIB) > twice + twice / 2);
    assert_int_equal(workspace_on_gpu(1024 * GIB), workspace_on_gpu(64 * GIB)); /* all samples */
}

/* Trained weights lie together, in buffers of at most 1 GiB, and frozen ones each alone: devices
 * have a largest buffer. */
static void buffers_of_weights(NO_ROW)
{
    enum { MIB_256 = 8192, LAYERS = 6 };
    static const size_t together[] = {1, 1, 6, 6, 6, 6, 6, 6, 4, 4, 4, 4}; /* in its buffer */
    clprune_context *dry = NULL;
    clprune_net *net = NULL;
    clprune_net_weight weight, other;
    TEST_OK(clprune_context_create_dry(NULL, NULL, &dry));
    TEST_OK(clprune_net_create(dry, &(clprune_net_desc){.batch = 1}, &net));
    clprune_net_value v = clprune_net_rows(net, 1, MIB_256);
    for (size_t i = 0; i < LAYERS; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "fc%zu", i);
        v = clprune_net_linear(net, name, v, MIB_256);
    }
    clprune_net_cross_entropy(net, v);
    clprune_net_freeze(net, "fc0.*");
    TEST_OK(clprune_net_settle(net, &(clprune_net_keep){.preset = CLPRUNE_NET_DENSE}));
    for (size_t i = 0; clprune_net_weight_at(net, i, &weight); i++) {
        size_t count = 0;
        for (size_t k = 0; clprune_net_weight_at(net, k, &other); k++)
            count += other.value.buffer == weight.value.buffer;
        assert_int_equal(count, together[i]);
    }
    clprune_net_destroy(net);
    clprune_context_destroy(dry);
}

int main(void)
{
    static const bool kinds[] = {false, true};
    test_list list = {0};
    test_add(&list, random_nets, (void *)(uintptr_t)&kinds[0], "random nets of rows");
    test_add(&list, random_nets, (void *)(uintptr_t)&kinds[1], "random nets of images");
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        test_add(&list, stricter_presets, (void *)(uintptr_t)&shapes[i], "%s: presets, work",
            shapes[i].name);
        if (shapes[i].add != conv_pool)
            test_add(&list, long_nets, (void *)(uintptr_t)&shapes[i], "%s: long", shapes[i].name);
    }
    test_add(&list, reasons, NULL, "why a tensor is kept");
    test_add(&list, kept_as_read, NULL, "kept as products read it");
    test_add(&list, larger_chunks, NULL, "chunks on larger GPUs");
    test_add(&list, buffers_of_weights, NULL, "buffers of weights");
    return test_run_on_host("net_plan", &list);
}
