#include "cli/agent_ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "term/cli.h"
#include "term/safe_text.h"
#include "mcp/json_read.h"

enum { MAX_ANSWER = 1 << 20, MAX_SHOWN = 1 << 20 };

/* All of the arguments: what is not shown cannot be agreed to. */
static void show_call(const kt__agent_tool *tool, const json_t *args) {
    char *text = json_dumps(args, JSON_INDENT(2) | JSON_ENCODE_ANY);
    const char *from = tool->server ? tool->server : "built in";
    fputs("\nThe model wants to call ", stderr);
    kt__safe_print(stderr, tool->own_name, strlen(tool->own_name), 200);
    fputs(" of ", stderr);
    kt__safe_print(stderr, from, strlen(from), 200);
    fputs(" with\n", stderr);
    for (const char *at = text; at && *at;) {
        size_t len = strcspn(at, "\n");
        fputs("    ", stderr);
        kt__safe_print(stderr, at, len, MAX_SHOWN);
        fputc('\n', stderr);
        at += len + (at[len] == '\n');
    }
    free(text);
}

static char *read_answer(const char *question) {
    char *line;
    size_t len;
    kt_error err;
    fputs(question, stderr);
    return kt__cli_read_line(stdin, MAX_ANSWER, &line, &len, &err) > 0 ? line : NULL;
}

/* false: it was no object, and nothing has changed. */
static bool edit_arguments(json_t **args) {
    const kt__json_limits limits = {MAX_ANSWER, 64};
    kt_error err;
    json_t *edited = NULL;
    char *line = read_answer("the arguments, as one line of JSON: ");
    kt_status status = line ? kt__json_read(line, strlen(line), &limits, &edited, &err) : KT_E_IO;
    kt__free(line);
    if (status != KT_OK || !json_is_object(edited)) {
        fputs(status == KT_OK ? "that is no object\n" : "that is no JSON\n", stderr);
        json_decref(edited);
        return false;
    }
    json_decref(*args);
    *args = edited;
    return true;
}

kt__approval kt__agent_ask(const kt__agent_tool *tool, json_t **args) {
    show_call(tool, *args);
    for (;;) {
        char *line = read_answer("Allow it? [y]es, [a]lways this tool, [n]o, [e]dit: ");
        char first = line ? line[0] : 'n';
        kt__free(line);
        switch (first) {
        case 'y': return KT__APPROVED;
        case 'a': return KT__APPROVED_ALWAYS;
        case 'n': return KT__REFUSED;
        case 'e':
            if (edit_arguments(args)) show_call(tool, *args);
            break;
        default: break;
        }
    }
}
