/* kentang doctor: what this machine is, what it can reach, and what holds it back. Internals are
 * included here (the rooms host and kernels): there is no public interface for measuring a machine.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/filemap.h"
#include "host/host.h"
#include "host/noise.h"
#include "host/pages.h"
#include "kernels/dispatch.h"
#include "measure/devices.h"
#include "measure/figures.h"
#include "measure/limits.h"
#include "measure/report.h"
#include "term/cli.h"
#include "term/options.h"

enum {
    MAX_TIERS = 8,
    WRITE_US = 1500000, /* the whole report takes about five seconds at most */
    READ_US = 500000,
    PEAK_US = 200000,
    TIER_US = 50000
};

typedef struct doctor_opts {
    bool json, quick, mpi;
    int32_t n_threads;
    const char *model;
} doctor_opts;

typedef struct tier_peak {
    const char *name, *needs;
    bool supported;
    double macs_one; /* 0: not measured */
} tier_peak;

typedef struct report {
    kt__cpu cpu;
    kt__topology topology;
    kt__limits limits;
    int n_threads;
    char threads_why[128];
    const kt__kernels *kernels;
    char tier_why[160];
    kt_error tier_error; /* of KENTANG_ISA; code KT_OK: none */
    char thp[64], governor[32];

    bool measured;
    char read_note[200]; /* why the read limit is missing; "" if it is not */
    char file_place[128];
    uint64_t file_bytes;
    double read_one, read_all; /* bytes per second */
    double i8_one, i8_all;     /* multiply-adds per second */
    tier_peak tiers[MAX_TIERS];
    int n_tiers;
    kt__devices devices;
    double load_1min;
    kt__noise_report noise;
    bool advised;   /* about a model */
    char pages[64]; /* in which it lies; "" where little of it is in memory */
    kt__advice advice;
} report;

/* ---- finding out ---- */

static kt_status choose_tier(report *r, kt_error *err) {
    const char *wanted = getenv("KENTANG_ISA");
    kt_status status = kt__kernels_select(&r->cpu, wanted, &r->kernels, r->tier_why,
                                          sizeof r->tier_why, &r->tier_error);
    if (status == KT_OK) {
        kt__error_clear(&r->tier_error);
        return KT_OK;
    }
    return kt__kernels_select(&r->cpu, NULL, &r->kernels, r->tier_why, sizeof r->tier_why, err);
}

static kt_status look_at_machine(report *r, int n_threads, kt_error *err) {
    kt__cpu_detect(&r->cpu);
    kt__topology_detect(&r->topology);
    kt__limits_read(&r->limits);
    r->n_threads = kt__threads_default(&r->topology, &r->limits, r->threads_why,
                                       sizeof r->threads_why);
    if (r->n_threads > KT__POOL_MAX_THREADS) r->n_threads = KT__POOL_MAX_THREADS;
    if (n_threads) {
        r->n_threads = n_threads;
        snprintf(r->threads_why, sizeof r->threads_why, "as asked");
    }
    kt__machine_thp(r->thp, sizeof r->thp);
    (void)kt__text_line("", "/sys/devices/system/cpu/cpu0/cpufreq", "scaling_governor", r->governor,
                        sizeof r->governor);
    return choose_tier(r, err);
}

static void measure_read(report *r, kt__pool *pool) {
    kt__random_file file;
    kt_error err;
    uint64_t size = kt__random_file_size(&r->topology, &r->limits);
    if (kt__random_file_open(size, WRITE_US, &file, &err) != KT_OK) {
        snprintf(r->read_note, sizeof r->read_note, "%.190s", err.message);
        return;
    }
    r->file_bytes = file.size;
    snprintf(r->file_place, sizeof r->file_place, "%s", file.place);
    (void)kt__measure_read(pool, r->n_threads, file.data, file.size, 0); /* maps the pages */
    r->read_one = kt__measure_read(pool, 1, file.data, file.size, READ_US);
    r->read_all = r->read_one;
    if (r->n_threads > 1)
        r->read_all = kt__measure_read(pool, r->n_threads, file.data, file.size, READ_US);
    kt__random_file_close(&file);
}

static void measure_tiers(report *r, kt__pool *pool) {
    int n = 0;
    const kt__tier *tiers = kt__tiers(&n);
    for (int i = 0; i < n && i < MAX_TIERS; i++) {
        tier_peak *t = &r->tiers[r->n_tiers++];
        *t = (tier_peak){tiers[i].name, tiers[i].needs, tiers[i].supported(&r->cpu), 0};
        if (pool && t->supported) t->macs_one = kt__measure_i8(pool, 1, tiers[i].kernels, TIER_US);
    }
}

