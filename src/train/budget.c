#include "budget.h"

#include <math.h>

static const double SECONDS_PER_HOUR = 3600;

/* How much of the amount is used up, in its unit. */
static double consumed(const Budget *budget, const TrainState *state) {
    switch (budget->unit) {
    case BUDGET_STEPS: return (double)state->step;
    case BUDGET_EPOCHS: return (double)state->sample;
    case BUDGET_TOKENS: return (double)state->tokens;
    case BUDGET_HOURS: return state->elapsed_s;
    }
    return 0;
}

static double share(double part, double whole) {
    return part < whole ? part / whole : 1;
}

Budget budget_create(const TrainConfig *config, size_t dataset_sequences) {
    Budget budget = {.unit = config->budget_unit, .amount = config->budget, .batch = config->batch};
    if (budget.unit == BUDGET_EPOCHS) budget.amount *= (double)dataset_sequences;
    if (budget.unit == BUDGET_HOURS)
        budget.amount *= SECONDS_PER_HOUR;
    else
        budget.amount = fmax(1, round(budget.amount));
    return budget;
}

bool budget_spent(const Budget *budget, const TrainState *state) {
    return consumed(budget, state) >= budget->amount;
}

double budget_consumed(const Budget *budget, const TrainState *state) {
    return share(consumed(budget, state), budget->amount);
}

size_t budget_next_count(const Budget *budget, const TrainState *state) {
    if (budget->unit != BUDGET_EPOCHS) return budget->batch;
    double left = budget->amount - (double)state->sample;
    return left < (double)budget->batch ? (size_t)left : budget->batch;
}

double budget_progress(const Budget *budget, const TrainState *state, size_t count, size_t tokens) {
    double update = 1;
    switch (budget->unit) {
    case BUDGET_STEPS: break;
    case BUDGET_EPOCHS: update = (double)count; break;
    case BUDGET_TOKENS: update = (double)tokens; break;
    case BUDGET_HOURS: update = state->step ? state->elapsed_s / (double)state->step : 0; break;
    }
    return share(consumed(budget, state) + update / 2, budget->amount);
}

uint64_t budget_steps(const Budget *budget, double tokens_per_sequence) {
    double batch = (double)budget->batch;
    switch (budget->unit) {
    case BUDGET_STEPS: return (uint64_t)budget->amount;
    case BUDGET_EPOCHS: return (uint64_t)ceil(budget->amount / batch);
    case BUDGET_TOKENS: return (uint64_t)ceil(budget->amount / (batch * tokens_per_sequence));
    case BUDGET_HOURS: break;
    }
    return 0;
}
