/* The training budget in steps, epochs, tokens or hours: how much of it is consumed, how large the
 * next update is, and when it ends. */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint.h"
#include "config.h"

typedef struct Budget {
    BudgetUnit unit;
    double amount; /* steps, samples (epochs), tokens or seconds (hours) */
    size_t batch;  /* sequences of a full update */
} Budget;

/* Steps and samples are rounded to whole numbers, at least 1: "2.5 epochs" of 3 sequences are 8
 * samples. */
Budget budget_create(const TrainConfig *config, size_t dataset_sequences);

bool budget_spent(const Budget *budget, const TrainState *state);

/* Share consumed, 0 to 1. */
double budget_consumed(const Budget *budget, const TrainState *state);

/* Sequences of the next update: batch, or what is left of an epochs budget. */
size_t budget_next_count(const Budget *budget, const TrainState *state);

/* Share consumed at the middle of the next update of `count` sequences and `tokens` tokens, 0 to
 * 1.  In hours the length of the update is taken to be the mean of those before it. */
double budget_progress(const Budget *budget, const TrainState *state, size_t count, size_t tokens);

/* Steps the whole budget takes, given the mean tokens of a sequence; 0 for hours: not known
 * beforehand. */
uint64_t budget_steps(const Budget *budget, double tokens_per_sequence);

#endif
