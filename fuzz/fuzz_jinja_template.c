/* Template sources, rendered over a fixed conversation with small limits: no crash, and the origins
 * of the output cover it. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "jinja/jinja_run.h"
#include "jinja/json.h"

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": "
    "\"Halo \xc3\xa9 <|x|>\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
    "[{\"id\": \"c\", "
    "\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true]}}}]}], \"tools\": null, "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"s\": \"a b,c\", \"l\": [3, 1, 2], "
    "\"o\": "
    "{\"k\": \"v\", \"n\": {\"x\": []}}, \"n\": 7, \"f\": -0.5, \"z\": null}";

static void check(const kt__jstr *s) {
    size_t at = 0, n_cp = 0;
    for (size_t i = 0; i < s->n_runs; i++) {
        if (s->runs[i].end <= at) abort();
        if (i && s->runs[i].from_template == s->runs[i - 1].from_template) abort();
        at = s->runs[i].end;
    }
    if (s->n_runs && at != s->len) abort();
    for (size_t i = 0, n; i < s->len; i += n, n_cp++) {
        uint32_t cp;
        n = kt__utf8_decode(s->data + i, s->len - i, &cp);
        if (n == 0) abort();
    }
    if (n_cp != s->n_cp) abort();
}

static void render(const kt__jinja *tmpl) {
    kt__jx x;
    kt__jv root;
    const kt__jstr *text;
    kt_error err;
    if (kt__jx_init(&x, tmpl, 1722000000, &err) == KT_OK) {
        x.steps = 100000;
        x.arena.max_bytes = 16 << 20;
        if (kt__json_parse(&x.arena, conversation, sizeof conversation - 1, &root, &err) != KT_OK)
            abort();
        for (size_t i = 0; i < root.u.d->n; i++) {
            const kt__jstr *name = root.u.d->items[i].key.u.s;
            kt__jx_set(&x, name->data, name->len, root.u.d->items[i].val);
        }
        if (kt__jx_render(&x, &text) == KT_OK) check(text);
    }
    kt__jx_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__jinja *tmpl;
    kt_error err;
    if (size > 1 << 16 || kt__jinja_parse((const char *)data, size, &tmpl, &err) != KT_OK) return 0;
    render(tmpl);
    kt__jinja_free(tmpl);
    return 0;
}
