/* kentang inspect: what a GGUF file holds, as text or JSON, and which recipe suits this machine.
 * Works on files that the engine refuses. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "measure/limits.h"
#include "model/lora.h"
#include "model/net.h"
#include "term/cli.h"
#include "term/options.h"
#include "term/safe_text.h"

enum { SHOWN_ELEMS = 6, SHOWN_BYTES = 100, JSON_ELEMS = 16, MAX_TYPES = 256, SHOWN_FAULTS = 20 };

struct inspect_opts {
    bool tensors, json;
};

static const kt__opt table[] = {
    {.name = "tensors",
     .kind = KT__OPT_ON,
     .at = offsetof(struct inspect_opts, tensors),
     .help = "list every tensor: type, shape, bytes, place in the file"},
    {.name = "json",
     .kind = KT__OPT_ON,
     .at = offsetof(struct inspect_opts, json),
     .help = "one JSON object instead of text"},
};

/* ---- what is counted ---- */

typedef struct type_sum {
    uint32_t type;
    uint64_t n_tensors, n_elem, bytes;
} type_sum;

typedef struct summary {
    type_sum types[MAX_TYPES];
    size_t n_types;
    uint64_t n_elem, bytes; /* of all tensors */
    uint64_t mtp_bytes;     /* of the block that proposes tokens */
} summary;

static type_sum *sum_of(summary *s, uint32_t type) {
    for (size_t i = 0; i < s->n_types; i++)
        if (s->types[i].type == type) return &s->types[i];
    if (s->n_types == MAX_TYPES) return &s->types[MAX_TYPES - 1];
    s->types[s->n_types] = (type_sum){.type = type};
    return &s->types[s->n_types++];
}

/* The number of a tensor's layer, and where the rest of its name begins; -1: it is of none. */
static int layer_of(kt__str name, const char **rest) {
    char text[32];
    int layer = -1, n = 0;
    snprintf(text, sizeof text, "%.*s", (int)(name.len < 31 ? name.len : 31), name.s);
    bool found = sscanf(text, "blk.%9d.%n", &layer, &n) == 1 && n > 0;
    *rest = name.s + n;
    return found ? layer : -1;
}

static void count_mtp(const kt__gguf *g, summary *s) {
    static const char first[] = "nextn.eh_proj.weight";
    const char *rest;
    int block = -1;
    for (size_t i = 0; i < kt__gguf_n_tensors(g) && block < 0; i++) {
        kt__str name = kt__gguf_tensor_at(g, i)->name;
        int layer = layer_of(name, &rest);
        size_t n = (size_t)(name.s + name.len - rest);
        if (n == sizeof first - 1 && memcmp(rest, first, n) == 0) block = layer;
    }
    for (size_t i = 0; i < kt__gguf_n_tensors(g) && block >= 0; i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        if (layer_of(t->name, &rest) == block) s->mtp_bytes += t->size;
    }
}

static void summarise_file(const kt__gguf *g, summary *s) {
    *s = (summary){0};
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        type_sum *sum = sum_of(s, t->type);
        sum->n_tensors++;
        sum->n_elem += t->n_elem;
        sum->bytes += t->size;
        s->n_elem += t->n_elem;
        s->bytes += t->size;
    }
    for (size_t i = 1; i < s->n_types; i++) { /* most bytes first */
        type_sum moved = s->types[i];
        size_t at = i;
        for (; at > 0 && s->types[at - 1].bytes < moved.bytes; at--)
            s->types[at] = s->types[at - 1];
        s->types[at] = moved;
    }
    count_mtp(g, s);
}

static double bits_per_weight(uint64_t bytes, uint64_t n_elem) {
    return n_elem ? 8.0 * (double)bytes / (double)n_elem : 0.0;
}

/* An optional string key; "" where it is absent or no string. */
static kt__str text_of(const kt__gguf *g, const char *key) {
    kt__str s = {"", 0};
    if (kt__gguf_get_str(g, key, false, &s, NULL) != KT_OK) return (kt__str){"", 0};
    return s;
}

static const char *recipe_of(const kt__gguf *g) {
    uint32_t file_type = UINT32_MAX;
    if (kt__lora_file_is(g)) return kt__gguf_tensor_type_name(kt__gguf_tensor_at(g, 0)->type);
    if (kt__gguf_get_u32(g, "general.file_type", false, &file_type, NULL) != KT_OK)
        return "unknown";
    const char *name = kt__gguf_file_type_name(file_type);
    return name ? name : "unknown";
}

