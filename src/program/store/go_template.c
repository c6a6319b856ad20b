#include "store/modelfile.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* ---- actions ---- */

typedef enum block_kind { BLOCK_IF, BLOCK_RANGE } block_kind;

typedef struct block {
    block_kind kind;
    char index[40], item[40]; /* the variables of a range, without '$'; or "" */
} block;

typedef struct translator {
    const char *at, *end; /* within the template */
    kt__buf *out;
    kt_error *err;
    bool cut, stops_there; /* what follows .Response is left out: of the last turn */
    block blocks[KT__GO_TEMPLATE_MAX_DEPTH];
    int n_blocks;
    /* the present action's words */
    const char *word_at, *word_end;
} translator;

/* A word of an action: a name, field, variable, text, number or sign. */
typedef struct word {
    const char *s;
    size_t len;
} word;

static kt_status fail_unknown(const translator *t, const char *what, word w) {
    return kt__fail(t->err, KT_E_UNSUPPORTED,
                    "the template's %s \"%.*s\" is not supported: give the template as the model's "
                    "file has it, or leave TEMPLATE out",
                    what, w.len > 60 ? 60 : (int)w.len, w.s);
}

static kt_status fail_template(const translator *t, const char *what) {
    return kt__fail(t->err, KT_E_FORMAT, "the template is no Go template: %s", what);
}

static bool is_word(word w, const char *text) {
    return w.len == strlen(text) && !memcmp(w.s, text, w.len);
}

static bool is_name_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static kt_status take_quoted_word(translator *t, word *out) {
    char quote = *t->word_at;
    const char *s = t->word_at + 1;
    while (s < t->word_end && *s != quote) {
        if (*s == '\\' && quote == '"') s++;
        s++;
    }
    if (s >= t->word_end) return fail_template(t, "a text has no end");
    *out = (word){t->word_at, (size_t)(s + 1 - t->word_at)};
    t->word_at = s + 1;
    return KT_OK;
}

/* The next word of the action; its length is 0 at the end. */
static kt_status take_word(translator *t, word *out) {
    while (t->word_at < t->word_end && isspace((unsigned char)*t->word_at)) t->word_at++;
    const char *from = t->word_at;
    *out = (word){from, 0};
    if (from == t->word_end) return KT_OK;
    if (*from == '"' || *from == '`') return take_quoted_word(t, out);
    if (from + 1 < t->word_end && from[0] == ':' && from[1] == '=') {
        t->word_at += 2;
    } else if (strchr("(),|=", *from)) {
        t->word_at++;
    } else {
        while (t->word_at < t->word_end &&
               (is_name_char(*t->word_at) || strchr("$.-", *t->word_at)))
            t->word_at++;
        if (t->word_at == from) return fail_unknown(t, "sign", (word){from, 1});
    }
    out->len = (size_t)(t->word_at - from);
    return KT_OK;
}

static kt_status peek_word(translator *t, word *out) {
    const char *before = t->word_at;
    kt_status status = take_word(t, out);
    t->word_at = before;
    return status;
}

/* ---- texts ---- */

/* A text of the template's own as a text of Jinja: of an expression no white space is trimmed. */
static void put_literal(kt__buf *out, const char *s, size_t len) {
    (void)kt__buf_puts(out, "'");
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\n') {
            (void)kt__buf_puts(out, "\\n");
        } else {
            if (s[i] == '\'' || s[i] == '\\') (void)kt__buf_putc(out, '\\');
            (void)kt__buf_putc(out, s[i]);
        }
    }
    (void)kt__buf_puts(out, "'");
}

static void put_text(const translator *t, const char *s, size_t len) {
    if (!len || t->cut) return;
    (void)kt__buf_puts(t->out, "{{ ");
    put_literal(t->out, s, len);
    (void)kt__buf_puts(t->out, " }}");
}

