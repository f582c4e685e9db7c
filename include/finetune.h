/* Fine-tuning: a classifier for a task, from a pretrained encoder or from scratch, once for each
 * seed.
 *
 * The run folder holds config.yaml, log.txt, results.json and a folder seed-<s> for each seed, with
 *   config.yaml    of this seed alone
 *   metrics.jsonl  step, epoch, tokens, loss, lr, grad_norm, tokens_per_s, elapsed_s; at
 *                  evaluations also valid_loss, accuracy, f1, mcc and majority
 *   log.txt
 *   best.ckpt      kind "classifier": the weights with the best finetune.metric on the validation
 *                  rows, of equals that of the lower loss, then the earlier
 *   result.json    what that came to; written last, so the seed is complete where it is there */
#ifndef FINETUNE_H
#define FINETUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint.h"
#include "config.h"
#include "err.h"
#include "task_file.h"
#include "tokenizer.h"
#include "trainer.h"

/* On the validation rows; as in class_score.h. */
typedef struct FinetuneScore {
    double accuracy, f1, mcc;
    double loss; /* nats a row */
} FinetuneScore;

typedef struct FinetuneSeed {
    uint64_t seed;
    FinetuneScore score; /* of best.ckpt */
    FinetuneScore last;  /* of the weights at the end */
    uint64_t best_step, steps;
    double best_epoch, epochs;
    double elapsed_s;   /* training, without evaluations */
    bool stopped_early; /* by finetune.patience */
    bool collapsed;     /* best.ckpt predicts one class for all rows, though they have several */
    char *checkpoint;   /* path of best.ckpt */
} FinetuneSeed;

typedef struct FinetuneResult {
    LabelSet labels;
    ClassMetric metric; /* that chose the checkpoints */
    size_t train_rows, valid_rows;
    double majority; /* accuracy of always answering the most frequent class */
    FinetuneSeed *seeds;
    size_t count;
    FinetuneScore mean, std; /* over the seeds; std divides by count - 1, NaN for one seed */
    size_t best;             /* seed with the best score, the first of equals */
} FinetuneResult;

/* Runs `finetune` for every seed of config->finetune.  The files of config must be known
 * (config_resolve_data).  With RESUME_AUTO seeds that are complete are taken over, and an
 * unfinished one begins again; with RESUME_NEVER a run folder that holds any is an error that names
 * --resume.
 * Signals and err->code as in trainer_pretrain. */
bool finetune_run(FinetuneResult *out, const Config *config, ResumeMode resume, Err *err);
void finetune_result_free(FinetuneResult *result); /* accepts a zeroed result */

/* The rows that finetune.holdout took out of data.train when the checkpoint, kind "classifier", was
 * trained, in the order of its evaluations; from the files that its config names.  Fails where they
 * are gone (ERR_CONFIG) or hold other rows, by the checkpoint's hash of them (ERR_FAILED). */
bool finetune_read_held_out(TaskFile *out, const Checkpoint *checkpoint, const Tokenizer *tokenizer,
                            Err *err);

/* The metric of a score that chose the checkpoints, and its name. */
double finetune_metric(const FinetuneScore *score, ClassMetric metric);
const char *finetune_metric_name(ClassMetric metric);

/* Is a score better than another: in its metric, or at the same in its loss? */
bool finetune_is_better(const FinetuneScore *score, const FinetuneScore *than, ClassMetric metric);

/* results.json: one JSON object.  malloc'd; NULL without memory. */
char *finetune_result_json(const FinetuneResult *result);

#endif
