#include "spectrum_files.h"
#include "text_file.h"

/* share and share_std of the largest `index` singular values; past the last all is reached. */
static void put_share(AtomicFile *file, const SpectrumCurves *curves, size_t unit, size_t index) {
    size_t at = unit * curves->length + index - 1;
    bool past = index > curves->length;
    text_file_put(file, "%.9g,%.6g\n", past ? 1 : curves->share[at],
                  past ? 0 : curves->deviation[at]);
}

static bool write_curves(const char *folder, const Spectrum *s, const SpectrumCurves *curves,
                         Err *err) {
    AtomicFile file;
    if (!text_file_open(&file, err, folder, "curves-%s.csv", spectrum_map_name(curves->map)))
        return false;
    text_file_put(&file, "layer,head,index,singular_value,share,share_std\n");
    for (size_t unit = 0; unit < s->layers * s->heads; unit++) {
        size_t l = unit / s->heads;
        for (size_t i = 1; i <= curves->values[l]; i++) {
            text_file_put(&file, "%zu,%zu,%zu,%.9g,", l, unit % s->heads, i,
                          curves->value[unit * curves->length + i - 1]);
            put_share(&file, curves, unit, i);
        }
    }
    return io_atomic_commit(&file, err);
}

static bool write_heatmap(const char *folder, const Spectrum *s, const SpectrumCurves *curves,
                          size_t index, Err *err) {
    AtomicFile file;
    if (!text_file_open(&file, err, folder, "heatmap-%s.csv", spectrum_map_name(curves->map)))
        return false;
    text_file_put(&file, "layer,head,index,share,share_std\n");
    for (size_t unit = 0; unit < s->layers * s->heads; unit++) {
        text_file_put(&file, "%zu,%zu,%zu,", unit / s->heads, unit % s->heads, index);
        put_share(&file, curves, unit, index);
    }
    return io_atomic_commit(&file, err);
}

bool spectrum_write_tables(const char *folder, const Spectrum *spectrum, size_t index, Err *err) {
    for (size_t m = 0; m < spectrum->maps; m++)
        if (!write_curves(folder, spectrum, &spectrum->curves[m], err) ||
            !write_heatmap(folder, spectrum, &spectrum->curves[m], index, err))
            return false;
    return true;
}
