#include "term/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* ---- what it shows ---- */

void kt__terminal_use_utf8(void) {
    setlocale(LC_CTYPE, "");
    if (!strcmp(nl_langinfo(CODESET), "UTF-8")) return;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
}

int kt__terminal_width(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col < 20 ? 20 : size.ws_col;
}

bool kt__terminal_can_draw(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool kt__terminal_can_style(int fd) {
    const char *no_color = getenv("NO_COLOR");
    return kt__terminal_can_draw(fd) && !(no_color && *no_color);
}

/* ---- what handlers put back ---- */

static struct {
    struct termios before, hushed;
    bool watched;
    volatile sig_atomic_t is_hushed, marks_pastes, resized, continued;
} keyboard;

static void write_mark(bool on) {
    const char *text = on ? "\033[?2004h" : "\033[?2004l";
    ssize_t n = write(STDOUT_FILENO, text, 8);
    (void)n;
}

static bool in_foreground(void) {
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void put_back(void) {
    if (!in_foreground()) return;
    if (keyboard.marks_pastes) write_mark(false);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.before);
}

static void on_stop(int signal_number) {
    (void)signal_number;
    put_back();
    (void)raise(SIGSTOP);
}

static void on_continue(int signal_number) {
    (void)signal_number;
    keyboard.continued = 1;
    if (!in_foreground()) return;
    if (keyboard.is_hushed) (void)tcsetattr(STDIN_FILENO, TCSANOW, &keyboard.hushed);
    if (keyboard.marks_pastes) write_mark(true);
}

static void on_resize(int signal_number) {
    (void)signal_number;
    keyboard.resized = 1;
}

static void on_end(int signal_number) {
    put_back();
    signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static const struct {
    int number;
    void (*handler)(int);
} watched_signals[] = {{SIGTSTP, on_stop},
                       {SIGCONT, on_continue},
                       {SIGWINCH, on_resize},
                       {SIGTERM, on_end},
                       {SIGHUP, on_end}};
enum { N_WATCHED = sizeof watched_signals / sizeof watched_signals[0] };

void kt__terminal_watch(void) {
    if (keyboard.watched || tcgetattr(STDIN_FILENO, &keyboard.before) != 0) return;
    keyboard.watched = true;
    for (int i = 0; i < N_WATCHED; i++) { /* no SA_RESTART: who reads a key is told */
        struct sigaction action = {.sa_handler = watched_signals[i].handler}, old;
        sigemptyset(&action.sa_mask);
        (void)sigaction(watched_signals[i].number, NULL, &old);
        if (old.sa_handler == SIG_IGN) continue; /* nohup, shells without job control */
        (void)sigaction(watched_signals[i].number, &action, NULL);
    }
}

void kt__terminal_unwatch(void) {
    if (!keyboard.watched) return;
    kt__terminal_unhush();
    kt__terminal_mark_pastes(false);
    for (int i = 0; i < N_WATCHED; i++) signal(watched_signals[i].number, SIG_DFL);
    keyboard.watched = false;
}

/* Cleared only where it was seen: a signal between the look and the clearing is not lost. */
static bool take_flag(volatile sig_atomic_t *flag) {
    if (!*flag) return false;
    *flag = 0;
    return true;
}

bool kt__terminal_resized(void) {
    return take_flag(&keyboard.resized);
}

bool kt__terminal_continued(void) {
    return take_flag(&keyboard.continued);
}

bool kt__terminal_changed(void) {
    return keyboard.resized || keyboard.continued;
}

/* Bytes are kept one by one, not lines, so that what was typed is the next reader's to edit. */
void kt__terminal_hush(void) {
    if (!keyboard.watched || keyboard.is_hushed) return;
    keyboard.hushed = keyboard.before;
    keyboard.hushed.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON);
    keyboard.hushed.c_lflag |= ISIG | NOFLSH;
    keyboard.hushed.c_cc[VMIN] = 1;
    keyboard.hushed.c_cc[VTIME] = 0;
    keyboard.is_hushed = 1;
    if (in_foreground()) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keyboard.hushed);
}

void kt__terminal_unhush(void) {
    if (!keyboard.is_hushed) return;
    keyboard.is_hushed = 0;
    if (in_foreground()) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keyboard.before);
}

void kt__terminal_mark_pastes(bool on) {
    if (!keyboard.watched || keyboard.marks_pastes == on) return;
    keyboard.marks_pastes = on;
    write_mark(on);
}
