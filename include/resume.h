/* What a run may be continued with. */
#ifndef RESUME_H
#define RESUME_H

#include <stdbool.h>

#include "config.h"
#include "err.h"

/* Error that names the first difference between the run's stored configuration and the given one
 * that training cannot go on with. */
bool resume_check_config(const Config *stored, const Config *given, Err *err);

#endif
