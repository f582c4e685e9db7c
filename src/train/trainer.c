#include "trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elementwise.h"
#include "clock.h"
#include "encoder.h"
#include "lr_schedule.h"
#include "mlm_head.h"
#include "optimizer.h"
#include "stop_signal.h"
#include "threads.h"
#include "trainer_internal.h"
#include "training.h"

static const double LOG_PAUSE_S = 20;

double trainer_gradients(Trainer *t, uint64_t first, size_t count, size_t masked) {
    const ModelConfig *model = &t->config.model;
    double loss_sum = 0;
    vec_zero(t->blocks.grads.block, t->table.block_reals);
    profile_lap(t->acts.profile, PROFILE_OPTIMIZER, 0,
                (double)(t->table.block_reals * sizeof(real)));
    for (BatchCursor at = {.sample = first}; at.sample < first + count && !stop_signal_caught();) {
        if (batch_fill_train(&t->batch, &at, t->train, &t->plan, first + count) == 0)
            continue; /* nothing to predict */
        profile_lap(t->acts.profile, PROFILE_DATA, 0, 0);
        encoder_forward(&t->acts, &t->blocks.weights, model, &t->batch);
        loss_sum += mlm_head_loss_backward(&t->acts, &t->blocks.grads, &t->blocks.weights, model,
                                           &t->batch, 1 / (double)masked);
        encoder_backward(&t->acts, &t->blocks.grads, &t->blocks.weights, model, &t->batch);
    }
    return loss_sum;
}

bool trainer_step(Trainer *t, StepStats *out, Err *err) {
    TrainState *state = &t->state;
    const OptimizerConfig *optimizer = &t->config.optimizer;
    StepStats s = {.sequences = budget_next_count(&t->budget, state)};
    profile_start(t->acts.profile);
    batch_count(&s.tokens, &s.masked, t->train, &t->plan, state->sample, s.sequences);
    double progress = budget_progress(&t->budget, state, s.sequences, s.tokens);
    s.lr = lr_schedule(&t->config.schedule, optimizer->lr, progress);

    profile_lap(t->acts.profile, PROFILE_DATA, 0, 0);
    if (s.masked > 0) { /* else there is nothing to learn from: the step counts, the weights stay */
        double loss_sum = trainer_gradients(t, state->sample, s.sequences, s.masked);
        if (!stop_signal_check(err)) return false; /* weights and state stay the last step's */
        s.loss = loss_sum / (double)s.masked;
        if (!train_blocks_update(&t->blocks, &s.grad_norm, optimizer, s.loss, s.lr, state->step + 1,
                                 err))
            return false;
        profile_lap(t->acts.profile, PROFILE_OPTIMIZER, 0,
                    (double)(t->table.block_reals * sizeof(real)) * optimizer_passes(optimizer));
        state->window_loss += loss_sum;
        state->window_masked += s.masked;
    }
    state->step++;
    state->sample += s.sequences;
    state->tokens += s.tokens;
    *out = s;
    return true;
}

/* Where the time of the updates went so far; evaluations are too many to show it on a terminal
 * each time. */
static void log_profile(const Trainer *t, bool file_only) {
    char text[512];
    if (profile_seconds(&t->profile) == 0) return; /* all was done before */
    profile_describe(text, sizeof text, &t->profile);
    if (file_only)
        log_file_only("time of the updates: %s", text);
    else
        log_info("time of the updates: %s", text);
}

/* On held-out text, into *line; keeps best.ckpt. */
static bool evaluate(Trainer *t, Metrics *line, Err *err) {
    MlmScore score;
    Profile *profile = t->acts.profile;
    t->acts.profile = NULL;
    t->acts.mode =
        ACTS_INFERENCE; /* no dropout; the training layout has every buffer an inference needs */
    bool ok = evaluation_mlm(&score, &t->acts, &t->batch, &t->blocks.weights, &t->config.model,
                             t->valid, &t->plan, t->config.train.eval_sequences, err);
    t->acts.mode = ACTS_TRAINING;
    t->acts.profile = profile;
    if (!ok) return false;
    double entropy = t->manifest.valid.unigram_entropy;
    line->evaluated = true;
    line->valid_loss = score.loss;
    line->valid_ppl = score.perplexity;
    line->unigram_entropy = entropy;
    log_info("step %" PRIu64 "  held-out loss %.4f nats, perplexity %.2f, on %zu masked tokens of "
             "%zu sequences; %.3f nats %s "
             "the unigram entropy %.3f",
             t->state.step, score.loss, score.perplexity, score.masked, score.sequences,
             fabs(entropy - score.loss), score.loss <= entropy ? "below" : "ABOVE", entropy);
    log_profile(t, true);
    if (!isfinite(score.loss)) {
        return train_blocks_fail_nonfinite(&t->blocks, t->state.step, "held-out loss", score.loss,
                                           line->grad_norm, line->lr, err);
    }
    if (!(score.loss < t->state.best_valid_loss)) return true;
    t->state.best_valid_loss = score.loss;
    t->state.best_step = t->state.step;
    return trainer_save_best(t, err);
}