static void look_at_pages(report *r, const char *model) {
    kt__filemap map;
    kt__page_use use;
    kt_error ignored;
    if (kt__filemap_open(model, true, false, &map, &ignored) != KT_OK) return;
    if (kt__page_use_of_file(&map, &use)) kt__page_use_text(&use, r->pages, sizeof r->pages);
    kt__filemap_close(&map);
}

static kt_status measure_limits(report *r, kt_error *err) {
    kt__pool *pool;
    kt_status status = kt__pool_create(r->n_threads, &pool, err);
    if (status != KT_OK) return status;
    kt__noise before, after;
    kt__noise_read(&before);
    measure_read(r, pool);
    r->i8_one = kt__measure_i8(pool, 1, r->kernels, PEAK_US);
    r->i8_all = kt__measure_i8(pool, r->n_threads, r->kernels, PEAK_US);
    measure_tiers(r, pool);
    kt__noise_read(&after);
    kt__noise_between(&before, &after, &r->noise);
    r->load_1min = before.load_1min;
    r->measured = true;
    kt__pool_destroy(pool);
    return KT_OK;
}

static int measure_machines(const report *r, bool json) {
    kt__pool *pool;
    kt_error err;
    if (kt__pool_create(r->n_threads, &pool, &err) != KT_OK) return kt__cli_fail("doctor", &err);
    const kt__machine_asked asked = {.pool = pool,
                                     .n_threads = r->n_threads,
                                     .kernels = r->kernels,
                                     .cpu = &r->cpu,
                                     .topology = &r->topology,
                                     .limits = &r->limits,
                                     .json = json};
    kt_status status = kt__machines_measure(&asked, &err);
    kt__pool_destroy(pool);
    return status == KT_OK ? 0 : kt__cli_fail("doctor", &err);
}

/* ---- for people ---- */

typedef struct bytes_text {
    char s[32];
} bytes_text;

static bytes_text text_of_bytes(uint64_t n) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    bytes_text t;
    double value = (double)n;
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    bool whole = value == (double)(uint64_t)value;
    snprintf(t.s, sizeof t.s, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return t;
}

typedef struct feature {
    const char *name;
    bool present;
} feature;

enum { MAX_FEATURES = 16 };

/* Of this processor family; the number of rows. */
static int list_features(const kt__cpu *cpu, feature out[MAX_FEATURES]) {
#if defined(__aarch64__)
    const feature all[] = {{"neon", cpu->neon}, {"dotprod", cpu->dotprod}, {"i8mm", cpu->i8mm}};
#else
    const feature all[] = {
        {"ssse3", cpu->ssse3},       {"sse41", cpu->sse41},       {"avx2", cpu->avx2},
        {"fma", cpu->fma},           {"f16c", cpu->f16c},         {"bmi2", cpu->bmi2},
        {"avx_vnni", cpu->avx_vnni}, {"avx512f", cpu->avx512f},   {"avx512bw", cpu->avx512bw},
        {"avx512vl", cpu->avx512vl}, {"avx512dq", cpu->avx512dq}, {"avx512_vnni", cpu->avx512_vnni},
        {"amx_int8", cpu->amx_int8}};
#endif
    memcpy(out, all, sizeof all);
    return (int)KT__COUNT(all);
}

static void print_label(const char *name) {
    printf("%-14s", name);
}

static void print_processor(const report *r) {
    print_label("processor");
    printf("%s%s%s%s\n", r->cpu.brand[0] ? r->cpu.brand : "unknown", r->cpu.vendor[0] ? ", " : "",
           r->cpu.vendor, r->cpu.hypervisor ? ", in a virtual machine" : "");
    feature features[MAX_FEATURES];
    int n = list_features(&r->cpu, features), n_present = 0;
    print_label("features");
    for (int i = 0; i < n; i++)
        if (features[i].present) printf("%s%s", n_present++ ? " " : "", features[i].name);
    puts(n_present ? "" : "none that kentang has kernels for");
    print_label("kernels");
    printf("%s: %s\n", r->kernels->name, r->tier_why);
    if (r->tier_error.code != KT_OK)
        printf("%14sKENTANG_ISA is not followed here: %s\n", "", r->tier_error.message);
    kt__prefetch ahead = kt__kernels_prefetch(r->kernels, &r->cpu);
    print_label("prefetch");
    printf("weights %d bytes ahead into L1", ahead.near);
    if (ahead.far) printf(", %d into L2", ahead.far);
    puts("");
}

