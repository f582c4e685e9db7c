/* Our model against an independent one in PyTorch, whose results stand in tests/refs; written by
 * scripts/make_refs.py, which also describes the format. */
#include <stdio.h>
#include <stdlib.h>

#include "classifier_head.h"
#include "harness.h"
#include "io.h"
#include "mlm_head.h"
#include "model_fixture.h"
#include "optimizer.h"

/* Largest error relative to the array's largest element.  In double only the order of summation
 * differs (measured: 3e-15 hidden, 7e-14 gradients); in float there is the rounding of every
 * operation (measured: 6e-7 hidden, 1.6e-5 gradients where a small variance under a LayerNorm
 * magnifies it, 4e-7 after AdamW). */
#ifdef REAL_IS_DOUBLE
static const double TOL_HIDDEN = 1e-13, TOL_LOSS = 1e-13, TOL_GRAD = 1e-12, TOL_AFTER = 1e-13;
#else
static const double TOL_HIDDEN = 2e-6, TOL_LOSS = 1e-6, TOL_GRAD = 5e-5, TOL_AFTER = 2e-6;
#endif

typedef struct Record {
    char name[64];
    uint32_t type, rows, cols; /* type: 0 float64, 1 float32, 2 uint32 */
    const unsigned char *data; /* borrowed from the file's bytes, unaligned */
} Record;

enum { RECORDS_MOST = 256 };

typedef struct Ref {
    Bytes file;
    Record records[RECORDS_MOST];
    size_t count;
} Ref;

static size_t record_count(const Record *r) {
    return (size_t)r->rows * r->cols;
}

static double record_at(const Record *r, size_t i) {
    double d;
    float f;
    uint32_t u;
    switch (r->type) {
    case 0: return memcpy(&d, r->data + 8 * i, 8), d;
    case 1: return memcpy(&f, r->data + 4 * i, 4), (double)f;
    default: return memcpy(&u, r->data + 4 * i, 4), (double)u;
    }
}

static uint32_t read_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The folder of this source file holds refs/. */
static void ref_path(char *out, size_t size, const char *name) {
    const char *file = __FILE__, *slash = strrchr(file, '/');
    snprintf(out, size, "%.*s/refs/%s.ref", slash ? (int)(slash - file) : 1, slash ? file : ".",
             name);
}

static void ref_load(Ref *ref, const char *name) {
    char path[512];
    Err err = {0};
    *ref = (Ref){0};
    ref_path(path, sizeof path, name);
    CHECK_MSG(io_read_file(&ref->file, path, 1 << 20, &err),
              "%s (tests run from the top of the tree)", err.msg);
    REQUIRE(ref->file.size > 8 && !memcmp(ref->file.data, "LFREF001", 8));
    const unsigned char *p = ref->file.data + 8, *end = ref->file.data + ref->file.size;
    while (p < end) {
        REQUIRE(end - p >= 4 && ref->count < RECORDS_MOST);
        Record *r = &ref->records[ref->count++];
        uint32_t length = read_u32(p);
        REQUIRE(length < sizeof r->name && (size_t)(end - p) >= length + 16u);
        memcpy(r->name, p + 4, length);
        p += 4 + length;
        r->type = read_u32(p);
        r->rows = read_u32(p + 4);
        r->cols = read_u32(p + 8);
        r->data = p += 12;
        size_t bytes = record_count(r) * (r->type == 0 ? 8 : 4);
        REQUIRE(r->type <= 2 && (size_t)(end - p) >= bytes);
        p += bytes;
    }
}

/* The record "prefix.name" (or "name" with an empty prefix), NULL if absent. */
static const Record *ref_find(const Ref *ref, const char *prefix, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (size_t i = 0; i < ref->count; i++)
        if (!strcmp(ref->records[i].name, full)) return &ref->records[i];
    return NULL;
}

static const Record *ref_get(const Ref *ref, const char *prefix, const char *name) {
    const Record *r = ref_find(ref, prefix, name);
    CHECK_MSG(r != NULL, "the reference has no %s%s", prefix, name);
    if (!r) test_end();
    return r;
}

static size_t ref_size(const Ref *ref, const char *name, size_t i) {
    return (size_t)record_at(ref_get(ref, "", name), i);
}

static ModelConfig ref_config(const Ref *ref) {
    enum { N, LAYERS, WIDTH, HEADS, FFN, VOCAB, SCOPE, TIE, PROJECTION, FULL, PRE, K };
    ModelConfig config = {
        .n = ref_size(ref, "config", N),
        .scope = (Scope)ref_size(ref, "config", SCOPE), /* 0 head, 1 layer, 2 model in both */
        .tie_kv = ref_size(ref, "config", TIE),
        .projection = (Projection)ref_size(ref, "config", PROJECTION), /* numbered alike, too */
        .layers = ref_size(ref, "config", LAYERS),
        .width = ref_size(ref, "config", WIDTH),
        .heads = ref_size(ref, "config", HEADS),
        .ffn = ref_size(ref, "config", FFN),
        .vocab = ref_size(ref, "config", VOCAB)};
    if (ref_size(ref, "config", FULL)) config.attention = ATTENTION_FULL;
    if (ref_size(ref, "config", PRE)) config.norm = NORM_PRE;
    const Record *out_b = ref_find(ref, "param.", "class_out_b");
    config.classes = out_b ? record_count(out_b) : 0;
    REQUIRE(record_count(ref_get(ref, "", "config")) == K + config.layers);
    for (size_t l = 0; l < config.layers; l++) config.k[l] = ref_size(ref, "config", K + l);
    return config;
}

