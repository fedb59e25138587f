/* A training program in the order of events. Reading order: this file; run_loop.c (a step, an
 * epoch); trainer_model.h and a model's own files; then the includes as needed. */
#include "trainer/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h> /* strlen */
#include <unistd.h>

#include "trainer/base/stop.h"
#include "trainer/files/adapters.h"
#include "trainer/files/weights.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/memory/memory_plan.h"
#include "trainer/memory/memory_report.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/options.h"
#include "trainer/run/run.h"
#include "trainer/run/run_ranks.h"
#include "trainer/run/summary.h"

/* How --data, --epochs and options of the optimizer change a resumed run. */
static void say_changes(training_run *r)
{
    session *s = &r->s;
    if (s->other_data)
        progress_say(&r->progress, "data changed: epoch %llu begins with %llu %s in place of %llu",
            (unsigned long long)r->at.epoch + 1, (unsigned long long)s->options->train_limit,
            trainer_words_of(s->type->tokens).samples, (unsigned long long)s->options->run_images);
    char before[1536], now[1536], rates[96] = "";
    learning_rate rate;
    fault ignored = {0};
    options_changed(s->options, before, now, sizeof before);
    if (before[0] == '\0' || !session_rate(s, s->options->before, &rate, &ignored))
        return;
    const uint64_t step = session_rate_step(s);
    const double old = learning_rate_at(&rate, step), next = learning_rate_at(&s->rate, step);
    if (old < next || old > next)
        (void)snprintf(
            rates, sizeof rates, "; the learning rate of the next step is %g, not %g", next, old);
    progress_say(&r->progress, "the run had%s and goes on with%s%s", before, now, rates);
}