static bool key_starts(const kt__gguf_kv *kv, const char *prefix) {
    size_t len = strlen(prefix);
    return kv->key.len >= len && memcmp(kv->key.s, prefix, len) == 0;
}

/* ---- values ---- */

static void append_element(kt__buf *out, const kt__gguf_kv *kv, uint64_t i, bool json) {
    kt__gguf_type type = kv->elem_type;
    if (type == KT__GGUF_STRING) {
        kt__str s = kv->string_offsets ? kt__gguf_array_str(kv, i) : (kt__str){"", 0};
        if (json) {
            kt__json_string(out, s.s, s.len, KT__JSON_TERMINAL);
        } else {
            kt__buf_putc(out, '"');
            kt__safe_append(out, s.s, s.len, SHOWN_BYTES);
            kt__buf_putc(out, '"');
        }
    } else if (type == KT__GGUF_F32 || type == KT__GGUF_F64) {
        double v = (double)kt__gguf_array_f32(kv, i);
        if (json && !isfinite(v)) {
            kt__buf_puts(out, "null");
        } else {
            kt__buf_printf(out, json ? "%.9g" : "%.6g", v);
        }
    } else if (type == KT__GGUF_BOOL) {
        kt__buf_puts(out, kt__gguf_array_i64(kv, i) ? "true" : "false");
    } else if (type == KT__GGUF_U64) {
        kt__buf_printf(out, "%" PRIu64, (uint64_t)kt__gguf_array_i64(kv, i));
    } else {
        kt__buf_printf(out, "%" PRId64, kt__gguf_array_i64(kv, i));
    }
}

static void append_value(kt__buf *out, const kt__gguf_kv *kv, bool json) {
    if (kv->type == KT__GGUF_STRING) {
        kt__str s = kt__gguf_kv_str(kv);
        if (json) {
            kt__json_string(out, s.s, s.len, KT__JSON_TERMINAL);
        } else {
            kt__safe_append(out, s.s, s.len, SHOWN_BYTES);
        }
        return;
    }
    if (kv->type != KT__GGUF_ARRAY) {
        append_element(out, kv, 0, json);
        return;
    }
    uint64_t shown = json ? JSON_ELEMS : SHOWN_ELEMS;
    kt__buf_putc(out, '[');
    for (uint64_t i = 0; i < kv->count && i < shown; i++) {
        if (i) kt__buf_puts(out, ", ");
        append_element(out, kv, i, json);
    }
    if (!json && kv->count > shown) kt__buf_puts(out, ", ...");
    kt__buf_putc(out, ']');
}

/* ---- text ---- */

static void print_grouped(uint64_t value) {
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) putchar(',');
        putchar(digits[i]);
    }
}

static void print_str(const char *label, kt__str s) {
    printf("%-14s", label);
    kt__safe_print(stdout, s.s, s.len, 200);
    putchar('\n');
}

static kt__str kind_of(const kt__gguf *g) {
    static const char plain[] = "adapter (LoRA)",
                      scoped[] = "adapter (LoRA), for what its corrections are about";
    bool is_scoped = false;
    kt_error ignored;
    if (kt__gguf_get_bool(g, KT__LORA_SCOPED, false, &is_scoped, &ignored) != KT_OK || !is_scoped)
        return (kt__str){plain, sizeof plain - 1};
    return (kt__str){scoped, sizeof scoped - 1};
}

static void print_head(const kt__gguf *g, const summary *s) {
    const char *path = kt__gguf_path(g);
    print_str("file", (kt__str){path, strlen(path)});
    printf("%-14sGGUF v%" PRIu32 ", alignment %" PRIu64, "format", kt__gguf_version(g),
           kt__gguf_alignment(g));
    if (kt__gguf_n_parts(g) > 1) printf(", %d parts", kt__gguf_n_parts(g));
    printf("\n%-14s%.1f MiB (", "size", (double)kt__gguf_file_bytes(g) / (1 << 20));
    print_grouped(kt__gguf_file_bytes(g));
    puts(" bytes)");
    if (kt__lora_file_is(g)) print_str("kind", kind_of(g));
    if (text_of(g, "general.name").len) print_str("name", text_of(g, "general.name"));
    print_str("architecture", text_of(g, "general.architecture"));
    printf("%-14s", "parameters");
    print_grouped(s->n_elem);
    printf(" in %zu tensors\n", kt__gguf_n_tensors(g));
    printf("%-14s%s, %.3f bits/weight\n", "quantisation", recipe_of(g),
           bits_per_weight(s->bytes, s->n_elem));
    if (s->mtp_bytes)
        printf("%-14sa block for multi-token prediction, %.1f MiB\n", "proposes",
               (double)s->mtp_bytes / (1 << 20));
}

