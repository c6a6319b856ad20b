/* Small encoders of pictures with random weights, as mmproj files.
 *
 * Owns: their sizes and numbers. */
#ifndef KT_TESTS_VISION_FIXTURE_H
#define KT_TESTS_VISION_FIXTURE_H

#include <math.h>

#include "base/alloc.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "support.h"

enum {
    EYE_SIDE = 80, /* 400 patches: more than are computed together */
    EYE_PATCH = 4,
    EYE_N_SIDE = EYE_SIDE / EYE_PATCH,
    EYE_N = EYE_N_SIDE * EYE_N_SIDE,
    EYE_D = 32,
    EYE_HEADS = 2,
    EYE_FF = 64,
    EYE_LAYERS = 2,
    EYE_MERGE = 4,
    EYE_ROWS = EYE_N / (EYE_MERGE * EYE_MERGE),
    EYE_SQUARE =
        2, /* patches of a side that become a row of the families whose pictures keep their form, */
    EYE_WIDTH = 88, /* and a picture for them, of more patches than are computed together */
    EYE_HEIGHT = 56,
    EYE_FREE_ROWS = EYE_WIDTH * EYE_HEIGHT / (EYE_PATCH * EYE_PATCH * EYE_SQUARE * EYE_SQUARE)
};

typedef struct eye_writer {
    kt__gguf_writer *w;
    bool declaring;
    uint32_t seed;
    kt__type type; /* of matrices */
    const char *projector;
} eye_writer;

static inline bool eye_is(const eye_writer *e, const char *part) {
    return strstr(e->projector, part) != NULL;
}

/* n_row rows of n_col numbers about centre, as vectors are, or of the matrices' type. */
static inline void eye_tensor(eye_writer *e, const char *name, uint32_t n_dims, const uint64_t *ne,
                              double centre, double spread) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dims; i++) n *= ne[i];
    bool matrix = n_dims == 2 && e->type != KT__TYPE_F32 && strcmp(name, "v.position_embd.weight");
    kt__type type = matrix ? e->type : KT__TYPE_F32;
    if (e->declaring) {
        kt__gguf_declare_tensor(e->w, name, kt__type_get(type)->ggml_id, n_dims, ne);
        return;
    }
    float *x = kt__calloc((size_t)n, sizeof *x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(centre + spread * (2.0 * lcg_unit(&e->seed) - 1.0));
    size_t bytes = kt__type_row_bytes(type, (int64_t)n);
    uint8_t *packed = kt__calloc(1, bytes);
    kt__quantize_row(type, x, (int64_t)n, packed);
    kt_error err;
    die_on(kt__gguf_write_data(e->w, packed, bytes, &err), &err);
    kt__free(packed);
    kt__free(x);
}

static inline void eye_vector(eye_writer *e, const char *name, int n, double centre) {
    eye_tensor(e, name, 1, (const uint64_t[]){(uint64_t)n}, centre, 0.3);
}

static inline void eye_matrix(eye_writer *e, const char *name, int n_row, int n_col) {
    eye_tensor(e, name, 2, (const uint64_t[]){(uint64_t)n_col, (uint64_t)n_row}, 0.0,
               2.0 / sqrt(n_col));
}

static inline void eye_layer(eye_writer *e, int i) {
    const struct {
        const char *name;
        int n_row, n_col; /* n_col 0: a vector, and a norm's weights where it is -1 */
    } rows[] = {{"ln1.weight", EYE_D, -1},
                {"ln1.bias", EYE_D, 0},
                {"ln2.weight", EYE_D, -1},
                {"ln2.bias", EYE_D, 0},
                {"attn_q.weight", EYE_D, EYE_D},
                {"attn_q.bias", EYE_D, 0},
                {"attn_k.weight", EYE_D, EYE_D},
                {"attn_k.bias", EYE_D, 0},
                {"attn_v.weight", EYE_D, EYE_D},
                {"attn_v.bias", EYE_D, 0},
                {"attn_out.weight", EYE_D, EYE_D},
                {"attn_out.bias", EYE_D, 0},
                {"ffn_up.weight", EYE_FF, EYE_D},
                {"ffn_up.bias", EYE_FF, 0},
                {"ffn_down.weight", EYE_D, EYE_FF},
                {"ffn_down.bias", EYE_D, 0},
                {"ffn_gate.weight", EYE_FF, EYE_D},
                {"ffn_gate.bias", EYE_FF, 0},
                {"attn_qkv.weight", 3 * EYE_D, EYE_D},
                {"attn_qkv.bias", 3 * EYE_D, 0}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char name[64];
        bool whole = !strncmp(rows[k].name, "attn_qkv", 8);
        bool part = !whole && !strncmp(rows[k].name, "attn_", 5) && rows[k].name[6] == '.';
        bool norm_bias = !strcmp(rows[k].name, "ln1.bias") || !strcmp(rows[k].name, "ln2.bias");
        if (eye_is(e, "qwen3vl") ? part : whole) continue;
        if (!eye_is(e, "qwen2.5vl") ? !strncmp(rows[k].name, "ffn_gate", 8) : norm_bias) continue;
        snprintf(name, sizeof name, "v.blk.%d.%s", i, rows[k].name);
        if (rows[k].n_col > 0)
            eye_matrix(e, name, rows[k].n_row, rows[k].n_col);
        else
            eye_vector(e, name, rows[k].n_row, rows[k].n_col < 0 ? 1.0 : 0.0);
    }
}

