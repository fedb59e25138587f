/* Each kind of layer with each fault that a call of any kind may have: a text that names the layer,
 * no value, and a net that cannot be settled; or, once it is settled, a net as before. */
#include "net/net_kinds.h"
#include "net/net_models.h"

enum { BATCH = 2 };

TEST_UNDO(destroy_net, clprune_net_destroy(what))

static clprune_net *new_net(void)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &net));
    test_later(destroy_net, test_context(), net);
    return net;
}

/* ---- faults ---------------------------------------------------------------------------------- */

typedef enum fault {
    NO_VALUE,
    OTHER_NET,
    LATER_VALUE,
    NO_NAME,
    EMPTY_NAME,
    TAKEN_NAME,
    INPUT_NAME,
    AFTER_ERROR,
    FAULTS
} fault;

static const struct {
    const char *what, *text;
} faults[FAULTS] = {{"no value", "layer bad: its input is no value"},
    {"a value of another net", "layer bad: its input is no value of this net"},
    {"a value that does not exist", "layer bad: its input is no value of this net"},
    {"no name", "has no name"}, {"an empty name", "has no name"},
    {"a taken name", "two layers are called first"}, {"the input's name", "pixels"},
    {"an earlier error", "a layer of kind relu has no name"}};

typedef struct row {
    const net_kind *of;
    fault fault;
} row;

static void bad(void **state)
{
    const row *r = *state;
    clprune_net *net = new_net(), *other = new_net();
    const clprune_net_value pixels = clprune_net_pixels(net, 8, 4, 2);
    clprune_net_value x = clprune_net_gelu(net, "first", pixels);
    const clprune_net_value foreign =
        clprune_net_gelu(other, "first", clprune_net_pixels(other, 8, 4, 2));
    const char *name = r->fault == NO_NAME      ? NULL
                       : r->fault == EMPTY_NAME ? ""
                       : r->fault == TAKEN_NAME ? "first"
                       : r->fault == INPUT_NAME ? "pixels"
                                                : "bad";
    if (r->fault == NO_VALUE)
        x = (clprune_net_value){0, 0};
    else if (r->fault == OTHER_NET)
        x = foreign;
    else if (r->fault == LATER_VALUE)
        x.id += 1;
    else if (r->fault == AFTER_ERROR)
        (void)clprune_net_relu(net, NULL, x);
    const clprune_net_value y = r->of->add(net, name, x);
    clprune_net_mean_squared_error(net, y);
    assert_int_equal(y.id, 0);
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT, faults[r->fault].text);
    clprune_net_mean_squared_error(other, foreign);
    TEST_OK(clprune_net_settle(other, NULL));
}

/* A layer that comes late is no layer: the net runs as before. */
static void late(void **state)
{
    const net_kind *of = *state;
    clprune_net *net = new_net();
    const clprune_net_value x = clprune_net_gelu(net, "first", clprune_net_pixels(net, 8, 4, 2));
    const clprune_net_value y = clprune_net_linear(net, "last", x, 3);
    TEST_OK(clprune_net_settle(net, NULL));
    TEST_OK(clprune_net_init(net, 1));
    const clprune_net_data data = {.batch = BATCH,
        .rows =
            test_new_mat_of(test_context(), "x", BATCH * 16, 8, test_new_normal(1, BATCH * 128))};
    assert_int_equal(of->add(net, "late", y).id, 0);
    TEST_OK(clprune_net_forward(net, &data, false));
    assert_int_equal(clprune_net_output(net, BATCH).cols, 3);
}

/* ---- numbers that are none ---------------------------------------------------------------------
 */

/* What a net of two linear layers, a and b, of 16 features, is asked for before or behind them. */
typedef struct number {
    const char *name;
    void (*before)(clprune_net *net);
    clprune_net_value (*behind)(clprune_net *net, clprune_net_value x);
    float value;
    const char *text;
} number;

static float value_of_case;

#define BEFORE(name, ...)                                                                          \
    static void name(clprune_net *net)                                                             \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
#define BEHIND(name, ...)                                                                          \
    static clprune_net_value name(clprune_net *net, clprune_net_value x)                           \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
