/* libFuzzer: the head of a small model's file with bytes changed, bound to a layer program. The first byte
 * names the model; then a change takes three: where, in two, and what. What is bound has tensors within the
 * file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/damaged_models.h"
#include "base/alloc.h"
#include "model/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Besides those of test_engine_corrupt: one that answers nothing itself, and blocks for multi-token prediction. */
static const fixture_spec more[] = {
    {.arch = "gemma4-assistant",
     .n_layer = 4,
     .d_model = 32,
     .d_ff = 32,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .local_head_kv = 1,
     .local_head_dim = 16,
     .n_kv_shared = 4,
     .n_pattern = 4,
     .n_vocab = 20,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 16,
     .d_host = 64},
    {.arch = "qwen3next",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 32,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_vocab = 20,
     .qk_norm = true,
     .conv_width = 2,
     .attention_every = 2,
     .n_state_key = 2,
     .n_state_value = 4,
     .state_dim = 16,
     .delta_grouped = true,
     .n_expert = 3,
     .n_used = 2,
     .ff_expert = 16,
     .ff_shared = 16,
     .n_mtp = 1},
    {.arch = "deepseek2",
     .n_layer = 2,
     .d_model = 32,
     .d_ff = 32,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_rot = 4,
     .kv_rank = 24,
     .head_dim_v = 20,
     .q_rank = 24,
     .n_vocab = 20,
     .n_expert = 4,
     .n_used = 2,
     .ff_expert = 16,
     .ff_shared = 16,
     .shared_whole = true,
     .gating = 2,
     .pick_bias = true,
     .shares_normed = true,
     .n_group = 2,
     .n_group_used = 1,
     .n_mtp = 1,
     .mtp_ends = true},
};

enum {
    N_SPECS = sizeof specs / sizeof *specs,
    N_MODELS = N_SPECS + sizeof more / sizeof *more,
    MAX_FILE = 1 << 20
};

static struct model_file {
    uint8_t *bytes;
    size_t size;
} files[N_MODELS];

static volatile unsigned sink;

static void read_file(const char *path, struct model_file *out) {
    FILE *f = fopen(path, "rb");
    out->bytes = aligned_alloc(64, MAX_FILE);
    if (!f || !out->bytes) abort();
    out->size = fread(out->bytes, 1, MAX_FILE, f);
    fclose(f);
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    char path[64];
    kt_error err;
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "/tmp/kentang-fuzz-bind-%d.gguf", (int)getpid());
    for (int i = 0; i < N_MODELS; i++) {
        const fixture_spec *spec = i < N_SPECS ? &specs[i] : &more[i - N_SPECS];
        if (fixture_write(spec, path, &err) != KT_OK) abort();
        read_file(path, &files[i]);
    }
    return 0;
}

static void touch_weight(const kt__weight *w, int64_t n_in) {
    size_t n = w->row_bytes * (size_t)w->n_row * (size_t)n_in;
    if (w->data) sink += w->data[0] + w->data[n - 1];
}

static void touch(const kt__net *net) {
    for (int i = 0; i < net->hp.n_layer + (net->mtp != NULL); i++) {
        for (int slot = 0; slot < KT__SLOT_COUNT; slot++) {
            kt__slot_shape s;
            const kt__bound *t = &net->layers[i].t[slot];
            if (!kt__slot_shape_of(&net->hp, i, (kt__slot)slot, &s)) continue;
            touch_weight(&t->w, s.n_in);
            if (t->v) sink += t->v[0] < t->v[s.n_rows * s.n_cols - 1];
        }
    }
    touch_weight(&net->embed, 1);
    touch_weight(&net->head, 1);
    touch_weight(&net->host_in, 1);
    touch_weight(&net->host_out, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(64) uint8_t copy[MAX_FILE];
    kt__gguf *gguf = NULL;
    kt__net *net = NULL;
    kt_error err;
    if (size < 1) return 0;
    const struct model_file *file = &files[data[0] % N_MODELS];
    memcpy(copy, file->bytes, file->size);
    for (size_t at = 1; at + 3 <= size; at += 3)
        copy[((size_t)data[at] | (size_t)data[at + 1] << 8) % file->size] = data[at + 2];
    if (kt__gguf_open_memory(copy, file->size, false, &gguf, &err) == KT_OK &&
        kt__net_bind(gguf, NULL, &net, &err) == KT_OK)
        touch(net);
    kt__net_free(net);
    kt__gguf_close(gguf);
    return 0;
}