static void print_types(const summary *s) {
    if (s->n_types == 0) return;
    printf("\n%-10s %8s %16s %16s %12s %7s\n", "type", "tensors", "weights", "bytes", "bits/weight",
           "share");
    for (size_t i = 0; i < s->n_types; i++) {
        const type_sum *t = &s->types[i];
        const char *name = kt__gguf_tensor_type_name(t->type);
        uint32_t elems, bytes;
        bool known = kt__gguf_tensor_type_layout(t->type, &elems, &bytes);
        printf("%-10s %8" PRIu64 " %16" PRIu64, name, t->n_tensors, t->n_elem);
        if (known) {
            printf(" %16" PRIu64 " %12.4f %6.1f%%\n", t->bytes,
                   bits_per_weight(t->bytes, t->n_elem),
                   s->bytes ? 100.0 * (double)t->bytes / (double)s->bytes : 0.0);
        } else {
            printf(" %16s  (type %" PRIu32 " is not supported)\n", "?", t->type);
        }
    }
}

static void print_kv(const kt__gguf_kv *kv, size_t skip) {
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    kt__safe_append(&buf, kv->key.s + skip, kv->key.len - skip, 160);
    printf("  %-44s ", buf.data ? buf.data : "");
    if (kv->type == KT__GGUF_ARRAY) {
        printf("%s[%" PRIu64 "] ", kt__gguf_type_name(kv->elem_type), kv->count);
    }
    kt__buf_clear(&buf);
    append_value(&buf, kv, false);
    puts(buf.data ? buf.data : "");
    kt__buf_free(&buf);
}

static void print_hyper_parameters(const kt__gguf *g) {
    kt__str arch = text_of(g, "general.architecture");
    char prefix[80];
    if (arch.len == 0 || arch.len > 64) return;
    snprintf(prefix, sizeof prefix, "%.*s.", (int)arch.len, arch.s);
    puts("\nhyper-parameters");
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(g, i);
        if (key_starts(kv, prefix)) print_kv(kv, strlen(prefix));
    }
}

/* "normal 151643, control 14, unused 271" */
static void print_token_types(const kt__gguf_kv *types) {
    static const char *const names[] = {"undefined",    "normal", "unknown", "control",
                                        "user-defined", "unused", "byte"};
    uint64_t counts[KT__COUNT(names)] = {0};
    for (uint64_t i = 0; i < types->count; i++) {
        int64_t type = kt__gguf_array_i64(types, i);
        counts[type >= 0 && type < (int64_t)KT__COUNT(names) ? type : 0]++;
    }
    const char *separator = " (";
    for (size_t i = 0; i < KT__COUNT(names); i++) {
        if (!counts[i]) continue;
        printf("%s%s %" PRIu64, separator, names[i], counts[i]);
        separator = ", ";
    }
    if (types->count) putchar(')');
}

static void print_special(const kt__gguf_kv *tokens, const kt__gguf_kv *kv) {
    size_t skip = strlen("tokenizer.ggml.");
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    kt__safe_append(&buf, kv->key.s + skip, kv->key.len - skip, 160);
    printf("  %-44s ", buf.data ? buf.data : "");
    kt__buf_clear(&buf);
    append_value(&buf, kv, false);
    printf("%s", buf.data ? buf.data : "");
    int64_t id = kt__gguf_array_i64(kv, 0);
    if (tokens && id >= 0 && (uint64_t)id < tokens->count) {
        kt__str text = kt__gguf_array_str(tokens, (uint64_t)id);
        fputs("  ", stdout);
        kt__safe_print(stdout, text.s, text.len, SHOWN_BYTES);
    }
    putchar('\n');
    kt__buf_free(&buf);
}

