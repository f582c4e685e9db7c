/* Memory of the machine and of this process. */
#ifndef SYSTEM_MEMORY_H
#define SYSTEM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes this process can still take without swapping and without reaching a memory limit of its
 * control group (a container's); false where the system does not tell. */
bool system_memory_available(size_t *bytes);

#endif
