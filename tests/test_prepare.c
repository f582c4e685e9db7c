#define _GNU_SOURCE
#include "prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "data_fixture.h"
#include "harness.h"
#include "io.h"
#include "prepare_fixture.h"
#include "token_file.h"
#include "tokenizer.h"

/* Everything in the tokens is what encoding line by line gives, with `</s>` at document ends. */
static void check_shard(const ManifestShard *shard, const char *text_path, const Tokenizer *t) {
    Bytes text = {0};
    TokenFile f;
    Err err = {0};
    uint32_t *ids = NULL, *stored;
    size_t capacity = 0, at = 0, line_number = 0, documents = 0;
    REQUIRE(io_read_file(&text, text_path, 1 << 24, &err));
    REQUIRE(token_file_open(&f, shard->path, &err));
    CHECK_MSG(token_file_verify(&f, &err), "%s", err.msg);
    stored = malloc((f.count + 1) * sizeof *stored);
    token_file_read(stored, &f, 0, f.count);
    char *line = (char *)text.data, *end = line + text.size;
    while (line < end) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        REQUIRE(newline != NULL);
        if (newline > line) {
            size_t count;
            REQUIRE(
                tokenizer_encode(t, &ids, &count, &capacity, line, (size_t)(newline - line), &err));
            bool ends = newline + 1 == end || newline[1] == '\n';
            REQUIRE(at + count + ends <= f.count);
            CHECK(!memcmp(stored + at, ids, count * sizeof *ids));
            at += count;
            if (ends) {
                CHECK_INT(stored[at], TOKEN_EOS);
                at++;
                documents++;
            }
            CHECK_INT(token_file_line_length(&f, line_number), count + ends);
            line_number++;
        }
        line = newline + 1;
    }
    CHECK_INT(at, f.count);
    CHECK_INT(shard->totals.tokens, at);
    CHECK_INT(shard->totals.lines, line_number);
    CHECK_INT(shard->totals.documents, documents);
    CHECK_INT(shard->totals.text_bytes, text.size);
    CHECK_INT(shard->totals.unknown, 0);
    token_file_close(&f);
    io_bytes_free(&text);
    free(ids);
    free(stored);
}

/* Entropy of one part, from its files, by the definition. */
static double entropy_of(const ManifestPart *part, size_t vocab) {
    double *p = calloc(vocab, sizeof *p), total = 0, entropy = 0;
    for (size_t s = 0; s < part->shard_count; s++) {
        TokenFile f;
        uint32_t id;
        REQUIRE(token_file_open(&f, part->shards[s].path, NULL));
        for (size_t i = 0; i < f.count; i++) {
            token_file_read(&id, &f, i, 1);
            if (id >= TOKEN_SPECIALS) p[id]++, total++;
        }
        token_file_close(&f);
    }
    for (size_t i = 0; i < vocab; i++) {
        if (p[i] > 0) entropy -= p[i] / total * log(p[i] / total);
    }
    free(p);
    return entropy;
}

static void test_accounts_for_everything(void) {
    Config config;
    prepare_fixture_create(&config);
    prepare_fixture_run(&config);
    Manifest m = prepare_fixture_load(&config);
    Tokenizer *t;
    Err err = {0};
    REQUIRE(tokenizer_load(&t, config.tokenizer.model, &err));
    CHECK_INT(m.vocab, DATA_FIXTURE_VOCAB);
    CHECK(m.tokenizer_hash == tokenizer_hash(t));
    CHECK_STR(m.normalizer, "nmt_nfkc");
    REQUIRE(m.train.shard_count == 2 && m.valid.shard_count == 1);
    for (size_t i = 0; i < 2; i++) check_shard(&m.train.shards[i], config.data.train.items[i], t);
    check_shard(&m.valid.shards[0], config.data.valid.items[0], t);
    CHECK_INT(m.train.totals.tokens,
              m.train.shards[0].totals.tokens + m.train.shards[1].totals.tokens);
    CHECK_INT(m.train.totals.documents,
              m.train.shards[0].totals.documents + m.train.shards[1].totals.documents);
    CHECK_CLOSE(m.train.unigram_entropy, entropy_of(&m.train, m.vocab), 1e-9);
    CHECK_CLOSE(m.valid.unigram_entropy, entropy_of(&m.valid, m.vocab), 1e-9);
    CHECK(m.train.unigram_entropy > 3 && m.train.unigram_entropy < log(DATA_FIXTURE_VOCAB));
    tokenizer_destroy(t);
    manifest_free(&m);
    data_fixture_free(&config);
}

