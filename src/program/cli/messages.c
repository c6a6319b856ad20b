#include "cli/chat.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "term/cli.h"

enum { MAX_FILE_BYTES = 256 << 20 };

static void free_content(kt_message *message) {
    kt__free((void *)(uintptr_t)message->content);
}

void kt__messages_free(kt__messages *m) {
    kt__messages_cut(m, 0);
    kt__free(m->items);
    *m = (kt__messages){0};
}

kt_status kt__messages_add(kt__messages *m, const char *role, const char *content, kt_error *err) {
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 16;
        kt_message *items = kt__realloc_array(m->items, cap, sizeof *items);
        if (!items) return kt__fail_nomem(err, "the conversation", cap * sizeof *items);
        m->items = items;
        m->cap = cap;
    }
    char *copy = kt__strdup(content);
    if (!copy) return kt__fail_nomem(err, "a message", strlen(content));
    m->items[m->n++] = (kt_message){role, copy};
    return KT_OK;
}

void kt__messages_cut(kt__messages *m, size_t n) {
    while (m->n > n) free_content(&m->items[--m->n]);
}

size_t kt__messages_n_system(const kt__messages *m) {
    return m->n && !strcmp(m->items[0].role, "system");
}

static void remove_some(kt__messages *m, size_t from, size_t n) {
    for (size_t i = 0; i < n; i++) free_content(&m->items[from + i]);
    memmove(m->items + from, m->items + from + n, (m->n - from - n) * sizeof *m->items);
    m->n -= n;
}

kt_status kt__messages_set_system(kt__messages *m, const char *text, kt_error *err) {
    if (text) {
        kt_status status = kt__messages_add(m, "system", text, err);
        if (status != KT_OK) return status;
    }
    kt_message added = text ? m->items[--m->n] : (kt_message){0};
    if (kt__messages_n_system(m)) remove_some(m, 0, 1);
    if (!text) return KT_OK;
    memmove(m->items + 1, m->items, m->n++ * sizeof *m->items);
    m->items[0] = added;
    return KT_OK;
}

bool kt__messages_drop_oldest(kt__messages *m) {
    size_t first = kt__messages_n_system(m), next = first + 1;
    while (next < m->n && strcmp(m->items[next].role, "user") != 0) next++;
    if (next >= m->n) return false;
    remove_some(m, first, next - first);
    return true;
}

/* ---- the file ---- */

kt_status kt__messages_save(const kt__messages *m, const char *path, kt_error *err) {
    json_t *list = json_array();
    for (size_t i = 0; i < m->n; i++) {
        json_t *message = json_pack("{s:s,s:s}", "role", m->items[i].role, "content",
                                    m->items[i].content);
        json_array_append_new(list, message);
    }
    errno = 0;
    bool ok = list && json_array_size(list) == m->n &&
              json_dump_file(list, path, JSON_INDENT(2)) == 0;
    json_decref(list);
    if (ok) return KT_OK;
    if (errno) return kt__fail_system(err, errno, path, "cannot write");
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot write: a message is no UTF-8");
}

static const char *known_role(const char *role) {
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++) {
        if (!strcmp(role, roles[i])) return roles[i];
    }
    return NULL;
}

static kt_status take_messages(kt__messages *m, const json_t *list, const char *where,
                               kt_error *err) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        const char *role = known_role(json_string_value(json_object_get(item, "role")));
        const char *content = json_string_value(json_object_get(item, "content"));
        if (!role || !content) {
            return kt__fail_at(err, KT_E_FORMAT, where, UINT64_MAX,
                               "message %zu needs \"role\" (system, user, assistant or tool) and "
                               "\"content\" (a text)",
                               i);
        }
        kt_status status = kt__messages_add(m, role, content, err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__messages_parse(kt__messages *m, const char *text, size_t len, const char *where,
                             kt_error *err) {
    json_error_t problem;
    kt__messages loaded = {0};
    json_t *root = json_loadb(text, len, 0, &problem);
    const json_t *list = json_is_object(root) ? json_object_get(root, "messages") : root;
    kt_status status;
    if (!root) {
        status = kt__fail_at(err, KT_E_FORMAT, where, (uint64_t)problem.position,
                             "not JSON, line %d: %.100s", problem.line, problem.text);
    } else if (!json_is_array(list)) {
        status = kt__fail_at(err, KT_E_FORMAT, where, UINT64_MAX, "no list of messages");
    } else {
        status = take_messages(&loaded, list, where, err);
    }
    json_decref(root);
    if (status == KT_OK) {
        kt__messages old = *m;
        *m = loaded;
        loaded = old;
    }
    kt__messages_free(&loaded);
    return status;
}

kt_status kt__messages_load(kt__messages *m, const char *path, kt_error *err) {
    char *text = NULL;
    size_t len = 0;
    kt_status status = kt__cli_read_file(path, MAX_FILE_BYTES, &text, &len, err);
    if (status == KT_OK) status = kt__messages_parse(m, text, len, path, err);
    kt__free(text);
    return status;
}
