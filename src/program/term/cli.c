#include "term/cli.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "term/safe_text.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/system.h"

/* ---- remedies ---- */

static bool ends_with(const char *text, const char *end) {
    return kt__ends_with(text, strlen(text), end);
}

/* What a person can do about an error of the system. */
static const char *remedy_of_system(int code) {
    static const struct {
        int code;
        const char *remedy;
    } rows[] = {
        {ENOENT, "check the spelling, and the folder that you are in"},
        {EACCES, "check who may read, or write, there (ls -l)"},
        {EPERM, "check who may read, or write, there (ls -l)"},
        {EROFS, "name a place that can be written to"},
        {ENOSPC, "free some space on that disk"},
        {EDQUOT, "free some space of your quota"},
        {EISDIR, "name a file, not a folder"},
        {ENOTDIR, "a part of the path is a file, not a folder"},
        {EMFILE, "raise the limit of open files (ulimit -n)"},
        {ENFILE, "the whole system has too many open files"},
        {EIO, "the disk may be failing: see the system's log (dmesg)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code) return rows[i].remedy;
    return NULL;
}

/* A format error is in a model's file, which was made elsewhere, or in what a person wrote. */
static const char *remedy_of_format(const char *where) {
    if (ends_with(where, ".gguf") || ends_with(where, ".safetensors"))
        return "the file may be damaged or incomplete: fetch or make it again, or compare its size";
    return "correct the input at the place named";
}

/* An option, a command, or a sentence that begins with what to do. */
static bool says_what_to_do(const char *message) {
    static const char *const signs[] = {" -",      "(-",           "`",     ": give ",
                                        "; give ", "did you mean", ": set "};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strstr(message, signs[i])) return true;
    return false;
}

/* What a person can do where the message itself does not say. */
static const char *remedy_of(const kt_error *err) {
    const char *where = err->where;
    if (says_what_to_do(err->message)) return NULL;
    switch (err->code) {
    case KT_E_NOMEM:
        return "use a smaller context (-c), a smaller batch (-b, -ub) or a smaller quantisation";
    case KT_E_IO: return remedy_of_system(err->system);
    case KT_E_FORMAT: return remedy_of_format(where);
    case KT_E_UNSUPPORTED:
        return ends_with(where, ".gguf") ? "`kentang inspect FILE` shows what the file holds"
                                         : NULL;
    case KT_E_CONTEXT_FULL: return "raise the context (-c) or shorten the prompt";
    case KT_E_NUMERIC: return "the weights may be damaged; try `--exact`, or another file";
    case KT_E_TEMPLATE: return "try `--raw`, which does without the chat template";
    case KT_E_TRUNCATED: return "do not replace a model file in place while it is in use";
    case KT_E_INTERNAL:
        return "this is a fault of kentang; please report it with the command you ran";
    default: return NULL;
    }
}

/* Whose error it is, where a launcher started several processes, whose lines come out together. */
static void print_process(void) {
    char host[256];
    if (kt_launcher_rank() < 1) return;
    if (!kt__system_host(host, sizeof host)) snprintf(host, sizeof host, "another machine");
    fprintf(stderr, "process %d on %s: ", kt_launcher_rank(), host);
}

static void print_line(const char *command, const char *message) {
    fprintf(stderr, "kentang%s%s: error: ", command ? " " : "", command ? command : "");
    print_process();
    kt__safe_line(stderr, message);
}

static void print_remedy(const char *remedy) {
    if (remedy) fprintf(stderr, "  remedy: %s\n", remedy);
}

int kt__cli_fail(const char *command, const kt_error *err) {
    fflush(stdout);
    print_line(command, err->message[0] ? err->message : kt_status_message(err->code));
    if (err->where[0] && err->offset != UINT64_MAX) {
        fputs(" (", stderr);
        kt__safe_line(stderr, err->where);
        fprintf(stderr, ", byte %llu)", (unsigned long long)err->offset);
    } else if (err->where[0]) {
        fputs(" (", stderr);
        kt__safe_line(stderr, err->where);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    print_remedy(remedy_of(err));
    return kt_status_exit_code(err->code);
}

int kt__cli_error(const char *command, kt_status code, const char *remedy, const char *fmt, ...) {
    kt_error err = {.code = code};
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.message, sizeof err.message, fmt, args);
    va_end(args);
    fflush(stdout);
    print_line(command, err.message);
    fputc('\n', stderr);
    print_remedy(remedy ? remedy : remedy_of(&err));
    return kt_status_exit_code(code);
}

int kt__cli_usage_error(const char *command, const char *fmt, ...) {
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    fflush(stdout);
    print_line(command, message);
    fprintf(stderr, "\n  remedy: see `kentang %s%s--help`\n", command ? command : "",
            command ? " " : "");
    return KT__EXIT_USAGE;
}

void kt__cli_log(void *user, kt_log_level level, const char *line) {
    (void)user;
    if (level > KT_LOG_WARN) return;
    fputs("kentang: ", stderr);
    kt__safe_line(stderr, line);
    fputc('\n', stderr);
}

int kt__cli_read_line(FILE *in, size_t max, char **line, size_t *len, kt_error *err) {
    kt__buf buf;
    kt__buf_init(&buf, max);
    int c, result = 1;
    while ((c = getc(in)) != EOF && c != '\n') {
        if (!kt__buf_putc(&buf, (char)c)) break;
    }
    if (buf.failed) {
        (void)kt__fail(err, KT_E_LIMIT, "an input line is longer than %zu bytes", max);
        result = -1;
    } else if (ferror(in)) {
        (void)kt__fail_system(err, errno, NULL, "reading the input");
        result = -1;
    } else if (c == EOF && !buf.len) {
        result = 0;
    }
    if (result == 1) {
        *line = kt__buf_take(&buf, len);
        if (!*line) {
            (void)kt__fail_nomem(err, "an input line", buf.len);
            result = -1;
        }
    }
    kt__buf_free(&buf);
    return result;
}

static kt_status read_all(FILE *in, const char *path, size_t max, kt__buf *buf, kt_error *err) {
    char chunk[16384];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, in)) > 0) {
        if (kt__buf_append(buf, chunk, n)) continue;
        if (buf->len + n > max) {
            return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "more than %zu bytes of input",
                               max);
        }
        return kt__fail_nomem(err, "the input", buf->len + n);
    }
    if (ferror(in)) {
        return kt__fail_system(err, errno, path, "cannot read");
    }
    return KT_OK;
}

