/* Runs the kentang program for the command line tests: arguments as the shell reads them, standard
 * input from a string, and back come exit code, standard output and standard error. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct process {
    int code;
    char *out, *err; /* NUL-terminated */
    size_t out_len;
} process;

static inline char *cli_slurp(FILE *in, size_t *len) {
    char *text = malloc(1 << 24);
    rewind(in);
    *len = fread(text, 1, (1 << 24) - 1, in);
    text[*len] = '\0';
    fclose(in);
    return text;
}

/* environment: "NAME=VALUE " words or ""; input: NULL for an empty one */
static inline process cli_run_env(const char *environment, const char *arguments,
                                  const char *input) {
    char command[8192];
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    process p = {0};
    size_t err_len;
    for (int i = 0; i < 3; i++) {
        if (!files[i]) fail_msg("no temporary file");
    }
    if (input) fputs(input, files[0]);
    fflush(files[0]);
    rewind(files[0]);
    snprintf(command, sizeof command, "%s '%s/kentang' %s", environment, KT_BINARY_DIR, arguments);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 3; i++) dup2(fileno(files[i]), i);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    p.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fclose(files[0]);
    p.out = cli_slurp(files[1], &p.out_len);
    p.err = cli_slurp(files[2], &err_len);
    return p;
}

static inline process cli_run(const char *arguments, const char *input) {
    return cli_run_env("", arguments, input);
}

static inline void cli_free(process *p) {
    free(p->out);
    free(p->err);
    p->out = p->err = NULL;
}

/* Expects an exit code and a text on standard error ("": none). */
static inline void cli_expect_error(const char *arguments, int code, const char *says) {
    process p = cli_run(arguments, NULL);
    if (p.code != code || !strstr(p.err, says)) {
        fail_msg("kentang %s: exit code %d, expected %d and \"%s\":\n%s", arguments, p.code, code,
                 says, p.err);
    }
    cli_free(&p);
}

#endif
