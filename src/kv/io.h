/* Whole reads and writes of files.
 *
 * Owns: going on after a short or interrupted call. Any thread. */
#ifndef KT_KV_IO_H
#define KT_KV_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All n bytes; false with errno. */
bool kt__io_write(int fd, const void *data, size_t n);
bool kt__io_write_at(int fd, const void *data, size_t n, uint64_t at);
/* All n bytes; false where the file is shorter (errno 0) or cannot be read. */
bool kt__io_read_at(int fd, void *data, size_t n, uint64_t at);

/* Two hashes of one kind, of n bytes; zeros are one that is not known. Both are known and differ.
 */
bool kt__io_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n);

/* Little-endian numbers of file headers. */
void kt__io_put(uint8_t *out, uint64_t x, int n_bytes);
uint64_t kt__io_get(const uint8_t *in, int n_bytes);

#endif
