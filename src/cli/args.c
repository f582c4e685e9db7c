#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "words.h"

enum { OPTIONS_MAX = 32 };

const char *near_word(const char *word, const char *const *words) {
    const char *best = NULL;
    size_t best_distance =
        3; /* more than two edits are another word, and so are two in a short one */
    for (; *words; words++) {
        size_t distance = word_distance(word, *words);
        if (distance < best_distance && 3 * distance <= strlen(word))
            best = *words, best_distance = distance;
    }
    return best;
}

static const Option *find_option(const Command *command, const char *name, size_t length) {
    for (const Option *o = command->options; o->name; o++) {
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    }
    return NULL;
}

/* Is it --train.threads or --threads of the key train.threads, with - for _? */
static bool names_key(const char *option, const char *key) {
    const char *dot = strrchr(key, '.');
    for (int leaf = 0; leaf <= 1; leaf++) {
        const char *a = option + 2, *b = leaf && dot ? dot + 1 : key;
        while (*a && *b == (*a == '-' ? '_' : *a)) a++, b++;
        if (!*a && !*b) return true;
    }
    return false;
}

/* "model.init=VALUE or train.init=VALUE" for --init, where the command takes keys of a config. */
static void keys_of_option(char *out, size_t size, const Command *command, const char *option) {
    const char *key;
    out[0] = 0;
    if (!strstr(command->arguments, "section.key") || strncmp(option, "--", 2) != 0) return;
    for (size_t i = 0; (key = config_key_path(i)) != NULL; i++) {
        size_t used = strlen(out);
        if (names_key(option, key))
            snprintf(out + used, size - used, "%s%s=VALUE", used ? " or " : "", key);
    }
}

static bool fail_unknown(const Command *command, const char *name, size_t length, Err *err) {
    const char *names[OPTIONS_MAX + 1] = {0};
    size_t count = 0;
    for (const Option *o = command->options; o->name && count < OPTIONS_MAX; o++)
        names[count++] = o->name;
    char shown[WORD_MAX];
    snprintf(shown, sizeof shown, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX - 1), name);
    const char *near = near_word(shown, names);
    char keys[200];
    keys_of_option(keys, sizeof keys, command, shown);
    if (*keys)
        return err_set(err, ERR_CONFIG,
                       "%s has no option %s: it is a key of the config, %s behind CONFIG",
                       command->name, shown, keys);
    return err_set(err, ERR_CONFIG, "%s has no option %s%s%s%s", command->name, shown,
                   near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool parse_number(double *out, const char *text) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == 0 && errno == 0;
}

static bool set_option(Options *options, const Option *option, const char *value, Err *err) {
    void *member = (char *)options + option->offset;
    if (option->kind == OPTION_FLAG) {
        if (value) return err_set(err, ERR_CONFIG, "%s takes no value", option->name);
        *(bool *)member = true;
        return true;
    }
    if (!value)
        return err_set(err, ERR_CONFIG, "%s needs a value: %s %s", option->name, option->name,
                       option->value);
    if (option->kind == OPTION_TEXT) {
        *(const char **)member = value;
        return true;
    }
    if (option->kind == OPTION_BYTES) {
        if (config_read_bytes(member, value) && *(size_t *)member > 0) return true;
        return err_set(err, ERR_CONFIG, "%s %s: wanted a number of bytes, such as 4GiB",
                       option->name, value);
    }
    double number;
    bool whole = option->kind == OPTION_COUNT;
    bool digits = !whole || strspn(value, "0123456789") == strlen(value);
    if (!digits || !parse_number(&number, value) ||
        !(number >= option->low && number <= option->high))
        return err_set(err, ERR_CONFIG, "%s %s: wanted %s from %.15g to %.15g", option->name, value,
                       whole ? "a whole number" : "a number", option->low, option->high);
    if (whole)
        *(size_t *)member = (size_t)number;
    else
        *(double *)member = number;
    return true;
}

/* The option at argv[*i], and its value, which may be the next argument. */
static bool parse_option(Options *options, const Command *command, int argc, char **argv, int *i,
                         Err *err) {
    const char *text = argv[*i], *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    if (strcmp(text, "-h") == 0) {
        options->help = true;
        return true;
    }
    const Option *option = find_option(command, text, length);
    if (!option) return fail_unknown(command, text, length, err);
    const char *value = equals ? equals + 1 : NULL;
    bool next = option->kind != OPTION_FLAG && !equals && *i + 1 < argc;
    /* `--file --json` has forgotten the file; a name that begins so is given as --file=--json */
    if (next && option->kind == OPTION_TEXT && !strncmp(argv[*i + 1], "--", 2)) next = false;
    if (next) value = argv[++*i];
    return set_option(options, option, value, err);
}

bool args_parse(Args *out, const Command *command, int argc, char **argv, Err *err) {
    *out = (Args){.items = calloc((size_t)argc + 1, sizeof *out->items)};
    if (!out->items) return err_set(err, ERR_FAILED, "out of memory for %d arguments", argc);
    bool options = true;
    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (!options || argv[i][0] != '-' || !argv[i][1])
            out->items[out->count++] = argv[i];
        else if (!parse_option(&out->options, command, argc, argv, &i, err))
            return false;
    }
    if (out->options.help) return true;
    if (out->count < command->min_arguments)
        return err_set(err, ERR_CONFIG, "%s needs more arguments: %s", command->name,
                       command->arguments);
    if (out->count > command->max_arguments)
        return err_set(err, ERR_CONFIG, "%s: unexpected argument %s", command->name,
                       out->items[command->max_arguments]);
    return true;
}

bool args_paths(PathList *out, const Args *args, Err *err) {
    *out = (PathList){.items = calloc(args->count, sizeof *out->items)};
    for (size_t i = 1; out->items && i < args->count; i++) {
        out->items[out->count] = strdup(args->items[i]);
        if (out->items[out->count]) out->count++;
    }
    return out->count + 1 == args->count ||
           err_set(err, ERR_FAILED, "out of memory for %zu paths", args->count);
}

void args_free(Args *args) {
    free(args->items);
    *args = (Args){0};
}

void command_write_usage(void *stream, const Command *command) {
    fprintf(stream, "usage: linformer %s [options]%s%s\n", command->name,
            *command->arguments ? " " : "", command->arguments);
}

void command_write_help(void *stream, const Command *command) {
    command_write_usage(stream, command);
    fprintf(stream, "%s\n", command->summary);
    if (command->notes) fprintf(stream, "\n%s\n", command->notes);
    fprintf(stream, "\noptions:\n");
    for (const Option *o = command->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        fprintf(stream, "  %-16s %s\n", left, o->help);
    }
}
