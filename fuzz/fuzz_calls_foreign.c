/* A byte for the format, one for options, and an answer in which calls count in any spelling: no crash;
 * the events are the same for the whole text and for its bytes, one after the other; a text without a
 * call is left as it is; and arguments that are whole are JSON. */
#include <stdlib.h>
#include <string.h>

#include "../tests/calls_answer.h"
#include "base/alloc.h"
#include "base/json.h"
#include "calls/format.h"

static const char tool_list[] =
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":"
    "\"string\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"s\"]}},{\"name\":\"g\"}]";

static void check_args(const ca_answer *a) {
    for (uint32_t i = 0; i < a->n_calls && i < CA_MAX_CALLS; i++) {
        kt__arena arena;
        kt__json_node *root;
        const kt__buf *args = &a->calls[i].args;
        kt__arena_init(&arena, 4096, 1 << 24);
        kt_status status = a->calls[i].complete
                               ? kt__jdoc_parse(&arena, args->data, args->len, &root, NULL)
                               : KT_OK;
        if (status == KT_E_FORMAT) abort();
        kt__arena_free(&arena);
    }
}

static void print_answer(const kt__call_style *style, const kt__call_options *options,
                         const char *text, size_t len, size_t cut, kt__buf *out) {
    ca_answer a;
    if (ca_parse(style, options, text, len, cut, true, &a) != KT_OK) abort();
    bool many = a.n_calls >= CA_MAX_CALLS; /* more than are kept */
    if (a.disorder && !many) abort();
    if (!many) check_args(&a);
    ca_print(&a, out);
    bool same = a.content.len == len && (len == 0 || memcmp(a.content.data, text, len) == 0);
    if (a.n_calls == 0 && style->calls->kind == KT__CALLS_OBJECT && !style->calls->section_open &&
        !style->calls->start_tag && !style->calls->open && !same)
        abort();
    ca_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kt__tools *tools; /* the same for every input */
    kt__buf whole, bytes;
    if (size < 3 || size > 4096) return 0;
    if (!tools && kt__tools_read(tool_list, sizeof tool_list - 1, &tools, NULL) != KT_OK) abort();
    kt__call_style style;
    if (!kt__call_style_named("generic", "none", &style)) abort();
    if (data[0] & 1) style.calls = &kt__call_formats[data[0] / 2 % kt__n_call_formats];
    const kt__call_options options = {
        .tools = tools, .prompt_tail = "", .any_spelling = true, .one_call = data[1] & 1};
    const char *text = (const char *)data + 2;
    kt__buf_init(&whole, 1 << 24);
    kt__buf_init(&bytes, 1 << 24);
    print_answer(&style, &options, text, size - 2, 0, &whole);
    print_answer(&style, &options, text, size - 2, 1, &bytes);
    if (whole.len != bytes.len || memcmp(whole.data, bytes.data, whole.len) != 0) abort();
    kt__buf_free(&whole);
    kt__buf_free(&bytes);
    return 0;
}
