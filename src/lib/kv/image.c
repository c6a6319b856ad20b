#include "kv/image.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"

static bool is_known(const uint8_t *hash, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) any |= hash[i];
    return any != 0;
}

bool kt__field_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n) {
    return is_known(a, n) && is_known(b, n) && memcmp(a, b, n) != 0;
}

bool kt__field_has_digest(const uint8_t in[32], kt__digest digest) {
    uint8_t bytes[32];
    kt__digest_bytes(digest, bytes);
    return memcmp(in, bytes, sizeof bytes) == 0;
}

enum {
    HEADER_BYTES = 512,
    VERSION = 1,
    VERSION_OF_TAILS = 2, /* their f16 pages and zeros: 1 was other bytes before 2026-11-24 */
    VERSION_OF_WINDOWS = 3,
    BYTE_ORDER_MARK = 0x01020304,
    PAGE_ALIGN = 4096,
    SEED = 0x53455353 /* of the digests */
};
static const char magic[16] = "kentang session";

/* where things lie in the header */
enum {
    AT_VERSION = 16,
    AT_ORDER = 20,
    AT_HEADER_BYTES = 24,
    AT_ELEM_BYTES = 28,
    AT_BINDING = 32,
    AT_SHAPE = AT_BINDING + KT__KV_IMAGE_BINDING, /* 4 x 2 x u16 */
    AT_PAGE_POS = AT_SHAPE + 16,
    AT_N_POS = AT_PAGE_POS + 8,
    AT_N_LOGITS = AT_N_POS + 8,
    AT_FILE_BYTES = AT_N_LOGITS + 8,
    AT_SECTIONS = AT_FILE_BYTES + 8, /* 3 x (offset, bytes, digest) */
    SECTION_BYTES = 48,
    AT_FULL_HASH = AT_SECTIONS + 3 * SECTION_BYTES, /* zeros in files of before there was one */
    /* 2 x u32: of keys and, from bit 8 on, the pages of the tail; of values and, at bit 8, whether
     * layers with a window have all that a query after the last position reads */
    AT_FORMS = AT_FULL_HASH + KT__KV_IMAGE_HASH,
    FORM_BITS = 8,
    AT_F16_COPIES = AT_FORMS + 8,                 /* a section, of quantised pages only */
    AT_STATE = AT_F16_COPIES + SECTION_BYTES - 8, /* a section without an offset, at + 8 */
    AT_DIGEST = HEADER_BYTES - 32
};

typedef enum section_kind { TOKENS, LOGITS, PAGES, F16_COPIES, STATE, N_SECTIONS } section_kind;
static const char *const section_names[] = {"tokens", "logits", "pages", "last positions",
                                            "states"};
static const int section_at[] = {AT_SECTIONS, AT_SECTIONS + SECTION_BYTES,
                                 AT_SECTIONS + 2 * SECTION_BYTES, AT_F16_COPIES, AT_STATE};
_Static_assert(AT_SECTIONS + F16_COPIES * SECTION_BYTES <= AT_FULL_HASH, "header");
_Static_assert(AT_STATE + SECTION_BYTES <= AT_DIGEST, "header");

typedef struct section {
    uint64_t offset, bytes;
    kt__digest digest;
} section;

typedef struct layout {
    section sections[N_SECTIONS];
    uint64_t file_bytes;
} layout;

struct kt__kv_image_file {
    int fd;
    char *path;
    kt__kv_image info;
    kt__kv_shape shape;
    layout layout;
    bool has_window;
};

static uint64_t version_of(const kt__kv_shape *shape) {
    if (kt__kv_has_local_parts(shape)) return VERSION_OF_WINDOWS;
    return kt__kv_reads_f16_ends(shape) ? VERSION_OF_TAILS : VERSION;
}

