/* Sequences that train.short_rate cuts into pieces. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batcher_fixture.h"
#include "harness.h"
#include "rng.h"
#include "tokenizer.h"

/* Tokens of sequence i of a batch. */
static size_t length_at(const Batch *b, size_t i) {
    return b->start[i + 1] - b->start[i];
}

/* Index of the sequence that holds a row. */
static size_t find_row(const Batch *b, size_t row) {
    size_t i = 0;
    while (b->start[i + 1] <= row) i++;
    return i;
}

/* The pieces from *at on are those of sequence i of `whole`: its tokens each once and in order,
 * behind a `<s>` of their own, and all pieces but the last equally long.  *at: behind them. */
static void check_cut(const Batch *pieces, size_t *at, const Batch *whole, size_t i, size_t n) {
    size_t text = length_at(whole, i) - 1, done = 0, length = length_at(pieces, *at);
    CHECK(pieces->seq_key[*at] == whole->seq_key[i]);
    for (; done < text && *at < pieces->B; ++*at) {
        size_t size = length_at(pieces, *at) - 1;
        REQUIRE(size <= text - done);
        const uint32_t *ids = pieces->ids + pieces->start[*at];
        CHECK_INT(ids[0], TOKEN_BOS);
        CHECK(!memcmp(ids + 1, whole->ids + whole->start[i] + 1 + done, size * sizeof *ids));
        done += size;
        CHECK(done == text ? size < length : size + 1 == length);
        CHECK(*at == 0 || pieces->seq_key[*at] != pieces->seq_key[*at - 1]);
    }
    CHECK_INT(done, text);
    CHECK(done == length - 1 || (length >= 8 && length <= n));
}

/* The same tokens have the same labels whether they are cut or not. */
static void check_masks_cut(const Batch *pieces, const Batch *whole) {
    if (!CHECK_INT(pieces->masked, whole->masked)) return;
    CHECK(!memcmp(pieces->labels, whole->labels, whole->masked * sizeof *whole->labels));
    for (size_t m = 0; m < whole->masked; m++) {
        /* the token's number in the text of the batch */
        size_t a = pieces->masked_rows[m], b = whole->masked_rows[m];
        CHECK_INT(a - find_row(pieces, a), b - find_row(whole, b));
    }
}

static void test_pieces(void) {
    enum { N = 80, COUNT = 50 };
    Shards s = {0};
    shards_add_random(&s, 800, 25, rng_key(test_seed(), RNG_TEST, 10, 0));
    Dataset *d = shards_open(&s, N);
    BatchPlan plan = batch_plan(N, 0.3), cut = plan, some = plan;
    cut.short_rate = 1;
    some.short_rate = 0.5;
    Batch whole, pieces, mixed;
    Err err = {0};
    REQUIRE(batch_create(&whole, 2 * COUNT, N, &err) && batch_create(&pieces, 2 * COUNT, N, &err));
    REQUIRE(batch_create(&mixed, 2 * COUNT, N, &err));
    fill_batch(&whole, d, &plan, 3, COUNT);
    fill_batch(&pieces, d, &cut, 3, COUNT);
    fill_batch(&mixed, d, &some, 3, COUNT);
    CHECK_INT(whole.B, COUNT);
    check_batch(&pieces, N);
    check_masks_cut(&pieces, &whole);
    check_masks_cut(&mixed, &whole);
    size_t p = 0, m = 0, uncut = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t before = p, mixed_before = m;
        check_cut(&pieces, &p, &whole, i, N);
        check_cut(&mixed, &m, &whole, i, N);
        /* a rate decides whether a sequence is cut, not how */
        bool same = m - mixed_before == p - before;
        CHECK(same || m - mixed_before == 1);
        uncut += !same;
    }
    CHECK_INT(p, pieces.B);
    CHECK_INT(m, mixed.B);
    CHECK(pieces.B > 2 * COUNT && uncut > COUNT / 4 && uncut < 3 * COUNT / 4);
    size_t tokens = 0, masked = 0;
    batch_count(&tokens, &masked, d, &cut, 3, COUNT);
    CHECK_INT(tokens, pieces.total);
    CHECK_INT(masked, pieces.masked);
    batch_fill_eval(&pieces, d, &cut, 0, COUNT, COUNT); /* evaluations read whole sequences */
    CHECK_INT(pieces.B, COUNT);
    batch_destroy(&whole);
    batch_destroy(&pieces);
    batch_destroy(&mixed);
    dataset_close(d);
    shards_free(&s);
}

/* Whatever fits into a batch, the batches together hold the same pieces, masks and keys; none has
 * room for the piece that begins the next. */
