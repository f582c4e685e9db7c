#include "schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"

const char *const schema_sections[] = {"model",    "tokenizer",  "data",     "train", "optimizer",
                                       "schedule", "checkpoint", "finetune", NULL};
const char *const schema_scopes[] = {"head", "layer", "model", NULL};
/* clang-format off */
const SharingName schema_sharing[] = {
    {"none", SCOPE_HEAD, false},
    {"headwise", SCOPE_LAYER, false},
    {"kv", SCOPE_LAYER, true},
    {"layerwise", SCOPE_MODEL, true},
    {NULL, SCOPE_HEAD, false},
};
/* clang-format on */

static const char *const projection_words[] = {"linear", "fixed", "mean", "max", "conv", NULL};
static const char *const attention_words[] = {"linformer", "full", NULL};
static const char *const init_words[] = {"normal", "local", NULL};
static const char *const recompute_words[] = {"none", "ffn", "layer", NULL};
static const char *const precision_words[] = {"fp32", "bf16", "fp16", NULL};
static const char *const norm_words[] = {"post", "pre", NULL};
static const char *const head_pooling_words[] = {"cls", "mean", NULL};
static const char *const tokenizer_words[] = {"unigram", "bpe", NULL};
static const char *const optimizer_words[] = {"adamw", "sgd", NULL};
static const char *const decay_words[] = {"matrices", "all", NULL};
static const char *const schedule_words[] = {"linear", "cosine", "constant", NULL};
static const char *const task_words[] = {"none", "sst2", "qnli", "qqp", "imdb", "custom", NULL};
static const char *const metric_words[] = {"accuracy", "f1", "mcc", NULL};
static const char *const truncate_words[] = {"head", "tail", "both", NULL};
static const char *const case_words[] = {"keep", "lower", NULL};

/* clang-format off */
#define MAX_INT NUMBER_MAX_INTEGER
#define TEXT_OF_VALUE(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define MEMBER(member) offsetof(Config, member)
#define INTEGER(path, member, low, high, fallback, help) \
    {path, KEY_SIZE, MEMBER(member), low, high, 0, NULL, 0, fallback, help}
#define REAL(path, member, low, high, open, fallback, help) \
    {path, KEY_REAL, MEMBER(member), low, high, open, NULL, 0, fallback, help}
#define WORD(path, member, words, fallback, help) \
    {path, KEY_WORD, MEMBER(member), 0, 0, 0, words, 0, fallback, help}
#define PLAIN(path, type, member, help) \
    {path, type, MEMBER(member), 0, 0, 0, NULL, 0, NULL, help}
#define BUDGET(path, unit, low, high, open, fallback, help) \
    {path, KEY_BUDGET, MEMBER(train.budget), low, high, open, NULL, unit, fallback, help}

