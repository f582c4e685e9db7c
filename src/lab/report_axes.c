/* Values of one key against each other, for each combination of the other keys. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_internal.h"

/* ---- which keys go together ---- */

/* Has b one value wherever a has one? */
static bool follows(const ReportSection *section, size_t a, size_t b) {
    for (size_t i = 0; i < section->group_count; i++) {
        for (size_t j = i + 1; j < section->group_count; j++) {
            char **left = section->groups[i].values, **right = section->groups[j].values;
            if (strcmp(left[a], right[a]) == 0 && strcmp(left[b], right[b]) != 0) return false;
        }
    }
    return true;
}

/* ---- lists of texts ---- */

/* Index of the text in the list, which grows by a copy where it is new; REPORT_NONE without
 * memory. */
static size_t intern(char ***list, size_t *count, const char *text) {
    for (size_t i = 0; i < *count; i++) {
        if (strcmp((*list)[i], text) == 0) return i;
    }
    char *copy = strdup(text),
         **grown = copy ? report_grow(*list, count, sizeof *grown, NULL) : NULL;
    if (!grown) {
        free(copy);
        return REPORT_NONE;
    }
    *list = grown;
    grown[*count - 1] = copy;
    return *count - 1;
}

static void sort_values(char **values, size_t count, const char *key) {
    for (size_t i = 1; i < count; i++) {
        char *moved = values[i];
        size_t j = i;
        for (; j > 0 && report_order_values(key, moved, values[j - 1]) < 0; j--)
            values[j] = values[j - 1];
        values[j] = moved;
    }
}

/* ---- one axis ---- */

/* Has no group with an effect of the axis the value? */
static bool is_only_without(const ReportSection *section, size_t axis, size_t key,
                            const char *value) {
    for (size_t g = 0; g < section->group_count; g++) {
        char **values = section->groups[g].values;
        if (strcmp(values[axis], "-") != 0 && strcmp(values[key], value) == 0) return false;
    }
    return true;
}