static void fill_u32(uint32_t *out, const Record *r) {
    for (size_t i = 0; i < record_count(r); i++) out[i] = (uint32_t)record_at(r, i);
}

static void ref_batch(Batch *out, const Ref *ref) {
    const Record *start = ref_get(ref, "", "start");
    size_t B = record_count(start) - 1, lengths[16];
    REQUIRE(B >= 1 && B <= 16);
    for (size_t b = 0; b < B; b++)
        lengths[b] = (size_t)(record_at(start, b + 1) - record_at(start, b));
    model_batch_create(out, lengths, B, 1, 1);
    REQUIRE(record_count(ref_get(ref, "", "ids")) == out->total);
    fill_u32(out->ids, ref_get(ref, "", "ids"));
    const Record *classes = ref_find(ref, "", "classes");
    if (classes) {
        REQUIRE(record_count(classes) == B);
        fill_u32(out->classes, classes);
        return;
    }
    out->masked = record_count(ref_get(ref, "", "masked_rows"));
    REQUIRE(out->masked <= out->total && record_count(ref_get(ref, "", "labels")) == out->masked);
    fill_u32(out->masked_rows, ref_get(ref, "", "masked_rows"));
    fill_u32(out->labels, ref_get(ref, "", "labels"));
}

/* Every tensor of the table has a parameter of its name and shape in the reference, and the
 * other way round. */
static void load_weights(Model *m, const Ref *ref) {
    size_t params = 0;
    for (size_t i = 0; i < ref->count; i++) params += !strncmp(ref->records[i].name, "param.", 6);
    CHECK_INT(params, m->table.count);
    for (size_t i = 0; i < m->table.count; i++) {
        const Tensor *t = &m->table.items[i];
        const Record *r = ref_get(ref, "param.", t->name);
        REQUIRE(r->rows == t->rows && r->cols == t->cols);
        for (size_t j = 0; j < t->count; j++) m->weights[t->offset + j] = (real)record_at(r, j);
    }
}

static double worst;

static void check_close(const char *file, const char *what, const real *ours, const Record *r,
                        double tol) {
    double largest = 0, difference = 0;
    for (size_t i = 0; i < record_count(r); i++) {
        double d = fabs((double)ours[i] - record_at(r, i));
        largest = fmax(largest, fabs(record_at(r, i)));
        if (!(d <= difference)) difference = d;
        if (isnan(d)) break;
    }
    double error = difference / largest;
    if (!(error <= worst)) worst = error;
    CHECK_MSG(error <= tol, "%s: %s: error %.2e of the largest element %.3e, allowed %.1e", file,
              what, error, largest, tol);
}

static void check_activations(const Model *m, const Ref *ref, const char *name) {
    for (size_t l = 0; l < m->config.layers; l++) {
        char key[48];
        snprintf(key, sizeof key, "layer%zu.sum_att", l);
        if (!ref_find(ref, "act.", key)) return;
        check_close(name, key, m->acts.layers[l].sum_att, ref_get(ref, "act.", key), TOL_HIDDEN);
        snprintf(key, sizeof key, "layer%zu.sum_ffn", l);
        check_close(name, key, m->acts.layers[l].sum_ffn, ref_get(ref, "act.", key), TOL_HIDDEN);
    }
}

static void report(const char *name, const char *what) {
    const char *verbose = getenv("VERBOSE");
    if (verbose && *verbose) printf("    %s: %s: largest error %.2e\n", name, what, worst);
    worst = 0;
}

/* The gradient of a key bias is zero where it adds the same to every key, in full attention, to
 * means and to maxima (a softmax doesn't see a constant), so that nothing but rounding stands
 * there, in both programs. */
static bool vanishes(const Model *m, const Tensor *t) {
    bool same_for_all = m->config.attention == ATTENTION_FULL || !model_has_projections(&m->config);
    return same_for_all && strstr(t->name, ".k_b");
}

static void check_gradients(const Model *m, const Ref *ref, const char *name) {
    for (size_t i = 0; i < m->table.count; i++) {
        const Tensor *t = &m->table.items[i];
        const real *grad = m->grads + t->offset;
        if (t->frozen) {
            CHECK(!ref_find(ref, "grad.", t->name));
            for (size_t j = 0; j < t->count; j++) CHECK(grad[j] == 0);
        } else if (vanishes(m, t)) {
            for (size_t j = 0; j < t->count; j++) CHECK_CLOSE((double)grad[j], 0, 8 * REAL_EPSILON);
        } else {
            check_close(name, t->name, grad, ref_get(ref, "grad.", t->name), TOL_GRAD);
        }
    }
}

