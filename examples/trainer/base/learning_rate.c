#include "trainer/base/learning_rate.h"

#include <math.h>
#include <string.h>

#include "trainer/base/decimal.h"

bool learning_rate_milestones(const char *text, learning_rate *rate, fault *f)
{
    const char *p = text;
    bool good = strlen(text) <= MILESTONES_TEXT;
    rate->count = 0;
    while (good) {
        double value;
        good = decimal_take(&p, &value) && value > 0 && value < 1 &&
               rate->count < MILESTONES_MOST &&
               (rate->count == 0 || value > rate->milestones[rate->count - 1]) &&
               (*p == ',' || *p == '\0');
        if (good)
            rate->milestones[rate->count++] = value;
        if (good && *p++ == '\0')
            break;
    }
    return good || fault_set(f, CODE_USAGE,
                       "--milestones: '%s' is not up to %d increasing fractions between 0 and 1, "
                       "such as 0.5,0.75; try --help",
                       text, MILESTONES_MOST);
}

bool learning_rate_points(const char *text, learning_rate *rate, fault *f)
{
    const char *p = text;
    bool good = strlen(text) <= MILESTONES_TEXT, more = true;
    rate->points_count = 0;
    while (good && more) {
        rate_point point;
        const size_t n = rate->points_count;
        good = n < MILESTONES_MOST && decimal_take(&p, &point.at) && *p++ == ':' &&
               decimal_take(&p, &point.factor) && point.factor <= 1000 && point.at <= 1 &&
               (n == 0 ? point.at <= 0 : point.at > rate->points[n - 1].at) &&
               (*p == ',' || *p == '\0');
        if (!good)
            break;
        rate->points[rate->points_count++] = point;
        more = *p++ == ',';
    }
    good = good && rate->points_count > 1 && rate->points[rate->points_count - 1].at >= 1;
    return good || fault_set(f, CODE_USAGE,
                       "--points: '%s' is not 2 to %d points FRACTION:FACTOR at increasing "
                       "fractions from 0 to 1, such as 0:0,0.25:1,1:0; try --help",
                       text, MILESTONES_MOST);
}

static double on_line(const learning_rate *rate, double at)
{
    const rate_point *p = rate->points, *last = p + rate->points_count - 1;
    while (p + 1 < last && p[1].at <= at)
        ++p;
    const double part = at >= last->at ? 1 : (at - p->at) / (p[1].at - p->at);
    return p->factor + part * (p[1].factor - p->factor);
}

double learning_rate_at(const learning_rate *rate, uint64_t step)
{
    const clprune_schedule *s = &rate->schedule;
    double lr = s->base;
    if (rate->points_count > 0)
        return lr * on_line(rate, (double)step / (double)s->total);
    if (rate->count == 0 || step < s->warmup)
        return clprune_schedule_lr(s, step);
    for (size_t i = 0; i < rate->count; ++i)
        if ((double)step >= floor(rate->milestones[i] * (double)s->total + 0.5))
            lr *= 0.1;
    return lr;
}
