/* What to say about a word that is not in the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"
#include "words.h"

enum { SUGGESTION_MAX = 512 };

/* Names that Hugging Face, fairseq and other trainers give to our keys. */
static const struct {
    const char *other, *ours;
} other_names[] = {
    {"hidden_size", "model.width"},
    {"embed_dim", "model.width"},
    {"encoder_embed_dim", "model.width"},
    {"d_model", "model.width"},
    {"dim", "model.width"},
    {"num_hidden_layers", "model.layers"},
    {"encoder_layers", "model.layers"},
    {"num_layers", "model.layers"},
    {"n_layers", "model.layers"},
    {"depth", "model.layers"},
    {"num_attention_heads", "model.heads"},
    {"encoder_attention_heads", "model.heads"},
    {"num_heads", "model.heads"},
    {"n_heads", "model.heads"},
    {"intermediate_size", "model.ffn"},
    {"encoder_ffn_embed_dim", "model.ffn"},
    {"ffn_dim", "model.ffn"},
    {"hidden_dropout_prob", "model.dropout"},
    {"attention_probs_dropout_prob", "model.attention_dropout"},
    {"pooler_dropout", "model.head_dropout"},
    {"classifier_dropout", "model.head_dropout"},
    {"max_position_embeddings", "model.n"},
    {"max_positions", "model.n"},
    {"max_length", "model.n"},
    {"max_seq_len", "model.n"},
    {"max_seq_length", "model.n"},
    {"seq_len", "model.n"},
    {"tokens_per_sample", "model.n"},
    {"compressed", "model.k"},
    {"proj_k", "model.k"},
    {"scope", "model.sharing"},
    {"tie_kv", "model.sharing"},
    {"share_kv", "model.sharing"},
    {"vocab", "tokenizer.vocab_size"},
    {"batch_size", "train.batch"},
    {"per_device_train_batch_size", "train.micro_batch"},
    {"max_steps", "train.steps"},
    {"max_update", "train.steps"},
    {"num_train_epochs", "train.epochs"},
    {"max_epoch", "train.epochs"},
    {"num_threads", "train.threads"},
    {"mlm_probability", "train.mask_rate"},
    {"mask_prob", "train.mask_rate"},
    {"model_name_or_path", "finetune.init"},
    {"restore_file", "finetune.init"},
    {"task_name", "finetune.task"},
    {"metric_for_best_model", "finetune.metric"},
    {"best_checkpoint_metric", "finetune.metric"},
    {"early_stopping_patience", "finetune.patience"},
    {"do_lower_case", "finetune.case"},
    {"learning_rate", "optimizer.lr"},
    {"adam_betas", "optimizer.betas"},
    {"adam_eps", "optimizer.eps"},
    {"adam_epsilon", "optimizer.eps"},
    {"clip_norm", "optimizer.clip"},
    {"max_grad_norm", "optimizer.clip"},
    {"warmup_ratio", "schedule.warmup"},
    {"warmup_steps", "schedule.warmup"},
    {"warmup_updates", "schedule.warmup"},
    {"lr_scheduler", "schedule.decay"},
    {"save_steps", "checkpoint.every"},
    {"save_interval_updates", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"output_dir", "run"},
    {"save_dir", "run"},
};

static const char *const decoder_words[] = {"causal",         "decoder",        "is_decoder",
                                            "autoregressive", "unidirectional", NULL};

/* Edits that still look like a slip: about one in three characters. */
static bool is_near(size_t distance, const char *text) {
    return distance <= 2 && 3 * distance <= strlen(text);
}

void schema_suggest_word(char *out, size_t size, const char *const *words, const char *text) {
    const char *best = NULL;
    size_t best_distance = WORD_MAX;
    for (const char *const *w = words; *w; w++) {
        size_t distance = word_distance(text, *w);
        if (distance < best_distance) best_distance = distance, best = *w;
    }
    if (best && is_near(best_distance, text)) {
        snprintf(out, size, ": did you mean %s?", best);
        return;
    }
    size_t used = (size_t)snprintf(out, size, ": one of");
    for (const char *const *w = words; *w && used < size; w++)
        used += (size_t)snprintf(out + used, size - used, "%s %s", w == words ? "" : ",", *w);
}

