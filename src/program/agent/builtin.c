#include "agent/toolbox.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum { READ_BYTES = 32 << 10, MAX_ENTRIES = 1000 };

static bool builtin_fails(kt__buf *text, const char *what, const char *why) {
    kt__buf_clear(text);
    (void)kt__buf_printf(text, "%s: %s", what, why);
    return false;
}

/* ---- clock and calculator ---- */

static bool call_clock(const kt__builtins *b, const json_t *args, kt__buf *text) {
    time_t now = time(NULL);
    struct tm local;
    char when[96];
    (void)b;
    (void)args;
    localtime_r(&now, &local);
    (void)strftime(when, sizeof when, "%A, %Y-%m-%d %H:%M:%S %z", &local);
    return kt__buf_puts(text, when);
}

static bool call_calculator(const kt__builtins *b, const json_t *args, kt__buf *text) {
    const char *expression = json_string_value(json_object_get(args, "expression"));
    kt_error err;
    double value;
    (void)b;
    if (!expression) return builtin_fails(text, "expression", "expected a text");
    if (kt__calc(expression, &value, &err) != KT_OK)
        return builtin_fails(text, "expression", err.message);
    return kt__buf_printf(text, "%.15g", value);
}

/* ---- files ---- */

/* Nothing above the folder, whatever links say: the kernel holds it. */
static int open_below(int folder, const char *path, int flags) {
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NONBLOCK),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, folder, *path ? path : ".", &how, sizeof how);
}

static const char *path_of(const json_t *args) {
    const char *path = json_string_value(json_object_get(args, "path"));
    if (!path) return ".";
    while (*path == '/') path++; /* the folder is the root */
    return path;
}

static void list_entry(int fd, const struct dirent *entry, kt__buf *text) {
    struct stat st;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) return;
    if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISDIR(st.st_mode)) {
        (void)kt__buf_printf(text, "%s/\n", entry->d_name);
    } else {
        (void)kt__buf_printf(text, "%s %lld bytes\n", entry->d_name, (long long)st.st_size);
    }
}

static bool call_list_files(const kt__builtins *b, const json_t *args, kt__buf *text) {
    const char *path = path_of(args);
    int fd = open_below(b->folder, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    int n = 0;
    if (!dir) {
        int code = errno;
        if (fd >= 0) close(fd);
        return builtin_fails(text, path, strerror(code));
    }
    while (n++ < MAX_ENTRIES && (entry = readdir(dir)) != NULL) list_entry(fd, entry, text);
    if (n > MAX_ENTRIES) (void)kt__buf_puts(text, "... and more\n");
    closedir(dir);
    return true;
}

static bool read_part(int fd, int64_t offset, kt__buf *text) {
    char data[READ_BYTES];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return false;
    }
    ssize_t n = pread(fd, data, sizeof data, offset);
    if (n < 0) return false;
    (void)kt__buf_append(text, data, (size_t)n);
    if (offset + n < st.st_size)
        (void)kt__buf_printf(text, "\n[%lld of %lld bytes; continue with offset %lld]",
                             (long long)(offset + n), (long long)st.st_size,
                             (long long)(offset + n));
    return true;
}

static bool call_read_file(const kt__builtins *b, const json_t *args, kt__buf *text) {
    const char *path = path_of(args);
    json_int_t offset = json_integer_value(json_object_get(args, "offset"));
    int fd = open_below(b->folder, path, O_RDONLY);
    bool read = fd >= 0 && read_part(fd, offset > 0 ? offset : 0, text);
    int code = errno;
    if (fd >= 0) close(fd);
    return read || builtin_fails(text, path, strerror(code));
}

/* ---- the table ---- */

#define PATH \
    "\"path\":{\"type\":\"string\",\"description\":\"Below the folder, such as notes/a.txt\"}"

static const struct builtin {
    const char *name, *description, *input;
    bool (*call)(const kt__builtins *b, const json_t *args, kt__buf *text);
} builtins[] = {
    {"clock", "The date and the time, here and now.",
     "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}", call_clock},
    {"calculator",
     "The value of an arithmetic expression: + - * / % ^, brackets, pi, e, sqrt, abs, round, "
     "floor, "
     "ceil, exp, ln, log, sin, cos, tan.",
     "{\"type\":\"object\",\"properties\":{\"expression\":{\"type\":\"string\"}},\"required\":["
     "\"expression\"],\"additionalProperties\":false}",
     call_calculator},
    {"list_files", "The files and folders in a folder.",
     "{\"type\":\"object\",\"properties\":{" PATH "},\"additionalProperties\":false}",
     call_list_files},
    {"read_file", "A file's text, at most 32 kB at a time.",
     "{\"type\":\"object\",\"properties\":{" PATH
     ",\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"In bytes; default 0\"}},"
     "\"required\":[\"path\"],\"additionalProperties\":false}",
     call_read_file},
};

static bool is_on(const kt__builtins *b, const struct builtin *tool) {
    if (tool->call == call_clock) return b->clock;
    return tool->call == call_calculator ? b->calculator : b->folder >= 0;
}

