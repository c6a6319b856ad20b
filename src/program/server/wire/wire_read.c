/* Requests: JSON to kt__wire_request. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "wire/wire_value.h"

/* "id" of a native body: text, or a whole number as text. */
static kt_status read_id(const kt__wire_reader *r, const json_t *body) {
    const json_t *v = kt__wire_member(body, "id");
    char digits[24];
    if (!v || !json_is_integer(v)) return kt__wire_read_text(r, body, "id", &r->request->id);
    int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(v));
    r->request->id = kt__arena_strndup(r->arena, digits, (size_t)n);
    return r->request->id ? KT_OK : kt__wire_fail_nomem(r);
}

static kt_status read_body(const kt__wire_reader *r, const json_t *body) {
    KT__STEP(kt__wire_read_fields(r, body));
    KT__STEP(kt__wire_read_text(r, body, "model", &r->request->model));
    KT__STEP(kt__wire_read_text(r, body, "user", &r->request->user));
    if (r->request->form == KT__WIRE_NATIVE) KT__STEP(read_id(r, body));
    KT__STEP(kt__wire_read_constraint(r, body));
    KT__STEP(kt__wire_read_calling(r, body));
    KT__STEP(kt__wire_refuse_the_rest(r, body));
    return kt__wire_read_subject(r, body);
}

kt_status kt__wire_read_value(kt__wire_form form, const json_t *body, const char *prefix,
                              const kt_request_params *defaults, const kt__wire_eyes *eyes,
                              kt__wire_request **out, kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    if (!json_is_object(body)) {
        return kt__fail_at(err, KT_E_ARG, prefix, UINT64_MAX, "expected an object, got %s",
                           body ? kt__wire_type_name(body) : "nothing");
    }
    kt__wire_request *request = kt__calloc(1, sizeof *request);
    if (!request) return kt__fail_nomem(err, "a request", sizeof *request);
    kt__arena_init(&request->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    request->form = form;
    request->n_prompts = 1;
    request->req = defaults ? *defaults : kt_request_params_default();
    request->id_slot = -1;
    request->prefill = request->req.prompt.chat_flags & KT_CHAT_CONTINUE;
    request->req.prompt.chat_flags &= ~(unsigned)KT_CHAT_CONTINUE;
    request->req.prompt.text_flags = KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL;
    const kt__wire_reader r = {request, &request->arena, prefix, err, eyes};
    kt_status status = read_body(&r, body);
    if (status == KT_OK) {
        *out = request;
    } else {
        kt__wire_request_free(request);
    }
    return status;
}

void kt__wire_request_free(kt__wire_request *request) {
    if (!request) return;
    kt__arena_free(&request->arena);
    kt__free(request);
}

kt_status kt__wire_read(kt__wire_form form, const char *json, size_t len,
                        const kt_request_params *defaults, kt__wire_request **out, kt_error *err) {
    json_t *body;
    *out = NULL;
    kt_status status = kt__wire_parse(json, len, &body, err);
    if (status != KT_OK) return status;
    status = kt__wire_read_value(form, body, NULL, defaults, NULL, out, err);
    json_decref(body);
    return status;
}

/* ---- errors in the client's words ---- */

/* The length of path at the beginning of text, if it is there whole; else 0. */
static size_t begins_with(const char *text, const char *path) {
    size_t len = strlen(path);
    if (strncmp(text, path, len) != 0) return 0;
    return isalnum((unsigned char)text[len]) || text[len] == '_' ? 0 : len;
}

static void rename_begin(char *text, size_t size, size_t len, const char *name) {
    char rest[sizeof((kt_error *)0)->message];
    snprintf(rest, sizeof rest, "%s", text + len);
    snprintf(text, size, "%s%s", name, rest);
}

static bool rename_one(const kt__wire_name *name, kt_error *err) {
    size_t len = begins_with(err->where, name->ours);
    if (!len) return false;
    if (begins_with(err->message, name->ours))
        rename_begin(err->message, sizeof err->message, len, name->theirs);
    rename_begin(err->where, sizeof err->where, len, name->theirs);
    return true;
}

void kt__wire_rename_error(const kt__wire_name *names, kt_error *err) {
    static const kt__wire_name of_engine[] = {{"chain", "samplers"},
                                              {"dry_breakers", "dry_sequence_breakers"}};
    for (size_t i = 0; i < sizeof of_engine / sizeof of_engine[0]; i++)
        (void)rename_one(&of_engine[i], err);
    while (names && names->ours && !rename_one(names, err)) names++;
}

/* The engine's place of an error is within a form: here it is within a field, and in the message as
 * well, since not every wire's errors have a place. */
void kt__wire_place_error(const kt__wire_request *request, kt_error *err) {
    static const char ours[] = "constraint.forms[0]";
    const kt__wire_name names[] = {{ours, request->form_at}, {NULL, NULL}};
    char text[sizeof err->message];
    if (kt__wire_place_picture(request, err)) return;
    if (!request->form_at || strncmp(err->where, ours, sizeof ours - 1) != 0) return;
    snprintf(text, sizeof text, "%s: %.300s", err->where, kt__error_without_place(err));
    memcpy(err->message, text, sizeof text);
    kt__wire_rename_error(names, err);
}
