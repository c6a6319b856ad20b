#include "convert/sentencepiece.h"

#include <string.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A message: its bytes, and where it began in the file for errors. */
typedef struct pb_cursor {
    const uint8_t *data;
    size_t size, at, base;
    const char *path;
    kt_error *err;
} pb_cursor;

typedef struct pb_field {
    uint32_t number;
    int wire;
    uint64_t value; /* of VARINT, 64 and 32 */
    const uint8_t *bytes;
    size_t len;
} pb_field;

static kt_status bad_proto(const pb_cursor *c, const char *what) {
    return kt__fail_at(c->err, KT_E_FORMAT, c->path, c->base + c->at,
                       "%s: it is damaged, or no SentencePiece model", what);
}

static kt_status take_varint(pb_cursor *c, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (c->at == c->size) return bad_proto(c, "a number is cut off");
        uint8_t byte = c->data[c->at++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return KT_OK;
    }
    return bad_proto(c, "a number of over 64 bits");
}

static kt_status take_fixed(pb_cursor *c, size_t n, uint64_t *out) {
    if (c->size - c->at < n) return bad_proto(c, "a number is cut off");
    *out = 0;
    for (size_t i = n; i-- > 0;) *out = *out << 8 | c->data[c->at + i];
    c->at += n;
    return KT_OK;
}

/* The next field; c->at < c->size. */
static kt_status take_field(pb_cursor *c, pb_field *f) {
    uint64_t tag, len;
    *f = (pb_field){0};
    KT__STEP(take_varint(c, &tag));
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return bad_proto(c, "a field without a number");
    f->number = (uint32_t)(tag >> 3);
    f->wire = (int)(tag & 7);
    switch (f->wire) {
    case WIRE_VARINT: return take_varint(c, &f->value);
    case WIRE_64: return take_fixed(c, 8, &f->value);
    case WIRE_32: return take_fixed(c, 4, &f->value);
    case WIRE_BYTES: break;
    default: return bad_proto(c, "a field of unknown form");
    }
    KT__STEP(take_varint(c, &len));
    if (len > c->size - c->at) return bad_proto(c, "a field is longer than the file");
    f->bytes = c->data + c->at;
    f->len = (size_t)len;
    c->at += f->len;
    return KT_OK;
}

static pb_cursor inside_field(const pb_cursor *c, const pb_field *f) {
    pb_cursor inner = *c;
    inner.base = c->base + (size_t)(f->bytes - c->data);
    inner.data = f->bytes;
    inner.size = f->len;
    inner.at = 0;
    return inner;
}

/* SentencePiece { string piece = 1; float score = 2; Type type = 3 } */
static kt_status read_piece(pb_cursor c, kt__sp_piece *piece) {
    pb_field f;
    *piece = (kt__sp_piece){.text = {"", 0}, .type = KT__TOK_NORMAL};
    while (c.at < c.size) {
        KT__STEP(take_field(&c, &f));
        if (f.number == 1 && f.wire == WIRE_BYTES) {
            piece->text = (kt__str){(const char *)f.bytes, f.len};
        } else if (f.number == 2 && f.wire == WIRE_32) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&piece->score, &bits, sizeof bits);
        } else if (f.number == 3 && f.wire == WIRE_VARINT) {
            if (f.value < KT__TOK_NORMAL || f.value > KT__TOK_BYTE)
                return bad_proto(&c, "a piece of unknown type");
            piece->type = (int32_t)f.value;
        }
    }
    if (!(piece->score > -1e30f && piece->score < 1e30f))
        return bad_proto(&c, "a piece's score is not finite");
    if (piece->text.len > KT__TOK_MAX_TOKEN_BYTES) return bad_proto(&c, "a piece is too long");
    return KT_OK;
}

/* TrainerSpec { ModelType model_type = 3 }, NormalizerSpec { bytes precompiled_charsmap = 2;
 * bool add_dummy_prefix = 3; bool remove_extra_whitespaces = 4 } */
static kt_status read_spec(pb_cursor c, bool trainer, kt__sp_model *m) {
    pb_field f;
    while (c.at < c.size) {
        KT__STEP(take_field(&c, &f));
        if (trainer && f.number == 3 && f.wire == WIRE_VARINT)
            m->model_type = (int32_t)(f.value & 0xff);
        else if (!trainer && f.number == 2 && f.wire == WIRE_BYTES)
            m->charsmap = (kt__str){(const char *)f.bytes, f.len};
        else if (!trainer && f.number == 3 && f.wire == WIRE_VARINT)
            m->add_dummy_prefix = f.value != 0;
        else if (!trainer && f.number == 4 && f.wire == WIRE_VARINT)
            m->remove_extra_whitespaces = f.value != 0;
    }
    return KT_OK;
}

/* How many pieces there are: the fields numbered 1. */
enum { MAX_PIECES = 1 << 20 }; /* published ones have up to 902 thousand */

static kt_status count_pieces(pb_cursor c, size_t *n) {
    pb_field f;
    for (*n = 0; c.at < c.size; *n += f.number == 1 && f.wire == WIRE_BYTES)
        KT__STEP(take_field(&c, &f));
    return KT_OK;
}

kt_status kt__sp_parse(const void *data, size_t size, const char *path, kt__arena *arena,
                       kt__sp_model *out, kt_error *err) {
    pb_cursor c = {.data = data, .size = size, .path = path, .err = err};
    pb_field f;
    size_t n;
    *out = (kt__sp_model){
        .model_type = KT__SP_UNIGRAM, .add_dummy_prefix = true, .remove_extra_whitespaces = true};
    KT__STEP(count_pieces(c, &n));
    if (n == 0 || n > MAX_PIECES) return bad_proto(&c, "no pieces, or too many");
    out->pieces = kt__arena_calloc(arena, n, sizeof *out->pieces);
    if (!out->pieces) return kt__fail_nomem(err, "pieces", n * sizeof *out->pieces);
    while (c.at < c.size) {
        KT__STEP(take_field(&c, &f));
        if (f.wire != WIRE_BYTES) continue;
        if (f.number == 1)
            KT__STEP(read_piece(inside_field(&c, &f), &out->pieces[out->n++]));
        else if (f.number == 2 || f.number == 3)
            KT__STEP(read_spec(inside_field(&c, &f), f.number == 2, out));
    }
    return KT_OK;
}
