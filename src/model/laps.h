/* Readings of a pass's profile after its kernels (profile.h), with what they did. */
#ifndef LAPS_H
#define LAPS_H

#include "activations.h"
#include "profile.h"

/* `products` of the matrix products of a linear map: one forward, two backward. */
static inline void lap_linear(const Activations *acts, ProfilePart part, size_t rows, size_t in,
                              size_t out, int products) {
    double r = (double)rows, i = (double)in, o = (double)out;
    profile_lap(acts->profile, part, 2 * r * i * o * products,
                (r * i + r * o + i * o) * products * sizeof(real));
}

/* Reads and writes of `passes` arrays of count elements. */
static inline void lap_elements(const Activations *acts, ProfilePart part, size_t count,
                                int passes) {
    profile_lap(acts->profile, part, 0, (double)count * passes * sizeof(real));
}

#endif
