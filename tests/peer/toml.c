/* For toml.py: TOML documents on standard input, each ended by a NUL byte; for each a line of JSON,
 * values tagged with their kind, or "refused". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup/toml.h"

static void print_text(const char *s) {
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') putchar('\\');
        if (c < 0x20 || c == 0x7f) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print_value(const kt__toml *v) {
    switch (v->kind) {
    case KT__TOML_STRING: print_text(v->text); return;
    case KT__TOML_BOOL: fputs(v->truth ? "true" : "false", stdout); return;
    case KT__TOML_INT: printf("%lld", (long long)v->whole); return;
    case KT__TOML_FLOAT:
        if (isnan(v->real)) {
            fputs("{\"float\":\"nan\"}", stdout);
        } else {
            printf("{\"float\":\"%a\"}", v->real);
        }
        return;
    default: break;
    }
    bool table = v->kind == KT__TOML_TABLE;
    putchar(table ? '{' : '[');
    if (table) fputs("\"\":{", stdout);
    for (const kt__toml *item = v->first; item; item = item->next) {
        if (item != v->first) putchar(',');
        if (table) print_text(item->key), putchar(':');
        print_value(item);
    }
    if (table) putchar('}');
    putchar(table ? '}' : ']');
}

int main(void) {
    static char text[1 << 20];
    size_t len = 0;
    for (int c; (c = getchar()) != EOF;) {
        if (c && len < sizeof text - 1) {
            text[len++] = (char)c;
            continue;
        }
        kt__arena arena;
        kt__toml *root;
        kt_error err;
        kt__arena_init(&arena, 4096, 1 << 24);
        if (kt__toml_parse(text, len, "t", &arena, &root, &err) == KT_OK) {
            print_value(root);
        } else {
            fputs("\"refused\"", stdout);
        }
        putchar('\n');
        kt__arena_free(&arena);
        len = 0;
    }
    return 0;
}