static inline void eye_merger(eye_writer *e, const char *prefix, const char *const names[2],
                              int d_text) {
    enum { LONG = EYE_D * EYE_SQUARE * EYE_SQUARE };
    char name[64];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, names[i]);
        eye_matrix(e, name, i ? d_text : LONG, LONG);
        snprintf(name, sizeof name, "%s.%s.bias", prefix, names[i]);
        eye_vector(e, name, i ? d_text : LONG, 0.0);
    }
}

/* The first layer makes a part of the rows of qwen3vl's. */
static inline void eye_free_tensors(eye_writer *e, int d_text) {
    static const char *const last[] = {"0", "2"}, *const deep[] = {"fc1", "fc2"};
    const uint64_t patch[] = {EYE_PATCH, EYE_PATCH, 3, EYE_D};
    eye_tensor(e, "v.patch_embd.weight", 4, patch, 0.0, 0.3);
    eye_tensor(e, "v.patch_embd.weight.1", 4, patch, 0.0, 0.3);
    if (eye_is(e, "qwen3vl")) {
        eye_vector(e, "v.patch_embd.bias", EYE_D, 0.0);
        eye_matrix(e, "v.position_embd.weight", EYE_N, EYE_D);
        eye_merger(e, "v.deepstack.0", deep, d_text);
        eye_vector(e, "v.deepstack.0.norm.weight", EYE_D * EYE_SQUARE * EYE_SQUARE, 1.0);
        eye_vector(e, "v.deepstack.0.norm.bias", EYE_D * EYE_SQUARE * EYE_SQUARE, 0.0);
    }
    for (int i = 0; i < EYE_LAYERS; i++) eye_layer(e, i);
    eye_vector(e, "v.post_ln.weight", EYE_D, 1.0);
    if (!eye_is(e, "qwen2.5vl")) eye_vector(e, "v.post_ln.bias", EYE_D, 0.0);
    eye_merger(e, "mm", last, d_text);
}

static inline void eye_tensors(eye_writer *e, bool gemma, int d_text) {
    const uint64_t patch[] = {EYE_PATCH, EYE_PATCH, 3, EYE_D};
    e->seed = 7;
    if (eye_is(e, "qwen")) {
        eye_free_tensors(e, d_text);
        return;
    }
    eye_tensor(e, "v.patch_embd.weight", 4, patch, 0.0, 0.3);
    eye_vector(e, "v.patch_embd.bias", EYE_D, 0.0);
    eye_matrix(e, "v.position_embd.weight", EYE_N, EYE_D);
    for (int i = 0; i < EYE_LAYERS; i++) eye_layer(e, i);
    eye_vector(e, "v.post_ln.weight", EYE_D, 1.0);
    eye_vector(e, "v.post_ln.bias", EYE_D, 0.0);
    if (gemma) {
        eye_vector(e, "mm.soft_emb_norm.weight", EYE_D, 1.0);
        eye_tensor(e, "mm.input_projection.weight", 2, (const uint64_t[]){(uint64_t)d_text, EYE_D},
                   0.0, 0.3);
    } else {
        eye_matrix(e, "mm.model.fc.weight", d_text, EYE_D * EYE_MERGE * EYE_MERGE);
    }
}

