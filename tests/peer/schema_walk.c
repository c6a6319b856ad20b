/* Random texts that a schema's constraint takes: for each line {"id", "schema"} of standard input, which
 * tests/peer/walks.py has cut to ID TAB SCHEMA, some lines ID TAB TEXT; or ID TAB TAB why it is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "grammar/grammar_impl.h"

enum { MAX_TEXT = 6000, ROUNDS = 6 };

static uint32_t roll(uint64_t *state, uint32_t n) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

/* A byte that fits, by chance; in a string mostly letters and its end. */
static int some_byte(kt__grammar *g, kt__gstate *s, uint64_t *state) {
    static const char likely[] = "\"\"\"aeinst 0123456789-.:/@TZ{}[],:tfn\\u";
    for (int tries = 0; tries < 600; tries++) {
        bool any = tries > 200;
        uint8_t b = any ? (uint8_t)roll(state, 256)
                        : (uint8_t)likely[roll(state, sizeof likely - 1)];
        kt__gstate next = *s;
        size_t one = 1;
        if (!kt__grammar_feed(g, &next, (const char *)&b, &one)) continue;
        *s = next;
        return b;
    }
    return -1;
}

static const char *walk(kt__grammar *g, uint64_t *state, char *text, size_t *len) {
    kt__gstate s;
    size_t n = 0, rest = 0, until = 20 + roll(state, 300);
    kt__grammar_start(g, &s);
    while (n < until && !kt__grammar_ended(g, &s)) {
        int b = some_byte(g, &s, state);
        if (b < 0) break;
        text[n++] = (char)b;
    }
    if (!kt__grammar_finish(g, &s, text + n, MAX_TEXT - n, &rest)) return "no way to the end";
    *len = n + rest;
    return NULL;
}

static void walk_schema(const char *id, const char *schema, size_t len, uint64_t *state) {
    static char text[MAX_TEXT];
    for (int round = 0; round < ROUNDS; round++) {
        const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                           .text = schema,
                                           .len = len,
                                           .layout = (kt__glayout)(round % 3),
                                           .ordered = round % 2 == 0,
                                           .closed = round % 5 == 0};
        kt__grammar *g;
        kt__refusal why;
        size_t n = 0;
        if (kt__grammar_create(&source, &g, &why, NULL) != KT_OK) {
            printf("%s\t\t%s\n", id, why.why);
            return;
        }
        const char *fault = walk(g, state, text, &n);
        if (fault)
            printf("%s\t\t%s\n", id, fault);
        else
            printf("%s\t%.*s\n", id, (int)n, text);
        kt__grammar_free(g);
    }
}

int main(void) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    uint64_t state = 1;
    while ((len = getline(&line, &cap, stdin)) > 0) {
        char *tab = strchr(line, '\t');
        if (!tab) continue;
        if (line[len - 1] == '\n') len--;
        *tab = '\0';
        walk_schema(line, tab + 1, (size_t)(len - (tab + 1 - line)), &state);
    }
    free(line);
    return 0;
}
