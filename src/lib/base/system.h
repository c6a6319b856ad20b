/* What the rooms ask the system for: paths, folders, descriptors, and this process.
 *
 * Owns: the system's calls that more than one room needs, under names that are the same on every system, so that few
 * files include the system's own headers (scripts/check_includes.sh counts them). Knows nothing of what is in a file.
 * What fails leaves errno. Any thread. */
#ifndef KT_BASE_SYSTEM_H
#define KT_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what is at a path ---- */

typedef struct kt__file_info {
    bool is_file, is_folder, is_link, is_pipe, is_socket; /* none of them: a device */
    unsigned permissions; /* as chmod has them: 0600 is the user's alone */
    uint64_t bytes, disk_bytes;
    int64_t changed_s, changed_ns; /* what is in it, since 1970; the part of a second */
    int64_t used_s, used_ns;       /* when it was read last */
    uint64_t device, number;       /* two names of one file have the same */
} kt__file_info;

bool kt__file_exists(const char *path);
bool kt__file_readable(const char *path);
/* What a link leads to; false with errno. */
bool kt__file_look(const char *path, kt__file_info *out);
/* A link itself. */
bool kt__file_look_here(const char *path, kt__file_info *out);
bool kt__file_remove(const char *path);

/* A name and a pattern of the shell's, with *, ? and [...]. */
bool kt__pattern_matches(const char *pattern, const char *name);

/* For the user alone; else as the process's mask has it. */
bool kt__folder_make(const char *path, bool is_private);
bool kt__folder_remove(const char *path); /* an empty one */

/* The names in a folder, in any order, without "." and "..". */
typedef struct kt__listing kt__listing;
kt__listing *kt__listing_open(const char *path);   /* NULL with errno */
const char *kt__listing_next(kt__listing *folder); /* NULL: no more; until the next call */
void kt__listing_close(kt__listing *folder);       /* NULL allowed */

/* ---- descriptors ---- */

enum { KT__STDIN, KT__STDOUT, KT__STDERR };

typedef enum kt__open_how {
    KT__OPEN_READ,
    KT__OPEN_WRITE = 1,
    KT__OPEN_BOTH = 2,
    KT__OPEN_CREATE = 1 << 2,  /* where there is none */
    KT__OPEN_NEW = 1 << 3,     /* with CREATE: fails where there is one */
    KT__OPEN_EMPTY = 1 << 4,   /* what was in it goes */
    KT__OPEN_APPEND = 1 << 5,  /* every write goes to the end */
    KT__OPEN_NO_LINK = 1 << 6, /* fails at a link */
    KT__OPEN_NO_WAIT = 1 << 7, /* a pipe without a writer does not hold us up */
    KT__OPEN_FOLDER = 1 << 9,  /* fails where there is none of that name */
    KT__OPEN_PRIVATE = 1 << 8  /* with CREATE: for the user alone */
} kt__open_how;

/* No process that is started gets it. -1 with errno. */
int kt__fd_open(const char *path, unsigned how);
bool kt__fd_close(int fd); /* -1 allowed; false: what was written may be lost */
int kt__fd_again(int fd); /* another of the same open file, whose place they share; -1 with errno */
/* Bytes read, once; 0: the end; -1 with errno. */
int64_t kt__fd_read(int fd, void *out, size_t n);
/* All n bytes, after interruptions, too; false with errno. */
bool kt__fd_write(int fd, const void *data, size_t n);
bool kt__fd_write_at(int fd, const void *data, size_t n, uint64_t at);
/* All n bytes; false where the file is shorter (errno 0) or cannot be read. */
bool kt__fd_read_at(int fd, void *data, size_t n, uint64_t at);
/* Whether a read would not wait, within ms. */
bool kt__fd_has_input(int fd, int ms);
bool kt__fd_look(int fd, kt__file_info *out);
bool kt__fd_sync(int fd);
bool kt__fd_sync_data(int fd); /* what has to do with the bytes alone */
/* These bytes will be read, in their order. */
void kt__fd_read_ahead(int fd, uint64_t at, uint64_t n);
/* Room on the disk; false with errno. */
bool kt__fd_reserve(int fd, uint64_t bytes);
bool kt__fd_cut(int fd, uint64_t bytes);
/* The whole file, until it is closed; false with errno, EWOULDBLOCK: somebody else's, who is not waited for. */
bool kt__fd_lock(int fd, bool wait);
bool kt__fd_is_terminal(int fd);

/* ---- this process ---- */

/* "Linux 6.1.0 x86_64"; the machine's name in its network. False, and "": unknown. */
bool kt__system_name(char *out, size_t size);
bool kt__system_host(char *out, size_t size);
int kt__system_processors(void); /* that are on; 0: unknown */
long kt__process_number(void);
unsigned kt__process_user(void); /* whose rights it has */
char **kt__process_environment(void);

typedef struct kt__process_use {
    int64_t cpu_us;
    uint64_t peak_bytes;   /* of memory that was resident */
    uint64_t major_faults; /* pages that came from a disk */
} kt__process_use;

bool kt__process_used(kt__process_use *out);
/* Nobody is there to load a library. */
bool kt__process_is_static(void);
/* False where the system has none yet. */
bool kt__random_bytes(void *out, size_t n);

/* A shared library; its names stay out of the way of the program's. */
void *kt__library_open(const char *name); /* NULL: not here, kt__library_error says why */
void *kt__library_find(void *library, const char *symbol);
void kt__library_close(void *library);
const char *kt__library_error(void);

#endif
