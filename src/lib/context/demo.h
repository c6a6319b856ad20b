/* The GGUF file linked into the library, if there is one. Any thread. */
#ifndef KT_CONTEXT_DEMO_H
#define KT_CONTEXT_DEMO_H

#include <stddef.h>

const void *kt__demo_model(size_t *size); /* NULL: none */

#endif
