/* Layers of a model on a graphics processor, with the processor's bytes (Vulkan compute).
 *
 * Owns: finding devices, the test whether one computes exactly, memory that a device reaches, and the
 * operations of ops/ops.h in its instructions. An operation whose operands a device reaches is
 * recorded; any other one, as the choice of experts, waits for those and runs on the processor. Knows no
 * architecture. The library libvulkan.so.1 is opened when a device is asked for, never before; a build
 * without Vulkan's headers or glslang answers every call with KT_E_UNSUPPORTED. A device: any thread, but
 * one pass at a time records on it (the pool's lock). */
#ifndef KT_GPU_GPU_H
#define KT_GPU_GPU_H

#include "ops/ops.h"

enum { KT__GPUS_MAX = 16, KT__GPU_TEXT = 256 };

typedef struct kt__gpu kt__gpu;

/* What a device is, and why it is not used, if it is not. */
typedef struct kt__gpu_info {
    char name[KT__GPU_TEXT], driver[KT__GPU_TEXT];
    uint64_t memory_bytes;      /* of its largest heap */
    bool integrated;            /* it uses the machine's memory */
    bool software;              /* it is the processor: chosen by name alone */
    bool by_word;               /* the driver promises subnormal numbers; else the test says so */
    char refusal[KT__GPU_TEXT]; /* "": it has all that is asked of it but the test */
} kt__gpu_info;

/* What tests put in the way of a device. */
typedef struct kt__gpu_faults {
    const char *library; /* in place of libvulkan.so.1 */
    const char *missing; /* a property that it lacks: "vulkan", "compute", "rounding", ... */
    const char *wrong;   /* an operation of the test whose result is changed */
    int first_fma;       /* ways to an fma before this one are not tried */
    int lost_after;      /* so many submissions are done; 0: all */
    bool no_memory;      /* allocations of its memory are refused */
    uint64_t free_bytes; /* what it says that it has; 0: the truth */
    bool copies;         /* weights are copied where they could be shared */
    bool slow_dots;      /* products of four bytes are taken where they are not in hardware */
    bool untested;       /* it is taken without its test, to see its shaders' code */
    void *(*nvml)(const char *function); /* in place of NVIDIA's library, whatever the device */
} kt__gpu_faults;

/* Those that Vulkan names. KT_E_UNSUPPORTED: no library, or none that works. */
kt_status kt__gpu_list(kt__gpu_info out[KT__GPUS_MAX], int *n, kt_error *err) KT_CHECKED;

/* name: its number in the list, a part of its name, or NULL: the best of those that are no software.
 * What every layer needs is tested here, unless `kept` (a file, or NULL) says that this device and driver
 * passed it. KT_E_UNSUPPORTED says which property or operation is wrong. faults: NULL but in tests. */
kt_status kt__gpu_open(const char *name, const char *kept, const kt__gpu_faults *faults,
                       kt__gpu **out, kt_error *err) KT_CHECKED;
void kt__gpu_close(kt__gpu *gpu); /* NULL allowed; after all that was made of it */
/* Tests products with weights of a type, or pages of a form and attention over them: until then, and where they are
 * refused, the processor computes them. Any thread; once passed, nothing is done. KT_E_UNSUPPORTED as above. */
kt_status kt__gpu_prove_type(kt__gpu *gpu, kt__type type, kt_error *err) KT_CHECKED;
kt_status kt__gpu_prove_form(kt__gpu *gpu, kt__kv_form form, kt_error *err) KT_CHECKED;
const kt__gpu_info *kt__gpu_get_info(const kt__gpu *gpu);
/* "the driver's", "in f64", "in integers" */
const char *kt__gpu_fma_name(const kt__gpu *gpu);
/* Nothing runs on it any more, since it failed. */
bool kt__gpu_is_lost(const kt__gpu *gpu);
/* Since it was opened: microseconds that somebody waited for it, submissions, bytes of its memory. */
typedef struct kt__gpu_use {
    int64_t wait_us;
    uint64_t n_submits, memory_bytes;
} kt__gpu_use;
kt__gpu_use kt__gpu_get_use(const kt__gpu *gpu);
/* 0: unknown. */
typedef struct kt__gpu_health {
    float temperature_c, power_w;
} kt__gpu_health;
kt__gpu_health kt__gpu_get_health(const kt__gpu *gpu);
/* What is free of its memory, by the driver's word (VK_EXT_memory_budget), or of what there is that this program did
 * not take. */
uint64_t kt__gpu_free_bytes(const kt__gpu *gpu);
/* Whether weights are copied to it: it has memory of its own. */
bool kt__gpu_copies(const kt__gpu *gpu);

/* ---- memory ---- */

/* Stretches of this process's memory that a device reaches, found by their addresses here. */
typedef struct kt__gpu_set kt__gpu_set;
kt_status kt__gpu_set_create(kt__gpu *gpu, kt__gpu_set **out, kt_error *err) KT_CHECKED;
void kt__gpu_set_destroy(kt__gpu_set *set); /* NULL allowed */
/* The same memory, which stays where it is until the set is destroyed. */
kt_status kt__gpu_set_share(kt__gpu_set *set, const void *host, size_t bytes,
                            kt_error *err) KT_CHECKED;
/* What does not change: the same memory where the device has no own, else a copy. */
kt_status kt__gpu_set_place(kt__gpu_set *set, const void *host, size_t bytes,
                            kt_error *err) KT_CHECKED;
/* A copy of a few numbers. */
kt_status kt__gpu_set_copy(kt__gpu_set *set, const void *host, size_t bytes,
                           kt_error *err) KT_CHECKED;

/* ---- a forward pass' operations ---- */

typedef struct kt__gpu_pass kt__gpu_pass;
/* cpu: computes what the device does not; it gets the pass, and outlives it. */
kt_status kt__gpu_pass_create(kt__gpu *gpu, kt__dev *cpu, const kt__dev_limits *limits,
                              kt__gpu_pass **out, kt_error *err) KT_CHECKED;
void kt__gpu_pass_destroy(kt__gpu_pass *pass); /* NULL allowed */
/* Up to KT__GPU_SETS sets that its operands may lie in; they outlive it. */
enum { KT__GPU_SETS = 4 };
void kt__gpu_pass_add(kt__gpu_pass *pass, const kt__gpu_set *set);
/* The table whose functions take `cpu`. */
const kt__ops *kt__gpu_ops(void);
/* Whether it multiplies with weights of this type. */
bool kt__gpu_takes(kt__type type);
/* Waits for what was recorded. false: it failed, or a norm met a number that is not finite; what it
 * wrote is then undefined. */
bool kt__gpu_finish(kt__gpu_pass *pass);

#endif
