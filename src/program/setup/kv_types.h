/* The setting kv_type: what keys and values are held as.
 *
 * Owns: its reading. Any thread. */
#ifndef KT_SETUP_KV_TYPES_H
#define KT_SETUP_KV_TYPES_H

#include <kentang.h>

/* "TYPE", or "KEYS/VALUES"; NULL or "" changes nothing. KT_E_ARG names what is wrong. */
kt_status kt__kv_types_read(const char *text, kt_engine_params *params, kt_error *err) KT_CHECKED;

#endif
