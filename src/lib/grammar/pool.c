#include "grammar/pool.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

enum { FIRST_TABLE = 4096, SCRATCH_WORDS = 1 << 18, MAX_NODE_WORDS = (1 << 18) - 1 };

static uint32_t hash_words(uint32_t head, const uint32_t *data, uint32_t n) {
    uint64_t h = head * UINT64_C(0x9E3779B97F4A7C15) + n;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ data[i]) * UINT64_C(0xFF51AFD7ED558CCD);
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ h >> 29);
}

static uint32_t hash_node(const kt__gpool *pool, kt__gid id) {
    return hash_words(kt__g_kind(pool, id), kt__g_data(pool, id), kt__g_n(pool, id));
}

kt_status kt__gpool_init(kt__gpool *pool, size_t bytes, kt_error *err) {
    *pool = (kt__gpool){.cap = (uint32_t)(bytes / 4), .n = 2, .steps = INT64_MAX};
    pool->table_cap = FIRST_TABLE;
    while (pool->table_cap < pool->cap / 8) pool->table_cap *= 2;
    pool->table_mask = FIRST_TABLE - 1;
    pool->scratch_cap = SCRATCH_WORDS;
    pool->words = kt__malloc(bytes);
    pool->table = kt__calloc(pool->table_cap, sizeof *pool->table);
    pool->scratch = kt__malloc(SCRATCH_WORDS * sizeof *pool->scratch);
    if (!pool->words || !pool->table || !pool->scratch) {
        kt__gpool_free(pool);
        return kt__fail_nomem(err, "a constraint", bytes);
    }
    (void)kt__gpool_intern(pool, KT__G_EMPTY, &(uint32_t){0}, 1);
    (void)kt__gpool_intern(pool, KT__G_ANY, &(uint32_t){0}, 1);
    (void)kt__gpool_intern(pool, KT__G_EPS, &(uint32_t){0}, 1);
    return KT_OK;
}

void kt__gpool_free(kt__gpool *pool) {
    kt__free(pool->words);
    kt__free(pool->table);
    kt__free(pool->scratch);
    *pool = (kt__gpool){0};
}

size_t kt__gpool_bytes(const kt__gpool *pool) {
    return ((size_t)pool->cap + pool->table_cap + pool->scratch_cap) * 4;
}

bool kt__gpool_is_scarce(const kt__gpool *pool) {
    return pool->n > pool->cap / 2 || pool->n_nodes > pool->table_cap / 4;
}

bool kt__gpool_push(kt__gpool *pool, uint32_t word) {
    if (pool->n_scratch == pool->scratch_cap) {
        pool->failed = KT_E_LIMIT;
        return false;
    }
    pool->scratch[pool->n_scratch++] = word;
    return true;
}

/* The table grows within what was reserved, so it stays small for a small schema. */
static void grow_table(kt__gpool *pool) {
    uint32_t mask = pool->table_mask * 2 + 1;
    memset(pool->table, 0, (size_t)(mask + 1) * sizeof *pool->table);
    for (kt__gid id = 2; id < pool->n; id += kt__g_n(pool, id) + 2) {
        uint32_t slot = hash_node(pool, id) & mask;
        while (pool->table[slot]) slot = (slot + 1) & mask;
        pool->table[slot] = id;
    }
    pool->table_mask = mask;
}

static bool is_same_node(const kt__gpool *pool, kt__gid id, kt__gkind kind, const uint32_t *data,
                         uint32_t n) {
    return kt__g_kind(pool, id) == kind && kt__g_n(pool, id) == n &&
           memcmp(kt__g_data(pool, id), data, n * sizeof *data) == 0;
}

static bool has_room(kt__gpool *pool, uint32_t n) {
    bool table_full = pool->n_nodes * 2 > pool->table_mask;
    if (n > MAX_NODE_WORDS || pool->cap - pool->n < n + 2 ||
        (table_full && pool->table_mask + 1 == pool->table_cap)) {
        pool->failed = KT_E_LIMIT;
        return false;
    }
    if (table_full) grow_table(pool);
    return true;
}

