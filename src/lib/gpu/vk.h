/* Vulkan as this room uses it.
 *
 * Owns: the functions of libvulkan.so.1, the layout of a device, its pipelines and buffers, and of a
 * pass. For gpu/ alone; threads as gpu.h says. */
#ifndef KT_GPU_VK_H
#define KT_GPU_VK_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <stdatomic.h>

#include "base/thread.h"
#include "gpu/gpu.h"

#define KT__VK_OF_INSTANCE(X)                 \
    X(DestroyInstance)                        \
    X(EnumeratePhysicalDevices)               \
    X(GetPhysicalDeviceProperties)            \
    X(GetPhysicalDeviceProperties2)           \
    X(GetPhysicalDeviceFeatures2)             \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(GetPhysicalDeviceMemoryProperties)      \
    X(GetPhysicalDeviceMemoryProperties2)     \
    X(EnumerateDeviceExtensionProperties)     \
    X(CreateDevice)                           \
    X(GetDeviceProcAddr)

#define KT__VK_OF_DEVICE(X)        \
    X(DestroyDevice)               \
    X(GetDeviceQueue)              \
    X(CreateShaderModule)          \
    X(DestroyShaderModule)         \
    X(CreatePipelineLayout)        \
    X(DestroyPipelineLayout)       \
    X(CreateComputePipelines)      \
    X(DestroyPipeline)             \
    X(AllocateMemory)              \
    X(FreeMemory)                  \
    X(MapMemory)                   \
    X(CreateBuffer)                \
    X(DestroyBuffer)               \
    X(GetBufferMemoryRequirements) \
    X(BindBufferMemory)            \
    X(GetBufferDeviceAddress)      \
    X(CreateCommandPool)           \
    X(DestroyCommandPool)          \
    X(AllocateCommandBuffers)      \
    X(BeginCommandBuffer)          \
    X(EndCommandBuffer)            \
    X(CmdBindPipeline)             \
    X(CmdPushConstants)            \
    X(CmdDispatch)                 \
    X(CmdPipelineBarrier)          \
    X(CmdCopyBuffer)               \
    X(QueueSubmit)                 \
    X(DeviceWaitIdle)              \
    X(CreateFence)                 \
    X(DestroyFence)                \
    X(ResetFences)                 \
    X(WaitForFences)               \
    X(GetMemoryHostPointerPropertiesEXT)

typedef struct kt__vk {
    void *lib;
    PFN_vkGetInstanceProcAddr get_proc;
    VkInstance instance;
#define X(name) PFN_vk##name name;
    KT__VK_OF_INSTANCE(X)
    KT__VK_OF_DEVICE(X)
#undef X
} kt__vk;

/* Opens the library, of that name in tests, and makes an instance; KT_E_UNSUPPORTED in words. */
kt_status kt__vk_open(kt__vk *vk, const char *library, kt_error *err) KT_CHECKED;
void kt__vk_close(kt__vk *vk);

/* What a device has of what this room needs. */
typedef struct kt__gpu_facts {
    uint32_t api; /* Vulkan's version */
    bool compute, rounds_to_nearest, keeps_zeros, keeps_subnormals, has_addresses, shares_memory;
    bool has_f64, says_budget;
    bool has_dots, has_fast_dots; /* of four bytes: at all, and in hardware */
} kt__gpu_facts;
typedef struct kt__vk_found {
    VkPhysicalDevice device;
    kt__gpu_info info;
    kt__gpu_facts facts;
    uint32_t queue_family;
    uint32_t driver_version, vendor, id;
    uint8_t uuid[16];
    size_t host_align, alloc_max;
} kt__vk_found;
kt_status kt__vk_find(const kt__vk *vk, const kt__gpu_faults *faults,
                      kt__vk_found out[KT__GPUS_MAX], int *n, kt_error *err) KT_CHECKED;

/* ---- shaders ---- */

#define KT__GPU_SHADERS(X) \
    X(mm_one)              \
    X(mm_one_dots)         \
    X(mm_tile)             \
    X(mm_tile_dots)        \
    X(mm_float)            \
    X(norm)                \
    X(quantise)            \
    X(experts)             \
    X(element)             \
    X(head)                \
    X(attention)           \
    X(merge)               \
    X(page)                \
    X(code)                \
    X(probe)

typedef enum kt__gpu_shader {
#define X(name) KT__SHADER_##name,
    KT__GPU_SHADERS(X)
#undef X
        KT__SHADERS
} kt__gpu_shader;

enum { KT__SHADER_KINDS = 16 };

/* How fma is computed: of exact.glsl, in the order in which they are tried. */
typedef enum kt__gpu_fma { KT__FMA_DRIVER, KT__FMA_F64, KT__FMA_INTEGERS, KT__FMAS } kt__gpu_fma;

/* NVIDIA's library; not started: there is none, or it does not know the device. */
typedef struct kt__nvml {
    void *lib, *device;
    bool started;
    int (*temperature)(void *device, unsigned sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*shutdown)(void);
} kt__nvml;

/* What is tested, and kept, apart: what every layer needs, products with each type, pages of each form. */
enum {
    KT__CHECK_BASE,
    KT__CHECK_TYPES,
    KT__CHECK_FORMS = KT__CHECK_TYPES + KT__TYPE_COUNT,
    KT__CHECKS = KT__CHECK_FORMS + KT__KV_FORMS
};

