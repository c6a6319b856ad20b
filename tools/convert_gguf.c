/* Writes a copy of a GGUF file with its matrices in another type. To F32 every tensor is decoded by
 * its format's definition: what an engine that evaluates the copy in f32 computes is the yardstick
 * for the error of its quantised path. To another type, tensors of two and more dimensions are
 * encoded where the row length allows; the rest becomes F32. No importance matrix, no mixing of
 * types: a tool for measurements.
 *
 *   convert_gguf IN.gguf OUT.gguf TYPE      (f32, q4_k, ...) */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

/* Keys that describe how the source is stored, not what it is. */
static bool describes_storage(kt__str key) {
    static const char *const keys[] = {"general.file_type", "general.quantization_version",
                                       "split.no", "split.count", "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (key.len == strlen(keys[i]) && memcmp(key.s, keys[i], key.len) == 0) return true;
    }
    return false;
}

/* The recipe's number in general.file_type, where a file of this one type has one. */
static uint32_t file_type_of(kt__type type) {
    switch (type) {
    case KT__TYPE_F32: return 0;
    case KT__TYPE_F16: return 1;
    case KT__TYPE_Q4_0: return 2;
    case KT__TYPE_Q4_1: return 3;
    case KT__TYPE_Q8_0: return 7;
    case KT__TYPE_Q5_0: return 8;
    case KT__TYPE_Q5_1: return 9;
    case KT__TYPE_Q2_K: return 10;
    case KT__TYPE_Q3_K: return 11;
    case KT__TYPE_Q4_K: return 14;
    case KT__TYPE_Q5_K: return 16;
    case KT__TYPE_Q6_K: return 18;
    case KT__TYPE_IQ4_NL: return 25;
    case KT__TYPE_IQ4_XS: return 30;
    case KT__TYPE_BF16: return 32;
    default: return 0;
    }
}

static void copy_metadata(const kt__gguf *in, kt__gguf_writer *out, kt__type wanted) {
    for (size_t i = 0; i < kt__gguf_n_kv(in); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(in, i);
        if (!describes_storage(kv->key)) kt__gguf_put_kv(out, kv);
    }
    kt__gguf_put_u32(out, "general.file_type", file_type_of(wanted));
}

static kt__type type_for(const kt__gguf_tensor *tensor, kt__type wanted) {
    uint64_t block = (uint64_t)kt__type_get(wanted)->block_elems;
    return tensor->n_dims >= 2 && tensor->ne[0] % block == 0 ? wanted : KT__TYPE_F32;
}

static void declare_tensors(const kt__gguf *in, kt__gguf_writer *out, kt__type wanted) {
    for (size_t i = 0; i < kt__gguf_n_tensors(in); i++) {
        const kt__gguf_tensor *tensor = kt__gguf_tensor_at(in, i);
        uint32_t id = kt__type_get(type_for(tensor, wanted))->ggml_id;
        kt__gguf_declare_tensor(out, tensor->name.s, id, tensor->n_dims, tensor->ne);
    }
}

/* Row by row, so that memory stays small. */
static kt_status write_rows(const kt__gguf_tensor *tensor, kt__type from, kt__type to,
                            kt__gguf_writer *out, kt_error *err) {
    int64_t n_col = (int64_t)tensor->ne[0];
    size_t from_bytes = kt__type_row_bytes(from, n_col), to_bytes = kt__type_row_bytes(to, n_col);
    uint64_t n_row = n_col ? tensor->n_elem / tensor->ne[0] : 0;
    kt_status status = KT_OK;
    float *row = kt__malloc((size_t)n_col * sizeof *row);
    uint8_t *encoded = kt__malloc(to_bytes);
    if (!row || !encoded) status = kt__fail_nomem(err, "a row", (size_t)n_col * sizeof *row);
    for (uint64_t r = 0; r < n_row && status == KT_OK; r++) {
        kt__dequantize_row(from, tensor->data + r * from_bytes, n_col, row);
        kt__quantize_row(to, row, n_col, encoded);
        status = kt__gguf_write_data(out, encoded, to_bytes, err);
    }
    kt__free(row);
    kt__free(encoded);
    return status;
}

/* A tensor that keeps its type keeps its bytes. */
static kt_status write_tensor(const kt__gguf_tensor *tensor, kt__type wanted, kt__gguf_writer *out,
                              kt_error *err) {
    kt__type from = kt__type_from_ggml(tensor->type), to = type_for(tensor, wanted);
    if (from == KT__TYPE_COUNT || !tensor->data) {
        return kt__fail_at(err, KT_E_UNSUPPORTED, tensor->name.s, tensor->file_offset,
                           "tensor type %u is not one we decode", (unsigned)tensor->type);
    }
    if (from == to) return kt__gguf_write_data(out, tensor->data, (size_t)tensor->size, err);
    return write_rows(tensor, from, to, out, err);
}

static kt_status convert(const char *in_path, const char *out_path, kt__type wanted,
                         kt_error *err) {
    kt__gguf *in = NULL;
    kt__gguf_writer *out = NULL;
    kt__gguf_open_params params = {.use_mmap = true};
    kt_status status;
    KT__TRY(kt__gguf_open(in_path, &params, &in, err));
    KT__TRY(kt__gguf_writer_open(out_path, &out, err));
    copy_metadata(in, out, wanted);
    declare_tensors(in, out, wanted);
    KT__TRY(kt__gguf_finish_header(out, err));
    for (size_t i = 0; i < kt__gguf_n_tensors(in); i++) {
        KT__TRY(write_tensor(kt__gguf_tensor_at(in, i), wanted, out, err));
    }
    status = kt__gguf_writer_close(out, err);
    out = NULL;
out:
    if (out) kt__gguf_writer_abort(out);
    kt__gguf_close(in);
    return status;
}

int main(int argc, char **argv) {
    kt__type type = argc == 4 ? kt__type_from_name(argv[3]) : KT__TYPE_COUNT;
    if (type == KT__TYPE_COUNT) {
        fprintf(stderr, "usage: convert_gguf IN.gguf OUT.gguf TYPE   (f32, q4_k, ...)\n");
        return 2;
    }
    kt_error err;
    kt_status status = convert(argv[1], argv[2], type, &err);
    if (status != KT_OK) fprintf(stderr, "convert_gguf: %s: %s\n", err.where, err.message);
    return kt_status_exit_code(status);
}
