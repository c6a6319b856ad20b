/* What llama-server calls slots: which tokens each last computed.
 *
 * Owns: the tokens of a few slots, the last prompt and answer of each, of the first model alone. The keys and values
 * themselves are the engine's, which finds them by the tokens: a slot only says which. What a client with a key computed is
 * in its slot for that client alone; clients without keys share theirs. Any thread. */
#ifndef KT_SERVICES_LLAMA_SLOTS_H
#define KT_SERVICES_LLAMA_SLOTS_H

#include <kentang.h>

typedef struct kt__llama_slots kt__llama_slots;

kt_status KT_CHECKED kt__llama_slots_create(int n, kt__llama_slots **out, kt_error *err);
void kt__llama_slots_free(kt__llama_slots *slots); /* NULL is allowed */
/* Copies ids[n] into the slot; -1: the one that was used longest ago. Without memory the slot is empty then. */
void kt__llama_slots_put(kt__llama_slots *slots, const char *client, int id, const int32_t *ids,
                         size_t n);
/* Empties it where it is the client's. */
void kt__llama_slots_erase(kt__llama_slots *slots, const char *client, int id);
/* Copies a slot's tokens, for kt__free; *n 0: it has none of the client's. KT_E_ARG: there is no such slot. */
kt_status KT_CHECKED kt__llama_slots_get(kt__llama_slots *slots, const char *client, int id,
                                         int32_t **ids, size_t *n, kt_error *err);

#endif
