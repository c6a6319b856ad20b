/* The POSIX calls that kentang is written in, for Windows, where the C library has few of them.
 *
 * Owns: their declarations, under names of kentang's own that macros put in the place of POSIX's. The
 * build includes this header before everything else of every file, on Windows only, and the folder
 * include/ has the headers that Windows lacks; so a source file looks the same on both systems. Files,
 * paths, the environment and arguments are UTF-8.
 *
 * A descriptor below 3, or one that is no multiple of four, is the C library's; the others are Winsock's
 * handles, which always are multiples of four. So read, write and close know which it is, and libraries
 * that use Winsock themselves (libmicrohttpd) understand the descriptors.
 *
 * What Windows has no counterpart of fails with ENOSYS, or does nothing where it is only advice. */
#ifndef KT_HOST_WINDOWS_POSIX_H
#define KT_HOST_WINDOWS_POSIX_H
#ifndef __ASSEMBLER__

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <process.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- files (files.c, folders.c) ---- */

#ifndef EDQUOT
#define EDQUOT 10069
#endif
#ifndef ESTALE
#define ESTALE 10070
#endif
#ifndef EOPNOTSUPP
#define EOPNOTSUPP 130
#endif
#define O_CLOEXEC 0 /* no descriptor is inherited unless it is given to a child by name */
#define O_NOFOLLOW 0x01000000
#define O_DIRECTORY 0x02000000
#define O_NONBLOCK 0x04000000
#define O_NOCTTY 0
#define O_PATH 0x08000000
#define O_DIRECT 0

#undef S_ISLNK
#undef S_ISSOCK
#define KT__WIN_S_IFLNK 0xa000
#define KT__WIN_S_IFSOCK 0xc000
#define S_ISLNK(m) (((m)&0xf000) == KT__WIN_S_IFLNK)
#define S_ISSOCK(m) (((m)&0xf000) == KT__WIN_S_IFSOCK)
#ifndef S_IRWXG
#define S_IRWXG 070
#define S_IRWXO 07
#endif
#ifndef S_IRGRP
#define S_IRGRP 040
#define S_IWGRP 020
#define S_IROTH 04
#define S_IWOTH 02
#endif

typedef unsigned kt__win_uid;
typedef uint64_t kt__win_number;
#define uid_t kt__win_uid
#define gid_t kt__win_uid
#define dev_t kt__win_number
#define ino_t kt__win_number
#define mode_t unsigned
typedef struct kt__win_stat {
    uint64_t st_dev, st_ino;
    unsigned st_mode, st_nlink;
    kt__win_uid st_uid, st_gid;
    int64_t st_size, st_blocks;
    long st_blksize;
    struct timespec st_atim, st_mtim, st_ctim;
} kt__win_stat_type;
#define st_atime st_atim.tv_sec
#define st_mtime st_mtim.tv_sec
#define st_ctime st_ctim.tv_sec

int kt__win_open(const char *path, int flags, ...);
int kt__win_openat(int folder, const char *path, int flags, ...);
int kt__win_close(int fd);
ssize_t kt__win_read(int fd, void *data, size_t n);
ssize_t kt__win_write(int fd, const void *data, size_t n);
ssize_t kt__win_pread(int fd, void *data, size_t n, int64_t at);
ssize_t kt__win_pwrite(int fd, const void *data, size_t n, int64_t at);
int kt__win_ftruncate(int fd, int64_t size);
int kt__win_truncate(const char *path, int64_t size);
int kt__win_fsync(int fd);
int kt__win_fallocate(int fd, int mode, int64_t at, int64_t n);
int kt__win_posix_fadvise(int fd, int64_t at, int64_t n, int advice);
int kt__win_flock(int fd, int how);
int kt__win_fcntl(int fd, int what, ...);
int kt__win_isatty(int fd);
int kt__win_pipe2(int ends[2], int flags);
int kt__win_fstat(int fd, struct kt__win_stat *out);
int kt__win_stat(const char *path, struct kt__win_stat *out);
int kt__win_lstat(const char *path, struct kt__win_stat *out);
int kt__win_fstatat(int folder, const char *path, struct kt__win_stat *out, int flags);
int kt__win_rename(const char *from, const char *to);
int kt__win_renameat(int from_folder, const char *from, int to_folder, const char *to);
int kt__win_unlink(const char *path);
int kt__win_unlinkat(int folder, const char *path, int flags);
int kt__win_rmdir(const char *path);
int kt__win_mkdir(const char *path, unsigned mode);
int kt__win_mkdirat(int folder, const char *path, unsigned mode);
int kt__win_access(const char *path, int mode);
int kt__win_faccessat(int folder, const char *path, int mode, int flags);
int kt__win_chdir(const char *path);
char *kt__win_getcwd(char *out, size_t size);
char *kt__win_realpath(const char *path, char *out);
char *kt__win_mkdtemp(char *pattern);
int kt__win_mkstemp(char *pattern);
int kt__win_nameless(void); /* a temporary file, which goes when it is closed */
int kt__win_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int kt__win_symlink(const char *target, const char *path);
ssize_t kt__win_readlink(const char *path, char *out, size_t size);
int kt__win_utimensat(int folder, const char *path, const struct timespec times[2], int flags);
int kt__win_futimens(int fd, const struct timespec times[2]);
int kt__win_chmod(const char *path, unsigned mode);
int kt__win_fchmod(int fd, unsigned mode);
FILE *kt__win_fopen(const char *path, const char *mode);
FILE *kt__win_fdopen(int fd, const char *mode);
#define F_GETFL 3
#define F_SETFL 4
#define F_GETFD 1
#define F_SETFD 2
#define F_DUPFD_CLOEXEC 1030
#define FD_CLOEXEC 1
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_SYMLINK_FOLLOW 0x400
#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4

