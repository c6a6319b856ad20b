/* What a server's settings may ask for where several processes compute its model.
 *
 * Owns: the list of what they cannot do together, and what is known of their launcher. Any thread. */
#ifndef KT_SETUP_SEVERAL_H
#define KT_SETUP_SEVERAL_H

#include "setup/config.h"

/* KT_E_UNSUPPORTED names the first setting that does not go with several processes, and what to do. */
kt_status KT_CHECKED kt__several_check(const kt__config *config, kt_error *err);
/* How long what is unfinished may continue after the launcher's SIGTERM, before its SIGKILL. */
int64_t kt__several_end_ms(void);

#endif
