#include "services/lora_scales.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"

struct kt__lora_scales {
    pthread_mutex_t lock;
    bool is_set;
    size_t n;
    float scale[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
};

kt_status kt__lora_scales_create(kt__lora_scales **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "scales of adapters", sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    return KT_OK;
}

void kt__lora_scales_free(kt__lora_scales *scales) {
    if (!scales) return;
    pthread_mutex_destroy(&scales->lock);
    kt__free(scales);
}

const char *kt__lora_name(const kt__config *config, size_t index,
                          char name[KT__ADAPTER_NAME_MAX + 1]) {
    for (size_t i = 0; i < config->adapters.n; i++) {
        kt__adapter_entry entry;
        if (!kt__adapter_entry_read(config, i, &entry)) continue;
        if (strcmp(entry.model, config->models[0].name) != 0 || index-- > 0) continue;
        snprintf(name, KT__ADAPTER_NAME_MAX + 1, "%s", entry.name);
        return name;
    }
    return NULL;
}

/* ---- reading ---- */

static kt_status fail_entry(const char *key, size_t i, const char *what, kt_error *err) {
    char at[96];
    snprintf(at, sizeof at, "%s[%zu]", key, i);
    return kt__fail_at(err, KT_E_ARG, at, UINT64_MAX, "%s%s", at, what);
}

/* One adapter's scale, as an entry of the list has it. */
typedef struct asked_scale {
    size_t id;
    float scale;
} asked_scale;

static kt_status read_entry(const kt__config *config, const json_t *entry, const char *key,
                            size_t i, asked_scale *out, kt_error *err) {
    const json_t *id = json_object_get(entry, "id"), *x = json_object_get(entry, "scale");
    char name[KT__ADAPTER_NAME_MAX + 1];
    if (!json_is_integer(id) || json_integer_value(id) < 0)
        return fail_entry(key, i, ".id: expected an adapter's number, see GET /lora-adapters", err);
    out->id = (size_t)json_integer_value(id);
    if (!kt__lora_name(config, out->id, name))
        return fail_entry(key, i, ".id: there is no such adapter, see GET /lora-adapters", err);
    double s = json_is_number(x) ? json_number_value(x) : KT_ADAPTER_SCALE_MAX + 1.0;
    if (!(s >= -(double)KT_ADAPTER_SCALE_MAX && s <= (double)KT_ADAPTER_SCALE_MAX))
        return fail_entry(key, i, ".scale: expected a number, not too large", err);
    out->scale = (float)s;
    return KT_OK;
}

/* Into the list by its number, so that the same scales are the same request in any order. */
static size_t insert_scale(asked_scale *list, size_t n, asked_scale one) {
    size_t at = n;
    while (at > 0 && list[at - 1].id > one.id) {
        list[at] = list[at - 1];
        at--;
    }
    list[at] = one;
    return n + 1;
}

kt_status kt__lora_read(const kt__config *config, const json_t *list, const char *key,
                        kt__adapter_named named[KT_ADAPTERS_MAX],
                        char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1], size_t *n,
                        kt_error *err) {
    asked_scale asked[KT_ADAPTERS_MAX];
    *n = 0;
    if (!json_is_array(list))
        return kt__fail_at(err, KT_E_ARG, *key ? key : NULL, UINT64_MAX,
                           "%s%sexpected an array of objects with \"id\" and \"scale\"", key,
                           *key ? ": " : "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        asked_scale one = {0};
        KT__STEP(read_entry(config, json_array_get(list, i), key, i, &one, err));
        if (one.scale == 0.0f) continue;
        if (*n == KT_ADAPTERS_MAX) return fail_entry(key, i, ": too many adapters at once", err);
        *n = insert_scale(asked, *n, one);
    }
    for (size_t i = 0; i < *n; i++) {
        (void)kt__lora_name(config, asked[i].id, names[i]);
        named[i] = (kt__adapter_named){names[i], asked[i].scale};
    }
    return KT_OK;
}

/* ---- what holds ---- */

void kt__lora_scales_set(kt__lora_scales *scales, const kt__adapter_named *named, size_t n) {
    pthread_mutex_lock(&scales->lock);
    scales->is_set = true;
    scales->n = n;
    for (size_t i = 0; i < n; i++) {
        scales->scale[i] = named[i].scale;
        snprintf(scales->names[i], sizeof scales->names[i], "%s", named[i].name);
    }
    pthread_mutex_unlock(&scales->lock);
}

static bool is_served(const kt__config *config, const char *name) {
    char other[KT__ADAPTER_NAME_MAX + 1];
    for (size_t i = 0; kt__lora_name(config, i, other); i++)
        if (!strcmp(other, name)) return true;
    return false;
}

size_t kt__lora_scales_get(kt__lora_scales *scales, const kt__config *config,
                           kt__adapter_named named[KT_ADAPTERS_MAX],
                           char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1]) {
    pthread_mutex_lock(&scales->lock);
    bool is_set = scales->is_set;
    size_t n = 0;
    for (size_t i = 0; is_set && i < scales->n; i++) {
        if (!is_served(config, scales->names[i])) continue; /* a reload took it away */
        memcpy(names[n], scales->names[i], sizeof scales->names[i]);
        named[n] = (kt__adapter_named){names[n], scales->scale[i]};
        n++;
    }
    pthread_mutex_unlock(&scales->lock);
    return is_set ? n : kt__adapters_default(config, named, names);
}

void kt__lora_scales_write(kt__lora_scales *scales, const kt__config *config, kt__buf *out) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1], name[KT__ADAPTER_NAME_MAX + 1];
    size_t n = kt__lora_scales_get(scales, config, named, names);
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; kt__lora_name(config, i, name); i++) {
        float scale = 0.0f;
        for (size_t k = 0; k < n; k++)
            if (!strcmp(named[k].name, name)) scale = named[k].scale;
        (void)kt__buf_printf(out, "%s{\"id\":%zu", i ? "," : "", i);
        kt__json_member(out, "path", name);
        (void)kt__buf_printf(out, ",\"scale\":%g,\"task_name\":\"\",\"prompt_prefix\":\"\"}",
                             (double)scale);
    }
    (void)kt__buf_putc(out, ']');
}
