#include "measure/devices.h"

#include <stdio.h>
#include <string.h>

/* By number: two devices may have one name. */
static void test_device(int number, kt__devices *d) {
    char name[16];
    kt__gpu *gpu;
    kt_error err;
    snprintf(name, sizeof name, "%d", number);
    if (kt__gpu_open(name, NULL, NULL, &gpu, &err) != KT_OK) {
        snprintf(d->exact[number], sizeof d->exact[number], "not used: %s", err.message);
        d->usable[number] = false;
        return;
    }
    snprintf(d->exact[number], sizeof d->exact[number], "exact by %s, fma %s",
             d->info[number].by_word ? "the driver's word and its test" : "its test",
             kt__gpu_fma_name(gpu));
    kt__gpu_close(gpu);
}

static void judge_device(int number, bool test, kt__devices *d) {
    const kt__gpu_info *info = &d->info[number];
    char *out = d->exact[number];
    d->usable[number] = info->refusal[0] == 0;
    if (info->refusal[0])
        snprintf(out, sizeof d->exact[0], "not used: %s", info->refusal);
    else if (info->software)
        snprintf(out, sizeof d->exact[0],
                 "this processor, for tests: used where --device names it");
    else if (!test)
        snprintf(out, sizeof d->exact[0], "not tested");
    else
        test_device(number, d);
}

void kt__devices_find(bool test, kt__devices *out) {
    kt_error err;
    memset(out, 0, sizeof *out);
    if (kt__gpu_list(out->info, &out->n, &err) != KT_OK)
        snprintf(out->none, sizeof out->none, "%s", err.message);
    else if (out->n == 0)
        snprintf(out->none, sizeof out->none, "Vulkan finds none");
    for (int i = 0; i < out->n; i++) judge_device(i, test, out);
}

void kt__devices_print(const kt__devices *d) {
    printf("%-14s", "devices");
    if (d->none[0]) printf("none: %s\n", d->none);
    for (int i = 0; i < d->n; i++) {
        const kt__gpu_info *info = &d->info[i];
        printf("%*s%d  %s, %s, %llu MiB%s\n", i ? 14 : 0, "", i, info->name, info->driver,
               (unsigned long long)(info->memory_bytes >> 20),
               info->integrated ? " of the machine's memory" : "");
        printf("%17s%s\n", "", d->exact[i]);
    }
}

json_t *kt__devices_json(const kt__devices *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++) {
        const kt__gpu_info *info = &d->info[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:s, s:I, s:b, s:b, s:b, s:s}", "number", i,
                                        "name", info->name, "driver", info->driver, "memory_bytes",
                                        (json_int_t)info->memory_bytes, "integrated",
                                        info->integrated, "software", info->software, "usable",
                                        d->usable[i], "exact", d->exact[i]));
    }
    return list;
}
