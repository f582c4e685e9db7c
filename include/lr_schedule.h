/* The learning rate and the length of sequences, pure functions of the consumed share of the
 * budget. */
#ifndef LR_SCHEDULE_H
#define LR_SCHEDULE_H

#include "config.h"

/* peak * f(progress), progress in [0,1]: the share of the budget consumed at the middle of the
 * update (budget_progress). Rises linearly from 0 to peak over `warmup`, then falls to 0 at 1
 * (linear, half cosine) or stays (constant).  Progress outside [0,1] counts as the nearer end. */
double lr_schedule(const ScheduleConfig *config, double peak, double progress);

/* Longest piece that sequences of n tokens are cut into (sequence length warm-up; Li, Zhang and He,
 * arXiv 2108.06084): length_start for half of length_warmup, then growing geometrically to n at its
 * end.  n where length_start is 0. */
size_t length_schedule(const ScheduleConfig *config, size_t n, double progress);

#endif
