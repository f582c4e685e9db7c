/* One seed: the step loop, evaluations, the best checkpoint. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "class_eval.h"
#include "clock.h"
#include "finetune_internal.h"
#include "io.h"
#include "log.h"
#include "lr_schedule.h"
#include "run_log.h"
#include "stop_signal.h"
#include "training.h"

static const double LOG_PAUSE_S = 20;

typedef struct SeedRun {
    Finetune *f;
    FinetuneSeed *result;
    Budget budget;
    TrainState state; /* its window counts rows where pretraining counts masked tokens */
    RunLog log;
    double best;     /* of the metric; -infinity before the first evaluation */
    size_t waited;   /* evaluations since it was last raised */
    bool collapsed;  /* at the last evaluation */
    double window_s; /* seconds and tokens of the updates since the last metrics line */
    uint64_t window_tokens;
    double logged_s; /* when the last metrics line went to the log */
} SeedRun;

/* ---- evaluation */

static bool save_best(SeedRun *r, Err *err) {
    const Finetune *f = r->f;
    const CheckpointContent content = {.kind = "classifier",
                                       .config = &f->of_seed,
                                       .state = &r->state,
                                       .table = &f->trainer.table,
                                       .weights = f->trainer.blocks.weights.block,
                                       .tokenizer = tokenizer_bytes(f->tokenizer),
                                       .labels = &f->labels};
    return checkpoint_save(r->result->checkpoint, &content, err);
}

static bool score_valid(ClassScore *out, Finetune *f, Err *err) {
    ClassTrainer *t = &f->trainer;
    t->acts.mode = ACTS_INFERENCE; /* no dropout; the training layout has every buffer it needs */
    bool ok = class_eval_predict(f->log_probs, &t->acts, &t->batch, &t->blocks.weights,
                                 &f->of_seed.model, &f->valid, err);
    t->acts.mode = ACTS_TRAINING;
    return ok && class_eval_score(out, f->log_probs, &f->valid, f->labels.count, err);
}

static void log_score(const SeedRun *r, const ClassScore *score) {
    const Finetune *f = r->f;
    log_info("step %" PRIu64 "  epoch %.2f  validation: accuracy %.4f, f1 %.4f, mcc %.4f, loss "
             "%.4f on %zu rows (most frequent class: %.4f)",
             r->state.step, (double)r->state.sample / (double)f->train.count, score->accuracy,
             score->f1, score->mcc, score->loss, score->count, score->majority);
    if (score->collapsed && !r->collapsed)
        log_warn("all %zu predictions are %s, though the rows have several classes: the learning "
                 "rate may be too high, or the training too short",
                 score->count, f->labels.names[score->collapsed - 1]);
}

/* Where the score is the best so far; counts the evaluations without a better metric. */
static bool keep_best(SeedRun *r, const Metrics *line, Err *err) {
    ClassMetric metric = r->f->of_seed.finetune.metric;
    double before = r->best, now = finetune_metric(&r->result->last, metric);
    r->waited = now > before ? 0 : r->waited + 1; /* a lower loss alone may go on for ever */
    if (isfinite(before) && !finetune_is_better(&r->result->last, &r->result->score, metric))
        return true;
    r->best = now;
    r->state.best_valid_loss = line->valid_loss;
    r->state.best_step = r->state.step;
    r->result->score = r->result->last;
    r->result->best_step = r->state.step;
    r->result->best_epoch = line->epoch;
    r->result->collapsed = r->collapsed;
    return save_best(r, err);
}

/* On the validation rows, into *line; keeps best.ckpt. */
static bool evaluate(SeedRun *r, Metrics *line, Err *err) {
    ClassScore score = {0};
    if (!score_valid(&score, r->f, err)) return false;
    line->scored = true;
    line->valid_loss = score.loss;
    line->accuracy = score.accuracy;
    line->f1 = score.f1;
    line->mcc = score.mcc;
    line->majority = score.majority;
    log_score(r, &score);
    r->collapsed = score.collapsed > 0;
    r->result->last = (FinetuneScore){score.accuracy, score.f1, score.mcc, score.loss};
    class_score_free(&score);
    if (!isfinite(line->valid_loss))
        return train_blocks_fail_nonfinite(&r->f->trainer.blocks, r->state.step, "validation loss",
                                           line->valid_loss, line->grad_norm, line->lr, err);
    return keep_best(r, line, err);
}

