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