static uint64_t n_pages_of(int64_t n_pos) {
    return ((uint64_t)n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS;
}

/* What a file may have or not. */
typedef struct extras {
    bool f16; /* the last pages' f16 copies */
    bool state;
    bool window; /* takes no room of its own */
} extras;

/* What sizes make of a file; false where they overflow. */
static bool lay_out(const kt__kv_shape *shape, int64_t n_pos, int64_t n_logits, extras has,
                    layout *out) {
    uint64_t pages, end;
    *out = (layout){0};
    if (n_pos < 1 || n_pos > (int64_t)1 << 40 || n_logits < 0 || n_logits > (int64_t)1 << 40)
        return false;
    if (__builtin_mul_overflow(n_pages_of(n_pos), kt__kv_block_bytes(shape), &pages)) return false;
    section *s = out->sections;
    s[TOKENS] = (section){.offset = HEADER_BYTES, .bytes = 4 * (uint64_t)n_pos};
    s[LOGITS].offset = s[TOKENS].offset + s[TOKENS].bytes;
    s[LOGITS].bytes = 4 * (uint64_t)n_logits;
    end = s[LOGITS].offset + s[LOGITS].bytes;
    s[PAGES].offset = (end + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
    s[PAGES].bytes = pages;
    if (__builtin_add_overflow(s[PAGES].offset, pages, &end)) return false;
    if (has.f16)
        s[F16_COPIES] = (section){.offset = end,
                                  .bytes = (uint64_t)kt__kv_n_end_pages(shape, n_pos) *
                                           kt__kv_f16_copy_bytes(shape)};
    if (__builtin_add_overflow(end, s[F16_COPIES].bytes, &end)) return false;
    if (has.state) s[STATE] = (section){.offset = end, .bytes = shape->state_bytes};
    return !__builtin_add_overflow(end, s[STATE].bytes, &out->file_bytes) &&
           out->file_bytes <= INT64_MAX;
}

/* K of a head, f16, after its first n_used positions; returns where it ends. */
static kt__f16 *clear_k(kt__f16 *at, int head_dim, int n_used) {
    size_t unused = (size_t)(KT__PAGE_POS - n_used);
    for (int d = 0; d < head_dim; d++, at += KT__PAGE_POS)
        memset(at + n_used, 0, unused * sizeof *at);
    return at;
}

static kt__f16 *clear_v(kt__f16 *at, int head_dim, int n_used) {
    size_t unused = (size_t)(KT__PAGE_POS - n_used);
    memset(at + n_used * head_dim, 0, unused * (size_t)head_dim * sizeof *at);
    return at + KT__PAGE_POS * head_dim;
}

static uint8_t *clear_quantised(uint8_t *at, size_t bytes) {
    memset(at, 0, bytes);
    return at + bytes;
}

/* One head's keys and values of a block; returns where they end. */
static uint8_t *clear_head(const kt__kv_shape *s, int layer, uint8_t *at, int n_used) {
    kt__kv_form k_form = kt__kv_k_form(s, layer);
    kt__kv_heads heads = kt__kv_heads_of(s, layer);
    at = k_form == KT__KV_F16 ? (uint8_t *)clear_k((kt__f16 *)(void *)at, heads.dim_k, n_used)
                              : clear_quantised(at, kt__quantised_k_bytes(k_form, heads.dim_k));
    if (s->v_form == KT__KV_F16)
        return (uint8_t *)clear_v((kt__f16 *)(void *)at, heads.dim_v, n_used);
    return clear_quantised(at, kt__quantised_v_bytes(s->v_form, heads.dim_v));
}

void kt__kv_block_clear_tail(const kt__kv_shape *s, void *block, int n_used) {
    uint8_t *at = block;
    for (int layer = 0; layer < s->n_layer; layer++)
        for (int i = 0; i < kt__kv_heads_of(s, layer).n; i++) at = clear_head(s, layer, at, n_used);
}

static void clear_f16_tail(const kt__kv_shape *s, void *f16, int n_used) {
    kt__f16 *at = f16;
    for (int layer = 0; layer < s->n_layer; layer++) {
        kt__kv_heads heads = kt__kv_heads_of(s, layer);
        for (int i = 0; i < heads.n; i++) {
            if (kt__kv_k_form(s, layer) != KT__KV_F16) at = clear_k(at, heads.dim_k, n_used);
            if (s->v_form != KT__KV_F16) at = clear_v(at, heads.dim_v, n_used);
        }
    }
}

/* ---- writing ---- */

enum { N_DIMS = 8 };

/* Of the layers, then of those among them with other heads. */
static void dims_of(const kt__kv_shape *s, uint64_t dims[N_DIMS]) {
    uint64_t n_other = 0;
    for (int i = 0; i < s->n_layer; i++) n_other += kt__kv_has_others(s, i);
    const int all[N_DIMS] = {s->n_layer,    (int)n_other,   s->n_head_kv,  s->other.n,
                             s->head_dim_k, s->other.dim_k, s->head_dim_v, s->other.dim_v};
    for (int i = 0; i < N_DIMS; i++) dims[i] = (uint64_t)all[i];
}

static void encode_header(const kt__kv_shape *shape, const kt__kv_image *image, const layout *l,
                          bool has_window, uint8_t out[HEADER_BYTES]) {
    uint64_t dims[N_DIMS];
    dims_of(shape, dims);
    memset(out, 0, HEADER_BYTES);
    memcpy(out, magic, sizeof magic);
    kt__le_put(out + AT_VERSION, version_of(shape), 4);
    kt__le_put(out + AT_ORDER, BYTE_ORDER_MARK, 4);
    kt__le_put(out + AT_HEADER_BYTES, HEADER_BYTES, 4);
    kt__le_put(out + AT_ELEM_BYTES, sizeof(kt__f16), 4);
    memcpy(out + AT_BINDING, image->binding, sizeof image->binding);
    for (int i = 0; i < N_DIMS; i++) kt__le_put(out + AT_SHAPE + 2 * i, dims[i], 2);
    kt__le_put(out + AT_PAGE_POS, KT__PAGE_POS, 8);
    kt__le_put(out + AT_N_POS, (uint64_t)image->n_pos, 8);
    kt__le_put(out + AT_N_LOGITS, (uint64_t)image->n_logits, 8);
    kt__le_put(out + AT_FILE_BYTES, l->file_bytes, 8);
    for (int i = 0; i < N_SECTIONS; i++) {
        uint8_t *at = out + section_at[i];
        if (i == F16_COPIES && !kt__kv_is_quantised(shape)) continue;
        if (i == STATE && !shape->state_bytes) continue;
        if (i != STATE) kt__le_put(at, l->sections[i].offset, 8);
        kt__le_put(at + 8, l->sections[i].bytes, 8);
        kt__digest_bytes(l->sections[i].digest, at + 16);
    }
    memcpy(out + AT_FULL_HASH, image->full_hash, sizeof image->full_hash);
    kt__le_put(out + AT_FORMS, (uint64_t)shape->k_form | (uint64_t)shape->n_tail << FORM_BITS, 4);
    kt__le_put(out + AT_FORMS + 4, (uint64_t)shape->v_form | (uint64_t)has_window << FORM_BITS, 4);
    kt__digest_bytes(kt__hash_bytes(SEED, out, AT_DIGEST), out + AT_DIGEST);
}

static bool has_window(const kt__kv_image *image, const kt__kv *kv, const kt__kv_table *table) {
    return kt__kv_has_local_parts(kt__kv_get_shape(kv)) &&
           kt__kv_table_holds_window(kv, table, image->n_pos);
}

static bool write_pages(int fd, const kt__kv_image *image, const kt__kv *kv,
                        const kt__kv_table *table, void *block, layout *l) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    size_t bytes = kt__kv_block_bytes(shape);
    uint64_t n = n_pages_of(image->n_pos);
    /* before the window, which the table holds if it is there, others may write */
    uint64_t from = (uint64_t)kt__kv_window_from(shape, image->n_pos);
    if (!has_window(image, kv, table)) from = n;
    kt__hash h;
    kt__hash_init(&h, SEED + PAGES);
    for (uint64_t i = 0; i < n; i++) {
        int used = i + 1 < n ? KT__PAGE_POS : (int)(image->n_pos - (int64_t)(i * KT__PAGE_POS));
        if (i < from && i < (uint64_t)table->n_pages) {
            kt__kv_block_read_global(kv, table->pages[i], block);
        } else if (i < (uint64_t)table->n_pages) {
            kt__kv_block_read(kv, table->pages[i], block);
        } else {
            memset(block, 0, bytes); /* a last page that is computed again */
        }
        if (used < KT__PAGE_POS) kt__kv_block_clear_tail(shape, block, used);
        kt__hash_add(&h, block, bytes);
        if (!kt__fd_write_at(fd, block, bytes, l->sections[PAGES].offset + i * bytes)) return false;
    }
    l->sections[PAGES].digest = kt__hash_end(&h);
    return true;
}

/* Whether there are f16 copies to be saved. */
static bool has_f16(const kt__kv_image *image, const kt__kv *kv, const kt__kv_table *table) {
    return kt__kv_is_quantised(kt__kv_get_shape(kv)) &&
           kt__kv_n_end_pages(kt__kv_get_shape(kv), image->n_pos) > 0 &&
           kt__kv_table_holds_end(kv, table, image->n_pos);
}

static bool write_f16(int fd, const kt__kv_image *image, const kt__kv *kv,
                      const kt__kv_table *table, void *f16, layout *l) {
    section *s = &l->sections[F16_COPIES];
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    size_t bytes = kt__kv_f16_copy_bytes(shape);
    kt__hash h;
    if (!s->bytes) return true;
    kt__hash_init(&h, SEED + F16_COPIES);
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, image->n_pos); i++) {
        int32_t index = kt__kv_end_page(shape, image->n_pos, i);
        int64_t used = image->n_pos - (int64_t)index * KT__PAGE_POS;
        kt__kv_f16_copy_read(kv, table->pages[index], f16);
        if (used < KT__PAGE_POS) clear_f16_tail(shape, f16, (int)used);
        kt__hash_add(&h, f16, bytes);
        if (!kt__fd_write_at(fd, f16, bytes, s->offset + (uint64_t)i * bytes)) return false;
    }
    s->digest = kt__hash_end(&h);
    return true;
}