/* "a\nb" and `raw`: w is a text with its quotes. */
static kt_status put_quoted(translator *t, word w) {
    static const char from[] = "nt\"\\r", to[] = "\n\t\"\\\r";
    kt__buf plain;
    kt_status status = KT_OK;
    kt__buf_init(&plain, KT__GO_TEMPLATE_MAX_BYTES);
    for (const char *s = w.s + 1; s < w.s + w.len - 1 && status == KT_OK; s++) {
        const char *known = NULL;
        bool escape = *s == '\\' && *w.s == '"';
        if (escape) known = s[1] ? strchr(from, *++s) : NULL;
        if (escape && !known) status = fail_unknown(t, "text", w);
        (void)kt__buf_putc(&plain, known ? to[known - from] : *s);
    }
    put_literal(t->out, plain.data ? plain.data : "", plain.len);
    kt__buf_free(&plain);
    return status;
}

/* ---- expressions ---- */

static kt_status put_expression(translator *t, int depth);

/* The names that values have for Ollama's templates, and for Jinja's. */
static const struct {
    const char *go, *jinja;
} root_fields[] = {{"Messages", "messages"},
                   {"Tools", "(tools|default([]))"},
                   {"System", "v.system"},
                   {"Prompt", "v.prompt"},
                   {"Response", "v.response"},
                   {"Think", "(enable_thinking|default(false))"},
                   {"IsThinkSet", "(enable_thinking is defined)"},
                   {"ThinkLevel", "(reasoning_effort|default(''))"}},
  item_fields[] = {{"Role", ".role"},
                   {"Content", ".content"},
                   {"Thinking", ".reasoning_content"},
                   {"ToolCalls", ".tool_calls"},
                   {"ToolName", ".name"},
                   {"ToolCallID", ".tool_call_id"},
                   {"Function", ".function"},
                   {"Name", ".name"},
                   {"Arguments", ".arguments"},
                   {"Description", ".description"},
                   {"Parameters", ".parameters"},
                   {"Properties", ".properties"},
                   {"Required", ".required"},
                   {"Type", ".type"},
                   {"Enum", ".enum"},
                   {"ID", ".id"}};

static const block *innermost_range(const translator *t) {
    for (int i = t->n_blocks; i-- > 0;)
        if (t->blocks[i].kind == BLOCK_RANGE) return &t->blocks[i];
    return NULL;
}

/* ".Role", ".Function.Name" after what they are of; "Content" of a message without one is empty. */
static kt_status put_fields(translator *t, word whole, const char *s, const char *end) {
    while (s < end) {
        const char *name = ++s;
        size_t i = 0, n = sizeof item_fields / sizeof *item_fields;
        while (s < end && is_name_char(*s)) s++;
        size_t len = (size_t)(s - name);
        while (i < n && (strlen(item_fields[i].go) != len || memcmp(item_fields[i].go, name, len)))
            i++;
        if (i == n || (s < end && *s != '.')) return fail_unknown(t, "field", whole);
        (void)kt__buf_puts(t->out, item_fields[i].jinja);
    }
    return KT_OK;
}

/* ".System", "$.Messages": of all that is rendered. */
static kt_status put_root(translator *t, word whole, const char *s) {
    size_t i = 0, n = sizeof root_fields / sizeof *root_fields;
    const char *end = whole.s + whole.len, *name = s + 1, *rest = name;
    while (rest < end && is_name_char(*rest)) rest++;
    size_t len = (size_t)(rest - name);
    while (i < n && (strlen(root_fields[i].go) != len || memcmp(root_fields[i].go, name, len))) i++;
    if (i == n) return fail_unknown(t, "field", whole);
    (void)kt__buf_puts(t->out, root_fields[i].jinja);
    return put_fields(t, whole, rest, end);
}

