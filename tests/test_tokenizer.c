#include "tokenizer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../src/data/line_sample.h"
#include "../src/data/spm_model.h"
#include "data_fixture.h"
#include "harness.h"
#include "rng.h"

static Tokenizer *load(const char *path) {
    Err err = {0};
    Tokenizer *t = NULL;
    if (!tokenizer_load(&t, path, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return t;
}

static Bytes read_bytes(const char *path) {
    Bytes b = {0};
    REQUIRE(io_read_file(&b, path, 1 << 24, NULL));
    return b;
}

typedef struct Ids {
    uint32_t *ids;
    size_t count, capacity;
} Ids;

static void encode(Ids *out, const Tokenizer *t, const char *text, size_t size) {
    Err err = {0};
    if (!tokenizer_encode(t, &out->ids, &out->count, &out->capacity, text, size, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
}

/* encode and decode again gives `wanted`, without any special id */
static void round_trip(const Tokenizer *t, const char *text, size_t size, const char *wanted) {
    Ids ids = {0};
    encode(&ids, t, text, size);
    for (size_t i = 0; i < ids.count; i++) {
        CHECK(ids.ids[i] >= TOKEN_SPECIALS && ids.ids[i] < tokenizer_vocab_size(t));
    }
    char *back = tokenizer_decode(t, ids.ids, ids.count);
    CHECK_STR(back, wanted);
    free(back);
    free(ids.ids);
}

static void check_text(const Tokenizer *t) {
    static const char *const same[] = {"karo mi tes",
                                       "Unseen words, 12345 digits; (brackets)!",
                                       "<mask> </s> <s> <pad> <unk> in raw text",
                                       "a<mask>b</s>",
                                       "<0x41> is text, too",
                                       "caf\xC3\xA9 \xF0\x9F\x98\x80 \xE4\xBD\xA0\xE5\xA5\xBD",
                                       "",
                                       "x"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        round_trip(t, same[i], strlen(same[i]), same[i]);
    round_trip(t, "  two   spaces ", 15, "two spaces");
    round_trip(t, "nul\0inside", 10,
               "nul\xEF\xBF\xBDinside"); /* as text the result is a C string */
    round_trip(t, "bad \xFF utf-8", 11, "bad \xEF\xBF\xBD utf-8");
    round_trip(t, "\xEF\xBC\xA1\xE2\x80\xA6 fi \xEF\xAC\x81", 13,
               "A... fi fi"); /* NFKC, as the header says */
}

static void test_train(void) {
    Config config;
    data_fixture_config(&config);
    for (int bpe = 0; bpe < 2; bpe++) {
        config.tokenizer.type = bpe ? TOKENIZER_BPE : TOKENIZER_UNIGRAM;
        data_fixture_train(&config);
        Tokenizer *t = load(config.tokenizer.model);
        CHECK_INT(tokenizer_vocab_size(t), DATA_FIXTURE_VOCAB);
        CHECK_STR(tokenizer_piece(t, TOKEN_BOS), "<s>");
        CHECK_STR(tokenizer_piece(t, TOKEN_PAD), "<pad>");
        CHECK_STR(tokenizer_piece(t, TOKEN_EOS), "</s>");
        CHECK_STR(tokenizer_piece(t, TOKEN_UNK), "<unk>");
        CHECK_STR(tokenizer_piece(t, TOKEN_MASK), "<mask>");
        CHECK_STR(tokenizer_piece(t, 1u << 30), "");
        CHECK_STR(tokenizer_normalizer(t), "nmt_nfkc");
        check_text(t);

        Bytes file = read_bytes(config.tokenizer.model), held = tokenizer_bytes(t);
        CHECK(file.size == held.size && !memcmp(file.data, held.data, file.size));
        CHECK(tokenizer_hash(t) == io_hash(file.data, file.size));
        tokenizer_destroy(t);

        /* the same input, seed and thread count: the same bytes */
        data_fixture_train(&config);
        Bytes again = read_bytes(config.tokenizer.model);
        CHECK(file.size == again.size && !memcmp(file.data, again.data, file.size));
        io_bytes_free(&file);
        io_bytes_free(&again);
    }
    data_fixture_free(&config);
}

static void test_decode(void) {
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Tokenizer *t = load(config.tokenizer.model);
    Ids a = {0}, b = {0};
    encode(&a, t, "karo mi", 7);
    encode(&b, t, "tes.", 4);
    uint32_t ids[64];
    size_t n = 0;
    ids[n++] = TOKEN_BOS;
    for (size_t i = 0; i < a.count; i++) ids[n++] = a.ids[i];
    ids[n++] = TOKEN_MASK;
    for (size_t i = 0; i < b.count; i++) ids[n++] = b.ids[i];
    ids[n++] = TOKEN_EOS;
    char *text = tokenizer_decode(t, ids, n);
    CHECK_STR(text, "<s>karo mi <mask> tes.</s>");
    free(text);
    encode(&a, t, "\xF0\x9F\x98\x80", 4); /* four byte pieces, of which one goes */
    text = tokenizer_decode(t, a.ids, a.count - 1);
    CHECK_STR_CONTAINS(text, "\xEF\xBF\xBD");
    free(text);
    text = tokenizer_decode(t, (uint32_t[]){DATA_FIXTURE_VOCAB, UINT32_MAX}, 2);
    CHECK_STR(text, "\xEF\xBF\xBD\xEF\xBF\xBD");
    free(text);
    free(a.ids);
    free(b.ids);
    tokenizer_destroy(t);
    data_fixture_free(&config);
}

/* A long text in one call, and the buffer kept between calls. */
static void test_large_text(void) {
    enum { SIZE = 1 << 18 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Tokenizer *t = load(config.tokenizer.model);
    char *text = data_fixture_text(2, SIZE), *spaced = data_fixture_text(2, SIZE);
    for (char *p = spaced; *p; p++) {
        if (*p == '\n') *p = ' ';
    }
    Ids ids = {0}, part = {0};
    encode(&ids, t, spaced, SIZE);
    /* words do not see their neighbours, so the lines' tokens are the text's */
    size_t at = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        encode(&part, t, line, strlen(line));
        REQUIRE(at + part.count <= ids.count);
        CHECK(!memcmp(ids.ids + at, part.ids, part.count * sizeof *part.ids));
        at += part.count;
    }
    CHECK_INT(at, ids.count);
    free(ids.ids);
    free(part.ids);
    free(text);
    free(spaced);
    tokenizer_destroy(t);
    data_fixture_free(&config);
}

static void refuse(const void *data, size_t size, const char *part) {
    Err err = {0};
    Tokenizer *t = NULL;
    if (CHECK(!tokenizer_load_bytes(&t, data, size, "some.model", &err))) {
        CHECK_STR_CONTAINS(err.msg, "some.model: ");
        CHECK_STR_CONTAINS(err.msg, part);
        CHECK_INT(err.code, ERR_FAILED);
    }
    CHECK(t == NULL);
    tokenizer_destroy(t);
}

/* Position of `text` in the model's bytes. */
static unsigned char *find(const Bytes *b, const char *text) {
    size_t size = strlen(text);
    for (size_t i = 0; i + size <= b->size; i++) {
        if (!memcmp(b->data + i, text, size)) return b->data + i;
    }
    test_fail(__FILE__, __LINE__, "no %s in the model", text);
    test_end();
}

static void test_refused_models(void) {
    static const struct {
        const char *piece, *other, *message;
    } renamed[] = {
        {"<s>", "<b>", "id 0 is the piece '<b>', wanted the control symbol <s>"},
        {"<pad>", "<pat>", "id 1 is the piece '<pat>', wanted the control symbol <pad>"},
        {"</s>", "<es>", "id 2 is the piece '<es>', wanted the control symbol </s>"},
        {"<unk>", "<ukn>", "id 3 is the piece '<ukn>', wanted the unknown symbol <unk>"},
        {"<mask>", "[MASK]", "id 4 is the piece '[MASK]', wanted the control symbol <mask>"},
    };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Bytes b = read_bytes(config.tokenizer.model);
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        unsigned char *at = find(&b, renamed[i].piece);
        memcpy(at, renamed[i].other, strlen(renamed[i].other));
        refuse(b.data, b.size, renamed[i].message);
        refuse(b.data, b.size, "linformer tokenizer");
        memcpy(at, renamed[i].piece, strlen(renamed[i].piece));
    }
    unsigned char *type =
        find(&b, "<mask>") + strlen("<mask>") + 5 + 1; /* behind the score: key and type */
    REQUIRE(*type == 3);
    *type = 4; /* user-defined: raw text could produce it */
    refuse(b.data, b.size, "id 4 is the piece '<mask>', wanted the control symbol <mask>");
    *type = 3;

    refuse("", 0, "empty, wanted a sentencepiece .model file");
    refuse("not a model at all\n", 19, "not a whole sentencepiece .model file");
    refuse(b.data, b.size - 1, "not a whole sentencepiece .model file");
    /* every cut, between fields or inside them, is noticed */
    SpmModel model;
    Err err = {0};
    CHECK(spm_model_read(&model, b.data, b.size, &err));
    CHECK_INT(model.pieces, DATA_FIXTURE_VOCAB);
    CHECK(model.words_are_separate && model.dummy_prefix && model.remove_extra_spaces &&
          !model.has_user_symbols);
    for (size_t size = 0; size < b.size; size += size < 8000 ? 1 : 101)
        CHECK(!spm_model_read(&model, b.data, size, &err));

    Tokenizer *t = NULL;
    CHECK(!tokenizer_load(&t, test_temp_path("none.model"), &err));
    CHECK_STR_CONTAINS(err.msg, "none.model: cannot open: No such file");
    CHECK(!tokenizer_load(&t, test_temp_dir(), &err));
    CHECK_STR_CONTAINS(err.msg, "is a directory");
    io_bytes_free(&b);
    data_fixture_free(&config);
}

/* Damage anywhere is refused or harmless; the map of characters is where a jump could leave the
 * file. */
static void test_damaged_models(void) {
    enum { ROUNDS = 200 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Bytes b = read_bytes(config.tokenizer.model);
    uint64_t key = rng_key(test_seed(), RNG_TEST, 2, 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        size_t at = (size_t)rng_below(key, 2 * i, b.size);
        unsigned char old = b.data[at];
        b.data[at] ^= (unsigned char)(1 + rng_below(key, 2 * i + 1, 255));
        Tokenizer *t = NULL;
        Err err = {0};
        if (tokenizer_load_bytes(&t, b.data, b.size, "damaged", &err)) {
            Ids ids = {0};
            const char *text = "karo \xC3\xA9\xEF\xBC\xA1\xE2\x80\xA6 mi\xE4\xBD\xA0 \x01 tes";
            if (tokenizer_encode(t, &ids.ids, &ids.count, &ids.capacity, text, strlen(text),
                                 &err)) {
                char *back = tokenizer_decode(t, ids.ids, ids.count);
                CHECK(back != NULL);
                free(back);
            }
            free(ids.ids);
            tokenizer_destroy(t);
        }
        b.data[at] = old;
    }
    io_bytes_free(&b);
    data_fixture_free(&config);
}

static void test_training_faults(void) {
    static const char LITTLE[] = "Only a few words are here.\nAnd a few more of them.\n";
    Config config;
    Err err = {0};
    data_fixture_config(&config);
    CHECK(!tokenizer_train(&config, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "data.train names no text shard");

    char *path = data_fixture_write("little.txt", LITTLE, sizeof LITTLE - 1);
    data_fixture_add(&config.data.train, path);
    for (int bpe = 0; bpe < 2; bpe++) {
        config.tokenizer.type = bpe ? TOKENIZER_BPE : TOKENIZER_UNIGRAM;
        config.tokenizer.vocab_size = 8000;
        CHECK(!tokenizer_train(&config, &err));
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg, "tokenizer.vocab_size = 8000 is too large");
        /* what the message says is possible is possible */
        const char *most = strstr(err.msg, "at most ");
        if (CHECK(most != NULL))
            config.tokenizer.vocab_size = (size_t)atoi(most + strlen("at most "));
        CHECK_MSG(tokenizer_train(&config, &err), "%s", err.msg);
        CHECK(io_is_file(config.tokenizer.model));
        config.tokenizer.vocab_size = 200;
        CHECK(!tokenizer_train(&config, &err));
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg, "tokenizer.vocab_size = 200 is too small");
    }
    free(config.data.train.items[0]);
    config.data.train.items[0] = data_fixture_write("blank.txt", "\n\n", 2);
    CHECK(!tokenizer_train(&config, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "hold no text");
    REQUIRE(remove(config.data.train.items[0]) == 0);
    CHECK(!tokenizer_train(&config, &err));
    CHECK_STR_CONTAINS(err.msg, "blank.txt: cannot open");
    free(path);
    data_fixture_free(&config);
}

/* One long line, with a NUL and bytes that are no UTF-8 in it, trains: nothing is skipped. */
static void test_train_on_hard_text(void) {
    enum { SIZE = 80000 };
    Config config;
    Err err = {0};
    data_fixture_config(&config);
    char *text = data_fixture_text(3, SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        if (text[i] == '\n') text[i] = i % 5 ? ' ' : i % 2 ? 0 : (char)0xFF;
    }
    char *path = data_fixture_write("hard.txt", text, SIZE);
    data_fixture_add(&config.data.train, path);
    CHECK_MSG(tokenizer_train(&config, &err), "%s", err.msg);
    Tokenizer *t = load(config.tokenizer.model);
    check_text(t);
    tokenizer_destroy(t);
    free(text);
    free(path);
    data_fixture_free(&config);
}

static void test_sample(void) {
    enum { LINES = 20000, LIMIT = 5000 };
    LineSample a, b;
    size_t kept_early = 0;
    Err err = {0};
    line_sample_start(&a, 1, LIMIT);
    line_sample_start(&b, 2, LIMIT);
    for (size_t i = 0; i < LINES; i++) {
        char text[16];
        size_t size = (size_t)snprintf(text, sizeof text, "%05zu", i);
        REQUIRE(line_sample_add(&a, text, size, &err) && line_sample_add(&b, text, size, &err));
    }
    line_sample_finish(&a);
    line_sample_finish(&b);
    CHECK_INT(a.count, LIMIT / 5);
    CHECK_INT(a.bytes, LIMIT);
    CHECK_INT(a.seen, LINES);
    size_t common = 0;
    for (size_t i = 0; i < a.count; i++) {
        CHECK(i == 0 || a.lines[i].place > a.lines[i - 1].place);
        char text[16];
        snprintf(text, sizeof text, "%05d", (int)a.lines[i].place);
        CHECK(a.lines[i].size == 5 && !memcmp(a.lines[i].text, text, 5));
        kept_early += a.lines[i].place < LINES / 2;
        common += i < b.count && a.lines[i].place == b.lines[i].place;
    }
    /* 1000 draws of a fair coin: within 4 standard deviations of 500 */
    CHECK(kept_early > 437 && kept_early < 563);
    CHECK(common < a.count / 2);
    line_sample_free(&a);
    line_sample_free(&b);
    /* a line over the whole limit leaves the sample empty, not broken */
    line_sample_start(&a, 1, 3);
    CHECK(line_sample_add(&a, "long", 4, &err) && line_sample_add(&a, "ok", 2, &err));
    line_sample_finish(&a);
    CHECK(a.count <= 1 && a.bytes <= 3);
    line_sample_free(&a);
}

static size_t put_utf8(char *out, uint32_t c) {
    if (c < 0x80) return *out = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(0xF00 >> n | c);
    return n;
}

/* The cache gives what plain encoding gives, on words and on every character before, behind and
 * between spaces. */
static void test_cache(void) {
    enum { SIZE = 1 << 18 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Tokenizer *t = load(config.tokenizer.model);
    CHECK(tokenizer_cache_create(t) == NULL); /* unigram */
    tokenizer_destroy(t);
    config.tokenizer.type = TOKENIZER_BPE;
    data_fixture_train(&config);
    t = load(config.tokenizer.model);
    TokenizerCache *cache = tokenizer_cache_create(t);
    REQUIRE(cache != NULL);
    Ids plain = {0}, cached = {0};
    Err err = {0};
    char *text = data_fixture_text(6, SIZE);
    for (uint32_t c = 1; c < 0x20000; c += c < 0x3100 || (c > 0xF8FF && c < 0x10000) ? 1 : 23) {
        if (c >= 0xD800 && c < 0xE000) continue;
        char line[64], at[5] = {0};
        put_utf8(at, c);
        snprintf(line, sizeof line, "a%s %sb  %s %s ro%s", at, at, at, at, at);
        encode(&plain, t, line, strlen(line));
        REQUIRE(tokenizer_encode_cached(t, cache, &cached.ids, &cached.count, &cached.capacity,
                                        line, strlen(line), &err));
        REQUIRE(plain.count == cached.count &&
                !memcmp(plain.ids, cached.ids, plain.count * sizeof *plain.ids));
    }
    for (int round = 0; round < 2; round++) {
        for (char *line = text; *line;) {
            size_t size = strcspn(line, "\n");
            encode(&plain, t, line, size);
            REQUIRE(tokenizer_encode_cached(t, cache, &cached.ids, &cached.count, &cached.capacity,
                                            line, size, &err));
            REQUIRE(plain.count == cached.count &&
                    !memcmp(plain.ids, cached.ids, plain.count * sizeof *plain.ids));
            line += size + 1;
        }
    }
    free(plain.ids);
    free(cached.ids);
    free(text);
    tokenizer_cache_destroy(cache);
    tokenizer_destroy(t);
    data_fixture_free(&config);
}

typedef struct Encoder {
    const Tokenizer *tokenizer;
    const char *text;
    Ids ids;
} Encoder;

static void *encode_many(void *argument) {
    Encoder *e = argument;
    for (int i = 0; i < 200; i++) {
        Err err = {0};
        if (!tokenizer_encode(e->tokenizer, &e->ids.ids, &e->ids.count, &e->ids.capacity, e->text,
                              strlen(e->text), &err)) {
            e->ids.count = 0;
        }
    }
    return NULL;
}

static void test_concurrent_encode(void) {
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    Tokenizer *t = load(config.tokenizer.model);
    char *text = data_fixture_text(5, 2000);
    Encoder e[4];
    pthread_t threads[4];
    Ids alone = {0};
    encode(&alone, t, text, strlen(text));
    for (int i = 0; i < 4; i++) {
        e[i] = (Encoder){t, text, {0}};
        REQUIRE(pthread_create(&threads[i], NULL, encode_many, &e[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
        CHECK(e[i].ids.count == alone.count &&
              !memcmp(e[i].ids.ids, alone.ids, alone.count * sizeof *alone.ids));
        free(e[i].ids.ids);
    }
    free(alone.ids);
    free(text);
    tokenizer_destroy(t);
    data_fixture_free(&config);
}

const Test tests_tokenizer[] = {{"train", test_train, 0},
                                {"decode", test_decode, 0},
                                {"large_text", test_large_text, 0},
                                {"refused_models", test_refused_models, 0},
                                {"damaged_models", test_damaged_models, 0},
                                {"training_faults", test_training_faults, 0},
                                {"train_on_hard_text", test_train_on_hard_text, 0},
                                {"sample", test_sample, 0},
                                {"cache", test_cache, 0},
                                {"concurrent_encode", test_concurrent_encode, 0},
                                {0}};
