#include "task_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "task_fixture.h"

static void test_tasks(void) {
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    task_fixture_check(&c, "a.tsv", "sentence\tlabel\nso good\t1\nso bad \t0\n",
                       "positive|so good\nnegative|so bad \n");
    c = task_fixture_config(TASK_QNLI);
    task_fixture_check(&c, "a.tsv",
                       "index\tquestion\tsentence\tlabel\n"
                       "0\tWho?\tHe.\tnot_entailment\n1\tWhy?\tSo.\tentailment\n",
                       "not_entailment|Who?|He.\nentailment|Why?|So.\n");
    c = task_fixture_config(TASK_QQP);
    task_fixture_check(&c, "a.tsv",
                       "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                       "7\t1\t2\tIs it?\tIt is?\t1\n8\t3\t4\tHow?\tWhen?\t0\n",
                       "duplicate|Is it?|It is?\nnot_duplicate|How?|When?\n");
    c = task_fixture_config(TASK_IMDB);
    task_fixture_check(&c, "a.tsv", "text\tlabel\nfine\tpos\nfoul\tneg\nfair\t1\n",
                       "positive|fine\nnegative|foul\npositive|fair\n");
    c = task_fixture_config(TASK_CUSTOM);
    task_fixture_check(&c, "a.tsv", "label\tte\ttext\ttext2\nblue\t1\tsky\t2\nred\t3\trose\t4\n",
                       "blue|sky\nred|rose\n");
}

