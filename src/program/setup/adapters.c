#include "setup/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/thread.h"
#include "store/load_in.h"

/* ---- the settings ---- */

static const char *model_named(const kt__config *config, const char *name, size_t len) {
    for (size_t i = 0; i < config->n_models; i++) {
        const char *model = config->models[i].name;
        if (strlen(model) == len && !memcmp(model, name, len)) return model;
    }
    return NULL;
}

bool kt__adapter_entry_read(const kt__config *config, size_t index, kt__adapter_entry *out) {
    const char *line = config->adapters.items[index], *equals = line ? strchr(line, '=') : NULL;
    const char *slash = equals ? memrchr(line, '/', (size_t)(equals - line)) : NULL;
    if (!equals || !equals[1]) return false;
    const char *name = slash ? slash + 1 : line;
    size_t len = (size_t)(equals - name);
    if (len == 0 || len > KT__ADAPTER_NAME_MAX) return false;
    out->model = slash ? model_named(config, line, (size_t)(slash - line)) : config->models[0].name;
    out->path = equals + 1;
    memcpy(out->name, name, len);
    out->name[len] = '\0';
    return out->model && strcmp(out->name, "none") != 0;
}

static bool has_entry(const kt__config *config, const char *model, const char *name,
                      kt__adapter_entry *out) {
    for (size_t i = 0; i < config->adapters.n; i++) {
        if (kt__adapter_entry_read(config, i, out) && !strcmp(out->model, model) &&
            !strcmp(out->name, name))
            return true;
    }
    return false;
}

/* "NAME" or "NAME=SCALE" */
static bool read_default(const char *text, char name[KT__ADAPTER_NAME_MAX + 1], float *scale) {
    size_t len = text ? strcspn(text, "=") : 0;
    char *end;
    *scale = 1.0f;
    if (len == 0 || len > KT__ADAPTER_NAME_MAX) return false;
    memcpy(name, text, len);
    name[len] = '\0';
    if (!text[len]) return true;
    *scale = strtof(text + len + 1, &end);
    return end != text + len + 1 && !*end && *scale >= -(float)KT_ADAPTER_SCALE_MAX &&
           *scale <= (float)KT_ADAPTER_SCALE_MAX;
}

size_t kt__adapters_default(const kt__config *config, kt__adapter_named named[KT_ADAPTERS_MAX],
                            char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1]) {
    size_t n = 0;
    for (size_t i = 0; i < config->adapter.n && n < KT_ADAPTERS_MAX; i++) {
        if (!read_default(config->adapter.items[i], names[n], &named[n].scale)) continue;
        named[n].name = names[n];
        n++;
    }
    return n;
}

void kt__adapters_write_names(kt__buf *out, const kt__config *config, const char *model_name) {
    kt__adapter_entry entry;
    bool any = false;
    (void)kt__buf_puts(out, ",\"adapters\":[");
    for (size_t i = 0; i < config->adapters.n; i++) {
        if (!kt__adapter_entry_read(config, i, &entry) || strcmp(entry.model, model_name) != 0)
            continue;
        if (any) (void)kt__buf_putc(out, ',');
        kt__json_text(out, entry.name);
        any = true;
    }
    (void)kt__buf_putc(out, ']');
}

kt_status kt__adapters_check(const kt__config *config, kt_error *err) {
    kt__adapter_entry entry;
    char name[KT__ADAPTER_NAME_MAX + 1];
    float scale;
    for (size_t i = 0; i < config->adapters.n; i++) {
        const char *line = config->adapters.items[i];
        const char *slash = line ? strchr(line, '/') : NULL;
        if (line && (!strncmp(line, "none=", 5) || (slash && !strncmp(slash, "/none=", 6))))
            return kt__fail_at(err, KT_E_ARG, "adapters", UINT64_MAX,
                               "adapters: the name \"none\" is reserved: in a request it means no "
                               "adapter; give \"%.120s\" another one",
                               line);
        if (!kt__adapter_entry_read(config, i, &entry))
            return kt__fail_at(err, KT_E_ARG, "adapters", UINT64_MAX,
                               "adapters: expected NAME=FILE or MODEL/NAME=FILE of a model that is "
                               "there, got \"%.120s\"",
                               config->adapters.items[i] ? config->adapters.items[i] : "");
    }
    if (config->adapter.n > KT_ADAPTERS_MAX)
        return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX, "adapter: at most %d at once",
                           KT_ADAPTERS_MAX);
    for (size_t i = 0; i < config->adapter.n; i++) {
        const char *text = config->adapter.items[i];
        if (!read_default(text, name, &scale) ||
            !has_entry(config, config->models[0].name, name, &entry))
            return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                               "adapter: expected NAME or NAME=SCALE of one in `adapters` of the "
                               "first model, got \"%.120s\"",
                               text ? text : "");
    }
    return KT_OK;
}

/* ---- a model's ---- */