static kt_status put_variable(translator *t, word w) {
    const char *end = w.s + w.len, *name = w.s + 1, *rest = name;
    while (rest < end && is_name_char(*rest)) rest++;
    int len = (int)(rest - name);
    if (!len) return rest < end ? put_root(t, w, rest) : fail_unknown(t, "value", w);
    for (int i = t->n_blocks; i-- > 0;) {
        const block *b = &t->blocks[i];
        bool index = (int)strlen(b->index) == len && !memcmp(b->index, name, (size_t)len);
        bool item = (int)strlen(b->item) == len && !memcmp(b->item, name, (size_t)len);
        if (b->kind != BLOCK_RANGE || (!index && !item)) continue;
        (void)kt__buf_printf(t->out, index ? "index%d" : "item%d", i);
        return put_fields(t, w, rest, end);
    }
    (void)kt__buf_printf(t->out, "v.own_%.*s", len, name);
    return put_fields(t, w, rest, end);
}

/* "." and ".Role": of the innermost range's item, or of all. */
static kt_status put_dot(translator *t, word w) {
    const block *b = innermost_range(t);
    if (!b) return w.len > 1 ? put_root(t, w, w.s) : fail_unknown(t, "value", w);
    (void)kt__buf_printf(t->out, "item%d", (int)(b - t->blocks));
    return w.len > 1 ? put_fields(t, w, w.s, w.s + w.len) : KT_OK;
}

static kt_status put_operand(translator *t, int depth) {
    word w, close;
    KT__STEP(take_word(t, &w));
    if (!w.len) return fail_template(t, "a value is missing");
    if (*w.s == '(') {
        (void)kt__buf_putc(t->out, '(');
        KT__STEP(put_expression(t, depth + 1));
        (void)kt__buf_putc(t->out, ')');
        KT__STEP(take_word(t, &close));
        return is_word(close, ")") ? KT_OK : fail_template(t, "a parenthesis has no end");
    }
    if (*w.s == '"' || *w.s == '`') return put_quoted(t, w);
    if (*w.s == '$') return put_variable(t, w);
    if (*w.s == '.') return put_dot(t, w);
    bool number = isdigit((unsigned char)*w.s) || (*w.s == '-' && w.len > 1);
    for (size_t i = 1; number && i < w.len; i++) number = isdigit((unsigned char)w.s[i]);
    if (!number && !is_word(w, "true") && !is_word(w, "false"))
        return fail_unknown(t, "function", w);
    (void)kt__buf_append(t->out, w.s, w.len);
    return KT_OK;
}

/* Whether another operand follows in this call. */
static kt_status has_operand(translator *t, bool *more) {
    word w;
    kt_status status = peek_word(t, &w);
    *more = w.len && !is_word(w, ")") && !is_word(w, "|");
    return status;
}

/* "eq .Role "user" "system"": any of them; "and a b c" */
static kt_status put_infix(translator *t, const char *sign, bool any_of, int depth) {
    bool more = true;
    kt__buf first, *out = t->out;
    kt_status status;
    kt__buf_init(&first, KT__GO_TEMPLATE_MAX_BYTES);
    t->out = &first;
    status = put_operand(t, depth);
    t->out = out;
    (void)kt__buf_putc(out, '(');
    for (int n = 0; status == KT_OK; n++) {
        status = has_operand(t, &more);
        if (status == KT_OK && !more && !n) status = fail_template(t, "a value is missing");
        if (status != KT_OK || !more) break;
        if (any_of && n) (void)kt__buf_puts(out, " or ");
        if (any_of || !n) (void)kt__buf_append(out, first.data, first.len);
        (void)kt__buf_puts(out, sign);
        status = put_operand(t, depth);
    }
    (void)kt__buf_putc(out, ')');
    if (first.failed) status = kt__fail_nomem(t->err, "a template", 0);
    kt__buf_free(&first);
    return status;
}

