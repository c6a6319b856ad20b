/* A build without Vulkan: every call says so. */
#include "base/error.h"
#include "gpu/gpu.h"

static kt_status refuse_all(kt_error *err) {
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "this kentang was built without Vulkan: its headers or glslangValidator were "
                    "missing (on Debian: libvulkan-dev and glslang-tools)");
}

kt_status kt__gpu_list(kt__gpu_info out[KT__GPUS_MAX], int *n, kt_error *err) {
    (void)out;
    *n = 0;
    return refuse_all(err);
}

kt_status kt__gpu_open(const char *name, const char *kept, const kt__gpu_faults *faults,
                       kt__gpu **out, kt_error *err) {
    (void)name, (void)kept, (void)faults;
    *out = NULL;
    return refuse_all(err);
}

void kt__gpu_close(kt__gpu *gpu) {
    (void)gpu;
}

kt_status kt__gpu_prove_type(kt__gpu *gpu, kt__type type, kt_error *err) {
    (void)gpu, (void)type;
    return refuse_all(err);
}

kt_status kt__gpu_prove_form(kt__gpu *gpu, kt__kv_form form, kt_error *err) {
    (void)gpu, (void)form;
    return refuse_all(err);
}

const kt__gpu_info *kt__gpu_get_info(const kt__gpu *gpu) {
    (void)gpu;
    return NULL;
}

const char *kt__gpu_fma_name(const kt__gpu *gpu) {
    (void)gpu;
    return "";
}

bool kt__gpu_is_lost(const kt__gpu *gpu) {
    (void)gpu;
    return true;
}

kt__gpu_use kt__gpu_get_use(const kt__gpu *gpu) {
    (void)gpu;
    return (kt__gpu_use){0};
}

kt__gpu_health kt__gpu_get_health(const kt__gpu *gpu) {
    (void)gpu;
    return (kt__gpu_health){0, 0};
}

uint64_t kt__gpu_free_bytes(const kt__gpu *gpu) {
    (void)gpu;
    return 0;
}

bool kt__gpu_copies(const kt__gpu *gpu) {
    (void)gpu;
    return true;
}

kt_status kt__gpu_set_create(kt__gpu *gpu, kt__gpu_set **out, kt_error *err) {
    (void)gpu;
    *out = NULL;
    return refuse_all(err);
}

void kt__gpu_set_destroy(kt__gpu_set *set) {
    (void)set;
}

kt_status kt__gpu_set_share(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    (void)set, (void)host, (void)bytes;
    return refuse_all(err);
}

kt_status kt__gpu_set_place(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    (void)set, (void)host, (void)bytes;
    return refuse_all(err);
}

kt_status kt__gpu_set_copy(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    (void)set, (void)host, (void)bytes;
    return refuse_all(err);
}

kt_status kt__gpu_pass_create(kt__gpu *gpu, kt__dev *cpu, const kt__dev_limits *limits,
                              kt__gpu_pass **out, kt_error *err) {
    (void)gpu, (void)cpu, (void)limits;
    *out = NULL;
    return refuse_all(err);
}

void kt__gpu_pass_destroy(kt__gpu_pass *pass) {
    (void)pass;
}

void kt__gpu_pass_add(kt__gpu_pass *pass, const kt__gpu_set *set) {
    (void)pass, (void)set;
}

const kt__ops *kt__gpu_ops(void) {
    return NULL;
}

bool kt__gpu_takes(kt__type type) {
    (void)type;
    return false;
}

bool kt__gpu_finish(kt__gpu_pass *pass) {
    (void)pass;
    return false;
}
