/* What `inspect` finds out about each kind of file, as members of a JSON object. */
#ifndef INSPECT_H
#define INSPECT_H

#include <cJSON.h>
#include <stdbool.h>

#include "err.h"
#include "prepare.h"

/* Each opens the file, verifies all of it, and fails with a message that names the path. */
bool inspect_checkpoint(cJSON *object, const char *path, bool stats, Err *err);
bool inspect_tokens(cJSON *object, const char *path, Err *err);
bool inspect_manifest(cJSON *object, const char *path, Err *err);
bool inspect_tokenizer(cJSON *object, const char *path, Err *err);

/* Totals of one part, of `inspect` and `prepare`. */
void add_manifest_part(cJSON *object, const char *name, const ManifestPart *part);

/* The object as text for people: one member a line, arrays of objects as tables. */
void inspect_print(const cJSON *object);

#endif
