/* Winsock, without names that kentang has for things of its own. */
#ifndef KT_HOST_WINDOWS_WINSOCK2_H
#define KT_HOST_WINDOWS_WINSOCK2_H
#undef gethostname
#include_next <winsock2.h>
#undef MAX_PATH
#undef near
#undef far
#define gethostname(out, size) kt__win_gethostname(out, size)
#endif