bool schema_refuse_causal(Err *err, const KeyPlace *place, const char *path, const char *word,
                          const char *value) {
    for (const char *const *w = decoder_words; *w; w++) {
        if (strcmp(*w, word) != 0) continue;
        return source_fail(
            err, place->source, place->line, place->column,
            "%s = %s: there is no causal mode: the sequence projection mixes future positions into "
            "every projected key, and no mask can undo that. This program pretrains encoders",
            path, value);
    }
    return true;
}

static const ConfigKey *find_near(const char *section, bool inside, const char *name) {
    const ConfigKey *best = NULL;
    size_t best_distance = WORD_MAX;
    for (size_t i = 0; i < schema_count; i++) {
        if (schema_in_section(&schema_keys[i], section) != inside) continue;
        size_t distance = word_distance(name, schema_leaf(&schema_keys[i]));
        if (distance < best_distance) best_distance = distance, best = &schema_keys[i];
    }
    return best && is_near(best_distance, name) ? best : NULL;
}

/* "lr belongs to section optimizer (optimizer.lr)"; false if no other section has such a key. */
static bool name_other_sections(char *out, size_t size, const char *section, const char *name) {
    size_t used = 0;
    for (size_t i = 0; i < schema_count && used < size; i++) {
        const char *path = schema_keys[i].path, *dot = strchr(path, '.');
        if (schema_in_section(&schema_keys[i], section) ||
            strcmp(schema_leaf(&schema_keys[i]), name) != 0)
            continue;
        if (!dot) {
            snprintf(out, size, "%s stands outside of the sections, without indentation", name);
            return true;
        }
        if (used == 0)
            used = (size_t)snprintf(out, size, "%s belongs to", name);
        else
            used += (size_t)snprintf(out + used, size - used, ", or to");
        if (used < size)
            used += (size_t)snprintf(out + used, size - used, " section %.*s (%s)",
                                     (int)(dot - path), path, path);
    }
    return used > 0;
}

static const char *find_other_name(const char *name) {
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (word_distance(name, other_names[i].other) == 0) return other_names[i].ours;
    }
    return NULL;
}

/* "section model has n, k, ..." */
static void list_keys(char *out, size_t size, const char *section) {
    size_t used = (size_t)snprintf(out, size, "section %s has", section);
    const char *comma = "";
    for (size_t i = 0; i < schema_count && used < size; i++) {
        if (!schema_in_section(&schema_keys[i], section)) continue;
        used +=
            (size_t)snprintf(out + used, size - used, "%s %s", comma, schema_leaf(&schema_keys[i]));
        comma = ",";
    }
}

static void suggest_key(char *out, size_t size, const char *section, const char *name) {
    const ConfigKey *key;
    const char *ours = find_other_name(name), *dot = strchr(name, '.');
    if (!*section && dot && schema_find(name, strlen(name)))
        snprintf(out, size, "write it as a section: \"%.*s:\" and below it, indented, \"%s: ...\"",
                 (int)(dot - name), name, dot + 1);
    else if (name_other_sections(out, size, section, name))
        return;
    else if ((key = find_near(section, true, name)) != NULL)
        snprintf(out, size, "did you mean %s?", key->path);
    else if (ours)
        snprintf(out, size, "the key is called %s here", ours);
    else if ((key = find_near(section, false, name)) != NULL)
        snprintf(out, size, "did you mean %s?", key->path);
    else if (*section)
        list_keys(out, size, section);
    else
        snprintf(out, size, "`linformer help config` lists all keys");
}

bool schema_fail_unknown(Err *err, const KeyPlace *place, const char *section, const char *name,
                         const char *value) {
    char suggestion[SUGGESTION_MAX], path[128], shown[64];
    text_show(shown, sizeof shown, name);
    snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", shown);
    if (strcmp(value, "false") != 0 && !schema_refuse_causal(err, place, path, name, value))
        return false;
    if (!*section && !strchr(name, '.')) { /* a section is as likely to be meant as a key */
        const char *const *s = schema_sections;
        while (*s && !is_near(word_distance(name, *s), name)) s++;
        if (*s)
            return source_fail(err, place->source, place->line, place->column,
                               "unknown section %s: did you mean %s?", shown, *s);
    }
    suggest_key(suggestion, sizeof suggestion, section, shown);
    return source_fail(err, place->source, place->line, place->column, "unknown key %s: %s", path,
                       suggestion);
}
