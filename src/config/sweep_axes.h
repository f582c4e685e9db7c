/* Shared by the files of a sweep's configuration: its file taken apart, before it is expanded. */
#ifndef SWEEP_AXES_H
#define SWEEP_AXES_H

#include <stdio.h>

#include "schema.h"
#include "sweep_config.h"
#include "yaml_tree.h"

typedef struct SweepAxis {
    const ConfigKey *key;
    const char **overrides; /* (count) "model.k=16"; of SweepConfig.texts */
    size_t count;
    size_t group; /* axes of one group advance together; groups count from 0 */
} SweepAxis;

/* Excludes the points that have all of these values. */
typedef struct SweepExclusion {
    size_t axes[SWEEP_MAX_AXES], values[SWEEP_MAX_AXES];
    size_t count;
    size_t line; /* for messages */
} SweepExclusion;

typedef struct SweepAxes {
    SweepAxis items[SWEEP_MAX_AXES];
    size_t count, groups;
    SweepExclusion *exclusions;
    size_t exclusion_count;
} SweepAxes;

typedef enum SweepSlot {
    SLOT_BASE,
    SLOT_COMMAND,
    SLOT_GRID,
    SLOT_ZIP,
    SLOT_EXCLUDE,
    SLOT_SEEDS,
    SLOT_FINETUNE,
    SLOTS
} SweepSlot;

typedef struct SweepKey {
    const char *name, *values, *help;
} SweepKey;

extern const SweepKey sweep_slots[SLOTS];

/* What was given for a key, and where. */
typedef struct Given {
    const Node *name;  /* NULL in an override */
    const Node *value; /* NULL: not given */
    Source source;
} Given;

typedef struct SweepReader {
    SweepConfig *sweep;
    SweepAxes axes;
    Given given[SLOTS];
    Source source; /* the file */
    Node **roots;  /* owned: the file's and the overrides' */
    char **names;  /* owned: of the overrides' sources */
    size_t root_count;
} SweepReader;

/* "file:line:column: message" at the node, at the key where node is NULL. */
bool sweep_fail(const SweepReader *r, SweepSlot slot, const Node *node, Err *err,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "sweep.seeds = x: wanted an integer ..." */
bool sweep_fail_wanted(const SweepReader *r, SweepSlot slot, const Node *node, Err *err);

/* Appends to a list of owned texts; frees the text on failure, NULL included. */
bool sweep_add_text(char ***list, size_t *count, char *text, Err *err);

/* The axes, in this order; seeds begin where the base's does.  Then the exclusions. */
bool sweep_read_grid(SweepReader *r, Err *err);
bool sweep_read_zip(SweepReader *r, Err *err);
bool sweep_read_seeds(SweepReader *r, const Config *base, Err *err);
bool sweep_read_exclude(SweepReader *r, Err *err);

/* The points of the axes, with their names; checks each one's configuration. */
bool sweep_expand(SweepConfig *sweep, const SweepAxes *axes, Err *err);

/* Points that differ in such a key have tokenizer and tokens of their own. */
bool sweep_key_is_data(const char *key);

/* The values of a point's configuration as a name; data_only: of the data and tokenizer keys alone.
 * malloc'd, "" where there are none. */
char *sweep_name(const SweepConfig *sweep, const SweepPoint *point, const Config *config,
                 bool data_only);

/* The keys of section sweep, for `linformer help config`. */
void sweep_write_help(FILE *out, void (*write_wrapped)(FILE *out, const char *text));

#endif
