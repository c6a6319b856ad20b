/* Ctrl-C while an engine computes, or at a prompt.
 *
 * Owns: the process's handler of SIGINT while one engine is watched. One engine at a time; the calls
 * are for the main thread. */
#ifndef KT_TERM_INTERRUPT_H
#define KT_TERM_INTERRUPT_H

#include <kentang.h>
#include <stdbool.h>

/* From now on Ctrl-C cancels what the engine computes, or, at a prompt, only raises a flag. */
void kt__interrupt_watch(kt_engine *engine);
void kt__interrupt_unwatch(void);
bool kt__interrupt_is_pending(void); /* whether kt__interrupted would say so */
bool kt__interrupted(void);          /* whether Ctrl-C came since the last call */

#endif
