/* Arbitrary bytes as a namespace's journal and CURRENT: refused by name, or opened, and then every
 * question has an answer. Every second input is changes to the records of a good journal, whose
 * checksums are made right again, so that what is behind them is reached too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/le.h"
#include "feedback/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    D = 4,
    N_VOCAB = 50,
    MAX_FILE = 1 << 16,
    HEAD = 128,
    FRONT = 24,
    SUM = 16,
    SEED = 0x4a4f5552
};

static char dir[64], journal[128], current[128];
static uint8_t good[4096], file[MAX_FILE];
static size_t good_size;

static kt__feedback_params params(void) {
    return (kt__feedback_params){.dir = dir, .d_model = D, .n_vocab = N_VOCAB};
}

static void ask_all(kt__feedback *s) {
    kt__feedback_info info;
    kt__feedback_version *versions = NULL;
    uint64_t *ids = NULL;
    size_t n = 0;
    kt_error err;
    kt__buf buf;
    kt__feedback_item item;
    kt__buf_init(&buf, 1 << 20);
    kt__feedback_get_info(s, &info);
    if (kt__feedback_list(s, &ids, &n, &err) != KT_OK) abort();
    for (size_t i = 0; i < n; i++) {
        if (kt__feedback_get(s, ids[i], &item, &buf, &err) != KT_OK) abort();
    }
    if (n && kt__feedback_delete(s, ids[0], &err) != KT_OK) abort();
    kt__free(ids);
    if (kt__feedback_versions(s, &versions, &n, &err) != KT_OK) abort();
    for (size_t i = 0; i <= n; i++) {
        size_t n_chain;
        if (kt__feedback_chain(s, (uint32_t)i, &ids, &n_chain, &err) != KT_OK) abort();
        (void)kt__feedback_adapter(s, (uint32_t)i, NULL);
        kt__free(ids);
    }
    kt__free(versions);
    kt__buf_free(&buf);
}

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *out = fopen(path, "wb");
    if (!out) abort();
    fwrite(bytes, 1, n, out);
    fclose(out);
}

/* An item with keys, a score, a published adapter and a deleted item. */
static void make_good(void) {
    static const int32_t ids[] = {1, 2, 3};
    static const int8_t keys[3 * D] = {1, 2, 3, 4};
    kt__feedback *s;
    kt__feedback_params p = params();
    kt__feedback_item item = {
        .kind = KT__FEEDBACK_CORRECTION, .about = "a", .text = "b", .n_text = 1};
    kt_error err;
    uint64_t id;
    uint32_t version;
    snprintf(dir, sizeof dir, "/dev/shm/kentang-fuzz-%ld", (long)getpid());
    snprintf(journal, sizeof journal, "%s/journal", dir);
    snprintf(current, sizeof current, "%s/CURRENT", dir);
    const kt__feedback_adapter_files files = {
        .adapter = "/dev/null", .report = "{}", .n_report = 2, .quality = 1};
    item.prompt = item.right = ids;
    item.n_prompt = item.n_right = 3;
    item.keys = (kt__feedback_keys){3, ids, keys};
    if (kt__feedback_open(&p, &s, &err) != KT_OK ||
        kt__feedback_add(s, &item, &id, &version, &err) != KT_OK ||
        kt__feedback_add(s, &item, &id, &version, &err) != KT_OK ||
        kt__feedback_delete(s, id, &err) != KT_OK ||
        kt__feedback_publish(s, &files, &version, &err) != KT_OK)
        abort();
    item.keys.n = 0;
    if (kt__feedback_add(s, &item, &id, &version, &err) != KT_OK) abort();
    kt__feedback_close(s);
    FILE *in = fopen(journal, "rb");
    if (!in) abort();
    good_size = fread(good, 1, sizeof good, in);
    fclose(in);
}

static void sign_records(size_t n) {
    for (size_t at = HEAD; n - at >= FRONT + SUM;) {
        uint64_t body = kt__le_get(file + at + 16, 8);
        if (body > n - at - FRONT - SUM) break;
        uint8_t digest[32];
        kt__digest_bytes(kt__hash_bytes(SEED + 1, file + at, FRONT + (size_t)body), digest);
        memcpy(file + at + FRONT + body, digest, SUM);
        at += FRONT + (size_t)body + SUM;
    }
}

static size_t change_good(const uint8_t *data, size_t size) {
    memcpy(file, good, good_size);
    for (; size >= 3; data += 3, size -= 3)
        file[HEAD + (size_t)kt__le_get(data, 2) % (good_size - HEAD)] ^= data[2];
    sign_records(good_size);
    return good_size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__feedback *s;
    kt__feedback_params p = params();
    kt_error err;
    if (!good_size) make_good();
    if (size < 2 || size > MAX_FILE) return 0;
    size_t n_current = data[1] % 32, n = size - 2;
    if (n_current > n) n_current = n;
    if (data[0] & 2)
        write_file(current, data + 2, n_current);
    else
        unlink(current);
    const uint8_t *rest = data + 2 + n_current;
    n -= n_current;
    if (data[0] & 1) {
        n = change_good(rest, n);
    } else {
        memcpy(file, good, HEAD);
        size_t from = data[0] & 4 ? HEAD : 0, room = MAX_FILE - from;
        if (n > room) n = room;
        memcpy(file + from, rest, n);
        n += from;
    }
    write_file(journal, file, n);
    p.dir = dir;
    if (kt__feedback_open(&p, &s, &err) == KT_OK) {
        ask_all(s);
        kt__feedback_close(s);
    } else if (!err.message[0]) {
        abort();
    }
    return 0;
}
