/* The Model Context Protocol over lines: a message each, in and out.
 *
 * Owns: the reading of lines into jobs and the writing of their answers. The server has no other
 * transport then. Called by the thread that started it, which reads; answers are written on the
 * loop's thread. */
#ifndef KT_TRANSPORTS_MCP_STDIO_H
#define KT_TRANSPORTS_MCP_STDIO_H

#include "services/shared.h"

typedef struct kt__mcp_stdio kt__mcp_stdio;

kt_status KT_CHECKED kt__mcp_stdio_open(kt__shared *shared, int in, int out, kt__mcp_stdio **stdio,
                                        kt_error *err);
/* Until the end of input and of the calls that it had, or *stop, or nobody reads the answers. */
void kt__mcp_stdio_run(kt__mcp_stdio *stdio, const volatile int *stop);
/* Whether nobody reads what is written. */
bool kt__mcp_stdio_is_broken(kt__mcp_stdio *stdio);
/* After the loop has ended. */
void kt__mcp_stdio_close(kt__mcp_stdio *stdio);

#endif