typedef struct opened_adapter {
    struct opened_adapter *next;
    char *name, *path;
    kt__file_stamp stamp;
    kt_adapter *adapter;
} opened_adapter;

struct kt__adapter_table {
    pthread_mutex_t lock; /* also while one is opened: others wait for it */
    opened_adapter *first;
};

kt_status kt__adapter_table_create(kt__adapter_table **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a list of adapters", sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    return KT_OK;
}

static void free_opened(opened_adapter *o) {
    kt_adapter_close(o->adapter);
    kt__free(o->name);
    kt__free(o->path);
    kt__free(o);
}

void kt__adapter_table_clear(kt__adapter_table *table) {
    pthread_mutex_lock(&table->lock);
    for (opened_adapter *o = table->first, *next; o; o = next) {
        next = o->next;
        free_opened(o);
    }
    table->first = NULL;
    pthread_mutex_unlock(&table->lock);
}

void kt__adapter_table_free(kt__adapter_table *table) {
    if (!table) return;
    kt__adapter_table_clear(table);
    pthread_mutex_destroy(&table->lock);
    kt__free(table);
}

void kt__adapter_table_renew(kt__adapter_table *table, const kt__config *config,
                             const char *model_name) {
    kt__adapter_entry entry;
    pthread_mutex_lock(&table->lock);
    for (opened_adapter **at = &table->first; *at;) {
        opened_adapter *o = *at;
        bool kept = has_entry(config, model_name, o->name, &entry) &&
                    !strcmp(entry.path, o->path) &&
                    kt__file_changed(o->path, &o->stamp) == KT__FILE_SAME;
        if (kept) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        free_opened(o);
    }
    pthread_mutex_unlock(&table->lock);
}

static opened_adapter *find_opened(const kt__adapter_table *table, const char *name,
                                   const char *path) {
    opened_adapter *o = table->first;
    while (o && (strcmp(o->name, name) != 0 || (path && strcmp(o->path, path) != 0))) o = o->next;
    return o;
}

static kt_status open_listed(kt__adapter_table *table, const kt__adapter_entry *entry,
                             kt_model *model, opened_adapter **out, kt_error *err) {
    kt_status status = KT_OK;
    opened_adapter *o = kt__calloc(1, sizeof *o);
    if (!o) return kt__fail_nomem(err, "an adapter", sizeof *o);
    o->name = kt__strdup(entry->name);
    o->path = kt__strdup(entry->path);
    o->stamp = kt__file_stamp_of(entry->path);
    if (!o->name || !o->path)
        status = kt__fail_nomem(err, "an adapter", sizeof *o);
    else
        status = kt__adapter_open_path(model, entry->path, &o->adapter, err);
    if (status != KT_OK) {
        free_opened(o);
        return status;
    }
    o->next = table->first;
    *out = table->first = o;
    return KT_OK;
}

static kt_status not_listed(const kt__config *config, const char *model, const char *name,
                            kt_error *err) {
    char names[256] = "";
    size_t len = 0;
    kt__adapter_entry entry;
    for (size_t i = 0; i < config->adapters.n && len < sizeof names; i++) {
        if (!kt__adapter_entry_read(config, i, &entry) || strcmp(entry.model, model) != 0) continue;
        int n = snprintf(names + len, sizeof names - len, "%s%s", len ? ", " : "", entry.name);
        len += n > 0 ? (size_t)n : 0;
    }
    return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                       "adapter: \"%.80s\" does not exist for the model \"%.80s\"; there is: %s",
                       name, model, len ? names : "none");
}

kt_status kt__adapter_table_get(kt__adapter_table *table, const kt__config *config,
                                const char *model_name, kt_model *model,
                                const kt__adapter_named *named, size_t n, kt_adapter_use *uses,
                                kt_error *err) {
    kt_status status = KT_OK;
    size_t n_got = 0;
    pthread_mutex_lock(&table->lock);
    while (n_got < n && status == KT_OK) {
        kt__adapter_entry entry;
        if (!has_entry(config, model_name, named[n_got].name, &entry)) {
            status = not_listed(config, model_name, named[n_got].name, err);
            break;
        }
        opened_adapter *o = find_opened(table, entry.name, entry.path);
        if (!o) status = open_listed(table, &entry, model, &o, err);
        if (status == KT_OK)
            uses[n_got] = (kt_adapter_use){kt_adapter_hold(o->adapter), named[n_got].scale};
        n_got += status == KT_OK;
    }
    pthread_mutex_unlock(&table->lock);
    for (size_t i = 0; status != KT_OK && i < n_got; i++) kt_adapter_close(uses[i].adapter);
    return status;
}

bool kt__adapter_table_info(kt__adapter_table *table, const char *name, kt_adapter_info *out) {
    pthread_mutex_lock(&table->lock);
    const opened_adapter *o = find_opened(table, name, NULL);
    if (o) kt_adapter_get_info(o->adapter, out);
    if (o) out->path = out->name = NULL;
    pthread_mutex_unlock(&table->lock);
    return o != NULL;
}
