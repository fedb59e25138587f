#include "trainer/model/net_tune.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 16, TEXT = 512, RANK = 1024 };

/* R[:PATTERN]. */
static bool parse_lora(const char *text, size_t *rank, const char **pattern)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    *rank = (size_t)value;
    *pattern = *end == ':' ? end + 1 : "*";
    return end != text && text[0] >= '0' && text[0] <= '9' && value >= 1 && value <= RANK &&
           (*end == '\0' || (*end == ':' && end[1] != '\0'));
}

/* What an adapter counts: alpha / R, or alpha / sqrt(R). */
static float factor_of(const trainer_sizes *sizes, size_t rank)
{
    const double alpha = sizes->lora_alpha > 0 ? sizes->lora_alpha : 2 * (double)rank;
    return (float)(alpha / (sizes->rslora ? sqrt((double)rank) : (double)rank));
}

const char *net_tune_build(const trainer_model *type, const trainer_sizes *sizes, clprune_net *net)
{
    const char *patterns[PATTERNS], *pattern;
    char text[TEXT];
    size_t count = 0, rank;
    if (sizes->lora != NULL && !parse_lora(sizes->lora, &rank, &pattern))
        return "--lora is not R[:PATTERN], with a rank R from 1 to 1024";
    if (sizes->train != NULL && strlen(sizes->train) >= sizeof text)
        return "--train has more than 511 characters";
    if (sizes->lora != NULL)
        clprune_net_lora(net, pattern, rank, factor_of(sizes, rank) * (float)rank);
    clprune_net_lora_dropout(net, (float)sizes->lora_dropout);
    type->build(sizes, net);
    if (sizes->lora != NULL) {
        clprune_net_lora(net, NULL, 0, 0);
        patterns[count++] = "*.lora_*";
    }
    if (sizes->train != NULL) {
        (void)snprintf(text, sizeof text, "%s", sizes->train);
        for (char *at = text; at != NULL; ++count) {
            if (count == PATTERNS)
                return "--train has more than 15 patterns";
            if (*at == '\0' || *at == ',')
                return "--train has an empty pattern";
            patterns[count] = at;
            at = strchr(at, ',');
            if (at != NULL)
                *at++ = '\0';
        }
    }
    if (count > 0)
        clprune_net_train_only(net, patterns, count);
    if (sizes->base != CLPRUNE_VALUES_FP32)
        clprune_net_store_frozen(net, "*", sizes->base);
    const bool four = sizes->base == CLPRUNE_VALUES_CODES4 || sizes->base == CLPRUNE_VALUES_NF4;
    for (size_t k = 0; k < 2 && four; ++k) {
        bool frozen = sizes->tables[k] != NULL;
        for (size_t i = 0; i < count && frozen; ++i)
            frozen = fnmatch(patterns[i], sizes->tables[k], 0) != 0;
        if (frozen) /* there 4 bits cost most */
            clprune_net_store_frozen(net, sizes->tables[k], CLPRUNE_VALUES_CODES8);
    }
    return NULL;
}

bool net_tune_is_adapter(const char *name)
{
    return strstr(name, ".lora_") != NULL;
}

double net_tune_draw(rng *r, const clprune_net_weight *weight)
{
    return weight->inputs > 0 ? (2 * rng_uniform(r) - 1) / sqrt((double)weight->inputs) : 0;
}

static clprune_mat find(const clprune_net *net, const char *base, const char *part)
{
    clprune_net_weight found;
    char name[128];
    const char *end = strrchr(base, '.');
    (void)snprintf(name, sizeof name, "%.*s.lora_%s.weight",
        (int)(end != NULL ? (size_t)(end - base) : strlen(base)), base, part);
    for (size_t i = 0; clprune_net_weight_at(net, i, &found); ++i)
        if (strcmp(found.name, name) == 0)
            return found.value;
    return CLPRUNE_NO_MAT;
}

void net_tune_attach(const clprune_net *net, const trainer_sizes *sizes,
    const clprune_net_weight *base, trainer_weight *pieces, size_t count)
{
    const char *pattern;
    size_t rank;
    if (sizes->lora == NULL || base->rank != 2 || !parse_lora(sizes->lora, &rank, &pattern))
        return;
    for (size_t i = 0; i < count; ++i) {
        pieces[i].lora_a = find(net, pieces[i].name, "A");
        pieces[i].lora_b = find(net, pieces[i].name, "B");
        pieces[i].lora_factor = factor_of(sizes, rank);
    }
}
