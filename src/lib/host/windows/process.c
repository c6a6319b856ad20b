/* The process: its environment, threads' places, signals, random bytes, and processes that it starts. */
#include "system.h"

#include <bcrypt.h>
#include <dlfcn.h>
#include <psapi.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>

/* ---- the environment, in UTF-8 ---- */

static SRWLOCK environment_lock = SRWLOCK_INIT;
static char **variables; /* "NAME=value"; what is replaced is kept: somebody may read it */
static size_t n_variables;

static size_t name_length(const char *entry) {
    return strcspn(entry + (*entry == '='), "=") + (*entry == '=');
}

/* With the lock. */
static char **find_variable(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < n_variables; i++)
        if (name_length(variables[i]) == n && !_strnicmp(variables[i], name, n))
            return &variables[i];
    return NULL;
}

static bool add_variable(char *entry) {
    char **more = realloc(variables, (n_variables + 2) * sizeof *more);
    if (!more) return false;
    variables = more;
    variables[n_variables++] = entry;
    variables[n_variables] = NULL;
    return true;
}

static void read_environment(void) {
    if (variables) return;
    wchar_t *all = GetEnvironmentStringsW();
    for (const wchar_t *at = all; at && *at; at += wcslen(at) + 1) {
        char *entry = *at == L'=' ? NULL : kt__win_narrow(at); /* "=C:=...": a drive's folder */
        if (entry && !add_variable(entry)) free(entry);
    }
    if (all) FreeEnvironmentStringsW(all);
    if (!variables) variables = calloc(1, sizeof *variables);
}

char *kt__win_getenv(const char *name) {
    AcquireSRWLockExclusive(&environment_lock);
    read_environment();
    char **found = variables ? find_variable(name) : NULL;
    char *value = found ? *found + name_length(*found) + 1 : NULL;
    ReleaseSRWLockExclusive(&environment_lock);
    return value;
}

char **kt__win_environ(void) {
    AcquireSRWLockExclusive(&environment_lock);
    read_environment();
    char **all = variables;
    ReleaseSRWLockExclusive(&environment_lock);
    return all;
}

static void tell_system(const char *name, const char *value) {
    wchar_t *a = kt__win_wide(name), *b = value ? kt__win_wide(value) : NULL;
    if (a) (void)SetEnvironmentVariableW(a, b);
    free(a);
    free(b);
}

int kt__win_setenv(const char *name, const char *value, int replace) {
    char *entry = malloc(strlen(name) + strlen(value) + 2);
    bool kept = entry != NULL;
    if (!entry) return -1;
    strcpy(entry, name);
    strcat(entry, "=");
    strcat(entry, value);
    AcquireSRWLockExclusive(&environment_lock);
    read_environment();
    char **found = find_variable(name);
    if (found && !replace)
        free(entry);
    else if (found)
        *found = entry;
    else
        kept = add_variable(entry);
    ReleaseSRWLockExclusive(&environment_lock);
    if (!found || replace) tell_system(name, value);
    return kept ? 0 : -1;
}

int kt__win_unsetenv(const char *name) {
    AcquireSRWLockExclusive(&environment_lock);
    read_environment();
    char **found = find_variable(name);
    if (found) {
        *found = variables[--n_variables];
        variables[n_variables] = NULL;
    }
    ReleaseSRWLockExclusive(&environment_lock);
    tell_system(name, NULL);
    return 0;
}

/* ---- signals: those that a console sends ---- */

static struct kt__win_sigaction actions[64];

static void call_action(int number) {
    siginfo_t info = {.si_signo = number};
    struct kt__win_sigaction *a = &actions[number];
    if (a->sa_flags & SA_SIGINFO)
        a->sa_sigaction(number, &info, NULL);
    else
        a->sa_handler(number);
}

static bool is_handled(int number) {
    return (actions[number].sa_flags & SA_SIGINFO) ||
           (actions[number].sa_handler != SIG_DFL && actions[number].sa_handler != SIG_IGN);
}

/* On a thread of the system's. A console that is closed, and a user who logs off, wait until it returns and
 * then end the process: it is given some seconds to end by itself. */