static bool has_state(const kt__kv_image *image, const kt__kv_table *table) {
    return table->state != KT__NO_STATE && table->n_state == image->n_pos;
}

static bool write_state(int fd, const kt__kv *kv, const kt__kv_table *table, layout *l) {
    section *s = &l->sections[STATE];
    if (!s->bytes) return true;
    const float *state = kt__kv_state_data(kv, table->state);
    s->digest = kt__hash_bytes(SEED + STATE, state, (size_t)s->bytes);
    return kt__fd_write_at(fd, state, (size_t)s->bytes, s->offset);
}

/* The header comes last: it says what the rest has to be. */
static bool write_file(int fd, const kt__kv_image *image, const int32_t *ids, const float *logits,
                       const kt__kv *kv, const kt__kv_table *table, void *block, layout *l) {
    uint8_t header[HEADER_BYTES];
    const void *data[] = {ids, logits};
    for (int i = TOKENS; i <= LOGITS; i++) {
        section *s = &l->sections[i];
        s->digest = kt__hash_bytes(SEED + (uint64_t)i, data[i], (size_t)s->bytes);
        if (!kt__fd_write_at(fd, data[i], (size_t)s->bytes, s->offset)) return false;
    }
    if (!write_pages(fd, image, kv, table, block, l) ||
        !write_f16(fd, image, kv, table, block, l) || !write_state(fd, kv, table, l))
        return false;
    encode_header(kt__kv_get_shape(kv), image, l, has_window(image, kv, table), header);
    return kt__fd_write_at(fd, header, sizeof header, 0) && kt__fd_sync(fd);
}

