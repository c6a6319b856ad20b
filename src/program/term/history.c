#include "term/line_editor.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/json.h"

enum { MAX_PATH = 4096, MAX_ENTRY = 16 << 10, MAX_FILE = 64 << 20 };

/* Makes the folders, with the rights that the XDG specification asks for. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* what is missing then shows when the file is opened */
        *slash = '/';
    }
}

static bool history_path(char *out, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && kt__files_is_absolute(state))
        n = snprintf(out, size, "%s/kentang/history", state);
    else if (home && kt__files_is_absolute(home))
        n = snprintf(out, size, "%s/.local/state/kentang/history", home);
    return n > 0 && (size_t)n < size;
}

static int open_history_file(int flags) {
    char path[MAX_PATH];
    struct stat info;
    if (!history_path(path, sizeof path)) return -1;
    if (flags & O_CREAT) make_folders(path);
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))) return fd;
    close(fd);
    return -1;
}

/* The file's text; false: there is none. */
static bool read_history(kt__buf *text) {
    char piece[8192];
    ssize_t n;
    int fd = open_history_file(O_RDONLY);
    if (fd < 0) return false;
    while ((n = read(fd, piece, sizeof piece)) > 0 && kt__buf_append(text, piece, (size_t)n)) {
    }
    close(fd);
    return n == 0 && text->len;
}

/* The start of the newest max lines; *n_lines: of all. */
static const char *newest_lines(const kt__buf *text, size_t max, size_t *n_lines) {
    const char *s = text->data, *end = s + text->len;
    *n_lines = 0;
    for (const char *p = s; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) ++*n_lines;
    for (size_t i = *n_lines; i > max; i--)
        s = (const char *)memchr(s, '\n', (size_t)(end - s)) + 1;
    return s;
}

/* Another file in its place, so that a crash leaves one or the other. */
static void cut_history(const char *text, size_t len) {
    char path[MAX_PATH], fresh[MAX_PATH + 32];
    if (!history_path(path, sizeof path)) return;
    snprintf(fresh, sizeof fresh, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool ok = write(fd, text, len) == (ssize_t)len;
    ok = close(fd) == 0 && ok;
    if (!ok || rename(fresh, path) != 0) unlink(fresh);
}

void kt__history_load(size_t max, kt__history_fn *take, void *user) {
    kt__buf text;
    size_t n_lines;
    kt__buf_init(&text, MAX_FILE);
    if (read_history(&text)) {
        const char *end = text.data + text.len, *newline;
        const char *first = newest_lines(&text, max, &n_lines);
        for (const char *s = first; (newline = memchr(s, '\n', (size_t)(end - s))) != NULL;
             s = newline + 1) {
            json_t *entry = json_loadb(s, (size_t)(newline - s), JSON_DECODE_ANY, NULL);
            if (json_is_string(entry)) take(user, json_string_value(entry));
            json_decref(entry);
        }
        if (n_lines > 2 * max) cut_history(first, (size_t)(end - first));
    }
    kt__buf_free(&text);
}

void kt__history_append(const char *entry) {
    kt__buf line;
    if (strlen(entry) > MAX_ENTRY) return;
    int fd = open_history_file(O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0) return;
    kt__buf_init(&line, 8 * MAX_ENTRY);
    kt__json_string(&line, entry, strlen(entry), KT__JSON_ASCII);
    kt__buf_putc(&line, '\n');
    if (!line.failed) {
        ssize_t n = write(fd, line.data, line.len);
        (void)n; /* a full disk costs the entry */
    }
    kt__buf_free(&line);
    close(fd);
}
