#include "trainer/base/learning_rate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool learning_rate_milestones(const char *text, learning_rate *rate, fault *f)
{
    const char *p = text;
    bool good = strlen(text) <= MILESTONES_TEXT;
    rate->count = 0;
    while (good) {
        char *end;
        const double value = strtod(p, &end);
        good = *p != '\0' && strspn(p, "0123456789.") == (size_t)(end - p) && value > 0 &&
               value < 1 && rate->count < MILESTONES_MOST &&
               (rate->count == 0 || value > rate->milestones[rate->count - 1]) &&
               (*end == ',' || *end == '\0');
        if (good)
            rate->milestones[rate->count++] = value;
        p = end + 1;
        if (good && *end == '\0')
            break;
    }
    return good || fault_set(f, CODE_USAGE,
                       "--milestones: '%s' is not up to %d increasing fractions between 0 and 1, "
                       "such as 0.5,0.75; try --help",
                       text, MILESTONES_MOST);
}

double learning_rate_at(const learning_rate *rate, uint64_t step)
{
    const clprune_schedule *s = &rate->schedule;
    double lr = s->base;
    if (rate->count == 0 || step < s->warmup)
        return clprune_schedule_lr(s, step);
    for (size_t i = 0; i < rate->count; ++i)
        if ((double)step >= floor(rate->milestones[i] * (double)s->total + 0.5))
            lr *= 0.1;
    return lr;
}
