/* Windows's console: it draws and edits by itself, and is put back when the program ends (host/windows/start.c). */
#include "term/terminal.h"

#include <stdlib.h>
#include <string.h>

#include <windows.h>

#include "base/system.h"

void kt__terminal_use_utf8(void) {}

int kt__terminal_width(int fd) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    HANDLE console = (HANDLE)_get_osfhandle(fd);
    if (!GetConsoleScreenBufferInfo(console, &info)) return 80;
    int width = info.srWindow.Right - info.srWindow.Left + 1;
    return width < 20 ? 20 : width;
}

bool kt__terminal_can_draw(int fd) {
    const char *term = getenv("TERM"); /* set where the console takes escape sequences */
    return kt__fd_is_terminal(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool kt__terminal_can_style(int fd) {
    const char *no_color = getenv("NO_COLOR");
    return kt__terminal_can_draw(fd) && !(no_color && *no_color);
}

/* ---- the keyboard ---- */

static DWORD hushed_mode;

void kt__terminal_watch(void) {}

void kt__terminal_unwatch(void) {
    kt__terminal_unhush();
}

bool kt__terminal_resized(void) {
    return false;
}

bool kt__terminal_continued(void) {
    return false;
}

bool kt__terminal_changed(void) {
    return false;
}

/* What is typed meanwhile stays in the console's queue; only its echo is off. */
void kt__terminal_hush(void) {
    HANDLE console = GetStdHandle(STD_INPUT_HANDLE);
    DWORD mode;
    if (hushed_mode || !GetConsoleMode(console, &mode)) return;
    hushed_mode = mode;
    (void)SetConsoleMode(console, mode & ~(DWORD)ENABLE_ECHO_INPUT);
}

void kt__terminal_unhush(void) {
    if (!hushed_mode) return;
    (void)SetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), hushed_mode);
    hushed_mode = 0;
}

void kt__terminal_mark_pastes(bool on) {
    (void)on;
}
