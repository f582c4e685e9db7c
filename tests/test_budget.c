#include "budget.h"
#include "harness.h"

/* Runs a budget to its end with updates of `mean` tokens a sequence and a second each; returns the
 * steps taken, and checks that progress rises and that each update's middle lies between what was
 * consumed before and after it. */
static uint64_t run(const Budget *budget, TrainState *state, size_t mean) {
    *state = (TrainState){0};
    while (!budget_spent(budget, state) && state->step < 100000) {
        size_t count = budget_next_count(budget, state), tokens = count * mean;
        double before = budget_consumed(budget, state),
               middle = budget_progress(budget, state, count, tokens);
        state->step++;
        state->sample += count;
        state->tokens += tokens;
        state->elapsed_s += 1;
        CHECK(count > 0);
        CHECK(before <= middle && middle <= budget_consumed(budget, state));
    }
    CHECK_CLOSE(budget_consumed(budget, state), 1, 0);
    return state->step;
}

static Budget make(BudgetUnit unit, double amount, size_t batch, size_t sequences) {
    TrainConfig config = {.budget_unit = unit, .budget = amount, .batch = batch};
    return budget_create(&config, sequences);
}

static void test_steps(void) {
    TrainState state;
    Budget budget = make(BUDGET_STEPS, 200, 7, 50);
    CHECK_INT(run(&budget, &state, 3), 200);
    CHECK_INT(state.sample, 1400);
    CHECK_INT(budget_steps(&budget, 3), 200);
    state = (TrainState){.step = 49};
    CHECK_CLOSE(budget_progress(&budget, &state, 7, 21), 49.5 / 200, 1e-15);
}

/* 2.5 epochs of 50 sequences are 125 samples: 17 updates of 7 and one of 6. */
static void test_epochs_end_with_a_smaller_update(void) {
    TrainState state;
    Budget budget = make(BUDGET_EPOCHS, 2.5, 7, 50);
    CHECK_INT(run(&budget, &state, 3), 18);
    CHECK_INT(state.sample, 125);
    CHECK_INT(budget_steps(&budget, 3), 18);
    state = (TrainState){.sample = 119, .step = 17};
    CHECK_INT(budget_next_count(&budget, &state), 6);
    CHECK_CLOSE(budget_progress(&budget, &state, 6, 18), 122.0 / 125, 1e-15);
}

static void test_tokens(void) {
    TrainState state;
    Budget budget = make(BUDGET_TOKENS, 1000, 4, 50);
    CHECK_INT(run(&budget, &state, 30), 9); /* 8 updates of 120 tokens are 960 */
    CHECK_INT(budget_steps(&budget, 30), 9);
    state = (TrainState){.tokens = 960};
    CHECK_CLOSE(budget_progress(&budget, &state, 4, 60), 0.99, 1e-15);
    CHECK_CLOSE(budget_progress(&budget, &state, 4, 120), 1,
                0); /* the middle of an update that overshoots */
}

static void test_hours(void) {
    TrainState state;
    Budget budget = make(BUDGET_HOURS, 0.01, 4, 50); /* 36 seconds */
    CHECK_INT(run(&budget, &state, 30), 36);
    CHECK_INT(budget_steps(&budget, 30), 0);
    state = (TrainState){.step = 10, .elapsed_s = 9}; /* 0.9 s a step: its middle is at 9.45 s */
    CHECK_CLOSE(budget_progress(&budget, &state, 4, 120), 9.45 / 36, 1e-15);
}

static void test_smallest(void) {
    TrainState state;
    Budget budget = make(BUDGET_EPOCHS, 1e-6, 4, 50);
    CHECK_INT(run(&budget, &state, 30), 1);
    CHECK_INT(state.sample, 1);
}

const Test tests_budget[] = {
    {"steps", test_steps, 0},
    {"epochs_end_with_a_smaller_update", test_epochs_end_with_a_smaller_update, 0},
    {"tokens", test_tokens, 0},
    {"hours", test_hours, 0},
    {"smallest", test_smallest, 0},
    {0},
};
