/* AVX-VNNI on an x86-64 processor that has AVX2 only: its instructions are illegal there, and the
 * handler of that signal computes them. So the tier's own machine code runs, a microsecond an
 * instruction.
 *
 * Owns: the signal's handler, from the first call on. Knows vpdpbusd and vpdpwssd in their VEX
 * encodings (Intel SDM volume 2, 2.3 and "VPDPBUSD", "VPDPWSSD"); any other illegal instruction
 * ends the process as ever. */
#ifndef KT_TESTS_AVXVNNI_EMULATED_H
#define KT_TESTS_AVXVNNI_EMULATED_H

#if defined(__x86_64__)
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* A decoded instruction: to += a * b. */
typedef struct ave_instruction {
    bool words;          /* pairs of i16 products; else quadruples of u8 * i8 products */
    int bytes;           /* of a register: 16 or 32 */
    int to, a, b;        /* registers; b is negative where memory is */
    const uint8_t *b_at; /* the memory */
    int length;
} ave_instruction;

static inline uint64_t ave_general(const ucontext_t *context, int number) {
    static const int reg[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[reg[number]];
}

static inline int64_t ave_displacement(const uint8_t *at, int bytes) {
    int32_t four;
    if (bytes == 0) return 0;
    if (bytes == 1) return (int8_t)*at;
    memcpy(&four, at, sizeof four);
    return four;
}

/* The address that ModRM and what follows it name; rex: its B and X bits as 8 or 0. Returns the
 * bytes read from modrm on. */
static inline int ave_address(const ucontext_t *context, const uint8_t *modrm, int rex_b, int rex_x,
                              uint64_t *address) {
    int mod = *modrm >> 6, low = *modrm & 7, used = 1;
    int shown = mod == 1 ? 1 : mod == 2 ? 4 : 0; /* bytes of displacement */
    *address = 0;
    if (low == 4) { /* a SIB byte */
        int sib = modrm[used++], index = (sib >> 3 & 7) | rex_x;
        if (index != 4) *address += ave_general(context, index) << (sib >> 6);
        if ((sib & 7) == 5 && mod == 0)
            shown = 4;
        else
            *address += ave_general(context, (sib & 7) | rex_b);
    } else if (low == 5 && mod == 0) { /* relative to the next instruction */
        shown = 4;
        *address = (uint64_t)(uintptr_t)(modrm + used + shown);
    } else {
        *address = ave_general(context, low | rex_b);
    }
    *address += (uint64_t)ave_displacement(modrm + used, shown);
    return used + shown;
}

static inline bool ave_decode(const ucontext_t *context, const uint8_t *ip, ave_instruction *out) {
    /* C4, RXB.00010, 0.vvvv.L.01, opcode: W0, prefix 66, map 0F38; R, X, B and vvvv inverted */
    if (ip[0] != 0xc4 || (ip[1] & 0x1f) != 2 || (ip[2] & 0x83) != 1) return false;
    if (ip[3] != 0x50 && ip[3] != 0x52) return false;
    int r = ip[1] & 0x80 ? 0 : 8, x = ip[1] & 0x40 ? 0 : 8, b = ip[1] & 0x20 ? 0 : 8;
    out->words = ip[3] == 0x52;
    out->bytes = ip[2] & 4 ? 32 : 16;
    out->to = (ip[4] >> 3 & 7) | r;
    out->a = ~ip[2] >> 3 & 15;
    if (ip[4] >> 6 == 3) {
        out->b = (ip[4] & 7) | b;
        out->length = 5;
        return true;
    }
    uint64_t address;
    out->length = 4 + ave_address(context, ip + 4, b, x, &address);
    out->b = -1;
    out->b_at = (const uint8_t *)(uintptr_t)address; /* NOLINT: the instruction's own operand */
    return true;
}

/* The vector registers in a signal's frame: the low halves in the legacy area, the high ones in the
 * standard layout of XSAVE. */
enum { AVE_XSTATE_BV = 512, AVE_HIGH = 576 };

static inline void ave_get(const uint8_t *frame, int number, uint8_t value[32]) {
    const struct _libc_fpstate *legacy = (const void *)frame;
    memcpy(value, &legacy->_xmm[number], 16);
    memset(value + 16, 0, 16);
    if (frame[AVE_XSTATE_BV] & 4) memcpy(value + 16, frame + AVE_HIGH + 16 * number, 16);
}

static inline void ave_put(uint8_t *frame, int number, const uint8_t value[32]) {
    struct _libc_fpstate *legacy = (void *)frame;
    memcpy(&legacy->_xmm[number], value, 16);
    if (!(frame[AVE_XSTATE_BV] & 4)) memset(frame + AVE_HIGH, 0, 256);
    frame[AVE_XSTATE_BV] |= 6; /* both halves are in use */
    memcpy(frame + AVE_HIGH + 16 * number, value + 16, 16);
}

static inline void ave_multiply(const ave_instruction *in, uint8_t to[32], const uint8_t a[32],
                                const uint8_t b[32]) {
    for (int i = 0; i < in->bytes; i += 4) {
        uint32_t sum;
        memcpy(&sum, to + i, sizeof sum);
        if (in->words) {
            int16_t x[2], y[2];
            memcpy(x, a + i, sizeof x);
            memcpy(y, b + i, sizeof y);
            for (int k = 0; k < 2; k++) sum += (uint32_t)(x[k] * y[k]);
        } else {
            for (int k = 0; k < 4; k++) sum += (uint32_t)(a[i + k] * (int8_t)b[i + k]);
        }
        memcpy(to + i, &sum, sizeof sum);
    }
    memset(to + in->bytes, 0, (size_t)(32 - in->bytes));
}

static inline void ave_handle(int signal_number, siginfo_t *info, void *at) {
    (void)info;
    ucontext_t *context = at;
    const uint8_t *ip = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    uint8_t *frame = (uint8_t *)context->uc_mcontext.fpregs;
    uint8_t to[32], a[32], b[32];
    ave_instruction in = {0};
    if (!ave_decode(context, ip, &in)) {
        signal(signal_number, SIG_DFL); /* returning meets the instruction again */
        return;
    }
    ave_get(frame, in.to, to);
    ave_get(frame, in.a, a);
    if (in.b >= 0)
        ave_get(frame, in.b, b);
    else
        memcpy(b, in.b_at, (size_t)in.bytes);
    ave_multiply(&in, to, a, b);
    ave_put(frame, in.to, to);
    context->uc_mcontext.gregs[REG_RIP] += in.length;
}

static inline void ave_install(void) {
    struct sigaction action = {.sa_sigaction = ave_handle, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGILL, &action, NULL);
}
#else
static inline void ave_install(void) {}
#endif

#endif