static Metrics metrics_line(const Trainer *t, const StepStats *s) {
    const TrainState *state = &t->state;
    return (Metrics){
        .step = state->step,
        .epoch = (double)state->sample / (double)state->dataset_sequences,
        .tokens = state->tokens,
        .loss = state->window_masked ? state->window_loss / (double)state->window_masked : 0,
        .lr = s->lr,
        .grad_norm = s->grad_norm,
        .tokens_per_s = t->window_s > 0 ? (double)t->window_tokens / t->window_s : 0,
        .elapsed_s = state->elapsed_s,
    };
}

/* Every line is in metrics.jsonl; the log and the terminal get one now and then. */
static void log_line(Trainer *t, const Metrics *line, bool at_once) {
    double now = clock_now_s();
    if (!at_once && now - t->logged_s < LOG_PAUSE_S) return;
    t->logged_s = now;
    log_info("step %" PRIu64 "  epoch %.3f  loss %.4f  lr %.3e  grad norm %.3f  %.0f tokens/s",
             line->step, line->epoch, line->loss, line->lr, line->grad_norm, line->tokens_per_s);
}

/* Metrics, evaluation and checkpoints of the step just made. *saved: last.ckpt holds it.  Where a
 * signal stops the evaluation, the state says that this is to be done yet. */
static bool finish_step(Trainer *t, const StepStats *s, bool *saved, Err *err) {
    const TrainConfig *train = &t->config.train;
    uint64_t step = t->state.step;
    bool ends = budget_spent(&t->budget, &t->state);
    bool evaluates = t->valid && (ends || training_is_due(step, train->eval_every));
    *saved = false;
    if (ends || evaluates || training_is_due(step, train->log_every)) {
        Metrics line = metrics_line(t, s);
        log_line(t, &line, ends || evaluates);
        if (evaluates && !evaluate(t, &line, err)) {
            bool stopped = err->code == ERR_SIGNAL;
            t->state.unfinished = (UnfinishedStep){stopped, s->lr, s->grad_norm};
            return false;
        }
        t->state.window_loss = 0;
        t->state.window_masked = 0;
        t->window_s = 0;
        t->window_tokens = 0;
        if (!run_log_write(&t->log, &line, err)) return false;
        /* before it is saved: a budget in hours would give a resumed run the evaluation's time
         * again */
        t->state.elapsed_s = clock_now_s() - t->started_s;
    }
    bool keeps = training_is_due(step, t->config.checkpoint.every);
    if (!ends && !evaluates && !keeps) return true;
    *saved = true;
    return trainer_save_last(t, err) && (!keeps || trainer_keep_step(t, err));
}

/* Saves the last complete step, and says so behind "stopped by SIGTERM". */
static void end_stopped(Trainer *t, bool saved, Err *err) {
    Err fault;
    if (t->state.step == 0)
        training_explain_early_stop(t->config.run_dir, err);
    else if (!saved && !trainer_save_last(t, &fault))
        *err = fault;
    else
        err_set(err, ERR_SIGNAL,
                "%s after step %" PRIu64 "; saved in %s/last.ckpt, continue with --resume",
                err->msg, t->state.step, t->config.run_dir);
}

/* Behind the message of a loss that is not finite: what its user can still do.  last.ckpt may hold
 * the weights that went wrong, and a run that is continued does the same again; those of an earlier
 * step had a finite loss and finite gradients in the step that followed. */
