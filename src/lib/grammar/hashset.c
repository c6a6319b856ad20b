/* Persistent sets of 64-bit hashes: a binary trie over their bits, from the highest. */
#include "grammar/grammar_impl.h"

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
