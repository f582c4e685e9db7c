#include "spectrum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "head_spectra.h"
#include "log.h"
#include "parallel.h"
#include "spectrum_dump.h"
#include "text_tokens.h"

bool spectrum_has_matrices(const ModelConfig *config) {
    return config->attention == ATTENTION_LINFORMER &&
           (config->projection == PROJECTION_LINEAR || config->projection == PROJECTION_FIXED);
}

const char *spectrum_map_name(SpectrumMap map) {
    static const char *const names[] = {"attention", "effective", "projected"};
    return names[map];
}

const char *spectrum_map_symbol(SpectrumMap map) {
    static const char *const symbols[] = {"P", "Pbar F", "Pbar"};
    return symbols[map];
}

void spectrum_add_shares(double *restrict share, double *restrict squares,
                         const double *restrict values, size_t count, SpectrumShare definition) {
    double all = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        all += definition == SHARE_SUM ? values[i] : values[i] * values[i];
    for (size_t i = 0; i < count; i++) {
        sum += definition == SHARE_SUM ? values[i] : values[i] * values[i];
        double reached = sum / all;
        share[i] += reached;
        squares[i] += reached * reached;
    }
}

static bool add_map(Spectrum *out, SpectrumMap map, const HeadSpectra *heads, Err *err) {
    SpectrumCurves *curves = &out->curves[out->maps];
    *curves = (SpectrumCurves){.map = map};
    for (size_t l = 0; l < out->layers; l++) {
        curves->values[l] = head_spectra_keys(heads, l);
        if (curves->values[l] > curves->length) curves->length = curves->values[l];
    }
    size_t count = out->layers * out->heads * curves->length;
    curves->value = calloc(3 * count, sizeof *curves->value);
    if (!curves->value)
        return err_set(err, ERR_FAILED, "out of memory for %zu curves of %zu",
                       out->layers * out->heads, curves->length);
    curves->share = curves->value + count;
    curves->deviation = curves->share + count;
    out->maps++;
    return true;
}

/* Adds the values of one head; deviation holds sums of squares until finish_map. */
static void add_values(const Spectrum *s, SpectrumCurves *curves, size_t unit,
                       const double *values) {
    size_t count = curves->values[unit / s->heads], at = unit * curves->length;
    for (size_t i = 0; i < count; i++) curves->value[at + i] += values[i];
    spectrum_add_shares(curves->share + at, curves->deviation + at, values, count, s->definition);
}

static void finish_map(const Spectrum *s, SpectrumCurves *curves) {
    double n = (double)s->sequences;
    for (size_t unit = 0; unit < s->layers * s->heads; unit++) {
        for (size_t i = 0; i < curves->length; i++) {
            size_t at = unit * curves->length + i;
            bool past = i >= curves->values[unit / s->heads];
            double mean = past ? 1 : curves->share[at] / n;
            double variance =
                past || n < 2 ? 0 : (curves->deviation[at] - n * mean * mean) / (n - 1);
            curves->value[at] /= n;
            curves->share[at] = mean;
            curves->deviation[at] = variance > 0 ? sqrt(variance) : 0;
        }
    }
}

/* One sequence, which has gone through the encoder: all heads in parallel, each adding to curves of
 * its own.  False if a head has values that are not finite. */
static bool add_sequence(Spectrum *out, HeadSpectra *heads, size_t done, Progress *progress) {
    size_t units = out->layers * out->heads, finished = 0, bad = 0;
    char detail[64];
    snprintf(detail, sizeof detail, "sequence %zu of %zu", done + 1, out->sequences);
#pragma omp parallel for schedule(dynamic)
    for (size_t unit = 0; unit < units; unit++) {
        HeadScratch *mine = &heads->threads[parallel_index()];
        if (head_spectra_values(mine, heads, unit / out->heads, unit % out->heads)) {
            for (size_t m = 0; m < out->maps; m++)
                add_values(out, &out->curves[m], unit,
                           out->curves[m].map == SPECTRUM_EFFECTIVE ? mine->effective
                                                                    : mine->attention);
        } else {
#pragma omp atomic
            bad++;
        }
        size_t now;
#pragma omp atomic capture
        now = ++finished;
        if (parallel_index() == 0) progress_update(progress, (double)(done * units + now), detail);
    }
    return bad == 0;
}

static bool measure(Spectrum *out, HeadSpectra *heads, const WholeSequences *text,
                    const char *dump_folder, Err *err) {
    uint32_t *ids = malloc(text->n * sizeof *ids);
    if (!ids) return err_set(err, ERR_FAILED, "out of memory for %zu tokens", text->n);
    Progress *progress =
        progress_start("spectrum", (double)(out->sequences * out->layers * out->heads));
    bool ok = true;
    for (size_t s = 0; ok && s < out->sequences; s++) {
        whole_sequences_read(ids, text, s, out->sequences);
        head_spectra_forward(heads, ids);
        if (s == 0 && dump_folder) ok = spectrum_dump(dump_folder, heads, err);
        ok = ok && (add_sequence(out, heads, s, progress) ||
                    loaded_model_fail_nonfinite(heads->model, "the attention", err));
    }
    progress_finish(progress);
    free(ids);
    return ok;
}

bool spectrum_measure(Spectrum *out, const LoadedModel *model, const WholeSequences *text,
                      const SpectrumOptions *options, Err *err) {
    const ModelConfig *config = &model->checkpoint.config.model;
    size_t wanted = options->sequences ? options->sequences : text->count;
    *out = (Spectrum){.layers = config->layers,
                      .heads = config->heads,
                      .n = config->n,
                      .sequences = wanted < text->count ? wanted : text->count,
                      .definition = options->definition};
    HeadSpectra heads;
    if (!head_spectra_create(&heads, model, err)) return false;
    bool ok = true;
    if (config->attention == ATTENTION_FULL)
        ok = add_map(out, SPECTRUM_ATTENTION, &heads, err);
    else if (spectrum_has_matrices(config))
        ok = add_map(out, SPECTRUM_EFFECTIVE, &heads, err);
    if (config->attention == ATTENTION_LINFORMER)
        ok = ok && add_map(out, SPECTRUM_PROJECTED, &heads, err);
    ok = ok && measure(out, &heads, text, options->dump, err);
    for (size_t m = 0; ok && m < out->maps; m++) finish_map(out, &out->curves[m]);
    head_spectra_destroy(&heads);
    if (!ok) spectrum_free(out);
    return ok;
}

bool spectrum_measure_texts(Spectrum *out, const LoadedModel *model, const PathList *texts,
                            const char *folder, size_t threads, const SpectrumOptions *options,
                            Err *err) {
    Manifest manifest;
    WholeSequences text = {0};
    *out = (Spectrum){0};
    bool ok = text_tokens_encode(&manifest, model, texts, folder, threads, err) &&
              whole_sequences_open(&text, &manifest.valid, model->checkpoint.config.model.n, err) &&
              spectrum_measure(out, model, &text, options, err);
    whole_sequences_close(&text);
    manifest_free(&manifest);
    return ok;
}

void spectrum_free(Spectrum *spectrum) {
    if (!spectrum) return;
    for (size_t m = 0; m < spectrum->maps; m++) free(spectrum->curves[m].value);
    *spectrum = (Spectrum){0};
}