#undef ftruncate
#undef lseek
#undef fseeko
#undef ftello
#undef open
#undef stat
#undef fstat
#undef lstat
#undef isatty
#undef fileno
#define open kt__win_open
#define openat kt__win_openat
#define close kt__win_close
#define read kt__win_read
#define write kt__win_write
#define pread kt__win_pread
#define pwrite kt__win_pwrite
#define ftruncate kt__win_ftruncate
#undef truncate
#define truncate kt__win_truncate
#define fsync kt__win_fsync
#define fdatasync kt__win_fsync
#define fallocate kt__win_fallocate
#define posix_fadvise kt__win_posix_fadvise
#define flock kt__win_flock
#define fcntl kt__win_fcntl
#define isatty kt__win_isatty
#define pipe2 kt__win_pipe2
#define stat kt__win_stat
#define fstat kt__win_fstat
#define lstat kt__win_lstat
#define fstatat kt__win_fstatat
#define rename kt__win_rename
#define renameat kt__win_renameat
#define unlink kt__win_unlink
#define unlinkat kt__win_unlinkat
#define rmdir kt__win_rmdir
#define mkdir kt__win_mkdir
#define mkdirat kt__win_mkdirat
#define access kt__win_access
#define faccessat kt__win_faccessat
#define chdir kt__win_chdir
#define getcwd kt__win_getcwd
#define realpath kt__win_realpath
#define mkdtemp kt__win_mkdtemp
#define mkstemp kt__win_mkstemp
#define linkat kt__win_linkat
#define link(from, to) kt__win_linkat(AT_FDCWD, from, AT_FDCWD, to, 0)
#define mkostemp(pattern, flags) kt__win_mkstemp(pattern)
#define memfd_create(name, flags) kt__win_nameless()
#define MFD_CLOEXEC 0
#define symlink kt__win_symlink
#define readlink kt__win_readlink
#define utimensat kt__win_utimensat
#define futimens kt__win_futimens
#define chmod kt__win_chmod
#define fchmod kt__win_fchmod
#define fopen kt__win_fopen
#define fdopen kt__win_fdopen
#define dup2 _dup2
#define fileno _fileno
#define lseek _lseeki64

#define fseeko _fseeki64
#define ftello _ftelli64

/* ---- the process (process.c) ---- */

#define SIGHUP 1
#define SIGBUS 7
#define SIGTRAP 5
#define SIGKILL 9
#define SIGPIPE 13
#define SIGSYS 31
#define SIGPROF 27
#define SIGXFSZ 25
#define SIGCONT 18
#define SIGTSTP 20
#define SIGSTOP 19
#define SIGWINCH 28
#define SIGUSR1 10
#define SIGCHLD 17
#define SA_SIGINFO 4
#define SA_RESTART 0x10000000
#define SA_ONSTACK 0x08000000
#ifndef SIG_BLOCK
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#endif
typedef struct kt__win_siginfo {
    int si_signo, si_code;
    int si_pid;
    void *si_addr;
} siginfo_t;
typedef uint64_t kt__win_sigset;
struct kt__win_sigaction {
    union {
        void (*sa_handler)(int);
        void (*sa_sigaction)(int, siginfo_t *, void *);
    };
    kt__win_sigset sa_mask;
    int sa_flags;
};
int kt__win_sigaction(int number, const struct kt__win_sigaction *action,
                      struct kt__win_sigaction *before);
