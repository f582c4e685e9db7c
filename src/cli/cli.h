/* What the sub-commands share: their table entry, options, and how results leave the program. */
#ifndef CLI_H
#define CLI_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "loaded_model.h"
#include "text_source.h"

/* Values of all options of all commands; a command reads those that its table lists. */
typedef struct Options {
    bool help, json, quiet, resume, stats, profile;
    bool list, slurm, dry_run, fail_fast, retry_failed;
    bool squared, each_head, dump_matrices, projections, inference;
    size_t top, batch, threads, sequences, steps, warmup, pad, jobs, index, total_k, multiple;
    size_t layers, tokens, rounds, memory;
    double gflops, suggest_k, seconds;
    /* NULL: not given */
    const char *file, *format, *out, *pooling, *n, *k, *csv, *svg;
} Options;

typedef enum OptionKind {
    OPTION_FLAG,
    OPTION_COUNT,
    OPTION_NUMBER,
    OPTION_BYTES,
    OPTION_TEXT
} OptionKind;

typedef struct Option {
    const char *name; /* "--top" */
    OptionKind kind;
    size_t offset;     /* of the member of Options: bool, size_t (count, bytes), double or
                          const char * */
    double low, high;  /* of the value; a count without the option is 0 */
    const char *value; /* its name in the help, NULL for a flag */
    const char *help;
} Option;

/* Options that every command takes. */
#define OPTION_JSON                                                                                \
    {                                                                                              \
        "--json", OPTION_FLAG, offsetof(Options, json), 0, 0, NULL,                                \
            "print the result as one JSON object"                                                  \
    }
#define OPTION_QUIET                                                                               \
    {                                                                                              \
        "--quiet", OPTION_FLAG, offsetof(Options, quiet), 0, 0, NULL,                              \
            "no log and no progress on stderr"                                                     \
    }
#define OPTION_HELP                                                                                \
    { "--help", OPTION_FLAG, offsetof(Options, help), 0, 0, NULL, "this help" }
#define OPTION_THREADS                                                                             \
    {                                                                                              \
        "--threads", OPTION_COUNT, offsetof(Options, threads), 1, 4096, "N",                       \
            "threads to use (default: all this process may use)"                                   \
    }

/* Those of `predict` and `embed`. */
#define OPTION_TEXT_FILE                                                                           \
    {                                                                                              \
        "--file", OPTION_TEXT, offsetof(Options, file), 0, 0, "F",                                 \
            "texts from a file of the task's layout, labels not needed"                            \
    }
#define OPTION_TEXT_BATCH                                                                          \
    {                                                                                              \
        "--batch", OPTION_COUNT, offsetof(Options, batch), 1, 1e6, "B",                            \
            "at most so many texts at a time (default: as in fine-tuning; only pretrained: 64)"    \
    }

typedef struct Args {
    Options options;
    const char **items; /* arguments that are not options, in order; borrowed from argv */
    size_t count;
} Args;

typedef struct Command {
    const char *name, *arguments; /* "plan", "CONFIG [section.key=value ...]" */
    const char *summary;          /* one line of the list of commands */
    const char *notes;            /* paragraphs of the command's help, or NULL */
    const Option *options;        /* name NULL after the last */
    size_t min_arguments, max_arguments;
    bool own_signals; /* handles SIGINT and SIGTERM itself */
    bool (*run)(const Args *args, Err *err);
} Command;

extern const Command command_bench, command_embed, command_eval, command_fill_mask,
    command_finetune, command_inspect, command_plan, command_predict, command_prepare,
    command_pretrain, command_report, command_spectrum, command_sweep, command_tokenizer;

/* Takes arguments and options apart.  Fails with ERR_CONFIG; free with args_free in any case. */
bool args_parse(Args *out, const Command *command, int argc, char **argv, Err *err);
void args_free(Args *args);

/* The arguments behind the first, as paths; config_paths_free in any case. */
bool args_paths(PathList *out, const Args *args, Err *err);

/* "usage: linformer plan CONFIG ..."; stream is a FILE *. */
void command_write_usage(void *stream, const Command *command);
void command_write_help(void *stream, const Command *command);

/* The word of the NULL-terminated list that is a slip of the keyboard away from `word`, or NULL. */
const char *near_word(const char *word, const char *const *words);

/* The configuration args->items[index], with the overrides behind it; logs its notes.  config_free
 * in any case.  One of a fine-tuning is an error; load_task_config wants nothing else. */
bool load_config(Config *out, const Args *args, size_t index, Err *err);
bool load_task_config(Config *out, const Args *args, size_t index, Err *err);

/* The vocabulary of the tokenizer's file; before it is trained tokenizer.vocab_size stands. */
bool take_vocab(Config *config, Err *err);

/* The texts of `predict` and `embed`: arguments behind the checkpoint, else --file, else the lines
 * of stdin.  An argument that names a file is an error: its user meant --file.  block: rows to take
 * at a time; 1 where every line is to be answered before the next is read, which is on a terminal
 * and with --batch 1. */
bool open_texts(TextSource **out, size_t *block, const Args *args, const FinetuneConfig *task,
                Err *err);

/* The text files behind the checkpoint, args->items[0], or the held-out ones that its config names.
 * A table is an error.  config_paths_free in any case. */
bool text_files(PathList *out, const Args *args, const Config *config, Err *err);

/* Warns of lines of stdin that may not be what was meant. */
void log_text_notes(const TextSource *source);

/* Logs how many texts were too long, if any were. */
void log_cut(size_t cut, size_t rows, size_t n, const FinetuneConfig *task);

/* `eval` of a fine-tuned checkpoint: the scores of its task on the files behind it, or on those of
 * its config's data.valid. */
bool eval_task(const Args *args, const LoadedModel *model, Err *err);

/* Prints the object on one line and deletes it. */
bool print_json(cJSON *object, Err *err);

/* "1,234,567" and "1.23 GiB" in one of 8 rotating static buffers. */
const char *show_count(size_t count);
const char *show_bytes(size_t bytes);
const char *show_hash(unsigned long long hash); /* 16 hexadecimal digits */

/* Waits for SIGINT, SIGTERM and SIGHUP on a thread of its own, which removes the temporary folders
 * and ends the process by the signal.  Before any other thread starts. */
void interrupt_start(void);

/* `bench inference` and `bench train`, whose options are those of `bench`. */
bool bench_lengths_command(const Args *args, bool training, Err *err);

/* What every benchmark prints first: threads, BLAS kernel, and what makes its speeds too low. */
void bench_print_machine(double cpu_share);
void bench_add_machine(cJSON *object, double gemm_peak, double cpu_share);

/* A new folder under $TMPDIR, removed by temp_folder_remove or when the program is interrupted. */
bool temp_folder_create(char **path, Err *err);
void temp_folder_remove(char *path); /* frees path; accepts NULL */

#endif
