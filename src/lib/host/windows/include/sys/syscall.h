/* The few calls that kentang makes by number: ../../process.c. */
#ifndef KT_HOST_WINDOWS_SYSCALL_H
#define KT_HOST_WINDOWS_SYSCALL_H
enum { SYS_renameat2 = 1, SYS_openat2, SYS_ioprio_set, SYS_gettid };
#endif
