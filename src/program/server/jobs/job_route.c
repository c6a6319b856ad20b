/* A job for the model "auto": the route that its text takes (services/routes.h) names model and adapter. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "jobs/job.h"

enum { MAX_TEXT = 4096 }; /* bytes of what the user says that are looked at */

static bool is_inside(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Whole characters, as many as there is room for. */
static void add_text(kt__buf *out, const json_t *text) {
    const char *s = json_string_value(text);
    size_t len = json_string_length(text), room = MAX_TEXT - out->len;
    if (len > room) {
        len = room;
        while (len > 0 && is_inside(s[len])) len--;
    }
    (void)kt__buf_append(out, s, len);
}

/* "text", or the texts of [{"type": ..., "text": ...}, ...]. */
static void add_content(kt__buf *out, const json_t *content) {
    if (json_is_string(content)) add_text(out, content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        if (json_is_string(text)) add_text(out, text);
    }
}

/* What the user says last: of messages, of Responses' input, or a prompt. */
static void add_users_text(kt__buf *out, const json_t *body) {
    const json_t *list = json_object_get(body, "messages");
    if (!list) list = json_object_get(body, "input");
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *message = json_array_get(list, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!role || strcmp(role, "user") != 0) continue;
        add_content(out, json_object_get(message, "content"));
        return;
    }
    add_content(out, json_is_string(list) ? list : json_object_get(body, "prompt"));
}

/* As a member of kentang's own, with its comma. */
static kt_status keep_why(kt__job *job, const char *why, kt_error *err) {
    size_t size = strlen(why) + sizeof ",\"route\":";
    char *json = kt__arena_calloc(&job->arena, size, 1);
    if (!json) return kt__fail_nomem(err, "a route", size);
    snprintf(json, size, ",\"route\":%s", why);
    job->model.route_json = json;
    return KT_OK;
}

static kt_status take_route(kt__job *job, const kt__routes_choice *choice, kt_error *err) {
    json_t *body = job->request.json;
    bool whole = json_object_set_new(body, "model", json_string(choice->model)) == 0;
    if (choice->adapter[0] && !json_object_get(body, "adapter"))
        whole = json_object_set_new(body, "adapter", json_string(choice->adapter)) == 0 && whole;
    if (!whole) return kt__fail_nomem(err, "a route", 0);
    snprintf(job->model.route, sizeof job->model.route, "%s", choice->route);
    return keep_why(job, choice->why, err);
}

bool kt__job_asks_route(const kt__job *job) {
    const char *model = json_string_value(json_object_get(job->request.json, "model"));
    return job->shared->routes && !job->dialect->exact_names && model &&
           !strcmp(model, KT__ROUTES_AUTO);
}

kt_status kt__job_route(kt__job *job, kt_error *err) {
    kt__routes_choice choice;
    kt__buf text;
    kt__buf_init(&text, MAX_TEXT + 1);
    add_users_text(&text, job->request.json);
    (void)kt__buf_putc(&text, '\0');
    kt_status status = kt__routes_choose(job->shared->routes, text.data, job->request.share,
                                         &choice, err);
    kt__buf_free(&text);
    if (status == KT_OK) status = take_route(job, &choice, err);
    kt__free(choice.why);
    return status;
}
