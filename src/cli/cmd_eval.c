#include <stdio.h>

#include "cli.h"
#include "text_eval.h"
#include "threads.h"

static bool print_score(const TextScore *s, const LoadedModel *model, const char *path, bool json,
                        Err *err) {
    if (!json) {
        printf("loss %.4f nats, perplexity %.2f; unigram entropy %.4f nats\n", s->mlm.loss,
               s->mlm.perplexity, s->unigram_entropy);
        printf("%s masked of %s tokens in %s sequences; %s of text in %s documents\n",
               show_count(s->mlm.masked), show_count(s->mlm.tokens), show_count(s->mlm.sequences),
               show_bytes(s->text_bytes), show_count(s->documents));
        return true;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "loss", s->mlm.loss);
    cJSON_AddNumberToObject(object, "perplexity", s->mlm.perplexity);
    cJSON_AddNumberToObject(object, "unigram_entropy", s->unigram_entropy);
    cJSON_AddNumberToObject(object, "masked", (double)s->mlm.masked);
    cJSON_AddNumberToObject(object, "tokens", (double)s->mlm.tokens);
    cJSON_AddNumberToObject(object, "sequences", (double)s->mlm.sequences);
    cJSON_AddNumberToObject(object, "documents", (double)s->documents);
    cJSON_AddNumberToObject(object, "text_bytes", (double)s->text_bytes);
    cJSON_AddStringToObject(object, "checkpoint", path);
    cJSON_AddNumberToObject(object, "step", (double)model->checkpoint.state.step);
    return print_json(object, err);
}

static bool eval_text(const Args *args, const LoadedModel *model, Err *err) {
    const Options *o = &args->options;
    TextEvalOptions options = {.batch = o->batch, .sequences = o->sequences, .threads = o->threads};
    PathList texts = {0};
    char *folder = NULL;
    TextScore score;
    if (args->count == 1 && !options.sequences) /* as training evaluated it */
        options.sequences = model->checkpoint.config.train.eval_sequences;
    bool ok = text_files(&texts, args, &model->checkpoint.config, err) &&
              temp_folder_create(&folder, err) &&
              text_evaluate(&score, model, &texts, folder, &options, err);
    temp_folder_remove(folder);
    if (ok) ok = print_score(&score, model, args->items[0], o->json, err);
    config_paths_free(&texts);
    return ok;
}

static bool run(const Args *args, Err *err) {
    LoadedModel model = {0};
    bool ok = threads_start(args->options.threads, err) &&
              loaded_model_open(&model, args->items[0], err) &&
              (model.checkpoint.config.model.classes > 0 ? eval_task(args, &model, err)
                                                         : eval_text(args, &model, err));
    loaded_model_close(&model);
    return ok;
}

static const Option options[] = {
    {"--batch", OPTION_COUNT, offsetof(Options, batch), 1, 1e6, "B",
     "sequences at a time (default 8; of a classifier as in training)"},
    {"--sequences", OPTION_COUNT, offsetof(Options, sequences), 1, 1e9, "N",
     "pretrained only: score so many sequences, spread evenly over the text (default: all)"},
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_eval = {
    .name = "eval",
    .arguments = "CHECKPOINT [FILE ...]",
    .summary = "loss of a checkpoint on text, or the scores of a fine-tuned one on its task",
    .notes =
        "Pretrained checkpoints: masked-language-model loss in nats and perplexity. FILEs are "
        "text shards, .txt, .gz,\n"
        ".zst or JSON lines, and no tables; without any, the held-out text that the "
        "checkpoint's config names, as\n"
        "training evaluated it. They are encoded with the tokenizer inside the checkpoint, "
        "below $TMPDIR. 15% of the\n"
        "tokens are masked, the same ones every time: checkpoints of one tokenizer answer the "
        "same questions.\n\n"
        "Fine-tuned checkpoints: accuracy, F1 (of the second class; of more than two classes "
        "the mean of those that occur), MCC, loss and\n"
        "confusion matrix, beside what the most frequent class alone would reach. FILEs are "
        "labelled files of the task,\n"
        "as its training data; without any, the rows that the training evaluated on, data.valid "
        "or those held out by\n"
        "finetune.holdout, if their files are still there. --json: {\"loss\", \"accuracy\", "
        "\"f1\", \"macro_f1\", \"mcc\",\n"
        "\"majority\", \"collapsed\", \"rows\", \"cut\", \"labels\", \"confusion\" (rows: true "
        "class), \"checkpoint\", \"step\"}.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
