/* The system's name and version: ../../process.c. */
#ifndef KT_HOST_WINDOWS_UTSNAME_H
#define KT_HOST_WINDOWS_UTSNAME_H
struct utsname {
    char sysname[16], nodename[64], release[32], version[32], machine[16];
};
int kt__win_uname(struct utsname *out);
#define uname kt__win_uname
#endif