static void test_pieces_in_batches(void) {
    static const size_t limits[][2] = {{1, 64}, {5, 64}, {1000, 64}, {3, 150}, {30, 640}};
    enum { N = 64, COUNT = 40 };
    Shards s = {0};
    shards_add_random(&s, 800, 25, rng_key(test_seed(), RNG_TEST, 11, 0));
    Dataset *d = shards_open(&s, N);
    BatchPlan plan = batch_plan(N, 0.3);
    plan.short_rate = 0.6;
    Batch all, part;
    Err err = {0};
    REQUIRE(batch_create(&all, 2 * COUNT, N, &err) && batch_create(&part, 10, N, &err));
    uint64_t first = dataset_sequences(d) - 7; /* across the border of an epoch */
    fill_batch(&all, d, &plan, first, COUNT);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        BatchCursor cursor = {.sample = first};
        plan.most_sequences = limits[l][0];
        plan.most_tokens = limits[l][1];
        size_t at = 0, masked = 0;
        while (cursor.sample < first + COUNT) {
            batch_fill_train(&part, &cursor, d, &plan, first + COUNT);
            size_t row = all.start[at];
            REQUIRE(part.B > 0 && at + part.B <= all.B && masked + part.masked <= all.masked);
            CHECK(part.B <= limits[l][0] && part.total <= limits[l][1]);
            CHECK(!memcmp(part.ids, all.ids + row, part.total * sizeof *all.ids));
            CHECK(!memcmp(part.seq_key, all.seq_key + at, part.B * sizeof *all.seq_key));
            for (size_t i = 0; i < part.B; i++, at++)
                CHECK_INT(length_at(&part, i), length_at(&all, at));
            for (size_t m = 0; m < part.masked; m++, masked++) {
                CHECK_INT(part.masked_rows[m] + row, all.masked_rows[masked]);
                CHECK_INT(part.labels[m], all.labels[masked]);
            }
            CHECK(at == all.B || part.B == limits[l][0] ||
                  part.total + length_at(&all, at) > limits[l][1]);
        }
        CHECK_INT(at, all.B);
        CHECK_INT(masked, all.masked);
        CHECK(cursor.sample == first + COUNT && cursor.text == 0);
    }
    batch_destroy(&all);
    batch_destroy(&part);
    dataset_close(d);
    shards_free(&s);
}

/* How often one of `draws` may happen that each do with probability p: five standard deviations. */
static void check_share(const char *what, size_t count, size_t draws, double p) {
    double sigma = sqrt((double)draws * p * (1 - p));
    CHECK_MSG(fabs((double)count - (double)draws * p) <= 5 * sigma,
              "%s: %zu of %zu, wanted a share of %g", what, count, draws, p);
}

/* Lengths of pieces between 8 and n, each doubling as probable as any other; drawn anew in each
 * epoch and for each seed. */
static void test_length_of_pieces(void) {
    enum { N = 64, S = 500, EPOCHS = 10 };
    static const size_t line[] = {S * (N - 1) -
                                  1}; /* and a document's end: all sequences are full */
    const double rate = 0.4, all = log((N + 1) / 8.0);
    Shards s = {0};
    shards_add(&s, line, 1);
    Dataset *d = shards_open(&s, N);
    REQUIRE(dataset_sequences(d) == S);
    BatchPlan plan = batch_plan(N, 0.15);
    plan.short_rate = rate;
    Batch b;
    Err err = {0};
    REQUIRE(batch_create(&b, 2, N, &err));
    size_t counts[N + 1] = {0}, same_epoch = 0, same_seed = 0, before[S] = {0};
    for (uint64_t epoch = 0; epoch <= EPOCHS; epoch++) {
        plan.seed = epoch < EPOCHS ? 3 : 4; /* the last is the first of another seed */
        for (uint64_t i = 0; i < S; i++) {
            uint64_t sample = (epoch < EPOCHS ? epoch : 0) * S + i;
            fill_batch(&b, d, &plan, sample, 1);
            size_t length = length_at(&b, 0);
            size_t sequence =
                (size_t)rng_permute(rng_key(plan.seed, RNG_SHUFFLE, sample / S, 0), i, S);
            if (!CHECK(length >= 8 && length <= N)) continue;
            if (epoch == EPOCHS)
                same_seed += length < N && before[sequence] == length;
            else if (epoch == 1)
                same_epoch += length < N && before[sequence] == length;
            if (epoch == 0) before[sequence] = length;
            if (epoch < EPOCHS) counts[length]++;
        }
    }
    size_t low = counts[8], middle = 0, high = 0;
    for (size_t l = 8; l < 16; l++) middle += counts[l];
    for (size_t l = 32; l < N; l++) high += counts[l];
    check_share("shortest", low, S * EPOCHS, rate * log(9.0 / 8) / all);
    check_share("8 to 15", middle, S * EPOCHS, rate * log(2) / all);
    check_share("32 to 63", high, S * EPOCHS, rate * log(2) / all);
    check_share("whole", counts[N], S * EPOCHS, 1 - rate * log(N / 8.0) / all);
    /* by chance: both cut, to the same of some 20 lengths */
    CHECK(same_epoch < S / 25 && same_seed < S / 25);
    batch_destroy(&b);
    dataset_close(d);
    shards_free(&s);
}

/* Sequences that are no longer than the shortest piece stay whole. */
static void test_nothing_to_cut(void) {
    Shards s = {0};
    shards_add_random(&s, 100, 25, rng_key(test_seed(), RNG_TEST, 12, 0));
    for (size_t n = 2; n <= 8; n++) {
        Dataset *d = shards_open(&s, n);
        BatchPlan plan = batch_plan(n, 0.3);
        plan.short_rate = 1;
        Batch b;
        Err err = {0};
        REQUIRE(batch_create(&b, 30, n, &err));
        fill_batch(&b, d, &plan, 0, 30);
        CHECK_INT(b.B, 30);
        batch_destroy(&b);
        dataset_close(d);
    }
    shards_free(&s);
}

const Test tests_batcher_pieces[] = {
    {"pieces", test_pieces, 0},
    {"pieces_in_batches", test_pieces_in_batches, 0},
    {"length_of_pieces", test_length_of_pieces, 0},
    {"nothing_to_cut", test_nothing_to_cut, 0},
    {0},
};