kt_status kt__cli_read_file(const char *path, size_t max, char **text, size_t *len, kt_error *err) {
    bool is_stdin = !strcmp(path, "-");
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    if (!in) {
        return kt__fail_system(err, errno, path, "cannot open");
    }
    kt__buf buf;
    kt__buf_init(&buf, max);
    kt_status status = read_all(in, path, max, &buf, err);
    if (status == KT_OK) {
        *text = kt__buf_take(&buf, len);
        if (!*text) status = kt__fail_nomem(err, "the input", buf.len);
    }
    kt__buf_free(&buf);
    if (!is_stdin) fclose(in);
    return status;
}

int kt__cli_finish(const char *command, int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return kt__cli_error(command, KT_E_IO, "check the disk or the program that reads the output",
                         "cannot write the output");
}

/* ---- files of text ---- */

/* The first byte that is part of no character; len: there is none. */
static size_t first_bad_byte(const char *text, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint32_t cp;
        size_t n = (unsigned char)text[at] < 0x80 ? 1 : kt__utf8_decode(text + at, len - at, &cp);
        if (!n) break;
        at += n;
    }
    return at;
}

static kt_status check_text(const char *path, const char *text, size_t len, bool any_bytes,
                            kt_error *err) {
    bool is_stdin = !strcmp(path, "-");
    const char *name = is_stdin ? "standard input" : path;
    const char *nul = memchr(text, '\0', len);
    if (nul) {
        return kt__fail_at(err, KT_E_FORMAT, name, (uint64_t)(nul - text),
                           "the prompt holds a NUL byte: is it a text?");
    }
    size_t at = any_bytes ? len : first_bad_byte(text, len), line = 1;
    if (at == len) return KT_OK;
    for (size_t i = 0; i < at; i++) line += text[i] == '\n';
    return kt__fail_at(err, KT_E_ARG, name, at,
                       "not UTF-8: byte 0x%02x in line %zu; if it is Latin-1: iconv -f LATIN1 -t "
                       "UTF-8 %.200s",
                       (unsigned char)text[at], line, is_stdin ? "" : path);
}

/* A byte-order mark at the beginning says nothing; editors on Windows leave one. */
static void drop_mark(char *text, size_t *len) {
    static const char mark[] = "\xef\xbb\xbf";
    if (*len < 3 || memcmp(text, mark, 3) != 0) return;
    *len -= 3;
    memmove(text, text + 3, *len + 1);
}

kt_status kt__text_file_read(const char *path, size_t max, bool any_bytes, char **text, size_t *len,
                             kt_error *err) {
    kt_status status = kt__cli_read_file(path, max, text, len, err);
    if (status != KT_OK) return status;
    drop_mark(*text, len);
    status = check_text(path, *text, *len, any_bytes, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*text);
    *text = NULL;
    return status;
}