/* ---- steps */

static Metrics metrics_line(const SeedRun *r, const ClassStep *s, double lr) {
    const TrainState *state = &r->state;
    return (Metrics){
        .step = state->step,
        .epoch = (double)state->sample / (double)r->f->train.count,
        .tokens = state->tokens,
        .loss = state->window_loss / (double)state->window_masked,
        .lr = lr,
        .grad_norm = s->grad_norm,
        .tokens_per_s = r->window_s > 0 ? (double)r->window_tokens / r->window_s : 0,
        .elapsed_s = state->elapsed_s,
    };
}

/* Every line is in metrics.jsonl; the log and the terminal get one now and then. */
static void log_line(SeedRun *r, const Metrics *line, bool at_once) {
    double now = clock_now_s();
    if (!at_once && now - r->logged_s < LOG_PAUSE_S) return;
    r->logged_s = now;
    log_info("step %" PRIu64 "  epoch %.2f  loss %.4f  lr %.3e  grad norm %.3f  %.0f tokens/s",
             line->step, line->epoch, line->loss, line->lr, line->grad_norm, line->tokens_per_s);
}

/* Is this the step after which to evaluate, `count` samples having just been consumed? */
static bool evaluates(const SeedRun *r, size_t count, bool ends) {
    size_t every = r->f->of_seed.train.eval_every;
    uint64_t S = r->f->train.count, sample = r->state.sample;
    return ends ||
           (every ? training_is_due(r->state.step, every) : sample / S > (sample - count) / S);
}

static bool is_over(const SeedRun *r) {
    size_t patience = r->f->of_seed.finetune.patience;
    return budget_spent(&r->budget, &r->state) || (patience > 0 && r->waited >= patience);
}

/* Metrics and evaluation of the step just made. */
static bool finish_step(SeedRun *r, const ClassStep *s, size_t count, double lr, Err *err) {
    bool ends = budget_spent(&r->budget, &r->state), evaluation = evaluates(r, count, ends);
    if (!evaluation && !training_is_due(r->state.step, r->f->of_seed.train.log_every)) return true;
    Metrics line = metrics_line(r, s, lr);
    log_line(r, &line, evaluation);
    r->state.window_loss = 0;
    r->state.window_masked = 0;
    r->window_s = 0;
    r->window_tokens = 0;
    return (!evaluation || evaluate(r, &line, err)) && run_log_write(&r->log, &line, err);
}

/* One update: its rows, the learning rate in the middle of it, the step. */
static bool train_step(SeedRun *r, ClassStep *s, size_t *count, double *lr, Err *err) {
    Finetune *f = r->f;
    TrainState *state = &r->state;
    size_t tokens = 0;
    *count = budget_next_count(&r->budget, state);
    finetune_order(f->rows, f, state->sample, *count);
    for (size_t i = 0; i < *count; i++) tokens += task_data_length(&f->train, f->rows[i]);
    double progress = budget_progress(&r->budget, state, *count, tokens);
    *lr = lr_schedule(&f->of_seed.schedule, f->of_seed.optimizer.lr, progress);
    if (!class_trainer_step(&f->trainer, s, f->rows, &f->train, *count, *lr, state->step + 1, err))
        return false;
    state->step++;
    state->sample += *count;
    state->tokens += tokens;
    state->window_loss += s->loss * (double)*count;
    state->window_masked += *count;
    r->window_tokens += tokens;
    return true;
}

/* Behind "stopped by SIGTERM". */
static void explain_stop(const SeedRun *r, Err *err) {
    err_set(err, ERR_SIGNAL,
            "%s after step %" PRIu64
            "; --resume begins this seed again and keeps those before it, in %s",
            err->msg, r->state.step, r->f->config.run_dir);
}