kt__gid kt__gpool_intern(kt__gpool *pool, kt__gkind kind, const uint32_t *data, uint32_t n) {
    uint32_t hash = hash_words(kind, data, n), slot = hash & pool->table_mask;
    for (; pool->table[slot]; slot = (slot + 1) & pool->table_mask)
        if (is_same_node(pool, pool->table[slot], kind, data, n)) return pool->table[slot];
    if (!has_room(pool, n)) return KT__GPOOL_EMPTY;
    slot = hash & pool->table_mask;
    while (pool->table[slot]) slot = (slot + 1) & pool->table_mask;
    kt__gid id = pool->n;
    pool->words[id] = kind | n << 14;
    pool->words[id + 1] = 0;
    memcpy(pool->words + id + 2, data, n * sizeof *data);
    pool->n += n + 2;
    pool->n_nodes++;
    pool->table[slot] = id;
    return id;
}

/* All nodes from mark on leave together, so no older node's place in the table depends on theirs. */
void kt__gpool_rollback(kt__gpool *pool, uint32_t mark) {
    for (kt__gid id = mark; id < pool->n; id += kt__g_n(pool, id) + 2) {
        uint32_t slot = hash_node(pool, id) & pool->table_mask;
        while (pool->table[slot] != id) slot = (slot + 1) & pool->table_mask;
        pool->words[id + 1] = slot;
    }
    for (kt__gid id = mark; id < pool->n; id += kt__g_n(pool, id) + 2) {
        pool->table[pool->words[id + 1]] = 0;
        pool->n_nodes--;
    }
    pool->n = mark;
}

/* ---- persistent sets of 64-bit hashes: binary tries over their bits, from the highest ---- */

static bool is_leaf(const kt__gpool *p, kt__gid set) {
    return kt__g_arg(p, set, 0) == UINT32_MAX;
}

static uint64_t leaf_hash(const kt__gpool *p, kt__gid leaf) {
    return (uint64_t)kt__g_arg(p, leaf, 2) << 32 | kt__g_arg(p, leaf, 1);
}

static uint32_t bit_at(uint64_t hash, uint32_t at) {
    return (uint32_t)(hash >> (63 - at) & 1);
}

static kt__gid nearest_leaf(const kt__gpool *p, kt__gid set, uint64_t hash) {
    while (!is_leaf(p, set)) set = kt__g_arg(p, set, 1 + bit_at(hash, kt__g_arg(p, set, 0)));
    return set;
}

bool kt__hashes_have(const kt__gpool *p, kt__gid set, uint64_t hash) {
    return set && leaf_hash(p, nearest_leaf(p, set, hash)) == hash;
}

static kt__gid new_leaf(kt__gpool *p, uint64_t hash) {
    const uint32_t words[] = {UINT32_MAX, (uint32_t)hash, (uint32_t)(hash >> 32)};
    return kt__gpool_intern(p, KT__G_HASHSET, words, 3);
}

/* Branches where the hash leaves what is there. */
static kt__gid add_at(kt__gpool *p, kt__gid set, uint64_t hash, uint32_t differs) {
    if (p->failed) return 0;
    if (is_leaf(p, set) || kt__g_arg(p, set, 0) > differs) {
        uint32_t words[3] = {differs};
        words[1 + bit_at(hash, differs)] = new_leaf(p, hash);
        words[2 - bit_at(hash, differs)] = set;
        return kt__gpool_intern(p, KT__G_HASHSET, words, 3);
    }
    uint32_t words[3] = {kt__g_arg(p, set, 0), kt__g_arg(p, set, 1), kt__g_arg(p, set, 2)};
    uint32_t side = 1 + bit_at(hash, words[0]);
    words[side] = add_at(p, words[side], hash, differs);
    return kt__gpool_intern(p, KT__G_HASHSET, words, 3);
}

kt__gid kt__hashes_add(kt__gpool *p, kt__gid set, uint64_t hash) {
    if (!set) return new_leaf(p, hash);
    uint64_t differs = leaf_hash(p, nearest_leaf(p, set, hash)) ^ hash;
    if (differs == 0) return set;
    return add_at(p, set, hash, (uint32_t)__builtin_clzll(differs));
}
