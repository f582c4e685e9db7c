/* One contender of bench_lengths.h, made and run once. */
#ifndef BENCH_TURN_H
#define BENCH_TURN_H

#include "bench_lengths.h"

/* The model of a side: everything else as in `config`, whose strings it shares. */
Config bench_side_config(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                         bool training);

typedef struct BenchTurn {
    double seconds;    /* of one pass, or update */
    size_t peak_bytes; /* what the turn added to the resident set */
} BenchTurn;

/* Runs a few passes and takes their median; a pass of many seconds is run once.  about_s: for how
 * long to repeat short ones. */
bool bench_turn(BenchTurn *out, const Config *config, const BenchCell *cell, bool training,
                double about_s, Err *err);

#endif
