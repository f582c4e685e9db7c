#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report_internal.h"

/* ---- reading ---- */

static bool add_folder(Report *report, const char *folder, Err *err) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    char **grown = report_grow(report->folders, &report->folder_count, sizeof *grown, err);
    if (!grown) return false;
    report->folders = grown;
    grown[report->folder_count - 1] = strndup(folder, length);
    return grown[report->folder_count - 1] ||
           err_set(err, ERR_FAILED, "no memory for the name of a folder");
}

static bool has_points(const Report *report) {
    for (size_t i = 0; i < report->run_count; i++) {
        if (report->runs[i].count > 0 || report->runs[i].state == RUN_DONE) return true;
    }
    return false;
}

/* A report of nothing is more likely the wrong folder. */
static bool check_any(const Report *report, Err *err) {
    const char *folder = report->folders[0];
    if (report->run_count == 0 && report->fault_count > 0)
        return err_set(err, ERR_FAILED, "%s: no run can be read; %s: %s", folder,
                       report->faults[0].path, report->faults[0].text);
    if (report->run_count == 0)
        return err_set(err, ERR_FAILED,
                       "%s: no run in it or below: wanted folders with config.yaml and "
                       "metrics.jsonl, as `linformer pretrain`, `finetune` and `sweep` make them",
                       folder);
    return has_points(report) ||
           err_set(err, ERR_FAILED,
                   "%s: %zu run%s, and none has a line in metrics.jsonl yet: nothing to report",
                   folder, report->run_count, report->run_count == 1 ? "" : "s");
}

bool report_open(Report *out, const char *const *folders, size_t count, Err *err) {
    bool ok = true;
    *out = (Report){0};
    for (size_t i = 0; ok && i < count; i++) ok = add_folder(out, folders[i], err);
    for (size_t i = 0; ok && i < count; i++)
        ok = report_scan(out, out->folders[i], count > 1 ? out->folders[i] : "", err);
    ok = ok && check_any(out, err) && report_make_sections(out, err);
    if (!ok) report_close(out);
    return ok;
}

void report_close(Report *report) {
    for (size_t i = 0; i < report->run_count; i++) report_run_free(&report->runs[i]);
    for (size_t i = 0; i < report->section_count; i++) report_section_free(&report->sections[i]);
    for (size_t i = 0; i < report->folder_count; i++) free(report->folders[i]);
    for (size_t i = 0; i < report->fault_count; i++) {
        free(report->faults[i].path);
        free(report->faults[i].text);
    }
    free(report->runs);
    free(report->sections);
    free(report->folders);
    free(report->faults);
    *report = (Report){0};
}

/* ---- writing ---- */

bool report_begin_file(AtomicFile *out, const char *folder, const char *name, Err *err) {
    char *path = report_path(folder, name, err);
    bool ok = path && io_atomic_open(out, path, err);
    free(path);
    return ok;
}

bool report_end_file(AtomicFile *file, Err *err) {
    if (ferror(file->file) && !file->error) file->error = EIO;
    return io_atomic_commit(file, err);
}

bool report_write(bool *drawn, const Report *report, const char *folder, Err *err) {
    ReportFigures figures = {0};
    bool ok = io_make_dirs(folder, err) && report_write_csv(report, folder, err) &&
              report_draw(&figures, drawn, report, folder, err) &&
              report_write_pages(report, &figures, *drawn, folder, err);
    free(figures.items);
    return ok;
}
