#include <string.h>

#include "calls/format.h"
#include "calls/prompt.h"

/* Words that no template has by itself. The id is one that every family takes. */
#define PROBE_TOOLS                                                                              \
    "[{\"type\":\"function\",\"function\":{\"name\":\"ktprobetool\",\"description\":\"Probe.\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"ktprobekey\":{\"type\":\"string\","   \
    "\"description\":\"Probe.\"}},\"required\":[\"ktprobekey\"]}}}]"

static const char with_tools[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"tools\":" PROBE_TOOLS "}";

#define PROBE_CALL(arguments)                                                                  \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\","        \
    "\"content\":"                                                                             \
    "\"\",\"tool_calls\":[{\"id\":\"ktprobe01\",\"type\":\"function\",\"function\":{\"name\":" \
    "\"ktprobetool\",\"arguments\":" arguments "}}]},{\"role\":\"tool\",\"tool_call_id\":"     \
    "\"ktprobe01\",\"name\":\"ktprobetool\",\"content\":\"ktproberesult\"}],"                  \
    "\"tools\":" PROBE_TOOLS "}"

static const char with_object[] = PROBE_CALL("{\"ktprobekey\":\"ktprobevalue\"}");
static const char with_text[] = PROBE_CALL("\"{\\\"ktprobekey\\\": \\\"ktprobevalue\\\"}\"");

static bool text_has(const kt__chat_out *out, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= out->len; i++)
        if (memcmp(out->text + i, word, n) == 0) return true;
    return false;
}

typedef struct probe_result {
    bool rendered, tool, value, result;
} probe_result;

static probe_result probe_render(const kt__chat_template *tmpl, const kt__chat_params *params,
                                 const char *json) {
    kt__chat_out out = {0};
    probe_result r = {0};
    if (kt__chat_render_json(tmpl, json, strlen(json), params, &out, NULL) != KT_OK) return r;
    r.rendered = true;
    r.tool = text_has(&out, "ktprobetool");
    /* not as Python prints a dictionary, nor as a text within JSON */
    r.value = text_has(&out, "ktprobevalue") && !text_has(&out, "{'ktprobekey'") &&
              !text_has(&out, "\\\"ktprobekey");
    r.result = text_has(&out, "ktproberesult");
    kt__chat_out_free(&out);
    return r;
}

void kt__call_style_probe(const kt__chat_template *tmpl, const kt__chat_params *params,
                          kt__call_style *style) {
    probe_result shown = probe_render(tmpl, params, with_tools);
    probe_result object = probe_render(tmpl, params, with_object);
    probe_result text = probe_render(tmpl, params, with_text);
    if (shown.rendered) style->tools_in_system = !shown.tool;
    if (!object.rendered && !text.rendered) {
        style->calls_in_content = style->results_in_user = true;
        return;
    }
    style->args_text = !object.value && text.value;
    style->calls_in_content = !object.value && !text.value;
    style->results_in_user = !object.result && !text.result;
}
