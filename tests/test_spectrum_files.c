#include "spectrum_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "io.h"
#include "log.h"
#include "model_fixture.h"

enum { LAYERS = 2, HEADS = 3, N = 6, LENGTH = 4 };

/* Of a Linformer model of k 4 and 2. */
static double value[LAYERS * HEADS * LENGTH], share[LAYERS * HEADS * LENGTH],
    deviation[LAYERS * HEADS * LENGTH];

static Spectrum spectrum(void) {
    Spectrum s = {.layers = LAYERS, .heads = HEADS, .n = N, .sequences = 5, .maps = 1};
    s.curves[0] = (SpectrumCurves){.map = SPECTRUM_EFFECTIVE,
                                   .values = {4, 2},
                                   .length = LENGTH,
                                   .value = value,
                                   .share = share,
                                   .deviation = deviation};
    for (size_t unit = 0; unit < LAYERS * HEADS; unit++)
        for (size_t i = 0; i < LENGTH; i++) {
            bool past = i >= s.curves[0].values[unit / HEADS];
            value[unit * LENGTH + i] = past ? 0 : 10 - (double)i;
            share[unit * LENGTH + i] = past || i == 3 ? 1 : 0.1 * (double)(unit + i + 1);
            deviation[unit * LENGTH + i] = past ? 0 : 0.01;
        }
    return s;
}

