/* Whole reads and writes of descriptors.
 *
 * Owns: continuing after a short or interrupted call; what a replaced file needs besides. Any
 * thread. */
#ifndef KT_BASE_FD_IO_H
#define KT_BASE_FD_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All n bytes; false with errno. */
bool kt__fd_write(int fd, const void *data, size_t n);
bool kt__fd_write_at(int fd, const void *data, size_t n, uint64_t at);
/* All n bytes; false where the file is shorter (errno 0) or cannot be read. */
bool kt__fd_read_at(int fd, void *data, size_t n, uint64_t at);
/* Makes a name in the path's folder durable: after a rename. A folder that cannot be opened or made
 * durable is passed over: the file itself is good. */
void kt__sync_folder_of(const char *path);
/* Both are there, and the same. */
bool kt__same_file(const char *a, const char *b);

#endif
