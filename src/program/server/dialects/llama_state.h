/* The server's state in the words of llama-server: what GET /props and GET /slots have of it.
 *
 * Owns: both shapes. Reads models when asked; any thread. */
#ifndef KT_DIALECTS_LLAMA_STATE_H
#define KT_DIALECTS_LLAMA_STATE_H

#include "services/shared.h"

/* Puts llama-server's members of /props into the object that `out` ends with: the settings of
 * requests that say nothing, the number of slots, the first model's file and template. */
void kt__llama_write_props(kt__shared *shared, const kt__config *config, kt__buf *out);
/* The slots of the first model as an array: as many as answers are computed together, of which as many are
 * busy as are being computed. Returns whether one is free. */
bool kt__llama_write_slots(kt__shared *shared, kt__buf *out);

#endif
