/* For tests of HTTP: looking into answers. Include cmocka.h before. */
#ifndef KT_TESTS_SERVE_REPLY_H
#define KT_TESTS_SERVE_REPLY_H

#include <jansson.h>

#include "serve_world.h"

#define STORY "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story about a cat.\"}]"

static inline json_t *body_of(const reply *r) {
    json_t *v = json_loads(r->body, 0, NULL);
    if (!v) fail_msg("%s", r->text);
    return v;
}

/* The answer to a body in JSON, which has that status; who: further lines of the head. */
static inline json_t *call_as(const world *w, const char *method, const char *path, const char *who,
                              const char *body, int status) {
    char head[256];
    snprintf(head, sizeof head, "%s%s", JSON_TYPE, who);
    reply *r = ask(w, method, path, head, body);
    if (r->status != status) fail_msg("%s %s: %s", path, body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static inline const json_t *at(const json_t *v, const char *path) {
    char copy[256], *rest; /* tests ask on several threads */
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok_r(copy, ".", &rest); part && v; part = strtok_r(NULL, ".", &rest))
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
    return v;
}

static inline const char *text_at(const json_t *v, const char *path) {
    const char *s = json_string_value(at(v, path));
    return s ? s : "";
}

/* Removes the framing of chunked transfer. */
static inline void unchunk(reply *r) {
    char *in = r->body, *out = r->body;
    for (;;) {
        unsigned long n = strtoul(in, &in, 16);
        in = strstr(in, "\r\n");
        if (!in || !n) break;
        memmove(out, in + 2, n);
        out += n;
        in += 2 + n;
    }
    *out = '\0';
}

#endif
