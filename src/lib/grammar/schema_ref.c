/* Identifiers and references within one document (RFC 3986, section 5, without fetching). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "grammar/schema_reader.h"

enum { MAX_URI = 2048 };

/* ---- URIs ---- */

static size_t scheme_length(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 0 && s[n] == ':' ? n + 1 : 0;
}

/* The end of scheme and authority. */
static size_t authority_end(const char *s) {
    size_t n = scheme_length(s);
    if (strncmp(s + n, "//", 2) == 0) n += 2 + strcspn(s + n + 2, "/?#");
    return n;
}

/* Takes "." and ".." out of the path that begins at path. */
static void remove_dots(char *path) {
    char *to = path, *from = path;
    while (*from) {
        size_t n = 1 + strcspn(from + 1, "/");
        bool one = n == 2 && from[0] == '/' && from[1] == '.';
        bool two = n == 3 && strncmp(from, "/..", 3) == 0;
        if (two)
            while (to > path && *--to != '/') {
            }
        if (!one && !two) {
            memmove(to, from, n);
            to += n;
        } else if (from[n] == '\0') {
            *to++ = '/';
        }
        from += n;
    }
    *to = '\0';
}

/* ref against base, without the fragment of either. */
static void resolve_uri(const char *base, const char *ref, size_t ref_len, char out[MAX_URI]) {
    char rel[MAX_URI / 2];
    size_t n = ref_len < sizeof rel - 1 ? ref_len : sizeof rel - 1;
    memcpy(rel, ref, n);
    rel[n] = '\0';
    rel[strcspn(rel, "#")] = '\0';
    size_t base_len = strcspn(base, "#"), root = authority_end(base);
    if (base_len > MAX_URI / 2) base_len = MAX_URI / 2;
    if (rel[0] == '\0') {
        snprintf(out, MAX_URI, "%.*s", (int)base_len, base);
        return;
    }
    if (scheme_length(rel) > 0) {
        snprintf(out, MAX_URI, "%s", rel);
        return;
    }
    if (strncmp(rel, "//", 2) == 0) {
        snprintf(out, MAX_URI, "%.*s%s", (int)scheme_length(base), base, rel);
        return;
    }
    size_t keep = root;
    for (size_t i = root; rel[0] != '/' && i < base_len; i++)
        if (base[i] == '/') keep = i + 1;
    bool slash = keep == root && root > 0 && rel[0] != '/';
    snprintf(out, MAX_URI, "%.*s%s%s", (int)keep, base, slash ? "/" : "", rel);
    if (strlen(out) > root) remove_dots(out + root);
}

/* ---- resources ---- */

static const char *id_keyword(const kt__sreader *r) {
    return r->draft == 4 ? "id" : "$id";
}

static const kt__json_node *own_id(const kt__sreader *r, const kt__json_node *node) {
    const char *name = id_keyword(r);
    if (node->type != KT__JSON_OBJECT) return NULL;
    if (r->draft > 0 && r->draft <= 7 && kt__jdoc_member(node, "$ref", 4)) return NULL;
    const kt__json_node *id = kt__jdoc_member(node, name, strlen(name));
    return id && id->type == KT__JSON_STRING && id->n > 0 && id->s[0] != '#' ? id : NULL;
}

static const kt__sresource *resource_of(const kt__sreader *r, const kt__json_node *node) {
    for (; node; node = node->parent)
        for (uint32_t i = r->n_resources; i-- > 0;)
            if (r->resources[i].root == node) return &r->resources[i];
    return &r->resources[0];
}

static void add_resource(kt__sreader *r, kt__json_node *node, const char *base,
                         const kt__json_node *id) {
    char uri[MAX_URI];
    if (r->n_resources == KT__SCHEMA_MAX_RESOURCES) {
        kt__sreader_fail(r, KT_E_LIMIT, node, NULL, "more than %d identifiers",
                         KT__SCHEMA_MAX_RESOURCES);
        return;
    }
    resolve_uri(base, id ? id->s : "", id ? id->n : 0, uri);
    char *copy = kt__arena_strndup(&r->s->arena, uri, strlen(uri));
    if (copy) r->resources[r->n_resources++] = (kt__sresource){copy, node};
}

