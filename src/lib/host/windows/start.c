/* Where a program begins: arguments in UTF-8, standard streams without a text mode, a console that shows
 * UTF-8 and colours, and the folders that Windows has for a user's files in the variables that kentang reads. */
#include "system.h"

#include <shellapi.h>
/* of <timeapi.h>, which names things otherwise than winsock2.h leaves them */
__declspec(dllimport) UINT WINAPI timeBeginPeriod(UINT ms);

#undef main

int kt__win_program_main(int argc, char **argv);

static UINT code_page_before;
static DWORD modes_before[2];

static HANDLE console_of(int i) {
    return GetStdHandle(i == 0 ? STD_OUTPUT_HANDLE : STD_ERROR_HANDLE);
}

static void put_console_back(void) {
    if (code_page_before) (void)SetConsoleOutputCP(code_page_before);
    for (int i = 0; i < 2; i++)
        if (modes_before[i]) (void)SetConsoleMode(console_of(i), modes_before[i]);
}

static void open_console(void) {
    bool any = false;
    for (int i = 0; i < 2; i++) {
        DWORD mode;
        if (!GetConsoleMode(console_of(i), &mode)) continue;
        any = true;
        /* TERM: what else says that a terminal draws; a console before Windows 10 1511 does not */
        if (SetConsoleMode(console_of(i), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING)) {
            modes_before[i] = mode;
            (void)setenv("TERM", "xterm-256color", 0);
        }
    }
    if (!any) return;
    code_page_before = GetConsoleOutputCP();
    (void)SetConsoleOutputCP(CP_UTF8);
    (void)atexit(put_console_back);
}

/* From `from`, with slashes, unless it is set. */
static void name_folder(const char *variable, const char *from) {
    const char *value = getenv(from);
    if (!value || !*value || getenv(variable)) return;
    char *path = strdup(value);
    for (char *c = path; c && *c; c++)
        if (*c == '\\') *c = '/';
    if (path) (void)setenv(variable, path, 1);
    free(path);
}

static void name_folders(void) {
    static const char *const local[] = {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
                                        "XDG_STATE_HOME"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) name_folder(local[i], "LOCALAPPDATA");
    name_folder("HOME", "USERPROFILE");
    name_folder("TMPDIR", "TEMP");
}

/* A path that was typed with Windows's slashes gets the others, which kentang looks for; every other text, such as a
 * prompt, stays what it is. */
static void turn_slashes(wchar_t *text) {
    bool drive = text[0] && text[1] == L':' && text[2] == L'\\';
    size_t dots = wcsspn(text, L".");
    bool relative = dots && dots < 3 && text[dots] == L'\\';
    if (!drive && !relative &&
        (!wcschr(text, L'\\') || GetFileAttributesW(text) == INVALID_FILE_ATTRIBUTES))
        return;
    for (; *text; text++)
        if (*text == L'\\') *text = L'/';
}

static char **read_arguments(int *n) {
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), n);
    char **out = wide ? calloc((size_t)*n + 1, sizeof *out) : NULL;
    for (int i = 0; out && i < *n; i++) {
        if (i) turn_slashes(wide[i]);
        out[i] = kt__win_narrow(wide[i]);
        if (!out[i]) return NULL;
    }
    if (wide) LocalFree(wide);
    return out;
}

int main(int argc, char **argv) {
    for (int fd = 0; fd < 3; fd++) (void)_setmode(fd, _O_BINARY);
    (void)setvbuf(stderr, NULL, _IONBF, 0);
    (void)SetErrorMode(SEM_FAILCRITICALERRORS |
                       SEM_NOGPFAULTERRORBOX); /* no windows with questions */
    (void)timeBeginPeriod(1);                  /* waits are as long as they are meant to be */
    open_console();
    name_folders();
    int n = 0;
    char **utf8 = read_arguments(&n);
    return utf8 ? kt__win_program_main(n, utf8) : kt__win_program_main(argc, argv);
}
