/* Renders a template over the members of a JSON object, as the chat room does but with the messages
 * as they are. */
#ifndef KT_TESTS_JINJA_RENDER_H
#define KT_TESTS_JINJA_RENDER_H

#include <string.h>

#include "jinja/jinja_run.h"
#include "jinja/json.h"

static inline kt_status jinja_set_text(kt__jx *x, const char *name, const char *text) {
    if (!text) return KT_OK;
    const kt__jstr *s = kt__jstr_new(&x->arena, text, strlen(text), true);
    if (!s) return kt__jx_nomem(x);
    kt__jx_set(x, name, strlen(name), kt__j_str(s));
    return KT_OK;
}

static inline kt_status jinja_set_json(kt__jx *x, const char *json, size_t len) {
    kt__jv root;
    KT__STEP(kt__json_parse(&x->arena, json, len, &root, x->err));
    for (size_t i = 0; i < root.u.d->n; i++) {
        const kt__jstr *name = root.u.d->items[i].key.u.s;
        kt__jx_set(x, name->data, name->len, root.u.d->items[i].val);
    }
    return KT_OK;
}

/* *out lives in x, which is to be freed in any case. */
static inline kt_status jinja_render(kt__jx *x, const kt__jinja *tmpl, const char *json, size_t len,
                                     const char *bos, const char *eos, int64_t now_local_s,
                                     const kt__jstr **out, kt_error *err) {
    KT__STEP(kt__jx_init(x, tmpl, now_local_s, err));
    kt__jx_set(x, "tools", 5, kt__j_none());
    kt__jx_set(x, "documents", 9, kt__j_none());
    kt__jx_set(x, "add_generation_prompt", 21, kt__j_bool(false));
    kt__jx_allow(x, len);
    KT__STEP(jinja_set_json(x, json, len));
    KT__STEP(jinja_set_text(x, "bos_token", bos));
    KT__STEP(jinja_set_text(x, "eos_token", eos));
    return kt__jx_render(x, out);
}

#endif
