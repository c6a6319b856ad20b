/* As <sys/socket.h>. */
#include <sys/socket.h>