static BOOL WINAPI on_console(DWORD event) {
    int number = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
    if (actions[number].sa_handler == SIG_IGN && !(actions[number].sa_flags & SA_SIGINFO))
        return TRUE;
    if (!is_handled(number)) return FALSE;
    call_action(number);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(10000);
    return TRUE;
}

int kt__win_sigaction(int number, const struct kt__win_sigaction *action,
                      struct kt__win_sigaction *before) {
    if (number < 0 || number >= 64) {
        errno = EINVAL;
        return -1;
    }
    if (before) *before = actions[number];
    if (!action) return 0;
    actions[number] = *action;
    if (number == SIGINT || number == SIGTERM) {
        (void)SetConsoleCtrlHandler(on_console, FALSE);
        (void)SetConsoleCtrlHandler(on_console, TRUE);
    }
    return 0;
}

kt__win_handler *kt__win_signal(int number, kt__win_handler *handler) {
    struct kt__win_sigaction action = {.sa_handler = handler}, before;
    return kt__win_sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int kt__win_kill(int pid, int number) {
    HANDLE process = OpenProcess(
        PROCESS_TERMINATE | SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
    if (!process) {
        errno = GetLastError() == ERROR_ACCESS_DENIED ? EPERM : ESRCH;
        return -1;
    }
    bool runs = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    bool done = runs && (number == 0 || TerminateProcess(process, 128 + (UINT)number));
    CloseHandle(process);
    errno = ESRCH;
    return done ? 0 : -1;
}

int kt__win_geteuid(void) {
    return 1000; /* one user: whose files these are no number says */
}

/* ---- what the machine has ---- */

static long count_processors(void) {
    return (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}

long kt__win_sysconf(int what) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    switch (what) {
    case _SC_PAGESIZE: return (long)info.dwPageSize;
    case _SC_NPROCESSORS_ONLN: return count_processors();
    case _SC_CLK_TCK: return 100;
    default: break;
    }
    if (!GlobalMemoryStatusEx(&memory)) return -1;
    uint64_t bytes = what == _SC_PHYS_PAGES ? memory.ullTotalPhys : memory.ullAvailPhys;
    return (long)(bytes / info.dwPageSize);
}

int kt__win_uname(struct utsname *out) {
    typedef LONG WINAPI version_fn(OSVERSIONINFOW *);
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
    version_fn *get = NULL;
    memcpy(&get, &found, sizeof get);
    if (get) (void)get(&version);
    *out = (struct utsname){.sysname = "Windows", .machine = "x86_64"};
    snprintf(out->release, sizeof out->release, "%lu.%lu.%lu", version.dwMajorVersion,
             version.dwMinorVersion, version.dwBuildNumber);
    return 0;
}

int kt__win_gethostname(char *out, size_t size) {
    wchar_t wide[256];
    DWORD n = 256;
    if (!GetComputerNameExW(ComputerNameDnsHostname, wide, &n)) return kt__win_fail();
    char *name = kt__win_narrow(wide);
    if (!name) return -1;
    snprintf(out, size, "%s", name);
    free(name);
    return 0;
}

static struct timeval timeval_of(FILETIME t) {
    uint64_t us = ((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) / 10;
    return (struct timeval){.tv_sec = (long)(us / 1000000), .tv_usec = (long)(us % 1000000)};
}

int kt__win_getrusage(int who, struct rusage *out) {
    FILETIME begun, ended, kernel, user;
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    (void)who;
    memset(out, 0, sizeof *out);
    if (!GetProcessTimes(GetCurrentProcess(), &begun, &ended, &kernel, &user))
        return kt__win_fail();
    out->ru_utime = timeval_of(user);
    out->ru_stime = timeval_of(kernel);
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory)) return 0;
    out->ru_maxrss = (long)(memory.PeakWorkingSetSize / 1024);
    out->ru_minflt = (long)memory.PageFaultCount;
    return 0;
}

ssize_t kt__win_getrandom(void *out, size_t n, unsigned flags) {
    (void)flags;
    if (BCryptGenRandom(NULL, out, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0)
        return (ssize_t)n;
    errno = EIO;
    return -1;
}

/* ---- threads ---- */

int kt__win_getaffinity(int pid, size_t size, cpu_set_t *out) {
    DWORD_PTR process, system;
    (void)pid;
    memset(out, 0, size);
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) return kt__win_fail();
    /* setting one says the thread's own */
    DWORD_PTR own = SetThreadAffinityMask(GetCurrentThread(), process);
    if (own) (void)SetThreadAffinityMask(GetCurrentThread(), own);
    out->bits[0] = own ? own : process;
    return 0;
}

int kt__win_setaffinity(int pid, size_t size, const cpu_set_t *cpus) {
    (void)pid;
    (void)size;
    return SetThreadAffinityMask(GetCurrentThread(), (DWORD_PTR)cpus->bits[0]) ? 0 : kt__win_fail();
}

/* Nice values to Windows's levels and back. */
int kt__win_setpriority(int which, int who, int nice) {
    int level = nice <= -10  ? THREAD_PRIORITY_HIGHEST
                : nice < 0   ? THREAD_PRIORITY_ABOVE_NORMAL
                : nice == 0  ? THREAD_PRIORITY_NORMAL
                : nice <= 10 ? THREAD_PRIORITY_BELOW_NORMAL
                             : THREAD_PRIORITY_IDLE;
    (void)which;
    (void)who;
    return SetThreadPriority(GetCurrentThread(), level) ? 0 : kt__win_fail();
}

int kt__win_getpriority(int which, int who) {
    int level = GetThreadPriority(GetCurrentThread());
    (void)which;
    (void)who;
    return level == THREAD_PRIORITY_NORMAL || level == THREAD_PRIORITY_ERROR_RETURN ? 0
           : level > 0                                                              ? -5 * level
           : level == THREAD_PRIORITY_IDLE                                          ? 19
                                                                                    : 10;
}

int kt__win_getscheduler(int pid) {
    (void)pid;
    return SCHED_OTHER;
}

int kt__win_getparam(int pid, struct sched_param *param) {
    (void)pid;
    param->sched_priority = 0;
    return 0;
}

int kt__win_setscheduler(int pid, int policy, const struct sched_param *param) {
    int level = policy == SCHED_IDLE ? THREAD_PRIORITY_IDLE
                : policy == SCHED_RR ? THREAD_PRIORITY_TIME_CRITICAL
                                     : THREAD_PRIORITY_NORMAL;
    (void)pid;
    (void)param;
    return SetThreadPriority(GetCurrentThread(), level) ? 0 : kt__win_fail();
}

#undef pthread_cond_timedwait
int kt__win_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until) {
    struct timespec now, left;
    clock_gettime(CLOCK_MONOTONIC, &now);
    left.tv_sec = until->tv_sec - now.tv_sec;
    left.tv_nsec = until->tv_nsec - now.tv_nsec;
    if (left.tv_nsec < 0) {
        left.tv_sec--;
        left.tv_nsec += 1000000000;
    }
    if (left.tv_sec < 0) left.tv_sec = left.tv_nsec = 0;
    if (left.tv_sec > 86400) left.tv_sec = 86400; /* then it is asked again: waits are in loops */
    return pthread_cond_timedwait_relative_np(cond, mutex, &left);
}

void kt__win_usleep(int64_t us) {
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&pause, NULL);
}

int kt__win_sleep_until(const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t us = (until->tv_sec - now.tv_sec) * 1000000 + (until->tv_nsec - now.tv_nsec) / 1000;
    if (us > 0) kt__win_usleep(us);
    return 0;
}

/* ---- libraries ---- */

void *kt__win_dlopen(const char *name, int flags) {
    wchar_t *wide = kt__win_path(name);
    void *library = wide && !(flags & RTLD_NOLOAD) ? (void *)LoadLibraryW(wide) : NULL;
    if (wide && (flags & RTLD_NOLOAD)) library = (void *)GetModuleHandleW(wide);
    free(wide);
    return library;
}

void *kt__win_dlsym(void *library, const char *name) {
    FARPROC found = GetProcAddress((HMODULE)library, name);
    void *symbol;
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

int kt__win_dlclose(void *library) {
    return FreeLibrary((HMODULE)library) ? 0 : -1;
}

char *kt__win_dlerror(void) {
    static char text[] = "Windows does not find such a library";
    return text;
}
