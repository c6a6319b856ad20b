#include "feedback/audit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd_io.h"
#include "base/files.h"

int64_t kt__feedback_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Begins with a newline only where a crash cut the line before. */
void kt__feedback_audit(const char *dir, const char *event, uint64_t id, uint32_t version) {
    char path[KT__FILES_PATH_MAX], line[256], last = '\n';
    struct stat st;
    kt_error ignored;
    if (kt__files_path(path, dir, "audit.jsonl", &ignored) != KT_OK) return;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        (void)kt__fd_read_at(fd, &last, 1, (uint64_t)st.st_size - 1);
    int n = snprintf(line, sizeof line,
                     "%s{\"time_us\":%" PRId64 ",\"event\":\"%s\",\"feedback\":%" PRIu64
                     ",\"version\":%" PRIu32 "}\n",
                     last == '\n' ? "" : "\n", kt__feedback_now_us(), event, id, version);
    (void)kt__fd_write(fd, line, (size_t)n);
    close(fd);
}

uint64_t kt__feedback_audited(const char *dir) {
    static const char mark[] = "\"feedback\":";
    char path[KT__FILES_PATH_MAX], text[4097], *rest, *end;
    struct stat st;
    kt_error ignored;
    uint64_t highest = 0;
    if (kt__files_path(path, dir, "audit.jsonl", &ignored) != KT_OK) return 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return 0;
    uint64_t size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    size_t n = size < sizeof text - 1 ? (size_t)size : sizeof text - 1;
    if (!kt__fd_read_at(fd, text, n, size - n)) n = 0;
    close(fd);
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, mark);
        bool lost = strstr(line, "\"damaged\"") || strstr(line, "\"recovered\"");
        uint64_t id = at ? strtoull(at + sizeof mark - 1, &end, 10) : 0;
        if (!at || *end != ',') continue;       /* cut off */
        if (lost || id > highest) highest = id; /* what was lost: ids after this are given again */
    }
    return highest;
}
