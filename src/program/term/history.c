#include "term/line_editor.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/json.h"
#include "base/system.h"

enum { MAX_PATH = 4096, MAX_ENTRY = 16 << 10, MAX_FILE = 64 << 20 };

/* Makes the folders, with the rights that the XDG specification asks for. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)kt__folder_make(path, true); /* what is missing then shows when the file is opened */
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

static int open_history_file(unsigned how) {
    char path[MAX_PATH];
    kt__file_info info;
    if (!history_path(path, sizeof path)) return -1;
    if (how & KT__OPEN_CREATE) make_folders(path);
    int fd = kt__fd_open(path, how | KT__OPEN_NO_WAIT | KT__OPEN_PRIVATE);
    if (fd < 0 || (kt__fd_look(fd, &info) && info.is_file)) return fd;
    kt__fd_close(fd);
    return -1;
}

/* The file's text; false: there is none. */
static bool read_history(kt__buf *text) {
    char piece[8192];
    ssize_t n;
    int fd = open_history_file(KT__OPEN_READ);
    if (fd < 0) return false;
    while ((n = kt__fd_read(fd, piece, sizeof piece)) > 0 &&
           kt__buf_append(text, piece, (size_t)n)) {
    }
    kt__fd_close(fd);
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
    snprintf(fresh, sizeof fresh, "%s.%ld.tmp", path, kt__process_number());
    int fd = kt__fd_open(fresh, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW | KT__OPEN_PRIVATE);
    if (fd < 0) return;
    bool ok = kt__fd_write(fd, text, len);
    ok = kt__fd_close(fd) && ok;
    if (!ok || rename(fresh, path) != 0) kt__file_remove(fresh);
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
    int fd = open_history_file(KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_APPEND);
    if (fd < 0) return;
    kt__buf_init(&line, 8 * MAX_ENTRY);
    kt__json_string(&line, entry, strlen(entry), KT__JSON_ASCII);
    kt__buf_putc(&line, '\n');
    if (!line.failed) {
        (void)kt__fd_write(fd, line.data, line.len); /* a full disk costs the entry */
    }
    kt__buf_free(&line);
    kt__fd_close(fd);
}
