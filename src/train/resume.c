/* May a run go on with this configuration? */
#include <stdlib.h>
#include <string.h>

#include "trainer_internal.h"

/* One "section.key: value" of what config_to_yaml writes. */
typedef struct Entry {
    char key[96];
    const char *value;
    size_t size;
} Entry;

static const char *line_end(const char *p) {
    return p + strcspn(p, "\n");
}

/* Next entry of the YAML text at *cursor; a value goes on over lines that are indented deeper than its key.  False at the end. */
static bool next_entry(Entry *out, const char **cursor, char *section, size_t section_size) {
    const char *p = *cursor;
    while (*p) {
        size_t indent = strspn(p, " ");
        const char *end = line_end(p), *name = p + indent, *colon = memchr(name, ':', (size_t)(end - name));
        const char *after = *end ? end + 1 : end;
        p = after;
        if (!colon || *name == '#' || *name == '-') continue;
        int length = (int)(colon - name);
        if (indent == 0 && colon + 1 == end && *after == ' ' && strncmp(after, "  - ", 4) != 0) {
            snprintf(section, section_size, "%.*s", length, name);
            continue;
        }
        if (indent == 0) section[0] = 0;
        snprintf(out->key, sizeof out->key, "%s%s%.*s", section, section[0] ? "." : "", length, name);
        while (*p && (strspn(p, " ") > indent || *p == '-')) {
            end = line_end(p);
            p = *end ? end + 1 : end;
        }
        out->value = colon + 1 + strspn(colon + 1, " ");
        out->size = (size_t)(end - out->value);
        *cursor = p;
        return true;
    }
    *cursor = p;
    return false;
}

/* Keys that change neither what is computed nor the course of the budget.  Data and tokenizer are compared by hash. */
static bool may_change(const char *key) {
    static const char *const prefixes[] = {"run", "data.", "tokenizer.", "checkpoint.", "train.threads", "train.micro_batch",
                                           "train.log_every", "train.eval_every", "train.eval_sequences"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (!strncmp(key, prefixes[i], strlen(prefixes[i]))) return true;
    }
    return false;
}

bool resume_check_config(const Config *stored, const Config *given, Err *err) {
    char *a = config_to_yaml(stored), *b = config_to_yaml(given);
    bool ok = a && b;
    if (!ok) err_set(err, ERR_FAILED, "no memory to compare the configurations");
    const char *at_a = a, *at_b = b;
    char section_a[64] = "", section_b[64] = "";
    while (ok) {
        Entry x = {.key = "nothing"}, y = {.key = "nothing"};
        bool more_a = next_entry(&x, &at_a, section_a, sizeof section_a);
        bool more_b = next_entry(&y, &at_b, section_b, sizeof section_b);
        if (!more_a && !more_b) break;
        bool same = !strcmp(x.key, y.key) && ((x.size == y.size && !memcmp(x.value, y.value, x.size)) || may_change(x.key));
        if (!same) {
            ok = err_set(err, ERR_CONFIG, "the run was started with %s: %.*s, now it is %s: %.*s; give the stored value to continue, "
                         "or another `run` to start a new one", x.key, (int)x.size, x.value ? x.value : "", y.key, (int)y.size,
                         y.value ? y.value : "");
        }
    }
    free(a);
    free(b);
    return ok;
}