static void print_tokenizer(const kt__gguf *g) {
    const kt__gguf_kv *tokens = NULL, *types = NULL, *merges = NULL;
    kt__str model = text_of(g, "tokenizer.ggml.model"), pre = text_of(g, "tokenizer.ggml.pre");
    if (kt__gguf_get_array(g, "tokenizer.ggml.tokens", false, KT__GGUF_STRING, &tokens, NULL) !=
            KT_OK ||
        kt__gguf_get_array(g, "tokenizer.ggml.token_type", false, KT__GGUF_I32, &types, NULL) !=
            KT_OK ||
        kt__gguf_get_array(g, "tokenizer.ggml.merges", false, KT__GGUF_STRING, &merges, NULL) !=
            KT_OK ||
        (!model.len && !tokens)) {
        return;
    }
    puts("\ntokenizer");
    printf("  %-44s ", "model");
    kt__safe_print(stdout, model.s, model.len, 60);
    if (pre.len) fputs(" / ", stdout);
    kt__safe_print(stdout, pre.s, pre.len, 60);
    printf("\n  %-44s %" PRIu64, "tokens", tokens ? tokens->count : 0);
    if (types) print_token_types(types);
    putchar('\n');
    if (merges) printf("  %-44s %" PRIu64 "\n", "merges", merges->count);
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(g, i);
        if (!key_starts(kv, "tokenizer.ggml.") || kv->type >= KT__GGUF_STRING) continue;
        if (kt__ends_with(kv->key.s, kv->key.len, "_token_id")) {
            print_special(tokens, kv);
        } else {
            print_kv(kv, strlen("tokenizer.ggml."));
        }
    }
}

static void print_template(const kt__gguf *g) {
    kt__str text = text_of(g, "tokenizer.chat_template");
    if (!text.len) return;
    const char *end = memchr(text.s, '\n', text.len);
    size_t line = end ? (size_t)(end - text.s) : text.len;
    printf("\nchat template (%zu bytes) begins\n  ", text.len);
    kt__safe_print(stdout, text.s, line, SHOWN_BYTES);
    putchar('\n');
}

static void print_metadata(const kt__gguf *g) {
    printf("\nmetadata (%zu keys)\n", kt__gguf_n_kv(g));
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) print_kv(kt__gguf_kv_at(g, i), 0);
}

/* ---- tensors that a model refuses ---- */

/* A file, and its layer program where it has one that kentang computes. */
typedef struct inspected {
    const kt__gguf *g;
    bool has_program;
    kt__hparams hp;
    bool advised;
    kt__advice advice;
} inspected;

/* Why a tensor cannot be used, in text[] where it is not said in the file's own words; or NULL. */
static const char *fault_of(const inspected *f, const kt__gguf_tensor *t, char text[200]) {
    if (t->fault) return t->fault;
    if (!f->has_program || kt__net_has_place(&f->hp, t->name)) return NULL;
    snprintf(text, 200, "tensor %.*s has no place in the %s architecture as kentang computes it",
             (int)(t->name.len < 80 ? t->name.len : 80), t->name.s, f->hp.arch);
    return text;
}

static size_t count_faults(const inspected *f) {
    char text[200];
    size_t n = 0;
    for (size_t i = 0; i < kt__gguf_n_tensors(f->g); i++)
        n += fault_of(f, kt__gguf_tensor_at(f->g, i), text) != NULL;
    return n;
}

static void print_faults(const inspected *f) {
    size_t n = count_faults(f), shown = 0;
    if (!n) return;
    puts("\ntensors that cannot be used");
    for (size_t i = 0; i < kt__gguf_n_tensors(f->g) && shown < SHOWN_FAULTS; i++) {
        char text[200];
        const char *fault = fault_of(f, kt__gguf_tensor_at(f->g, i), text);
        if (!fault) continue;
        fputs("  ", stdout);
        kt__safe_print(stdout, fault, strlen(fault), 0);
        putchar('\n');
        shown++;
    }
    if (n > shown) printf("  and %zu more: `--tensors` marks each\n", n - shown);
}

