/* The configuration of every command: plain structs, filled from YAML by src/config/config.c
 * through one table that parses, checks, documents (`linformer help config`) and prints them.
 * Members have the names of their keys. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "precision.h"

enum { CONFIG_MAX_LAYERS = 128 };

/* Fewest elements of a head under `init: local`: three sine/cosine pairs that tell positions apart,
 * one element for the constant that the empty row of E goes without. */
enum { LOCAL_INIT_MIN_HEAD = 8 };

/* Shortest pieces of train.short_rate, `<s>` included. */
enum { CONFIG_SHORTEST_PIECE = 8 };

/* Default of model.proj_init_std: that of every other weight, as fairseq's Linformer has it in
 * force. */
#define CONFIG_PROJ_INIT_STD 0.02

typedef enum Scope { SCOPE_HEAD, SCOPE_LAYER, SCOPE_MODEL } Scope;
typedef enum Projection {
    PROJECTION_LINEAR,
    PROJECTION_FIXED,
    PROJECTION_MEAN, /* from here on windows of n/k tokens: pool_project.h */
    PROJECTION_MAX,
    PROJECTION_CONV
} Projection;
typedef enum AttentionKind { ATTENTION_LINFORMER, ATTENTION_FULL } AttentionKind;
typedef enum InitScheme { INIT_SCHEME_NORMAL, INIT_SCHEME_LOCAL } InitScheme;
typedef enum NormPlace { NORM_POST, NORM_PRE } NormPlace;
typedef enum HeadPooling { HEAD_POOLING_CLS, HEAD_POOLING_MEAN } HeadPooling;
typedef enum Recompute { RECOMPUTE_NONE, RECOMPUTE_FFN, RECOMPUTE_LAYER } Recompute;

typedef struct ModelConfig {
    size_t n; /* longest sequence, `<s>` included */
    /* projected length of each layer, 1 <= k <= n; the key takes one number or a list.  Under full
     * attention it is not used and not checked against n. */
    size_t k[CONFIG_MAX_LAYERS];
    Scope scope; /* which heads and layers share one projection (`sharing`) */
    bool tie_kv; /* E = F (`sharing`) */
    Projection projection;
    AttentionKind attention;
    size_t layers, width, heads, ffn; /* heads divides width */
    double dropout;                   /* embeddings, attention output, ffn output; 0 <= p < 1 */
    double attention_dropout;         /* attention probabilities */
    InitScheme init;      /* local: attention begins at neighbouring tokens (local_init.h) */
    double proj_init_std; /* of E and F, or about the mean for conv; fixed ones use 1/sqrt(k) */
    NormPlace norm;
    double head_dropout;      /* classification head, before each of its two maps */
    HeadPooling head_pooling; /* what it reads (classifier_head.h) */
    size_t vocab;             /* not a key: tokenizer.vocab_size; see config_set_vocab */
    size_t classes; /* not a key: 0, masked-language-model head; else classification head */
    /* keys train.recompute and train.precision, of the training rather than the model: what the
     * backward pass computes again instead of keeping it (activations.h), and the precision of the
     * encoder's linear maps and the masked-language-model head's, also in evaluations (linear.h) */
    Recompute recompute;
    Precision precision;
} ModelConfig;

/* Does it pool windows of tokens, where others have k x n matrices? */
static inline bool model_pools(const ModelConfig *model) {
    return model->attention == ATTENTION_LINFORMER && model->projection >= PROJECTION_MEAN;
}

/* Are there E and F (kernels, for conv), trained or not? */
static inline bool model_has_projections(const ModelConfig *model) {
    return model->attention == ATTENTION_LINFORMER && model->projection != PROJECTION_MEAN &&
           model->projection != PROJECTION_MAX;
}

typedef enum TokenizerType { TOKENIZER_UNIGRAM, TOKENIZER_BPE } TokenizerType;

typedef struct TokenizerConfig {
    char *model; /* sentencepiece .model file; trained where missing */
    TokenizerType type;
    size_t vocab_size;
    size_t sample_bytes; /* at most so much text is sampled for training */
} TokenizerConfig;

typedef struct PathList {
    char **items; /* existing files, sorted within each glob */
    size_t count;
} PathList;

typedef struct Glob {
    char *pattern; /* absolute once loaded from a file or an override */
    char *place;   /* where it was written, for messages: "file:line:column" */
} Glob;