/* The rename is only certain once the directory is on disk. */
static bool sync_directory(const char *path) {
    char dir[4096];
    const char *slash = strrchr(path, '/');
    size_t len = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (len >= sizeof dir) return true;
    memcpy(dir, len ? path : ".", len ? len : 1);
    dir[len ? len : 1] = '\0';
    int fd = kt__fd_open(dir, KT__OPEN_READ | KT__OPEN_FOLDER);
    if (fd < 0) return true; /* a directory that may be written but not read */
    bool ok = kt__fd_sync(fd) || errno == EINVAL;
    kt__fd_close(fd);
    return ok;
}

static int open_temporary(const char *path, char **temp) {
    size_t size = strlen(path) + 64;
    *temp = kt__malloc(size);
    if (!*temp) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(*temp, size, "%s.tmp.%ld.%" PRIx64, path, kt__process_number(),
             (uint64_t)kt__now_ns());
    return kt__fd_open(*temp, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW | KT__OPEN_NO_LINK |
                                  KT__OPEN_PRIVATE);
}

kt_status kt__kv_image_save(const char *path, const kt__kv_image *image, const int32_t *ids,
                            const float *logits, const kt__kv *kv, const kt__kv_table *table,
                            kt_error *err) {
    kt_status status = KT_OK;
    layout l;
    char *temp = NULL;
    int fd = -1;
    size_t bytes = kt__kv_block_bytes(kt__kv_get_shape(kv));
    size_t f16 = kt__kv_f16_copy_bytes(kt__kv_get_shape(kv));
    extras has = {has_f16(image, kv, table), has_state(image, table), has_window(image, kv, table)};
    if (!lay_out(kt__kv_get_shape(kv), image->n_pos, image->n_logits, has, &l)) {
        return kt__fail(err, KT_E_ARG, "a session of %" PRId64 " positions cannot be saved",
                        image->n_pos);
    }
    void *block = kt__malloc(bytes > f16 ? bytes : f16);
    if (!block) return kt__fail_nomem(err, "a session's page", bytes);
    fd = open_temporary(path, &temp);
    if (fd < 0 && !temp) {
        status = kt__fail_nomem(err, "a file's name", strlen(path));
        goto out;
    }
    bool ok = fd >= 0 && write_file(fd, image, ids, logits, kv, table, block, &l);
    int why = errno;
    if (fd >= 0 && !kt__fd_close(fd) && ok) ok = false, why = errno;
    if (ok && rename(temp, path) != 0) ok = false, why = errno;
    if (!ok && fd >= 0) kt__file_remove(temp);
    if (ok && !sync_directory(path)) ok = false, why = errno;
    if (!ok) {
        status = kt__fail_system(err, why, path, "cannot write the session");
    }
out:
    kt__free(block);
    kt__free(temp);
    return status;
}

