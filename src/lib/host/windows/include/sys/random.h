/* Random bytes of the system: ../../process.c. */
#include <stddef.h>
#include <sys/types.h>
ssize_t kt__win_getrandom(void *out, size_t n, unsigned flags);
#define getrandom kt__win_getrandom
