/* A hash of every byte of a model's files, made in the background.
 *
 * Owns: what is read, by a thread of the lowest priority that works while nothing is computed
 * (idle_thread.h), and what it found. Reads files next to their mapping (host/cold_reader.h): neither resident memory
 * nor the page cache grows. What the hash is used for is others' business. Any thread. */
#ifndef KT_CONTEXT_FULL_HASH_H
#define KT_CONTEXT_FULL_HASH_H

#include "context/idle_thread.h"
#include "gguf/gguf.h"

typedef struct kt__full_hash kt__full_hash;

/* Nothing is read yet. gguf and activity outlive it. */
kt_status kt__full_hash_create(const kt__gguf *gguf, const kt__activity *activity,
                               kt__full_hash **out, kt_error *err) KT_CHECKED;
/* Within a piece of a file: a thread that reads is told to stop, and waited for. */
void kt__full_hash_destroy(kt__full_hash *hash);
kt_status kt__full_hash_start(kt__full_hash *hash, kt_error *err) KT_CHECKED;
void kt__full_hash_get(kt__full_hash *hash, kt_hash_info *out);

#endif