/* ---- reading ---- */

static kt_status damaged_image(const kt__kv_image_file *f, uint64_t at, const char *what,
                               kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, f->path, at, "the session file is damaged: %s", what);
}

static kt_status check_frame(const kt__kv_image_file *f, const uint8_t *h, kt_error *err) {
    if (memcmp(h, magic, sizeof magic) != 0) {
        return kt__fail_at(err, KT_E_FORMAT, f->path, 0, "not a session file of kentang");
    }
    uint64_t version = kt__le_get(h + AT_VERSION, 4);
    if (version < VERSION || version > VERSION_OF_WINDOWS) {
        return kt__fail_at(err, KT_E_STATE, f->path, AT_VERSION,
                           "a session of format version %" PRIu64
                           "; this program reads versions %d to %d",
                           version, VERSION, VERSION_OF_WINDOWS);
    }
    if (kt__le_get(h + AT_ORDER, 4) != BYTE_ORDER_MARK) {
        return kt__fail_at(err, KT_E_STATE, f->path, AT_ORDER,
                           "a session of a machine with another byte order");
    }
    if (!kt__field_has_digest(h + AT_DIGEST, kt__hash_bytes(SEED, h, AT_DIGEST))) {
        return damaged_image(f, AT_DIGEST, "its header's checksum is wrong", err);
    }
    return KT_OK;
}

static kt_status check_shape(const kt__kv_image_file *f, const uint8_t *h, kt_error *err) {
    uint64_t dims[N_DIMS];
    dims_of(&f->shape, dims);
    bool same = kt__le_get(h + AT_PAGE_POS, 8) == KT__PAGE_POS &&
                kt__le_get(h + AT_ELEM_BYTES, 4) == sizeof(kt__f16) &&
                kt__le_get(h + AT_HEADER_BYTES, 4) == HEADER_BYTES;
    for (int i = 0; i < N_DIMS; i++) same &= kt__le_get(h + AT_SHAPE + 2 * i, 2) == dims[i];
    if (same) return KT_OK;
    return kt__fail_at(err, KT_E_STATE, f->path, AT_SHAPE,
                       "a session of a model with other layers, heads or K/V type");
}

