/* Chat templates: in tokenizer_config.json, in files of their own, or in chat_template.json. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "convert/json_file.h"
#include "convert/vocab.h"

enum { MAX_TEMPLATE = 1 << 20, MAX_NAME = 48 };

/* Names become parts of keys. */
static bool is_key_name(const char *name, size_t len) {
    if (len == 0 || len > MAX_NAME) return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-') return false;
    return true;
}

/* The first of a name counts; "default" is the one without a name. */
static void add_template(kt__vocab *v, const char *name, size_t len, const char *text) {
    if (len == 7 && memcmp(name, "default", 7) == 0) len = 0;
    if (!text || v->n_templates == KT__VOCAB_MAX_TEMPLATES) return;
    if (len > 0 && !is_key_name(name, len)) return;
    for (size_t i = 0; i < v->n_templates; i++) {
        kt__str known = v->templates[i].name;
        if (known.len == len && memcmp(known.s, name, len) == 0) return;
    }
    v->templates[v->n_templates++] = (kt__chat_text){{name, len}, text};
}

/* A string, or a list of {"name", "template"}. */
static void add_value(kt__vocab *v, const json_t *value) {
    json_t *entry;
    size_t i;
    if (json_is_string(value)) add_template(v, "", 0, json_string_value(value));
    json_array_foreach(value, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name)
            add_template(v, name, strlen(name),
                         json_string_value(json_object_get(entry, "template")));
    }
}

/* A template file's text, kept in the arena. */
static kt_status add_file(kt__vocab *v, const char *file, const char *name, size_t len,
                          kt_error *err) {
    char *path = kt__folder_path(v->dir, file), *text = NULL;
    size_t size;
    if (!path) return kt__fail_nomem(err, "a path", strlen(file));
    kt_status status = kt__folder_read_file(path, MAX_TEMPLATE, false, &text, &size, err);
    if (status == KT_OK && text) {
        const char *copy = kt__arena_strndup(&v->arena, text, size);
        const char *kept = kt__arena_strndup(&v->arena, name, len);
        if (!copy || !kept) status = kt__fail_nomem(err, "a chat template", size);
        if (status == KT_OK) add_template(v, kept, len, copy);
    }
    kt__free(text);
    kt__free(path);
    return status;
}

/* additional_chat_templates/NAME.jinja */
static kt_status add_more_files(kt__vocab *v, kt_error *err) {
    static const char folder[] = "additional_chat_templates", tail[] = ".jinja";
    char *path = kt__folder_path(v->dir, folder);
    kt_status status = path ? kt__folder_check_link(path, err)
                            : kt__fail_nomem(err, "a path", sizeof folder);
    kt__listing *dir = status == KT_OK ? kt__listing_open(path) : NULL;
    for (const char *e; dir && status == KT_OK && (e = kt__listing_next(dir));) {
        char file[sizeof folder + MAX_NAME + sizeof tail + 2];
        size_t len = strlen(e), n_tail = sizeof tail - 1;
        if (len <= n_tail || strcmp(e + len - n_tail, tail) != 0) continue;
        if (!is_key_name(e, len - n_tail)) continue;
        snprintf(file, sizeof file, "%s/%s", folder, e);
        status = add_file(v, file, e, len - n_tail, err);
    }
    if (dir) kt__listing_close(dir);
    kt__free(path);
    return status;
}

static int compare_templates(const void *a, const void *b) {
    const kt__chat_text *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = n ? memcmp(x->name.s, y->name.s, n) : 0;
    return order ? order : x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

void kt__vocab_add_rerank_template(kt__vocab *v) {
    static const char text[] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"."
        "<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant "
        "passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    add_template(v, "rerank", 6, text);
    qsort(v->templates, v->n_templates, sizeof *v->templates, compare_templates);
}

kt_status kt__vocab_read_templates(kt__vocab *v, kt_error *err) {
    char *path = kt__folder_path(v->dir, "chat_template.json");
    kt_status status = path ? KT_OK : kt__fail_nomem(err, "a path", 0);
    if (status != KT_OK) return status;
    add_value(v, json_object_get(v->settings, "chat_template"));
    KT__TRY(add_file(v, "chat_template.jinja", "", 0, err));
    KT__TRY(add_more_files(v, err));
    KT__TRY(kt__folder_read_json(path, 2 * MAX_TEMPLATE, false, &v->template_json, err));
    add_value(v, json_object_get(v->template_json, "chat_template"));
    /* a folder is listed in no order, and the file's bytes must not depend on it */
    qsort(v->templates, v->n_templates, sizeof *v->templates, compare_templates);
out:
    kt__free(path);
    return status;
}
