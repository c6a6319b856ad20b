#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "host/host.h"

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

typedef struct cpuid_regs {
    uint32_t eax, ebx, ecx, edx;
} cpuid_regs;

/* All zero where the processor has no such leaf. */
static cpuid_regs read_cpuid(uint32_t leaf, uint32_t subleaf) {
    cpuid_regs r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx))
        return (cpuid_regs){0, 0, 0, 0};
    return r;
}

static bool has_bit(uint32_t word, int n) {
    return word >> n & 1;
}

/* XCR0: the register states that the operating system saves. The instruction needs no compiler flag
 * this way; it exists where CPUID says OSXSAVE. */
static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void detect_saved_state(kt__cpu *cpu, bool osxsave) {
    const uint64_t ymm = 0x6;       /* XMM, upper halves of YMM */
    const uint64_t zmm = 0xe6;      /* and opmasks, upper halves of ZMM0-15, ZMM16-31 */
    const uint64_t tiles = 0x60000; /* configuration and data */
    uint64_t xcr0 = osxsave ? read_xcr0() : 0;
    cpu->os_saves_avx = (xcr0 & ymm) == ymm;
    cpu->os_saves_avx512 = (xcr0 & zmm) == zmm;
    cpu->os_saves_tiles = (xcr0 & tiles) == tiles;
}

/* Eight tiles of 16 rows of 64 bytes: Intel SDM vol. 2A, CPUID, leaf 1DH, palette 1 */
static bool has_full_tiles(void) {
    cpuid_regs palettes = read_cpuid(0x1d, 0), one = read_cpuid(0x1d, 1);
    return palettes.eax >= 1 && one.eax >> 16 >= 1024 && (one.ebx & 0xffff) >= 64 &&
           one.ebx >> 16 >= 8 && (one.ecx & 0xffff) >= 16;
}

/* Intel SDM vol. 2A, CPUID: leaf 1, leaf 7 subleaves 0 and 1. */
static unsigned read_family(uint32_t version) {
    unsigned family = version >> 8 & 0xf;
    return family == 0xf ? family + (version >> 20 & 0xff) : family;
}

static void detect_features(kt__cpu *cpu) {
    cpuid_regs one = read_cpuid(1, 0), seven = read_cpuid(7, 0), seven_one = {0, 0, 0, 0};
    if (seven.eax >= 1) seven_one = read_cpuid(7, 1);
    detect_saved_state(cpu, has_bit(one.ecx, 27));
    cpu->family = read_family(one.eax);
    cpu->hypervisor = has_bit(one.ecx, 31);
    cpu->ssse3 = has_bit(one.ecx, 9);
    cpu->sse41 = has_bit(one.ecx, 19);
    cpu->bmi2 = has_bit(seven.ebx, 8);
    if (!cpu->os_saves_avx || !has_bit(one.ecx, 28)) return;
    cpu->fma = has_bit(one.ecx, 12);
    cpu->f16c = has_bit(one.ecx, 29);
    cpu->avx2 = has_bit(seven.ebx, 5);
    cpu->avx_vnni = has_bit(seven_one.eax, 4);
    if (!cpu->os_saves_avx512) return;
    cpu->avx512f = has_bit(seven.ebx, 16);
    cpu->avx512dq = has_bit(seven.ebx, 17);
    cpu->avx512bw = has_bit(seven.ebx, 30);
    cpu->avx512vl = has_bit(seven.ebx, 31);
    cpu->avx512_vnni = has_bit(seven.ecx, 11);
    cpu->amx_int8 = cpu->os_saves_tiles && has_bit(seven.edx, 24) && has_bit(seven.edx, 25) &&
                    has_full_tiles();
}

int kt__cpu_permit_tiles(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 }; /* asm/prctl.h of Linux 5.16 */
#ifdef SYS_arch_prctl
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 0 : errno;
#else
    return ENOSYS;
#endif
}

/* A hypervisor may put any bytes there: what is not printable ASCII becomes '?'. */
static void copy_printable(char *out, size_t size, const char *in, size_t len) {
    size_t n = 0;
    while (len > 0 && *in == ' ') in++, len--;
    for (; n + 1 < size && n < len && in[n]; n++)
        out[n] = in[n] >= ' ' && in[n] <= '~' ? in[n] : '?';
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = '\0';
}

