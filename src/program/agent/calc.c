#include "agent/calc.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_BYTES = 4096, MAX_DEPTH = 64 };

typedef struct calc {
    const char *text, *at;
    int depth;
    const char *wrong; /* what is the matter at `at`; NULL: nothing */
} calc;

static double read_sum(calc *c);

static double stop_calc(calc *c, const char *why) {
    if (!c->wrong) c->wrong = why;
    return 0;
}

static bool take_char(calc *c, char wanted) {
    c->at += strspn(c->at, " \t\r\n");
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

static double log_of(double x) {
    return log10(x);
}

static const struct {
    const char *name;
    double (*of)(double);
} functions[] = {{"sqrt", sqrt}, {"abs", fabs}, {"round", round}, {"floor", floor}, {"ceil", ceil},
                 {"exp", exp},   {"ln", log},   {"log", log_of},  {"log2", log2},   {"sin", sin},
                 {"cos", cos},   {"tan", tan},  {"asin", asin},   {"acos", acos},   {"atan", atan}};

static double read_bracket(calc *c) {
    if (++c->depth > MAX_DEPTH) return stop_calc(c, "brackets nest too deep");
    double x = read_sum(c);
    c->depth--;
    return take_char(c, ')') || c->wrong ? x : stop_calc(c, "expected )");
}

/* pi, e, or a function with its argument */
static double read_name(calc *c) {
    size_t len = 0;
    while (isalnum((unsigned char)c->at[len])) len++;
    const char *name = c->at;
    c->at += len;
    if (len == 2 && !strncmp(name, "pi", 2)) return 3.14159265358979323846;
    if (len == 1 && *name == 'e') return 2.71828182845904523536;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strlen(functions[i].name) != len || strncmp(functions[i].name, name, len) != 0)
            continue;
        return take_char(c, '(') ? functions[i].of(read_bracket(c)) : stop_calc(c, "expected (");
    }
    c->at = name;
    return stop_calc(c, "an unknown name");
}

static double read_atom(calc *c) {
    char *end;
    if (take_char(c, '(')) return read_bracket(c);
    if (isalpha((unsigned char)*c->at)) return read_name(c);
    if (!isdigit((unsigned char)*c->at) && *c->at != '.') return stop_calc(c, "expected a number");
    double x = strtod(c->at, &end);
    if (end == c->at) return stop_calc(c, "expected a number");
    c->at = end;
    return x;
}

/* -2^2 is -4, and 2^-1 a half. */
static double read_power(calc *c) {
    if (++c->depth > MAX_DEPTH) return stop_calc(c, "it nests too deep");
    double x;
    if (take_char(c, '-')) {
        x = -read_power(c);
    } else {
        (void)take_char(c, '+');
        x = read_atom(c);
        if (take_char(c, '^')) x = pow(x, read_power(c));
    }
    c->depth--;
    return x;
}

static double read_product(calc *c) {
    double x = read_power(c);
    while (!c->wrong) {
        if (take_char(c, '*')) {
            x *= read_power(c);
        } else if (take_char(c, '/')) {
            x /= read_power(c);
        } else if (take_char(c, '%')) {
            x = fmod(x, read_power(c));
        } else {
            return x;
        }
    }
    return x;
}

static double read_sum(calc *c) {
    double x = read_product(c);
    while (!c->wrong) {
        if (take_char(c, '+')) {
            x += read_product(c);
        } else if (take_char(c, '-')) {
            x -= read_product(c);
        } else {
            return x;
        }
    }
    return x;
}

kt_status kt__calc(const char *expression, double *out, kt_error *err) {
    calc c = {.text = expression, .at = expression};
    if (strlen(expression) > MAX_BYTES)
        return kt__fail(err, KT_E_LIMIT, "an expression has at most %d bytes", (int)MAX_BYTES);
    *out = read_sum(&c);
    c.at += strspn(c.at, " \t\r\n");
    if (!c.wrong && *c.at) c.wrong = "expected the end";
    if (!c.wrong) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, NULL, (uint64_t)(c.at - c.text), "%s at byte %d", c.wrong,
                       (int)(c.at - c.text));
}