static void test_thread_count_does_not_matter(void) {
    Config config;
    prepare_fixture_create(&config);
    prepare_fixture_run(&config);
    Manifest one = prepare_fixture_load(&config);
    Bytes before[3] = {{0}};
    for (size_t i = 0; i < 3; i++) {
        const ManifestShard *s = i < 2 ? &one.train.shards[i] : &one.valid.shards[0];
        REQUIRE(io_read_file(&before[i], s->path, 1 << 24, NULL));
        REQUIRE(remove(s->path) == 0);
    }
    static const size_t threads[] = {2, 3, 8};
    for (size_t k = 0; k < 3; k++) {
        config.train.threads = threads[k];
        prepare_fixture_run(&config);
        Manifest many = prepare_fixture_load(&config);
        CHECK(one.data_hash == many.data_hash);
        for (size_t i = 0; i < 3; i++) {
            const ManifestShard *s = i < 2 ? &many.train.shards[i] : &many.valid.shards[0];
            Bytes now = {0};
            REQUIRE(io_read_file(&now, s->path, 1 << 24, NULL));
            CHECK(now.size == before[i].size && !memcmp(now.data, before[i].data, now.size));
            io_bytes_free(&now);
            REQUIRE(remove(s->path) == 0);
        }
        manifest_free(&many);
    }
    for (size_t i = 0; i < 3; i++) io_bytes_free(&before[i]);
    manifest_free(&one);
    data_fixture_free(&config);
}

