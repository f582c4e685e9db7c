#!/bin/sh
# plot_loss.sh OUT.svg RUN...: training and held-out loss of runs against updates, as one picture.
# Needs gnuplot. Readable on light and dark pages; the background is transparent.
set -eu
[ $# -ge 2 ] || { echo "usage: plot_loss.sh OUT.svg RUN..." >&2; exit 2; }
command -v gnuplot >/dev/null || {
    echo "plot_loss.sh: gnuplot is missing (package gnuplot-nox)" >&2
    exit 1
}
out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Updates and a loss of metrics.jsonl; training losses as means of ten lines.
columns() {
    awk -v member="$2" '
        function value(name) {
            if (!match($0, "\"" name "\":[-0-9.e+]+")) return ""
            return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
        }
        { step = value("step"); loss = value(member) }
        loss == "" { next }
        member == "valid_loss" { print step, loss; next }
        { sum += loss; if (++n == 10) { print step, sum / n; sum = n = 0 } }
    ' "$1/metrics.jsonl"
}

colour=1
plot=
for run; do
    name=$(basename "$run")
    columns "$run" loss >"$work/$colour.train"
    columns "$run" valid_loss >"$work/$colour.valid"
    plot="$plot${plot:+, }'$work/$colour.train' with lines lc $colour title '$name, training'"
    plot="$plot, '$work/$colour.valid' with linespoints lc $colour lw 2.5 pt 7 ps 0.5"
    plot="$plot title '$name, held-out'"
    colour=$((colour + 1))
done
entropy=$(grep -ho '"unigram_entropy":[0-9.]*' "$1/metrics.jsonl" | tail -n 1 | cut -d: -f2)

gnuplot <<END_OF_PLOT
set terminal svg size 760,420 dynamic font "sans-serif,13"
set output "$work/plot.svg"
set linetype 1 lc rgb "#2a7fd4"
set linetype 2 lc rgb "#d9822b"
set linetype 3 lc rgb "#2f9e62"
set border 3 lc rgb "#808080"
set tics nomirror textcolor rgb "#808080"
set key textcolor rgb "#808080" below maxrows 2
set arrow from graph 0, first ${entropy:-0} to graph 1, first ${entropy:-0} nohead \
    lc rgb "#808080" dt 2 lw 1.5
set label "unigram entropy of the held-out text" at graph 0.99, first ${entropy:-0} right \
    offset 0, -0.7 textcolor rgb "#808080"
set xlabel "updates" textcolor rgb "#808080"
set ylabel "loss (nats a masked token)" textcolor rgb "#808080"
set yrange [*:${entropy:-8} + 0.7]
set grid y lc rgb "#808080" lw 0.3
plot $plot
END_OF_PLOT
mv "$work/plot.svg" "$out"
