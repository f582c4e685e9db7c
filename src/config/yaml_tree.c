#include "yaml_tree.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static const char ALIAS_REFUSED[] =
    "aliases (*name) are refused: write the value out; a glob that starts with * needs quotes";

enum { NAME_SHOWN = 400 }; /* bytes of a source's name in a message; leaves room for the reason */

void source_place(char *out, size_t size, const Source *source, size_t line, size_t column) {
    size_t length = strlen(source->name);
    const char *cut = length > NAME_SHOWN ? "..." : "";
    const char *name = length > NAME_SHOWN ? source->name + length - NAME_SHOWN : source->name;
    if (source->is_override || line == 0)
        snprintf(out, size, "%s%s", cut, name);
    else
        snprintf(out, size, "%s%s:%zu:%zu", cut, name, line, column);
}

bool source_fail(Err *err, const Source *source, size_t line, size_t column, const char *format,
                 ...) {
    char place[NAME_SHOWN + 64], message[sizeof((Err *)0)->msg];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    source_place(place, sizeof place, source, line, column);
    return err_set(err, ERR_CONFIG, "%s: %s", place, message);
}

bool fail_memory(Err *err) {
    return err_set(err, ERR_FAILED, "out of memory");
}

static bool fail_tab(Err *err, const Source *source, size_t line, size_t column) {
    return source_fail(err, source, line, column, "tab at %zu:%zu: YAML is indented with spaces",
                       line, column);
}

/* ---- characters ---- */

/* Bytes of the character at p (1 to 4), 0 where it is not UTF-8. */
static size_t utf8_decode(uint32_t *out, const unsigned char *p, size_t left) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800,
                                         0x10000}; /* shorter forms exist below: overlong */
    if (left == 0) return 0;
    size_t length = p[0] < 0x80       ? 1
                    : p[0] >> 5 == 6  ? 2
                    : p[0] >> 4 == 14 ? 3
                    : p[0] >> 3 == 30 ? 4
                                      : 0;
    if (length == 0 || length > left) return 0;
    uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (p[i] >> 6 != 2) return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *out = c;
    return length;
}

/* Control characters, the line breaks of Unicode, the byte order mark and non-characters. */
static bool is_special(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           c == 0xfffe || c == 0xffff;
}

bool text_is_printable(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        uint32_t c;
        size_t length = utf8_decode(&c, p + i, size - i);
        if (length == 0 || is_special(c)) return false;
        i += length;
    }
    return true;
}

void text_show(char *out, size_t size, const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    size_t total = strlen(text), used = 0;
    for (size_t i = 0; i < total;) {
        uint32_t c;
        size_t length = utf8_decode(&c, p + i, total - i);
        bool shown = length > 0 && !is_special(c);
        size_t step = length > 0 ? length : 1, need = shown ? length : 1;
        bool last = i + step == total;
        if (used + need + (last ? 1 : 4) > size) { /* keep room for the dots */
            if (used + 4 <= size) memcpy(out + used, "...", 3), used += 3;
            break;
        }
        if (shown)
            memcpy(out + used, p + i, length);
        else
            out[used] = '?';
        used += need;
        i += step;
    }
    out[used < size ? used : size - 1] = '\0';
}

/* Finds what libyaml would report late, at another place, or not at all. */
static bool check_characters(const Source *source, const char *text, size_t size, Err *err) {
    const unsigned char *p = (const unsigned char *)text;
    size_t line = 1, column = 1;
    bool indent = true; /* only blanks so far on this line */
    for (size_t i = 0; i < size;) {
        uint32_t c;
        size_t length = utf8_decode(&c, p + i, size - i);
        if (length == 0)
            return source_fail(err, source, line, column,
                               "byte 0x%02x is not UTF-8: save the file as UTF-8", p[i]);
        if (c == 0)
            return source_fail(err, source, line, column,
                               "NUL byte: a config is plain UTF-8 text (was it saved as UTF-16?)");
        if (c == '\t' && indent) return fail_tab(err, source, line, column);
        if (c != '\t' && c != '\n' && c != '\r' && is_special(c))
            return source_fail(err, source, line, column,
                               "character U+%04X is not allowed in a config", (unsigned)c);
        if (c == '\n' || (c == '\r' && (i + 1 == size || p[i + 1] != '\n'))) {
            line++;
            column = 1;
            indent = true;
        } else {
            column++;
            if (c != ' ') indent = false;
        }
        i += length;
    }
    return true;
}

