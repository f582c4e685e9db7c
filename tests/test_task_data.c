#include "task_data.h"

#include <stdio.h>
#include <stdlib.h>

#include "batcher.h"
#include "data_fixture.h"
#include "harness.h"
#include "rng.h"
#include "task_fixture.h"
#include "threads.h"

/* Rows to encode, and the tokenizer. */
typedef struct Case {
    Config config;
    Tokenizer *tokenizer;
    FinetuneConfig task;
    TaskFile file;
    char *text;
} Case;

static Case case_new(TokenizerType type) {
    Case c = {0};
    Err err = {0};
    data_fixture_config(&c.config);
    c.config.tokenizer.type = type;
    data_fixture_train(&c.config);
    if (!tokenizer_load(&c.tokenizer, c.config.tokenizer.model, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    c.task = task_fixture_config(TASK_CUSTOM);
    return c;
}

static void case_free(Case *c) {
    tokenizer_destroy(c->tokenizer);
    data_fixture_free(&c->config);
    free(c->file.rows);
    free(c->text);
}

/* Rows of made-up text, between 1 and `longest` bytes; a few are the same as another. */
static void put_rows(Case *c, size_t count, bool pairs, size_t longest) {
    free(c->file.rows);
    free(c->text);
    size_t size = 40000;
    c->text = data_fixture_text(test_seed(), size);
    for (size_t i = 0; i < size; i++) c->text[i] = c->text[i] == '\n' ? ' ' : c->text[i];
    c->file = (TaskFile){.rows = calloc(count, sizeof *c->file.rows), .count = count};
    REQUIRE(c->file.rows != NULL && longest < size);
    c->file.pairs = pairs;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = rng_key(test_seed(), RNG_TEST, 1, i);
        TaskRow *row = &c->file.rows[i];
        row->label = (int32_t)rng_below(key, 0, 4) - 1;
        for (size_t t = 0; t < 1 + (size_t)pairs; t++) {
            double u = rng_uniform(key, 3 + t);
            row->size[t] = 1 + (size_t)((double)longest * u * u); /* many short ones */
            row->text[t] = c->text + rng_below(key, 5 + t, size - longest - 1);
        }
    }
}

static TaskData encode(const Case *c, size_t n) {
    TaskData d;
    Err err = {0};
    if (!task_data_encode(&d, &c->file, &c->task, c->tokenizer, n, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    CHECK_INT(d.count, c->file.count);
    CHECK_INT(d.start[0], 0);
    return d;
}

/* The row's sequence as the contract has it, a token at a time; *cut tells if it was too long. */
static size_t expect(uint32_t *out, bool *cut, const Case *c, const TaskRow *row, size_t n) {
    uint32_t *ids[2] = {NULL, NULL};
    size_t count[2] = {0, 0}, capacity[2] = {0, 0}, size = 0, from = 0;
    bool pair = c->file.pairs;
    Err err = {0};
    for (size_t t = 0; t < 1 + (size_t)pair; t++) {
        REQUIRE(tokenizer_encode(c->tokenizer, &ids[t], &count[t], &capacity[t], row->text[t],
                                 row->size[t], &err));
    }
    *cut = false;
    while (pair && count[0] + count[1] + 4 > n) {
        count[count[0] > count[1] ? 0 : 1]--;
        *cut = true;
    }
    size_t room = n - 2, middle = count[0];
    if (!pair && count[0] > room) {
        *cut = true;
        if (c->task.truncate == TRUNCATE_HEAD) count[0] = room;
        if (c->task.truncate == TRUNCATE_TAIL) from = count[0] - room;
        if (c->task.truncate == TRUNCATE_BOTH) middle = (room + 1) / 2;
    }
    out[size++] = TOKEN_BOS;
    for (size_t i = from; i < count[0]; i++) {
        if (i == middle && *cut) i = count[0] - room / 2;
        if (i < count[0]) out[size++] = ids[0][i];
    }
    out[size++] = TOKEN_EOS;
    if (pair) {
        out[size++] = TOKEN_EOS;
        for (size_t i = 0; i < count[1]; i++) out[size++] = ids[1][i];
        out[size++] = TOKEN_EOS;
    }
    free(ids[0]);
    free(ids[1]);
    return size;
}

static void check_rows(const Case *c, const TaskData *d, size_t n) {
    size_t cuts = 0, longest = 0;
    uint32_t *wanted = malloc(40000 * sizeof *wanted);
    REQUIRE(wanted != NULL);
    for (size_t i = 0; i < d->count; i++) {
        bool cut;
        size_t size = expect(wanted, &cut, c, &c->file.rows[i], n);
        cuts += cut;
        longest = size > longest ? size : longest;
        CHECK_INT(d->labels[i], c->file.rows[i].label);
        if (!CHECK_MSG(task_data_length(d, i) == size && size <= n &&
                           !memcmp(d->ids + d->start[i], wanted, size * sizeof *wanted),
                       "row %zu, n = %zu: %zu tokens, wanted %zu", i, n, task_data_length(d, i),
                       size))
            break;
    }
    CHECK_INT(d->cut, cuts);
    CHECK_INT(d->longest, longest);
    free(wanted);
}

/* Whatever is shared by rows (blocks, caches, threads) changes none of them. */
static void check_all_lengths(TokenizerType type) {
    static const size_t lengths[] = {6, 7, 8, 9, 16, 33, 128, 5000};
    Case c = case_new(type);
    threads_set(3);
    for (int pairs = 0; pairs < 2; pairs++) {
        put_rows(&c, 300, pairs, 600);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            for (int kept = TRUNCATE_HEAD; kept <= (pairs ? TRUNCATE_HEAD : TRUNCATE_BOTH);
                 kept++) {
                c.task.truncate = (Truncate)kept;
                TaskData d = encode(&c, lengths[i]);
                CHECK(lengths[i] == 5000 ? d.cut == 0 : d.cut > 0);
                check_rows(&c, &d, lengths[i]);
                task_data_free(&d);
            }
        }
    }
    case_free(&c);
}

static void test_equals_one_at_a_time(void) {
    check_all_lengths(TOKENIZER_UNIGRAM);
}

static void test_equals_one_at_a_time_cached(void) {
    check_all_lengths(TOKENIZER_BPE);
}

/* What users are told of pairs: the shorter text stays whole where it can, and no room is lost. */
static void test_pair_properties(void) {
    Case c = case_new(TOKENIZER_BPE);
    put_rows(&c, 200, true, 200);
    TaskData whole = encode(&c, 4000);
    for (size_t n = 6; n < 80; n += 3) {
        TaskData d = encode(&c, n);
        for (size_t i = 0; i < d.count; i++) {
            size_t full[2] = {0, 0}, kept[2] = {0, 0};
            const TaskData *both[] = {&whole, &d};
            for (size_t w = 0; w < 2; w++) { /* tokens before and behind `</s></s>` */
                const uint32_t *ids = both[w]->ids + both[w]->start[i];
                size_t *count = w ? kept : full, T = task_data_length(both[w], i);
                while (ids[1 + count[0]] != TOKEN_EOS) count[0]++;
                CHECK(ids[2 + count[0]] == TOKEN_EOS && ids[T - 1] == TOKEN_EOS);
                count[1] = T - count[0] - 4;
            }
            size_t room = n - 4, shorter = full[1] < full[0];
            CHECK(kept[0] <= full[0] && kept[1] <= full[1]);
            bool is_cut = full[0] + full[1] > room;
            CHECK_INT(kept[0] + kept[1], is_cut ? room : full[0] + full[1]);
            if (full[shorter] <= room / 2)
                CHECK_INT(kept[shorter], full[shorter]);
            else if (is_cut)
                CHECK(kept[0] <= kept[1] + 1 && kept[1] <= kept[0]);
        }
        task_data_free(&d);
    }
    task_data_free(&whole);
    case_free(&c);
}

static void test_threads(void) {
    Case c = case_new(TOKENIZER_BPE);
    put_rows(&c, 2000, true, 100);
    threads_set(1);
    TaskData one = encode(&c, 40);
    for (size_t threads = 2; threads <= 5; threads++) {
        threads_set(threads);
        TaskData many = encode(&c, 40);
        CHECK(one.cut == many.cut && one.longest == many.longest);
        CHECK(!memcmp(one.start, many.start, (one.count + 1) * sizeof *one.start));
        CHECK(!memcmp(one.ids, many.ids, one.start[one.count] * sizeof *one.ids));
        CHECK(!memcmp(one.labels, many.labels, one.count * sizeof *one.labels));
        task_data_free(&many);
    }
    task_data_free(&one);
    case_free(&c);
}

static void set_text(Case *c, const char *text) {
    c->file.rows[0].text[0] = text;
    c->file.rows[0].size[0] = strlen(text);
}

/* ASCII letters only: `case: lower` changes neither \xC3\x89 nor any other byte of a character. */
static void test_lower_case(void) {
    Case c = case_new(TOKENIZER_BPE);
    put_rows(&c, 1, false, 10);
    set_text(&c, "KaRo MITES \xC3\x89 @[`{ Z");
    TaskData kept = encode(&c, 200);
    c.task.letters = CASE_LOWER;
    TaskData folded = encode(&c, 200);
    c.task.letters = CASE_KEEP;
    set_text(&c, "karo mites \xC3\x89 @[`{ z");
    TaskData wanted = encode(&c, 200);
    size_t T = task_data_length(&wanted, 0);
    CHECK_INT(task_data_length(&folded, 0), T);
    CHECK(!memcmp(folded.ids, wanted.ids, T * sizeof *wanted.ids));
    CHECK(task_data_length(&kept, 0) != T || memcmp(kept.ids, wanted.ids, T * sizeof *wanted.ids));
    task_data_free(&kept);
    task_data_free(&folded);
    task_data_free(&wanted);
    case_free(&c);
}

/* Texts without tokens, which prediction bears, blanks of all kinds, and no rows at all. */
static void test_odd_texts(void) {
    static const char *const texts[] = {"", " ", "\t \r", "a  b", " a\tb ", "a\xC2\xA0", "<s></s>"};
    Case c = case_new(TOKENIZER_BPE);
    for (int pairs = 0; pairs < 2; pairs++) {
        put_rows(&c, sizeof texts / sizeof *texts, pairs, 10);
        for (size_t i = 0; i < c.file.count; i++) {
            c.file.rows[i].text[pairs] = texts[i];
            c.file.rows[i].size[pairs] = strlen(texts[i]);
        }
        TaskData d = encode(&c, 300);
        check_rows(&c, &d, 300);
        if (!pairs) CHECK_INT(task_data_length(&d, 0), 2);
        task_data_free(&d);
        c.file.count = 0;
        d = encode(&c, 300);
        CHECK(d.start[0] == 0 && d.longest == 0);
        task_data_free(&d);
    }
    case_free(&c);
}

static void test_no_room(void) {
    Case c = case_new(TOKENIZER_BPE);
    for (int pairs = 0; pairs < 2; pairs++) {
        TaskData d;
        Err err = {0};
        put_rows(&c, 3, pairs, 10);
        CHECK(!task_data_encode(&d, &c.file, &c.task, c.tokenizer, pairs ? 5 : 2, &err));
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR(err.msg,
                  pairs ? "model.n = 5: 4 special tokens go around two texts, wanted at least 6"
                        : "model.n = 2: 2 special tokens go around a text, wanted at least 3");
        CHECK(d.ids == NULL && d.start == NULL && d.labels == NULL);
        d = encode(&c, pairs ? 6 : 3);
        task_data_free(&d);
    }
    case_free(&c);
}

/* ---- batches */

enum { ROWS = 60, MOST = 8 };

/* Rows of lengths 1 to MOST in no order; token i of row r is 10 r + i. */
static TaskData data_of_lengths(void) {
    TaskData d = {.count = ROWS};
    d.start = calloc(ROWS + 1, sizeof *d.start);
    d.ids = calloc(ROWS * MOST, sizeof *d.ids);
    d.labels = calloc(ROWS, sizeof *d.labels);
    REQUIRE(d.start && d.ids && d.labels);
    for (size_t r = 0; r < ROWS; r++) {
        size_t T = 1 + rng_below(test_seed(), r, MOST);
        for (size_t i = 0; i < T; i++) d.ids[d.start[r] + i] = (uint32_t)(10 * r + i);
        d.start[r + 1] = d.start[r] + T;
        d.labels[r] = (int32_t)(r % 4) - 1;
    }
    return d;
}

static void test_batch_fill(void) {
    static const size_t rows[] = {7, 0, 59, 7, 12};
    TaskData d = data_of_lengths();
    Batch batch, again;
    Err err = {0};
    REQUIRE(batch_create(&batch, 5, MOST, &err) && batch_create(&again, 1, MOST, &err));
    batch.masked = 3;
    task_batch_fill(&batch, &d, rows, 5, 11, 2);
    CHECK(batch.B == 5 && batch.masked == 0 && batch.start[0] == 0);
    CHECK_INT(batch.total, batch.start[5]);
    for (size_t b = 0; b < 5; b++) {
        size_t row = rows[b], T = task_data_length(&d, row);
        CHECK_INT(batch.start[b + 1] - batch.start[b], T);
        CHECK(!memcmp(batch.ids + batch.start[b], d.ids + d.start[row], T * sizeof *d.ids));
        CHECK_INT(batch.classes[b], d.labels[row] < 0 ? 0 : d.labels[row]);
        task_batch_fill(&again, &d, &row, 1, 11, 2); /* alone: the same key */
        CHECK(again.seq_key[0] == batch.seq_key[b]);
        task_batch_fill(&again, &d, &row, 1, 11, 3);
        CHECK(again.seq_key[0] != batch.seq_key[b]);
        task_batch_fill(&again, &d, &row, 1, 12, 2);
        CHECK(again.seq_key[0] != batch.seq_key[b]);
    }
    CHECK(batch.seq_key[0] == batch.seq_key[3] && batch.seq_key[0] != batch.seq_key[1]);
    batch_destroy(&batch);
    batch_destroy(&again);
    task_data_free(&d);
}

static void test_rows_sort(void) {
    TaskData d = data_of_lengths();
    for (size_t count = 0; count <= ROWS; count++) {
        size_t rows[ROWS + 1], sum = 0, wanted = 0;
        uint64_t key = rng_key(test_seed(), RNG_TEST, 2, count);
        for (size_t i = 0; i < count; i++) rows[i] = rng_permute(key, i, ROWS);
        for (size_t i = 0; i < count; i++) wanted += rows[i] * rows[i];
        rows[count] = 12345;
        task_rows_sort(rows, count, &d);
        for (size_t i = 0; i < count; i++) {
            sum += rows[i] * rows[i];
            if (i == 0) continue;
            size_t x = task_data_length(&d, rows[i - 1]), y = task_data_length(&d, rows[i]);
            CHECK_MSG(x > y || (x == y && rows[i - 1] < rows[i]), "place %zu of %zu", i, count);
        }
        CHECK_INT(sum, wanted);
        CHECK_INT(rows[count], 12345);
    }
    task_data_free(&d);
}

static void test_batch_fit(void) {
    TaskData d = data_of_lengths();
    size_t rows[ROWS];
    for (size_t i = 0; i < ROWS; i++) rows[i] = i;
    task_rows_sort(rows, ROWS, &d);
    for (size_t sequences = 1; sequences <= ROWS; sequences += 7) {
        for (size_t tokens = 1; tokens < 400; tokens += 13) {
            size_t at = 0;
            while (at < ROWS) {
                size_t fit = task_batch_fit(&d, rows + at, ROWS - at, sequences, tokens), sum = 0;
                REQUIRE(fit >= 1 && fit <= ROWS - at);
                for (size_t i = 0; i < fit; i++) sum += task_data_length(&d, rows[at + i]);
                CHECK(fit <= sequences && (sum <= tokens || fit == 1));
                /* not one more */
                if (at + fit < ROWS && fit < sequences)
                    CHECK(sum + task_data_length(&d, rows[at + fit]) > tokens);
                at += fit;
            }
        }
    }
    task_data_free(&d);
}

const Test tests_task_data[] = {
    {"equals_one_at_a_time", test_equals_one_at_a_time, 0},
    {"equals_one_at_a_time_cached", test_equals_one_at_a_time_cached, 0},
    {"pair_properties", test_pair_properties, 0},
    {"threads", test_threads, 0},
    {"lower_case", test_lower_case, 0},
    {"odd_texts", test_odd_texts, 0},
    {"no_room", test_no_room, 0},
    {"batch_fill", test_batch_fill, 0},
    {"rows_sort", test_rows_sort, 0},
    {"batch_fit", test_batch_fit, 0},
    {0},
};
