#include "term/text_file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "term/cli.h"

/* The first byte that is part of no character; len: there is none. */
static size_t first_bad_byte(const char *text, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint32_t cp;
        size_t n = (unsigned char)text[at] < 0x80 ? 1 : kt__utf8_decode(text + at, len - at, &cp);
        if (!n) break;
        at += n;
    }
    return at;
}

static kt_status check_text(const char *path, const char *text, size_t len, bool any_bytes,
                            kt_error *err) {
    bool is_stdin = !strcmp(path, "-");
    const char *name = is_stdin ? "standard input" : path;
    const char *nul = memchr(text, '\0', len);
    if (nul) {
        return kt__fail_at(err, KT_E_FORMAT, name, (uint64_t)(nul - text),
                           "the prompt holds a NUL byte: is it a text?");
    }
    size_t at = any_bytes ? len : first_bad_byte(text, len), line = 1;
    if (at == len) return KT_OK;
    for (size_t i = 0; i < at; i++) line += text[i] == '\n';
    return kt__fail_at(err, KT_E_ARG, name, at,
                       "not UTF-8: byte 0x%02x in line %zu; if it is Latin-1: iconv -f LATIN1 -t "
                       "UTF-8 %.200s",
                       (unsigned char)text[at], line, is_stdin ? "" : path);
}

/* A byte-order mark at the beginning says nothing; editors on Windows leave one. */
static void drop_mark(char *text, size_t *len) {
    static const char mark[] = "\xef\xbb\xbf";
    if (*len < 3 || memcmp(text, mark, 3) != 0) return;
    *len -= 3;
    memmove(text, text + 3, *len + 1);
}

kt_status kt__text_file_read(const char *path, size_t max, bool any_bytes, char **text, size_t *len,
                             kt_error *err) {
    kt_status status = kt__cli_read_file(path, max, text, len, err);
    if (status != KT_OK) return status;
    drop_mark(*text, len);
    status = check_text(path, *text, *len, any_bytes, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*text);
    *text = NULL;
    return status;
}
