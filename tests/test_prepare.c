#define _GNU_SOURCE
#include "prepare.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data_fixture.h"
#include "harness.h"
#include "io.h"
#include "token_file.h"
#include "tokenizer.h"

static void must_prepare(const Config *config) {
    Err err = {0};
    if (!prepare_run(config, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    char reason[600];
    CHECK_MSG(prepare_is_current(config, reason, sizeof reason), "stale right after: %s", reason);
}

static Manifest load(const Config *config) {
    Manifest m;
    Err err = {0};
    if (!manifest_load(&m, config->data.tokens, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return m;
}

static bool stale(const Config *config, const char *why) {
    char reason[600];
    if (!CHECK(!prepare_is_current(config, reason, sizeof reason))) return false;
    return CHECK_STR_CONTAINS(reason, why);
}

/* Prepares whatever is asked for must fail like this. */
static void refuse(const Config *config, ErrCode code, const char *part) {
    Err err = {0};
    if (!CHECK(!prepare_run(config, &err))) return;
    CHECK_STR_CONTAINS(err.msg, part);
    CHECK_INT(err.code, code);
}

/* Two training shards and a held-out one, and the tokenizer. */
static void setup(Config *config) {
    data_fixture_config(config);
    data_fixture_train(config);
    static const size_t sizes[] = {300000, 30000, 20000};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "text%zu.txt", i);
        char *text = data_fixture_text(10 + i, sizes[i]),
             *path = data_fixture_write(name, text, sizes[i]);
        data_fixture_add(i < 2 ? &config->data.train : &config->data.valid, path);
        free(text);
        free(path);
    }
}

static void rewrite(const Config *config, size_t shard, const char *text) {
    REQUIRE(io_write_file(config->data.train.items[shard], text, strlen(text), NULL));
}

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
    setup(&config);
    must_prepare(&config);
    Manifest m = load(&config);
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
    setup(&config);
    must_prepare(&config);
    Manifest one = load(&config);
    Bytes before[3] = {{0}};
    for (size_t i = 0; i < 3; i++) {
        const ManifestShard *s = i < 2 ? &one.train.shards[i] : &one.valid.shards[0];
        REQUIRE(io_read_file(&before[i], s->path, 1 << 24, NULL));
        REQUIRE(remove(s->path) == 0);
    }
    static const size_t threads[] = {2, 3, 8};
    for (size_t k = 0; k < 3; k++) {
        config.train.threads = threads[k];
        must_prepare(&config);
        Manifest many = load(&config);
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

static void set_time(const char *path, long seconds) {
    struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void test_stale(void) {
    Config config;
    setup(&config);
    CHECK(stale(&config, "manifest.json: cannot open"));
    must_prepare(&config);
    Manifest m = load(&config);
    struct timespec made[2] = {modified(m.train.shards[0].path), modified(m.train.shards[1].path)};

    /* touched: the hash says that nothing changed, and nothing is prepared again */
    set_time(config.data.train.items[0], 1000);
    CHECK(stale(&config, "the list of text shards changed"));
    must_prepare(&config);
    CHECK(same_time(made[0], modified(m.train.shards[0].path)));

    /* changed: only that one is prepared again */
    rewrite(&config, 1, "Another text.\n");
    CHECK(stale(&config, "text1.txt has changed"));
    must_prepare(&config);
    CHECK(same_time(made[0], modified(m.train.shards[0].path)));
    CHECK(!same_time(made[1], modified(m.train.shards[1].path)));
    Manifest now = load(&config);
    CHECK(now.data_hash != m.data_hash);
    CHECK_INT(now.train.shards[1].totals.lines, 1);
    manifest_free(&now);

    /* the same size, and the content differs */
    rewrite(&config, 1, "Another word.\n");
    CHECK(stale(&config, "text1.txt has changed"));
    must_prepare(&config);

    /* a token shard that is gone, cut, or another */
    REQUIRE(truncate(m.train.shards[1].path, 100) == 0);
    CHECK(stale(&config, "missing or not the manifest's"));
    must_prepare(&config);
    REQUIRE(remove(m.train.shards[1].path) == 0);
    CHECK(stale(&config, "missing or not the manifest's"));
    must_prepare(&config);
    Bytes other = {0};
    REQUIRE(io_read_file(&other, m.valid.shards[0].path, 1 << 20, NULL));
    REQUIRE(io_write_file(m.train.shards[1].path, other.data, other.size, NULL));
    io_bytes_free(&other);
    CHECK(stale(&config, "missing or not the manifest's"));
    must_prepare(&config);

    /* another tokenizer: everything */
    config.tokenizer.vocab_size = DATA_FIXTURE_VOCAB - 10;
    made[0] = modified(m.train.shards[0].path);
    data_fixture_train(&config);
    CHECK(stale(&config, "made with another tokenizer"));
    must_prepare(&config);
    CHECK(!same_time(made[0], modified(m.train.shards[0].path)));
    manifest_free(&m);
    data_fixture_free(&config);
}

static size_t files_in(const char *dir) {
    size_t count = 0;
    DIR *d = opendir(dir);
    REQUIRE(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void test_changed_list(void) {
    Config config;
    setup(&config);
    must_prepare(&config);
    CHECK_INT(files_in(config.data.tokens), 4);
    Manifest first = load(&config);
    /* reversed order: the same shards, another data set */
    char *t = config.data.train.items[0];
    config.data.train.items[0] = config.data.train.items[1];
    config.data.train.items[1] = t;
    CHECK(stale(&config, "the list of text shards changed"));
    must_prepare(&config);
    Manifest reversed = load(&config);
    CHECK(reversed.data_hash != first.data_hash);
    CHECK_STR(reversed.train.shards[0].path, first.train.shards[1].path);
    /* one dropped: its tokens go too */
    config.data.train.count = 1;
    CHECK(stale(&config, "the list of text shards changed"));
    must_prepare(&config);
    CHECK_INT(files_in(config.data.tokens), 3);
    CHECK(!io_is_file(first.train.shards[0].path));
    config.data.train.count = 2;
    /* moved from held-out to training text: nothing is encoded again */
    struct timespec made = modified(first.valid.shards[0].path);
    data_fixture_add(&config.data.train, config.data.valid.items[0]);
    config.data.valid.count = 0;
    must_prepare(&config);
    CHECK(same_time(made, modified(first.valid.shards[0].path)));
    Manifest moved = load(&config);
    CHECK_INT(moved.train.shard_count, 3);
    CHECK_INT(moved.valid.shard_count, 0);
    CHECK(moved.valid.unigram_entropy == 0);
    /* named twice: used once */
    data_fixture_add(&config.data.train, config.data.train.items[0]);
    must_prepare(&config);
    Manifest twice = load(&config);
    CHECK_INT(twice.train.shard_count, 3);
    CHECK(twice.data_hash == moved.data_hash);
    config.data.valid.count = 1;
    manifest_free(&first);
    manifest_free(&reversed);
    manifest_free(&moved);
    manifest_free(&twice);
    data_fixture_free(&config);
}

static void test_held_out_text_is_not_trained_on(void) {
    Config config;
    setup(&config);
    data_fixture_add(&config.data.valid, config.data.train.items[1]);
    refuse(&config, ERR_CONFIG, "text1.txt: matched by both data.train and data.valid");
    /* under another spelling of the path, as a link, as a copy */
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = strdup(test_temp_path("./text1.txt"));
    refuse(&config, ERR_CONFIG, "matched by both");
    REQUIRE(symlink(config.data.train.items[1], test_temp_path("link.txt")) == 0);
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = strdup(test_temp_path("link.txt"));
    refuse(&config, ERR_CONFIG, "matched by both");
    Bytes text = {0};
    REQUIRE(io_read_file(&text, config.data.train.items[1], 1 << 20, NULL));
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = data_fixture_write("copy.txt", text.data, text.size);
    refuse(&config, ERR_FAILED, "copy.txt (data.valid) has the same content as");
    CHECK(stale(&config, "cannot open")); /* no manifest was written */
    io_bytes_free(&text);
    data_fixture_free(&config);
}

/* Texts that are odd but good, with the counts they must give. */
static void test_odd_texts(void) {
    static const struct {
        const char *text;
        size_t size;
        uint64_t documents, lines, dropped, split, empty;
    } cases[] = {
        {"One document only.", 18, 1, 1, 0, 0, 0},
        {"a", 1, 1, 1, 0, 0, 0},
        {"\n\n\n", 3, 0, 0, 0, 0, 0},
        {"", 0, 0, 0, 0, 0, 0},
        {"A\r\nB\r\n\r\nC\r\n", 11, 2, 3, 0, 0, 0},
        {"nul\0nul\0\n", 9, 1, 1, 2, 0, 0},
        {"bad \xFF\xC0 utf-8\n\n\xE2\x82", 16, 1, 1, 4, 0, 0},
        /* U+200B alone: the normalisation leaves nothing of it */
        {"\xE2\x80\x8B\n\nA\n\xE2\x80\x8B\nB\n", 13, 1, 2, 0, 0, 1},
        {"<mask> </s> <s> <pad> <unk>\n", 28, 1, 1, 0, 0, 0},
    };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    char *good = data_fixture_write("good.txt", "Some good text.\n", 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = data_fixture_write("odd.txt", cases[i].text, cases[i].size);
        data_fixture_add(&config.data.train, good);
        data_fixture_add(&config.data.train, path);
        must_prepare(&config);
        Manifest m = load(&config);
        const TextTotals *t = &m.train.shards[1].totals;
        CHECK_MSG(t->documents == cases[i].documents && t->lines == cases[i].lines &&
                      t->dropped_bytes == cases[i].dropped && t->split_lines == cases[i].split &&
                      t->empty_documents == cases[i].empty,
                  "case %zu: %d documents, %d lines, %d dropped, %d split, %d empty", i,
                  (int)t->documents, (int)t->lines, (int)t->dropped_bytes, (int)t->split_lines,
                  (int)t->empty_documents);
        CHECK_INT(t->text_bytes, cases[i].size);
        manifest_free(&m);
        free(path);
        free(config.data.train.items[0]);
        free(config.data.train.items[1]);
        config.data.train.count = 0;
    }
    free(good);
    data_fixture_free(&config);
}

static void test_long_line(void) {
    enum { SIZE = 1 << 20 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    char *text = data_fixture_text(30, SIZE);
    for (size_t i = 0; i + 1 < SIZE; i++) {
        if (text[i] == '\n') text[i] = ' ';
    }
    char *path = data_fixture_write("one_line.txt", text, SIZE);
    data_fixture_add(&config.data.train, path);
    must_prepare(&config);
    Manifest m = load(&config);
    CHECK_INT(m.train.totals.split_lines, 1);
    CHECK_INT(m.train.totals.documents, 1);
    CHECK(m.train.totals.lines >= SIZE / (16 << 10));
    CHECK(m.train.totals.longest_line > SIZE - 1000); /* double spaces count once */
    manifest_free(&m);
    free(text);
    free(path);
    data_fixture_free(&config);
}

static void test_bad_texts(void) {
    static const struct {
        const char *file, *message;
    } cases[] = {
        {"tests/hostile/data/truncated.txt.gz",
         "truncated.txt.gz: the compressed data ends too early"},
        {"tests/hostile/data/corrupt.txt.zst", "corrupt.txt.zst: corrupt zstd data at byte"},
        {"tests/hostile/data/no_text.jsonl", "no_text.jsonl:2:1: no member \"text\""},
        {"tests/hostile/data/plain.txt.gz", "plain.txt.gz: no gzip data"},
        {"tests/hostile/data/missing.txt",
         "data.valid: tests/hostile/data/missing.txt: cannot open"},
        {"tests/hostile/data", "data.valid: tests/hostile/data: is a directory"},
    };
    Config config;
    setup(&config);
    for (size_t threads = 1; threads <= 2; threads++) {
        config.train.threads = threads;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            free(config.data.valid.items[0]);
            config.data.valid.items[0] = strdup(cases[i].file);
            refuse(&config, ERR_FAILED, cases[i].message);
            CHECK(!io_is_file(test_temp_path("tokens/manifest.json")));
        }
    }
    config.data.train.count = config.data.valid.count = 0;
    refuse(&config, ERR_CONFIG, "data.train and data.valid name no text shard");
    config.data.train.count = 2, config.data.valid.count = 1;
    rewrite(&config, 0, "\n");
    rewrite(&config, 1, "");
    free(config.data.valid.items[0]);
    config.data.valid.items[0] = data_fixture_write("good.txt", "Some good text.\n", 16);
    refuse(&config, ERR_FAILED, "the 2 text shards of data.train hold no text");
    REQUIRE(remove(config.tokenizer.model) == 0);
    refuse(&config, ERR_FAILED, "spm.model: cannot open");
    data_fixture_free(&config);
}

static void test_bad_manifests(void) {
    static const struct {
        const char *find, *replace, *message;
    } cases[] = {
        {"{", "[", "not valid JSON"},
        {"linformer tokens", "linformer tokenz",
         "manifest.json: format: wanted \"linformer tokens\""},
        {"\"version\":\t1", "\"version\":\t2", "version: 2, this program reads 1"},
        {"\"version\"", "\"virsion\"", "version: missing"},
        {"\"vocab\":\t420", "\"vocab\":\t-20", "vocab: wanted a whole number"},
        {"\"vocab\":\t420", "\"vocab\":\t4.5", "vocab: wanted a whole number"},
        {"\"vocab\":\t420", "\"vocab\":1e99", "vocab: wanted a whole number"},
        {"\"data_hash\":\t\"", "\"data_hash\":\t\"x", "data_hash: wanted 16 hexadecimal digits"},
        {"\"train\"", "\"brain\"", "train: missing"},
        {"\"shards\":\t[{", "\"shards\":\t{\"a\":{", "not valid JSON"},
        {"\"unigram_entropy\":\t",
         "\"unigram_entropy\":\t\"\",\"\":", "train.unigram_entropy: wanted a number"},
        {"\"tokens_file\":\t\"", "\"tokens_file\":\t\"../",
         "train.shards[0].tokens_file: wanted a name without a folder"},
        {".tok\"", ".txt\"",
         "train.shards[0].tokens_file: wanted a name without a folder, ending in \".tok\""},
        {"\"text_mtime_ns\":\t\"", "\"text_mtime_ns\":\t\"z",
         "train.shards[0].text_mtime_ns: wanted"},
        {"\"text_path\":\t", "\"text_path\":\t7,\"x\":\t",
         "train.shards[0].text_path: wanted a string"},
    };
    Config config;
    setup(&config);
    must_prepare(&config);
    const char *path = test_temp_path("tokens/manifest.json");
    Bytes good = {0};
    REQUIRE(io_read_file(&good, path, 1 << 20, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *at = strstr((char *)good.data, cases[i].find);
        REQUIRE(at != NULL);
        char *bad = malloc(good.size + 64);
        size_t before = (size_t)(at - (char *)good.data);
        sprintf(bad, "%.*s%s%s", (int)before, good.data, cases[i].replace,
                at + strlen(cases[i].find));
        REQUIRE(io_write_file(path, bad, strlen(bad), NULL));
        Manifest m;
        Err err = {0};
        if (CHECK_MSG(!manifest_load(&m, config.data.tokens, &err), "case %zu accepted", i)) {
            CHECK_STR_CONTAINS(err.msg, cases[i].message);
            CHECK_STR_CONTAINS(err.msg, "prepare the data again");
        }
        CHECK(stale(&config, cases[i].message));
        free(bad);
    }
    for (size_t size = 0; size < good.size - 2; size += 97) {
        Manifest m;
        REQUIRE(io_write_file(path, good.data, size, NULL));
        CHECK(!manifest_load(&m, config.data.tokens, NULL));
    }
    must_prepare(&config); /* and a bad manifest is simply replaced */
    io_bytes_free(&good);
    data_fixture_free(&config);
}

/* Killed at any moment, a preparation leaves nothing half done under a final name, and the next one completes it. */
static void test_killed(void) {
    Config config;
    setup(&config);
    config.train.threads = 2;
    must_prepare(&config);
    Manifest whole = load(&config);
    for (int round = 0; round < 10; round++) {
        char command[600];
        snprintf(command, sizeof command, "rm -r '%s'", config.data.tokens);
        REQUIRE(system(command) == 0);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) _exit(prepare_run(&config, NULL) ? 0 : 1);
        struct timespec wait = {0, 8000000L * round};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        char reason[600];
        bool complete = prepare_is_current(&config, reason, sizeof reason);
        CHECK(complete || !io_is_file(test_temp_path("tokens/manifest.json")));
        must_prepare(&config);
        Manifest m = load(&config);
        CHECK(m.data_hash == whole.data_hash);
        CHECK_INT(files_in(config.data.tokens), 4); /* the child's temporary files are gone */
        manifest_free(&m);
    }
    manifest_free(&whole);
    data_fixture_free(&config);
}

/* Where the disk is full (here: files may not grow past a limit) the error says so and nothing half done stays. */
static void test_full_disk(void) {
    Config config;
    setup(&config);
    struct rlimit limit = {40000, 40000};
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    refuse(&config, ERR_FAILED, "cannot write");
    CHECK_INT(files_in(config.data.tokens), 0);
    data_fixture_free(&config);
}

/* A text that somebody still writes is not taken for a whole one. */
static void test_changed_while_read(void) {
    Config config;
    setup(&config);
    pid_t child = fork();
    REQUIRE(child >= 0);
    for (long i = 0; child == 0;
         i++) { /* ends by itself too, should the parent not get to kill it */
        if (i == 10000) _exit(0);
        struct timespec pause = {0, 1000000};
        set_time(config.data.train.items[0], i);
        nanosleep(&pause, NULL);
    }
    refuse(&config, ERR_FAILED, "text0.txt: changed while it was read");
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, NULL, 0) == child);
    must_prepare(&config);
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
            must_prepare(&config);
            getrusage(RUSAGE_SELF, &before);
        }
    }
    must_prepare(&config);
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
    {"held_out_text_is_not_trained_on", test_held_out_text_is_not_trained_on, 0},
    {"odd_texts", test_odd_texts, 0},
    {"long_line", test_long_line, 0},
    {"bad_texts", test_bad_texts, 0},
    {"bad_manifests", test_bad_manifests, 0},
    {"killed", test_killed, 0},
    {"full_disk", test_full_disk, 0},
    {"changed_while_read", test_changed_while_read, 0},
    {"flat_memory", test_flat_memory, 0},
    {0}};
