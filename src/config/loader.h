/* Shared by the files of src/config: the state of one load, and setting or writing one key. */
#ifndef CONFIG_LOADER_H
#define CONFIG_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config.h"
#include "schema.h"
#include "yaml_tree.h"

/* Where a key got its value. */
typedef struct Origin {
    Source source; /* name borrowed from Loader.names */
    size_t line, column;
    size_t order; /* later assignments have larger numbers; 0: only the default */
    /* files of the extends chain from 1, furthest first; all overrides together are the last */
    size_t layer;
} Origin;

typedef struct Loader {
    Config *config;
    Origin *origins;   /* one a key of the schema */
    size_t k_count;    /* items of model.k; 0: one number for all layers */
    char *corpus;      /* name of the config that names data.train: part of default paths */
    Source source;     /* what is being read */
    char *folder;      /* absolute; globs are relative to it; NULL: they are taken as they are */
    char *corpus_here; /* what corpus becomes where data.train is named */
    size_t layer, main_layer, order;
    char **names; /* owned: names that origins point to */
    size_t name_count;
} Loader;

/* Sets the key's member from a node; `at` is where messages point to (NULL: nowhere).  Replaces
 * what was there. */
bool value_set(Loader *loader, const ConfigKey *key, const Node *at, const Node *node, Err *err);

/* "place: section.key = value: wanted ...", the value shown as `node` has it. */
bool value_fail(const Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                Err *err, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Writes the key's value as one line of YAML (without the key).  False if it has none: another
 * budget, no globs, no path. */
bool value_write(FILE *out, const ConfigKey *key, const Config *config);

/* The same into a buffer, cut to fit; "" where there is none. */
void value_text(char *out, size_t size, const ConfigKey *key, const Config *config);

/* The rules that span keys, and what is derived: k of every layer, paths, vocab, notes. */
bool loader_finish(Loader *loader, Err *err);

/* The rules of the finetune section. */
bool check_finetune(const Loader *loader, Err *err);

/* True if the model is taken over from a checkpoint: the model section's defaults mean nothing. */
bool finetune_from_checkpoint(const Config *config);

/* Writes a note if the key was given without effect; `because` completes "has no effect with". */
typedef void NoteUnused(FILE *notes, const Loader *loader, const char *path, bool is_used,
                        const char *because);
void note_finetune(FILE *notes, const Loader *loader, NoteUnused *note);

/* config_from_yaml of bytes that need not end in NUL. */
bool config_parse(Config *out, const char *yaml, size_t size, const char *name, Err *err);

/* "folder/pattern" in which only the pattern's own characters are special; leading ../ are
 * resolved.  malloc'd. */
char *glob_join(const char *folder, const char *pattern);

/* "~/x" -> "$HOME/x", anything else as it is.  malloc'd. */
char *path_expand_home(const char *path);

#endif