static void say_start(training_run *r)
{
    session *s = &r->s;
    const options *o = s->options;
    char device[256], block[64], kept[512], extras[128] = "", image[32] = "", trained[48] = "";
    char passes[48] = "";
    summary_device(r, device, sizeof device);
    options_block_text(o->block, block, sizeof block);
    const bool random = o->criterion == CLPRUNE_CRITERION_RANDOM;
    if (o->sparsity > 0)
        (void)snprintf(kept, sizeof kept, "%s, sparsity %g, blocks %s, %s%s%s%s", options_preset(o),
            o->sparsity, block, options_criteria[o->criterion], random ? "" : " by ",
            random ? "" : options_norms[o->norm], random ? "" : " norm");
    else
        (void)snprintf(kept, sizeof kept, "%s", options_preset(o));
    if (o->sparsity > 0 && o->centre == CLPRUNE_CENTRE_SAMPLE)
        options_append(kept, sizeof kept, ", centred");
    if (o->sparsity > 0 && o->centre == CLPRUNE_CENTRE_CELLS)
        options_append(
            kept, sizeof kept, ", centred by cells of %zux%zu", (size_t)o->pool, (size_t)o->pool);
    if (o->values != CLPRUNE_VALUES_FP32)
        options_append(kept, sizeof kept, ", values in %s", options_values[o->values]);
    const char *exact = s->automatic != NULL ? s->automatic->exact : NULL;
    if (options_index_type(o) != CLPRUNE_INDEX_INT32 && exact == NULL)
        options_append(kept, sizeof kept, ", indices in %s",
            options_index_type(o) == CLPRUNE_INDEX_SMALLEST ? "the fewest bytes"
                                                            : options_indices[o->indices]);
    const clprune_precision precision = clprune_context_precision(s->context);
    if (precision != CLPRUNE_PRECISION_FP32)
        options_append(kept, sizeof kept, ", multiplied in %s", clprune_precision_name(precision));
    if (keep_preset_has(o->activations, KEEP_CODED))
        options_append(
            kept, sizeof kept, ", GELU's derivative in %u bits", options_gelu_code_bits(o));
    if (o->store != 0)
        options_append(kept, sizeof kept, ", dense ones in %s", options_stores[o->store]);
    if (keep_preset_has(o->activations, KEEP_QUANTISED))
        options_append(kept, sizeof kept, ", codes of %u bits in groups of %u, %s rounding%s",
            options_quantised_bits(o), options_quantised_group(o), options_roundings[o->rounding],
            o->rotate != 0 ? ", rotated" : "");
    if (keep_preset_has(o->activations, KEEP_POOLED))
        options_append(kept, sizeof kept, ", cells of %llu x %llu", (unsigned long long)o->pool,
            (unsigned long long)o->pool);
    if (exact != NULL)
        options_append(kept, sizeof kept, ", %s fits", exact);
    else if (s->automatic != NULL)
        options_append(kept, sizeof kept, ", chosen by measured errors");
    else if (o->keep_text != NULL)
        options_append(kept, sizeof kept, ", overridden by %s",
            o->keep_file != NULL ? o->keep_file : o->resume);
    for (size_t i = 0; i < s->type->extras_count; ++i)
        options_append(extras, sizeof extras, ", %s %llu", s->type->extras[i].name,
            (unsigned long long)s->sizes.extra[i]);
    if (!s->type->tokens)
        (void)snprintf(image, sizeof image, ", %zu px", s->sizes.image);
    if (s->sizes.trained < s->sizes.parameters)
        (void)snprintf(trained, sizeof trained, ", %llu of them trained",
            (unsigned long long)s->sizes.trained);
    progress_say(&r->progress, "%s, %llu parameters%s%s%s, %s%zu%s", session_arch_name(s),
        (unsigned long long)s->sizes.parameters, trained, image, extras,
        s->type->tokens ? "vocabulary " : "", s->sizes.classes, s->type->tokens ? "" : " classes");
    progress_say(&r->progress, "data %s, %u train and %u test %s%s%s; device %s",
        dataset_name(s->data), (unsigned)dataset_count(s->data, DATASET_TRAIN),
        (unsigned)dataset_count(s->data, DATASET_TEST), trainer_words_of(s->type->tokens).samples,
        o->normalise != DATASET_BY_DATA ? ", --normalise " : "",
        o->normalise != DATASET_BY_DATA ? options_normalise[o->normalise] : "", device);
    if (dataset_tests(s->data)[0] != '\0')
        progress_say(&r->progress, "tests: %s", dataset_tests(s->data));
    if (options_passes(o) > 1)
        (void)snprintf(passes, sizeof passes, " in %zu micro-batches", options_passes(o));
    progress_say(&r->progress,
        "activations %s; %s, lr %g, weight decay %g, batch %llu%s, seed %llu", kept,
        options_optimizers()[o->optimizer], o->lr, o->weight_decay,
        (unsigned long long)o->batch_size, passes, (unsigned long long)o->seed);
    const double clip = options_defaults(o->model).clip_norm;
    if (o->early_update && o->resume == NULL && !options_given(o, "clip-norm") && clip > 0)
        progress_say(&r->progress, "--early-update: --clip-norm is 0, not %g", clip);
    if (r->folder.path != NULL)
        progress_say(&r->progress, "files in %s", r->folder.path);
    if (s->step > 0)
        progress_say(&r->progress, "going on after epoch %llu, step %llu",
            (unsigned long long)r->at.epoch, (unsigned long long)s->step);
    if (!o->test_only)
        say_changes(r);
    if (r->at.epoch >= o->epochs && !o->test_only)
        progress_say(&r->progress, "all %llu epochs are done; a higher --epochs goes on",
            (unsigned long long)o->epochs);
}

/* Whether the program only prints, so that a reader that had enough, such as head, is no fault. */
static bool prints_only(const options *o)
{
    return o->help || o->version || o->list_devices || o->plan;
}

/* A disk that is full or a reader that went away. After a signal it does not matter: the terminal
 * may be closed. Writing to that fails a moment before its signal comes. */
static bool check_output(const options *o, fault *f)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    if (prints_only(o) && poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0)
        return true;
    if (stop_signal() == 0)
        (void)poll(NULL, 0, 100);
    if (stop_signal() != 0)
        return true;
    return fault_set(f, CODE_DATA, "cannot write to standard output");
}

