/* What the tests of the layers share: shapes, comparisons, and one case for all operations that
 * take matrices.
 *
 * A test describes an operation by a table of its operands, a call and a reference in double.
 * layer_add() then adds a case for each shape, which checks what all such operations promise:
 *
 *     values     each output is `want` within `bound`, the event completes, inputs stay
 *     again      a second call, with other leading dimensions, gives the same bits
 *     in place   each output in each place where it may lie, and all at once: the same bits
 *     optional   without optional operands the other outputs keep their bits, also in place
 *     bias       what is added to the first operand gives the bits of an addition before
 *     beta       0 does not read the old values, NaN; 0.5, 1, -2: the bits of fma(beta, old, sum)
 *
 * layer_slopes_of() compares a backward pass with finite differences of the forward pass. Wrong
 * arguments are for test_invalid_many.c. */
#ifndef CLPRUNE_TEST_LAYER_H
#define CLPRUNE_TEST_LAYER_H

#include "support/test.h"

/* ---- the described case ---- */

typedef struct layer_size {
    size_t rows, cols;
    size_t gap; /* ld - cols in the first call; others and those of other operands are a little
                   larger */
} layer_size;

/* A function of a shape of some type, s. */
#define LAYER_SIZE(name, type, rows, cols, gap)                                                    \
    static layer_size name(const void *shape_of)                                                   \
    {                                                                                              \
        const type *s = shape_of;                                                                  \
        return (layer_size){rows, cols, gap};                                                      \
    }

/* What an operand is. IN | OUT: an input that is overwritten. Of outputs: SUM takes the argument
 * beta, NEAR is a sum whose last rounding differs with beta, BITS are words of 32 bits, CHECKED is
 * left to `check`, SCRATCH holds anything. ADDED: an optional input, added to the first operand
 * before all else. RESIDUAL: an input whose gradient is that of the output. */
enum {
    LAYER_IN = 1,
    LAYER_OUT = 2,
    LAYER_OPTIONAL = 4,
    LAYER_SUM = 8,
    LAYER_NEAR = 16,
    LAYER_BITS = 32,
    LAYER_CHECKED = 64,
    LAYER_SCRATCH = 128,
    LAYER_ADDED = 256,
    LAYER_RESIDUAL = 512
};

/* All operands of a function, and one more. */
enum { LAYER_MOST = 14 };

typedef struct layer_operand {
    const char *name;
    unsigned role;
    layer_size (*size)(const void *shape);
    unsigned over;   /* bit i: this output may lie in the place of operand i */
    float low, high; /* of uniform values; both 0: they are normal. Of an output: of its weights in
                        the loss of layer_slopes_of */
    void (*change)(const void *shape, size_t count, float *values); /* these values; or NULL */
} layer_operand;

/* An operand for the reference, dense. */
typedef struct layer_data {
    const void *shape;
    size_t rows, cols, count; /* count: rows * cols */
    const double *in;         /* NULL: absent, or an output */
    double *want, *bound;     /* of outputs, zeros at first. Bound 0: exactly `want` */
} layer_data;

/* Arguments of a call: m and values, the operands in their order. */
typedef struct layer_call {
    clprune_context *context;
    const void *shape;
    float beta;
    const clprune_mat *m;
    cl_event *event;
} layer_call;

/* The function call_NAME: an expression of c and of its matrices, m; or of its shape too, s. */
#define LAYER_CALL(name, expression) LAYER_CALL_OF(name, void, expression)
#define LAYER_CALL_OF(name, type, expression)                                                      \
    static clprune_status call_##name(const layer_call *c)                                         \
    {                                                                                              \
        const clprune_mat *m = c->m;                                                               \
        const type *s = c->shape;                                                                  \
        (void)s;                                                                                   \
        return expression;                                                                         \
    }

typedef struct layer_case {
    const char *name;
    layer_operand operands[LAYER_MOST];
    clprune_status (*call)(const layer_call *c);
    void (*reference)(const layer_data *d);                 /* all operands */
    void (*check)(const void *shape, float *const *values); /* after the first call; may be NULL */
} layer_case;

/* Adds the case of each of layer_shapes, the largest left out of short lists; or of one shape of
 * any type, which is called `text`. */
void layer_add(test_list *list, const layer_case *c);
void layer_add_one(test_list *list, const layer_case *c, const void *shape, const char *text, ...)
    __attribute__((__format__(__printf__, 4, 5)));