/* "sharing=kv" of the keys that count; where the axis has no effect, also of those that say why. */
static char *series_of(const ReportSection *section, size_t axis, const bool *counts,
                       const ReportGroup *group) {
    char *text = NULL;
    size_t size = 0, put = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t k = 0; k < section->key_count; k++) {
        bool says_why = k != axis && strcmp(group->values[axis], "-") == 0 &&
                        is_only_without(section, axis, k, group->values[k]);
        if (counts[k] || says_why) put = report_put_value(out, section, group, k, put);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static bool read_numbers(ReportAxis *axis) {
    axis->numbers = calloc(axis->value_count, sizeof *axis->numbers);
    axis->is_numeric = axis->numbers != NULL;
    for (size_t i = 0; axis->numbers && i < axis->value_count; i++) {
        char *end;
        axis->numbers[i] = strtod(axis->values[i], &end);
        if (!*end && end != axis->values[i]) continue;
        axis->numbers[i] = NAN;
        if (strcmp(axis->values[i], "-") != 0) axis->is_numeric = false;
    }
    return axis->numbers != NULL;
}

/* ", batch 16, 8, 4": what follows the axis from value to value, as far as there is room. */
static char *with_of(const ReportSection *section, const ReportAxis *axis) {
    enum { WITH_MAX = 200 };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t k = 0; k < section->key_count; k++) {
        if (k == axis->key || !follows(section, axis->key, k) || !follows(section, k, axis->key))
            continue;
        fprintf(out, ", %s", report_leaf(section->keys[k]));
        for (size_t i = 0; i < axis->value_count; i++) {
            size_t g = 0;
            while (strcmp(section->groups[g].values[axis->key], axis->values[i]) != 0) g++;
            fprintf(out, "%s %s", i ? "," : "", section->groups[g].values[k]);
        }
    }
    if (fclose(out) == 0) {
        text[report_cut(text, WITH_MAX)] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

/* Values in order, and series; series[g] receives the series of each group. */
static bool fill_lists(ReportAxis *axis, size_t *series, const ReportSection *section,
                       const bool *counts) {
    for (size_t g = 0; g < section->group_count; g++) {
        const ReportGroup *group = &section->groups[g];
        char *text = series_of(section, axis->key, counts, group);
        series[g] = text ? intern(&axis->series, &axis->series_count, text) : REPORT_NONE;
        free(text);
        if (series[g] == REPORT_NONE ||
            intern(&axis->values, &axis->value_count, group->values[axis->key]) == REPORT_NONE)
            return false;
    }
    sort_values(axis->values, axis->value_count, section->keys[axis->key]);
    return read_numbers(axis);
}

/* A series of one value is no comparison, but one without the key is a level to compare with. */
static void drop_series(ReportAxis *axis) {
    size_t kept = 0, width = axis->value_count;
    for (size_t s = 0; s < axis->series_count; s++) {
        size_t found = 0;
        const size_t *row = axis->groups + s * width;
        for (size_t v = 0; v < width; v++) found += row[v] != REPORT_NONE;
        bool is_level =
            width > 0 && strcmp(axis->values[width - 1], "-") == 0 && row[width - 1] != REPORT_NONE;
        if (found < 2 && !is_level) {
            free(axis->series[s]);
            continue;
        }
        memmove(axis->groups + kept * width, row, width * sizeof *row);
        axis->series[kept++] = axis->series[s];
    }
    axis->series_count = kept;
}

static const ReportGroup *first_of(const ReportSection *section, const ReportAxis *axis,
                                   size_t series) {
    const size_t *row = axis->groups + series * axis->value_count;
    while (*row == REPORT_NONE) row++;
    return &section->groups[*row];
}

/* Names the series by what differs between them. */
static bool name_series(ReportAxis *axis, const ReportSection *section, bool *counts) {
    for (size_t k = 0; k < section->key_count; k++) {
        const char *value = NULL;
        bool is_same = true;
        for (size_t s = 0; s < axis->series_count; s++) {
            const char *other = first_of(section, axis, s)->values[k];
            if (strcmp(other, "-") == 0) continue;
            is_same = is_same && (!value || strcmp(value, other) == 0);
            value = other;
        }
        counts[k] = counts[k] && !is_same;
    }
    for (size_t s = 0; s < axis->series_count; s++) {
        char *name = series_of(section, axis->key, counts, first_of(section, axis, s));
        if (!name) return false;
        free(axis->series[s]);
        axis->series[s] = name;
    }
    return true;
}

static bool fill(ReportAxis *axis, const ReportSection *section) {
    size_t *series = calloc(section->group_count + 1, sizeof *series);
    bool *counts = calloc(section->key_count + 1, sizeof *counts);
    bool ok = series && counts;
    for (size_t k = 0; ok && k < section->key_count; k++)
        counts[k] = k != axis->key && !follows(section, axis->key, k);
    ok = ok && fill_lists(axis, series, section, counts);
    size_t cells = axis->series_count * axis->value_count;
    axis->groups = ok ? malloc((cells + 1) * sizeof *axis->groups) : NULL;
    ok = axis->groups != NULL;
    for (size_t i = 0; ok && i < cells; i++) axis->groups[i] = REPORT_NONE;
    for (size_t g = 0; ok && g < section->group_count; g++) {
        size_t v = 0;
        while (strcmp(axis->values[v], section->groups[g].values[axis->key]) != 0) v++;
        axis->groups[series[g] * axis->value_count + v] = g;
    }
    if (ok) drop_series(axis);
    ok = ok && name_series(axis, section, counts);
    axis->with = ok ? with_of(section, axis) : NULL;
    free(series);
    free(counts);
    return axis->with != NULL;
}

static void free_axis(ReportAxis *axis) {
    for (size_t i = 0; i < axis->value_count; i++) free(axis->values[i]);
    for (size_t i = 0; i < axis->series_count; i++) free(axis->series[i]);
    free(axis->values);
    free(axis->series);
    free(axis->numbers);
    free(axis->groups);
    free(axis->with);
    *axis = (ReportAxis){0};
}

/* A key whose every value stands beside another's under the same other keys.  One that follows
 * from an earlier key and that from it is said with that one. */
static bool is_axis(const ReportSection *section, size_t key, const ReportAxis *earlier,
                    size_t count) {
    size_t values = 0;
    for (size_t i = 0; i < count; i++) {
        if (follows(section, earlier[i].key, key) && follows(section, key, earlier[i].key))
            return false;
    }
    for (size_t g = 0; g < section->group_count && values < 2; g++) {
        size_t h = 0;
        const char *value = section->groups[g].values[key];
        while (h < g && strcmp(section->groups[h].values[key], value) != 0) h++;
        values += h == g && strcmp(value, "-") != 0;
    }
    return values >= 2;
}

/* Does any series have two values? */
static bool compares(const ReportAxis *axis) {
    for (size_t s = 0; s < axis->series_count; s++) {
        size_t found = 0;
        for (size_t v = 0; v < axis->value_count; v++)
            found += axis->groups[s * axis->value_count + v] != REPORT_NONE;
        if (found > 1) return true;
    }
    return false;
}

ReportAxis *report_axes(size_t *count, const ReportSection *section) {
    ReportAxis *axes = calloc(section->key_count + 1, sizeof *axes);
    *count = 0;
    for (size_t k = 0; axes && k < section->key_count; k++) {
        if (!is_axis(section, k, axes, *count)) continue;
        axes[*count] = (ReportAxis){.key = k};
        if (!fill(&axes[*count], section)) {
            report_axes_free(axes, *count + 1);
            *count = 0;
            return NULL;
        }
        if (compares(&axes[*count]))
            (*count)++;
        else
            free_axis(&axes[*count]);
    }
    return axes;
}

void report_axes_free(ReportAxis *axes, size_t count) {
    for (size_t i = 0; axes && i < count; i++) free_axis(&axes[i]);
    free(axes);
}