const ConfigKey schema_keys[] = {
    PLAIN("run", KEY_PATH, run_dir,
        "folder of this run's outputs, from the working folder; not inherited through extends; "
        "default runs/<name of the config file>"),

    INTEGER("model.n", model.n, 2, 1048576, "512",
        "longest sequence in tokens, `<s>` included"),
    {"model.k", KEY_K, MEMBER(model.k), 1, 1048576, 0, NULL, 0, "128",
        "projected length: rows of the sequence projections E and F, at most n; a list gives each "
        "layer its own"},
    {"model.sharing", KEY_SHARING, MEMBER(model.scope), 0, 0, 0, NULL, 0, "headwise",
        "who shares E and F, or the kernels of conv. none: each head has its own; headwise: the "
        "heads of a layer share; kv: headwise and E = F; layerwise: one E = F for the whole model. "
        "The mapping reaches all six combinations and needs both of its keys"},
    WORD("model.projection", model.projection, projection_words, "linear",
        "linear: E and F are learned; fixed: random N(0, 1/k), never trained. mean, max and conv "
        "pool windows of n/k tokens, as many as a text fills: their mean, their maximum, or a "
        "learned kernel for each column of a head, shared as E and F are"),
    WORD("model.attention", model.attention, attention_words, "linformer",
        "full: ordinary attention, the baseline; k, sharing, projection, proj_init_std and "
        "optimizer.proj_lr then have no effect"),
    INTEGER("model.layers", model.layers, 1, CONFIG_MAX_LAYERS, "12",
        "encoder layers"),
    INTEGER("model.width", model.width, 1, 65536, "768",
        "width of the hidden states; a multiple of heads"),
    INTEGER("model.heads", model.heads, 1, 1024, "12",
        "attention heads; divides width"),
    INTEGER("model.ffn", model.ffn, 1, 1048576, "3072",
        "inner width of the feed-forward block"),
    REAL("model.dropout", model.dropout, 0, 1, OPEN_HIGH, "0.1",
        "on embeddings, attention output and feed-forward output"),
    REAL("model.attention_dropout", model.attention_dropout, 0, 1, OPEN_HIGH, "0.1",
        "on attention probabilities"),
    WORD("model.init", model.init, init_words, "normal",
        "normal: RoBERTa's N(0, 0.02); local: every head begins at a neighbouring token (at a "
        "neighbouring block of tokens where heads share E and F), which leaves the plateau of word "
        "frequencies sooner; needs width / heads of at least 8 and projection linear"),
    REAL("model.proj_init_std", model.proj_init_std, 0, 10, OPEN_LOW,
        TEXT_OF_VALUE(CONFIG_PROJ_INIT_STD),
        "standard deviation of learned E and F at the start, under init: local of the noise on "
        "them; of the kernels of conv about the mean; fixed ones have 1/sqrt(k)"),
    WORD("model.norm", model.norm, norm_words, "post",
        "LayerNorm after each block as in RoBERTa, or before it with a final one"),
    REAL("model.head_dropout", model.head_dropout, 0, 1, OPEN_HIGH, "0",
        "in the classification head, before each of its two maps (fine-tuning)"),
    WORD("model.head_pooling", model.head_pooling, head_pooling_words, "cls",
        "what the classification head reads (fine-tuning): cls, the hidden state of `<s>`, as "
        "RoBERTa; mean, that over all tokens of the input, for encoders whose `<s>` has learned "
        "little"),

    PLAIN("tokenizer.model", KEY_PATH, tokenizer.model,
        "sentencepiece .model file, from the working folder; trained where it is missing, at its "
        "default place also where it was trained on other text; default "
        "<folder of run>/prepared/<name>-<type>-<vocab_size>/tokenizer.model, <name> being the "
        "config that names data.train"),
    WORD("tokenizer.type", tokenizer.type, tokenizer_words, "unigram",
        "kind of model to train"),
    INTEGER("tokenizer.vocab_size", tokenizer.vocab_size, 6, 1000000, "32000",
        "pieces, specials and 256 bytes included"),
    INTEGER("tokenizer.sample_bytes", tokenizer.sample_bytes, 10000, MAX_INT, "67108864",
        "at most so many bytes of text are sampled for training the tokenizer"),

    PLAIN("data.train", KEY_GLOBS, data.train_globs,
        "text shards to train on (.txt, .gz, .zst; JSON lines in .jsonl, .json or .ndjson), from "
        "the folder of the file that names them; commands that read text need it. Fine-tuning: the "
        "task's labelled files"),
    PLAIN("data.valid", KEY_GLOBS, data.valid_globs,
        "held-out text shards, the same way; none, or [] over an inherited list: no evaluation "
        "while training and no best.ckpt. Fine-tuning: labelled files that choose the best "
        "checkpoint, or finetune.holdout"),
    PLAIN("data.tokens", KEY_PATH, data.tokens,
        "folder of the prepared token shards, from the working folder; default: tokens/ beside the "
        "default of tokenizer.model"),

    BUDGET("train.steps", BUDGET_STEPS, 1, MAX_INT, 0, NULL,
        "budget in updates; at most one of the four budgets is given"),
    BUDGET("train.epochs", BUDGET_EPOCHS, 0, 1e6, OPEN_LOW, "1",
        "budget in passes over data.train, the default where no budget is given"),
    BUDGET("train.tokens", BUDGET_TOKENS, 1, MAX_INT, 0, NULL,
        "budget in tokens read, e.g. 5e6"),
    BUDGET("train.hours", BUDGET_HOURS, 0, 1e6, OPEN_LOW, NULL,
        "budget in hours of training, kept across resumes"),
    INTEGER("train.batch", train.batch, 1, 1048576, "256",
        "sequences an update"),
    INTEGER("train.micro_batch", train.micro_batch, 0, 1048576, NULL,
        "sequences at a time, at most batch; 0: the whole batch. Changes memory and speed, not the "
        "gradient; default: as many as make 8192 tokens"),
    WORD("train.recompute", model.recompute, recompute_words, "none",
        "what the backward pass computes again instead of keeping it for each layer, which saves "
        "memory and changes no result. ffn: the inside of the feed-forward block, about half of "
        "the activations for 1/6 more operations at most; layer: all but the layer's input, for "
        "1/3 more at most"),
    {"train.memory", KEY_BYTES, MEMBER(train.memory), 0, MAX_INT, 0, NULL, 0, "0",
        "where micro_batch is not given: the training's memory, e.g. 8GiB, that the largest "
        "micro-batch is chosen for; 0: micro_batch has its default"},
    INTEGER("train.threads", train.threads, 0, 4096, "0",
        "0: all that this process may use"),
    WORD("train.precision", model.precision, precision_words, "fp32",
        "of the factors in products of the encoder's maps and the masked-language-model head's; "
        "all that is stored, LayerNorm, softmax and loss are fp32 always. fp16: scaled by blocks; "
        "needs AVX512-FP16 (Intel from Sapphire Rapids) and is the fastest there. bf16: less "
        "exact; needs AVX512-BF16 and is slower than fp32 on Intel. Kept in the checkpoint for its "
        "evaluations and predictions"),
    {"train.seed", KEY_U64, MEMBER(train.seed), 0, MAX_INT, 0, NULL, 0, "1",
        "of weights, order, masks and dropout"},
    PLAIN("train.init", KEY_PATH, train.init,
        "checkpoint of a pretraining whose weights this one begins with (its tokenizer too), for "
        "other text or another recipe; from the working folder. The model must be the same"),
    REAL("train.mask_rate", train.mask_rate, 0, 1, OPEN_LOW | OPEN_HIGH, "0.15",
        "share of real tokens to predict: 80% masked, 10% random, 10% kept"),
    REAL("train.short_rate", train.short_rate, 0, 1, 0, "0",
        "share of the sequences that are cut into pieces of one length, drawn between 8 and n with "
        "every doubling as probable, so that the model meets short texts too"),
    INTEGER("train.eval_every", train.eval_every, 0, MAX_INT, "1000",
        "steps between evaluations on data.valid; 0: only at the end. Fine-tuning: 0, its default, "
        "is at the end of each epoch"),
    INTEGER("train.eval_sequences", train.eval_sequences, 0, MAX_INT, "512",
        "held-out sequences an evaluation reads; 0: all"),
    INTEGER("train.log_every", train.log_every, 1, MAX_INT, "10",
        "steps between lines of metrics.jsonl"),

    WORD("optimizer.name", optimizer.name, optimizer_words, "adamw",
        "sgd: plain, or with momentum"),
    REAL("optimizer.lr", optimizer.lr, 0, 100, OPEN_LOW, "1e-4",
        "peak learning rate; RoBERTa's for batch 256"),
    REAL("optimizer.position_lr", optimizer.position_lr, 0, 10, 0, "1",
        "position embeddings learn, and decay, at this share of lr; 0: not at all"),
    REAL("optimizer.proj_lr", optimizer.proj_lr, 0, 10, 0, "1",
        "E and F, or the kernels of conv, learn, and decay, at this share of lr; 0: not at all"),
    {"optimizer.betas", KEY_PAIR, MEMBER(optimizer.betas), 0, 1, OPEN_HIGH, NULL, 0, "[0.9, 0.98]",
        "AdamW's decay of the two moments"},
    REAL("optimizer.eps", optimizer.eps, 0, 1, OPEN_LOW, "1e-6",
        "AdamW's addend to the root of the second moment"),
    REAL("optimizer.weight_decay", optimizer.weight_decay, 0, 1, 0, "0.01",
        "decoupled: weights shrink by lr * weight_decay a step"),
    WORD("optimizer.decay", optimizer.decay, decay_words, "matrices",
        "what weight_decay acts on; matrices: not on biases and LayerNorm parameters"),
    REAL("optimizer.momentum", optimizer.momentum, 0, 1, OPEN_HIGH, "0",
        "SGD only"),
    REAL("optimizer.clip", optimizer.clip, 0, 1e6, 0, "1",
        "largest global gradient norm; 0: no clipping, as RoBERTa. The default bears the spikes of "
        "small batches better"),

    REAL("schedule.warmup", schedule.warmup, 0, 1, OPEN_HIGH, "0.06",
        "share of the budget over which the rate rises from 0 to lr"),
    WORD("schedule.decay", schedule.decay, schedule_words, "linear",
        "course from lr to zero at the end of the budget; constant stays at lr"),

    INTEGER("checkpoint.every", checkpoint.every, 0, MAX_INT, "1000",
        "steps between step-*.ckpt files; 0: only last.ckpt and best.ckpt, at evaluations and at "
        "the end"),
    INTEGER("checkpoint.keep", checkpoint.keep, 0, MAX_INT, "2",
        "newest step-*.ckpt files to keep; 0: all"),

    WORD("finetune.task", finetune.task, task_words, "none",
        "the task that `finetune` trains a classifier for; none: the config is for pretraining"),
    PLAIN("finetune.init", KEY_PATH, finetune.init,
        "pretrained checkpoint to start from, from the working folder; its model and tokenizer are "
        "taken over. `none`: fresh weights of the model section; one of them must be given"),
    INTEGER("finetune.seeds", finetune.seeds, 1, 1000, "1",
        "runs, with seeds train.seed, train.seed + 1, ..., each in a folder seed-<s> of `run`"),
    INTEGER("finetune.patience", finetune.patience, 0, MAX_INT, "0",
        "evaluations in a row without a better metric after which a run ends; 0: never"),
    REAL("finetune.holdout", finetune.holdout, 0, 1, OPEN_HIGH, "0",
        "share of the training rows, the same for all seeds, to evaluate on where data.valid is "
        "not given"),
    WORD("finetune.metric", finetune.metric, metric_words, "accuracy",
        "what chooses best.ckpt, and the loss where it is the same; f1: of class 1 with two "
        "classes, else the mean over those that occur; mcc: Matthews correlation"),
    WORD("finetune.truncate", finetune.truncate, truncate_words, "head",
        "what a single text longer than n keeps; both: as much of either end. A pair loses tokens "
        "from the end of the longer text"),
    WORD("finetune.case", finetune.letters, case_words, "keep",
        "lower: ASCII letters are lowered before tokenization, for an encoder of such text"),
    PLAIN("finetune.text", KEY_TEXT, finetune.text,
        "task custom: the column, or JSON member, of the text"),
    PLAIN("finetune.text_pair", KEY_TEXT, finetune.text_pair,
        "task custom: of a second text; not given: one text"),
    PLAIN("finetune.label", KEY_TEXT, finetune.label,
        "task custom: of the label, any word or integer"),
};
/* clang-format on */
const size_t schema_count = sizeof schema_keys / sizeof *schema_keys;

