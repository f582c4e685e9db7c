#include "bench_turn.h"

#include <math.h>

#include "bench.h"
#include "bench_measure.h"
#include "bench_model.h"
#include "clock.h"
#include "elementwise.h"
#include "encoder.h"
#include "stored_attention.h"
#include "threads.h"

enum { PASSES_MIN = 2, PASSES_MAX = 100 };

/* A pass as long as this has no use for another one to warm up: its memory is resident. */
static const double LONG_PASS = 4;

Config bench_side_config(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                         bool training) {
    Config out = *config;
    ModelConfig *model = &out.model;
    model->n = n;
    for (size_t l = 0; l < CONFIG_MAX_LAYERS; l++) model->k[l] = l < model->layers ? k : 0;
    model->attention = side == BENCH_LINFORMER ? ATTENTION_LINFORMER : ATTENTION_FULL;
    model->init = INIT_SCHEME_NORMAL;  /* of no effect on speed, and local has demands */
    model->classes = training ? 0 : 1; /* no buffers of the masked-language-model head */
    out.train.batch = out.train.micro_batch = sequences;
    out.train.memory = 0;
    out.train.short_rate = 0;
    return out;
}

/* Of a contender that is ready to run. */
typedef struct Contender {
    BenchModel model;
    StoredAttention stored;
    bool training;
    uint64_t step;
} Contender;

static bool create(Contender *c, const BenchCell *cell, const Config *config, Err *err) {
    ActMode mode = c->training ? ACTS_TRAINING : ACTS_INFERENCE;
    if (!bench_batch_create(&c->model, config, cell->sequences, err) ||
        !bench_model_create(&c->model, mode, err))
        return false;
    if (cell->side == BENCH_STORED) {
        if (!stored_attention_create(&c->stored, &config->model, cell->sequences, mode, err))
            return false;
        c->model.acts.kernel = &c->stored.kernel;
        arena_touch(&c->stored.arena);
    }
    bench_model_touch(&c->model);
    return true;
}

static double timed_pass(Contender *c) {
    double start = clock_now_s();
    if (c->training)
        bench_model_step(&c->model, ++c->step);
    else
        encoder_forward(&c->model.acts, &c->model.blocks.weights, &c->model.config->model,
                        &c->model.batch);
    return clock_now_s() - start;
}

static double median_pass(Contender *c, double about_s) {
    double times[PASSES_MAX], first = timed_pass(c), sum = 0;
    if (first >= LONG_PASS) return first;
    size_t count = 0;
    while (count < PASSES_MAX && (count < PASSES_MIN || sum < about_s))
        sum += times[count++] = timed_pass(c);
    return bench_median(times, count);
}

/* A model whose numbers have gone wrong may also run at another speed. */
static bool check_finite(const Contender *c, const BenchCell *cell, Err *err) {
    const Activations *acts = &c->model.acts;
    size_t count = c->model.batch.total * c->model.config->model.width;
    if (vec_first_nonfinite(acts->hidden, count) == count) return true;
    return err_set(err, ERR_NONFINITE,
                   "%s attention, n = %zu, k = %zu: results that are not finite; lower "
                   "optimizer.lr",
                   bench_side_name(cell->side), cell->n, cell->k);
}

bool bench_turn(BenchTurn *out, const Config *config, const BenchCell *cell, bool training,
                double about_s, Err *err) {
    Contender c = {.training = training};
    const Config own =
        bench_side_config(config, cell->side, cell->n, cell->k, cell->sequences, training);
    size_t before = bench_resident();
    bool peak_is_own = bench_reset_peak_rss();
    bool ok = create(&c, cell, &own, err);
    if (ok) {
        out->seconds = median_pass(&c, about_s);
        /* without a peak of its own: what is resident at the end, which is all but scratch of
         * libraries */
        size_t peak = peak_is_own ? threads_peak_rss() : bench_resident();
        out->peak_bytes = peak > before ? peak - before : 0;
        ok = check_finite(&c, cell, err);
    }
    bench_model_destroy(&c.model);
    stored_attention_destroy(&c.stored);
    return ok;
}
