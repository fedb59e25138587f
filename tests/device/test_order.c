/* Every function has the same bits when the work-items of a group run in another order, also where
 * an output may be an input and is: the tiled kernels in fp32, and in bf16 with emulated tensor
 * cores. A missing barrier gives others, and so may a work-item that reads what another one wrote.
 *
 *     test_order [full]
 *
 * Without `full`, in fp32 and reversed: functions that together have a kernel of each file with
 * barriers, but those of tiles, and every eighth of the others. The short lists of test_*_mma_*
 * have other orders, too. */
#include "support/test_folder.h"
#include "support/test_functions.h"

typedef struct setting {
    clprune_precision precision;
    const char *order;
} setting;

static const setting settings[] = {
    {CLPRUNE_PRECISION_FP32, "order=reversed"},
    {CLPRUNE_PRECISION_FP32, "order=mixed"},
    {CLPRUNE_PRECISION_BF16, "order=reversed"},
    {CLPRUNE_PRECISION_BF16, "order=mixed"},
};

static const char *const barriers[] = {"layer_norm_backward", "affine_backward",
    "gelu_code_forward", "cross_entropy_forward", "token_loss_forward", "batch_norm_moments",
    "batch_norm_backward_sums", "optimizer_clip", "saved_store, pruned", "prune", "bspmm_tn",
    "bspmm_nt", "attention_forward"};

static bool has_barriers(const char *name)
{
    size_t i = 0;
    while (i < COUNT_OF(barriers) && strcmp(name, barriers[i]) != 0)
        i++;
    return i < COUNT_OF(barriers);
}

/* Operand `output` is operand `input`; both 0: no output is an input. */
typedef struct problem {
    const function *f;
    const setting *setting;
    size_t output, input;
} problem;

static float values[2 * BATCH * PIXELS * COLS];

/* The bits of all outputs of a call in a context of its own; the number of bytes. */
static size_t run(const problem *p, const char *order, bool in_place, unsigned char *to)
{
    const function *f = p->f;
    clprune_mat mats[MOST];
    char words[80];
    (void)snprintf(words, sizeof words, "mma=emulated,check=off,%s", order);
    test_debug(words);
    clprune_context *c = test_open((clprune_context_options){
        .kernels = CLPRUNE_KERNELS_TILED, .precision = p->setting->precision});
    open_arguments(c, f);
    for (size_t i = 0; i < count_of(f); i++) {
        const operand *o = &f->mats[i];
        const clprune_mat all = test_new_mat(c, elements_of(o), 1);
        fill_operand(o, (unsigned)i, values);
        TEST_OK(clprune_mat_write(c, all, values));
        mats[i] = clprune_mat_of(all.buffer, o->rows, o->cols);
    }
    if (in_place)
        mats[p->output] = mats[p->input];
    TEST_OK(f->call(mats));
    size_t bytes = 0;
    for (size_t i = 0; i < count_of(f); i++)
        if ((f->mats[i].flags & OUTPUT) != 0 && (p->output == 0 || i != p->input)) {
            const size_t size = elements_of(&f->mats[i]) * sizeof *values;
            TEST_CL(clEnqueueReadBuffer(clprune_context_queue(c), mats[i].buffer, true, 0, size,
                to + bytes, 0, NULL, NULL));
            bytes += size;
        }
    if (f->store != NULL) {
        const clprune_saved_info info = clprune_saved_describe(with.saved);
        TEST_CL(clEnqueueReadBuffer(clprune_context_queue(c), info.buffer, true, info.offset,
            info.sizes.bytes, to + bytes, 0, NULL, NULL));
        bytes += info.sizes.bytes;
    }
    test_end(c);
    return bytes;
}

static void same_bits(void **state)
{
    static unsigned char plain[MOST * sizeof values + STORE_BYTES], other[sizeof plain];
    const problem *p = *state;
    const size_t count = run(p, "order=plain", false, plain);
    assert_int_equal(run(p, p->setting->order, p->output != p->input, other), count);
    assert_memory_equal(plain, other, count);
}

static problem problems[1024];
static size_t problems_count;

static void add(test_list *list, const function *f, const setting *s, size_t output, size_t input)
{
    assert_true(problems_count < COUNT_OF(problems));
    problems[problems_count] = (problem){f, s, output, input};
    test_add(list, same_bits, &problems[problems_count++], "%s, %s, %s%s%s%s%s", f->name,
        clprune_precision_name(s->precision), s->order, output != input ? ", " : "",
        output != input ? f->mats[output].name : "", output != input ? " in " : "",
        output != input ? f->mats[input].name : "");
}

int main(int argc, char **argv)
{
    test_list list = {0};
    const bool all = argc > 1 && strcmp(argv[1], "full") == 0;
    size_t found = 0, places = 0;
    for (size_t s = 0; s < (all ? COUNT_OF(settings) : 1); s++)
        for (size_t i = 0; i < COUNT_OF(functions); i++) {
            const function *f = &functions[i];
            found += s == 0 && has_barriers(f->name);
            if (all || has_barriers(f->name))
                add(&list, f, &settings[s], 0, 0);
            for (size_t o = 0; s == 0 && o < count_of(f); o++)
                for (size_t k = 0; k < o; k++)
                    if ((f->mats[o].may_be >> k & 1) != 0 && (all || places++ % 8 == 0))
                        add(&list, f, &settings[s], o, k);
        }
    assert_true(found == COUNT_OF(barriers));
    return test_run_on_each_device("order", &list);
}
