#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_lengths.h"
#include "gnuplot.h"

/* ---- comma-separated values */

static const char NAMES[] =
    "mode,side,n,k,sequences,predicted_bytes,fits,peak_bytes,largest_batch,rounds,seconds,"
    "us_per_token,flops,bound,speedup_stored,speedup_stored_low,speedup_stored_high,"
    "speedup_blockwise,speedup_blockwise_low,speedup_blockwise_high";

static double us_per_token(const BenchCell *cell) {
    return 1e6 * cell->seconds / ((double)cell->sequences * (double)cell->n);
}

/* Nothing between the commas where nothing was measured. */
static void put(FILE *file, double value) {
    fputc(',', file);
    if (value > 0) fprintf(file, "%.9g", value);
}

void bench_lengths_write_csv(void *stream, const BenchCell *cells, size_t count, bool training,
                             bool names) {
    FILE *file = stream;
    if (names) fprintf(file, "%s\n", NAMES);
    for (size_t i = 0; i < count; i++) {
        const BenchCell *c = &cells[i];
        fprintf(file, "%s,%s,%zu,", training ? "train" : "inference", bench_side_name(c->side),
                c->n);
        if (c->k) fprintf(file, "%zu", c->k);
        fprintf(file, ",%zu,%zu,%d,", c->sequences, c->predicted_bytes, c->fits);
        if (c->peak_bytes) fprintf(file, "%zu", c->peak_bytes);
        fprintf(file, ",%zu,%zu", c->largest_batch, c->rounds);
        put(file, c->seconds);
        put(file, us_per_token(c));
        put(file, c->flops);
        put(file, c->bound);
        for (size_t base = 0; base < BENCH_BASELINES; base++) {
            put(file, c->speedup[base]);
            put(file, c->speedup_low[base]);
            put(file, c->speedup_high[base]);
        }
        fputc('\n', file);
    }
}

/* ---- picture */

/* Readable on light and dark pages; the background is transparent. */
static const char STYLE[] =
    "set terminal svg size 1100,400 dynamic font 'sans-serif,13'\n"
    "set linetype 1 lc rgb '#808080' lw 2 dt 2 pt 4\n"
    "set linetype 2 lc rgb '#d9822b' lw 2 pt 5\n"
    "set linetype 3 lc rgb '#2a7fd4' lw 2 pt 7\n"
    "set linetype 4 lc rgb '#2f9e62' lw 2 pt 7\n"
    "set linetype 5 lc rgb '#a266c9' lw 2 pt 7\n"
    "set linetype 6 lc rgb '#cf5858' lw 2 pt 7\n"
    "set linetype 7 lc rgb '#3aa8a8' lw 2 pt 7\n"
    "set linetype cycle 7\n"
    "set pointsize 0.5\n"
    "set border 3 lc rgb '#808080'\n"
    "set tics nomirror textcolor rgb '#808080'\n"
    "set key textcolor rgb '#808080' outside right top Left reverse samplen 2\n"
    "set grid y lc rgb '#808080' lw 0.3\n"
    "set logscale x 2\n"
    "set logscale y 10\n"
    "set xlabel 'sequence length n' textcolor rgb '#808080'\n"
    "set datafile missing '-'\n";

/* Does the cell belong to series `index`: the two baselines, then Linformer by its k? */
static bool in_series(const BenchCell *cell, const BenchCell *first) {
    return cell->side == first->side && cell->k == first->k;
}

/* Is cell i the first of its series? */
static bool begins_series(const BenchLengths *all, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (in_series(&all->cells[j], &all->cells[i])) return false;
    }
    return true;
}

static bool is_measured(const BenchLengths *all, size_t first) {
    for (size_t i = first; i < all->count; i++) {
        if (in_series(&all->cells[i], &all->cells[first]) && all->cells[i].rounds > 0) return true;
    }
    return false;
}

