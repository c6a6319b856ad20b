/* What a message of the Model Context Protocol says in the head of its request. */
#include <microhttpd.h>
#include <string.h>

#include "dialects/dialect_mcp.h"
#include "transports/http_request.h"

static const char *mcp_header(const kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

kt_status kt__http_take_mcp_head(kt__http_request *r, kt_error *err) {
    const char *accept = mcp_header(r, "Accept");
    const kt__mcp_head head = {
        .version = mcp_header(r, "MCP-Protocol-Version"),
        .method = mcp_header(r, "Mcp-Method"),
        .name = mcp_header(r, "Mcp-Name"),
        .session = mcp_header(r, "Mcp-Session-Id"),
        .takes_stream = accept && strstr(accept, "text/event-stream"),
    };
    return kt__dialect_mcp_begin(r->job, &head, err);
}