static bool has_checkpoint(const training_run *r)
{
    return r->checkpoint_path == NULL ||
           (!r->folder.has_replaced && access(r->checkpoint_path, F_OK) == 0);
}

/* Whether the run writes checkpoints: after epochs, or by the clock. */
static bool saves(const options *o)
{
    return o->checkpoint_every != 0 || o->checkpoint_minutes != 0;
}

/* Data that cannot be read, output that cannot be written, or a lost rank end a run; the steps
 * before it are saved, as after a signal, unless that takes ranks that do not take part. */
static bool save_what_was_done(training_run *r, fault *f)
{
    const options *o = r->s.options;
    const bool lost = f->code == CODE_PEER, alone = r->s.slices.context != NULL && !r->agreed;
    fault unsaved = {0};
    if ((f->code != CODE_DATA && !lost) || !saves(o) || r->s.step == 0)
        return false;
    const bool good = alone ? lost && has_checkpoint(r) : run_save(r, &unsaved);
    if (good && r->checkpoint_path != NULL)
        options_append(f->text, sizeof f->text, "; go on with --resume %s", r->checkpoint_path);
    return false;
}

/* Whether training came to its end: all epochs are done, or --patience is over. */
static bool is_done(const training_run *r)
{
    return r->at.epoch >= r->s.options->epochs || run_is_over(r);
}

/* Whether rank 0 has steps that no checkpoint has; the same on all ranks. A finished run has one,
 * unless it was resumed into another folder. */
static bool find_unsaved(const training_run *r, bool *unsaved, fault *f)
{
    const rank_group *all = &r->s.options->ranks;
    const bool whole = is_done(r) && r->at.step_in_epoch == 0;
    uint32_t word = whole ? !has_checkpoint(r) : r->s.step > 0;
    const bool good = !ranks_many(all) || all->call->agree(all->group, &word, 1, f);
    *unsaved = word != 0;
    return good;
}

static bool train(training_run *r, fault *f)
{
    const options *o = r->s.options;
    while (!is_done(r) && !run_must_stop(r)) {
        if (!run_epoch(r, f))
            return save_what_was_done(r, f);
        if (run_must_stop(r) || run_is_over(r))
            break; /* the epoch may be over: the resumed run makes its test */
        if (run_tests_at(r, r->at.epoch + 1) && !run_evaluate(r, f))
            return save_what_was_done(r, f);
        if (run_must_stop(r))
            break;
        if (!run_finish_epoch(r, f))
            return save_what_was_done(r, f);
        const bool last = is_done(r);
        const bool due =
            last ? saves(o) : o->checkpoint_every != 0 && r->at.epoch % o->checkpoint_every == 0;
        if (due && !run_compare(r, f))
            return save_what_was_done(r, f);
        if (due && !run_save(r, f))
            return false;
        if (!check_output(o, f))
            return save_what_was_done(r, f);
    }
    bool unsaved;
    if (!run_compare(r, f) || !find_unsaved(r, &unsaved, f) ||
        (unsaved && saves(o) && !run_save(r, f)))
        return false;
    if (is_done(r))
        run_folder_drop_replaced(&r->folder);
    const bool trial = o->steps != 0 && !run_is_stopped(r) && !is_done(r);
    return !trial || !options_given(o, "test-limit") || run_evaluate(r, f);
}

/* Whether a signal ended training before its end; testing alone changes no weights. */
static bool is_stopped(const training_run *r)
{
    return run_is_stopped(r) && !r->s.options->test_only && !is_done(r);
}

/* Why --patience ends a run, and where the best test is. */
static void say_best(training_run *r)
{
    const options *o = r->s.options;
    char best[96];
    run_best_text(r, best, sizeof best);
    if (o->test_only || run_best(r).row == NULL)
        return;
    if (run_is_over(r))
        progress_say(&r->progress,
            "--patience %llu: the last %llu tests were no better than %s; a higher --patience goes "
            "on",
            (unsigned long long)o->patience, (unsigned long long)run_best(r).since, best);
    if (o->best && r->best_path != NULL)
        progress_say(&r->progress, "best test: %s, %s %s", best,
            access(r->best_path, F_OK) == 0 ? "in" : "whose checkpoint is not", r->best_path);
}