/* The exit code of a file that was shown, but could not be run. */
static int fail_faults(const kt__gguf *g, size_t n) {
    kt_error err;
    (void)kt__fail_at(&err, KT_E_FORMAT, kt__gguf_path(g), UINT64_MAX,
                      "%zu of %zu tensors cannot be used", n, kt__gguf_n_tensors(g));
    return kt__cli_fail("inspect", &err);
}

static void print_tensors(const inspected *f) {
    const kt__gguf *g = f->g;
    char text[200];
    printf("\n%-40s %-8s %-24s %14s %14s%s\n", "tensor", "type", "shape", "bytes", "at byte",
           kt__gguf_n_parts(g) > 1 ? "  part" : "");
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        char shape[96];
        int n = snprintf(shape, sizeof shape, "%" PRIu64, t->ne[0]);
        for (uint32_t d = 1; d < t->n_dims && n < (int)sizeof shape; d++) {
            n += snprintf(shape + n, sizeof shape - (size_t)n, " x %" PRIu64, t->ne[d]);
        }
        kt__buf name;
        kt__buf_init(&name, SIZE_MAX / 2);
        kt__safe_append(&name, t->name.s, t->name.len, 0);
        printf("%-40s %-8s %-24s %14" PRIu64 " %14" PRIu64, name.data ? name.data : "",
               kt__gguf_tensor_type_name(t->type), shape, t->size, t->file_offset);
        kt__buf_free(&name);
        if (kt__gguf_n_parts(g) > 1) printf("  %d", t->part + 1);
        puts(fault_of(f, t, text) ? "  cannot be used" : "");
    }
}

static void print_file_text(const inspected *f, const struct inspect_opts *opts) {
    const kt__gguf *g = f->g;
    summary s;
    summarise_file(g, &s);
    print_head(g, &s);
    print_types(&s);
    print_faults(f);
    print_hyper_parameters(g);
    print_tokenizer(g);
    print_template(g);
    print_metadata(g);
    if (opts->tensors) print_tensors(f);
}

/* ---- JSON ---- */

static void put_json_text(kt__buf *out, const char *key, kt__str s) {
    kt__buf_printf(out, "\"%s\": ", key);
    kt__json_string(out, s.s, s.len, KT__JSON_TERMINAL);
    kt__buf_puts(out, ", ");
}

static void json_types(kt__buf *out, const summary *s) {
    kt__buf_puts(out, "\"types\": [");
    for (size_t i = 0; i < s->n_types; i++) {
        const type_sum *t = &s->types[i];
        kt__buf_printf(out,
                       "%s{\"type\": \"%s\", \"id\": %" PRIu32 ", \"tensors\": %" PRIu64
                       ", \"weights\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                       i ? ", " : "", kt__gguf_tensor_type_name(t->type), t->type, t->n_tensors,
                       t->n_elem, t->bytes);
    }
    kt__buf_puts(out, "]");
}

/* Arrays: {"type", "count", "first": the first elements}; scalars as they are. */
static void json_metadata(kt__buf *out, const kt__gguf *g) {
    kt__buf_puts(out, "\"metadata\": {");
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(g, i);
        if (i) kt__buf_puts(out, ", ");
        kt__json_string(out, kv->key.s, kv->key.len, KT__JSON_TERMINAL);
        kt__buf_puts(out, ": ");
        if (kv->type == KT__GGUF_ARRAY) {
            kt__buf_printf(out, "{\"type\": \"%s\", \"count\": %" PRIu64 ", \"first\": ",
                           kt__gguf_type_name(kv->elem_type), kv->count);
        }
        append_value(out, kv, true);
        if (kv->type == KT__GGUF_ARRAY) kt__buf_putc(out, '}');
    }
    kt__buf_putc(out, '}');
}

static void json_fault(kt__buf *out, const char *fault) {
    if (!fault) return;
    kt__buf_puts(out, ", \"fault\": ");
    kt__json_string(out, fault, strlen(fault), KT__JSON_TERMINAL);
}

static void json_tensors(kt__buf *out, const inspected *f) {
    const kt__gguf *g = f->g;
    char text[200];
    kt__buf_puts(out, ", \"tensors\": [");
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        kt__buf_puts(out, i ? ", {" : "{");
        put_json_text(out, "name", t->name);
        kt__buf_printf(out, "\"type\": \"%s\", \"shape\": [", kt__gguf_tensor_type_name(t->type));
        for (uint32_t d = 0; d < t->n_dims; d++)
            kt__buf_printf(out, "%s%" PRIu64, d ? ", " : "", t->ne[d]);
        kt__buf_printf(out, "], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"part\": %d",
                       t->size, t->file_offset, t->part + 1);
        json_fault(out, fault_of(f, t, text));
        kt__buf_putc(out, '}');
    }
    kt__buf_putc(out, ']');
}

