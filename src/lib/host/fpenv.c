#include "host/host.h"

#if defined(__x86_64__) || defined(__i386__)

#include <xmmintrin.h>

/* MXCSR after reset: all exceptions masked, round to nearest, no DAZ (bit 6), no FTZ (bit 15). */
static const uint32_t contract_mxcsr = 0x1f80;

uint32_t kt__fpenv_enter(void) {
    uint32_t saved = _mm_getcsr();
    /* The sticky exception flags (bits 0-5) do not change results: no slow write for their sake. */
    if ((saved & ~UINT32_C(0x3f)) != contract_mxcsr) _mm_setcsr(contract_mxcsr);
    return saved;
}

void kt__fpenv_leave(uint32_t saved) {
    if ((saved & ~UINT32_C(0x3f)) != contract_mxcsr) _mm_setcsr(saved);
}

#elif defined(__aarch64__)

/* FPCR 0: round to nearest, no flush-to-zero (FZ, FZ16, FIZ), no default NaN, exceptions not
 * trapped. */
static uint64_t read_fpcr(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static void write_fpcr(uint64_t value) {
    __asm__ volatile("msr fpcr, %0" : : "r"(value));
}

uint32_t kt__fpenv_enter(void) {
    uint64_t saved = read_fpcr();
    if (saved != 0) write_fpcr(0);
    return (uint32_t)saved; /* the upper half is reserved */
}

void kt__fpenv_leave(uint32_t saved) {
    if (saved != 0) write_fpcr(saved);
}

#else

uint32_t kt__fpenv_enter(void) {
    return 0;
}
void kt__fpenv_leave(uint32_t saved) {
    (void)saved;
}

#endif
