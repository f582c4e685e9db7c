#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "finetune.h"

static void print_score(const char *name, const FinetuneScore *score) {
    printf("%-6s %9.4f %9.4f %9.4f %9.4f", name, score->accuracy, score->f1, score->mcc,
           score->loss);
}

static void print_result(const FinetuneResult *r) {
    printf("%-6s %9s %9s %9s %9s %9s %9s %8s\n", "seed", "accuracy", "f1", "mcc", "loss", "best at",
           "epochs", "s");
    for (size_t i = 0; i < r->count; i++) {
        const FinetuneSeed *s = &r->seeds[i];
        char name[24];
        snprintf(name, sizeof name, "%" PRIu64, s->seed);
        print_score(name, &s->score);
        printf(" %9.2f %9.2f %8.0f%s\n", s->best_epoch, s->epochs, s->elapsed_s,
               s->collapsed ? "  all rows one class" : "");
    }
    if (r->count > 1) {
        print_score("mean", &r->mean);
        printf("\n");
        print_score("std", &r->std);
        printf("\n");
        printf("accuracy %.2f +- %.2f %%, ", 100 * r->mean.accuracy, 100 * r->std.accuracy);
    }
    printf("most frequent class %.2f %%; %s validation rows, %s training rows\n", 100 * r->majority,
           show_count(r->valid_rows), show_count(r->train_rows));
    const FinetuneSeed *best = &r->seeds[r->best];
    printf("best %s: %s\n", finetune_metric_name(r->metric), best->checkpoint);
}

static bool print_result_json(const FinetuneResult *result, Err *err) {
    char *text = finetune_result_json(result);
    if (!text) return err_set(err, ERR_FAILED, "out of memory for the JSON output");
    puts(text);
    free(text);
    return true;
}

static bool run(const Args *args, Err *err) {
    Config config;
    FinetuneResult result = {0};
    bool ok =
        load_task_config(&config, args, 0, err) && config_resolve_data(&config, err) &&
        finetune_run(&result, &config, args->options.resume ? RESUME_AUTO : RESUME_NEVER, err);
    if (ok && args->options.json)
        ok = print_result_json(&result, err);
    else if (ok)
        print_result(&result);
    finetune_result_free(&result);
    config_free(&config);
    return ok;
}

static const Option options[] = {
    {"--resume", OPTION_FLAG, offsetof(Options, resume), 0, 0, NULL,
     "keep the seeds that are complete, begin the unfinished one again"},
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_finetune = {
    .name = "finetune",
    .arguments = "CONFIG [section.key=value ...]",
    .summary = "train a classifier for a task from a checkpoint, over one or more seeds",
    .notes = "The config names the task, its labelled files (data.train, and data.valid or "
             "finetune.holdout) and the pretrained\n"
             "checkpoint (finetune.init). The run folder then holds config.yaml, log.txt, "
             "results.json and for each seed\n"
             "seed-<s>/ with metrics.jsonl, best.ckpt and result.json. The scores are those of "
             "best.ckpt on the validation\n"
             "rows that chose it; `linformer eval CHECKPOINT FILE` gives those on other rows.\n"
             "SIGINT, SIGTERM and SIGUSR1 end it with status 75.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .own_signals = true,
    .run = run,
};
