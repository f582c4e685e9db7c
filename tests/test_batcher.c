#include "batcher.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "batcher_fixture.h"
#include "harness.h"
#include "rng.h"
#include "token_file.h"
#include "tokenizer.h"

static void test_packing_by_hand(void) {
    static const size_t lengths[] = {2, 3, 3, 2, 0, 4, 12, 1, 0, 5};
    /* n = 6 leaves 5 tokens beside `<s>`.  The lines with their `</s>`: 2, 3, 3, 3, 4, 12, 2, 6.
     * So: the 2 and a 3 | 3 | 3 | 4 and 1 of the 12, which fits nowhere whole | 5 of it | 5 of it |
     * its last, the 2, and 2 of the 6, too long as well | the other 4 */
    static const size_t expected[] = {5, 3, 3, 5, 5, 5, 5, 4};
    Shards s = {0};
    shards_add(&s, lengths, sizeof lengths / sizeof *lengths);
    Dataset *d = shards_open(&s, 6);
    CHECK_INT(s.tokens, 35);
    if (CHECK_INT(dataset_sequences(d), sizeof expected / sizeof *expected)) {
        for (size_t i = 0; i < dataset_sequences(d); i++)
            CHECK_INT(dataset_length(d, i), expected[i] + 1);
    }
    CHECK_INT(dataset_tokens(d), 35 + 8);
    dataset_close(d);
    shards_free(&s);
}

/* Every token of the shards is in exactly one sequence, in order, whatever n; no line that fits is
 * split. */
static void test_every_token_once(void) {
    static const size_t ns[] = {2, 3, 7, 16, 64, 500, 5000};
    Shards s = {0};
    shards_add_random(&s, 300, 40, rng_key(test_seed(), RNG_TEST, 7, 0));
    shards_add(&s, NULL, 0); /* a shard without text */
    shards_add_random(&s, 50, 200, rng_key(test_seed(), RNG_TEST, 7, 1));
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        size_t n = ns[k], at = 0;
        Dataset *d = shards_open(&s, n);
        BatchPlan plan = batch_plan(n, 0.15);
        Batch b;
        Err err = {0};
        REQUIRE(batch_create(&b, 8, n, &err));
        for (size_t first = 0; first < dataset_sequences(d); first += 8) {
            batch_fill_eval(&b, d, &plan, first, 8, dataset_sequences(d));
            check_batch(&b, n);
            unmask_batch(&b);
            for (size_t i = 0; i < b.B; i++) {
                size_t length = b.start[i + 1] - b.start[i] - 1;
                CHECK_INT(dataset_length(d, first + i), length + 1);
                REQUIRE(at + length <= s.tokens);
                CHECK(!memcmp(b.ids + b.start[i] + 1, s.ids + at, length * sizeof *s.ids));
                at += length;
            }
        }
        CHECK_INT(at, s.tokens);
        CHECK_INT(dataset_tokens(d), s.tokens + dataset_sequences(d));
        batch_destroy(&b);
        dataset_close(d);
    }
    shards_free(&s);
}

/* Packing wastes little: two neighbours never fit into one sequence. */
static void test_packing_is_dense(void) {
    enum { N = 64 };
    Shards s = {0};
    shards_add_random(&s, 2000, 30, rng_key(test_seed(), RNG_TEST, 8, 0));
    Dataset *d = shards_open(&s, N);
    for (size_t i = 0; i + 1 < dataset_sequences(d); i++) {
        CHECK(dataset_length(d, i) + 31 >
              N); /* the next line, of at most 31 with its `</s>`, would not have fitted */
    }
    dataset_close(d);
    shards_free(&s);
}