/* ---- building the tree ---- */

typedef struct Builder {
    yaml_parser_t parser;
    const Source *source;
    const char *text;
    size_t size, nodes;
    size_t flow; /* [ and { that are open */
    Err *err;
} Builder;

static bool fail_at(Builder *b, yaml_mark_t mark, const char *reason) {
    return source_fail(b->err, b->source, mark.line + 1, mark.column + 1, "%s", reason);
}

/* the mark counts characters, so its byte has to be looked for */
static bool is_tab_at(const char *text, size_t size, yaml_mark_t mark) {
    size_t i = 0, characters = 0;
    while (i < size && characters < mark.index) {
        i++;
        if (i < size && (text[i] & 0xc0) != 0x80) characters++;
    }
    return i < size && text[i] == '\t';
}

/* libyaml's commonest complaints in the words of someone who writes a config.  Where it gives up
 * late, the place to look at is the one where the construct began. */
static const struct {
    const char *problem, *message;
    bool at_beginning;
} complaints[] = {
    {"could not find expected ':'", "not a \"key: value\" line", true},
    {"mapping values are not allowed in this context",
     "a second \": \" in a value, or no colon in the line before", false},
    {"did not find expected key",
     "the line does not fit here: keys of one section start in the same column", false},
    {"did not find expected <document start>",
     "the line does not fit here: the first key starts further to the right", false},
    {"did not find expected ',' or ']'", "the list is not closed, or lacks a comma", true},
    {"did not find expected ',' or '}'", "the mapping is not closed, or lacks a comma", true},
    {"found unexpected end of stream", "the quote is not closed", true},
    {"found character that cannot start any token",
     "a value cannot start with this character: put the value in quotes", false},
    {"did not find expected alphabetic or numeric character", ALIAS_REFUSED, true},
};

static bool fail_syntax(Builder *b) {
    const yaml_parser_t *p = &b->parser;
    const char *problem = p->problem ? p->problem : "unknown fault";
    yaml_mark_t mark = p->problem_mark;
    if (p->error == YAML_MEMORY_ERROR) return fail_memory(b->err);
    if (is_tab_at(b->text, b->size, mark))
        return fail_tab(b->err, b->source, mark.line + 1, mark.column + 1);
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        if (strcmp(problem, complaints[i].problem) != 0) continue;
        bool beginning = complaints[i].at_beginning && p->context;
        return fail_at(b, beginning ? p->context_mark : mark, complaints[i].message);
    }
    return source_fail(b->err, b->source, mark.line + 1, mark.column + 1, "not YAML: %s", problem);
}

static bool next_event(Builder *b, yaml_event_t *event) {
    return yaml_parser_parse(&b->parser, event) ? true : fail_syntax(b);
}

static bool refuse_anchor_and_tag(Builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
                                  const yaml_char_t *tag) {
    if (anchor)
        return fail_at(b, event->start_mark, "anchors (&name) are refused: write the value out");
    if (tag) return fail_at(b, event->start_mark, "tags (!name) are refused: write the bare value");
    return true;
}

static Node *new_node(Builder *b, NodeType type, yaml_mark_t mark) {
    if (++b->nodes > YAML_MAX_NODES) {
        source_fail(b->err, b->source, mark.line + 1, mark.column + 1,
                    "more than %d values in one config", YAML_MAX_NODES);
        return NULL;
    }
    Node *node = calloc(1, sizeof *node);
    if (!node) {
        fail_memory(b->err);
        return NULL;
    }
    node->type = type;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
}