static const char *form_name(uint64_t form) {
    static const char *const names[KT__KV_FORMS] = {
        [KT__KV_F16] = "f16", [KT__KV_Q8] = "q8_0", [KT__KV_Q4] = "q4_0"};
    return form < KT__KV_FORMS ? names[form] : "of a type that is not known";
}

static kt_status check_forms(const kt__kv_image_file *f, const uint8_t *h, kt_error *err) {
    uint64_t word = kt__le_get(h + AT_FORMS, 4), form = (1 << FORM_BITS) - 1;
    uint64_t k = word & form, tail = word >> FORM_BITS, v = kt__le_get(h + AT_FORMS + 4, 4) & form;
    bool same = k == (uint64_t)f->shape.k_form && v == (uint64_t)f->shape.v_form;
    bool old = kt__le_get(h + AT_VERSION, 4) != version_of(&f->shape);
    if (same && old)
        return kt__fail_at(err, KT_E_STATE, f->path, AT_VERSION,
                           "a session of an older version of kentang, which kept keys and values "
                           "otherwise: evaluate its text again");
    if (same && tail == (uint64_t)f->shape.n_tail) return KT_OK;
    if (same)
        return kt__fail_at(err, KT_E_STATE, f->path, AT_FORMS,
                           "the session was computed with a tail of %" PRIu64
                           " positions; here it is %d: ask for the same (--kv-tail)",
                           tail * KT__PAGE_POS, f->shape.n_tail * KT__PAGE_POS);
    return kt__fail_at(err, KT_E_STATE, f->path, AT_FORMS,
                       "the session's keys are %s and its values %s; here they are %s and %s: ask "
                       "for the same (-ctk, -ctv)",
                       form_name(k), form_name(v), form_name((uint64_t)f->shape.k_form),
                       form_name((uint64_t)f->shape.v_form));
}

/* The numbers of positions and logits decide every offset and size; the file has to agree. */
static kt_status check_layout(kt__kv_image_file *f, const uint8_t *h, uint64_t size,
                              kt_error *err) {
    uint64_t n_pos = kt__le_get(h + AT_N_POS, 8), n_logits = kt__le_get(h + AT_N_LOGITS, 8);
    extras has = {kt__le_get(h + AT_F16_COPIES + 8, 8) != 0, kt__le_get(h + AT_STATE + 8, 8) != 0,
                  kt__le_get(h + AT_FORMS + 4, 4) >> FORM_BITS != 0};
    if (has.state && !f->shape.state_bytes)
        return damaged_image(f, AT_STATE, "its model has no recurrent layers", err);
    f->has_window = has.window;
    if (has.window && !kt__kv_has_local_parts(&f->shape))
        return damaged_image(f, AT_FORMS, "its model has no layers with a window", err);
    if (has.f16 && (n_pos > INT32_MAX || !kt__kv_is_quantised(&f->shape) ||
                    !kt__kv_n_end_pages(&f->shape, (int64_t)n_pos)))
        return damaged_image(f, AT_F16_COPIES, "it has no page that could be f16", err);
    if (n_pos > INT64_MAX || n_logits > INT64_MAX ||
        !lay_out(&f->shape, (int64_t)n_pos, (int64_t)n_logits, has, &f->layout)) {
        return damaged_image(f, AT_N_POS, "its number of positions is impossible", err);
    }
    f->info.n_pos = (int64_t)n_pos;
    f->info.n_logits = (int64_t)n_logits;
    for (int i = 0; i < N_SECTIONS; i++) {
        const uint8_t *at = h + section_at[i];
        section *s = &f->layout.sections[i];
        bool placed = i == STATE || kt__le_get(at, 8) == s->offset;
        if (!placed || kt__le_get(at + 8, 8) != s->bytes)
            return damaged_image(f, (uint64_t)(at - h), "a section's size does not fit", err);
        for (int w = 0; w < 4; w++) s->digest.w[w] = kt__le_get(at + 16 + 8 * w, 8);
    }
    if (kt__le_get(h + AT_FILE_BYTES, 8) != f->layout.file_bytes)
        return damaged_image(f, AT_FILE_BYTES, "its size does not fit", err);
    if (size == f->layout.file_bytes) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, f->path, size,
                       "the session file is %s: %" PRIu64 " bytes, expected %" PRIu64,
                       size < f->layout.file_bytes ? "cut short" : "too long", size,
                       f->layout.file_bytes);
}

