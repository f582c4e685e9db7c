#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "inspect.h"

enum { LABEL = 20, CELL = 512, COLUMNS = 12 };

static void write_shape(char *out, size_t size, const cJSON *shape) {
    size_t used = 0;
    out[0] = 0;
    for (const cJSON *extent = shape->child; extent && used < size; extent = extent->next)
        used += (size_t)snprintf(out + used, size - used, "%s%.0f",
                                 extent == shape->child ? "" : " x ", extent->valuedouble);
}

static void write_value(char *out, size_t size, const cJSON *value) {
    double number = value->valuedouble;
    if (cJSON_IsArray(value))
        write_shape(out, size, value);
    else if (cJSON_IsString(value))
        snprintf(out, size, "%s", value->valuestring);
    else if (cJSON_IsBool(value))
        snprintf(out, size, "%s", cJSON_IsTrue(value) ? "yes" : "no");
    else if (cJSON_IsNull(value))
        snprintf(out, size, "none");
    else if (number >= 0 && number == floor(number) && number < 1e15)
        snprintf(out, size, "%s", show_count((size_t)number));
    else
        snprintf(out, size, "%.6g", number);
}

/* Widens the columns to what the cells of a row take. */
static void measure_row(int *widths, const cJSON *row) {
    char cell[CELL];
    int i = 0;
    for (const cJSON *member = row->child; member && i < COLUMNS; member = member->next, i++) {
        write_value(cell, sizeof cell, member);
        int length = (int)strlen(cell), name = (int)strlen(member->string);
        if (length > widths[i]) widths[i] = length;
        if (name > widths[i]) widths[i] = name;
    }
}

/* An array of objects; the row with the most members names the columns. */
static void print_table(const cJSON *rows) {
    int widths[COLUMNS] = {0}, most = 0;
    const cJSON *longest = NULL;
    for (const cJSON *row = rows->child; row; row = row->next) {
        measure_row(widths, row);
        if (cJSON_GetArraySize(row) > most) most = cJSON_GetArraySize(row), longest = row;
    }
    for (int heading = 1; heading >= 0; heading--) {
        for (const cJSON *row = heading ? longest : rows->child; row;
             row = heading ? NULL : row->next) {
            char cell[CELL];
            int i = 0;
            for (const cJSON *member = row->child; member && i < COLUMNS;
                 member = member->next, i++) {
                if (heading)
                    snprintf(cell, sizeof cell, "%s", member->string);
                else
                    write_value(cell, sizeof cell, member);
                printf("  %*s", cJSON_IsNumber(member) ? widths[i] : -widths[i], cell);
            }
            putchar('\n');
        }
    }
}

static void print_lines(const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        printf("  %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* An array of texts: one a line, with its index. */
static void print_texts(const cJSON *texts, int indent) {
    int index = 0;
    for (const cJSON *text = texts->child; text; text = text->next)
        printf("%*s%4d  %s\n", indent, "", index++, text->valuestring);
}

static void print_member(const cJSON *member, int indent) {
    char value[CELL];
    if (cJSON_IsObject(member) || (cJSON_IsArray(member) && cJSON_IsObject(member->child))) {
        printf("%*s%s\n", indent, "", member->string);
        if (cJSON_IsArray(member)) print_table(member);
        for (const cJSON *inner = member->child; cJSON_IsObject(member) && inner;
             inner = inner->next)
            print_member(inner, indent + 2);
        return;
    }
    if (cJSON_IsArray(member) && cJSON_IsString(member->child)) {
        printf("%*s%s\n", indent, "", member->string);
        print_texts(member, indent);
        return;
    }
    if (cJSON_IsString(member) && strchr(member->valuestring, '\n')) {
        printf("%*s%s\n", indent, "", member->string);
        print_lines(member->valuestring);
        return;
    }
    write_value(value, sizeof value, member);
    printf("%*s%-*s %s\n", indent, "", LABEL - indent, member->string, value);
}

void inspect_print(const cJSON *object) {
    for (const cJSON *member = object->child; member; member = member->next)
        print_member(member, 0);
}