static void show_progress(const SeedRun *r, Progress *progress, const ClassStep *s, double lr,
                          double seconds) {
    char detail[160], best[48] = "";
    if (isfinite(r->best))
        snprintf(best, sizeof best, "  best %s %.4f",
                 finetune_metric_name(r->f->of_seed.finetune.metric), r->best);
    snprintf(detail, sizeof detail, "step %" PRIu64 "  loss %.3f  lr %.2e  %.0f tokens/s%s",
             r->state.step, s->loss, lr, (double)s->tokens / seconds, best);
    progress_update(progress, budget_consumed(&r->budget, &r->state), detail);
}

static bool run_steps(SeedRun *r, Err *err) {
    char label[48];
    snprintf(label, sizeof label, "seed %" PRIu64, r->f->of_seed.train.seed);
    Progress *progress = progress_start(label, 1);
    bool ok = true;
    while (ok && !is_over(r)) {
        ClassStep s;
        size_t count;
        double lr, begin = clock_now_s();
        ok = stop_signal_check(err) && train_step(r, &s, &count, &lr, err);
        if (!ok) break;
        double seconds = clock_now_s() - begin;
        r->window_s += seconds;
        r->state.elapsed_s += seconds;
        show_progress(r, progress, &s, lr, seconds);
        ok = finish_step(r, &s, count, lr, err);
    }
    progress_finish(progress);
    if (!ok && err && err->code == ERR_SIGNAL) explain_stop(r, err);
    return ok;
}

/* ---- the whole of a seed */

static bool open_seed(SeedRun *r, Err *err) {
    const Config *config = &r->f->of_seed;
    char dir[TRAINING_PATH_SIZE], path[TRAINING_PATH_SIZE];
    double elapsed;
    uint64_t seed = config->train.seed;
    if (!finetune_seed_path(dir, config->run_dir, seed, NULL, err) || !io_make_dirs(dir, err) ||
        !finetune_seed_path(path, config->run_dir, seed, "best.ckpt", err))
        return false;
    r->result->checkpoint = strdup(path);
    if (!r->result->checkpoint) return err_set(err, ERR_FAILED, "no memory for a path");
    io_remove_stale_temps(dir);
    return training_path(path, dir, "log.txt", err) && log_open(path, err) &&
           training_write_config(config, dir, err) && run_log_open(&r->log, &elapsed, dir, 0, err);
}

/* What the end of a seed should make its user look at. */
static void log_end(const SeedRun *r) {
    const FinetuneSeed *s = r->result;
    log_info("seed %" PRIu64 ": %" PRIu64 " steps, %.2f epochs, %.0f s%s; best accuracy %.4f, f1 "
             "%.4f, mcc %.4f, loss %.4f at step %" PRIu64 ": %s",
             s->seed, s->steps, s->epochs, s->elapsed_s,
             s->stopped_early ? ", stopped early (finetune.patience)" : "", s->score.accuracy,
             s->score.f1, s->score.mcc, s->score.loss, s->best_step, s->checkpoint);
    if (s->score.accuracy <= r->f->majority)
        log_warn("seed %" PRIu64 ": accuracy %.4f is not above %.4f, what always answering the "
                 "most frequent class reaches: nothing was learnt; try another optimizer.lr, more "
                 "epochs, or a better encoder",
                 s->seed, s->score.accuracy, r->f->majority);
}

bool finetune_train_seed(FinetuneSeed *out, Finetune *f, Err *err) {
    const Config *config = &f->of_seed;
    *out = (FinetuneSeed){.seed = config->train.seed};
    SeedRun run = {.f = f,
                   .result = out,
                   .budget = budget_create(&config->train, f->train.count),
                   .state = {.best_valid_loss = INFINITY,
                             .data_hash = f->data_hash,
                             .dataset_sequences = f->train.count},
                   .log = RUN_LOG_CLOSED,
                   .best = -INFINITY};
    bool ok = open_seed(&run, err) && run_steps(&run, err);
    if (ok) {
        out->steps = run.state.step;
        out->epochs = (double)run.state.sample / (double)f->train.count;
        out->elapsed_s = run.state.elapsed_s;
        out->stopped_early = !budget_spent(&run.budget, &run.state);
        ok = run_log_sync(&run.log, err) && finetune_write_seed(out, f, err);
    }
    if (ok) log_end(&run);
    run_log_close(&run.log);
    return ok;
}
