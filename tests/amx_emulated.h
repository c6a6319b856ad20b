/* AMX's tile instructions on an x86-64 processor that has none: they are illegal there, and the handler of that signal
 * computes them. So a tier's own machine code runs, some microseconds an instruction.
 *
 * Owns: the signal's handler, from the first call on, and each thread's tiles. Knows ldtilecfg, tilerelease,
 * tilezero, tileloadd, tilestored and the products of bytes (Intel SDM volume 2, under these names); what the processor
 * would refuse, and any other illegal instruction, ends the process as ever. */
#ifndef KT_TESTS_AMX_EMULATED_H
#define KT_TESTS_AMX_EMULATED_H

#include <stdbool.h>

#if defined(__x86_64__)
#include "avxvnni_emulated.h"

typedef struct amxe_tile {
    uint8_t bytes[16][64];
} amxe_tile;

typedef struct amxe_state {
    bool configured;
    int line[8], rows[8]; /* bytes of a row; rows */
    amxe_tile tile[8];
} amxe_state;

static __thread amxe_state amxe;

/* A thread that is out of a product has given its tiles back. */
static inline bool amxe_in_use(void) {
    return amxe.configured;
}

static inline bool amxe_configure(const uint8_t config[64]) {
    memset(&amxe, 0, sizeof amxe);
    if (config[0] != 1 || config[1] != 0) return false; /* palette 1, from the first row on */
    for (int i = 0; i < 8; i++) {
        amxe.line[i] = config[16 + 2 * i] | config[17 + 2 * i] << 8;
        amxe.rows[i] = config[48 + i];
        if (amxe.line[i] > 64 || amxe.rows[i] > 16) return false;
    }
    amxe.configured = true;
    return true;
}

static inline bool amxe_usable(int tile) {
    return amxe.configured && tile < 8 && amxe.line[tile] > 0 && amxe.rows[tile] > 0;
}

/* ldtilecfg, tilerelease, tilezero */
static inline int amxe_state_instruction(const ucontext_t *context, const uint8_t *ip, int prefix) {
    int b = ip[1] & 0x20 ? 0 : 8, x = ip[1] & 0x40 ? 0 : 8, tile = ip[4] >> 3 & 7;
    uint64_t address;
    if (prefix == 0 && ip[4] == 0xc0) {
        memset(&amxe, 0, sizeof amxe);
        return 5;
    }
    if (prefix == 0 && ip[4] >> 6 != 3 && tile == 0) {
        int used = ave_address(context, ip + 4, b, x, &address);
        return amxe_configure((const uint8_t *)(uintptr_t)address) ? 4 + used
                                                                   : 0; /* NOLINT: its operand */
    }
    if (prefix != 3 || (ip[4] & 0xc7) != 0xc0 || !amxe_usable(tile)) return 0;
    memset(&amxe.tile[tile], 0, sizeof amxe.tile[tile]);
    return 5;
}

/* tileloadd, tilestored: rows lie as far apart as the index register says */
static inline int amxe_move(const ucontext_t *context, const uint8_t *ip, int prefix) {
    int b = ip[1] & 0x20 ? 0 : 8, x = ip[1] & 0x40 ? 0 : 8, tile = ip[4] >> 3 & 7;
    int index = (ip[5] >> 3 & 7) | x;
    uint64_t address, pitch = index == 4 ? 0 : ave_general(context, index) << (ip[5] >> 6);
    if ((prefix != 2 && prefix != 3) || ip[4] >> 6 == 3 || (ip[4] & 7) != 4 || !amxe_usable(tile))
        return 0;
    int used = ave_address(context, ip + 4, b, x, &address);
    uint8_t *at = (uint8_t *)(uintptr_t)(address - pitch); /* NOLINT: its operand */
    if (prefix == 3) memset(&amxe.tile[tile], 0, sizeof amxe.tile[tile]);
    for (int r = 0; r < amxe.rows[tile]; r++, at += pitch) {
        if (prefix == 3)
            memcpy(amxe.tile[tile].bytes[r], at, (size_t)amxe.line[tile]);
        else
            memcpy(at, amxe.tile[tile].bytes[r], (size_t)amxe.line[tile]);
    }
    return 4 + used;
}

/* to[m][n] += sum of a[m]'s quadruple k times b[k]'s quadruple n */
static inline int amxe_multiply(const uint8_t *ip, int prefix) {
    bool a_signed = prefix >= 2, b_signed = prefix == 3 || prefix == 1;
    int to = ip[4] >> 3 & 7, a = ip[4] & 7, b = ~ip[2] >> 3 & 15;
    if (ip[4] >> 6 != 3 || !amxe_usable(to) || !amxe_usable(a) || !amxe_usable(b)) return 0;
    if (to == a || to == b || a == b || amxe.rows[to] != amxe.rows[a]) return 0;
    if (amxe.line[to] != amxe.line[b] || amxe.line[a] != 4 * amxe.rows[b]) return 0;
    for (int m = 0; m < amxe.rows[to]; m++) {
        for (int n = 0; n < amxe.line[to] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, &amxe.tile[to].bytes[m][4 * n], sizeof sum);
            for (int k = 0; k < amxe.line[a]; k++) {
                uint8_t x = amxe.tile[a].bytes[m][k], y = amxe.tile[b].bytes[k / 4][4 * n + k % 4];
                sum += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
            }
            memcpy(&amxe.tile[to].bytes[m][4 * n], &sum, sizeof sum);
        }
    }
    return 5;
}

static inline void amxe_handle(int signal_number, siginfo_t *info, void *at) {
    ucontext_t *context = at;
    const uint8_t *ip = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    int length = 0, prefix = ip[2] & 3; /* of no prefix, 66, F3, F2 */
    (void)info;
    if (ip[0] == 0xc4 && (ip[1] & 0x1f) == 2 && (ip[2] & 0x84) == 0) { /* map 0F38, W0, L0 */
        if (ip[3] == 0x49) length = amxe_state_instruction(context, ip, prefix);
        if (ip[3] == 0x4b) length = amxe_move(context, ip, prefix);
        if (ip[3] == 0x5e) length = amxe_multiply(ip, prefix);
    }
    if (length == 0)
        signal(signal_number, SIG_DFL); /* returning meets the instruction again */
    else
        context->uc_mcontext.gregs[REG_RIP] += length;
}

static inline void amxe_install(void) {
    struct sigaction action = {.sa_sigaction = amxe_handle, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGILL, &action, NULL);
}
#else
static inline void amxe_install(void) {}
static inline bool amxe_in_use(void) {
    return false;
}
#endif

#endif
