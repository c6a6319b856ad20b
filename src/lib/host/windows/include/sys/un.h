/* As <sys/socket.h>, which has struct sockaddr_un. */
#include <sys/socket.h>