static void print_cores(const report *r) {
    const kt__topology *t = &r->topology;
    print_label("cores");
    printf("%d physical, %d logical", t->n_physical, t->n_logical);
    if (t->n_performance < t->n_physical) printf(", %d of them fast", t->n_performance);
    if (t->n_numa > 1) printf(", %d NUMA nodes", t->n_numa);
    if (r->governor[0]) printf(", frequency governor %s", r->governor);
    puts("");
    print_label("caches");
    const uint64_t sizes[] = {t->l1d_bytes, t->l2_bytes, t->l3_bytes};
    const char *const names[] = {"L1d", "L2", "L3"};
    for (int i = 0; i < 3; i++)
        printf("%s%s %s", i ? ", " : "", names[i],
               sizes[i] ? text_of_bytes(sizes[i]).s : "unknown");
    puts("");
    print_label("allowed");
    printf("%d processor%s on %d core%s by affinity; cgroup quota ", r->limits.n_affinity,
           r->limits.n_affinity == 1 ? "" : "s", r->limits.n_affinity_cores,
           r->limits.n_affinity_cores == 1 ? "" : "s");
    if (r->limits.quota_cpus > 0)
        printf("%.2f processors\n", r->limits.quota_cpus);
    else
        puts("none");
    print_label("threads");
    printf("%d: %s\n", r->n_threads, r->threads_why);
}

static void print_memory(const report *r) {
    const kt__limits *l = &r->limits;
    print_label("memory");
    printf("%s, %s available; cgroup limit ", text_of_bytes(l->mem_total_bytes).s,
           text_of_bytes(l->mem_available_bytes).s);
    if (l->mem_cgroup_bytes)
        printf("%s, %s of it used\n", text_of_bytes(l->mem_cgroup_bytes).s,
               text_of_bytes(l->mem_cgroup_used_bytes).s);
    else
        puts("none");
    print_label("pages");
    printf("%s; huge pages %s%s%s\n", text_of_bytes(l->page_bytes).s,
           l->huge_page_bytes ? text_of_bytes(l->huge_page_bytes).s : "unknown",
           r->thp[0] ? ", transparent: " : "", r->thp);
}

static void print_limits(const report *r) {
    print_label("read limit");
    if (r->read_note[0]) {
        printf("not measured: %s\n", r->read_note);
    } else {
        printf("%.1f GB/s with 1 thread", r->read_one * 1e-9);
        if (r->n_threads > 1) printf(", %.1f with %d", r->read_all * 1e-9, r->n_threads);
        printf(" (a mapped file of random bytes, %s, in %s)\n", text_of_bytes(r->file_bytes).s,
               r->file_place);
        double most = r->read_all > r->read_one ? r->read_all : r->read_one;
        printf("%14sa model decodes at most %.1f tokens/s for each GB of weights\n", "",
               most * 1e-9);
    }
    print_label("integer peak");
    if (r->i8_one <= 0) {
        puts("not measured: this tier has no peak loop");
        return;
    }
    printf("%.1f GMAC/s with 1 thread", r->i8_one * 1e-9);
    if (r->n_threads > 1) printf(", %.1f with %d", r->i8_all * 1e-9, r->n_threads);
    printf(" (8-bit multiply-adds of %s; prefill's bound)\n", r->kernels->name);
}

/* What a lesser machine would have, or this one lacks. */
static void print_tiers(const report *r) {
    print_label("by tier");
    for (int i = 0; i < r->n_tiers; i++) {
        const tier_peak *t = &r->tiers[i];
        if (i) printf("%14s", "");
        printf("%-8s", t->name);
        if (!t->supported)
            printf("not on this machine: needs %s\n", t->needs);
        else if (t->macs_one > 0)
            printf("%.1f GMAC/s with 1 thread%s\n", t->macs_one * 1e-9,
                   strcmp(t->name, "ref") == 0 ? ": all that is left without AVX2 or NEON" : "");
        else
            puts("available");
    }
}