static void say_unwritten(training_run *r, const char *option, const char *path)
{
    if (is_stopped(r) && path != NULL)
        progress_say(
            &r->progress, "--%s: %s is not written before the end of the run", option, path);
}

static void say_end(training_run *r)
{
    session *s = &r->s;
    if (r->at.skipped > 0)
        progress_say(&r->progress,
            "--skip-broken: images that could not be read were replaced %llu times",
            (unsigned long long)r->at.skipped);
    if (is_stopped(r) || (run_is_stopped(r) && s->options->test_only))
        progress_say(&r->progress, "stopped by a signal after step %llu%s%s",
            (unsigned long long)s->step,
            r->saved ? "; go on with --resume " : "; no checkpoint was written",
            r->saved ? r->checkpoint_path : "");
    say_best(r);
    say_unwritten(r, "export", s->options->export_file);
    say_unwritten(r, "adapters", s->options->adapters);
    if (!run_is_stopped(r) && s->options->steps != 0 && s->steps_here > 0) {
        char speed[96];
        run_speed_text(r, &r->all, ", ", speed, sizeof speed);
        progress_say(&r->progress, "step %llu: train loss %.4f%s", (unsigned long long)s->step,
            r->train_loss, speed);
    }
    /* top1 may be older: of an epoch before the last step, or from before a signal ended the
     * test. */
    const bool tested =
        r->at.step_in_epoch == 0 || (options_given(s->options, "test-limit") && !run_is_stopped(r));
    if (r->top1 >= 0 && (s->options->test_only || (s->options->steps != 0 && tested))) {
        char test[160];
        run_test_text(r, ", ", test, sizeof test);
        progress_say(&r->progress, "%s", test);
    }
}

/* Adds to a fault of too little memory what takes less; a resumed run has no choice, and another
 * rank's fault has no text here. */
static void advise(const options *o, fault *f)
{
    if (f->code != CODE_MEMORY || f->text[0] == '\0' || o->resume != NULL ||
        strstr(f->text, "--memory-limit") != NULL)
        return;
    options_append(f->text, sizeof f->text,
        "; a smaller --batch-size or --activations %s takes less, and --memory-limit BYTES chooses "
        "what fits",
        keep_ladder[KEEP_RUNGS - 1].preset);
}

/* The summary of a run is written, too, if the comparison of gradients fails or is stopped. */
static bool compare_and_summarise(training_run *r, gradient_check *check, fault *f)
{
    fault unwritten = {0};
    const bool stopped = run_is_stopped(r);
    if (stopped && r->s.options->gradient_check != 0)
        progress_say(&r->progress, "--gradient-check: left out after the signal");
    const bool compared = stopped || gradient_check_run(&r->s, r->at.epoch, check, f);
    progress_end(&r->progress); /* kernels of the comparison */
    gradient_check_print(check, &r->s);
    return summary_write(r, check, compared ? f : &unwritten) && compared;
}

static bool write_adapters(training_run *r, fault *f)
{
    const session *s = &r->s;
    const options *o = s->options;
    char missing[256];
    if (!adapters_export(s->model, o->import_file, o->adapters, missing, sizeof missing, f))
        return false;
    if (missing[0] != '\0')
        (void)fprintf(stderr, "%s: note: --adapters %s: %s; --export writes the whole model\n",
            s->type->program, o->adapters, missing);
    return true;
}