static bool add_advice(const Trainer *t, Err *err) {
    const TrainState *state = &t->state;
    char earlier[512] = "no checkpoint of before was kept (checkpoint.every)";
    if (isfinite(state->best_valid_loss)) {
        snprintf(earlier, sizeof earlier,
                 "%s/best.ckpt holds the model of step %" PRIu64
                 ", held-out loss %.4f, for finetune and eval",
                 t->config.run_dir, state->best_step, state->best_valid_loss);
    } else {
        char *path = checkpoint_kept_before(t->config.run_dir, state->step);
        if (path)
            snprintf(earlier, sizeof earlier,
                     "%s is from before it went wrong, for finetune and eval", path);
        free(path);
    }
    return err_set(err, ERR_NONFINITE,
                   "%s, in a new run (give another `run`): continued, this one would do the same "
                   "again; %s",
                   err->msg, earlier);
}

static void show_progress(const Trainer *t, Progress *progress, double share_before,
                          const StepStats *s, double seconds) {
    char detail[128];
    snprintf(detail, sizeof detail, "step %" PRIu64 "  loss %.3f  lr %.2e  %.0f tokens/s",
             t->state.step, s->loss, s->lr, (double)s->tokens / seconds);
    progress_update(progress, budget_consumed(&t->budget, &t->state) - share_before, detail);
}

/* What a signal stopped after the last update of a run that goes on. */
static bool finish_earlier(Trainer *t, bool *saved, Err *err) {
    const UnfinishedStep u = t->state.unfinished;
    const StepStats s = {.lr = u.lr, .grad_norm = u.grad_norm};
    t->state.unfinished = (UnfinishedStep){0};
    return !u.is_set || finish_step(t, &s, saved, err);
}

static bool run_steps(Trainer *t, Err *err) {
    double share_before = budget_consumed(&t->budget, &t->state);
    Progress *progress = progress_start("training", 1 - share_before);
    bool saved = false;
    t->started_s = clock_now_s() - t->state.elapsed_s;
    t->acts.profile = &t->profile;
    bool ok = finish_earlier(t, &saved, err);
    while (ok && !budget_spent(&t->budget, &t->state)) {
        StepStats s;
        double begin = clock_now_s();
        ok = stop_signal_check(err) && trainer_step(t, &s, err);
        if (!ok) break;
        double end = clock_now_s();
        t->window_s += end - begin;
        t->window_tokens += s.tokens;
        t->state.elapsed_s = end - t->started_s;
        show_progress(t, progress, share_before, &s, end - begin);
        ok = finish_step(t, &s, &saved, err);
    }
    progress_finish(progress);
    if (!ok && err->code == ERR_SIGNAL) end_stopped(t, saved, err);
    if (!ok && err->code == ERR_NONFINITE) add_advice(t, err);
    return ok;
}

/* What the end of a run should make its user look at. */
static void log_summary(const Trainer *t) {
    const TrainState *s = &t->state;
    log_info("done: %" PRIu64 " steps, %.2f epochs, %" PRIu64
             " tokens, %.0f s of training, at most %.0f MiB resident; %s/last.ckpt",
             s->step, (double)s->sample / (double)s->dataset_sequences, s->tokens, s->elapsed_s,
             (double)threads_peak_rss() / (1 << 20), t->config.run_dir);
    log_profile(t, false);
    if (!t->valid || !isfinite(s->best_valid_loss)) return;
    double entropy = t->manifest.valid.unigram_entropy;
    log_info("best held-out loss %.4f nats at step %" PRIu64 ": %s/best.ckpt", s->best_valid_loss,
             s->best_step, t->config.run_dir);
    if (s->best_valid_loss > entropy - 1) {
        log_warn("that is %.2f nats %s the unigram entropy %.2f: the model knows little more than "
                 "word frequencies; train longer or at another rate",
                 fabs(entropy - s->best_valid_loss),
                 s->best_valid_loss > entropy ? "above" : "below", entropy);
    }
}

bool trainer_pretrain(const Config *config, ResumeMode resume, Err *err) {
    Trainer trainer;
    StopSignal signals;
    Err ignored = {0};
    if (!err) err = &ignored;
    if (!config_check_no_task(config, err)) return false;
    stop_signal_install(&signals);
    bool ok = trainer_create(&trainer, config, resume, err);
    if (ok) {
        ok = run_steps(&trainer, err);
        if (ok)
            log_summary(&trainer);
        else
            log_file_only("%s", err->msg);
        trainer_destroy(&trainer);
    }
    stop_signal_restore(&signals);
    return ok;
}
