#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "bench_model.h"
#include "checkpoint.h"
#include "clock.h"
#include "elementwise.h"
#include "encoder.h"
#include "plan.h"
#include "threads.h"

enum { LINE_MAX_BYTES = 4096 };

typedef struct Server {
    BenchModel model;
    ActMode mode;
    uint64_t step;
    size_t start_bytes; /* resident before anything was allocated */
    FILE *out;
} Server;

/* One object on a line; deletes it. */
static bool reply(Server *s, cJSON *object, Err *err) {
    char *text = object ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (!text) return err_set(err, ERR_FAILED, "out of memory for a reply");
    bool written = fprintf(s->out, "%s\n", text) > 0 && fflush(s->out) == 0;
    cJSON_free(text);
    return written || err_set(err, ERR_FAILED, "cannot write a reply");
}

static void add_ids(cJSON *object, const char *name, const uint32_t *ids, size_t count) {
    cJSON *list = cJSON_AddArrayToObject(object, name);
    /* each is added behind the last of the list, which cJSON finds at once */
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)ids[i]));
}

static bool reply_batch(Server *s, Err *err) {
    const Batch *batch = &s->model.batch;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "sequences", (double)batch->B);
    add_ids(object, "ids", batch->ids, batch->total);
    add_ids(object, "masked_rows", batch->masked_rows, batch->masked);
    add_ids(object, "labels", batch->labels, batch->masked);
    return reply(s, object, err);
}

static bool reply_saved(Server *s, const char *path, Err *err) {
    const TrainState state = {.step = s->step, .best_valid_loss = INFINITY};
    const CheckpointContent content = {.kind = "weights",
                                       .config = s->model.config,
                                       .state = &state,
                                       .table = &s->model.table,
                                       .weights = s->model.blocks.weights.block};
    if (!checkpoint_save(path, &content, err)) return false;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "saved", path);
    return reply(s, object, err);
}

static bool reply_step(Server *s, Err *err) {
    BenchModel *m = &s->model;
    double value, start = clock_now_s(), end;
    if (s->mode == ACTS_TRAINING) {
        value = bench_model_step(m, ++s->step);
        end = clock_now_s();
    } else {
        size_t count = m->batch.total * m->config->model.width;
        encoder_forward(&m->acts, &m->blocks.weights, &m->config->model, &m->batch);
        end = clock_now_s();
        value = sqrt(vec_sum_squares(m->acts.hidden, count) / (double)count);
    }
    if (!isfinite(value))
        return err_set(err, ERR_NONFINITE, "step %zu: %g; lower optimizer.lr", (size_t)s->step,
                       value);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "seconds", end - start);
    cJSON_AddNumberToObject(object, s->mode == ACTS_TRAINING ? "loss" : "rms", value);
    if (s->mode == ACTS_INFERENCE)
        cJSON_AddNumberToObject(object, "first", (double)m->acts.hidden[0]);
    return reply(s, object, err);
}

static bool reply_memory(Server *s, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "peak_bytes", (double)threads_peak_rss());
    return reply(s, object, err);
}

static bool greet(Server *s, double operations, Err *err) {
    char text[256];
    threads_describe(text, sizeof text);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "machine", text);
    cJSON_AddStringToObject(object, "blas_kernel", threads_blas_kernel());
    cJSON_AddNumberToObject(object, "start_bytes", (double)s->start_bytes);
    cJSON_AddNumberToObject(object, "tokens", (double)s->model.batch.total);
    cJSON_AddNumberToObject(object, "masked", (double)s->model.batch.masked);
    cJSON_AddNumberToObject(object, "parameters", (double)s->model.table.parameters);
    cJSON_AddNumberToObject(object, "flops", operations);
    return reply(s, object, err);
}

static bool answer(Server *s, char *line, Err *err) {
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "batch")) return reply_batch(s, err);
    if (!strcmp(line, "step")) return reply_step(s, err);
    if (!strcmp(line, "memory")) return reply_memory(s, err);
    if (!strncmp(line, "save ", 5)) return reply_saved(s, line + 5, err);
    return err_set(err, ERR_CONFIG,
                   "bench serve: no command \"%.100s\"; wanted batch, step, "
                   "memory or save PATH",
                   line);
}

/* Of one step. */
static double count_operations(const Server *s) {
    const ModelConfig *model = &s->model.config->model;
    double operations = 0;
    for (size_t b = 0; b < s->model.batch.B; b++)
        operations += s->mode == ACTS_TRAINING ? plan_step_flops(model, &model->n, 1, 0)
                                               : plan_forward_flops(model, &model->n, 1, 0);
    if (s->mode == ACTS_TRAINING) /* the head's; it is linear in the rows */
        operations += plan_step_flops(model, &model->n, 1, s->model.batch.masked) -
                      plan_step_flops(model, &model->n, 1, 0);
    return operations;
}

bool bench_serve(void *in, void *out, const Config *config, size_t sequences, bool training,
                 Err *err) {
    char line[LINE_MAX_BYTES];
    Server s = {.out = out, .mode = training ? ACTS_TRAINING : ACTS_INFERENCE};
    s.start_bytes = bench_resident();
    Config sized = *config; /* shares its strings */
    if (sequences == 0) sequences = config->train.micro_batch;
    sized.train.short_rate = 0;
    bool ok = bench_batch_create(&s.model, &sized, sequences, err) &&
              bench_model_create(&s.model, s.mode, err);
    bench_reset_peak_rss();
    ok = ok && greet(&s, count_operations(&s), err);
    while (ok && fgets(line, sizeof line, in)) ok = answer(&s, line, err);
    bench_model_destroy(&s.model);
    return ok;
}
