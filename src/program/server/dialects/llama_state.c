#include "dialects/llama_state.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* The template and the texts of the control tokens that it may write. */
static void write_template(void *user, const kt_model *model) {
    kt__buf *out = user;
    kt_model_info info;
    char text[256];
    size_t len;
    kt_model_get_info(model, &info);
    kt__json_member(out, "chat_template", info.template_ ? info.template_ : "");
    const struct {
        const char *key;
        int32_t id;
    } tokens[] = {{"bos_token", info.bos_id}, {"eos_token", info.eos_id}};
    for (size_t i = 0; i < 2; i++) {
        kt_status status = tokens[i].id < 0
                               ? KT_E_ARG
                               : kt_detokenize(model, &tokens[i].id, 1, KT_TOK_RENDER_SPECIAL, text,
                                               sizeof text, &len, NULL);
        kt__json_key(out, tokens[i].key);
        kt__json_string(out, text, status == KT_OK ? len : 0, KT__JSON_PLAIN);
    }
}

static void write_default_settings(const kt__config *config, int32_t n_ctx, kt__buf *out) {
    const kt_request_params usual = kt__config_request(config);
    json_t *settings = kt__llama_settings(&usual, NULL, false);
    char *text = json_dumps(settings, JSON_COMPACT | JSON_REAL_PRECISION(9));
    (void)kt__buf_printf(out, ",\"default_generation_settings\":{\"n_ctx\":%d,\"params\":%s}",
                         (int)n_ctx, text ? text : "{}");
    free(text);
    json_decref(settings);
}

/* Its folder is nobody's business. */
static void write_file(const kt__served *served, const kt__config *config, kt__buf *out) {
    const char *path = config->models[0].path ? config->models[0].path : "demo.gguf";
    kt__json_member(out, "model_path", kt__files_name(path));
    kt__json_member(out, "model_alias", kt__served_name(served));
}

void kt__llama_write_props(kt__shared *shared, const kt__config *config, kt__buf *out) {
    kt__served *first = kt__models_at(shared->models, 0);
    kt__served_info info;
    kt__served_get_info(first, &info);
    if (!out->len || out->data[out->len - 1] != '}') return;
    out->len--;
    write_default_settings(config, info.engine.n_ctx, out);
    (void)kt__buf_printf(out, ",\"total_slots\":%d", (int)info.engine.n_parallel);
    write_file(first, config, out);
    kt__json_member(out, "build_info", kt_version());
    (void)kt__buf_printf(out, ",\"modalities\":{\"vision\":%s,\"audio\":false}",
                         kt__served_sees(first) ? "true" : "false");
    (void)kt__buf_printf(out, ",\"is_sleeping\":%s", info.loaded ? "false" : "true");
    (void)kt__served_look(first, write_template, out);
    (void)kt__buf_putc(out, '}');
}

bool kt__llama_write_slots(kt__shared *shared, kt__buf *out) {
    kt__served *first = kt__models_at(shared->models, 0);
    kt__served_info info;
    kt_engine_stats stats;
    kt__served_get_info(first, &info);
    kt__served_get_stats(first, &stats);
    int n = info.loaded && info.engine.n_parallel > 0 ? info.engine.n_parallel : 1;
    int busy = info.loaded ? (int)(stats.running + stats.waiting) : 0;
    (void)kt__buf_putc(out, '[');
    for (int i = 0; i < n; i++)
        (void)kt__buf_printf(out,
                             "%s{\"id\":%d,\"n_ctx\":%d,\"speculative\":false,"
                             "\"is_processing\":%s}",
                             i ? "," : "", i, (int)info.engine.n_ctx, i < busy ? "true" : "false");
    (void)kt__buf_putc(out, ']');
    return busy < n;
}