static struct timespec modified(const char *path) {
    struct stat st;
    REQUIRE(stat(path, &st) == 0);
    return st.st_mtim;
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void test_stale(void) {
    Config config;
    prepare_fixture_create(&config);
    CHECK(prepare_fixture_is_stale(&config, "nothing is prepared in "));
    prepare_fixture_run(&config);
    Manifest m = prepare_fixture_load(&config);
    struct timespec made[2] = {modified(m.train.shards[0].path), modified(m.train.shards[1].path)};

    /* touched: the hash says that nothing changed, and nothing is prepared again */
    prepare_fixture_set_time(config.data.train.items[0], 1000);
    CHECK(prepare_fixture_is_stale(&config, "the list of text shards changed"));
    prepare_fixture_run(&config);
    CHECK(same_time(made[0], modified(m.train.shards[0].path)));

    /* changed: only that one is prepared again */
    prepare_fixture_rewrite(&config, 1, "Another text.\n");
    CHECK(prepare_fixture_is_stale(&config, "text1.txt has changed"));
    prepare_fixture_run(&config);
    CHECK(same_time(made[0], modified(m.train.shards[0].path)));
    CHECK(!same_time(made[1], modified(m.train.shards[1].path)));
    Manifest now = prepare_fixture_load(&config);
    CHECK(now.data_hash != m.data_hash);
    CHECK_INT(now.train.shards[1].totals.lines, 1);
    manifest_free(&now);

    /* the same size, and the content differs */
    prepare_fixture_rewrite(&config, 1, "Another word.\n");
    CHECK(prepare_fixture_is_stale(&config, "text1.txt has changed"));
    prepare_fixture_run(&config);

    /* a token shard that is gone, cut, or another */
    REQUIRE(truncate(m.train.shards[1].path, 100) == 0);
    CHECK(prepare_fixture_is_stale(&config, "missing or not the manifest's"));
    prepare_fixture_run(&config);
    REQUIRE(remove(m.train.shards[1].path) == 0);
    CHECK(prepare_fixture_is_stale(&config, "missing or not the manifest's"));
    prepare_fixture_run(&config);
    Bytes other = {0};
    REQUIRE(io_read_file(&other, m.valid.shards[0].path, 1 << 20, NULL));
    REQUIRE(io_write_file(m.train.shards[1].path, other.data, other.size, NULL));
    io_bytes_free(&other);
    CHECK(prepare_fixture_is_stale(&config, "missing or not the manifest's"));
    prepare_fixture_run(&config);

    /* another tokenizer: everything */
    config.tokenizer.vocab_size = DATA_FIXTURE_VOCAB - 10;
    made[0] = modified(m.train.shards[0].path);
    data_fixture_train(&config);
    CHECK(prepare_fixture_is_stale(&config, "made with another tokenizer"));
    prepare_fixture_run(&config);
    CHECK(!same_time(made[0], modified(m.train.shards[0].path)));
    manifest_free(&m);
    data_fixture_free(&config);
}

static void test_changed_list(void) {
    Config config;
    prepare_fixture_create(&config);
    prepare_fixture_run(&config);
    CHECK_INT(test_count_files(config.data.tokens), 4);
    Manifest first = prepare_fixture_load(&config);
    /* reversed order: the same shards, another data set */
    char *t = config.data.train.items[0];
    config.data.train.items[0] = config.data.train.items[1];
    config.data.train.items[1] = t;
    CHECK(prepare_fixture_is_stale(&config, "the list of text shards changed"));
    prepare_fixture_run(&config);
    Manifest reversed = prepare_fixture_load(&config);
    CHECK(reversed.data_hash != first.data_hash);
    CHECK_STR(reversed.train.shards[0].path, first.train.shards[1].path);
    /* one dropped: its tokens go too */
    config.data.train.count = 1;
    CHECK(prepare_fixture_is_stale(&config, "the list of text shards changed"));
    prepare_fixture_run(&config);
    CHECK_INT(test_count_files(config.data.tokens), 3);
    CHECK(!io_is_file(first.train.shards[0].path));
    config.data.train.count = 2;
    /* moved from held-out to training text: nothing is encoded again */
    struct timespec made = modified(first.valid.shards[0].path);
    data_fixture_add(&config.data.train, config.data.valid.items[0]);
    config.data.valid.count = 0;
    prepare_fixture_run(&config);
    CHECK(same_time(made, modified(first.valid.shards[0].path)));
    Manifest moved = prepare_fixture_load(&config);
    CHECK_INT(moved.train.shard_count, 3);
    CHECK_INT(moved.valid.shard_count, 0);
    CHECK(moved.valid.unigram_entropy == 0);
    /* named twice: used once */
    data_fixture_add(&config.data.train, config.data.train.items[0]);
    prepare_fixture_run(&config);
    Manifest twice = prepare_fixture_load(&config);
    CHECK_INT(twice.train.shard_count, 3);
    CHECK(twice.data_hash == moved.data_hash);
    config.data.valid.count = 1;
    manifest_free(&first);
    manifest_free(&reversed);
    manifest_free(&moved);
    manifest_free(&twice);
    data_fixture_free(&config);
}

/* Token shards that no text of the config has go, whoever left them; other files stay. */
static void test_unlisted_shards_go(void) {
    static const char *const names[] = {"tokens/old.txt.0123456789abcdef.tok", "tokens/mine.tok",
                                        "tokens/old.txt.0123456789abcdeg.tok", "tokens/notes"};
    Config config;
    prepare_fixture_create(&config);
    prepare_fixture_run(&config);
    for (size_t i = 0; i < 4; i++) free(data_fixture_write(names[i], "x", 1));
    prepare_fixture_rewrite(&config, 1, "Another text.\n");
    prepare_fixture_run(&config);
    for (size_t i = 0; i < 4; i++) CHECK(io_is_file(test_temp_path(names[i])) == (i > 0));
    CHECK_INT(test_count_files(config.data.tokens), 7);
    data_fixture_free(&config);
}

/* Eight shards one after the other take no more memory than two. */
static void test_flat_memory(void) {
#ifdef __SANITIZE_ADDRESS__
    test_skip("the sanitizer keeps freed memory");
#endif
    enum { SIZE = 600000 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    config.train.threads = 2;
    struct rusage before, after;
    for (size_t i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "text%zu.txt", i);
        char *text = data_fixture_text(40 + i, SIZE), *path = data_fixture_write(name, text, SIZE);
        data_fixture_add(&config.data.train, path);
        free(text);
        free(path);
        if (i == 1) {
            prepare_fixture_run(&config);
            getrusage(RUSAGE_SELF, &before);
        }
    }
    prepare_fixture_run(&config);
    getrusage(RUSAGE_SELF, &after);
    CHECK_MSG((double)after.ru_maxrss <= 1.05 * (double)before.ru_maxrss,
              "%ld KiB after two shards, %ld after eight", before.ru_maxrss, after.ru_maxrss);
    data_fixture_free(&config);
}

const Test tests_prepare[] = {
    {"accounts_for_everything", test_accounts_for_everything, 0},
    {"thread_count_does_not_matter", test_thread_count_does_not_matter, 0},
    {"stale", test_stale, 0},
    {"changed_list", test_changed_list, 0},
    {"unlisted_shards_go", test_unlisted_shards_go, 0},
    {"flat_memory", test_flat_memory, 0},
    {0}};