static char *content(const char *name) {
    Bytes bytes;
    Err err = {0};
    if (!io_read_file(&bytes, test_temp_path(name), 1 << 22, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return (char *)bytes.data;
}

static void test_tables(void) {
    Spectrum s = spectrum();
    Err err = {0};
    REQUIRE(spectrum_write_tables(test_temp_dir(), &s, 3, &err));
    char *curves = content("curves-effective.csv"), *heatmap = content("heatmap-effective.csv");
    size_t lines = 0;
    for (const char *c = curves; *c; c++) lines += *c == '\n';
    CHECK_INT(lines, 1 + HEADS * (4 + 2));
    CHECK(strncmp(curves, "layer,head,index,singular_value,share,share_std\n0,0,1,10,0.1,0.01\n",
                  66) == 0);
    CHECK_STR_CONTAINS(curves, "\n0,2,4,7,1,0.01\n1,0,1,10,0.4,0.01\n1,0,2,9,0.5,0.01\n1,1,1,");
    CHECK_STR(heatmap, "layer,head,index,share,share_std\n0,0,3,0.3,0.01\n0,1,3,0.4,0.01\n"
                       "0,2,3,0.5,0.01\n1,0,3,1,0\n1,1,3,1,0\n1,2,3,1,0\n");
    free(curves);
    free(heatmap);
    /* past the last singular value of all layers */
    REQUIRE(spectrum_write_tables(test_temp_dir(), &s, N, &err));
    heatmap = content("heatmap-effective.csv");
    CHECK_STR_CONTAINS(heatmap, "\n0,1,6,1,0\n");
    free(heatmap);
    CHECK(!spectrum_write_tables(test_temp_path("none"), &s, 3, &err));
    CHECK_STR_CONTAINS(err.msg, "none/curves-effective.csv");
}

#define HALF_SVG "<svg xmlns=http://www.w3.org/2000/svg>"

/* A program `gnuplot` that does what the shell text says; PATH has no other. */
static void install_gnuplot(const char *text) {
    char script[512], command[600];
    const char *path = test_temp_path("gnuplot");
    snprintf(script, sizeof script, "#!/bin/sh\n%s\n", text);
    REQUIRE(io_write_file(path, script, strlen(script), NULL));
    snprintf(command, sizeof command, "/bin/chmod 755 '%s'", path);
    REQUIRE(system(command) == 0);
    REQUIRE(setenv("PATH", test_temp_dir(), 1) == 0);
}

static void test_scripts_are_drawn(void) {
    Spectrum s = spectrum();
    Err err = {0};
    bool drawn = true;
    install_gnuplot("echo noise; echo noise >&2; read line <\"$1\" && echo \"$line\" >\"$1\".ran; "
                    "echo '" HALF_SVG "</svg>' >\"${1%.gp}.svg\"");
    REQUIRE(spectrum_draw(&drawn, test_temp_dir(), &s, 3, &err));
    CHECK(drawn);
    char *ran = content("curves-effective.gp.ran"), *script = content("heatmap-effective.gp");
    CHECK_STR(ran, "# gnuplot curves-effective.gp draws curves-effective.svg\n");
    CHECK_STR_CONTAINS(script, "set output \"heatmap-effective.svg\"");
    CHECK_STR_CONTAINS(script, "\n1 0 0.40000 ");
    CHECK_STR_CONTAINS(script, "\n2 1 1.00000 ");
    free(ran);
    free(script);
}

/* As on a full disk: gnuplot ends well, with half a picture or none. */
static void test_half_a_picture(void) {
    const char *const programs[] = {":", "echo '" HALF_SVG "' >\"${1%.gp}.svg\""};
    Spectrum s = spectrum();
    Err err = {0};
    log_quiet(true);
    for (size_t i = 0; i < 2; i++) {
        bool drawn = true;
        install_gnuplot(programs[i]);
        REQUIRE(spectrum_draw(&drawn, test_temp_dir(), &s, 3, &err));
        CHECK(!drawn);
        CHECK(!io_is_file(test_temp_path("curves-effective.svg")));
    }
}

static void test_without_gnuplot(void) {
    Spectrum s = spectrum();
    Err err = {0};
    bool drawn = true;
    REQUIRE(setenv("PATH", test_temp_dir(), 1) == 0);
    log_quiet(true);
    REQUIRE(log_open(test_temp_path("log.txt"), &err));
    REQUIRE(spectrum_draw(&drawn, test_temp_dir(), &s, 3, &err));
    CHECK(!drawn);
    CHECK(io_is_file(test_temp_path("curves-effective.gp")));
    CHECK(io_is_file(test_temp_path("heatmap-effective.gp")));
    log_open(NULL, NULL);
    char *log = content("log.txt"), *said = strstr(log, "warning: ");
    CHECK_STR_CONTAINS(log, "gnuplot is not installed");
    CHECK_STR_CONTAINS(log, "gnuplot-nox");
    CHECK(said && !strstr(said + 1, "warning: ")); /* once */
    free(log);
}

static void test_gnuplot_fails(void) {
    Spectrum s = spectrum();
    Err err = {0};
    bool drawn = true;
    install_gnuplot("echo half >curves-effective.svg; echo 'line 7: what?' >&2; exit 1");
    log_quiet(true);
    REQUIRE(log_open(test_temp_path("log.txt"), &err));
    REQUIRE(spectrum_draw(&drawn, test_temp_dir(), &s, 3, &err));
    CHECK(!drawn);
    CHECK(!io_is_file(test_temp_path("curves-effective.svg")));
    log_open(NULL, NULL);
    char *log = content("log.txt");
    CHECK_STR_CONTAINS(log, "curves-effective.gp failed: line 7: what?;");
    free(log);
}

/* The numbers of $pixels: rows of `across` each. */
static int *pixels(const char *script, size_t *down, size_t across) {
    char *at = strstr(script, "$pixels << END\n");
    REQUIRE(at);
    at += strlen("$pixels << END\n");
    int *out = malloc(strlen(at) * sizeof *out);
    size_t count = 0;
    REQUIRE(out);
    while (strncmp(at, "END", 3) != 0) {
        if (strncmp(at, "NaN ", 4) == 0)
            out[count++] = -1, at += 4;
        else
            out[count++] = (int)strtol(at, &at, 10), at++;
        if (*at == '\n') at++;
    }
    CHECK_INT(count % across, 0);
    *down = count / across;
    return out;
}

static void test_projections(void) {
    enum { ACROSS = 11, GAP = 4, PANEL = ACROSS + GAP, WIDTH = 3 * PANEL - GAP };
    ModelConfig config = model_config_tiny(); /* n 11, k 5 and 3 */
    config.scope = SCOPE_HEAD;
    Model model;
    LoadedModel loaded = {0};
    Err err = {0};
    bool drawn = true;
    model_create(&model, &config, 1, 11, ACTS_INFERENCE);
    loaded.checkpoint.config.model = config;
    loaded.params = model.params;
    real *f = model_weight(&model, "layer1.seq_proj_v");
    for (size_t l = 0; l < 2; l++) {
        real *other = model_weight(&model, l ? "layer1.seq_proj_v" : "layer0.seq_proj_v");
        for (size_t i = 0; i < 3 * config.k[l] * 11; i++) other[i] = (real)0.02;
    }
    f[(2 * 3 + 1) * 11 + 4] = -2; /* head 2, row 1, position 4: the largest */
    f[(1 * 3 + 2) * 11 + 0] = (real)1e-9;
    install_gnuplot("echo '" HALF_SVG "</svg>' >\"${1%.gp}.svg\"");
    REQUIRE(spectrum_draw_projections(&drawn, test_temp_dir(), &loaded, &err));
    CHECK(drawn);
    CHECK(io_is_file(test_temp_path("projections-E.gp")));
    char *script = content("projections-F.gp");
    size_t down;
    int *levels = pixels(script, &down, WIDTH);
    CHECK_INT(down, 2 * (5 + GAP) - GAP);
    size_t layer1 = 5 + GAP;
    CHECK_INT(levels[(layer1 + 1) * WIDTH + 2 * PANEL + 4], 255);
    CHECK_INT(levels[(layer1 + 2) * WIDTH + 1 * PANEL], 0); /* nothing is below the scale */
    CHECK_INT(levels[0], 85);                               /* two of three powers of ten below */
    CHECK_INT(levels[ACROSS], -1);                          /* between panels */
    CHECK_INT(levels[(layer1 + 3) * WIDTH], -1);            /* layer 1 has three rows of five */
    free(levels);
    free(script);
    model_destroy(&model);
}

const Test tests_spectrum_files[] = {
    {"tables", test_tables, TEST_FLOAT},
    {"scripts_are_drawn", test_scripts_are_drawn, TEST_FLOAT},
    {"half_a_picture", test_half_a_picture, TEST_FLOAT},
    {"without_gnuplot", test_without_gnuplot, TEST_FLOAT},
    {"gnuplot_fails", test_gnuplot_fails, TEST_FLOAT},
    {"projections", test_projections, TEST_FLOAT},
    {0},
};