static kt_status put_call(translator *t, word name, int depth) {
    static const struct {
        const char *go, *sign;
        bool any_of;
    } infix[] = {{"eq", " == ", true},    {"ne", " != ", false}, {"lt", " < ", false},
                 {"le", " <= ", false},   {"gt", " > ", false},  {"ge", " >= ", false},
                 {"and", " and ", false}, {"or", " or ", false}};
    for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
        if (is_word(name, infix[i].go)) return put_infix(t, infix[i].sign, infix[i].any_of, depth);
    bool length = is_word(name, "len"), json = is_word(name, "json");
    if (is_word(name, "not") || length || json) {
        (void)kt__buf_puts(t->out, length || json ? "(" : "(not ");
        KT__STEP(put_operand(t, depth));
        (void)kt__buf_puts(t->out, length ? "|length)" : json ? "|tojson)" : ")");
        return KT_OK;
    }
    if (!is_word(name, "slice") && !is_word(name, "index"))
        return fail_unknown(t, "function", name);
    KT__STEP(put_operand(t, depth));
    (void)kt__buf_putc(t->out, '[');
    KT__STEP(put_operand(t, depth));
    bool more;
    KT__STEP(has_operand(t, &more));
    if (is_word(name, "slice")) (void)kt__buf_putc(t->out, ':');
    if (more && is_word(name, "slice")) KT__STEP(put_operand(t, depth));
    (void)kt__buf_putc(t->out, ']');
    return KT_OK;
}

/* A call or a value; "X | json" is "json X" */
static kt_status put_expression(translator *t, int depth) {
    word w;
    if (depth > KT__GO_TEMPLATE_MAX_DEPTH) return fail_template(t, "parentheses nest too deep");
    KT__STEP(peek_word(t, &w));
    bool is_call = w.len && isalpha((unsigned char)*w.s) && !is_word(w, "true") &&
                   !is_word(w, "false");
    if (is_call) {
        KT__STEP(take_word(t, &w));
        KT__STEP(put_call(t, w, depth));
    } else {
        KT__STEP(put_operand(t, depth));
    }
    KT__STEP(peek_word(t, &w));
    if (!is_word(w, "|")) return KT_OK;
    KT__STEP(take_word(t, &w));
    KT__STEP(take_word(t, &w));
    if (!is_word(w, "json")) return fail_unknown(t, "function", w);
    (void)kt__buf_puts(t->out, "|tojson");
    return KT_OK;
}

static kt_status end_action(translator *t) {
    word w;
    KT__STEP(take_word(t, &w));
    return w.len ? fail_unknown(t, "word", w) : KT_OK;
}

/* ---- actions with an end ---- */

static kt_status push_block(translator *t, const block *b) {
    if (t->n_blocks == KT__GO_TEMPLATE_MAX_DEPTH) return fail_template(t, "blocks nest too deep");
    t->blocks[t->n_blocks++] = *b;
    return KT_OK;
}

static kt_status put_if(translator *t, const char *word_of) {
    (void)kt__buf_printf(t->out, "{%% %s ", word_of);
    KT__STEP(put_expression(t, 0));
    (void)kt__buf_puts(t->out, " %}");
    return end_action(t);
}

static kt_status begin_if(translator *t) {
    KT__STEP(push_block(t, &(block){.kind = BLOCK_IF}));
    return put_if(t, "if");
}

/* "$i, $m := .Messages", ".Tools" */
static kt_status begin_range(translator *t) {
    block named = {.kind = BLOCK_RANGE};
    word first, sign, second = {"", 0};
    const char *before = t->word_at;
    KT__STEP(take_word(t, &first));
    KT__STEP(take_word(t, &sign));
    if (is_word(sign, ",")) {
        KT__STEP(take_word(t, &second));
        KT__STEP(take_word(t, &sign));
    }
    bool declares = is_word(sign, ":=") && first.len && *first.s == '$';
    if (!declares) t->word_at = before;
    word item = second.len ? second : first, index = second.len ? first : second;
    if (declares && (item.len >= sizeof named.item || index.len >= sizeof named.index))
        return fail_unknown(t, "variable", item);
    if (declares) snprintf(named.item, sizeof named.item, "%.*s", (int)item.len - 1, item.s + 1);
    if (declares && index.len)
        snprintf(named.index, sizeof named.index, "%.*s", (int)index.len - 1, index.s + 1);
    int at = t->n_blocks;
    word over = {t->word_at, (size_t)(t->word_end - t->word_at)};
    bool pairs = memmem(over.s, over.len, "Arguments", 9) ||
                 memmem(over.s, over.len, "Properties", 10);
    if (pairs && *named.index)
        (void)kt__buf_printf(t->out, "{%% for index%d, item%d in (", at, at);
    else
        (void)kt__buf_printf(t->out, "{%% for item%d in (", at);
    KT__STEP(put_expression(t, 0));
    (void)kt__buf_puts(t->out, pairs && *named.index ? ").items() %}" : " or []) %}");
    if (*named.index && !pairs)
        (void)kt__buf_printf(t->out, "{%% set index%d = loop.index0 %%}", at);
    KT__STEP(end_action(t));
    return push_block(t, &named);
}