/* The line at index `line`, without its end and the spaces it begins with, whose number is *indent;
 * *text NULL behind the last. */
static void find_line(const char **text, size_t *length, size_t *indent, const Builder *b,
                      size_t line) {
    const char *p = b->text, *end = b->text + b->size;
    for (; line > 0 && p < end; line--) {
        while (p < end && *p != '\n' && *p != '\r') p++;
        if (p < end) p += *p == '\r' && p + 1 < end && p[1] == '\n' ? 2 : 1;
    }
    *text = line == 0 && p < end ? p : NULL;
    for (*indent = 0; p < end && *p == ' '; p++) ++*indent;
    if (*text) *text = p;
    for (*length = 0; p < end && *p != '\n' && *p != '\r'; p++) ++*length;
}

/* "key: value", "key:" or "- item" */
static bool looks_like_key(const char *text, size_t length) {
    if (length >= 2 && text[0] == '-' && text[1] == ' ') return true;
    for (size_t i = 0; i < length && text[i] != '#'; i++) {
        if (text[i] == ':' && (i + 1 == length || text[i + 1] == ' ')) return true;
    }
    return false;
}

/* YAML would fold the lines of a value into one, which hides the fault until much later.  Where the
 * first of them is complete, the fault is the indentation of the next. */
static bool fail_several_lines(Builder *b, const yaml_event_t *event) {
    size_t line = event->start_mark.line, length, indent;
    const char *text;
    find_line(&text, &length, &indent, b, line);
    bool is_value = b->flow == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                    event->start_mark.column > indent; /* behind a key or a dash */
    do find_line(&text, &length, &indent, b, ++line);
    while (text && length == 0);
    if (is_value && text && looks_like_key(text, length))
        return source_fail(b->err, b->source, line + 1, indent + 1,
                           "the line is indented further than the one before, which is complete: "
                           "keys of one section start in the same column");
    return fail_at(b, event->start_mark,
                   "a value of several lines: is a colon, a comma, a bracket or a quote missing?");
}

static Node *build_scalar(Builder *b, const yaml_event_t *event) {
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (!refuse_anchor_and_tag(b, event, event->data.scalar.anchor, event->data.scalar.tag))
        return NULL;
    if (length > YAML_MAX_SCALAR) {
        source_fail(b->err, b->source, event->start_mark.line + 1, event->start_mark.column + 1,
                    "a value of %zu bytes: at most %d are allowed", length, YAML_MAX_SCALAR);
        return NULL;
    }
    if (event->start_mark.line != event->end_mark.line) {
        fail_several_lines(b, event);
        return NULL;
    }
    if (!text_is_printable(value, length)) {
        fail_at(b, event->start_mark, "a value with a control character in it");
        return NULL;
    }
    Node *node = new_node(b, NODE_SCALAR, event->start_mark);
    if (!node) return NULL;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = malloc(length + 1);
    if (!node->text) {
        free(node);
        fail_memory(b->err);
        return NULL;
    }
    memcpy(node->text, value, length);
    node->text[length] = '\0';
    return node;
}

static bool check_map_key(Builder *b, const Node *key) {
    const char *reason = NULL;
    if (key->type != NODE_SCALAR || key->text[0] == '\0')
        reason = "a key must be a word";
    else if (!key->quoted && strcmp(key->text, "<<") == 0)
        reason = "merge keys (<<) are refused: name the other file with extends";
    if (!reason) return true;
    return source_fail(b->err, b->source, key->line, key->column, "%s", reason);
}

static bool build_node(Builder *b, Node **out, const yaml_event_t *event, size_t depth);

