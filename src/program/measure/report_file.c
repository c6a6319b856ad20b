#include "measure/report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"

static const kt__opt table[] = {
    {.name = "report",
     .kind = KT__OPT_TEXT,
     .at = offsetof(kt__report_opts, path),
     .arg = "FILE.html",
     .help =
         "the result as a page as well: plots, tables, the command and the machine, in one file "
         "that needs nothing else"},
};

kt__report_opts kt__report_opts_of(int argc, char **argv) {
    return (kt__report_opts){.argc = argc, .argv = argv};
}

kt__opt_group kt__report_opts_group(kt__report_opts *opts) {
    return (kt__opt_group){"Report", table, KT__COUNT(table), opts};
}

/* ---- the command ---- */

static void append_word(kt__buf *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,@%+-";
    kt__buf_putc(out, ' ');
    if (*word && !word[strspn(word, plain)]) {
        kt__buf_puts(out, word);
        return;
    }
    kt__buf_putc(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            kt__buf_puts(out, "'\\''");
        else
            kt__buf_putc(out, *word);
    }
    kt__buf_putc(out, '\'');
}

/* Bytes of a word that names a key: "--key" and "--key=..."; 0: it does not. */
static size_t key_option(const char *word) {
    static const char *const names[] = {"--key", "--api-key"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(word, names[i], n) && (!word[n] || word[n] == '=')) return n;
    }
    return 0;
}

void kt__report_command(const kt__report_opts *opts, kt__buf *out) {
    kt__buf_puts(out, "kentang");
    for (int i = 0; i < opts->argc; i++) {
        size_t key = key_option(opts->argv[i]);
        if (!key) {
            append_word(out, opts->argv[i]);
            continue;
        }
        kt__buf_printf(out, " %.*s KEY", (int)key, opts->argv[i]);
        i += !opts->argv[i][key];
    }
}

/* ---- the file ---- */

static kt_status fail_report(const kt__report_opts *opts, kt_error *err) {
    return kt__fail_at(err, KT_E_IO, opts->path, UINT64_MAX, "cannot write the report: %s",
                       strerror(errno));
}

/* A new file next to the report: what is renamed is on the same disk. */
static kt_status open_temp(const kt__report_opts *opts, char **temp, int *fd, kt_error *err) {
    size_t size = strlen(opts->path) + 32;
    *temp = kt__malloc(size);
    if (!*temp) return kt__fail_nomem(err, "a path", size);
    snprintf(*temp, size, "%s.%ld.tmp", opts->path, (long)getpid());
    *fd = open(*temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0 ? KT_OK : fail_report(opts, err);
}

kt_status kt__report_check(const kt__report_opts *opts, kt_error *err) {
    struct stat st;
    char *temp = NULL;
    int fd = -1;
    if (!opts->path) return KT_OK;
    if (!*opts->path || !strcmp(opts->path, "-"))
        return kt__fail(err, KT_E_ARG, "--report needs the name of a file");
    if (stat(opts->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode)) {
            errno = EISDIR;
            return fail_report(opts, err);
        }
        return kt__fail_at(err, KT_E_ARG, opts->path, UINT64_MAX,
                           "--report would replace what is no file");
    }
    kt_status status = open_temp(opts, &temp, &fd, err);
    if (fd >= 0) {
        close(fd);
        unlink(temp);
    }
    kt__free(temp);
    return status;
}

kt_status kt__report_write(const kt__report_opts *opts, const kt__buf *bytes, kt_error *err) {
    char *temp = NULL;
    int fd = -1;
    kt_status status = open_temp(opts, &temp, &fd, err);
    if (fd >= 0) {
        bool whole = kt__fd_write_at(fd, bytes->data, bytes->len, 0) && fsync(fd) == 0;
        int why = whole ? 0 : errno;
        if (close(fd) != 0 && !why) why = errno;
        if (!why && rename(temp, opts->path) != 0) why = errno;
        if (why) {
            unlink(temp);
            errno = why;
            status = fail_report(opts, err);
        }
    }
    kt__free(temp);
    return status;
}