static void json_advice(kt__buf *out, const kt__advice *advice) {
    json_t *value = kt__advice_json(advice);
    char *text = value ? json_dumps(value, 0) : NULL;
    if (text) kt__buf_printf(out, ", \"advice\": %s", text);
    free(text);
    json_decref(value);
}

static kt_status print_file_json(const inspected *f, const struct inspect_opts *opts,
                                 kt_error *err) {
    const kt__gguf *g = f->g;
    summary s;
    kt__buf out;
    const char *path = kt__gguf_path(g), *recipe = recipe_of(g);
    kt__buf_init(&out, SIZE_MAX / 2);
    summarise_file(g, &s);
    kt__buf_putc(&out, '{');
    put_json_text(&out, "file", (kt__str){path, strlen(path)});
    kt__buf_printf(&out, "\"version\": %" PRIu32 ", \"alignment\": %" PRIu64 ", \"parts\": %d, ",
                   kt__gguf_version(g), kt__gguf_alignment(g), kt__gguf_n_parts(g));
    kt__buf_printf(&out, "\"bytes\": %" PRIu64 ", ", kt__gguf_file_bytes(g));
    put_json_text(&out, "name", text_of(g, "general.name"));
    put_json_text(&out, "architecture", text_of(g, "general.architecture"));
    put_json_text(&out, "quantisation", (kt__str){recipe, strlen(recipe)});
    kt__buf_printf(&out,
                   "\"parameters\": %" PRIu64 ", \"weight_bytes\": %" PRIu64
                   ", \"mtp_bytes\": %" PRIu64 ", \"unusable_tensors\": %zu, ",
                   s.n_elem, s.bytes, s.mtp_bytes, count_faults(f));
    json_types(&out, &s);
    kt__buf_puts(&out, ", ");
    json_metadata(&out, g);
    if (opts->tensors) json_tensors(&out, f);
    if (f->advised) json_advice(&out, &f->advice);
    kt__buf_puts(&out, "}\n");
    kt_status status = out.failed ? kt__fail_nomem(err, "the report", out.len) : KT_OK;
    if (status == KT_OK) fwrite(out.data, 1, out.len, stdout);
    kt__buf_free(&out);
    return status;
}

static int show_file(const kt__gguf *g, const struct inspect_opts *opts) {
    inspected f = {.g = g};
    kt_status status = KT_OK;
    kt_error err;
    f.has_program = kt__hparams_read(g, NULL, &f.hp, NULL) == KT_OK;
    f.advised = f.has_program && !count_faults(&f) &&
                kt__advise_here(kt__gguf_path(g), &f.advice, &err) == KT_OK;
    if (opts->json) {
        status = print_file_json(&f, opts, &err);
    } else {
        print_file_text(&f, opts);
        if (f.advised) kt__advice_print(&f.advice);
    }
    if (status != KT_OK) return kt__cli_fail("inspect", &err);
    size_t n_faults = count_faults(&f);
    return n_faults ? fail_faults(g, n_faults) : 0;
}

int kt__cmd_inspect(int argc, char **argv) {
    struct inspect_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "inspect",
        .usage = "[OPTIONS] MODEL",
        .about = "Shows what a GGUF file (or split set) holds, also one that kentang cannot run.\n"
                 "Tensors that no model could use are marked; the exit code is then 5. Of a model\n"
                 "that kentang runs, it says which recipe suits this machine, and why.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 1,
        .max_words = 1,
        .word = "MODEL"};
    const char *path = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &path, &n_words);
    if (code >= 0) return code;
    const kt__gguf_open_params params = {.use_mmap = true, .tolerant = true};
    kt_error err;
    kt__gguf *g;
    kt_status status = kt__gguf_open(path, &params, &g, &err);
    if (status != KT_OK) return kt__cli_fail("inspect", &err);
    code = show_file(g, &opts);
    kt__gguf_close(g);
    return code;
}
