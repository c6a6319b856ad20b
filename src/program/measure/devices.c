#include "measure/devices.h"

#include <stdio.h>
#include <string.h>

typedef struct names {
    char text[256];
} names;

static void add_name(names *to, const char *name) {
    size_t n = strlen(to->text);
    snprintf(to->text + n, sizeof to->text - n, "%s%s", n ? " " : "", name);
}

/* What is exact by the driver's word, and what by the test. */
static void test_all(kt__gpu *gpu, const kt__gpu_info *info, char *out, size_t size) {
    names types = {""}, forms = {""}, wrong = {""};
    kt_error err;
    for (int t = 0; t < KT__TYPE_COUNT; t++)
        if (kt__gpu_takes((kt__type)t))
            add_name(kt__gpu_prove_type(gpu, (kt__type)t, &err) == KT_OK ? &types : &wrong,
                     kt__type_get((kt__type)t)->name);
    for (int f = KT__KV_F16; f < KT__KV_FORMS; f++)
        add_name(kt__gpu_prove_form(gpu, (kt__kv_form)f, &err) == KT_OK ? &forms : &wrong,
                 kt_kv_type_name((kt_kv_type)f));
    snprintf(out, size,
             "exact by the driver's word: rounding, signs of zeros%s; by its test: arithmetic (fma "
             "%s), products with %s, keys and values in %s%s%s",
             info->by_word ? ", subnormal numbers" : "", kt__gpu_fma_name(gpu), types.text,
             forms.text, wrong.text[0] ? "; left to the processor: " : "", wrong.text);
}

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
    test_all(gpu, &d->info[number], d->exact[number], sizeof d->exact[number]);
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