static kt_status put_else(translator *t) {
    word w;
    if (!t->n_blocks) return fail_template(t, "else without if");
    KT__STEP(take_word(t, &w));
    if (is_word(w, "if")) return put_if(t, "elif");
    if (w.len) return fail_unknown(t, "action", w);
    (void)kt__buf_puts(t->out, "{% else %}");
    return KT_OK;
}

static kt_status put_end(translator *t) {
    if (!t->n_blocks) return fail_template(t, "end without if or range");
    const block *b = &t->blocks[--t->n_blocks];
    (void)kt__buf_puts(t->out, b->kind == BLOCK_IF ? "{% endif %}" : "{% endfor %}");
    return end_action(t);
}

/* "$last := eq ...", "$last = ..." */
static kt_status put_assignment(translator *t, word name) {
    (void)kt__buf_printf(t->out, "{%% set v.own_%.*s = ", (int)name.len - 1, name.s + 1);
    KT__STEP(put_expression(t, 0));
    (void)kt__buf_puts(t->out, " %}");
    return end_action(t);
}

/* Objects print as JSON: "item1", "item0.arguments" */
static bool prints_json(const char *made) {
    static const char *const objects[] = {".arguments", ".function", ".parameters", ".properties"};
    size_t len = strlen(made);
    if (!strncmp(made, "item", 4) && !strchr(made, '.')) return true;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        size_t n = strlen(objects[i]);
        if (len > n && !strcmp(made + len - n, objects[i])) return true;
    }
    return false;
}

static kt_status put_output(translator *t) {
    kt__buf made, *out = t->out;
    kt__buf_init(&made, KT__GO_TEMPLATE_MAX_BYTES);
    t->out = &made;
    kt_status status = put_expression(t, 0);
    t->out = out;
    if (status == KT_OK) status = end_action(t);
    if (status == KT_OK && !t->cut && made.len) {
        const char *x = made.data;
        if (prints_json(x))
            (void)kt__buf_printf(out, "{{ %s if %s is string else %s|tojson }}", x, x, x);
        else
            (void)kt__buf_printf(out, "{{ %s%s }}", x, strncmp(x, "index", 5) ? " or ''" : "");
        t->cut = t->stops_there && !strcmp(made.data, "v.response");
    }
    kt__buf_free(&made);
    return status;
}

static kt_status put_action(translator *t) {
    static const char *const refused[] = {"with",  "define", "template",
                                          "block", "break",  "continue"};
    word w, sign;
    KT__STEP(peek_word(t, &w));
    if (!w.len) return fail_template(t, "an action is empty");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_word(w, refused[i])) return fail_unknown(t, "action", w);
    if (is_word(w, "if") || is_word(w, "range") || is_word(w, "else") || is_word(w, "end")) {
        KT__STEP(take_word(t, &w));
        return is_word(w, "if")      ? begin_if(t)
               : is_word(w, "range") ? begin_range(t)
               : is_word(w, "else")  ? put_else(t)
                                     : put_end(t);
    }
    const char *before = t->word_at;
    if (*w.s == '$' && w.len > 1 && w.len < 40 && !memchr(w.s, '.', w.len)) {
        KT__STEP(take_word(t, &w));
        KT__STEP(take_word(t, &sign));
        if (is_word(sign, ":=") || is_word(sign, "=")) return put_assignment(t, w);
        t->word_at = before;
    }
    return put_output(t);
}

