/* Arbitrary bytes as a modelfile and as a Go template: what is read can be written and read again, line for line, and
 * a template becomes Jinja's source or a refusal in words. */
#include <string.h>

#include "store/modelfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next line of a kind from *i on; NULL: there is none. */
static const kt__modelfile_line *next_of(const kt__modelfile *f, kt__modelfile_kind kind,
                                         size_t *i) {
    for (; *i < f->n; (*i)++)
        if (f->lines[*i].kind == kind) return &f->lines[(*i)++];
    return NULL;
}

static void compare_kind(const kt__modelfile *a, const kt__modelfile *b, kt__modelfile_kind kind) {
    size_t i = 0, k = 0;
    for (;;) {
        const kt__modelfile_line *x = next_of(a, kind, &i), *y = next_of(b, kind, &k);
        if (!x != !y) __builtin_trap();
        if (!x) return;
        if (strcmp(x->name, y->name) != 0 || strcmp(x->value, y->value) != 0) __builtin_trap();
    }
}

static void read_twice(const char *text, size_t size) {
    kt__modelfile once, again;
    kt__buf written;
    kt_error err;
    kt__modelfile_init(&once);
    kt__modelfile_init(&again);
    kt__buf_init(&written, 1 << 24);
    kt_status status = kt__modelfile_read(&once, text, size, &err);
    if (status != KT_OK && (!err.message[0] || err.code != status)) __builtin_trap();
    if (status == KT_OK) {
        kt__modelfile_write(&once, &written);
        if (kt__modelfile_read(&again, written.data ? written.data : "", written.len, &err) !=
                KT_OK &&
            err.code != KT_E_LIMIT)
            __builtin_trap();
        for (int kind = 0; kind < KT__MODELFILE_KINDS; kind++)
            compare_kind(&once, &again, (kt__modelfile_kind)kind);
    }
    kt__buf_free(&written);
    kt__modelfile_free(&once);
    kt__modelfile_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__buf jinja;
    kt_error err;
    if (size > 1 << 16) return 0;
    read_twice((const char *)data, size);
    kt__buf_init(&jinja, 4 << 20);
    kt_status status = kt__go_template_translate((const char *)data, size, &jinja, &err);
    if (status != KT_OK && (!err.message[0] || err.code != status)) __builtin_trap();
    kt__buf_free(&jinja);
    return 0;
}
