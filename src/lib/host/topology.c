/* Cores, kinds of cores and caches. hwloc is asked only for processors, cores, caches and NUMA
 * nodes: devices, distances and plug-ins cost tens of milliseconds and are of no use here. */
#include "host/host.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void detect_by_sysconf(kt__topology *out) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    out->n_logical = n > 0 ? (int)n : 1;
    out->n_physical = out->n_performance = out->n_logical;
    out->n_numa = 1;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    uint64_t *const sizes[] = {&out->l1d_bytes, &out->l2_bytes, &out->l3_bytes};
    for (int i = 0; i < 3; i++) {
        long size = sysconf(names[i]);
        if (size > 0) *sizes[i] = (uint64_t)size;
    }
#endif
}

static uint64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type) {
    hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
    return cache && cache->attr ? cache->attr->cache.size : 0;
}

#if HWLOC_API_VERSION >= 0x00020400

typedef struct cpu_kind {
    hwloc_bitmap_t cpus;
    const char *core_type; /* "IntelCore", "IntelAtom"; NULL elsewhere */
    double speed;          /* the kernel's capacity or the top frequency; 0: unknown */
} cpu_kind;

static void read_kind(hwloc_topology_t topology, unsigned index, cpu_kind *kind) {
    int efficiency;
    unsigned n_infos = 0;
    struct hwloc_info_s *infos = NULL;
    double capacity = 0, frequency = 0;
    *kind = (cpu_kind){.cpus = kind->cpus};
    if (hwloc_cpukinds_get_info(topology, index, kind->cpus, &efficiency, &n_infos, &infos, 0) != 0)
        return;
    for (unsigned i = 0; i < n_infos; i++) {
        if (strcmp(infos[i].name, "CoreType") == 0) kind->core_type = infos[i].value;
        if (strcmp(infos[i].name, "LinuxCapacity") == 0) capacity = atof(infos[i].value);
        if (strcmp(infos[i].name, "FrequencyMaxMHz") == 0) frequency = atof(infos[i].value);
    }
    kind->speed = capacity > 0 ? capacity : frequency;
}

/* Is a kind as good as the best? Types decide where they are known. Otherwise a core that is nearly
 * as fast belongs to the fast ones: many processors let one or two of their equal cores clock a
 * little higher. */
static bool is_fast(const cpu_kind *kind, const cpu_kind *best) {
    if (kind->core_type && best->core_type) return strcmp(kind->core_type, best->core_type) == 0;
    if (kind->speed > 0 && best->speed > 0) return kind->speed >= 0.7 * best->speed;
    return true;
}

static int count_cores(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
    int n = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)))
        n += hwloc_bitmap_intersects(core->cpuset, cpus);
    return n;
}

/* Cores of the kinds that are fast; 0 where nothing is known. hwloc sorts kinds by speed, best
 * last. */
static int count_fast_cores(hwloc_topology_t topology) {
    int n_kinds = hwloc_cpukinds_get_nr(topology, 0), n_fast = 0;
    if (n_kinds < 2) return 0;
    cpu_kind best = {.cpus = hwloc_bitmap_alloc()}, kind = {.cpus = hwloc_bitmap_alloc()};
    if (best.cpus && kind.cpus) {
        read_kind(topology, (unsigned)n_kinds - 1, &best);
        for (int i = 0; i < n_kinds; i++) {
            read_kind(topology, (unsigned)i, &kind);
            if (is_fast(&kind, &best)) n_fast += count_cores(topology, kind.cpus);
        }
    }
    hwloc_bitmap_free(best.cpus);
    hwloc_bitmap_free(kind.cpus);
    return n_fast;
}

#else
static int count_fast_cores(hwloc_topology_t topology) {
    (void)topology;
    return 0;
}
#endif

static void topology_configure(hwloc_topology_t topology) {
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020500
    /* without it hwloc moves this thread over all processors to ask each for its CPUID */
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
    flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS;
#endif
    hwloc_topology_set_flags(topology, flags);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
    const char *const unwanted[] = {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      unwanted[i]);
}

static void read_topology(hwloc_topology_t topology, kt__topology *out) {
    int n_logical = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    int n_physical = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    int n_numa = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    if (n_logical > 0) out->n_logical = out->n_physical = out->n_performance = n_logical;
    if (n_physical > 0) out->n_physical = out->n_performance = n_physical;
    if (n_numa > 0) out->n_numa = n_numa;
    int n_fast = count_fast_cores(topology);
    if (n_fast > 0 && n_fast < out->n_performance) out->n_performance = n_fast;
    uint64_t l1d = cache_bytes(topology, HWLOC_OBJ_L1CACHE);
    uint64_t l2 = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
    uint64_t l3 = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
    if (l1d) out->l1d_bytes = l1d;
    if (l2) out->l2_bytes = l2;
    if (l3) out->l3_bytes = l3;
}

void kt__topology_detect(kt__topology *out) {
    memset(out, 0, sizeof *out);
    detect_by_sysconf(out);
#ifdef __linux__
    /* Without this folder (in some containers) hwloc finds nothing more, and says so on stderr. */
    if (access("/sys/devices/system/cpu/cpu0/topology", R_OK) != 0) return;
#endif
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return;
    topology_configure(topology);
    if (hwloc_topology_load(topology) == 0) read_topology(topology, out);
    hwloc_topology_destroy(topology);
}
