#include "tutor/lesson.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

void kt__frame_free(kt__prompt_frame *f) {
    kt__free(f->ahead);
    kt__free(f->after);
}

static kt_status encode_part(const kt_model *model, const char *text, size_t len, int32_t **ids,
                             size_t *n, kt_error *err) {
    *ids = kt__calloc(len + 8, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "a prompt's tokens", len);
    return kt_tokenize(model, text, len, KT_TOK_PARSE_SPECIAL, *ids, len + 8, n, err);
}

/* A token that writes nothing unless it is asked for. */
static bool is_control_token(const kt_model *model, int32_t id) {
    char text[8];
    size_t len;
    kt_error ignored;
    return kt_detokenize(model, &id, 1, 0, text, sizeof text, &len, &ignored) == KT_OK && len == 0;
}

static size_t find_opener(const kt_model *model, const kt__prompt_frame *f) {
    for (size_t i = f->n_ahead; i > 0; i--)
        if (is_control_token(model, f->ahead[i - 1])) return i - 1;
    return 0;
}

kt_status kt__frame_find(const kt_model *model, kt__prompt_frame *f, kt_error *err) {
    static const char mark[] = "kentang-marks-this";
    const kt_message message = {"user", mark};
    char *text = NULL;
    size_t len = 0;
    *f = (kt__prompt_frame){0};
    if (!model->template_text) return KT_OK;
    kt_status status = kt_chat_render(model, &message, 1, KT_CHAT_GENERATE, &text, &len, err);
    const char *at = status == KT_OK ? strstr(text, mark) : NULL;
    if (at) {
        size_t n = (size_t)(at - text), end = n + sizeof mark - 1;
        status = encode_part(model, text, n, &f->ahead, &f->n_ahead, err);
        if (status == KT_OK)
            status = encode_part(model, at + sizeof mark - 1, len - end, &f->after, &f->n_after,
                                 err);
    }
    if (status == KT_OK) f->opener = find_opener(model, f);
    kt_free(text);
    return status;
}

bool kt__frame_question(const kt__prompt_frame *f, const kt_model *model, const kt__sample *s,
                        size_t *begin, size_t *end) {
    size_t n = 0;
    while (n < (size_t)s->n && !s->mask[n]) n++;
    *begin = f->n_ahead;
    if (n <= f->n_ahead + f->n_after) return false;
    *end = n - f->n_after;
    if (memcmp(s->ids, f->ahead, f->n_ahead * sizeof *s->ids) != 0 ||
        memcmp(s->ids + *end, f->after, f->n_after * sizeof *s->ids) != 0)
        return false;
    for (size_t i = *begin; i < *end; i++)
        if (kt_token_is_eog(model, s->ids[i])) return false;
    return true;
}

/* The last place that a user's turn is opened at, with no end of turn between it and the end of the prompt. */
bool kt__frame_last_question(const kt__prompt_frame *f, const kt_model *model, const kt__sample *s,
                             size_t *begin, size_t *end) {
    const int32_t *opener = f->ahead + f->opener;
    size_t n = 0, n_opener = f->n_ahead - f->opener;
    while (n < (size_t)s->n && !s->mask[n]) n++;
    if (n_opener == 0 || n <= n_opener + f->n_after) return false;
    *end = n - f->n_after;
    if (memcmp(s->ids + *end, f->after, f->n_after * sizeof *s->ids) != 0) return false;
    for (size_t at = *end; at-- > n_opener && !kt_token_is_eog(model, s->ids[at]);) {
        *begin = at;
        if (!memcmp(s->ids + at - n_opener, opener, n_opener * sizeof *opener)) return true;
    }
    return false;
}

kt_status kt__frame_prompt(const kt__prompt_frame *f, const kt_model *model, const int32_t *before,
                           size_t n_before, const char *question, int32_t **out, size_t *n,
                           kt_error *err) {
    size_t len = strlen(question), cap = n_before + len + 8 + f->n_after, n_question;
    int32_t *ids = kt__calloc(cap, sizeof *ids);
    *out = NULL;
    if (!ids) return kt__fail_nomem(err, "a question", cap);
    kt_status status = kt_tokenize(model, question, len, 0, ids + n_before,
                                   cap - n_before - f->n_after, &n_question, err);
    if (status != KT_OK) {
        kt__free(ids);
        return status;
    }
    memcpy(ids, before, n_before * sizeof *ids);
    memcpy(ids + n_before + n_question, f->after, f->n_after * sizeof *ids);
    *out = ids;
    *n = n_before + n_question + f->n_after;
    return KT_OK;
}

bool kt__frame_text(const kt_model *model, const int32_t *ids, size_t n, char *out, size_t size) {
    size_t len;
    kt_error ignored;
    if (kt_detokenize(model, ids, n, 0, out, size - 1, &len, &ignored) != KT_OK) return false;
    out[len] = '\0';
    return strlen(out) == len;
}
