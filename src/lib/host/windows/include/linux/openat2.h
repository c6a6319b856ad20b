/* Of openat2: a path that may not leave a folder (../../files.c). */
#ifndef KT_HOST_WINDOWS_OPENAT2_H
#define KT_HOST_WINDOWS_OPENAT2_H
#include <stdint.h>
struct open_how {
    uint64_t flags, mode, resolve;
};
enum { RESOLVE_BENEATH = 8, RESOLVE_NO_MAGICLINKS = 2 };
#endif
