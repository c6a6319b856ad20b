#include <string.h>

#include "base/error.h"
#include "calls/tools_impl.h"

bool kt__tool_allowed(const kt__tool_choice *choice, uint32_t i) {
    if (choice->mode == KT__TOOL_NONE) return false;
    return !choice->limited || (choice->allowed[i / 64] >> (i % 64) & 1);
}

static kt_status unknown_choice(kt_error *err) {
    return kt__fail(err, KT_E_ARG,
                    "tool_choice is \"auto\", \"none\", \"required\", a tool's name, or an object "
                    "with a type of function, tool, allowed_tools, auto, any or none");
}

static bool mode_named(const kt__jnode *word, kt__tool_mode *mode) {
    if (kt__jdoc_is(word, "auto"))
        *mode = KT__TOOL_AUTO;
    else if (kt__jdoc_is(word, "none"))
        *mode = KT__TOOL_NONE;
    else if (kt__jdoc_is(word, "required") || kt__jdoc_is(word, "any"))
        *mode = KT__TOOL_REQUIRED;
    else
        return false;
    return true;
}

static kt_status allow_named(const kt__tools *tools, const kt__jnode *name, kt__tool_choice *out,
                             kt_error *err) {
    if (!name || name->type != KT__JT_STRING) return unknown_choice(err);
    uint32_t i = kt__tools_find(tools, name->s, name->n);
    if (i == UINT32_MAX)
        return kt__fail(err, KT_E_ARG, "tool_choice names %.*s, which is not among the tools",
                        (int)(name->n < 64 ? name->n : 64), name->s);
    out->limited = true;
    out->allowed[i / 64] |= UINT64_C(1) << (i % 64);
    return KT_OK;
}

static kt__jnode *choice_member(const kt__jnode *object, const char *name) {
    return object && object->type == KT__JT_OBJECT ? kt__jdoc_member(object, name, strlen(name))
                                                   : NULL;
}

/* The name within {"function":{"name"}} or {"name"}. */
static const kt__jnode *named_in(const kt__jnode *object) {
    const kt__jnode *function = choice_member(object, "function");
    return choice_member(function ? function : object, "name");
}

static kt_status read_allowed(const kt__tools *tools, const kt__jnode *object, kt__tool_choice *out,
                              kt_error *err) {
    const kt__jnode *inner = choice_member(object, "allowed_tools");
    if (!inner) inner = object;
    const kt__jnode *mode = choice_member(inner, "mode"), *list = choice_member(inner, "tools");
    if (mode && !mode_named(mode, &out->mode)) return unknown_choice(err);
    if (!list || list->type != KT__JT_ARRAY || list->n == 0) return unknown_choice(err);
    kt_status status = KT_OK;
    for (const kt__jnode *kid = list->first; kid && status == KT_OK; kid = kid->next)
        status = allow_named(tools, named_in(kid), out, err);
    return status;
}

static kt_status read_choice(const kt__tools *tools, const kt__jnode *root, kt__tool_choice *out,
                             kt_error *err) {
    if (root->type == KT__JT_NULL) return KT_OK;
    if (root->type == KT__JT_STRING) {
        if (mode_named(root, &out->mode)) return KT_OK;
        out->mode = KT__TOOL_REQUIRED;
        return allow_named(tools, root, out, err);
    }
    const kt__jnode *type = choice_member(root, "type");
    if (!type) return unknown_choice(err);
    if (mode_named(type, &out->mode)) return KT_OK;
    if (kt__jdoc_is(type, "allowed_tools")) return read_allowed(tools, root, out, err);
    if (!kt__jdoc_is(type, "function") && !kt__jdoc_is(type, "tool")) return unknown_choice(err);
    out->mode = KT__TOOL_REQUIRED;
    return allow_named(tools, named_in(root), out, err);
}

kt_status kt__tool_choice_read(const kt__tools *tools, const char *json, size_t len,
                               kt__tool_choice *out, kt_error *err) {
    kt__arena arena;
    kt__jnode *root;
    *out = (kt__tool_choice){.mode = KT__TOOL_AUTO};
    if (len == 0) return KT_OK;
    kt__arena_init(&arena, 4096, 64 << 20);
    kt_status status;
    KT__TRY(kt__jdoc_parse(&arena, json, len, &root, err));
    KT__TRY(read_choice(tools, root, out, err));
    if (out->mode == KT__TOOL_REQUIRED && kt__tools_count(tools) == 0)
        status = kt__fail(err, KT_E_ARG, "tool_choice asks for a call, and there are no tools");
out:
    kt__arena_free(&arena);
    return status;
}