static void check_adamw(Model *m, const Ref *ref, const Batch *batch, const char *name) {
    enum { LR, BETA1, BETA2, EPS, DECAY, STEPS };
    const Record *r = ref_find(ref, "", "adamw");
    if (!r) return;
    OptimizerConfig config = {.position_lr = 1,
                              .proj_lr = 1,
                              .name = OPTIMIZER_ADAMW,
                              .lr = record_at(r, LR),
                              .betas = {record_at(r, BETA1), record_at(r, BETA2)},
                              .eps = record_at(r, EPS),
                              .weight_decay = record_at(r, DECAY),
                              .decay = DECAY_MATRICES};
    real *moments = calloc(2 * m->table.block_reals, sizeof *moments);
    REQUIRE(moments != NULL);
    for (uint64_t step = 1; step <= (uint64_t)record_at(r, STEPS); step++) {
        model_zero_grads(m);
        model_backward(m, batch, 1 / model_batch_divisor(m, batch));
        optimizer_step(m->weights, moments, moments + m->table.block_reals, m->grads, &m->table,
                       &config, config.lr, 1, step);
    }
    free(moments);
    for (size_t i = 0; i < m->table.count; i++) {
        const Tensor *t = &m->table.items[i];
        check_close(name, t->name, m->weights + t->offset, ref_get(ref, "after.", t->name),
                    TOL_AFTER);
    }
    report(name, "parameters after AdamW");
}

static void check_logits(Model *m, const Ref *ref, const Batch *batch, const char *name) {
    if (m->config.classes == 0) return;
    classifier_head_forward(&m->acts, &m->params, &m->config, batch);
    check_close(name, "logits", m->acts.class_logits, ref_get(ref, "", "logits"), TOL_HIDDEN);
    report(name, "logits");
}

static void check_case(const char *name) {
    Ref ref;
    Batch batch;
    Model m;
    ref_load(&ref, name);
    ModelConfig config = ref_config(&ref);
    ref_batch(&batch, &ref);
    model_create(&m, &config, batch.B, batch.total, ACTS_TRAINING);
    load_weights(&m, &ref);

    double loss = model_backward(&m, &batch, 1 / model_batch_divisor(&m, &batch));
    check_activations(&m, &ref, name);
    check_close(name, "hidden", m.acts.hidden, ref_get(&ref, "", "hidden"), TOL_HIDDEN);
    report(name, "hidden states");
    check_logits(&m, &ref, &batch, name);
    double wanted = record_at(ref_get(&ref, "", "loss"), 0);
    CHECK_CLOSE(loss / wanted, 1, TOL_LOSS);
    CHECK_CLOSE(model_loss(&m, &batch) / wanted, 1, TOL_LOSS);
    check_gradients(&m, &ref, name);
    report(name, "gradients");
    check_adamw(&m, &ref, &batch, name);

    model_destroy(&m);
    model_batch_destroy(&batch);
    io_bytes_free(&ref.file);
}

static void test_head_untied_post(void) {
    check_case("head_untied_post");
}
static void test_head_tied_pre(void) {
    check_case("head_tied_pre");
}
static void test_layer_untied_pre(void) {
    check_case("layer_untied_pre");
}
static void test_layer_tied_post(void) {
    check_case("layer_tied_post");
}
static void test_model_untied_post(void) {
    check_case("model_untied_post");
}
static void test_model_tied_pre(void) {
    check_case("model_tied_pre");
}
static void test_layer_untied_fixed_post(void) {
    check_case("layer_untied_fixed_post");
}
static void test_full_post(void) {
    check_case("full_post");
}
static void test_class_layer_untied_post(void) {
    check_case("class_layer_untied_post");
}
static void test_class_model_tied_pre(void) {
    check_case("class_model_tied_pre");
}
static void test_mean_post(void) {
    check_case("mean_post");
}
static void test_max_pre(void) {
    check_case("max_pre");
}
static void test_conv_head_untied_post(void) {
    check_case("conv_head_untied_post");
}
static void test_conv_layer_tied_pre(void) {
    check_case("conv_layer_tied_pre");
}
static void test_class_conv_model_untied_post(void) {
    check_case("class_conv_model_untied_post");
}

const Test tests_parity[] = {
    {"head_untied_post", test_head_untied_post, 0},
    {"head_tied_pre", test_head_tied_pre, 0},
    {"layer_untied_pre", test_layer_untied_pre, 0},
    {"layer_tied_post", test_layer_tied_post, 0},
    {"model_untied_post", test_model_untied_post, 0},
    {"model_tied_pre", test_model_tied_pre, 0},
    {"layer_untied_fixed_post", test_layer_untied_fixed_post, 0},
    {"full_post", test_full_post, 0},
    {"class_layer_untied_post", test_class_layer_untied_post, 0},
    {"class_model_tied_pre", test_class_model_tied_pre, 0},
    {"mean_post", test_mean_post, 0},
    {"max_pre", test_max_pre, 0},
    {"conv_head_untied_post", test_conv_head_untied_post, 0},
    {"conv_layer_tied_pre", test_conv_layer_tied_pre, 0},
    {"class_conv_model_untied_post", test_class_conv_model_untied_post, 0},
    {0},
};