typedef struct GlobList {
    Glob *items;
    size_t count;
} GlobList;

typedef struct DataConfig {
    GlobList train_globs, valid_globs; /* keys `train` and `valid`: text shards */
    PathList train, valid;             /* their files; empty until config_resolve_data */
    char *tokens;                      /* folder of the prepared token shards and their manifest */
} DataConfig;

typedef enum BudgetUnit { BUDGET_STEPS, BUDGET_EPOCHS, BUDGET_TOKENS, BUDGET_HOURS } BudgetUnit;

typedef struct TrainConfig {
    BudgetUnit budget_unit; /* which one of steps, epochs, tokens, hours is given */
    double budget;          /* in that unit, > 0; the schedule ends exactly there */
    size_t batch;           /* sequences an update */
    size_t micro_batch;     /* sequences at a time, at most batch; 0: batch */
    size_t memory;          /* bytes that micro_batch is chosen to fit into; 0: no such budget */
    size_t threads;         /* 0: all this process may use */
    uint64_t seed;
    char *init;            /* pretrained checkpoint to begin with; NULL: fresh weights */
    double mask_rate;      /* share of real tokens to predict */
    double short_rate;     /* share of the sequences that are cut into pieces */
    size_t eval_every;     /* steps between evaluations; 0: only at the end, of each epoch in
                              fine-tuning */
    size_t eval_sequences; /* sequences of held-out text an evaluation reads; 0: all */
    size_t log_every;      /* steps between metrics lines */
} TrainConfig;

typedef enum OptimizerName { OPTIMIZER_ADAMW, OPTIMIZER_SGD } OptimizerName;
typedef enum DecayTarget { DECAY_MATRICES, DECAY_ALL } DecayTarget;

typedef struct OptimizerConfig {
    OptimizerName name;
    double lr;          /* peak */
    double position_lr; /* share of it that position embeddings learn at */
    double proj_lr;     /* share of it that E and F learn at */
    double betas[2];
    double eps;
    double weight_decay; /* decoupled: w -= lr * weight_decay * w */
    DecayTarget decay;   /* matrices: never biases and LayerNorm parameters */
    double momentum;     /* SGD only */
    double clip;         /* largest global gradient norm; 0: no clipping */
} OptimizerConfig;

typedef enum ScheduleDecay { SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT } ScheduleDecay;

typedef struct ScheduleConfig {
    double warmup;       /* share of the budget, 0 <= warmup < 1 */
    ScheduleDecay decay; /* to zero at the end of the budget */
} ScheduleConfig;

typedef struct CheckpointConfig {
    size_t every; /* steps between step-*.ckpt files; 0: none of them */
    size_t keep;  /* newest step-*.ckpt files kept; 0: all */
} CheckpointConfig;

typedef enum TaskKind {
    TASK_NONE, /* the configuration is not of a fine-tuning */
    TASK_SST2,
    TASK_QNLI,
    TASK_QQP,
    TASK_IMDB,
    TASK_CUSTOM
} TaskKind;
typedef enum Truncate { TRUNCATE_HEAD, TRUNCATE_TAIL, TRUNCATE_BOTH } Truncate;
typedef enum LetterCase { CASE_KEEP, CASE_LOWER } LetterCase;
typedef enum ClassMetric { METRIC_ACCURACY, METRIC_F1, METRIC_MCC } ClassMetric;

typedef struct FinetuneConfig {
    TaskKind task;
    char *init;         /* pretrained checkpoint, from the working folder; "none": from scratch */
    size_t seeds;       /* runs, with seeds train.seed, train.seed + 1, ... */
    size_t patience;    /* evaluations without a better metric before a run ends; 0: never */
    double holdout;     /* share of the training rows held out where data.valid is empty */
    ClassMetric metric; /* chooses best.ckpt */
    Truncate truncate;  /* what an over-long single text keeps */
    LetterCase letters; /* `case` */
    char *text, *text_pair, *label; /* columns of task custom; text_pair NULL: one text */
} FinetuneConfig;

typedef struct Config {
    char *path;    /* the file it came from */
    char *notes;   /* lines to log: keys given here without effect; or NULL */
    char *run_dir; /* `run`: folder of the run's outputs */
    ModelConfig model;
    TokenizerConfig tokenizer;
    DataConfig data;
    TrainConfig train;
    OptimizerConfig optimizer;
    ScheduleConfig schedule;
    CheckpointConfig checkpoint;
    FinetuneConfig finetune;
    char **given_at; /* one a key of the table: see config_given_at; NULL: none is given */
} Config;