static kt_status read_header(kt__kv_image_file *f, kt_error *err) {
    kt__file_info st;
    uint8_t h[HEADER_BYTES];
    f->fd = kt__fd_open(f->path, KT__OPEN_READ | KT__OPEN_NO_WAIT); /* a FIFO does not hold us up */
    if (f->fd < 0 || !kt__fd_look(f->fd, &st)) {
        return kt__fail_system(err, errno, f->path, "cannot open the session");
    }
    if (!st.is_file) {
        return kt__fail_at(err, KT_E_IO, f->path, UINT64_MAX, "not a regular file");
    }
    if (st.bytes < HEADER_BYTES) {
        return kt__fail_at(err, KT_E_FORMAT, f->path, st.bytes,
                           "%lld bytes are too few for a session file", (long long)st.bytes);
    }
    if (!kt__fd_read_at(f->fd, h, sizeof h, 0))
        return damaged_image(f, 0, "it cannot be read", err);
    KT__STEP(check_frame(f, h, err));
    KT__STEP(check_shape(f, h, err));
    KT__STEP(check_forms(f, h, err));
    KT__STEP(check_layout(f, h, st.bytes, err));
    memcpy(f->info.binding, h + AT_BINDING, sizeof f->info.binding);
    memcpy(f->info.full_hash, h + AT_FULL_HASH, sizeof f->info.full_hash);
    return KT_OK;
}

kt_status kt__kv_image_open(const char *path, const kt__kv_shape *shape, kt__kv_image_file **out,
                            kt_error *err) {
    *out = NULL;
    kt__kv_image_file *f = kt__calloc(1, sizeof *f);
    if (!f) return kt__fail_nomem(err, "a session file", sizeof *f);
    f->fd = -1;
    f->shape = *shape;
    f->path = kt__strdup(path);
    kt_status status = f->path ? read_header(f, err)
                               : kt__fail_nomem(err, "a file's name", strlen(path));
    if (status == KT_OK) {
        *out = f;
    } else {
        kt__kv_image_close(f);
    }
    return status;
}

const kt__kv_image *kt__kv_image_info(const kt__kv_image_file *f) {
    return &f->info;
}

void kt__kv_image_close(kt__kv_image_file *f) {
    if (!f) return;
    if (f->fd >= 0) kt__fd_close(f->fd);
    kt__free(f->path);
    kt__free(f);
}

static kt_status fail_section(const kt__kv_image_file *f, section_kind kind, bool read,
                              kt_error *err) {
    const section *s = &f->layout.sections[kind];
    return kt__fail_at(err, KT_E_FORMAT, f->path, s->offset,
                       "the session file is damaged: its %s %s", section_names[kind],
                       read ? "have a wrong checksum" : "cannot be read to the end");
}

static kt_status load_small(const kt__kv_image_file *f, section_kind kind, void *out,
                            kt_error *err) {
    const section *s = &f->layout.sections[kind];
    if (!s->bytes) return KT_OK;
    if (!kt__fd_read_at(f->fd, out, (size_t)s->bytes, s->offset))
        return fail_section(f, kind, false, err);
    kt__digest d = kt__hash_bytes(SEED + (uint64_t)kind, out, (size_t)s->bytes);
    return memcmp(&d, &s->digest, sizeof d) ? fail_section(f, kind, true, err) : KT_OK;
}

