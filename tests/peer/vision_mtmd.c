/* What llama.cpp's mtmd makes of a picture: its encoder's rows, and the logits after a prompt and after its most
 * likely token.
 *   vision_mtmd MODEL MMPROJ PICTURE PROMPT ROWS LOGITS
 * PROMPT has <__media__> where the picture is. ROWS and LOGITS: files of floats, little-endian; rows in the prompt's order. Says what
 * the encoder took, in milliseconds. Links llama.cpp's libraries alone; built by vision.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"
#include "mtmd-helper.h"
#include "mtmd.h"

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fail(const char *what) {
    fprintf(stderr, "vision_mtmd: %s failed\n", what);
    exit(1);
}

static llama_token best_of(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (llama_token)best;
}

int main(int argc, char **argv) {
    if (argc != 7) fail("usage");
    llama_log_set(quiet, NULL);
    mtmd_helper_log_set(quiet, NULL);
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail("loading the model");
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = 8192;
    cp.n_batch = cp.n_ubatch = 2048;
    cp.n_threads = cp.n_threads_batch = 2;
    cp.type_k = cp.type_v = GGML_TYPE_F16;
    struct llama_context *ctx = llama_init_from_model(model, cp);
    struct mtmd_context_params mp = mtmd_context_params_default();
    mp.use_gpu = false;
    mp.print_timings = false;
    mp.n_threads = 2;
    mp.warmup = false;
    if (getenv("NO_FLASH")) mp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    mtmd_context *eye = mtmd_init_from_file(argv[2], model, mp);
    if (!ctx || !eye) fail("opening");
    mtmd_bitmap *bitmap = mtmd_helper_bitmap_init_from_file(eye, argv[3], false,
                                                            mtmd_helper_init_opt_default())
                              .bitmap;
    mtmd_input_text text = {
        .text = argv[4], .text_len = strlen(argv[4]), .add_special = true, .parse_special = true};
    mtmd_input_chunks *chunks = mtmd_input_chunks_init();
    const mtmd_bitmap *bitmaps[] = {bitmap};
    if (!bitmap || mtmd_tokenize(eye, chunks, &text, bitmaps, 1)) fail("the prompt");
    FILE *rows = fopen(argv[5], "wb");
    size_t d = (size_t)llama_model_n_embd_inp(model);
    llama_pos n_past = 0;
    double encode_ms = 0;
    for (size_t i = 0; i < mtmd_input_chunks_size(chunks); i++) {
        const mtmd_input_chunk *chunk = mtmd_input_chunks_get(chunks, i);
        int last = i + 1 == mtmd_input_chunks_size(chunks);
        if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
            size_t n;
            const llama_token *ids = mtmd_input_chunk_get_tokens_text(chunk, &n);
            for (size_t k = 0; k < n; k++) fprintf(stderr, "%d ", ids[k]);
            if (mtmd_helper_eval_chunk_single(eye, ctx, chunk, n_past, 0, 2048, last, &n_past))
                fail("a text");
            continue;
        }
        double begin = now_ms();
        if (mtmd_encode_chunk(eye, chunk)) fail("the encoder");
        encode_ms += now_ms() - begin;
        float *x = mtmd_get_output_embd(eye);
        size_t n = mtmd_input_chunk_get_n_tokens(chunk);
        fprintf(stderr, "[%zu rows] ", n);
        fwrite(x, sizeof *x, n * d, rows);
        if (mtmd_helper_decode_image_chunk(eye, ctx, chunk, x, n_past, 0, 2048, &n_past, NULL,
                                           NULL))
            fail("the picture's rows");
    }
    fclose(rows);
    FILE *logits = fopen(argv[6], "wb");
    size_t n_vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    fwrite(llama_get_logits_ith(ctx, -1), sizeof(float), n_vocab, logits);
    struct llama_batch next = llama_batch_init(1, 0, 1);
    next.n_tokens = next.n_seq_id[0] = next.logits[0] = 1;
    next.token[0] = best_of(llama_get_logits_ith(ctx, -1), n_vocab);
    next.pos[0] = n_past;
    next.seq_id[0][0] = 0;
    if (llama_decode(ctx, next)) fail("a token");
    fwrite(llama_get_logits_ith(ctx, -1), sizeof(float), n_vocab, logits);
    fclose(logits);
    fprintf(stderr, "\n");
    printf("%.0f\n", encode_ms);
    return 0;
}