/* d_text: of the text model. */
static inline void eye_write(const char *path, const char *projector, kt__type type, int d_text) {
    static const float half[] = {0.5f, 0.5f, 0.5f};
    eye_writer e = {.type = type, .projector = projector};
    bool gemma = !strcmp(projector, "gemma3");
    kt_error err;
    die_on(kt__gguf_writer_open(path, &e.w, &err), &err);
    kt__gguf_put_str(e.w, "general.architecture", "clip");
    kt__gguf_put_bool(e.w, "clip.has_vision_encoder", true);
    kt__gguf_put_str(e.w, "clip.projector_type", projector);
    if (!strcmp(projector, "qwen2.5vl_merger")) {
        kt__gguf_put_bool(e.w, "clip.use_silu", true);
        kt__gguf_put_u32(e.w, "clip.vision.n_wa_pattern", 2); /* the first layer sees windows */
        kt__gguf_put_u32(e.w, "clip.vision.window_size", 3 * EYE_SQUARE * EYE_PATCH);
    } else if (strcmp(projector, "qwen2vl_merger") != 0) {
        kt__gguf_put_bool(e.w, "clip.use_gelu", true);
    }
    kt__gguf_put_u32(e.w, "clip.vision.image_min_pixels", 16 * EYE_PATCH * EYE_PATCH);
    kt__gguf_put_u32(e.w, "clip.vision.image_max_pixels", EYE_WIDTH * EYE_HEIGHT);
    kt__gguf_put_u32(e.w, "clip.vision.image_size", EYE_SIDE);
    kt__gguf_put_u32(e.w, "clip.vision.preproc_image_size", 2 * EYE_SIDE);
    kt__gguf_put_u32(e.w, "clip.vision.patch_size", EYE_PATCH);
    kt__gguf_put_u32(e.w, "clip.vision.embedding_length", EYE_D);
    kt__gguf_put_u32(e.w, "clip.vision.feed_forward_length", EYE_FF);
    kt__gguf_put_u32(e.w, "clip.vision.block_count", EYE_LAYERS);
    kt__gguf_put_u32(e.w, "clip.vision.attention.head_count", EYE_HEADS);
    kt__gguf_put_u32(e.w, "clip.vision.projection_dim", (uint32_t)d_text);
    kt__gguf_put_u32(e.w, "clip.vision.projector.scale_factor", EYE_MERGE);
    kt__gguf_put_f32(e.w, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    kt__gguf_put_f32s(e.w, "clip.vision.image_mean", half, 3);
    kt__gguf_put_f32s(e.w, "clip.vision.image_std", half, 3);
    e.declaring = true;
    eye_tensors(&e, gemma, d_text);
    die_on(kt__gguf_finish_header(e.w, &err), &err);
    e.declaring = false;
    eye_tensors(&e, gemma, d_text);
    die_on(kt__gguf_writer_close(e.w, &err), &err);
}

/* ---- a text model's vocabulary: bytes, and the control tokens of both families ---- */

static const char *const eye_controls[] = {
    "<|im_start|>",  "<|im_end|>",       "<image>",        "<fake_token_around_image>",
    "<global-img>",  "<row_1_col_1>",    "<row_1_col_2>",  "<row_2_col_1>",
    "<row_2_col_2>", "<start_of_image>", "<end_of_image>", "<|image_pad|>"};
enum {
    EYE_CONTROLS = sizeof eye_controls / sizeof *eye_controls,
    EYE_VOCAB = 3 + 256 + EYE_CONTROLS
};

/* For `kentang synth --vocab`; the template writes mark where a picture is. */
static inline void eye_write_vocab(const char *path, const char *mark) {
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    static char bytes[256][8];
    char chat[600];
    kt__str tokens[EYE_VOCAB];
    float scores[EYE_VOCAB] = {0};
    int32_t types[EYE_VOCAB];
    kt__gguf_writer *w;
    kt_error err;
    for (int i = 0; i < EYE_VOCAB; i++) {
        const char *s = i < 3 ? first[i] : i >= 259 ? eye_controls[i - 259] : bytes[i - 3];
        if (i >= 3 && i < 259) snprintf(bytes[i - 3], 8, "<0x%02X>", (unsigned)(i - 3) & 255);
        tokens[i] = (kt__str){s, strlen(s)};
        types[i] = i == 0 ? 2 : i < 3 || i >= 259 ? 3 : 6;
    }
    snprintf(
        chat, sizeof chat,
        "{%% for m in messages %%}<|im_start|>{{ m['role'] }}\n{%% if m['content'] is string %%}"
        "{{ m['content'] }}{%% else %%}{%% for p in m['content'] %%}{%% if p['type'] == 'image' %%}"
        "{{ '%s' }}{%% else %%}{{ p['text'] }}{%% endif %%}{%% endfor %%}{%% endif %%}<|im_end|>\n"
        "{%% endfor %%}{%% if add_generation_prompt %%}<|im_start|>assistant\n{%% endif %%}",
        mark);
    die_on(kt__gguf_writer_open(path, &w, &err), &err);
    kt__gguf_put_str(w, "general.architecture", "llama");
    kt__gguf_put_str(w, "tokenizer.ggml.model", "llama");
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, EYE_VOCAB);
    kt__gguf_put_f32s(w, "tokenizer.ggml.scores", scores, EYE_VOCAB);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", types, EYE_VOCAB);
    kt__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    kt__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    kt__gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    kt__gguf_put_str(w, "tokenizer.chat_template", chat);
    die_on(kt__gguf_finish_header(w, &err), &err);
    die_on(kt__gguf_writer_close(w, &err), &err);
}

#endif
