/* A descriptor that wakes who waits for it: a socket that is its own peer, ../sockets.c. */
int kt__win_eventfd(unsigned count, int flags);
#define eventfd kt__win_eventfd
#define EFD_CLOEXEC 0
#define EFD_NONBLOCK 0