/* Class numbers of the named tasks are part of every checkpoint, and F1 is that of class 1. */
static void test_class_numbers(void) {
    static const struct {
        TaskKind task;
        const char *text, *names[2];
        int32_t first;
    } cases[] = {
        {TASK_SST2, "label\tsentence\n1\ta\n0\tb\n", {"negative", "positive"}, 1},
        {TASK_QNLI,
         "label\tquestion\tsentence\nentailment\ta\tb\nnot_entailment\tc\td\n",
         {"entailment", "not_entailment"},
         0},
        {TASK_QQP,
         "is_duplicate\tquestion1\tquestion2\n1\ta\tb\n0\tc\td\n",
         {"not_duplicate", "duplicate"},
         1},
        {TASK_IMDB, "label\ttext\n0\ta\n1\tb\n", {"negative", "positive"}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FinetuneConfig c = task_fixture_config(cases[i].task);
        TaskFile f = task_fixture_must_read(&c, "a.tsv", cases[i].text);
        CHECK(f.pairs == task_is_pair(&c));
        REQUIRE(f.labels.count == 2 && f.count == 2);
        for (size_t l = 0; l < 2; l++) CHECK_STR(f.labels.names[l], cases[i].names[l]);
        CHECK_INT(f.rows[0].label, cases[i].first);
        CHECK_INT(f.rows[1].label, 1 - cases[i].first);
        task_file_free(&f);
    }
}

/* Nothing is quoted, escaped or trimmed, so no row can swallow the next. */
static void test_quotation_marks(void) {
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    task_fixture_check(
        &c, "a.tsv",
        "sentence\tlabel\n\" begins\t1\n\"two \"\"\t0\nends \"\t1\n\"\t0\n'\\t\\n\t1\n",
        "positive|\" begins\nnegative|\"two \"\"\npositive|ends \"\nnegative|\"\n"
        "positive|'\\t\\n\n");
}

static void test_line_ends(void) {
    static const char rows[] = "positive|a\nnegative|b c\n";
    static const char *const texts[] = {
        "sentence\tlabel\na\t1\nb c\t0\n",
        "sentence\tlabel\na\t1\nb c\t0",
        "sentence\tlabel\r\na\t1\r\nb c\t0\r\n",
        "sentence\tlabel\r\na\t1\nb c\t0\r",
        "sentence\tlabel\na\t1\nb c\t0\n\n \n\r\n  ",
        "\xEF\xBB\xBFsentence\tlabel\na\t1\nb c\t0\n",
        "sentence\tlabel\na\t 1\nb c\t0 \n",
    };
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        task_fixture_check(&c, "a.tsv", texts[i], rows);
    task_fixture_check(&c, "a.tsv", "label\tsentence\n1\ta\rb\n0\t\xC3\xA9\xE2\x82\xAC\n",
                       "positive|a\rb\nnegative|\xC3\xA9\xE2\x82\xAC\n");
}

static void test_compressed(void) {
    static const char rows[] = "positive|a\nnegative|b c\n";
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    task_fixture_check(&c, "a.tsv.gz", "sentence\tlabel\na\t1\nb c\t0\n", rows);
    task_fixture_check(&c, "a.tsv.zst", "sentence\tlabel\na\t1\nb c\t0\n", rows);
    task_fixture_check(&c, "a.jsonl.gz",
                       "{\"sentence\":\"a\",\"label\":1}\n{\"sentence\":\"b c\",\"label\":0}",
                       rows);
    task_fixture_check(&c, "a.jsonl.zst",
                       "{\"sentence\":\"a\",\"label\":1}\n{\"sentence\":\"b c\",\"label\":0}",
                       rows);
}

/* Larger than any buffer on the way. */
static void check_many_rows(const char *name, const char *header, const char *format) {
    enum { ROWS = 20000, WIDTH = 64 };
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    char *text = malloc(ROWS * WIDTH), *at = text;
    REQUIRE(text != NULL);
    at += sprintf(at, "%s", header);
    for (int i = 0; i < ROWS; i++) {
        char row[WIDTH];
        snprintf(row, sizeof row, "row %d of many", i);
        at += sprintf(at, format, row, i % 3);
    }
    TaskFile f = task_fixture_must_read(&c, name, text);
    REQUIRE(f.count == ROWS && f.labels.count == 3);
    for (size_t i = 0; i < ROWS; i++) {
        char wanted[WIDTH];
        snprintf(wanted, sizeof wanted, "row %zu of many", i);
        if (!CHECK(f.rows[i].size[0] == strlen(wanted) &&
                   !memcmp(f.rows[i].text[0], wanted, strlen(wanted)) &&
                   f.rows[i].label == (int32_t)(i % 3) && f.rows[i].line == i + (*header ? 2 : 1)))
            break;
    }
    task_file_free(&f);
    free(text);
}

static void test_many_rows(void) {
    check_many_rows("a.tsv", "text\tlabel\n", "%s\tc%d\n");
    check_many_rows("a.jsonl", "", "{\"text\":\"%s\",\"label\":%d}\n");
}

/* Texts longer than what small ones share. */
static void test_long_texts(void) {
    enum { LONG = 300000 };
    static const size_t sizes[] = {1, 60000, 65000, 66000, LONG, 10};
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    char *text = malloc(4 * LONG), *at = text;
    REQUIRE(text != NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        at += sprintf(at, "{\"label\":%zu,\"text\":\"", i);
        memset(at, (int)('a' + i), sizes[i]);
        at += sizes[i];
        at += sprintf(at, "\"}\n");
    }
    TaskFile f = task_fixture_must_read(&c, "a.jsonl", text);
    for (size_t i = 0; i < f.count; i++) {
        CHECK_INT(f.rows[i].size[0], sizes[i]);
        for (size_t b = 0; b < sizes[i]; b++)
            if (!CHECK_INT(f.rows[i].text[0][b], 'a' + i)) break;
    }
    task_file_free(&f);
    free(text);
}

/* Files follow one another; each row knows where it was. */
static void test_several_files(void) {
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    TaskFile f;
    Err err = {0};
    char *paths[3] = {
        (char *)task_fixture_write("2.tsv", "sentence\tlabel\nb\t1\nc\t0\n", 23),
        (char *)task_fixture_write("1.tsv.gz", "x\tlabel\tsentence\n-\t1\ta\n", 23),
        (char *)task_fixture_write("3.jsonl", "{\"label\":\"negative\",\"sentence\":\"d\"}", 35),
    };
    CHECK_MSG(task_file_read(&f, &c, NULL, &(PathList){paths, 3}, TASK_LABELS_NEEDED, &err), "%s",
              err.msg);
    char *rows = task_fixture_rows(&f);
    CHECK_STR(rows, "positive|b\nnegative|c\npositive|a\nnegative|d\n");
    REQUIRE(f.count == 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_STR(f.rows[i].place, paths[i < 2 ? 0 : i - 1]);
        CHECK_INT(f.rows[i].line, i == 1 ? 3 : i == 3 ? 1 : 2);
    }
    free(rows);
    task_file_free(&f);
    CHECK(f.rows == NULL && f.count == 0);
}

static void check_order(const char *text, const char *const *names, size_t count) {
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    TaskFile f = task_fixture_must_read(&c, "a.tsv", text);
    CHECK_INT(f.labels.count, count);
    for (size_t l = 0; l < count && l < f.labels.count; l++) CHECK_STR(f.labels.names[l], names[l]);
    for (size_t i = 0; i < f.count; i++) { /* each text is its label's name */
        CHECK_INT(strlen(f.labels.names[f.rows[i].label]), f.rows[i].size[0]);
        CHECK(!memcmp(f.labels.names[f.rows[i].label], f.rows[i].text[0], f.rows[i].size[0]));
    }
    task_file_free(&f);
}

static void test_label_order(void) {
    check_order("label\ttext\n10\t10\n9\t9\n-1\t-1\n2\t2\n9\t9\n",
                (const char *const[]){"-1", "2", "9", "10"}, 4);
    check_order("label\ttext\n10\t10\n9\t9\nx\tx\n2\t2\n",
                (const char *const[]){"10", "2", "9", "x"}, 4);
    check_order("label\ttext\n1.5\t1.5\n10\t10\n9\t9\n", (const char *const[]){"1.5", "10", "9"},
                3);
    check_order("label\ttext\n1\t1\n01\t01\n0\t0\n", (const char *const[]){"0", "01", "1"}, 3);
    check_order("label\ttext\nb\tb\n\xC3\xA4\t\xC3\xA4\nB\tB\nab\tab\na\ta\n",
                (const char *const[]){"B", "a", "ab", "b", "\xC3\xA4"}, 5);
    /* beyond what 64 bits hold */
    check_order("label\ttext\n9\t9\n99999999999999999999\t99999999999999999999\n10\t10\n",
                (const char *const[]){"10", "9", "99999999999999999999"}, 3);
    /* one that strtoll would take for a number */
    check_order("label\ttext\n9\t9\n+10\t+10\n", (const char *const[]){"+10", "9"}, 2);
}

static void test_known_labels(void) {
    char *names[] = {(char *)"z", (char *)"a", (char *)"m"};
    LabelSet known = {names, 3};
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    TaskFile f;
    Err err = {0};
    /* the checkpoint's order, whatever this file's is; one class is enough here */
    CHECK(task_fixture_read(&f, &c, &known, "a.tsv", "text\tlabel\nt\ta\nu\tz\n",
                            TASK_LABELS_NEEDED, &err));
    REQUIRE(f.count == 2 && f.labels.count == 3);
    CHECK(f.rows[0].label == 1 && f.rows[1].label == 0);
    for (size_t l = 0; l < 3; l++) CHECK_STR(f.labels.names[l], names[l]);
    CHECK(f.labels.names[0] != names[0]); /* a copy */
    task_file_free(&f);
    CHECK(task_fixture_read(&f, &c, &known, "a.tsv", "text\tlabel\nt\tm\n", TASK_LABELS_NEEDED,
                            &err));
    CHECK(f.count == 1 && f.rows[0].label == 2);
    task_file_free(&f);
}

/* Whatever is in the place of labels. */
static void test_prediction(void) {
    static const struct {
        TaskKind task;
        const char *name, *text, *rows;
    } cases[] = {
        {TASK_SST2, "a.tsv", "index\tsentence\n0\ta\n1\tb\n", "-|a\n-|b\n"},
        {TASK_SST2, "a.tsv", "sentence\tlabel\na\t-1\nb\t1\nc\t\nd\t7\n", "-|a\n-|b\n-|c\n-|d\n"},
        {TASK_SST2, "a.tsv", "sentence\tlabel\n\t\n \t1\n", "-|\n-| \n"},
        {TASK_QQP, "a.tsv", "id\tquestion1\tquestion2\n0\ta\t\n", "-|a|\n"},
        {TASK_CUSTOM, "a.tsv", "text\na\n\"b\n\n", "-|a\n-|\"b\n"},
        {TASK_SST2, "a.jsonl",
         "{\"sentence\":\"a\"}\n{\"sentence\":\"\",\"label\":null}\n{\"sentence\":\"c\",\"label\":"
         "[0]}",
         "-|a\n-|\n-|c\n"},
    };
    char *names[] = {(char *)"no", (char *)"yes"};
    const LabelSet known = {names, 2};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        FinetuneConfig c = task_fixture_config(cases[i / 2].task);
        TaskFile f;
        Err err = {0};
        if (!CHECK_MSG(task_fixture_read(&f, &c, i % 2 ? &known : NULL, cases[i / 2].name,
                                         cases[i / 2].text, TASK_LABELS_IGNORED, &err),
                       "%s", err.msg))
            continue;
        char *rows = task_fixture_rows(&f);
        CHECK_STR(rows, cases[i / 2].rows);
        free(rows);
        task_file_free(&f);
    }
}

