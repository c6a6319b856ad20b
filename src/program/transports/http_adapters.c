/* GET /v1/adapters: what requests may name in `adapter`. */
#include <string.h>

#include "base/json_out.h"
#include "dialects/dialect_learn.h"
#include "transports/http_request.h"

static float default_scale(const kt__config *config, const kt__adapter_entry *entry, bool *is) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    size_t n = kt__adapters_default(config, named, names);
    *is = false;
    if (strcmp(entry->model, config->models[0].name) != 0) return 0.0f;
    for (size_t i = 0; i < n && !*is; i++) {
        *is = !strcmp(named[i].name, entry->name);
        if (*is) return named[i].scale;
    }
    return 0.0f;
}

static void write_opened(kt__buf *out, const kt_adapter_info *info) {
    (void)kt__buf_printf(out,
                         ",\"bytes\":%llu,\"matrices\":%d,\"rank\":%d,\"keeps_kv\":%s,\"hash\":\"",
                         (unsigned long long)info->bytes, (int)info->n_matrices,
                         (int)info->rank_max, info->keeps_kv ? "true" : "false");
    for (size_t i = 0; i < sizeof info->id; i++) (void)kt__buf_printf(out, "%02x", info->id[i]);
    (void)kt__buf_putc(out, '"');
}

static void write_adapter(kt__http_request *r, const kt__config *config,
                          const kt__adapter_entry *entry) {
    kt_adapter_info info;
    kt__served *served;
    kt_error err;
    bool is_default, loaded = false;
    float scale = default_scale(config, entry, &is_default);
    (void)kt__buf_puts(&r->reply, "{\"object\":\"adapter\"");
    kt__json_member(&r->reply, "id", entry->name);
    kt__json_member(&r->reply, "model", entry->model);
    if (is_default) (void)kt__buf_printf(&r->reply, ",\"default_scale\":%g", (double)scale);
    if (kt__models_find(r->shared->models, entry->model, &served, &err) == KT_OK)
        loaded = kt__served_adapter_info(served, entry->name, &info);
    (void)kt__buf_printf(&r->reply, ",\"loaded\":%s", loaded ? "true" : "false");
    if (loaded) write_opened(&r->reply, &info);
    (void)kt__buf_putc(&r->reply, '}');
}

int kt__http_get_adapters(kt__http_request *r) {
    const kt__config *config = r->settings->config;
    kt__adapter_entry entry;
    bool any = false;
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < config->adapters.n; i++) {
        if (!kt__adapter_entry_read(config, i, &entry)) continue;
        if (any) (void)kt__buf_putc(&r->reply, ',');
        write_adapter(r, config, &entry);
        any = true;
    }
    (void)kt__buf_putc(&r->reply, ']');
    kt__dialect_write_learners(r->shared, r->client, &r->reply);
    (void)kt__buf_putc(&r->reply, '}');
    return 200;
}
