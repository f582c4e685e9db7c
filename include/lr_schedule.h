/* The learning rate, a pure function of the consumed share of the budget. */
#ifndef LR_SCHEDULE_H
#define LR_SCHEDULE_H

#include "config.h"

/* peak * f(progress), progress in [0,1]: the share of the budget consumed at the middle of the
 * update (budget_progress). Rises linearly from 0 to peak over `warmup`, then falls to 0 at 1
 * (linear, half cosine) or stays (constant).  Progress outside [0,1] counts as the nearer end. */
double lr_schedule(const ScheduleConfig *config, double peak, double progress);

#endif
