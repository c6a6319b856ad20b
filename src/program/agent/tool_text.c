/* A tool's name for a model, and what its result is as text. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tool_text.h"
#include "base/hash.h"

enum { HASH_DIGITS = 8 };

/* Models' formats know letters, digits, _ and -; a long name keeps its beginning and gets a hash. */
void kt__agent_make_name(const char *server, const char *tool, char out[KT__AGENT_NAME + 1]) {
    char whole[512];
    int n = snprintf(whole, sizeof whole, "%.200s%s%.300s", server ? server : "",
                     server ? "__" : "", tool);
    size_t len = n < 0 ? 0 : (size_t)n, kept = len < KT__AGENT_NAME ? len : KT__AGENT_NAME;
    memcpy(out, whole, kept);
    out[kept] = '\0';
    for (char *at = out; *at; at++) {
        if (!isalnum((unsigned char)*at) && *at != '_' && *at != '-') *at = '_';
    }
    if (len <= KT__AGENT_NAME) return;
    kt__digest digest = kt__hash_bytes(1, whole, strlen(whole));
    snprintf(out + KT__AGENT_NAME - HASH_DIGITS, HASH_DIGITS + 1, "%08x",
             (unsigned)(digest.w[0] & 0xffffffff));
}

/* Cut where characters begin. */
static bool is_inside_char(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

void kt__agent_cut_middle(kt__buf *text, size_t max) {
    char note[80];
    if (text->len <= max || max < sizeof note * 2) return;
    size_t head = (max - sizeof note) / 2, tail = text->len - (max - sizeof note) / 2;
    while (head && is_inside_char(text->data[head])) head--;
    while (tail < text->len && is_inside_char(text->data[tail])) tail++;
    int n = snprintf(note, sizeof note, "\n[... %zu bytes left out ...]\n", tail - head);
    memmove(text->data + head + n, text->data + tail, text->len - tail + 1);
    memcpy(text->data + head, note, (size_t)n);
    text->len = head + (size_t)n + (text->len - tail);
}

static size_t base64_bytes(const json_t *data) {
    return json_string_length(data) / 4 * 3;
}

static void add_block(const json_t *block, kt__buf *text) {
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *resource = json_object_get(block, "resource");
    const json_t *from = resource ? resource : block;
    const json_t *said = json_object_get(from, "text"), *data = json_object_get(from, "data");
    const char *uri = json_string_value(json_object_get(from, "uri"));
    const char *mime = json_string_value(json_object_get(from, "mimeType"));
    if (text->len) (void)kt__buf_putc(text, '\n');
    if (json_is_string(said)) {
        (void)kt__buf_append(text, json_string_value(said), json_string_length(said));
    } else if (uri) { /* nothing is fetched */
        (void)kt__buf_printf(text, "[%.40s: %.2000s]", type ? type : "resource", uri);
    } else {
        (void)kt__buf_printf(text, "[%.40s %.80s, %zu bytes: it cannot be shown here]",
                             type ? type : "something", mime ? mime : "", base64_bytes(data));
    }
}

bool kt__agent_result_text(const json_t *result, kt__buf *text) {
    const json_t *content = json_object_get(result, "content"), *block;
    const json_t *structured = json_object_get(result, "structuredContent");
    size_t i;
    json_array_foreach(content, i, block) {
        if (!text->failed) add_block(block, text);
    }
    if (!text->len && structured) {
        char *dumped = json_dumps(structured, JSON_COMPACT | JSON_ENCODE_ANY);
        if (dumped) (void)kt__buf_puts(text, dumped);
        free(dumped);
    }
    if (!text->len) (void)kt__buf_puts(text, "(nothing)");
    return !json_is_true(json_object_get(result, "isError"));
}
