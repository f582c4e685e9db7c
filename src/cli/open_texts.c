#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "log.h"

enum { BLOCK_ROWS = 4096 };

/* A file's name says nothing about its texts, and hardly anybody classifies file names. */
static bool check_no_file(const Args *args, Err *err) {
    for (size_t i = 1; i < args->count; i++) {
        const char *text = args->items[i];
        if (!io_is_file(text)) continue;
        return err_set(err, ERR_CONFIG,
                       "TEXT %.200s is the name of a file: --file %.200s reads its rows, <%.200s "
                       "its lines; to have the name itself as a text, give it on stdin",
                       text, text, text);
    }
    return true;
}

bool open_texts(TextSource **out, size_t *block, const Args *args, const FinetuneConfig *task,
                Err *err) {
    const Options *o = &args->options;
    *out = NULL;
    *block = BLOCK_ROWS;
    if (o->file && args->count > 1)
        return err_set(err, ERR_CONFIG,
                       "a text is given and --file %s: give texts as arguments or a file, not both",
                       o->file);
    if (o->file) return text_source_open_file(out, task, o->file, err);
    if (args->count > 1)
        return check_no_file(args, err) &&
               text_source_open_strings(out, args->items + 1, args->count - 1, task_is_pair(task),
                                        err);
    bool terminal = isatty(STDIN_FILENO);
    if (terminal)
        log_info("reading texts from the terminal, one a line%s; Ctrl-D ends",
                 task_is_pair(task) ? ", two with a tab between them" : "");
    if (terminal || o->batch == 1) *block = 1;
    return text_source_open_lines(out, stdin, "stdin", task_is_pair(task), err);
}

void log_text_notes(const TextSource *source) {
    TextNotes notes = text_source_notes(source);
    if (notes.empty)
        log_warn("%s of the %s lines have an empty text (the first: line %s); each has its row all "
                 "the same",
                 show_count(notes.empty), show_count(notes.lines), show_count(notes.first_empty));
    if (notes.tabbed)
        log_warn("%s of the %s lines hold a tab (the first: line %s), which is read as a part of "
                 "the text; --file reads the columns of a table",
                 show_count(notes.tabbed), show_count(notes.lines), show_count(notes.first_tabbed));
}

void log_cut(size_t cut, size_t rows, size_t n, const FinetuneConfig *task) {
    static const char *const kept[] = {[TRUNCATE_HEAD] = "their heads are kept",
                                       [TRUNCATE_TAIL] = "their tails are kept",
                                       [TRUNCATE_BOTH] = "their heads and tails are kept"};
    if (cut == 0) return;
    log_info("%s of %s rows are longer than n = %zu tokens and were cut: %s", show_count(cut),
             show_count(rows), n,
             task_is_pair(task) ? "the longer text of each lost its end" : kept[task->truncate]);
}