const ConfigKey *schema_find(const char *path, size_t length) {
    for (size_t i = 0; i < schema_count; i++) {
        const char *p = schema_keys[i].path;
        if (strlen(p) == length && memcmp(p, path, length) == 0) return &schema_keys[i];
    }
    return NULL;
}

bool schema_is_section(const char *name, size_t length) {
    for (const char *const *s = schema_sections; *s; s++) {
        if (strlen(*s) == length && memcmp(*s, name, length) == 0) return true;
    }
    return false;
}

const char *schema_leaf(const ConfigKey *key) {
    const char *dot = strchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

bool schema_in_section(const ConfigKey *key, const char *section) {
    size_t length = strlen(section);
    if (length == 0) return strchr(key->path, '.') == NULL;
    return strncmp(key->path, section, length) == 0 && key->path[length] == '.';
}

static void describe_integer(char *out, size_t size, const ConfigKey *key) {
    if (key->high == MAX_INT)
        snprintf(out, size, "an integer of at least %.0f", key->low);
    else
        snprintf(out, size, "an integer from %.0f to %.0f", key->low, key->high);
}

static void describe_real(char *out, size_t size, const ConfigKey *key) {
    char low[32], high[32];
    number_write(low, sizeof low, key->low);
    number_write(high, sizeof high, key->high);
    snprintf(out, size, "a number, %s %s x %s %s", low,
             key->open & OPEN_LOW ? "<" : "<=", key->open & OPEN_HIGH ? "<" : "<=", high);
}

void schema_describe(char *out, size_t size, const ConfigKey *key) {
    char part[128];
    switch (key->type) {
    case KEY_SIZE:
    case KEY_U64: describe_integer(out, size, key); return;
    case KEY_BYTES:
        snprintf(out, size, "bytes: a number with or without KiB, MiB, GiB or TiB");
        return;
    case KEY_REAL: describe_real(out, size, key); return;
    case KEY_BUDGET:
        if (key->unit == BUDGET_STEPS || key->unit == BUDGET_TOKENS)
            describe_integer(out, size, key);
        else
            describe_real(out, size, key);
        return;
    case KEY_PAIR:
        describe_real(part, sizeof part, key);
        snprintf(out, size, "a list of two, each %s", part);
        return;
    case KEY_K:
        describe_integer(part, sizeof part, key);
        snprintf(out, size, "%s, or a list with one for each layer", part);
        return;
    case KEY_WORD: {
        size_t used = (size_t)snprintf(out, size, "one of");
        for (const char *const *w = key->words; *w && used < size; w++)
            used +=
                (size_t)snprintf(out + used, size - used, "%s %s", w == key->words ? "" : ",", *w);
        return;
    }
    case KEY_PATH: snprintf(out, size, "a path"); return;
    case KEY_TEXT: snprintf(out, size, "a name"); return;
    case KEY_GLOBS: snprintf(out, size, "a path or glob, or a list of them"); return;
    case KEY_SHARING:
        snprintf(
            out, size,
            "none, headwise, kv or layerwise, or {scope: head|layer|model, tie_kv: true|false}");
        return;
    }
}
