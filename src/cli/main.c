/* linformer: one binary, sub-commands.  The only place that prints an error and ends the
 * program. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "log.h"
#include "stop_signal.h"
#include "threads.h"

#ifndef LINFORMER_VERSION
#define LINFORMER_VERSION "unknown"
#endif

static const Command *const commands[] = {
    &command_tokenizer, &command_prepare, &command_pretrain, &command_finetune, &command_sweep,
    &command_report,    &command_eval,    &command_predict,  &command_embed,    &command_fill_mask,
    &command_spectrum,  &command_inspect, &command_plan,     &command_bench,
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const Command *find_command(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!strcmp(commands[i]->name, name)) return commands[i];
    }
    return NULL;
}

static void write_help(FILE *stream) {
    fprintf(stream, "usage: linformer COMMAND [options] [arguments]\n"
                    "Pretrains RoBERTa-style encoders with linear-complexity attention on "
                    "CPUs.\n\ncommands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(stream, "  %-12s %s\n", "help",
            "this list; `help COMMAND`: its options; `help config`: the keys of a config");
    fprintf(stream, "\n  --version    program, libraries, BLAS kernel and threads\n\n"
                    "Results go to stdout, the log to stderr.  Exit status: 0 done, 1 failed, 2 "
                    "usage or config,\n"
                    "3 stopped by a non-finite loss, 75 stopped by a signal after saving (continue "
                    "with --resume).\n");
}

static void write_version(void) {
    char threads[256];
    threads_set(0);
    threads_describe(threads, sizeof threads);
    printf("linformer %s\n%s\ncJSON %s\n", LINFORMER_VERSION, threads, cJSON_Version());
#ifdef __VERSION__
    printf("compiler %s\n", __VERSION__);
#endif
    if (threads_warning()) printf("warning: %s\n", threads_warning());
}

/* "what: did you mean x?", with the list where nothing is near. */
static bool fail_unknown(const char *what, const char *name, Err *err) {
    const char *names[COMMANDS + 3] = {0};
    char list[256] = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i]->name;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    names[COMMANDS] = "help";
    names[COMMANDS + 1] = "config";
    const char *near = near_word(name, names);
    if (near) return err_set(err, ERR_CONFIG, "no %s %.40s: did you mean %s?", what, name, near);
    return err_set(err, ERR_CONFIG, "no %s %.40s: there are %s, help", what, name, list);
}

static bool run_help(int argc, char **argv, Err *err) {
    if (argc > 1) return err_set(err, ERR_CONFIG, "help: unexpected argument %.40s", argv[1]);
    if (argc == 0 || !strcmp(argv[0], "help"))
        write_help(stdout);
    else if (!strcmp(argv[0], "config"))
        config_write_help(stdout);
    else if (find_command(argv[0]))
        command_write_help(stdout, find_command(argv[0]));
    else
        return fail_unknown("help on", argv[0], err);
    return true;
}

static bool run_command(const Command *command, int argc, char **argv, Err *err) {
    Args args;
    bool ok = args_parse(&args, command, argc, argv, err);
    if (!ok) {
        fprintf(stderr, "linformer: %s\n", err->msg);
        command_write_usage(stderr, command);
        fprintf(stderr, "`linformer help %s` explains the options\n", command->name);
        err->msg[0] = 0; /* printed */
    } else if (args.options.help) {
        command_write_help(stdout, command);
    } else {
        StopSignal signals;
        if (args.options.quiet) log_quiet(true);
        if (command->own_signals)
            stop_signal_install(&signals);
        else
            interrupt_start();
        ok = command->run(&args, err);
    }
    args_free(&args);
    return ok;
}

static bool dispatch(int argc, char **argv, Err *err) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        write_help(stderr);
        return err_set(err, ERR_CONFIG, "no command given");
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) return run_help(0, NULL, err);
    if (!strcmp(name, "help")) return run_help(argc - 2, argv + 2, err);
    if (!strcmp(name, "--version")) {
        write_version();
        return true;
    }
    const Command *command = find_command(name);
    if (command) return run_command(command, argc - 2, argv + 2, err);
    return fail_unknown(name[0] == '-' ? "option" : "command", name, err);
}

int main(int argc, char **argv) {
    threads_prepare_process(argv);
    signal(SIGCHLD, SIG_DFL); /* who ignores it, as our parent may do, waits for no child */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow on is an error like a full disk */
    Err err = {0};
    bool ok = dispatch(argc, argv, &err);
    if (fflush(stdout) != 0 || ferror(stdout)) { /* a full disk must not look like a result */
        if (ok)
            err_set(&err, ERR_FAILED, "cannot write the results to stdout: %s", strerror(errno));
        ok = false;
    }
    if (ok) return 0;
    log_quiet(true); /* takes a progress bar off the terminal */
    if (err.msg[0]) fprintf(stderr, "linformer: %s\n", err.msg);
    /* a thread may still be at work that cannot be stopped: nothing is torn down below it */
    if (err.code == ERR_SIGNAL) _exit(ERR_SIGNAL);
    return err.code ? (int)err.code : (int)ERR_FAILED;
}