static void print_noise(const report *r) {
    print_label("noise");
    if (r->load_1min >= 0) printf("load %.2f; ", r->load_1min);
    if (r->noise.steal_cpus >= 0)
        printf("%.2f processors stolen by the hypervisor, %.2f used by others; ",
               r->noise.steal_cpus, r->noise.others_cpus);
    printf("throttled %.0f%% of the time by the cgroup, %llu times by heat\n",
           100 * r->noise.throttled_share, (unsigned long long)r->noise.thermal_count);
    if (r->noise.noisy)
        printf("%14sthe machine was busy meanwhile: the figures above may be too low\n", "");
}

static void print_remedies(const report *r) {
    if (r->limits.quota_cpus > 0 && r->limits.quota_cpus < 1)
        printf("remedy: the quota leaves less than one processor; raise cpu.max if you can\n");
    if (strcmp(r->thp, "never") == 0)
        printf("remedy: huge pages are off: echo madvise > "
               "/sys/kernel/mm/transparent_hugepage/enabled\n");
    if (strcmp(r->governor, "powersave") == 0)
        printf("remedy: the frequency governor is powersave; performance may be faster\n");
    if (r->cpu.avx2 && !r->cpu.fma)
        printf("remedy: AVX2 is here without FMA: the hypervisor hides it; use CPU type host\n");
    if (r->cpu.hypervisor && !r->cpu.avx2 && !r->cpu.neon)
        printf("remedy: no AVX2 in this virtual machine; its CPU type may hide it (try host)\n");
}

static void print_doctor_text(const report *r) {
    print_processor(r);
    print_cores(r);
    print_memory(r);
    if (r->measured) print_limits(r);
    print_tiers(r);
    kt__devices_print(&r->devices);
    if (r->measured) print_noise(r);
    print_remedies(r);
    if (r->pages[0]) {
        print_label("model");
        printf("in memory %s\n", r->pages);
    }
    if (r->advised) kt__advice_print(&r->advice);
}

/* ---- for programs ---- */

/* Text from the environment may be no UTF-8. */
static json_t *text_json(const char *s) {
    json_t *t = json_string(s);
    return t ? t : json_string("(not valid UTF-8)");
}
static json_int_t set_integer_field(uint64_t value) {
    return (json_int_t)value;
}

static json_t *processor_json(const report *r) {
    feature features[MAX_FEATURES];
    int n = list_features(&r->cpu, features);
    json_t *flags = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(flags, features[i].name, json_boolean(features[i].present));
    return json_pack("{s:s, s:s, s:b, s:o}", "name", r->cpu.brand, "vendor", r->cpu.vendor,
                     "virtual_machine", r->cpu.hypervisor, "features", flags);
}

static json_t *tiers_json(const report *r) {
    json_t *list = json_array();
    for (int i = 0; i < r->n_tiers; i++) {
        const tier_peak *t = &r->tiers[i];
        json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:o}", "name", t->name, "supported",
                                              t->supported, "needs", t->needs, "i8_mac_per_s",
                                              kt__json_positive(t->macs_one)));
    }
    bool refused = r->tier_error.code != KT_OK;
    kt__prefetch ahead = kt__kernels_prefetch(r->kernels, &r->cpu);
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "name", r->kernels->name, "why", r->tier_why,
                     "prefetch_l1_bytes", ahead.near, "prefetch_l2_bytes", ahead.far, "error",
                     refused ? text_json(r->tier_error.message) : json_null(), "tiers", list);
}

static json_t *cores_json(const report *r) {
    const kt__topology *t = &r->topology;
    return json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:o, s:s}", "physical",
                     t->n_physical, "logical", t->n_logical, "performance", t->n_performance,
                     "numa_nodes", t->n_numa, "l1d_bytes", set_integer_field(t->l1d_bytes),
                     "l2_bytes", set_integer_field(t->l2_bytes), "l3_bytes",
                     set_integer_field(t->l3_bytes), "affinity", r->limits.n_affinity,
                     "affinity_cores", r->limits.n_affinity_cores, "quota_cpus",
                     kt__json_positive(r->limits.quota_cpus), "governor", r->governor);
}

static json_t *memory_json(const report *r) {
    const kt__limits *l = &r->limits;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "total_bytes", set_integer_field(l->mem_total_bytes),
        "available_bytes", set_integer_field(l->mem_available_bytes), "cgroup_bytes",
        set_integer_field(l->mem_cgroup_bytes), "cgroup_used_bytes",
        set_integer_field(l->mem_cgroup_used_bytes), "page_bytes", set_integer_field(l->page_bytes),
        "huge_page_bytes", set_integer_field(l->huge_page_bytes), "transparent_huge_pages", r->thp);
}

