/* Signals, and what all ranks take notice of together. */
#include "trainer/base/stop.h"
#include "trainer/run/run.h"

bool run_is_stopped(const training_run *r)
{
    return ranks_many(&r->s.options->ranks) ? r->stop : stop_signal() != 0;
}

bool run_agree(training_run *r, bool *fed, fault *f)
{
    const rank_group *all = &r->s.options->ranks;
    const double minutes = (double)r->s.options->checkpoint_minutes;
    const bool late = minutes > 0 && clock_seconds() - r->saved_at >= 60 * minutes;
    uint32_t words[] = {stop_signal() != 0, !*fed, late && all->at.rank == 0, stop_save_asked()};
    if (ranks_many(all) && !all->call->agree(all->group, words, 4, f))
        return false;
    r->save_asked = words[3] != 0;
    r->save_due = words[2] != 0 || r->save_asked;
    if (!ranks_many(all))
        return true;
    r->stop = words[0] != 0;
    if (words[1] != 0 && *fed)
        (void)fault_set(
            f, CODE_DATA, "%s", all->at.rank == 0 ? "a rank could not read its data" : "");
    *fed = words[1] == 0;
    r->agreed = !*fed;
    return true;
}