/* The items up to the matching end event, appended to parent. */
static bool build_items(Builder *b, Node *parent, size_t depth) {
    Node **tail = &parent->first;
    for (size_t i = 0;; i++) {
        yaml_event_t event;
        if (!next_event(b, &event)) return false;
        bool at_end = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        bool ok = at_end || build_node(b, tail, &event, depth);
        yaml_event_delete(&event);
        if (!ok) return false;
        if (at_end) {
            parent->count = parent->type == NODE_MAP ? i / 2 : i;
            return true;
        }
        if (parent->type == NODE_MAP && i % 2 == 0 && !check_map_key(b, *tail)) return false;
        tail = &(*tail)->next;
    }
}

static bool build_node(Builder *b, Node **out, const yaml_event_t *event, size_t depth) {
    if (event->type == YAML_ALIAS_EVENT) return fail_at(b, event->start_mark, ALIAS_REFUSED);
    if (event->type == YAML_SCALAR_EVENT) return (*out = build_scalar(b, event)) != NULL;
    if (depth >= YAML_MAX_DEPTH) {
        return source_fail(
            b->err, b->source, event->start_mark.line + 1, event->start_mark.column + 1,
            "nested more than %d deep: sections hold keys, keys hold values or lists",
            YAML_MAX_DEPTH);
    }
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    if (!refuse_anchor_and_tag(
            b, event, is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
            is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag))
        return false;
    bool is_flow = is_map ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                          : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    *out = new_node(b, is_map ? NODE_MAP : NODE_LIST, event->start_mark);
    b->flow += is_flow;
    bool ok = *out && build_items(b, *out, depth + 1);
    b->flow -= is_flow;
    return ok;
}

static bool build_document(Builder *b, Node **out) {
    size_t documents = 0;
    for (;;) {
        yaml_event_t event;
        if (!next_event(b, &event)) return false;
        yaml_event_type_t type = event.type;
        bool ok = true;
        if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
            ok = fail_at(b, event.start_mark, "a second document (---): a config is one document");
        else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                 type == YAML_MAPPING_START_EVENT || type == YAML_ALIAS_EVENT)
            ok = build_node(b, out, &event, 0);
        yaml_event_delete(&event);
        if (!ok || type == YAML_STREAM_END_EVENT) return ok;
    }
}

bool yaml_tree_parse(Node **out, const Source *source, const char *text, size_t size, Err *err) {
    *out = NULL;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, size -= 3; /* byte order mark of UTF-8 */
    if (!check_characters(source, text, size, err)) return false;
    Builder b = {.source = source, .text = text, .size = size, .err = err};
    if (!yaml_parser_initialize(&b.parser)) return fail_memory(err);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, size);
    bool ok = build_document(&b, out);
    yaml_parser_delete(&b.parser);
    if (!ok) {
        yaml_tree_free(*out);
        *out = NULL;
    }
    return ok;
}

void yaml_tree_free(Node *node) {
    while (node) { /* depth is bounded by YAML_MAX_DEPTH, length is not: recurse only downwards */
        Node *next = node->next;
        yaml_tree_free(node->first);
        free(node->text);
        free(node);
        node = next;
    }
}

/* ---- showing ---- */

static void show_node(FILE *f, const Node *node) {
    if (node->type == NODE_SCALAR) {
        fprintf(f, node->quoted ? "\"%s\"" : "%s", node->text);
        return;
    }
    bool is_map = node->type == NODE_MAP;
    fputc(is_map ? '{' : '[', f);
    size_t i = 0;
    for (const Node *item = node->first; item; item = item->next, i++) {
        if (i == 16) { /* more would be cut anyway */
            fputs(", ...", f);
            break;
        }
        if (i > 0) fputs(is_map && i % 2 == 1 ? ": " : ", ", f);
        show_node(f, item);
    }
    fputc(is_map ? '}' : ']', f);
}

void node_show(char *out, size_t size, const Node *node) {
    char *full = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&full, &length);
    if (f) show_node(f, node);
    if (!f || fclose(f) != 0 || !full)
        snprintf(out, size, "?");
    else if (length == 0)
        snprintf(out, size, "(nothing)");
    else
        text_show(out, size, full);
    free(full);
}