typedef void kt__win_handler(int);
kt__win_handler *kt__win_signal(int number, kt__win_handler *handler);
static inline int kt__win_no_mask(int how, const kt__win_sigset *set, kt__win_sigset *before) {
    (void)how;
    (void)set;
    if (before) *before = 0;
    return 0;
}
static inline int kt__win_sigset_set(kt__win_sigset *set, uint64_t to) {
    *set = to;
    return 0;
}
#undef sigset_t
#define sigset_t kt__win_sigset
#define sigaction kt__win_sigaction
#undef signal
#define signal kt__win_signal
#undef pthread_sigmask
#define pthread_sigmask kt__win_no_mask
#define sigprocmask kt__win_no_mask
#define sigemptyset(set) kt__win_sigset_set(set, 0)
#define sigfillset(set) kt__win_sigset_set(set, UINT64_MAX)
#define sigaddset(set, n) kt__win_sigset_set(set, *(set) | UINT64_C(1) << (n))
#define sigdelset(set, n) kt__win_sigset_set(set, *(set) & ~(UINT64_C(1) << (n)))

/* A process with pipes: 0 or an errno value. env: "NAME=value" in UTF-8, NULL-ended; NULL: this one's.
 * The child inherits these three descriptors and nothing else, and ends with this process. */
typedef struct kt__win_process {
    void *process, *job; /* of Windows; NULL: none */
    int pid;
} kt__win_process;
int kt__win_spawn(const char *program, char *const *argv, char *const *env, const char *cwd,
                  const int fds[3], uint64_t mem_bytes, kt__win_process *out);
bool kt__win_process_wait(const kt__win_process *p, int ms, int *code); /* ms -1: for ever */
void kt__win_process_end(kt__win_process *p); /* with all that it started */

int kt__win_kill(int pid, int number);
int kt__win_geteuid(void);
char *kt__win_getenv(const char *name);
int kt__win_setenv(const char *name, const char *value, int replace);
int kt__win_unsetenv(const char *name);
char **kt__win_environ(void);
long kt__win_sysconf(int what);
long kt__win_syscall(long number, ...);
int kt__win_gethostname(char *out, size_t size);
#define gethostname(out, size) kt__win_gethostname(out, size)
#define kill kt__win_kill
#define getuid() ((kt__win_uid)kt__win_geteuid())
#define geteuid() ((kt__win_uid)kt__win_geteuid())
#define getppid() (-1)
#define getenv kt__win_getenv
#undef environ
#define environ kt__win_environ() /* also where it is declared */
#define setenv kt__win_setenv
#define unsetenv kt__win_unsetenv
#define sysconf kt__win_sysconf
#define syscall kt__win_syscall
#define usleep(us) (void)kt__win_usleep((int64_t)(us))
void kt__win_usleep(int64_t us);
int kt__win_sleep_until(const struct timespec *until); /* by the monotonic clock */
#undef clock_nanosleep
#define clock_nanosleep(clock, flags, until, left) kt__win_sleep_until(until)
#ifndef TIMER_ABSTIME
#define TIMER_ABSTIME 1
#endif
enum { _SC_PAGESIZE = 1, _SC_NPROCESSORS_ONLN, _SC_PHYS_PAGES, _SC_AVPHYS_PAGES, _SC_CLK_TCK };

/* The program's own main, which kt__win's calls with arguments in UTF-8. */
#define main kt__win_program_main

/* ---- threads (process.c) ---- */

enum { CPU_SETSIZE = 1024 };
typedef struct kt__win_cpus {
    uint64_t bits[CPU_SETSIZE / 64];
} cpu_set_t;
#define CPU_ZERO(set) memset(set, 0, sizeof(cpu_set_t))
#define CPU_SET(cpu, set) ((set)->bits[(cpu) / 64] |= UINT64_C(1) << ((cpu) % 64))
#define CPU_CLR(cpu, set) ((set)->bits[(cpu) / 64] &= ~(UINT64_C(1) << ((cpu) % 64)))
#define CPU_ISSET(cpu, set) ((int)((set)->bits[(cpu) / 64] >> ((cpu) % 64) & 1))
static inline int kt__win_cpu_count(const cpu_set_t *set) {
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE / 64; i++) n += __builtin_popcountll(set->bits[i]);
    return n;
}
#define CPU_ISSET_S(cpu, size, set) \
    ((void)(size), CPU_ISSET((cpu) % CPU_SETSIZE, &(set)[(cpu) / CPU_SETSIZE]))
#define CPU_EQUAL(a, b) (memcmp(a, b, sizeof(cpu_set_t)) == 0)
#define CPU_COUNT kt__win_cpu_count
#define CPU_AND(out, a, b)                                         \
    do {                                                           \
        for (int and_ = 0; and_ < CPU_SETSIZE / 64; and_++)        \
            (out)->bits[and_] = (a)->bits[and_] & (b)->bits[and_]; \
    } while (0)
