#include "grammar/schema.h"

#include "base/alloc.h"

uint32_t kt__strie_step(const kt__schema *s, uint32_t at, uint8_t byte) {
    if (!at) return 0;
    for (uint32_t kid = s->trie[at].first; kid; kid = s->trie[kid].next)
        if (s->trie[kid].byte == byte) return kid;
    return 0;
}

void kt__schema_free(kt__schema *s) {
    kt__arena_free(&s->arena);
    kt__buf_free(&s->notes);
    kt__free(s->nodes);
    kt__free(s->numbers);
    kt__free(s->names);
    kt__free(s->name_table);
    *s = (kt__schema){0};
}
