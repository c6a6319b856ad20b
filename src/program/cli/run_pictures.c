#include "cli/run_pictures.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

enum { MAX_FILE_BYTES = 64 << 20 };

/* data[*len] for kt__free. */
static kt_status read_file(const char *path, char **data, size_t *len, kt_error *err) {
    FILE *file = fopen(path, "rb");
    *data = NULL;
    *len = 0;
    if (!file) return kt__fail(err, KT_E_IO, "--image %.300s: %s", path, strerror(errno));
    kt_status status = KT_OK;
    kt__buf all;
    kt__buf_init(&all, MAX_FILE_BYTES);
    char some[1 << 16];
    for (size_t n; (n = fread(some, 1, sizeof some, file)) > 0 && !all.failed;)
        (void)kt__buf_append(&all, some, n);
    if (ferror(file)) {
        status = kt__fail(err, KT_E_IO, "--image %.300s: %s", path, strerror(errno));
    } else if (all.failed) {
        status = kt__fail(err, KT_E_LIMIT, "--image %.300s: larger than %d MB", path,
                          MAX_FILE_BYTES >> 20);
    } else {
        *len = all.len;
        *data = all.data;
        all.data = NULL;
    }
    fclose(file);
    if (status != KT_OK) kt__buf_free(&all);
    return status;
}

static kt_status read_files(const kt__opt_texts *files, kt__run_pictures *out, kt_error *err) {
    out->list = kt__calloc(files->n, sizeof *out->list);
    if (!out->list) return kt__fail_nomem(err, "pictures", files->n * sizeof *out->list);
    for (size_t i = 0; i < files->n; i++) {
        char *data;
        size_t len;
        KT__STEP(read_file(files->items[i], &data, &len, err));
        out->list[out->n++] = (kt_picture){data, len};
    }
    return KT_OK;
}

/* [{"role": "user", "content": [{"type": "image"}, ..., {"type": "text", "text": ...}]}] */
static json_t *conversation_of(const char *system, const char *text, size_t len, size_t n) {
    json_t *messages = json_array(), *parts = json_array();
    if (system)
        json_array_append_new(messages, json_pack("{s:s,s:[{s:s,s:s}]}", "role", "system",
                                                  "content", "type", "text", "text", system));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    json_array_append_new(parts, json_pack("{s:s,s:s%}", "type", "text", "text", text, len));
    json_array_append_new(messages, json_pack("{s:s,s:o}", "role", "user", "content", parts));
    return messages;
}

kt_status kt__run_pictures_read(const kt__opt_texts *files, const char *system, const char *text,
                                size_t len, kt__run_pictures *out, kt_error *err) {
    *out = (kt__run_pictures){0};
    KT__STEP(read_files(files, out, err));
    json_t *messages = conversation_of(system, text, len, out->n);
    out->chat = json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    return out->chat ? KT_OK : kt__fail(err, KT_E_ARG, "the prompt is not UTF-8");
}

void kt__run_pictures_free(kt__run_pictures *p) {
    for (size_t i = 0; i < p->n; i++) kt__free((void *)(uintptr_t)p->list[i].data);
    kt__free(p->list);
    free(p->chat);
    *p = (kt__run_pictures){0};
}