/* Columns n, us a token, GiB measured, GiB predicted. */
static void put_data(FILE *file, const BenchLengths *all) {
    static const double GIB = 1 << 30;
    size_t series = 0;
    for (size_t first = 0; first < all->count; first++) {
        if (!begins_series(all, first)) continue;
        fprintf(file, "$data%zu << END\n", ++series);
        for (size_t i = first; i < all->count; i++) {
            const BenchCell *c = &all->cells[i];
            if (!in_series(c, &all->cells[first])) continue;
            fprintf(file, "%zu", c->n);
            if (c->rounds > 0)
                fprintf(file, " %.6g %.6g", us_per_token(c), (double)c->peak_bytes / GIB);
            else
                fprintf(file, " - -");
            if (c->predicted_bytes < SIZE_MAX)
                fprintf(file, " %.6g\n", (double)c->predicted_bytes / GIB);
            else
                fprintf(file, " -\n");
        }
        fprintf(file, "END\n");
    }
}

static void put_title(FILE *file, const BenchCell *cell) {
    static const char *const titles[] = {"full attention, stored", "full attention, block-wise"};
    if (cell->side == BENCH_LINFORMER)
        fprintf(file, "Linformer, k = %zu", cell->k);
    else
        fprintf(file, "%s", titles[cell->side]);
}

/* One panel: a column of every series; memory, column 3, also as it is predicted, by a thin line
 * without marks. */
static void put_plot(FILE *file, const BenchLengths *all, int column) {
    size_t series = 0;
    fprintf(file, "plot NaN notitle");
    for (size_t i = 0; i < all->count; i++) {
        if (!begins_series(all, i)) continue;
        series++;
        if (is_measured(all, i)) {
            fprintf(file, ", $data%zu using 1:%d with linespoints lt %zu title '", series, column,
                    series);
            put_title(file, &all->cells[i]);
            fprintf(file, "'");
        }
        if (column == 3)
            fprintf(file, ", $data%zu using 1:4 with lines lt %zu lw 1 notitle", series, series);
    }
    fprintf(file, "\n");
}

static void put_script(FILE *file, const char *path, const BenchLengths *all, bool training) {
    fprintf(file, "%sset output '", STYLE);
    for (const char *c = path; *c; c++) fprintf(file, *c == '\'' ? "''" : "%c", *c);
    fprintf(file, "'\n");
    put_data(file, all);
    fprintf(file,
            "set multiplot\nset xtics rotate by -40\nset size 0.42, 1\nset rmargin 3\nunset key\n"
            "set ylabel 'microseconds a token (%s)' textcolor rgb '#808080'\n",
            training ? "training" : "inference");
    put_plot(file, all, 2);
    fprintf(file, "set key\nset size 0.58, 1\nset origin 0.42, 0\nset rmargin 34\n"
                  "set ylabel 'GiB of memory' textcolor rgb '#808080'\n");
    put_plot(file, all, 3);
    fprintf(file, "unset multiplot\n");
}

bool bench_lengths_can_draw(Err *err) {
    return gnuplot_run("/dev", "null", err) == GNUPLOT_DONE;
}

bool bench_lengths_write_svg(const char *path, const BenchLengths *lengths, bool training,
                             Err *err) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* a shell that has found no gnuplot */
    FILE *file = popen("gnuplot", "w");
    int status = -1;
    if (file) {
        put_script(file, path, lengths, training);
        status = pclose(file);
    }
    signal(SIGPIPE, before);
    if (status == 0 && gnuplot_svg_is_whole(path)) return true;
    if (status == 0) {
        unlink(path);
        return err_set(err, ERR_FAILED,
                       "%s: the picture that gnuplot drew is not whole; is the disk full?", path);
    }
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(err, ERR_FAILED,
                       "%s: gnuplot is not installed (Debian: apt-get install gnuplot-nox)", path);
    return err_set(err, ERR_FAILED, "%s: gnuplot has failed", path);
}
