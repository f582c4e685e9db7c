/* Files of tasks that are refused: each with one message that says where, found, wanted. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "task_file.h"
#include "task_fixture.h"

typedef struct BadFile {
    TaskKind task;
    const char *name; /* of the file */
    const char *text;
    const char *where;    /* what the message says behind the path */
    const char *parts[3]; /* what else it contains */
} BadFile;

#define SST2   "sentence\tlabel\n"
#define CUSTOM "text\tlabel\n"
#define LONG_LABEL                                                                                 \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"  \
    "1234567890"

static const BadFile bad_tsv[] = {
    /* no rows */
    {TASK_SST2, "a.tsv", "", ": empty", {"wanted a header line"}},
    {TASK_SST2, "a.tsv", "\xEF\xBB\xBF", ": empty", {0}},
    {TASK_SST2, "a.tsv", "\n \r\n", ": empty", {0}},
    {TASK_SST2, "a.tsv", SST2, ": a header line and no rows", {0}},
    {TASK_SST2, "a.tsv", SST2 "\n\n", ": a header line and no rows", {0}},
    {TASK_SST2, "a.tsv.gz", "", ": empty", {0}},
    /* columns of the header */
    {TASK_SST2,
     "a.tsv",
     "index\tsentence\n0\ta\n",
     ":1: no column 'label'; found index, sentence; task sst2 wants sentence, label",
     {"GLUE's test files have no labels"}},
    {TASK_QNLI,
     "a.tsv",
     "index\tquestion\tsentence\n0\ta\tb\n",
     ":1: no column 'label'; found index, question, sentence; task qnli wants question, sentence, "
     "label",
     {"GLUE's test files have no labels"}},
    {TASK_QQP,
     "a.tsv",
     "id\tquestion1\tquestion2\n0\ta\tb\n",
     ":1: no column 'is_duplicate'",
     {"GLUE's test files have no labels"}},
    {TASK_CUSTOM,
     "a.tsv",
     "text\tclass\na\tb\n",
     ":1: no column 'label'; found text, class; task custom wants text, label",
     {"finetune.label names it"}},
    {TASK_CUSTOM,
     "a.tsv",
     "review\tlabel\na\tb\n",
     ":1: no column 'text'; found review, label",
     {"finetune.text"}},
    {TASK_SST2,
     "a.tsv",
     "so good\t1\nso bad\t0\n",
     ":1: no column 'sentence'; found so good, 1",
     {"the first line must name the columns", "finetune.task: custom"}},
    {TASK_SST2,
     "a.tsv",
     "Sentence\tlabel\na\t1\n",
     ":1: no column 'sentence'; found Sentence, label",
     {0}},
    {TASK_SST2,
     "a.tsv",
     "\"sentence\"\t\"label\"\na\t1\n",
     ":1: no column 'sentence'; found \"sentence\", \"label\"",
     {0}},
    {TASK_SST2,
     "a.csv",
     "sentence,label\na,1\n",
     ":1: no column 'sentence'; found sentence,label;",
     {"columns are separated by tabs"}},
    {TASK_SST2,
     "a.tsv",
     "{\"sentence\": \"a\"}\n",
     ":1: no column 'sentence'",
     {"is to end in .jsonl"}},
    {TASK_SST2, "a.tsv", "\n" SST2 "a\t1\n", ":1: a blank line", {0}},
    {TASK_SST2,
     "a.tsv",
     "sentence\tlabel\tlabel\na\t1\t1\n",
     ":1: the column 'label' is there twice, wanted once",
     {0}},
    /* another task's columns */
    {TASK_SST2,
     "a.tsv",
     "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n",
     ":1: found the columns index, question, sentence, label; task sst2 wants sentence, label",
     {"these are the columns of finetune.task: qnli"}},
    {TASK_QNLI,
     "a.tsv",
     SST2 "a\t1\n",
     ":1: no column 'question'; found sentence, label; task qnli wants question, sentence, label",
     {"these are the columns of finetune.task: sst2"}},
    {TASK_IMDB,
     "a.tsv",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
     ":1: no column 'text'; found id, qid1, qid2, question1, question2, is_duplicate",
     {"finetune.task: qqp"}},
    {TASK_QQP, "a.tsv", "text\tlabel\na\t1\n", ":1: no column 'question1'", {"task: imdb"}},
    {TASK_QQP,
     "a.tsv",
     "a\tb\tc\td\te\tf\tg\th\ti\tj\tk\tl\tm\n",
     ":1: no column 'question1'",
     {"j, k, l, ...; task"}},
    {TASK_SST2,
     "a.tsv",
     "a column name that goes on and on and on\tb\n",
     ":1: no column 'sentence'; found a column name that goes on a..., b;",
     {0}},
    /* columns of a row */
    {TASK_SST2, "a.tsv", SST2 "a\t1\nb\n", ":3: 1 column, wanted 2 as in the header", {0}},
    {TASK_SST2,
     "a.tsv",
     SST2 "a\tb\t1\n",
     ":2: 3 columns, wanted 2 as in the header",
     {"a tab inside a text?"}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\t\n", ":2: 3 columns, wanted 2", {0}},
    {TASK_QQP,
     "a.tsv",
     "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t1\n2\tc\nd\t1\n",
     ":3: 2 columns, wanted 4",
     {"a row broken over two lines"}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\n\nb\t0\n", ":3: a blank line", {0}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\r\n  \r\nb\t0\n", ":3: a blank line", {0}},
    /* texts */
    {TASK_SST2, "a.tsv", SST2 "a\t1\n\t0\n", ":3: the text 'sentence' is empty", {0}},
    {TASK_SST2, "a.tsv", SST2 " \r \t1\n", ":2: the text 'sentence' is empty", {0}},
    {TASK_QNLI,
     "a.tsv",
     "question\tsentence\tlabel\na\t\tentailment\n",
     ":2: the text 'sentence' is empty",
     {0}},
    {TASK_SST2,
     "a.tsv",
     SST2 "a\t1\nfianc\xE9 \t1\n",
     ":3: byte 0xe9 at byte 6 of the line is no UTF-8",
     {"iconv -f WINDOWS-1252 -t UTF-8"}},
    {TASK_SST2, "a.tsv", SST2 "abcdefgh\x80 abcdefgh\t1\n", ":2: byte 0x80 at byte 9", {0}},
    {TASK_SST2, "a.tsv", "sent\xFF\n", ":1: byte 0xff at byte 5", {0}},
    {TASK_SST2, "a.tsv", SST2 "\xC0\x80\t1\n", ":2: byte 0xc0 at byte 1", {0}},
    {TASK_SST2, "a.tsv", SST2 "\xED\xA0\x80\t1\n", ":2: byte 0xed at byte 1", {0}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\nb\t1\xE2\x82", ":3: byte 0xe2 at byte 4", {0}},
    /* labels */
    {TASK_SST2,
     "a.tsv",
     SST2 "a\t1\nb\t2\n",
     ":3: the label '2' is not one of the known: 0 or negative, 1 or positive",
     {0}},
    {TASK_QNLI,
     "a.tsv",
     "question\tsentence\tlabel\na\tb\t1\n",
     ":2: the label '1' is not one of the known: entailment, not_entailment",
     {0}},
    {TASK_IMDB,
     "a.tsv",
     "text\tlabel\na\tunsup\n",
     ":2: the label 'unsup' is not one of the known: 0 or neg or negative, 1 or pos or positive",
     {0}},
    {TASK_SST2, "a.tsv", SST2 "a\tPositive\n", ":2: the label 'Positive' is not one", {0}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\r\x1B[m\n", ":2: the label '1??[m' is not one", {0}},
    {TASK_SST2, "a.tsv", SST2 "a\t1 1\n", ":2: the label '1 1' is not one", {0}},
    {TASK_SST2,
     "a.tsv",
     SST2 "a\t1\nb\t-1\n",
     ":3: the label is -1, which stands for none in GLUE's test files; wanted 0 or negative, 1 or "
     "positive",
     {"train.tsv and dev.tsv"}},
    {TASK_SST2, "a.tsv", SST2 "a\t1\nb\t\n", ":3: no label", {0}},
    {TASK_CUSTOM, "a.tsv", CUSTOM "a\tx\nb\t \n", ":3: no label", {0}},
    {TASK_CUSTOM,
     "a.tsv",
     CUSTOM "a\tx\nb\t" LONG_LABEL "\n",
     ":3: a label of 101 bytes, wanted at most 100: is finetune.label: label right?",
     {0}},
    {TASK_CUSTOM, "a.tsv", CUSTOM "a\tx\nb\tx\ry\n", ":3: a control character in the label", {0}},
    {TASK_SST2,
     "a.tsv",
     SST2 "a\t1\nb\t1\n",
     ": every row of the training data has the label 'positive', wanted at least two classes",
     {0}},
    {TASK_CUSTOM,
     "a.tsv",
     CUSTOM "a\tx\n",
     ": the only row of the training data has the label 'x', wanted at least two classes",
     {0}},
};

static const BadFile bad_jsonl[] = {
    {TASK_CUSTOM, "a.jsonl", "", ": empty, wanted one JSON object a line", {0}},
    {TASK_CUSTOM, "a.jsonl", " \n\n", ": empty", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     CUSTOM "a\tb\n",
     ":1: not valid JSON at byte 1 of the line; wanted one JSON object a line",
     {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\",\"label\":}\n",
     ":2: not valid JSON at byte 21",
     {0}},
    {TASK_CUSTOM, "a.jsonl", "[\n{\"text\":\"a\",\"label\":1}\n]\n", ":1: not valid JSON", {0}},
    {TASK_CUSTOM, "a.jsonl", "[1]\n", ":1: not an object; wanted one JSON object a line", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":1} {\"text\":\"b\",\"label\":2}\n",
     ":1: more follows the JSON value at byte 24",
     {0}},
    {TASK_CUSTOM, "a.jsonl", "{\"text\":\"a\",\"label\":1}\n\n{}\n", ":2: a blank line", {0}},
    {TASK_CUSTOM, "a.jsonl", "{\"text\":\"\\ud800\",\"label\":1}\n", ":1: not valid JSON", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\\\\\\u0000b\",\"label\":1}\n",
     ":1: a NUL (\\u0000)",
     {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"review\":\"a\",\"label\":1}\n",
     ":1: no member 'text'; found review, label; task custom wants text, label",
     {"finetune.text"}},
    {TASK_CUSTOM, "a.jsonl", "{}\n", ":1: no member 'text'; found none", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\"}\n",
     ":2: no member 'label'; found text",
     {"finetune.label names it"}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":1,\"text\":\"b\"}\n",
     ":1: the member 'text' is there twice",
     {0}},
    {TASK_SST2,
     "a.jsonl",
     "{\"question\":\"a\",\"sentence\":\"b\",\"label\":1}\n",
     ":1: found the members question, sentence, label; task sst2 wants sentence, label",
     {"these are the members of finetune.task: qnli"}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":7,\"label\":1}\n",
     ":1: the text 'text' is a number, wanted a string",
     {0}},
    {TASK_CUSTOM, "a.jsonl", "{\"text\":null,\"label\":1}\n", ":1: the text 'text' is null", {0}},
    {TASK_CUSTOM, "a.jsonl", "{\"text\":\"\",\"label\":1}\n", ":1: the text 'text' is empty", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":[1]}\n",
     ":1: the label 'label' is an array, wanted a string, an integer or true/false",
     {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":{\"x\":1}}\n",
     ":1: the label 'label' is an object",
     {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":0.5}\n",
     ":1: the label 'label' is the number 0.5, wanted an integer",
     {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":1e300}\n",
     ":1: the label 'label' is the number 1",
     {0}},
    {TASK_CUSTOM, "a.jsonl", "{\"text\":\"a\",\"label\":null}\n", ":1: no label", {0}},
    {TASK_CUSTOM,
     "a.jsonl",
     "{\"text\":\"a\",\"label\":\"b\\nc\"}\n",
     ":1: a control character in the label",
     {0}},
    {TASK_SST2,
     "a.jsonl",
     "{\"sentence\":\"a\",\"label\":-1}\n",
     ":1: the label is -1",
     {"GLUE's test files"}},
    {TASK_SST2,
     "a.jsonl",
     "{\"sentence\":\"a\",\"label\":true}\n",
     ":1: the label 'true' is not one of the known: 0 or negative",
     {0}},
};

static void check_message(const Err *err, const char *path, const char *where) {
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s%s", path, where);
    CHECK_INT(err->code, ERR_FAILED);
    CHECK_STR_CONTAINS(err->msg, wanted);
}

static void check_table(const BadFile *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const BadFile *b = &files[i];
        FinetuneConfig c = task_fixture_config(b->task);
        TaskFile f;
        Err err = {0};
        if (!CHECK_MSG(!task_fixture_read(&f, &c, NULL, b->name, b->text, TASK_LABELS_NEEDED, &err),
                       "accepted: %s", b->text))
            continue;
        CHECK(f.rows == NULL && f.storage == NULL && f.labels.names == NULL);
        check_message(&err, test_temp_path(b->name), b->where);
        for (size_t p = 0; p < 3 && b->parts[p]; p++) CHECK_STR_CONTAINS(err.msg, b->parts[p]);
    }
}

static void test_tsv(void) {
    check_table(bad_tsv, sizeof bad_tsv / sizeof *bad_tsv);
}

static void test_json_lines(void) {
    check_table(bad_jsonl, sizeof bad_jsonl / sizeof *bad_jsonl);
}

static bool read_path(const char *path, TaskKind task, Err *err) {
    FinetuneConfig c = task_fixture_config(task);
    TaskFile f;
    *err = (Err){0};
    bool ok = task_file_read(&f, &c, NULL, &(PathList){(char **)&path, 1}, TASK_LABELS_NEEDED, err);
    if (ok) task_file_free(&f);
    return ok;
}

static void test_nul(void) {
    static const char tsv[] = SST2 "a\t1\nab\0c\t0\n", json[] = "{\"text\":\"a\0\",\"label\":1}\n";
    Err err;
    const char *path = task_fixture_write("a.tsv", tsv, sizeof tsv - 1);
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ":3: a NUL at byte 3 of the line");
    path = task_fixture_write("a.jsonl", json, sizeof json - 1);
    CHECK(!read_path(path, TASK_CUSTOM, &err));
    check_message(&err, path, ":1: a NUL at byte 11 of the line");
}

/* Faults of the file itself. */
static void test_files(void) {
    Err err;
    const char *path = test_temp_path("missing.tsv");
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ": cannot open: No such file");

    path = task_fixture_write("folder/a.tsv", SST2, sizeof SST2 - 1);
    CHECK(!read_path(test_temp_path("folder"), TASK_SST2, &err));
    check_message(&err, test_temp_path("folder"), ": is a directory, wanted a file");

    path = task_fixture_write("a.tsv.gz", SST2 "a\t1\nb\t0\n", sizeof SST2 + 7);
    CHECK_MSG(read_path(path, TASK_SST2, &err), "%s", err.msg);
    REQUIRE(truncate(path, 30) == 0);
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ": the compressed data ends too early");
    REQUIRE(truncate(path, 0) == 0);
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ": 0 bytes, wanted gzip data");

    path = task_fixture_write("plain", SST2 "a\t1\nb\t0\n", sizeof SST2 + 7);
    REQUIRE(rename(path, test_temp_path("b.tsv.gz")) == 0);
    path = test_temp_path("b.tsv.gz");
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ": no gzip data");

    CHECK(!task_file_read(&(TaskFile){0}, &(FinetuneConfig){.task = TASK_SST2}, NULL,
                          &(PathList){0}, TASK_LABELS_NEEDED, &err));
    CHECK_STR_CONTAINS(err.msg, "no files of task sst2");
}

static void test_no_permission(void) {
    Err err;
    const char *path = task_fixture_write("a.tsv", SST2, sizeof SST2 - 1);
    task_fixture_write("acl/pos/1_7.txt", "a", 1);
    task_fixture_write("acl/neg/1_1.txt", "a", 1);
    REQUIRE(chmod(path, 0) == 0 && chmod(test_temp_dir(), 0711) == 0);
    /* root may read anything */
    if (geteuid() == 0 && seteuid(65534) != 0) test_skip("cannot give up root");
    if (access(path, R_OK) == 0 && geteuid() == 0) test_skip("nothing is forbidden here");
    CHECK(!read_path(path, TASK_SST2, &err));
    check_message(&err, path, ": cannot open: Permission denied");
    CHECK(!geteuid() || seteuid(getuid()) == 0);
    REQUIRE(chmod(test_temp_path("acl/neg"), 0) == 0);
    if (geteuid() == 0 && seteuid(65534) != 0) test_skip("cannot give up root");
    CHECK(!read_path(test_temp_path("acl"), TASK_IMDB, &err));
    check_message(&err, test_temp_path("acl/neg"), ": cannot open: Permission denied");
    CHECK(seteuid(getuid()) == 0);
}

/* The second file's faults are those of the second file. */
static void test_second_file(void) {
    FinetuneConfig c = task_fixture_config(TASK_SST2);
    TaskFile f;
    Err err = {0};
    char *paths[2] = {
        (char *)task_fixture_write("1.tsv", SST2 "a\t1\nb\t0\n", sizeof SST2 + 7),
        (char *)task_fixture_write("2.tsv", SST2 "a\t1\nb\t7\n", sizeof SST2 + 7),
    };
    CHECK(!task_file_read(&f, &c, NULL, &(PathList){paths, 2}, TASK_LABELS_NEEDED, &err));
    check_message(&err, paths[1], ":3: the label '7'");
    paths[1] = (char *)task_fixture_write("3.tsv", SST2, sizeof SST2 - 1);
    CHECK(!task_file_read(&f, &c, NULL, &(PathList){paths, 2}, TASK_LABELS_NEEDED, &err));
    check_message(&err, paths[1], ": a header line and no rows");
}

static void test_known_labels(void) {
    char *names[TASK_MAX_CLASSES], words[TASK_MAX_CLASSES][8];
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    TaskFile f;
    Err err = {0};
    for (size_t l = 0; l < TASK_MAX_CLASSES; l++) {
        snprintf(words[l], sizeof words[l], "c%zu", l);
        names[l] = words[l];
    }
    CHECK(!task_fixture_read(&f, &c, &(LabelSet){names, 3}, "a.tsv", CUSTOM "a\tc2\nb\tc3\n",
                             TASK_LABELS_NEEDED, &err));
    check_message(&err, test_temp_path("a.tsv"),
                  ":3: the label 'c3' is not one of the known: c0, c1, c2");
    CHECK(!task_fixture_read(&f, &c, &(LabelSet){names, TASK_MAX_CLASSES}, "a.tsv", CUSTOM "a\tx\n",
                             TASK_LABELS_NEEDED, &err));
    check_message(&err, test_temp_path("a.tsv"),
                  ":2: the label 'x' is not one of the known: c0, c1, c2, c3, c4, c5, c6, c7, c8, "
                  "c9, ... (1000 in all)");
    CHECK(!task_fixture_read(&f, &c, &(LabelSet){names, 3}, "a.tsv", CUSTOM "a\t-1\n",
                             TASK_LABELS_NEEDED, &err));
    check_message(&err, test_temp_path("a.tsv"), ":2: the label '-1' is not one of the known: c0");
}

/* A column of numbers or texts taken for labels. */
static void test_too_many_classes(void) {
    enum { ROWS = TASK_MAX_CLASSES + 1 };
    FinetuneConfig c = task_fixture_config(TASK_CUSTOM);
    TaskFile f;
    Err err = {0};
    char *text = malloc(ROWS * 16 + 64), *at = text + sprintf(text, CUSTOM);
    REQUIRE(text != NULL);
    for (int i = 0; i < ROWS - 1; i++) at += sprintf(at, "a\t%d\n", i);
    f = task_fixture_must_read(&c, "a.tsv", text);
    CHECK_INT(f.labels.count, TASK_MAX_CLASSES);
    task_file_free(&f);
    sprintf(at, "a\t%d\n", ROWS);
    CHECK(!task_fixture_read(&f, &c, NULL, "a.tsv", text, TASK_LABELS_NEEDED, &err));
    check_message(&err, test_temp_path("a.tsv"), ":1002: more than 1000 different labels");
    free(text);
}

static void test_reviews(void) {
    static const struct {
        const char *name, *text, *path, *where;
    } cases[] = {
        {"1/pos/3_4.txt", "a", "1/pos/3_4.txt", ": the name says rating 4, wanted 7 to 10 in pos/"},
        {"2/neg/3_7.txt", "a", "2/neg/3_7.txt", ": the name says rating 7, wanted 1 to 4 in neg/"},
        {"3/neg/3_0.txt", "a", "3/neg/3_0.txt", ": the name says rating 0, wanted 1 to 4 in neg/"},
        {"4/neg/3_1.txt", " <br />", "4/neg/3_1.txt", ":1: the text 'text' is empty"},
        {"5/neg/3_1.txt", "a\nb\xE9", "5/neg/3_1.txt", ":2: byte 0xe9 at byte 2"},
        {"6/neg/3_1.txt", "a", "6", ": is a folder without pos/"},
        {"7/pos/3_7.txt", "a", "7", ": is a folder without neg/"},
        {"8/neg/3_1.txt", "a", "8/neg", ": is a folder without neg/"},
        {"9/neg/3_1.txt", "a", "9/neg/3_1.txt", ": the only row"},
    };
    Err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        task_fixture_write(cases[i].name, cases[i].text, strlen(cases[i].text));
        CHECK(!read_path(test_temp_path(cases[i].path), TASK_IMDB, &err));
        check_message(&err, test_temp_path(cases[i].path), cases[i].where);
    }
    task_fixture_write("acl/neg/1_1.txt", "a", 1);
    task_fixture_write("acl/pos/urls.txt", "a", 1);
    CHECK(!read_path(test_temp_path("acl"), TASK_IMDB, &err));
    check_message(&err, test_temp_path("acl/pos/urls.txt"),
                  ": not the name of a review, wanted ID_RATING.txt");
    REQUIRE(unlink(test_temp_path("acl/pos/urls.txt")) == 0);
    CHECK(!read_path(test_temp_path("acl"), TASK_IMDB, &err));
    check_message(&err, test_temp_path("acl/pos"), ": holds no reviews");
}

const Test tests_task_file_bad[] = {
    {"tsv", test_tsv, 0},
    {"json_lines", test_json_lines, 0},
    {"nul", test_nul, 0},
    {"files", test_files, 0},
    {"no_permission", test_no_permission, 0},
    {"second_file", test_second_file, 0},
    {"known_labels", test_known_labels, 0},
    {"too_many_classes", test_too_many_classes, 0},
    {"reviews", test_reviews, 0},
    {0},
};
