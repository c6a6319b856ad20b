/* Tokenizer speed on one thread: loading a vocabulary, encoding a text, decoding it again.
 *
 *   build/bench_tokenizer VOCAB.gguf TEXT [runs]
 *
 * Prints medians; MB are 10^6 bytes of text. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tokenizer/tokenizer.h"

enum { MAX_RUNS = 101 };

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(int64_t *us, int n) {
    qsort(us, (size_t)n, sizeof *us, compare);
    return (double)us[n / 2] / 1e3;
}

static char *read_file(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (size >= 0) {
        rewind(f);
        text = kt__malloc((size_t)size);
        *len = text ? fread(text, 1, (size_t)size, f) : 0;
    }
    if (f) fclose(f);
    return text;
}

static kt_status time_load(const char *path, int runs, kt__gguf **gguf, kt__tokenizer **tok,
                           kt_error *err) {
    static int64_t open_us[MAX_RUNS], load_us[MAX_RUNS];
    const kt__gguf_open_params params = {.use_mmap = true, .vocab_only = true};
    for (int i = 0; i < runs; i++) {
        kt__tokenizer_free(*tok);
        kt__gguf_close(*gguf);
        *tok = NULL;
        *gguf = NULL;
        int64_t t0 = kt__now_us();
        kt_status status = kt__gguf_open(path, &params, gguf, err);
        int64_t t1 = kt__now_us();
        if (status == KT_OK) status = kt__tokenizer_load(*gguf, tok, err);
        if (status != KT_OK) return status;
        open_us[i] = t1 - t0;
        load_us[i] = kt__now_us() - t1;
    }
    printf("%s, %d tokens: open %.1f ms, load %.1f ms\n", kt__tokenizer_kind(*tok),
           (int)kt__tokenizer_n_vocab(*tok), median_ms(open_us, runs), median_ms(load_us, runs));
    return KT_OK;
}

static kt_status time_text(const kt__tokenizer *tok, const char *text, size_t len, int runs,
                           kt_error *err) {
    static int64_t encode_us[MAX_RUNS], decode_us[MAX_RUNS];
    kt_status status = KT_OK;
    kt__ids ids;
    kt__buf out;
    kt__ids_init(&ids, SIZE_MAX);
    kt__buf_init(&out, SIZE_MAX / 2);
    for (int i = 0; i < runs && status == KT_OK; i++) {
        ids.len = 0;
        kt__buf_clear(&out);
        int64_t t0 = kt__now_us();
        status = kt__tokenizer_encode(tok, text, len, KT_TOK_PARSE_SPECIAL, &ids, err);
        encode_us[i] = kt__now_us() - t0;
        if (status != KT_OK) break;
        t0 = kt__now_us();
        status = kt__tokenizer_decode(tok, ids.data, ids.len, 0, &out, err);
        decode_us[i] = kt__now_us() - t0;
    }
    if (status == KT_OK) {
        double encode_ms = median_ms(encode_us, runs), decode_ms = median_ms(decode_us, runs);
        printf("%zu bytes, %zu tokens: encode %.1f ms, %.1f MB/s; decode %.1f MB/s\n", len, ids.len,
               encode_ms, (double)len / encode_ms / 1e3, (double)len / decode_ms / 1e3);
    }
    kt__ids_free(&ids);
    kt__buf_free(&out);
    return status;
}

int main(int argc, char **argv) {
    kt__gguf *gguf = NULL;
    kt__tokenizer *tok = NULL;
    kt_error err = {0};
    size_t len = 0;
    int runs = argc > 3 ? atoi(argv[3]) : 11;
    if (argc < 3 || runs < 1 || runs > MAX_RUNS) {
        fprintf(stderr, "usage: bench_tokenizer VOCAB.gguf TEXT [runs, at most %d]\n", MAX_RUNS);
        return 2;
    }
    char *text = read_file(argv[2], &len);
    if (!text) {
        fprintf(stderr, "bench_tokenizer: cannot read %s\n", argv[2]);
        return 1;
    }
    kt_status status = time_load(argv[1], runs, &gguf, &tok, &err);
    if (status == KT_OK) status = time_text(tok, text, len, runs, &err);
    if (status != KT_OK) fprintf(stderr, "bench_tokenizer: %s\n", err.message);
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
    kt__free(text);
    return status == KT_OK ? 0 : 1;
}
