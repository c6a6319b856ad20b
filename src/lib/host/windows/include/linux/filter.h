/* Socket filters, which Windows does not have: setting one fails. */
#ifndef KT_HOST_WINDOWS_FILTER_H
#define KT_HOST_WINDOWS_FILTER_H
#include <stdint.h>
struct sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};
enum {
    BPF_LD = 0,
    BPF_ALU = 4,
    BPF_JMP = 5,
    BPF_RET = 6,
    BPF_B = 16,
    BPF_ABS = 32,
    BPF_AND = 80,
    BPF_JEQ = 16,
    BPF_K = 0
};
#define BPF_STMT(code_, k_) \
    { code_, 0, 0, k_ }
#define BPF_JUMP(code_, k_, yes, no) \
    { code_, yes, no, k_ }
#endif
