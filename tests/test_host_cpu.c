/* host: processor features against the kernel's list, topology, and the floating-point environment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "host/host.h"

/* The value of the first "key : value" line of /proc/cpuinfo, between two spaces; "" where there is
 * none. */
static void read_cpuinfo(const char *key, char *value, size_t size) {
    value[0] = '\0';
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return;
    char line[8192];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, size, "%s ", colon + 1);
        break;
    }
    fclose(f);
}

static bool has_flag(const char *flags, const char *name) {
    char word[32];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(flags, word) != NULL;
}

static void test_features_match_the_kernels(void **state) {
    (void)state;
#if defined(__x86_64__)
    char flags[8192], name[256];
    read_cpuinfo("flags", flags, sizeof flags);
    read_cpuinfo("model name", name, sizeof name);
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    /* Under an emulator the file is the host's, and says nothing. */
    if (!flags[0] || !cpu.brand[0] || !strstr(name, cpu.brand)) skip();
    assert_int_equal(has_flag(flags, "avx"), cpu.os_saves_avx);
    assert_int_equal(cpu.ssse3, has_flag(flags, "ssse3"));
    assert_int_equal(cpu.sse41, has_flag(flags, "sse4_1"));
    assert_int_equal(cpu.avx2, has_flag(flags, "avx2"));
    assert_int_equal(cpu.fma, has_flag(flags, "fma"));
    assert_int_equal(cpu.f16c, has_flag(flags, "f16c"));
    assert_int_equal(cpu.bmi2, has_flag(flags, "bmi2"));
    assert_int_equal(cpu.avx512f, has_flag(flags, "avx512f"));
    assert_int_equal(cpu.avx512bw, has_flag(flags, "avx512bw"));
    assert_int_equal(cpu.avx512vl, has_flag(flags, "avx512vl"));
    assert_int_equal(cpu.avx512dq, has_flag(flags, "avx512dq"));
    assert_int_equal(cpu.avx512_vnni, has_flag(flags, "avx512_vnni"));
    assert_int_equal(cpu.hypervisor, has_flag(flags, "hypervisor"));
#else
    char flags[8192];
    read_cpuinfo("Features", flags, sizeof flags); /* of ARM; an emulator shows its host's */
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    if (!flags[0]) skip();
    assert_int_equal(cpu.neon, has_flag(flags, "asimd"));
    assert_int_equal(cpu.dotprod, has_flag(flags, "asimddp"));
    assert_int_equal(cpu.i8mm, has_flag(flags, "i8mm"));
#endif
}

static void test_features_imply_saved_state(void **state) {
    (void)state;
    kt__cpu cpu;
    memset(&cpu, 0xff, sizeof cpu);
    kt__cpu_detect(&cpu);
    assert_true(strlen(cpu.vendor) < sizeof cpu.vendor);
    assert_true(strlen(cpu.brand) < sizeof cpu.brand);
    if (cpu.avx2 || cpu.fma || cpu.f16c || cpu.avx_vnni) assert_true(cpu.os_saves_avx);
    if (cpu.avx512f || cpu.avx512_vnni) assert_true(cpu.os_saves_avx512);
}

static void test_topology_is_sane_and_quick(void **state) {
    (void)state;
    kt__topology t;
    int64_t start = kt__now_us();
    kt__topology_detect(&t);
    int64_t took = kt__now_us() - start;
    assert_in_range(t.n_logical, 1, 100000);
    assert_in_range(t.n_physical, 1, t.n_logical);
    assert_in_range(t.n_performance, 1, t.n_physical);
    assert_in_range(t.n_numa, 1, 1024);
    assert_true(took < 2000000); /* a bound for sanitizers on loaded machines; usually a few ms */
}

/* volatile: computed at run time, in the environment of the moment */
static float subnormal_product(void) {
    volatile float tiny = 1e-39f, one = 1.0f;
    return tiny * one;
}

/* The control word of floating-point arithmetic, and its bits that flush subnormals to zero. */
#if defined(__x86_64__)
enum { FLUSHING = 0x8040, STICKY = 0x3f }; /* FTZ, DAZ; exception flags */
static uint32_t read_control(void) {
    return __builtin_ia32_stmxcsr();
}
static void write_control(uint32_t value) {
    __builtin_ia32_ldmxcsr(value);
}
#elif defined(__aarch64__)
enum { FLUSHING = 1 << 24, STICKY = 0 }; /* FZ */
static uint32_t read_control(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return (uint32_t)value;
}
static void write_control(uint32_t value) {
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)value));
}
#endif

static void test_fpenv_enters_and_leaves(void **state) {
    (void)state;
#if defined(__x86_64__) || defined(__aarch64__)
    uint32_t outer = read_control();
    uint32_t flushing = outer | FLUSHING;
    write_control(flushing);
    float flushed = subnormal_product();
    uint32_t saved = kt__fpenv_enter();
    float kept = subnormal_product();
    uint32_t inner = kt__fpenv_enter(); /* nested */
    kt__fpenv_leave(inner);
    float still_kept = subnormal_product();
    kt__fpenv_leave(saved);
    uint32_t restored = read_control();
    write_control(outer);
    assert_true(flushed == 0.0f);
    assert_true(kept != 0.0f);
    assert_true(still_kept != 0.0f);
    assert_int_equal(restored & ~(uint32_t)STICKY, flushing & ~(uint32_t)STICKY);
#else
    uint32_t saved = kt__fpenv_enter();
    assert_true(subnormal_product() != 0.0f);
    kt__fpenv_leave(saved);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_match_the_kernels),
        cmocka_unit_test(test_features_imply_saved_state),
        cmocka_unit_test(test_topology_is_sane_and_quick),
        cmocka_unit_test(test_fpenv_enters_and_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
