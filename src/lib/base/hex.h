/* Hexadecimal digits.
 *
 * Owns: the value of one. Any thread. */
#ifndef KT_BASE_HEX_H
#define KT_BASE_HEX_H

/* Of either case; -1: it is none. */
static inline int kt__hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