static void read_vendor(kt__cpu *cpu) {
    cpuid_regs r = read_cpuid(0, 0);
    const uint32_t words[] = {r.ebx, r.edx, r.ecx};
    copy_printable(cpu->vendor, sizeof cpu->vendor, (const char *)words, sizeof words);
}

static void read_brand(kt__cpu *cpu) {
    cpuid_regs parts[3];
    for (uint32_t i = 0; i < 3; i++) parts[i] = read_cpuid(0x80000002u + i, 0);
    copy_printable(cpu->brand, sizeof cpu->brand, (const char *)parts, sizeof parts);
}

void kt__cpu_detect(kt__cpu *out) {
    memset(out, 0, sizeof *out);
    read_vendor(out);
    read_brand(out);
    detect_features(out);
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

/* Bits of the Linux arm64 ABI (Documentation/arch/arm64/elf_hwcaps.rst); the kernel clears those
 * whose state it does not save. */
enum { HWCAP_BIT_ASIMD = 1, HWCAP_BIT_ASIMDDP = 20, HWCAP2_BIT_I8MM = 13 };

/* The implementer byte of MIDR_EL1, which the kernel shows in sysfs. */
static const char *implementer_name(unsigned implementer) {
    switch (implementer) {
    case 0x41: return "ARM";
    case 0x42: return "Broadcom";
    case 0x43: return "Cavium";
    case 0x46: return "Fujitsu";
    case 0x48: return "HiSilicon";
    case 0x4e: return "NVIDIA";
    case 0x51: return "Qualcomm";
    case 0x53: return "Samsung";
    case 0x61: return "Apple";
    case 0xc0: return "Ampere";
    default: return "";
    }
}

/* ARM's own cores, as in small and in rented machines; "" for any other. */
static const char *core_name(unsigned implementer, unsigned part) {
    static const struct {
        unsigned part;
        const char *name;
    } cores[] = {
        {0xd03, "Cortex-A53"},  {0xd04, "Cortex-A35"},  {0xd05, "Cortex-A55"},
        {0xd07, "Cortex-A57"},  {0xd08, "Cortex-A72"},  {0xd09, "Cortex-A73"},
        {0xd0a, "Cortex-A75"},  {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse N1"},
        {0xd0d, "Cortex-A77"},  {0xd40, "Neoverse V1"}, {0xd41, "Cortex-A78"},
        {0xd44, "Cortex-X1"},   {0xd46, "Cortex-A510"}, {0xd47, "Cortex-A710"},
        {0xd49, "Neoverse N2"}, {0xd4f, "Neoverse V2"}, {0xd80, "Cortex-A520"},
        {0xd81, "Cortex-A720"},
    };
    for (size_t i = 0; i < sizeof cores / sizeof cores[0] && implementer == 0x41; i++) {
        if (cores[i].part == part) return cores[i].name;
    }
    return "";
}

static void read_midr(kt__cpu *cpu) {
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "re");
    unsigned long long midr = 0;
    if (!f) return;
    if (fscanf(f, "%llx", &midr) == 1) {
        unsigned implementer = midr >> 24 & 0xff, part = midr >> 4 & 0xfff;
        const char *name = core_name(implementer, part);
        snprintf(cpu->vendor, sizeof cpu->vendor, "%s", implementer_name(implementer));
        if (*name)
            snprintf(cpu->brand, sizeof cpu->brand, "%s", name);
        else
            snprintf(cpu->brand, sizeof cpu->brand, "part 0x%03x revision %u", part,
                     (unsigned)(midr & 0xf));
    }
    fclose(f);
}

void kt__cpu_detect(kt__cpu *out) {
    memset(out, 0, sizeof *out);
    read_midr(out);
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    out->neon = caps >> HWCAP_BIT_ASIMD & 1;
    out->dotprod = caps >> HWCAP_BIT_ASIMDDP & 1;
    out->i8mm = caps2 >> HWCAP2_BIT_I8MM & 1;
}

#else

void kt__cpu_detect(kt__cpu *out) {
    memset(out, 0, sizeof *out);
}

#endif

#if !defined(__x86_64__) && !defined(__i386__)
int kt__cpu_permit_tiles(void) {
    return ENOSYS;
}
#endif

/* ---- fpenv ---- */

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
