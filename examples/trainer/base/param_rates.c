#include "trainer/base/param_rates.h"

#include <fnmatch.h>
#include <string.h>

#include "trainer/base/decimal.h"

enum { PATTERN = 80 };

typedef struct param_rate {
    char pattern[PATTERN];
    double lr, decay, epochs; /* decay, epochs: below 0: not given */
} param_rate;

/* The entry at *p, which then is behind it. */
static bool take(const char **p, param_rate *rate)
{
    const size_t length = strcspn(*p, ":,");
    *rate = (param_rate){.decay = -1, .epochs = -1};
    if (length == 0 || length >= PATTERN || (*p)[length] != ':')
        return false;
    memcpy(rate->pattern, *p, length);
    *p += length;
    double *const fields[] = {&rate->lr, &rate->decay, &rate->epochs};
    for (size_t i = 0; i < 3 && **p == ':'; ++i) {
        ++*p;
        if (!decimal_take(p, fields[i]) || *fields[i] > 1e6)
            return false;
    }
    return **p == ',' || **p == '\0';
}

bool param_rates_check(const char *text, fault *f)
{
    param_rate rate;
    for (const char *p = text; p != NULL; p = *p == ',' ? p + 1 : NULL)
        if (!take(&p, &rate))
            return fault_set(f, CODE_USAGE,
                "--rates: '%s' is not PATTERN:LR[:DECAY[:EPOCHS]], such as '*.bias:2', with commas "
                "between several; try --help",
                text);
    return true;
}

/* Gives the parameters that match the factors of the entry. */
static bool set(const param_rate *rate, clprune_context *context, clprune_optimizer *optimizer,
    const clprune_param *params, size_t count, uint64_t epoch, fault *f)
{
    bool any = false;
    const bool over = rate->epochs >= 0 && (double)epoch >= rate->epochs;
    for (size_t i = 0; i < count; ++i) {
        const double decay = rate->decay >= 0 ? rate->decay : params[i].decay ? 1 : 0;
        if (fnmatch(rate->pattern, params[i].name, 0) != 0)
            continue;
        any = true;
        if (!fault_check(f, context,
                clprune_optimizer_set_rates(
                    optimizer, i, over ? 0 : (float)rate->lr, over ? 0 : (float)decay),
                "setting --rates"))
            return false;
    }
    return any || fault_set(f, CODE_USAGE,
                      "--rates: no parameter is named like '%s'; --memory-report lists them",
                      rate->pattern);
}

bool param_rates_set(const char *text, clprune_context *context, clprune_optimizer *optimizer,
    const clprune_param *params, size_t count, uint64_t epoch, fault *f)
{
    param_rate rate;
    for (const char *p = text; p != NULL; p = *p == ',' ? p + 1 : NULL)
        if (!take(&p, &rate) || !set(&rate, context, optimizer, params, count, epoch, f))
            return false;
    return true;
}