static kt_status load_pages(const kt__kv_image_file *f, kt__kv *kv, const kt__kv_table *table,
                            kt_error *err) {
    const section *s = &f->layout.sections[PAGES];
    size_t bytes = kt__kv_block_bytes(&f->shape);
    kt_status status = KT_OK;
    kt__hash h;
    void *block = kt__malloc(bytes);
    if (!block) return kt__fail_nomem(err, "a session's page", bytes);
    kt__fd_read_ahead(f->fd, s->offset, s->bytes);
    kt__hash_init(&h, SEED + PAGES);
    for (uint64_t i = 0; i < n_pages_of(f->info.n_pos); i++) {
        if (!kt__fd_read_at(f->fd, block, bytes, s->offset + i * bytes)) {
            status = fail_section(f, PAGES, false, err);
            goto out;
        }
        kt__hash_add(&h, block, bytes);
        kt__kv_block_write(kv, table->pages[i], block);
    }
    kt__digest d = kt__hash_end(&h);
    if (memcmp(&d, &s->digest, sizeof d) != 0) status = fail_section(f, PAGES, true, err);
out:
    kt__free(block);
    return status;
}

static kt_status load_f16_pages(const kt__kv_image_file *f, kt__kv *kv, const kt__kv_table *table,
                                void *f16, kt_error *err) {
    const section *s = &f->layout.sections[F16_COPIES];
    size_t bytes = kt__kv_f16_copy_bytes(&f->shape);
    kt__hash h;
    kt__hash_init(&h, SEED + F16_COPIES);
    for (int32_t i = 0; i < kt__kv_n_end_pages(&f->shape, f->info.n_pos); i++) {
        int32_t page = table->pages[kt__kv_end_page(&f->shape, f->info.n_pos, i)];
        if (!kt__fd_read_at(f->fd, f16, bytes, s->offset + (uint64_t)i * bytes))
            return fail_section(f, F16_COPIES, false, err);
        kt__hash_add(&h, f16, bytes);
        kt__kv_f16_copy_write(kv, page, f16);
    }
    kt__digest d = kt__hash_end(&h);
    return memcmp(&d, &s->digest, sizeof d) ? fail_section(f, F16_COPIES, true, err) : KT_OK;
}

static kt_status load_f16(const kt__kv_image_file *f, kt__kv *kv, kt__kv_table *table,
                          kt_error *err) {
    size_t bytes = kt__kv_f16_copy_bytes(&f->shape);
    if (!f->layout.sections[F16_COPIES].bytes) return KT_OK;
    void *f16 = kt__malloc(bytes);
    if (!f16) return kt__fail_nomem(err, "a session's last page", bytes);
    kt_status status = load_f16_pages(f, kv, table, f16, err);
    kt__free(f16);
    return status;
}

/* Where the file has no state, its positions have to be computed again. */
static kt_status load_state(const kt__kv_image_file *f, kt__kv *kv, kt__kv_table *table,
                            kt_error *err) {
    if (!f->layout.sections[STATE].bytes) return KT_OK;
    kt_status status = load_small(f, STATE, kt__kv_state_data(kv, table->next), err);
    if (status != KT_OK) return status;
    kt__kv_table_set_state(kv, table, table->next, f->info.n_pos);
    table->next = KT__NO_STATE;
    return KT_OK;
}

kt_status kt__kv_image_load(const kt__kv_image_file *f, int32_t *ids, float *logits, kt__kv *kv,
                            kt__kv_table *table, kt_error *err) {
    KT__STEP(load_small(f, TOKENS, ids, err));
    KT__STEP(load_small(f, LOGITS, logits, err));
    KT__STEP(load_pages(f, kv, table, err));
    KT__STEP(load_f16(f, kv, table, err));
    return load_state(f, kv, table, err);
}

void kt__kv_image_drop_missing(const kt__kv_image_file *f, kt__kv *kv, kt__kv_table *table) {
    bool f16 = !kt__kv_is_quantised(&f->shape) || f->layout.sections[F16_COPIES].bytes;
    bool window = !kt__kv_has_local_parts(&f->shape) || f->has_window;
    int32_t n = f16 ? 0 : kt__kv_n_end_pages(&f->shape, f->info.n_pos);
    for (int32_t i = 0; i < n; i++)
        kt__kv_f16_copy_drop(kv, table->pages[kt__kv_end_page(&f->shape, f->info.n_pos, i)]);
    if (!window || (!f16 && kt__kv_reads_f16_ends(&f->shape))) kt__kv_table_truncate(kv, table, 0);
}