/* Compares gradients with differences of sum(dy * y): of the two references, of the device's
 * forward pass with the reference's gradient, and of the device's gradient with the forward
 * reference. Operands belong together by their names: output y of `forward` and input dy of
 * `backward`, input x and output dx; other inputs of `backward` are inputs or outputs of `forward`
 * of the same name. A pass without `call` or `reference` is left out. */
typedef struct layer_steps {
    double step, tolerance;               /* as layer_slopes takes them */
    double device_step, device_tolerance; /* of the device's forward pass */
    double gradient_tolerance;            /* of the device's gradient, with `step` */
} layer_steps;

void layer_slopes_of(
    const layer_case *forward, const layer_case *backward, const void *shape, layer_steps steps);

/* ---- shapes ---- */

/* rows x cols with ld = cols + gap. Columns around the vector widths 4 and 16, up to more than a
 * group's work-items take at once; rows from one to more groups than a second stage adds up. */
typedef struct layer_shape {
    size_t rows, cols, gap;
} layer_shape;

static const layer_shape layer_shapes[] = {{1, 1, 0}, {7, 3, 1}, {7, 4, 0}, {7, 5, 2}, {7, 15, 0},
    {7, 16, 0}, {7, 17, 3}, {24, 21, 0}, {60, 64, 0}, {60, 100, 5}, {1500, 20, 0}, {1500, 37, 0},
    {1, 513, 1}, {7, 2100, 7}, {600, 2049, 0}, {0, 8, 0}, {8, 0, 2}, {0, 0, 0}};

enum { LAYER_SHAPES = COUNT_OF(layer_shapes) };

/* Whether a shape is for slow simulators, too. */
bool layer_is_wanted(const layer_shape *s);

/* Adds `run` for each wanted shape. */
void layer_add_shapes(test_list *list, CMUnitTestFunction run, const char *what);

/* Sizes of operands, for shapes that begin with a layer_shape: rows x cols, 1 x cols, 1 x rows. */
layer_size layer_all(const void *shape);
layer_size layer_row(const void *shape);
layer_size layer_column(const void *shape);

/* Sides of a linear layer over 11 rows, whose w has the shape: x and y. */
layer_size layer_linear_x(const void *shape);
layer_size layer_linear_y(const void *shape);

/* 1 x a divisor of the rows, as if they were samples of so many tokens. */
layer_size layer_token_row(const void *shape);

/* ---- references ---- */

/* Sets element i of a result: a sum of `terms` products whose magnitudes are `size` together. */
void layer_set(const layer_data *to, size_t i, double value, size_t terms, double size);

/* The sums of `values`, which are rows x to->cols, over the rows; or over the samples of to->cols
 * tokens and over `cols` columns. Each value is itself within its bound (NULL: exact). */
void layer_set_sums(const layer_data *to, size_t rows, const double *values, const double *bounds);
void layer_set_token_sums(
    const layer_data *to, size_t rows, size_t cols, const double *values, const double *bounds);

/* The sums of a * b over the rows. */
void layer_set_dots(const layer_data *to, size_t rows, const double *a, const double *b);

/* ---- values ---- */

/* An array of the same values. */
double *layer_widen(size_t count, const float *values);
float *layer_narrow(size_t count, const double *values);

/* For `change`: all are 0. */
void layer_zeros(const void *shape, size_t count, float *values);

/* `count` times the same value. */
float *layer_same_values(size_t count, float value);

/* Bit c of row r of a mask, `words` words of 32 bits a row. */
bool layer_bit(const float *mask, size_t words, size_t r, size_t c);

/* ---- checks ---- */

/* Fails unless the elements of `m` are `want` within `bound` and nothing else in the buffer
 * changed. */
void layer_check(const char *what, const test_mat *m, const double *want, const double *bound,
    const char *parameters);

/* Both matrices have the same bits. */
void layer_same(const char *what, const test_mat *a, const test_mat *b);

/* `db` has the bits that a linear layer's backward pass gives for these gradients of its output. */
void layer_same_bias_gradient(const test_mat *dy, const test_mat *db);

/* A function of `count` numbers. */
typedef double (*layer_function)(void *user, const double *x);

/* Fails unless (f(x + step v) - f(x - step v)) / (2 step) is grad . v within `tolerance` of sum
 * |grad v|, for three random v. */
void layer_slopes(const char *what, layer_function f, void *user, size_t count, const double *x,
    const double *grad, double step, double tolerance);

#endif
