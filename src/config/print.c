/* A Config as YAML, the reference of the keys, differences; and its end. */
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "numbers.h"
#include "sweep_axes.h"

enum { HELP_WIDTH = 100, HELP_INDENT = 4 };

/* ---- YAML ---- */

static void write_section(FILE *out, const Config *config, const char *section) {
    bool headed = *section == '\0';
    for (size_t i = 0; i < schema_count; i++) {
        const ConfigKey *key = &schema_keys[i];
        char *value = schema_in_section(key, section) ? config_key_value(config, key->path) : NULL;
        if (value && *value) {
            if (!headed) fprintf(out, "%s:\n", section);
            headed = true;
            fprintf(out, "%s%s: %s\n", *section ? "  " : "", schema_leaf(key), value);
        }
        free(value);
    }
}

char *config_to_yaml(const Config *config) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_section(out, config, "");
    for (const char *const *s = schema_sections; *s; s++) write_section(out, config, *s);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

const char *config_key_path(size_t index) {
    return index < schema_count ? schema_keys[index].path : NULL;
}

char *config_key_value(const Config *config, const char *path) {
    const ConfigKey *key = schema_find(path, strlen(path));
    char *text = NULL;
    size_t size = 0;
    FILE *out = key ? open_memstream(&text, &size) : NULL;
    if (!out) return NULL;
    value_write(out, key, config);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *config_differences(const Config *a, const Config *b) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < schema_count; i++) {
        char *left = config_key_value(a, schema_keys[i].path),
             *right = config_key_value(b, schema_keys[i].path);
        if (left && right && strcmp(left, right) != 0)
            fprintf(out, "%s: %s -> %s\n", schema_keys[i].path, *left ? left : "(none)",
                    *right ? right : "(none)");
        free(left);
        free(right);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- help ---- */

/* Words of `text` in lines of HELP_WIDTH, each indented. */
static void write_wrapped(FILE *out, const char *text) {
    size_t column = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > HELP_WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0)
            column = (size_t)fprintf(out, "%*s", HELP_INDENT, "");
        else
            column += (size_t)fprintf(out, " ");
        column += (size_t)fprintf(out, "%.*s", (int)length, text);
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

static void write_key_help(FILE *out, const ConfigKey *key) {
    char values[256];
    schema_describe(values, sizeof values, key);
    fprintf(out, "  %s: %s%s%s\n", key->path, values, key->fallback ? "; default " : "",
            key->fallback ? key->fallback : "");
    write_wrapped(out, key->help);
}

void config_write_help(void *stream) {
    FILE *out = stream;
    fputs("A config is one YAML file: sections with keys. The command line sets any key as "
          "section.key=value, after the\n"
          "file; a value is written as in the file, e.g. model.k=64 'model.k=[128, 64]' "
          "train.tokens=5e6.\n"
          "Integers are plain digits or exact with an exponent (5e6); numbers also 1e-4, .0001; "
          "switches true or false.\n"
          "Unknown and repeated keys, anchors, aliases, tags and tabs are refused.\n\n"
          "  extends: path of another config, from the folder of the file that says it\n",
          out);
    write_wrapped(out, "that file is read first, and each key given here replaces its value: lists "
                       "as a whole, a budget "
                       "by a budget of any unit, sharing by sharing. A chain may have 16 files.");
    for (size_t i = 0; i < schema_count; i++) {
        if (schema_in_section(&schema_keys[i], "")) write_key_help(out, &schema_keys[i]);
    }
    for (const char *const *s = schema_sections; *s; s++) {
        fprintf(out, "\n%s\n", *s);
        for (size_t i = 0; i < schema_count; i++) {
            if (schema_in_section(&schema_keys[i], *s)) write_key_help(out, &schema_keys[i]);
        }
    }
    sweep_write_help(out, write_wrapped);
}

/* ---- small ---- */

bool config_read_bytes(size_t *out, const char *text) {
    double bytes;
    if (bytes_read(&bytes, text) != NUMBER_OK || bytes > NUMBER_MAX_INTEGER) return false;
    *out = (size_t)bytes;
    return true;
}

const char *config_given_at(const Config *config, const char *path) {
    const ConfigKey *key = schema_find(path, strlen(path));
    return key && config->given_at ? config->given_at[key - schema_keys] : NULL;
}

bool config_is_given(const Config *config, const char *path) {
    return config_given_at(config, path) != NULL;
}

const char *config_sharing_name(const ModelConfig *model) {
    for (const SharingName *s = schema_sharing; s->name; s++) {
        if (s->scope == model->scope && s->tie_kv == model->tie_kv) return s->name;
    }
    return model->scope == SCOPE_HEAD ? "scope: head, tie_kv: true" : "scope: model, tie_kv: false";
}

void config_describe_attention(char *out, size_t size, const ModelConfig *model) {
    static const char *const kinds[] = {[PROJECTION_LINEAR] = "",
                                        [PROJECTION_FIXED] = "fixed",
                                        [PROJECTION_MEAN] = "mean pooling",
                                        [PROJECTION_MAX] = "max pooling",
                                        [PROJECTION_CONV] = "convolution"};
    bool is_full = model->attention == ATTENTION_FULL, shares = model_has_projections(model);
    const char *kind = is_full ? "full attention" : kinds[model->projection];
    snprintf(out, size, "%s%s%s", kind, shares && *kind ? ", " : "",
             shares ? config_sharing_name(model) : "");
}

void config_set_vocab(Config *config, size_t pieces) {
    config->model.vocab = pieces;
    config->tokenizer.vocab_size = pieces;
}

static void free_globs(GlobList *globs) {
    for (size_t i = 0; i < globs->count; i++) {
        free(globs->items[i].pattern);
        free(globs->items[i].place);
    }
    free(globs->items);
}

void config_free(Config *config) {
    for (size_t i = 0; i < schema_count; i++) {
        void *member = schema_member(&schema_keys[i], config);
        if (schema_keys[i].type == KEY_PATH || schema_keys[i].type == KEY_TEXT)
            free(*(char **)member);
        if (schema_keys[i].type == KEY_GLOBS) free_globs(member);
        if (config->given_at) free(config->given_at[i]);
    }
    free(config->given_at);
    config_paths_free(&config->data.train);
    config_paths_free(&config->data.valid);
    free(config->path);
    free(config->notes);
    memset(config, 0, sizeof *config);
}