BEFORE(set_eps, clprune_net_eps(net, value_of_case))
BEFORE(set_alpha, clprune_net_lora(net, "*", 2, value_of_case))
BEFORE(set_rank_0, clprune_net_lora(net, "*", 0, value_of_case))
BEFORE(set_lora_dropout, clprune_net_lora_dropout(net, value_of_case))
BEFORE(set_none, clprune_net_lora(net, "c*", 2, value_of_case))
BEFORE(set_two, clprune_net_lora(net, "c*", 2, 1); clprune_net_lora(net, "*", 2, value_of_case))
BEHIND(add_scale_of, clprune_net_scale(net, "bad", x, value_of_case))
BEHIND(add_dropout_of, clprune_net_dropout(net, "bad", x, value_of_case))
BEHIND(add_rotary_of, clprune_net_rotary(net, "bad", x, 2, 1, 0, value_of_case, false))
BEHIND(add_attention_of, clprune_net_attention(net, "bad", x,
                             &(clprune_net_attn){.heads = 2, .kv_heads = 1, .rate = value_of_case}))
BEHIND(add_cap_of, clprune_net_attention(net, "bad", x,
                       &(clprune_net_attn){.heads = 2, .kv_heads = 1, .cap = value_of_case}))
BEHIND(tie_itself, (clprune_net_tie(net, "a.weight", "a.weight"), x))
BEHIND(tie_shapes, (clprune_net_tie(net, "a.weight", "a.bias"), x))
BEHIND(tie_twice,
    (clprune_net_tie(net, "a.weight", "b.weight"), clprune_net_tie(net, "a.weight", "b.weight"), x))

#define RATES(name, add, text)                                                                     \
    {name " of NaN", NULL, add, NAN, text}, {name " of infinity", NULL, add, INFINITY, text},      \
    {                                                                                              \
        name " of -infinity", NULL, add, -INFINITY, text                                           \
    }

static const number numbers[] = {RATES("a scale", add_scale_of, "layer bad: its factor is"),
    RATES("a rate", add_dropout_of, "layer bad: its rate is"),
    RATES("a rate of attention", add_attention_of, "layer bad: its rate is"),
    RATES("a cap of attention", add_cap_of, "layer bad: its cap is"),
    RATES("a theta", add_rotary_of, "layer bad: its theta is"),
    {"an eps of 0", set_eps, NULL, 0, "eps is 0"}, {"an eps of NaN", set_eps, NULL, NAN, "eps is"},
    {"an eps of infinity", set_eps, NULL, INFINITY, "eps is inf"},
    {"an alpha of NaN", set_alpha, NULL, NAN, "alpha"},
    {"an alpha of infinity", set_alpha, NULL, INFINITY, "alpha inf"},
    {"an adapter's dropout of 1", set_lora_dropout, NULL, 1, "the rate is 1, expected 0 to below"},
    {"an adapter's dropout of NaN", set_lora_dropout, NULL, NAN, "the rate is"},
    {"an adapter's dropout of -1", set_lora_dropout, NULL, -1, "the rate is -1"},
    {"a rank of 0", set_rank_0, NULL, 1, "rank is 0"},
    {"no layer to adapt", set_none, NULL, 1, "no linear layer matches c*"},
    {"no layer to adapt, then some", set_two, NULL, 1, "no linear layer matches c*"},
    {"tied to itself", NULL, tie_itself, 0, "a.weight is given twice"},
    {"tied to another shape", NULL, tie_shapes, 0, "a.weight is 16 x 16, but a.bias is 16;"},
    {"tied twice", NULL, tie_twice, 0, "a.weight is tied to b.weight already"}};

static void bad_number(void **state)
{
    const number *n = *state;
    clprune_net *net = new_net();
    value_of_case = n->value;
    if (n->before != NULL)
        n->before(net);
    clprune_net_value x = clprune_net_linear(net, "a", clprune_net_rows(net, 1, 16), 16);
    x = clprune_net_linear(net, "b", x, 16);
    if (n->behind != NULL)
        x = n->behind(net, x);
    clprune_net_mean_squared_error(net, x);
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT, n->text);
}

int main(void)
{
    static row rows[COUNT_OF(kinds)][FAULTS];
    test_list list = {0};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (fault f = 0; f < FAULTS; f++) {
            rows[k][f] = (row){&kinds[k], f};
            test_add(&list, bad, &rows[k][f], "%s: %s", kinds[k].name, faults[f].what);
        }
    TEST_ADD_EACH(&list, late, kinds, "%s in a settled net");
    TEST_ADD_EACH(&list, bad_number, numbers, "%s");
    return test_run_on_each_device("net_kinds", &list);
}
