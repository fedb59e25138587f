#include "gpt_rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static char what[256];

/* The object of config.json that has the scaling. */
typedef struct scaling {
    const json_file *file;
    const char *object;
    gpt_rotary *to;
    double length; /* original_max_position_embeddings */
    bool good;
} scaling;

static const char *path_of(const scaling *s, const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s.%s", s->object, name);
    return path;
}

static double number(const scaling *s, const char *name, double usual)
{
    return json_file_number(s->file, path_of(s, name), usual);
}

/* The same, above 0. */
static double positive(scaling *s, const char *name, double usual)
{
    const double value = number(s, name, usual);
    if (s->good && !(value > 0 && value < 1e9))
        (void)snprintf(what, sizeof what, "its %s.%s is no number above 0", s->object, name);
    s->good = s->good && value > 0 && value < 1e9;
    return value;
}

size_t gpt_rope_pairs(const gpt_arch *a)
{
    return (a->turned > 0 ? a->turned : a->head) / 2;
}

void gpt_rope_begin(const gpt_arch *a, gpt_rotary *to)
{
    const size_t pairs = gpt_rope_pairs(a);
    for (size_t i = 0; i < pairs; ++i)
        to->frequencies[i] = pow((double)to->theta, -(double)i / (double)pairs);
    to->factor = 1;
}

void gpt_rope_queries(gpt_arch *a, double scalar)
{
    gpt_rotary *both[] = {&a->rotary, &a->others};
    for (size_t i = 0; i < 2 && scalar != (double)a->head; ++i) {
        if (both[i]->theta > 0 && both[i]->factor == 0)
            gpt_rope_begin(a, both[i]);
        both[i]->factor *= (float)pow((double)a->head / scalar, 0.25); /* of queries and of keys */
    }
}

/* ---- kinds of scaling --------------------------------------------------------------------------
 */

static void scale_linear(scaling *s, gpt_arch *a)
{
    const double factor = positive(s, "factor", NAN);
    for (size_t i = 0; i < gpt_rope_pairs(a); ++i)
        s->to->frequencies[i] /= factor;
}

/* Llama 3.1: slow pairs turn `factor` times slower, fast ones stay; between them both are mixed. */
static void scale_llama3(scaling *s, gpt_arch *a)
{
    const double factor = positive(s, "factor", NAN);
    const double low = positive(s, "low_freq_factor", NAN);
    const double high = positive(s, "high_freq_factor", NAN);
    if (s->good && !(high > low)) {
        (void)snprintf(
            what, sizeof what, "its %s.high_freq_factor is not above low_freq_factor", s->object);
        s->good = false;
    }
    for (size_t i = 0; i < gpt_rope_pairs(a); ++i) {
        const double turns = s->length * s->to->frequencies[i] / (2 * pi);
        const double kept = fmin(fmax((turns - low) / (high - low), 0), 1);
        s->to->frequencies[i] *= kept + (1 - kept) / factor;
    }
}

/* The pair that turns so many times in the original length (arXiv 2309.00071). */
static double pair_of(const scaling *s, const gpt_arch *a, double turns)
{
    return (double)gpt_rope_pairs(a) * log(s->length / (turns * 2 * pi)) /
           log((double)s->to->theta);
}

static double magnitude(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static void scale_yarn(scaling *s, gpt_arch *a)
{
    const double factor = positive(s, "factor", NAN);
    const double scale = number(s, "mscale", 0), all = number(s, "mscale_all_dim", 0);
    double low = pair_of(s, a, positive(s, "beta_fast", 32));
    double high = pair_of(s, a, positive(s, "beta_slow", 1));
    if (number(s, "truncate", 1) != 0) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, 2.0 * (double)gpt_rope_pairs(a) - 1);
    if (low == high)
        high += 0.001;
    for (size_t i = 0; i < gpt_rope_pairs(a); ++i) {
        const double slower = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        s->to->frequencies[i] *= slower / factor + 1 - slower;
    }
    const double usual = scale != 0 && all != 0 ? magnitude(factor, scale) / magnitude(factor, all)
                                                : magnitude(factor, 1);
    s->to->factor = (float)positive(s, "attention_factor", usual);
}

/* Factors of each pair, of which the short ones count up to the original length (2402.13753). */
static void scale_long(scaling *s, gpt_arch *a)
{
    char name[64];
    const double factor = positive(s, "factor", (double)a->context / s->length);
    const double usual = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(s->length));
    for (size_t i = 0; i < gpt_rope_pairs(a); ++i) {
        (void)snprintf(name, sizeof name, "short_factor.%zu", i);
        s->to->frequencies[i] /= positive(s, name, NAN);
    }
    (void)snprintf(name, sizeof name, "short_factor.%zu", gpt_rope_pairs(a));
    if (s->good && !isnan(number(s, name, NAN))) {
        (void)snprintf(what, sizeof what, "its %s.short_factor has more than %zu numbers",
            s->object, gpt_rope_pairs(a));
        s->good = false;
    }
    s->to->factor = (float)positive(s, "attention_factor", usual);
    gpt_limit(a, (size_t)s->length);
}

static const struct {
    const char *type;
    void (*scale)(scaling *s, gpt_arch *a); /* NULL: they stay theta's */
    bool llama, phi3;                       /* who has it */
} types[] = {{"default", NULL, true, true}, {"linear", scale_linear, true, false},
    {"llama3", scale_llama3, true, false}, {"yarn", scale_yarn, true, false},
    {"longrope", scale_long, true, true}, {"su", scale_long, false, true}};

const char *gpt_rope_read(const json_file *c, const char *object, gpt_arch *a, gpt_rotary *to)
{
    scaling s = {.file = c, .object = object, .to = to, .good = true};
    const char *type = json_file_text(c, path_of(&s, "type"), "default");
    type = json_file_text(c, path_of(&s, "rope_type"), type);
    size_t t = 0;
    while (t < sizeof types / sizeof *types && (type == NULL || strcmp(types[t].type, type) != 0 ||
                                                   !(a->joint ? types[t].phi3 : types[t].llama)))
        ++t;
    if (t == sizeof types / sizeof *types) {
        (void)snprintf(what, sizeof what, "its %s.rope_type is %.60s, expected %s", s.object,
            type != NULL ? type : "no text",
            a->joint ? "default, longrope or su" : "default, linear, llama3, yarn or longrope");
        return what;
    }
    if (types[t].scale == NULL)
        return NULL;
    s.length = json_file_number(c, "original_max_position_embeddings",
        number(&s, "original_max_position_embeddings", (double)a->context));
    if (!(s.length > 1 && s.length <= 0x1p24)) {
        (void)snprintf(what, sizeof what,
            "its original_max_position_embeddings is no number from 2 to 16777216");
        return what;
    }
    gpt_rope_begin(a, to);
    types[t].scale(&s, a);
    return s.good ? NULL : what;
}
