/* Time that only goes forward. */
#ifndef CLOCK_H
#define CLOCK_H

double clock_now_s(void); /* seconds of the monotonic clock */

#endif