kt_status kt__builtins_open(const char *names, const char *folder, kt__builtins *out,
                            kt_error *err) {
    *out = (kt__builtins){.folder = -1};
    for (const char *at = names ? names : ""; *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");
        bool clock = len == 5 && !strncmp(at, "clock", len);
        bool calculator = len == 10 && !strncmp(at, "calculator", len);
        if (!clock && !calculator)
            return kt__fail(err, KT_E_ARG,
                            "there is no tool \"%.*s\", only clock and calculator (files come with "
                            "--files FOLDER)",
                            (int)(len < 40 ? len : 40), at);
        out->clock |= clock;
        out->calculator |= calculator;
        at += len;
    }
    if (folder) out->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder && out->folder < 0)
        return kt__fail_system(err, errno, folder, "cannot open the folder %.100s", folder);
    return KT_OK;
}

void kt__builtins_close(kt__builtins *b) {
    if (b->folder >= 0) close(b->folder);
    b->folder = -1;
}

json_t *kt__builtins_list(const kt__builtins *b) {
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        const struct builtin *t = &builtins[i];
        if (!is_on(b, t)) continue;
        json_t *tool = json_pack("{s:s,s:s,s:o,s:{s:b,s:b}}", "name", t->name, "description",
                                 t->description, "inputSchema", json_loads(t->input, 0, NULL),
                                 "annotations", "readOnlyHint", 1, "openWorldHint", 0);
        if (!tool || json_array_append_new(list, tool) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

bool kt__builtins_call(const kt__builtins *b, const char *name, const json_t *args, kt__buf *text) {
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        if (!strcmp(builtins[i].name, name) && is_on(b, &builtins[i]))
            return builtins[i].call(b, args, text);
    }
    return builtin_fails(text, name, "there is no such tool");
}

/* ---- calc ---- */

enum { MAX_BYTES = 4096, MAX_DEPTH = 64 };

typedef struct calc {
    const char *text, *at;
    int depth;
    const char *wrong; /* what is the matter at `at`; NULL: nothing */
} calc;

static double read_sum(calc *c);

static double stop_calc(calc *c, const char *why) {
    if (!c->wrong) c->wrong = why;
    return 0;
}

static bool take_char(calc *c, char wanted) {
    c->at += strspn(c->at, " \t\r\n");
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

static double log_of(double x) {
    return log10(x);
}

static const struct {
    const char *name;
    double (*of)(double);
} functions[] = {{"sqrt", sqrt}, {"abs", fabs}, {"round", round}, {"floor", floor}, {"ceil", ceil},
                 {"exp", exp},   {"ln", log},   {"log", log_of},  {"log2", log2},   {"sin", sin},
                 {"cos", cos},   {"tan", tan},  {"asin", asin},   {"acos", acos},   {"atan", atan}};

static double read_bracket(calc *c) {
    if (++c->depth > MAX_DEPTH) return stop_calc(c, "brackets nest too deep");
    double x = read_sum(c);
    c->depth--;
    return take_char(c, ')') || c->wrong ? x : stop_calc(c, "expected )");
}

/* pi, e, or a function with its argument */
static double read_name(calc *c) {
    size_t len = 0;
    while (isalnum((unsigned char)c->at[len])) len++;
    const char *name = c->at;
    c->at += len;
    if (len == 2 && !strncmp(name, "pi", 2)) return 3.14159265358979323846;
    if (len == 1 && *name == 'e') return 2.71828182845904523536;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strlen(functions[i].name) != len || strncmp(functions[i].name, name, len) != 0)
            continue;
        return take_char(c, '(') ? functions[i].of(read_bracket(c)) : stop_calc(c, "expected (");
    }
    c->at = name;
    return stop_calc(c, "an unknown name");
}

static double read_atom(calc *c) {
    char *end;
    if (take_char(c, '(')) return read_bracket(c);
    if (isalpha((unsigned char)*c->at)) return read_name(c);
    if (!isdigit((unsigned char)*c->at) && *c->at != '.') return stop_calc(c, "expected a number");
    double x = strtod(c->at, &end);
    if (end == c->at) return stop_calc(c, "expected a number");
    c->at = end;
    return x;
}

/* -2^2 is -4, and 2^-1 a half. */
static double read_power(calc *c) {
    if (++c->depth > MAX_DEPTH) return stop_calc(c, "it nests too deep");
    double x;
    if (take_char(c, '-')) {
        x = -read_power(c);
    } else {
        (void)take_char(c, '+');
        x = read_atom(c);
        if (take_char(c, '^')) x = pow(x, read_power(c));
    }
    c->depth--;
    return x;
}

static double read_product(calc *c) {
    double x = read_power(c);
    while (!c->wrong) {
        if (take_char(c, '*')) {
            x *= read_power(c);
        } else if (take_char(c, '/')) {
            x /= read_power(c);
        } else if (take_char(c, '%')) {
            x = fmod(x, read_power(c));
        } else {
            return x;
        }
    }
    return x;
}

static double read_sum(calc *c) {
    double x = read_product(c);
    while (!c->wrong) {
        if (take_char(c, '+')) {
            x += read_product(c);
        } else if (take_char(c, '-')) {
            x -= read_product(c);
        } else {
            return x;
        }
    }
    return x;
}

kt_status kt__calc(const char *expression, double *out, kt_error *err) {
    calc c = {.text = expression, .at = expression};
    if (strlen(expression) > MAX_BYTES)
        return kt__fail(err, KT_E_LIMIT, "an expression has at most %d bytes", (int)MAX_BYTES);
    *out = read_sum(&c);
    c.at += strspn(c.at, " \t\r\n");
    if (!c.wrong && *c.at) c.wrong = "expected the end";
    if (!c.wrong) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, NULL, (uint64_t)(c.at - c.text), "%s at byte %d", c.wrong,
                       (int)(c.at - c.text));
}
