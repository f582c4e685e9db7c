/* The part of YAML that configs may use, as a small tree whose nodes remember where they stand in
 * the text. Refused with a message of its own: what is not UTF-8, control characters, tabs in the
 * indentation, anchors, aliases, merge keys, tags, a second document, nesting below YAML_MAX_DEPTH,
 * more than YAML_MAX_NODES values. */
#ifndef CONFIG_YAML_TREE_H
#define CONFIG_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

enum { YAML_MAX_DEPTH = 8, YAML_MAX_NODES = 10000, YAML_MAX_SCALAR = 4096 };

/* Where a text came from.  Positions in an override mean nothing to its reader, so messages leave
 * them out. */
typedef struct Source {
    const char *name; /* file path, or "override 'model.k=3'" */
    bool is_override;
} Source;

typedef enum NodeType { NODE_SCALAR, NODE_LIST, NODE_MAP } NodeType;

typedef struct Node Node;
struct Node {
    NodeType type;
    size_t line, column; /* from 1; columns count characters */
    char *text;  /* scalar: UTF-8 without control characters, at most YAML_MAX_SCALAR bytes */
    bool quoted; /* scalar: '..' or ".." */
    Node *first, *next; /* items of a list; of a map key, value, key, value, ... with scalar keys */
    size_t count;       /* list: items; map: pairs */
};

/* Fails with ERR_CONFIG and the place.  A text without any value gives *out NULL and true. */
bool yaml_tree_parse(Node **out, const Source *source, const char *text, size_t size, Err *err);
void yaml_tree_free(Node *node); /* accepts NULL */

/* "file:line:column: message" with code ERR_CONFIG; without line and column for an override or
 * where line is 0. */
bool source_fail(Err *err, const Source *source, size_t line, size_t column, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

bool fail_memory(Err *err); /* ERR_FAILED, "out of memory"; returns false */

/* "file:line:column" or the override. */
void source_place(char *out, size_t size, const Source *source, size_t line, size_t column);

/* A value as messages quote it, cut to fit `size`: 5, "x", [1, 2], {a: b}. */
void node_show(char *out, size_t size, const Node *node);

/* Copies text for a message: control characters and broken UTF-8 become '?', a text longer than
 * `size` ends in "...". */
void text_show(char *out, size_t size, const char *text);

/* True for UTF-8 that a YAML reader gives back unchanged from within quotes: no control characters,
 * no line separators, no byte order mark. */
bool text_is_printable(const char *text, size_t size);

#endif