static json_t *limits_json(const report *r) {
    if (!r->measured) return json_null();
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "read_bytes_per_s_1_thread",
                     kt__json_positive(r->read_one), "read_bytes_per_s",
                     kt__json_positive(r->read_all), "file_bytes", set_integer_field(r->file_bytes),
                     "file_place", text_json(r->file_place), "read_note", text_json(r->read_note),
                     "i8_mac_per_s_1_thread", kt__json_positive(r->i8_one), "i8_mac_per_s",
                     kt__json_positive(r->i8_all));
}

static json_t *noise_json(const report *r) {
    if (!r->measured) return json_null();
    return json_pack("{s:o, s:o, s:o, s:f, s:I, s:b}", "load_1min", kt__json_known(r->load_1min),
                     "steal_cpus", kt__json_known(r->noise.steal_cpus), "others_cpus",
                     kt__json_known(r->noise.others_cpus), "throttled_share",
                     r->noise.throttled_share, "thermal_throttles",
                     set_integer_field(r->noise.thermal_count), "noisy", r->noise.noisy);
}

static int print_doctor_json(const report *r) {
    json_t *all = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:i, s:s, s:o, s:o, s:o, s:s, s:o}", "version", KT_VERSION,
        "processor", processor_json(r), "kernels", tiers_json(r), "cores", cores_json(r), "memory",
        memory_json(r), "threads", r->n_threads, "threads_why", r->threads_why, "limits",
        limits_json(r), "devices", kt__devices_json(&r->devices), "noise", noise_json(r),
        "model_pages", r->pages, "advice", r->advised ? kt__advice_json(&r->advice) : json_null());
    if (kt__json_print(all)) return 0;
    return kt__cli_error("doctor", KT_E_NOMEM, NULL, "cannot write the report as JSON");
}

/* ---- the command ---- */

static const kt__opt table[] = {
    {.name = "model",
     .brief = "m",
     .kind = KT__OPT_TEXT,
     .at = offsetof(doctor_opts, model),
     .arg = "FILE.gguf",
     .help = "which recipe of this model suits the machine's memory and speed, and why"},
    {.name = "json", .kind = KT__OPT_ON, .at = offsetof(doctor_opts, json), .help = "print JSON"},
    {.name = "quick",
     .kind = KT__OPT_ON,
     .at = offsetof(doctor_opts, quick),
     .help = "measure nothing: no temporary file, an answer at once"},
    {.name = "mpi",
     .kind = KT__OPT_ON,
     .at = offsetof(doctor_opts, mpi),
     .help = "started by mpirun: measure each process' machine, and the network between them"},
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_INT,
     .at = offsetof(doctor_opts, n_threads),
     .min = 0,
     .max = KT_THREADS_MAX,
     .arg = "N",
     .help = "measure with N threads (default 0: as many as kentang would use)"},
};

int kt__cmd_doctor(int argc, char **argv) {
    doctor_opts opts = {0};
    const kt__opt_group group = {"Options", table, KT__COUNT(table), &opts};
    const kt__syntax syntax = {
        .command = "doctor",
        .usage = "[OPTIONS]",
        .about =
            "Says what this machine is, which kernels kentang uses on it and why, and measures\n"
            "what bounds it: reading memory (decode) and integer multiply-adds (prefill).\n"
            "Takes a few seconds and a temporary file of at most 512 MiB, in TMPDIR or /tmp.",
        .groups = &group,
        .n_groups = 1,
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    static const report empty;
    report r = empty;
    kt_error err;
    kt_status status = look_at_machine(&r, opts.n_threads, &err);
    if (status == KT_OK && opts.mpi) return measure_machines(&r, opts.json);
    if (status == KT_OK) kt__devices_find(!opts.quick, &r.devices);
    if (status == KT_OK && opts.quick) measure_tiers(&r, NULL);
    if (status == KT_OK && !opts.quick) status = measure_limits(&r, &err);
    if (status == KT_OK && opts.model) look_at_pages(&r, opts.model);
    if (status == KT_OK && opts.model) {
        uint64_t memory = kt__mem_budget_default(&r.limits);
        r.advised = true;
        status = kt__advise(opts.model, memory, r.read_all, &r.advice, &err);
    }
    if (status != KT_OK) return kt__cli_fail("doctor", &err);
    if (opts.json) return print_doctor_json(&r);
    print_doctor_text(&r);
    return 0;
}
