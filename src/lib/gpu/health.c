/* Temperature and power of a device: of NVIDIA's, by its library NVML, where that is installed. */
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "gpu/vk.h"

enum { NVIDIA = 0x10de, NVML_OK = 0, NVML_GPU_SENSOR = 0 };

static const char library[] = "libnvidia-ml.so.1";

static void *find_symbol(const kt__gpu *gpu, const char *name) {
    return gpu->faults.nvml ? gpu->faults.nvml(name) : kt__library_find(gpu->nvml.lib, name);
}

/* false: the library has no such function. */
static bool find_function(const kt__gpu *gpu, const char *name, void *to) {
    void *symbol = find_symbol(gpu, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* "GPU-00112233-4455-6677-8899-aabbccddeeff": both interfaces name a device by the same 16 bytes. */
static void print_uuid(const uint8_t uuid[16], char out[48]) {
    size_t n = (size_t)snprintf(out, 48, "GPU");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 0 || (i >= 4 && i <= 10 && i % 2 == 0);
        n += (size_t)snprintf(out + n, 48 - n, "%s%02x", dash ? "-" : "", uuid[i]);
    }
}

static bool open_library(kt__gpu *gpu) {
    kt__nvml *nvml = &gpu->nvml;
    int (*init)(void), (*by_uuid)(const char *uuid, void **device);
    char uuid[48];
    if (!gpu->faults.nvml) nvml->lib = kt__library_open(library);
    if (!gpu->faults.nvml && !nvml->lib) return false;
    if (!find_function(gpu, "nvmlInit_v2", &init) ||
        !find_function(gpu, "nvmlDeviceGetHandleByUUID", &by_uuid) ||
        !find_function(gpu, "nvmlDeviceGetTemperature", &nvml->temperature) ||
        !find_function(gpu, "nvmlDeviceGetPowerUsage", &nvml->power) ||
        !find_function(gpu, "nvmlShutdown", &nvml->shutdown) || init() != NVML_OK)
        return false;
    nvml->started = true;
    print_uuid(gpu->found.uuid, uuid);
    return by_uuid(uuid, &nvml->device) == NVML_OK;
}

void kt__gpu_health_open(kt__gpu *gpu) {
    if (gpu->found.vendor != NVIDIA && !gpu->faults.nvml) return;
    if (!open_library(gpu)) kt__gpu_health_close(gpu);
}

void kt__gpu_health_close(kt__gpu *gpu) {
    if (gpu->nvml.started) (void)gpu->nvml.shutdown();
    if (gpu->nvml.lib) kt__library_close(gpu->nvml.lib);
    memset(&gpu->nvml, 0, sizeof gpu->nvml);
}

kt__gpu_health kt__gpu_get_health(const kt__gpu *gpu) {
    const kt__nvml *nvml = &gpu->nvml;
    kt__gpu_health out = {0, 0};
    unsigned value = 0;
    if (!nvml->started) return out;
    if (nvml->temperature(nvml->device, NVML_GPU_SENSOR, &value) == NVML_OK)
        out.temperature_c = (float)value;
    if (nvml->power(nvml->device, &value) == NVML_OK) out.power_w = (float)value * 1e-3f;
    return out;
}