/* Reads `path` (with its `extends` chain, nearest wins), then applies overrides "section.key=value"
 * in order, then checks every rule that spans keys.  Globs of data.train and data.valid are
 * relative to the file that names them, in overrides to the working folder; run, tokenizer.model
 * and data.tokens are always relative to the working folder.  No text file is looked for: see
 * config_resolve_data.  Fails with ERR_CONFIG and "file:line:column: section.key = value: ..." (or
 * "override 'a.b=c': ..."); *out is then empty. */
bool config_load(Config *out, const char *path, const char *const *overrides, size_t override_count,
                 Err *err);
void config_free(Config *config); /* accepts a zeroed Config */

/* Finds the files of data.train (which must be given) and data.valid; for commands that read text.
 * ERR_CONFIG when a glob matches no file, or a file is named twice or is both in train and in
 * valid. May be called again. */
bool config_resolve_data(Config *config, Err *err);

/* The same for one list, e.g. only data.valid; `key` is its name in messages.  An empty list gives
 * an empty list. */
bool config_expand_globs(PathList *out, const GlobList *globs, const char *key, Err *err);

/* The same for the files of a task: under TASK_IMDB a glob may also match a folder that holds pos/
 * and neg/, which task_file_read takes as it is.  config_resolve_data does so too. */
bool config_expand_task_globs(PathList *out, const GlobList *globs, const char *key, TaskKind task,
                              Err *err);
void config_paths_free(PathList *paths);

/* Records how many pieces the tokenizer in use has, in model.vocab and tokenizer.vocab_size, so
 * that the written configuration holds it. */
void config_set_vocab(Config *config, size_t pieces);

/* Gives a fine-tuning the model that was pretrained.  recompute, precision, head_dropout and
 * head_pooling stay those of the fine-tuning, dropout and attention_dropout if it gives them. */
void config_take_model(Config *config, const ModelConfig *pretrained);

/* train.micro_batch where it is not given. */
size_t config_default_micro_batch(size_t n, size_t batch);

/* The resolved configuration as YAML: every key, globs as patterns.  Reading it back, by
 * config_from_yaml or as a file by config_load, gives the same Config (path, notes and expanded
 * files apart).  malloc'd, caller frees; NULL without memory. */
char *config_to_yaml(const Config *config);

/* Parses what config_to_yaml wrote, from memory (a checkpoint's header); `name` is used in messages
 * and becomes `path`. */
bool config_from_yaml(Config *out, const char *yaml, const char *name, Err *err);

/* The keys whose values differ, one "section.key: a -> b" a line; "" if none.  malloc'd; NULL
 * without memory. */
char *config_differences(const Config *a, const Config *b);

/* Writes the reference of every key (name, values, default, meaning) to a stream; the same table as
 * the parser. */
void config_write_help(void *stream); /* FILE * */

/* True if a file of the extends chain or an override gave the key, false if it stands at its
 * default. */
bool config_is_given(const Config *config, const char *path);

/* Where the key was given, for messages: "file:line:column" or "override 'a.b=c'"; NULL if it
 * stands at its default.  Borrowed from the Config. */
const char *config_given_at(const Config *config, const char *path);

/* ERR_CONFIG if the configuration is of a fine-tuning, for commands on text; or, config_check_task,
 * if it is not. */
bool config_check_no_task(const Config *config, Err *err);
bool config_check_task(const Config *config, Err *err);

/* A number of bytes as the keys take it: "8GiB", "1.5 MB".  False where it is none. */
bool config_read_bytes(size_t *out, const char *text);

/* Path of the key at `index` of that table ("model.n"), NULL past the last; and its value as YAML,
 * malloc'd ("" if none, NULL without memory or for an unknown path). */
const char *config_key_path(size_t index);
char *config_key_value(const Config *config, const char *path);

/* Short words for messages and reports, e.g. "headwise", "kv", "scope: head, tie_kv: true". */
const char *config_sharing_name(const ModelConfig *model);

/* What the attention is: "full attention", "headwise", "fixed, headwise", "mean pooling",
 * "convolution, kv". */
void config_describe_attention(char *out, size_t size, const ModelConfig *model);

#endif
