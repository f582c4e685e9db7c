/* What runs come to: which are read, which belong together, and their means. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../src/lab/report_internal.h"
#include "harness.h"
#include "log.h"

/* ---- folders of runs ---- */

static void write_text(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* name: below the folder "runs" of the test; its own folder is made. */
static void write_text(const char *name, const char *format, ...) {
    char path[600], text[2000];
    Err err = {0};
    va_list args;
    snprintf(path, sizeof path, "%s/%s", test_temp_path("runs"), name);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    REQUIRE(io_make_folder_of(path, &err) && io_write_file(path, text, strlen(text), &err));
}

/* A pretraining of 20 steps in two lines; keys: more of the configuration. */
static void write_run(const char *name, const char *keys, int seed, double ppl, double seconds) {
    char path[300];
    snprintf(path, sizeof path, "%s/config.yaml", name);
    write_text(path, "run: there/%s\n%s\ntrain: {steps: 20, seed: %d, batch: 4}\n", name, keys,
               seed);
    snprintf(path, sizeof path, "%s/metrics.jsonl", name);
    write_text(path,
               "{\"step\":10,\"epoch\":0.5,\"tokens\":100,\"loss\":6,\"elapsed_s\":%.9g}\n"
               "{\"step\":20,\"epoch\":1,\"tokens\":200,\"loss\":5,\"elapsed_s\":%.9g,"
               "\"valid_loss\":%.17g,\"valid_ppl\":%.17g}\n",
               seconds / 2, seconds, log(ppl), ppl);
}

static void open_report(Report *out) {
    const char *const folders[] = {test_temp_path("runs")};
    Err err = {0};
    if (!CHECK_MSG(report_open(out, folders, 1, &err), "%s", err.msg)) test_end();
}

static void check_fails(const char *folder, const char *message) {
    Report report;
    Err err = {0};
    CHECK(!report_open(&report, &folder, 1, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, message);
    report_close(&report);
}

static const ReportGroup *group_of(const Report *report, size_t section, const char *label) {
    const ReportSection *s = &report->sections[section];
    for (size_t g = 0; g < s->group_count; g++) {
        char *text = report_group_label(s, &s->groups[g]);
        bool found = text && strcmp(text, label) == 0;
        free(text);
        if (found) return &s->groups[g];
    }
    test_fail(__FILE__, __LINE__, "no group %s", label);
    test_end();
}

/* ---- numbers ---- */

static void test_mean_and_std(void) {
    const double values[] = {1, NAN, 2, INFINITY, 6};
    ReportStat stat = report_stat(values, 5);
    CHECK_INT(stat.count, 3);
    CHECK_CLOSE(stat.mean, 3, 0);
    /* ((1-3)^2 + (2-3)^2 + (6-3)^2) / 2 = 7 */
    CHECK_CLOSE(stat.std, 2.6457513110645906, 1e-15);
    stat = report_stat(values, 2);
    CHECK_INT(stat.count, 1);
    CHECK(stat.mean == 1 && isnan(stat.std));
    stat = report_stat(values + 1, 1);
    CHECK(stat.count == 0 && isnan(stat.mean) && isnan(stat.std));
    stat = report_stat(NULL, 0);
    CHECK(stat.count == 0 && isnan(stat.mean));
}

static void test_order(void) {
    CHECK(report_compare_names("k=16,seed=2", "k=128,seed=1") < 0);
    CHECK(report_compare_names("k=16,seed=10", "k=16,seed=9") > 0);
    CHECK(report_compare_names("a", "a1") < 0 && report_compare_names("a01", "a1") == 0);
    CHECK(report_compare_names("7", "10") < 0 && report_compare_names("", "") == 0);
    CHECK(report_order_values("model.k", "256", "64") > 0);
    CHECK(report_order_values("optimizer.lr", "0.001", "9e-4") > 0);
    CHECK(report_order_values("model.k", "-", "64") > 0);
    CHECK(report_order_values("model.sharing", "layerwise", "kv") > 0);
    CHECK(report_order_values("model.sharing", "none", "headwise") < 0);
}

/* ---- groups ---- */

static void test_groups(void) {
    Report report;
    write_run("k=8,seed=1", "model: {k: 8}", 1, 30, 10);
    write_run("k=8,seed=2", "model: {k: 8}", 2, 34, 14);
    write_run("k=16,seed=1", "model: {k: 16}", 1, 20, 30);
    write_run("k=16,seed=2", "model: {k: 16}\ncheckpoint: {keep: 7}", 2, 21, 31);
    write_run("deep/below/k=4", "model: {k: 4}", 1, 33, 40);
    open_report(&report);
    CHECK_INT(report.run_count, 5);
    REQUIRE(report.section_count == 1);
    const ReportSection *section = &report.sections[0];
    CHECK_STR(section->title, "Pretraining");
    REQUIRE(section->key_count == 1 && section->group_count == 3);
    CHECK_STR(section->keys[0], "model.k");
    CHECK_STR(section->groups[0].values[0], "4");
    CHECK_STR(section->groups[2].values[0], "16");
    const ReportGroup *group = group_of(&report, 0, "k=8");
    CHECK_INT(group->run_count, 2);
    CHECK_INT(group->done, 2);
    CHECK_CLOSE(group->quality.mean, 32, 1e-12);
    CHECK_CLOSE(group->quality.std, 2.8284271247461903, 1e-12); /* sqrt((2^2 + 2^2) / 1) */
    CHECK_CLOSE(group->loss.mean, (log(30) + log(34)) / 2, 1e-12);
    CHECK_CLOSE(group->seconds.mean, 12, 0);
    CHECK_CLOSE(group->tokens_per_s.mean, (200 / 10. + 200 / 14.) / 2, 1e-12);
    CHECK(group->on_front);
    CHECK(group_of(&report, 0, "k=16")->on_front);
    CHECK(!group_of(&report, 0, "k=4")->on_front); /* slower and worse than both */
    CHECK_STR(report.runs[0].name, "deep/below/k=4");
    CHECK_STR(report.runs[1].name, "k=8,seed=1");
    CHECK_STR(report.runs[4].name, "k=16,seed=2");
    report_close(&report);
}

/* Runs of every state; only those that are done and have a number count. */
static void test_states(void) {
    Report report;
    write_run("a", "model: {k: 8}", 1, 30, 10);
    write_run("b", "model: {k: 8}", 2, 90, 10);
    write_text("b/sweep.json", "{\"state\":\"failed\",\"exit_code\":3}");
    write_run("c", "model: {k: 8}", 3, 80, 10);
    write_text("c/metrics.jsonl", "{\"step\":10,\"tokens\":100,\"loss\":6,\"elapsed_s\":5,"
                                  "\"valid_loss\":4,\"valid_ppl\":54.5}\n{\"step\":20,\"tok");
    write_run("d", "model: {k: 8}", 4, 30, 10);
    write_text("d/metrics.jsonl",
               "{\"step\":10,\"tokens\":100,\"loss\":null,\"elapsed_s\":5}\nnoise\n"
               "{\"step\":20,\"tokens\":200,\"loss\":5,\"elapsed_s\":10}\n");
    write_run("e", "model: {k: 8}", 5, 30, 10);
    write_text("e/metrics.jsonl", "%s", "");
    write_text("f/given.yaml", "model: {k: 8}\ntrain: {steps: 20, seed: 6, batch: 4}\n");
    write_text("g/config.yaml", "model: {k: eight}\n");
    write_text("notes.txt", "none of ours");
    write_text("h/metrics.jsonl", "{\"step\":1}\n");
    open_report(&report);
    static const RunState states[] = {RUN_DONE, RUN_FAILED,      RUN_INTERRUPTED,
                                      RUN_DONE, RUN_INTERRUPTED, RUN_INTERRUPTED};
    REQUIRE(report.run_count == 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_MSG(report.runs[i].state == states[i], "%s is %s", report.runs[i].name,
                  sweep_state_name(report.runs[i].state));
    CHECK_INT(report.runs[2].count, 1);
    CHECK_INT(report.runs[2].damaged, 0); /* a line that is being written */
    CHECK_INT(report.runs[3].damaged, 1);
    CHECK(isnan(report.runs[3].points[0].loss) && isnan(report.runs[3].score.ppl));
    CHECK_INT(report.runs[4].count, 0);
    const ReportGroup *group = &report.sections[0].groups[0];
    CHECK_INT(group->run_count, 6);
    CHECK_INT(group->done, 2);
    CHECK_INT(group->quality.count, 1); /* d has no evaluation */
    CHECK_CLOSE(group->quality.mean, 30, 1e-12);
    CHECK_INT(group->seconds.count, 2);
    REQUIRE(report.fault_count == 1);
    CHECK_STR_CONTAINS(report.faults[0].path, "/g");
    CHECK_STR_CONTAINS(report.faults[0].text, "eight");
    report_close(&report);
}

/* One training in two folders is one observation, and the one that is done. */
static void test_repeats(void) {
    Report report;
    write_run("a", "model: {k: 8}", 1, 30, 10);
    write_run("b", "model: {k: 8}", 2, 40, 10);
    write_run("c/a", "model: {k: 8}", 1, 50, 10);
    write_text("a/sweep.json", "{\"state\":\"failed\",\"exit_code\":3}");
    write_run("d/b", "model: {k: 8}", 2, 44, 10);
    write_run("e", "model: {k: 4}", 1, 44, 10);
    open_report(&report);
    REQUIRE(report.run_count == 5);
    const ReportGroup *group = group_of(&report, 0, "k=8");
    CHECK_INT(group->run_count, 2);
    CHECK_INT(group->done, 2);
    CHECK_CLOSE(group->quality.mean, 45, 1e-12);
    CHECK_INT(report.runs[0].repeats, 2);
    CHECK(report.runs[1].repeats == REPORT_NONE && report.runs[2].repeats == REPORT_NONE);
    CHECK_INT(report.runs[3].repeats, 1);
    for (size_t i = 0; i < 4; i++) CHECK_INT(report.runs[i].group, 1);
    report_close(&report);
}

/* ---- axes ---- */

static void test_axes(void) {
    Report report;
    size_t count;
    write_run("1", "model: {k: 8, sharing: kv}", 1, 30, 10);
    write_run("2", "model: {k: 16, sharing: kv}", 1, 29, 10);
    write_run("3", "model: {k: 8, sharing: none}", 1, 28, 10);
    write_run("4", "model: {k: 16, sharing: none}", 1, 27, 10);
    write_run("5", "model: {k: 128, attention: full}", 1, 26, 10);
    open_report(&report);
    const ReportSection *section = &report.sections[0];
    REQUIRE(section->key_count == 3); /* k, sharing, attention */
    ReportAxis *axes = report_axes(&count, section);
    REQUIRE(axes && count == 2);
    const ReportAxis *k = &axes[0];
    CHECK_STR(section->keys[k->key], "model.k");
    CHECK(k->is_numeric);
    REQUIRE(k->value_count == 3 && k->series_count == 3);
    CHECK_STR(k->values[0], "8");
    CHECK_CLOSE(k->numbers[1], 16, 0);
    CHECK_STR(k->values[2], "-"); /* full attention has no k, whatever its config says */
    CHECK_STR(k->series[0], "sharing=none");
    CHECK_STR(k->series[1], "sharing=kv");
    CHECK_STR(k->series[2], "attention=full");
    CHECK_CLOSE(section->groups[k->groups[1]].quality.mean, 27, 1e-12);
    CHECK_CLOSE(section->groups[k->groups[3 + 0]].quality.mean, 30, 1e-12);
    CHECK(k->groups[2] == REPORT_NONE && k->groups[6 + 0] == REPORT_NONE);
    CHECK_CLOSE(section->groups[k->groups[6 + 2]].quality.mean, 26, 1e-12);
    CHECK_STR(section->keys[axes[1].key], "model.sharing");
    CHECK(!axes[1].is_numeric);
    report_axes_free(axes, count);
    report_close(&report);
}

/* Pooling has nothing to share. */
static void test_projections(void) {
    Report report;
    size_t count;
    write_run("1", "model: {k: 8, sharing: kv}", 1, 30, 10);
    write_run("2", "model: {k: 8, sharing: none}", 1, 29, 10);
    write_run("3", "model: {k: 8, sharing: none, projection: fixed}", 1, 28, 10);
    write_run("4", "model: {k: 8, sharing: kv, projection: mean, proj_init_std: 0.5}", 1, 27, 10);
    write_run("5", "model: {k: 8, sharing: none, projection: mean}", 2, 25, 10);
    open_report(&report);
    const ReportSection *section = &report.sections[0];
    REQUIRE(section->key_count == 2 && section->group_count == 4);
    const ReportGroup *group = group_of(&report, 0, "projection=mean");
    CHECK_INT(group->run_count, 2);
    CHECK_CLOSE(group->quality.mean, 26, 1e-12);
    ReportAxis *axes = report_axes(&count, section);
    REQUIRE(axes && count == 2);
    CHECK_STR(section->keys[axes[0].key], "model.sharing");
    REQUIRE(axes[0].series_count == 2);
    CHECK_STR(axes[0].series[0], "projection=linear");
    CHECK_STR(axes[0].series[1], "projection=mean");
    report_axes_free(axes, count);
    report_close(&report);
}

/* Zipped keys are one axis; a value that stands alone is in none. */
static void test_zipped_axes(void) {
    Report report;
    size_t count;
    write_run("1", "model: {n: 128, k: 8}\noptimizer: {lr: 1e-3}", 1, 30, 10);
    write_run("2", "model: {n: 256, k: 8}\noptimizer: {lr: 2e-3}", 1, 29, 10);
    write_run("3", "model: {n: 512, k: 8}\noptimizer: {lr: 4e-3}", 1, 28, 10);
    write_run("4", "model: {n: 64, k: 16}\noptimizer: {lr: 8e-3}", 1, 28, 10);
    open_report(&report);
    ReportAxis *axes = report_axes(&count, &report.sections[0]);
    REQUIRE(axes && count == 1);
    CHECK_STR(report.sections[0].keys[axes[0].key], "model.n");
    CHECK_INT(axes[0].value_count, 4);
    CHECK_STR(axes[0].with, ", lr 0.008, 0.001, 0.002, 0.004");
    CHECK_INT(axes[0].series_count, 1);
    CHECK_STR(axes[0].series[0], "");
    report_axes_free(axes, count);
    report_close(&report);
}

/* ---- fine-tunings ---- */

#define TASK_KEYS "finetune: {task: custom, text: a, label: b, seeds: 3, holdout: 0.1, init: %s}\n"

static void test_finetunings(void) {
    Report report;
    write_run("p8", "model: {k: 8}\noptimizer: {lr: 1e-3}", 1, 30, 10);
    write_run("p16", "model: {k: 16}\noptimizer: {lr: 1e-3}", 1, 20, 10);
    write_run("p16lr", "model: {k: 16}\noptimizer: {lr: 2e-3}", 1, 20, 10);
    write_text(
        "p8/finetune/config.yaml",
        "run: x\nmodel: {k: 8}\ndata: {train: /rows.tsv}\ntrain: {epochs: 1, seed: 4}\n" TASK_KEYS,
        "there/p8/best.ckpt");
    write_text(
        "p8/finetune/results.json",
        "{\"majority\":0.5,\"seeds\":[{\"seed\":4,\"accuracy\":0.8,\"f1\":0.7,\"mcc\":0.6,"
        "\"valid_loss\":0.4,\"steps\":9,\"elapsed_s\":3},{\"seed\":5,\"accuracy\":0.9,\"f1\":"
        "0.8,\"mcc\":0.7,\"valid_loss\":0.3,\"steps\":9,\"elapsed_s\":5}]}");
    write_text("p8/finetune/seed-4/metrics.jsonl",
               "{\"step\":9,\"tokens\":90,\"loss\":0.5,\"elapsed_s\":3,\"valid_loss\":0.4,"
               "\"accuracy\":0.8}\n");
    write_text(
        "p16/finetune/config.yaml",
        "run: y\nmodel: {k: 16}\ndata: {train: /rows.tsv}\ntrain: {epochs: 1, seed: 4}\n" TASK_KEYS,
        "there/p16/best.ckpt");
    write_text("p16lr/finetune/config.yaml",
               "run: z\nmodel: {k: 16}\ndata: {train: /rows.tsv}\ntrain: {epochs: 1, seed: "
               "4}\n" TASK_KEYS,
               "there/p16lr/best.ckpt");
    write_text(
        "p16/finetune/seed-4/result.json",
        "{\"seed\":4,\"accuracy\":0.95,\"f1\":0.9,\"mcc\":0.9,\"valid_loss\":0.2,\"steps\":9,"
        "\"elapsed_s\":3,\"majority\":0.5}");
    write_text("p16/finetune/seed-5/metrics.jsonl", "{\"step\":1,\"loss\":0.7}\n");
    write_text("p16/finetune/seed-5/config.yaml", "model: {k: 16}\n"); /* no run of its own */
    open_report(&report);
    REQUIRE(report.section_count == 2);
    const ReportSection *section = &report.sections[1];
    CHECK(section->is_task);
    CHECK_STR(section->title, "Fine-tuning: rows");
    CHECK_INT(report.run_count, 3 + 2 + 2 + 1); /* the last one has only begun */
    REQUIRE(section->group_count == 3);
    const ReportGroup *group = group_of(&report, 1, "k=8, init=pretrained, lr=0.001");
    CHECK_INT(group->run_count, 2);
    CHECK_CLOSE(group->quality.mean, 0.85, 1e-12);
    CHECK_CLOSE(group->quality.std, 0.070710678118654752, 1e-12);
    CHECK_CLOSE(group->f1.mean, 0.75, 1e-12);
    CHECK_CLOSE(group->seconds.mean, 4, 1e-12);
    group = group_of(&report, 1, "k=16, init=pretrained, lr=0.001");
    CHECK_INT(group->run_count, 2);
    CHECK_INT(group->done, 1);
    CHECK_CLOSE(group->quality.mean, 0.95, 1e-12);
    CHECK_INT(group_of(&report, 1, "k=16, init=pretrained, lr=0.002")->done, 0);
    report_close(&report);
}

/* A fine-tuning that has not begun has the model of its pretraining, but a precision, a head and
 * rates of dropout of its own: it stands beside those that have. */
static void test_own_keys_of_a_finetuning(void) {
    static const char *const files[] = {"config", "given"};
    static const char *const models[] = {
        "model: {k: 16, dropout: 0, attention_dropout: 0.2, head_dropout: 0.3, "
        "head_pooling: mean}\n",
        "model: {dropout: 0, attention_dropout: 0.2, head_dropout: 0.3, head_pooling: mean}\n"};
    Report report;
    write_text("p/config.yaml",
               "run: there/p\nmodel: {k: 16}\ntrain: {steps: 20, batch: 4, precision: fp16}\n");
    for (size_t i = 0; i < 2; i++) {
        char path[40];
        snprintf(path, sizeof path, "q%zu/%s.yaml", i, files[i]);
        write_text(path,
                   "run: y\n%sdata: {train: /rows.tsv}\ntrain: {epochs: 1, seed: %zu}\n" TASK_KEYS,
                   models[i], 4 + 3 * i, "there/p/best.ckpt");
    }
    write_text("q0/seed-4/metrics.jsonl",
               "{\"step\":9,\"loss\":0.5,\"elapsed_s\":3,\"valid_loss\":0.4}\n");
    open_report(&report);
    REQUIRE(report.section_count == 2);
    CHECK(report.sections[1].is_task);
    CHECK_INT(report.sections[1].key_count, 0);
    CHECK_INT(report.sections[1].group_count, 1);
    report_close(&report);
}

/* ---- files ---- */

static void test_texts(void) {
    ReportTable table;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    REQUIRE(out != NULL);
    report_put_csv(out, "a,\"b\"");
    report_put_csv(out, ";plain");
    report_table_begin(&table, "t", 1);
    report_table_put(&table, "a|<b>");
    report_table_put(&table, "n");
    report_table_end_heads(&table);
    report_table_put(&table, "x & \"y\"");
    report_table_put_number(&table, NAN, "%.2f");
    report_write_markdown(out, &table);
    report_write_html(out, &table);
    report_table_free(&table);
    fclose(out);
    CHECK_STR(text, "\"a,\"\"b\"\"\";plain"
                    "| a\\|\\<b\\> | n |\n|---|---:|\n| x & \"y\" | - |\n\n"
                    "<div class=\"scroll\"><table>\n<thead><tr><th>a|&lt;b&gt;</th><th "
                    "class=\"n\">n</th></tr>\n</thead>\n<tbody>\n<tr><td>x &amp; "
                    "&quot;y&quot;</td><td class=\"n\">-</td></tr>\n</tbody></table></div>\n");
    free(text);
}

static void test_nothing(void) {
    log_quiet(true);
    check_fails(test_temp_path("missing"), "no such folder");
    write_text("notes.txt", "%s", "");
    check_fails(test_temp_path("runs"), "no run in it or below: wanted folders with config.yaml");
    write_text("bad/config.yaml", "modle: {}\n");
    check_fails(test_temp_path("runs"), "no run can be read; ");
    write_text("new/config.yaml", "model: {k: 8}\ntrain: {steps: 20}\n");
    check_fails(test_temp_path("runs"), "1 run, and none has a line in metrics.jsonl yet");
}

const Test tests_report[] = {
    {"mean_and_std", test_mean_and_std, 0},
    {"order", test_order, 0},
    {"groups", test_groups, 0},
    {"states", test_states, 0},
    {"repeats", test_repeats, 0},
    {"axes", test_axes, 0},
    {"projections", test_projections, 0},
    {"zipped_axes", test_zipped_axes, 0},
    {"finetunings", test_finetunings, 0},
    {"own_keys_of_a_finetuning", test_own_keys_of_a_finetuning, 0},
    {"texts", test_texts, 0},
    {"nothing", test_nothing, 0},
    {0},
};
