#include "services/asked_name.h"

#include <ctype.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"

/* A stretch of a name. */
typedef struct name_part {
    const char *s;
    size_t len;
} name_part;

static name_part whole_name(const char *s) {
    return (name_part){s, strlen(s)};
}

static bool equal_parts(name_part a, name_part b) {
    return a.len == b.len && a.len > 0 && kt__strncasecmp(a.s, b.s, a.len) == 0;
}

static bool cut_tail(name_part *p, const char *tail) {
    size_t n = strlen(tail);
    if (p->len <= n || kt__strncasecmp(p->s + p->len - n, tail, n) != 0) return false;
    p->len -= n;
    return true;
}

/* Where the last part after a slash begins. */
static size_t last_part(name_part p) {
    size_t at = p.len;
    while (at > 0 && p.s[at - 1] != '/') at--;
    return at;
}

/* "Q4_K_M", "IQ4_XS", "BF16", "MXFP4_MOE" */
static bool is_quantisation(const char *s, size_t len) {
    static const char *const begins[] = {"Q", "IQ", "TQ", "F", "BF", "MXFP"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = strlen(begins[i]);
        if (len <= n || kt__strncasecmp(s, begins[i], n) != 0 || !isdigit((unsigned char)s[n]))
            continue;
        for (size_t k = n; k < len; k++)
            if (!isalnum((unsigned char)s[k]) && s[k] != '_') return false;
        return true;
    }
    return false;
}

/* "Qwen3-8B-UD-Q4_K_XL" to "Qwen3-8B" */
static void cut_quantisation(name_part *p) {
    size_t at = p->len;
    while (at > 0 && p->s[at - 1] != '-' && p->s[at - 1] != '.' && p->s[at - 1] != '/') at--;
    if (at < 2 || p->s[at - 1] == '/' || !is_quantisation(p->s + at, p->len - at)) return;
    p->len = at - 1;
    (void)cut_tail(p, "-UD");
}

/* Without "hf:", ":TAG" and an end. */
static name_part plain_name(const char *text) {
    name_part p = whole_name(text);
    if (p.len > 3 && strncmp(p.s, "hf:", 3) == 0) p = (name_part){p.s + 3, p.len - 3};
    for (size_t i = p.len; i > 0 && p.s[i - 1] != '/'; i--)
        if (p.s[i - 1] == ':') p.len = i - 1;
    while (p.len > 0 && p.s[p.len - 1] == '/') p.len--;
    (void)cut_tail(&p, ".gguf");
    return p;
}

/* As it is, without the quantisation, without -GGUF. */
static bool fits_part(name_part asked, name_part have) {
    name_part shorter = have;
    if (equal_parts(asked, have)) return true;
    cut_quantisation(&shorter);
    if (equal_parts(asked, shorter)) return true;
    (void)(cut_tail(&shorter, "-GGUF") || cut_tail(&asked, "-GGUF"));
    return equal_parts(asked, shorter);
}

/* The last two parts: OWNER/REPO. */
static name_part last_two(name_part p) {
    size_t at = last_part(p);
    if (at < 2) return (name_part){p.s, 0};
    size_t owner = last_part((name_part){p.s, at - 1});
    return (name_part){p.s + owner, p.len - owner};
}

bool kt__asked_name_fits(const char *asked_text, const char *path) {
    if (!asked_text || !path) return false;
    name_part asked = plain_name(asked_text), have = plain_name(path);
    size_t at = last_part(asked), base = last_part(have);
    name_part name = {asked.s + at, asked.len - at}, file = {have.s + base, have.len - base};
    name_part folder = base > 1 ? (name_part){have.s, base - 1} : (name_part){have.s, 0};
    if (asked.len == 0 || kt__files_is_absolute(asked.s)) return false; /* no client names a file */
    if (fits_part(name, file)) return true;
    return fits_part(asked, last_two(have)) || (at > 0 && fits_part(asked, last_two(folder)));
}