int kt__win_getaffinity(int pid, size_t size, cpu_set_t *out);
int kt__win_setaffinity(int pid, size_t size, const cpu_set_t *cpus);
int kt__win_getpriority(int which, int who);
int kt__win_setpriority(int which, int who, int nice);
int kt__win_getscheduler(int pid);
int kt__win_setscheduler(int pid, int policy, const struct sched_param *param);
int kt__win_getparam(int pid, struct sched_param *param);
int kt__win_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until);
#define sched_getaffinity kt__win_getaffinity
#define sched_setaffinity kt__win_setaffinity
#define getpriority kt__win_getpriority
#define setpriority kt__win_setpriority
#define sched_getscheduler kt__win_getscheduler
#define sched_setscheduler kt__win_setscheduler
#define sched_getparam kt__win_getparam
#undef SCHED_RR
#undef SCHED_OTHER
#define SCHED_OTHER 0
#define SCHED_RR 2
#define SCHED_IDLE 5
#define PRIO_PROCESS 0
static inline int kt__win_keep_policy(pthread_t thread, int policy,
                                      const struct sched_param *param) {
    (void)thread;
    (void)policy;
    (void)param;
    return 0;
}
#define pthread_setschedparam kt__win_keep_policy
/* Conditions of kentang wait by the monotonic clock; winpthreads' by the time of day. */
static inline int kt__win_keep_clock(pthread_condattr_t *attributes, int clock) {
    (void)attributes;
    (void)clock;
    return 0;
}
#define pthread_condattr_setclock kt__win_keep_clock
#define pthread_cond_timedwait kt__win_cond_timedwait

/* ---- memory (memory.c); <sys/mman.h> has the rest ---- */

int kt__win_memalign(void **out, size_t align, size_t n);
void kt__win_free(void *p);
static inline void *kt__win_aligned_alloc(size_t align, size_t n) {
    void *p = NULL;
    return kt__win_memalign(&p, align, n) == 0 ? p : NULL;
}
#define posix_memalign kt__win_memalign
#define aligned_alloc kt__win_aligned_alloc
#define free kt__win_free

/* ---- texts (text.c) ---- */

/* kentang's functions format as C99 has it, as printf does with __USE_MINGW_ANSI_STDIO. */
#define format(kind, text, first) format(gnu_##kind, text, first)

void *kt__win_memmem(const void *in, size_t n, const void *what, size_t len);
void *kt__win_memrchr(const void *in, int c, size_t n);
char *kt__win_strchrnul(const char *s, int c);
char *kt__win_strsep(char **rest, const char *ends);
char *kt__win_strcasestr(const char *in, const char *what);
char *kt__win_stpcpy(char *to, const char *from);
char *kt__win_strndup(const char *s, size_t n);
char *kt__win_strtok_r(char *s, const char *ends, char **rest);
size_t kt__win_strftime(char *out, size_t size, const char *format, const struct tm *when);
void kt__win_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
void kt__win_qsort_r(void *base, size_t n, size_t size,
                     int (*compare)(const void *, const void *, void *), void *arg);
struct tm *kt__win_localtime_r(const time_t *when, struct tm *out);
struct tm *kt__win_gmtime_r(const time_t *when, struct tm *out);
char *kt__win_strerror(int code);
#define memmem kt__win_memmem
#define memrchr kt__win_memrchr
#define mempcpy(to, from, n) ((void *)((char *)memcpy(to, from, n) + (n)))
#define strchrnul kt__win_strchrnul
#define strsep kt__win_strsep
#define strcasestr kt__win_strcasestr
#define stpcpy kt__win_stpcpy
#define strndup kt__win_strndup
#undef strtok_r
#define strtok_r kt__win_strtok_r
#define strftime kt__win_strftime
#define qsort kt__win_qsort
#define qsort_r kt__win_qsort_r
#undef localtime_r
#undef gmtime_r
#define localtime_r kt__win_localtime_r
#define gmtime_r kt__win_gmtime_r
#define strerror kt__win_strerror
#define explicit_bzero(p, n) kt__win_explicit_bzero(p, n)
static inline void kt__win_explicit_bzero(void *p, size_t n) {
    memset(p, 0, n);
    __asm__ volatile("" : : "r"(p) : "memory");
}
#define timegm _mkgmtime

/* Numbers are read and written as in the C locale unless a program asks for another. */
typedef void *kt__win_locale;
#define locale_t kt__win_locale
#define LC_ALL_MASK 0
#define newlocale(mask, name, base) ((kt__win_locale)(uintptr_t)1)
static inline kt__win_locale kt__win_uselocale(kt__win_locale l) {
    (void)l;
    return NULL;
}
#define uselocale kt__win_uselocale
#define freelocale(l) ((void)(l))
#define strftime_l(out, size, format_, when, l) strftime(out, size, format_, when)

/* What base/files.c asks besides a slash at the start. */
#define KT__PATH_HAS_DRIVE(path) ((path)[0] == '\\' || ((path)[0] && (path)[1] == ':'))

#ifndef PIPE_BUF
#define PIPE_BUF 4096
#endif
#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

#endif
#endif