/* Where subschemas are: S one, L a list of them, M members of an object; I one or a list. */
static char subschema_kind(const kt__json_node *member) {
    static const char *const names[] = {"S additionalProperties",
                                        "S additionalItems",
                                        "S contains",
                                        "S propertyNames",
                                        "S not",
                                        "S if",
                                        "S then",
                                        "S else",
                                        "S unevaluatedProperties",
                                        "S unevaluatedItems",
                                        "I items",
                                        "L allOf",
                                        "L anyOf",
                                        "L oneOf",
                                        "L prefixItems",
                                        "M properties",
                                        "M patternProperties",
                                        "M $defs",
                                        "M definitions",
                                        "M dependentSchemas",
                                        "M dependencies"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) - 2 == member->key_len &&
            memcmp(names[i] + 2, member->key, member->key_len) == 0)
            return names[i][0];
    return '\0';
}

static void walk_schemas(kt__sreader *r, kt__json_node *node, const char *base);

static void walk_kids(kt__sreader *r, kt__json_node *node, const char *base) {
    for (kt__json_node *kid = node->first; kid && r->status == KT_OK; kid = kid->next)
        walk_schemas(r, kid, base);
}

/* The document's depth bounds the recursion. */
static void walk_schemas(kt__sreader *r, kt__json_node *node, const char *base) {
    if (node->type != KT__JSON_OBJECT) return;
    const kt__json_node *id = own_id(r, node);
    if (id && node != r->root) {
        add_resource(r, node, base, id);
        base = r->resources[r->n_resources - 1].uri;
    }
    for (kt__json_node *kid = node->first; kid && r->status == KT_OK; kid = kid->next) {
        char kind = subschema_kind(kid);
        if (kind == 'S' || (kind == 'I' && kid->type == KT__JSON_OBJECT))
            walk_schemas(r, kid, base);
        if ((kind == 'L' || kind == 'I') && kid->type == KT__JSON_ARRAY) walk_kids(r, kid, base);
        if (kind == 'M' && kid->type == KT__JSON_OBJECT) walk_kids(r, kid, base);
    }
}

kt_status kt__sreader_find_resources(kt__sreader *r) {
    r->resources = kt__calloc(KT__SCHEMA_MAX_RESOURCES, sizeof *r->resources);
    if (!r->resources) {
        r->status = KT_E_NOMEM;
        return r->status;
    }
    add_resource(r, r->root, "", own_id(r, r->root));
    if (r->n_resources == 0) return r->status = KT_E_NOMEM;
    walk_schemas(r, r->root, r->resources[0].uri);
    return r->status;
}

/* ---- anchors ---- */

typedef struct anchor_search {
    const kt__sreader *r;
    const char *name;
    size_t len;
    bool dynamic; /* of $dynamicAnchor, in every resource */
    kt__json_node *found;
    uint32_t n_found;
} anchor_search;

static bool has_anchor(const anchor_search *a, const kt__json_node *node, const char *keyword) {
    const kt__json_node *value = kt__jdoc_member(node, keyword, strlen(keyword));
    return value && value->type == KT__JSON_STRING && value->n == a->len &&
           memcmp(value->s, a->name, a->len) == 0;
}

static bool has_hash_id(const anchor_search *a, const kt__json_node *node) {
    const char *name = id_keyword(a->r);
    const kt__json_node *id = kt__jdoc_member(node, name, strlen(name));
    return a->r->draft <= 7 && id && id->type == KT__JSON_STRING && id->n == a->len + 1 &&
           id->s[0] == '#' && memcmp(id->s + 1, a->name, a->len) == 0;
}

static void search_anchor(anchor_search *a, kt__json_node *node, const kt__json_node *top) {
    if (node != top && !a->dynamic && own_id(a->r, node)) return; /* another resource */
    bool here = has_anchor(a, node, "$dynamicAnchor");
    if (!a->dynamic)
        here = here || has_anchor(a, node, "$anchor") || (node != top && has_hash_id(a, node));
    if (here && node->type == KT__JSON_OBJECT) {
        if (!a->found) a->found = node;
        a->n_found++;
    }
    for (kt__json_node *kid = node->first; kid; kid = kid->next) {
        bool data = kid->key && node->type == KT__JSON_OBJECT &&
                    (strcmp(kid->key, "enum") == 0 || strcmp(kid->key, "const") == 0);
        if (!data) search_anchor(a, kid, top);
    }
}