static void test_epochs(void) {
    enum { N = 32 };
    Shards s = {0};
    shards_add_random(&s, 400, 25, rng_key(test_seed(), RNG_TEST, 9, 0));
    Dataset *d = shards_open(&s, N);
    size_t S = dataset_sequences(d), moved = 0;
    BatchPlan plan = batch_plan(N, 0.15);
    Batch b, again;
    Err err = {0};
    REQUIRE(batch_create(&b, S, N, &err) && batch_create(&again, S, N, &err));
    uint32_t *first_of[2] = {malloc(S * sizeof(uint32_t)), malloc(S * sizeof(uint32_t))};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        fill_batch(&b, d, &plan, epoch * S, S);
        check_batch(&b, N);
        CHECK_INT(b.B, S);
        CHECK_INT(b.total, dataset_tokens(d)); /* each sequence once */
        unmask_batch(&b);
        double sum = 0, expected = 0;
        for (size_t i = 0; i < b.total; i++) sum += b.ids[i] == TOKEN_BOS ? 0 : pow(b.ids[i], 2);
        for (size_t i = 0; i < s.tokens; i++) expected += pow(s.ids[i], 2);
        CHECK(sum == expected); /* and each token: whole numbers, so exact */
        for (size_t i = 0; i < S; i++) first_of[epoch][i] = b.ids[b.start[i] + 1];
    }
    for (size_t i = 0; i < S; i++) moved += first_of[0][i] != first_of[1][i];
    CHECK(moved > S / 2);

    /* any batch size gives the same samples, masks and keys, across the epoch border too */
    size_t whole = fill_batch(&b, d, &plan, S - 5, 12), rows = 0, masked = 0;
    for (size_t i = 0; i < 12; i += 3) {
        size_t count = fill_batch(&again, d, &plan, S - 5 + i, 3);
        CHECK(!memcmp(b.ids + rows, again.ids, again.total * sizeof *b.ids));
        CHECK(!memcmp(b.seq_key + i, again.seq_key, 3 * sizeof *b.seq_key));
        for (size_t j = 0; j < count; j++) {
            CHECK(b.masked_rows[masked + j] == again.masked_rows[j] + rows);
            CHECK(b.labels[masked + j] == again.labels[j]);
        }
        rows += again.total;
        masked += count;
    }
    CHECK_INT(rows, b.total);
    CHECK_INT(masked, whole);
    CHECK_INT(b.masked, whole);

    /* batch_count says the same without filling */
    size_t tokens = 0, counted = 0;
    batch_count(&tokens, &counted, d, &plan, S - 5, 12);
    CHECK_INT(tokens, b.total);
    CHECK_INT(counted, whole);

    /* another seed, another order */
    BatchPlan other = plan;
    other.seed = 4;
    fill_batch(&again, d, &other, S - 5, 12);
    CHECK(again.total != b.total || memcmp(b.ids, again.ids, b.total * sizeof *b.ids) != 0);
    free(first_of[0]);
    free(first_of[1]);
    batch_destroy(&b);
    batch_destroy(&again);
    dataset_close(d);
    shards_free(&s);
}

/* A sample of any size is spread over the whole text and reaches its end; batches of it hold the
 * sequences it says, masked as they always are. */
static void test_eval_sample(void) {
    enum { N = 32, AT_A_TIME = 7 };
    Shards s = {0};
    shards_add_random(&s, 100, 25, rng_key(test_seed(), RNG_TEST, 9, 1));
    Dataset *d = shards_open(&s, N);
    size_t S = dataset_sequences(d);
    BatchPlan plan = batch_plan(N, 0.15);
    Batch all, some;
    Err err = {0};
    REQUIRE(batch_create(&all, S, N, &err) && batch_create(&some, AT_A_TIME, N, &err));
    batch_fill_eval(&all, d, &plan, 0, S, S);
    CHECK_INT(all.B, S);
    for (size_t sample = 1; sample <= S; sample++) {
        size_t last = 0, items = 0;
        for (size_t first = 0; first < sample; first += AT_A_TIME) {
            batch_fill_eval(&some, d, &plan, first, AT_A_TIME, sample);
            for (size_t i = 0; i < some.B; i++, items++) {
                last = items * S / sample;
                size_t a = all.start[last], b = some.start[i], length = some.start[i + 1] - b;
                CHECK_INT(all.start[last + 1] - a, length);
                CHECK(!memcmp(all.ids + a, some.ids + b, length * sizeof *all.ids));
            }
        }
        CHECK_INT(items, sample);
        CHECK(last + (S + sample - 1) / sample >= S);
    }
    CHECK_INT(batch_fill_eval(&some, d, &plan, S, 1, S), 0); /* behind the last item */
    CHECK_INT(some.B, 0);
    batch_destroy(&all);
    batch_destroy(&some);
    dataset_close(d);
    shards_free(&s);
}

