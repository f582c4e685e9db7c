/* Where the time of training steps goes: a clock that is read after each part of the work and adds
 * the time since it was last read, so that the parts make up the whole.  One reading takes some 30
 * ns.  For one thread, the one that calls the kernels. */
#ifndef PROFILE_H
#define PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ProfilePart {
    PROFILE_DATA,        /* filling batches */
    PROFILE_EMBEDDING,   /* look-up and its gradient */
    PROFILE_QKV,         /* feature projections of queries, keys and values */
    PROFILE_SEQ_PROJECT, /* E and F */
    PROFILE_ATTENTION,   /* scores, softmax, dropout of probabilities, weighted sums */
    PROFILE_OUT,         /* output map of attention */
    PROFILE_FF1,
    PROFILE_GELU,
    PROFILE_FF2,
    PROFILE_DROPOUT,   /* bias, dropout and residual of both blocks */
    PROFILE_LAYERNORM, /* with its recomputation */
    PROFILE_HEAD,      /* either head but its decoder and loss */
    PROFILE_DECODER,   /* products with the token embeddings */
    PROFILE_LOSS,      /* softmax, cross entropy and gradient of the logits */
    PROFILE_OPTIMIZER, /* clearing of gradients, their norm, the update */
    PROFILE_PARTS
} ProfilePart;

/* What was done, recomputation included: two operations a multiply-add of a matrix product, and
 * the bytes that have to be read and written if caches hold everything within a call and nothing
 * from call to call. */
typedef struct ProfileEntry {
    uint64_t laps;
    double seconds, operations, bytes;
} ProfileEntry;

typedef struct Profile {
    ProfileEntry parts[PROFILE_PARTS];
    double mark; /* when the clock was last read */
} Profile;

/* The functions below do nothing where profile is NULL. */

/* Reads the clock: the time since its last reading belongs to no part. */
void profile_start(Profile *profile);

/* Reads the clock: the time since its last reading belongs to `part`. */
void profile_lap(Profile *profile, ProfilePart part, double operations, double bytes);

/* Empties all parts. */
void profile_clear(Profile *profile);

/* "ff1". */
const char *profile_part_name(ProfilePart part);

/* Is the part limited by arithmetic (matrix products) rather than by memory? */
bool profile_part_is_product(ProfilePart part);

/* Seconds of all parts. */
double profile_seconds(const Profile *profile);

/* "ff2 21%, ff1 20%, ..., data 0%": the shares of all parts that took any time, largest first;
 * "nothing" where none did. */
void profile_describe(char *out, size_t size, const Profile *profile);

#endif