/* ---- references ---- */

static kt__json_node *at_fragment(kt__sreader *r, kt__json_node *node, const char *keyword,
                                  const kt__sresource *to, const char *fragment, size_t len) {
    kt__json_node *found = NULL;
    if (len == 0) {
        found = to->root;
    } else if (fragment[0] == '/') {
        found = kt__jdoc_at(to->root, fragment, len);
    } else {
        anchor_search a = {r, fragment, len, false, NULL, 0};
        search_anchor(&a, to->root, to->root);
        found = a.found;
    }
    if (!found) kt__sreader_fail(r, KT_E_UNSUPPORTED, node, keyword, "names nothing in the schema");
    return found;
}

static kt__json_node *resolve_ref(kt__sreader *r, kt__json_node *node, const char *keyword,
                                  const kt__json_node *ref) {
    char uri[MAX_URI];
    const kt__sresource *own = resource_of(r, node), *to = NULL;
    const char *hash = memchr(ref->s, '#', ref->n);
    resolve_uri(own->uri, ref->s, ref->n, uri);
    if (strcmp(uri, own->uri) == 0) to = own;
    for (uint32_t i = 0; i < r->n_resources && !to; i++)
        if (strcmp(r->resources[i].uri, uri) == 0) to = &r->resources[i];
    if (!to) {
        kt__sreader_fail(r, KT_E_UNSUPPORTED, node, keyword,
                         "another document (%.100s); schemas are not fetched", uri);
        return NULL;
    }
    size_t at = hash ? (size_t)(hash - ref->s) + 1 : ref->n;
    return at_fragment(r, node, keyword, to, ref->s + at, ref->n - at);
}

/* A dynamic reference is a plain one where only one place can be meant. */
static bool is_static(kt__sreader *r, kt__json_node *node, const kt__json_node *ref,
                      const kt__json_node *to) {
    (void)node;
    const kt__json_node *anchor = kt__jdoc_member(to, "$dynamicAnchor", 14);
    const char *hash = memchr(ref->s, '#', ref->n);
    size_t len = hash ? ref->n - (size_t)(hash - ref->s) - 1 : 0;
    if (!anchor || anchor->type != KT__JSON_STRING || !hash || len != anchor->n ||
        memcmp(hash + 1, anchor->s, len) != 0)
        return true; /* to a plain anchor or a pointer */
    anchor_search a = {r, anchor->s, anchor->n, true, NULL, 0};
    search_anchor(&a, r->root, r->root);
    return a.n_found == 1;
}

static bool has_recursive_anchor(const kt__json_node *node) {
    const kt__json_node *flag = kt__jdoc_member(node, "$recursiveAnchor", 16);
    if (flag && flag->type == KT__JSON_TRUE && node->parent) return true;
    for (const kt__json_node *kid = node->first; kid; kid = kid->next)
        if (has_recursive_anchor(kid)) return true;
    return false;
}

kt__json_node *kt__sreader_resolve(kt__sreader *r, kt__json_node *node, const char *keyword,
                                   const kt__json_node *ref) {
    if (ref->type != KT__JSON_STRING) {
        kt__sreader_fail(r, KT_E_FORMAT, node, keyword, "expected a string");
        return NULL;
    }
    kt__json_node *to = resolve_ref(r, node, keyword, ref);
    bool dynamic = to && strcmp(keyword, "$dynamicRef") == 0 && !is_static(r, node, ref, to);
    bool recursive = to && strcmp(keyword, "$recursiveRef") == 0 && has_recursive_anchor(r->root);
    if (dynamic || recursive) {
        kt__sreader_fail(r, KT_E_UNSUPPORTED, node, keyword, "depends on who refers to it");
        return NULL;
    }
    return to;
}
