/* Processes that write the same files take turns. */
#ifndef FILE_LOCK_H
#define FILE_LOCK_H

#include <stdbool.h>

#include "err.h"

/* Waits for its turn at the file `path`, which is made for that where it is missing, as is its
 * folder, and stays.  *lock: for file_unlock; -1 where the file system has no locks or the folder
 * cannot be written to.  A stop signal ends the wait: ERR_SIGNAL.  The lock goes with the process,
 * however that ends. */
bool file_lock(int *lock, const char *path, Err *err);
void file_unlock(int *lock); /* accepts -1 */

#endif