/* ---- the template ---- */

/* {{- and -}} take white space of the text next to them. */
static kt_status put_all(translator *t, const char *text, size_t len) {
    t->at = text;
    t->end = text + len;
    t->n_blocks = 0;
    t->cut = false;
    bool trims = false;
    while (t->at < t->end) {
        const char *open = memmem(t->at, (size_t)(t->end - t->at), "{{", 2);
        const char *from = t->at, *to = open ? open : t->end;
        bool trims_before = open && open + 3 < t->end && open[2] == '-' &&
                            isspace((unsigned char)open[3]);
        while (trims && from < to && isspace((unsigned char)*from)) from++;
        while (trims_before && to > from && isspace((unsigned char)to[-1])) to--;
        put_text(t, from, (size_t)(to - from));
        if (!open) break;
        const char *close = memmem(open, (size_t)(t->end - open), "}}", 2);
        if (!close) return fail_template(t, "{{ without }}");
        t->word_at = open + (trims_before ? 3 : 2);
        trims = close > t->word_at && close[-1] == '-' && isspace((unsigned char)close[-2]);
        t->word_end = trims ? close - 1 : close;
        t->at = close + 2;
        const char *s = t->word_at;
        while (s < t->word_end && isspace((unsigned char)*s)) s++;
        if (t->word_end - s >= 2 && s[0] == '/' && s[1] == '*') continue; /* a comment */
        KT__STEP(put_action(t));
    }
    return t->n_blocks ? fail_template(t, "a block has no end") : KT_OK;
}

/* The system messages together, and the last turns as the older kind knows them. */
static const char head[] = "{% set v = namespace(system='', prompt='', response='') %}";
static const char gather[] =
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{% set v.system = v.system + ('\\n\\n' if v.system else '') + m.content %}"
    "{% endif %}{% endfor %}";
static const char turn_ends[] =
    "{% for m in messages %}{% if (m.role == 'system' and (v.prompt or v.response)) or "
    "(m.role == 'user' and v.response) %}";
static const char turn_goes_on[] =
    "{% set v.system = '' %}{% set v.prompt = '' %}{% set v.response = '' %}{% endif %}"
    "{% if m.role == 'system' %}{% set v.system = v.system + ('\\n\\n' if v.system else '') + m.content %}"
    "{% elif m.role == 'user' %}{% set v.prompt = v.prompt + ('\\n\\n' if v.prompt else '') + m.content %}"
    "{% elif m.role == 'assistant' %}{% set v.response = v.response + (m.content or '') %}"
    "{% endif %}{% endfor %}";

static kt_status put_turns(translator *t, const char *text, size_t len) {
    bool answers = memmem(text, len, ".Response", 9);
    (void)kt__buf_puts(t->out, turn_ends);
    KT__STEP(put_all(t, text, len));
    if (!answers) (void)kt__buf_puts(t->out, "{{ v.response }}");
    (void)kt__buf_puts(t->out, turn_goes_on);
    t->stops_there = true;
    KT__STEP(put_all(t, text, len));
    if (!answers) (void)kt__buf_puts(t->out, "{{ v.response }}");
    return KT_OK;
}

kt_status kt__go_template_translate(const char *text, size_t len, kt__buf *out, kt_error *err) {
    translator t = {.out = out, .err = err};
    if (len > KT__GO_TEMPLATE_MAX_BYTES)
        return kt__fail(err, KT_E_LIMIT, "a template has at most %d bytes, this one %zu",
                        (int)KT__GO_TEMPLATE_MAX_BYTES, len);
    (void)kt__buf_puts(out, head);
    if (memmem(text, len, ".Messages", 9)) {
        (void)kt__buf_puts(out, gather);
        t.stops_there = true;
        KT__STEP(put_all(&t, text, len));
    } else {
        KT__STEP(put_turns(&t, text, len));
    }
    return out->failed ? kt__fail_nomem(err, "a template", out->len) : KT_OK;
}
