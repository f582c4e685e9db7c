/* The table of every key: what parses, checks, documents and prints a configuration loops over it.
 */
#ifndef CONFIG_SCHEMA_H
#define CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "yaml_tree.h"

typedef enum KeyType {
    KEY_SIZE,    /* size_t: integer, low..high */
    KEY_U64,     /* uint64_t, the same */
    KEY_BYTES,   /* size_t: bytes, with or without a unit, low..high */
    KEY_REAL,    /* double, low..high, a bound itself refused where `open` says so */
    KEY_PAIR,    /* double[2], each as KEY_REAL */
    KEY_WORD,    /* an enum whose values count from 0 in the order of `words` */
    KEY_PATH,    /* char * */
    KEY_TEXT,    /* char *, any words */
    KEY_GLOBS,   /* GlobList */
    KEY_K,       /* size_t[CONFIG_MAX_LAYERS]: one integer or a list */
    KEY_SHARING, /* ModelConfig scope and tie_kv; no single member */
    KEY_BUDGET   /* TrainConfig budget and budget_unit (`unit`); integer for steps and tokens */
} KeyType;

enum { OPEN_LOW = 1, OPEN_HIGH = 2 };

typedef struct ConfigKey {
    const char *path; /* "model.n"; "run" stands outside of sections */
    KeyType type;
    size_t offset; /* of the member in Config */
    double low, high;
    unsigned open;            /* OPEN_LOW | OPEN_HIGH */
    const char *const *words; /* KEY_WORD: names in enum order, NULL after the last */
    BudgetUnit unit;          /* KEY_BUDGET */
    /* the default as YAML, read by the same parser; NULL: none, or derived as help says */
    const char *fallback;
    const char *help;
} ConfigKey;

/* One of the four names of `sharing`. */
typedef struct SharingName {
    const char *name;
    Scope scope;
    bool tie_kv;
} SharingName;

extern const ConfigKey schema_keys[];
extern const size_t schema_count;
extern const char *const schema_sections[]; /* in printing order, NULL after the last */
extern const char *const schema_scopes[];   /* NULL after the last */
extern const SharingName schema_sharing[];  /* name NULL after the last */

/* The key called `path`, or NULL. */
const ConfigKey *schema_find(const char *path, size_t length);

bool schema_is_section(const char *name, size_t length);

/* True if `key` belongs to `section` ("" for keys outside of sections). */
bool schema_in_section(const ConfigKey *key, const char *section);

/* The part of the path after the section. */
const char *schema_leaf(const ConfigKey *key);

static inline void *schema_member(const ConfigKey *key, Config *config) {
    return (char *)config + key->offset;
}

static inline const void *schema_member_const(const ConfigKey *key, const Config *config) {
    return (const char *)config + key->offset;
}

/* What values the key takes: "an integer from 2 to 100", "one of post, pre". */
void schema_describe(char *out, size_t size, const ConfigKey *key);

/* Where a key stands, for messages about it. */
typedef struct KeyPlace {
    const Source *source;
    size_t line, column;
} KeyPlace;

/* The message for `name` that is no key of `section` ("": outside of sections): another section
 * that has it, a near match, the name other programs use, or the list of what there is.  `value` as
 * node_show gives it.  Returns false. */
bool schema_fail_unknown(Err *err, const KeyPlace *place, const char *section, const char *name,
                         const char *value);

/* Appends ": did you mean x?" if one of the NULL-terminated words is near `text`; else ": one of a,
 * b, c". */
void schema_suggest_word(char *out, size_t size, const char *const *words, const char *text);

/* Fails with the reason if the word asks for a decoder ("causal", ...); true otherwise. */
bool schema_refuse_causal(Err *err, const KeyPlace *place, const char *path, const char *word,
                          const char *value);

#endif