static void test_json_lines(void) {
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    c.text_pair = (char *)"other";
    task_fixture_check(&c, "a.jsonl",
                       "{\"text\":\"a\\u00e9\\n\\\"\",\"other\":\"b\",\"label\":true}\r\n"
                       " { \"label\" : \"false\", \"n\": [1,{}], \"other\": \"c\\\\u0000\", "
                       "\"text\": \"\xF0\x9F\x98\x80\\ud83d\\ude00\" } \n"
                       "{\"text\":\"t\tu\",\"other\":\"v\",\"label\":false}\n\n",
                       "true|a\xC3\xA9\n\"|b\nfalse|\xF0\x9F\x98\x80\xF0\x9F\x98\x80|c\\u0000\n"
                       "false|t\tu|v\n");
    c.text_pair = NULL;
    task_fixture_check(&c, "a.jsonl",
                       "\xEF\xBB\xBF{\"text\":\"a\",\"label\":10}\n{\"text\":\"b\",\"label\":9.0}\n"
                       "{\"text\":\"c\",\"label\":-0}\n{\"text\":\"d\",\"label\":\"7\"}\n"
                       "{\"text\":\"e\",\"label\":1e1}\n{\"text\":\"f\",\"label\":-3}",
                       "10|a\n9|b\n0|c\n7|d\n10|e\n-3|f\n");
}

