/* The Model Context Protocol as a dialect: a message is a job.
 *
 * Owns: how a message becomes a job and the job's answer messages, on HTTP and on lines. What the
 * messages mean is in src/program/mcp. Transports call this; threads as job.h says. */
#ifndef KT_DIALECTS_DIALECT_MCP_H
#define KT_DIALECTS_DIALECT_MCP_H

#include "dialects/dialects.h"
#include "mcp/rpc.h"

extern const kt__dialect kt__dialect_mcp, kt__dialect_mcp_lines;

/* Before kt__job_start. head: copied; NULL: messages are lines, and `name` is the job's. */
kt_status KT_CHECKED kt__dialect_mcp_begin(kt__job *job, const kt__mcp_head *head, kt_error *err);

#endif
