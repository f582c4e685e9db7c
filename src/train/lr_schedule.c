#include "lr_schedule.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

double lr_schedule(const ScheduleConfig *config, double peak, double progress) {
    double p = progress < 0 ? 0 : progress > 1 ? 1 : progress;
    if (p < config->warmup) return peak * p / config->warmup;
    double fallen = (p - config->warmup) / (1 - config->warmup); /* warmup < 1 */
    switch (config->decay) {
    case SCHEDULE_LINEAR: return peak * (1 - fallen);
    case SCHEDULE_COSINE: return peak * 0.5 * (1 + cos(PI * fallen));
    case SCHEDULE_CONSTANT: break;
    }
    return peak;
}

size_t length_schedule(const ScheduleConfig *config, size_t n, double progress) {
    size_t start = config->length_start;
    if (start == 0 || start >= n || progress >= config->length_warmup) return n;
    double growth =
        2 * progress / config->length_warmup - 1; /* -1..1; no growth in the first half */
    if (growth <= 0) return start;
    size_t length = (size_t)((double)start * pow((double)n / (double)start, growth));
    return length < n ? length : n;
}
