/* Arbitrary sampler arguments, logits and stop strings: every outcome is a token in range or a
 * named error. */
#include <kentang.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample/sample.h"
#include "sample/stops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static void take(input *in, void *out, size_t size) {
    size_t n = size < in->size ? size : in->size;
    memset(out, 0, size);
    if (n) memcpy(out, in->data, n);
    in->data += n;
    in->size -= n;
}

static uint8_t take_byte(input *in) {
    uint8_t b;
    take(in, &b, 1);
    return b;
}

/* Mostly a value in the range that is accepted, now and then any bits. */
static void maybe_float(input *in, float *out, float scale) {
    uint8_t b = take_byte(in);
    if (b < 128) return;
    if (b < 250) {
        *out = scale * (float)take_byte(in) / 255.0f;
    } else {
        take(in, out, sizeof *out);
    }
}

static void maybe_int(input *in, int32_t *out) {
    uint8_t b = take_byte(in);
    if (b >= 250) {
        take(in, out, sizeof *out);
    } else if (b >= 128) {
        *out = (int8_t)take_byte(in);
    }
}

/* A short NUL-terminated string. */
static void take_string(input *in, char *out, size_t max) {
    size_t len = take_byte(in) % max;
    take(in, out, len);
    out[len] = '\0';
}

static kt_sampling take_params(input *in) {
    kt_sampling p = kt_sampling_default();
    p.seed = take_byte(in);
    maybe_float(in, &p.temperature, 3);
    maybe_float(in, &p.dynatemp_range, 1);
    maybe_float(in, &p.dynatemp_exponent, 3);
    maybe_int(in, &p.top_k);
    maybe_float(in, &p.top_p, 1);
    maybe_float(in, &p.min_p, 1);
    maybe_float(in, &p.typical_p, 1);
    maybe_float(in, &p.top_n_sigma, 3);
    maybe_float(in, &p.xtc_probability, 1);
    maybe_float(in, &p.xtc_threshold, 1);
    maybe_int(in, &p.repeat_last_n);
    maybe_float(in, &p.repeat_penalty, 2);
    maybe_float(in, &p.frequency_penalty, 2);
    maybe_float(in, &p.presence_penalty, 2);
    maybe_float(in, &p.dry_multiplier, 2);
    maybe_float(in, &p.dry_base, 3);
    maybe_int(in, &p.dry_allowed_length);
    maybe_int(in, &p.dry_penalty_last_n);
    if (take_byte(in) >= 160) p.mirostat = 1 + take_byte(in) % 2;
    maybe_float(in, &p.mirostat_tau, 10);
    maybe_float(in, &p.mirostat_eta, 1);
    maybe_int(in, &p.min_keep);
    return p;
}

static const char *bytes_of(void *ctx, int32_t id, size_t *len) {
    const char *text = ctx;
    *len = (size_t)id % 4;
    return text + id % 8;
}

static void take_logits(input *in, float *logits, int n) {
    uint8_t kind = take_byte(in);
    for (int i = 0; i < n; i++) {
        if (kind >= 200) {
            take(in, &logits[i], sizeof logits[i]);
        } else if (kind >= 100) {
            uint8_t b = take_byte(in);
            logits[i] = b == 255 ? -INFINITY : (float)b / 8.0f;
        } else {
            logits[i] = (float)((unsigned)i * 2654435761u % 1000u) / (float)(kind + 1);
        }
    }
}

static void use(kt__sampler *s, input *in, float *logits, int n) {
    for (uint64_t step = 0; step < 40 && in->size; step++) {
        int32_t id;
        uint8_t what = take_byte(in);
        if (what < 60) take_logits(in, logits, n);
        for (uint8_t i = 0; i < what % 16; i++) kt__sampler_accept(s, (int8_t)take_byte(in));
        if (kt__sampler_sample(s, logits, step, &id, NULL) != KT_OK) continue;
        if (id < 0 || id >= n || !(logits[id] > -INFINITY)) abort();
        kt__sampler_accept(s, id);
    }
}

static void use_stops(input *in) {
    char text[4][16];
    const char *stops[4] = {text[0], text[1], text[2], text[3]};
    size_t n = take_byte(in) % 5, total = 0, out = 0;
    for (size_t i = 0; i < n; i++) take_string(in, text[i], sizeof text[i]);
    kt__stops *s;
    if (kt__stops_create(stops, n, &s, NULL) != KT_OK) return;
    while (in->size) {
        char piece[16];
        take_string(in, piece, sizeof piece);
        kt__stops_text t = kt__stops_push(s, piece, strlen(piece));
        total += strlen(piece);
        out += t.len[0] + t.len[1];
        if (t.stop >= 0) break;
        if (out > total) abort();
    }
    (void)kt__stops_flush(s);
    kt__stops_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static float logits[5000];
    input in = {data, size};
    char chain[64], breaker[2][8], text[] = "ab\ncd:\"*efg";
    const char *breakers[2] = {breaker[0], breaker[1]};
    uint8_t flags = take_byte(&in);
    int n = flags & 1 ? 1 + take_byte(&in) : flags & 2 ? 5000 : 300;
    kt_sampling p = take_params(&in);
    kt_logit_bias bias[2];
    take_string(&in, chain, sizeof chain);
    take_string(&in, breaker[0], sizeof breaker[0]);
    take_string(&in, breaker[1], sizeof breaker[1]);
    take(&in, bias, sizeof bias);
    if (flags & 4) p.chain = chain;
    if (flags & 8) p.dry_breakers = breakers, p.n_dry_breakers = 2;
    if (flags & 16) p.logit_bias = bias, p.n_logit_bias = 1 + (flags >> 7);
    kt__sampler_vocab vocab = {bytes_of, text};
    kt__sampler_setup setup = {.n_vocab = n, .n_ctx = 1 + take_byte(&in) % 64, .vocab = &vocab};
    take_logits(&in, logits, n);
    kt__sampler *s;
    if (kt__sampler_create(&p, &setup, &s, NULL) == KT_OK) {
        use(s, &in, logits, n);
        kt__sampler_free(s);
    }
    in = (input){data, size};
    use_stops(&in);
    return 0;
}
