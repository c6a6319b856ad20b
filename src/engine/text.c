/* The calls of kentang.h on text: encode, decode, chat templates. */
#include "engine/text.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

/* The texts of control tokens lie in the file, which may have been truncated: asked before they are
 * read, and by still_there after, for what the fault guard may have replaced meanwhile. */
static kt_status need_tokenizer(const kt_model *model, kt_error *err) {
    kt__error_clear(err);
    if (model->tok) return kt__gguf_check(model->gguf, err);
    return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary: use token ids", model->info.path);
}

static kt_status still_there(const kt_model *model, kt_status status, kt_error *err) {
    return status == KT_OK ? kt__gguf_check(model->gguf, err) : status;
}

static kt_status need_template(const kt_model *model, kt_error *err) {
    kt_status status = need_tokenizer(model, err);
    if (status != KT_OK || model->chat) return status;
    if (model->chat_error.code != KT_OK) {
        if (err) *err = model->chat_error;
        return model->chat_error.code;
    }
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s has no chat template: give the prompt as the model expects it (--raw)",
                    model->info.path);
}

kt_status kt_tokenize(const kt_model *model, const char *text, size_t len, unsigned flags,
                      int32_t *ids, size_t cap, size_t *n, kt_error *err) {
    kt_status status;
    kt__ids found;
    *n = 0;
    KT__TRY(need_tokenizer(model, err));
    kt__ids_init(&found, SIZE_MAX);
    status = kt__tokenizer_encode(model->tok, text, len, flags, &found, err);
    status = still_there(model, status, err);
    if (status == KT_OK) {
        *n = found.len;
        size_t copy = found.len < cap ? found.len : cap;
        if (copy) memcpy(ids, found.data, copy * sizeof *ids);
        if (found.len > cap) {
            status = kt__fail(err, KT_E_LIMIT, "%zu tokens do not fit a buffer for %zu", found.len,
                              cap);
        }
    }
    kt__ids_free(&found);
out:
    return status;
}

kt_status kt_detokenize(const kt_model *model, const int32_t *ids, size_t n, unsigned flags,
                        char *text, size_t cap, size_t *len, kt_error *err) {
    kt_status status;
    kt__buf buf;
    *len = 0;
    KT__TRY(need_tokenizer(model, err));
    kt__buf_init(&buf, SIZE_MAX / 2);
    status = kt__tokenizer_decode(model->tok, ids, n, flags, &buf, err);
    status = still_there(model, status, err);
    if (status == KT_OK) {
        *len = buf.len;
        size_t copy = buf.len < cap ? buf.len : cap;
        if (copy) memcpy(text, buf.data, copy);
        if (buf.len > cap) {
            status = kt__fail(err, KT_E_LIMIT, "%zu bytes do not fit a buffer of %zu", buf.len,
                              cap);
        }
    }
    kt__buf_free(&buf);
out:
    return status;
}

bool kt_token_is_eog(const kt_model *model, int32_t id) {
    return model->tok && kt__tokenizer_is_eog(model->tok, id);
}

static kt__chat_params chat_params(const kt_model *model, bool add_generation_prompt) {
    return (kt__chat_params){
        .bos_token = model->bos_text,
        .eos_token = model->eos_text,
        .now_local_s = kt__chat_now_local(),
        .add_generation_prompt = add_generation_prompt,
    };
}

/* The rendered text leaves, the rest is freed. */
static void hand_out(kt__chat_out *rendered, char **out, size_t *len) {
    *out = rendered->text;
    *len = rendered->len;
    rendered->text = NULL;
    kt__chat_out_free(rendered);
}

kt_status kt_chat_render(const kt_model *model, const kt_message *messages, size_t n,
                         bool add_generation_prompt, char **out, size_t *len, kt_error *err) {
    kt_status status;
    kt__chat_out rendered = {0};
    *out = NULL;
    KT__TRY(need_template(model, err));
    kt__chat_params params = chat_params(model, add_generation_prompt);
    KT__TRY(kt__chat_render(model->chat, messages, n, &params, &rendered, err));
    hand_out(&rendered, out, len);
out:
    return status;
}

kt_status kt_chat_render_json(const kt_model *model, const char *json, size_t json_len, char **out,
                              size_t *len, kt_error *err) {
    kt_status status;
    kt__chat_out rendered = {0};
    *out = NULL;
    KT__TRY(need_template(model, err));
    kt__chat_params params = chat_params(model, true);
    KT__TRY(kt__chat_render_json(model->chat, json, json_len, &params, &rendered, err));
    hand_out(&rendered, out, len);
out:
    return status;
}

static kt_status encode_rendered(const kt_model *model, const kt__chat_out *rendered, int32_t **ids,
                                 size_t *n_ids, kt_error *err) {
    kt_status status;
    kt__ids found;
    kt__ids_init(&found, SIZE_MAX);
    kt__tok_segment *segments = kt__calloc(rendered->n_segs + 1, sizeof *segments);
    if (!segments)
        return kt__fail_nomem(err, "prompt segments", rendered->n_segs * sizeof *segments);
    for (size_t i = 0; i < rendered->n_segs; i++) {
        const kt__chat_seg *seg = &rendered->segs[i];
        segments[i] = (kt__tok_segment){rendered->text + seg->offset, seg->len, seg->from_template};
    }
    KT__TRY(kt__tokenizer_encode_segments(model->tok, segments, rendered->n_segs,
                                          KT_TOK_ADD_SPECIAL, &found, err));
    KT__TRY(still_there(model, status, err));
    *ids = kt__ids_take(&found, n_ids);
    if (!*ids) status = kt__fail_nomem(err, "prompt ids", 0);
out:
    kt__ids_free(&found);
    kt__free(segments);
    return status;
}

kt_status kt_chat_encode(const kt_model *model, const kt_message *messages, size_t n,
                         bool add_generation_prompt, int32_t **ids, size_t *n_ids, kt_error *err) {
    int64_t ns[2] = {0};
    return kt__chat_encode_timed(model, messages, n, add_generation_prompt, ids, n_ids, ns, err);
}

kt_status kt__chat_encode_timed(const kt_model *model, const kt_message *messages, size_t n,
                                bool add_generation_prompt, int32_t **ids, size_t *n_ids,
                                int64_t *ns, kt_error *err) {
    kt_status status;
    kt__chat_out rendered = {0};
    int64_t start_ns = kt__now_ns(), rendered_ns;
    *ids = NULL;
    *n_ids = 0;
    KT__TRY(need_template(model, err));
    kt__chat_params params = chat_params(model, add_generation_prompt);
    KT__TRY(kt__chat_render(model->chat, messages, n, &params, &rendered, err));
    rendered_ns = kt__now_ns();
    status = encode_rendered(model, &rendered, ids, n_ids, err);
    kt__chat_out_free(&rendered);
    ns[0] += rendered_ns - start_ns;
    ns[1] += kt__now_ns() - rendered_ns;
out:
    return status;
}

kt_status kt__chat_encode_json(const kt_model *model, const char *json, size_t json_len,
                               int32_t **ids, size_t *n_ids, kt_error *err) {
    kt_status status;
    kt__chat_out rendered = {0};
    *ids = NULL;
    *n_ids = 0;
    KT__TRY(need_template(model, err));
    kt__chat_params params = chat_params(model, true);
    KT__TRY(kt__chat_render_json(model->chat, json, json_len, &params, &rendered, err));
    status = encode_rendered(model, &rendered, ids, n_ids, err);
    kt__chat_out_free(&rendered);
out:
    return status;
}

void kt_free(void *data) {
    kt__free(data);
}
