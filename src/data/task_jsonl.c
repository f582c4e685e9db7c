/* Rows of JSON lines: an object a line, whose members are the columns. */
#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task_internal.h"

/* The members of one object. */
typedef struct Members {
    Span *names;
    const cJSON **values;
    size_t count, capacity;
} Members;

static void members_free(Members *m) {
    free(m->names);
    free(m->values);
}

static bool list_members(Members *m, const cJSON *object, Err *err) {
    m->count = 0;
    for (const cJSON *item = object->child; item; item = item->next) {
        if (m->count == m->capacity) {
            size_t wanted = m->capacity ? 2 * m->capacity : 16;
            Span *names = realloc(m->names, wanted * sizeof *names);
            if (names) m->names = names;
            const cJSON **values = realloc(m->values, wanted * sizeof *values);
            if (values) m->values = values;
            if (!names || !values)
                return err_set(err, ERR_FAILED, "no memory for %zu members", wanted);
            m->capacity = wanted;
        }
        m->names[m->count] = (Span){item->string, strlen(item->string)};
        m->values[m->count++] = item;
    }
    return true;
}

/* cJSON's strings end at the NUL of "\u0000", and the rest would be lost. */
static bool has_escaped_nul(Span line) {
    for (size_t i = 0; i + 1 < line.size; i++) {
        if (line.text[i] != '\\') continue;
        i++; /* the escaped character, which may be a backslash */
        if (line.size - i >= 5 && memcmp(line.text + i, "u0000", 5) == 0) return true;
    }
    return false;
}

static cJSON *parse_line(const TaskReader *r, Span line, size_t number, Err *err) {
    static const char WANTED[] = "wanted one JSON object a line";
    const char *end = line.text;
    if (has_escaped_nul(line)) {
        task_fail(r, number, err, "a NUL (\\u0000), wanted text: remove it");
        return NULL;
    }
    cJSON *object = cJSON_ParseWithLengthOpts(line.text, line.size, &end, false);
    size_t column = (size_t)(end - line.text);
    if (!object) {
        task_fail(r, number, err, "not valid JSON at byte %zu of the line; %s", column + 1, WANTED);
        return NULL;
    }
    while (column < line.size && strchr(" \t\r", line.text[column])) column++;
    if (column == line.size && cJSON_IsObject(object)) return object;
    if (column < line.size) {
        task_fail(r, number, err, "more follows the JSON value at byte %zu of the line; %s",
                  column + 1, WANTED);
    } else {
        task_fail(r, number, err, "not an object; %s", WANTED);
    }
    cJSON_Delete(object);
    return NULL;
}

static const char *kind_of(const cJSON *value) {
    return cJSON_IsString(value)   ? "a string"
           : cJSON_IsNumber(value) ? "a number"
           : cJSON_IsBool(value)   ? "true or false"
           : cJSON_IsNull(value)   ? "null"
           : cJSON_IsArray(value)  ? "an array"
                                   : "an object";
}

/* The label as a word: of a string, an integer or a boolean.  Null is no label: size 0. */
static bool label_word(Span *out, char *buffer, size_t size, const TaskReader *r,
                       const cJSON *value, size_t line, Err *err) {
    const double exact = 9007199254740992; /* 2^53: beyond it neighbours become one double */
    const char *text = NULL;
    if (cJSON_IsString(value)) text = value->valuestring;
    if (cJSON_IsNull(value)) text = "";
    if (cJSON_IsBool(value)) text = cJSON_IsTrue(value) ? "true" : "false";
    if (cJSON_IsNumber(value)) {
        double number = value->valuedouble;
        if (!(fabs(number) <= exact) || number != floor(number)) {
            return task_fail(r, line, err,
                             "the label '%.60s' is the number %.17g, wanted an integer, a string "
                             "or true/false",
                             r->spec.label, number);
        }
        snprintf(buffer, size, "%.0f", number == 0 ? 0.0 : number); /* no -0 */
        text = buffer;
    }
    if (!text) {
        return task_fail(r, line, err,
                         "the label '%.60s' is %s, wanted a string, an integer or true/false",
                         r->spec.label, kind_of(value));
    }
    *out = (Span){text, strlen(text)};
    return true;
}

static bool add_object(TaskReader *r, Members *m, const cJSON *object, size_t line, Err *err) {
    size_t columns[TASK_COLUMNS];
    Span text[2] = {{NULL, 0}, {NULL, 0}}, label;
    char buffer[32];
    if (!list_members(m, object, err)) return false;
    if (!task_columns_find(columns, r, m->names, m->count, line, err)) return false;
    for (size_t t = 0; t < 2 && r->spec.text[t]; t++) {
        const cJSON *value = m->values[columns[t]];
        if (!cJSON_IsString(value)) {
            return task_fail(r, line, err, "the text '%.60s' is %s, wanted a string",
                             r->spec.text[t], kind_of(value));
        }
        text[t].size = strlen(value->valuestring);
        text[t].text = task_store(r, value->valuestring, text[t].size, err);
        if (!text[t].text) return false;
    }
    if (columns[2] == SIZE_MAX) return task_add_row(r, text, NULL, line, err);
    return label_word(&label, buffer, sizeof buffer, r, m->values[columns[2]], line, err) &&
           task_add_row(r, text, &label, line, err);
}

bool task_read_jsonl(TaskReader *r, ByteStream *stream, Err *err) {
    bool ok = false;
    TaskText text;
    Members members = {0};
    r->unit = "member";
    if (!task_text_load(&text, r, stream, err)) return false;
    for (size_t rows = 0;; rows++) {
        bool found;
        Span line;
        if (!task_text_line(&found, &line, &text, r, err)) goto done;
        if (!found && rows == 0)
            err_set(err, ERR_FAILED, "%s: empty, wanted one JSON object a line", r->place);
        ok = !found && rows > 0;
        if (!found) goto done;
        cJSON *object = parse_line(r, line, text.line, err);
        bool added = object && add_object(r, &members, object, text.line, err);
        cJSON_Delete(object);
        if (!added) goto done;
    }
done:
    members_free(&members);
    task_text_free(&text);
    return ok;
}
