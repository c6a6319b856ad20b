/* Whether a text is well-formed XML as reports are written: one root, tags that match, quoted attributes, the five
 * entities and numbers, characters that XML has. Fails the test with the place. */
#ifndef XML_CHECK_H
#define XML_CHECK_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { XML_DEEPEST = 64 };

typedef struct xml_place {
    const char *text, *at;
    struct {
        const char *name;
        size_t len;
    } open[XML_DEEPEST];
    int depth, n_roots;
} xml_place;

static inline void xml_fail(const xml_place *p, const char *what) {
    size_t before = p->at - p->text < 60 ? (size_t)(p->at - p->text) : 60;
    fail_msg("byte %zu: %s: %.*s[here]%.40s", (size_t)(p->at - p->text), what, (int)before,
             p->at - before, p->at);
}

static inline void xml_characters(xml_place *p, size_t len) {
    for (const char *at = p->text; at < p->text + len;) {
        uint32_t cp = 0;
        size_t n = kt__utf8_decode(at, (size_t)(p->text + len - at), &cp);
        p->at = at;
        if (!n) xml_fail(p, "no UTF-8");
        if (cp < 32 && cp != '\n' && cp != '\t') xml_fail(p, "a control character");
        if ((cp & 0xfffe) == 0xfffe) xml_fail(p, "not a character");
        at += n;
    }
    p->at = p->text;
}

static inline void xml_entity(xml_place *p) {
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(p->at, known[i], strlen(known[i]))) {
            p->at += strlen(known[i]);
            return;
        }
    xml_fail(p, "an unknown entity");
}

static inline size_t xml_name(xml_place *p) {
    const char *begin = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '-' || *p->at == ':') p->at++;
    if (p->at == begin) xml_fail(p, "no name");
    return (size_t)(p->at - begin);
}

static inline void xml_attributes(xml_place *p) {
    while (*p->at == ' ') {
        p->at++;
        (void)xml_name(p);
        if (strncmp(p->at, "=\"", 2) != 0) xml_fail(p, "no quoted value");
        for (p->at += 2; *p->at && *p->at != '"';) {
            if (*p->at == '<') xml_fail(p, "a tag in a value");
            if (*p->at == '&')
                xml_entity(p);
            else
                p->at++;
        }
        if (*p->at++ != '"') xml_fail(p, "a value without an end");
    }
}

static inline void xml_tag(xml_place *p) {
    bool closing = p->at[1] == '/';
    p->at += closing ? 2 : 1;
    const char *name = p->at;
    size_t len = xml_name(p);
    if (closing) {
        if (!p->depth--) xml_fail(p, "closed, but not open");
        if (p->open[p->depth].len != len || strncmp(p->open[p->depth].name, name, len) != 0)
            xml_fail(p, "another tag is open");
    } else {
        xml_attributes(p);
        p->n_roots += !p->depth;
        if (p->depth == XML_DEEPEST) xml_fail(p, "too deep");
        p->open[p->depth].name = name;
        p->open[p->depth++].len = len;
        if (*p->at == '/') p->depth--, p->at++;
    }
    if (*p->at++ != '>') xml_fail(p, "no end of the tag");
}

static inline void xml_check(const char *text, size_t len) {
    static const char doctype[] = "<!DOCTYPE html>";
    xml_place p = {.text = text, .at = text};
    assert_int_equal(strlen(text), len);
    xml_characters(&p, len);
    if (!strncmp(p.at, doctype, strlen(doctype))) p.at += strlen(doctype);
    while (*p.at) {
        if (*p.at == '<')
            xml_tag(&p);
        else if (*p.at == '&')
            xml_entity(&p);
        else if (!p.depth && !isspace((unsigned char)*p.at))
            xml_fail(&p, "a text outside");
        else
            p.at++;
    }
    if (p.depth) xml_fail(&p, "the end, and a tag is open");
    assert_int_equal(p.n_roots, 1);
}

#endif