/* The same sequence is masked in another way in the next epoch, and has another dropout key. */
static void test_masks_change(void) {
    enum { N = 40 };
    static const size_t lengths[] = {39};
    Shards s = {0};
    shards_add(&s, lengths, 1);
    Dataset *d = shards_open(&s, N + 1);
    REQUIRE(dataset_sequences(d) == 1);
    BatchPlan plan = batch_plan(N + 1, 0.3);
    Batch a, b;
    Err err = {0};
    REQUIRE(batch_create(&a, 1, N + 1, &err) && batch_create(&b, 1, N + 1, &err));
    size_t same = 0;
    for (uint64_t epoch = 0; epoch < 50; epoch++) {
        fill_batch(&a, d, &plan, epoch, 1);
        fill_batch(&b, d, &plan, epoch + 1, 1);
        same += a.masked == b.masked &&
                !memcmp(a.masked_rows, b.masked_rows, a.masked * sizeof *a.masked_rows);
        CHECK(a.seq_key[0] != b.seq_key[0]);
    }
    CHECK_INT(same, 0);
    /* evaluation asks the same questions whatever the seed */
    batch_fill_eval(&a, d, &plan, 0, 1, 1);
    plan.seed = 99;
    batch_fill_eval(&b, d, &plan, 0, 1, 1);
    CHECK(a.masked == b.masked && !memcmp(a.ids, b.ids, a.total * sizeof *a.ids));
    batch_destroy(&a);
    batch_destroy(&b);
    dataset_close(d);
    shards_free(&s);
}

/* The bytes that plans and memory checks count are those that the arrays take. */
static void test_bytes(void) {
    Batch b;
    Err err = {0};
    size_t bytes = 0;
    REQUIRE(batch_create(&b, 3, 7, &err) && batch_bytes(&bytes, 3, 7));
    size_t used = (size_t)((char *)(b.scratch + 21) - (char *)b.seq_key);
    CHECK(used <= bytes && bytes < used + 64);
    batch_destroy(&b);
    CHECK(!batch_bytes(&bytes, SIZE_MAX / 2, 4));
    CHECK(!batch_bytes(&bytes, 65536, 65536)); /* rows are 32-bit numbers */
    CHECK(!batch_create(&b, 65536, 65536, &err));
    CHECK(!batch_create(&b, 0, 7, &err));
}

static void refuse(const Shards *s, size_t n, ErrCode code, const char *part) {
    Dataset *d = NULL;
    Err err = {0};
    if (!CHECK(!dataset_open(&d, &s->manifest.train, &s->manifest, n, &err))) dataset_close(d);
    CHECK_STR_CONTAINS(err.msg, part);
    CHECK_INT(err.code, code);
}

static void test_refused(void) {
    static const size_t lengths[] = {10, 0, 20};
    Shards s = {0};
    refuse(&s, 16, ERR_FAILED, "no text in the 0 token shards");
    shards_add(&s, lengths, 0);
    refuse(&s, 16, ERR_FAILED, "no text in the 1 token shards of data.train");
    shards_add(&s, lengths, 3);
    refuse(&s, 1, ERR_CONFIG, "model.n = 1");
    Dataset *d = shards_open(&s, 2);
    CHECK_INT(dataset_sequences(d), s.tokens);
    dataset_close(d);
    s.manifest.tokenizer_hash++;
    refuse(&s, 16, ERR_FAILED,
           "made with tokenizer 000000000000004d (300 pieces), the manifest says 000000000000004e");
    s.manifest.tokenizer_hash--;
    s.manifest.vocab = 301;
    refuse(&s, 16, ERR_FAILED, "(301 pieces)");
    s.manifest.vocab = 300;
    /* damage that only the payload's checksum shows */
    Bytes b = {0};
    REQUIRE(io_read_file(&b, s.items[1].path, 1 << 20, NULL));
    b.data[130] ^= 1;
    REQUIRE(io_write_file(s.items[1].path, b.data, b.size, NULL));
    refuse(&s, 16, ERR_FAILED, "damaged: checksum");
    REQUIRE(remove(s.items[1].path) == 0);
    refuse(&s, 16, ERR_FAILED, "shard1.tok: cannot open");
    io_bytes_free(&b);
    shards_free(&s);
    Batch batch;
    Err err = {0};
    CHECK(!batch_create(&batch, SIZE_MAX / 2, 512, &err));
    CHECK(!batch_create(&batch, 0, 512, &err));
    CHECK_STR_CONTAINS(err.msg, "a batch of 0 sequences of 512 tokens");
}

const Test tests_batcher[] = {{"packing_by_hand", test_packing_by_hand, 0},
                              {"every_token_once", test_every_token_once, 0},
                              {"packing_is_dense", test_packing_is_dense, 0},
                              {"epochs", test_epochs, 0},
                              {"eval_sample", test_eval_sample, 0},
                              {"bytes", test_bytes, 0},
                              {"masks_change", test_masks_change, 0},
                              {"refused", test_refused, 0},
                              {0}};
