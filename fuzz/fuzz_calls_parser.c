/* A byte for the format, one for the reasoning's markers, one for options, and an answer: no crash;
 * the events are the same for the whole text and for its bytes, one after the other; and no text is
 * lost where there are no tools and no reasoning. */
#include <stdlib.h>
#include <string.h>

#include "../tests/calls_answer.h"
#include "calls/format.h"

static const char tool_list[] = "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                                "\"properties\":{\"s\":{\"type\":\"string\"},"
                                "\"n\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\","
                                "\"properties\":{\"a\":{\"type\":\"array\"}}},"
                                "\"e\":{\"type\":[\"string\",\"null\"]}}}},{\"name\":\"g\"}]";

static void print_answer(const kt__call_style *style, const kt__call_options *options,
                         const char *text, size_t len, size_t cut, kt__buf *out) {
    ca_answer a;
    if (ca_parse(style, options, text, len, cut, true, &a) != KT_OK || a.disorder) abort();
    ca_print(&a, out);
    if (!options->tools && strcmp(style->reasoning->name, "none") == 0 &&
        style->calls->kind != KT__CALLS_HARMONY &&
        (a.content.len != len || memcmp(a.content.data, text, len) != 0))
        abort();
    ca_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kt__tools *tools; /* the same for every input */
    kt__buf whole, bytes;
    if (size < 4 || size > 4096) return 0;
    if (!tools && kt__tools_read(tool_list, sizeof tool_list - 1, &tools, NULL) != KT_OK) abort();
    kt__call_style style = {.calls = &kt__call_formats[data[0] % kt__n_call_formats],
                            .reasoning = &kt__reason_formats[data[1] % kt__n_reason_formats]};
    const char *open = style.reasoning->open ? style.reasoning->open : "";
    const kt__call_options options = {.tools = data[2] & 1 ? tools : NULL,
                                      .prompt_tail = data[2] & 2 ? open : "",
                                      .prompt_tail_len = data[2] & 2 ? strlen(open) : 0,
                                      .reasoning = data[2] & 4 ? KT__REASON_KEEP : KT__REASON_SPLIT,
                                      .one_call = data[2] & 8};
    const char *text = (const char *)data + 3;
    kt__buf_init(&whole, 1 << 24);
    kt__buf_init(&bytes, 1 << 24);
    print_answer(&style, &options, text, size - 3, 0, &whole);
    print_answer(&style, &options, text, size - 3, 1, &bytes);
    if (whole.len != bytes.len || memcmp(whole.data, bytes.data, whole.len) != 0) abort();
    kt__buf_free(&whole);
    kt__buf_free(&bytes);
    return 0;
}