static void test_memory(void) {
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    static const char text[] = "sentence\tlabel\na\t1\nb\t0\nrest";
    TaskFile f;
    Err err = {0};
    CHECK(task_file_read_memory(&f, &c, NULL, text, sizeof text - 5, "stdin", TASK_LABELS_NEEDED,
                                &err));
    char *rows = task_fixture_rows(&f);
    CHECK_STR(rows, "positive|a\nnegative|b\n");
    CHECK_STR(f.rows[1].place, "stdin");
    free(rows);
    task_file_free(&f);
    CHECK(!task_file_read_memory(&f, &c, NULL, text, sizeof text - 1, "stdin", TASK_LABELS_NEEDED,
                                 &err));
    CHECK_STR_CONTAINS(err.msg, "stdin:4: ");
    CHECK(f.rows == NULL && f.storage == NULL);
}

/* ---- the original IMDB layout */

static void put_reviews(void) {
    static const struct {
        const char *name, *text;
    } files[] = {
        {"acl/pos/2_9.txt", "Good<br /><br />Very <br />  good\n"},
        {"acl/pos/10_7.txt.gz", "\xEF\xBB\xBF Not\tbad \xC2\x96 so"},
        {"acl/pos/.hidden", "x"},
        {"acl/neg/1_1.txt", "\"Bad\" < br />"},
        {"acl/neg/0_4.txt", "caf\xC3\xA9<br />"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        task_fixture_write(files[i].name, files[i].text, strlen(files[i].text));
}

static const char REVIEWS[] = "negative|caf\xC3\xA9\nnegative|\"Bad\" < br />\n"
                              "positive|Not bad so\npositive|Good Very good\n";

static void check_paths(char **paths, size_t count, const char *wanted) {
    FinetuneConfig c = task_fixture_config(TASK_IMDB);
    TaskFile f;
    Err err = {0};
    if (!CHECK_MSG(
            task_file_read(&f, &c, NULL, &(PathList){paths, count}, TASK_LABELS_NEEDED, &err), "%s",
            err.msg))
        return;
    char *rows = task_fixture_rows(&f);
    CHECK_STR(rows, wanted);
    for (size_t i = 0; i < f.count; i++) CHECK(!strstr(f.rows[i].place, "//"));
    free(rows);
    task_file_free(&f);
}

/* A folder gives what its files give one by one, and both go with TSV. */
static void test_reviews(void) {
    put_reviews();
    char *folder[] = {(char *)test_temp_path("acl")}, *slash[] = {(char *)test_temp_path("acl/")};
    check_paths(folder, 1, REVIEWS);
    check_paths(slash, 1, REVIEWS);
    char *files[] = {
        (char *)test_temp_path("acl/pos/2_9.txt"),
        (char *)task_fixture_write("a.tsv", "text\tlabel\na<br />b  c\t0\n", 24),
        (char *)test_temp_path("acl/neg/1_1.txt"),
    };
    check_paths(files, 3,
                "positive|Good Very good\nnegative|a<br />b  c\nnegative|\"Bad\" < br />\n");
}

/* In a folder of another name a review has no label, which prediction does not ask for. */
static void test_reviews_without_label(void) {
    char *path = (char *)task_fixture_write("unsup/5_0.txt", "Hm", 2);
    char *names[] = {(char *)"negative", (char *)"positive"};
    FinetuneConfig c = task_fixture_config(TASK_IMDB);
    TaskFile f;
    Err err = {0};
    CHECK(task_file_read(&f, &c, &(LabelSet){names, 2}, &(PathList){&path, 1}, TASK_LABELS_IGNORED,
                         &err));
    CHECK(f.count == 1 && f.rows[0].label == TASK_NO_LABEL);
    task_file_free(&f);
    CHECK(!task_file_read(&f, &c, NULL, &(PathList){&path, 1}, TASK_LABELS_NEEDED, &err));
    CHECK_STR_CONTAINS(err.msg, "unsup/5_0.txt: a review that is neither in pos/ nor in neg/");
}

static bool expand(PathList *out, const char *pattern, TaskKind task, Err *err) {
    char place[] = "c.yaml:1:1";
    Glob glob = {(char *)test_temp_path(pattern), place};
    return config_expand_task_globs(out, &(GlobList){&glob, 1}, "data.train", task, err);
}

static void test_review_folders_in_globs(void) {
    PathList found;
    Err err = {0};
    put_reviews();
    task_fixture_write("aclImdb/train/pos/1_7.txt", "a", 1);
    task_fixture_write("aclImdb/train/neg/1_3.txt", "b", 1);
    task_fixture_write("aclImdb/test/pos/1_7.txt", "c", 1);
    CHECK_MSG(expand(&found, "acl", TASK_IMDB, &err), "%s", err.msg);
    CHECK_INT(found.count, 1);
    check_paths(found.items, found.count, REVIEWS);
    config_paths_free(&found);
    CHECK_MSG(expand(&found, "acl/*/*.txt*", TASK_IMDB, &err), "%s", err.msg);
    CHECK_INT(found.count, 4);
    check_paths(found.items, found.count, REVIEWS);
    config_paths_free(&found);
    /* test/ lacks neg/, so only train/ is one */
    CHECK_MSG(expand(&found, "aclImdb/*", TASK_IMDB, &err), "%s", err.msg);
    CHECK_INT(found.count, 1);
    check_paths(found.items, found.count, "negative|b\npositive|a\n");
    config_paths_free(&found);
    CHECK(!expand(&found, "aclImdb", TASK_IMDB, &err));
    CHECK_STR_CONTAINS(err.msg,
                       "names only folders: wanted files, or one that holds pos/ and neg/");
    CHECK(!expand(&found, "acl", TASK_SST2, &err));
    CHECK_STR_CONTAINS(err.msg, "names only folders: wanted files, e.g. folder/*.txt");
}

/* A folder together with a file in it would count that file double. */
static void test_overlapping_globs(void) {
    char place[] = "c.yaml:1:1";
    Err err = {0};
    PathList found;
    put_reviews();
    task_fixture_write("acl.tsv", "text\tlabel\n", 11);
    Glob globs[] = {{(char *)test_temp_path("acl/pos/2*"), place},
                    {(char *)test_temp_path("acl"), place},
                    {(char *)test_temp_path("acl.tsv"), place}};
    CHECK(!config_expand_task_globs(&found, &(GlobList){globs, 2}, "data.train", TASK_IMDB, &err));
    CHECK_STR_CONTAINS(err.msg, "acl/pos/2_9.txt: named twice by data.train");
    CHECK(config_expand_task_globs(&found, &(GlobList){globs + 1, 2}, "x", TASK_IMDB, &err));
    config_paths_free(&found);
}

const Test tests_task_file[] = {
    {"tasks", test_tasks, 0},
    {"class_numbers", test_class_numbers, 0},
    {"quotation_marks", test_quotation_marks, 0},
    {"line_ends", test_line_ends, 0},
    {"compressed", test_compressed, 0},
    {"many_rows", test_many_rows, 0},
    {"long_texts", test_long_texts, 0},
    {"several_files", test_several_files, 0},
    {"label_order", test_label_order, 0},
    {"known_labels", test_known_labels, 0},
    {"prediction", test_prediction, 0},
    {"json_lines", test_json_lines, 0},
    {"memory", test_memory, 0},
    {"reviews", test_reviews, 0},
    {"reviews_without_label", test_reviews_without_label, 0},
    {"review_folders_in_globs", test_review_folders_in_globs, 0},
    {"overlapping_globs", test_overlapping_globs, 0},
    {0},
};