static bool train_or_test(options *o, fault *f)
{
    training_run r = {0};
    gradient_check check = {0};
    const bool opened = run_ranks_share(o, f) && run_open(o, &r, f);
    if ((!opened && r.agreed) || !run_ranks_all(o, opened, f)) {
        advise(o, f);
        if (opened)
            run_close(&r);
        return false;
    }
    say_start(&r);
    stop_hold(!o->test_only);
    bool good = o->test_only ? run_evaluate(&r, f) : train(&r, f);
    stop_hold(false);
    /* Others wait for this rank, or a lost one may still write to the gradients. */
    if (!good && ranks_many(&o->ranks) && !r.agreed && f->code != CODE_DIVERGED)
        run_ranks_abort(o, f);
    if (good) {
        say_end(&r);
        good = !o->memory_report || memory_report_print(&r.s, f);
        /* before gradient_check_run, which changes states */
        good = good && session_swap_means(&r.s, f);
        if (o->export_file != NULL && !is_stopped(&r))
            good = good && weights_export(r.s.model, o->export_file, f);
        if (o->adapters != NULL && !is_stopped(&r))
            good = good && write_adapters(&r, f);
        if (!is_stopped(&r))
            good = good && sample_print(&r.s, &r.sample, f);
        good = good && session_swap_means(&r.s, f);
        good = good && compare_and_summarise(&r, &check, f);
    }
    advise(o, f);
    gradient_check_close(&check);
    run_close(&r);
    return good;
}

static bool list_devices(fault *f)
{
    size_t count;
    if (!fault_check(f, NULL, clprune_device_list(0, NULL, &count), "listing devices"))
        return false;
    if (count == 0)
        return fault_set(f, CODE_NO_DEVICE,
            "there is no OpenCL device; install a driver, on Debian for CPUs: pocl-opencl-icd. "
            "PoCL needs a folder that it can write: set POCL_CACHE_DIR, or HOME");
    clprune_device_info *devices = calloc(count, sizeof *devices);
    if (devices == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    size_t found;
    const bool good =
        fault_check(f, NULL, clprune_device_list(count, devices, &found), "listing devices");
    for (size_t i = 0; good && i < count && i < found; ++i)
        (void)printf("%zu:%zu  %s (%s, %s), %u compute units, %llu MiB\n",
            devices[i].platform_index, devices[i].device_index, devices[i].device,
            devices[i].platform, devices[i].driver, devices[i].compute_units,
            (unsigned long long)(devices[i].global_memory >> 20));
    free(devices);
    return good;
}

/* Opens unusable descriptors in place of closed standard streams: otherwise the next opened file
 * would get the number of a standard stream. Writing to them fails as it should. */
static void fill_closed_streams(void)
{
    for (int i = 0; i <= 2; ++i)
        if (fcntl(i, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", i == 0 ? O_WRONLY : O_RDONLY);
}

static bool act(options *o, fault *f)
{
    const bool first = o->ranks.at.rank == 0 || o->ranks.group == NULL;
    if (o->help) {
        if (first)
            options_print_help(o->model, stdout);
        return true;
    }
    if (o->version)
        return !first || printf("%s (clprune) %s\n", o->model->program, CLPRUNE_VERSION) >= 0;
    if (o->list_devices)
        return !first || list_devices(f);
    if (o->plan)
        return !first || memory_plan_run(o, f);
    return train_or_test(o, f);
}

int program_main(const trainer_model *model, const reduce_functions *ranks, int argc, char **argv)
{
    options o;
    fault f = {0};
    fill_closed_streams();
    (void)signal(SIGPIPE, SIG_IGN); /* writing fails if the reader of the output goes away */
    stop_install();
    const bool parsed = options_parse(model, argc, argv, &o, &f);
    const bool joined = run_ranks_open(ranks, &o, &f); /* only then it is known who prints */
    if (joined && run_ranks_agree(&o, parsed, &f))
        (void)act(&o, &f); /* failures are in f */
    (void)check_output(&o, &f);
    run_ranks_close(&o, &f);
    options_close(&o);
    if (f.code != CODE_OK && f.text[0] != '\0' && (o.ranks.at.rank == 0 || f.code != CODE_DIVERGED))
        (void)fprintf(stderr, "%s: %s\n", model->program, f.text);
    if (f.code == CODE_OK && stop_signal() != 0)
        return 128 + stop_signal();
    return f.code;
}
