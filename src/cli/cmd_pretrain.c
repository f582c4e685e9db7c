#include "cli.h"
#include "trainer.h"

static bool run(const Args *args, Err *err) {
    Config config;
    bool ok = load_config(&config, args, 0, err) && config_resolve_data(&config, err) &&
              trainer_pretrain(&config, args->options.resume ? RESUME_AUTO : RESUME_NEVER, err);
    config_free(&config);
    return ok;
}

static const Option options[] = {
    {"--resume", OPTION_FLAG, offsetof(Options, resume), 0, 0, NULL,
     "continue from the newest valid checkpoint of the run folder"},
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_pretrain = {
    .name = "pretrain",
    .arguments = "CONFIG [section.key=value ...]",
    .summary = "train an encoder on masked-language modelling",
    .notes = "Trains the tokenizer and prepares the text first where they are missing or stale. "
             "The run folder (`run` in the\n"
             "config) then holds config.yaml, metrics.jsonl, log.txt, last.ckpt, best.ckpt and "
             "step-*.ckpt.\n"
             "SIGINT, SIGTERM and SIGUSR1 end the step, save, and exit with status 75.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .own_signals = true,
    .run = run,
};