struct kt__gpu {
    kt__vk vk;
    kt__vk_found found;
    kt__gpu_faults faults;
    VkDevice device;
    VkQueue queue;
    VkPhysicalDeviceMemoryProperties memory;
    VkPipelineLayout layout;
    VkPipeline pipelines[KT__FMAS][KT__SHADERS][KT__SHADER_KINDS]; /* made when first used */
    kt__gpu_fma fma;
    bool dots; /* products are of four bytes at once */
    atomic_bool passed[KT__CHECKS];
    char *kept; /* a file of them, or NULL */
    /* models are opened, which copies weights and tests, while others compute */
    pthread_mutex_t queue_lock, pipeline_lock, test_lock;
    kt__nvml nvml;
    atomic_bool lost;
    atomic_int_fast64_t wait_us;
    atomic_uint_fast64_t n_submits, memory_bytes;
};

static inline bool kt__gpu_passed(const kt__gpu *gpu, int check) {
    return atomic_load_explicit(&gpu->passed[check], memory_order_acquire);
}

static inline bool kt__gpu_lost(const kt__gpu *gpu) {
    return atomic_load_explicit(&gpu->lost, memory_order_relaxed);
}

/* VK_NULL_HANDLE: it cannot be made, and the device counts as lost. */
VkPipeline kt__gpu_pipeline(kt__gpu *gpu, kt__gpu_shader shader, int kind);

void kt__gpu_health_open(kt__gpu *gpu);
void kt__gpu_health_close(kt__gpu *gpu);

/* ---- memory ---- */

typedef struct kt__gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address;
    size_t bytes;
    void *mapped; /* NULL: the processor does not see it */
    bool own;     /* the device's memory, which counts as used */
} kt__gpu_buffer;

/* mapped: memory that the processor sees. KT_E_NOMEM. */
kt_status kt__gpu_buffer_make(kt__gpu *gpu, size_t bytes, bool mapped, kt__gpu_buffer *out,
                              kt_error *err) KT_CHECKED;
void kt__gpu_buffer_free(kt__gpu *gpu, kt__gpu_buffer *buffer);
/* Whole pages of this process as a buffer. */
VkResult kt__gpu_buffer_import(kt__gpu *gpu, void *host, size_t bytes, kt__gpu_buffer *out);
/* The device's address of [host, host + bytes); 0: the set does not have all of it. */
uint64_t kt__gpu_set_find(const kt__gpu_set *set, const void *host, size_t bytes);

/* ---- recording ---- */

/* What shaders are given: exact.glsl. */
typedef struct kt__gpu_args {
    uint64_t at[8];
    uint32_t n[15], zero;
} kt__gpu_args;

/* An operation on a tape; without gaps, so that two are compared by their bytes. */
typedef struct kt__gpu_entry {
    VkPipeline pipeline;
    kt__gpu_args args;
    uint32_t x, y, z, zero; /* workgroups */
} kt__gpu_entry;

/* Operations, and the driver's commands for them. */
typedef struct kt__gpu_record {
    kt__gpu_entry *entries;
    size_t n, cap;
    VkCommandBuffer commands;
} kt__gpu_record;

/* More than a pass of one token has submissions, so that its commands are there for the next token. */
enum { KT__GPU_RECORDS = 128 };

typedef struct kt__gpu_tape {
    kt__gpu *gpu;
    VkCommandPool pool;
    VkFence fence;
    bool failed;
    kt__gpu_record now;                      /* not submitted; without commands */
    kt__gpu_record records[KT__GPU_RECORDS]; /* what was submitted */
    int n_record, last; /* the last one used, after which the next one is likely */
    VkCommandBuffer copies;
    kt__gpu_buffer ring; /* numbers that operations are given; at its begin the word of norms */
    size_t ring_used;
    uint64_t n_put; /* dispatches, since it was made */
    uint64_t work;  /* multiplications since the last submission, about */
} kt__gpu_tape;

kt_status kt__gpu_tape_create(kt__gpu *gpu, kt__gpu_tape *out, kt_error *err) KT_CHECKED;
void kt__gpu_tape_destroy(kt__gpu_tape *tape);
void kt__gpu_tape_put(kt__gpu_tape *tape, kt__gpu_shader shader, int kind, const kt__gpu_args *args,
                      uint32_t x, uint32_t y, uint32_t z);
/* At once; false: the device is lost. */
bool kt__gpu_tape_copy(kt__gpu_tape *tape, const kt__gpu_buffer *from, size_t from_at,
                       const kt__gpu_buffer *to, size_t to_at, size_t bytes);
/* Before an operation is recorded: runs what is there, where that is much. */
void kt__gpu_tape_ready(kt__gpu_tape *tape);
/* Room for numbers of the operation that is recorded next, until the next wait; before the operation's
 * first dispatch. NULL: too many, or the device is lost. */
void *kt__gpu_tape_room(kt__gpu_tape *tape, size_t bytes, uint64_t *address);
/* Submits and waits; false: the device is lost. */
bool kt__gpu_tape_run(kt__gpu_tape *tape);
/* The word that norms set, and its address. */
static inline atomic_uint *kt__gpu_tape_bad(const kt__gpu_tape *tape) {
    return (atomic_uint *)tape->ring.mapped;
}

/* ---- the test ---- */

/* The line that is kept of a passed test: of this device, driver and build; a digit follows, the fma, and what
 * was tested. */
void kt__gpu_name_of_test(const kt__gpu *gpu, char *out, size_t size);

/* Compares the operations of a check with the reference tier's; KT__CHECK_BASE chooses the fma, and comes first.
 * KT_E_UNSUPPORTED names what differs. */
kt_status kt__gpu_self_test(kt__gpu *gpu, int check, kt_error *err) KT_CHECKED;

#endif
