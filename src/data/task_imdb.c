/* Reviews in the layout of the original archive: a file each, .../pos/ID_RATING.txt with ratings 7
 * to 10, .../neg/ID_RATING.txt with ratings 1 to 4. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "task_internal.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The two numbers of ID_RATING.txt, .txt.gz or .txt.zst; false if the name is none. */
static bool parse_name(unsigned *rating, const char *name) {
    size_t id = strspn(name, "0123456789");
    if (id == 0 || name[id] != '_') return false;
    const char *digits = name + id + 1;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 2) return false;
    *rating = (unsigned)atoi(digits);
    const char *ending = digits + count;
    return !strcmp(ending, ".txt") || !strcmp(ending, ".txt.gz") || !strcmp(ending, ".txt.zst");
}

bool task_is_review(const char *path) {
    unsigned rating;
    return parse_name(&rating, base_name(path));
}

/* Name of the folder that a file is in, as its path has it. */
static Span folder_of(const char *path) {
    const char *end = base_name(path);
    if (end == path) return (Span){"", 0};
    end--; /* the slash */
    const char *from = end;
    while (from > path && from[-1] != '/') from--;
    return (Span){from, (size_t)(end - from)};
}

static bool is_folder(Span folder, const char *name) {
    return folder.size == strlen(name) && memcmp(folder.text, name, folder.size) == 0;
}

/* Bytes at p that are read as a space: blanks, `<br />` tags, and U+0080 to U+009F, control
 * characters that a wrong conversion has put in place of dashes and quotation marks.  0: none. */
static size_t space_length(const char *p, size_t left) {
    static const char TAG[] = "<br />";
    enum { TAG_SIZE = sizeof TAG - 1 };
    if (*p == ' ' || (*p >= '\t' && *p <= '\r')) return 1;
    if (left >= TAG_SIZE && memcmp(p, TAG, TAG_SIZE) == 0) return TAG_SIZE;
    return left >= 2 && p[0] == '\xC2' && (unsigned char)p[1] < 0xA0 ? 2 : 0;
}

/* One space for each run of them, none at the ends.  Returns the new size. */
static size_t fold_spaces(char *text, size_t size) {
    size_t filled = 0;
    for (size_t i = 0; i < size;) {
        size_t space = space_length(text + i, size - i);
        if (space == 0)
            text[filled++] = text[i];
        else if (filled > 0 && text[filled - 1] != ' ')
            text[filled++] = ' ';
        i += space ? space : 1;
    }
    return filled > 0 && text[filled - 1] == ' ' ? filled - 1 : filled;
}

bool task_read_review(TaskReader *r, ByteStream *stream, Err *err) {
    Span folder = folder_of(r->place), label = {NULL, 0};
    unsigned rating = 0;
    bool named = parse_name(&rating, base_name(r->place));
    bool positive = is_folder(folder, "pos"), negative = is_folder(folder, "neg");
    if (positive || negative) label = folder;
    bool needed = r->labels == TASK_LABELS_NEEDED;
    if (!label.text && needed) {
        return err_set(err, ERR_FAILED,
                       "%s: a review that is neither in pos/ nor in neg/, so it has no label",
                       r->place);
    }
    if (named && needed &&
        ((positive && (rating < 7 || rating > 10)) || (negative && (rating < 1 || rating > 4)))) {
        return err_set(err, ERR_FAILED, "%s: the name says rating %u, wanted %s", r->place, rating,
                       positive ? "7 to 10 in pos/" : "1 to 4 in neg/");
    }
    TaskText text;
    if (!task_text_load(&text, r, stream, err)) return false;
    size_t offset = (size_t)(text.at - text.base);
    Span row[2] = {{NULL, fold_spaces(text.base + offset, (size_t)(text.end - text.at))},
                   {NULL, 0}};
    row[0].text = task_store(r, text.at, row[0].size, err);
    task_text_free(&text);
    return row[0].text && task_add_row(r, row, label.text ? &label : NULL, 1, err);
}

/* ---- folders */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(const char *folder, const char *name) {
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    while (length > 1 && folder[length - 1] == '/') length--;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%.*s/%s", (int)length, folder, name);
    return path;
}

static void free_list(PathList *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
}

/* Appends folder/name; capacity: of list->items. */
static bool append_path(PathList *list, size_t *capacity, const char *folder, const char *name,
                        Err *err) {
    if (list->count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 256;
        char **grown = realloc(list->items, wanted * sizeof *grown);
        if (!grown) return err_set(err, ERR_FAILED, "%s: no memory for its names", folder);
        list->items = grown;
        *capacity = wanted;
    }
    char *path = join(folder, name);
    if (!path) return err_set(err, ERR_FAILED, "%s: no memory for its names", folder);
    list->items[list->count++] = path;
    return true;
}

/* All files of the folder but hidden ones, in byte order. */
static bool list_reviews(PathList *out, const char *folder, Err *err) {
    bool ok = true;
    size_t capacity = 0;
    DIR *dir = opendir(folder);
    if (!dir) return err_set(err, ERR_FAILED, "%s: cannot open: %s", folder, strerror(errno));
    for (struct dirent *entry; ok && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        if (task_is_review(entry->d_name)) {
            ok = append_path(out, &capacity, folder, entry->d_name, err);
        } else {
            ok = err_set(err, ERR_FAILED, "%s/%s: not the name of a review, wanted ID_RATING.txt",
                         folder, entry->d_name);
        }
    }
    closedir(dir);
    if (ok && out->count == 0)
        ok = err_set(err, ERR_FAILED, "%s: holds no reviews, wanted files ID_RATING.txt", folder);
    if (ok) qsort(out->items, out->count, sizeof *out->items, compare_names);
    return ok;
}

bool task_read_review_folder(TaskReader *r, const char *folder, Err *err) {
    static const char *const parts[] = {"neg", "pos"}; /* as a glob of both would be sorted */
    bool ok = true;
    for (size_t p = 0; ok && p < sizeof parts / sizeof *parts; p++) {
        PathList files = {0};
        char *path = join(folder, parts[p]);
        if (!path) return err_set(err, ERR_FAILED, "%s: no memory for its names", folder);
        if (!io_is_dir(path)) {
            ok = err_set(err, ERR_FAILED,
                         "%s: is a folder without %s/, wanted a file, or a folder that holds pos/ "
                         "and neg/ with the reviews",
                         folder, parts[p]);
        }
        ok = ok && list_reviews(&files, path, err);
        for (size_t i = 0; ok && i < files.count; i++) ok = task_read_path(r, files.items[i], err);
        free_list(&files);
        free(path);
    }
    return ok;
}
