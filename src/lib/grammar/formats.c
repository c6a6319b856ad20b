/* Known formats as terms. */
#include <stdio.h>
#include <string.h>

#include "grammar/notation.h"
#include "grammar/schema_reader.h"

/* RFC 3339; a leap second only where the time is UTC */
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])"                       \
    "|(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME                                              \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?" \
    "(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)|23:59:60(?:\\.\\d+)?(?:[zZ]|[+-]00:00))"
#define DURATION_DATE "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define DURATION_TIME "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"

/* RFC 5321, RFC 6531 */
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUOTED "\"(?:[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\[\\x20-\\x7e])*\""
#define IDN_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u0080-\\u{10ffff}-]+"
#define IDN_LABEL                                                                             \
    "[A-Za-z0-9\\u00a1-\\u{10ffff}](?:[A-Za-z0-9\\u00a1-\\u{10ffff}-]*[A-Za-z0-9\\u00a1-\\u{" \
    "10ffff}])?"

/* RFC 1123; labels with "--" in the third place are reserved (RFC 5890) and are left out */
#define ALNUM "[A-Za-z0-9]"
#define ALNUM_ "[A-Za-z0-9-]"
#define LABEL                                                                                \
    ALNUM "(?:" ALNUM "|" ALNUM_ ALNUM "|" ALNUM_ ALNUM_ ALNUM "|" ALNUM_ "(?:" ALNUM ALNUM_ \
          "|-" ALNUM ")" ALNUM_ "{0,58}" ALNUM ")?"
#define HOSTNAME LABEL "(?:\\." LABEL ")*"

#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 "(?:" OCTET "\\.){3}" OCTET
#define HEX "[0-9a-fA-F]"
#define H16 HEX "{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                     \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32    \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16           \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16     \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 \
    ")?::)"

/* RFC 3986, RFC 3987; x: the characters that an IRI has besides */
#define ASCII_EXTRA ""
#define UCS_EXTRA "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{efffd}"
#define PCT "%" HEX "{2}"
#define PCHAR(x) "(?:[A-Za-z0-9._~!$&'()*+,;=:@" x "-]|" PCT ")"
#define SEGMENTS(x) "(?:/" PCHAR(x) "*)*"
#define REG_NAME(x) "(?:[A-Za-z0-9._~!$&'()*+,;=" x "-]|" PCT ")*"
#define HOST(x) "(?:\\[(?:" IPV6 "|[vV]" HEX "+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|" REG_NAME(x) ")"
#define AUTHORITY(x) "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" x "-]|" PCT ")*@)?" HOST(x) "(?::\\d*)?"
#define TAIL(x) "(?:\\?(?:" PCHAR(x) "|[/?])*)?(?:#(?:" PCHAR(x) "|[/?])*)?"
#define ABSOLUTE_PATH(x) "/(?:" PCHAR(x) "+" SEGMENTS(x) ")?"
#define URI(x)                                   \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY(x) \
        SEGMENTS(x) "|" ABSOLUTE_PATH(x) "|" PCHAR(x) "+" SEGMENTS(x) ")?" TAIL(x)
#define RELATIVE(x)                                                                         \
    "(?://" AUTHORITY(x) SEGMENTS(x) "|" ABSOLUTE_PATH(x) "|(?:[A-Za-z0-9._~!$&'()*+,;=@" x \
                                                          "-]|" PCT ")+" SEGMENTS(x) ")?" TAIL(x)

#define VARCHAR "(?:[A-Za-z0-9_]|" PCT ")"
#define VARSPEC VARCHAR "(?:\\.?" VARCHAR ")*(?::[1-9]\\d{0,3}|\\*)?"
#define POINTER "(?:/(?:[^~/]|~[01])*)*"

typedef struct format {
    const char *name, *pattern;
} format;

static const format formats[] = {
#define X(name, pattern) {name, pattern},
#include "grammar/formats.def"
#undef X
};

/* Patterns of ECMA-262 nest, so that this one is a grammar. */
static const char regex_grammar[] =
    "root ::= seq (\"|\" seq)*\n"
    "seq ::= (atom quant? | [\\^$] | \"(?\" \"<\"? [=!] root \")\" quant?)*\n"
    "atom ::= [^\\\\^$.*+?()\\[\\]{}|] | \".\" | esc | class | \"(\" (\"?:\" | \"?<\" name \">\")? "
    "root \")\"\n"
    "quant ::= ([*+?] | \"{\" [0-9]+ (\",\" [0-9]*)? \"}\") \"?\"?\n"
    "name ::= [A-Za-z_$] [A-Za-z0-9_$]*\n"
    "esc ::= \"\\\\\" ([dDwWsSbBtnvfr0] | [1-9] [0-9]* | \"c\" [A-Za-z] | \"x\" hex hex | \"u\" "
    "hex hex hex hex"
    " | \"u{\" hex+ \"}\" | [pP] \"{\" [A-Za-z0-9_=]+ \"}\" | \"k<\" name \">\" | "
    "[\\^$\\\\.*+?()\\[\\]{}|/] | \"-\")\n"
    "hex ::= [0-9a-fA-F]\n"
    "class ::= \"[\" \"^\"? ([^\\\\\\]] | esc)* \"]\"\n";

static kt__gid regex_term(kt__terms *t, char *why, size_t cap) {
    kt__gid term = KT__GPOOL_EMPTY;
    char message[KT__GBNF_WHY] = "";
    if (t->rules) return kt__term_call(t, 0); /* read before */
    if (kt__gbnf_read(t, regex_grammar, sizeof regex_grammar - 1, &term, message) != KT_OK)
        snprintf(why, cap, "%s", message);
    return term;
}

kt__gid kt__format_term(kt__terms *t, const char *name, bool *known, char *why, size_t why_cap) {
    kt__gid term = KT__GPOOL_EMPTY;
    char message[KT__REGEX_WHY] = "";
    *known = true;
    if (strcmp(name, "regex") == 0) return regex_term(t, why, why_cap);
    if (strcmp(name, "idn-hostname") == 0) {
        snprintf(why, why_cap, "idn-hostname is not enforced");
        return term;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) != 0) continue;
        const char *pattern = formats[i].pattern;
        if (kt__regex_term(t, pattern, strlen(pattern), true, &term, message) != KT_OK)
            snprintf(why, why_cap, "%s", message);
        return term;
    }
    *known = false;
    return term;
}
