/* The configuration of every command: plain structs, filled from YAML by src/config/config.c through one table that parses,
 * checks, documents (`linformer help config`) and prints them.  Members have the names of their keys. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

enum { CONFIG_MAX_LAYERS = 128 };

typedef enum Scope { SCOPE_HEAD, SCOPE_LAYER, SCOPE_MODEL } Scope;
typedef enum Projection { PROJECTION_LINEAR, PROJECTION_FIXED } Projection;
typedef enum AttentionKind { ATTENTION_LINFORMER, ATTENTION_FULL } AttentionKind;
typedef enum NormPlace { NORM_POST, NORM_PRE } NormPlace;

typedef struct ModelConfig {
    size_t n;                      /* longest sequence, `<s>` included */
    size_t k[CONFIG_MAX_LAYERS];   /* projected length of each layer; the key takes one number or a list; 1 <= k <= n */
    Scope scope;                   /* which heads and layers share one projection (`sharing`) */
    bool tie_kv;                   /* E = F (`sharing`) */
    Projection projection;
    AttentionKind attention;
    size_t layers, width, heads, ffn; /* heads divides width */
    double dropout;                /* embeddings, attention output, feed-forward output; 0 <= p < 1 */
    double attention_dropout;      /* attention probabilities */
    double proj_init_std;          /* standard deviation of E and F at initialisation; fixed projections use 1/sqrt(k) */
    NormPlace norm;
    size_t vocab;                  /* not a key: pieces of the tokenizer (or tokenizer.vocab_size before it exists) */
} ModelConfig;

typedef enum TokenizerType { TOKENIZER_UNIGRAM, TOKENIZER_BPE } TokenizerType;

typedef struct TokenizerConfig {
    char *model;                   /* path of the sentencepiece .model file; trained by `tokenizer` where missing */
    TokenizerType type;
    size_t vocab_size;
    size_t sample_bytes;           /* at most so much text is sampled for training */
} TokenizerConfig;

typedef struct PathList {
    char **items;                  /* resolved paths, globs expanded, sorted within each glob */
    size_t count;
} PathList;

typedef struct DataConfig {
    PathList train, valid;         /* text shards; globs relative to the file that names them */
    char *tokens;                  /* folder of the prepared token shards and their manifest */
} DataConfig;

typedef enum BudgetUnit { BUDGET_STEPS, BUDGET_EPOCHS, BUDGET_TOKENS, BUDGET_HOURS } BudgetUnit;

typedef struct TrainConfig {
    BudgetUnit budget_unit;        /* which one of steps, epochs, tokens, hours is given */
    double budget;                 /* in that unit, > 0; the schedule ends exactly there */
    size_t batch;                  /* sequences an update */
    size_t micro_batch;            /* sequences at a time; 0: batch */
    size_t threads;                /* 0: all this process may use */
    uint64_t seed;
    double mask_rate;              /* share of real tokens to predict */
    size_t eval_every;             /* steps between evaluations; 0: only at the end */
    size_t eval_sequences;         /* sequences of held-out text an evaluation reads; 0: all */
    size_t log_every;              /* steps between metrics lines */
} TrainConfig;

typedef enum OptimizerName { OPTIMIZER_ADAMW, OPTIMIZER_SGD } OptimizerName;
typedef enum DecayTarget { DECAY_MATRICES, DECAY_ALL } DecayTarget;

typedef struct OptimizerConfig {
    OptimizerName name;
    double lr;                     /* peak */
    double betas[2];
    double eps;
    double weight_decay;           /* decoupled: w -= lr * weight_decay * w */
    DecayTarget decay;             /* matrices: never biases and LayerNorm parameters */
    double momentum;               /* SGD only */
    double clip;                   /* largest global gradient norm; 0: no clipping */
} OptimizerConfig;

typedef enum ScheduleDecay { SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_CONSTANT } ScheduleDecay;

typedef struct ScheduleConfig {
    double warmup;                 /* share of the budget, 0 <= warmup < 1 */
    ScheduleDecay decay;           /* to zero at the end of the budget */
} ScheduleConfig;

typedef struct CheckpointConfig {
    size_t every;                  /* steps between step-*.ckpt files; 0: only last.ckpt and best.ckpt at evaluations and at the end */
    size_t keep;                   /* newest step-*.ckpt files kept; 0: all */
} CheckpointConfig;

typedef struct Config {
    char *path;                    /* the file it came from */
    char *run_dir;                 /* `run`: folder of the run's outputs */
    ModelConfig model;
    TokenizerConfig tokenizer;
    DataConfig data;
    TrainConfig train;
    OptimizerConfig optimizer;
    ScheduleConfig schedule;
    CheckpointConfig checkpoint;
} Config;

/* Reads `path` (with its `extends` chain, nearest wins), then applies overrides "section.key=value" in order, then checks
 * every rule that spans keys.  Relative paths in a file are relative to that file; in overrides to the working folder.
 * Fails with ERR_CONFIG and "file:line:column: ..." (or "override 'a.b=c': ...").  *out is then empty. */
bool config_load(Config *out, const char *path, const char *const *overrides, size_t override_count, Err *err);
void config_free(Config *config); /* accepts a zeroed Config */

/* The resolved configuration as YAML; reading it back gives the same Config.  malloc'd, caller frees. */
char *config_to_yaml(const Config *config);

/* Parses what config_to_yaml wrote, from memory (a checkpoint's header); `name` is used in messages. Paths are not globbed
 * nor checked for existence. */
bool config_from_yaml(Config *out, const char *yaml, const char *name, Err *err);

/* Writes the reference of every key (name, type, range, default, meaning) to a stream; the same table as the parser. */
void config_write_help(void *stream); /* FILE * */

/* Short words for messages and reports, e.g. "headwise", "kv", "scope: head, tie_kv: true". */
const char *config_sharing_name(const ModelConfig *model);

#endif
